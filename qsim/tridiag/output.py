"""Names, units and figures of a tridiag result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.tables import Scalar, Table
from qsim.tridiag.figures.propagation import FIGURES
from qsim.tridiag.problem import PSI_LIMIT
from qsim.tridiag.tasks.propagate import Propagated, trace_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.tridiag.deck.model import TridiagDeck
    from qsim.tridiag.tasks.accuracy import Accuracy

__all__ = ["FIGURES", "HEADLINE", "TABLES", "arrays", "extra_files", "extra_paths", "scalars"]

TABLES = (
    # task: propagate
    Table("time", ("time",), "a.u.", "output times"),
    Table("norm", ("time",), "", "norm of the state in the box"),
    Table("dipole", ("time",), "bohr", "sum of x |psi|^2 dx", note="not divided by the norm"),
    Table("velocity", ("time",), "a.u.", "<p + A>"),
    Table("acceleration", ("time",), "a.u.", "-<dV/dx> - E", note="dipole acceleration (Ehrenfest)"),
    Table("energy", ("time",), "hartree", "<(p + A)^2/2 + V>", note="not divided by the norm"),
    Table("wall_density", ("time",), "", "|psi|^2 dx at both walls together"),
    Table("field", ("time",), "a.u.", "electric field E(t)"),
    Table("vector_potential", ("time",), "a.u.", "A(t) = -integral of E"),
    Table("level", ("level",), "", "level"),
    Table("energies", ("level",), "hartree", "eigenvalues of the field-free Hamiltonian on the grid"),
    Table("populations", ("time", "level"), "", "level populations", note="of the length-gauge state"),
    Table("radius", ("radius",), "bohr", "radii of norm_within"),
    Table(
        "norm_within",
        ("time", "radius"),
        "",
        "norm within |x| < radius",
        note="a grid point on the edge counts half",
    ),
    Table("place", ("place",), "bohr", "places of norm_right"),
    Table("norm_right", ("time", "place"), "", "norm right of the place"),
    Table("x", ("x",), "bohr", "grid points"),
    Table("potential", ("x",), "hartree", "potential energy"),
    Table("absorber", ("x",), "hartree", "W of the complex potential -i W"),
    Table("mask", ("x",), "", "factor after every step"),
    Table("psi_initial", ("x",), "bohr^-1/2", "wavefunction at t = 0"),
    Table("psi_final", ("x",), "bohr^-1/2", "wavefunction at the end", note="in the gauge of the run"),
    Table("x_density", ("x_density",), "bohr", "grid points of the density map"),
    Table("density", ("time", "x_density"), "1/bohr", "|psi|^2"),
    Table("trace/time", ("sample",), "a.u.", "times of the fine trace"),
    Table("trace/norm", ("sample",), "", "norm"),
    Table("trace/dipole", ("sample",), "bohr", "sum of x |psi|^2 dx"),
    Table("trace/velocity", ("sample",), "a.u.", "integral of the acceleration"),
    Table("trace/acceleration", ("sample",), "a.u.", "-<dV/dx> - E"),
    Table("trace/field", ("sample",), "a.u.", "electric field E(t)"),
    Table("hhg_order", ("hhg_order",), "", "harmonic order"),
    Table("hhg_spectrum", ("hhg_order",), "a.u.", "|int s(t) w(t) exp(-i h omega t) dt|^2"),
    Table("gabor_time", ("gabor_time",), "a.u.", "times of the time-frequency map"),
    Table("gabor_order", ("gabor_order",), "", "harmonic orders of the map"),
    Table("hhg_gabor", ("gabor_time", "gabor_order"), "a.u.", "power of the acceleration"),
    Table("photoelectron_energy", ("photoelectron_energy",), "hartree", "energy"),
    Table("photoelectron_spectrum", ("photoelectron_energy",), "1/hartree", "probability density in energy"),
    Table("photoelectron_left", ("photoelectron_energy",), "1/hartree", "its part at x < 0"),
    Table("photoelectron_right", ("photoelectron_energy",), "1/hartree", "its part at x >= 0"),
)

HEADLINE = (
    "norm_final",
    "population_0",
    "population_1s",
    "energy_initial",
    "energy_final",
    "hhg_cutoff_order",
    "steps",
    "bound_population",
    "continuum_population",
    "rate",
    "residual",
    "backward_error",
    "blocks",
    "iterations",
    "solve_seconds",
    "alpha",
    "beta",
    "optimum_blocks",
)


def tables(result: Any) -> tuple[Table, ...]:
    """Return the declarations for a result: `x` is the grid of a propagation and the solution of a system."""
    return TABLES if isinstance(result, Propagated) else result.tables()


def arrays(result: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    return _propagation_arrays(result) if isinstance(result, Propagated) else result.arrays()


def scalars(result: Any) -> dict[str, Scalar]:
    """Return the headline numbers."""
    return _propagation_scalars(result) if isinstance(result, Propagated) else result.scalars()


def extra_paths(deck: TridiagDeck, stem: Path) -> list[Path]:
    """Return the file that a run may write beside its results: a solution that is too large for them."""
    return [stem.with_name(f"{stem.name}.x.h5")] if deck.task == "solve" else []


def extra_files(results: Results, stem: Path) -> list[Path]:
    """Return the file beside the results that the run has written."""
    named = results.scalars.get("x_file")
    return [] if named is None else [stem.with_name(str(named.value))]


def _propagation_arrays(result: Propagated) -> dict[str, NDArray[Any]]:
    problem, lattice, frames = result.problem, result.problem.lattice, result.frames
    time = problem.frames * problem.dt
    out: dict[str, NDArray[Any]] = {
        "time": time,
        "field": np.asarray(problem.field_at(time)),
        "vector_potential": np.asarray(problem.vector_at(time)),
        "x_density": lattice.x[problem.columns],
        **frames,
        **{f"trace/{name}": trace_of(result, name) for name in _TRACES},
        **result.spectra,
    }
    if problem.energies is not None:
        out |= {"level": np.arange(problem.energies.size), "energies": problem.energies}
    if problem.observed.norm_within:
        out["radius"] = np.array(problem.observed.norm_within)
    if problem.observed.norm_right:
        out["place"] = np.array(problem.observed.norm_right)
    if lattice.points <= PSI_LIMIT:
        out |= {"x": lattice.x, "potential": lattice.potential, "psi_final": result.psi}
        out["psi_initial"] = problem.psi0.astype(result.psi.dtype)
        if lattice.cap is not None:
            out["absorber"] = lattice.cap
        if lattice.mask is not None:
            out["mask"] = lattice.mask
    return out


_TRACES = ("time", "norm", "dipole", "velocity", "acceleration", "field")


def _propagation_scalars(result: Propagated) -> dict[str, Scalar]:
    problem, frames, info = result.problem, result.frames, result.info
    norm, energy = frames["norm"], frames["energy"]
    out = {
        "norm_final": Scalar(float(norm[-1]), description="norm in the box at the end"),
        "norm_initial": Scalar(float(norm[0]), description="norm at t = 0"),
        "energy_initial": Scalar(float(energy[0]), "hartree", description="<H> at t = 0"),
        "energy_final": Scalar(
            float(energy[-1]), "hartree", description="field-free energy at the end, not divided by the norm"
        ),
        "dipole_final": Scalar(
            float(frames["dipole"][-1]), "bohr", description="sum of x |psi|^2 dx at the end"
        ),
        "steps": Scalar(problem.steps, description="time steps"),
        "dt": Scalar(problem.dt, "a.u.", description="time step"),
        "t_final": Scalar(problem.steps * problem.dt, "a.u.", description="duration"),
        "dx": Scalar(problem.lattice.dx, "bohr", description="grid spacing"),
        "wall_density": Scalar(
            result.numbers["wall_density"], description="largest |psi|^2 dx at a wall at the end"
        ),
        "turned_back": Scalar(
            result.numbers["turned_back"], description="norm that the walls have turned back, roughly"
        ),
    }
    for level in range(frames["populations"].shape[1] if "populations" in frames else 0):
        out[f"population_{level}"] = Scalar(
            float(frames["populations"][-1, level]), description=f"population of level {level} at the end"
        )
    if "populations" in frames:
        total = float(frames["populations"][-1].sum())
        out["population_sum"] = Scalar(total, description="population of all these levels at the end")
    for index, radius in enumerate(problem.observed.norm_within):
        out[f"norm_within_{radius:g}"] = Scalar(
            float(frames["norm_within"][-1, index]), description=f"norm within {radius:g} bohr at the end"
        )
    for index, place in enumerate(problem.observed.norm_right):
        out[f"norm_right_{place:g}"] = Scalar(
            float(frames["norm_right"][-1, index]), description=f"norm right of x = {place:g} bohr at the end"
        )
    if result.accuracy is not None and not result.accuracy.why_not:
        out = {name: _with_error(scalar, result.accuracy.errors.get(name)) for name, scalar in out.items()}
        out |= _parts(result.accuracy)
    out |= _laser_scalars(result)
    for key, description in _INFO.items():
        if key in info:
            out[key] = Scalar(info[key], description=description)
    return out


def _with_error(scalar: Scalar, error: float | None) -> Scalar:
    return scalar if error is None else replace(scalar, error=error)


def _parts(accuracy: Accuracy) -> dict[str, Scalar]:
    """Return what the time step and the spacing contribute to the errors of norms and populations, at most."""
    texts = {"error_time_step": "time step", "error_spacing": "grid spacing"}
    parts = {"error_time_step": accuracy.time_step, "error_spacing": accuracy.spacing}
    return {
        key: Scalar(
            max(error for name, error in parts[key].items() if name.startswith(("norm", "population"))),
            description=f"largest error of a norm or population by the {text}",
        )
        for key, text in texts.items()
    }


_INFO = {
    "algorithm": "how the steps were done",
    "blocks": "blocks of the partition",
    "iterations": "nested partitions",
    "halo": "rows that neighbouring blocks share",
    "steps_per_pass": "time steps between two passes through memory",
    "min_pivot": "smallest pivot relative to its row",
}


def _laser_scalars(result: Propagated) -> dict[str, Scalar]:
    problem, pulse = result.problem, result.problem.pulse
    if not pulse.pulses:
        return {}
    end = problem.steps * problem.dt
    peak = pulse.peak(end)
    out = {
        "field_peak": Scalar(peak, "a.u.", description="largest |E(t)|"),
        "intensity_peak": Scalar(
            peak**2 * float(to_unit(1.0, "W/cm2", "intensity")),
            "W/cm2",
            description="intensity at the peak field, linear polarisation",
        ),
        "vector_potential_final": Scalar(pulse.residual(end), "a.u.", description="A at the end"),
    }
    if pulse.omega is not None:
        out |= {
            "omega": Scalar(pulse.omega, "hartree", description="carrier frequency"),
            "up": Scalar(pulse.up, "hartree", description="ponderomotive energy E0^2 / (4 omega^2)"),
            "quiver_radius": Scalar(pulse.quiver, "bohr", description="E0 / omega^2"),
        }
    if problem.ip is not None:
        out["ionisation_potential"] = Scalar(problem.ip, "hartree", description="Ip, of the ground state")
        if (keldysh := pulse.keldysh(problem.ip)) is not None:
            out["keldysh"] = Scalar(keldysh, description="Keldysh parameter sqrt(Ip / (2 Up))")
    if "hhg_cutoff_order" in result.numbers:
        out["hhg_cutoff_order"] = Scalar(
            result.numbers["hhg_cutoff_order"],
            description="order where the averaged spectrum has fallen one decade below its plateau",
        )
        out["hhg_cutoff_classical"] = Scalar(
            result.numbers["hhg_cutoff_classical"], description="(Ip + 3.17 Up) / omega"
        )
    return out
