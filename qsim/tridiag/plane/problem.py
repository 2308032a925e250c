"""Problem of ``task: plane``: lattice, field, state, and what is recorded of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.core.deck.table_units import doubted
from qsim.tridiag.plane import systems
from qsim.tridiag.plane.cuda import CudaPlanePropagator
from qsim.tridiag.plane.lattice import share_inside
from qsim.tridiag.plane.propagator import PlanePropagator, stage_times
from qsim.tridiag.plane.sine_waves import SinePropagator
from qsim.tridiag.tdse import absorbers
from qsim.tridiag.tdse.harmonics import sampling
from qsim.tridiag.tdse.motion import Motion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.tridiag.deck.electron import Absorber
    from qsim.tridiag.deck.plane import PlaneInitial, PlaneObserved
    from qsim.tridiag.deck.planes import PlaneSystem
    from qsim.tridiag.plane.lattice import Axis, PlaneLattice
    from qsim.tridiag.plane.levels import Levels
    from qsim.tridiag.tdse.motion import Geometry
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = ["PlaneProblem", "radius_of", "sample_interval"]

# bohr, of the regions where the deck leaves it open
RADIUS = 10.0
# of a run without spectra: each sample closes a step, which costs one pass more
TRACE_SAMPLES = 400


@dataclass
class PlaneProblem(Motion):
    """Everything that a run needs.

    Attributes
    ----------
    geometry : Geometry
        Two coordinates.
    system, initial, absorber
        Blocks that give potentials, state and absorber on other lattices, for the companions of the run.
    lattice : PlaneLattice
    levels : Levels or None
        The lowest levels: those of the initial state and of the populations.
    psi0 : (n1, n2) complex128
        Normalised state at t = 0.
    pulse : LaserField
        The field; zero without a laser.
    dt, steps
        Time step, a.u., and number of steps.
    mask_dt : float
        Step of the run of the deck, a.u., after which a mask acts.
    order : int
        Of the steps, 2 or 4.
    outputs : int
        Number of output times after t = 0.
    verify : "auto" or bool
        Whether errors are claimed.
    accuracy : float or None
        Error that the steps may leave in norms and populations, if the run finds their length.
    observed : PlaneObserved
    radius : float
        Of the regions, bohr.
    angle : float
        Of the first component of a field in a plane with x.
    ip : float or None
        Energy that takes one electron from the ground state, hartree; None where it is not bound, or there is no laser.
    every : int
        Steps between two samples of the trace.
    sine : bool
        Whether free motion is exact, by sine waves: of a companion.
    notices : list of str
        What the deck left open and how it was settled.
    """

    geometry: Geometry[Any, Any]
    device: Device
    system: PlaneSystem
    initial: PlaneInitial
    absorber: Absorber
    lattice: PlaneLattice
    levels: Levels | None
    psi0: NDArray[np.complex128]
    pulse: LaserField
    dt: float
    steps: int
    mask_dt: float
    order: int
    outputs: int
    verify: Literal["auto"] | bool
    accuracy: float | None
    observed: PlaneObserved
    radius: float
    ip: float | None
    angle: float = 0.0
    every: int = 1
    sine: bool = False
    notices: list[str] = field(default_factory=list)

    @property
    def step_order(self) -> int:
        """Order of the errors that the steps leave."""
        return self.order

    @property
    def spectra(self) -> tuple[()]:
        """Photoelectron spectra: none."""
        return ()

    # surfaces of t-SURFF
    spheres = ()

    @property
    def map_frames(self) -> NDArray[np.int64]:
        """Those of the output times at which maps are stored."""
        frames = self.frames
        count = min(self.observed.density.maps, frames.size)
        if count == 1:
            return frames[-1:]
        return frames[np.unique(np.round(np.linspace(0, frames.size - 1, count)).astype(int))]

    @property
    def strides(self) -> tuple[int, int]:
        """Points from one stored point of a map to the next, along both axes."""
        most = self.observed.density.points
        first, second = (max(1, -(-n // most)) for n in self.lattice.shape)
        return first, second

    @cached_property
    def couplings(self) -> NDArray[np.float64]:
        """Factors of both coordinates in each component of the dipole, (1 or 2, 2)."""
        return systems.couplings(self.system, self.angle)

    @cached_property
    def response(self) -> NDArray[np.float64]:
        """Acceleration of each component of the dipole by each component of -E, (d, d): the squares of charges over masses."""
        return np.asarray(self.couplings @ (self.couplings / self.system.weights).T)

    @cached_property
    def forces(self) -> list[systems.Pull]:
        """The mean of each is that of minus the acceleration of a component of the dipole, without the field."""
        return systems.pulls(self.system, self.lattice.axes, self.couplings / self.system.weights)

    @cached_property
    def force_tables(self) -> NDArray[np.float64]:
        """Tables of both coordinates among the forces, (0 or d, n1, n2): each component has one, or none has."""
        return np.array([one.table for one in self.forces if one.table is not None])

    @cached_property
    def inside(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shares of the points that lie within the radius."""
        return self.shares(((-self.radius, self.radius),) * 2)

    def shares(
        self, ends: tuple[tuple[float, float], tuple[float, float]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the shares of the points of both coordinates that lie between two ends each."""
        first, second = (share_inside(one, *pair) for one, pair in zip(self.lattice.axes, ends, strict=True))
        return first, second

    @property
    def parts(self) -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
        """Lowest and highest values of both coordinates in the parts of the grid whose norms the deck wants, by their scalars."""
        found = {f"norm_within_{r:g}": ((-r, r), (-r, r)) for r in self.observed.norm_within}
        if (ker := self.observed.ker) is not None:
            found["dissociation"] = ((ker.R, math.inf), (-math.inf, math.inf))
        boxes = {
            f"norm_in_{name}": box.ends(self.system.coordinates) for name, box in self.observed.boxes.items()
        }
        return found | boxes

    @cached_property
    def part_shares(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Shares of the points of both coordinates that lie in each of `parts`."""
        return [self.shares(ends) for ends in self.parts.values()]

    def propagator(self, psi: NDArray[np.complex128], step: int) -> PlanePropagator:
        """Return the propagator at a state and a step."""
        middle, lengths = stage_times(self.steps, self.dt, self.order, turns=self.lattice.turns)
        fields = np.zeros((len(self.components), middle.size))
        # stages of one length at a time: a mean over a stage is taken where its midpoint misses the field
        for length in np.unique(lengths) if self.pulse.pulses else ():
            own = lengths == length
            fields[:, own] = [one.over(middle[own], float(length)) for one in self.components]
        actions = self.couplings.T @ fields * lengths
        common = (self.lattice, psi, self.dt, self.order, actions, self.inside)
        if self.device.is_cuda and not self.sine:
            made: PlanePropagator = CudaPlanePropagator(*common, self.device)
        else:
            made = (SinePropagator if self.sine else PlanePropagator)(*common, self.device.threads)
        made.step = step
        return made

    def doubted(self) -> PlaneProblem | None:
        """Return the problem with other curves that the rows of its tables allow; None without such tables."""
        system, pulse = self.system, self.pulse.doubted()
        blocks = {name: doubted(getattr(system, name)) for name in type(system).model_fields}
        given = {name: block for name, block in blocks.items() if block is not None}
        if not given and pulse is None:
            return None
        return replace(self, system=system.model_copy(update=given), pulse=pulse or self.pulse)

    def on(self, axes: tuple[Axis, Axis], steps: int) -> PlaneProblem:
        """Return the problem on other points and with other steps; its state and levels belong to that lattice."""
        lattice = systems.lattice_of(self.system, axes, self.absorber, self.mask_dt)
        count = 0 if self.levels is None else self.levels.energies.size
        levels = systems.found_levels(lattice, count) if count else None
        return replace(
            self,
            lattice=lattice,
            levels=levels,
            psi0=systems.initial_state(self.initial, self.system, lattice, levels),
            ip=None if self.ip is None else systems.ionisation_potential(self.system, lattice, levels),
            steps=steps,
            dt=self.t_final / steps,
            every=max(1, round(self.every * steps / self.steps)),
        )

    def with_steps(self, steps: int) -> PlaneProblem:
        """Return the problem with another number of steps."""
        made = replace(self, steps=steps, dt=self.t_final / steps)
        return replace(made, every=sample_interval(made))


def radius_of(problem_radius: float | str, axes: tuple[Axis, Axis], absorber: Absorber) -> float:
    """Return the radius of the regions: as given, or `RADIUS` if the absorber leaves so much."""
    if not isinstance(problem_radius, str):
        return problem_radius
    room = min(min(abs(one.low), abs(one.high)) for one in axes) - absorbers.width(absorber)
    return min(RADIUS, 0.5 * room) if room > 0.0 else RADIUS


def sample_interval(problem: PlaneProblem) -> int:
    """Return the steps between samples of the trace: enough for the highest harmonic, else for a smooth curve."""
    interval = sampling(problem, problem.dt)
    return max(1, -(-problem.steps // TRACE_SAMPLES)) if interval is None else min(problem.steps, interval)
