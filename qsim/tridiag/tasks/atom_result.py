"""What ``task: atom`` leaves, and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.tridiag.deck.atom import level_name
from qsim.tridiag.tasks.laser_quantities import CUTOFF, FIELD, HARMONICS, KELDYSH, spectrum, traces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.propagator import Lanes

__all__ = ["QUANTITIES", "AtomResult"]


@dataclass
class AtomResult:
    """What a run of ``task: atom`` leaves.

    Attributes
    ----------
    frames : dict of arrays, one row per output time
        norm, dipole, acceleration, velocity, populations, population_l, radial_density, norm_within, last, wall.
    trace : (samples, 5) float64
        Step number, norm, dipole, mean force, norm of the last l.
    phi : (used, n) complex128
        State at the end.
    lanes : Lanes
        Angular momenta at the end.
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
    peaks : dict
        Energies of the highest peaks of the photoelectron spectrum, by the name of the scalar.
    methods : list of str
        Methods of the spectra, in the order of the deck.
    """

    task: ClassVar[str] = "atom"

    problem: AtomProblem
    frames: dict[str, NDArray[Any]]
    trace: NDArray[np.float64]
    phi: NDArray[np.complex128]
    lanes: Lanes
    lost: float
    columns: slice
    speed: float | None
    spectra: dict[str, NDArray[Any]] = field(default_factory=dict)
    numbers: dict[str, float | None] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)

    def traced(self, name: str) -> NDArray[np.float64]:
        """Return time, norm, dipole, velocity, acceleration or field along the fine trace, a.u."""
        problem, trace = self.problem, self.trace
        time = np.asarray(trace[:, 0] * problem.setting.dt)
        if name in ("time", "norm", "dipole"):
            return {"time": time, "norm": trace[:, 1], "dipole": trace[:, 2]}[name]
        electric = np.asarray(problem.pulse.electric(time), float)
        if name == "field":
            return electric
        # -E times one, not the norm: the absorbed electron is driven as a free one, so that the box does not matter
        acceleration = np.asarray(-trace[:, 3] - electric)
        if name == "acceleration":
            return acceleration
        from scipy.integrate import cumulative_simpson

        start = float(self.frames["velocity"][0])
        return np.asarray(start + cumulative_simpson(acceleration, x=time, initial=0.0))

    @property
    def time(self) -> NDArray[np.float64]:
        """Output times, a.u."""
        return np.asarray(self.problem.frames * self.problem.setting.dt)

    def final(self, name: str) -> float:
        """Return a number at the end of the run."""
        return float(self.frames[name][-1])

    def population(self, name: str) -> float | None:
        """Return the population of a level by its name."""
        for k, level in enumerate(self.problem.levels):
            if level_name(level.n, level.l) == name:
                return float(self.frames["populations"][-1, k])
        return None

    @property
    def core(self) -> float:
        """Population of the levels below the initial one, of all l that are followed."""
        lowest = min(one.energy for one in self.problem.start)
        below = [k for k, level in enumerate(self.problem.levels) if level.energy < lowest - 1e-6]
        return float(self.frames["populations"][-1, below].sum())


Q = Quantity[AtomResult]


def _errors(r: AtomResult) -> dict[str, float]:
    return r.errors


def _number(name: str) -> Any:
    return lambda r: r.numbers.get(name)


def _frame(name: str) -> Any:
    return lambda r: r.frames.get(name)


def _level_populations(r: AtomResult) -> dict[str, float]:
    names = [level_name(level.n, level.l) for level in r.problem.levels]
    return {
        f"population_{name}": float(p) for name, p in zip(names, r.frames["populations"][-1], strict=True)
    }


def _within(r: AtomResult) -> dict[str, float]:
    radii = r.problem.observed.norm_within
    return {
        f"norm_within_{radius:g}": float(r.frames["norm_within"][-1, k]) for k, radius in enumerate(radii)
    }


QUANTITIES: tuple[Q, ...] = (
    Q(
        "norm_final",
        "",
        "norm in the box at the end",
        lambda r: r.final("norm"),
        headline=("norm_final", "population_1s"),
        error=_errors,
    ),
    Q(
        "error_estimate",
        "",
        "largest claimed error of a norm or population",
        lambda r: max(e for name, e in r.errors.items() if name.startswith(("norm", "population", "bound"))),
        when=lambda r: "norm_final" in r.errors,
    ),
    Q("norm_initial", "", "norm at t = 0", lambda r: float(r.frames["norm"][0])),
    Q("energy_initial", "hartree", "<H> at t = 0", _number("energy_initial"), headline=True, error=_errors),
    Q(
        "energy_final",
        "hartree",
        "field-free energy at the end, not divided by the norm",
        _number("energy_final"),
        headline=("energy_final", "hhg_cutoff_order", "steps"),
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
        lambda r: float(r.frames["norm"][0]) - float(r.numbers["bound_population"] or 0.0),
        headline=True,
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
    Q("core_population", "", "population of levels below the initial one", lambda r: r.core),
    Q(
        "population_*",
        "",
        "population of the level * at the end",
        _level_populations,
        error=_errors,
    ),
    Q(
        "norm_within_*",
        "",
        "norm within * bohr at the end",
        _within,
        when=lambda r: bool(r.problem.observed.norm_within),
        error=_errors,
    ),
    Q("dipole_final", "bohr", "<z> at the end", lambda r: r.final("dipole"), error=_errors),
    Q("lmax", "", "largest angular momentum at the end", lambda r: r.lanes.lmax),
    Q(
        "lmax_population",
        "",
        "largest norm that the last l has held",
        lambda r: float(r.frames["last"].max()),
    ),
    Q(
        "wall_density",
        "",
        "largest norm that the last 25 points have held",
        lambda r: float(r.frames["wall"].max()),
    ),
    Q("core_cleared", "", "norm set to zero at the core of high l, in velocity gauge", lambda r: r.lost),
    Q("gauge", "", "gauge of the run", lambda r: r.problem.setting.gauge),
    Q("points", "", "radial points", lambda r: r.problem.lattice.grid.points),
    Q("rmax", "bohr", "radius of the wall", lambda r: r.problem.lattice.grid.wall),
    Q("steps", "", "time steps", lambda r: r.problem.setting.steps),
    Q("dt", "a.u.", "time step", lambda r: r.problem.setting.dt),
    Q("t_final", "a.u.", "duration", lambda r: r.problem.t_final),
    Q("ns_per_point_step", "ns", "time per radial point, l and step", lambda r: r.speed),
    Q("ionisation_potential", "hartree", "Ip of the initial state", lambda r: r.problem.ip),
    *FIELD,
    KELDYSH,
    *CUTOFF,
    Q(
        "peak_energy_*",
        "hartree",
        "energy of peak * of the photoelectron spectrum, highest first",
        lambda r: r.peaks,
        when=lambda r: bool(r.peaks),
    ),
    Q("pes_method", "", "how pes was found", lambda r: r.methods[0], when=lambda r: bool(r.methods)),
    Q(
        "pes_total",
        "",
        "integral of pes over its positive energies",
        _number("pes_total"),
        when=lambda r: bool(r.methods),
    ),
    Q("time", "a.u.", "output times", lambda r: r.time, ("time",)),
    Q(
        "field",
        "a.u.",
        "electric field E(t) along z",
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
    Q("norm", "", "norm of the state in the box", _frame("norm"), ("time",)),
    Q("dipole", "bohr", "<z>", _frame("dipole"), ("time",), note="not divided by the norm"),
    Q("velocity", "a.u.", "<p_z + A>", _frame("velocity"), ("time",)),
    Q(
        "acceleration",
        "a.u.",
        "-<cos(theta) V'> - E norm",
        _frame("acceleration"),
        ("time",),
        note="Ehrenfest",
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
        lambda r: abs(r.problem.m) + np.arange(r.frames["population_l"].shape[1]),
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
    ),
    Q(
        "r_density",
        "bohr",
        "points of the radial density",
        lambda r: r.problem.lattice.grid.r[r.columns],
        ("r_density",),
    ),
    Q("radial_density", "1/bohr", "sum over l of |u_l|^2", _frame("radial_density"), ("time", "r_density")),
    *traces("<z>", "-<cos(theta) V'> - E"),
    *HARMONICS,
    Q("energy", "hartree", "energies of the photoelectron spectrum", spectrum("energy"), ("energy",)),
    Q(
        "pes",
        "1/hartree",
        "photoelectron spectrum dP/dE of the first method of the deck",
        spectrum("pes"),
        ("energy",),
    ),
    Q("pes_l", "1/hartree", "its parts by l", spectrum("pes_l"), ("energy", "l_final")),
    Q("theta", "rad", "polar angles", spectrum("theta"), ("theta",)),
    Q(
        "pad",
        "1/hartree",
        "d2P/(dE dOmega)",
        spectrum("pad"),
        ("energy", "theta"),
        note="times 2 pi sin(theta) dtheta gives dP/dE",
    ),
    Q(
        "scattering_phase",
        "rad",
        "phase eta_l of the scattering states",
        spectrum("scattering_phase"),
        ("energy", "l_final"),
    ),
    Q("momentum_x", "a.u.", "momentum across the field", spectrum("momentum_x"), ("momentum_x",)),
    Q("momentum_z", "a.u.", "momentum along the field", spectrum("momentum_z"), ("momentum_z",)),
    Q(
        "momentum_map",
        "a.u.",
        "d3P/dk^3 = (dP/dE dOmega) / k at p_y = 0",
        spectrum("momentum_map"),
        ("momentum_z", "momentum_x"),
    ),
    Q(
        "window_energy",
        "hartree",
        "energies of the window operator, where another method comes first",
        spectrum("window_energy"),
        ("window_energy",),
    ),
    Q(
        "window_pes",
        "1/hartree",
        "photoelectron spectrum by the window operator",
        spectrum("window_pes"),
        ("window_energy",),
    ),
    Q(
        "scattering_energy",
        "hartree",
        "energies of the projection, where another method comes first",
        spectrum("scattering_energy"),
        ("scattering_energy",),
    ),
    Q(
        "scattering_pes",
        "1/hartree",
        "photoelectron spectrum by projection on scattering states",
        spectrum("scattering_pes"),
        ("scattering_energy",),
    ),
)
