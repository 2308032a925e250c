"""Independent propagation of the final field.

An optimised pulse exploits every error of the propagator it was optimised with, so its probability is only worth reporting
when another propagator agrees, with its own steps, on its own grid, behind its own walls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.parallel import agreed, in_shares
from qsim.core.errors import NumericsError
from qsim.qoc import costs
from qsim.qoc.control.mesh import resample
from qsim.qoc.errors import reference
from qsim.qoc.errors.claims import REACHED
from qsim.qoc.kernels.grid import MAX_CUDA_POINTS
from qsim.qoc.models.line import landscape as lines
from qsim.qoc.objectives.objective import Objective
from qsim.qoc.propagators.phases import PHASE_ERROR, energy_shifts, phase_steps
from qsim.qoc.propagators.propagator import CrankNicolson, Eigenbasis, Members

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.errors.claims import Judge
    from qsim.qoc.errors.reference import Errors
    from qsim.qoc.models.molecule import Molecule
    from qsim.qoc.problem import MoleculeProblem

    Maker = Callable[[lines.Landscape, tuple[float, float], int, int, float, float], Molecule]

# Of the eigenbasis for each step of the run.
SUBSTEPS = 4
# Retained levels beyond those of the run.
EXTRA_LEVELS = 8
# Of `steps: auto`
MAX_STEPS = 2_000_000
# The verification's own error as a fraction of the tolerance.
SAFETY = 0.1
# The verification's spacing is smaller than the run's by this factor at least.
LEAST_REFINEMENT = 1.15
MOST_REFINEMENT = 4.0
MOST_POINTS = 20_000
# Factor by which the steps of the grid propagation are raised at most.
MOST_MORE_STEPS = 4.0
MEMBERS_AT_ONCE = 4096
# Seconds (estimated) that a verification on the grid may take, however short the run.
LONGEST = 10.0

REMEDIES = {
    "time step": "raise time.steps (on the grid, an energy shift helps, too)",
    "grid": "raise system.grid.points",
    "box": "widen system.grid",
    "levels": "raise propagator.states",
    "interpolation": "raise time.steps, or set verify.interpolation to the course of the field between its values",
    "slots": "raise time.steps: the values in the steps do not follow the function of time that the deck gives",
    "reference": "the pulse reaches levels or fields that cannot be followed reliably; limit it with control.bounds",
}


@dataclass(frozen=True)
class Verification:
    """Outcome: probability and its error, propagator name, steps and points, and a warning if P is not confirmed."""

    probability: float
    error: float
    propagator: str
    steps: int
    points: int
    warning: str | None = None


def verify(
    problem: MoleculeProblem, field: NDArray[np.float64], probability: float, judge: Judge, errors: Errors
) -> Verification:
    """Propagate the field independently.

    Parameters
    ----------
    field : (N,) float64
        Field at the midpoints of the run.
    probability : float
        P of the run, to compare with.
    judge, errors
        Errors of the run and what they were determined with.
    """
    block = problem.verify
    # The propagator that the run did not use shares neither its grid nor its splitting; on the grid it may cost too
    # much.
    choice = {"cn": "crank_nicolson"}.get(block.propagator, block.propagator)
    if choice == "auto":
        choice = "crank_nicolson" if problem.propagator.name == "eigenbasis" else "eigenbasis"
    members = _members(problem, choice, judge, errors)
    steps = _steps(problem, choice, judge)
    if (
        block.propagator == "auto"
        and choice == "crank_nicolson"
        and _too_long(problem, members, steps, judge)
    ):
        choice = "eigenbasis"
        members, steps = _members(problem, choice, judge, errors), _steps(problem, choice, judge)
    verified, final = _propagate(problem, choice, members, steps, field, errors)
    # The error of the verification itself is its distance to the reference. A second try takes as many steps more as
    # that asks for.
    own = _distance(judge, final, errors)
    if choice == "crank_nicolson" and block.steps == "auto" and own > 3 * SAFETY * block.tolerance:
        finer = _finer(steps, own / (SAFETY * block.tolerance), field.size)
        if finer > steps and not _too_long(problem, members, finer, judge):
            steps = finer
            verified, final = _propagate(problem, choice, members, steps, field, errors)
            own = _distance(judge, final, errors)
    if not np.isfinite(verified):
        raise NumericsError("the verification gave a probability that is not finite")
    error = (
        math.nan
        if errors.unclaimed
        else min(1.0, sum((errors.parts[name] for name in ("reference", "interpolation", "slots")), own))
    )
    points = members.molecules[0].x.size
    found = Verification(verified, error, choice, steps, points)
    return replace(found, warning=_warning(found, probability, errors, block.tolerance))


def _too_long(problem: MoleculeProblem, members: Members, steps: int, judge: Judge) -> bool:
    """Return True if a propagation on the grid costs more than a verification may."""
    price = (
        costs.trajectories(problem, members.count) * steps * costs.step_cost(0, members.molecules[0].x.size)
    )
    return price > max(LONGEST, costs.budget(problem, judge.sweeps))


def _distance(judge: Judge, final: NDArray[np.complex128], errors: Errors) -> float:
    """Return the distance of P from the P of the reference; NaN without a reference."""
    return math.nan if errors.unclaimed else float(judge.change(final, errors.truth).mean())


def _warning(verification: Verification, probability: float, errors: Errors, tolerance: float) -> str | None:
    """Return the warning that P is not confirmed, with distance and remedy; None if it is confirmed."""
    difference = abs(verification.probability - probability)
    # The course of the field between its values is a choice of the deck, and no fault of the run.
    known = 0.0 if errors.unclaimed else errors.total - errors.parts["interpolation"]
    if max(difference, known) <= tolerance:
        return None
    size = f"{verification.steps} steps on {verification.points} points"
    return (
        f"P = {probability:.6f} is not confirmed: an independent {verification.propagator} propagation ({size}) "
        f"gives {verification.probability:.6f}, a difference of {difference:.2g} "
        f"(verify.tolerance {tolerance:g}); {_remedy(verification, errors, tolerance)}"
    )


def _remedy(verification: Verification, errors: Errors, tolerance: float) -> str:
    """Return the remedy for an unconfirmed P."""
    if errors.unclaimed:
        return "raise time.steps, system.grid.points, propagator.states or verify.steps until both agree"
    if errors.total <= tolerance:
        return f"the verification is the less accurate one (error {verification.error:.2g}): raise verify.steps or verify.states"
    # The largest part decides: to lower any other one would change little.
    part = max(errors.parts, key=lambda name: errors.parts[name])
    return f"its error is {errors.total:.2g}, mostly from the {part} ({errors.parts[part]:.2g}): {REMEDIES[part]}"


def _propagate(
    problem: MoleculeProblem,
    choice: str,
    members: Members,
    steps: int,
    field: NDArray[np.float64],
    errors: Errors,
) -> tuple[float, NDArray[np.complex128]]:
    """Return P, the mean over all members, and the final amplitudes of the sampled members (S, pairs, K)."""
    goal, duration = problem.goal, problem.duration
    levels = min(m.energies.size for m in members.molecules)
    initial = goal.initial(levels)
    other: CrankNicolson | Eigenbasis
    if choice == "eigenbasis":
        other = Eigenbasis(problem.device, members, initial, steps, duration)
    else:
        # The zero lies in the middle of the levels, whatever the run took, to keep the phase error small.
        shifts = energy_shifts(members, goal.top, "auto")
        other = CrankNicolson(problem.device, members, initial, steps, duration, shifts=shifts, store=False)
    fine = resample(field, duration, steps, errors.between)
    objective = Objective(other, goal.targets(levels), 0.0, goal.coherent)

    def own_members() -> tuple[float, list[NDArray[np.complex128]]]:
        # Batches bound the memory; amplitudes are kept only of the sampled members, for the error.
        total, sampled = 0.0, []
        for start in range(objective.own.start, objective.own.stop, MEMBERS_AT_ONCE):
            part = slice(start, min(start + MEMBERS_AT_ONCE, objective.own.stop))
            run = other.forward(fine[None], part)
            total += float(objective.member_probabilities(run.amplitudes).sum())
            # Numbers of sampled members count from the start of the batch here.
            chosen = errors.member[(errors.member >= part.start) & (errors.member < part.stop)] - part.start
            sampled.append(run.amplitudes[0, chosen])
        return total, sampled

    # ranks share the members, and what one of them fails at they all fail at
    comm = objective.comm
    parts = comm.allgather(agreed(comm, own_members))
    return sum(total for total, _ in parts) / members.count, np.concatenate(
        [a for _, own in parts for a in own]
    )


def _members(problem: MoleculeProblem, choice: str, judge: Judge, errors: Errors) -> Members:
    """Set up the ensemble on the verification's own grid, with the signs of the run's levels."""
    block, ground = problem.verify, judge.ground
    levels = problem.initial.shape[1]
    if choice == "eigenbasis":
        levels = levels + EXTRA_LEVELS if block.states == "auto" else int(block.states)
        box, points = _spectral_grid(problem, judge, levels)
        # The upper levels of a sine basis suffer from its cut, so half of them are used at most.
        levels = min(levels, points // 2)
        maker: Maker = _refined_levels
    else:
        box, points = _stencil_grid(problem, judge, errors)
        maker = lines.stencil_levels
    whole = problem.members

    def made(number: int) -> Molecule:
        mass, scale = problem.factors[number]
        return reference.aligned(maker(ground, box, points, levels, mass, scale), whole.molecules[number])[0]

    molecules = in_shares(judge.objective.comm, range(len(whole.molecules)), made)
    return Members(tuple(molecules.values()), whole.system, whole.scale)


def _refined_levels(
    ground: lines.Landscape, box: tuple[float, float], points: int, states: int, mass: float, scale: float
) -> Molecule:
    """Return levels in a sine basis with what lies between its points; arguments as of `sine_levels`."""
    rough = lines.sine_levels(ground, box, points, states, mass, scale)
    return reference.refined(ground, rough, scale)[0]


def _spectral_grid(problem: MoleculeProblem, judge: Judge, levels: int) -> tuple[tuple[float, float], int]:
    """Return walls and points of a sine basis that holds a number of levels of every molecule."""
    boxes, points = [], lines.FEWEST
    for s in judge.systems:
        run, scale = problem.members.molecules[s], problem.factors[s][1]
        top = judge.top_energy(run, levels)
        boxes.append(judge.ground.box(top, run.mass, scale))
        points = max(points, lines.enough_points(judge.ground, boxes[-1], top, levels, run.mass, scale))
    return _around(boxes), points


def _stencil_grid(problem: MoleculeProblem, judge: Judge, errors: Errors) -> tuple[tuple[float, float], int]:
    """Return the ends and the number of points of a grid finer than the run's, by a factor that follows from its error.

    The stencil's error falls with the fourth power of the spacing.  The walls stand where the levels that the run reached have
    decayed.
    """
    grid, tolerance = problem.system.grid, problem.verify.tolerance
    # The aim is a fifth of the verification's own share, so that the grid is a small part of its error.
    excess = 0.0 if errors.unclaimed else errors.parts["grid"] / (0.2 * SAFETY * tolerance)
    finer = min(max(excess**0.25, LEAST_REFINEMENT), MOST_REFINEMENT)
    used = np.flatnonzero(judge.reached > REACHED)
    boxes = []
    for s in judge.systems:
        run, scale = problem.members.molecules[s], problem.factors[s][1]
        # One level above the highest that was reached leaves room for its tail.
        top = run.energies[min(int(used.max(initial=0)) + 1, run.energies.size - 1)]
        boxes.append(judge.ground.box(float(top), run.mass, scale))
    box = _around(boxes)
    dx = (grid.xmax - grid.xmin) / (grid.points - 1) / finer
    # A CUDA block holds a limited number of points; on a CPU the limit is time alone.
    most = MAX_CUDA_POINTS if problem.device.is_cuda else max(MOST_POINTS, grid.points)
    points = math.ceil((box[1] - box[0]) / dx) + 1
    return box, min(max(points, 2 * problem.initial.shape[1], 32), most)


def _around(boxes: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the smallest box around several."""
    return min(a for a, _ in boxes), max(b for _, b in boxes)


def _steps(problem: MoleculeProblem, choice: str, judge: Judge) -> int:
    block, run_steps = problem.verify, problem.times.size
    if block.steps != "auto":
        return int(block.steps)
    if choice == "eigenbasis":
        return min(SUBSTEPS * run_steps, max(run_steps, MAX_STEPS))
    # Steps for which the phase error of Crank-Nicolson, E^3 tau^2 T/12, is a part of the tolerance.
    # The floor of a hundredth of PHASE_ERROR bounds the steps where the tolerance is tiny.
    wanted = phase_steps(
        problem.molecule,
        problem.goal.top,
        problem.duration,
        max(SAFETY * block.tolerance, 1e-2 * PHASE_ERROR),
    )
    return _multiple(wanted, run_steps)


def _multiple(wanted: float, run_steps: int) -> int:
    """Return a multiple of the run's steps, so that no value of the field is cut in two."""
    return run_steps * max(1, -(-int(min(wanted, MAX_STEPS)) // run_steps))


def _finer(steps: int, excess: float, run_steps: int) -> int:
    """Return the steps that make an error of second order smaller by a factor."""
    # An error of second order falls with the square of the number of steps.
    return _multiple(steps * min(math.sqrt(excess), MOST_MORE_STEPS), run_steps)
