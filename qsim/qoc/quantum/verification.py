"""The value of the final controls once more, by another algorithm, and the error of the run's own value.

Controls that are functions of time are followed in steps of their own: what the slots leave of formulas and splines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.control.mesh import gauss_points, left_by, steps_of
from qsim.qoc.errors.exponentials import is_short, propagated
from qsim.qoc.errors.levels import ROUNDING, Held, Larger, Look, enlarged, extrapolated, of_other_curves
from qsim.qoc.models.plane.motion import GridMotion
from qsim.qoc.models.quantum import FunctionalTarget, ObservableTarget
from qsim.qoc.objectives.cost import range_of
from qsim.qoc.objectives.costs import is_mixed
from qsim.qoc.objectives.jumps import jump_free
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.objectives.unravelling import Unravelling
from qsim.qoc.quantum.dissipation import WEAK
from qsim.qoc.quantum.outcome import OTHER_NOISE, Found, Outcome, errors_of_state, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.control.controls import Functions
    from qsim.qoc.errors.levels import Course
    from qsim.qoc.models.quantum import QuantumModel
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


# Points times steps times columns on the grid: a minute of one core.
MOST_PRODUCTS = 2e8

# Standard errors of sampled histories in the claim.
SIGMAS = 3.0


@dataclass(frozen=True)
class Check:
    """Result of the independent propagation.

    Attributes
    ----------
    value : float
        P by the other route: exponentials, or orders 0 and 1 of the jumps for a Lindbladian that is too large for them.
    parts : dict
        Parts of the error of P by name.
    unclaimed : str or None
        Why no error is claimed.
    others : dict
        Errors of other numbers by name: leakage, purity, seepage, no_jump, one_jump; those that are known.
    continuous : Continuous or None
        The value under the controls as functions of time.
    most : float
        The farthest that a value can be from P: of what lies between 0 and 1, the larger of P and 1 - P.
    silent : str
        Which number beside the value has no error, and why; "" if all have one.
    """

    value: float
    parts: dict[str, float]
    unclaimed: str | None
    others: dict[str, float] = field(default_factory=dict)
    continuous: Continuous | None = None
    most: float = math.inf
    silent: str = ""

    @property
    def error(self) -> float:
        """Sum of the parts, no larger than the value leaves room for."""
        return min(sum(self.parts.values()), self.most)

    @property
    def claimed(self) -> float | None:
        """The error, if it is claimed."""
        return None if self.unclaimed is not None else self.error


def verify(problem: QuantumProblem, fields: NDArray[np.float64], outcome: Outcome) -> Check:
    """Propagate with dense generators and SciPy's exponentials, or on the grid, and collect the parts of the error."""
    shown = problem.finish or problem.objective
    slots = shown.propagator
    size = _size(problem.model, outcome)
    parts = {
        # columns of norm 1 enter twice: an amplitude and its conjugate
        "series": 2.0 * size * (slots.remainder + 4.0 * slots.products * ROUNDING),
        "mixture": _mixture(problem.model, outcome),
    }
    # two coordinates move on their grid, where no level is left out
    on_grid = grid_value(problem, fields)
    steps = 0.0
    # The grid has no jumps, so nothing of them is left open there.
    if on_grid is not None:
        value, steps = on_grid
        found = Found(value)
    else:
        found = _independent(problem, fields, outcome)
    parts["jumps"] = found.jumps
    if outcome.sampling is not None:
        parts["sampling"] = SIGMAS * outcome.sampling
    # whatever the bounds say, a value that another algorithm does not confirm is not known better
    parts["difference"] = abs(found.value - outcome.value) + steps
    continuous, left = _slots(problem, fields, outcome)
    course: Course = Held(fields, OTHER_NOISE)
    larger = None
    if continuous is not None and continuous.course is not None:
        # a narrow pulse reaches levels that its mean over a slot does not
        larger = _levels(problem, continuous.course.shown, continuous.course, fields, outcome)
        continuous = replace(continuous, levels=_claimed(larger))
    if continuous is not None and continuous.course is not None and left.parts:
        course = continuous.course
    else:
        larger = _levels(problem, problem.objective, course, fields, outcome)
    parts |= left.parts
    if (curves := of_other_curves(problem.system, problem.objective, course)) is not None:
        parts["tables"] = curves
    unclaimed = found.unclaimed or left.unclaimed
    if larger is not None:
        # a thermal start fills levels that the basis of the run does not have
        parts["mixture"] = max(parts["mixture"], _mixture(larger.looks[-1].objective.model, outcome))
        known = sum(parts.values())
        parts["levels"] = larger.error
        if larger.unclaimed is not None and unclaimed is None:
            unclaimed = (
                f"{larger.unclaimed}. Without the levels the error is {known:.2g}: verify: {{levels: 0}} takes them as the "
                "model"
            )
    others: dict[str, float] = {}
    silent = ""
    if not unclaimed:
        of_parts = dict(parts)
        if larger is not None:
            of_parts["levels"] = max(larger.error, larger.apart)
        others = errors_of_state(problem, outcome, of_parts, found, _numbers(larger, outcome))
        if outcome.budget is not None:
            closed = SlotObjective(
                problem.model, replace(problem.objective.motion, lindblad=False, lossy=False)
            )
            off = _coherent_difference(closed, fields, outcome.budget.coherent)
            # levels that jumps empty count for more without them
            above = _levels(problem, closed, course, fields)
            if above is not None and above.unclaimed is not None:
                silent = f"the error of coherent_value is not known: {above.unclaimed}"
            else:
                others["coherent_value"] = (
                    parts["series"] + parts["mixture"] + (0.0 if above is None else above.error) + off
                )
        others = {name: error + left.beside(name) for name, error in others.items()}
    most = farthest(problem.model, outcome.value)
    return Check(found.value, parts, unclaimed, others, continuous, most, silent)


