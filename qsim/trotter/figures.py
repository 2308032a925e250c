"""Figures of a trotter results file."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, compose, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

    Times = NDArray[np.float64]

AXES = ("x", "y", "z")
FLOOR = 1e-17  # below which a drift is drawn as if it were this: rounding of a double
MOVES = 1e-3  # change of a mean value from which it is drawn itself, not just its drift
MARKED = 40  # points of a curve, beyond which they have no marks
NEAR_ONE = 0.01  # loss of an echo below which the loss is drawn
FEW = 15  # points that are marked
FAINT = 0.1  # median of a map over its largest value, below which its colours would be nearly white
CURVES = 8  # drawn beside each other at most
TIME = r"time ($1/J$)"


def _times(r: Results) -> Times:
    return np.asarray(r["time"])


def _logarithmic(t: Times) -> bool:
    """Return True if output times call for a logarithmic axis: most of them in the first tenth."""
    return t.size > 5 and float(np.median(t)) < 0.1 * float(t[-1])


def _time_axis(ax: Axes, t: Times, labelled: bool = True) -> None:
    if t.size > 1:
        if _logarithmic(t):
            ax.set_xscale("log")
            ax.set_xlim(float(t[t > 0][0]), float(t[-1]))
        else:
            ax.set_xlim(float(t[0]), float(t[-1]))
    if labelled:
        ax.set_xlabel(TIME)


def _curve(ax: Axes, r: Results, name: str, t: Times, column: int | None = None, **style: Any) -> None:
    """Draw an array against time with the band of its standard error, if there is an ensemble."""
    values = r[name] if column is None else r[name][:, column]
    style = {"marker": "o", "markersize": 2.5} | style if t.size <= FEW else style
    (line,) = ax.plot(t, values, **style)
    if f"{name}_error" in r:
        error = r[f"{name}_error"] if column is None else r[f"{name}_error"][:, column]
        ax.fill_between(t, values - error, values + error, color=line.get_color(), alpha=0.25, linewidth=0)


def _sites(r: Results, name: str) -> Any:
    own = f"site_{name}"
    return r[own] if own in r else r["site"]


# -------------------------------------------------------------------------------------------- maps


def _map(
    fig: Figure, ax: Axes, t: Times, rows: NDArray[Any], values: NDArray[np.float64], label: str, limit: float
) -> None:
    """Draw values (time, row) as a map, centred on zero; where most are small, colours follow their square root."""
    from matplotlib.colors import FuncNorm, Normalize

    norm: Normalize = Normalize(-limit, limit)
    if faint := float(np.median(np.abs(values))) < FAINT * limit:
        norm = FuncNorm(
            (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda y: np.sign(y) * y**2), -limit, limit
        )
    image = ax.pcolormesh(t, rows, values.T, shading="nearest", cmap="RdBu_r", norm=norm, rasterized=True)
    bar = fig.colorbar(image, ax=ax, label=label, pad=0.02)
    if faint:
        steps = limit * np.array([1.0, 0.25, 0.05])
        bar.set_ticks([*-steps, 0.0, *steps[::-1]], labels=[f"{x:.2g}" for x in [*-steps, 0.0, *steps[::-1]]])


def sz_map(r: Results) -> Figure | None:
    """Local magnetisation against site and time, for each component that was observed."""
    names = [f"s{a}" for a in AXES if f"s{a}" in r and r[f"s{a}"].shape[1] > 1]
    t = _times(r)
    if not names or t.size < 2:
        return None
    fig = figure("double", 0.8 + 1.7 * len(names))
    axes = np.atleast_1d(fig.subplots(len(names), 1, sharex=True))
    for ax, name in zip(axes, names, strict=True):
        values = r[name]
        sites = _sites(r, name)
        limit = float(np.abs(values).max()) or 0.5
        _map(fig, ax, t, np.arange(sites.size), values, rf"$\langle S^{name[1]}_j\rangle$", limit)
        shown = np.arange(0, sites.size, -(-sites.size // 9))  # even steps
        ax.set_yticks(shown, [str(sites[k]) for k in shown])
        ax.set_ylabel("site")
        _time_axis(ax, t, labelled=name == names[-1])
    return fig


def correlations(r: Results) -> Figure | None:
    """Correlations in time against site and time, and out-of-time-order correlators of every site V."""
    t, names = _times(r), [name for name in ("time_correlation", "otoc") if name in r]
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
            _map(fig, ax, t, np.arange(values.shape[1]), values, r"$\langle S^z_j(t)S^z_k\rangle$", limit)
            ax.set_ylabel("site j")
        _time_axis(ax, t, labelled=name == names[-1])
    return fig


def correlator(r: Results) -> Figure | None:
    """Correlators: the connected light cone from site 0 where all pairs are known, else curves of the pairs."""
    names = [f"correlator_{a}{a}" for a in AXES if f"correlator_{a}{a}" in r]
    t = _times(r)
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
            _map(fig, ax, t, pairs[first, 1][order], values[:, order], f"${label}{title}$", limit)
            ax.set_ylabel("site j")
        else:
            for k in range(min(len(pairs), CURVES)):
                _curve(ax, r, name, t, k, label=f"{pairs[k, 0]}, {pairs[k, 1]}")
            ax.set_ylabel(rf"$\langle S^{name[-1]}_j S^{name[-1]}_k\rangle$")
            ax.legend(title="sites", ncols=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
        _time_axis(ax, t, labelled=name == names[-1])
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
    t = _times(r)
    if "energy" not in r or t.size < 2:
        return None
    moving = [name for name in ("energy", "total_sz") if float(np.ptp(r[name])) > MOVES]
    fig = figure("double" if moving else "single", 2.6)
    axes = np.atleast_1d(fig.subplots(1, 1 + len(moving)))
    for ax, name in zip(axes[1:], moving, strict=True):
        _curve(ax, r, name, t, color=COLORS["blue" if name == "energy" else "vermillion"])
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
        _time_axis(ax, t)
    return fig


def _drift_curve(ax: Axes, t: Times, values: NDArray[np.float64], label: str, color: str) -> None:
    ax.semilogy(t, np.maximum(np.abs(values), FLOOR), color=COLORS[color], label=label, linewidth=0.8)


def total(r: Results) -> Figure | None:
    """Components of the total spin."""
    t = _times(r)
    names = [f"total_s{a}" for a in AXES if f"total_s{a}" in r]
    if len(names) < 2 or t.size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    for name in names:
        _curve(ax, r, name, t, label=rf"$S^{name[-1]}$")
    ax.set_ylabel("total spin")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
    _time_axis(ax, t)
    return fig


# ------------------------------------------------------------------------------------------------ echo


def echo(r: Results) -> Figure | None:
    """Loschmidt echo with the local echo; of an echo near one, its distance from one on a logarithmic axis."""
    if "echo" not in r:
        return None
    t = r["echo_time"] if "echo_time" in r else _times(r)
    if t.size < 2:
        return None
    fig = figure("single", 2.6)
    ax = fig.subplots()
    lost = np.abs(1.0 - r["echo"])
    if float(lost.max()) < NEAR_ONE:
        _lost_echo(ax, r, t, lost)
    else:
        _curve(ax, r, "echo", t, color=COLORS["blue"], label="echo M")
        if "return_probability" in r and "echo_time" not in r:
            ax.plot(t, r["return_probability"], color="0.6", linewidth=0.8, label="return probability")
        if "echo_local" in r:
            ax.set_prop_cycle(color=list(COLORS.values())[1:])
            for k, site in enumerate(r["echo_site"][:CURVES]):
                label = rf"$2\langle S^z_{{{int(site)}}}\rangle$"
                _curve(ax, r, "echo_local", t, k, linestyle="--", label=label)
        ax.set_ylabel("echo")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
    _time_axis(ax, t)
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
    t = _times(r)
    if "entropy" not in r or t.size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    values = r["entropy"]
    for k in range(min(CURVES, 1 if values.ndim == 1 else values.shape[1])):
        sites = np.flatnonzero(r["entropy_sites"][k])
        _curve(ax, r, "entropy", t, None if values.ndim == 1 else k, label=f"sites {_site_list(sites)}")
        most = min(sites.size, r["site"].size - sites.size) * np.log(2.0)
        if float(np.max(values)) > 0.6 * most:
            ax.axhline(
                most, color="0.6", linestyle=":", linewidth=0.7, label="largest possible" if k == 0 else None
            )
    if values.ndim == 1:
        for name, label in (("number_entropy", "of the number"), ("renyi2", "Renyi 2")):
            if name in r:
                _curve(ax, r, name, t, None, label=label)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("entropy (nat)")
    ax.legend()
    _time_axis(ax, t)
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
    t = _times(r)
    names = [name for name in _LABELS if name in r and not _conserved(r, name)]
    if not names or t.size < 2:
        return None
    fig = figure("single" if len(names) == 1 else "double", 2.4 if len(names) < 3 else 4.4)
    shape = (1, len(names)) if len(names) < 3 else (2, -(-len(names) // 2))
    axes = np.ravel(np.atleast_1d(fig.subplots(*shape)))
    for ax, name in zip(axes, names, strict=False):
        _curve(ax, r, name, t)
        ax.set_ylabel(_LABELS[name])
        if name in ("imbalance", "autocorrelation"):
            ax.axhline(0.0, color="0.6", linewidth=0.5)
        _time_axis(ax, t)
    for ax in axes[len(names) :]:
        ax.remove()
    return fig


def polarisation(r: Results) -> Figure | None:
    """Polarisation against site and time: its spread from one site."""
    t = _times(r)
    if "polarisation" not in r or t.size < 2:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    values = r["polarisation"]
    _map(fig, ax, t, r["site"], values, r"$2\langle S^z_k\rangle$", float(np.abs(values).max()) or 1.0)
    ax.set_ylabel("site k")
    _time_axis(ax, t)
    return fig


# ------------------------------------------------------------------------------------- levels of sectors


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


def spectral(r: Results) -> Figure | None:
    """Draw S(q, w): a map over all q, with the continuum of two spinons of the infinite ring, or curves of some."""
    if "structure" not in r:
        return None
    omega, values = r["omega"], r["structure"]
    q = r["q"] if "q" in r else r["dynamics_site"]
    fig = figure("double", 3.0)
    ax = fig.subplots()
    if q.size < 5 or "q" not in r:
        for place, row in zip(q, values, strict=True):
            ax.plot(omega, row, label=rf"$q = {place:g}\pi$" if "q" in r else f"site {place:d}")
        ax.set_xlabel(r"$\omega$ ($J$)")
        ax.set_ylabel(r"$S(q, \omega)$" if "q" in r else r"$S_j(\omega)$")
        ax.legend()
        return fig
    image = ax.pcolormesh(q, omega, np.sqrt(values.T), shading="nearest", cmap="magma", rasterized=True)
    fig.colorbar(image, ax=ax, label=r"$\sqrt{S(q, \omega)}$", pad=0.02)
    for name in ("continuum_lower", "continuum_upper"):
        if name in r:
            ax.plot(q, r[name], color="white", linestyle="--", linewidth=0.8)
    if "continuum_lower" in r:
        ax.set_title("dashed: edges of the two-spinon continuum", loc="left")
    ax.set_ylim(float(omega[0]), float(omega[-1]))
    ax.set_xlabel(r"$q/\pi$")
    ax.set_ylabel(r"$\omega$ ($J$)")
    return fig


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
        _curve(ax, r, name, T)
        ax.set_xscale("log")
        if float(T.max() / T.min()) < 10.0:  # powers of ten would crowd
            ax.xaxis.set_major_locator(FixedLocator(T[:: -(-T.size // 5)].tolist()))
            ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.2g}"))
            ax.xaxis.set_minor_locator(NullLocator())
        ax.set_ylabel(f"{label} per site")
    axes[3].axhline(np.log(2.0), color="0.6", linestyle=":", linewidth=0.7, label=r"$\ln 2$")
    axes[3].legend()
    for ax in axes[2:]:
        ax.set_xlabel("temperature ($J$)")
    return fig


def gap_ratio(r: Results) -> Figure | None:
    """Draw the distribution of gap ratios, with those of random levels and of the orthogonal ensemble."""
    if "gap_ratios" not in r:
        return None
    x = np.linspace(0.0, 1.0, 201)
    fig = figure("single")
    ax = fig.subplots()
    ax.hist(r["gap_ratios"], bins=25, range=(0.0, 1.0), density=True, color=COLORS["blue"], alpha=0.4)
    ax.plot(x, 2.0 / (1.0 + x) ** 2, color=COLORS["vermillion"], label="random levels")
    ax.plot(x, 27.0 / 4.0 * (x + x**2) / (1.0 + x + x**2) ** 2.5, color="black", label="orthogonal ensemble")
    ax.set_xlabel("gap ratio")
    ax.set_ylabel("probability density")
    ax.legend()
    return fig


def _in_time(draw: Callable[[Results], Figure | None]) -> Callable[[Results], Figure | None]:
    """Return a figure of an evolution that leaves out results without times."""

    @wraps(draw)
    def drawn(r: Results) -> Figure | None:
        return draw(r) if "time" in r else None

    return drawn


def overview(r: Results) -> Figure | None:
    """Draw what was observed on a page: maps first, then curves, echo and entropy; of a spectrum its levels."""
    parts = (
        "sz_map",
        "polarisation",
        "curves",
        "echo",
        "entropy",
        "correlator",
        "correlations",
        "total",
        "levels",
        "structure_factor",
        "cuts",
        "spectral",
        "thermal",
        "gap_ratio",
    )
    return compose(r, [FIGURES[name] for name in parts])


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    "sz_map": _in_time(sz_map),
    "total": _in_time(total),
    "drift": _in_time(drift),
    "correlator": _in_time(correlator),
    "correlations": _in_time(correlations),
    "echo": _in_time(echo),
    "entropy": _in_time(entropy),
    "polarisation": _in_time(polarisation),
    "curves": _in_time(curves),
    "levels": levels,
    "structure_factor": structure_factor,
    "cuts": cuts,
    "spectral": spectral,
    "thermal": thermal,
    "gap_ratio": gap_ratio,
}
