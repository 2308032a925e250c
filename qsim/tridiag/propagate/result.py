"""Result of ``task: propagate`` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import NOT_VERIFIED
from qsim.tridiag.deck.electron import GaussianInitial
from qsim.tridiag.propagate.claims import TABLE
from qsim.tridiag.propagate.lattice import PSI_LIMIT
from qsim.tridiag.tdse.integrals import running_integral
from qsim.tridiag.tdse.quantities import CUTOFF, FIELD, HARMONICS, KELDYSH, driven, spectrum, traces
from qsim.tridiag.tdse.scan.result import scan_quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.tridiag.propagate.claims import Accuracy
    from qsim.tridiag.propagate.problem import Propagation

__all__ = ["QUANTITIES", "SCANS", "Propagated"]


@dataclass
class Propagated:
    """Result of a propagation.

    Attributes
    ----------
    frames : dict of arrays, one row per output time
        norm, dipole, acceleration, velocity, energy, density, wall_density, populations, norm_within, norm_right.
    trace : (samples, 4) float64
        Step number, and the sums of |psi|^2, x |psi|^2 and V' |psi|^2 at evenly spaced steps.
    psi : (points,) complex
        State at the end, between the walls.
    info : dict
        How the steps were done.
    spectra : dict of arrays
        Spectra by name: hhg_order, hhg_spectrum, hhg_gabor, photoelectron_energy, ...
    numbers : dict
        Scalars of the analysis.
    accuracy
        Errors of the headline numbers.
    """

    task: ClassVar[str] = "propagate"

    problem: Propagation
    frames: dict[str, NDArray[Any]]
    trace: NDArray[np.float64]
    psi: NDArray[Any]
    info: dict[str, Any]
    spectra: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    numbers: dict[str, float | int | None] = field(default_factory=dict)
    accuracy: Accuracy | None = None

    @property
    def time(self) -> NDArray[np.float64]:
        """Output times, a.u."""
        return np.asarray(self.problem.frames * self.problem.dt)

    @property
    def errors(self) -> Mapping[str, float]:
        """Claimed errors by the name of the scalar; empty if none are claimed."""
        return {} if self.accuracy is None or self.accuracy.why_not else self.accuracy.errors

    @property
    def why_no_errors(self) -> str:
        """What stands beside the numbers of a run that was not repeated."""
        return NOT_VERIFIED if self.accuracy is None else ""

    def components(self, name: str) -> NDArray[np.float64]:
        """Return what `traced` does as the one component of the field, (1, samples)."""
        return self.traced(name)[None]

    def traced(self, name: str) -> NDArray[np.float64]:
        """Return time, norm, dipole, velocity, acceleration or field along the fine trace, a.u."""
        problem, trace = self.problem, self.trace
        time = np.asarray(trace[:, 0] * problem.dt)
        if name == "time":
            return time
        if name == "norm":
            return np.asarray(trace[:, 1])
        if name == "dipole":
            return np.asarray(trace[:, 2])
        # Ehrenfest: the sums of the trace hold V', the field is added here
        electric = np.asarray(problem.field_at(time), float)
        if name == "field":
            return electric
        acceleration = np.asarray(-trace[:, 3] - electric)
        if name == "acceleration":
            return acceleration
        # Ehrenfest: the integral of the acceleration, which holds no flux into the absorber
        start = float(self.frames["velocity"][0])
        return np.asarray(start + running_integral(acceleration, time))


Q = Quantity[Propagated]

# hartree: the energy at t = 0 and that of the level are one number, summed in two ways
SAME_LEVEL = 1e-9


def _errors(r: Propagated) -> Mapping[str, float]:
    return r.errors


def _frame(name: str) -> Any:
    return lambda r: r.frames.get(name)


def _at(name: str, number: int) -> Callable[[Propagated], float]:
    """Return a function that gives a number at the first (0) or last (-1) output time."""
    return lambda r: float(r.frames[name][number])


def _levels(r: Propagated) -> dict[str, float]:
    return {f"population_{level}": float(value) for level, value in enumerate(_populations(r))}


def _ionised(r: Propagated) -> bool:
    return "bound" in r.frames


def _populations(r: Propagated) -> NDArray[np.float64]:
    return np.asarray(r.frames["populations"][-1]) if "populations" in r.frames else np.zeros(0)


def _places(name: str) -> Callable[[Propagated], dict[str, float]]:
    """Return a function that gives the norms in parts of the box at the end, by the name of the scalar."""

    def found(r: Propagated) -> dict[str, float]:
        places = getattr(r.problem.observed, name)
        return {f"{name}_{place:g}": float(r.frames[name][-1, k]) for k, place in enumerate(places)}

    return found


def _listed(name: str) -> Any:
    """Return a function that gives the radii or places of the deck, None where there are none."""
    return lambda r: np.array(found) if (found := getattr(r.problem.observed, name)) else None


def _on_grid(value: Callable[[Propagated], NDArray[Any] | None]) -> Any:
    """Return a function that gives an array on the whole grid, None where the grid is too large to be stored."""
    return lambda r: value(r) if r.problem.lattice.points <= PSI_LIMIT else None


def _part(name: str, cause: str, parts: Callable[[Accuracy], Mapping[str, float]]) -> Q:
    """Return the quantity of what a cause contributes to the errors of norms and populations, at most."""

    def largest(r: Propagated) -> float:
        assert r.accuracy is not None
        return max(
            error for number, error in parts(r.accuracy).items() if number.startswith(("norm", "population"))
        )

    return Q(
        name,
        "",
        f"largest error of a norm or population by the {cause}",
        largest,
        when=lambda r: r.accuracy is not None and not r.accuracy.why_not,
    )


def _of_table(found: Accuracy) -> Mapping[str, float]:
    """Return the parts of the errors by the rows of tables; empty where there are none."""
    return {name: parts[TABLE] for name, parts in found.rest.items() if TABLE in parts}


def _step(name: str, text: str, *, headline: bool = False) -> Q:
    """Return the quantity of how the steps were done, where it applies."""
    return Q(
        name, "", text, lambda r: r.info[name], when=lambda r: name in r.info, headline=headline, exact=True
    )


def _ip_error(r: Propagated) -> float | None:
    """Return the error of Ip, which is that of the energy at t = 0 where the run begins in the ground state."""
    start = r.frames["energy"][0] if "energy" in r.frames else None
    if start is None or r.problem.ip is None or abs(float(start) + r.problem.ip) > SAME_LEVEL:
        return None
    return _errors(r).get("energy_initial")


def _cutoff_error(r: Propagated) -> float | None:
    """Return the error of the classical cutoff, that of Ip in photons; None where Ip has none."""
    error, omega = _ip_error(r), r.problem.pulse.omega
    return None if error is None or omega is None else error / omega


def _divided(r: Propagated) -> tuple[float, float] | None:
    """Return the norms right and left of the first place of `norm_right` at the end, where a packet runs towards it.

    None where an absorber takes some of it.  Of a packet that runs to the left, the norms left and right.
    """
    start, lattice = r.problem.initial, r.problem.lattice
    if not isinstance(start, GaussianInitial) or "norm_right" not in r.frames:
        return None
    if start.k0 * (r.problem.observed.norm_right[0] - start.x0) <= 0.0:
        return None
    if lattice.cap is not None or lattice.mask is not None:
        return None
    right = float(r.frames["norm_right"][-1, 0])
    left = float(r.frames["norm"][-1]) - right
    return (right, left) if start.k0 > 0.0 else (left, right)


def _divided_error(r: Propagated) -> float | None:
    """Return the error of transmission and reflection: that of the norm in a part of the box."""
    return _errors(r).get(f"norm_right_{r.problem.observed.norm_right[0]:g}")


def _share(name: str, index: int) -> Q:
    """Return the quantity of the norm that is beyond, or before, the first place of `norm_right`."""
    where = "beyond" if index == 0 else "before"
    return Q(
        name,
        "",
        f"norm {where} the first place of norm_right at the end, of a packet that runs towards it",
        lambda r: (_divided(r) or (0.0, 0.0))[index],
        error=_divided_error,
        when=lambda r: _divided(r) is not None,
        headline=True,
    )


QUANTITIES: tuple[Q, ...] = (
    _share("transmission", 0),
    _share("reflection", 1),
    Q(
        # numbers that a summary shows first, with their errors
        "norm_final",
        "",
        "norm in the box at the end",
        _at("norm", -1),
        error=_errors,
        headline=("hhg_cutoff_order", "continuum_population", "norm_final", "population_0"),
    ),
    Q("norm_initial", "", "norm at t = 0", _at("norm", 0), exact=True),
    Q("energy_initial", "hartree", "<H> at t = 0", _at("energy", 0), error=_errors, headline=True),
    Q(
        "energy_final",
        "hartree",
        "field-free energy at the end, not divided by the norm",
        _at("energy", -1),
        error=_errors,
        headline=True,
    ),
    Q("dipole_final", "bohr", "sum of x |psi|^2 dx at the end", _at("dipole", -1), error=_errors),
    Q("steps", "", "time steps", lambda r: r.problem.steps, headline=True),
    Q("dt", "a.u.", "time step", lambda r: r.problem.dt, exact=True),
    Q("t_final", "a.u.", "duration", lambda r: r.problem.t_final, exact=True),
    Q("dx", "bohr", "grid spacing", lambda r: r.problem.lattice.dx, exact=True),
    Q(
        "wall_density",
        "",
        "largest |psi|^2 dx one spacing from a wall at the end",
        lambda r: r.numbers["wall_density"],
        exact=True,
    ),
    Q(
        "turned_back",
        "",
        "norm that the walls have turned back, roughly",
        lambda r: r.numbers["turned_back"],
        exact=True,
    ),
    Q(
        "population_*",
        "",
        "population of level * at the end",
        _levels,
        error=_errors,
    ),
    Q(
        "population_sum",
        "",
        "population of all these levels at the end",
        lambda r: float(_populations(r).sum()),
        error=_errors,
        when=lambda r: "populations" in r.frames,
    ),
    Q(
        "bound_population",
        "",
        "population of all levels of the box below the threshold at the end",
        _at("bound", -1),
        error=_errors,
        when=_ionised,
    ),
    Q(
        "continuum_population",
        "",
        "1 minus bound_population: energies above the threshold, and what was absorbed",
        lambda r: float(r.frames["norm"][0] - r.frames["bound"][-1]),
        error=lambda r: r.errors.get("bound_population"),
        when=_ionised,
    ),
    Q(
        "bound",
        "",
        "population of all levels of the box below the threshold",
        _frame("bound"),
        ("time",),
        when=_ionised,
    ),
    Q("norm_within_*", "", "norm within * bohr at the end", _places("norm_within"), error=_errors),
    Q("norm_right_*", "", "norm right of x = * bohr at the end", _places("norm_right"), error=_errors),
    _part("error_time_step", "time step", lambda found: found.time_step),
    _part("error_spacing", "grid spacing", lambda found: found.spacing),
    replace(
        _part("error_table", "rows of a table", _of_table),
        when=lambda r: r.accuracy is not None and bool(_of_table(r.accuracy)),
    ),
    *FIELD,
    Q(
        "vector_potential_final",
        "a.u.",
        "A at the end",
        lambda r: r.problem.pulse.residual(r.problem.t_final),
        when=driven,
        exact=True,
    ),
    Q(
        "ionisation_potential",
        "hartree",
        "Ip, of the ground state",
        lambda r: r.problem.ip,
        when=lambda r: driven(r) and r.problem.ip is not None,
        error=_ip_error,
    ),
    replace(KELDYSH, when=lambda r: KELDYSH.value(r) is not None),
    CUTOFF[0],
    replace(CUTOFF[1], error=_cutoff_error),
    _step("algorithm", "how the steps were done"),
    _step("blocks", "blocks of the partition", headline=True),
    _step("iterations", "nested partitions", headline=True),
    _step("halo", "rows that neighbouring blocks share"),
    _step("steps_per_pass", "time steps between two passes through memory"),
    _step("min_pivot", "smallest pivot relative to its row"),
    Q("time", "a.u.", "output times", lambda r: r.time, ("time",)),
    Q("norm", "", "norm of the state in the box", _frame("norm"), ("time",)),
    Q("dipole", "bohr", "sum of x |psi|^2 dx", _frame("dipole"), ("time",), note="not divided by the norm"),
    Q("velocity", "a.u.", "<p + A>", _frame("velocity"), ("time",)),
    Q(
        "acceleration",
        "a.u.",
        "-<dV/dx> - E",
        _frame("acceleration"),
        ("time",),
        note="dipole acceleration (Ehrenfest)",
    ),
    Q("energy", "hartree", "<(p + A)^2/2 + V>", _frame("energy"), ("time",), note="not divided by the norm"),
    Q(
        "wall_density",
        "",
        "|psi|^2 dx one spacing from both walls, together",
        _frame("wall_density"),
        ("time",),
        exact=True,
    ),
    Q("field", "a.u.", "electric field E(t)", lambda r: np.asarray(r.problem.field_at(r.time)), ("time",)),
    Q(
        "vector_potential",
        "a.u.",
        "A(t) = -integral of E",
        lambda r: np.asarray(r.problem.vector_at(r.time)),
        ("time",),
    ),
    Q(
        "level",
        "",
        "level",
        lambda r: np.arange(r.problem.levels) if r.problem.levels else None,
        ("level",),
    ),
    Q(
        "energies",
        "hartree",
        "eigenvalues of the field-free Hamiltonian on the grid",
        lambda r: (
            None
            if r.problem.energies is None or not r.problem.levels
            else r.problem.energies[: r.problem.levels]
        ),
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
    Q("radius", "bohr", "radii of norm_within", _listed("norm_within"), ("radius",)),
    Q(
        "norm_within",
        "",
        "norm within |x| < radius",
        _frame("norm_within"),
        ("time", "radius"),
        note="a grid point on the edge counts half",
    ),
    Q("place", "bohr", "places of norm_right", _listed("norm_right"), ("place",)),
    Q("norm_right", "", "norm right of the place", _frame("norm_right"), ("time", "place")),
    Q("x", "bohr", "grid points, the walls first and last", _on_grid(lambda r: r.problem.x), ("x",)),
    Q(
        "potential",
        "hartree",
        "potential energy",
        _on_grid(lambda r: r.problem.with_walls("potential")),
        ("x",),
    ),
    Q(
        "absorber",
        "hartree",
        "W of the complex potential -i W",
        _on_grid(lambda r: r.problem.with_walls("cap")),
        ("x",),
    ),
    Q("mask", "", "factor after every step", _on_grid(lambda r: r.problem.with_walls("mask")), ("x",)),
    Q(
        "psi_initial",
        "bohr^-1/2",
        "wavefunction at t = 0",
        _on_grid(lambda r: np.pad(r.problem.psi0.astype(r.psi.dtype), 1)),
        ("x",),
    ),
    Q(
        "psi_final",
        "bohr^-1/2",
        "wavefunction at the end",
        _on_grid(lambda r: np.pad(r.psi, 1)),
        ("x",),
        note="zero at the walls; in the gauge of the run",
    ),
    Q(
        "x_density",
        "bohr",
        "grid points of the density map",
        lambda r: r.problem.x_of_columns,
        ("x_density",),
    ),
    Q("density", "1/bohr", "|psi|^2", _frame("density"), ("time", "x_density")),
    *traces("sum of x |psi|^2 dx", "-<dV/dx> - E"),
    *HARMONICS,
    Q(
        "photoelectron_energy",
        "hartree",
        "energy",
        spectrum("photoelectron_energy"),
        ("photoelectron_energy",),
    ),
    Q(
        "photoelectron_spectrum",
        "1/hartree",
        "probability density in energy",
        spectrum("photoelectron_spectrum"),
        ("photoelectron_energy",),
    ),
    Q(
        "photoelectron_left",
        "1/hartree",
        "its part at x < 0",
        spectrum("photoelectron_left"),
        ("photoelectron_energy",),
    ),
    Q(
        "photoelectron_right",
        "1/hartree",
        "its part at x >= 0",
        spectrum("photoelectron_right"),
        ("photoelectron_energy",),
    ),
)

#: Of scans.
SCANS = scan_quantities(
    (
        Quantity("gauge", "", "gauge of the runs", lambda r: r.runs[0].problem.pulse.gauge),
        Quantity("points", "", "points between the walls", lambda r: r.runs[0].problem.lattice.points),
        Quantity("dx", "bohr", "grid spacing", lambda r: r.runs[0].problem.lattice.dx, exact=True),
    ),
    (),
    "potential",
)
