"""Figures of the controls: values, spectra, and power in time and frequency."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.plotting import COLORS, figure
from qsim.qoc.figures import reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from qsim.core.results.results import Results

# Points of a drawn curve; longer ones are thinned by their envelope.
MAX_POINTS = 4000
# Cycles from which a control is drawn as its envelope, with some of them in an inset.
CYCLES = 30
# Slots from which steps are drawn thinner, and values from which a spectrogram means something.
MANY_SLOTS, LEAST_VALUES = 200, 64
# Panels of controls in a figure.
MOST_PANELS = 6
# Power, relative to its largest value, from which a spectrum is shown.
POWER = 1e-4
# Points between an axis of frequencies and that of wavenumbers below it.
BELOW = 30


def envelope(
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


def _crossings(r: Results, y: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Return where a field of many cycles changes its sign; None for few, and for controls that are no fields."""
    found = np.flatnonzero(np.diff(np.sign(y)))
    return found if found.size > 2 * CYCLES and reading.is_molecule(r) else None


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
    place = int(np.searchsorted(crossings, int(np.argmax(np.abs(y)))))
    first, last = crossings[max(0, place - 4)], crossings[min(crossings.size - 1, place + 4)]
    low, high = float(y.min()), float(y.max())
    ax.set_ylim(low - 0.05 * (high - low), high + 0.75 * (high - low))
    inner = ax.inset_axes((0.36, 0.66, 0.42, 0.32))
    inner.plot(t[first : last + 1], y[first : last + 1], linewidth=0.8)
    inner.set_xlim(float(t[first]), float(t[last]))
    inner.tick_params(labelsize="x-small")
    inner.set_yticks([0.0])


def draw(ax: Axes, r: Results, number: int, *, label: str, inset: bool = False) -> None:
    """Draw one control: as the steps that it is; many cycles as the band between their peaks, with some in an inset."""
    edges, y, look = reading.edges_of(r), reading.controls(r)[number].values, reading.look(number)
    middles = 0.5 * (edges[1:] + edges[:-1])
    if (crossings := _crossings(r, y)) is not None:
        low, high = _peaks(middles, y, crossings)
        ax.fill_between(middles, low, high, color=look["color"], alpha=0.35, linewidth=0, label=label)
        if inset:
            _inset(ax, middles, y, crossings)
    elif y.size > MAX_POINTS:
        ax.plot(*envelope(middles, y), linewidth=0.8, label=label, **look)
    else:
        ax.stairs(y, edges, baseline=None, label=label, linewidth=0.9 if y.size < MANY_SLOTS else 0.6, **look)
    ax.set_xlim(float(edges[0]), float(edges[-1]))


def _draw_guess(ax: Axes, r: Results, guess: NDArray[np.float64]) -> None:
    """Draw first values behind the final ones."""
    edges = reading.edges_of(r)
    middles = 0.5 * (edges[1:] + edges[:-1])
    if (crossings := _crossings(r, guess)) is not None:
        look: dict[str, Any] = {"color": COLORS["vermillion"], "linestyle": "--", "linewidth": 0.9}
        low, high = _peaks(middles, guess, crossings)
        ax.plot(middles, high, label="guess", **look)
        ax.plot(middles, low, **look)
    elif guess.size > MAX_POINTS:
        ax.plot(*envelope(middles, guess), color="0.7", linewidth=0.8, label="guess", zorder=1)
    else:
        ax.stairs(guess, edges, baseline=None, color="0.7", linewidth=0.8, label="guess", zorder=1)


def _limits(ax: Axes, bounds: tuple[float, float] | None) -> None:
    """Draw bounds as thin lines."""
    for value in bounds or ():
        ax.axhline(value, color="0.45", linewidth=0.6, linestyle=(0, (5, 3)), zorder=0)


def panel(ax: Axes, r: Results) -> None:
    """Draw all controls in one panel, with the bounds that they share."""
    drawn = reading.controls(r)
    for number, one in enumerate(drawn):
        draw(ax, r, number, label=one.name, inset=len(drawn) == 1)
    shared = {one.bounds for one in drawn}
    if len(shared) == 1:
        _limits(ax, shared.pop())
    ax.set_xlabel(reading.clock(r)[1])
    ax.set_ylabel(f"{'field' if reading.is_molecule(r) else 'control'}{reading.unit_of(r)}")
    if len(drawn) > 1:
        reading.legend_above(ax, 6)


def fields(r: Results) -> Figure:
    """Draw every control in a panel of its own, with its first values and its bounds."""
    drawn = reading.controls(r)[:MOST_PANELS]
    alone = len(drawn) == 1
    fig = figure("double", 2.6 if alone else 1.0 + 1.2 * len(drawn))
    axes = fig.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    for number, (ax, one) in enumerate(zip(axes, drawn, strict=True)):
        draw(ax, r, number, label="final" if alone else one.name, inset=alone)
        if not np.array_equal(one.guess, one.values):
            _draw_guess(ax, r, one.guess)
        _limits(ax, one.bounds)
        ax.set_ylabel(f"{one.name}{reading.unit_of(r)}")
    reading.legend_above(axes[0])
    axes[-1].set_xlabel(reading.clock(r)[1])
    if alone and reading.is_molecule(r):
        axes[0].secondary_yaxis("right", functions=(_to_si, _from_si)).set_ylabel("V/nm")
    return fig


