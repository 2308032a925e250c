"""Hamiltonians of spins above 1/2, and of any matrices between the states of one site or of two.

Site j has the ``2 S_j + 1`` states ``|m>``; its digit d = S - m counts quanta from m = S, so that 0 is up, as for spins 1/2.
Couplings and fields are those of :class:`qsim.trotter.model.hamiltonian.Model`, with spin matrices of each S; single-ion
anisotropy, biquadratic couplings and bond matrices stand beside them as matrices between digits:

    H = sum_(j<k) sum_ab J^ab_jk S^a_j S^b_k + sum_j h_j . S_j + sum_j A_j + sum_(j<k) B_jk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from qsim.core.errors import DeckError, FileError
from qsim.trotter.deck import couplings as blocks
from qsim.trotter.deck.axes import AXES
from qsim.trotter.deck.lattices import AllToAll
from qsim.trotter.lattices import bonds as lattices
from qsim.trotter.model.hamiltonian import ZEROS, Model, conserved, local_part, scale_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["Local", "SpinModel", "commuting", "flipped", "half_turn", "quanta_of", "spin_matrices"]

# of the largest element of a matrix: less is rounding of a rotation
ROUNDING = 1e-13
# of the largest element of a file: a matrix that is no more off is Hermitian
HERMITIAN = 1e-12

Matrix = np.ndarray[Any, np.dtype[np.complex128]]


@cache
def spin_matrices(two: int) -> Matrix:
    """Return ``S^x, S^y, S^z`` of a spin S = two / 2, (3, 2S + 1, 2S + 1), states m = S first."""
    S = 0.5 * two
    m = S - np.arange(two + 1)
    # <m + 1| S^+ |m> = sqrt(S (S + 1) - m (m + 1))
    raising = np.diag(np.sqrt(S * (S + 1.0) - m[1:] * (m[1:] + 1.0)), 1).astype(np.complex128)
    lowering = raising.T
    return np.array([(raising + lowering) / 2.0, (raising - lowering) / 2.0j, np.diag(m)])


@cache
def half_turn(two: int, axis: int) -> Matrix:
    """Return ``exp(-i pi S^a)`` of a spin S = two / 2."""
    values, vectors = np.linalg.eigh(spin_matrices(two)[axis])
    # eigenvalues of S^a are m: without their rounding
    return np.asarray((vectors * np.exp(-1j * np.pi * np.round(2.0 * values) / 2.0)) @ vectors.conj().T)


def flipped(two: int) -> Matrix:
    """Return the inversion ``|m> -> |-m>`` of a spin, a half turn about x but for a phase."""
    return np.eye(two + 1, dtype=np.complex128)[::-1]


class Local(NamedTuple):
    """A term of H on one or two sites.

    Attributes
    ----------
    sites : tuple of int
        Ascending.
    matrix : (d, d) complex128
        Between the states of the sites, the digit of the last one fastest.
    """

    sites: tuple[int, ...]
    matrix: Matrix

    @property
    def name(self) -> str:
        """The sites, as a message names them."""
        return (
            f"site {self.sites[0]}" if len(self.sites) == 1 else f"sites {self.sites[0]} and {self.sites[1]}"
        )


def _added(first: Mapping[Any, Matrix], second: Mapping[Any, Matrix]) -> dict[Any, Matrix]:
    both = dict(first)
    for key, matrix in second.items():
        both[key] = both[key] + matrix if key in both else matrix
    return both


def _size(matrix: Matrix) -> Matrix:
    """Return a matrix with the energies ``+-||M||``, between which all energies of M lie."""
    signs = np.where(np.arange(len(matrix)) % 2, -1.0, 1.0)
    return np.diag(float(np.linalg.norm(matrix, 2)) * signs).astype(np.complex128)


@dataclass(frozen=True)
class SpinModel(Model):
    """A Hamiltonian of spins of any size at one time.

    Attributes
    ----------
    twos : tuple of int
        2 S of every site.
    sites : mapping of j to (d, d) complex128
        Matrices of single sites beside the fields.
    bonds : mapping of (j, k), j < k, to (d_j d_k, d_j d_k) complex128
        Matrices of pairs beside the couplings.
    """

    twos: tuple[int, ...] = ()
    sites: Mapping[int, Matrix] = field(default_factory=dict)
    bonds: Mapping[tuple[int, int], Matrix] = field(default_factory=dict)

    halves: ClassVar[bool] = False

    @classmethod
    def empty(cls, twos: Sequence[int]) -> SpinModel:
        """Return the model without couplings and fields of spins of 2 S = twos."""
        n = len(twos)
        return cls(n, np.zeros((3, n, n)), np.zeros((3, n)), twos=tuple(twos))

    @classmethod
    def of(cls, model: Model) -> SpinModel:
        """Return a model as one of spins of any size; of spins 1/2 with the same couplings."""
        if isinstance(model, SpinModel):
            return model
        return cls(model.spins, model.J, model.h, model.cross, (1,) * model.spins)

    def __add__(self, other: Model) -> SpinModel:
        """Return the sum of two Hamiltonians."""
        base = super().__add__(other)
        sites, bonds = getattr(other, "sites", {}), getattr(other, "bonds", {})
        return replace(
            self,
            J=base.J,
            h=base.h,
            cross=base.cross,
            sites=_added(self.sites, sites),
            bonds=_added(self.bonds, bonds),
        )

    def __mul__(self, scale: float) -> SpinModel:
        """Return the Hamiltonian times a number."""
        return self._mapped(super().__mul__(scale), lambda matrix: scale * matrix)

    __rmul__ = __mul__

    @property
    def size(self) -> SpinModel:
        """The model with the size of every coupling and field."""
        return self._mapped(super().size, _size)

    def _mapped(self, base: Model, call: Any) -> SpinModel:
        return replace(
            self,
            J=base.J,
            h=base.h,
            cross=base.cross,
            sites={j: call(matrix) for j, matrix in self.sites.items()},
            bonds={pair: call(matrix) for pair, matrix in self.bonds.items()},
        )

    def restricted(self, sites: Sequence[int]) -> SpinModel:
        """Return the model of some sites alone."""
        base, place = super().restricted(sites), {site: number for number, site in enumerate(sites)}
        made = SpinModel(base.spins, base.J, base.h, base.cross, tuple(self.twos[j] for j in sites))
        return replace(
            made,
            sites={place[j]: matrix for j, matrix in self.sites.items() if j in place},
            bonds={
                (place[j], place[k]): matrix
                for (j, k), matrix in self.bonds.items()
                if j in place and k in place
            },
        )

    def rotated(self, axes: list[int], signs: NDArray[np.float64]) -> SpinModel:
        """Return the model with ``signs[a]`` times its component ``axes[a]`` as component a; a half turn between two axes."""
        base = super().rotated(axes, signs)
        # the axis of the turn is the bisector of the two axes that it exchanges
        first, second = (a for a in range(3) if axes[a] != a)

        def turn(two: int) -> Matrix:
            S = spin_matrices(two)
            values, vectors = np.linalg.eigh((S[first] + S[second]) * math.sqrt(0.5))
            return np.asarray(
                (vectors * np.exp(-1j * np.pi * np.round(2.0 * values) / 2.0)) @ vectors.conj().T
            )

        made = {j: conjugated(M, [turn(self.twos[j])]) for j, M in self.sites.items()}
        bonds = {pair: conjugated(M, [turn(self.twos[j]) for j in pair]) for pair, M in self.bonds.items()}
        return replace(self, J=base.J, h=base.h, cross=base.cross, sites=made, bonds=bonds)

    # ------------------------------------------------------------------------------------ properties

    @property
    def quanta(self) -> int:
        """Twice the largest total Sz."""
        return sum(self.twos)

    @property
    def dimension(self) -> int:
        """Number of all states."""
        return math.prod(two + 1 for two in self.twos)

    @property
    def reversible(self) -> bool:
        """True if H is even under time reversal, ``exp(-i pi S^y)`` and complex conjugation."""
        return not self.unlike(lambda two: half_turn(two, 1), conjugate=True)

    @property
    def diagonal(self) -> bool:
        """True if all terms are diagonal."""
        return all(
            np.count_nonzero(term.matrix) == np.count_nonzero(term.matrix.diagonal()) for term in self.terms
        )

    @property
    def strongest(self) -> float:
        """Bound of the rate at which a spin turns along any axis: the norms of all its terms."""
        rate = np.zeros(self.spins)
        for term in self.terms:
            rate[list(term.sites)] += float(np.linalg.norm(term.matrix, 2))
        return float(rate.max(initial=0.0))

    @property
    def mean_square(self) -> float:
        """Mean of the squared energy in a random state: of traceless parts, whose squares add up."""
        return sum(float(np.linalg.norm(term.matrix) ** 2) / len(term.matrix) for term in self.terms)

    @property
    def real(self) -> bool:
        """True if all matrix elements between digits are real."""
        return not any(term.matrix.imag.any() for term in self.terms)

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the spectrum: the sums of the extreme energies of all terms (not tight)."""
        energies = [np.linalg.eigvalsh(term.matrix) for term in self.terms]
        return float(sum(e[0] for e in energies)), float(sum(e[-1] for e in energies))

    def pairs(self) -> NDArray[np.int64]:
        """Return (P, 2) int64: the pairs j < k that are coupled."""
        found = {term.sites for term in self.terms if len(term.sites) == 2}
        return np.array(sorted(found), np.int64).reshape(-1, 2)

    @cached_property
    def terms(self) -> tuple[Local, ...]:
        """All of H as matrices of single sites and of pairs."""
        made: list[Local] = []
        for j, two in enumerate(self.twos):
            matrix = np.einsum("a,axy->xy", self.h[:, j], spin_matrices(two)) + self.sites.get(j, 0.0)
            made.append(Local((j,), np.asarray(matrix)))
        cross = np.zeros((3, 3, self.spins, self.spins)) if self.cross is None else self.cross
        coupled = self.J.any(axis=0) | cross.any(axis=(0, 1))
        pairs = {(int(j), int(k)) for j, k in np.argwhere(np.triu(coupled, 1))} | set(self.bonds)
        for j, k in sorted(pairs):
            K = cross[:, :, j, k] + np.diag(self.J[:, j, k])
            first, second = spin_matrices(self.twos[j]), spin_matrices(self.twos[k])
            matrix = np.einsum("ab,axy,bzw->xzyw", K, first, second).reshape(
                (first.shape[1] * second.shape[1],) * 2
            )
            made.append(Local((j, k), matrix + self.bonds.get((j, k), 0.0)))
        return tuple(term for term in made if term.matrix.any())

    def unlike(self, matrix_of: Any, *, conjugate: bool = False) -> str:
        """Return the sites of a term that a product of matrices of all sites changes, ``""`` if H commutes with it.

        Parameters
        ----------
        matrix_of : function
            Returns the unitary matrix of a site from its 2 S.
        conjugate : bool
            Whether complex conjugation goes before it.
        """
        scale = max((float(np.abs(term.matrix).max()) for term in self.terms), default=0.0)
        for term in self.terms:
            matrix = term.matrix.conj() if conjugate else term.matrix
            made = conjugated(matrix, [matrix_of(self.twos[j]) for j in term.sites])
            if np.abs(made - term.matrix).max() > ROUNDING * scale:
                return term.name
        return ""

    def changes(self) -> Iterator[tuple[Local, NDArray[np.int64]]]:
        """Yield every term with the numbers by which its elements change the quanta of all sites."""
        for term in self.terms:
            size, digits = np.abs(term.matrix), quanta_of([self.twos[j] for j in term.sites])
            yield term, np.abs(digits[:, None] - digits)[size > ROUNDING * size.max()]


