"""Figures of a qoc results file: the panels of Figs. 4 and 5 of the paper, levels and errors."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.plotting import COLORS, compose, figure, in_column
from qsim.core.text import format_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from qsim.core.results.results import Results

# Of a drawn curve; longer ones are thinned by their envelope.
MAX_POINTS = 4000
# From which a field is drawn as its envelope, with some cycles in an inset.
CYCLES = 30
# Points that are marked.
# Names in one label, and points between an axis of frequencies and that of wavenumbers below it.
NAMED, BELOW = 3, 30
FEW = 40
# Points of a spectrum at least, so that short fields do not give polygons.
PADDED = 4096
# 1/cm per hartree (CODATA 2018)
WAVENUMBER = 219474.6313632


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
    """Draw potential and levels, with the densities of the initial and the target state at their energies."""
    x, v, energies = r["x"], r["potential"], r["energies"]
    initial, target = (np.abs(r[name]) ** 2 for name in ("psi_initial", "psi_target"))
    drawn = [e for e in energies[:12] if np.isfinite(e)]
    mean = [_energy(r, name) for name in ("psi_initial", "psi_target")]
    top = max([*mean, *drawn[: 1 + _highest(r)]])
    top += 0.25 * (top - float(v.min()))
    inside = x[(v < top) | (initial > 1e-3 * initial.max()) | (target > 1e-3 * target.max())]
    ax.plot(x, v, color="0.3")
    for energy in drawn:
        if energy < top:
            where = x[v < energy]
            if where.size:
                ax.hlines(energy, where[0], where[-1], color="0.75", linewidth=0.6)
    height = 0.22 * (top - float(v.min())) / max(float(initial.max()), float(target.max()))
    for density, base, color, dashes, name in (
        (initial, mean[0], COLORS["blue"], "-", "initial"),
        (target, mean[1], COLORS["vermillion"], "--", "target"),
    ):
        ax.plot(x, base + height * density, color=color, linestyle=dashes, label=name)
        ax.fill_between(x, base, base + height * density, color=color, alpha=0.15, linewidth=0)
    ax.set_xlim(inside[0], inside[-1])
    ax.set_ylim(float(v.min()) - 0.04 * (top - float(v.min())), top)
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel("energy (hartree)")
    _legend_above(ax)


def _energy(r: Results, name: str) -> float:
    """Return the mean energy of a state, by differences on the grid: the height at which it is drawn."""
    x, v, psi = r["x"], r["potential"], r[name]
    dx = float(x[1] - x[0])
    slope = np.gradient(psi, dx)
    kinetic = float(np.sum(np.abs(slope) ** 2)) * dx / (2.0 * float(r.deck["system"]["mass"]))
    return kinetic + float(np.sum(v * np.abs(psi) ** 2)) * dx


def _highest(r: Results) -> int:
    """Return the highest level that the run populates."""
    populations = r["populations"] if "populations" in r else r["populations_thinned"]
    used = np.flatnonzero(populations.max(axis=0) > 1e-2)
    return int(used[-1]) if used.size else 0


def _legend_above(ax: Axes, columns: int = 2) -> None:
    """Put the legend above the axes, where it covers no curve."""
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.1)


def _field(ax: Axes, r: Results, label: str = "") -> None:
    """Draw the field; many cycles as the band between their peaks, with some of them in an inset."""
    t, eps = _femtoseconds(r["time"]), r["field"]
    crossings = np.flatnonzero(np.diff(np.sign(eps)))
    if crossings.size > 2 * CYCLES:
        low, high = _peaks(t, eps, crossings)
        ax.fill_between(t, low, high, color=COLORS["blue"], alpha=0.35, linewidth=0, label=label)
        _inset(ax, t, eps, crossings)
    else:
        ax.plot(*_envelope(t, eps), linewidth=0.8, label=label)
    ax.set_xlim(float(t[0]), float(t[-1]))
    ax.set_xlabel("time (fs)")
    ax.set_ylabel(r"$\epsilon$ (a.u.)")


def _peaks(
    t: NDArray[np.float64], y: NDArray[np.float64], crossings: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and upper envelope of an oscillation: its extrema, two half cycles at a time."""
    edges = np.unique(np.concatenate([[0], crossings[::2] + 1, [y.size]]))
    middles = np.array([0.5 * (t[a] + t[b - 1]) for a, b in pairwise(edges)])
    low = np.minimum.reduceat(y, edges[:-1])
    high = np.maximum.reduceat(y, edges[:-1])
    return np.interp(t, middles, low), np.interp(t, middles, high)


