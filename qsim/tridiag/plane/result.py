"""Result of ``task: plane`` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import NOT_VERIFIED
from qsim.tridiag.tdse.integrals import running_integral
from qsim.tridiag.tdse.quantities import CUTOFF, FIELD, HARMONICS, KELDYSH, driven, traces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.plane.problem import PlaneProblem

__all__ = ["QUANTITIES", "PlaneResult"]

# points of a state that is stored
STORED = 2_000_000


@dataclass
class PlaneResult:
    """Result of a run of ``task: plane``.

    Attributes
    ----------
    frames : dict of arrays, one row per output time
        norm, dipole, acceleration, regions, absorbed, wall_density, populations.
    maps : dict of arrays, one row per time of the maps
        step, density, energy, velocity, exchange_defect, purity, entropy, occupations.
    trace : (samples, 7) float64
        Step number, norm, dipole, mean force, norms of the regions.
    psi : (n1, n2) complex128
        State at the end.
    spectra : dict of arrays
    numbers : dict of scalars
    errors : dict
        Claimed error by the name of the scalar.
    parts : dict of dict
        What each cause leaves, by the name of the scalar.
    """

    task: ClassVar[str] = "plane"

    problem: PlaneProblem
    frames: dict[str, NDArray[Any]]
    maps: dict[str, NDArray[Any]]
    trace: NDArray[np.float64]
    psi: NDArray[np.complex128]
    spectra: dict[str, NDArray[Any]] = field(default_factory=dict)
    numbers: dict[str, float | None] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def time(self) -> NDArray[np.float64]:
        """Output times, a.u."""
        return np.asarray(self.problem.frames * self.problem.dt)

    @property
    def why_no_errors(self) -> str:
        """What stands beside the numbers of a run that was not repeated."""
        return "" if self.parts else NOT_VERIFIED

    def components(self, name: str) -> NDArray[np.float64]:
        """Return dipole, velocity, acceleration or field along the fine trace, (1, samples), a.u."""
        return self.traced(name)[None]

    def traced(self, name: str) -> NDArray[np.float64]:
        """Return time, norm, dipole, velocity, acceleration or field along the fine trace, (samples,), a.u."""
        time = np.asarray(self.trace[:, 0] * self.problem.dt)
        if name in ("norm", "dipole"):
            return self.trace[:, 1 if name == "norm" else 2]
        if name == "time":
            return time
        field_of = self.problem.electric(time)
        if name == "field":
            return field_of
        # -E for every electron, not for what is left of the norm: the absorbed ones are driven as free ones
        acceleration = np.asarray(-self.trace[:, 3] - self.problem.particles * field_of)
        if name == "acceleration":
            return acceleration
        # Ehrenfest: the velocity is the integral of the acceleration from that at t = 0
        return np.asarray(float(self.maps["velocity"][0]) + running_integral(acceleration, time))

    def region(self, name: str) -> float:
        """Return the norm of a region at the end."""
        return float(self.frames["regions"][-1, ("inner", "single", "double").index(name)])


Q = Quantity[PlaneResult]


def _errors(r: PlaneResult) -> dict[str, float]:
    return r.errors


def _frame(name: str) -> Any:
    return lambda r: r.frames.get(name)


def _map(name: str) -> Any:
    return lambda r: r.maps.get(name)


def _end_of_maps(name: str, index: int) -> Any:
    return lambda r: float(r.maps[name][index])


def _entangled(r: PlaneResult) -> bool:
    return "purity" in r.maps


def _populations(r: PlaneResult) -> dict[str, float]:
    rows = r.frames.get("populations")
    return {} if rows is None else {f"population_{k}": float(p) for k, p in enumerate(rows[-1])}


def _region(name: str, text: str, *, headline: bool = False) -> Q:
    return Q(
        name, "", f"norm at the end where {text}", lambda r: r.region(name), error=_errors, headline=headline
    )


def _absorbed(name: str, index: int, text: str) -> Q:
    return Q(
        name,
        "",
        f"norm that the absorber has taken where {text}",
        lambda r: float(r.frames["absorbed"][-1, index]),
        when=lambda r: r.problem.lattice.absorbs,
        error=_errors,
    )


def _axis(index: int) -> Any:
    return lambda r: r.problem.lattice.axes[index].x


def _stored_axis(index: int) -> Any:
    return lambda r: r.problem.lattice.axes[index].x[:: r.problem.strides[index]]


def _stored_psi(r: PlaneResult) -> Any:
    return r.psi if r.psi.size <= STORED else None


def _bound_levels(r: PlaneResult) -> Any:
    levels = r.problem.levels
    return None if levels is None else levels.energies


QUANTITIES: tuple[Q, ...] = (
    Q(
        "norm_final",
        "",
        "norm in the box at the end",
        lambda r: float(r.frames["norm"][-1]),
        error=_errors,
        headline=("hhg_cutoff_order", "norm_final", "population_0", "single", "double"),
    ),
    Q("norm_initial", "", "norm at t = 0", lambda r: float(r.frames["norm"][0]), exact=True),
    Q(
        "energy_initial",
        "hartree",
        "<H> at t = 0",
        _end_of_maps("energy", 0),
        error=_errors,
        headline=True,
    ),
    Q(
        "energy_final",
        "hartree",
        "field-free energy at the end, not divided by the norm",
        _end_of_maps("energy", -1),
        error=_errors,
        headline=True,
    ),
    Q(
        "population_*",
        "",
        "population of level * at the end",
        _populations,
        error=_errors,
    ),
    _region("inner", "both coordinates lie within the radius"),
    _region("single", "one coordinate lies within the radius"),
    _region("double", "no coordinate lies within the radius"),
    _absorbed("absorbed_single", 0, "the other coordinate was within the radius"),
    _absorbed("absorbed_double", 1, "the other coordinate was beyond the radius, too"),
    Q(
        "single_initial",
        "",
        "norm at t = 0 where one coordinate lies within the radius: the tail of the initial state",
        lambda r: float(r.frames["regions"][0, 1]),
        exact=True,
    ),
    Q("dipole_final", "bohr", "<x + y> at the end", lambda r: float(r.frames["dipole"][-1]), error=_errors),
    Q(
        "purity",
        "",
        "Tr rho^2 of one coordinate at the end, of the state divided by its norm",
        _end_of_maps("purity", -1),
        when=_entangled,
        error=_errors,
        headline=True,
    ),
    Q(
        "entropy",
        "",
        "-sum p ln p of the occupations p of natural orbitals at the end, with the sum 1",
        _end_of_maps("entropy", -1),
        when=_entangled,
        error=_errors,
    ),
    Q(
        "exchange_defect",
        "",
        "largest deviation from the exchange symmetry, relative to the largest amplitude",
        lambda r: float(r.maps["exchange_defect"].max()),
        when=lambda r: "exchange_defect" in r.maps,
        exact=True,
    ),
    Q(
        "wall_density",
        "",
        "largest norm that the points beside the walls have held",
        lambda r: float(r.frames["wall_density"].max()),
        exact=True,
    ),
    Q("region_radius", "bohr", "radius of the regions", lambda r: r.problem.radius, exact=True),
    Q("steps", "", "time steps", lambda r: r.problem.steps, headline=True),
    Q("dt", "a.u.", "time step", lambda r: r.problem.dt, exact=True),
    Q("t_final", "a.u.", "duration", lambda r: r.problem.t_final, exact=True),
    Q(
        "dx",
        "bohr",
        "spacing of the first coordinate",
        lambda r: r.problem.lattice.axes[0].spacing,
        exact=True,
    ),
    Q(
        "dy",
        "bohr",
        "spacing of the second coordinate",
        lambda r: r.problem.lattice.axes[1].spacing,
        exact=True,
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
        "energy that takes one electron from the ground state",
        lambda r: r.problem.ip,
        when=lambda r: driven(r) and r.problem.ip is not None,
    ),
    replace(KELDYSH, when=lambda r: KELDYSH.value(r) is not None),
    *CUTOFF,
    Q("time", "a.u.", "output times", lambda r: r.time, ("time",)),
    Q("norm", "", "norm of the state in the box", _frame("norm"), ("time",)),
    Q("dipole", "bohr", "<x + y>", _frame("dipole"), ("time",), note="not divided by the norm"),
    Q(
        "acceleration",
        "a.u.",
        "-<dV/dx + dV/dy> - 2 E",
        _frame("acceleration"),
        ("time",),
        note="dipole acceleration (Ehrenfest); the repulsion drops out",
    ),
    Q("field", "a.u.", "electric field E(t)", lambda r: np.asarray(r.problem.electric(r.time)), ("time",)),
    Q(
        "vector_potential",
        "a.u.",
        "A(t) = -integral of E",
        lambda r: np.asarray(r.problem.vector(r.time)),
        ("time",),
    ),
    Q(
        "regions",
        "",
        "norms where both coordinates, one and none lie within the radius",
        _frame("regions"),
        ("time", "region"),
    ),
    Q(
        "absorbed",
        "",
        "norms that the absorber has taken where the other coordinate was within the radius, and where it was not",
        lambda r: r.frames["absorbed"] if r.problem.lattice.absorbs else None,
        ("time", "channel"),
    ),
    Q(
        "level",
        "",
        "level",
        lambda r: None if r.problem.levels is None else np.arange(r.problem.levels.energies.size),
        ("level",),
    ),
    Q(
        "energies",
        "hartree",
        "levels of the field-free Hamiltonian on the lattice",
        _bound_levels,
        ("level",),
    ),
    Q("populations", "", "populations of levels", _frame("populations"), ("time", "observed_level")),
    Q(
        "map_time",
        "a.u.",
        "times of the maps",
        lambda r: np.asarray(r.maps["step"] * r.problem.dt),
        ("map_time",),
    ),
    Q("x", "bohr", "points of the first coordinate", _axis(0), ("x",)),
    Q("y", "bohr", "points of the second coordinate", _axis(1), ("y",)),
    Q("x_density", "bohr", "points of the maps", _stored_axis(0), ("x_density",)),
    Q("y_density", "bohr", "points of the maps", _stored_axis(1), ("y_density",)),
    Q("density", "1/bohr^2", "|psi|^2", _map("density"), ("map_time", "x_density", "y_density")),
    Q(
        "energy",
        "hartree",
        "field-free energy",
        _map("energy"),
        ("map_time",),
        note="not divided by the norm",
    ),
    Q("velocity", "a.u.", "<p_x + p_y>", _map("velocity"), ("map_time",)),
    Q("purity_of_time", "", "Tr rho^2 of one coordinate", _map("purity"), ("map_time",)),
    Q("entropy_of_time", "", "-sum p ln p of the occupations", _map("entropy"), ("map_time",)),
    Q(
        "occupations",
        "",
        "occupations of the natural orbitals, largest first",
        _map("occupations"),
        ("map_time", "orbital"),
    ),
    Q("psi_final", "1/bohr", "wave function at the end", _stored_psi, ("x", "y")),
    *traces("<x + y>", "-<dV/dx + dV/dy> - 2 E"),
    *HARMONICS,
)
