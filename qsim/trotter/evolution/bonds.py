"""Product formulas in a sector of conserved Sz: bonds one after the other, in place.

H is a sum of bonds, ``h_jk = J (S^x_j S^x_k + S^y_j S^y_k) + J^z S^z_j S^z_k + D (S_j x S_k)^z`` and a share of the fields of
both sites, the same for each bond of a site.  Bonds are sorted into groups without a site in common, whose members
commute; the groups take the place that the axes have in the whole space: a first-order map goes through them once, its adjoint
backwards, and the methods are the same compositions of both (:mod:`qsim.trotter.evolution.integrators`).  The evolution of a bond
is exact.  Phases of two spins up are left out of every bond; they are the same for all states, and are put in at the end.
"""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from qsim.trotter.evolution.integrators import composed
from qsim.trotter.kernels.sectors.bonds import BondTables, Rotation, sector_bond
from qsim.trotter.sectors.basis import Part, Sector
from qsim.trotter.sectors.operator import place_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model

__all__ = ["Bond", "Bonds", "SectorFormula"]

# rotations of groups for different times
KEPT = 256


class Bond(NamedTuple):
    """Two sites with their coupling and their share of the fields.

    Attributes
    ----------
    j, k : int
        Sites, j < k.
    flip : complex
        ``<j up, k down| H |j down, k up> = J / 2 + i D / 2``.
    J : float
        ``J^z``.
    first, second : float
        Fields along z.
    """

    j: int
    k: int
    flip: complex
    J: float
    first: float
    second: float

    @property
    def up(self) -> float:
        """Energy of both spins up."""
        return 0.25 * self.J + 0.5 * (self.first + self.second)

    def rotation(self, tau: float) -> Rotation:
        """Return ``exp(-i tau (h - h_upup))``, h_upup the energy of both spins up."""
        # mean energy of the two antiparallel strings, relative to both spins up
        mean = -0.25 * self.J - self.up
        # half of the difference of their energies, from unequal fields
        delta = 0.5 * (self.second - self.first)
        # frequency of the turn in the plane of the two strings
        size = math.hypot(delta, abs(self.flip))
        phase = cmath.exp(-1j * mean * tau)
        # sin(size tau) / size tends to tau; a bond of size
        # 0 has no off-diagonal element and no difference
        c, s = math.cos(size * tau), math.sin(size * tau) / size if size > 0.0 else 0.0
        # energy of both spins down, relative to both up: minus the fields
        both = cmath.exp(1j * tau * (self.first + self.second))
        return Rotation(
            phase * complex(c, -s * delta),
            phase * -1j * s * self.flip.conjugate(),
            phase * -1j * s * self.flip,
            phase * complex(c, s * delta),
            both,
        )


B = TypeVar("B", bound="HasSites")


class HasSites(Protocol):
    """A part of H on two sites, or on one that is named twice."""

    @property
    def j(self) -> int:
        """First site."""

    @property
    def k(self) -> int:
        """Second site."""


class Groups(Generic[B]):
    """Parts of H, those of one group without a site in common.

    Attributes
    ----------
    groups : list of list of parts
    """

    def __init__(self, parts: Iterable[B]) -> None:
        self.groups: list[list[B]] = []
        taken: list[set[int]] = []
        for part in parts:
            # greedy colouring: the first group that has neither of the sites; bonds of a group commute
            place = next((g for g, sites in enumerate(taken) if not sites & {part.j, part.k}), len(taken))
            if place == len(taken):
                taken.append(set())
                self.groups.append([])
            taken[place] |= {part.j, part.k}
            self.groups[place].append(part)

    def layers(self, method: str, dt: float, steps: int) -> Iterator[tuple[int, float]]:
        """Yield the groups and times of some steps, neighbours merged."""
        step = composed(tuple(range(len(self.groups))), method, dt)
        # the last group of a step is the first of the next one: both are made as one
        waiting: tuple[int, float] | None = None
        for _ in range(steps):
            for group, tau in step:
                if waiting is not None and waiting[0] == group:
                    waiting = group, waiting[1] + tau
                    continue
                if waiting is not None:
                    yield waiting
                waiting = group, tau
        if waiting is not None:
            yield waiting

    def per_step(self, method: str) -> tuple[int, int]:
        """Return the groups and the bonds of a step among others."""
        one, two = ([g for g, _ in self.layers(method, 1.0, steps)] for steps in (1, 2))
        # one step and two: the difference is a step among others
        bonds = sum(len(self.groups[g]) for g in two) - sum(len(self.groups[g]) for g in one)
        return max(1, len(two) - len(one)), max(1, bonds)


