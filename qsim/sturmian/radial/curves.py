"""Smooth curves of radial functions for figures, with their colours and axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS

if TYPE_CHECKING:
    from qsim.core.device.arrays import BoolArray, FloatArray

CYCLE = [color for name, color in COLORS.items() if name != "black"]
RADIUS = "$r$ (bohr)"
# Of a smooth curve.
POINTS = 900


def smooth(s: FloatArray, real: BoolArray, values: FloatArray) -> tuple[Any, Any]:
    """Return a curve through the nodes, from zero at the nucleus; on either side of the corner of a contour by itself."""
    from scipy.interpolate import CubicSpline

    pieces = []
    # A spline must not run through the corner of the contour, where the derivative jumps: one
    # for each side, the corner in both.
    for part in (real, ~real | (s == s[real].max())):
        if part.sum() < 2:
            continue
        x, y = s[part], values[part]
        if part is real:
            x, y = np.concatenate([[0.0], x]), np.concatenate([[0.0], y])
        # waves are shortest at the nucleus
        fine = x[0] + (x[-1] - x[0]) * np.linspace(0.0, 1.0, POINTS) ** 2
        pieces.append((fine, CubicSpline(x, y)(fine)))
    return tuple(np.concatenate(both) for both in zip(*pieces, strict=True))  # type: ignore[return-value]
