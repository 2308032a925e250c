"""Figures of the integrals: rates and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.sturmian.integrals.result import ROUTES
from qsim.sturmian.radial.curves import CYCLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

OURS, PAPER = "this run", "Colavecchia (2014)"


def rates(r: Results) -> Figure | None:
    """Draw integrals per second of each route, beside the rates of the paper's tables."""
    if "integrals/rate" not in r:
        return None
    sizes = np.unique(r["integrals/functions"])
    return _rates_by_size(r) if sizes.size > 2 else _rate_bars(r)


def _rate_bars(r: Results) -> Figure:
    """Draw one bar per route and size, and the rates of the paper beside them."""
    rows: list[tuple[str, float, str]] = []
    papers: dict[str, float] = {}
    for k, route in enumerate(r["integrals/route"]):
        N, Nq = int(r["integrals/functions"][k]), int(r["integrals/points"][k])
        what = f"{ROUTES[str(route)]}\n$N = {N}$, {Nq} points"
        rows.append((what, float(r["integrals/rate"][k]), OURS))
        if str(route) == "simpson":
            # The paper measured the nested quadrature only; its rates are bars of their own.
            for name, where in (("cpu", "i7-960, one core"), ("gpu", "Tesla C2070")):
                rate = float(r[f"integrals/paper_{name}_rate"][k])
                if np.isfinite(rate):
                    papers[f"{where}\n$N = {N}$, {Nq} points"] = rate
    rows += [(what, rate, PAPER) for what, rate in papers.items()]
    fig = figure("single", 0.7 + 0.42 * len(rows))
    ax = fig.subplots()
    colors = {OURS: COLORS["blue"], PAPER: "0.65"}
    places = np.arange(len(rows))[::-1]
    for whose in (OURS, PAPER):
        chosen = [k for k, row in enumerate(rows) if row[2] == whose]
        if chosen:
            ax.barh(places[chosen], [rows[k][1] for k in chosen], 0.62, color=colors[whose], label=whose)
    for place, (_, rate, _) in zip(places, rows, strict=True):
        ax.annotate(
            _power(rate), (rate, place), (3, 0), textcoords="offset points", va="center", fontsize="small"
        )
    ax.set_xscale("log")
    values = [rate for _, rate, _ in rows]
    ax.set_xlim(0.3 * min(values), 12.0 * max(values))
    ax.set_yticks(places, [what for what, _, _ in rows])
    ax.set_xlabel("integrals per second")
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    return fig


def _power(value: float) -> str:
    exponent = int(np.floor(np.log10(value)))
    return rf"${value / 10.0**exponent:.1f}\cdot 10^{{{exponent}}}$"


def _rates_by_size(r: Results) -> Figure:
    """Draw rates against the number of functions, one curve per route and quadrature."""
    fig = figure("double", 2.7)
    ax = fig.subplots()
    route, points, sizes = r["integrals/route"], r["integrals/points"], r["integrals/functions"]
    keys = dict.fromkeys((str(a), int(b)) for a, b in zip(route, points, strict=True))
    for k, (name, count) in enumerate(keys):
        chosen = np.flatnonzero((route == name) & (points == count))
        order = chosen[np.argsort(sizes[chosen])]
        color = CYCLE[k % len(CYCLE)]
        label = f"{ROUTES[name]}, {count} points"
        ax.loglog(sizes[order], r["integrals/rate"][order], marker="o", color=color, label=label)
        # The paper's curves belong to the quadrature of the same number of points.
        if name != "simpson":
            continue
        for which, style, where in (("cpu", ":", "i7-960"), ("gpu", "--", "C2070")):
            values = r[f"integrals/paper_{which}_rate"][order]
            good = np.isfinite(values)
            if good.any():
                ax.loglog(
                    sizes[order][good], values[good], linestyle=style, marker="s", markersize=2.5, linewidth=0.8,
                    color=color, label=f"{PAPER}, {where}, {count} points",
                )  # fmt: skip
    ax.set_xticks([], minor=True)
    ax.set_xticks(np.unique(sizes), [str(n) for n in np.unique(sizes)])
    ax.set_xlabel("functions per electron")
    ax.set_ylabel("integrals per second")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return fig


def rank(r: Results) -> Figure | None:
    """Singular values of the matrix of integrals, with the number of its rows."""
    if "rank/singular_values" not in r:
        return None
    values = r["rank/singular_values"]
    good = values > 1e-18
    fig = figure("single")
    ax = fig.subplots()
    ax.semilogy(np.arange(1, values.size + 1)[good], values[good], marker="o", markersize=1.8, linewidth=0.6)
    N, rows = int(r["rank/functions"][-1]), int(r["rank/pairs"][-1])
    tolerances = sorted(
        (float(name.rpartition("_")[2]), name) for name in r.names if name.startswith("rank/at_")
    )
    for tolerance, name in tolerances:
        count = int(r[name][-1])
        ax.plot([0.0, count, count], [tolerance, tolerance, 1e-17], color="0.5", linestyle=":", linewidth=0.7)
        ax.annotate(f"{count}", (count, tolerance), (3, 1), textcoords="offset points", fontsize="small")
    ax.set_ylim(max(0.3 * float(values[good].min()), 1e-17), 3.0)
    ax.set_xlim(0.0, 1.02 * values.size)
    ax.set_xlabel(f"number, of {rows} pairs of $N = {N}$ functions")
    ax.set_ylabel("singular value / largest")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"rates": rates, "rank": rank}
