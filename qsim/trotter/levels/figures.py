"""The figure of level statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def gap_ratio(r: Results) -> Figure | None:
    """Draw the distribution of gap ratios beside those of random levels (Poisson) and of the orthogonal ensemble (GOE)."""
    if "gap_ratios" not in r:
        return None
    x = np.linspace(0.0, 1.0, 201)
    fig = figure("single")
    ax = fig.subplots()
    ax.hist(r["gap_ratios"], bins=25, range=(0.0, 1.0), density=True, color=COLORS["blue"], alpha=0.4)
    ax.plot(x, 2.0 / (1.0 + x) ** 2, color=COLORS["vermillion"], label="Poisson")
    ax.plot(x, 27.0 / 4.0 * (x + x**2) / (1.0 + x + x**2) ** 2.5, color="black", label="GOE")
    ax.set_xlabel("gap ratio")
    ax.set_ylabel("probability density")
    ax.legend()
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"gap_ratio": gap_ratio}