@dataclass(frozen=True)
class _Left:
    """What slots leave of given functions: part of the error, of numbers beside the value, and why it is not known."""

    parts: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    unclaimed: str | None = None

    def beside(self, name: str) -> float:
        """Return the part of the error of a number beside the value."""
        return self.numbers.get(name, 2.0 * self.parts.get("slots", 0.0))


def _slots(
    problem: QuantumProblem, fields: NDArray[np.float64], outcome: Outcome
) -> tuple[Continuous | None, _Left]:
    """Return the value under functions of time, and what slots leave of it where the deck gives the functions."""
    functions = problem.functions
    if functions is None:
        return None, _Left()
    found = continuous_value(problem, functions, fields, outcome)
    if not functions.given:
        return found, _Left()
    if found is None:
        return None, _Left(
            unclaimed="what the slots leave of the given functions of time would take too long"
        )
    off = abs(found.value - outcome.value) + found.error
    return found, _Left({"slots": off}, found.numbers, found.unclaimed)


def farthest(made: QuantumModel, value: float) -> float:
    """Return how far a value may be from another one at most: between 0 and 1 where it is no mean value."""
    return math.inf if made.measured else max(value, 1.0 - value)


def _coherent_difference(closed: SlotObjective, fields: NDArray[np.float64], value: float) -> float:
    """Return how far the value without any jump is from that by another route."""
    if not is_short(closed, fields):
        return 0.0
    return abs(closed.cost.value(propagated(closed.model, closed, fields)) - value)


def verified_first(problem: QuantumProblem, value: float) -> Check | None:
    """Return the errors of the value of the first controls, without jumps where the search is; None for sampled histories."""
    searched = problem.objective
    if isinstance(searched, Unravelling):
        return None
    # the state of the first controls is not shown, and so is not looked at
    nothing = np.zeros((0, 0), complex)
    outcome = Outcome(
        value, searched.cost, None, 0.0, nothing, nothing, nothing.real, seepage=None, expansion=None
    )
    # of a search they are the functions that it found
    given = problem.functions if problem.functions is not None and problem.functions.given else None
    return verify(replace(problem, finish=None, functions=given), problem.guess, outcome)


def _independent(problem: QuantumProblem, fields: NDArray[np.float64], outcome: Outcome) -> Found:
    """Return what another route finds."""
    made, searched, expansion = problem.model, problem.objective, outcome.expansion
    shown = problem.finish or searched
    if isinstance(searched, Unravelling):
        return _of_other_noise(searched, fields, outcome)
    # Without an expansion, or where the Lindbladian is affordable, the shown value is checked directly.
    if expansion is None or (problem.finish is not None and is_short(shown, fields)):
        if shown.lindblad and not is_short(shown, fields):
            return Found(
                outcome.value, unclaimed="a second propagation of the density matrices would take too long"
            )
        columns = propagated(made, shown, fields)
        zero = None
        if expansion is not None:
            zero = searched.cost.value(propagated(made, searched, fields))
        return Found(outcome.cost.value(columns), 0.0, None, numbers_of(shown, columns), zero)
    # order 0 by exponentials; what jumps is taken from the expansion, and its interval is the error
    zero = searched.cost.value(propagated(made, searched, fields))
    return Found(zero - expansion.zero + expansion.middle, expansion.half_width, None, None, zero)


