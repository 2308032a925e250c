r"""The steps of an electron in a central potential: lanes over l, tables of a time step, state on the grid.

A step of second order is ``E O R O E``: R the radial step (Cayley), E and O the couplings of the even pairs (0, 1), (2, 3), ...
and of the odd pairs (1, 2), (3, 4), ... of l, counted from abs(m), half a step each.  Neighbouring E are one.  The
field is that at the midpoint, or its mean over a step that misses it, in length gauge; in
velocity gauge the odd pairs take A at the midpoint and the even pairs A at the ends of a step, which makes every step symmetric
in time.  In a field that turns in the xy plane there are four families of pairs, and all take the midpoint
(:mod:`qsim.tridiag.kernels.atom.planar`).

Order 4 is Suzuki's composition S(q) S(q) S(1 - 4 q) S(q) S(q) with ``q = 1 / (4 - 4^(1/3))``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.atom.states.grid import RadialGrid, first_entry
from qsim.tridiag.atom.states.lanes import PlanarLanes
from qsim.tridiag.kernels.atom import length as kernels
from qsim.tridiag.kernels.atom import planar
from qsim.tridiag.kernels.atom.phases import tiled
from qsim.tridiag.kernels.atom.records import Couplings, Mix, Radial, Samples
from qsim.tridiag.kernels.atom.sharing import ALONE, lined
from qsim.tridiag.kernels.atom.velocity import velocity_steps
from qsim.tridiag.tdse.step_search import STAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.tridiag.atom.states.lanes import AnyLanes

__all__ = [
    "AtomLattice",
    "Propagator",
    "Tables",
    "emptied",
    "over_steps",
    "radial_arrays",
    "truncated",
    "weighted_force",
]

# Euler-Maclaurin weight of the first point
# an integrand that starts linearly at r = 0 adds h^2 f'(0) / 12 to the trapezoid sum, a twelfth of f at the
# first point
FIRST = 13.0 / 12.0
# bohr per l: u_l ~ r^(l+1) is below 1e-9 of its maximum within INNER (l - 1)
INNER = 0.05


def over_steps(field: Any, middle: NDArray[Any], dt: float) -> NDArray[np.float64]:
    """Return the field of steps about some times: by a function of steps, where the field has one, or at the midpoints."""
    mean = getattr(field, "over", None)
    return np.asarray(field(middle) if mean is None else mean(middle, dt))


@dataclass(frozen=True)
class AtomLattice:
    """The field-free atom on a grid.

    Attributes
    ----------
    grid : RadialGrid
    potential, force : (n,) float64
        V and dV/dr, hartree and hartree/bohr.
    charge : float
        ``-lim r V`` at the nucleus.
    cap, mask : (n,) float64 or None
        W of ``-i W``; factor after every step.
    """

    grid: RadialGrid
    potential: NDArray[np.float64]
    force: NDArray[np.float64]
    charge: float
    cap: NDArray[np.float64] | None = None
    mask: NDArray[np.float64] | None = None


def truncated(lattice: AtomLattice, points: int) -> AtomLattice:
    """Return the first points of a lattice without an absorber, with a wall at the next; all of it if there are no more."""
    grid = lattice.grid
    if points >= grid.points:
        return lattice
    inner = replace(
        grid,
        r=grid.r[:points],
        slope=grid.slope[:points],
        curvature=grid.curvature[:points],
        wall=float(grid.r[points]),
    )
    return AtomLattice(inner, lattice.potential[:points], lattice.force[:points], lattice.charge)


def weighted_force(lattice: AtomLattice) -> NDArray[np.float64]:
    """Return dV/dr (n,) with the weight of the first point."""
    force = np.array(lattice.force)
    force[0] *= FIRST
    return force


@dataclass
class Tables:
    """Tables of the kernels for steps of one length; see :mod:`qsim.tridiag.kernels.atom.length`."""

    down: Any
    up: Any
    r: Any
    slope: Any
    a: Any
    potential: Any
    rotation: Any
    even: Any
    odd: Any
    mask: Any
    inner: Any
    pivot: Any = field(repr=False)
    y: Any = field(repr=False)
    scratch: Any = field(repr=False)
    swaps: Any
    turns: Any
    links: Any
    radial: Any = field(repr=False)
    couplings: Any = field(repr=False)
    mix: Any = field(repr=False)

    @cached_property
    def tiled(self) -> tuple[Any, Any]:
        """Pivots and radial coefficients tile by tile, as threads take them, in place of those row by row."""
        made = tiled(self.down, self.up, self.radial)
        # a run takes one kind or the other: both would be as much memory as the states
        self.down = self.up = np.zeros((0, 0))
        return made


def radial_arrays(
    lattice: AtomLattice, lanes: AnyLanes, dt: float, *, cap: bool
) -> tuple[NDArray[np.float64], ...]:
    """Return a, potential, rotation, l (l + 1) and first entries: the arguments of `length/pivots`."""
    grid, l = lattice.grid, lanes.momenta
    # the kernels carry f = r' phi: every term of H is multiplied by r'^2, and by tau / 6 with a = r'^2 / (6
    # tau)
    square = grid.slope**2
    w = lattice.cap if cap and lattice.cap is not None else np.zeros(grid.points)
    potential = np.column_stack([square * (lattice.potential + grid.curvature) / 6.0, -square * w / 6.0])
    first = np.array([first_entry(int(one), lattice.charge, grid.step) for one in l])
    return square / (3.0 * dt), potential, square / (12.0 * grid.r**2), l * (l + 1.0), first


def emptied(lattice: AtomLattice, lanes: AnyLanes) -> NDArray[np.float64]:
    """Return ``1 / r'^2`` where the core of high l is emptied and 0 elsewhere, (rows, lanes)."""
    grid, l = lattice.grid, lanes.momenta
    # the lowest l of the run is never emptied: it holds the electron near the nucleus
    reach = np.where(l > lanes.lowest, INNER * (l - 1.0), 0.0)
    rows = int(np.searchsorted(grid.r, reach.max()))
    return np.where(grid.r[:rows, None] < reach, 1.0 / grid.slope[:rows, None] ** 2, 0.0)


