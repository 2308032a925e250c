"""Figures of a response: lines between levels, and polarisabilities against frequency."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.sturmian.radial.curves import CYCLE
from qsim.sturmian.two_electron.known import in_math

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

# Curves of one figure.
SHOWN = 5
# Range of the logarithmic axis of a polarisability around its static value: beyond that it is the pole that is drawn.
RANGE = 300.0
# Start of the axis of frequencies relative to the first pole.
BEFORE = 0.2
# Smallest distance of two levels in the diagram, relative to its height: closer ones are drawn apart.
APART = 0.075
# Half of the length of a level in a column of width 1.
HALF = 0.36


def transitions(r: Results) -> Figure | None:
    """Draw the levels by symmetry, and the lines between them with their oscillator strengths."""
    if "level_energy" not in r or "f" not in r or len(r["level_energy"]) < 2:
        return None
    energy, f = r["level_energy"], r["f"][:, :, 0]
    columns = sorted({(int(S), int(L)) for S, L in zip(r["S"], r["L"], strict=True)})
    x = np.array([columns.index((int(S), int(L))) for S, L in zip(r["S"], r["L"], strict=True)], float)
    y = _heights(energy, x)
    fig = figure("single", 2.8)
    ax = fig.subplots()
    for k, name in enumerate(r["level"]):
        color = COLORS["vermillion" if r["S"][k] else "blue"]
        ax.plot([x[k] - HALF, x[k] + HALF], [y[k], y[k]], color=color, linewidth=1.6)
        text = f"{in_math(str(name))}  ${energy[k]:.4f}$"
        ax.annotate(text, (x[k], y[k]), (0, 2), textcoords="offset points", ha="center", fontsize=5.5)
    _lines(ax, x, y, f)
    ax.set_xlim(-0.6, len(columns) - 0.4)
    ax.set_ylim(-0.1, 1.16)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_ylabel("energy (hartree, not to scale)")
    ax.grid(visible=False)
    return fig


def _heights(energy: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return heights between 0 and 1 in the order of the energies, steps compressed, so that lines of a column stay apart."""
    order = np.argsort(energy)
    steps = np.diff(energy[order])
    # the fifth root keeps the order of sizes, and shows 1e-2 beside 1
    compressed = np.concatenate(([0.0], np.cumsum(np.maximum(steps, 0.0) ** 0.2)))
    height = np.zeros(energy.size)
    height[order] = compressed / max(float(compressed[-1]), 1e-12)
    for column in np.unique(x):
        own = [int(k) for k in order if x[k] == column]
        for below, above in pairwise(own):
            height[above] = max(height[above], height[below] + APART)
    return height


def _lines(ax: Axes, x: NDArray[np.float64], y: NDArray[np.float64], f: NDArray[np.float64]) -> None:
    """Draw a line for each transition, thicker where it is stronger, with its oscillator strength."""
    for i, k in zip(*np.nonzero(np.nan_to_num(f) > 0.0), strict=True):
        right = 1.0 if x[k] > x[i] else -1.0
        start, end = (x[i] + HALF * right, y[i]), (x[k] - HALF * right, y[k])
        width = 0.5 + 1.5 * float(np.sqrt(min(f[i, k], 1.0)))
        ax.plot([start[0], end[0]], [start[1], end[1]], color="0.55", linewidth=width, zorder=0)
        middle = (0.5 * (start[0] + end[0]), 0.5 * (start[1] + end[1]))
        ax.annotate(
            f"{f[i, k]:.4f}", middle, fontsize=6, ha="center", va="center",
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
        )  # fmt: skip


def polarisability(r: Results) -> Figure | None:
    """Draw the dipole polarisability of each state against frequency, its poles marked; the deck's frequencies as points."""
    count = sum(f"curves/{k}/frequency" in r for k in range(len(r["state"]) if "state" in r else 0))
    if not count or "alpha" not in r:
        return None
    fig = figure("single")
    ax = fig.subplots()
    scale, first = 0.0, np.inf
    for k in range(min(count, SHOWN)):
        omega, alpha = r[f"curves/{k}/frequency"], r[f"curves/{k}/alpha"]
        poles, color = r[f"curves/{k}/poles"], CYCLE[k % len(CYCLE)]
        broken = np.where(_crosses(omega, poles), np.nan, alpha)
        ax.plot(omega, broken, color=color, label=in_math(str(r["state"][k])))
        for pole in poles:
            ax.axvline(float(pole), color=color, linewidth=0.4, linestyle=":", zorder=0)
        scale = max(scale, abs(float(alpha[0])))
        first = min(first, float(omega[-1]), *poles)
        if 1 in r["multipole"]:
            m, shown = list(r["multipole"]).index(1), r["omega"] > 0.0
            ax.plot(r["omega"][shown], r["alpha"][k, m, shown, 0], ".", color=color, markersize=5)
    # a linear range of the smallest static value, logarithmic beyond
    static = [abs(float(r[f"curves/{k}/alpha"][0])) for k in range(min(count, SHOWN))]
    ax.set_yscale("symlog", linthresh=max(min(static), 1e-3))
    ax.set_ylim(-RANGE * scale, RANGE * scale)
    # poles crowd towards the ionisation energy of each state
    ax.set_xscale("log")
    ax.set_xlim(BEFORE * first, max(float(r[f"curves/{k}/frequency"][-1]) for k in range(min(count, SHOWN))))
    ax.set_xlabel(r"$\omega$ (hartree)")
    ax.set_ylabel(r"$\alpha_1(\omega)$ (bohr$^3$)")
    # above the axes, which poles fill
    ax.legend(fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return fig


def _crosses(omega: NDArray[np.float64], poles: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points lie next to a pole, where the curve is broken."""
    step = float(omega[1] - omega[0])
    near = np.zeros(omega.size, bool)
    for pole in poles:
        near |= np.abs(omega - pole) < 0.5 * step
    return near


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "transitions": transitions,
    "polarisability": polarisability,
}
