"""Result of ``task: atom`` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.tridiag.atom.photoelectrons.tunnelling import adk_yield
from qsim.tridiag.deck.initial import level_name
from qsim.tridiag.tdse.motion import MotionResult
from qsim.tridiag.tdse.quantities import (
    ARRAYS,
    HARMONICS,
    JUDGED,
    SCALARS,
    component,
    electrons,
    errors,
    frame,
    known,
    named_spectra,
    number,
)
from qsim.tridiag.tdse.scan.result import scan_quantities, shared, stacked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.states.lanes import AnyLanes

__all__ = ["QUANTITIES", "SCANS", "AtomResult", "unpacked"]

# numbers of a final state that are written
STORED = 20_000_000


@dataclass(kw_only=True)
class AtomResult(MotionResult):
    """Result of a run of ``task: atom``.

    Attributes
    ----------
    phi : (used, n) complex128
        State at the end.
    lanes : Lanes or PlanarLanes
        Channels at the end.
    wall : float
        Radius of the wall at the end, bohr: smaller than the radius of the grid if a box that grows has not reached it.
    lost : float
        Norm that velocity gauge has set to zero at the core.
    points : slice
        Points of the radial density.
    speed : float or None
        Nanoseconds per point, l and step.
    """

    problem: AtomProblem
    phi: NDArray[np.complex128]
    lanes: AnyLanes
    wall: float
    lost: float
    points: slice
    speed: float | None

    @property
    def populations(self) -> dict[str, float]:
        """Populations of the levels at the end by the name of the scalar."""
        names = [level_name(level.n, level.l) for level in self.problem.levels]
        found = zip(names, map(float, self.frames["populations"][-1]), strict=True)
        # the largest first: levels below that of the electron hold nothing but rounding
        return {f"population_{name}": p for name, p in sorted(found, key=lambda one: -one[1])}

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


def _planar(r: AtomResult) -> bool:
    return r.problem.frame.planar


def _side(index: int) -> Any:
    """Return the spectra of a scan along the field, or against it."""

    def value(r: Any) -> Any:
        pad = r.stacked("pad", "energy")
        return None if pad is None or r.runs[0].problem.frame.planar else pad[:, :, index]

    return value


QUANTITIES: tuple[Q, ...] = (
    *SCALARS,
    Q("core_population", "", "population of levels below the initial one", lambda r: r.core, error=errors),
    Q(
        "dipole_y_final",
        "bohr",
        "<y> of the run at the end",
        lambda r: r.final("dipole", 1),
        when=_planar,
        error=errors,
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
    Q("ns_per_point_step", "ns", "time per radial point, l and step", lambda r: r.speed),
    Q(
        "adk_yield",
        "",
        "ionisation by the tunnelling rate of Ammosov, Delone and Krainov, to compare with",
        lambda r: adk_yield(r.problem),
        when=lambda r: adk_yield(r.problem) is not None,
        exact=True,
    ),
    Q(
        "attoclock_angle",
        "deg",
        "angle from -A at the peak of |E| to the maximum of the azimuths, in the sense of the field",
        number("attoclock_angle"),
        when=known("attoclock_angle"),
        headline=True,
        error=errors,
    ),
    Q(
        "attoclock_reference",
        "deg",
        "azimuth of -A at the peak of |E|",
        number("attoclock_reference"),
        when=known("attoclock_angle"),
        exact=True,
    ),
    Q(
        "attoclock_contrast",
        "",
        "(max - min) / (max + min) of attoclock_distribution",
        number("attoclock_contrast"),
        when=known("attoclock_angle"),
        error=errors,
    ),
    Q(
        "attoclock_momentum",
        "a.u.",
        "momentum of the largest k d3P/dk3 at that azimuth",
        number("attoclock_momentum"),
        when=known("attoclock_angle"),
        error=errors,
    ),
    *ARRAYS,
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
            ("dipole", "bohr", "dipole", component("dipole", 1)),
            ("velocity", "a.u.", "velocity", component("velocity", 1)),
            ("acceleration", "a.u.", "acceleration", component("acceleration", 1)),
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
        frame("population_l"),
        ("time", "l"),
        note="in the gauge of the run",
    ),
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
        when=lambda r: not _planar(r),
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
        lambda r: r.problem.lattice.grid.r[r.points],
        ("r_density",),
    ),
    Q("radial_density", "1/bohr", "sum over l of |u_l|^2", frame("radial_density"), ("time", "r_density")),
    *(
        Q(
            f"trace/{name}_y",
            unit,
            f"{name} along y of the run",
            lambda r, name=name: r.components(name)[1],  # type: ignore[misc]
            ("sample",),
            when=_planar,
        )
        for name, unit in (
            ("dipole", "bohr"),
            ("velocity", "a.u."),
            ("acceleration", "a.u."),
            ("field", "a.u."),
        )
    ),
    *HARMONICS,
    *electrons("energy"),
    *named_spectra(
        ("pes_l", "1/hartree", "parts of pes by l", ("energy", "l_final")),
        ("theta", "rad", "polar angles; in a plane, from its normal", ("theta",)),
        ("scattering_phase", "rad", "phase eta_l of the scattering states", ("energy", "l_final")),
        ("momentum_x", "a.u.", "momentum across the field; in a plane, along x of the run", ("momentum_x",)),
        ("momentum_y", "a.u.", "momentum along y of the run", ("momentum_y",)),
        (
            "momentum_z",
            "a.u.",
            "momentum along the field; in a plane, across it, along z of the run",
            ("momentum_z",),
        ),
        (
            "momentum_map",
            "a.u.",
            "d3P/dk^3 = (dP/dE dOmega) / k at p_y = 0",
            ("momentum_z", "momentum_x"),
        ),
        ("azimuth", "rad", "azimuths in the plane of the field, from x of the run", ("azimuth",)),
        ("pad_azimuth", "1/hartree", "d2P/(dE dOmega) in the plane of the field", ("energy", "azimuth")),
        (
            "attoclock_distribution",
            "a.u.",
            "integral of k d3P/dk3 over k in the plane of the field",
            ("azimuth",),
        ),
        ("attoclock_map", "a.u.", "d3P/dk3 in the plane of the field", ("momentum_y", "momentum_x")),
    ),
    Q(
        "pad",
        "1/hartree",
        "d2P/(dE dOmega); in a plane, the mean over azimuths",
        lambda r: r.spectra.get("pad"),
        ("energy", "theta"),
        note="times 2 pi sin(theta) dtheta gives dP/dE",
    ),
    Q(
        "pad_sphere",
        "1/hartree",
        "d2P/(dE dOmega) in all directions",
        lambda r: r.spectra.get("pad_sphere"),
        ("energy", "theta", "azimuth"),
        note="of the run: theta from the normal of the plane of the field, azimuth from x",
    ),
    *JUDGED,
)

#: Of scans.
SCANS = scan_quantities(
    (
        Quantity("gauge", "", "gauge of the runs", lambda r: r.runs[0].problem.setting.gauge),
        Quantity("points", "", "radial points", lambda r: r.runs[0].problem.lattice.grid.points),
        Quantity(
            "lmax",
            "",
            "largest angular momentum at the end of any run",
            lambda r: max(one.lanes.lmax for one in r.runs),
        ),
    ),
    (
        Quantity(
            "scan_pes_along",
            "1/hartree",
            "d2P/(dE dOmega) along the field, theta = 0",
            _side(0),
            ("run", "energy"),
        ),
        Quantity(
            "scan_pes_against",
            "1/hartree",
            "d2P/(dE dOmega) against the field, theta = pi",
            _side(-1),
            ("run", "energy"),
        ),
        Quantity("azimuth", "rad", "azimuths in the plane of the field", shared("azimuth"), ("azimuth",)),
        Quantity(
            "scan_azimuths",
            "a.u.",
            "attoclock_distribution of each run",
            stacked("attoclock_distribution", "azimuth"),
            ("run", "azimuth"),
        ),
    ),
    "atom",
)
