"""Figures of bound states: energies, convergence, densities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, bar_beside, figure, in_column
from qsim.sturmian.radial.curves import CYCLE, RADIUS, smooth
from qsim.sturmian.two_electron.known import LETTERS, in_math

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.device.arrays import FloatArray
    from qsim.core.results.results import Results

# Hartree below which an error is rounding.
FLOOR = 1e-14
KEYS = {
    "N": "functions per $l$",
    "l_max": r"$l_\mathrm{max}$",
    "R": "$R$ (bohr)",
    "alpha": r"$\alpha$ (1/bohr)",
    "energy": "energy of the functions (hartree)",
    "order": "points per element",
}


def _names(r: Results) -> list[str]:
    """Return the names of the states for labels, such as $2^3P$."""
    return [in_math(str(name)) for name in r["state"]]


def _symmetry(S: int, L: int) -> str:
    """Return the name of a symmetry, such as ``^3P`` in the mathematical font."""
    letter = (*LETTERS, *map(str, range(len(LETTERS), L + 1)))[L]
    return rf"$^{{{2 * S + 1}}}\mathrm{{{letter}}}$"


def _whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def _log_axis(ax: Axes) -> None:
    """Put ticks of a logarithmic axis at decades, as few as can be read."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = ax.get_ylim()
    # a single decade would carry one label
    if high < 15.0 * low:
        ax.set_ylim(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))
    ax.yaxis.set_major_locator(LogLocator(numticks=8))
    ax.yaxis.set_minor_formatter(NullFormatter())


# ------------------------------------------------------------------------------------- convergence


def _scanned(r: Results) -> list[str]:
    names = (name.split("/") for name in r.names)
    return [part[1] for part in names if part[0] == "convergence" and part[2:] == ["value"]]


