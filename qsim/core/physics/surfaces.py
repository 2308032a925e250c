"""Functions of two coordinates from tables: cubic splines on a rectangular grid, and another surface that the rows allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.tables import read_table
from qsim.core.errors import InvalidInput
from qsim.core.physics.curves import BEYOND, HALVED, MISSED, SHARE, TINY, table_curve
from qsim.core.physics.functions import LARGEST_VALUE

if TYPE_CHECKING:
    from qsim.core.deck.table_units import TableOfXY
    from qsim.core.device.arrays import FloatArray

__all__ = ["Surface", "sane", "surface_of", "tabulated"]

# Rows of a table in each coordinate: two cubic pieces.
LEAST_ROWS = 4


def sane(values: FloatArray, key: str) -> FloatArray:
    """Return values that are finite and of a size that leaves something beside them.

    Raises
    ------
    InvalidInput
        Otherwise.
    """
    largest = float(np.abs(values).max())
    if not np.isfinite(largest):
        raise InvalidInput(key, "not finite somewhere on the grid; change the function or the grid")
    if largest > LARGEST_VALUE:
        text = f"{largest:.3g} a.u. on the grid is too large for double precision (at most {LARGEST_VALUE:g})"
        raise InvalidInput(key, f"{text}; change the function or the grid")
    return values


def tabulated(
    block: TableOfXY, x: FloatArray, y: FloatArray, key: str, slope: tuple[int, int] = (0, 0)
) -> FloatArray:
    """Return the third column of a table on a grid x (n1,), y (n2,), by cubic splines: (n1, n2).

    `slope` asks for derivatives along x and y.

    Raises
    ------
    InvalidInput
        If its rows fill no rectangular grid, or do not cover the points.
    FileError
        If the file cannot be read.
    """
    surface = surface_of(block, key)
    for name, given, needed in (("x", surface.x, x), ("y", surface.y, y)):
        # Ends that agree but for rounding of a change of units are inside.
        slack = 1e-9 * float(given[-1] - given[0])
        if needed.min() < given[0] - slack or needed.max() > given[-1] + slack:
            covered = f"the table covers {name} from {given[0]:g} to {given[-1]:g}"
            raise InvalidInput(key, f"{covered} bohr, the grid needs {needed.min():g} to {needed.max():g}")
    return surface.other(x, y, slope) if block._doubted else surface.at(x, y, slope)


def surface_of(block: TableOfXY, key: str) -> Surface:
    """Return the surface of a table, with the errors of :func:`tabulated`."""
    rows = read_table(block)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    xs, ys = np.unique(rows[:, 0]), np.unique(rows[:, 1])
    full = rows.shape[0] == xs.size * ys.size
    if not full or not np.array_equal(
        rows[:, :2], np.array(np.meshgrid(xs, ys, indexing="ij")).reshape(2, -1).T
    ):
        text = (
            f"{len(rows)} rows with {xs.size} different x and {ys.size} different y fill no rectangular grid"
        )
        raise InvalidInput(key, text)
    if min(xs.size, ys.size) < LEAST_ROWS:
        raise InvalidInput(key, f"{xs.size} x {ys.size} values; cubic splines need at least 4 x 4")
    return Surface(xs, ys, rows[:, 2].reshape(xs.size, ys.size))


@dataclass(frozen=True)
class Surface:
    """A table on a rectangular grid as a cubic spline, and another surface that its rows allow.

    Attributes
    ----------
    x, y : (n1,), (n2,) float64
        Ascending.
    values : (n1, n2) float64
    """

    x: FloatArray
    y: FloatArray
    values: FloatArray

    def at(self, x: FloatArray, y: FloatArray, slope: tuple[int, int] = (0, 0)) -> FloatArray:
        """Return the spline on a grid, or its derivatives along x and y, (m1, m2)."""
        return _splined(self.x, self.y, self.values, x, y, slope=slope)

    def other(self, x: FloatArray, y: FloatArray, slope: tuple[int, int] = (0, 0)) -> FloatArray:
        """Return what the spline would be if it erred as much as leaving out every second row shows, in x and in y, (m1, m2).

        Where the rows are dense, twice the spacing errs 16 times as much. Where neighbours miss a row by a large part of the
        range about it, nothing is known of the order: the whole change counts, or the one to straight lines of few rows.
        """
        own = self.at(x, y, slope)
        return own + sum(self._change(axis, own, x, y, slope) for axis in (0, 1))

    def remark(self) -> str:
        """Return where the spline leaves the range of its rows by more than a smooth function does, empty if nowhere.

        At a value of one coordinate that has rows, it is the not-a-knot cubic spline of the other one through them.
        """
        worst = (0.0, "")
        for axis, (along, across) in enumerate(((self.x, self.y), (self.y, self.x))):
            names = "xy" if axis == 0 else "yx"
            for place, values in zip(across, self.values if axis else self.values.T, strict=True):
                curve = table_curve("the table", along, np.ascontiguousarray(values), "cubic")
                if not curve.tame and curve.excess > worst[0]:
                    where = f"{names[0]} = {curve.place:.6g}, {names[1]} = {place:.6g}"
                    text = f"the cubic spline leaves the range of its rows by up to {curve.excess:.3g} (atomic units)"
                    worst = curve.excess, f"{text} near {where}; more rows keep it to them"
        return worst[1]

    def _change(
        self, axis: int, own: FloatArray, x: FloatArray, y: FloatArray, slope: tuple[int, int]
    ) -> FloatArray:
        """Return what the spline changes by the rows of one coordinate, (m1, m2)."""
        n = self.values.shape[axis]
        if n < HALVED:
            degrees = (1, 3) if axis == 0 else (3, 1)
            return BEYOND * (_splined(self.x, self.y, self.values, x, y, degrees, slope) - own)
        worst, share = np.zeros_like(own), SHARE
        ranges = np.ptp(np.lib.stride_tricks.sliding_window_view(self.values, 5, axis=axis), axis=-1)
        inner = [slice(None), slice(None)]
        inner[axis] = slice(2, -2)
        for first in (0, 1):
            kept = np.unique([0, *range(first, n, 2), n - 1])
            grid = [self.x, self.y]
            grid[axis] = grid[axis][kept]
            half = np.take(self.values, kept, axis=axis)
            missed = np.abs(_splined(grid[0], grid[1], half, self.x, self.y) - self.values)[tuple(inner)]
            if np.any(missed > np.maximum(MISSED * ranges, TINY * np.ptp(self.values))):
                share = 1.0
            change = _splined(grid[0], grid[1], half, x, y, slope=slope) - own
            worst = np.where(np.abs(change) > np.abs(worst), change, worst)
        return share * worst


def _splined(
    x: FloatArray,
    y: FloatArray,
    values: FloatArray,
    at_x: FloatArray,
    at_y: FloatArray,
    degrees: tuple[int, int] = (3, 3),
    slope: tuple[int, int] = (0, 0),
) -> FloatArray:
    """Return the spline of some degrees through values (n1, n2) on another grid, or its derivatives, (m1, m2)."""
    from scipy.interpolate import RectBivariateSpline

    spline = RectBivariateSpline(x, y, values, kx=degrees[0], ky=degrees[1])
    return np.asarray(spline(at_x, at_y, dx=slope[0], dy=slope[1]), dtype=float)
