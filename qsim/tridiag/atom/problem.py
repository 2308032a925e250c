"""Problem of ``task: atom``: grid, atom, state, field and steps, settled from the deck."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.tridiag.atom.evolution.cuda import CudaBatch, CudaMember, Stepping
from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator
from qsim.tridiag.atom.polarization import StepField, frame_of
from qsim.tridiag.atom.states import stored
from qsim.tridiag.atom.states.grid import RadialGrid, mapped, uniform
from qsim.tridiag.atom.states.lanes import Lanes
from qsim.tridiag.atom.states.observables import LevelState, level_states
from qsim.tridiag.deck.atom import RadialMap
from qsim.tridiag.deck.photoelectrons import TsurffSpectrum
from qsim.tridiag.kernels.atom.cuda_tables import MOST_LANES
from qsim.tridiag.kernels.atom.sharing import Sharing
from qsim.tridiag.kernels.simd import WIDTH
from qsim.tridiag.tdse import absorbers
from qsim.tridiag.tdse.harmonics import sampling
from qsim.tridiag.tdse.motion import Motion
from qsim.tridiag.tdse.photoelectrons import flux_interval
from qsim.tridiag.tdse.step_search import longest_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.tridiag.atom.evolution.cuda import AnyPropagator
    from qsim.tridiag.atom.photoelectrons.surface import Sphere
    from qsim.tridiag.atom.polarization import Frame
    from qsim.tridiag.atom.resonance.complex_scaling import Wanted
    from qsim.tridiag.atom.states.lanes import AnyLanes
    from qsim.tridiag.deck.atom import AtomDeck, AtomObserved
    from qsim.tridiag.deck.initial import FormulaState, StoredState
    from qsim.tridiag.deck.photoelectrons import Spectrum
    from qsim.tridiag.tdse.motion import Geometry
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = [
    "AtomProblem",
    "Setting",
    "angular_estimate",
    "dense",
    "enough",
    "lattice_of",
    "sample_steps",
    "setting",
]

T = TypeVar("T")

# dr0 Z and width of the automatic map
DENSE = {"length": (0.0125, 60.0), "velocity": (0.05, 30.0)}
# of atoms up to neon, and beyond: the valence level to 1e-6
HEAVY = (0.01, 80.0), (0.005, 120.0)
# complex numbers from which threads share the steps: below, a step takes some tens of microseconds
SHARED = 10_000
GAUGES: tuple[Literal["length", "velocity"], ...] = ("length", "velocity")
# bohr: E0/w^2 above which velocity gauge needs fewer l
QUIVER = 5.0
# r E0 dt above which the split couplings of length gauge are poor
TURN = 0.5
# dt A (L + 1) / dr above which the split terms of velocity gauge do not cancel
CORE = 16.0
# bohr beyond what the fastest electrons cover
MARGIN = 60.0
# bohr between a sphere of t-SURFF and the absorber
BEFORE_ABSORBER = 10.0
# bohr before the wall in which nothing may be, of a box that grows
REACH = 20.0
# points beside these
WATCHED = 25
# of the fastest electrons, over the estimate: they cross REACH between two looks at most
SPEED = 2.0
# at the channels, per cycle of the fastest pulse
LOOKS = 8
# bohr, and as far again as the wall, from where a wave goes on without being sent back
BEYOND_WALL = 200.0
# norm of the initial state outside of the first box
BEYOND = 1e-16
# from which the core of high l is emptied
SAFE_CORE = 4.0
# samples of a run without spectra, at most
TRACE = 20_000


@dataclass(frozen=True)
class Setting:
    """Grid, steps and gauge, with everything settled that the deck leaves open.

    Attributes
    ----------
    gauge : {"length", "velocity"}
    rmax, dr, dr0, width : float
        Grid; ``dr0 = dr`` for equidistant points.
    lmax : int
        Largest l at the start.
    grows : bool
        Whether l may grow.
    dt : float
        Time step, a.u.
    steps : int
    core : float
        ``dt A (L + 1) / dr`` at the nucleus, in velocity gauge.
    begin : float
        Radius up to which points lie at t = 0, bohr, of a box that grows; `rmax` or more of one that does not.
    speed : float
        Momentum of the fastest electrons that a growing box must not miss, a.u.
    """

    gauge: Literal["length", "velocity"]
    rmax: float
    dr: float
    dr0: float
    width: float
    lmax: int
    grows: bool
    dt: float
    steps: int
    core: float
    begin: float = math.inf
    speed: float = 0.0

    @property
    def parts(self) -> int:
        """Equal parts that a step of velocity gauge is made in at a dense core; 0 where there is nothing to mend."""
        return math.ceil(self.core / CORE) if self.core > SAFE_CORE else 0

    def grid(self, coarser: float = 1.0) -> RadialGrid:
        """Return the radial grid, or one with all spacings larger by about a factor and the same wall."""
        if self.dr0 == self.dr:
            return uniform(self.rmax, self.dr, coarser)
        return mapped(self.rmax, self.dr, self.dr0, self.width, coarser)


@dataclass
class AtomProblem(Motion):
    """Everything that a run of ``task: atom`` needs.

    Fields of every motion are those of :class:`qsim.tridiag.tdse.motion.Motion`.

    Attributes
    ----------
    setting : Setting
    lattice : AtomLattice
    frame : Frame
        Axes of the run, and the state at t = 0 in them.
    start : list of LevelState
        The levels of the state at t = 0 on the grid; the channels of a state from a file.
    levels : list of LevelState
        Levels whose populations are taken.
    observed, spectra
        What is recorded, and what is analysed at the end.
    tail : float
        Charge that is seen from far away.
    make : function
        Lattice of another grid.
    other : function or None
        The same with another curve that the rows of the atom's table allow; None without a table.
    spheres : list of Sphere
        Where the flux is recorded.
    resonance : Wanted or None
        Which resonance in the static field is to be found.
    device : Device or None
        Where the steps are made; None is a CPU.
    threads : int
        CPU threads that may share the steps.
    stored : StoredState, FormulaState or None
        Block of the deck, of a state from a file or by formulas.
    """

    geometry: Geometry[Any, Any]
    setting: Setting
    lattice: AtomLattice
    pulse: LaserField
    frame: Frame
    start: list[LevelState]
    levels: list[LevelState]
    observed: AtomObserved
    spectra: list[Spectrum]
    outputs: int
    order: Literal[2, 4]
    verify: Literal["auto"] | bool
    absorber: Any
    tail: float
    make: Callable[[RadialGrid], AtomLattice]
    other: Callable[[RadialGrid], AtomLattice] | None = None
    spheres: list[Sphere] = field(default_factory=list)
    resonance: Wanted | None = None
    every: int = 1
    accuracy: float | None = None
    notices: list[str] = field(default_factory=list)
    device: Device | None = None
    threads: int = 1
    stored: StoredState | FormulaState | None = None

    def doubted(self) -> AtomProblem | None:
        """Return the problem with other curves that the rows of its tables allow; None without such tables."""
        pulse = self.pulse.doubted()
        if self.other is None and pulse is None:
            return None
        if self.other is None:
            return replace(self, pulse=pulse or self.pulse)
        lattice = self.other(self.lattice.grid)
        made = replace(self, pulse=pulse or self.pulse, make=self.other, lattice=lattice)
        wanted = [(one.n, one.l) for one in self.levels]
        return replace(made, start=made.start_on(lattice), levels=level_states(lattice, wanted))

    def __post_init__(self) -> None:
        """Take the steps from the setting."""
        self.steps, self.dt = self.setting.steps, self.setting.dt

    @property
    def step_order(self) -> int:
        """Order of the errors that the steps leave: a dense core spoils order 4 in velocity gauge."""
        return 2 if self.velocity else self.order

    def with_steps(self, steps: int) -> AtomProblem:
        """Return the problem with another number of steps, and as many samples of the trace as it had."""
        # proportional to dt, like the number of parts of a step that follows from it
        core = self.setting.core * self.steps / steps
        made = replace(self, setting=replace(self.setting, steps=steps, dt=self.t_final / steps, core=core))
        return replace(made, every=sample_steps(made))

    def in_velocity_gauge(self) -> AtomProblem:
        """Return the problem in velocity gauge."""
        old = self.setting
        core = old.dt * self.pulse.peak_vector_potential(self.t_final) * (old.lmax + 1) / old.dr0
        return replace(self, setting=replace(old, gauge="velocity", core=core))

    @property
    def velocity(self) -> bool:
        """True in velocity gauge."""
        return self.setting.gauge == "velocity"

    @property
    def first_points(self) -> int:
        """Points of the box at t = 0: all, unless it grows; they hold the initial state, and those that are watched."""
        r, setting = self.lattice.grid.r, self.setting
        if setting.begin >= setting.rmax:
            return r.size
        # the box must hold the initial state to rounding, and a margin in which electrons are seen before they
        # reach its wall
        weights = np.sum([np.abs(one.phi) ** 2 for one in self.start], axis=0)
        outside = np.cumsum(weights[::-1])[::-1]
        reach = int(np.flatnonzero(outside > BEYOND)[-1])
        return min(max(int(np.searchsorted(r, setting.begin)), reach) + self.watched, r.size)

    @property
    def watched(self) -> int:
        """Last points that are looked at before a box grows."""
        return WATCHED + math.ceil(REACH / self.setting.dr)

    @property
    def looks(self) -> NDArray[np.int64]:
        """Step numbers at which channels or box may grow, besides the output times."""
        setting = self.setting
        if not (setting.grows or setting.begin < setting.rmax):
            return np.zeros(0, dtype=np.int64)
        # a fast electron must not cross the watched margin, nor the field turn far, between two looks
        times = [REACH / max(setting.speed, 1.0)]
        if setting.grows and self.pulse.fastest:
            times.append(2.0 * math.pi / (LOOKS * self.pulse.fastest))
        every = max(1, int(min(times) / setting.dt))
        return np.arange(every, setting.steps, every)

    @cached_property
    def beyond(self) -> AtomLattice:
        """The atom on a grid that goes on beyond the wall, to where waves leave undisturbed, without an absorber."""
        grid = self.lattice.grid
        # as far again as the wall: the WKB start of the recurrence there needs a potential that has flattened
        further = self.make(grid.resized(grid.points + math.ceil((grid.wall + BEYOND_WALL) / grid.widest)))
        return replace(further, cap=None, mask=None)

    @property
    def ip(self) -> float:
        """Ionisation potential of the initial state, hartree."""
        return -min(one.energy for one in self.start)

    @property
    def on_cuda(self) -> bool:
        """True if the steps are made on a GPU."""
        return self.device is not None and self.device.is_cuda

    @property
    def most(self) -> int:
        """Largest l to which the channels may grow."""
        most = self.frame.most
        # a lane of every channel must fit in the shared memory of a block
        while self.on_cuda and 2 * self.frame.lanes(most).pairs > MOST_LANES:
            most -= 1
        return most

    def kick3(self, t: float) -> NDArray[np.float64]:
        """Return `kick` along x, y and z of the run, (3,)."""
        kick = self.kick(t)
        return np.array([*kick, 0.0]) if self.frame.planar else np.array([0.0, 0.0, *kick])

    def state(self, lattice: AtomLattice, lanes: AnyLanes) -> NDArray[np.complex128]:
        """Return the state at t = 0, (used, n): normalised, unless it is from a file."""
        phi = np.zeros((lanes.used, lattice.grid.points), dtype=complex)
        start = self.start if lattice is self.lattice else self.start_on(lattice)
        # channels by (l, m)
        lane = {pair: k for k, pair in enumerate(zip(lanes.ls.tolist(), lanes.ms.tolist(), strict=True))}
        for index, m, amplitude in self.frame.parts:
            one = start[index]
            # a file may hold traces of higher l
            if (one.l, m) in lane:
                phi[lane[one.l, m]] += amplitude * one.phi
        return phi if self.stored is not None else phi / np.sqrt(np.sum(np.abs(phi) ** 2))

    def start_on(self, lattice: AtomLattice) -> list[LevelState]:
        """Return `start` on another lattice.

        Raises
        ------
        NumericsError
            If the box does not hold one of the levels.
        """
        if self.stored is not None:
            return stored.stored_states(lattice, self.stored)
        return level_states(lattice, [(one.n, one.l) for one in self.start])

    def field(self) -> StepField:
        """Return A(t) in velocity gauge, E(t) in length gauge: function of an array of times, of (2, times) in a plane."""
        return StepField(self.components, self.velocity, self.frame.planar, self.t_final)

    def propagator(
        self, lattice: AtomLattice, lmax: int, phi: NDArray[np.complex128] | None, dt: float
    ) -> AnyPropagator:
        """Return a propagator at t = 0, or with the given state; `lattice` may hold the first points only."""
        lanes = self.frame.lanes(lmax)
        made = self.state(self.lattice, lanes)[:, : lattice.grid.points] if phi is None else phi
        if self.device is not None and self.on_cuda:
            how = Stepping(dt, self.velocity, self.order, self.setting.parts)
            return CudaMember(CudaBatch(self.device, lattice, lanes, [made], [self.field()], how))
        # threads that write to different lanes must not write to one line of the cache
        threads = self.threads if 2 * lanes.pairs * lattice.grid.points >= SHARED else 1
        run = Propagator(
            lattice,
            replace(lanes, width=WIDTH) if threads > 1 and isinstance(lanes, Lanes) else lanes,
            made,
            dt,
            velocity=self.velocity,
            field=self.field(),
            order=self.order,
            parts=self.setting.parts,
        )
        # in length gauge lanes and rows are shared one after the other, in velocity gauge pairs
        run.sharing = Sharing(threads, lanes.pairs if self.velocity else 4 * lanes.pairs)
        return run


def sample_steps(problem: AtomProblem) -> int:
    """Return the steps between samples of the trace."""
    steps, dt = problem.steps, problem.dt
    # without harmonics at least 400 samples, or a quarter of the steps; TRACE at most
    most = sampling(problem, dt) or max(1, -(-steps // min(TRACE, max(400, steps // 4))))
    return flux_interval(problem.spectra, steps, dt, most)


def setting(deck: AtomDeck, pulse: LaserField) -> Setting:
    """Settle grid, gauge and steps of a deck.

    Raises
    ------
    InvalidInput
        If the duration is left open but the field does not end.
    """
    end = pulse.end_of_run(deck.time.t_final)
    steps, dt = deck.time.resolve(end)
    # trial runs begin with a step that resolves the pulse, and go down from there
    if deck.time.accuracy is not None and dt > longest_step(pulse.fastest):
        steps = math.ceil(end / longest_step(pulse.fastest))
        dt = end / steps
    peak_e, peak_a = pulse.peak(end), pulse.peak_vector_potential(end)
    rmax = _radius(deck, pulse, end, peak_a) if isinstance(deck.grid.rmax, str) else deck.grid.rmax
    gauge = _gauge(deck, pulse, rmax, (peak_e, peak_a), dt)
    dr0, width = _map(deck, gauge)
    grows = isinstance(deck.grid.l_max, str)
    lmax = _momenta(deck, pulse, peak_a, gauge)
    if not grows and deck.stored is not None:
        stored.given(deck.stored).require_momenta(lmax)
    most = frame_of(deck).most
    if lmax > most:
        raise InvalidInput(
            "grid.l_max",
            f"l up to {most} fit a field that turns in a plane, with their (l + 1)^2 / 2 channels; found {lmax}",
        )
    # angle of the rotations at the first point: where it is large, the core of high l is emptied (velocity gauge)
    core = dt * peak_a * (lmax + 1) / dr0 if gauge == "velocity" else 0.0
    begin, speed = math.inf, 0.0
    # an automatic box without an absorber begins small and grows as fast as the fastest electron flies
    if isinstance(deck.grid.rmax, str) and deck.absorber.type == "none" and pulse.pulses:
        begin = min(_radius(deck, pulse, 0.0, peak_a), rmax)
        speed = SPEED * (_fastest(pulse) + peak_a)
    return Setting(gauge, rmax, deck.grid.dr, dr0, width, lmax, grows, dt, steps, core, begin, speed)


def _fastest(pulse: LaserField) -> float:
    """Return the momentum of an electron that has taken two photons, or half a hartree, a.u."""
    return math.sqrt(2.0 * max(pulse.fastest * 2.0, 0.5))


def enough(problem: AtomProblem) -> float:
    """Return a radius that holds the fastest electrons until the end of a run, bohr, beyond the wall that it has."""
    pulse, end = problem.pulse, problem.t_final
    far = MARGIN + (_fastest(pulse) + pulse.peak_vector_potential(end)) * end
    return max(far, 1.5 * problem.lattice.grid.wall)


def _initial_l(deck: AtomDeck) -> int:
    """Return the largest l of the initial state."""
    if deck.stored is not None:
        return stored.given(deck.stored).needed
    return max(level.l for level in deck.levels)


def _radius(deck: AtomDeck, pulse: LaserField, end: float, peak_a: float) -> float:
    """Return a radius: twice the excursion and the atom, what the fastest electron needs for a spectrum, the absorber."""
    # the box holds every level whose population is taken
    nmax = max([deck.observed.populations.nmax, *(level.n for level in deck.levels)])
    radius = max(
        40.0,
        # a level n ends at about 2 n^2 / Z; three times that holds its tail
        6.0 * nmax**2 / max(potential_value(deck, lambda block: block.tail), 1.0),
        2.0 * pulse.quiver + 30.0,
    )
    # the flux through a sphere before the absorber is taken as it passes; other spectra are of what the box holds at the end
    spheres = [one.radius for one in deck.spectra if isinstance(one, TsurffSpectrum)]
    if len(spheres) < len(deck.spectra) or deck.absorber.type == "none":
        radius = max(radius, MARGIN + (_fastest(pulse) + peak_a) * end)
    if deck.stored is not None:
        radius = max(radius, stored.given(deck.stored).extent)
    if spheres and deck.absorber.type != "none":
        radius = max(radius, max(spheres) + BEFORE_ABSORBER)
    return radius + absorbers.width(deck.absorber)


def _gauge(
    deck: AtomDeck, pulse: LaserField, rmax: float, peaks: tuple[float, float], dt: float
) -> Literal["length", "velocity"]:
    """Return the gauge that costs less: length for short excursions, and where the core is dense.

    Parameters
    ----------
    peaks : (float, float)
        Largest |E| and |A|, a.u.
    """
    if deck.laser is None:
        return "length"
    if deck.laser.gauge != "auto":
        return deck.laser.gauge
    turn = rmax * peaks[0] * dt
    if turn < TURN or (pulse.quiver < QUIVER and turn < 2.0 * TURN):
        return "length"
    costs = {gauge: _cost(deck, pulse, rmax, peaks, dt, gauge) for gauge in GAUGES}
    return min(GAUGES, key=lambda gauge: costs[gauge])


def _cost(
    deck: AtomDeck,
    pulse: LaserField,
    rmax: float,
    peaks: tuple[float, float],
    dt: float,
    gauge: Literal["length", "velocity"],
) -> float:
    """Return points times l times the parts that a step is made in.

    A step of velocity gauge has parts at a dense core; one of length gauge should be as many times shorter as ``r E dt`` at the
    wall is above `TURN`.
    """
    dr0, width = _map(deck, gauge)
    grid = uniform(rmax, deck.grid.dr) if dr0 == deck.grid.dr else mapped(rmax, deck.grid.dr, dr0, width)
    lmax = _momenta(deck, pulse, peaks[1], gauge)
    parts = max(1.0, rmax * peaks[0] * dt / TURN)
    if gauge == "velocity":
        core = dt * peaks[1] * (lmax + 1) / dr0
        parts = math.ceil(core / CORE) if core > SAFE_CORE else 1
    return float(grid.points) * (lmax + 1) * parts


def _momenta(deck: AtomDeck, pulse: LaserField, peak_a: float, gauge: Literal["length", "velocity"]) -> int:
    """Return the largest l of a deck, or that with which a run begins."""
    if not isinstance(deck.grid.l_max, str):
        return deck.grid.l_max
    lowest = _initial_l(deck)
    if not pulse.pulses:
        return lowest
    return max(lowest + (6 if deck.stored is None else 2), angular_estimate(pulse, peak_a, gauge))


def _map(deck: AtomDeck, gauge: Literal["length", "velocity"]) -> tuple[float, float]:
    """Return the spacing at the nucleus and the width of the map."""
    grid = deck.grid
    if isinstance(grid.map, RadialMap):
        return grid.map.dr0, grid.map.width
    # without a map the spacing is the same everywhere
    if grid.map == "none":
        return grid.dr, 1.0
    dr0, width = dense(potential_value(deck, lambda block: block.nucleus), gauge)
    return min(dr0, grid.dr), width


def dense(charge: float, gauge: Literal["length", "velocity"]) -> tuple[float, float]:
    """Return the spacing at a nucleus and the width of the automatic map."""
    # measured maps for nuclei beyond neon, and beyond hydrogen in length gauge; otherwise the map of hydrogen, scaled by Z
    if charge > 10.5:
        return HEAVY[1]
    if charge > 1.5 and gauge == "length":
        return HEAVY[0]
    dr0, width = DENSE[gauge]
    return dr0 / max(charge, 1.0), width


def angular_estimate(pulse: LaserField, peak_a: float, gauge: str) -> int:
    """Return the l to begin with: what a few photons and the momentum of the field at the edge of the atom need."""
    if gauge == "velocity":
        # l up to A r within 6 bohr of the nucleus; length gauge adds what A gives over the excursion of the electron
        return math.ceil(6.0 + 6.0 * peak_a)
    return math.ceil(6.0 + 0.7 * pulse.quiver * min(peak_a, 2.0))


def potential_value(deck: AtomDeck, quantity: Callable[[Any], T]) -> T:
    """Return a quantity of the potential of the deck.

    Raises
    ------
    InvalidInput
        With the whole key, where the block names its own.
    """
    try:
        return quantity(deck.atom)
    except InvalidInput as error:
        raise InvalidInput(f"atom.{error.key}", str(error)) from error


def lattice_of(deck: AtomDeck, atom: Any = None) -> Callable[[RadialGrid], AtomLattice]:
    """Return the function that puts the atom of a deck, or another one, on a grid."""
    if atom is not None:
        deck = deck.model_copy(update={"atom": atom})

    def make(grid: RadialGrid) -> AtomLattice:
        # radii have one wall: the strip at the other end of the box is put far below zero
        cap, mask = absorbers.evaluate(deck.absorber, grid.r, box=(-1e9, grid.wall, 0.0))
        values = potential_value(deck, lambda block: block.V(grid.r))
        slope = potential_value(deck, lambda block: block.dV(grid.r))
        return AtomLattice(grid, values, slope, potential_value(deck, lambda block: block.nucleus), cap, mask)

    return make