def _inset(ax: Axes, t: NDArray[np.float64], y: NDArray[np.float64], crossings: NDArray[np.intp]) -> None:
    """Draw four cycles around the strongest one above the envelope."""
    peak = int(np.argmax(np.abs(y)))
    place = int(np.searchsorted(crossings, peak))
    first, last = crossings[max(0, place - 4)], crossings[min(crossings.size - 1, place + 4)]
    low, high = float(y.min()), float(y.max())
    ax.set_ylim(low - 0.05 * (high - low), high + 0.75 * (high - low))
    inner = ax.inset_axes((0.36, 0.66, 0.42, 0.32))
    inner.plot(t[first : last + 1], y[first : last + 1], linewidth=0.8)
    inner.set_xlim(float(t[first]), float(t[last]))
    inner.tick_params(labelsize="x-small")
    inner.set_yticks([0.0])


def _transitions(r: Results) -> list[tuple[str, float]]:
    """Transitions that matter: between levels that the run populates, with a dipole element."""
    populations = r["populations"] if "populations" in r else r["populations_thinned"]
    used = np.flatnonzero(populations.max(axis=0) > 1e-2)
    energies, mu = r["energies"], np.abs(r["dipole_matrix"])
    pairs = [
        (int(a), int(b)) for i, a in enumerate(used) for b in used[i + 1 :] if mu[a, b] > 1e-3 * mu.max()
    ]
    wanted = _wanted(r)
    # The wanted transitions, and those from the lowest levels, are named in any case.
    pairs.sort(key=lambda pair: (pair not in wanted, pair))
    return [(f"{a}-{b}", float(abs(energies[b] - energies[a]))) for a, b in pairs][:12]


def _wanted(r: Results) -> set[tuple[int, int]]:
    """Return the pairs of levels (lower, upper) between initial and target states of the deck."""
    system = r.deck["system"]
    pairs = system.get("pairs") or [system]
    found = set()
    for pair in pairs:
        ends = [pair.get(key) for key in ("initial", "target")]
        lists = [end if isinstance(end, list) else [end] for end in ends]
        found |= {
            (min(a, b), max(a, b))
            for a in lists[0]
            for b in lists[1]
            if isinstance(a, int) and isinstance(b, int)
        }
    return found


def _together(lines: list[tuple[str, float]], width: float, between: str = ", ") -> list[tuple[str, float]]:
    """Return transitions with those that a label would cover in one label: ``0-1, 1-2``; the first of the lines come first."""
    rank = {name: place for place, (name, _) in enumerate(lines)}
    groups: list[tuple[list[str], list[float]]] = []
    for name, value in sorted(lines, key=lambda line: line[1]):
        if groups and value - groups[-1][1][0] < width:
            groups[-1][0].append(name)
            groups[-1][1].append(value)
        else:
            groups.append(([name], [value]))
    return [
        (
            between.join(sorted(names, key=rank.__getitem__)[:NAMED])
            + (between + "..." if len(names) > NAMED else ""),
            float(np.mean(values)),
        )
        for names, values in groups
    ]


