"""Result of the control of a quantum system, and its quantities."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qoc.models.quantum import GateTarget, leakage_of, purity_of
from qsim.qoc.objectives.families import family_of
from qsim.qoc.objectives.weyl import invariants, nearest_unitary, weyl_coordinates
from qsim.qoc.result import (
    CHECKED,
    ERRORS,
    FLUENCE,
    HISTORY,
    MEANINGS,
    OBJECTIVE,
    SEARCH,
    TIME,
    UNIT,
    Result,
    of_controls,
    of_times,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.quantum.ensembles.ensemble import EnsembleResult
    from qsim.qoc.quantum.fronts import Front
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.paths import Paths
    from qsim.qoc.quantum.problem import QuantumProblem
    from qsim.qoc.quantum.verification import Check


@dataclass(kw_only=True)
class QuantumResult(Result):
    """Result of a run with a quantum system."""

    problem: QuantumProblem
    outcome: Outcome
    paths: Paths
    nominal_check: Check | None
    controls: Controls
    parameters: NDArray[np.float64]
    front: Front | None = None
    ensemble: EnsembleResult | None = None

    @property
    def task(self) -> str:
        """Kind of system, by which its quantities are found."""
        return "quantum"

    @property
    def nominal(self) -> float:
        """Value of the system as the deck has it."""
        return self.outcome.value

    def other_error(self, name: str) -> float | None:
        """Return the claimed error of a number of the nominal system beside the value; None if none is claimed."""
        check = self.nominal_check
        return None if check is None else check.others.get(name)


def beside(name: str) -> Callable[[QuantumResult], float | None]:
    """Return the function that gives the error of a number beside the value."""
    return lambda result: result.other_error(name)


def named(result: QuantumResult, rows: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return one row per control by its path in the file."""
    return dict(zip(result.problem.names, rows, strict=True))


