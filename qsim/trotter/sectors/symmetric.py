"""States of one character under permutations of the sites and the inversion of all spins, of one Sz, one parity or all.

A group G of permutations g (with the inversion or not) with one-dimensional characters chi(g) = exp(-2 pi i f_g) divides the
strings into orbits; a is the smallest string of its orbit,

    |a, chi> = (|G| nu_a)^(-1/2) sum_g chi(g)* |g a>,   nu_a = sum of chi(g) over g with g a = a,

and g |a, chi> = chi(g) |a, chi>; orbits with nu_a = 0 have no such state.  H is a stored matrix where that fits, and else
made from smallest images in every product (:mod:`qsim.trotter.kernels.sectors.terms`).  A permutation takes the spin of site j
to site p[j]; a state of momentum 2 pi k / N gets exp(-2 pi i k / N) from the shift of all spins by one site, as
``sum_j exp(2 pi i k j / N) |down at j>`` does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, reduce, singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.device import cpu, namespace
from qsim.core.errors import DeckError
from qsim.trotter.kernels.sectors.images import Images, Listed, images_of, list_orbits
from qsim.trotter.kernels.sectors.terms import Terms, orbit_columns, orbit_rows
from qsim.trotter.lattices.point_groups import point_moves
from qsim.trotter.model.larger import SpinModel
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits import product as digits
from qsim.trotter.sectors.digits.product import diagonal_of, on_place, rows_of, stored_bytes, terms_of
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.linear import StoredMatrix
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.states.vectors import on_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.device import Device
    from qsim.trotter.deck.sectors import SectorBlock
    from qsim.trotter.lattices.momenta import Translations
    from qsim.trotter.model.hamiltonian import Model

__all__ = [
    "PlainSpace",
    "SymmetricOperator",
    "SymmetricSector",
    "Symmetry",
    "broken",
    "cycles_of",
    "images",
    "order_of",
    "reflected",
    "shifted",
    "symmetric_sectors",
    "term_bytes",
]

# without characters of permutations
PlainSpace = Sector | ParitySector | WholeSpace | DigitSpace
# of a group
MOST_ELEMENTS = 4096
# relative difference of couplings that is rounding
SAME = 1e-14
# of the coefficients of an operator: an image that differs by less is the same one
ALIKE = 1e-9
# bytes up to which H is kept as a sparse matrix, which is made while twice as much is taken
MOST_STORED = 1 << 31


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


def images(base: DigitSpace, elements: Mapping[tuple[tuple[int, ...], bool], Fraction]) -> Images:
    """Return a group of permutations, with or without the inversion of all spins, and the phases of its elements."""
    n, bits, left = base.spins, base.bits, dict(elements)
    every = tuple(range(n))
    shifts = [m for m in range(1, n) if (every[m:] + every[:m], False) in left]
    # the least shift of all sites that belongs to the group
    cell = reduce(math.gcd, shifts, n)
    each, numbers = 8 // bits, np.arange(256)
    tables, phases = [], []
    # the identity is the first element
    while left:
        sites, turned = next(iter(left))
        table = np.zeros((-(-n // each), 256), np.int64)
        for j, to in enumerate(sites):
            digit = numbers >> j % each * bits & ((1 << bits) - 1)
            # digits that do not occur lead anywhere
            if turned:
                digit = np.maximum(base.twos[j] - digit, 0)
            table[j // each] |= digit << to * bits
        tables.append(table)
        coset = [(tuple((to + m) % n for to in sites), turned) for m in range(0, n, cell)]
        phases.append([float(left.pop(element)) for element in coset])
    characters: NDArray[Any] = np.exp(-2j * np.pi * np.array(phases))
    # chi = +-1 without the rounding of the exponential, so that the matrix is real exactly
    if all(2 * f % 1 == 0 for f in elements.values()):
        characters = np.round(characters.real)
    marks = sum(1 << m * bits for m in range(0, n, cell))
    return Images(np.array(tables), characters, cell * bits, n * bits, marks)


@dataclass(frozen=True)
class SymmetricSector:
    """States of a space with given eigenvalues of symmetries.

    Attributes
    ----------
    base : Sector, ParitySector, WholeSpace or DigitSpace
        States of one Sz without inversion, of one parity, or all.
    symmetries : tuple of Symmetry
    inversion : int
        Sign under the inversion of all spins, 0 where it is not used.
    momentum : int or None
        k of the momentum 2 pi k / N.
    reflection : int
        Sign under j -> N - 1 - j, 0 where it is not used.
    """

    base: PlainSpace
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
    def group(self) -> Images:
        """The elements as the kernels take them."""
        return images(self.base.digits, self.elements)

    @property
    def is_real(self) -> bool:
        """True if all characters are 1 or -1, and the matrix is real."""
        return all(2 * f % 1 == 0 for f in self.elements.values())

    def fixed(self, sites: Sequence[int], turned: bool) -> int:
        """Return how many strings a permutation leaves as they are, with the inversion if `turned`."""
        base = self.base.digits
        twos, weights = [], []
        for cycle in cycles_of(sites):
            two = base.twos[cycle[0]]
            if not turned:
                # one digit for all sites of a cycle
                twos.append(two)
                weights.append(len(cycle))
            elif len(cycle) % 2 == 0:
                # digits d and 2S - d by turns: together len S quanta, whatever d is
                twos.append(two)
            elif two % 2:
                return 0
        if not turned:
            return base.count(twos, weights)
        # quanta of all fixed strings are those of Sz = 0
        quanta = sum(base.twos) // 2
        if base.down not in (-1, quanta) or base.odd not in (-1, quanta % 2):
            return 0
        return math.prod(two + 1 for two in twos)

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
    def outer(self) -> SymmetricSector | None:
        """The sector of the next Sz away from 0, to which S^+ or S^- leads; None at the largest ``|Sz|``, and without an Sz.

        It has the characters of all symmetries that turn no spin over.
        """
        down = self.down - 1 if self.sz >= 0.0 else self.down + 1
        if self.down < 0 or not 0 <= down <= sum(self.base.digits.twos):
            return None
        # spaces of one Sz
        assert isinstance(self.base, Sector | DigitSpace)
        kept = tuple(symmetry for symmetry in self.symmetries if not symmetry.turned)
        return SymmetricSector(replace(self.base, down=down), kept)

    def led_by(self, base: PlainSpace, c: NDArray[np.complex128]) -> SymmetricSector | PlainSpace | None:
        """Return the states of a base that ``A = sum_aj c_aj S^a_j`` leads to; None where A annihilates all of the sector.

        With g A g^-1 = exp(-2 pi i f) A a state A |chi> has the character of |chi> times exp(-2 pi i f) under g; symmetries
        that make another operator of A are lost.

        Parameters
        ----------
        base : PlainSpace
            What A makes of the base of the sector.
        c : (3, N) complex128
            Along the axes of the strings.
        """
        kept = []
        for one in self.symmetries:
            # the spin of site j goes to sites[j]; the inversion, a half turn about x, changes the signs of S^y and S^z
            moved = np.empty_like(c)
            moved[:, list(one.sites)] = c * np.array([[1.0], [-1.0], [-1.0]]) if one.turned else c
            order = math.lcm(order_of(one.sites), 2 if one.turned else 1)
            turns = -order * np.angle(np.vdot(c, moved)) / (2.0 * np.pi)
            f = Fraction(round(float(turns)), order)
            if np.abs(moved - np.exp(-2j * np.pi * float(f)) * c).max() < ALIKE * np.abs(c).max():
                text = one.text if f % 1 == 0 else f"exp(-2 pi i {(one.phase + f) % 1}) under {one.text}"
                kept.append(Symmetry(text, one.sites, one.turned, (one.phase + f) % 1))
        if not kept:
            return base
        found = SymmetricSector(base, tuple(kept))
        return found if found.dimension else None

    def orbits(self, device: Device) -> Listed:
        """Return the orbits that have a state, on a device."""
        known = self.__dict__.setdefault("_orbits", {})
        if device.kind not in known:
            known[device.kind] = _listed(self, device)
        return known[device.kind]

    def whole(self, psi: NDArray[Any]) -> NDArray[Any]:
        """Return a state as a vector of `base`."""
        place, factor = _places(self)
        vector = on_host(psi)
        # strings of an orbit without a state have the amplitude 0
        out = np.where(place >= 0, factor * vector[np.maximum(place, 0)], 0.0)
        return namespace(psi).asarray(np.ascontiguousarray(out))

    def folded(self, psi: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Return a vector of `base` that lies in the sector as a vector of the sector; the inverse of `whole`."""
        place, factor = _places(self)
        # the isometry of `whole`, transposed and conjugated
        made = factor.conj() * on_host(psi)
        inside = place >= 0
        real = np.bincount(place[inside], made.real[inside], self.dimension)
        imaginary = np.bincount(place[inside], made.imag[inside], self.dimension)
        out = np.asarray(real if np.dtype(dtype).kind == "f" else real + 1j * imaginary, dtype)
        return namespace(psi).asarray(out)

    def __str__(self) -> str:
        """Return ``Sz = 0, momentum 2 pi 3/12``."""
        return ", ".join([str(self.base), *(symmetry.text for symmetry in self.symmetries)])


