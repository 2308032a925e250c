r"""Steps of two coordinates: ``S^(1/2) C_x C_y S^(1/2)``, and Suzuki's composition of five of them.

S has all potentials and the field as phases, C the kinetic energies as Cayley steps, which commute.  C_x and C_y change places
from stage to stage, so that the end of one stage, the phases between two stages and the begin of the next one are one
pass along one axis.  The absorber acts once per step, half of it at either end.

In a frame that rotates, or a magnetic field, the kinetic energies are ``(p_x + a y)^2 / 2 m`` and ``(p_y - b x)^2 / 2 m``, those
at rest of ``exp(i a x y) psi`` and ``exp(-i b x y) psi``: a pass along an axis works in its own gauge, and the next one begins
with the phase ``exp(-+ i (a + b) x y)`` between both.  They do not commute: a stage is two halves with both orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.tridiag.kernels.plane.records import NO_STEP, Phases
from qsim.tridiag.kernels.plane.steps_cpu import PANEL, QUARTER, marginals, scratch, step_pass
from qsim.tridiag.tdse.step_search import STAGES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.tridiag.kernels.plane.records import Filter
    from qsim.tridiag.plane.lattice import PlaneLattice

__all__ = ["Pass", "PlanePropagator", "shares", "stage_times"]

NONE, NO_TWIST = np.zeros(0), np.zeros((2, 0))


def shares(order: int, *, turns: bool = False) -> tuple[float, ...]:
    """Return the lengths of the stages of a step in units of it.

    Where the kinetic energies do not commute (`turns`), a stage is two halves, one the mirror image of the other.
    """
    return tuple(0.5 * one for one in STAGES[order] for _ in range(2)) if turns else STAGES[order]


def stage_times(
    steps: int, dt: float, order: int, *, turns: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return midpoints and lengths of the stages of some steps, (steps stages,) each, a.u."""
    lengths = np.array(shares(order, turns=turns)) * dt
    places = np.cumsum(lengths) - 0.5 * lengths
    return (np.arange(steps)[:, None] * dt + places).ravel(), np.tile(lengths, steps)


class Pass(NamedTuple):
    """A pass along an axis between two stages of some lengths, 0 for none, a.u.

    Attributes
    ----------
    axis : int
    before, after : float
    decay : float
        Time for which the absorber acts.
    twisted : bool
        Whether the state comes from the gauge of the other axis.
    """

    axis: int
    before: float
    after: float
    decay: float
    twisted: bool = False

    @property
    def length(self) -> float:
        """Time for which the potential acts."""
        return 0.5 * (self.before + self.after)


