"""Figures of ``task: scaling``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

SERIES = ("blue", "vermillion", "green", "orange", "purple", "sky")
MARKERS = "osD^vP"


def time_vs_blocks(r: Results) -> Figure | None:
    """Time against the number of blocks with the fitted model, Fig. 2 of the paper; other solvers as lines."""
    if "time_vs_blocks" not in r:
        return None
    fig = figure("double", 3.2)
    ax = fig.subplots()
    blocks, seconds, model = r["blocks"], r["time_vs_blocks"], r["model"]
    # the model is drawn only where it describes the machine: on a CPU of few threads it does not
    fits = _fits(seconds[0], model[0])
    for k, nested in enumerate(r["iterations"]):
        color = COLORS[SERIES[k % len(SERIES)]]
        name = "one partition" if nested == 1 else f"{nested} nested partitions"
        ax.loglog(
            blocks,
            1e3 * seconds[k],
            marker=MARKERS[k % len(MARKERS)],
            markersize=3,
            linestyle="none",
            color=color,
            label=name,
        )
        if not fits:
            continue
        ax.loglog(blocks, 1e3 * model[k], color=color, linewidth=0.8)
        best = float(r["optimum_model"][k])
        if np.isfinite(best) and blocks[0] <= best <= blocks[-1]:
            # the optimum need not be one of the numbers of blocks: interpolated on logarithmic axes
            at = float(np.interp(np.log(best), np.log(blocks), np.log(1e3 * model[k])))
            # a bar on the line of the model, where Eq. 8 has its minimum
            ax.plot([best], [np.exp(at)], marker="|", markersize=14, color=color, markeredgewidth=1.2)
    _draw_others(ax, r)
    ax.set_xlabel(r"number of blocks $n_{bl}$")
    ax.set_ylabel("time of a solution (ms)")
    note = "lines: model of Eqs. (7)-(9), bars: its optimum"
    if not fits:
        note = "the model of Eqs. (7)-(9) needs as many processors as blocks"
    ax.set_title(rf"$n = {int(r['n'][0])}$; {note}")
    # beside the axes: the curves fill them
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def _fits(seconds: NDArray[np.float64], model: NDArray[np.float64]) -> bool:
    """Return whether the model describes one partition: within a factor of 2 for most numbers of blocks."""
    # times that could not be taken are NaN
    good = np.isfinite(seconds) & np.isfinite(model)
    return bool(good.any() and np.median(np.abs(np.log2(seconds[good] / model[good]))) < 1.0)


def _draw_others(ax: Axes, r: Results) -> None:
    styles = ("--", ":", "-.", (0, (5, 1)))
    names = [name for name in r.names if name.startswith("compare/")]
    for k, name in enumerate(names):
        label = {"auto": "fast kernels", "lapack": "LAPACK gtsv", "thomas": "Thomas"}.get(
            name.removeprefix("compare/"), name.removeprefix("compare/").capitalize()
        )
        value = float(r[name][0])
        # other solvers are timed once for all numbers of blocks: a level across the axis
        if np.isfinite(value):
            ax.axhline(
                1e3 * value, color="0.45", linestyle=styles[k % len(styles)], linewidth=0.9, label=label
            )


def optimum_vs_n(r: Results) -> Figure | None:
    """Best number of blocks and best time against the size of the system."""
    if "optimum_vs_n" not in r or r["n"].size < 2:
        return None
    fig = figure("double", 2.8)
    a, b = fig.subplots(1, 2)
    n = r["n"]
    # sizes come in the order of the deck
    order = np.argsort(n)
    fits = _fits(r["time_vs_blocks"][0], r["model"][0])
    for k, nested in enumerate(r["iterations"]):
        color, marker = COLORS[SERIES[k % len(SERIES)]], MARKERS[k % len(MARKERS)]
        options = {"color": color, "marker": marker, "markersize": 3}
        label = "1 partition" if nested == 1 else f"{nested} partitions"
        a.loglog(n[order], r["optimum_vs_n"][order, k], linestyle="none", label=label, **options)
        if fits:
            a.loglog(n[order], r["optimum_model_vs_n"][order, k], color=color, linewidth=0.8)
        b.loglog(n[order], 1e3 * r["time_vs_n"][order, k], label=label, **options)
    a.set_xlabel("rows n")
    a.set_ylabel("best number of blocks")
    a.set_title("measured (marks) and model (lines)" if fits else "fastest number of blocks")
    a.legend()
    b.set_xlabel("rows n")
    b.set_ylabel("time of a solution (ms)")
    b.set_title("at the best number of blocks")
    for ax in (a, b):
        # the axis shows the sizes that were timed, and no powers of ten between them
        ax.minorticks_off()
        ax.set_xticks(n[order], [f"{v:.3g}" for v in n[order]])
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "time_vs_blocks": time_vs_blocks,
    "optimum_vs_n": optimum_vs_n,
}
