"""Potentials and dipoles of two coordinates at the points of a grid: formulas, wells and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.tables import read_table
from qsim.core.errors import InvalidInput
from qsim.core.physics.curves import BEYOND, HALVED, MISSED, SHARE, TINY, table_curve
from qsim.core.physics.functions import LARGEST_VALUE, formula
from qsim.qoc.deck.systems.grid2d import FormulaOfXY, HenonHeiles, TableOfXY

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray
    from qsim.qoc.deck.systems.grid2d import Component, Grid2dSystem, PotentialOfXY

# Rows of a table in each coordinate: two cubic pieces.
LEAST_ROWS = 4


def potential_at(block: PotentialOfXY, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return V (n1, n2) at the points x, y (n1, n2), hartree.

    Raises
    ------
    InvalidInput
        If it is not finite or too large somewhere, or a table does not cover the points.
    FileError
        If a table cannot be read.
    """
    key = "system.potential"
    if isinstance(block, FormulaOfXY):
        return _sane(formula(block.value, f"{key}.value", x=x, y=y), f"{key}.value")
    if isinstance(block, TableOfXY):
        return _sane(_table(block, x, y, f"{key}.file"), f"{key}.file")
    if isinstance(block, HenonHeiles):
        return np.asarray(0.5 * (x * x + y * y) + block.strength * (x * x * y - y**3 / 3.0))
    with np.errstate(over="ignore"):
        wells = [(1.0 - np.exp(-block.beta * (q - block.r0))) ** 2 for q in (x, y)]
    return _sane(np.asarray(block.D * (wells[0] + wells[1])), key)


def dipole_at(component: Component, x: FloatArray, y: FloatArray, key: str) -> FloatArray:
    """Return a component of the dipole (n1, n2) at the points x, y (n1, n2), a.u.

    Raises
    ------
    InvalidInput
        If it is not finite or too large somewhere, or a table does not cover the points.
    FileError
        If a table cannot be read.
    """
    if isinstance(component, str):
        return _sane(formula(component, key, x=x, y=y), key)
    return _sane(_table(component, x, y, f"{key}.file"), f"{key}.file")


def _sane(values: FloatArray, key: str) -> FloatArray:
    """Return values that are finite and of a size that leaves something beside them.

    Raises
    ------
    InvalidInput
        Otherwise.
    """
    largest = float(np.abs(values).max())
    if not largest <= LARGEST_VALUE:
        text = f"{largest:.3g} a.u. on the grid is too large for double precision (at most {LARGEST_VALUE:g})"
        raise InvalidInput(key, f"{text}; change the function or system.grid")
    return values


def _table(block: TableOfXY, x: FloatArray, y: FloatArray, key: str) -> FloatArray:
    """Return the third column of a table at the points of the grid, by cubic splines.

    Raises
    ------
    InvalidInput
        If its rows fill no rectangular grid, or do not cover the points.
    FileError
        If the file cannot be read.
    """
    surface = _surface(block, key)
    for name, given, needed in (("x", surface.x, x), ("y", surface.y, y)):
        # Ends that agree but for rounding of a change of units are inside.
        slack = 1e-9 * float(given[-1] - given[0])
        if needed.min() < given[0] - slack or needed.max() > given[-1] + slack:
            covered = f"the table covers {name} from {given[0]:g} to {given[-1]:g}"
            raise InvalidInput(key, f"{covered} bohr, the grid needs {needed.min():g} to {needed.max():g}")
    return surface.other(x[:, 0], y[0, :]) if block._doubted else surface.at(x[:, 0], y[0, :])


def remarks(system: Grid2dSystem) -> dict[str, str]:
    """Return what a user must know of the splines through the tables of a system, by their keys.

    Raises
    ------
    InvalidInput, FileError
        As :func:`potential_at` does.
    """
    blocks = {f"system.dipole.{name}": getattr(system.dipole, name) for name in "xy"}
    blocks["system.potential"] = system.potential
    tables = {f"{key}.file": block for key, block in blocks.items() if isinstance(block, TableOfXY)}
    found = {key: _surface(block, key).remark() for key, block in tables.items()}
    return {key: text for key, text in found.items() if text}


def _surface(block: TableOfXY, key: str) -> Surface:
    """Return the surface of a table, as :func:`_table` does."""
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

    def at(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the spline on a grid, (m1, m2)."""
        return _splined(self.x, self.y, self.values, x, y)

    def other(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return what the spline would be if it erred as much as leaving out every second row shows, in x and in y, (m1, m2).

        Where the rows are dense, twice the spacing errs 16 times as much. Where neighbours miss a row by a large part of the
        range about it, nothing is known of the order: the whole change counts, or the one to straight lines of few rows.
        """
        own = self.at(x, y)
        return own + sum(self._change(axis, own, x, y) for axis in (0, 1))

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

    def _change(self, axis: int, own: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return what the spline changes by the rows of one coordinate, (m1, m2)."""
        n = self.values.shape[axis]
        if n < HALVED:
            degrees = (1, 3) if axis == 0 else (3, 1)
            return BEYOND * (_splined(self.x, self.y, self.values, x, y, degrees) - own)
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
            change = _splined(grid[0], grid[1], half, x, y) - own
            worst = np.where(np.abs(change) > np.abs(worst), change, worst)
        return share * worst


def _splined(
    x: FloatArray,
    y: FloatArray,
    values: FloatArray,
    at_x: FloatArray,
    at_y: FloatArray,
    degrees: tuple[int, int] = (3, 3),
) -> FloatArray:
    """Return the spline of some degrees through values (n1, n2) on another grid, (m1, m2)."""
    from scipy.interpolate import RectBivariateSpline

    spline = RectBivariateSpline(x, y, values, kx=degrees[0], ky=degrees[1])
    return np.asarray(spline(at_x, at_y), dtype=float)
