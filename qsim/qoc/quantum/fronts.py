"""Fronts: the best value against a duration, a fluence or any other key of the deck, searched from neighbour to neighbour."""

from __future__ import annotations

import dataclasses
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.run.loop import Progress, drive
from qsim.qoc.control.mesh import resample
from qsim.qoc.deck.systems.quantities import units_of
from qsim.qoc.models.quantum import GateTarget, StateTarget
from qsim.qoc.objectives.bounds import after_turning
from qsim.qoc.optimizers.maximisation import Maximisation
from qsim.qoc.optimizers.search import CriticalPoint
from qsim.qoc.quantum.ensembles.ensemble import looked_at, verified
from qsim.qoc.quantum.outcome import outcome_of
from qsim.qoc.quantum.problem import Points
from qsim.qoc.quantum.search import QuantumSearch
from qsim.qoc.quantum.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.core.run.stages import Plan
    from qsim.qoc.deck.quantum import QuantumDeck
    from qsim.qoc.deck.systems.quantities import Units
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.quantum.problem import QuantumProblem
    from qsim.qoc.quantum.verification import Check

    Nominal = Callable[[QuantumDeck], QuantumModel]

_LEADING = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


def plans_of(
    loaded: LoadedDeck[QuantumDeck], nominal: Nominal, plan: Callable[[LoadedDeck[QuantumDeck]], Plan]
) -> tuple[list[Plan], list[Finding]]:
    """Return the plans of all points, and what is wrong with any of them."""
    plans, findings = [], []
    front = loaded.deck.front
    assert front is not None
    for number, value in enumerate(front.values):
        place = f"front.values.{number}"
        try:
            changed = _at(loaded, number, nominal)
        except InvalidInput as problem:
            key = "front.over" if problem.key == front.key else place
            return [], [Finding(key, str(problem))]
        made = plan(changed)
        wrong = [f for f in made.findings if f.severity == "error"]
        findings += [Finding(place, f"{front.over} = {value}: {f.key}: {f.message}") for f in wrong[:1]]
        plans.append(made)
    if not findings:
        try:
            _numbers(loaded.deck)
        except InvalidInput as problem:
            findings.append(Finding(problem.key, str(problem)))
    return plans, findings


def points_of(
    loaded: LoadedDeck[QuantumDeck],
    nominal: Nominal,
    build: Callable[[LoadedDeck[QuantumDeck]], QuantumProblem],
) -> Points:
    """Return the problems of all points."""
    front = loaded.deck.front
    assert front is not None
    problems = [build(_at(loaded, number, nominal)) for number in range(len(front.values))]
    both = front.both_ways and front.warm_start
    return Points(problems, _numbers(loaded.deck), front.over, front.warm_start, both)


def _at(loaded: LoadedDeck[QuantumDeck], number: int, nominal: Nominal) -> LoadedDeck[QuantumDeck]:
    """Return the deck at one value of its front.

    Raises
    ------
    InvalidInput
        If the key cannot have this value.
    """
    front = loaded.deck.front
    assert front is not None
    key, value = front.key, front.values[number]
    data = loaded.data
    # A point is a deck without a front and without the settings of the run, except for the seed.
    del data["front"]
    data["run"] = {"seed": loaded.deck.run.seed}
    _put(data, key, value)
    model = type(loaded.deck)
    try:
        # The deck is read once more as text, so that units and defaults apply to the new value.
        deck = model.model_validate_json(json.dumps(data), context={"base": loaded.path.parent})
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput("front.values", f"{front.over} = {value}: {first['msg']}") from None
    wrong = [f for f in deck.check() if f.severity == "error"]
    if wrong:
        raise InvalidInput("front.values", f"{front.over} = {value}: {wrong[0].message}")
    # the matrices are those of the deck itself, unless the key belongs to them
    made: dict[Any, Any] = {} if key.startswith("system") else {nominal: loaded.once(nominal)}
    return dataclasses.replace(loaded, deck=deck, _made=made, warnings=[], _warnings={})