def tables(
    lattice: AtomLattice, lanes: AnyLanes, dt: float, *, velocity: bool, clear: bool, cap: bool = True
) -> Tables:
    """Return the tables of steps of length `dt`; `clear` empties the core of high l, `cap` keeps the complex absorber."""
    grid, l = lattice.grid, lanes.momenta
    a, potential, rotation, ll, first = radial_arrays(lattice, lanes, dt, cap=cap)
    down, up = kernels.pivots(a, potential, rotation, ll, first)
    pairs, n = lanes.pairs, grid.points
    even, odd = lanes.even, lanes.odd
    inner = emptied(lattice, lanes) if clear else np.zeros((0, 2 * pairs))
    flat = isinstance(lanes, PlanarLanes)
    # pairs of planar lanes are mixed row by row over the whole grid; those along z have a ring in the sweep
    rows = n if velocity and flat else 1
    even_growth, odd_growth = even * (l[:pairs] + 1.0), odd * (l[pairs:] + 1.0)
    return Tables(
        down=down,
        up=up,
        r=grid.r,
        slope=grid.slope,
        a=a,
        potential=potential,
        rotation=rotation,
        even=even,
        odd=odd,
        mask=np.zeros(0) if lattice.mask is None else lattice.mask,
        inner=inner,
        pivot=np.zeros((rows, 2, pairs)),
        y=np.zeros((rows, 4, pairs)),
        scratch=kernels.scratch(even, odd, even_growth, odd_growth)[None] if flat else np.zeros((1, 1)),
        swaps=lanes.swaps,
        turns=lanes.turns,
        links=lanes.links,
        radial=Radial(a, np.ascontiguousarray(potential).reshape(-1), rotation, ll, first),
        couplings=Couplings(even, odd, even_growth, odd_growth),
        mix=Mix(1.0 / grid.r, 1.0 / grid.slope, np.sqrt(grid.slope)),
    )


