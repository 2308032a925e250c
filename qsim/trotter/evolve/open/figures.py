"""Figures of quantum trajectories: a raster of their jumps, histograms of counts, also in windows, and waiting times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["FIGURES"]

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


def counting(r: Results) -> Figure | None:
    """Draw the shares of windows with 0, 1, 2, ... jumps beside those of Poisson's distribution of the same mean."""
    if "window_counts" not in r:
        return None
    fig = figure("single")
    ax = fig.subplots()
    shares = r["window_counts"]
    number = np.arange(shares.size)
    mean = float(number @ shares)
    ax.bar(number, shares, color=COLORS["blue"], width=0.8, label="counted")
    logs = number * np.log(max(mean, 1e-300)) - np.cumsum(np.log(np.maximum(number, 1)))
    ax.plot(number, np.exp(logs - mean), "o-", color=COLORS["black"], markersize=3, label="Poisson")
    ax.set_xlabel("jumps of a window")
    ax.set_ylabel("share")
    ax.legend()
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"jumps": jumps, "counting": counting}
