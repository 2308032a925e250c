"""The controls as functions of time instead of values that are held in slots: what the slots leave of formulas and splines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.control.mesh import gauss_points, left_by, steps_of
from qsim.qoc.errors.levels import ROUNDING, Look
from qsim.qoc.objectives.jumps import jump_free
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.objectives.unravelling import Unravelling
from qsim.qoc.quantum.open.dissipation import WEAK
from qsim.qoc.quantum.state_errors import numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.control.controls import Functions
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.problem import QuantumProblem

    Steps = tuple[NDArray[np.float64], NDArray[np.float64]]

# What the first steps may leave of the integrals of the controls, and the slots that one of them has at most.
FIRST, SLOTS = 1e-6, 4
# Halvings of the steps, and the change of the value from which there are no more: a part of what the slots change, within limits.
HALVINGS = 8
SMALL, PART, LARGEST = 1e-9, 1e-2, 1e-8
# Operations that are spent, and levels up to which sampled histories are compared with density matrices.
MOST_OPERATIONS = 4e10
MOST_LEVELS = 10
# Of the exponents of a commutator-free step of fourth order.
NEAR, FAR = 0.25 + np.sqrt(3.0) / 6.0, 0.25 - np.sqrt(3.0) / 6.0


@dataclass(frozen=True)
class Continuous:
    """Value of the goal under the controls as functions of time.

    Attributes
    ----------
    value : float
    error : float
        Change by the last halving of the steps, of which a fourth-order method leaves a sixteenth, what the steps leave of
        the integrals of the controls, and rounding.
    numbers : dict
        How far purity, leakage and seepage are from those of the slots.
    unclaimed : str or None
        Why the error is not known.
    course : Followed or None
        The controls in the last steps, and the objective whose value it is.
    levels : float or None
        What the levels leave of the value; None where it is not known.
    """

    value: float
    error: float
    numbers: dict[str, float] = field(default_factory=dict)
    unclaimed: str | None = None
    course: Followed | None = None
    levels: float | None = 0.0

    @property
    def claimed(self) -> float | None:
        """Error of the value under the functions, with that of the levels; None where either is not known."""
        return None if self.unclaimed or self.levels is None else self.error + self.levels


@dataclass(frozen=True)
class Followed:
    """Controls as functions of time, in steps with edges (n + 1,), and the objective that they were followed for."""

    functions: Functions
    edges: NDArray[np.float64]
    shown: SlotObjective

    def operations(self, objective: SlotObjective) -> float:
        """Return the operations of one propagation."""
        return _operations(objective, *self._steps(objective))

    def look(self, objective: SlotObjective) -> Look:
        """Return the final columns of an objective."""
        columns, slots = objective.propagator.unequal(*self._steps(objective), objective.start)
        beside = jump_free(columns, objective.mean_weights()) if objective.by_order else 1.0
        floor = 4.0 * slots.products * ROUNDING + slots.remainder
        return Look(objective, columns, objective.cost.value(columns), beside, floor)

    def _steps(self, objective: SlotObjective) -> Steps:
        return _steps(objective, self.functions, self.edges)


def continuous_value(
    problem: QuantumProblem, functions: Functions, fields: NDArray[np.float64], outcome: Outcome
) -> Continuous | None:
    """Return the value under the functions of time that the parameters mean; None if that takes too long.

    Two exponentials per step without a commutator, of fourth order (Blanes, Casas, Oteo, Ros, Phys. Rep. 470, 151 (2009),
    Section 5.6), in steps as short as the controls need, and halved as a whole. Where few histories have jumps, their
    part is taken from the slots, and what the order without them changes by is part of the error.
    """
    shown = problem.finish or problem.objective
    if outcome.expansion is not None and outcome.expansion.jump_free >= 1.0 - WEAK:
        shown = problem.objective
    if isinstance(shown, Unravelling):
        # Sampled histories have noise, which may hide what the slots leave.
        if problem.model.dimension > MOST_LEVELS:
            return None
        shown = SlotObjective(problem.model, replace(shown.motion, lindblad=True, lossy=False))
    cost = outcome.cost if shown is problem.finish else shown.cost
    slots, motion = shown.propagator, shown.motion
    places, missed = functions.places
    factors, norms = _factors(shown, functions), slots.norms[1:]
    fewest = max(1, motion.slots // SLOTS)
    edges = steps_of(factors, norms, motion.duration, fewest, np.append(places, functions.switches), FIRST)
    used = slots

    def operations(edges: NDArray[np.float64]) -> float:
        return _operations(shown, *_steps(shown, functions, edges))

    def carried(edges: NDArray[np.float64]) -> ComplexArray:
        nonlocal used
        columns, used = slots.unequal(*_steps(shown, functions, edges), shown.start)
        return columns

    # The least work is one run on the steps and one on their halves, which is three parts.
    if 3.0 * operations(edges) > MOST_OPERATIONS:
        return None
    columns = carried(edges)
    final = outcome.final
    if shown is not problem.objective or not final.size:
        final = slots.final(fields, shown.start)
    held, before = cost.value(final), cost.value(columns)
    for _ in range(HALVINGS):
        coarse = edges
        edges = np.sort(np.concatenate([edges, 0.5 * (edges[1:] + edges[:-1])]))
        columns = carried(edges)
        after = cost.value(columns)
        # amplitudes enter twice
        change = abs(after - before) + 2.0 * left_by(factors, norms, edges)
        before = after
        enough = max(SMALL, min(PART * abs(after - held), LARGEST))
        if change < enough or 2.0 * operations(edges) > MOST_OPERATIONS:
            break
    # rounding adds up over the steps, at a few units of the last place each
    error = change + used.remainder + 1e-15 * edges.size
    # Steps are the same in all bases, of which the differences count.
    course = Followed(functions, coarse, shown)
    unclaimed = f"{missed} narrow pulses of the controls were not followed" if missed else None
    if outcome.expansion is not None and shown is problem.objective:
        moved = before - outcome.expansion.zero
        return Continuous(outcome.value + moved, error + abs(moved), {}, unclaimed, course)
    if outcome.sampling is not None:
        return Continuous(outcome.value + before - held, error, {}, unclaimed, course)
    numbers = numbers_of(shown, final)
    off = {name: abs(value - numbers[name]) + error for name, value in numbers_of(shown, columns).items()}
    return Continuous(before, error, off, unclaimed, course)


def _factors(
    objective: SlotObjective, functions: Functions
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the function from times (n,) to factors (C, n) of the operators."""
    powers = objective.propagator.powers[:, None]
    return lambda times: functions.at(times) ** powers


def _steps(objective: SlotObjective, functions: Functions, edges: NDArray[np.float64]) -> Steps:
    """Return lengths and factors of the two halves of every step, that with the larger part of the earlier point first."""
    first, second = (_factors(objective, functions)(times) for times in gauss_points(edges))
    halves = 2.0 * np.stack([NEAR * first + FAR * second, FAR * first + NEAR * second], axis=-1)
    return np.repeat(0.5 * np.diff(edges), 2), halves.reshape(len(first), -1)


def _operations(
    objective: SlotObjective, lengths: NDArray[np.float64], factors: NDArray[np.float64]
) -> float:
    """Return the operations of one propagation through steps."""
    longest = objective.propagator.in_factors(lengths.size, float(lengths.max()))
    return longest.operations(factors, objective.start.shape[1])
