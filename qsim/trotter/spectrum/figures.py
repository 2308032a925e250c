"""The figure of levels."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure

# of levels whose total spin is not known
UNKNOWN = "0.6"
# in the name of a sector
LATTICE_MOMENTUM = re.compile(r"momentum 2 pi (\d+)/(\d+) along \w+")

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def _color(spin: float) -> str:
    """Return the colour of a total spin; blue where it is not conserved."""
    if np.isnan(spin):
        return COLORS["blue"]
    order = ["blue", "vermillion", "green", "orange", "purple", "sky"]
    return COLORS[order[int(spin) % len(order)]]


def levels(r: Results) -> Figure | None:
    """Levels of the sectors above the lowest one, by their Sz or momentum, coloured by their total spin where it is known."""
    if "sector_sz" not in r:
        return None
    values, sz = r["levels"], r["sector_sz"]
    name = "$S^z$"
    words = [str(word) for word in r["sector_name"]] if "sector_name" in r else []
    # a tower of levels over the momentum
    if "sector_momentum" in r and (len(set(sz)) == 1 or np.isnan(sz).all()):
        sz, name = r["sector_momentum"] * len(r["site"]) / 2.0, "$k$ of the momentum $2\\pi k/N$"
        words = []
    # spaces without a number
    if words:
        sz, name = np.arange(float(len(words))), ""
        shifts = [LATTICE_MOMENTUM.findall(word) for word in words]
        # momenta of a lattice: their parts along its vectors
        if all(shifts) and len({LATTICE_MOMENTUM.sub("", word) for word in words}) == 1:
            words = [", ".join(str(Fraction(int(k), int(n))) for k, n in parts) for parts in shifts]
            name = r"momentum along the lattice vectors ($2\pi$)"
    fig = figure("single")
    ax = fig.subplots()
    end = r.scalars["energy_0"].value
    spins = r["total_spin"] if "total_spin" in r else np.full(values.shape, np.nan)
    known = np.isfinite(values)
    # a spin that is not known comes last
    for spin in np.unique(spins[known]):
        here = known & (np.isnan(spins) if np.isnan(spin) else spins == spin)
        rows, _ = np.nonzero(here)
        label = "_nolegend_" if np.isnan(spin) else f"$S = {Fraction(float(spin))}$"
        color = UNKNOWN if np.isnan(spin) and "total_spin" in r else _color(float(spin))
        ends = sz[rows] - 0.3, sz[rows] + 0.3
        ax.hlines(values[here] - end, *ends, color=color, linewidth=1.2, label=label)
    if np.isfinite(spins).any():
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.set_xticks(sz, labels=[word.replace(" number", "\nnumber") for word in words] or None)
    ax.set_xlabel(name)
    ax.set_ylabel(r"$E - E_0$ ($J$)")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"levels": levels}
