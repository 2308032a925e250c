"""Figures of the basis and of the integrals: functions, eigenvalues, rates, ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

CYCLE = [color for name, color in COLORS.items() if name != "black"]
RADIUS = "$r$ (bohr)"
POINTS = 900  # of a smooth curve
SHOWN = 5  # functions of an l
TALL = 0.75  # height of the generating potential, of the largest function, at a tenth of the radius
ROUTES = {"poisson_gemm": "matrix products", "simpson": "nested quadrature"}
OURS, PAPER = "this run", "Colavecchia (2014)"


def momenta_of(r: Results) -> list[int]:
    """Return the orbital momenta whose functions the file holds."""
    found = (name.split("/") for name in r.names)
    return sorted(int(part[1][1:]) for part in found if part[0] == "basis" and part[2:] == ["beta"])


def _contour(r: Any) -> tuple[Any, Any, str]:
    """Return the arc length along the radius, which nodes are real, and the label of the axis."""
    if not np.iscomplexobj(r):
        return r, np.ones(r.size, bool), RADIUS
    real = np.abs(r.imag) < 1e-12 * np.abs(r)
    R = float(r[real].real.max())
    return np.where(real, r.real, R + np.abs(r - R)), real, "length of the contour (bohr)"


def smooth(s: Any, real: Any, values: Any) -> tuple[Any, Any]:
    """Return a curve through the nodes, from zero at the nucleus; on either side of the corner of a contour by itself."""
    from scipy.interpolate import CubicSpline

    pieces = []
    for part in (real, ~real | (s == s[real].max())):
        if part.sum() < 2:
            continue
        x, y = s[part], values[part]
        if part is real:
            x, y = np.concatenate([[0.0], x]), np.concatenate([[0.0], y])
        fine = x[0] + (x[-1] - x[0]) * np.linspace(0.0, 1.0, POINTS) ** 2  # waves are shortest at the nucleus
        pieces.append((fine, CubicSpline(x, y)(fine)))
    return tuple(np.concatenate(both) for both in zip(*pieces, strict=True))  # type: ignore[return-value]


def basis(r: Results) -> Figure | None:
    """Draw the first Sturmian functions of up to three l with the generating potential; imaginary parts dashed."""
    momenta = [l for l in momenta_of(r) if f"basis/l{l}/S" in r][:3]
    if not momenta:
        return None
    s, real, label = _contour(r["r"])
    fig = figure("double", 0.6 + 1.45 * len(momenta))
    axes = np.atleast_1d(fig.subplots(len(momenta), 1, sharex=True))
    end = _extent(r, s, momenta)
    for ax, l in zip(axes, momenta, strict=True):
        functions = r[f"basis/l{l}/S"]
        shown = min(SHOWN, len(functions))
        largest = float(np.abs(functions[:shown]).max())
        if "generating" in r:
            v = np.abs(r["generating"])
            level = float(np.interp(0.1 * end, s, v)) or float(v.max())
            ax.fill_between(
                s, 0.0, TALL * largest * v / level, color="0.9", linewidth=0, label="$v(r)$, scaled"
            )
        for n in range(shown):
            color = CYCLE[n % len(CYCLE)]
            ax.plot(*smooth(s, real, functions[n].real), color=color, linewidth=0.9, label=f"$n = {n}$")
            if np.iscomplexobj(functions):
                curve = smooth(s, real, functions[n].imag)
                ax.plot(*curve, color=color, linewidth=0.7, linestyle=(0, (3, 1.5)))
        if not real.all():
            _shade(ax, s, real, note=l == momenta[0])
        ax.axhline(0.0, color="0.5", linewidth=0.4)
        ax.set_xlim(0.0, end)
        ax.set_ylim(-1.15 * largest, 1.15 * largest)
        ax.set_ylabel(rf"$S_{{n{l}}}(r)$")
        ax.text(1.02, 0.06, f"$l = {l}$", transform=ax.transAxes, va="bottom", fontsize=8)
    axes[0].legend(ncols=1, loc="upper left", bbox_to_anchor=(1.005, 1.05))
    axes[-1].set_xlabel(label)
    return fig


def _extent(r: Results, s: Any, momenta: list[int]) -> float:
    """Return the radius beyond which nothing is left to be seen of the functions that are shown."""
    last = 0.0
    for l in momenta:
        functions = np.abs(r[f"basis/l{l}/S"][:SHOWN])
        visible = np.flatnonzero((functions > 0.01 * functions.max()).any(axis=0))
        last = max(last, float(s[visible[-1]]))
    return min(1.05 * last, float(s[-1]))


def _shade(ax: Axes, s: Any, real: Any, note: bool) -> None:
    """Mark the part of the axis where the radius is complex."""
    start = float(s[real].max())
    ax.axvspan(start, float(s[-1]), color=COLORS["orange"], alpha=0.12, linewidth=0)
    if note:
        ax.annotate(
            "complex $r$", (start, 1.0), (3, -2), xycoords=("data", "axes fraction"), va="top",
            textcoords="offset points", fontsize=6.5, color="0.35",
        )  # fmt: skip


def beta(r: Results) -> Figure | None:
    """Eigenvalues beta: in the complex plane for outgoing functions, else against their number."""
    momenta = momenta_of(r)
    if not momenta:
        return None
    fig = figure("single", 2.7)
    ax = fig.subplots()
    shown = momenta if len(momenta) <= 6 else momenta[:: -(-len(momenta) // 6)]
    is_complex = any(np.iscomplexobj(r[f"basis/l{l}/beta"]) for l in shown)
    for k, l in enumerate(shown):
        values = r[f"basis/l{l}/beta"]
        style: dict[str, Any] = {"marker": "osD^vP"[k % 6], "markersize": 2.6, "color": CYCLE[k % len(CYCLE)]}
        style |= {"label": f"$l = {l}$", "markeredgewidth": 0}
        if is_complex:
            style |= {"markersize": 2.5 + 1.2 * k, "markerfacecolor": "none", "markeredgewidth": 0.6}
            ax.plot(values.real, values.imag, linestyle="none", **style)
        else:
            ax.plot(np.arange(1, values.size + 1), values, linewidth=0.6, **style)
    if is_complex:
        ax.axhline(0.0, color="0.5", linewidth=0.4)
        ax.axvline(0.0, color="0.5", linewidth=0.4)
        ax.set_xlabel(r"Re $\beta$ (hartree)")
        ax.set_ylabel(r"Im $\beta$ (hartree)")
    else:
        lowest = min(float(r[f"basis/l{l}/beta"].min()) for l in shown)
        if lowest > 0.0:
            ax.set_yscale("log")
            ax.set_xscale("log")
        else:
            ax.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(max(abs(lowest), 1e-3))))
        ax.set_xlabel("number of the function")
        ax.set_ylabel(r"$\beta$ (hartree)")
    ax.legend()
    return fig


# --------------------------------------------------------------------------------------- integrals


def rates(r: Results) -> Figure | None:
    """Integrals a second of each route, beside those of the paper's tables."""
    if "integrals/rate" not in r:
        return None
    sizes = np.unique(r["integrals/functions"])
    return _rates_by_size(r) if sizes.size > 2 else _rate_bars(r)


def _rate_bars(r: Results) -> Figure:
    rows: list[tuple[str, float, str]] = []
    papers: dict[str, float] = {}
    for k, route in enumerate(r["integrals/route"]):
        N, Nq = int(r["integrals/functions"][k]), int(r["integrals/points"][k])
        what = f"{ROUTES[str(route)]}\n$N = {N}$, {Nq} points"
        rows.append((what, float(r["integrals/rate"][k]), OURS))
        if str(route) == "simpson":
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
            _power(rate), (rate, place), (3, 0), textcoords="offset points", va="center", fontsize=6.5
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
        ax.annotate(f"{count}", (count, tolerance), (3, 1), textcoords="offset points", fontsize=6.5)
    ax.set_ylim(max(0.3 * float(values[good].min()), 1e-17), 3.0)
    ax.set_xlim(0.0, 1.02 * values.size)
    ax.set_xlabel(f"number, of {rows} pairs of $N = {N}$ functions")
    ax.set_ylabel("singular value / largest")
    return fig