def quanta_of(twos: Sequence[int]) -> NDArray[np.int64]:
    """Return the sum of the digits of all states of some sites, the digit of the last site fastest."""
    total = np.zeros(1, np.int64)
    for two in twos:
        total = (total[:, None] + np.arange(two + 1)).ravel()
    return total


def conjugated(matrix: Matrix, turns: Sequence[Matrix]) -> Matrix:
    """Return ``U M U^dagger`` with U the product of matrices of the sites; rounding is left out."""
    U = turns[0]
    for turn in turns[1:]:
        U = np.asarray(np.kron(U, turn))
    made = U @ matrix @ U.conj().T
    least = ROUNDING * float(np.abs(matrix).max(initial=0.0))
    return np.where(np.abs(made.real) > least, made.real, 0.0) + 1j * np.where(
        np.abs(made.imag) > least, made.imag, 0.0
    )


def commuting(model: SpinModel, axis: int) -> bool:
    """Return True if every term of H commutes with the total spin along an axis."""
    for term in model.terms:
        parts = [
            [spin_matrices(model.twos[j])[axis] if j == k else np.eye(model.twos[j] + 1) for j in term.sites]
            for k in term.sites
        ]
        total = sum(one[0] if len(one) == 1 else np.kron(*one) for one in parts)
        off = term.matrix @ total - total @ term.matrix
        if np.abs(off).max() > ROUNDING * np.abs(term.matrix).max():
            return False
    return True


