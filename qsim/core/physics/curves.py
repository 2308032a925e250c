"""Tables as curves that keep to their rows, and how far such a curve may be from what the table samples.

``auto`` takes a cubic spline (not-a-knot) wherever the rows are dense enough for one: every row is predicted by its neighbours,
and the spline leaves the range of the rows beside it by little.  Elsewhere the rows are joined by straight lines, where they have
corners, or by monotone cubics (Fritsch and Carlson).  A table that is smooth and densely sampled is one spline.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from qsim.core.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.interpolate import PPoly

    Floats = NDArray[np.float64]
    How = Literal["auto", "monotone", "linear", "cubic"]

__all__ = ["Curve", "table_curve"]

# Of the range of the rows about it: by how much the neighbours of a row may miss it.  A corner between straight lines misses by
# an eighth, a sine sampled seven times per period by a tenth.
MISSED = 0.1
# Of the same range: by how much a spline may leave the rows on either side of it; the sine leaves them by a seventh.
LEFT = 0.2
# Of the second derivative at a corner: those of two rows beside it on a straight line.
FLAT = 1e-3
# Of the range of the table: what does not count.
TINY = 1e-6
# Of the range of the table: bend of three rows that lie on a line.
STRAIGHT = 1e-9
# Rounds in which splines end where they leave their rows.
ROUNDS = 8
# Rows of a spline, and of one of which every second row makes another.
LEAST, HALVED = 4, 8
# Of the change where every second row is left out: a spline of twice the spacing errs by 2^4 as much; three times that.
SHARE = 3.0 / 15.0
# Of the change to another kind of curve.
BEYOND = 1.5
# Of the largest number of a table: rounding.
ROUNDED = 1e-13


@dataclass(frozen=True)
class Curve:
    """A table as a piecewise polynomial.

    Attributes
    ----------
    at : PPoly
        The curve.
    other : PPoly
        Another one that the rows allow as well; their distance is the error of the table.
    pieces : (rows - 1,) of str
        ``"cubic"``, ``"linear"`` or ``"monotone"`` between two rows.
    excess : float
        By how much the curve leaves the range of the two rows beside it at most.
    place : float
        Where it does so.
    tame : bool
        Whether the excess, and the distance of every row from what its neighbours predict, are as small as in a smooth curve.
    """

    at: PPoly
    other: PPoly
    pieces: NDArray[np.str_]
    excess: float
    place: float
    tame: bool

    def remark(self, name: str, how: How) -> str:
        """Return what a user must know of the curve through a table, empty where there is nothing.

        Parameters
        ----------
        name
            Of the first column.
        how
            As the deck has it.
        """
        if how == "cubic" and not self.tame:
            return (
                f"the cubic spline leaves the range of its rows by up to {self.excess:.3g} (atomic units) near {name} = "
                f"{self.place:.6g}; more rows, or interpolation: auto, monotone or linear, keep to them"
            )
        # lines through rows that lie on them need no word
        apart = np.abs(_middles(self.other.c - self.at.c, self.at.x)).max(axis=0)
        rough = np.flatnonzero((self.pieces != "cubic") & (apart > _floor(self.at.c[3])))
        if how != "auto" or not rough.size:
            return ""
        lines = int(np.sum(self.pieces[rough] == "linear"))
        return (
            f"the rows are too few for a cubic spline in {rough.size} of {self.pieces.size} intervals between {name} = "
            f"{self.at.x[rough[0]]:.6g} and {self.at.x[rough[-1] + 1]:.6g} ({lines} by straight lines, {rough.size - lines} by "
            "monotone cubics); more rows determine the curve, interpolation: linear or monotone states it"
        )


def table_curve(path: str | Path, x: Floats, y: Floats, how: How = "auto") -> Curve:
    """Return the curve through ascending points of a file.

    Parameters
    ----------
    path
        Of the file, for the message.
    x, y : (rows,) float64
        At least four rows.
    how
        The interpolation; that of ``linear`` has no error, since it states the curve.

    Raises
    ------
    FileError
        If the numbers are so large, or so close to each other, that double precision has no curve through them.
    """
    from scipy.interpolate import PPoly

    made = None
    # SciPy, of numbers that are not finite or a singular matrix
    with np.errstate(all="ignore"), suppress(ValueError):
        made = _made(x, y, how)
    # Overflow in the coefficients leaves infinities without an exception.
    if made is None or not all(np.isfinite(c).all() for c in made[:2]):
        raise FileError(
            f"{path}: no spline in double precision goes through values up to {np.abs(y).max():.3g} "
            f"at points {np.diff(x).min():.3g} apart"
        )
    c, other, pieces = made
    over = _excess(c, x, y)
    worst = int(np.argmax(over))
    wild = (pieces == "cubic") & ~_fine(_rows_missed(x, y), over, y)
    place = 0.5 * float(x[worst] + x[worst + 1])
    return Curve(PPoly(c, x), PPoly(other, x), pieces, float(over[worst]), place, not wild.any())


def _made(x: Floats, y: Floats, how: How) -> tuple[Floats, Floats, NDArray[np.str_]]:
    """Return the coefficients (4, rows - 1) of a curve and of another one, and the kinds of its pieces."""
    from scipy.interpolate import PchipInterpolator

    lines, monotone = _lines(x, y), PchipInterpolator(x, y).c
    kinds = np.full(x.size - 1, how, dtype="U8")
    parts = [(0, x.size)] if how == "cubic" else []
    if how == "auto":
        kinds = np.where(_rough(x, y), "linear", "monotone")
        parts = _believed(x, y)
        for first, last in parts:
            kinds[first : last - 1] = "cubic"
    c = _splined(x, y, parts, np.where(kinds == "linear", lines, monotone))
    if how == "linear":
        return c, c, kinds
    bent, rough = _bent(x, y), _rough(x, y)
    other = np.where(rough, np.where(kinds == "linear", monotone, lines), _further(c, lines, bent, x))
    # the truth may be further than the one that is known
    other = c + BEYOND * (other - c)
    for first, last in parts:
        inside = slice(first, last - 1)
        other[:, inside] = _thinned(x[first:last], y[first:last], c[:, inside], bent[:, inside])
    return c, other, kinds


def _believed(x: Floats, y: Floats) -> list[tuple[int, int]]:
    """Return the stretches of rows, first and one after the last, through which splines may go."""
    missed = _rows_missed(x, y)
    cubic = _fine(missed, np.zeros(x.size - 1), y)
    for _ in range(ROUNDS):
        parts = _parts(cubic)
        bad = cubic & ~_fine(missed, _excess(_splined(x, y, parts, _lines(x, y)), x, y), y)
        if not bad.any():
            return parts
        cubic &= ~bad
    return []


def _lines(x: Floats, y: Floats) -> Floats:
    """Return straight lines between the rows, (4, rows - 1)."""
    out = np.zeros((4, x.size - 1))
    out[2], out[3] = np.diff(y) / np.diff(x), y[:-1]
    return out


def _bent(x: Floats, y: Floats) -> Floats:
    """Return cubics with the slopes of parabolas through three rows, (4, rows - 1).

    No slope is larger than the range of the four rows about an interval over its length, so that long intervals stay tame.
    """
    h, chord = np.diff(x), np.diff(y) / np.diff(x)
    slope, most = np.gradient(y, x, edge_order=2), _ranges(y) / h
    left, right = np.clip(slope[:-1], -most, most), np.clip(slope[1:], -most, most)
    bend = (left + right - 2.0 * chord) / h
    return np.array([bend / h, (chord - left) / h - bend, left, y[:-1]])


def _ranges(y: Floats) -> Floats:
    """Return the range of the four rows about each interval, (rows - 1,)."""
    wide = np.pad(y, 1, mode="edge")
    return np.asarray(np.ptp(np.array([wide[k : k + y.size - 1] for k in range(4)]), axis=0), float)


def _floor(y: Floats) -> float:
    """Return what does not count beside the numbers of a table."""
    return TINY * float(np.ptp(y)) + ROUNDED * float(np.abs(y).max())


def _rough(x: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return which intervals are parts of straight lines, or beside one: their rows have corners."""
    chord = np.diff(y) / np.diff(x)
    # bend of three rows as a distance from a line
    aligned = np.abs(np.diff(chord)) * np.minimum(np.diff(x)[:-1], np.diff(x)[1:]) <= STRAIGHT * float(
        np.ptp(y)
    )
    straight = np.diff(y) == 0.0
    straight[:-1] |= aligned
    straight[1:] |= aligned
    beside = straight.copy()
    beside[:-1] |= straight[1:]
    beside[1:] |= straight[:-1]
    return np.asarray(beside, bool)


