"""Result of a run and its quantities: names, units and meanings in the results file."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as attribute
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.errors.parts import Errors
    from qsim.qoc.errors.verification import Verification
    from qsim.qoc.problem import MoleculeProblem

# Largest population from which a level counts for the density at the walls.
POPULATED = 1e-6


@dataclass
class Result:
    """Result of a run; ``output.py`` gives the names in the file."""

    problem: MoleculeProblem
    field: NDArray[np.float64]
    probability: float
    objective: float
    guess_probability: float
    member_probabilities: NDArray[np.float64]
    populations: NDArray[np.float64]
    stride: int
    amplitudes: NDArray[np.complex128]
    psi: NDArray[np.complex128]
    norm_error: float
    truncation: float
    verification: Verification | None
    errors: Errors | None
    reached_levels: NDArray[np.float64]
    sweeps: int
    iterations: int
    reached: bool
    reason: str
    history: dict[str, NDArray[np.float64]] = attribute(default_factory=dict)
    extra: dict[str, NDArray[np.float64]] = attribute(default_factory=dict)

    @property
    def task(self) -> str:
        """Kind of system, by which its quantities are found."""
        return "grid"

    @property
    def levels(self) -> int:
        """Number of levels K of the run."""
        return int(self.problem.initial.shape[1])

    @property
    def claimed(self) -> bool:
        """True if an error of P is claimed."""
        return self.errors is not None and self.errors.unclaimed is None


# ----------------------------------------------------------------------------------------- derived numbers


def spectrum(field: NDArray[np.float64], duration: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return angular frequencies (hartree) and ``|integral eps exp(i w t) dt|^2`` by a discrete Fourier transform."""
    tau = duration / field.size
    frequency = np.asarray(2 * np.pi * np.fft.rfftfreq(field.size, tau), dtype=float)
    return frequency, np.asarray(np.abs(np.fft.rfft(field) * tau) ** 2, dtype=float)


def _states(result: Result) -> NDArray[np.float64]:
    """Return the levels on the grid (K, L)."""
    return result.problem.molecule.states[: result.levels]


def _peak(result: Result) -> float:
    """Return the largest field strength, a.u."""
    return float(np.abs(result.field).max(initial=0.0))


def _error(result: Result) -> float | None:
    """Return the claimed error of P; None if none is claimed."""
    return result.errors.total if result.errors is not None and result.claimed else None


def _guess_error(result: Result) -> float | None:
    """Return the claimed error of P of the first field; None if none is claimed."""
    if result.errors is None or not result.claimed or not np.isfinite(result.errors.guess):
        return None
    return result.errors.guess


def _worst_error(result: Result) -> float | None:
    """Return the error of the smallest P: it changes by no more than that of a member does."""
    return float(result.errors.of_members.max()) if result.errors is not None and result.claimed else None


def _spread_error(result: Result) -> float | None:
    """Return the error of the standard deviation, at most the root mean square of those of the members."""
    if result.errors is None or not result.claimed:
        return None
    return float(np.sqrt(np.mean(result.errors.of_members**2)))


def _verified_error(result: Result) -> float | None:
    return result.verification.error if result.verification is not None and result.claimed else None


def _parts(result: Result) -> dict[str, float]:
    """Return the parts of the error of P by their names in the file."""
    if result.errors is None or not result.claimed:
        return {}
    parts = dict(result.errors.parts)
    if result.problem.course is None:
        del parts["slots"]
    return {f"error_{name.replace(' ', '_')}": value for name, value in parts.items()}


def _wall_density(result: Result) -> float:
    used = tuple(int(k) for k in np.flatnonzero(result.reached_levels > POPULATED)) or (0,)
    return result.problem.molecule.wall_density(used)


def _extra(name: str) -> Callable[[Result], object]:
    """Return the function that looks up what only some optimisers leave."""
    return lambda result: result.extra.get(name)


def _history(name: str) -> Callable[[Result], object]:
    return lambda result: result.history.get(name)


def _first(name: str, kind: type) -> Callable[[Result], object]:
    """Return the function for the first number of what the line search leaves; None if there was no iteration."""

    def first(result: Result) -> object:
        values = result.extra.get(name, np.zeros(0))
        return kind(values[0]) if values.size else None

    return first


def _verified(result: Result) -> bool:
    return result.verification is not None


def _has_ensemble(result: Result) -> bool:
    return result.problem.members.count > 1


def _has_gradients(result: Result) -> bool:
    return "gradient_norm" in result.history and result.history["gradient_norm"].size > 0


def _searches_lines(result: Result) -> bool:
    return result.problem.optimizer.type == "travolta"


def _if_whole(result: Result) -> bool:
    """Return True if the populations of all steps are kept."""
    return result.stride == 1


def _if_thinned(result: Result) -> bool:
    return not _if_whole(result)


def _if_judged(result: Result) -> bool:
    return result.errors is not None


# ---------------------------------------------------------------------------------------------- quantities

FAR = "NaN for levels above the potential far outside of the box"

