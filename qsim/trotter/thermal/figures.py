"""The figure of thermal averages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import figure
from qsim.trotter.drawing import curve

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def thermal(r: Results) -> Figure | None:
    """Draw specific heat, susceptibility, energy and entropy against temperature with the bands of their errors."""
    if "temperature" not in r:
        return None
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    T = r["temperature"]
    fig = figure("double", 4.4)
    axes = np.ravel(fig.subplots(2, 2, sharex=True))
    labels = {
        "specific_heat": "specific heat",
        "susceptibility": r"$\chi$ ($1/J$)",
        "energy_T": "energy ($J$)",
        "entropy_T": "entropy",
    }
    for ax, (name, label) in zip(axes, labels.items(), strict=True):
        if name in r:
            curve(ax, r, name, T)
        # without a total Sz the response along each axis, where it is known
        for axis in "xyz" if name not in r else "":
            if f"{name}_{axis}" in r:
                ax.plot(T, r[f"{name}_{axis}"], label=f"${axis}$")
                ax.legend()
        ax.set_xscale("log")
        # powers of ten would crowd
        if float(T.max() / T.min()) < 10.0:
            ax.xaxis.set_major_locator(FixedLocator(T[:: -(-T.size // 5)].tolist()))
            ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.2g}"))
            ax.xaxis.set_minor_locator(NullLocator())
        ax.set_ylabel(f"{label} per site")
    # what spins 1/2 come to; larger ones have more states
    if float(np.max(r["entropy_T"])) <= np.log(2.0) * (1.0 + 1e-9):
        axes[3].axhline(np.log(2.0), color="0.6", linestyle=":", linewidth=0.7, label=r"$\ln 2$")
        axes[3].legend()
    for ax in axes[2:]:
        ax.set_xlabel("temperature ($J$)")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"thermal": thermal}
