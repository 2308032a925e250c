"""Problem of a run: sectors of total angular momentum, spin and parity, with their bases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.parallel import in_shares
from qsim.core.errors import InvalidInput
from qsim.sturmian.deck.blocks import Gsf, SquareWell, as_list
from qsim.sturmian.deck.model import BasisTask
from qsim.sturmian.deck.symmetry import pairs_of
from qsim.sturmian.radial import parameters
from qsim.sturmian.radial.box import BEYOND
from qsim.sturmian.radial.grid import RadialGrid
from qsim.sturmian.two_electron.sizes import finer_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.sturmian.deck.blocks import Channels, Generating
    from qsim.sturmian.deck.model import Bound, Integrals, Solver
    from qsim.sturmian.deck.response import Response
    from qsim.sturmian.radial.parameters import Radial, Values
    from qsim.sturmian.radial.potentials import OneBody
    from qsim.sturmian.radial.sturmians import Orbitals, Sturmians

__all__ = ["Problem", "Sector", "Symmetry", "sectors_of"]

# Relative change of the eigenvalues of functions from one grid to the next at which they are settled.
SETTLED = 1e-8
# Finer grids after the first one, and points of the finest.
ROUNDS, FINEST = 5, 1200

Symmetry = tuple[int, int, str]
"""L, S and parity (``even`` or ``odd`` la + lb)."""


class Sector(NamedTuple):
    """One symmetry: L, S, parity (``even`` or ``odd`` la + lb), its pairs la <= lb, and the roots that are wanted of it."""

    L: int
    S: int
    parity: str
    pairs: tuple[tuple[int, int], ...]
    roots: tuple[int, ...]

    @property
    def symmetry(self) -> Symmetry:
        """L, S and parity."""
        return self.L, self.S, self.parity


@dataclass
class Problem:
    """Everything that a run needs.

    Attributes
    ----------
    device : Device
    radial : Radial
        Blocks of potential, grid and basis.
    values : Values
        What they leave open or a scan changes, as numbers.
    channels : Channels
        Block of the pairs of orbital momenta.
    wanted : dict of Symmetry to tuple of int
        Roots that are wanted of each symmetry.
    order : list of (int, int, str, int)
        L, S, parity and root of the states, in the order of the deck.
    task : Bound, Response, Integrals or BasisTask
        Options of the task.
    solver : Solver
        Options of the eigensolver.
    extrapolate : list of int
        Values of l_max whose energies give the partial-wave limit; empty unless the deck extrapolates.
    scan : dict of list
        Keys and values of the convergence scans.
    refuse : callable
        Raises `DeckError` at the place of a finding in the deck's file.
    grid : RadialGrid
    V : (n,) float64 or complex128
        One-body potential at the nodes, hartree.
    sectors : list of Sector
    notices : list of str
        What the deck left open and how it was settled.
    """

    device: Device
    radial: Radial
    values: Values
    channels: Channels
    wanted: Mapping[Symmetry, Sequence[int]]
    order: list[tuple[int, int, str, int]]
    task: Bound | Response | Integrals | BasisTask
    solver: Solver
    extrapolate: list[int]
    scan: dict[str, list[float]]
    refuse: Callable[[Sequence[Finding]], None]
    grid: RadialGrid
    V: NDArray[Any]
    sectors: list[Sector]
    notices: list[str] = field(default_factory=list)
    _functions: dict[int, Sturmians] = field(default_factory=dict, repr=False)
    _orbitals: dict[int, Orbitals] = field(default_factory=dict, repr=False)

    # --------------------------------------------------------------------------------- settings

    @property
    def is_gsf(self) -> bool:
        """True if the basis are Sturmian functions, not the grid itself."""
        return isinstance(self.radial.basis, Gsf)

    @property
    def energy(self) -> float | None:
        """Energy of the Sturmian functions, hartree; None for a grid basis."""
        return self.values.energy

    @property
    def alpha(self) -> float | None:
        """Inverse range of the generating potential; None if it has none."""
        return self.values.alpha

    @property
    def generating(self) -> Generating | None:
        """The block of the generating potential with numbers in place of ``auto``; None for a grid basis."""
        return parameters.generating_of(self.radial, self.values)

    @property
    def Z(self) -> float:
        """Charge of the nucleus."""
        return float(self.radial.system.Z)

    @property
    def potential(self) -> OneBody:
        """One-body potential as a function of the radius."""
        return self.radial.potential

    @property
    def is_bare(self) -> bool:
        """True if the nucleus alone makes the one-body potential."""
        return self.radial.system.potential.type == "coulomb"

    @property
    def lists_pairs(self) -> bool:
        """True if the deck lists its pairs of orbital momenta, which then are a model of their own."""
        return self.channels.pairs is not None

    @property
    def ls(self) -> list[int]:
        """Orbital momenta that the run needs functions of, ascending."""
        if isinstance(self.task, BasisTask) and self.task.l is not None:
            return sorted(as_list(self.task.l))
        return sorted({l for sector in self.sectors for pair in sector.pairs for l in pair})

    # -------------------------------------------------------------------------------- functions

    def size(self, l: int) -> int:
        """Return the number of radial functions of an l."""
        return self.values.size(l, self.grid.size)

    def functions(self, l: int, N: int | None = None) -> Sturmians:
        """Return the Sturmian functions of an l, computed once; with N the first N of them.

        Raises
        ------
        DeckError
            If energy and generating potential make fewer than N independent functions.
        """
        count = self.size(l) if N is None else N
        known = self._functions.get(l)
        # on a contour the functions that are chosen depend on their number
        if known is None or known.beta.size < count or (self.grid.is_complex and known.beta.size != count):
            known = self._sturmians(l, count)
            self._functions[l] = known
        return known if known.beta.size == count else parameters.first(known, count)

    def _sturmians(self, l: int, count: int) -> Sturmians:
        try:
            return parameters.sturmians(self.radial, self.values, self.grid, l, count)
        except InvalidInput as error:
            self.refuse([Finding(error.key, str(error))])
            raise

    def finer_functions(self, functions: Sturmians) -> list[tuple[RadialGrid, Sturmians]]:
        """Return one or two finer grids, in a larger box if the functions decay, with as many functions; the finest last.

        Two where the functions of the first are far from settled: they may agree with those of the deck by chance.  Empty if no
        finer grid holds that many.
        """
        grid = self.grid
        bounds = grid.bounds
        if not grid.is_complex and not grid.keep_last and not self._fills_the_box():
            # Whole elements of the last width are added, as many as hold BEYOND decay lengths
            # 1/kappa.
            width = bounds[-1] - bounds[-2]
            count = int(np.ceil(BEYOND / (np.sqrt(-2.0 * functions.energy) * width)))
            bounds = np.concatenate((bounds, bounds[-1] + width * np.arange(1, count + 1)))
        # In a larger box there may be fewer independent functions; the box of the deck is tried
        # next.
        for tried in (bounds, grid.bounds):
            found: list[tuple[RadialGrid, Sturmians]] = []
            before, order = functions, finer_order(grid.order)
            while len(found) <= ROUNDS:
                fine = RadialGrid(tried, order, keep_last=grid.keep_last)
                try:
                    other = parameters.sturmians(self.radial, self.values, fine, functions.l, functions.size)
                except InvalidInput:
                    break
                found.append((fine, other))
                order = order * 3 // 2
                if np.all(before.apart(other) <= SETTLED * np.abs(other.beta)) or tried.size * order > FINEST:
                    break
                before = other
            if found:
                return found[-2:]
        return []

    def _fills_the_box(self) -> bool:
        """Return True if the generating potential is a well that ends with the box, whose wall then belongs to the functions."""
        well = self.generating
        if not isinstance(well, SquareWell):
            return False
        assert not isinstance(well.r0, str)
        return well.r0 >= self.grid.R0 * (1.0 - 1e-12)

    def orbitals(self, l: int) -> Orbitals:
        """Return the orthonormal one-electron functions of an l that span the basis, computed once."""
        from qsim.sturmian.radial import sturmians as gsf

        if l not in self._orbitals:
            c = self.functions(l).c if self.is_gsf else None
            self._orbitals[l] = gsf.orbitals(self.grid, l, self.V, c)
        return self._orbitals[l]

    def make_orbitals(self, ls: Sequence[int], comm: Comm) -> None:
        """Make the functions of some l, each on one of several processes, for all of them; a collective call."""
        missing = [l for l in ls if l not in self._orbitals]
        if comm.size == 1 or not missing:
            return

        def make(l: int) -> tuple[Orbitals, Sturmians | None]:
            return self.orbitals(l), self._functions.get(l)

        for l, (orbitals, functions) in in_shares(comm, missing, make).items():
            self._orbitals[l] = orbitals
            if functions is not None:
                self._functions[l] = functions

    # ------------------------------------------------------------------------------------ scans

    def doubted(self) -> list[Problem]:
        """Return the problem with the other curves that the rows of its tables allow, one after the other."""
        return [
            replace(
                self, radial=radial, V=parameters.one_body(radial, self.grid), _functions={}, _orbitals={}
            )
            for radial in self.radial.doubted()
        ]

    def with_(self, **changes: float) -> Problem:
        """Return the problem with other values of N, l_max, R, alpha, energy or order; what can be shared is.

        Everything else stays, also where the deck said ``auto``.
        """
        values = self.values.changed(**changes)
        sectors = sectors_of(self.wanted, self.channels, values.l_max)
        # Other pairs alone: grid, functions and orbitals of each l are shared with this
        # problem.
        if not set(changes) - {"l_max"}:
            return replace(self, values=values, sectors=sectors)
        grid, V = self.grid, self.V
        functions: dict[int, Sturmians] = {}
        if set(changes) - {"l_max", "N"}:
            grid = parameters.radial_grid(self.radial, values)
            V = parameters.one_body(self.radial, grid)
        elif "N" in changes and self.is_gsf:
            # Longer lists hold the shorter ones. The deck's own list is made here even where a continued run has not needed it
            # yet: the last bits of a function depend on the length of the list.
            functions = {l: self.functions(l) for l in self.ls}
        return replace(
            self, values=values, sectors=sectors, grid=grid, V=V, _functions=functions, _orbitals={}
        )


def sectors_of(
    wanted: Mapping[Symmetry, Sequence[int]], channels: Channels, l_max: int | None
) -> list[Sector]:
    """Return the sectors of some symmetries, with the pairs of the channels or with all up to l_max."""
    return [
        Sector(L, S, parity, tuple(pairs_of(channels, L, S, parity, l_max)), tuple(sorted(roots)))
        for (L, S, parity), roots in wanted.items()
    ]
