"""Kinks and jumps of functions of time from a deck, and pulses narrower than any grid.

Ramps and tables say where their kinks are; formulas are searched by bisection: the second difference of a smooth function
falls like the square of the distance of its points, at a kink like the distance.

A formula may have a pulse between two points of the grid.  It is looked for

- around the zeros and extrema of all parts of the formula, at distances from a cell down to ``2^-40`` of the evolution: the
  argument of ``exp(-((t - 3)/1e-7)^2)`` varies slowly, and has its extremum where the pulse is;
- at 4 random times in every cell.

A value is hidden if it lies farther from the straight line of its cell than the grid bends there.  The interval around it is
halved until straight lines follow the formula to 0.2 %, and steps are cut at the points found.

A pulse narrower than two cells that lies on a point of the grid bends it like a kink, but is not smooth on both sides of one.

A pulse that the grid sees is cut at the points of the grid, if the formula bends at less than a twelfth of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.expression import Expression, Instruction
from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

__all__ = [
    "CELLS",
    "MOST_PULSES",
    "RESOLUTION",
    "FormulaProfile",
    "Profile",
    "finite",
    "kinks",
    "many",
    "pulses",
    "survey",
]

# of the grid on which profiles are sampled
CELLS = 4096
# places of a formula that are looked at for a kink
SUSPECTS = 48
# of the interval, which distinguish a kink from a curve
HALVINGS = 14
# of the largest bend of a formula: where it bends less it is straight
BENT = 1e-6
# of the points of the grid; a pulse that has more is not short
MOST_BENT = 320
# of points beside each other
SHORTEST = 3
# points: so far from a pulse narrower than two cells the grid bends as it does without it
ALONE = 3
# times that: the bend at such a pulse, or at a kink
STANDS_OUT = 10.0
# of the duration: how well a kink is located
FINEST = 4e-14
# times in every cell
RANDOM = 4
# samples of an evolution without regard to the formula
RESOLUTION = CELLS * RANDOM
# of one part of a formula; where there are more it oscillates, which samples see
MOST_FEATURES = 512
# powers of 2: distances from a feature, of the duration
DEEPEST = 40
# of one formula, for which steps are cut
MOST_PULSES = 16
# of cells; where there are more, the profile oscillates, and samples of steps see it
MOST_RANGES = 512
# of one pulse, beside the first ones
MOST_POINTS = 600
# of halvings
ROUNDS = 60
# of the height of a pulse: largest distance from straight lines between cuts
STRAIGHT = 2e-3
# of the largest value of a profile
NOTHING = 1e-9
# (sqrt(5) - 1)/2
GOLDEN = 0.6180339887498949
# of the random times, which are the same in every run
SEED = 3

Profile = Callable[[float], float]


# --------------------------------------------------------------------------------------------- kinks


def kinks(profiles: Sequence[Profile], end: float) -> list[tuple[float, float]]:
    """Return (time, size) of places between 0 and end at which a profile is not smooth, or in a narrow pulse.

    The size is relative.

    Parameters
    ----------
    profiles
        With an attribute ``kinks`` if they know theirs.
    """
    return survey(profiles, end)[0]


def survey(profiles: Sequence[Profile], end: float) -> tuple[list[tuple[float, float]], int]:
    """Return the (time, size) of :func:`kinks`, and how many narrow pulses there are beyond those that are among them."""
    # of a time that several profiles share, the larger size
    sizes: dict[float, float] = {}
    missed = 0
    for f in profiles:
        # ramps and tables know their kinks; formulas are
        # searched in four ways, for features of different widths
        known = getattr(f, "kinks", None)
        if known is None:
            narrow, more = pulses(f, end)
            places = [*_found_kinks(f, end), *narrow, *_short_pulses(f, end), *_pulses_at_points(f, end)]
            missed += more
        else:
            places = _known_kinks(f, known, end)
        for time, size in places:
            sizes[time] = max(sizes.get(time, 0.0), size)
    return sorted(sizes.items()), missed


def many(f: Profile, times: Values) -> Values:
    """Return a profile at many times."""
    values = f.many(times) if hasattr(f, "many") else [f(float(t)) for t in times]
    return np.asarray(values, float)


def _known_kinks(f: Profile, times: Sequence[float], end: float) -> list[tuple[float, float]]:
    """Return known kinks that lie within the evolution with their changes of slope."""
    # kinks at the ends of the evolution cut no step
    inside = [t for t in times if 0.0 < t < end]
    edges = [0.0, *inside, end]
    changes = []
    for before, t, after in zip(edges[:-2], inside, edges[2:], strict=True):
        # close enough that no other kink lies within, far
        # enough that the second difference is no rounding
        width = 1e-3 * min(t - before, after - t)
        change = abs(f(t + width) - 2.0 * f(t) + f(t - width)) / max(width, 1e-300)
        changes.append((t, change))
    return changes


def _found_kinks(f: Profile, end: float) -> list[tuple[float, float]]:
    """Return the kinks and jumps of a formula."""
    from scipy.ndimage import maximum_filter1d

    # the grid: a kink bends between two of its cells, most of all among its neighbours
    times = np.linspace(0.0, end, CELLS + 1)
    values = many(f, times)
    bend = np.abs(values[2:] - 2.0 * values[1:-1] + values[:-2])
    scale = float(np.abs(values).max(initial=0.0))
    peaks = np.flatnonzero((bend >= maximum_filter1d(bend, 3)) & (bend > 1e-9 * scale)) + 1
    peaks = peaks[np.argsort(bend[peaks - 1])[::-1][:SUSPECTS]]
    places: list[tuple[float, float]] = []
    for k in sorted(peaks.tolist()):
        kink = _kink(f, float(times[k - 1]), float(times[k + 1]), FINEST * end)
        # two cells may find the same kink
        if kink is not None and (not places or kink[0] - places[-1][0] > 1e-9 * end):
            places.append(kink)
    return places


def _short_pulses(f: Profile, end: float) -> list[tuple[float, float]]:
    """Return (time, slope) of points, the grid's or closer ones, within pulses of a formula that bends nowhere else.

    The grid sees such a pulse, but steps that are long elsewhere would have to be short everywhere.
    """
    # a pulse of few cells: all bending of the profile lies within it
    times = np.linspace(0.0, end, CELLS + 1)
    values = many(f, times)
    bend = np.abs(values[2:] - 2.0 * values[1:-1] + values[:-2])
    bent = np.flatnonzero(bend > BENT * bend.max(initial=0.0)) + 1
    if len(bent) > MOST_BENT:
        return []
    places = []
    for a, b in _joined(bent):
        # fewer are a kink
        if b - a >= SHORTEST:
            height = float(np.ptp(values[a - 1 : b + 2]))
            places += _resolved(f, times[a - 1 : b + 2], height, end)
    return [(t, slope) for t, slope in places if 0.0 < t < end]


def _pulses_at_points(f: Profile, end: float) -> list[tuple[float, float]]:
    """Return (time, slope) of points within pulses of a formula that are narrower than two cells and lie on a point of the grid.

    The grid bends there as it does at a kink: it is none if the formula is not smooth on either side of the kink found.
    """
    times = np.linspace(0.0, end, CELLS + 1)
    values = many(f, times)
    bend = np.zeros(CELLS + 1)
    bend[1:-1] = np.abs(values[2:] - 2.0 * values[1:-1] + values[:-2])
    # points far enough from the ends to have neighbours at the distance ALONE
    k = np.arange(ALONE, CELLS + 1 - ALONE)
    around = np.maximum(bend[k - ALONE], bend[k + ALONE])
    largest = bend[k] >= np.maximum(bend[k - 1], bend[k + 1])
    # alone in its surroundings, and more than rounding of the largest value
    peaks = k[largest & (bend[k] > STANDS_OUT * around + NOTHING * np.abs(values).max())]
    places: list[tuple[float, float]] = []
    for p in peaks[np.argsort(bend[peaks])[::-1][:SUSPECTS]].tolist():
        window = times[p - 2 : p + 3]
        # the bisection finds a kink, or nothing in a smooth pulse: then the middle of the window is taken
        kink = _kink(f, float(window[1]), float(window[3]), FINEST * end)
        middle = float(window[2]) if kink is None else kink[0]
        near = _around(np.array([middle]), end)
        points = np.unique(np.concatenate([window, near[(near > window[0]) & (near < window[-1])]]))
        height = float(np.ptp(finite(f, points)))
        # a true kink has smooth sides; a pulse is missed by parabolas on either side
        if _has_more(f, points, middle, STRAIGHT * height, end):
            places += _resolved(f, points, height, end)
    return [(t, slope) for t, slope in places if 0.0 < t < end]


def _has_more(f: Profile, points: Values, kink: float, height: float, end: float) -> bool:
    """Return True if a profile is farther than a height from a parabola on either side of a kink."""
    # a jump is found that well
    off = 16.0 * FINEST * end
    for side in (points[points < kink - off], points[points > kink + off]):
        ends = np.array([side[0], 0.5 * (side[0] + side[-1]), side[-1]])
        parabola = np.polynomial.Polynomial.fit(ends, finite(f, ends), 2)
        if np.any(np.abs(finite(f, side) - parabola(side)) > height):
            return True
    return False


def _kink(f: Profile, a: float, b: float, finest: float) -> tuple[float, float] | None:
    """Return the kink within [a, b] and its change of slope; None if the profile is smooth there."""
    first = float(_bends_of(f, np.array([a]), b - a)[0]) / (b - a)
    width = b - a
    halvings = 0
    # The half with the larger second difference, three overlapping
    # halves at a time: a kink in the middle of two is inside the third.
    while width > finest:
        starts = np.array([a, a + 0.25 * width, a + 2.0 * (0.25 * width)])
        bends = _bends_of(f, starts, 0.5 * width)
        # of equal ones the last
        best = 2 - int(np.argmax(bends[::-1]))
        bend, a = float(bends[best]), float(starts[best])
        width *= 0.5
        halvings += 1
        # a kink keeps its change of slope under halving, a curve loses half of it each time
        if halvings == HALVINGS and not bend / width >= 0.3 * first:
            return None
        if bend == 0.0:
            break
    # too narrow to be halved often enough: nothing is claimed
    return (a + 0.5 * width, first) if halvings >= HALVINGS else None


def _bends_of(f: Profile, starts: Values, width: float) -> Values:
    """Return the sizes (n,) of the second differences of a profile in intervals from some times on."""
    ends = starts + width
    low, middle, high = many(f, np.concatenate([starts, 0.5 * (starts + ends), ends])).reshape(3, -1)
    return np.asarray(np.abs(low - 2.0 * middle + high), float)


# ------------------------------------------------------------------------------------- narrow pulses


def pulses(f: Profile, end: float) -> tuple[list[tuple[float, float]], int]:
    """Return (time, slope) of the points within pulses of a formula that the grid does not see, and the number of further pulses.

    Straight lines between the points follow the pulse to :data:`STRAIGHT` of its height.
    """
    if getattr(f, "kinks", None) is not None or end <= 0.0:
        return [], 0
    # formulas are cached: pilots, bounds and steps ask for the same one
    formula = getattr(f, "formula", None)
    places, missed = _pulses(f, end, None) if formula is None else _pulses_of(formula, end)
    return list(places), missed


@lru_cache(maxsize=64)
def _pulses_of(formula: Expression, end: float) -> tuple[list[tuple[float, float]], int]:
    """Return :func:`pulses` of a formula, for which every part of a run asks."""
    return _pulses(FormulaProfile(formula), end, formula)


class FormulaProfile:
    """A formula of t as a profile."""

    def __init__(self, formula: Expression) -> None:
        self.formula = formula

    def __call__(self, t: float) -> float:
        """Return the value at a time."""
        return float(self.formula(t=t))

    def many(self, times: Values) -> Values:
        """Return the values at many times."""
        return self.formula(t=times)


def _pulses(f: Profile, end: float, formula: Expression | None) -> tuple[list[tuple[float, float]], int]:
    """Search for narrow pulses at random times and around the features of the formula; see :func:`pulses`."""
    from scipy.ndimage import maximum_filter1d

    # the grid as straight lines; further times look between its points
    edges = np.linspace(0.0, end, CELLS + 1)
    values = many(f, edges)
    generator = np.random.default_rng(SEED)
    # one random time in each part of a cell; a regular grid could miss a periodic train of pulses
    random = (np.arange(RESOLUTION) + generator.random(RESOLUTION)) * (end / RESOLUTION)
    # and times close to where parts of the formula vanish or turn, as at the centre of a Gaussian
    seeds = _around(_features(formula, edges), end)
    times = np.concatenate([random, seeds])
    samples = finite(f, times)
    times, samples = times[np.isfinite(samples)], samples[np.isfinite(samples)]
    cell = np.minimum((times / end * CELLS).astype(int), CELLS - 1)
    # distance of each value from the line of its cell
    line = values[cell] + (values[cell + 1] - values[cell]) * (times / end * CELLS - cell)
    off = np.abs(samples - line)
    bend = np.zeros(CELLS + 1)
    bend[1:-1] = np.abs(values[2:] - 2.0 * values[1:-1] + values[:-2])
    near = maximum_filter1d(bend, 3)
    scale = max(float(np.abs(values).max()), float(np.abs(samples).max(initial=0.0)))
    # a jump is as far from the line as the grid bends, a kink half as far, a curve an eighth
    hidden = off > 1.5 * np.maximum(near[cell], near[cell + 1]) + NOTHING * scale
    ranges = _joined(np.unique(cell[hidden]))
    # hidden everywhere: an oscillation, which samples of steps see
    if len(ranges) > MOST_RANGES:
        return [], 0
    heights = [float(off[hidden & (cell >= a) & (cell <= b)].max()) for a, b in ranges]
    # the highest pulses first; the others are counted
    order = np.argsort(heights)[::-1]
    places: list[tuple[float, float]] = []
    for k in order[:MOST_PULSES]:
        a, b = ranges[k]
        inside = times[hidden & (cell >= a) & (cell <= b)]
        # the first seeds of a pulse: grid points around it, the times that hit it, and distances of
        # powers of 2 from one of these
        start = np.unique(np.concatenate([edges[max(a - 1, 0) : b + 3], _around(inside[:1], end), inside]))
        low, high = edges[max(a - 1, 0)], edges[min(b + 2, CELLS)]
        places += _resolved(f, start[(start >= low) & (start <= high)], heights[k], end)
    return places, max(0, len(ranges) - MOST_PULSES)


def _resolved(f: Profile, points: Values, height: float, end: float) -> list[tuple[float, float]]:
    """Return (time, slope) of points between which a profile is straight, up to a part of the height of its pulse."""
    most = MOST_POINTS + len(points)
    # halve every part whose middle is off its line, all at once, until none is
    for _ in range(ROUNDS):
        values = finite(f, points)
        points, values = points[np.isfinite(values)], values[np.isfinite(values)]
        middle = 0.5 * (points[1:] + points[:-1])
        off = np.abs(finite(f, middle) - 0.5 * (values[1:] + values[:-1]))
        height = max(height, float(np.abs(values - values[0]).max()))
        # not below FINEST, where times differ by rounding; a jump would be halved for ever
        wanted = middle[(off > STRAIGHT * height) & (np.diff(points) > FINEST * end)]
        if not len(wanted) or len(points) > most:
            break
        points = np.sort(np.concatenate([points, wanted]))
    values = finite(f, points)
    # second differences on unequal parts: the largest may be kinks
    before, after = np.diff(points[:-1]), np.diff(points[1:])
    bent = np.abs(values[1:-1] - (values[:-2] * after + values[2:] * before) / (before + after))
    # height over width: the size of a pulse as a change of slope
    slope = height / max(float(points[-1] - points[0]), 1e-300)
    cuts = [(t, slope) for t in _bends(points.tolist(), values.tolist(), NOTHING * height)]
    # a curve that is halved often enough has none
    for k in np.argsort(bent)[::-1][:8] + 1:
        kink = _kink(f, float(points[k - 1]), float(points[k + 1]), FINEST * end)
        cuts += [] if kink is None else [(kink[0], slope)]
    times = np.unique([t for t, _ in cuts])
    # times that differ by rounding are one
    apart = np.diff(times, prepend=-np.inf) > 8.0 * FINEST * end
    return [(float(t), slope) for t in times[apart]]


def _bends(points: list[float], values: list[float], height: float) -> list[float]:
    """Return the points that lie farther than a height from the line between the last such point and the next one of all."""
    last, cuts = 0, []
    # the fewest cuts: a point is left out while the line from the last cut stays close
    for k in range(1, len(points) - 1):
        share = (points[k] - points[last]) / (points[k + 1] - points[last])
        if not abs(values[k] - values[last] - share * (values[k + 1] - values[last])) <= height:
            cuts.append(points[k])
            last = k
    return cuts


def _joined(cells: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of neighbouring cells."""
    if not len(cells):
        return []
    breaks = np.flatnonzero(np.diff(cells) > 1)
    first, last = cells[np.concatenate([[0], breaks + 1])], cells[np.concatenate([breaks, [-1]])]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _around(features: Values, end: float) -> Values:
    """Return times at the features of a formula and at distances of powers of 2 from them."""
    # from a 4096th of the duration down to rounding; larger distances are on the grid
    distances = end * 0.5 ** np.arange(12, DEEPEST + 1)
    offsets = np.concatenate([[0.0], distances, -distances])
    times = (features[:, None] + offsets).ravel()
    return np.asarray(times[(times >= 0.0) & (times <= end)], float)


