r"""Radial grids ``r(x)``, x = 1 ... n, and the Hermitian Numerov Hamiltonian on them.

With ``u = sqrt(r') chi`` and ``phi = r' chi`` the sum of ``|phi|^2`` over the points is the norm, and

    H_l = -1/2 (1/r') M2^-1 D2 (1/r') + V + l (l + 1) / (2 r^2) + Q / (2 r'^2),
    Q = 3/4 (r''/r')^2 - r''' / (2 r'),   M2 = 1 + D2 / 12,   D2 = (1, -2, 1).

The first diagonal entry of M2 follows from the power series of u at the nucleus, whose charge is Z; with ``z = Z r'(0)``

    l = 0:  (10 - 49 z / 6) / (12 - 10 z),     l = 1:  (49/6 - 5 z / 2) / (10 - 3 z),     l >= 2:  10 / 12.

D2 = 12 (M2 - 1) holds in the first row too, so that H is symmetric to rounding and of fourth order.

The first derivative is ``r'^-1/2 M1^-1 D1 r'^-1/2`` with ``M1 = (1, 4, 1) / 6``, ``D1 = (-1, 0, 1) / 2`` and the corners
``(M1)_11 = (M1)_nn = (4 + y) / 6``, ``(D1)_11 = -(D1)_nn = y / 2``, ``y = sqrt(3) - 2``; it is antisymmetric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CORNER", "RadialGrid", "first_entry", "mapped", "uniform"]

# y of the corners of M1 and D1: with it D1 M1 = -M1 D1^T
CORNER = math.sqrt(3.0) - 2.0
# steps to the number of cells; each doubles its digits
NEWTON = 40


@dataclass(frozen=True)
class RadialGrid:
    """Points and derivatives of a map; the wave function vanishes at x = 0 and x = n + 1.

    Attributes
    ----------
    r, slope : (n,) float64
        r and r' = dr/dx, bohr.
    curvature : (n,) float64
        ``Q / (2 r'^2)``, hartree.
    wall : float
        r(n + 1), bohr.
    step : float
        r'(0): the spacing at the nucleus, bohr.
    far : float
        Spacing of the map far away, bohr.
    width : float
        Number of points over which the spacing changes.
    """

    r: NDArray[np.float64]
    slope: NDArray[np.float64]
    curvature: NDArray[np.float64]
    wall: float
    step: float
    far: float
    width: float

    @property
    def points(self) -> int:
        """Number of points."""
        return self.r.size

    @property
    def widest(self) -> float:
        """Largest spacing, bohr."""
        return float(self.slope[-1])

    def resized(self, points: int) -> RadialGrid:
        """Return a grid of the same map with another number of points, and its wall elsewhere."""
        return _on_map(points, self.far, self.step, self.width)


def uniform(rmax: float, dr: float, coarser: float = 1.0) -> RadialGrid:
    """Return equidistant points before a wall at `rmax`; arguments as of `mapped`."""
    return mapped(rmax, dr, dr, 1.0, coarser)


def mapped(rmax: float, dr: float, dr0: float, width: float, coarser: float = 1.0) -> RadialGrid:
    """Return ``r = dr x - (dr - dr0) width tanh(x / width)``: spacing dr0 at the nucleus, dr far away.

    A whole number of cells ends at the wall: where the requested spacings do not allow that, both are shortened by one factor.

    Parameters
    ----------
    rmax
        Radius of the wall, bohr.
    dr, dr0
        Spacings, bohr, at most.
    width
        Number of points over which the spacing changes.
    coarser
        All spacings times this factor, up to a whole number of cells: points of the same map, at every `coarser`-th x.
    """
    cells = (rmax + (dr - dr0) * width) / dr
    # cells up to rmax, by Newton's method
    # from above, of a convex function
    for _ in range(NEWTON):
        t = math.tanh(cells / width)
        excess = dr * cells - (dr - dr0) * width * t - rmax
        cells -= excess / (dr - (dr - dr0) * (1.0 - t * t))
    # a whole number of cells ends at rmax: all spacings shrink by one factor
    whole = max(math.ceil(cells * (1.0 - 1e-12)), 2)
    # only the spacings are changed, not the width: r is linear in them
    shorter = rmax / (dr * whole - (dr - dr0) * width * math.tanh(whole / width))
    fewer = max(round(whole / coarser), 2)
    # x is counted in coarser units: spacings grow and the width shrinks by the same factor, and r(x) stays the
    # same curve
    stretch = whole / fewer
    return _on_map(fewer - 1, dr * shorter * stretch, dr0 * shorter * stretch, width / stretch)


def _on_map(points: int, dr: float, dr0: float, width: float) -> RadialGrid:
    """Return the first points of a map."""
    x = np.arange(1, points + 1, dtype=float)
    # equidistant, which may be many
    if dr == dr0:
        return RadialGrid(dr * x, np.full(points, dr), np.zeros(points), dr * (points + 1), dr0, dr, width)
    t = np.tanh(x / width)
    s = 1.0 - t * t
    slope = dr - (dr - dr0) * s
    second = 2.0 * (dr - dr0) * s * t / width
    # r'' and r''' of the map, from derivatives of tanh
    third = 2.0 * (dr - dr0) * s * (1.0 - 3.0 * t * t) / width**2
    # half of the (negative) Schwarzian derivative of the map: what the change of variables adds to the potential
    q = 0.75 * (second / slope) ** 2 - 0.5 * third / slope
    wall = dr * (points + 1) - (dr - dr0) * width * math.tanh((points + 1) / width)
    return RadialGrid(dr * x - (dr - dr0) * width * t, slope, q / (2.0 * slope**2), wall, dr0, dr, width)


Spacing = TypeVar("Spacing", float, complex)


def first_entry(l: int, charge: float, step: Spacing) -> Spacing:
    """Return ``(M2)_11`` of one l for the charge of the nucleus and the spacing there (complex on complex radii)."""
    z = charge * step
    # u ~ r (1 - Z r) and u ~ r^2 (1 - Z r / 2) are exact near the nucleus; for higher l Numerov's entry is good enough
    if l == 0:
        return (10.0 - 49.0 / 6.0 * z) / (12.0 - 10.0 * z)
    if l == 1:
        return (49.0 / 6.0 - 2.5 * z) / (10.0 - 3.0 * z)
    return 0.0 * step + 10.0 / 12.0
