"""Figures of ``task: solve``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results


def solution(r: Results) -> Figure | None:
    """Solution of a system and its residual, in some rows."""
    if "profile_x" not in r:
        return None
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    row, x, residual = r["profile_row"], r["profile_x"], r["profile_residual"]
    # lines between rows that have nothing to do with each other would fill the axes
    dense = row.size > 400
    style = (
        {"linestyle": "none", "marker": ".", "markersize": 1.5} if dense and _rough(x) else {"linewidth": 0.8}
    )
    a.plot(row, x.real, color=COLORS["blue"], label="real" if np.iscomplexobj(x) else None, **style)
    if np.iscomplexobj(x):
        a.plot(row, x.imag, color=COLORS["vermillion"], label="imaginary", **style)
        a.legend(markerscale=4, loc="upper right")
    a.set_xlabel("row")
    a.set_ylabel("x")
    a.set_title("solution")
    positive = residual[residual > 0]
    if positive.size:
        b.semilogy(
            row,
            # residuals that vanish in a row would stretch the logarithmic axis: they are drawn at its lower end
            np.maximum(residual, max(0.3 * positive.min(), 1e-6 * positive.max())),
            color=COLORS["green"],
            linewidth=0.6,
        )
    else:
        b.plot(row, residual, color=COLORS["green"])
    b.set_xlabel("row")
    b.set_ylabel(r"$|d - T x|$")
    error = r.scalars["backward_error"].value
    b.set_title(f"residual, backward error {error:.1e}" if isinstance(error, float) else "residual")
    for ax in (a, b):
        ax.set_xlim(0, max(int(row[-1]), 1))
    return fig


def _rough(x: NDArray[np.generic]) -> bool:
    """Return whether neighbouring values have nothing to do with each other, so that lines between them would fill the axes."""
    steps, size = np.abs(np.diff(x)), np.abs(x)
    return bool(steps.mean() > 0.3 * size.mean())


# ------------------------------------------------------------------------------------------- scaling


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"solution": solution}
