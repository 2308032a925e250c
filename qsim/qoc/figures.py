"""Figures of a qoc results file: the panels of Figs. 4 and 5 of the paper, levels and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from qsim.core.results.results import Results

MAX_POINTS = 4000  # of a drawn curve; longer ones are thinned by their envelope


def _femtoseconds(t: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(to_unit(np.asarray(t), "fs", "time"))


def _envelope(
    t: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Thin a long oscillating curve to its minima and maxima, so that no peak is lost."""
    if y.size <= MAX_POINTS:
        return t, y
    block = -(-y.size // (MAX_POINTS // 2))
    n = y.size // block
    parts = y[: n * block].reshape(n, block)
    low, high = parts.min(axis=1), parts.max(axis=1)
    return np.repeat(t[: n * block : block], 2), np.stack([low, high], axis=1).ravel()


def _potential(ax: Axes, r: Results) -> None:
    x, v, psi = r["x"], r["potential"], np.abs(r["psi_initial"]) ** 2
    energies = r["energies"]
    top = energies[min(energies.size - 1, 8)] + 0.15 * (energies[min(energies.size - 1, 8)] - v.min())
    ax.plot(x, v, color=COLORS["blue"])
    ax.set_ylim(v.min() - 0.05 * (top - v.min()), top)
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel("V (hartree)", color=COLORS["blue"])
    other = ax.twinx()
    other.plot(x, psi, color=COLORS["vermillion"], linestyle="--")
    other.set_ylabel(r"$|\psi_i|^2$ (1/bohr)", color=COLORS["vermillion"])
    other.set_ylim(0, 1.3 * psi.max())
    ax.set_title("potential, initial state")


def _field(ax: Axes, r: Results) -> None:
    t, eps = _envelope(_femtoseconds(r["time"]), r["field"])
    ax.plot(t, eps, linewidth=0.6)
    ax.set_xlabel("time (fs)")
    ax.set_ylabel(r"$\epsilon$ (a.u.)")
    ax.set_title("field")


def _transitions(r: Results) -> list[tuple[str, float]]:
    """Transitions that matter: between levels that the run populates, with a dipole element."""
    populations = r["populations"] if "populations" in r else r["populations_thinned"]
    used = np.flatnonzero(populations.max(axis=0) > 1e-2)
    energies, mu = r["energies"], np.abs(r["dipole_matrix"])
    pairs = [
        (int(a), int(b)) for i, a in enumerate(used) for b in used[i + 1 :] if mu[a, b] > 1e-3 * mu.max()
    ]
    return [(f"{a}-{b}", float(abs(energies[b] - energies[a]))) for a, b in pairs][:12]


def _spectrum(ax: Axes, r: Results) -> None:
    w, s = r["frequency"], r["spectrum"]
    lines = _transitions(r)
    strong = w[s > 1e-4 * s.max()] if s.max() > 0 else w
    right = 1.6 * max(
        [float(strong.max()) if strong.size and not lines else 0.0, *[v for _, v in lines]]
    ) or float(w[-1])
    ax.semilogy(w, np.maximum(s / s.max() if s.max() > 0 else s, 1e-9), linewidth=0.8)
    ax.set_ylim(1e-7, 3)
    for name, value in lines:
        if value < right:
            ax.axvline(value, color="0.6", linewidth=0.5, linestyle=":")
            ax.annotate(
                name,
                (value, 0.97),
                xycoords=("data", "axes fraction"),
                fontsize=5,
                rotation=90,
                ha="right",
                va="top",
            )
    ax.set_xlim(0, right)
    ax.set_xlabel(r"$\omega$ (hartree)")
    ax.set_ylabel("power (arb. units)")


def _states(ax: Axes, r: Results) -> None:
    x = r["x"]
    target, final = np.abs(r["psi_target"]) ** 2, np.abs(r["psi_final"]) ** 2
    ax.plot(x, target, color=COLORS["black"], label=r"target $|\psi_f|^2$")
    ax.plot(x, final, color=COLORS["vermillion"], linestyle="--", label=r"$|\psi(T)|^2$")
    inside = x[(target > 1e-4 * target.max()) | (final > 1e-4 * final.max())]
    ax.set_xlim(inside[0], inside[-1])
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel("density (1/bohr)")
    ax.legend()
    ax.set_title(f"P = {r.scalars['probability'].value:.6g}")


def _history(ax: Axes, r: Results) -> None:
    p, j = r["history/probability"], r["history/objective"]
    ax.plot(p, marker="o", markersize=2, label="P")
    ax.plot(j, marker="s", markersize=2, label="J")
    ax.set_xlabel("evaluation")
    ax.set_ylim(min(0.0, float(j.min())) - 0.02, 1.04)
    ax.legend()


def overview(r: Results) -> Figure:
    """Five panels as in Figs. 4 and 5 of the paper: potential, field, spectrum, states, convergence."""
    fig = figure("double", 4.4)
    top, bottom = np.ravel(np.asarray(fig.subfigures(2, 1)))
    a, b = top.subplots(1, 2, width_ratios=[1, 1.6])
    c, d, e = bottom.subplots(1, 3)
    for ax, draw, label in (
        (a, _potential, "a"),
        (b, _field, "b"),
        (c, _spectrum, "c"),
        (d, _states, "d"),
        (e, _history, "e"),
    ):
        draw(ax, r)
        ax.set_title(f"({label})", loc="left", fontsize=7)
    return fig


def fields(r: Results) -> Figure:
    """Draw the field and the guess it came from."""
    fig = figure("double", 2.4)
    ax = fig.subplots()
    t, guess = _envelope(_femtoseconds(r["time"]), r["field_guess"])
    ax.plot(t, guess, color="0.7", linewidth=0.6, label="guess")
    _field(ax, r)
    ax.lines[-1].set_label("final")
    ax.legend(loc="upper right")
    other = ax.secondary_yaxis("right", functions=(_to_si, _from_si))
    other.set_ylabel("V/nm")
    return fig


def _to_si(eps: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(eps) * float(to_unit(1.0, "V/nm", "electric field"))


def _from_si(value: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(value) / float(to_unit(1.0, "V/nm", "electric field"))


def spectrum(r: Results) -> Figure:
    """Power spectrum with the transitions marked."""
    fig = figure("single")
    _spectrum(fig.subplots(), r)
    return fig


def populations(r: Results) -> Figure:
    """Level populations against time."""
    fig = figure("double", 2.6)
    ax = fig.subplots()
    thin = "populations" not in r
    t = _femtoseconds(r["time_populations" if thin else "time"])
    p = r["populations_thinned" if thin else "populations"]
    step = max(1, t.size // MAX_POINTS)
    shown = [k for k in range(p.shape[1]) if p[:, k].max() > 1e-2][:10]
    for k in shown:
        ax.plot(t[::step], p[::step, k], label=f"{k}")
    ax.plot(t[::step], p[::step].sum(axis=1), color="0.6", linestyle=":", label="sum")
    ax.set_xlabel("time (fs)")
    ax.set_ylabel("population")
    ax.set_ylim(-0.02, 1.05)
    ax.legend(title="level", ncols=2)
    return fig


def convergence(r: Results) -> Figure:
    """1 - P and J against propagations."""
    fig = figure("single")
    ax = fig.subplots()
    sweeps, p = r["history/sweeps"], r["history/probability"]
    ax.semilogy(sweeps, np.maximum(1.0 - p, 1e-16), marker="o", markersize=2, label="1 - P")
    verified = r.scalars["probability_verified"].value if "probability_verified" in r.scalars else None
    if isinstance(verified, float) and np.isfinite(verified):
        ax.axhline(
            max(1.0 - verified, 1e-16), color=COLORS["vermillion"], linestyle="--", label="1 - P verified"
        )
    ax.set_xlabel("sweeps (propagations)")
    ax.set_ylabel("1 - P")
    ax.legend()
    return fig


def spectrogram(r: Results) -> Figure:
    """Field in time and frequency, with the transitions marked."""
    from scipy.signal import ShortTimeFFT
    from scipy.signal.windows import gaussian

    fig = figure("double", 2.8)
    ax = fig.subplots()
    t, eps = r["time"], r["field"]
    lines = _transitions(r)
    tau = float(t[1] - t[0]) if t.size > 1 else 1.0
    width = max(8, min(eps.size // 16, 2000))
    hop = max(1, eps.size // 600)
    transform = ShortTimeFFT(
        gaussian(2 * width + 1, width / 2.5), hop, 1.0 / tau, fft_mode="onesided", mfft=4 * (2 * width + 1)
    )
    s = np.abs(transform.stft(eps)) ** 2
    w = 2 * np.pi * transform.f
    times = _femtoseconds(transform.t(eps.size))
    top = 1.4 * max([v for _, v in lines], default=float(w[-1]) / 1.4)
    keep = w <= top
    with np.errstate(divide="ignore"):
        level = 10 * np.log10(np.maximum(s[keep] / max(s.max(), 1e-300), 1e-5))
    image = ax.pcolormesh(times, w[keep], level, shading="auto", cmap="magma", rasterized=True)
    for name, value in lines:
        if value < top:
            ax.axhline(value, color="w", linewidth=0.4, linestyle=":")
            ax.annotate(name, (1.0, value), xycoords=("axes fraction", "data"), fontsize=5, va="center")
    ax.set_xlim(0, _femtoseconds(t)[-1])
    ax.set_xlabel("time (fs)")
    ax.set_ylabel(r"$\omega$ (hartree)")
    fig.colorbar(image, ax=ax, label="power (dB)")
    return fig


def line_search(r: Results) -> Figure | None:
    """Growing sequence and bisection of the first iteration, as in Fig. 1 of the paper."""
    if "line_search/gamma" not in r:
        return None
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    g, j, middles = r["line_search/gamma"], r["line_search/objective"], r["line_search/bisection"]
    for ax in (a, b):
        ax.plot(g, -j, marker="o", markersize=2.5, label="sequence, Eq. (9)")
        ax.set_xlabel(r"$\gamma$")
        ax.set_ylabel(r"$-J(\gamma)$")
    a.set_title(f"{g.size} evaluations")
    b.plot(
        middles,
        np.interp(middles, g, -j),
        linestyle="none",
        marker="o",
        markersize=2.5,
        color=COLORS["vermillion"],
        label="midpoints",
    )
    b.axvline(middles[-1], color=COLORS["vermillion"], linewidth=0.7, label=rf"result {middles[-1]:.4g}")
    b.legend()
    return fig


def robustness(r: Results) -> Figure | None:
    """Probability of every ensemble member against its field factor."""
    if "member_probability" not in r:
        return None
    fig = figure("single")
    ax = fig.subplots()
    scale, p = r["member_field_scale"], r["member_probability"]
    order = np.argsort(scale, kind="stable")
    ax.plot(
        scale[order],
        p[order],
        marker="o",
        markersize=2,
        linestyle="-" if np.unique(scale).size == scale.size else "none",
    )
    ax.set_xlabel("field factor")
    ax.set_ylabel("P")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    "fields": fields,
    "spectrum": spectrum,
    "populations": populations,
    "convergence": convergence,
    "spectrogram": spectrogram,
    "line_search": line_search,
    "robustness": robustness,
}
