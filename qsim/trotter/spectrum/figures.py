"""Figures of levels and of what was observed in the lowest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.trotter.drawing import FLOOR

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
    if "sector_momentum" in r and len(set(sz)) == 1:  # a tower of levels over the momentum
        sz, name = r["sector_momentum"] * len(r["site"]) / 2.0, "$k$ of the momentum $2\\pi k/N$"
    fig = figure("single")
    ax = fig.subplots()
    end = r.scalars["energy_0"].value
    for place, row in zip(sz, values, strict=True):
        found = row[np.isfinite(row)] - end
        ax.hlines(found, place - 0.3, place + 0.3, color=COLORS["blue"], linewidth=1.2)
    ax.set_xticks(sz)
    ax.set_xlabel(name)
    ax.set_ylabel(r"$E - E_0$ ($J$)")
    return fig


def structure_factor(r: Results) -> Figure | None:
    """Draw the static structure factor of the lowest state, q from 0 to 2 pi."""
    names = [name for name in ("structure_factor_zz", "structure_factor_xx") if name in r]
    if not names:
        return None
    fig = figure("single")
    ax = fig.subplots()
    for name in names:
        ax.plot(r["wave_number"], r[name], marker="o", markersize=3, label=name[-2:])
    ax.set_xlabel(r"$q/\pi$")
    ax.set_ylabel(r"$S(q)$")
    ax.legend()
    return fig


def cuts(r: Results) -> Figure | None:
    """Entropies of the lowest state against the size of the part, and the entanglement spectrum of the middle cut by its Sz."""
    if "sector_sz" not in r or "entropy" not in r or r["entropy"].size < 2:
        return None
    sizes = r["entropy_sites"].sum(axis=1)
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    for name, label in (("entropy", "von Neumann"), ("number_entropy", "number"), ("renyi2", "Renyi 2")):
        a.plot(sizes, r[name], marker="o", markersize=2.5, label=label)
    a.set_xlabel("sites of the part")
    a.set_ylabel("entropy (nat)")
    a.set_ylim(bottom=0.0)
    a.legend()
    if "schmidt" not in r:
        b.remove()
        return fig
    middle = int(np.argmin(np.abs(sizes - 0.5 * r["site"].size)))
    values, sz = r["schmidt"][middle], r["schmidt_sz"][middle]
    shown = values > FLOOR
    b.plot(
        sz[shown], -np.log(values[shown]), linestyle="none", marker="_", markersize=9, color=COLORS["blue"]
    )
    b.margins(x=0.2)
    b.locator_params(axis="x", integer=True)
    b.set_xlabel(r"$S^z$ of the part")
    b.set_ylabel(r"$-\ln p$ of the middle cut")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "levels": levels,
    "structure_factor": structure_factor,
    "cuts": cuts,
}