def _fields(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    return {f"control/{k}": v for k, v in named(result, result.fields).items()}


def _guesses(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    return {f"control_guess/{k}": v for k, v in named(result, result.problem.guess).items()}


def _leakage(result: QuantumResult) -> float | None:
    """Return the mean population outside of the logical space at T."""
    goal = result.problem.model.goal
    return leakage_of(goal, result.outcome.density)


def _process(result: QuantumResult) -> float | None:
    """Return F_pro: the value, or from ``F = (d F_pro + 1 - leak)/(d + 1)``."""
    goal, leak = result.problem.model.goal, _leakage(result)
    if not isinstance(goal, GateTarget) or leak is None:
        return None
    if goal.process:
        return result.value
    d = goal.columns.shape[1]
    return ((d + 1) * result.nominal - 1.0 + leak) / d


def _average(result: QuantumResult) -> float | None:
    """Return F: the value, or from F_pro and the leakage."""
    goal, leak = result.problem.model.goal, _leakage(result)
    if not isinstance(goal, GateTarget) or leak is None or not goal.process:
        return result.value
    d = goal.columns.shape[1]
    return (d * result.value + 1.0 - leak) / (d + 1.0)


def _process_error(result: QuantumResult) -> float | None:
    """Return the claimed error of F_pro: (1 + 1/d) that of F, of the nominal system, and 1/d that of the leakage."""
    goal = result.problem.model.goal
    if result.kind == "fidelity_process":
        return result.error
    error, leak = (result.nominal_check and result.nominal_check.claimed), result.other_error("leakage")
    if error is None or leak is None or not isinstance(goal, GateTarget):
        return None
    d, value = goal.columns.shape[1], _process(result)
    most = math.inf if value is None else max(value, 1.0 - value)
    return min(((d + 1.0) * error + leak) / d, most)


def _average_error(result: QuantumResult) -> float | None:
    """Return the claimed error of F: of ``(d F_pro + 1 - leak)/(d + 1)`` where the value is F_pro."""
    goal = result.problem.model.goal
    if result.kind == "fidelity":
        return result.error
    error, leak = result.error, result.other_error("leakage")
    if error is None or leak is None or result.ensemble is not None or not isinstance(goal, GateTarget):
        return None
    d = goal.columns.shape[1]
    return (d * error + leak) / (d + 1.0)


def _unitary(result: QuantumResult) -> ComplexArray | None:
    """Return what the controls make of the logical space without a jump, up to a global phase; None without a gate."""
    problem, goal = result.problem, result.problem.model.goal
    if not isinstance(goal, GateTarget):
        return None
    columns = result.outcome.final
    if problem.objective.lindblad:
        # Figures are drawn where no kernels are.
        from qsim.qoc.propagators.slots import Motion, Slots

        slots = Slots(problem.model, Motion(problem.duration, result.fields.shape[1], lossy=True))
        columns = slots.final(result.fields, goal.columns)
    made = goal.columns.conj().T @ columns
    wanted = goal.unitary if result.outcome.phases is None else family_of(goal).gate(result.outcome.phases)
    # The global phase is free, so it is taken from the overlap with the gate.
    overlap = np.vdot(wanted, made)
    return np.asarray(made * np.exp(-1j * np.angle(overlap)))


def _has_class(result: QuantumResult) -> bool:
    """Return True if local gates before and after the gate do not count."""
    goal = result.problem.model.goal
    return isinstance(goal, GateTarget) and goal.family != "phases"


def _nearest(result: QuantumResult) -> ComplexArray | None:
    """Return the gate of a family that the value is the fidelity of."""
    goal, numbers = result.problem.model.goal, result.outcome.phases
    return family_of(goal).gate(numbers) if isinstance(goal, GateTarget) and numbers is not None else None


def _of_unitary(
    result: QuantumResult, numbers: Callable[[ComplexArray], NDArray[np.float64]]
) -> NDArray[np.float64] | None:
    """Return numbers of what the controls make of the logical space."""
    made = _unitary(result)
    return None if made is None else numbers(made)


def _kind(name: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == name


GATES = ("fidelity", "fidelity_process")
"""Kinds of values of gates, each of which has both."""

VALUES: tuple[Quantity[QuantumResult], ...] = (
    *(
        Quantity(
            name,
            "",
            text,
            lambda r: r.value,
            error=lambda r: r.error,
            when=_kind(name),
            # of a front the limit is what was looked for
            headline=("front_limit", name),
        )
        for name, text in MEANINGS.items()
        if name not in GATES
    ),
    Quantity(
        "fidelity",
        "",
        MEANINGS["fidelity"],
        _average,
        error=_average_error,
        when=lambda r: r.kind in GATES,
        headline=True,
    ),
    Quantity(
        "fidelity_process",
        "",
        f"{MEANINGS['fidelity_process']}, of an ensemble that of the nominal system",
        _process,
        error=_process_error,
        when=lambda r: r.kind in GATES,
        headline=True,
    ),
)

SCALARS: tuple[Quantity[QuantumResult], ...] = (
    Quantity(
        "leakage",
        "",
        "mean population outside of the logical space, of an ensemble that of the nominal system",
        _leakage,
        error=beside("leakage"),
        when=lambda r: r.kind in GATES,
        headline=True,
    ),
    Quantity(
        "seepage",
        "",
        "what comes back into the logical space from the mean of all other states, of an ensemble that of the nominal system",
        lambda r: r.outcome.seepage,
        error=beside("seepage"),
        when=lambda r: r.outcome.seepage is not None,
    ),
    Quantity(
        "charges",
        "",
        "what J subtracts for leakage and the running mean",
        lambda r: r.outcome.charges,
        when=lambda r: not r.problem.objective.terms.empty,
    ),
    Quantity(
        "purity",
        "",
        "purity of the mean final state, of an ensemble that of the nominal system",
        lambda r: purity_of(r.outcome.density),
        error=beside("purity"),
    ),
)
PEAK: Quantity[QuantumResult] = Quantity(
    "peak",
    UNIT,
    "largest |u| of any control",
    lambda r: float(np.abs(r.fields).max(initial=0.0)),
    headline=True,
    exact=True,
    unit_of=of_controls,
)
TIME_UNIT: Quantity[QuantumResult] = Quantity(
    "time_unit",
    "s",
    "one unit of time of this file",
    lambda r: r.problem.model.seconds,
    when=lambda r: r.problem.model.seconds is not None,
)

ARRAYS: tuple[Quantity[QuantumResult], ...] = (
    Quantity(
        "control/*",
        UNIT,
        "values of the control *, in system.unit (rotor, grid2d: electric field, a.u.)",
        _fields,
        ("time",),
        unit_of=of_controls,
        note="constant in each slot",
    ),
    Quantity(
        "control_guess/*",
        UNIT,
        "first values of the control *, in system.unit (rotor, grid2d: electric field, a.u.)",
        _guesses,
        ("time",),
        unit_of=of_controls,
    ),
    Quantity(
        "populations",
        "",
        "populations of the basis states",
        lambda r: r.populations,
        ("time_populations", "level"),
        note="of a gate, from its first logical state; at the end of a slot, the last row belongs to T; without a jump where the "
        "jumps are known by an interval alone; of an ensemble, of the nominal system",
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
        UNIT,
        "times of the populations, in time_unit",
        lambda r: (r.problem.times + 0.5 * r.problem.objective.tau)[r.stride - 1 :: r.stride],
        ("time_populations",),
        unit_of=of_times,
    ),
    Quantity(
        "rho_final",
        "",
        "mean density matrix at T",
        lambda r: r.outcome.density,
        ("level", "level_to"),
        note="of an ensemble, of the nominal system",
    ),
    Quantity(
        "free_phases",
        "rad",
        "phases of the parts that the gate is followed by, diag exp(i phi n)",
        lambda r: r.outcome.phases,
        ("free",),
        when=lambda r: r.outcome.phases is not None and not _has_class(r),
    ),
    Quantity(
        "gate_nearest",
        "",
        "the gate of the family that the value is the fidelity of",
        _nearest,
        ("logical", "logical_to"),
        when=_has_class,
    ),
    Quantity(
        "weyl_coordinates",
        "pi",
        "c1, c2, c3 of the nearest unitary to unitary_final, exp(i sum c_k s_k s_k/2) between local gates",
        lambda r: _of_unitary(r, weyl_coordinates),
        ("weyl",),
        when=_has_class,
    ),
    Quantity(
        "local_invariants",
        "",
        "g1, g2, g3 of the same unitary (Makhlin): CNOT 0, 0, 1; iSWAP 0, 0, -1; SWAP -1, 0, -3; no gate 1, 0, 3",
        lambda r: _of_unitary(r, lambda gate: invariants(nearest_unitary(gate))),
        ("invariant",),
        when=_has_class,
    ),
    Quantity(
        "goal_values",
        "",
        "value of each goal, in the order of system.pairs",
        lambda r: r.outcome.goals,
        ("pair",),
        when=lambda r: r.outcome.goals is not None,
        note="of an ensemble, of the nominal system",
    ),
    Quantity(
        "unitary_final",
        "",
        "matrix in the logical space at T, without a jump; its overlap with the gate made positive",
        _unitary,
        ("logical", "logical_to"),
        note="of an ensemble, of the nominal system",
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
)


QUANTITIES: tuple[Quantity[Any], ...] = (
    *VALUES,
    *CHECKED,
    *SCALARS,
    # of terms beside the fluence no error is known
    replace(OBJECTIVE, error=lambda r: r.error if r.problem.objective.terms.empty else None),
    FLUENCE,
    PEAK,
    *SEARCH,
    ERRORS,
    TIME_UNIT,
    TIME,
    *ARRAYS,
    *HISTORY,
)