def _of_other_noise(searched: Unravelling, fields: NDArray[np.float64], outcome: Outcome) -> Found:
    """Return the value by density matrices where they are small, else by histories that nothing else has seen."""
    made = searched.model
    # Density matrices have no noise, so they are the better check wherever they fit.
    if made.dimension <= MOST_LEVELS:
        whole = SlotObjective(made, replace(searched.motion, lindblad=True, lossy=False))
        columns = propagated(made, whole, fields)
        return Found(whole.cost.value(columns), 0.0, None, numbers_of(whole, columns))
    return Found(searched.sampled(fields, OTHER_NOISE + 1).value)


def _mixture(made: QuantumModel, outcome: Outcome) -> float:
    """Return what the levels that a thermal start leaves out may change; of a distance both the mixture and its square do."""
    return max(2.0 if is_mixed(made) else 0.0, _size(made, outcome)) * made.dropped


def _size(made: QuantumModel, outcome: Outcome) -> float:
    """Return the norm of what is measured: 1 for probabilities, of several goals the largest, of a formula its slope."""
    if isinstance(made.goal, FunctionalTarget) and outcome.final.size:
        return max(1.0, float(np.linalg.norm(outcome.cost.derivative(outcome.final))))
    norms = []
    for _, one in made.each():
        if isinstance(one.goal, ObservableTarget):
            norms.append(float(np.linalg.norm(one.goal.operator.toarray(), 2)))
        elif isinstance(one.goal, FunctionalTarget):
            norms.append(range_of(one.goal)[2])
        else:
            norms.append(1.0)
    return max(norms)


def _levels(
    problem: QuantumProblem,
    objective: SlotObjective,
    course: Course,
    fields: NDArray[np.float64],
    outcome: Outcome | None = None,
) -> Larger | None:
    """Return what larger bases find; None where no basis is cut, or the levels are the model."""
    if problem.verify.levels == 0 or problem.model.whole:
        return None
    jumped = None
    if problem.finish is not None and objective.by_order and outcome is not None:
        jumped = outcome.after_jumps
    return enlarged(problem.system, objective, course, fields, problem.verify.levels, jumped)


def _claimed(larger: Larger | None) -> float | None:
    """Return the error that larger bases find; None where it is not known, and 0 where no basis is cut."""
    if larger is None:
        return 0.0
    return None if larger.unclaimed else larger.error


def _numbers(larger: Larger | None, outcome: Outcome) -> dict[str, float] | None:
    """Return what the levels change of the numbers of the state; None where nothing is known of them."""
    # Members of an ensemble are judged by their values alone, and of jumps an interval is known.
    if larger is None or not outcome.density.size or outcome.expansion is not None:
        return None
    if not larger.looks[0].columns.size:
        return None
    found = [numbers_of(look.objective, look.columns) for look in larger.looks]
    return {name: extrapolated([row[name] for row in found], larger.ratio) for name in found[0]}


def grid_value(problem: QuantumProblem, fields: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return P by the motion on the grid, and the error of its steps; None where there is no grid, or it takes too long.

    Parameters
    ----------
    problem
        Problem of the run.
    fields : (C, N) float64
        Held values of the fields.
    """
    plane, objective = problem.model.plane, problem.objective
    # the grid knows no jumps
    if plane is None or objective.lindblad or objective.lossy:
        return None
    motion = GridMotion(plane, [c.name for c in problem.model.controls])
    # Steps per slot that keep the phases of the largest kinetic energies small.
    steps = motion.least_steps(objective.tau)
    points = plane.potential.size * objective.start.shape[1]
    # Two runs follow, with one and two times these steps: three parts in all.
    if 3.0 * steps * fields.shape[1] * points > MOST_PRODUCTS:
        return None
    coarse, fine = (
        objective.cost.value(motion.amplitudes(objective.start, fields, objective.tau, number * steps))
        for number in (1, 2)
    )
    # Order 4: the error of half the step is a fifteenth of the change; a third is claimed, as steps may be long.
    return fine, abs(fine - coarse) / 3.0
