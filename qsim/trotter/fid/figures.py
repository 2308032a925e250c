"""Figures of nuclei: the spectrum as spectroscopists draw it, its multiplets, and the decay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

# multiplets that are drawn on a larger scale, the strongest ones
SHOWN = 4
# share of the span that is left free beside the outermost lines
BESIDE = 0.06
# of the decay, and of the strongest line: what is smaller does not widen a figure
LEFT = 1e-3
# points of the spectrum beside a multiplet, at least
LEAST_POINTS = 12
# of the height: sticks below the base line, and the integral above the lines
STICKS, INTEGRAL = 0.12, 0.35


def _axis(r: Results) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """Return the abscissae of the spectrum and of the lines, and their label."""
    if "spectrum_ppm" in r:
        return r["spectrum_ppm"], r["line_ppm"], f"{r.scalars['isotope'].value} shift (ppm)"
    return r["spectrum_frequency"], r["line_frequency"], "frequency (Hz)"


def _window(ax: Axes, x: NDArray[np.float64], low: float, high: float) -> None:
    """Show a range from right to left, with room beside it."""
    step = abs(float(x[1] - x[0]))
    room = max(BESIDE * (high - low), LEAST_POINTS * step)
    ax.set_xlim(high + room, low - room)


def _sticks(ax: Axes, x: NDArray[np.float64], intensity: NDArray[np.float64], height: float) -> None:
    """Draw the lines below the base line."""
    depth = STICKS * height * intensity / intensity.max()
    ax.vlines(x, -0.03 * height - depth, -0.03 * height, color=COLORS["vermillion"], linewidth=0.6)


def nmr(r: Results) -> Figure | None:
    """Draw the spectrum against the shift, from right to left, with its lines as sticks and its integral, which counts nuclei."""
    if "line_intensity" not in r or not r["line_intensity"].size:
        return None
    x, lines, label = _axis(r)
    y, intensity = r["absorption"], r["line_intensity"]
    fig = figure("double", 2.5)
    ax = fig.subplots()
    top = float(y.max())
    ax.plot(x, y, color=COLORS["blue"], linewidth=0.7, label="absorption")
    _sticks(ax, lines, intensity, top)
    # each line is a step; the whole is the number of observed nuclei
    total = r["integral"] / r.scalars["detected"].value
    ax.step(
        lines, top * (1.08 + INTEGRAL * total), where="post", color="0.45", linewidth=0.8, label="integral"
    )
    for first, last, nuclei in zip(*_multiplets(r), strict=True):
        inside = (lines <= first + 1e-9) & (lines >= last - 1e-9)
        height = float(total[inside].max()) if inside.any() else 1.0
        ax.annotate(
            f"{nuclei:.3g}",
            (0.5 * (first + last), top * (1.08 + INTEGRAL * height)),
            ha="center",
            va="bottom",
            fontsize="small",
            color="0.35",
        )
    strong = lines[intensity > LEFT * intensity.max()]
    _window(ax, x, float(strong.min()), float(strong.max()))
    ax.set_ylim(-1.3 * STICKS * top - 0.03 * top, top * (1.22 + INTEGRAL))
    ax.set_yticks([])
    ax.set_xlabel(label)
    ax.grid(visible=False)
    return fig


def _multiplets(r: Results) -> tuple[Any, Any, Any]:
    """Return first and last line of every multiplet on the axis of the figures, and their nuclei."""
    if "spectrum_ppm" in r:
        return r["multiplet_from"], r["multiplet_to"], r["multiplet_nuclei"]
    lines = r["line_frequency"]
    return lines[:1], lines[-1:], r["multiplet_nuclei"].sum(keepdims=True)


def multiplets(r: Results) -> Figure | None:
    """Draw the strongest multiplets, each on a scale of its own."""
    if "spectrum_ppm" not in r or len(r["multiplet_from"]) < 2:
        return None
    x, lines, label = _axis(r)
    y, intensity = r["absorption"], r["line_intensity"]
    nuclei = r["multiplet_nuclei"]
    # the strongest ones, in the order of their shifts
    chosen = sorted(np.argsort(-nuclei, kind="stable")[:SHOWN])
    fig = figure("double", 2.0)
    for ax, k in zip(np.atleast_1d(fig.subplots(1, len(chosen))), chosen, strict=True):
        high, low = float(r["multiplet_from"][k]), float(r["multiplet_to"][k])
        _window(ax, x, low, high)
        right, left = sorted(ax.get_xlim())
        seen, inside = (x >= right) & (x <= left), (lines <= high + 1e-9) & (lines >= low - 1e-9)
        if not seen.any():
            continue
        ax.plot(x, y, color=COLORS["blue"], linewidth=0.8)
        top = float(y[seen].max())
        _sticks(ax, lines[inside], intensity[inside], top)
        ax.set_ylim(-1.3 * STICKS * top - 0.03 * top, 1.08 * top)
        ax.set_yticks([])
        ax.grid(visible=False)
        ax.locator_params(axis="x", nbins=3)
        ax.set_title(f"{nuclei[k]:.3g}", fontsize="small", color="0.35")
    fig.supxlabel(label, fontsize="medium")
    return fig


def decay(r: Results) -> Figure | None:
    """Draw the decay in the frame of the carrier."""
    if "fid" not in r or "line_intensity" not in r:
        return None
    fig = figure("double", 1.8)
    ax = fig.subplots()
    t, s = 1e-3 * r["fid_time"], r["fid"]
    seen = slice(0, int(np.flatnonzero(np.abs(s) > LEFT)[-1]) + 2)
    t, s = t[seen], s[seen]
    ax.plot(t, s.real, color=COLORS["blue"], linewidth=0.5, label="real")
    ax.plot(t, s.imag, color=COLORS["orange"], linewidth=0.5, alpha=0.7, label="imaginary")
    ax.set_xlabel("time (s)")
    ax.set_ylabel("decay")
    ax.legend(ncols=2)
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"nmr": nmr, "multiplets": multiplets, "fid": decay}