def _put(data: dict[str, Any], key: str, value: float | str) -> None:
    """Put a value at a dotted key of a deck; parts of lists are named by `name` or number.

    Raises
    ------
    InvalidInput
        If there is no such place.
    """
    # Blocks that the deck leaves out are made on the way; entries of lists must be there.
    *way, last = key.split(".")
    block: Any = data
    for part in way:
        block = block[_place(block, part, key)] if isinstance(block, list) else block.setdefault(part, {})
        if not isinstance(block, dict | list):
            text = f"no key '{key}': {part} is the short form {block!r} here; write it as a block"
            raise InvalidInput(key, text)
    if isinstance(block, list):
        block[_place(block, last, key)] = value
    else:
        block[last] = value


def _place(items: list[Any], part: str, key: str) -> int:
    """Return the place of an item of a list, by its name or number."""
    for place, item in enumerate(items):
        if str(place) == part or (isinstance(item, dict) and item.get("name") == part):
            return place
    raise InvalidInput(key, f"no key '{key}': there is no '{part}' in the list")


def _numbers(deck: QuantumDeck) -> NDArray[np.float64]:
    """Return the values of a front (n,) as numbers: durations in the unit of the system, others as they are written.

    Texts of several units of time or frequency are in the unit of the system.

    Raises
    ------
    InvalidInput
        If they are no distinct numbers.
    """
    front, units = deck.front, units_of(deck.system)
    assert front is not None
    if front.key == "time.T":
        numbers = [units.time(value, "front.values") for value in front.values]
    else:
        texts = [str(value) for value in front.values]
        matches = [m for m in map(_LEADING.match, texts) if m is not None]
        # One common unit: the numbers may stay as written. Several: they must be converted.
        rests = {m.string[m.end() :].strip() for m in matches}
        if len(matches) < len(texts):
            raise InvalidInput("front.values", "expected numbers, or numbers with units")
        numbers = [float(m[1]) for m in matches] if len(rests) == 1 else _of_units(front.values, units)
    if len(set(numbers)) < len(numbers):
        raise InvalidInput("front.values", "a value appears twice")
    return np.array(numbers, dtype=float)


def _of_units(values: list[float | str], units: Units) -> list[float]:
    """Return times or frequencies of several units in that of the system."""
    for read in (units.time, units.frequency):
        with suppress(InvalidInput):
            return [read(value, "front.values") for value in values]
    raise InvalidInput("front.values", "expected numbers, or texts of one unit")


# Levels up to which spectra are found by a dense diagonalisation.
DENSE = 1000


def most_probable(problem: QuantumProblem) -> float | None:
    """Return a bound of the value that no controls can pass; None where none is known."""
    if problem.ensemble is not None:
        # members have bounds of their own
        return None
    limits = problem.limits
    bounds = (limits.connection, limits.mixture, limits.speed, _by_fluence(problem))
    known = [b for b in bounds if b is not None]
    return min(known) if known else None


def _by_fluence(problem: QuantumProblem) -> float | None:
    """Return the largest value that controls of a largest fluence F reach in the time T.

    A state turns by ``integral Delta H dt`` at most (Eq. Q22), and Delta H by at most half the width s of the spectrum:
    ``s_0/2 + sum_c |u_c| s_c/2``, where ``integral sum_c s_c |u_c| dt <= sqrt(T F sum_c s_c^2)`` of the free controls.
    """
    model, controls = problem.model, problem.controls
    powers = np.array([c.power for c in model.controls])
    free = np.array([line.fixed is None for line in controls.lines])
    goal = model.goal
    # The bound is linear in |u| and of fixed targets: squares and free local phases have none.
    plain = isinstance(goal, StateTarget) or (isinstance(goal, GateTarget) and goal.free_phases != "local")
    if controls.most is None or not plain or np.any(powers[free] != 1):
        return None
    if problem.dissipation.search != "closed" or model.dimension > DENSE:
        return None
    widths = np.array([_width(c.operator) for c in model.controls])
    # Three parts of the angle: the drift, the known controls, and the free ones by their fluence.
    turned = 0.5 * problem.duration * _width(model.drift)
    tau = problem.duration / problem.times.size
    for line, width, power in zip(controls.lines, widths, powers, strict=True):
        if line.fixed is not None:
            turned += 0.5 * width * tau * float(np.sum(np.abs(line.fixed) ** power))
    # The inequality of Cauchy and Schwarz, in time and over the controls.
    turned += 0.5 * float(np.sqrt(problem.duration * controls.most * np.sum(widths[free] ** 2)))
    return after_turning(model, turned)