@conserved.register(SpinModel)
def _(model: SpinModel) -> tuple[str, ...]:
    """Return which of the total ``S^x, S^y, S^z`` commute with H, as axis letters."""
    return tuple(axis for a, axis in enumerate(AXES) if commuting(model, a))


@scale_of.register(SpinModel)
def _(model: SpinModel) -> float:
    """Return the sum of the norms of all terms."""
    return sum(float(np.linalg.norm(term.matrix, 2)) for term in model.terms) or math.ulp(1.0)


# ------------------------------------------------------------------------------------------ from a deck


ZEROS[False] = lambda system: SpinModel.empty(system.twos)


@local_part.register(blocks.Anisotropy)
@local_part.register(blocks.Biquadratic)
@local_part.register(blocks.BondMatrix)
def _(term: blocks.LocalTerm, system: blocks.System, part: Model) -> Model:
    """Return a term of matrices alone, as a model like `part`.

    Raises
    ------
    DeckError, FileError
        If a matrix does not fit the states of a bond, or is not Hermitian, or has a direction where a bond has none.
    """
    # an echo has models of its own where system has none
    assert isinstance(part, SpinModel)
    if isinstance(term, blocks.Anisotropy):
        return replace(part, sites=_anisotropy(term, system))
    bonds: dict[tuple[int, int], Matrix] = {}
    for j, k, ahead, back, strength in _bonds(term, system):
        twos = system.twos[j], system.twos[k]
        if isinstance(term, blocks.Biquadratic):
            one, back_one = strength * _biquadratic(*twos), strength * _biquadratic(*twos[::-1])
        else:
            one, back_one = _matrix(term, twos), _matrix(term, twos[::-1])
        made = ahead * one
        if back:
            made = made + back * exchanged(back_one, twos[::-1])
        pair = (j, k)
        if j > k:
            pair, made = (k, j), exchanged(made, twos)
        bonds[pair] = bonds[pair] + made if pair in bonds else made
    return replace(part, bonds=bonds)