def _padded_spectrum(r: Results) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the spectrum of the file; that of a field of few samples or few cycles at more frequencies."""
    field, t = r["field"], r["time"]
    if field.size >= PADDED or t.size < 2:
        return r["frequency"], r["spectrum"]
    tau, size = float(t[1] - t[0]), max(PADDED, 8 * field.size)
    frequency = np.asarray(2 * np.pi * np.fft.rfftfreq(size, tau), dtype=np.float64)
    return frequency, np.asarray(np.abs(np.fft.rfft(field, size) * tau) ** 2, dtype=np.float64)


def _to_wavenumber(omega: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(omega) * WAVENUMBER


def _from_wavenumber(value: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(value) / WAVENUMBER


def _spectrum(ax: Axes, r: Results, *, wavenumbers: bool = False) -> None:
    """Draw the power of the field with the transitions; wavenumbers stand on an axis of their own below."""
    w, s = _padded_spectrum(r)
    lines = _transitions(r)
    strong = w[s > 1e-4 * s.max()] if s.max() > 0 else w
    right = 1.6 * max(
        [float(strong.max()) if strong.size and not lines else 0.0, *[v for _, v in lines]]
    ) or float(w[-1])
    ax.semilogy(w, np.maximum(s / s.max() if s.max() > 0 else s, 1e-9), linewidth=0.8)
    ax.set_ylim(1e-7, 3)
    ax.set_yticks([1e-6, 1e-4, 1e-2, 1e0])
    inside = [line for line in lines if line[1] < right]
    for _, value in inside:
        ax.axvline(value, color="0.6", linewidth=0.5, linestyle=":")
    # The names stand above the axes, as ticks, where no curve can be.
    names = _together(inside, 0.12 * right, "\n")
    above = ax.secondary_xaxis("top")
    above.set_xticks([value for _, value in names], [name for name, _ in names])
    above.tick_params(labelsize="small", labelcolor="0.35", length=2)
    ax.set_xlim(0, right)
    ax.set_xlabel(r"$\omega$ (hartree)")
    ax.set_ylabel("power (arb. units)")
    ax.locator_params(axis="x", nbins=4)
    if not wavenumbers:
        return
    below = ax.secondary_xaxis("bottom", functions=(_to_wavenumber, _from_wavenumber))
    below.spines["bottom"].set_position(("outward", BELOW))
    below.set_xlabel(r"$\tilde\nu$ (cm$^{-1}$)")
    below.locator_params(axis="x", nbins=3)


def _states(ax: Axes, r: Results) -> None:
    x = r["x"]
    target, final = np.abs(r["psi_target"]) ** 2, np.abs(r["psi_final"]) ** 2
    ax.plot(x, target, color=COLORS["vermillion"], label="target")
    ax.plot(x, final, color=COLORS["black"], linestyle="--", label=r"$|\psi(T)|^2$")
    inside = x[(target > 1e-4 * target.max()) | (final > 1e-4 * final.max())]
    ax.set_xlim(inside[0], inside[-1])
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel("density (1/bohr)")
    _legend_above(ax)


def _history(ax: Axes, r: Results) -> None:
    """Draw 1 - P on a logarithmic axis against the evaluations."""
    p = r["history/probability"]
    ax.semilogy(np.maximum(1.0 - p, 1e-16), **_marks(p.size))
    ax.set_xlabel("evaluation")
    ax.set_ylabel("1 - P")
    _whole_numbers(ax)


def _marks(points: int) -> dict[str, Any]:
    return {"marker": "o", "markersize": 2.5} if points <= FEW else {}


def _whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def overview(r: Results) -> Figure | None:
    """Draw the potential with initial and target state, the field, its spectrum, the final density and the convergence."""
    if in_column():
        return compose(r, (fields, populations))
    scalar = r.scalars["probability"]
    fig = figure("double", 4.8)
    top, bottom = np.ravel(np.asarray(fig.subfigures(2, 1)))
    optimised = r["history/probability"].size > 1
    a, b = top.subplots(1, 2, width_ratios=[1, 1.6])
    lower = bottom.subplots(1, 3 if optimised else 2)
    panels = [(a, _potential), (b, _field), (lower[0], _spectrum), (lower[1], _states)]
    if optimised:
        panels.append((lower[2], _history))
    for (ax, draw), label in zip(panels, "abcde", strict=False):
        draw(ax, r)
        ax.set_title(f"({label})", loc="left", fontsize="small")
    b.set_title(f"P = {format_scalar(scalar.value, error=scalar.error)}", fontsize="small")
    return fig


def fields(r: Results) -> Figure:
    """Draw the field and the guess it came from."""
    fig = figure("double", 2.6)
    ax = fig.subplots()
    _field(ax, r, "final")
    final, guess = r["field"], r["field_guess"]
    if not np.array_equal(guess, final):
        t = _femtoseconds(r["time"])
        crossings = np.flatnonzero(np.diff(np.sign(guess)))
        if crossings.size > 2 * CYCLES:
            low, high = _peaks(t, guess, crossings)
            ax.plot(t, high, color=COLORS["vermillion"], linestyle="--", linewidth=0.9, label="guess")
            ax.plot(t, low, color=COLORS["vermillion"], linestyle="--", linewidth=0.9)
        else:
            ax.plot(
                *_envelope(t, guess), color=COLORS["vermillion"], linestyle="--", linewidth=0.8, label="guess"
            )
        _legend_above(ax)
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
    _spectrum(fig.subplots(), r, wavenumbers=True)
    return fig


def populations(r: Results) -> Figure:
    """Level populations against time."""
    fig = figure("double", 2.6)
    ax = fig.subplots()
    thin = "populations" not in r
    t = _femtoseconds(r["time_populations" if thin else "time"])
    p = r["populations_thinned" if thin else "populations"]
    step = max(1, t.size // MAX_POINTS)
    drawn = [k for k in range(p.shape[1]) if p[:, k].max() > 1e-2][:10]
    for k in drawn:
        ax.plot(t[::step], p[::step, k], label=f"{k}")
    ax.plot(t[::step], p[::step].sum(axis=1), color="0.6", linestyle=":", label="sum")
    ax.set_xlabel("time (fs)")
    ax.set_ylabel("population")
    ax.set_ylim(-0.02, 1.05)
    ax.legend(title="level", ncols=2)
    return fig


def convergence(r: Results) -> Figure | None:
    """1 - P against propagations."""
    sweeps, p = r["history/sweeps"], r["history/probability"]
    if p.size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    ax.semilogy(sweeps, np.maximum(1.0 - p, 1e-16), label="1 - P", **_marks(p.size))
    verified = r.scalars["probability_verified"].value if "probability_verified" in r.scalars else None
    if isinstance(verified, float) and np.isfinite(verified):
        ax.axhline(
            max(1.0 - verified, 1e-16), color=COLORS["vermillion"], linestyle="--", label="1 - P verified"
        )
    ax.set_xlabel("sweeps (propagations)")
    ax.set_ylabel("1 - P")
    _whole_numbers(ax)
    _legend_above(ax)
    return fig


def spectrogram(r: Results) -> Figure:
    """Field in time and frequency, with the transitions marked."""
    from matplotlib.patheffects import withStroke
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
    for _, value in lines:
        if value < top:
            ax.axhline(value, color="w", linewidth=0.4, linestyle=":")
    for name, value in _together(lines, 0.06 * top):
        if value < top:
            ax.annotate(
                name, (0.99, value), xycoords=("axes fraction", "data"), xytext=(0, 1), textcoords="offset points",
                fontsize="small", color="w", ha="right", va="bottom",
                path_effects=[withStroke(linewidth=1.2, foreground="0.2")],
            )  # fmt: skip
    ax.set_ylim(0.0, top)
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
        markersize=4,
        linestyle=":" if np.unique(scale).size == scale.size else "none",
    )
    ax.set_title(f"{p.size} members")
    ax.locator_params(axis="x", nbins=5)
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
