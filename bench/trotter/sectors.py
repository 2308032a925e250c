"""QuSpin's side: sparse matrices of the whole space and of symmetry sectors, and three of its ways through time.

Site j of qsim is site N-1-j of QuSpin, so that the vectors of the whole space are the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from qsim.trotter.model.hamiltonian import Model

KRYLOV = (16, 24, 32)  # Lanczos vectors of a step; with 10 it takes twice as long
WHOLE = "whole space"
UNCHECKED = {"check_herm": False, "check_symm": False, "check_pcon": False}


def operators(model: Model) -> list[Any]:
    """Return the Hamiltonian as QuSpin's list of operators, by raising and lowering ones; fields along z only."""
    found: dict[str, list[Any]] = {}
    n = model.spins
    for j, k in zip(*np.nonzero(np.triu(np.abs(model.J).sum(axis=0))), strict=True):
        x, y, z = model.J[:, j, k]
        terms = (
            ("+-", (x + y) / 4),
            ("-+", (x + y) / 4),
            ("++", (x - y) / 4),
            ("--", (x - y) / 4),
            ("zz", z),
        )
        for name, value in terms:
            if value != 0:
                found.setdefault(name, []).append([float(value), int(n - 1 - j), int(n - 1 - k)])
    assert not np.any(model.h[:2])
    for j in np.flatnonzero(model.h[2]):
        found.setdefault("z", []).append([float(model.h[2, j]), int(n - 1 - j)])
    return [[name, terms] for name, terms in found.items()]


