"""The figure of levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def levels(r: Results) -> Figure | None:
    """Levels of the sectors above the lowest one, by their Sz."""
    if "sector_sz" not in r:
        return None
    values, sz = r["levels"], r["sector_sz"]
    name = "$S^z$"
    # a tower of levels over the momentum
    if "sector_momentum" in r and len(set(sz)) == 1:
        sz, name = r["sector_momentum"] * len(r["site"]) / 2.0, "$k$ of the momentum $2\\pi k/N$"
    fig = figure("single")
    ax = fig.subplots()
    end = r.scalars["energy_0"].value
    for place, row in zip(sz, values, strict=True):
        energies = row[np.isfinite(row)] - end
        ax.hlines(energies, place - 0.3, place + 0.3, color=COLORS["blue"], linewidth=1.2)
    ax.set_xticks(sz)
    ax.set_xlabel(name)
    ax.set_ylabel(r"$E - E_0$ ($J$)")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"levels": levels}