class PlanePropagator:
    """A wave function of two coordinates that goes on in steps.

    Parameters
    ----------
    lattice : PlaneLattice
    psi : (n1, n2) complex128
    dt : float
        Time step, a.u.
    order : int
        2 or 4.
    actions : (2, steps stages) float64
        Energy per length that the field gives either coordinate, times the length of the stage, at every stage of the run.
    inside : pair of (n,) float64
        Shares of the points that lie inside.
    threads : int

    Attributes
    ----------
    step : int
        Steps done.
    lost : (2,) float64
        What the absorber has taken where one coordinate was inside, and where none was.
    """

    def __init__(
        self,
        lattice: PlaneLattice,
        psi: NDArray[np.complex128],
        dt: float,
        order: int,
        actions: NDArray[np.float64],
        inside: tuple[NDArray[np.float64], NDArray[np.float64]],
        threads: int = 1,
    ) -> None:
        self.lattice, self.dt, self.actions, self.threads = lattice, dt, actions, threads
        self.shape = lattice.shape
        self.stages = shares(order, turns=lattice.turns)
        self.step, self.lost = 0, np.zeros(2)
        self.inside = inside
        self._filters: dict[tuple[int, float], Filter] = {}
        self._tables: dict[tuple[int, float], tuple[NDArray[np.float64], int, int]] = {}
        self._twists: dict[int, NDArray[np.float64]] = {}
        self._turns: dict[float, Array] = {}
        self._static: dict[tuple[int, float, float], NDArray[np.complex128]] = {}
        self.full = tuple(-(-n // PANEL) * PANEL for n in self.shape)
        self._allocate()
        self.psi = psi

    def _allocate(self) -> None:
        """Make room for the state, and for what the passes take."""
        # rows some lines of the cache longer than a power of two: their sets would collide
        self.s = np.zeros((self.full[0], 2, self.full[1] + PANEL))
        self._work = scratch(self.threads, max(self.shape) + QUARTER)
        self._edges = tuple(
            np.pad(one, (0, wide - one.size)) for one, wide in zip(self.inside, self.full, strict=True)
        )

    @property
    def field(self) -> Array:
        """The state (n1, n2) where it is computed; on a GPU a view that the next steps change."""
        return self.psi

    def resident(self, array: NDArray[Any]) -> Array:
        """Return an array that stays the same for the run where the state is."""
        return array

    @property
    def psi(self) -> NDArray[np.complex128]:
        """The state (n1, n2)."""
        n, m = self.shape
        return np.asarray(self.s[:n, 0, :m] + 1j * self.s[:n, 1, :m])

    @psi.setter
    def psi(self, psi: NDArray[np.complex128]) -> None:
        n, m = self.shape
        self.s[:n, 0, :m], self.s[:n, 1, :m] = psi.real, psi.imag

    def advance(self, steps: int) -> None:
        """Make some steps."""
        stages = len(self.stages)
        first, count = self.step * stages, steps * stages
        lengths = [0.0, *(np.tile(self.stages, steps) * self.dt).tolist(), 0.0]
        kicks = np.pad(self.actions[:, first : first + count], ((0, 0), (1, 1)))
        passes = []
        for k in range(count + 1):
            # the absorber acts between steps, half of it at either end of the call
            halves = (k > 0) + (k < count) if k % stages == 0 else 0
            twisted = self.lattice.turns and k > 0
            passes.append(Pass((first + k) % 2, lengths[k], lengths[k + 1], 0.5 * halves * self.dt, twisted))
        self._turn(passes[0].axis, enter=True)
        self._go(passes, 0.5 * (kicks[:, :-1] + kicks[:, 1:]))
        self._turn(passes[-1].axis, enter=False)
        self.step += steps

    def _turn(self, axis: int, *, enter: bool) -> None:
        """Change the state to the gauge of an axis, or back."""
        if self.lattice.turns:
            one = self.lattice.gauge[axis] if axis == 0 else -self.lattice.gauge[axis]
            self._multiply(one if enter else -one)

    def _multiply(self, factor: float) -> None:
        """Multiply the state by ``exp(i factor x y)``."""
        if factor not in self._turns:
            self._turns[factor] = self.lattice.phases(factor)
        self.psi = self.psi * self._turns[factor]

    def _twist(self, axis: int) -> float:
        """Return the factor of ``i x y`` between the gauge of the other axis and that of an axis."""
        return sum(self.lattice.gauge) * (1.0 if axis == 0 else -1.0)

    def _go(self, passes: list[Pass], actions: NDArray[np.float64]) -> None:
        """Make passes, between which the field gives either coordinate momenta (2, passes)."""
        for k, one in enumerate(passes):
            self._pass(one, actions[:, k])

    def _pass(self, one: Pass, action: NDArray[np.float64]) -> None:
        """Make one pass."""
        axis, length, decay = one.axis, one.length, one.decay
        before, after = (self._filter(axis, t) if t else NO_STEP for t in (one.before, one.after))
        table, origin, stride = self._table(axis, length)
        other = 1 - axis
        absorbs = decay > 0.0 and self.lattice.absorbs
        line = self._factor(axis, length, decay, float(action[axis]))
        across = self._factor(other, length, decay, float(action[other]))
        panels = self.full[other] // PANEL
        lost = np.zeros((panels, 2))
        pad = (0, self.full[other] - self.shape[other])
        kept = [np.exp(-2.0 * decay * self.lattice.absorber[k]) if absorbs else NONE for k in (axis, other)]
        phases = Phases(
            table,
            origin,
            stride,
            np.array([line.real, line.imag]),
            np.pad(np.array([across.real, across.imag]), ((0, 0), pad)),
            self.inside[axis],
            self._edges[other],
            kept[0],
            np.pad(kept[1], pad, constant_values=1.0) if absorbs else NONE,
            length * self.lattice.nonlinear,
            self._twist_table(axis) if one.twisted else NO_TWIST,
        )
        step_pass(self.s, axis, before, after, phases, lost, self._work)
        self.lost += lost.sum(axis=0) * self.lattice.cell

    def _filter(self, axis: int, length: float) -> Filter:
        key = (axis, length)
        if key not in self._filters:
            self._filters[key] = self.lattice.axes[axis].step(length)
        return self._filters[key]

    def _factor(self, axis: int, length: float, decay: float, action: float) -> NDArray[np.complex128]:
        """Return the factors of one coordinate: its potential, the field and the absorber, (n,)."""
        key = (axis, length, decay)
        if key not in self._static:
            v = (self.lattice.first, self.lattice.second)[axis]
            self._static[key] = np.exp(-1j * length * v - decay * self.lattice.absorber[axis])
        static = self._static[key]
        return static if action == 0.0 else static * np.exp(-1j * action * self.lattice.axes[axis].x)

    def _table(self, axis: int, length: float) -> tuple[NDArray[np.float64], int, int]:
        """Return the factors of both coordinates as the kernels read them: table, place of the first point, stride."""
        key = (axis, length)
        if key not in self._tables:
            self._tables[key] = self._made_table(axis, length)
        return self._tables[key]

    def _twist_table(self, axis: int) -> NDArray[np.float64]:
        """Return the factors between both gauges as the kernels read them, (2, points lines)."""
        if axis not in self._twists:
            found = self.lattice.phases(self._twist(axis))
            wide = self.full[1 - axis] - self.shape[1 - axis]
            self._twists[axis] = _parts(np.pad(found if axis == 0 else found.T, ((0, 0), (0, wide))).ravel())
        return self._twists[axis]

    def _made_table(self, axis: int, length: float) -> tuple[NDArray[np.float64], int, int]:
        lattice, lines = self.lattice, self.full[1 - axis]
        if lattice.table is not None:
            v = lattice.table if axis == 0 else lattice.table.T
            wide = np.pad(v, ((0, 0), (0, lines - v.shape[1])))
            return _parts(np.exp(-1j * length * wide).ravel()), 0, lines
        if lattice.between is None:
            return _parts(np.ones(lines, complex)), 0, 0
        # a function of x - y: neighbouring lines are neighbours in it, along a line it runs the other way
        v = lattice.between[::-1] if axis == 0 else lattice.between
        wide = np.pad(v, (0, PANEL))
        return _parts(np.exp(-1j * length * wide)), lattice.axes[axis].points - 1, -1

    def marginals(
        self, tables: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the density of either coordinate times the area of a cell: (n1, 2) with its share inside, and (n2,).

        The third are the means of tables (k, n1, n2).
        """
        found = marginals(
            self.s, *self.shape, self.inside[1], tables.reshape(len(tables), *self.shape), self.threads
        )
        along, across, weighted = (one * self.lattice.cell for one in found)
        return along, across, weighted


def _parts(factors: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return real and imaginary parts (2, n) of factors (n,)."""
    return np.array([factors.real, factors.imag])