ARRAYS: tuple[Quantity[Result], ...] = (
    Quantity("time", "a.u.", "time, midpoints of the steps", lambda r: r.problem.times, ("time",)),
    Quantity(
        "time_populations",
        "a.u.",
        "time of the thinned-out populations",
        lambda r: r.problem.times[r.stride - 1 :: r.stride],
        ("time_populations",),
        when=_if_thinned,
    ),
    Quantity(
        "field",
        "a.u.",
        "electric field",
        lambda r: r.field,
        ("time",),
        note="one value per step, used at the midpoint; field_between says how it goes on between",
    ),
    Quantity("field_guess", "a.u.", "electric field of the guess", lambda r: r.problem.guess[0], ("time",)),
    Quantity("shape", "", "shape function S(t)", lambda r: r.problem.control.shape, ("time",)),
    Quantity(
        "populations",
        "",
        "level populations",
        lambda r: r.populations,
        ("time", "level"),
        when=_if_whole,
        note="at the end of the step whose midpoint is in time; the last row belongs to T",
    ),
    Quantity(
        "populations_thinned",
        "",
        "level populations at the end of some steps",
        lambda r: r.populations,
        ("time_populations", "level"),
        when=_if_thinned,
    ),
    Quantity("level", "", "vibrational level", lambda r: np.arange(r.levels), ("level",)),
    Quantity(
        "energies", "hartree", "eigenvalues", lambda r: r.problem.molecule.energies[: r.levels], ("level",)
    ),
    Quantity(
        "energies_error",
        "hartree",
        "claimed error of each eigenvalue",
        lambda r: r.errors and r.errors.energies,
        ("level",),
        note=FAR,
    ),
    Quantity(
        "dipole_matrix",
        "a.u.",
        "dipole matrix elements <i|mu|j>",
        lambda r: r.problem.molecule.dipole_matrix[: r.levels, : r.levels],
        ("level", "level_to"),
    ),
    Quantity(
        "dipole_matrix_error",
        "a.u.",
        "claimed error of each dipole matrix element",
        lambda r: r.errors and r.errors.dipoles,
        ("level", "level_to"),
        note=FAR,
    ),
    Quantity("amplitudes_final", "", "level amplitudes at T", lambda r: r.amplitudes, ("level",)),
    Quantity("x", "bohr", "grid points", lambda r: r.problem.molecule.x, ("x",)),
    Quantity("potential", "hartree", "potential energy", lambda r: r.problem.molecule.potential, ("x",)),
    Quantity("dipole", "a.u.", "dipole function", lambda r: r.problem.molecule.dipole, ("x",)),
    Quantity(
        "psi_initial",
        "bohr^-1/2",
        "initial wavefunction",
        lambda r: r.problem.goal.initial(r.levels)[0] @ _states(r),
        ("x",),
    ),
    Quantity(
        "psi_target",
        "bohr^-1/2",
        "target wavefunction (the first, if any of several levels will do)",
        lambda r: r.problem.goal.targets(r.levels)[0][0] @ _states(r),
        ("x",),
    ),
    Quantity("psi_final", "bohr^-1/2", "wavefunction at T", lambda r: r.psi, ("x",)),
    Quantity(
        "frequency",
        "hartree",
        "angular frequency",
        lambda r: spectrum(r.field, r.problem.duration)[0],
        ("frequency",),
    ),
    Quantity(
        "spectrum",
        "a.u.",
        "power spectrum of the field, |integral eps exp(i w t) dt|^2",
        lambda r: spectrum(r.field, r.problem.duration)[1],
        ("frequency",),
    ),
    Quantity(
        "member_probability",
        "",
        "probability of every ensemble member",
        lambda r: r.member_probabilities,
        ("member",),
        when=_has_ensemble,
    ),
    Quantity(
        "member_field_scale",
        "",
        "field factor of every ensemble member",
        lambda r: r.problem.members.scale,
        ("member",),
        when=_has_ensemble,
    ),
    Quantity("history/sweeps", "", "propagations so far", _history("sweeps"), ("evaluation",)),
    Quantity("history/probability", "", "probability", _history("probability"), ("evaluation",)),
    Quantity("history/objective", "", "objective J", _history("objective"), ("evaluation",)),
    Quantity("history/fluence", "a.u.", "integral of eps^2", _history("fluence"), ("evaluation",)),
    Quantity("history/gradient_norm", "a.u.", "norm of dJ/d eps", _history("gradient_norm"), ("evaluation",)),
    Quantity("history/seconds", "s", "wall time since the start", _history("seconds"), ("evaluation",)),
    Quantity(
        "history/gamma", "", "step that the line search returned", _extra("history/gamma"), ("iteration",)
    ),
    Quantity("history/beta", "", "amplification, Eq. (10)", _extra("history/beta"), ("iteration",)),
    Quantity(
        "history/line_search_evaluations",
        "",
        "evaluations of the growing sequence, Eq. (9)",
        _extra("history/line_search_evaluations"),
        ("iteration",),
    ),
    Quantity(
        "line_search/gamma",
        "",
        "sequence of Eq. (9) in the first iteration",
        _extra("line_search/gamma"),
        ("candidate",),
    ),
    Quantity(
        "line_search/objective", "", "J along the sequence", _extra("line_search/objective"), ("candidate",)
    ),
    Quantity(
        "line_search/bisection",
        "",
        "midpoints of the bisection in the first iteration",
        _extra("line_search/bisection"),
        ("midpoint",),
    ),
)


