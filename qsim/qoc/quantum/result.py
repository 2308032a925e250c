"""Result of the control of a quantum system, and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qoc.models.quantum import GateTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, FloatArray
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.models.plane.levels import Plane
    from qsim.qoc.objectives.jumps import Expansion
    from qsim.qoc.quantum.continuous import Continuous
    from qsim.qoc.quantum.ensembles.ensemble import EnsembleResult
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.problem import QuantumProblem
    from qsim.qoc.quantum.verification import Check

__all__ = ["QUANTITIES", "QuantumResult"]

# Levels whose wavefunctions are kept in the file beside those of the start and the goal.
SHOWN = 6
# Population from which a level counts as one of start or goal.
SEEN = 1e-3


@dataclass
class QuantumResult:
    """Result of a run with a quantum system."""

    problem: QuantumProblem
    kind: str
    fields: NDArray[np.float64]
    outcome: Outcome
    value_guess: float
    populations: NDArray[np.float64]
    stride: int
    check: Check | None
    controls: Controls
    parameters: NDArray[np.float64]
    continuous: Continuous | None
    sweeps: int
    iterations: int
    reached: bool
    reason: str
    history: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    ensemble: EnsembleResult | None = None
    extra: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """Kind of system, by which its quantities are found."""
        return "quantum"

    @property
    def value(self) -> float:
        """Value of the goal."""
        return self.outcome.value if self.ensemble is None else self.ensemble.value

    @property
    def nominal(self) -> float:
        """Value of the system as the deck has it."""
        return self.outcome.value

    @property
    def error(self) -> float | None:
        """Claimed error of the value; None if none is claimed."""
        if self.check is None or self.check.unclaimed is not None:
            return None
        return self.check.error


def _named(result: QuantumResult, rows: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return one row per control by its path in the file."""
    names = [c.name for c in result.problem.model.controls]
    return dict(zip(names, rows, strict=True))