class Propagator:
    """A state and the steps that carry it on.

    Parameters
    ----------
    lattice, lanes
        The atom, and its channels.
    u : (used, n) complex128
        ``phi_lm`` on the grid, normalised by ``sum |phi|^2 = 1``, in the order of the channels.
    dt : float
        Time step, a.u.
    velocity : bool
        Gauge.
    field
        A(t) in velocity gauge, E(t) in length gauge: function of an array of times; with planar lanes it returns
        x and y components (2, times).
    order : int
        2 or 4.
    parts : int
        Velocity gauge: 0, or the number of equal steps that make one of length `dt`, the core of high l being emptied after each.

    Attributes
    ----------
    sharing : Sharing
        CPU threads that share the steps, one until others are given; steps in velocity gauge in elliptical light are not shared.
    """

    def __init__(
        self,
        lattice: AtomLattice,
        lanes: AnyLanes,
        u: NDArray[np.complex128],
        dt: float,
        *,
        velocity: bool,
        field: Any,
        order: int = 2,
        parts: int = 0,
    ) -> None:
        self.sharing = ALONE
        self.lattice, self.lanes, self.dt, self.velocity, self.field = lattice, lanes, dt, velocity, field
        self.stages = STAGES[order]
        self.parts = max(parts, 1)
        if lattice.mask is not None and parts > 1:
            # applied after each of the parts, it must have its full effect after all of them
            lattice = replace(lattice, mask=lattice.mask ** (1.0 / parts))
        # stages of the same length share their tables: two sets for order 4
        made = {
            q: tables(lattice, lanes, q * dt / self.parts, velocity=velocity, clear=parts > 0, cap=order == 2)
            for q in set(self.stages)
        }
        self.tables = [made[q] for q in self.stages]
        self.state = lined(np.zeros((lattice.grid.points, 4 * lanes.pairs)))
        self.set(u)
        self.step = 0
        self.lost = 0.0
        # in order 4 the absorber would amplify in the stage that goes backwards: it is left out there and
        # applied once a step
        self._decay = None
        if order == 4 and lattice.cap is not None:
            self._decay = np.exp(-lattice.cap * dt)[:, None]

    def set(self, u: NDArray[np.complex128]) -> None:
        """Take a state (used, n), in the order of the channels."""
        # from phi to f = r' phi, real parts before imaginary parts
        f = (u * self.lattice.grid.slope).T
        order, half = self.lanes.order, 2 * self.lanes.pairs
        self.state[:] = 0.0
        self.state[:, order] = f.real
        self.state[:, half + order] = f.imag

    @property
    def phi(self) -> NDArray[np.complex128]:
        """The state (used, n), ``sum |phi|^2`` = norm, in the order of the channels."""
        order, half = self.lanes.order, 2 * self.lanes.pairs
        f = self.state[:, order] + 1j * self.state[:, half + order]
        return np.ascontiguousarray((f / self.lattice.grid.slope[:, None]).T)

    def near(self, window: slice) -> NDArray[np.complex128]:
        """Return the state on some points (used, points of the window)."""
        order, half, rows = self.lanes.order, 2 * self.lanes.pairs, self.state[window]
        f = rows[:, order] + 1j * rows[:, half + order]
        return np.ascontiguousarray((f / self.lattice.grid.slope[window, None]).T)

    @property
    def numbers(self) -> int:
        """Complex numbers of the state."""
        return self.state.size // 2

    def snapshot(self) -> NDArray[np.float64]:
        """Return a copy of the state as the kernels have it, without empty pairs, (n, 4 K)."""
        return self.state[:, self._kept()]

    def restore(self, state: NDArray[np.float64], step: int, lost: float) -> None:
        """Take what `snapshot` returned, after `step` steps."""
        self.state[:] = 0.0
        self.state[:, self._kept()] = state
        self.count_from(step, lost)

    def _kept(self) -> NDArray[np.int64]:
        """Return the columns of the pairs that are not empty, of which a checkpoint holds any number of threads'."""
        pairs, kept = self.lanes.pairs, np.arange(self.lanes.plain.pairs)
        return np.concatenate([part * pairs + kept for part in range(4)])

    def count_from(self, step: int, lost: float) -> None:
        """Take the state as that after `step` steps, in which the norm `lost` was set to zero."""
        self.step, self.lost = step, lost

    def sums(self) -> NDArray[np.float64]:
        """Return norm, dipole and mean force (along z, or along x and y), and the norm of the last l."""
        take = planar.planar_sums if isinstance(self.lanes, PlanarLanes) else kernels.atom_sums
        threads = self.sharing.threads
        return np.asarray(take(self.state, self.tables[0], *self._weights, self._last, threads))

    @cached_property
    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the norm and of the force."""
        return 1.0 / self.lattice.grid.slope**2, weighted_force(self.lattice)

    @cached_property
    def _last(self) -> Any:
        """Lane of the largest l, or its lanes."""
        last = self.lanes.order[self.lanes.ls == self.lanes.lmax]
        return last if isinstance(self.lanes, PlanarLanes) else int(last[0])

    def edges(self, rows: int) -> tuple[float, float]:
        """Return the norm of the last two l, and the norm of the last points."""
        last, half = self.lanes.order[self.lanes.ls >= self.lanes.lmax - 1], 2 * self.lanes.pairs
        weight = 1.0 / self.lattice.grid.slope[:, None] ** 2
        # both lie at the edge of what the run represents, l and r: norm there tells that lmax or rmax is too
        # small
        high = np.sum(weight * (self.state[:, last] ** 2 + self.state[:, half + last] ** 2))
        return float(high), float(np.sum(weight[-rows:] * self.state[-rows:] ** 2))

    @property
    def in_one(self) -> bool:
        """Whether one call makes the steps to many marks and takes the sums there."""
        shared = self.sharing.threads > 1 or isinstance(self.lanes, PlanarLanes)
        return shared and not self.velocity and len(self.stages) == 1

    def sampled(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Go on to each mark, a number of steps from the start, and return the `sums` there, (marks, ...)."""
        if self.in_one and marks[0] > self.step:
            return self._sampled_in_one(marks)
        sums = []
        for mark in marks:
            self.advance(mark - self.step)
            sums.append(self.sums())
        return np.array(sums)

    def _sampled_in_one(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Go on to each mark, after the present step, by one call of the kernels."""
        # the times are those of calls from mark to mark: the same bits
        begins = [self.step, *marks[:-1]]
        middle = np.concatenate(
            [
                begin * self.dt + (np.arange(end - begin) + 0.5) * self.dt
                for begin, end in zip(begins, marks, strict=True)
            ]
        )
        places = np.full(middle.size + 1, -1)
        places[np.array(marks) - self.step] = np.arange(len(marks))
        flat = isinstance(self.lanes, PlanarLanes)
        columns = planar.SUMS if flat else kernels.SUMS
        samples = Samples(places, np.empty((len(marks), self.lattice.grid.points, columns)), self._last)
        self._length(0, middle, self.dt, samples)
        self.step = marks[-1]
        summed = planar.planar_summed if flat else kernels.summed
        return np.asarray(summed(samples.sums, self.tables[0], *self._weights))

    def _length(self, stage: int, middle: NDArray[Any], dt: float, samples: Samples | None) -> None:
        """Make steps in length gauge, with the field at their midpoints."""
        how = {"samples": samples, "sharing": self.sharing}
        if isinstance(self.lanes, PlanarLanes):
            x, y = over_steps(self.field, middle, dt)
            vector = np.hypot(x, y), np.arctan2(y, x)
            planar.planar_length_steps(self.state, self.tables[stage], *vector, dt, **how)
        else:
            kernels.length_steps(
                self.state, self.tables[stage], over_steps(self.field, middle, dt), dt, **how
            )

    def advance(self, count: int) -> None:
        """Make `count` steps."""
        if len(self.stages) == 1:
            self._run(0, self.step * self.dt, count, self.dt)
        else:
            # the stages of one step follow each other, so steps of order 4 cannot share a sweep
            for k in range(count):
                at = (self.step + k) * self.dt
                for i, q in enumerate(self.stages):
                    self._run(i, at, 1, q * self.dt)
                    at += q * self.dt
                if self._decay is not None:
                    self.state *= self._decay
        self.step += count

    def _run(self, stage: int, start: float, count: int, dt: float) -> None:
        """Make `count` steps of length `dt` from a time on, with the tables of a stage."""
        count, dt = count * self.parts, dt / self.parts
        # fields at the midpoint of each step make it symmetric in time, hence of second order
        middle = start + (np.arange(count) + 0.5) * dt
        if not self.velocity:
            self._length(stage, middle, dt, None)
        elif isinstance(self.lanes, PlanarLanes):
            x, y = over_steps(self.field, middle, dt)
            vector = np.hypot(x, y), np.arctan2(y, x)
            self.lost += planar.planar_velocity_steps(self.state, self.tables[stage], *vector, dt)
        else:
            # even pairs of neighbouring steps are joined at the ends of the steps, where they take A
            ends = start + np.arange(count + 1) * dt
            self.lost += velocity_steps(
                self.state,
                self.tables[stage],
                self.field(ends),
                over_steps(self.field, middle, dt),
                dt,
                sharing=self.sharing,
            )