class Bonds(Groups[Bond]):
    """H as groups of bonds.

    Parameters
    ----------
    model : Model
        Conserves Sz; of at least two spins.

    Attributes
    ----------
    up : float
        Energy of the state with all spins up, the sum over all bonds.
    """

    def __init__(self, model: Model) -> None:
        spins, field = model.spins, model.h[2]
        # <up down|H|down up> of one bond: transverse coupling, and i D / 2 of a Dzyaloshinskii-Moriya one
        flip = (model.J[0] + model.J[1]) / 4.0 + 0j
        if model.cross is not None:
            flip = flip + 0.5j * model.cross[0, 1]
        coupled = np.triu((flip != 0) | (model.J[2] != 0), 1)
        degree = (coupled | coupled.T).sum(axis=1)
        # a site without couplings has its field in a bond that couples nothing
        for j in np.flatnonzero((degree == 0) & (field != 0)).tolist():
            coupled[min(j, (j + 1) % spins), max(j, (j + 1) % spins)] = True
        # the field of a site is shared equally by its bonds, so that the bonds add up to H
        degree = np.maximum((coupled | coupled.T).sum(axis=1), 1)
        super().__init__(
            Bond(
                j,
                k,
                complex(flip[j, k]),
                float(model.J[2, j, k]),
                float(field[j] / degree[j]),
                float(field[k] / degree[k]),
            )
            for j, k in np.argwhere(coupled).tolist()
        )
        self.up = math.fsum(bond.up for group in self.groups for bond in group)


def _tables(sector: Sector, bond: Bond) -> BondTables:
    """Return the columns that a bond pairs."""
    low, nothing = sector.low, np.zeros(0, np.uint32)
    # two sites of the high part pair whole rows: no columns
    if bond.j >= low.bits:
        return BondTables(np.zeros(1, np.int64), nothing, nothing, nothing)
    # one of each: lists of strings with the low site down and up, made for the sector
    if bond.k >= low.bits:
        return BondTables(_offsets(low.bits - 1), low.filled[bond.j], low.clear[bond.j], nothing)
    j, k = 1 << bond.j, 1 << bond.k
    # both low: first site down, second up, and the partners of these
    down = low.strings[(low.strings & j != 0) & (low.strings & k == 0)]
    both = low.strings[(low.strings & j != 0) & (low.strings & k != 0)]
    return BondTables(
        _offsets(low.bits - 2), _ranks(low, down), _ranks(low, down ^ (j | k)), _ranks(low, both)
    )


def _ranks(low: Part, strings: NDArray[np.int64]) -> NDArray[np.uint32]:
    return np.asarray(low.rank[strings], np.uint32)


def _offsets(bits: int) -> NDArray[np.int64]:
    """Return the offset of each weight class of `bits` bits, and the total, (bits + 2,)."""
    return np.concatenate([[0], np.cumsum([math.comb(bits, w) for w in range(bits + 1)])]).astype(np.int64)


class SectorFormula:
    """A vector of a sector without inversion, and steps of product formulas that change it in place.

    Parameters
    ----------
    device : Device
        A CPU.
    sector : Sector
    model : Model
    psi : (D,) complex
        Taken over.

    Raises
    ------
    ValueError
        In a sector with inversion.
    """

    def __init__(self, device: Device, sector: Sector, model: Model, psi: NDArray[Any]) -> None:
        if sector.inversion:
            raise ValueError("bonds change the sign under inversion only together with their mirror images")
        self.device, self.sector, self.psi = device, sector, psi
        self.single_spin = 0.5 * float(model.h[2, 0]) * (1 - 2 * sector.down) if sector.spins == 1 else None
        self.bonds = Bonds(model) if sector.spins > 1 else None
        self._strings = place_tables(sector, device)
        self._columns: dict[tuple[int, int], BondTables] = {}
        self._rotations: dict[tuple[int, float], list[Rotation]] = {}

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps of a method of :data:`integrators.METHODS`; dt may be negative."""
        # bonds turn from the energy of all spins up; its phase comes at the end
        energy = self.single_spin
        if self.bonds is not None:
            energy = self.bonds.up
            for group, tau in self.bonds.layers(method, dt, steps) if self.bonds.groups else ():
                self._group(self.bonds.groups[group], group, tau)
        assert energy is not None
        if energy != 0.0:
            self.psi *= self.psi.dtype.type(cmath.exp(-1j * energy * dt * steps))

    def _group(self, bonds: Sequence[Bond], group: int, tau: float) -> None:
        # output times on a logarithmic grid have a step each: tables of old ones are dropped
        if len(self._rotations) > KEPT:
            self._rotations.clear()
        if (group, tau) not in self._rotations:
            self._rotations[group, tau] = [bond.rotation(tau) for bond in bonds]
        bits = (self.sector.low.bits, self.sector.high.bits)
        for bond, rotation in zip(bonds, self._rotations[group, tau], strict=True):
            sites = (bond.j, bond.k)
            if sites not in self._columns:
                self._columns[sites] = _tables(self.sector, bond)
            sector_bond(self.device, self._strings, bits, sites, self._columns[sites], self.psi, rotation)