def finite(f: Profile, times: Values) -> Values:
    """Return a profile at many times; NaN where it is not finite, which may be one point that no step meets."""
    try:
        return many(f, times)
    except NumericsError:
        return np.array([_one_value(f, float(t)) for t in times])


def _one_value(f: Profile, t: float) -> float:
    try:
        return float(f(t))
    except NumericsError:
        return float("nan")


class _Part(Expression):
    """A part of a formula, which need not be finite."""

    def __init__(self, whole: Expression, program: Sequence[Instruction]) -> None:
        self.text, self.variables, self.names = whole.text, whole.variables, whole.names
        self.program = tuple(program)

    def _require_finite(self, result: Values, given: dict[str, Values]) -> None:
        pass


def _parts(formula: Expression) -> Iterator[_Part]:
    """Yield all parts of a formula that depend on its variable, and the differences between the arguments of min and max."""
    stack: list[list[Instruction]] = []
    # formulas are programs of a stack machine: each call closes a part, which holds the parts of its arguments
    seen: set[tuple[Instruction, ...]] = set()
    for step in formula.program:
        if step.kind != "call":
            stack.append([step])
            continue
        arguments = stack[len(stack) - step.count :]
        del stack[len(stack) - step.count :]
        stack.append([*(i for argument in arguments for i in argument), step])
        programs = [stack[-1]]
        # min and max have kinks where two of their arguments are equal
        if step.value in ("min", "max"):
            programs += [[*a, *b, Instruction("call", "-", 2)] for a, b in pairwise(arguments)]
        for program in programs:
            if any(i.kind == "name" for i in program) and tuple(program) not in seen:
                seen.add(tuple(program))
                yield _Part(formula, program)


