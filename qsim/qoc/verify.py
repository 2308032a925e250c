"""Independent propagation of the final field.

An optimised pulse exploits every error of the propagator it was optimised with, so its probability is only worth reporting
when another propagator, with its own discretisation, agrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qoc.blocks import levels_of
from qsim.qoc.build import (
    PHASE_ERROR,
    amplitudes,
    energy_shifts,
    ensemble,
    midpoints,
    phase_steps,
    target_vectors,
)
from qsim.qoc.objective import Objective
from qsim.qoc.propagators import CrankNicolson, Eigenbasis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.build import Problem

SUBSTEPS = 4  # of the eigenbasis for each step of the run
EXTRA_LEVELS = 8  # retained levels beyond those of the run
MAX_STEPS = 2_000_000  # of `steps: auto`
SAFETY = 0.1  # the verification's own phase error as a fraction of the tolerance


@dataclass(frozen=True)
class Verification:
    """Outcome: probability, propagator name and steps, final amplitudes."""

    probability: float
    propagator: str
    steps: int
    warning: str | None


def verify(problem: Problem, field: NDArray[np.float64], probability: float) -> Verification | None:
    """Propagate the field independently; None if the deck asks for no verification.

    Parameters
    ----------
    field : (N,) float64
        Field at the midpoints of the run.
    probability : float
        P of the run, to compare with.
    """
    block = problem.deck.verify
    choice = {"cn": "crank_nicolson"}.get(block.propagator, block.propagator)
    if choice == "none":
        return None
    if choice == "auto":
        choice = "crank_nicolson" if problem.propagator.name == "eigenbasis" else "eigenbasis"
    other, steps = _other(problem, choice)
    fine = resample(field, problem.deck.time.T, steps, block.interpolation)
    objective = Objective(
        other, _targets(problem, other.levels), 0.0, problem.deck.objective.combine == "coherent"
    )
    verified = 0.0
    for start in range(0, problem.members.count, 4096):
        part = slice(start, min(start + 4096, problem.members.count))
        verified += float(objective.member_probabilities(other.forward(fine[None], part).amplitudes).sum())
    verified /= problem.members.count
    if not np.isfinite(verified):
        raise NumericsError("the verification gave a probability that is not finite")
    difference = abs(verified - probability)
    warning = None
    if difference > block.tolerance:
        warning = (
            f"P = {probability:.6f} is not confirmed: an independent {choice} propagation ({steps} steps) gives "
            f"{verified:.6f}, a difference of {difference:.2g} (verify.tolerance {block.tolerance:g}); "
            "use more steps, an energy shift, or more states"
        )
    return Verification(verified, choice, steps, warning)


def _targets(problem: Problem, levels: int) -> list[NDArray[np.complex128]]:
    return [target_vectors(t, levels) for _, t in problem.deck.system.state_pairs()]


def _other(problem: Problem, choice: str) -> tuple[Eigenbasis | CrankNicolson, int]:
    deck, block = problem.deck, problem.deck.verify
    run_steps, points = problem.times.size, deck.system.grid.points
    if choice == "eigenbasis":
        levels = problem.initial.shape[1] + EXTRA_LEVELS if block.states == "auto" else int(block.states)
        levels = min(levels, points // 2)
        steps = SUBSTEPS * run_steps if block.steps == "auto" else int(block.steps)
        if block.steps == "auto":
            steps = min(steps, max(run_steps, MAX_STEPS))
        members = ensemble(deck, levels)
        return Eigenbasis(problem.device, members, _initial(problem, levels), steps, deck.time.T), steps
    levels = problem.initial.shape[1]
    top = max(max(levels_of(i) + levels_of(t)) for i, t in deck.system.state_pairs())
    if block.steps == "auto":
        wanted = phase_steps(
            problem.molecule, top, deck.time.T, max(SAFETY * block.tolerance, 1e-2 * PHASE_ERROR)
        )
        # whole multiples, so that no value of the field is cut in two
        steps = run_steps * max(1, -(-min(wanted, MAX_STEPS) // run_steps))
    else:
        steps = int(block.steps)
    shifts = energy_shifts(problem.members, top, "auto")
    initial = _initial(problem, levels)
    return CrankNicolson(
        problem.device, problem.members, initial, steps, deck.time.T, shifts=shifts, store=False
    ), steps


def _initial(problem: Problem, levels: int) -> NDArray[np.complex128]:
    return np.array([amplitudes(i, levels) for i, _ in problem.deck.system.state_pairs()])


def resample(field: NDArray[np.float64], duration: float, steps: int, how: str) -> NDArray[np.float64]:
    """Return the field at the midpoints of another number of steps.

    ``hold`` keeps each value over its step; ``cubic`` draws a spline through the values.
    """
    if steps == field.size:
        return field
    times = midpoints(steps, duration)
    if how == "hold" or field.size < 4:
        return field[np.minimum((times / duration * field.size).astype(np.int64), field.size - 1)]
    from scipy.interpolate import CubicSpline

    return CubicSpline(midpoints(field.size, duration), field)(times)