def _corners(x: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return which rows bend, with a straight line on both sides or one of at least four rows on one, (rows,)."""
    out = np.zeros(x.size, dtype=bool)
    if x.size < 5:
        return out
    h, chord = np.diff(x), np.diff(y) / np.diff(x)
    turn = np.abs(np.diff(chord))
    # second derivatives, of rows beyond the ends none that is small
    second = np.pad(2.0 * turn / (h[:-1] + h[1:]), 2, constant_values=np.inf)
    right = np.maximum(second[3:-1], second[4:])
    left = np.maximum(second[1:-3], second[:-4])
    both = np.maximum(second[1:-3], second[3:-1])
    counts = turn * np.minimum(h[:-1], h[1:]) > _floor(y)
    out[1:-1] = counts & (np.minimum(np.minimum(left, right), both) < FLAT * second[2:-2])
    return out


def _rows_missed(x: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return which rows are not where a cubic through four neighbours is, (rows,): of these every second one is left out."""
    n, bad = x.size, _corners(x, y)
    floor = _floor(y)
    apart, reach = (2, 3) if n >= HALVED else (1, n)
    # the four nearest rows of every second one, of all where these are too few
    offsets = [sign * (1 + apart * k) for k in range(reach + 1) for sign in (-1, 1)]

    def test(rows: NDArray[np.int64], nodes: NDArray[np.int64]) -> None:
        at, values = x[nodes], y[nodes]
        weights = np.ones(nodes.shape)
        for j in range(nodes.shape[1]):
            for k in range(nodes.shape[1]):
                if k != j:
                    weights[:, j] *= (x[rows] - at[:, k]) / (at[:, j] - at[:, k])
        missed = np.abs(np.sum(weights * values, axis=1) - y[rows])
        both = np.column_stack([values, y[rows]])
        bad[rows] |= missed > np.maximum(MISSED * np.ptp(both, axis=1), floor)

    inner = np.arange(3, n - 3) if n >= HALVED else np.zeros(0, dtype=np.int64)
    test(inner, inner[:, None] + np.array([-3, -1, 1, 3]))
    for row in range(1, n - 1):
        if n >= HALVED and 3 <= row < n - 3:
            continue
        nodes = [row + k for k in offsets if 0 <= row + k < n][:LEAST]
        test(np.array([row]), np.array([nodes]))
    return bad


def _excess(c: Floats, x: Floats, y: Floats) -> Floats:
    """Return by how much cubics leave the range of the two rows beside them, (rows - 1,)."""
    h = np.diff(x)
    # squares of huge coefficients overflow; a power of two costs no digit
    unit = math.ldexp(1.0, min(math.frexp(float(np.abs(y).max()))[1], 1023))
    c, y = c / unit, y / unit
    # their extrema: zeros of the derivative, two at most
    a, b, d = 3.0 * c[0], c[1], c[2]
    root = np.sqrt(np.maximum(b * b - a * d, 0.0))
    low, high = np.minimum(y[:-1], y[1:]), np.maximum(y[:-1], y[1:])
    out = np.zeros(h.size)
    for sign in (-1.0, 1.0):
        # the form without cancellation, and the other one
        q = -(b + np.copysign(root, b))
        s = np.where(
            sign > 0,
            np.divide(q, a, where=a != 0.0, out=np.zeros_like(q)),
            np.divide(d, q, where=q != 0.0, out=np.zeros_like(q)),
        )
        s = np.clip(np.nan_to_num(s), 0.0, h)
        value = ((c[0] * s + c[1]) * s + c[2]) * s + c[3]
        out = np.maximum(out, np.maximum(value - high, low - value))
    return np.asarray(out * unit, float)


def _fine(missed: NDArray[np.bool_], over: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return between which rows a spline is believed, (rows - 1,), from the rows that are missed and its excess."""
    allowed = np.maximum(LEFT * _ranges(y), _floor(y))
    return ~(missed[:-1] | missed[1:]) & (over <= allowed)


def _parts(cubic: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first row, and the one after the last, of every stretch of enough rows; `cubic` loses the shorter ones."""
    edges = np.flatnonzero(np.diff(np.pad(cubic.astype(np.int8), 1)))
    parts = []
    for first, last in edges.reshape(-1, 2).tolist():
        if last - first + 1 < LEAST:
            cubic[first:last] = False
        else:
            parts.append((first, last + 1))
    return parts


def _splined(x: Floats, y: Floats, parts: list[tuple[int, int]], rest: Floats) -> Floats:
    """Return the cubic splines through some stretches of rows, and `rest` between these, (4, rows - 1)."""
    from scipy.interpolate import CubicSpline

    c = rest.copy()
    for first, last in parts:
        c[:, first : last - 1] = CubicSpline(x[first:last], y[first:last]).c
    return c


def _thinned(x: Floats, y: Floats, c: Floats, bent: Floats) -> Floats:
    """Return the coefficients of a spline `c` with the error that leaving out every second row shows; `bent` for few rows."""
    from scipy.interpolate import CubicSpline

    n = x.size
    if n < HALVED:
        return bent
    halves: list[Floats] = []
    for first in (0, 1):
        kept = np.unique([0, *range(first, n, 2), n - 1])
        half = CubicSpline(x[kept], y[kept])
        there = x[:-1]
        halves.append(np.array([half(there, 3) / 6.0, half(there, 2) / 2.0, half(there, 1), half(there)]))
    return c + SHARE * (_further(c, halves[0], halves[1], x) - c)


def _further(c: Floats, one: Floats, two: Floats, x: Floats) -> Floats:
    """Return interval by interval which of two curves is further from `c`."""
    far = [np.abs(_middles(other - c, x)).max(axis=0) for other in (one, two)]
    return np.where(far[0] > far[1], one, two)


def _middles(c: Floats, x: Floats) -> Floats:
    """Return cubics at three places in each interval, where curves through the same rows are apart, (3, rows - 1)."""
    s = np.array([[0.25], [0.5], [0.75]]) * np.diff(x)
    return np.asarray(((c[0] * s + c[1]) * s + c[2]) * s + c[3], float)
