"""Figures of an evolution; those with time on an axis show cycles, too."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.trotter.deck.axes import AXES
from qsim.trotter.drawing import CURVES, FEW, FLOOR, color_map, curve, time_axis, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.trotter.drawing import Times

MOVES = 1e-3  # change of a mean value from which it is drawn itself, not just its drift
MARKED = 40  # points of a curve, beyond which they have no marks
NEAR_ONE = 0.01  # loss of an echo below which the loss is drawn


def _sites(r: Results, name: str) -> Any:
    own = f"site_{name}"
    return r[own] if own in r else r["site"]


def sz_map(r: Results) -> Figure | None:
    """Local magnetisation against site and time, for each component that was observed."""
    names = [f"s{a}" for a in AXES if f"s{a}" in r and r[f"s{a}"].shape[1] > 1]
    t = times(r)
    if not names or t.size < 2:
        return None
    fig = figure("double", 0.8 + 1.7 * len(names))
    axes = np.atleast_1d(fig.subplots(len(names), 1, sharex=True))
    for ax, name in zip(axes, names, strict=True):
        values = r[name]
        sites = _sites(r, name)
        limit = float(np.abs(values).max()) or 0.5
        color_map(fig, ax, t, np.arange(sites.size), values, rf"$\langle S^{name[1]}_j\rangle$", limit)
        shown = np.arange(0, sites.size, -(-sites.size // 9))  # even steps
        ax.set_yticks(shown, [str(sites[k]) for k in shown])
        ax.set_ylabel("site")
        time_axis(ax, t, labelled=name == names[-1])
    return fig


def correlations(r: Results) -> Figure | None:
    """Correlations in time against site and time, and out-of-time-order correlators of every site V."""
    t, names = times(r), [name for name in ("time_correlation", "otoc") if name in r]
    if not names or t.size < 2:
        return None
    fig = figure("double", 0.8 + 1.9 * len(names))
    axes = np.atleast_1d(fig.subplots(len(names), 1))
    for ax, name in zip(axes, names, strict=True):
        if name == "otoc":
            at = r["otoc_time" if "otoc_time" in r else "time"]
            for k, site in enumerate(r["otoc_site"][:CURVES]):
                ax.plot(at, r["otoc"][:, k], marker="." if at.size < MARKED else "", label=f"v = {site}")
            ax.set_ylabel(r"$F(t)$")
            ax.legend(ncols=2)
        else:
            values = r[name]
            limit = float(np.abs(values).max()) or 0.25
            color_map(
                fig, ax, t, np.arange(values.shape[1]), values, r"$\langle S^z_j(t)S^z_k\rangle$", limit
            )
            ax.set_ylabel("site j")
        time_axis(ax, t, labelled=name == names[-1])
    return fig


def correlator(r: Results) -> Figure | None:
    """Correlators: the connected light cone from site 0 where all pairs are known, else curves of the pairs."""
    names = [f"correlator_{a}{a}" for a in AXES if f"correlator_{a}{a}" in r]
    t = times(r)
    if not names or t.size < 2:
        return None
    fig = figure("double", 0.8 + 1.9 * len(names))
    axes = np.atleast_1d(fig.subplots(len(names), 1, sharex=True))
    for ax, name in zip(axes, names, strict=True):
        own = f"pairs_{name[-2:]}"
        pairs = r[own] if own in r else r["pairs"]
        first = np.flatnonzero(pairs[:, 0] == pairs[0, 0])
        label = rf"\langle S^{name[-1]}_{{{int(pairs[0, 0])}}} S^{name[-1]}_j\rangle"
        if first.size > CURVES // 2:
            values, title = _connected(r, name, pairs, first)
            limit = float(np.abs(values).max()) or 1.0
            order = np.argsort(pairs[first, 1])
            color_map(fig, ax, t, pairs[first, 1][order], values[:, order], f"${label}{title}$", limit)
            ax.set_ylabel("site j")
        else:
            for k in range(min(len(pairs), CURVES)):
                curve(ax, r, name, t, k, label=f"{pairs[k, 0]}, {pairs[k, 1]}")
            ax.set_ylabel(rf"$\langle S^{name[-1]}_j S^{name[-1]}_k\rangle$")
            ax.legend(title="sites", ncols=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
        time_axis(ax, t, labelled=name == names[-1])
    return fig


def _connected(r: Results, name: str, pairs: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[Any, str]:
    """Return the correlator of the chosen pairs without the product of the means, where those of all sites are known."""
    s = f"s{name[-1]}"
    values = r[name][:, chosen]
    if s not in r or f"site_{s}" in r:
        return values, ""
    means = r[s]
    j, k = pairs[chosen].T
    return values - means[:, j] * means[:, k], "_c"


# ------------------------------------------------------------------------------------- conserved things


def drift(r: Results) -> Figure | None:
    """Draw the drift of what should not change (energy, norm, total Sz), and what of these changes."""
    t = times(r)
    if "energy" not in r or t.size < 2:
        return None
    moving = [name for name in ("energy", "total_sz") if float(np.ptp(r[name])) > MOVES]
    fig = figure("double" if moving else "single", 2.6)
    axes = np.atleast_1d(fig.subplots(1, 1 + len(moving)))
    for ax, name in zip(axes[1:], moving, strict=True):
        curve(ax, r, name, t, color=COLORS["blue" if name == "energy" else "vermillion"])
        ax.set_ylabel(r"$\langle H\rangle$ ($J$)" if name == "energy" else r"$\langle S^z_{tot}\rangle$")
        ax.ticklabel_format(axis="y", useOffset=False)
    b = axes[0]
    kept = "Sz" in str(r.scalars["conserved"].value)
    for name, label, color in (
        ("energy", r"$|\langle H\rangle - \langle H\rangle_0|$ ($J$)", "blue"),
        ("total_sz", r"$|\langle S^z_{tot}\rangle - \langle S^z_{tot}\rangle_0|$", "vermillion"),
    ):
        if name == "energy" and r.scalars["energy_drift"].value is None:
            continue
        if name == "energy" or kept:
            _drift_curve(b, t, r[name] - r[name][0], label, color)
    _drift_curve(b, t, r["norm"] - 1.0, r"$|\langle\psi|\psi\rangle - 1|$", "black")
    b.set_ylabel("drift")
    b.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.1)
    for ax in axes:
        time_axis(ax, t)
    return fig


def _drift_curve(ax: Axes, t: Times, values: NDArray[np.float64], label: str, color: str) -> None:
    ax.semilogy(t, np.maximum(np.abs(values), FLOOR), color=COLORS[color], label=label, linewidth=0.8)


def total(r: Results) -> Figure | None:
    """Components of the total spin."""
    t = times(r)
    names = [f"total_s{a}" for a in AXES if f"total_s{a}" in r]
    if len(names) < 2 or t.size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    for name in names:
        curve(ax, r, name, t, label=rf"$S^{name[-1]}$")
    ax.set_ylabel("total spin")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
    time_axis(ax, t)
    return fig


# ------------------------------------------------------------------------------------------------ echo


def echo(r: Results) -> Figure | None:
    """Loschmidt echo with the local echo; of an echo near one, its distance from one on a logarithmic axis."""
    if "echo" not in r:
        return None
    t = r["echo_time"] if "echo_time" in r else times(r)
    if t.size < 2:
        return None
    fig = figure("single", 2.6)
    ax = fig.subplots()
    lost = np.abs(1.0 - r["echo"])
    if float(lost.max()) < NEAR_ONE:
        _lost_echo(ax, r, t, lost)
    else:
        curve(ax, r, "echo", t, color=COLORS["blue"], label="echo M")
        if "return_probability" in r and "echo_time" not in r:
            ax.plot(t, r["return_probability"], color="0.6", linewidth=0.8, label="return probability")
        if "echo_local" in r:
            ax.set_prop_cycle(color=list(COLORS.values())[1:])
            for k, site in enumerate(r["echo_site"][:CURVES]):
                label = rf"$2\langle S^z_{{{int(site)}}}\rangle$"
                curve(ax, r, "echo_local", t, k, linestyle="--", label=label)
        ax.set_ylabel("echo")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
    time_axis(ax, t)
    ax.set_xlabel(r"time of return ($1/J$)")
    return fig


def _lost_echo(ax: Axes, r: Results, t: Any, lost: Any) -> None:
    moved = (t > 0) & (lost > 0)
    marks = {"marker": "o", "markersize": 2.5} if t.size <= FEW else {}
    ax.semilogy(t[moved], lost[moved], color=COLORS["blue"], label="|1 - M|", **marks)
    if "echo_normalised" in r:
        normalised = np.abs(1.0 - r["echo_normalised"])
        seen = (t > 0) & (normalised > 0)
        ax.semilogy(
            t[seen], normalised[seen], color=COLORS["vermillion"], linestyle="--", label="normalised", **marks
        )
    ax.set_ylabel("|1 - M|")


# ------------------------------------------------------------------------------- entropy and the others


def entropy(r: Results) -> Figure | None:
    """Entanglement entropy of the cuts; time is logarithmic where the output times are."""
    t = times(r)
    if "entropy" not in r or t.size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    values = r["entropy"]
    for k in range(min(CURVES, 1 if values.ndim == 1 else values.shape[1])):
        sites = np.flatnonzero(r["entropy_sites"][k])
        curve(ax, r, "entropy", t, None if values.ndim == 1 else k, label=f"sites {_site_list(sites)}")
        most = min(sites.size, r["site"].size - sites.size) * np.log(2.0)
        if float(np.max(values)) > 0.6 * most:
            ax.axhline(
                most, color="0.6", linestyle=":", linewidth=0.7, label="largest possible" if k == 0 else None
            )
    if values.ndim == 1:
        for name, label in (("number_entropy", "of the number"), ("renyi2", "Renyi 2")):
            if name in r:
                curve(ax, r, name, t, None, label=label)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("entropy (nat)")
    ax.legend()
    time_axis(ax, t)
    return fig


def _site_list(sites: NDArray[np.int64]) -> str:
    """Return ``0-7`` or ``0, 3, 5, ...``."""
    if sites.size > 1 and np.all(np.diff(sites) == 1):
        return f"{sites[0]}-{sites[-1]}"
    return ", ".join(str(s) for s in sites[:4]) + (", ..." if sites.size > 4 else "")


_LABELS = {
    "imbalance": "imbalance",
    "autocorrelation": r"$4\,\mathrm{Tr}[S^z_j(t) S^z_j]/2^N$",
    "return_probability": r"$|\langle\psi(0)|\psi(t)\rangle|^2$",
    "fidelity": "fidelity",
    "energy_variance": r"$\langle H^2\rangle - \langle H\rangle^2$ ($J^2$)",
}


CONSERVED = 1e-3  # change of a variance, of itself, below which it is that of a constant H: a line tells less than its number


def _conserved(r: Results, name: str) -> bool:
    values = r[name]
    return name == "energy_variance" and float(np.ptp(values)) <= CONSERVED * float(np.abs(values).max())


def curves(r: Results) -> Figure | None:
    """Everything else that is one number per output time: imbalance, autocorrelation, return probability, fidelity, variance."""
    t = times(r)
    names = [name for name in _LABELS if name in r and not _conserved(r, name)]
    if not names or t.size < 2:
        return None
    fig = figure("single" if len(names) == 1 else "double", 2.4 if len(names) < 3 else 4.4)
    shape = (1, len(names)) if len(names) < 3 else (2, -(-len(names) // 2))
    axes = np.ravel(np.atleast_1d(fig.subplots(*shape)))
    for ax, name in zip(axes, names, strict=False):
        curve(ax, r, name, t)
        ax.set_ylabel(_LABELS[name])
        if name in ("imbalance", "autocorrelation"):
            ax.axhline(0.0, color="0.6", linewidth=0.5)
        time_axis(ax, t)
    for ax in axes[len(names) :]:
        ax.remove()
    return fig


def polarisation(r: Results) -> Figure | None:
    """Polarisation against site and time: its spread from one site."""
    t = times(r)
    if "polarisation" not in r or t.size < 2:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    values = r["polarisation"]
    color_map(fig, ax, t, r["site"], values, r"$2\langle S^z_k\rangle$", float(np.abs(values).max()) or 1.0)
    ax.set_ylabel("site k")
    time_axis(ax, t)
    return fig


def in_time(draw: Callable[[Results], Figure | None]) -> Callable[[Results], Figure | None]:
    """Return a figure of an evolution that leaves out results without times."""

    @wraps(draw)
    def drawn(r: Results) -> Figure | None:
        return draw(r) if "time" in r else None

    return drawn


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "sz_map": in_time(sz_map),
    "total": in_time(total),
    "drift": in_time(drift),
    "correlator": in_time(correlator),
    "correlations": in_time(correlations),
    "echo": in_time(echo),
    "entropy": in_time(entropy),
    "polarisation": in_time(polarisation),
    "curves": in_time(curves),
}