def _listed(sector: SymmetricSector, device: Device) -> Listed:
    """Return the orbits that have a state: smallest strings, nu, and where to look for a string."""
    group, base, xp = sector.group, sector.base.digits, device.xp
    highs, classes, starts, lows = base.halves()
    # an upper half that begins a smallest string is not larger than what a rotation brings to its place
    split, kept = base.low * base.bits, np.ones(highs.size, np.bool_)
    top, size = highs >> split, group.bits - split
    for k in range(group.cell, size if group.marks > 1 else 0, group.cell):
        kept &= (top & ((1 << size - k) - 1)) >= top >> k
    halves = tuple(device.asarray(part) for part in (highs[kept], classes[kept], starts, lows))
    work = base.dimension // int(group.marks).bit_count()
    with device.use():
        # one pass counts, the next one fills
        count = xp.zeros(int(np.count_nonzero(kept)), np.int64)
        strings, nu = xp.empty(0, np.int64), xp.empty(0, np.uint16)
        list_orbits(device, halves, group, count, strings, nu, work)
        found = int(count.sum())
        if found != sector.dimension:
            raise AssertionError(f"{found} orbits, {sector.dimension} expected")
        strings, nu = xp.empty(found, np.int64), xp.empty(found, np.uint16)
        if found:
            list_orbits(device, halves, group, xp.cumsum(count) - count, strings, nu, work)
        # about two strings for each number of the upper bits
        most = int(strings[-1]) if found else 0
        shift = max(0, most.bit_length() - max(0, found.bit_length() - 1))
        buckets = xp.arange((most >> shift) + 2, dtype=np.int64) << shift
        return Listed(
            strings,
            nu,
            xp.sqrt(xp.arange(group.characters.size + 1.0)),
            xp.searchsorted(strings, buckets).astype(np.uint32),
            shift,
        )


