"""States of one character under permutations of the sites and the inversion of all spins, of one Sz, one parity or all.

A group G of permutations g (with the inversion or not) with one-dimensional characters chi(g) = exp(-2 pi i f_g) divides the
strings into orbits; a is the smallest string of its orbit,

    |a, chi> = (|G| nu_a)^(-1/2) sum_g chi(g)* |g a>,   nu_a = sum of chi(g) over g with g a = a,

and g |a, chi> = chi(g) |a, chi>; orbits with nu_a = 0 have no such state.  H is a stored matrix: a sector has about |G| times
fewer states than the sector of Sz.  A permutation takes the spin of site j to site p[j]; a state of momentum 2 pi k / N gets
exp(-2 pi i k / N) from the shift of all spins by one site, as ``sum_j exp(2 pi i k j / N) |down at j>`` does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.kernels.sectors.orbits import entries_of_orbits, images_of, representatives
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.parity import ParitySector, WholeSpace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.device import Device
    from qsim.trotter.deck.sectors import SectorBlock
    from qsim.trotter.lattices.momenta import Translations
    from qsim.trotter.model.hamiltonian import Model

__all__ = [
    "Flips",
    "PlainSpace",
    "StoredOperator",
    "SymmetricSector",
    "Symmetry",
    "broken",
    "cycles_of",
    "flips_of",
    "image_tables",
    "matrix_bytes",
    "order_of",
    "reflected",
    "shifted",
    "symmetric_sectors",
    "with_characters",
]

# without characters of permutations
PlainSpace = Sector | ParitySector | WholeSpace | DigitSpace
# of a group
MOST_ELEMENTS = 4096
# relative difference of couplings that is rounding
SAME = 1e-14


class Symmetry(NamedTuple):
    """One generator of the group.

    Attributes
    ----------
    text : str
        How a state of the sector behaves, ``momentum 2 pi 3/12``.
    sites : tuple of int
        The spin of site j goes to ``sites[j]``.
    turned : bool
        Whether all spins are turned over as well.
    phase : Fraction
        f of the eigenvalue exp(-2 pi i f).
    """

    text: str
    sites: tuple[int, ...]
    turned: bool
    phase: Fraction


def shifted(spins: int) -> tuple[int, ...]:
    """Return the shift of all spins by one site of a ring."""
    return tuple((j + 1) % spins for j in range(spins))


def reflected(spins: int) -> tuple[int, ...]:
    """Return the reflection ``j -> N - 1 - j``."""
    return tuple(range(spins - 1, -1, -1))


def cycles_of(sites: Sequence[int]) -> list[list[int]]:
    """Return the cycles of a permutation."""
    left, cycles = set(range(len(sites))), []
    while left:
        j, cycle = min(left), []
        while j in left:
            left.remove(j)
            cycle.append(j)
            j = sites[j]
        cycles.append(cycle)
    return cycles


def _cycles(sites: Sequence[int]) -> list[int]:
    """Return the lengths of the cycles of a permutation."""
    return [len(cycle) for cycle in cycles_of(sites)]


def order_of(sites: Sequence[int]) -> int:
    """Return the order of a permutation: its least power that is the identity."""
    return math.lcm(*_cycles(sites))


@singledispatch
def broken(model: Model, sites: Sequence[int]) -> str:
    """Return where H is not invariant under a permutation of the sites, ``""`` if it is."""
    p = np.array(sites)
    cross = np.zeros((3, 3, p.size, p.size)) if model.cross is None else model.cross
    scale = max(*(float(np.abs(part).max(initial=0.0)) for part in (model.J, model.h, cross)), 1e-300)
    # J_p(j)p(k) = J_jk for all pairs, likewise the couplings of different components and the fields
    different = np.argwhere(np.abs(model.J[:, p][:, :, p] - model.J) > SAME * scale)
    if len(different):
        a, j, k = (int(i) for i in different[0])
        return (
            f"J{'xyz'[a]} of sites {j} and {k} is {model.J[a, j, k]:g}, that of sites {p[j]} and {p[k]}, to which they go, "
            f"{model.J[a, p[j], p[k]]:g}"
        )
    different = np.argwhere(np.abs(cross[:, :, p][:, :, :, p] - cross) > SAME * scale)
    if len(different):
        a, b, j, k = (int(i) for i in different[0])
        return (
            f"J{'xyz'[a]}{'xyz'[b]} of sites {j} and {k} (Dzyaloshinskii-Moriya) is {cross[a, b, j, k]:g}, that of sites {p[j]} "
            f"and {p[k]}, to which they go, {cross[a, b, p[j], p[k]]:g}"
        )
    different = np.argwhere(np.abs(model.h[:, p] - model.h) > SAME * scale)
    if len(different):
        a, j = (int(i) for i in different[0])
        return (
            f"the field along {'xyz'[a]} is {model.h[a, j]:g} at site {j} and {model.h[a, p[j]]:g} at site {p[j]}, "
            "to which it goes"
        )
    return ""


def image_tables(
    spins: int, elements: Sequence[tuple[Sequence[int], bool]]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the images of eight bits at a time, (G, bytes, 256), and whether all spins are turned over, (G,)."""
    tables = np.zeros((len(elements), -(-spins // 8), 256), np.int64)
    numbers = np.arange(256)
    bits = [numbers >> k & 1 for k in range(8)]
    for g, (sites, _) in enumerate(elements):
        for j, to in enumerate(sites):
            tables[g, j // 8] |= bits[j % 8] << to
    return tables, np.array([turned for _, turned in elements])


class _Group(NamedTuple):
    tables: NDArray[np.int64]
    turned: NDArray[np.bool_]
    characters: NDArray[np.complex128]


@dataclass(frozen=True)
class SymmetricSector:
    """States of a space with given eigenvalues of symmetries.

    Attributes
    ----------
    base : Sector, ParitySector or WholeSpace
        States of one Sz without inversion, of one parity, or all.
    symmetries : tuple of Symmetry
    inversion : int
        Sign under the inversion of all spins, 0 where it is not used.
    momentum : int or None
        k of the momentum 2 pi k / N.
    reflection : int
        Sign under j -> N - 1 - j, 0 where it is not used.
    """

    base: Sector | ParitySector | WholeSpace
    symmetries: tuple[Symmetry, ...]
    inversion: int = 0
    momentum: int | None = None
    reflection: int = 0

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.base.spins

    @property
    def down(self) -> int:
        """Number of spins down, -1 where it is not fixed."""
        return getattr(self.base, "down", -1)

    @property
    def sz(self) -> float:
        """Total Sz."""
        return self.base.sz

    @property
    def axis(self) -> str:
        """Axis of the deck along which the spins of the strings are."""
        return self.base.axis

    @cached_property
    def elements(self) -> dict[tuple[tuple[int, ...], bool], Fraction]:
        """Phase of every element of the group.

        Raises
        ------
        DeckError
            If no state has all these eigenvalues, or the group is too large.
        """
        # the identity, with phase 0
        phases = {(tuple(range(self.spins)), False): Fraction(0)}
        fresh = list(phases)
        # products with the generators until nothing new appears; the phase of an element must not depend on the way to it
        while fresh:
            element = fresh.pop()
            for _, sites, turned, phase in self.symmetries:
                made = tuple(sites[j] for j in element[0]), element[1] != turned
                f = (phases[element] + phase) % 1
                if made not in phases:
                    phases[made] = f
                    fresh.append(made)
                elif phases[made] != f:
                    names = "; ".join(symmetry.text for symmetry in self.symmetries)
                    raise DeckError(
                        f"sector: no state has all of these properties: {names}. Two products of the symmetries are the same "
                        "permutation with different eigenvalues, such as a reflection of a momentum other than 0 and pi"
                    )
                if len(phases) > MOST_ELEMENTS:
                    raise DeckError(
                        f"sector.permutations: the permutations generate more than {MOST_ELEMENTS} others"
                    )
        return phases

    @cached_property
    def group(self) -> _Group:
        """The elements as the kernels take them."""
        elements = list(self.elements.items())
        tables, turned = self.image_tables([element for element, _ in elements])
        phases = np.array([float(f) for _, f in elements])
        characters = np.exp(-2j * np.pi * phases)
        # chi = +-1 without the rounding of the exponential, so that the matrix is real exactly
        if self.is_real:
            characters = np.round(characters.real) + 0j
        return _Group(tables, turned, characters)

    @property
    def is_real(self) -> bool:
        """True if all characters are 1 or -1, and the matrix is real."""
        return all(2 * f % 1 == 0 for f in self.elements.values())

    def image_tables(
        self, elements: Sequence[tuple[Sequence[int], bool]]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the images of eight bits at a time, (G, bytes, 256), and whether all spins are turned over, (G,)."""
        return image_tables(self.spins, elements)

    def fixed(self, sites: Sequence[int], turned: bool) -> int:
        """Return how many strings a permutation leaves as they are, with the inversion if `turned`."""
        return self.base.fixed(_cycles(sites), turned)

    def representatives(self, strings: NDArray[np.int64], norms: NDArray[np.float64]) -> int:
        """Set the smallest string and nu of every orbit that has a state; return how many."""
        odd = getattr(self.base, "odd", -1)
        return int(representatives(self.spins, self.down, odd, *self.group, strings, norms))

    @cached_property
    def dimension(self) -> int:
        """Number of states: the mean over the group of ``chi(g)*`` times the number of strings that g leaves as they are."""
        # Burnside's formula with characters: (1 / |G|) sum_g chi(g)* (number of strings fixed by g)
        total = 0.0
        for (sites, turned), f in self.elements.items():
            fixed = self.fixed(sites, turned)
            # real part: elements come in pairs g, g^-1 with conjugate characters
            total += fixed * math.cos(2.0 * math.pi * float(f))
        return round(total / len(self.elements))

    @cached_property
    def orbits(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Smallest string and nu of every orbit that has a state."""
        strings, norms = np.empty(self.dimension, np.int64), np.empty(self.dimension)
        count = self.representatives(strings, norms)
        if count != self.dimension:
            raise AssertionError(f"{count} orbits, {self.dimension} expected")
        return strings, norms

    def whole(self, psi: NDArray[Any]) -> NDArray[Any]:
        """Return a state as a vector of `base`."""
        place, factor = _places(self)
        # strings of an orbit without a state have the amplitude 0
        out = np.where(place >= 0, factor * psi[np.maximum(place, 0)], 0.0)
        return np.ascontiguousarray(out.real if self.is_real and psi.dtype.kind == "f" else out)

    def folded(self, psi: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Return a vector of `base` that lies in the sector as a vector of the sector; the inverse of `whole`."""
        place, factor = _places(self)
        # the isometry of `whole`, transposed and conjugated
        made = factor.conj() * psi
        inside = place >= 0
        real = np.bincount(place[inside], made.real[inside], self.dimension)
        imaginary = np.bincount(place[inside], made.imag[inside], self.dimension)
        return np.asarray(real if np.dtype(dtype).kind == "f" else real + 1j * imaginary, dtype)

    def __str__(self) -> str:
        """Return ``Sz = 0, momentum 2 pi 3/12``."""
        return ", ".join([str(self.base), *(symmetry.text for symmetry in self.symmetries)])


@lru_cache(maxsize=1)
def _places(sector: SymmetricSector) -> tuple[NDArray[np.int64], NDArray[np.complex128]]:
    """Return the orbit of every string of the base, -1 where it has no state, and the amplitude there."""
    # of the last sector alone, which an evolution asks for at every output
    strings = sector.base.strings()
    place, factor = np.empty(strings.size, np.int64), np.empty(strings.size, np.complex128)
    images_of(strings, sector.spins, *sector.group, *sector.orbits, place, factor)
    return place, factor


@singledispatch
def with_characters(base: PlainSpace, *rest: Any) -> SymmetricSector:
    """Return the states of a space with given eigenvalues of symmetries; see :class:`SymmetricSector`."""
    assert not isinstance(base, DigitSpace)
    return SymmetricSector(base, *rest)


def _symmetries(
    block: SectorBlock, momentum: int | None, spins: int, moves: Translations
) -> tuple[Symmetry, ...]:
    """Return the generators that a deck asks for."""
    generators = []
    if momentum is not None:
        for m, length, to, along in zip(
            moves.parts(momentum), moves.lengths, moves.shifts, moves.texts, strict=True
        ):
            text = f"momentum 2 pi {m}/{length}{along}"
            generators.append(Symmetry(text, tuple(to), False, Fraction(m, length)))
    for sign, name, sites, turned in (
        (block.reflection, "reflection", reflected(spins), False),
        (block.inversion, "inversion", tuple(range(spins)), True),
    ):
        if sign is not None:
            text = f"{'even' if sign > 0 else 'odd'} under {name}"
            generators.append(Symmetry(text, sites, turned, Fraction(int(sign < 0), 2)))
    for index, item in enumerate(block.permutations):
        order = order_of(item.sites)
        text = f"exp(-2 pi i {item.number}/{order}) under permutation {index}"
        generators.append(Symmetry(text, tuple(item.sites), False, Fraction(item.number, order)))
    return tuple(generators)


def symmetric_sectors(
    block: SectorBlock, model: Model, bases: Sequence[PlainSpace], moves: Translations
) -> list[SymmetricSector]:
    """Return the sectors of some spaces that a deck asks for; of several, those without states are left out.

    Parameters
    ----------
    moves : Translations
        Shifts that momenta belong to.

    Raises
    ------
    DeckError
        If H is not invariant, or no state is left.
    """
    spins, sectors = model.spins, []
    for momentum in moves.numbers(block.momentum):
        symmetries = _symmetries(block, momentum, spins, moves)
        for symmetry in symmetries:
            if why := broken(model, symmetry.sites):
                what, remedy = symmetry.text.split(" under ")[-1], ""
                if what == symmetry.text:
                    along = what.partition(" along ")[2]
                    what = f"the shift by one cell along {along}" if along else "the shift by one site"
                    remedy = (
                        ""
                        if along
                        else "; of a lattice that the deck does not name, sector.permutations has the shifts"
                    )
                raise DeckError(f"sector: H is not invariant under {what}: {why}{remedy}")
        for base in bases:
            signs = block.inversion or 0, momentum, block.reflection or 0
            sectors.append(with_characters(base, symmetries, *signs))
    left = [sector for sector in sectors if sector.dimension]
    if not left:
        raise DeckError(f"sector: no state has {sectors[0]}: the sector is empty")
    return left


class Flips(NamedTuple):
    """The terms of H that flip spins, as :func:`entries_of_orbits` takes them."""

    masks: NDArray[np.int64]
    sites: NDArray[np.int64]
    coefficients: NDArray[np.complex128]

    def kept(self, strings: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many terms flip each string."""
        count = np.zeros(strings.size, np.int64)
        for mask, (j, k), row in zip(self.masks, self.sites, self.coefficients, strict=True):
            flipped = strings ^ mask
            count += (row != 0.0)[(flipped >> j & 1) + 2 * (flipped >> k & 1)]
        return count


def flips_of(model: Model) -> Flips:
    """Return the flips of H: of pairs of spins, of one spin beside another, and of single spins in fields."""
    terms: list[tuple[int, int, int, NDArray[np.complex128]]] = []
    # of the spins of the flipped string, in the order bit_j + 2 bit_k
    equal = np.array([1.0, -1.0, -1.0, 1.0])
    s = {0: 0.5 - np.array([0, 1, 0, 1]), 1: 0.5 - np.array([0, 0, 1, 1])}
    cross = np.zeros((3, 3, model.spins, model.spins)) if model.cross is None else model.cross
    coupled = model.J[:2].any(axis=0) | cross.any(axis=(0, 1))
    for j, k in np.argwhere(np.triu(coupled, 1)).tolist():
        K, both = cross[:, :, j, k], 1 << j | 1 << k
        # S^y S^y flips with - s_j s_k, S^x S^y with -i s_k / 2 of the flipped string
        row = 0.25 * (model.J[0, j, k] - equal * model.J[1, j, k]) - 0.5j * (K[0, 1] * s[1] + K[1, 0] * s[0])
        terms.append((both, j, k, row))
        # one spin flips: S^x with 1/2, S^y with -i s, beside S^z of the other
        terms.append((1 << j, j, k, (0.5 * K[0, 2] - 1j * s[0] * K[1, 2]) * s[1]))
        terms.append((1 << k, j, k, (0.5 * K[2, 0] - 1j * s[1] * K[2, 1]) * s[0]))
    for j in range(model.spins):
        terms.append((1 << j, j, j, 0.5 * model.h[0, j] - 1j * s[0] * model.h[1, j]))
    terms = [term for term in terms if term[3].any()]
    return Flips(
        np.array([term[0] for term in terms], np.int64),
        np.array([term[1:3] for term in terms], np.int64).reshape(-1, 2),
        np.array([term[3] for term in terms], np.complex128).reshape(-1, 4),
    )


def matrix_bytes(model: Model, states: int) -> int:
    """Return the bytes of the stored matrix of H on some states: strings, and the entries while they are sorted."""
    return states * (16 + 40 * (1 + flips_of(model).masks.size))


class StoredOperator:
    """H in a sector of further symmetries, as a stored matrix.

    Parameters
    ----------
    device : Device
        A CPU.
    sector : SymmetricSector
    model : Model
        Invariant under the symmetries.
    """

    needs_work = False

    def __init__(self, device: Device, sector: SymmetricSector, model: Model) -> None:
        self.device, self.sector, self.model = device, sector, model
        self.products = 0

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.sector.dimension

    @property
    def dtype(self) -> Any:
        """Of the vectors: real where H and all characters are."""
        return np.dtype(
            np.float64 if self.sector.is_real and not self.flips.coefficients.imag.any() else np.complex128
        )

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real."""
        return bool(self.dtype.kind == "f")

    @cached_property
    def flips(self) -> Flips:
        """The terms of H that flip spins."""
        return flips_of(self.model)

    @cached_property
    def matrix(self) -> csr_array:
        """H, (D, D)."""
        from scipy.sparse import csr_array

        strings, norms = self.sector.orbits
        # one pass counts, the next one fills
        first = np.zeros(strings.size + 1, np.int64)
        # entries of each row first, so that rows can be filled in any order
        first[1:] = np.cumsum(self.flips.kept(strings))
        to, data = np.empty(first[-1], np.int32), np.empty(first[-1], np.complex128)
        entries_of_orbits(self.sector.spins, self.sector.group, strings, norms, *self.flips, first, to, data)
        # real H and real characters make real entries; the imaginary parts are zero
        values = data.real.copy() if self.dtype.kind == "f" else data
        made = csr_array((values, to, first), shape=(strings.size, strings.size))
        # flips of one string may lead to the same orbit
        made.sum_duplicates()
        return csr_array(
            made + csr_array((self._diagonal(strings), (np.arange(strings.size),) * 2), shape=made.shape)
        )

    def _diagonal(self, strings: NDArray[np.int64]) -> NDArray[np.float64]:
        energy = np.zeros(strings.size)
        spin = [0.5 - (strings >> site & 1) for site in range(self.sector.spins)]
        for j, k in np.argwhere(np.triu(self.model.J[2], 1)):
            energy += self.model.J[2, j, k] * spin[j] * spin[k]
        for j in np.flatnonzero(self.model.h[2]):
            energy += self.model.h[2, j] * spin[j]
        return energy

    def apply(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out``; ``work`` is not needed."""
        self.products += 1
        made = alpha * (self.matrix @ psi)
        if beta:
            made += beta * psi
        if gamma:
            made += gamma * out
        out[...] = made