def _to_si(field: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(field) * float(to_unit(1.0, "V/nm", "electric field"))


def _from_si(value: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(value) / float(to_unit(1.0, "V/nm", "electric field"))


def _to_wavenumber(omega: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(omega) * reading.WAVENUMBER


def _from_wavenumber(value: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(value) / reading.WAVENUMBER


def spectrum_panel(ax: Axes, r: Results, *, wavenumbers: bool = False) -> None:
    """Draw the power of the controls with the transitions; wavenumbers stand on an axis of their own below."""
    found = reading.spectra(r)
    assert found is not None
    (factor, label), (frequency, powers) = reading.angular(r), found
    w, largest = factor * frequency, max(float(p.max()) for p in powers.values()) or 1.0
    lines = [(name, factor * value) for name, value in reading.transitions(r)]
    strong = np.flatnonzero(np.max(list(powers.values()), axis=0) > POWER * largest)
    reached = 1.3 * float(w[strong[-1]]) if strong.size else float(w[-1])
    right = min(float(w[-1]), 1.6 * max(value for _, value in lines) if lines else reached)
    for number, (name, power) in enumerate(powers.items()):
        look = reading.look(number) | {"linewidth": 0.8}
        ax.semilogy(w, np.maximum(power / largest, 1e-9), label=name, **look)
    ax.set_ylim(1e-7, 3)
    ax.set_yticks([1e-6, 1e-4, 1e-2, 1e0])
    inside = [line for line in lines if line[1] < right]
    for _, value in inside:
        ax.axvline(value, color="0.6", linewidth=0.5, linestyle=":")
    # The names stand above the axes, as ticks, where no curve can be.
    if inside:
        names = reading.together(inside, 0.12 * right, "\n")
        above = ax.secondary_xaxis("top")
        above.set_xticks([value for _, value in names], [name for name, _ in names])
        above.tick_params(labelsize="small", labelcolor="0.35", length=2)
    if len(powers) > 1:
        ax.legend(fontsize="small")
    ax.set_xlim(0, right)
    ax.set_xlabel(label)
    ax.set_ylabel("power (arb. units)")
    ax.locator_params(axis="x", nbins=4)
    if wavenumbers and reading.is_molecule(r):
        below = ax.secondary_xaxis("bottom", functions=(_to_wavenumber, _from_wavenumber))
        below.spines["bottom"].set_position(("outward", BELOW))
        below.set_xlabel(r"$\tilde\nu$ (cm$^{-1}$)")
        below.locator_params(axis="x", nbins=3)


def spectrum(r: Results) -> Figure | None:
    """Draw the power spectra of the controls with the transitions; None without a control, and in old files without them."""
    if reading.spectra(r) is None or not any(np.any(one.values) for one in reading.controls(r)):
        return None
    fig = figure("single")
    spectrum_panel(fig.subplots(), r, wavenumbers=True)
    return fig


def spectrogram(r: Results) -> Figure | None:
    """Draw the first control in time and frequency, with the transitions marked; None for few values."""
    from matplotlib.patheffects import withStroke
    from scipy.signal import ShortTimeFFT
    from scipy.signal.windows import gaussian

    t, y = r["time"], reading.controls(r)[0].values
    if y.size < LEAST_VALUES or not np.any(y):
        return None
    fig = figure("double", 2.8)
    ax = fig.subplots()
    (factor, label), (clock, time_label) = reading.angular(r), reading.clock(r)
    lines = [(name, factor * value) for name, value in reading.transitions(r)]
    tau = float(t[1] - t[0])
    width = max(8, min(y.size // 16, 2000))
    window = gaussian(2 * width + 1, width / 2.5)
    hop = max(1, y.size // 600)
    transform = ShortTimeFFT(window, hop, 1.0 / tau, fft_mode="onesided", mfft=4 * (2 * width + 1))
    power = np.abs(transform.stft(y)) ** 2
    w = factor * 2 * np.pi * transform.f
    top = 1.4 * max([v for _, v in lines], default=float(w[-1]) / 1.4)
    keep = w <= top
    decibels = 10 * np.log10(np.maximum(power[keep] / max(power.max(), 1e-300), 1e-5))
    times = clock * transform.t(y.size)
    image = ax.pcolormesh(times, w[keep], decibels, shading="auto", cmap="magma", rasterized=True)
    for _, value in lines:
        ax.axhline(value, color="w", linewidth=0.4, linestyle=":")
    stroke = [withStroke(linewidth=1.2, foreground="0.2")]
    beside: dict[str, Any] = {
        "xycoords": ("axes fraction", "data"),
        "xytext": (0, 1),
        "textcoords": "offset points",
        "fontsize": "small",
    }
    for name, value in reading.together(lines, 0.06 * top):
        ax.annotate(name, (0.99, value), **beside, color="w", ha="right", va="bottom", path_effects=stroke)
    ax.set_ylim(0.0, top)
    ax.set_xlim(0, clock * float(t[-1]))
    ax.set_xlabel(time_label)
    ax.set_ylabel(label)
    fig.colorbar(image, ax=ax, label="power (dB)")
    return fig