def _continuous(result: Result, place: int) -> float | None:
    """Return P under the function of time that the deck gives, or its error; None without one."""
    known = None if result.errors is None else result.errors.continuous
    return None if known is None else known[place]


SCALARS: tuple[Quantity[Result], ...] = (
    Quantity(
        "probability",
        "",
        "P, mean over the ensemble if there is one",
        lambda r: r.probability,
        error=_error,
        headline=True,
    ),
    Quantity(
        "probability_verified",
        "",
        "P of the same field by an independent propagator on another grid",
        lambda r: r.verification and r.verification.probability,
        error=_verified_error,
        headline=True,
    ),
    Quantity(
        "probability_continuous",
        "",
        "P of the function of time that the deck gives, instead of its values in the steps",
        lambda r: _continuous(r, 0),
        error=lambda r: _continuous(r, 1),
        when=lambda r: _continuous(r, 0) is not None,
    ),
    Quantity(
        "objective", "", "J = P - alpha integral eps^2 dt", lambda r: r.objective, error=_error, headline=True
    ),
    Quantity(
        "fluence",
        "a.u.",
        "integral of eps^2",
        lambda r: float(np.sum(r.field**2)) * r.problem.propagator.tau,
        headline=True,
        exact=True,
    ),
    Quantity("peak_field", "a.u.", "largest |eps|", _peak, headline=True, exact=True),
    Quantity(
        "peak_field_si",
        "V/nm",
        "largest |eps|",
        lambda r: float(to_unit(_peak(r), "V/nm", "electric field")),
        headline=True,
        exact=True,
    ),
    Quantity(
        "peak_intensity",
        "W/cm2",
        "intensity at the peak field, linear polarisation",
        lambda r: _peak(r) ** 2 * float(to_unit(1.0, "W/cm2", "intensity")),
        exact=True,
    ),
    Quantity(
        "field_area",
        "a.u.",
        "integral of eps",
        lambda r: float(np.sum(r.field)) * r.problem.propagator.tau,
        exact=True,
    ),
    Quantity(
        "sweeps",
        "",
        "forward and backward propagations of the optimisation",
        lambda r: r.sweeps,
        headline=True,
    ),
    Quantity("iterations", "", "iterations of the optimiser", lambda r: r.iterations, headline=True),
    Quantity(
        "probability_guess", "", "P of the first field", lambda r: r.guess_probability, error=_guess_error
    ),
    Quantity("threshold_reached", "", "whether P reached objective.threshold", lambda r: r.reached),
    Quantity("stop_reason", "", "why the optimiser stopped", lambda r: r.reason),
    Quantity("norm_error", "", "largest deviation of the norm at T", lambda r: r.norm_error, headline=True),
    Quantity(
        "truncation_leak",
        "",
        "largest population of the two highest levels kept",
        lambda r: r.truncation,
        exact=True,
    ),
    Quantity(
        "wall_density",
        "",
        "largest |psi|^2 dx at a wall among the levels that were populated",
        _wall_density,
        exact=True,
    ),
    Quantity(
        "gradient_norm",
        "a.u.",
        "norm of dJ/d eps at the end",
        lambda r: float(r.history["gradient_norm"][-1]),
        when=_has_gradients,
        exact=True,
    ),
    Quantity(
        "verification_steps",
        "",
        "time steps of the verification",
        lambda r: r.verification and r.verification.steps,
        when=_verified,
    ),
    Quantity(
        "verification_propagator",
        "",
        "propagator of the verification",
        lambda r: r.verification and r.verification.propagator,
        when=_verified,
    ),
    Quantity(
        "verification_points",
        "",
        "grid points of the verification",
        lambda r: r.verification and r.verification.points,
        when=_verified,
    ),
    Quantity("error_*", "", "part of the error of probability: *", _parts),
    Quantity(
        "field_between",
        "",
        "the field between its values: hold (constant in each step) or cubic",
        lambda r: r.errors and r.errors.between,
        when=_if_judged,
    ),
    Quantity(
        "probability_worst",
        "",
        "smallest P in the ensemble",
        lambda r: float(r.member_probabilities.min()),
        error=_worst_error,
        when=_has_ensemble,
    ),
    Quantity(
        "probability_spread",
        "",
        "standard deviation of P in the ensemble",
        lambda r: float(r.member_probabilities.std()),
        error=_spread_error,
        when=_has_ensemble,
    ),
    Quantity(
        "line_search_evaluations_first",
        "",
        "evaluations of Eq. (9) in the first iteration",
        _first("history/line_search_evaluations", int),
        when=_searches_lines,
    ),
    Quantity(
        "gamma_first",
        "",
        "gamma of the first iteration",
        _first("history/gamma", float),
        when=_searches_lines,
        exact=True,
    ),
)

QUANTITIES = (*SCALARS, *ARRAYS)
