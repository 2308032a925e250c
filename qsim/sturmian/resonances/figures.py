"""Figures of resonances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.results.plotting import figure
from qsim.sturmian.radial.curves import CYCLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def resonances(r: Results) -> Figure | None:
    """Draw positions and widths of resonances with their errors."""
    if "resonance_energy" not in r:
        return None
    fig = figure("single")
    ax = fig.subplots()
    energy, width, error = r["resonance_energy"], r["resonance_width"], r["resonance_error"]
    for k in range(energy.size):
        color = CYCLE[k % len(CYCLE)]
        label = f"$E = {energy[k]:.6f}$, $\\Gamma = {width[k]:.3g}$"
        ax.errorbar(
            energy[k], width[k], yerr=2.0 * error[k], xerr=error[k], marker="o", markersize=3, capsize=2,
            color=color, label=label, linestyle="none",
        )  # fmt: skip
    ax.set_ylim(0.0, 1.4 * float((width + 2.0 * error).max()))
    ax.margins(x=0.3)
    ax.ticklabel_format(axis="x", useOffset=False)
    ax.locator_params(axis="x", nbins=4)
    ax.set_xlabel("position (hartree)")
    ax.set_ylabel(r"width $\Gamma$ (hartree)")
    ax.legend(fontsize="small")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"resonances": resonances}
