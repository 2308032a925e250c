"""Problem of ``task: propagate``: walls, lattice, field, state, and what is recorded of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.core.deck.table_units import doubted
from qsim.core.errors import InvalidInput
from qsim.tridiag.deck.photoelectrons import LineWindow
from qsim.tridiag.propagate.lattice import Lattice, equidistant
from qsim.tridiag.tdse.harmonics import sampling
from qsim.tridiag.tdse.motion import Motion
from qsim.tridiag.tdse.photoelectrons import flux_interval
from qsim.tridiag.tdse.pulses import LaserField

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.tridiag.checks import Blame
    from qsim.tridiag.deck.electron import Absorber, Initial
    from qsim.tridiag.deck.model import (
        Observed,
        Photoelectron,
        Precision,
        Solver,
    )
    from qsim.tridiag.deck.potentials import Potential
    from qsim.tridiag.propagate.stepping.composition import Composed
    from qsim.tridiag.propagate.stepping.propagator import Propagator, Stepping
    from qsim.tridiag.propagate.stepping.reference import SolverPropagator
    from qsim.tridiag.tdse.motion import Geometry

    AnyPropagator = Propagator | SolverPropagator | Composed

__all__ = [
    "DENSITY_POINTS",
    "LEAST",
    "PIECE",
    "Box",
    "Propagation",
    "pieces_of",
    "sample_interval",
]

# of a run without spectra
TRACE_SAMPLES = 20_000
# of the density map, where the deck leaves them open
DENSITY_POINTS = 400
# grid points of a process at least: observables need some points of the neighbours beside its own
LEAST = 64
# points times steps of one call: about half a second
PIECE = {"cpu": 5e7, "cuda": 2e10}


@dataclass(frozen=True)
class Box:
    """The walls of a propagation, and what the results file holds there; psi is zero.

    Attributes
    ----------
    xmin, xmax : float
        Positions of the walls, bohr.
    potential : (2,) float64
        V at the walls, hartree.
    cap, mask : (2,) float64 or None
        The absorber at the walls.
    """

    xmin: float
    xmax: float
    potential: NDArray[np.float64]
    cap: NDArray[np.float64] | None = None
    mask: NDArray[np.float64] | None = None


@dataclass
class Propagation(Motion):
    """Everything that a propagation needs; arrays of the host, of the points between the walls.

    Fields of every motion are those of :class:`qsim.tridiag.tdse.motion.Motion`.

    Attributes
    ----------
    box : Box
        The walls.
    lattice : Lattice
    psi0 : (n,) complex128
        Normalised state at t = 0.
    energies : (levels,) float64 or None
        Eigenvalues that observables need.
    states : (levels, m) float64 or None
        The eigenstates, sum phi^2 dx = 1, on the part of the grid that starts at point `window`.
    levels, bound : int
        Levels whose populations are recorded, and levels of the box below `free`; 0 where no ionisation is recorded.
    free : float or None
        Threshold, hartree, if ionisation is recorded.
    ip : float or None
        Ionisation potential, hartree; None where there is no bound state, or no laser to ionise it.
    potential, initial, absorber
        Blocks that give V, psi0 and W on other grids, for the companions of the run.
    solver, precision
        How a step is computed.
    observed : Observed
        What is recorded.
    spectra, spheres : list
        Blocks of photoelectron spectra, and the places where the flux is recorded.
    step_key : str
        Key of the deck that sets the step, ``"time.dt"`` or ``"time.steps"``.
    blame : Blame
        Raises a mistake at its key.
    """

    geometry: Geometry[Any, Any]
    device: Device
    box: Box
    lattice: Lattice
    psi0: NDArray[np.complex128]
    dt: float
    steps: int
    pulse: LaserField
    energies: NDArray[np.float64] | None
    states: NDArray[np.float64] | None
    window: int
    levels: int
    bound: int
    free: float | None
    ip: float | None
    potential: Potential
    initial: Initial
    absorber: Absorber
    solver: Solver
    precision: Precision
    observed: Observed
    outputs: int
    verify: Literal["auto"] | bool
    order: int
    accuracy: float | None
    step_key: str
    blame: Blame
    spectra: list[Any] = field(default_factory=list)
    spheres: list[Any] = field(default_factory=list)
    every: int = 1
    notices: list[str] = field(default_factory=list)

    def doubted(self) -> Propagation | None:
        """Return the problem with other curves that the rows of its tables allow; None without such tables."""
        potential = doubted(self.potential)
        pulse = self.pulse.doubted()
        if potential is None and pulse is None:
            return None
        return replace(self, potential=potential or self.potential, pulse=pulse or self.pulse)

    # ------------------------------------------------------------------------------------ the field

    def in_velocity_gauge(self) -> Propagation:
        """Return the problem in velocity gauge."""
        return replace(self, pulse=self.pulse.in_velocity_gauge())

    @property
    def step_order(self) -> int:
        """Order of the errors that the steps leave."""
        return self.order

    def with_steps(self, steps: int) -> Propagation:
        """Return the problem with another number of steps."""
        made = replace(self, steps=steps, dt=self.t_final / steps)
        return replace(made, every=sample_interval(made))

    def photoelectron_energies(self, block: Photoelectron | LineWindow) -> NDArray[np.float64]:
        """Return the energies of the photoelectron spectrum, hartree."""
        given = block.energy if isinstance(block, LineWindow) else block.energies
        if given is not None:
            low, high = given
        else:
            # from below the ground state, whose line normalises the picture, to the rescattering cutoff 10 Up
            # and a margin
            low, high = min(-1.2 * (self.ip or 0.0), -0.05), 10.0 * self.pulse.up + 0.5
        return np.linspace(low, high, block.points)

    # --------------------------------------------------------------------------------- the sequence

    def schedule(self, start: int) -> Iterator[tuple[int, Iterator[tuple[int, int]]]]:
        """Yield each output step after `start` with the calls (steps, every) that lead there."""
        # calls that take about half a second, of whole intervals of the trace where these are shorter
        # that end at every sample where the flux is taken
        largest = max(int(PIECE[self.device.kind] / self.lattice.points), 1)
        largest = self.every if self.spheres else largest
        at = start
        for target in self.frames:
            if target > start:
                yield int(target), pieces_of(at, int(target), self.every, largest)
                at = int(target)

    def fields(
        self, share: float = 1.0, places: Sequence[float] = (0.5,)
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return E and A of every stage: E in length gauge, A in velocity gauge; None for the other or no laser.

        Parameters
        ----------
        share
            Length of a stage in steps.
        places
            Midpoints of the stages in a step.
        """
        middle = ((np.arange(self.steps)[:, None] + np.array(places)) * self.dt).ravel()
        if self.velocity:
            return None, self.pulse.over(middle, share * self.dt, potential=True)
        return (self.pulse.over(middle, share * self.dt) if self.pulse.pulses else None), None

    def propagator(
        self,
        psi0: NDArray[np.complex128],
        start: int,
        links: Links | None = None,
        how: Stepping | None = None,
    ) -> AnyPropagator:
        """Return the propagator of the deck at a state and a step.

        Parameters
        ----------
        psi0 : (n,) complex
            State, of all points between the walls.
        start
            Steps done before.
        links
            To other processes that carry parts of the grid, if there are any.
        how
            Options of the partition method, in place of the solver of the deck.

        Raises
        ------
        DeckError
            If the chunks of ``mode: local`` do not work for this step and spacing.
        """
        from qsim.tridiag.propagate.stepping.composition import Composed
        from qsim.tridiag.propagate.stepping.propagator import Propagator, Stepping

        solver = self.solver
        kind = solver.type if how is None else "nshape"
        options = how or Stepping(
            self.precision, solver.blocks, solver.iterations, solver.mode, self.lattice.slope is not None
        )

        # one process: the partition method or a chosen solver; several: parts of the grid with a halo
        def make(lattice: Lattice, share: float, places: tuple[float, ...], options: Stepping) -> Any:
            begin, fields = (self.device, lattice, psi0, share * self.dt), self.fields(share, places)
            if links is not None and links.size > 1:
                from qsim.tridiag.propagate.stepping.shared import SharedPropagator

                return SharedPropagator(*begin, fields, links, options)
            if kind == "nshape":
                return Propagator(*begin, *fields, options)
            from qsim.tridiag.propagate.stepping.reference import SolverPropagator

            return SolverPropagator(*begin, *fields, options, kind)

        try:
            made: AnyPropagator = (
                make(self.lattice, 1.0, (0.5,), options)
                if self.order == 2
                else Composed(make, self.lattice, self.dt, options)
            )
        except InvalidInput as error:
            self.blame(error.key, str(error))
        made.step = start
        return made

    # ------------------------------------------------------------------------------- what is stored

    @property
    def x(self) -> NDArray[np.float64]:
        """Grid points with the walls (points + 2,), bohr."""
        return equidistant(self.box.xmin, self.lattice.dx, self.lattice.points + 2)

    def with_walls(self, name: str) -> NDArray[np.float64] | None:
        """Return an array of the lattice (``potential``, ``cap`` or ``mask``) at all grid points, (points + 2,)."""
        inside, walls = getattr(self.lattice, name), getattr(self.box, name)
        return None if inside is None else np.concatenate([walls[:1], inside, walls[1:]])

    @property
    def columns(self) -> range:
        """Grid points of the density map, counted with the walls."""
        block, n = self.observed.density, self.lattice.points + 2
        first, last = 0, n
        if block is not None and block.range is not None:
            x, half = self.x, 0.5 * self.lattice.dx
            # half a spacing beyond each end, so that rounding does not drop the points on the ends
            first, last = (int(np.searchsorted(x, v)) for v in (block.range[0] - half, block.range[1] + half))
        most = block.points if block is not None else DENSITY_POINTS
        # every stride-th point, so that at most that many columns are stored
        stride = max(1, -(-(last - first) // most))
        return range(first, last, stride)

    @property
    def x_of_columns(self) -> NDArray[np.float64]:
        """Grid points of the density map, bohr."""
        return self.box.xmin + self.lattice.dx * np.asarray(self.columns, dtype=float)


def pieces_of(start: int, target: int, every: int, largest: int) -> Iterator[tuple[int, int]]:
    """Yield calls (steps, every) from one step number to another, of at most `largest`; each multiple of `every` is sampled.

    The last sample of a call belongs to its end, wherever that is.
    """
    step = start
    while step < target:
        # first the way to the next multiple of `every`, then whole intervals, then the rest
        offset = (every - step % every) % every
        if not offset and min(target - step, largest) >= every:
            count = min(target - step, largest) // every * every
            yield count, every
        else:
            # also where one interval takes too long
            count = min(offset or every, target - step, largest)
            yield count, count
        step += count


def sample_interval(problem: Propagation) -> int:
    """Return the steps between samples of the trace: enough for the highest harmonic, else for a smooth curve."""
    # a run that is shorter than that has its end as a sample beside its begin
    interval = sampling(problem, problem.dt)
    most = max(1, -(-problem.steps // TRACE_SAMPLES)) if interval is None else min(problem.steps, interval)
    return flux_interval(problem.spectra, problem.steps, problem.dt, most)
