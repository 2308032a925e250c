"""An ensemble of quantum systems under the same controls: its set-up, shared by the ranks, and the errors of its members."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.objectives.ensemble import EnsembleObjective, Member, Weighted, Worst, own_members
from qsim.qoc.objectives.jumps import largest
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.quantum.ensembles.members import Ensemble
from qsim.qoc.quantum.outcome import Outcome
from qsim.qoc.quantum.verification import Check, Continuous, verify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.run.progress import Monitor
    from qsim.qoc.deck.ensemble import QuantumEnsemble
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.ensemble import Measure
    from qsim.qoc.propagators.slots import Motion
    from qsim.qoc.quantum.ensembles.members import Members
    from qsim.qoc.quantum.problem import QuantumProblem

# Members whose errors are determined at least.
SAMPLE = 8
# Seconds of one core that the independent propagations of members may take, about.
SECONDS = 3.0
# The same with the first controls.
GUESS_SECONDS = 1.0
# Seconds of an exponential of a matrix: constant, and per rows^3.
EXPONENTIAL = (7e-5, 1e-8)


@dataclass(frozen=True)
class EnsembleResult:
    """Values of the members and their combination.

    Attributes
    ----------
    values : (M,) float64
        P of every member.
    verified, errors : (M,) float64
        P by another algorithm, and the claimed error, of the members that were followed independently; NaN of the others.
    checks : dict
        What the independent propagation found, by member.
    value, value_guess : float
        P of the ensemble with the final and with the first controls.
    check, guess_check : Check or None
        The errors of `value` and `value_guess`.
    guess_values : (M,) float64
        P of every member with the first controls.
    coherent : float or None
        P of the ensemble without any jump; None where there are none.
    weights : (M,) float64 or None
        Of the members in a mean; None where all count alike.
    """

    values: NDArray[np.float64]
    verified: NDArray[np.float64]
    errors: NDArray[np.float64]
    checks: dict[int, Check]
    value: float
    value_guess: float
    check: Check | None
    guess_values: NDArray[np.float64]
    guess_check: Check | None = None
    coherent: float | None = None
    weights: NDArray[np.float64] | None = None

    @property
    def spread(self) -> float:
        """Standard deviation of the values, with the weights of a mean."""
        mean = np.average(self.values, weights=self.weights)
        return math.sqrt(float(np.average((self.values - mean) ** 2, weights=self.weights)))


def made_ensemble(
    block: QuantumEnsemble,
    members: Members,
    nominal: QuantumModel,
    device: Device,
    motion: Motion,
    alpha: NDArray[np.float64],
) -> Ensemble:
    """Return the ensemble of a deck; each rank makes the systems of its own members alone.

    Parameters
    ----------
    block, members
        Of the deck.
    nominal : QuantumModel
        The system as the deck has it.
    device : Device
    motion : Motion
        Of all members.
    alpha : (C,) float64
        Fluence penalty of each control.

    Raises
    ------
    InvalidInput
        If parameters of a member make no system, or one of another space.
    """
    _, own = own_members(members.count)
    # Members that share a system share its matrices; system is the place in `made` of each.
    numbers, system = np.unique(members.system_of[own], return_inverse=True)
    made = [same_space(members.model(int(n)), nominal, members) for n in numbers]
    measure = _measure(block, members, nominal)

    def moving(how: Motion) -> EnsembleObjective:
        systems = [Member(m, how) for m in made]
        numbers_of = system.reshape(-1)
        return EnsembleObjective(
            device, systems, numbers_of, members.scale(own), measure, members.count, alpha
        )

    # A search without jumps is of a part of the values alone.
    finish = moving(replace(motion, lindblad=True, lossy=False)) if motion.lossy else None
    jumps = nominal.jumps and (motion.lossy or motion.lindblad)
    closed = moving(replace(motion, lindblad=False, lossy=False)) if jumps else None
    return Ensemble(members, moving(motion), block.measure, finish, closed)


def same_space(made: QuantumModel, nominal: QuantumModel, members: Members) -> QuantumModel:
    """Return a system that has the space and the controls of the nominal one.

    Raises
    ------
    InvalidInput
        If it has not.
    """
    if made.dimension == nominal.dimension and [c.name for c in made.controls] == [
        c.name for c in nominal.controls
    ]:
        return made
    key = next(p.key for p in members.parameters if not p.is_control)
    told = f"a member has {made.dimension} levels, the system of the deck {nominal.dimension}"
    raise InvalidInput(key, f"{told}; all members need the same levels and controls")


def _measure(block: QuantumEnsemble, members: Members, nominal: QuantumModel) -> Measure:
    """Return what the values of the members count as together."""
    if block.measure == "worst":
        # The smooth minimum needs the largest value there can be: 1, or the top eigenvalue.
        return Worst(largest(nominal))
    if block.weights == "equal":
        return Weighted(np.full(members.count, 1.0 / members.count))
    weights = np.array(block.weights, dtype=float)
    return Weighted(weights / weights.sum())


def looked_at(problem: QuantumProblem, ensemble: Ensemble, fields: NDArray[np.float64]) -> EnsembleResult:
    """Propagate all members with the first and with the final controls (C, N)."""
    objective = ensemble.valued
    # as in `outcome_of`: the error is that of these controls
    objective.propagator.remainder = 0.0
    guessed = objective.member_values(problem.guess)
    first = objective.measure.value(guessed)
    values = objective.member_values(fields)
    unknown = np.full(values.size, math.nan)
    whole = objective.measure.value(values)
    closed, measure = ensemble.closed, objective.measure
    return EnsembleResult(
        values,
        unknown,
        unknown,
        {},
        whole,
        first,
        None,
        guessed,
        coherent=None if closed is None else measure.value(closed.member_values(fields)),
        weights=measure.weights if isinstance(measure, Weighted) else None,
    )


def verified(
    problem: QuantumProblem,
    found: EnsembleResult,
    fields: NDArray[np.float64],
    monitor: Monitor,
    first_problem: QuantumProblem | None = None,
) -> EnsembleResult:
    """Return the same with what the independent propagation of a sample of members finds; the ranks share the sample.

    The first problem has the functions of time of the first controls; by default those of the final ones.
    """
    ensemble, values = problem.ensemble, found.values
    assert ensemble is not None
    checks = _followed(problem, values, fields, monitor, SECONDS)
    first = checks
    if not np.array_equal(problem.guess, fields):
        first = _followed(first_problem or problem, found.guess_values, problem.guess, monitor, GUESS_SECONDS)
    values_of, errors = np.full(values.size, math.nan), np.full(values.size, math.nan)
    for member, check in checks.items():
        values_of[member] = check.value
        if check.unclaimed is None:
            errors[member] = check.error
    return replace(
        found,
        verified=values_of,
        errors=errors,
        checks=checks,
        check=_together(ensemble, values, checks),
        guess_check=_together(ensemble, found.guess_values, first),
    )


def _followed(
    problem: QuantumProblem,
    values: NDArray[np.float64],
    fields: NDArray[np.float64],
    monitor: Monitor,
    seconds: float,
) -> dict[int, Check]:
    """Return what the independent propagation of a sample of members finds, by member; the ranks share the sample."""
    ensemble = problem.ensemble
    assert ensemble is not None
    comm = ensemble.objective.comm
    sample = sampled(values, _most(problem, fields.shape[1], seconds))
    own: dict[int, Check] = {}
    # Members of a sample cost about the same, so ranks take every size-th of them.
    for member in sample[comm.rank :: comm.size]:
        check = monitor.judged(
            f"the verified value of member {member}", partial(_check, problem, member, fields, values), None
        )
        if check is not None:
            own[member] = check
    return {m: c for part in comm.allgather(own) for m, c in part.items()}


def _check(
    problem: QuantumProblem, member: int, fields: NDArray[np.float64], values: NDArray[np.float64]
) -> Check:
    """Return what the independent propagation of one member finds."""
    ensemble, nominal = problem.ensemble, problem.finish or problem.objective
    assert ensemble is not None
    members = ensemble.members
    number = int(members.system_of[member])
    made = members.model(number)
    # A factor of a control acts on its values, so the independent propagation needs no other matrices.
    scale = members.scale(slice(member, member + 1))[0][:, None]
    scaled = fields * scale
    functions = None if problem.functions is None else replace(problem.functions, scale=scale)
    objective = SlotObjective(made, nominal.motion)
    valued = ensemble.valued
    # the series of the ensemble is as long as its strongest member needs
    objective.propagator.remainder = valued.propagator.remainder
    objective.propagator.products = valued.propagator.products
    own = replace(
        problem,
        system=members.block(number),
        model=made,
        objective=objective,
        finish=None,
        ensemble=None,
        functions=functions,
    )
    # what a verification looks at of an outcome without jumps
    nothing = np.zeros((0, 0), complex)
    value = float(values[member])
    outcome = Outcome(
        value, objective.cost, None, 0.0, nothing, nothing, nothing.real, seepage=None, expansion=None
    )
    return verify(own, scaled, outcome)


def sampled(values: NDArray[np.float64], most: int) -> list[int]:
    """Return the members to be followed independently: the worst one, and others evenly spread; all if they are few."""
    count = values.size
    if count <= most:
        return list(range(count))
    spread = np.linspace(0, count - 1, most - 1).round().astype(int)
    # The set may be smaller than `most`, where the worst member is one of the others.
    return sorted({int(np.argmin(values)), *spread.tolist()})


def _most(problem: QuantumProblem, slots: int, seconds: float) -> int:
    """Return the number of members whose independent propagation takes about so many seconds."""
    rows = (problem.finish or problem.objective).start.shape[0]
    return max(SAMPLE, int(seconds / (slots * (EXPONENTIAL[0] + EXPONENTIAL[1] * rows**3))))


def _together(ensemble: Ensemble, values: NDArray[np.float64], checks: dict[int, Check]) -> Check | None:
    """Return the errors of the value of the ensemble from those of the members that were followed.

    Of the mean: weighted means. Of the smallest value: the largest errors, since it changes by no more than a member does.
    """
    if not checks:
        return None
    own = np.array(sorted(checks))
    measure = ensemble.objective.measure
    claims = [checks[int(m)] for m in own]
    weights = _weights(measure.weights[own]) if isinstance(measure, Weighted) else None
    parts = {}
    for name in claims[0].parts:
        each = np.array([c.parts[name] for c in claims])
        parts[name] = float(each.max() if weights is None else weights @ each)
    # what the other algorithm changes, of the members that it followed
    change = np.array([c.value for c in claims]) - values[own]
    # The worst member is in the sample always, so its change is that of the smallest value.
    value = measure.value(values)

    def shift(change: NDArray[np.float64]) -> float:
        return float(change[np.argmin(values[own])] if weights is None else weights @ change)

    unclaimed = next((c.unclaimed for c in claims if c.unclaimed), None)
    continuous = None
    followed = [c.continuous for c in claims if c.continuous is not None]
    if len(followed) == len(claims):
        error = max(c.error for c in followed)
        moved = np.array([c.value for c in followed]) - values[own]
        levels = [c.levels for c in followed if c.levels is not None]
        why = next((c.unclaimed for c in followed if c.unclaimed), None)
        continuous = Continuous(
            value + shift(moved),
            error,
            unclaimed=why,
            levels=max(levels) if len(levels) == len(followed) else None,
        )
    most = math.inf if math.isinf(claims[0].most) else max(value, 1.0 - value)
    return Check(value + shift(change), parts, unclaimed, continuous=continuous, most=most)


def _weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights of a sample with a sum of 1; equal ones if the sample has none."""
    total = float(weights.sum())
    return weights / total if total > 0 else np.full(weights.size, 1.0 / weights.size)
