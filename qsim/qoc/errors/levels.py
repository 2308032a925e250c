"""The error of the levels that a basis keeps: the change of a value while all that couplings reach from them is added."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.rotor import RotorSystem
from qsim.qoc.models.builders import model, other_curves
from qsim.qoc.models.quantum import measured_like
from qsim.qoc.objectives.costs import is_quadratic
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.objectives.unravelling import Unravelling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, FloatArray
    from qsim.qoc.models.builders import System
    from qsim.qoc.models.quantum import QuantumModel

# Operations of all propagations in larger bases: some seconds of a core, or some times those of the run's own.
BUDGET = 1e10
OWN = 8.0
# Rows of kets up to which a basis is enlarged in any case, and how many times the run's own beyond.
MOST_ROWS = 400
TIMES = 4
# Entries of the jumps' superoperator in a larger basis.
MOST_ENTRIES = 2e7
# Changes that do not fall to this part from one basis to the next, twice as far away, are not extrapolated.
SLOWEST = 0.6
# Bases after which changes that hardly fall are given up.
MOST_LOOKS, HOPELESS = 5, 0.9
# Distance of the final states in the last two bases above which nothing has settled yet.
FAR = 0.1
# Operations of a propagation of density matrices below which each basis has its own, probability of jumps up to which kets show
# how the levels settle, and the ratio of changes that is taken of what jumps.
QUICK, WEAK, JUMPED = 1e7, 0.2, 0.5
# Factor of the extrapolated rest, and the least ratio of changes by which it is extrapolated.
MARGIN, FASTEST = 2.0, 0.2
# Factor of what histories with jumps change, of which the mean value alone is known.
BESIDE = 1.5
# Factor of the change that was seen: the last basis has errors of its own.
SEEN = 1.05
# Rounding of one product of a series, relative.
ROUNDING = 1e-16


@dataclass(frozen=True)
class Look:
    """The final columns in one basis.

    Attributes
    ----------
    objective : SlotObjective
    columns : (D or D^2, S) complex128
        At T; empty for sampled histories.
    value : float
        P; of kets that lose what jumps, that of no jump.
    beside : float
        Probability of no jump; 1 where that is no part of the value.
    floor : float
        Changes that are no larger are rounding.
    """

    objective: SlotObjective
    columns: ComplexArray
    value: float
    beside: float
    floor: float


@dataclass(frozen=True)
class Larger:
    """What larger bases change.

    Attributes
    ----------
    error : float
        Of P; what has been seen of it, where nothing is claimed.
    unclaimed : str or None
        Why no error is claimed.
    looks : list of Look
        The basis of the run, and each larger one.
    ratio : float
        Change of the last basis, relative to that of the one before.
    apart : float
        Of the value without a jump and of the probability of none, where they are not in the error of P by themselves.
    """

    error: float
    unclaimed: str | None
    looks: list[Look]
    ratio: float = 0.0
    apart: float = 0.0


class Course(Protocol):
    """Controls that are the same in every basis."""

    def operations(self, objective: SlotObjective) -> float:
        """Return the operations of one propagation."""

    def look(self, objective: SlotObjective) -> Look:
        """Return the final columns of an objective."""


@dataclass(frozen=True)
class Held:
    """Controls (C, N) that are held in slots; sampled histories have the noise of a stream."""

    fields: NDArray[np.float64]
    stream: int

    def operations(self, objective: SlotObjective) -> float:
        """Return the operations of one propagation."""
        count = objective.count if isinstance(objective, Unravelling) else 1
        return count * objective.propagator.operations(self.fields, objective.start.shape[1])

    def look(self, objective: SlotObjective) -> Look:
        """Return the final columns of an objective; of sampled histories their mean."""
        if isinstance(objective, Unravelling):
            value, columns = objective.sampled(self.fields, self.stream).value, np.zeros((0, 0), complex)
        else:
            value, columns = objective.valued(self.fields)
        beside = objective.jump_free if objective.by_order and columns.size else 1.0
        slots = objective.propagator
        return Look(objective, columns, value, beside, 4.0 * slots.products * ROUNDING + slots.remainder)


def enlarged(
    system: System,
    objective: SlotObjective,
    course: Course,
    fields: NDArray[np.float64],
    least: int,
    jumped: float | None = None,
) -> Larger | None:
    """Return what larger bases change of P under some controls; None where no basis is cut.

    The first basis has all that the couplings reach from the levels of the deck, each further one twice as much beyond them,
    until the final states have settled or the next basis costs too much.

    Parameters
    ----------
    system
        Block of the deck.
    objective
        Of the search.
    course
        Controls that are held in slots, or followed as functions of time.
    fields : (C, N) float64
        Values of the slots, under which the highest levels are looked at.
    least : int
        Levels that are added at least.
    jumped : float, optional
        Mean value of histories with jumps, where it is known beside an objective without them.
    """
    if not objective.lindblad or isinstance(objective, Unravelling) or not is_quadratic(objective.model):
        found = _grown(system, objective, course, fields, least)
        if found is None or found.unclaimed is not None or jumped is None:
            return found
        return replace(found, error=_weighted(found, jumped), apart=found.error)
    if course.operations(objective) < QUICK:
        return _grown(system, objective, course, fields, least)
    # What no jump changes is most of the state, and kets of more levels cost little beside density matrices.
    kets = SlotObjective(objective.model, replace(objective.motion, lindblad=False, lossy=True))
    found = _grown(system, kets, course, fields, least)
    if found is None or found.looks[0].beside < 1.0 - WEAK:
        return found and _grown(system, objective, course, fields, least)
    if found.unclaimed or _too_large(made := found.looks[1].objective.model, objective):
        return found
    other = _same(objective, made)
    if course.operations(other) > max(BUDGET, OWN * course.operations(objective)):
        return replace(
            found, unclaimed=f"density matrices of {made.dimension} levels take too long to propagate"
        )
    return _with_jumps(found, [course.look(objective), course.look(other)])


def _with_jumps(kets: Larger, looks: list[Look]) -> Larger:
    """Return what larger bases change of density matrices in two of them, from the kets without jumps in all.

    Beyond the second basis the part without a jump changes as the kets do, and what jumps by no more than a geometric series of
    its own first change.
    """
    plain = [look.value for look in kets.looks]
    whole = [look.value for look in looks]
    jumped = abs((whole[1] - whole[0]) - (plain[1] - plain[0]))
    ratio = max(kets.ratio, JUMPED)
    error = abs(whole[1] - whole[0]) + _rest(kets.looks[1:], kets.ratio)
    return Larger(error + MARGIN * jumped * ratio / (1.0 - ratio), None, looks, ratio)


def _grown(
    system: System, objective: SlotObjective, course: Course, fields: NDArray[np.float64], least: int
) -> Larger | None:
    """Return what larger bases change of P, from the columns of one objective in all of them."""
    looks: list[Look] = []
    budget = math.inf
    more, ratio, stopped = max(1, -(-least // 2)), math.inf, ""
    while not stopped:
        try:
            made = objective.model.kept(("larger", more), partial(_larger, system, objective, more))
        except InvalidInput as problem:
            stopped = f"with more levels the system cannot be made: {problem}"
            looks = looks or [course.look(objective)]
            break
        if made.dimension == (looks[-1].objective if looks else objective).model.dimension:
            return None
        if not looks:
            looks.append(course.look(objective))
            budget = max(BUDGET, OWN * course.operations(objective))
        stopped = _too_large(made, looks[-1].objective)
        if stopped:
            break
        other = _same(objective, made)
        budget -= course.operations(other)
        if budget < 0.0:
            stopped = f"a basis of {made.dimension} levels takes too long to propagate"
            break
        looks.append(course.look(other))
        if len(looks) > 2:
            ratio, settled = _settling(looks)
            if settled:
                return Larger(_rest(looks, ratio), None, looks, ratio)
            if len(looks) > MOST_LOOKS and ratio > HOPELESS:
                stopped = "more levels change it as much as fewer"
        more *= 2
    return Larger(
        _rest(looks, 0.0), f"{_told(looks)}; {stopped}; {_remedy(system, objective, fields)}", looks, ratio
    )


def of_other_curves(system: System, objective: SlotObjective, course: Course) -> float | None:
    """Return what other curves through the rows of tables change of P, twice; None without tables whose curve is a choice."""
    other = other_curves(system)
    if other is None:
        return None
    own, moved = course.look(objective), course.look(_same(objective, _larger(other, objective, 0)))
    return MARGIN * (abs(moved.value - own.value) + abs(moved.beside - own.beside))


def extrapolated(values: Sequence[float], ratio: float) -> float:
    """Return how far the first of the values of growing bases may be from their limit.

    Changes beyond the last basis are taken to fall with `ratio`, and no faster than with `FASTEST`: a basis that has all that
    matters tells little of the next one. A change may vanish by accident, so that the last one counts as `ratio` times the one
    before at least.
    """
    changes = np.abs(np.diff(values))
    last = float(changes[-1]) if changes.size else 0.0
    if changes.size > 1:
        last = max(last, ratio * float(changes[-2]))
    ratio = max(ratio, FASTEST)
    seen = abs(float(values[-1]) - float(values[0]))
    return SEEN * seen + MARGIN * last * ratio / (1.0 - ratio)


def _rest(looks: Sequence[Look], ratio: float) -> float:
    """Return the error of P: what jumps may change as much as what does not."""
    return sum(extrapolated(row, ratio) for row in ([k.value for k in looks], [k.beside for k in looks]))


def _weighted(found: Larger, jumped: float) -> float:
    """Return the error of P from bases of kets without jumps and the mean value q of histories with them.

    A history that becomes one with jumps changes its value by q. Those that have jumps, of probability m, turn by the least
    angle delta that changes the value of the kets as much, and their values by ``2 sqrt(q (1 - q)) delta + delta^2`` (Eq. Q7).
    """
    beside = [look.beside for look in found.looks]
    change = extrapolated([look.value for look in found.looks], found.ratio)
    none = min(beside)
    p = min(max(found.looks[-1].value / none, 0.0), 1.0)
    slope = math.sqrt(p * (1.0 - p))
    delta = MARGIN * (math.sqrt(slope**2 + change / none) - slope)
    moved = 2.0 * math.sqrt(jumped * (1.0 - jumped)) * delta + delta**2
    others = jumped * extrapolated(beside, found.ratio) + (1.0 - none) * min(moved, 1.0)
    return change + BESIDE * others


def _larger(system: System, objective: SlotObjective, more: int) -> QuantumModel:
    """Return the system in a larger basis; the measure of a gate is that of the objective, of which a system knows nothing."""
    return measured_like(model(system, more), objective.model)


def _same(objective: SlotObjective, made: QuantumModel) -> SlotObjective:
    """Return the objective of another basis."""
    if not isinstance(objective, Unravelling):
        return SlotObjective(made, objective.motion)
    # of the same times, so that the noise of both is nearly the same
    return Unravelling(made, objective.motion, 0.0, objective.rates, objective.count, objective.seed)


def _too_large(made: QuantumModel, before: SlotObjective) -> str:
    """Return why a basis is not propagated, "" if it is."""
    if made.dimension > max(MOST_ROWS, TIMES * before.model.dimension):
        return f"{made.dimension} levels are too many"
    entries = sum(jump.operator.nnz**2 for jump in made.jumps)
    if before.lindblad and entries > MOST_ENTRIES:
        return f"density matrices of {made.dimension} levels are too large"
    return ""


def _settling(looks: Sequence[Look]) -> tuple[float, bool]:
    """Return the ratio of the last changes, and whether they fall fast enough to be extrapolated."""
    floor = 1e-13 + looks[-1].floor
    values = np.abs(np.diff([look.value for look in looks]))
    scale = max(1.0, float(np.abs([look.value for look in looks]).max()))
    rows = [(values[-2:], floor * scale)]
    beside = np.abs(np.diff([look.beside for look in looks]))
    rows.append((beside[-2:], floor))
    far = 0.0
    if looks[-1].columns.size:
        distances = np.array([_distance(*pair) for pair in zip(looks[-3:], looks[-2:], strict=False)])
        rows.append((distances, floor))
        far = float(distances[-1])
    ratios = [new / old if old > low else math.inf for (old, new), low in rows if max(old, new) > low]
    ratio = float(max(ratios, default=0.0))
    return ratio, ratio <= SLOWEST and far <= FAR


def _distance(small: Look, large: Look) -> float:
    """Return the largest distance of a final column in two bases, up to its phase."""
    made, more = small.objective.model, large.objective.model
    index = {label: place for place, label in enumerate(more.labels)}
    places = np.array([index[label] for label in made.labels])
    # Thermal starts have more columns in a larger basis, and the signs of levels on a grid are a matter of choice.
    if small.columns.shape[1] != large.columns.shape[1] or made.on_points:
        first, second = (look.objective.density(look.columns) for look in (small, large))
        if made.on_points:
            first, second = np.diag(np.diag(first)), np.diag(np.diag(second))
        first, second = first.reshape(-1, 1), second.reshape(-1, 1)
    else:
        first, second = small.columns, large.columns
    if first.shape[0] > made.dimension:
        places = (places[:, None] * more.dimension + places).ravel()
    inside = np.zeros_like(second)
    inside[places] = first
    overlap = np.sum(inside.conj() * second, axis=0)
    return float(np.linalg.norm(second - inside * np.exp(1j * np.angle(overlap)), axis=0).max())


def _told(looks: Sequence[Look]) -> str:
    """Return what the levels are known to change."""
    if len(looks) < 2:
        return "the error of the levels is not known"
    found = ", ".join(f"{look.objective.model.dimension}: {look.value:.6g}" for look in looks)
    return f"the value has not settled with the number of levels ({found})"


def _remedy(system: System, objective: SlotObjective, fields: NDArray[np.float64]) -> str:
    """Return which part needs more levels: that whose highest level is filled most."""
    if not isinstance(system, ModelSystem):
        return (
            "raise J_max"
            if isinstance(system, RotorSystem)
            else "raise system.states, or the points of the grid"
        )
    shape = objective.model.shape
    cut = [place for place, part in enumerate(system.parts) if hasattr(part, "levels")]
    cube = objective.look(fields)[1].reshape(-1, *shape)
    tops = {place: float(_at_top(cube, 1 + place).max()) for place in cut}
    place = max(cut, key=lambda k: tops[k])
    return (
        f"raise levels of {system.parts[place].name}, whose level {shape[place] - 1} holds up to {tops[place]:.2g}, or keep "
        "the controls from it by bounds or shape"
    )


def _at_top(cube: FloatArray, axis: int) -> FloatArray:
    """Return the population (N,) of the highest level of one part from those of all (N, ...)."""
    top = np.take(cube, -1, axis=axis)
    return np.asarray(top.reshape(len(top), -1).sum(axis=1))