@lru_cache(maxsize=1)
def _places(sector: SymmetricSector) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the orbit of every string of the base, -1 where it has no state, and the amplitude there."""
    # of the last sector alone, which an evolution asks for at every output
    strings, group = sector.base.strings(), sector.group
    place, factor = np.empty(strings.size, np.int64), np.empty(strings.size, group.characters.dtype)
    images_of(strings, group, sector.orbits(cpu()), place, factor)
    return place, factor


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
    added: list[Symmetry] = []
    if block.point_group is not None:
        group = block.point_group
        shifts = SymmetricSector(WholeSpace(spins), tuple(generators)).elements
        for move in point_moves(moves.lattice, spins, group.name, group.irrep):
            back = sorted(range(spins), key=move.sites.__getitem__)
            for one in generators:
                # the shift that this one becomes must have the same eigenvalue
                turned_to = tuple(move.sites[one.sites[back[j]]] for j in range(spins))
                if shifts.get((turned_to, False)) != one.phase:
                    raise DeckError(
                        f"sector.point_group: {move.text} of {group.name} leads from this momentum to another one; take "
                        "one that it leaves as it is, such as Gamma, or a smaller group"
                    )
            text = f"{group.irrep} under {move.text}"
            added.append(Symmetry(text, move.sites, False, move.phase))
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
    return (*generators, *added)


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
            sectors.append(SymmetricSector(base, symmetries, *signs))
    left = [sector for sector in sectors if sector.dimension]
    if not left:
        raise DeckError(f"sector: no state has {sectors[0]}: the sector is empty")
    return left


def term_bytes(model: Model, spaces: Sequence[Any], *, observed: bool = True, gpu: bool = False) -> int:
    """Return the bytes of H by its terms in the largest of some spaces, beside the vectors.

    Parameters
    ----------
    spaces : sequence of DigitSpace, Sector or SymmetricSector
    observed : bool
        Whether observables are taken; with characters from the space below, by its strings, their places and factors.
    gpu : bool
        Whether no matrix is kept.
    """
    states = max((space.dimension for space in spaces), default=0)
    if not states:
        return 0
    characters = isinstance(spaces[0], SymmetricSector)
    bases = [space.base if characters else space for space in spaces]
    one = bases[0].digits
    # Lin tables; strings, or smallest strings with nu and buckets
    tables = (16 << one.low * one.bits) + (20 if characters else 8) * states
    stored = stored_bytes(model, states, real=not characters and SpinModel.of(model).real)
    if not gpu and stored <= (MOST_STORED if characters else digits.MOST_STORED):
        tables += (2 if characters else 3) * stored
    return tables + (96 * max(base.dimension for base in bases) if characters and observed else 0)


class SymmetricOperator(StoredMatrix):
    """H in a sector of further symmetries: a stored matrix where it fits, else smallest images in every product.

    Parameters
    ----------
    device : Device
    sector : SymmetricSector
    model : Model
        Invariant under the symmetries.
    """

    sector: SymmetricSector

    @cached_property
    def terms(self) -> Terms:
        """The terms, on the host."""
        return terms_of(self.model, self.sector.base.digits, self.sector.base.digits)

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real: those between strings, and the characters."""
        return self.sector.is_real and self.terms.is_real

    @cached_property
    def keeps(self) -> bool:
        """True if H is kept as a sparse matrix, from the first product on."""
        states = self.sector.dimension
        return not self.device.is_cuda and stored_bytes(self.model, states, real=False) <= MOST_STORED

    @cached_property
    def matrix(self) -> csr_array:
        """H, (D, D); of small sectors."""
        from scipy.sparse import csr_array, dia_array

        orbits, terms = self.sector.orbits(self.device), self.terms
        first = rows_of(terms, orbits.strings)
        to, data = np.empty(first[-1], np.int32), np.empty(first[-1], self.dtype)
        orbit_columns(orbits, self.sector.group, terms, first, to, data)
        shape = (self.size,) * 2
        made = csr_array((data, to, first), shape=shape)
        # flips of one string may lead to the same orbit
        made.sum_duplicates()
        return csr_array(made + dia_array((diagonal_of(terms, orbits.strings)[None], [0]), shape=shape))

    @cached_property
    def _placed(self) -> tuple[Terms, Images]:
        """Terms and images on the device."""
        place = self.device.asarray
        return Terms(*on_place(place, self.terms)), Images(*on_place(place, self.sector.group))

    def by_terms(self, psi: NDArray[Any], out: NDArray[Any], factors: tuple[float, float, float]) -> None:
        """Compute ``out = a H psi + b psi + c out`` by smallest images."""
        terms, group = self._placed
        orbit_rows(self.device, terms, self.sector.orbits(self.device), group, psi, out, factors)