def exchanged(matrix: Matrix, twos: Sequence[int]) -> Matrix:
    """Return the matrix of two sites, of 2 S = twos, with the second one first."""
    d = [two + 1 for two in twos]
    return matrix.reshape(*d, *d).transpose(1, 0, 3, 2).reshape(matrix.shape)


def _anisotropy(term: blocks.Anisotropy, system: blocks.System) -> dict[int, Matrix]:
    sites = term.sites if term.sites is not None else [j for j, two in enumerate(system.twos) if two > 1]
    made = {}
    for number, j in enumerate(sites):
        S = spin_matrices(system.twos[j])
        A = np.zeros((3, 3)) if term.A is None else np.array(term.A)
        D, E = (value[number] if isinstance(value, list) else value or 0.0 for value in (term.D, term.E))
        A = A + np.diag([E, -E, D])
        made[j] = np.einsum("ab,axy,byz->xz", A, S, S)
    return made


def _biquadratic(first: int, second: int) -> Matrix:
    """Return ``(S_j . S_k)^2`` of two spins."""
    both = zip(spin_matrices(first), spin_matrices(second), strict=True)
    product = np.sum([np.kron(a, b) for a, b in both], axis=0)
    return np.asarray(product @ product)


def _bonds(
    term: blocks.Biquadratic | blocks.BondMatrix, system: blocks.System
) -> Iterator[tuple[int, int, int, int, float]]:
    """Yield first and second site of every bond, how many bonds go ahead and back, and the strength."""
    if term.list is not None:
        for row in term.list:
            yield int(row[0]), int(row[1]), 1, 0, float(row[2]) if len(row) > 2 else 1.0
        return
    lattice = term.lattice if term.lattice is not None else system.lattice
    # the rules ask for one
    assert lattice is not None
    shells = term.shells or (None if isinstance(lattice, AllToAll) else [1])
    single = getattr(lattice, "images", "one") == "one"
    for bond in lattices.bonds(lattice, system.spins, shells):
        ahead, back = lattices.directions(lattice, system.spins, bond.j, bond.k)
        if single and ahead and back and isinstance(term, blocks.BondMatrix):
            twos = system.twos[bond.j], system.twos[bond.k]
            one = _matrix(term, twos)
            if twos[0] != twos[1] or not np.array_equal(one, exchanged(one, twos)):
                raise DeckError(
                    f"bond_matrix: sites {bond.j} and {bond.k} are equally near both ways round and have no direction: which "
                    "of them comes first is not defined; give the pairs as a list"
                )
        if single:
            ahead, back = (1, 0) if ahead else (0, 1)
        yield bond.j, bond.k, ahead, back, term.B if isinstance(term, blocks.Biquadratic) else 1.0


