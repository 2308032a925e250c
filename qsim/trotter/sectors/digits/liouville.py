r"""Density matrices as vectors of twice as many spins, and the generator of their evolution.

``v[ket, bra] = rho[ket, bra]`` with the spins of the bra turned over (m -> -m), so that a vector of 2N spins has a total Sz: the
order of coherence.  Populations and all coherences between states of one Sz are the sector of Sz = 0, of C(2N, N) states for
spins 1/2 instead of 4^N.  With A = -i H - (1/2) sum_k L_k^+ L_k,

    d rho / dt = A rho + rho A^+ + sum_k L_k rho L_k^+,

a matrix from the right acts on the bra by its transpose, whose digits are counted from the other end.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.model.larger import SpinModel
from qsim.trotter.model.open.channels import decays_of, digits_of, jump_model
from qsim.trotter.sectors.digits.product import DigitOperator, columns_of, diagonal_of, terms_of
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.model.open.channels import Channel


def generators(
    hamiltonian: Hamiltonian, channels: Sequence[Channel], twos: tuple[int, ...]
) -> list[tuple[Any, SpinModel]]:
    """Return the parts of the generator, models of 2N spins that are not Hermitian, with their factors of time (None: 1)."""
    made: dict[int, tuple[Any, SpinModel]] = {}

    def add(f: Any, model: SpinModel) -> None:
        key = 0 if f is None else id(f)
        made[key] = (f, made[key][1] + model) if key in made else (f, model)

    add(None, SpinModel.empty(twos + twos))
    for f, model in ((None, hamiltonian.static), *hamiltonian.driven):
        add(f, _beside(digits_of(model, twos), -1j, 1j))
    for decay in decays_of(channels, twos):
        add(decay.factor, _beside(digits_of(decay.model, twos), -0.5, -0.5))
        if decay.constant:
            one = np.eye(twos[0] + 1) * -decay.constant
            add(decay.factor, _model(twos + twos, {(0,): one}))
    for channel in channels:
        add(channel.factor, _jumped(channel, twos))
    return list(made.values())


def _model(twos: tuple[int, ...], terms: Mapping[tuple[int, ...], NDArray[Any]]) -> SpinModel:
    """Return the model with matrices of single sites, and of pairs of them."""
    empty = SpinModel.empty(twos)
    sites = {key[0]: np.asarray(m, np.complex128) for key, m in terms.items() if len(key) == 1}
    bonds = {(key[0], key[1]): np.asarray(m, np.complex128) for key, m in terms.items() if len(key) == 2}
    return SpinModel(empty.spins, empty.J, empty.h, None, twos, sites, bonds)


def _beside(model: SpinModel, left: complex, right: complex) -> SpinModel:
    """Return ``left M rho + right rho M``."""
    n = model.spins
    terms: dict[tuple[int, ...], NDArray[Any]] = {}
    for term in model.terms:
        terms[term.sites] = left * term.matrix
        terms[tuple(j + n for j in term.sites)] = right * term.matrix.T[::-1, ::-1]
    return _model(model.twos + model.twos, terms)


def _jumped(channel: Channel, twos: tuple[int, ...]) -> SpinModel:
    """Return ``L rho L^+``."""
    n, parts = len(twos), jump_model(channel.w, twos).sites
    terms: dict[tuple[int, ...], NDArray[Any]] = {
        (j, n + k): np.kron(first, second.conj()[::-1, ::-1])
        for j, first in parts.items()
        for k, second in parts.items()
    }
    return _model(twos + twos, terms)


def space_of(twos: tuple[int, ...], order: int | None) -> DigitSpace:
    """Return the space of the elements of an order of coherence, or of all elements."""
    return DigitSpace(twos + twos) if order is None else DigitSpace(twos + twos, sum(twos) + order)


class Doubled:
    """Density matrices of one order of coherence, or all of them.

    Parameters
    ----------
    device : Device
        A CPU.
    hamiltonian : Hamiltonian
    channels : sequence of Channel
    twos : tuple of int
        2 S of every site.
    order : int or None
        Quanta of the ket less those of the bra; None for all elements.

    Attributes
    ----------
    space : DigitSpace
        Of the vectors.
    """

    def __init__(
        self,
        device: Device,
        hamiltonian: Hamiltonian,
        channels: Sequence[Channel],
        twos: tuple[int, ...],
        order: int | None,
    ) -> None:
        self.device, self.twos, self.order = device, twos, order
        self.hamiltonian, self.channels = hamiltonian, channels
        self.space = space_of(twos, order)
        self._functionals: dict[Any, tuple[Any, Any]] = {}

    @cached_property
    def parts(self) -> list[tuple[Any, Any]]:
        """Factors of time, and sparse matrices of the generator."""
        models = generators(self.hamiltonian, self.channels, self.twos)
        return [(f, self.matrix(model)) for f, model in models]

    def matrix(self, model: SpinModel, columns: DigitSpace | None = None) -> Any:
        """Return a model of the 2N spins as a complex sparse matrix; of columns of another order."""
        return DigitOperator(self.device, self.space, model, columns).matrix.astype(np.complex128)

    def at(self, order: int | None) -> Doubled:
        """Return the same system of another order of coherence."""
        return Doubled(self.device, self.hamiltonian, self.channels, self.twos, order)

    def jumped(self, channels: Sequence[Channel], v: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return ``sum_k L_k x L_k^+`` of some channels of constant rates."""
        found = np.zeros_like(v)
        for channel in channels:
            operator = DigitOperator(self.device, self.space, _jumped(channel, self.twos))
            found += operator.applied(v)
        return found

    @property
    def shift(self) -> int:
        """Bits of the ket."""
        return len(self.twos) * self.space.bits

    def turned(self, strings: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the strings of N spins with all digits counted from the other end."""
        top = sum(two << j * self.space.bits for j, two in enumerate(self.twos))
        # digits do not borrow from each other
        return np.asarray(top - strings, np.int64)

    def pure(self, strings: NDArray[np.int64], psi: NDArray[Any]) -> NDArray[np.complex128]:
        """Return the vector of a pure state with amplitudes of strings; elements of other orders are left out."""
        v = np.zeros(self.space.dimension, np.complex128)
        nonzero = np.flatnonzero(psi)
        strings, psi = strings[nonzero], psi[nonzero]
        bras = self.turned(strings) << self.shift
        quanta = self._quanta(strings)
        for k, string in enumerate(strings):
            same = slice(None) if self.order is None else np.flatnonzero(quanta[k] - quanta == self.order)
            v[self.space.index(string | bras[same])] = psi[k] * psi[same].conj()
        return v

    def _quanta(self, strings: NDArray[np.int64]) -> NDArray[np.int64]:
        one = (1 << self.space.bits) - 1
        return sum(
            (strings >> j * self.space.bits & one for j in range(len(self.twos))), np.zeros_like(strings)
        )

    @cached_property
    def diagonal(self) -> NDArray[np.int64]:
        """Strings of the populations."""
        kets = DigitSpace(self.twos).strings()
        return kets | self.turned(kets) << self.shift

    def mixed(self) -> NDArray[np.complex128]:
        """Return the density matrix in which all states are as likely."""
        v = np.zeros(self.space.dimension, np.complex128)
        v[self.space.index(self.diagonal)] = 1.0 / self.diagonal.size
        return v

    def functional(
        self, key: Hashable | None, model: SpinModel
    ) -> tuple[NDArray[np.int64], NDArray[np.complex128]]:
        """Return places and numbers of ``Tr(A x)`` as a sum of numbers times elements of x, A of the N spins; kept by a key."""
        if key is None or key not in self._functionals:
            rows = self.space if self.order is None else space_of(self.twos, 0)
            terms = terms_of(self._wide(model), rows, self.space)
            _, to, data = columns_of(terms, self.diagonal)
            if rows == self.space:
                to = np.concatenate([to, self.diagonal])
                data = np.concatenate([data, diagonal_of(terms, self.diagonal)])
            made = self.space.index(to), data.astype(np.complex128)
            if key is None:
                return made
            self._functionals[key] = made
        return self._functionals[key]

    def _wide(self, model: SpinModel) -> SpinModel:
        """Return a model of the N spins as one of the ket."""
        return _model(self.twos * 2, {term.sites: term.matrix for term in model.terms})

    def mean(self, key: Hashable | None, model: SpinModel, v: NDArray[np.complex128]) -> complex:
        """Return ``Tr(A x)`` of a model of the N spins, x of this order of coherence."""
        places, numbers = self.functional(key, model)
        return complex(numbers @ v[places])

    def applied(self, model: SpinModel, source: Doubled, v: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the elements of this order of ``A rho``, rho of another order; A of the N spins."""
        operator = DigitOperator(self.device, self.space, self._wide(model), source.space)
        return np.asarray(operator.applied(v), np.complex128)

    def trace(self, v: NDArray[np.complex128]) -> complex:
        """Return the trace; of an order of coherence other than 0 it is 0."""
        return complex(v[self.space.index(self.diagonal)].sum()) if not self.order else 0.0

    @cached_property
    def _adjoint(self) -> NDArray[np.int64]:
        strings = self.space.strings()
        low = (np.int64(1) << self.shift) - 1
        return self.space.index(self.turned(strings >> self.shift) | self.turned(strings & low) << self.shift)

    def adjoint(self, v: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the adjoint of a density matrix, of order 0 or of all elements."""
        return np.asarray(v[self._adjoint].conj())

    @cached_property
    def basis(self) -> Any:
        """Orthonormal basis of the Hermitian matrices, of which they are real vectors: (D, D) sparse, of all or of order 0."""
        from scipy.sparse import csc_array

        adjoint = self._adjoint
        here = np.arange(adjoint.size)
        own, first = here[adjoint == here], here[adjoint > here]
        second, root = adjoint[first], np.sqrt(0.5)
        # columns: an element of the diagonal; twice the real and the imaginary part of the others
        upper = np.arange(first.size) + own.size
        lower = upper + first.size
        rows = np.concatenate([own, first, second, first, second])
        columns = np.concatenate([np.arange(own.size), upper, upper, lower, lower])
        ones = np.ones(first.size)
        data = np.concatenate(
            [np.ones(own.size) + 0j, root * ones, root * ones, 1j * root * ones, -1j * root * ones]
        )
        return csc_array((data, (rows, columns)), shape=(here.size, here.size))

    @cached_property
    def real_parts(self) -> list[tuple[Any, Any]]:
        """Factors of time, and the generator among Hermitian matrices: real sparse matrices."""
        B = self.basis
        found = []
        for f, matrix in self.parts:
            made = (B.conj().T @ (matrix @ B)).tocsr()
            real = made.real.tocsr()
            real.data[np.abs(real.data) < 1e-15 * np.abs(real.data).max(initial=1e-300)] = 0.0
            real.eliminate_zeros()
            found.append((f, real))
        return found

    def real_of(self, v: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return a Hermitian matrix as a real vector."""
        return np.ascontiguousarray((self.basis.conj().T @ v).real)

    def of_real(self, x: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Return a real vector as a Hermitian matrix."""
        return np.asarray(self.basis @ x, np.complex128)

    def purity(self, v: NDArray[np.complex128]) -> float:
        """Return ``Tr(rho^2)`` of a Hermitian matrix."""
        return float(np.vdot(v, v).real)
