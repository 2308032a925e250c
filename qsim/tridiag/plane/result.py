"""Result of ``task: plane`` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.tridiag.tdse.integrals import running_integral
from qsim.tridiag.tdse.motion import MotionResult
from qsim.tridiag.tdse.quantities import ARRAYS, HARMONICS, JUDGED, SCALARS, driven, errors, frame

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["QUANTITIES", "PlaneResult"]

# points of a state that is stored
STORED = 2_000_000


@dataclass(kw_only=True)
class PlaneResult(MotionResult):
    """Result of a run of ``task: plane``.

    Attributes
    ----------
    maps : dict of arrays, one row per time of the maps
        step, density, energy, velocity, exchange_defect, purity, entropy, occupations.
    psi : (n1, n2) complex128
        State at the end.
    """

    maps: dict[str, NDArray[Any]]
    psi: NDArray[np.complex128]

    def __post_init__(self) -> None:
        """Name the energies as every motion does."""
        for name, index in (("energy_initial", 0), ("energy_final", -1)):
            self.numbers[name] = float(self.maps["energy"][index])

    def components(self, name: str) -> NDArray[np.float64]:
        """Return dipole, velocity, acceleration or field along the fine trace, (1, samples), a.u."""
        time = self.traced("time")
        if name == "dipole":
            return self.trace[:, 2][None]
        electric = self.problem.electric(time)
        if name == "field":
            return np.asarray(electric)
        # -E for every electron, not for what is left of the norm: the absorbed ones are driven as free ones
        acceleration = np.asarray(-self.trace[:, 3] - self.problem.particles * electric)
        if name == "acceleration":
            return acceleration
        # Ehrenfest: the velocity is the integral of the acceleration from that at t = 0
        return np.asarray(float(self.maps["velocity"][0]) + running_integral(acceleration, time))

    @property
    def populations(self) -> dict[str, float]:
        """Populations of the levels at the end, by the name of the scalar."""
        rows = self.frames.get("populations")
        return {} if rows is None else {f"population_{k}": float(p) for k, p in enumerate(rows[-1])}

    def region(self, name: str) -> float:
        """Return the norm of a region at the end."""
        return float(self.frames["regions"][-1, ("inner", "single", "double").index(name)])


Q = Quantity[PlaneResult]


def _map(name: str) -> Any:
    return lambda r: r.maps.get(name)


def _end_of_maps(name: str, index: int) -> Any:
    return lambda r: float(r.maps[name][index])


def _entangled(r: PlaneResult) -> bool:
    return "purity" in r.maps


def _region(name: str, text: str, *, headline: bool = False) -> Q:
    return Q(
        name, "", f"norm at the end where {text}", lambda r: r.region(name), error=errors, headline=headline
    )


def _absorbed(name: str, index: int, text: str) -> Q:
    return Q(
        name,
        "",
        f"norm that the absorber has taken where {text}",
        lambda r: float(r.frames["absorbed"][-1, index]),
        when=lambda r: r.problem.lattice.absorbs,
        error=errors,
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
    *SCALARS,
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
    Q(
        "purity",
        "",
        "Tr rho^2 of one coordinate at the end, of the state divided by its norm",
        _end_of_maps("purity", -1),
        when=_entangled,
        error=errors,
        headline=True,
    ),
    Q(
        "entropy",
        "nat",
        "-sum p ln p of the occupations p of natural orbitals at the end, with the sum 1",
        _end_of_maps("entropy", -1),
        when=_entangled,
        error=errors,
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
    Q(
        "vector_potential_final",
        "a.u.",
        "A at the end",
        lambda r: r.problem.pulse.residual(r.problem.t_final),
        when=driven,
        exact=True,
    ),
    *ARRAYS,
    Q(
        "regions",
        "",
        "norms where both coordinates, one and none lie within the radius",
        frame("regions"),
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
    Q("density_xy", "1/bohr^2", "|psi|^2", _map("density"), ("map_time", "x_density", "y_density")),
    Q(
        "energy",
        "hartree",
        "field-free energy",
        _map("energy"),
        ("map_time",),
        note="not divided by the norm",
    ),
    Q("purity_of_time", "", "Tr rho^2 of one coordinate", _map("purity"), ("map_time",)),
    Q("entropy_of_time", "nat", "-sum p ln p of the occupations", _map("entropy"), ("map_time",)),
    Q(
        "occupations",
        "",
        "occupations of the natural orbitals, largest first",
        _map("occupations"),
        ("map_time", "orbital"),
    ),
    Q("psi_xy_final", "1/bohr", "wave function at the end", _stored_psi, ("x", "y")),
    *HARMONICS,
    *JUDGED,
)