def convergence(r: Results) -> Figure | None:
    """Energies against each scanned key: how far they lie above the lowest of the scan, or above the known value."""
    keys = [key for key in _scanned(r) if r.shape(f"convergence/{key}/value")[0] > 1]
    if not keys:
        return None
    columns = min(len(keys), 3)
    rows = -(-len(keys) // columns)
    fig = figure("single" if columns == 1 else "double", 0.5 + 2.1 * rows)
    axes = np.ravel(np.atleast_1d(fig.subplots(rows, columns)))
    names = _names(r)
    for ax, key in zip(axes, keys, strict=False):
        values, energies = r[f"convergence/{key}/value"], r[f"convergence/{key}/energies"]
        order = np.argsort(values)
        x, energies = values[order], energies[order]
        # Each key has its own limit: partial waves the exact one, functions the finer grid, all
        # others their last value.
        reference, text = _references(r, key, energies)
        for k, name in enumerate(names):
            above = np.abs(energies[:, k] - reference[k])
            good = np.isfinite(above) & (above > FLOOR)
            ax.semilogy(
                x[good], above[good], marker="o", markersize=3, color=CYCLE[k % len(CYCLE)], label=name
            )
        ax.set_xlabel(KEYS.get(key, key))
        ax.set_ylabel(text)
        _log_axis(ax)
        if key in ("N", "l_max", "order"):
            _whole_numbers(ax)
    for ax in axes[len(keys) :]:
        ax.remove()
    if len(names) > 1:
        axes[0].legend()
    elif len(keys) > 1:
        axes[0].set_title(names[0], loc="left")
    return fig


def _references(r: Results, key: str, energies: FloatArray) -> tuple[Any, str]:
    """Return the energies that errors of a scan are counted from, and what the axis says."""
    numbers = range(energies.shape[1])
    if key == "l_max":
        for name, text in (("energy_exact", "exact"), ("energy_extrapolated", r"\infty")):
            if all(f"{name}_{k}" in r.scalars for k in numbers):
                values = [_value(r, f"{name}_{k}") for k in numbers]
                return values, rf"$E - E_\mathrm{{{text}}}$ (hartree)"
    # the radial basis of the deck has an error of its own, of which there is an estimate
    if key in ("N", "alpha", "energy") and all(f"error_radial_{k}" in r.scalars for k in numbers):
        own = [_value(r, f"energy_{k}") - _value(r, f"error_radial_{k}") for k in numbers]
        return np.minimum(np.nanmin(energies, axis=0), own), r"$E - E_\mathrm{grid}$ (hartree)"
    return energies[-1], r"$|E - E_\mathrm{last}|$ (hartree)"


def _value(r: Results, name: str) -> float:
    """Return a headline number that is one."""
    value = r.scalars[name].value
    return float(value) if isinstance(value, int | float) else float("nan")


def partial_waves(r: Results) -> Figure | None:
    """Energy against l_max with its extrapolation and the known value, and the distance to them."""
    if "partial_waves/l_max" not in r:
        return None
    l_max, energies = r["partial_waves/l_max"], r["partial_waves/energies"]
    # more points of the same curve
    if "convergence/l_max/value" in r:
        more, values = r["convergence/l_max/value"].astype(int), r["convergence/l_max/energies"]
        new = ~np.isin(more, l_max)
        l_max, energies = np.concatenate([l_max, more[new]]), np.concatenate([energies, values[new]])
    order = np.argsort(l_max)
    l_max, energies = l_max[order], energies[order]
    if l_max.size < 2:
        return None
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    _energy_panel(a, r, l_max, energies)
    _distance_panel(b, r, l_max, energies)
    return fig


def _energy_panel(ax: Axes, r: Results, l_max: FloatArray, energies: FloatArray) -> None:
    """Draw energies with their limits and known values; several states relative to their energies at the largest l_max."""
    names = _names(r)
    single = len(names) == 1
    seen = []
    # Energies of several states lie too far apart for one axis: each is drawn relative to its
    # value at the largest l_max.
    for k, name in enumerate(names):
        color = CYCLE[k % len(CYCLE)]
        shift = 0.0 if single else float(energies[-1, k])
        ax.plot(l_max, energies[:, k] - shift, marker="o", color=color, label=name)
        seen += (energies[:, k] - shift).tolist()
        if (limit := _limit(r, k)) is not None:
            value, error = limit[0] - shift, limit[1]
            label = "extrapolated" if single else None
            ax.axhline(value, color=color, linestyle="--", linewidth=0.8, label=label)
            if error < float(np.ptp(energies[:, k])):
                ax.axhspan(value - error, value + error, color=color, alpha=0.15, linewidth=0)
            seen.append(value)
        if (exact := _exact(r, k)) is not None:
            style: dict[str, Any] = {"color": "0.2" if single else color, "linestyle": ":", "linewidth": 0.9}
            ax.axhline(exact - shift, label="exact" if single else None, **style)
            seen.append(exact - shift)
    # the error of a limit must not fill the axis
    margin = 0.07 * (max(seen) - min(seen)) or 1e-6
    ax.set_ylim(min(seen) - margin, max(seen) + margin)
    ax.set_xlabel(r"$l_\mathrm{max}$")
    ax.set_ylabel("energy (hartree)" if single else rf"$E - E(l_\mathrm{{max}} = {l_max[-1]})$ (hartree)")
    ax.ticklabel_format(axis="y", useOffset=False)
    _whole_numbers(ax)
    ax.legend()


def _distance_panel(ax: Axes, r: Results, l_max: FloatArray, energies: FloatArray) -> None:
    """Draw how far energies lie above the known values, or above the limits where none is known."""
    names = _names(r)
    any_exact = any(name.startswith("energy_exact") for name in r.scalars)
    for k, name in enumerate(names):
        color = CYCLE[k % len(CYCLE)]
        limit, exact = _limit(r, k), _exact(r, k)
        reference = None if limit is None else limit[0]
        # One reference for all states of the panel: known values where there are any, and
        # states without one are left out.
        if any_exact:
            reference = exact
        if reference is None:
            continue
        above = energies[:, k] - reference
        good = above > 0.0
        ax.loglog(l_max[good] + 0.5, above[good], marker="o", color=color, label=name)
        if exact is not None and limit is not None and limit[0] != exact:
            label = "extrapolated" if len(names) == 1 else None
            ax.axhline(abs(limit[0] - exact), color=color, linestyle="--", linewidth=0.8, label=label)
    if not ax.lines:
        ax.remove()
        return
    _half_integers(ax, l_max)
    _log_axis(ax)
    ax.set_ylabel(r"$E - E_\mathrm{exact}$ (hartree)" if any_exact else r"$E - E_\infty$ (hartree)")
    ax.set_xlabel(r"$l_\mathrm{max} + \frac{1}{2}$")
    ax.legend()


def _exact(r: Results, k: int) -> float | None:
    return _value(r, f"energy_exact_{k}") if f"energy_exact_{k}" in r.scalars else None


def _limit(r: Results, k: int) -> tuple[float, float] | None:
    name = f"energy_extrapolated_{k}"
    return (_value(r, name), r.scalars[name].error or 0.0) if name in r.scalars else None


def _half_integers(ax: Axes, l_max: FloatArray) -> None:
    ax.set_xticks([], minor=True)
    marks: list[float] = []
    span = float(np.log((l_max[-1] + 0.5) / (l_max[0] + 0.5)))
    # labels that would touch are left out
    for value in l_max + 0.5:
        if not marks or np.log(value / marks[-1]) > 0.08 * span:
            marks.append(float(value))
    ax.set_xticks(marks, [f"{value:g}" for value in marks])


def iterations(r: Results) -> Figure | None:
    """Residuals of the eigensolver."""
    names = sorted(name for name in r.names if name.startswith("residual_history/"))
    names = [name for name in names if r.shape(name)[0] > 1]
    if not names:
        return None
    fig = figure("single")
    ax = fig.subplots()
    symmetries = list(dict.fromkeys(zip(r["S"].tolist(), r["L"].tolist(), strict=True)))
    for k, name in enumerate(names):
        history = r[name]
        label = _symmetry(*symmetries[k]) if len(symmetries) == len(names) else None
        for root in range(history.shape[1]):
            style: dict[str, Any] = {"color": CYCLE[k % len(CYCLE)], "alpha": 1.0 - 0.12 * min(root, 5)}
            steps = np.arange(1, len(history) + 1)
            ax.semilogy(
                steps, history[:, root], marker="o", markersize=2, label=None if root else label, **style
            )
    _whole_numbers(ax)
    if len(names) > 1:
        ax.legend()
    ax.set_xlabel("iteration")
    ax.set_ylabel("residual (hartree)")
    _log_axis(ax)
    return fig


# ------------------------------------------------------------------------------------------ states


def density(r: Results) -> Figure | None:
    """Radial density of one electron in each state, linear and logarithmic."""
    if "density" not in r:
        return None
    radius, values = r["r"], r["density"]
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    for k, name in enumerate(_names(r)):
        color = CYCLE[k % len(CYCLE)]
        a.plot(*smooth(radius, np.ones(radius.size, bool), values[k]), color=color, label=name)
        b.semilogy(radius, np.maximum(values[k], 1e-18), color=color)
    a.set_xlim(0.0, _reach(radius, values, 1e-3))
    b.set_xlim(0.0, float(radius[-1]))
    b.set_ylim(max(1e-16, 0.3 * float(values[:, :-1].min())), 3.0 * float(values.max()))
    a.set_ylim(bottom=0.0)
    _log_axis(b)
    for ax in (a, b):
        ax.set_xlabel(RADIUS)
    a.set_ylabel("radial density (1/bohr)")
    a.legend()
    return fig


def _reach(radius: FloatArray, values: FloatArray, share: float) -> float:
    """Return the radius beyond which the densities have fallen below a share of their largest value."""
    visible = np.flatnonzero((values > share * values.max()).any(axis=0))
    return float(min(1.1 * radius[visible[-1]], radius[-1]))


def pair_density(r: Results) -> Figure | None:
    """Probability of finding the electrons at r1 and r2, up to six states."""
    from matplotlib.colors import LogNorm

    if "pair_density" not in r:
        return None
    radius, values, names = r["r1"], r["pair_density"], _names(r)
    count = min(len(names), 6)
    column = in_column()
    columns = min(count, 3 if not column and (count > 4 or count == 3) else 2)
    rows = -(-count // columns)
    height = (2.9 if columns == 1 else 5.6 / columns + 0.35) * rows
    # two maps in one column are half as wide, and the bar lies below them
    if column and columns == 2:
        height = 1.7 * rows + 0.7
    fig = figure("single" if columns == 1 else "double", height)
    axes = np.ravel(np.atleast_1d(fig.subplots(rows, columns, squeeze=False)))
    image = None
    # All panels share one colour scale and one extent, set by the widest state.
    end = _reach(radius, r["density"][:count], 1e-5)
    kept = radius <= end
    top = max(float(values[k].max()) for k in range(count))
    for k in range(count):
        image = axes[k].pcolormesh(
            radius[kept], radius[kept], np.maximum(values[k][np.ix_(kept, kept)], 1e-12 * top), shading="gouraud",
            norm=LogNorm(1e-7 * top, top), cmap="viridis", rasterized=True,
        )  # fmt: skip
        axes[k].set_aspect("equal")
        axes[k].grid(visible=False)
        axes[k].set_title(names[k], loc="left")
        axes[k].set_xlabel("$r_1$ (bohr)")
        axes[k].set_ylabel("$r_2$ (bohr)")
    for ax in axes[count:]:
        ax.remove()
    if image is None:
        return fig
    label = "probability density (1/bohr$^2$)"
    if count == 1:
        bar_beside(image, axes[0], label)
    elif column:
        fig.colorbar(image, ax=list(axes[:count]), label=label, location="bottom", aspect=30)
    else:
        fig.colorbar(image, ax=list(axes[:count]), label=label, shrink=0.9)
    return fig


def levels(r: Results) -> Figure | None:
    """Energies of several states by symmetry, below their ionisation threshold."""
    if "energies" not in r or r.shape("energies")[0] < 3:
        return None
    energies, L, S = r["energies"], r["L"], r["S"]
    groups = sorted({(int(a), int(b)) for a, b in zip(S, L, strict=True)})
    fig = figure("single", 2.8)
    ax = fig.subplots()
    names = _names(r)
    for k, energy in enumerate(energies):
        x = groups.index((int(S[k]), int(L[k])))
        ax.plot(
            [x - 0.33, x + 0.33],
            [energy, energy],
            color=COLORS["vermillion" if S[k] else "blue"],
            linewidth=1.6,
        )
        ax.annotate(names[k], (x, energy), (0, 2), textcoords="offset points", ha="center", fontsize="small")
    # Thresholds of different symmetries that agree to 1e-8 are one line.
    for value in np.unique(np.round(r["thresholds"], 8)):
        ax.axhline(value, color="0.5", linestyle=":", linewidth=0.8)
    ax.set_xticks(range(len(groups)), [_symmetry(s, a) for s, a in groups])
    ax.tick_params(axis="x", labelsize="medium")
    ax.set_xlim(-0.6, len(groups) - 0.4)
    ax.set_ylabel("energy (hartree)")
    ax.grid(axis="x", visible=False)
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "convergence": convergence,
    "partial_waves": partial_waves,
    "iterations": iterations,
    "density": density,
    "pair_density": pair_density,
    "levels": levels,
}