def _features(formula: Expression | None, edges: Values) -> Values:
    """Return the zeros and extrema of all parts of a formula, and the ends of the evolution."""
    features = [edges[[0, -1]]]
    for part in _parts(formula) if formula is not None else ():
        # signs and rises on the grid enclose zeros and extrema, which are then searched by halving
        values = part(t=edges)
        signs = np.sign(values)
        zeros = np.flatnonzero((signs[1:] != signs[:-1]) & np.isfinite(values[1:]) & np.isfinite(values[:-1]))
        with np.errstate(invalid="ignore", over="ignore"):
            rises = np.diff(values)
            turns = (
                (np.sign(rises[1:]) != np.sign(rises[:-1])) & np.isfinite(rises[1:]) & np.isfinite(rises[:-1])
            )
        extrema = np.flatnonzero(turns) + 1
        if 0 < len(zeros) <= MOST_FEATURES:
            features.append(_zeros(part, edges[zeros], edges[zeros + 1]))
        if 0 < len(extrema) <= MOST_FEATURES:
            # a maximum rises before, or falls after
            up = np.where((rises[extrema - 1] > 0.0) | (rises[extrema] < 0.0), 1.0, -1.0)
            features.append(_extrema(part, edges[extrema - 1], edges[extrema + 1], up))
    return np.unique(np.concatenate(features))


def _zeros(part: Expression, low: Values, high: Values) -> Values:
    """Return the zeros of a part of a formula between pairs of times, by bisection."""
    sign = np.sign(part(t=low))
    for _ in range(ROUNDS):
        middle = 0.5 * (low + high)
        left = np.sign(part(t=middle)) == sign
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.asarray(high, float)


def _extrema(part: Expression, low: Values, high: Values, sign: Values) -> Values:
    """Return the maxima (sign 1) or minima (-1) of a part of a formula between pairs of times, by golden section."""
    for _ in range(ROUNDS + 10):
        width = GOLDEN * (high - low)
        left, right = high - width, low + width
        better = sign * part(t=left) >= sign * part(t=right)
        low, high = np.where(better, low, left), np.where(better, right, high)
    return np.asarray(0.5 * (low + high), float)