def _width(operator: csr_array) -> float:
    """Return the largest minus the smallest eigenvalue of a Hermitian matrix."""
    levels: NDArray[np.float64] = np.linalg.eigvalsh(operator.toarray())
    return float(levels[-1] - levels[0])


# Directions in which a front is searched.
WAYS = ("forward", "backward")
# Why a search has ended that could not begin.
AT_REST = "stopped at a critical point, where the gradient vanishes"


@dataclass
class Front:
    """Results of the searches of a front; arrays are ordered as the values of the deck.

    Attributes
    ----------
    values : (n,) float64
    found : dict of (n,) float64
        P of each direction; NaN where it was not searched.
    best : (n,) float64
        The larger one.
    checks : list of Check or None
        Independent value and errors of the best controls.
    fields : list of (C, N) float64
        The best controls.
    bounds : (n,) float64
        What no controls can pass; NaN where none is known.
    fluences, peaks : (n,) float64
    converged : (n,) bool
        Whether the search that found the best controls came to a maximum or to the threshold.
    reached : (n,) bool
        Whether it reached the threshold.
    shown : int
        The point that the rest of the file describes.
    limit : float or None
        Smallest value that reaches the threshold, between two points; None where that is not known.
    no_limit : str
        Why it is not known.
    """

    values: NDArray[np.float64]
    found: dict[str, NDArray[np.float64]]
    best: NDArray[np.float64]
    checks: list[Check | None]
    fields: list[NDArray[np.float64]]
    bounds: NDArray[np.float64]
    fluences: NDArray[np.float64]
    peaks: NDArray[np.float64]
    converged: NDArray[np.bool_]
    reached: NDArray[np.bool_]
    shown: int
    limit: float | None = None
    spacing: float = 0.0
    no_limit: str = ""


