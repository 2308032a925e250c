"""Result of ``task: atom`` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import NOT_VERIFIED
from qsim.tridiag.atom.quantities import NUMBERS, SPECTRA
from qsim.tridiag.deck.initial import level_name
from qsim.tridiag.tdse.integrals import running_integral
from qsim.tridiag.tdse.quantities import CUTOFF, FIELD, HARMONICS, KELDYSH, traces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.states.lanes import AnyLanes

__all__ = ["COMPARED", "QUANTITIES", "AtomResult", "unpacked"]

# numbers of a final state that are written
STORED = 20_000_000


@dataclass
class AtomResult:
    """Result of a run of ``task: atom``.

    Attributes
    ----------
    frames : dict of arrays, one row per output time
        norm, dipole, acceleration, velocity, populations, population_l, radial_density, norm_within, last, wall.
    trace : (samples, 5 or 7) float64
        Step number, norm, dipole, mean force, norm of the last l; in a plane, dipole and force have two columns each.
    phi : (used, n) complex128
        State at the end.
    lanes : Lanes or PlanarLanes
        Channels at the end.
    wall : float
        Radius of the wall at the end, bohr: smaller than the radius of the grid if a box that grows has not reached it.
    lost : float
        Norm that velocity gauge has set to zero at the core.
    columns : slice
        Points of the radial density.
    speed : float or None
        Nanoseconds per point, l and step.
    spectra : dict of arrays
    numbers : dict of scalars
    errors : dict
        Claimed error by the name of the scalar.
    own : dict
        What the way in which a number is found adds to its claimed error, by the name of the scalar.
    parts : dict
        Errors by steps, spacings, angular momenta and, where there are tables, their rows, by the name of the scalar.
    peaks : dict
        Energies of the highest peaks of the photoelectron spectrum, by the name of the scalar.
    methods : list of str
        Methods of the spectra, in the order of the deck.
    remarks : list of (name, size, text)
        What a user must know of the attoclock angle.
    unsure : dict of arrays
        Errors that the methods of spectra leave, by the name of the spectrum.
    resonance : str
        Which one was found.
    flux : (samples, spheres, 2, used) complex128
        u_l and its slope on the spheres, in velocity gauge.
    """

    task: ClassVar[str] = "atom"

    problem: AtomProblem
    frames: dict[str, NDArray[Any]]
    trace: NDArray[np.float64]
    phi: NDArray[np.complex128]
    lanes: AnyLanes
    wall: float
    lost: float
    columns: slice
    speed: float | None
    spectra: dict[str, NDArray[Any]] = field(default_factory=dict)
    numbers: dict[str, float | None] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)
    remarks: list[tuple[str, float, str]] = field(default_factory=list)
    unsure: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    resonance: str = ""
    flux: NDArray[np.complex128] = field(default_factory=lambda: np.zeros((0, 0, 2, 0), complex))

    def components(self, name: str) -> NDArray[np.float64]:
        """Return dipole, velocity, acceleration or field along the fine trace, (1 or 2, samples), a.u."""
        time = np.asarray(self.trace[:, 0] * self.problem.setting.dt)
        _, dipole, force, _ = unpacked(self.trace[:, 1:].T)
        # lengths are summed in every sample; velocities would cost a derivative, and follow from the
        # acceleration
        if name == "dipole":
            return np.asarray(dipole)
        electric = self.problem.electric(time)
        if name == "field":
            return electric
        # -E times one, not the norm: the absorbed electron is driven as a free one, so that the box does not matter
        acceleration = np.asarray(-force - electric)
        if name == "acceleration":
            return acceleration
        # Ehrenfest: the velocity is the integral of the acceleration from that at t = 0
        start = self.frames["velocity"][0][:, None]
        return np.asarray(start + running_integral(acceleration, time))

    @property
    def why_no_errors(self) -> str:
        """What stands beside the numbers of a run that was not repeated."""
        return "" if "norm_final" in self.errors else NOT_VERIFIED

    def traced(self, name: str) -> NDArray[np.float64]:
        """Return time, norm, or the first component of what `components` knows, along the fine trace, a.u."""
        if name == "time":
            return np.asarray(self.trace[:, 0] * self.problem.setting.dt)
        return self.trace[:, 1] if name == "norm" else self.components(name)[0]

    @property
    def time(self) -> NDArray[np.float64]:
        """Output times, a.u."""
        return np.asarray(self.problem.frames * self.problem.setting.dt)

    def final(self, name: str, component: int = 0) -> float:
        """Return a number at the end of the run."""
        value = self.frames[name][-1]
        return float(value[component] if np.ndim(value) else value)

    def population(self, name: str) -> float | None:
        """Return the population of a level by its name."""
        for k, level in enumerate(self.problem.levels):
            if level_name(level.n, level.l) == name:
                return float(self.frames["populations"][-1, k])
        return None

    @property
    def core(self) -> float:
        """Population of the levels below the initial one, of all l that are followed."""
        # levels below the initial one are unphysical in a model of one active electron
        lowest = min(one.energy for one in self.problem.start)
        below = [k for k, level in enumerate(self.problem.levels) if level.energy < lowest - 1e-6]
        return float(self.frames["populations"][-1, below].sum())


def unpacked(sums: NDArray[np.float64]) -> tuple[Any, Any, Any, Any]:
    """Return norm, dipole and force (1 or 2, ...), norm of the last l, of the rows that the kernels sum."""
    # one component along z, two in a plane
    d = (len(sums) - 2) // 2
    return sums[0], sums[1 : 1 + d], sums[1 + d : 1 + 2 * d], sums[-1]


Q = Quantity[AtomResult]


def _errors(r: AtomResult) -> dict[str, float]:
    return r.errors


def _number(name: str) -> Any:
    return lambda r: r.numbers.get(name)


def _continuum(r: AtomResult) -> float | None:
    # of the norm at t = 0, which a state from a file need not have as 1
    bound = r.numbers.get("bound_population")
    return None if bound is None else float(r.frames["norm"][0]) - float(bound)


def _frame(name: str) -> Any:
    return lambda r: r.frames.get(name)


def _component(name: str, index: int) -> Any:
    """Return a component of what has one row per output time."""

    def value(r: AtomResult) -> Any:
        rows = r.frames[name]
        return rows[:, index] if index < rows.shape[1] else None

    return value


def _across(name: str) -> Any:
    return lambda r: r.components(name)[1]


def _planar(r: AtomResult) -> bool:
    return r.problem.frame.planar


def _along(r: AtomResult) -> bool:
    return not r.problem.frame.planar


def _level_populations(r: AtomResult) -> dict[str, float]:
    names = [level_name(level.n, level.l) for level in r.problem.levels]
    found = zip(names, map(float, r.frames["populations"][-1]), strict=True)
    # the largest first: levels below that of the electron hold nothing but rounding
    return {f"population_{name}": p for name, p in sorted(found, key=lambda one: -one[1])}


def _within(r: AtomResult) -> dict[str, float]:
    radii = r.problem.observed.norm_within
    return {
        f"norm_within_{radius:g}": float(r.frames["norm_within"][-1, k]) for k, radius in enumerate(radii)
    }


QUANTITIES: tuple[Q, ...] = (
    Q(
        # numbers that a summary shows first, with their errors
        "norm_final",
        "",
        "norm in the box at the end",
        lambda r: r.final("norm"),
        headline=(
            "resonance_rate",
            "resonance_energy",
            "rate",
            "attoclock_angle",
            "hhg_cutoff_order",
            "continuum_population",
            "pes_total",
            "norm_final",
        ),
        error=_errors,
    ),
    Q(
        "error_estimate",
        "",
        "largest claimed error of a norm or population",
        lambda r: max(e for name, e in r.errors.items() if name.startswith(("norm", "population", "bound"))),
        when=lambda r: "norm_final" in r.errors,
    ),
    Q("norm_initial", "", "norm at t = 0", lambda r: float(r.frames["norm"][0]), exact=True),
    Q("energy_initial", "hartree", "<H> at t = 0", _number("energy_initial"), headline=True, error=_errors),
    Q(
        "energy_final",
        "hartree",
        "field-free energy at the end, not divided by the norm",
        _number("energy_final"),
        headline=("energy_final", "steps"),
        error=_errors,
    ),
    Q(
        "bound_population",
        "",
        "population of all levels of the box below 0",
        _number("bound_population"),
        headline=True,
        error=_errors,
    ),
    Q(
        "continuum_population",
        "",
        "1 minus bound_population: positive energies, and what was absorbed",
        _continuum,
        error=_errors,
    ),
    Q(
        "rate",
        "a.u.",
        "decay rate of the norm in a static field",
        _number("rate"),
        when=lambda r: "rate" in r.numbers,
        headline=True,
        error=_errors,
    ),
    Q("core_population", "", "population of levels below the initial one", lambda r: r.core, error=_errors),
    Q("population_*", "", "population of the level * at the end", _level_populations, error=_errors),
    Q(
        "norm_within_*",
        "",
        "norm within * bohr at the end",
        _within,
        when=lambda r: bool(r.problem.observed.norm_within),
        error=_errors,
    ),
    Q(
        "dipole_final",
        "bohr",
        "<z> at the end; in a plane, <x> of the run",
        lambda r: r.final("dipole"),
        error=_errors,
    ),
    Q(
        "dipole_y_final",
        "bohr",
        "<y> of the run at the end",
        lambda r: r.final("dipole", 1),
        when=_planar,
        error=_errors,
    ),
    # limits of the box and of l, and what has reached them
    Q("lmax", "", "largest angular momentum at the end", lambda r: r.lanes.lmax),
    Q(
        "lmax_population",
        "",
        "largest norm that the last l has held",
        lambda r: float(r.frames["last"].max()),
        exact=True,
    ),
    Q(
        "wall_density",
        "",
        "largest norm that the last 25 points have held",
        lambda r: float(r.frames["wall"].max()),
        exact=True,
    ),
    Q(
        "core_cleared",
        "",
        "norm set to zero at the core of high l, in velocity gauge",
        lambda r: r.lost,
        exact=True,
    ),
    # what was run: gauge, grid, steps
    Q("gauge", "", "gauge of the run", lambda r: r.problem.setting.gauge),
    Q("points", "", "radial points", lambda r: r.problem.lattice.grid.points),
    Q("rmax", "bohr", "radius of the wall", lambda r: r.problem.lattice.grid.wall, exact=True),
    Q(
        "rmax_reached",
        "bohr",
        "radius to which the box has grown",
        lambda r: r.wall,
        when=lambda r: r.problem.setting.begin < r.problem.setting.rmax,
        exact=True,
    ),
    Q("steps", "", "time steps", lambda r: r.problem.setting.steps),
    Q("dt", "a.u.", "time step", lambda r: r.problem.setting.dt, exact=True),
    Q("t_final", "a.u.", "duration", lambda r: r.problem.t_final, exact=True),
    Q("ns_per_point_step", "ns", "time per radial point, l and step", lambda r: r.speed),
    Q("ionisation_potential", "hartree", "Ip of the initial state", lambda r: r.problem.ip, error=_errors),
    *FIELD,
    KELDYSH,
    *CUTOFF,
    *NUMBERS,
    # rows of the output times
    Q("time", "a.u.", "output times", lambda r: r.time, ("time",)),
    Q(
        "field",
        "a.u.",
        "electric field E(t): along its direction; in a plane, along x of the run",
        lambda r: np.asarray(r.problem.pulse.electric(r.time)),
        ("time",),
    ),
    Q(
        "vector_potential",
        "a.u.",
        "A(t) = -integral of E",
        lambda r: np.asarray(r.problem.pulse.vector_potential(r.time)),
        ("time",),
    ),
    # the state: norm, moments, and their y components in a plane
    Q("norm", "", "norm of the state in the box", _frame("norm"), ("time",)),
    Q(
        "dipole",
        "bohr",
        "<z>; in a plane, <x> of the run",
        _component("dipole", 0),
        ("time",),
        note="not divided by the norm",
    ),
    Q("velocity", "a.u.", "<p_z + A>", _component("velocity", 0), ("time",)),
    Q(
        "acceleration",
        "a.u.",
        "-<cos(theta) V'> - E norm",
        _component("acceleration", 0),
        ("time",),
        note="Ehrenfest",
    ),
    *(
        Q(
            f"{name}_y",
            unit,
            f"{text} along y of the run",
            value,
            ("time",),
            when=_planar,
        )
        for name, unit, text, value in (
            ("field", "a.u.", "electric field", lambda r: r.problem.electric(r.time)[1]),
            ("vector_potential", "a.u.", "A(t)", lambda r: r.problem.vector(r.time)[1]),
            ("dipole", "bohr", "dipole", _component("dipole", 1)),
            ("velocity", "a.u.", "velocity", _component("velocity", 1)),
            ("acceleration", "a.u.", "acceleration", _component("acceleration", 1)),
        )
    ),
    Q(
        "axes",
        "",
        "rows: x, y and z of the run in the axes of the deck",
        lambda r: r.problem.frame.axes,
        ("axis", "component"),
        when=lambda r: not np.array_equal(r.problem.frame.axes, np.eye(3)),
    ),
    Q(
        "levels",
        "",
        "names of the levels",
        lambda r: np.array([level_name(level.n, level.l) for level in r.problem.levels], dtype=object),
        ("level",),
    ),
    Q(
        "level_energy",
        "hartree",
        "energies of the levels",
        lambda r: np.array([one.energy for one in r.problem.levels]),
        ("level",),
    ),
    Q(
        "populations",
        "",
        "level populations",
        _frame("populations"),
        ("time", "level"),
        note="of the length-gauge state",
    ),
    Q(
        "l",
        "",
        "angular momentum",
        lambda r: r.lanes.lowest + np.arange(r.frames["population_l"].shape[1]),
        ("l",),
    ),
    Q(
        "population_l",
        "",
        "norm of each angular momentum",
        _frame("population_l"),
        ("time", "l"),
        note="in the gauge of the run",
    ),
    Q(
        "radius",
        "bohr",
        "radii of norm_within",
        lambda r: np.array(r.problem.observed.norm_within),
        ("radius",),
        when=lambda r: bool(r.problem.observed.norm_within),
    ),
    Q("norm_within", "", "norm within spheres", _frame("norm_within"), ("time", "radius")),
    # radial grid and the state at the end
    Q("r", "bohr", "radial points", lambda r: r.problem.lattice.grid.r, ("r",)),
    Q("potential", "hartree", "potential energy", lambda r: r.problem.lattice.potential, ("r",)),
    Q("absorber", "hartree", "W of the complex potential -i W", lambda r: r.problem.lattice.cap, ("r",)),
    Q("mask", "", "factor after every step", lambda r: r.problem.lattice.mask, ("r",)),
    Q(
        "u_final",
        "bohr^-1/2",
        "u_l(r) at the end",
        lambda r: r.phi / np.sqrt(r.problem.lattice.grid.slope),
        ("l_final", "r"),
        note="in the gauge of the run; sum over l and integral over r give the norm",
        when=_along,
    ),
    Q(
        "channels",
        "",
        "l and m of the channels of u_final or u_channels, about z of the run",
        lambda r: np.column_stack([r.lanes.ls, r.lanes.ms]),
        ("channel", "quantum_number"),
        axes_of=lambda r: ("channel" if _planar(r) else "l_final", "quantum_number"),
    ),
    Q(
        "kick",
        "a.u.",
        "A at the end along x, y and z of the run in velocity gauge, 0 in length gauge",
        lambda r: r.problem.kick3(r.problem.t_final),
        ("component",),
        note="exp(i A.r) takes the state at the end to length gauge",
    ),
    Q(
        "u_channels",
        "bohr^-1/2",
        "u_lm(r) at the end",
        lambda r: r.phi / np.sqrt(r.problem.lattice.grid.slope),
        ("channel", "r"),
        note="in the gauge of the run; sum over channels and integral over r give the norm",
        when=lambda r: _planar(r) and r.phi.size <= STORED,
    ),
    Q(
        "r_density",
        "bohr",
        "points of the radial density",
        lambda r: r.problem.lattice.grid.r[r.columns],
        ("r_density",),
    ),
    Q("radial_density", "1/bohr", "sum over l of |u_l|^2", _frame("radial_density"), ("time", "r_density")),
    # the fine trace, for spectra of time
    *traces("<z>", "-<cos(theta) V'> - E"),
    *(
        Q(f"trace/{name}_y", unit, f"{name} along y of the run", _across(name), ("sample",), when=_planar)
        for name, unit in (
            ("dipole", "bohr"),
            ("velocity", "a.u."),
            ("acceleration", "a.u."),
            ("field", "a.u."),
        )
    ),
    *HARMONICS,
    *SPECTRA,
    Q(
        "claimed",
        "",
        "names of the numbers whose errors were found by repeating the run",
        lambda r: np.array(list(r.parts), dtype=object),
        ("claimed",),
        when=lambda r: bool(r.parts),
    ),
    Q(
        "cause",
        "",
        "causes of the errors",
        lambda r: np.array(list(next(iter(r.parts.values()))), dtype=object),
        ("cause",),
        when=lambda r: bool(r.parts),
    ),
    Q(
        "claimed_parts",
        "",
        "what each cause leaves in them: the time step, the spacing, the last l, and others that the run has",
        lambda r: np.array([list(found.values()) for found in r.parts.values()]),
        ("claimed", "cause"),
        note="in the unit of each number; the claimed error is 1.5 times their sum; an angle has more from azimuths and energies",
        when=lambda r: bool(r.parts),
    ),
)

#: Quantities whose errors are found by comparing runs with other steps, spacings and l.
COMPARED = tuple(one for one in QUANTITIES if one.error is _errors)
