"""Look at the field that was found for a molecule: final state, populations, independent probability, errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc import checks
from qsim.qoc.errors.claims import Judge
from qsim.qoc.errors.reference import Errors
from qsim.qoc.errors.verification import Verification, verify
from qsim.qoc.optimizers.search import Search
from qsim.qoc.quantum.molecule_result import MoleculeResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.qoc.objectives.objective import Objective
    from qsim.qoc.optimizers.maximisation import Maximisation
    from qsim.qoc.problem import MoleculeProblem
    from qsim.qoc.propagators.propagator import Run
    from qsim.qoc.result import Pair

MEMBERS_AT_ONCE = 4096
# Numbers of the population table; above, times are thinned out.
LARGEST_TABLE = 30_000_000


def begin(problem: MoleculeProblem) -> Search:
    """Return a search that has not begun."""
    return Search(problem.objective, problem.controls, problem.threshold, problem.max_sweeps)


def analyse(
    problem: MoleculeProblem,
    search: Search,
    maximisation: Maximisation,
    fields: NDArray[np.float64],
    monitor: Monitor,
) -> MoleculeResult:
    """Propagate the final field (1, N) once more, verify it, and warn of what is wrong with it."""
    if problem.optimizer.type != "none" and not search.reached:
        search.reason = maximisation.why()
        best = max(search.history["probability"], default=0.0)
        monitor.warn(
            f"the threshold P = {problem.threshold:g} was not reached (best {best:.6g}): {search.reason}"
        )
    final = fields[0]
    propagator, objective = problem.propagator, search.objective
    with monitor.stage("analyse"):
        guess = float(_propagate_members(objective, problem.first[0])[0].mean())
        members, norm, nominal = _propagate_members(objective, final)
        probability = float(members.mean())
        # of the first member and pair alone: a table of all of them would not fit
        populations = propagator.populations(final)
        reached = populations.max(axis=0)
        leak = _doubts(problem, final, populations, monitor)
        psi = problem.propagator.wavefunction(nominal)
    verification, errors = None, None
    if problem.verify.propagator != "none":
        with monitor.stage("verify"):
            unknown: tuple[Judge | None, Errors | None] = (None, None)
            judge, errors = monitor.judged(
                "the error of P",
                lambda: _judged(Judge(problem, final, reached, members, objective.sweeps)),
                unknown,
            )
            if judge is not None and errors is not None:
                verification = _verification(problem, final, probability, judge, errors, monitor)
    claimed = None if errors is None or errors.unclaimed is not None else errors
    parts = dict(claimed.parts) if claimed else {}
    if problem.functions is None:
        parts.pop("slots", None)
    verified: Pair = (None, None)
    if verification is not None:
        verified = verification.probability, verification.error if claimed else None
    objective_value = probability - float(objective.penalty(final))
    # every stride-th time, counted from the end, so that the last row belongs to T
    stride = max(1, -(-populations.size // LARGEST_TABLE))
    return MoleculeResult(
        problem=problem,
        kind="probability",
        fields=final[None],
        value=probability,
        error=claimed.total if claimed else None,
        first=(guess, claimed.guess if claimed and np.isfinite(claimed.guess) else None),
        verified=verified,
        continuous=errors.continuous if errors else None,
        charges=probability - objective_value,
        norm_error=norm,
        parts={f"error_{name.replace(' ', '_')}": value for name, value in parts.items()},
        member_probabilities=members,
        populations=populations[stride - 1 :: stride] if stride > 1 else populations,
        stride=stride,
        amplitudes=nominal.amplitudes[0, 0, 0],
        psi=psi,
        truncation=leak,
        verification=verification,
        errors=errors,
        reached_levels=reached,
        sweeps=objective.sweeps,
        iterations=search.iterations,
        reached=search.reached,
        reason=search.reason,
        history={k: np.array(v, dtype=float) for k, v in search.history.items()},
        extra={k: np.array(v, dtype=float) for k, v in search.extra.items()},
    )


def _propagate_members(
    objective: Objective, field: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, Run]:
    """Return P of every member, the largest norm error, and the run that holds the first members."""
    propagator, own = objective.propagator, objective.own
    first = propagator.forward(field[None], slice(own.start, min(own.start + MEMBERS_AT_ONCE, own.stop)))
    probabilities = [objective.member_probabilities(first.amplitudes)[0]]
    norm = first.norm_error
    for start in range(own.start + MEMBERS_AT_ONCE, own.stop, MEMBERS_AT_ONCE):
        run = propagator.forward(field[None], slice(start, min(start + MEMBERS_AT_ONCE, own.stop)))
        norm = max(norm, run.norm_error)
        probabilities.append(objective.member_probabilities(run.amplitudes)[0])
    found = objective.comm.allgather((np.concatenate(probabilities), norm))
    return np.concatenate([p for p, _ in found]), max(n for _, n in found), first


def _doubts(
    problem: MoleculeProblem, final: NDArray[np.float64], populations: NDArray[np.float64], monitor: Monitor
) -> float:
    """Warn of levels, walls and field strengths that the run was not made for; return what leaks (NaN: unknown)."""
    reached = populations.max(axis=0)
    unknown: tuple[float, str | None] = (math.nan, None)
    leak, left_out = monitor.judged(
        "the population of the highest levels",
        lambda: checks.truncation(populations, problem.leak_tolerance),
        unknown,
    )
    doubts = {
        "the density at the walls": lambda: checks.walls(problem.molecule, reached),
        "the strength of the field": lambda: checks.strong_field(
            final, problem.intensity_limit, problem.guess_given
        ),
    }
    for text in (left_out, *(monitor.judged(what, doubt, None) for what, doubt in doubts.items())):
        if text:
            monitor.warn(text)
    return leak


def _judged(judge: Judge) -> tuple[Judge | None, Errors | None]:
    """Return a judge with what it has found."""
    return judge, judge.errors()


def _verification(
    problem: MoleculeProblem,
    final: NDArray[np.float64],
    probability: float,
    judge: Judge,
    errors: Errors,
    monitor: Monitor,
) -> Verification | None:
    """Propagate the field independently and warn of what is not confirmed; None if that fails."""
    verification = monitor.judged(
        "the verified probability", lambda: verify(problem, final, probability, judge, errors), None
    )
    for text in (verification and verification.warning, errors.fallen, errors.unclaimed):
        if text:
            monitor.warn(text)
    return verification