@dataclass
class _Found:
    """The best search of a point so far."""

    probability: float
    objective: float
    search: Mapping[str, Any]
    reached: bool
    reason: str

    @property
    def converged(self) -> bool:
        """True if the search came to its end by itself."""
        return self.reached or self.reason.startswith("converged")

    def state(self) -> dict[str, object]:
        """Return what a checkpoint holds."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}


class FrontSearch:
    """The searches of all points, in one order after the other.

    Parameters
    ----------
    points : Points
    saved : mapping, optional
        State to continue from.

    Attributes
    ----------
    best : list of _Found or None
        Of each point.
    found : dict of (n,) float64
        P of each point by direction; NaN where it was not searched yet.
    """

    def __init__(self, points: Points, saved: Mapping[str, Any] | None = None) -> None:
        self.points = points
        count = len(points.problems)
        order = list(range(count))
        self.schedule = [(0, i) for i in order]
        if points.both_ways:
            # the last point has its search already
            self.schedule += [(1, i) for i in order[-2::-1]]
        self.found = {way: np.full(count, np.nan) for way in WAYS}
        self.best: list[_Found | None] = [None] * count
        self.step, self.sweeps = 0, 0
        self.inner: Maximisation | None = None
        self.saved = saved
        if saved is not None:
            self.step, self.sweeps = int(saved["step"]), int(saved["before_point"])
            self.found = {way: np.asarray(saved["found"][way]) for way in WAYS}
            self.best = [None if kept is None else _Found(**kept) for kept in saved["best_points"]]

    def state(self) -> State:
        """Return what was found so far, and the state of the search at work."""
        kept = [None if found is None else found.state() for found in self.best]
        own = {"step": self.step, "before_point": self.sweeps, "found": self.found, "best_points": kept}
        return {**own, "inner": None if self.inner is None else self.inner.state()}

    def advance(self, report: Report) -> None:
        """Search point after point."""
        while self.step < len(self.schedule):
            way, point = self.schedule[self.step]
            problem = self._from_neighbour(way, point)
            search = QuantumSearch(problem)
            # A checkpoint holds the state of one point; the points after it begin without.
            saved = None if self.saved is None else self.saved["inner"]
            self.saved = None
            self.inner = Maximisation(problem, search, saved)
            # Progress counts the sweeps of all points, while each search counts its own.
            before = self.sweeps

            def counted(progress: Progress, before: int = before) -> None:
                done = None if progress.done is None else before + progress.done
                report(dataclasses.replace(progress, done=done))

            try:
                self.inner.advance(counted)
            except CriticalPoint:
                _stay(search, problem)
            self._keep(way, point, search)
            self.sweeps += problem.searched.sweeps
            # sweeps of the other direction are counted again
            problem.searched.sweeps = 0
            self.step, self.inner = self.step + 1, None

    def _keep(self, way: int, point: int, search: QuantumSearch) -> None:
        """Enter what a search has found, and keep the better of both directions."""
        self.found[WAYS[way]][point] = search.probability
        old = self.best[point]
        # A search that has reached the threshold beats any that has not, whatever the penalty makes of J.
        if old is None or (search.reached, search.best) > (old.reached, old.objective):
            state = search.state()
            self.best[point] = _Found(search.probability, search.best, state, search.reached, search.reason)

    def _from_neighbour(self, way: int, point: int) -> QuantumProblem:
        """Return the problem of a point, with the best controls of the point before it as first values."""
        problem = self.points.problems[point]
        before = point + (1 if way else -1)
        if not self.points.warm_start or not 0 <= before < len(self.best):
            return problem
        found = self.best[before]
        if found is None or found.search["field"] is None:
            return problem
        other = self.points.problems[before]
        guess = rescaled(found.search["field"], other, problem)
        # The neighbour's controls may break bounds or shape here; the map brings them back within.
        guess = problem.controls.field(problem.controls.parameters(guess))
        return dataclasses.replace(problem, guess=guess)


def _stay(search: QuantumSearch, problem: QuantumProblem) -> None:
    """Keep the first values of a point from which no gradient leads away: its neighbours go on."""
    p, j = search.objective.values(problem.guess)
    search.field, search.probability, search.best = problem.guess, float(p[0]), float(j[0])
    search.reason = AT_REST


def rescaled(
    fields: NDArray[np.float64], other: QuantumProblem, problem: QuantumProblem
) -> NDArray[np.float64]:
    """Return controls (C, N) of another duration, stretched to that of a problem with the same areas of u^p."""
    # The area of u^p decides how far a state turns: a shorter pulse must be stronger.
    ratio = other.duration / problem.duration
    rows = []
    for row, term in zip(fields, problem.model.controls, strict=True):
        slots = resample(row, 1.0, problem.times.size, "hold")
        rows.append(slots * ratio ** (1.0 / term.power))
    return np.array(rows)


def search_front(points: Points, monitor: Monitor) -> tuple[Front, QuantumSearch, Maximisation]:
    """Search all points, verify each, and return them with the search of the one that is shown."""
    search = FrontSearch(points, monitor.restored)
    # This is the largest number of sweeps; most points end before it.
    each = points.problems[0].max_sweeps * (1 + points.problems[0].restarts)
    total = each * len(search.schedule)
    with monitor.stage("optimise"):
        drive(search, monitor, total=total, unit="sweeps", what="front", at_most=True)
    monitor.settle(search.state)
    kept = [found for found in search.best if found is not None]
    assert len(kept) == len(points.problems)
    if all(found.reason == AT_REST for found in kept):
        raise CriticalPoint(
            "the gradient vanishes at the first values of the controls of every point: a critical point",
            hint="start from guess: random, or guess: {type: expression, value: ...}",
        )
    with monitor.stage("verify"):
        judged = [_judged(p, f, monitor) for p, f in zip(points.problems, kept, strict=True)]
    front = _front(points, search, kept, judged)
    if front.no_limit:
        monitor.warn(front.no_limit)
    shown, found = points.problems[front.shown], kept[front.shown]
    # The rest of the run reads a search, so that of the point that is shown is put together again.
    again = QuantumSearch(shown)
    again.restore(found.search)
    again.reached, again.reason = found.reached, found.reason
    return front, again, Maximisation(shown, again, None)


def _judged(problem: QuantumProblem, found: _Found, monitor: Monitor) -> tuple[float, Check | None]:
    """Return the value of the best controls of a point, and the independent one."""
    fields, verifying = found.search["field"], problem.verify.propagator != "none"
    controls = problem.controls
    if controls.given and not controls.can_redraw:
        problem = problem.with_functions(controls, controls.parameters(fields))
    if problem.ensemble is not None:
        members = looked_at(problem, problem.ensemble, fields)
        return members.value, verified(problem, members, fields, monitor).check if verifying else None
    outcome = outcome_of(problem, fields)
    if not verifying:
        return outcome.value, None
    what = "the verified value of a point"
    return outcome.value, monitor.judged(what, lambda: verify(problem, fields, outcome), None)


def _front(
    points: Points, search: FrontSearch, kept: list[_Found], judged: list[tuple[float, Check | None]]
) -> Front:
    fields = [np.asarray(found.search["field"]) for found in kept]
    # Points may differ in T and in slots, so each has its own tau.
    taus = [p.duration / p.times.size for p in points.problems]
    limits = [most_probable(p) for p in points.problems]
    if any(b is not None for b in limits) and not points.problems[0].model.measured:
        # where nothing less is known, a probability is at most 1
        limits = [1.0 if b is None else b for b in limits]
    reached = np.array([found.reached for found in kept])
    # where a search left jumps out, the value has them
    best = np.array([value for value, _ in judged])
    shown = int(np.argmax(best))
    if reached.any():
        # the smallest value that is enough
        places = np.flatnonzero(reached)
        shown = int(places[np.argmin(points.values[places])])
    front = Front(
        values=points.values,
        found=search.found,
        best=best,
        checks=[check for _, check in judged],
        fields=fields,
        bounds=np.array([np.nan if bound is None else bound for bound in limits]),
        fluences=np.array([np.sum(f**2) * tau for f, tau in zip(fields, taus, strict=True)]),
        peaks=np.array([np.abs(f).max(initial=0.0) for f in fields]),
        converged=np.array([found.converged for found in kept]),
        reached=reached,
        shown=shown,
    )
    _find_limit(front, points)
    return front


def _find_limit(front: Front, points: Points) -> None:
    """Enter the smallest value that reaches the threshold, if the points beside it have converged."""
    # Values stand in the order of the deck; the limit needs them from small to large.
    order = np.argsort(front.values)
    reached = front.reached[order]
    threshold = points.problems[0].threshold
    # No limit lies in the range if no point reaches the threshold, or the smallest one does already.
    if not np.isfinite(threshold) or not reached.any() or reached[0]:
        return
    # values above the limit need not all reach the threshold: what counts is the first that does
    place = int(np.argmax(reached))
    below, above = int(order[place - 1]), int(order[place])
    loose = [int(i) for i in order[:place] if not front.converged[i]]
    if loose:
        told = ", ".join(f"{front.values[i]:.6g}" for i in loose)
        front.no_limit = (
            f"no limit of {points.over} is told: the searches at {told} ended before they converged, so that P "
            "may be larger there; raise optimizer.max_sweeps, or add restarts"
        )
        return
    # P is taken as linear between the last point that fails and the first that does not.
    low, high = front.values[below], front.values[above]
    rise = front.best[above] - front.best[below]
    share = (threshold - front.best[below]) / rise if rise > 0.0 else 1.0
    front.limit = float(low + share * (high - low))
    front.spacing = float(high - low)