def bases(model: Model, ring: bool) -> dict[str, Callable[[], Any]]:
    """Return what makes the bases that contain the Neel state: the whole space first, then ever smaller sectors.

    A ring takes the Neel state into itself when it moves by a site and all spins are turned over, and in a mirror.
    """
    from quspin.basis import spin_basis_1d, spin_basis_general

    n = model.spins
    found = {WHOLE: lambda: spin_basis_1d(n, pauli=0)}
    if not np.array_equal(model.J[0], model.J[1]):
        even = list(range(n // 2 % 2, n + 1, 2))
        return found | {"parity of Sz": lambda: spin_basis_1d(n, Nup=even, pauli=0)}
    found["sector of Sz"] = lambda: spin_basis_1d(n, Nup=n // 2, pauli=0)
    if ring:
        site = np.arange(n)
        turned, mirrored = -((site + 1) % n) - 1, (n - 2 - site) % n
        found["Sz, moved and turned over, mirrored"] = lambda: spin_basis_general(
            n, Nup=n // 2, pauli=0, move=(turned, 0), mirror=(mirrored, 0)
        )
    return found


@dataclass
class Sector:
    """A Hamiltonian in one basis, and the Neel state there.

    Attributes
    ----------
    basis, hamiltonian
        QuSpin's.
    psi : (states,) complex
    matrix_bytes : int
    """

    basis: Any
    hamiltonian: Any
    psi: np.ndarray
    matrix_bytes: int

    @classmethod
    def build(cls, model: Model, make: Callable[[], Any]) -> Sector:
        """Make basis and matrix."""
        from quspin.operators import hamiltonian

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two symmetries that do not commute: they do where both are 1
            basis = make()
            made = hamiltonian(operators(model), [], basis=basis, dtype=np.float64, **UNCHECKED)
        matrix = made.tocsr()
        psi = np.zeros(basis.Ns, complex)
        psi[basis.index(neel_bits(model.spins) ^ ((1 << model.spins) - 1))] = 1.0  # there 1 is up
        used = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
        return cls(basis, made, psi, used)

    @property
    def states(self) -> int:
        """Dimension."""
        return int(self.basis.Ns)

    @property
    def entries(self) -> int:
        """Entries of the matrix."""
        return int(self.hamiltonian.tocsr().nnz)

    def whole(self, psi: np.ndarray) -> np.ndarray:
        """Return a state of the sector as one of the whole space (2^N,)."""
        if self.states == 1 << self.basis.N:
            return psi
        return np.asarray(self.basis.project_from(psi, sparse=False)).ravel()

    def free(self, model: Model) -> Any:
        """Return H as an operator that keeps no matrix."""
        from quspin.operators import quantum_LinearOperator

        return quantum_LinearOperator(operators(model), basis=self.basis, dtype=np.float64, **UNCHECKED)


def neel_bits(spins: int) -> int:
    """Return the basis state up, down, up, ... of qsim, where 1 is down."""
    return sum(1 << j for j in range(1, spins, 2))


class Way(Protocol):
    """A way from 0 to t, with settings from cheap to accurate."""

    name: str

    def settings(self, accuracy: float) -> Iterator[Any]:
        """Go through the settings that may be enough, the cheapest first."""

    def run(self, setting: Any) -> np.ndarray:
        """Return the state at t."""


class Taylor:
    """``expm_multiply_parallel``: scaled Taylor series, cut off at a tolerance; making it estimates norms of powers of H."""

    name = "expm_multiply_parallel"

    def __init__(self, sector: Sector, t: float) -> None:
        from quspin.tools.evolution import expm_multiply_parallel

        self._made = expm_multiply_parallel(sector.hamiltonian.tocsr(), a=-1j * t, dtype=np.complex128)
        self._psi = sector.psi

    def settings(self, accuracy: float) -> Iterator[Any]:
        """Go through tolerances."""
        yield from (10.0 * accuracy, accuracy, 0.1 * accuracy, 0.01 * accuracy, None)

    def run(self, setting: Any) -> np.ndarray:
        """Return the state at t."""
        return np.asarray(self._made.dot(self._psi, tol=setting))


class Lanczos:
    """``lanczos_full`` and ``expm_lanczos``, equal steps; the number of vectors is fixed, that of steps is found."""

    def __init__(self, sector: Sector, t: float, vectors: int, first: int = 1) -> None:
        self.name, self.vectors = f"Lanczos, {vectors} vectors", vectors
        self._sector, self._t, self._first = sector, t, first
        self._space: np.ndarray | None = None

    def settings(self, accuracy: float) -> Iterator[Any]:
        """Go through numbers of steps."""
        steps = self._first
        while steps < 10_000:
            yield steps
            steps = max(steps + 1, round(1.06 * steps))

    def run(self, setting: Any) -> np.ndarray:
        """Return the state at t."""
        from quspin.tools.lanczos import expm_lanczos, lanczos_full

        psi = self._sector.psi
        if self._space is None:
            self._space = np.empty((self.vectors, psi.size), complex)
        for _ in range(setting):
            found = lanczos_full(self._sector.hamiltonian, psi, self.vectors, out=self._space)
            psi = expm_lanczos(*found, a=-1j * self._t / setting)
        return psi


class Ordinary:
    """``hamiltonian.evolve``: Runge-Kutta of order 8 with relative and absolute tolerance."""

    name = "evolve (dop853)"

    def __init__(self, sector: Sector, t: float) -> None:
        self._sector, self._t = sector, t

    def settings(self, accuracy: float) -> Iterator[Any]:
        """Go through tolerances."""
        yield from (accuracy * 10.0**-k for k in range(6) if accuracy * 10.0**-k > 1e-15)

    def run(self, setting: Any) -> np.ndarray:
        """Return the state at t."""
        psi = self._sector.hamiltonian.evolve(self._sector.psi, 0.0, self._t, rtol=setting, atol=setting)
        return np.asarray(psi)


class Operator:
    """``exp_op``, that is SciPy's ``expm_multiply``: always as accurate as it can."""

    name = "exp_op"

    def __init__(self, sector: Sector, t: float) -> None:
        from quspin.operators import exp_op

        self._made, self._psi = exp_op(sector.hamiltonian, a=-1j * t), sector.psi

    def settings(self, accuracy: float) -> Iterator[Any]:
        """There is nothing to choose."""
        yield None

    def run(self, setting: Any) -> np.ndarray:
        """Return the state at t."""
        return np.asarray(self._made.dot(self._psi))
