"""Result of ``task: plane`` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.tridiag.tdse.motion import MotionResult
from qsim.tridiag.tdse.quantities import (
    ARRAYS,
    HARMONICS,
    JUDGED,
    SCALARS,
    driven,
    errors,
    frame,
    known,
    named_spectra,
    number,
)
from qsim.tridiag.tdse.scan.result import scan_quantities, shared, stacked

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["QUANTITIES", "SCANS", "PlaneResult"]

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

    @property
    def populations(self) -> dict[str, float]:
        """Populations of the levels at the end, by the name of the scalar."""
        rows = self.frames.get("populations")
        return {} if rows is None else {f"population_{k}": float(p) for k, p in enumerate(rows[-1])}

    def region(self, name: str) -> float:
        """Return the norm of a region at the end."""
        return float(self.frames["regions"][-1, ("inner", "single", "double").index(name)])

    @property
    def parts_of_space(self) -> dict[str, float]:
        """Norms in parts of the grid at the end, by the name of the scalar."""
        return {name: float(self.frames["parts"][-1, k]) for k, name in enumerate(self.problem.parts)}


Q = Quantity[PlaneResult]


def _pair(r: PlaneResult) -> bool:
    return bool(r.problem.system.pair)


def _planar(r: PlaneResult) -> bool:
    return bool(r.problem.system.planar)


def _second(name: str) -> Any:
    return lambda r: r.frames[name][:, 1] if r.problem.system.planar else None


def _map(name: str) -> Any:
    return lambda r: r.maps.get(name)


def _end_of_maps(name: str, index: int) -> Any:
    return lambda r: float(r.maps[name][index])


def _entangled(r: PlaneResult) -> bool:
    return "purity" in r.maps


def _region(name: str, text: str, *, headline: bool = False) -> Q:
    return Q(
        name,
        "",
        f"norm at the end where {text}",
        lambda r: r.region(name),
        when=_pair,
        error=errors,
        headline=headline,
    )


def _absorbed(name: str, index: int, text: str) -> Q:
    return Q(
        name,
        "",
        f"norm that the absorber has taken where {text}",
        lambda r: float(r.frames["absorbed"][-1, index]),
        when=lambda r: r.problem.lattice.absorbs and _pair(r),
        error=errors,
    )


def _axis(index: int) -> Any:
    return lambda r: r.problem.lattice.axes[index].x


def _stored_axis(index: int) -> Any:
    return lambda r: r.problem.lattice.axes[index].x[:: r.problem.strides[index]]


def _stored_psi(r: PlaneResult) -> Any:
    return r.psi / np.sqrt(r.problem.lattice.measure) if r.psi.size <= STORED else None


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
        when=_pair,
        exact=True,
    ),
    Q(
        "norm_absorbed",
        "",
        "norm that the absorber has taken",
        lambda r: float(r.frames["absorbed"][-1].sum()),
        when=lambda r: r.problem.lattice.absorbs and not _pair(r),
        error=errors,
    ),
    Q(
        "norm_in_*",
        "",
        "norm in the part * of the grid at the end",
        lambda r: {k: v for k, v in r.parts_of_space.items() if k.startswith("norm_in_")},
        error=errors,
        headline=True,
    ),
    Q(
        "mu",
        "hartree",
        "chemical potential at t = 0, <p^2/2 + V + g |psi|^2>",
        lambda r: float(r.maps["mu"][0]),
        when=lambda r: "mu" in r.maps,
        error=errors,
        headline=True,
    ),
    Q(
        "initial_residual",
        "hartree",
        "largest |H x - E x| of the levels",
        lambda r: float(r.problem.levels.residuals.max()),
        when=lambda r: r.problem.levels is not None,
        exact=True,
    ),
    Q(
        "dissociation",
        "",
        "norm in the box at the end with the nuclei farther apart than the distance of ker",
        lambda r: r.parts_of_space["dissociation"],
        when=lambda r: r.problem.observed.ker is not None,
        error=errors,
        headline=True,
    ),
    Q(
        "norm_of_momenta",
        "",
        "norm at the end that is beyond the radius of the momenta, in the map if it has all momenta",
        number("norm_of_momenta"),
        when=known("norm_of_momenta"),
        note="no error is claimed: the radius is a definition, and the map changes with it",
    ),
    Q(
        "dipole_y_final",
        "bohr",
        "dipole across the first direction at the end",
        lambda r: r.final("dipole", 1),
        when=_planar,
        error=errors,
    ),
    Q(
        "angular_momentum_final",
        "",
        "<x p_y - y p_x> at the end, not divided by the norm; p is the canonical momentum",
        _end_of_maps("angular_momentum", -1),
        when=_planar,
        error=errors,
        headline=True,
    ),
    Q(
        "vortices",
        "",
        "points at the end about which the phase turns, where the density exceeds a hundredth of its largest value",
        lambda r: int(r.maps["vortices"][-1]),
        when=_planar,
        exact=True,
        headline=True,
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
    Q("region_radius", "bohr", "radius of the regions", lambda r: r.problem.radius, when=_pair, exact=True),
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
        lambda r: r.frames["absorbed"] if r.problem.lattice.absorbs and _pair(r) else None,
        ("time", "channel"),
    ),
    Q("dipole_y", "bohr", "dipole across the first direction", _second("dipole"), ("time",)),
    Q(
        "acceleration_y",
        "a.u.",
        "acceleration across the first direction",
        _second("acceleration"),
        ("time",),
    ),
    Q(
        "field_y",
        "a.u.",
        "electric field across the first direction",
        lambda r: r.problem.electric(r.time)[1] if _planar(r) and driven(r) else None,
        ("time",),
    ),
    Q(
        "part",
        "",
        "names of the parts of the grid",
        lambda r: np.array(list(r.problem.parts), dtype=object) if r.problem.parts else None,
        ("part",),
    ),
    Q("norm_of_parts", "", "norms in parts of the grid", frame("parts"), ("time", "part")),
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
    Q(
        "coordinate",
        "",
        "names of both coordinates, which are x and y in the names of arrays",
        lambda r: np.array(r.problem.system.coordinates, dtype=object),
        ("coordinate",),
    ),
    Q("x", "bohr", "points of the first coordinate", _axis(0), ("x",)),
    Q("y", "bohr", "points of the second coordinate", _axis(1), ("y",)),
    Q("x_density", "bohr", "points of the maps", _stored_axis(0), ("x_density",)),
    Q("y_density", "bohr", "points of the maps", _stored_axis(1), ("y_density",)),
    Q("density_xy", "1/bohr^2", "|psi|^2", _map("density"), ("map_time", "x_density", "y_density")),
    Q(
        "current_x",
        "a.u.",
        "current density along x",
        _map("current_1"),
        ("map_time", "x_density", "y_density"),
    ),
    Q(
        "current_y",
        "a.u.",
        "current density along y",
        _map("current_2"),
        ("map_time", "x_density", "y_density"),
    ),
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
        "angular_momentum",
        "",
        "<x p_y - y p_x>",
        _map("angular_momentum"),
        ("map_time",),
        note="not divided by the norm",
    ),
    Q(
        "vortices_of_time",
        "",
        "points about which the phase turns",
        _map("vortices"),
        ("map_time",),
    ),
    Q(
        "occupations",
        "",
        "occupations of the natural orbitals, largest first",
        _map("occupations"),
        ("map_time", "orbital"),
    ),
    Q(
        "mu_of_time",
        "hartree",
        "chemical potential",
        _map("mu"),
        ("map_time",),
        note="not divided by the norm",
    ),
    *named_spectra(
        ("ker_energy", "hartree", "kinetic energies of the fragments", ("ker_energy",)),
        (
            "ker",
            "1/hartree",
            "kinetic-energy release dP/dE of nuclei of which one keeps the electron",
            ("ker_energy",),
        ),
        (
            "ker_change",
            "1/hartree",
            "change of ker by a distance that is a tenth larger",
            ("ker_energy",),
        ),
    ),
    *named_spectra(
        ("momentum_x", "a.u.", "momenta of the first coordinate", ("momentum_x",)),
        ("momentum_y", "a.u.", "momenta of the second coordinate", ("momentum_y",)),
        (
            "momentum_map",
            "a.u.",
            "density of the momenta beyond the radius; about an axis that in three dimensions, bohr^3",
            ("momentum_x", "momentum_y"),
        ),
        (
            "momentum_map_change",
            "a.u.",
            "change of the map by a radius that is a tenth larger",
            ("momentum_x", "momentum_y"),
        ),
    ),
    Q("psi_xy_final", "1/bohr", "wave function at the end", _stored_psi, ("x", "y")),
    *HARMONICS,
    *JUDGED,
)

#: Of scans.
SCANS = scan_quantities(
    (
        Quantity(
            "points", "", "points between the walls", lambda r: r.runs[0].problem.lattice.axes[0].points
        ),
        Quantity(
            "dx", "bohr", "grid spacing", lambda r: r.runs[0].problem.lattice.axes[0].spacing, exact=True
        ),
    ),
    (
        Quantity(
            "ker_energy",
            "hartree",
            "kinetic energies of the fragments",
            shared("ker_energy"),
            ("ker_energy",),
        ),
        Quantity(
            "scan_ker",
            "1/hartree",
            "kinetic-energy release of each run",
            stacked("ker", "ker_energy"),
            ("run", "ker_energy"),
        ),
    ),
    "system",
)