def _matrix(term: blocks.BondMatrix, twos: Sequence[int]) -> Matrix:
    """Return the matrix of a bond, checked."""
    if term.file is None:
        matrix = np.array(term.matrix, np.complex128)
        where = "bond_matrix"
    else:
        where = str(term.file)
        try:
            matrix = np.load(term.file).astype(np.complex128)
        except (OSError, ValueError) as error:
            raise FileError(f"{term.file}: not a matrix of numbers in .npy: {error}") from error
    size = (twos[0] + 1) * (twos[1] + 1)
    if matrix.shape != (size, size):
        spins = " and ".join(f"{0.5 * two:g}" for two in twos)
        raise DeckError(
            f"{where}: expected a matrix of {size} x {size} numbers for spins {spins}, found {' x '.join(map(str, matrix.shape))}"
        )
    largest = float(np.abs(matrix).max())
    off = np.abs(matrix - matrix.conj().T)
    if not np.isfinite(largest) or float(off.max()) > HERMITIAN * largest:
        row, column = np.unravel_index(int(off.argmax()), off.shape)
        raise DeckError(
            f"{where}: the matrix is not Hermitian: element [{row}, {column}] is {matrix[row, column]:g}, "
            f"element [{column}, {row}] {matrix[column, row]:g}"
        )
    return 0.5 * (matrix + matrix.conj().T)
