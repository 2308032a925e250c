"""Figures of quantum trajectories: a raster of their jumps, histograms of counts and waiting times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

# trajectories of a raster: more marks lie on top of each other
SHOWN = 40
SHADES = ("blue", "vermillion", "green", "orange", "purple", "black")


def jumps(r: Results) -> Figure | None:
    """Draw the jumps of some trajectories, site against time, and histograms of their number and of waiting times."""
    if "jump_time" not in r or not r["jump_time"].size:
        return None
    fig = figure("double", 2.4)
    raster, counts, waits = fig.subplots(1, 3)
    shown = r["jump_trajectory"] < SHOWN
    for entry in np.unique(r["jump_type"]):
        chosen = shown & (r["jump_type"] == entry)
        color = COLORS.get(SHADES[int(entry) % len(SHADES)], COLORS["black"])
        raster.plot(
            r["jump_time"][chosen], r["jump_site"][chosen], "|", color=color, markersize=5, label=f"{entry}"
        )
    raster.set_xlabel("time (1/J)")
    raster.set_ylabel("site")
    # trajectories without a jump are counted as well
    trajectories = int(str(r.scalars["trajectories"].value))
    number = np.bincount(r["jump_trajectory"].astype(int), minlength=trajectories)
    values, times = np.unique(number, return_counts=True)
    counts.bar(values, times / number.size, color=COLORS["blue"], width=0.8)
    counts.set_xlabel("jumps of a trajectory")
    counts.set_ylabel("share")
    if r["waiting_time"].size:
        waits.hist(r["waiting_time"], bins=30, density=True, color=COLORS["blue"])
    waits.set_yscale("log")
    waits.set_xlabel("waiting time (1/J)")
    waits.set_ylabel("density")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"jumps": jumps}