def _fields(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    return {f"control/{k}": v for k, v in _named(result, result.fields).items()}


def _guesses(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    return {f"control_guess/{k}": v for k, v in _named(result, result.problem.guess).items()}


def _by_control(
    name: str, number: Callable[[NDArray[np.float64], float], float]
) -> Callable[[QuantumResult], object]:
    """Return a scalar of each control from its values and the length of a slot."""

    def of_all(result: QuantumResult) -> dict[str, float]:
        tau = result.problem.objective.tau
        return {f"{name}_{k}": number(v, tau) for k, v in _named(result, result.fields).items()}

    return of_all


def _fluence(values: NDArray[np.float64], tau: float) -> float:
    return float(np.sum(values**2)) * tau


def _area(values: NDArray[np.float64], tau: float) -> float:
    return float(np.sum(values)) * tau


def _peak(values: NDArray[np.float64], tau: float) -> float:
    return float(np.abs(values).max(initial=0.0))


def _coefficients(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    """Return the coefficients of the functions of each control, of all draws one after another."""
    found = {}
    names = [c.name for c in result.problem.model.controls]
    parts = result.controls.parts(result.parameters)
    for name, line, u in zip(names, result.controls.lines, parts, strict=True):
        if line.basis is not None and line.fixed is None:
            drawn = [basis.coefficients(old) for basis, old in (*line.past, (line.basis, u))]
            found[f"parameters/{name}/coefficients"] = np.concatenate(drawn)
    return found


def _frequencies(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    """Return the angular frequencies of the Fourier modes of each control, of all draws one after another."""
    found = {}
    names = [c.name for c in result.problem.model.controls]
    for name, line in zip(names, result.controls.lines, strict=True):
        bases = [basis for basis, _ in line.past] + ([] if line.basis is None else [line.basis])
        drawn = [b.frequencies for b in bases if b.frequencies is not None]
        if drawn and line.fixed is None:
            found[f"parameters/{name}/frequencies"] = np.concatenate(drawn)
    return found


def _slots_leave(result: QuantumResult) -> float | None:
    """Return how far the value of the continuous controls may be from that of the slots."""
    c = result.continuous
    return None if c is None else abs(c.value - result.value) + c.error


def _leakage(result: QuantumResult) -> float | None:
    """Return the mean population outside of the logical space at T."""
    goal = result.problem.model.goal
    if not isinstance(goal, GateTarget):
        return None
    inside = goal.columns.conj().T @ result.outcome.density @ goal.columns
    return float(1.0 - np.trace(inside).real)


def _process(result: QuantumResult) -> float | None:
    """Return F_pro from ``F = (d F_pro + 1 - leak)/(d + 1)``."""
    goal, leak = result.problem.model.goal, _leakage(result)
    if not isinstance(goal, GateTarget) or leak is None:
        return None
    d = goal.columns.shape[1]
    return ((d + 1) * result.nominal - 1.0 + leak) / d


def _process_error(result: QuantumResult) -> float | None:
    """Return the claimed error of F_pro: (1 + 1/d) that of F and 1/d that of the leakage, which share their bounds.

    None where a basis was cut: what more levels change in the leakage is not what they change in F. Where jumps are known by an
    interval, the leakage is off by its whole length, twice the error of F.
    """
    if result.error is None or result.check is None or result.check.parts["levels"] > 0.0 or result.ensemble:
        return None
    return (3.0 if result.problem.objective.lossy and result.problem.finish is None else 2.0) * result.error


def _unitary(result: QuantumResult) -> ComplexArray | None:
    """Return what the controls make of the logical space, up to a global phase; None for density matrices."""
    goal = result.problem.model.goal
    if not isinstance(goal, GateTarget) or result.problem.objective.lindblad:
        return None
    made = goal.columns.conj().T @ result.outcome.final
    overlap = np.vdot(goal.unitary, made)
    return np.asarray(made * np.exp(-1j * np.angle(overlap)))


def _purity(result: QuantumResult) -> float:
    return float(np.sum(np.abs(result.outcome.density) ** 2))


def _kind(name: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == name


def _expanded(part: Callable[[Expansion], float]) -> Callable[[QuantumResult], object]:
    """Return a quantity of the expansion in jumps."""
    return lambda result: result.outcome.expansion and part(result.outcome.expansion)


def _expanded_kind(name: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == name and result.outcome.expansion is not None


def _parts(result: QuantumResult) -> dict[str, float]:
    if result.check is None:
        return {}
    return {f"error_{name}": value for name, value in result.check.parts.items()}


def _verified_kind(name: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == name and result.check is not None


def _continuous_kind(name: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == name and result.continuous is not None


def _history(name: str) -> Callable[[QuantumResult], object]:
    return lambda result: result.history.get(name)


MEANINGS = {
    "probability": "probability of the goal at T",
    "fidelity": "average fidelity of the gate over all states of the logical space",
    "observable": "mean value of the observable at T",
}

VALUES: tuple[Quantity[QuantumResult], ...] = tuple(
    quantity
    for name, text in MEANINGS.items()
    for quantity in (
        Quantity(name, "", text, lambda r: r.value, error=lambda r: r.error, when=_kind(name), headline=True),
        Quantity(
            f"{name}_verified",
            "",
            f"{text}, by exponentials of another algorithm",
            lambda r: r.check and r.check.value,
            error=lambda r: r.error,
            when=_verified_kind(name),
            headline=True,
        ),
        Quantity(
            f"{name}_continuous",
            "",
            f"{text}, of the formulas and functions themselves instead of values that are held in slots",
            lambda r: r.continuous and r.continuous.value,
            error=lambda r: r.continuous and r.continuous.error,
            when=_continuous_kind(name),
        ),
        Quantity(
            f"{name}_guess", "", f"{text}, of the first values", lambda r: r.value_guess, when=_kind(name)
        ),
    )
)

BY_JUMPS: tuple[Quantity[QuantumResult], ...] = tuple(
    Quantity(f"{name}_{end}", "", f"{MEANINGS[name]}: {text}", _expanded(part), when=_expanded_kind(name))
    for name in MEANINGS
    for end, text, part in (
        ("no_jump", "contribution of no jump", lambda e: e.zero),
        ("one_jump", "contribution of at most one jump", lambda e: e.zero + e.one),
        ("lower", "rigorous lower bound by the number of jumps", lambda e: e.lower),
        ("upper", "rigorous upper bound by the number of jumps", lambda e: e.upper),
    )
)

SCALARS: tuple[Quantity[QuantumResult], ...] = (
    *BY_JUMPS,
    Quantity(
        "jump_free",
        "",
        "probability of no jump until T",
        _expanded(lambda e: e.jump_free),
        when=lambda r: r.outcome.expansion is not None,
    ),
    Quantity(
        "jump_single",
        "",
        "probability of one jump until T",
        _expanded(lambda e: e.one_jump),
        when=lambda r: r.outcome.expansion is not None,
    ),
    Quantity(
        "fidelity_process",
        "",
        "process fidelity of the gate, of an ensemble that of the nominal system",
        _process,
        error=_process_error,
        when=_kind("fidelity"),
        headline=True,
    ),
    Quantity(
        "leakage",
        "",
        "mean population outside of the logical space, of an ensemble that of the nominal system",
        _leakage,
        when=_kind("fidelity"),
        headline=True,
    ),
    Quantity(
        "fidelity_coherence_limit",
        "",
        "first-order estimate of the fidelity that jumps leave of the gate",
        lambda r: r.problem.limits.coherence,
        when=lambda r: r.problem.limits.coherence is not None,
    ),
    Quantity(
        "bound_mixture",
        "",
        "the most that unitary motion can make of the start",
        lambda r: r.problem.limits.mixture,
        when=lambda r: r.problem.limits.mixture is not None,
    ),
    Quantity(
        "speed_limit_bound",
        "",
        "the most that controls within their bounds reach in T",
        lambda r: r.problem.limits.speed,
        when=lambda r: r.problem.limits.speed is not None,
    ),
    Quantity("purity", "", "purity of the mean final state", _purity),
    Quantity(
        "objective",
        "",
        "J, the value less alpha times the fluence",
        lambda r: r.value - r.problem.searched.penalty(r.fields),
        error=lambda r: r.error,
    ),
    Quantity(
        "fluence",
        "",
        "integral of the sum of u^2, in the units of the system",
        lambda r: float(np.sum(r.fields**2)) * r.problem.objective.tau,
        headline=True,
        exact=True,
    ),
    Quantity(
        "peak",
        "",
        "largest |u| of any control",
        lambda r: float(np.abs(r.fields).max(initial=0.0)),
        headline=True,
        exact=True,
    ),
    Quantity("sweeps", "", "forward and backward propagations", lambda r: r.sweeps, headline=True),
    Quantity("iterations", "", "iterations of the optimiser", lambda r: r.iterations, headline=True),
    Quantity("threshold_reached", "", "whether the threshold was reached", lambda r: r.reached),
    Quantity("stop_reason", "", "why the optimiser stopped", lambda r: r.reason),
    Quantity(
        "norm_error",
        "",
        "largest change of a norm or trace",
        lambda r: r.problem.searched.norm_error,
        headline=True,
    ),
    Quantity("error_*", "", "part of the error of the value: *", _parts),
    Quantity(
        "error_slots",
        "",
        "how far the value of the functions themselves may be from that of the values held in slots; no part of the error",
        _slots_leave,
        when=lambda r: r.continuous is not None,
    ),
    Quantity("fluence_*", "", "integral of u^2 of the control *", _by_control("fluence", _fluence)),
    Quantity("area_*", "", "integral of the control *", _by_control("area", _area)),
    Quantity("peak_*", "", "largest |u| of the control *", _by_control("peak", _peak)),
    Quantity(
        "time_unit",
        "s",
        "one unit of time of this file",
        lambda r: r.problem.model.seconds,
        when=lambda r: r.problem.model.seconds is not None,
    ),
)

ARRAYS: tuple[Quantity[QuantumResult], ...] = (
    Quantity("time", "", "middles of the slots, in time_unit", lambda r: r.problem.times, ("time",)),
    Quantity(
        "control/*",
        "",
        "values of the control *, in system.unit (rotor, grid2d: electric field, a.u.)",
        _fields,
        ("time",),
        note="constant in each slot",
    ),
    Quantity(
        "control_guess/*",
        "",
        "first values of the control *, in system.unit (rotor, grid2d: electric field, a.u.)",
        _guesses,
        ("time",),
    ),
    Quantity(
        "populations",
        "",
        "populations of the basis states",
        lambda r: r.populations,
        ("time_populations", "level"),
        note="of a gate, from its first logical state; at the end of a slot, the last row belongs to T; without a jump where the "
        "jumps are known by an interval alone",
    ),
    Quantity(
        "labels",
        "",
        "name of a basis state",
        lambda r: np.array(r.problem.model.labels, dtype=object),
        ("level",),
    ),
    Quantity(
        "time_populations",
        "",
        "times of the populations, in time_unit",
        lambda r: (r.problem.times + 0.5 * r.problem.objective.tau)[r.stride - 1 :: r.stride],
        ("time_populations",),
    ),
    Quantity(
        "rho_final",
        "",
        "mean density matrix at T",
        lambda r: r.outcome.density,
        ("level", "level_to"),
    ),
    Quantity(
        "unitary_final",
        "",
        "matrix in the logical space at T, without a jump; its overlap with the gate made positive",
        _unitary,
        ("logical", "logical_to"),
    ),
    Quantity("history/objective", "", "objective J", _history("objective"), ("evaluation",)),
    Quantity(
        "history/probability",
        "",
        "value of the goal; without a jump where the search is",
        _history("probability"),
        ("evaluation",),
    ),
    Quantity("history/sweeps", "", "propagations so far", _history("sweeps"), ("evaluation",)),
    Quantity("history/fluence", "", "integral of the sum of u^2", _history("fluence"), ("evaluation",)),
    Quantity("history/gradient_norm", "", "norm of dJ/du", _history("gradient_norm"), ("evaluation",)),
    Quantity(
        "parameters/*/coefficients",
        "",
        "coefficients of the functions of the control *",
        _coefficients,
        ("function",),
        note="blocks; sine modes by frequency; splines by carrier, cosine before sine; Fourier: all sines, then all cosines, of "
        "one draw after another",
    ),
    Quantity(
        "parameters/*/frequencies",
        "",
        "angular frequencies of the Fourier modes of the control *, per time_unit",
        _frequencies,
        ("mode",),
    ),
    Quantity(
        "starts/value",
        "",
        "largest objective J of each start",
        lambda r: r.extra.get("starts/value"),
        ("start",),
        note="only of searches with optimizer.restarts",
        when=lambda r: r.problem.restarts > 0,
    ),
    Quantity("history/seconds", "s", "wall time since the start", _history("seconds"), ("evaluation",)),
)


def _plane(value: Callable[[Plane], FloatArray]) -> Callable[[QuantumResult], FloatArray]:
    """Return the function that takes an array from the plane of a result."""

    def taken(result: QuantumResult) -> FloatArray:
        assert result.problem.model.plane is not None
        return value(result.problem.model.plane)

    return taken


def _has_plane(result: QuantumResult) -> bool:
    return result.problem.model.plane is not None


def _shown(result: QuantumResult) -> NDArray[np.int64]:
    """Return the levels whose densities are kept: the lowest ones, and those populated first or last."""
    used = np.maximum(result.populations[0], result.populations[-1]) > SEEN
    used[:SHOWN] = True
    return np.flatnonzero(used)


def _densities(result: QuantumResult) -> FloatArray | None:
    """Return |psi|^2 (levels, n1, n2) of the levels that are kept, 1/bohr^2."""
    plane = result.problem.model.plane
    if plane is None:
        return None
    first, second = plane.axes
    cell = float((first.x[1] - first.x[0]) * (second.x[1] - second.x[0]))
    return np.asarray(plane.states[_shown(result)] ** 2 / cell)


PLANE: tuple[Quantity[QuantumResult], ...] = (
    Quantity(
        "energies", "hartree", "levels of H0", _plane(lambda p: p.energies), ("level",), when=_has_plane
    ),
    Quantity(
        "energies_error",
        "hartree",
        "claimed error of each level",
        _plane(lambda p: p.errors),
        ("level",),
        when=_has_plane,
    ),
    Quantity("x", "bohr", "points of x", _plane(lambda p: p.axes[0].x), ("x",), when=_has_plane),
    Quantity("y", "bohr", "points of y", _plane(lambda p: p.axes[1].x), ("y",), when=_has_plane),
    Quantity(
        "potential",
        "hartree",
        "potential energy",
        _plane(lambda p: p.potential),
        ("x", "y"),
        when=_has_plane,
    ),
    Quantity("level_shown", "", "level whose density is kept", _shown, ("level_shown",), when=_has_plane),
    Quantity(
        "densities",
        "1/bohr^2",
        "probability density of a level, |psi|^2",
        _densities,
        ("level_shown", "x", "y"),
        when=_has_plane,
    ),
)

QUANTITIES = (*VALUES, *SCALARS, *ARRAYS, *PLANE)
