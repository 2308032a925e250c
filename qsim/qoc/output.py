"""Names, units and figures of a qoc result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.tables import Scalar, Table
from qsim.qoc.figures import FIGURES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.run import Result

__all__ = ["FIGURES", "HEADLINE", "TABLES", "arrays", "scalars"]

TABLES = (
    Table("time", ("time",), "a.u.", "time, midpoints of the steps"),
    Table("time_populations", ("time_populations",), "a.u.", "time of the thinned-out populations"),
    Table(
        "field",
        ("time",),
        "a.u.",
        "electric field",
        note="one value per step, used at the midpoint; field_between says how it goes on between",
    ),
    Table("field_guess", ("time",), "a.u.", "electric field of the guess"),
    Table("shape", ("time",), "", "shape function S(t)"),
    Table(
        "populations",
        ("time", "level"),
        "",
        "level populations",
        note="at the end of the step whose midpoint is in time; the last row belongs to T",
    ),
    Table(
        "populations_thinned", ("time_populations", "level"), "", "level populations at the end of some steps"
    ),
    Table("level", ("level",), "", "vibrational level"),
    Table("energies", ("level",), "hartree", "eigenvalues"),
    Table(
        "energies_error",
        ("level",),
        "hartree",
        "claimed error of each eigenvalue",
        note="NaN for levels above the potential far outside of the box",
    ),
    Table("dipole_matrix", ("level", "level_to"), "a.u.", "dipole matrix elements <i|mu|j>"),
    Table(
        "dipole_matrix_error",
        ("level", "level_to"),
        "a.u.",
        "claimed error of each dipole matrix element",
        note="NaN for levels above the potential far outside of the box",
    ),
    Table("amplitudes_final", ("level",), "", "level amplitudes at T"),
    Table("x", ("x",), "bohr", "grid points"),
    Table("potential", ("x",), "hartree", "potential energy"),
    Table("dipole", ("x",), "a.u.", "dipole function"),
    Table("psi_initial", ("x",), "bohr^-1/2", "initial wavefunction"),
    Table(
        "psi_target", ("x",), "bohr^-1/2", "target wavefunction (the first, if any of several levels will do)"
    ),
    Table("psi_final", ("x",), "bohr^-1/2", "wavefunction at T"),
    Table("frequency", ("frequency",), "hartree", "angular frequency"),
    Table("spectrum", ("frequency",), "a.u.", "power spectrum of the field, |integral eps exp(i w t) dt|^2"),
    Table("member_probability", ("member",), "", "probability of every ensemble member"),
    Table("member_field_scale", ("member",), "", "field factor of every ensemble member"),
    Table("history/sweeps", ("evaluation",), "", "propagations so far"),
    Table("history/probability", ("evaluation",), "", "probability"),
    Table("history/objective", ("evaluation",), "", "objective J"),
    Table("history/fluence", ("evaluation",), "a.u.", "integral of eps^2"),
    Table("history/gradient_norm", ("evaluation",), "a.u.", "norm of dJ/d eps"),
    Table("history/seconds", ("evaluation",), "s", "wall time since the start"),
    Table("history/gamma", ("iteration",), "", "step that the line search returned"),
    Table("history/beta", ("iteration",), "", "amplification, Eq. (10)"),
    Table(
        "history/line_search_evaluations", ("iteration",), "", "evaluations of the growing sequence, Eq. (9)"
    ),
    Table("line_search/gamma", ("candidate",), "", "sequence of Eq. (9) in the first iteration"),
    Table("line_search/objective", ("candidate",), "", "J along the sequence"),
    Table("line_search/bisection", ("midpoint",), "", "midpoints of the bisection in the first iteration"),
)

HEADLINE = (
    "probability",
    "probability_verified",
    "objective",
    "fluence",
    "peak_field",
    "peak_field_si",
    "sweeps",
    "iterations",
    "norm_error",
)


def arrays(result: Result) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    problem = result.problem
    molecule, levels = problem.molecule, problem.initial.shape[1]
    frequency, power = spectrum(result.field, problem.duration)
    out: dict[str, NDArray[Any]] = {
        "time": problem.times,
        "field": result.field,
        "field_guess": problem.guess,
        "shape": problem.control.shape,
        "level": np.arange(levels),
        "energies": molecule.energies[:levels],
        "dipole_matrix": molecule.dipole_matrix[:levels, :levels],
        "amplitudes_final": result.amplitudes,
        "x": molecule.x,
        "potential": molecule.potential,
        "dipole": molecule.dipole,
        "psi_initial": problem.goal.initial(levels)[0] @ molecule.states[:levels],
        "psi_target": problem.goal.targets(levels)[0][0] @ molecule.states[:levels],
        "psi_final": result.psi,
        "frequency": frequency,
        "spectrum": power,
    }
    if result.errors is not None:
        out["energies_error"] = result.errors.energies
        out["dipole_matrix_error"] = result.errors.dipoles
    if result.stride == 1:
        out["populations"] = result.populations
    else:
        out["time_populations"] = problem.times[result.stride - 1 :: result.stride]
        out["populations_thinned"] = result.populations
    if problem.members.count > 1:
        out["member_probability"] = result.member_probabilities
        out["member_field_scale"] = problem.members.scale
    out |= {f"history/{k}": v for k, v in result.history.items()}
    out |= result.extra
    return out


def scalars(result: Result) -> dict[str, Scalar]:
    """Return the headline numbers."""
    problem = result.problem
    tau, peak = problem.propagator.tau, float(np.abs(result.field).max(initial=0.0))
    molecule = problem.molecule
    used = tuple(int(k) for k in np.flatnonzero(result.reached_levels > 1e-6)) or (0,)
    claimed = result.errors is not None and result.errors.unclaimed is None
    error = result.errors.total if result.errors is not None and claimed else None
    out = {
        "probability": Scalar(
            result.probability, error=error, description="P, mean over the ensemble if there is one"
        ),
        "probability_verified": Scalar(
            None if result.verification is None else result.verification.probability,
            error=result.verification.error if result.verification is not None and claimed else None,
            description="P of the same field by an independent propagator on another grid",
        ),
        "objective": Scalar(result.objective, error=error, description="J = P - alpha integral eps^2 dt"),
        "fluence": Scalar(float(np.sum(result.field**2)) * tau, "a.u.", description="integral of eps^2"),
        "peak_field": Scalar(peak, "a.u.", description="largest |eps|"),
        "peak_field_si": Scalar(
            float(to_unit(peak, "V/nm", "electric field")), "V/nm", description="largest |eps|"
        ),
        "peak_intensity": Scalar(
            peak**2 * float(to_unit(1.0, "W/cm2", "intensity")),
            "W/cm2",
            description="intensity at the peak field, linear polarisation",
        ),
        "field_area": Scalar(float(np.sum(result.field)) * tau, "a.u.", description="integral of eps"),
        "sweeps": Scalar(result.sweeps, description="forward and backward propagations of the optimisation"),
        "iterations": Scalar(result.iterations, description="iterations of the optimiser"),
        "probability_guess": Scalar(result.guess_probability, description="P of the first field"),
        "threshold_reached": Scalar(result.reached, description="whether P reached objective.threshold"),
        "stop_reason": Scalar(result.reason, description="why the optimiser stopped"),
        "norm_error": Scalar(result.norm_error, description="largest deviation of the norm at T"),
        "truncation_leak": Scalar(
            result.truncation, description="largest population of the two highest levels kept"
        ),
        "wall_density": Scalar(
            molecule.wall_density(used),
            description="largest |psi|^2 dx at a wall among the levels that were populated",
        ),
    }
    if result.history.get("gradient_norm") is not None and result.history["gradient_norm"].size:
        out["gradient_norm"] = Scalar(
            float(result.history["gradient_norm"][-1]), "a.u.", description="norm of dJ/d eps at the end"
        )
    if result.verification is not None:
        out["verification_steps"] = Scalar(
            result.verification.steps, description="time steps of the verification"
        )
        out["verification_propagator"] = Scalar(
            result.verification.propagator, description="propagator of the verification"
        )
        out["verification_points"] = Scalar(
            result.verification.points, description="grid points of the verification"
        )
    if result.errors is not None:
        for name, value in result.errors.parts.items() if claimed else ():
            out[f"error_{name.replace(' ', '_')}"] = Scalar(
                value, description=f"part of the error of probability: {name}"
            )
        out["field_between"] = Scalar(
            result.errors.between,
            description="the field between its values: hold (constant in each step) or cubic",
        )
    if problem.members.count > 1:
        out["probability_worst"] = Scalar(
            float(result.member_probabilities.min()), description="smallest P in the ensemble"
        )
        out["probability_spread"] = Scalar(
            float(result.member_probabilities.std()), description="standard deviation of P in the ensemble"
        )
    if problem.optimizer.type == "travolta":
        gammas = result.extra.get("history/gamma", np.zeros(0))
        counts = result.extra.get("history/line_search_evaluations", np.zeros(0))
        out["line_search_evaluations_first"] = Scalar(
            int(counts[0]) if counts.size else None,
            description="evaluations of Eq. (9) in the first iteration",
        )
        out["gamma_first"] = Scalar(
            float(gammas[0]) if gammas.size else None, description="gamma of the first iteration"
        )
    return out


def spectrum(field: NDArray[np.float64], duration: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return angular frequencies (hartree) and ``|integral eps exp(i w t) dt|^2`` by a discrete Fourier transform."""
    tau = duration / field.size
    frequency = np.asarray(2 * np.pi * np.fft.rfftfreq(field.size, tau), dtype=float)
    return frequency, np.asarray(np.abs(np.fft.rfft(field) * tau) ** 2, dtype=float)
