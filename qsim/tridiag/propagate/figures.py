"""Figures that only a line has: potential, levels, states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, compose, figure
from qsim.tridiag.tdse import figures as motion
from qsim.tridiag.tdse.drawing import SHOWN_LEVELS, curve

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def overview(r: Results) -> Figure | None:
    """Draw spectra, populations, states and density on a page, as far as the run has them."""
    if "density" not in r:
        return None
    return compose(
        r,
        (
            *(motion.FIGURES[name] for name in ("hhg", "photoelectron", "populations")),
            states,
            motion.density,
            motion.norm,
            motion.field,
        ),
        tallest=9.0,
    )


def _draw_potential(ax: Axes, r: Results) -> tuple[float, float]:
    """Draw V where something happens; return the limits of the energy axis."""
    x, v = r["x"], r["potential"]
    rho = np.abs(r["psi_initial"]) ** 2
    energies = (
        r["energies"][:SHOWN_LEVELS] if "energies" in r else np.array([r.scalars["energy_initial"].value])
    )
    low, top = float(min(v.min(), energies.min())), float(energies.max())
    height = float(v.max())
    # or a wall to cut off
    high = height if height < top + 3.0 * (top - low) + 1e-3 else top + 0.2 * (top - low)
    high = max(high, top)
    # the region of the initial density and of the classically allowed motion
    bound = np.flatnonzero((rho > 1e-6 * rho.max()) | (v < float(energies.max())))
    inside = bound if bound.size else np.arange(x.size)
    left, right = float(x[inside[0]]), float(x[inside[-1]])
    centre = 0.5 * (left + right)
    half = min(0.6 * (right - left) + 1.0, 0.5 * float(x[-1] - x[0]))
    # a wide packet would shrink a short-ranged potential to a spike
    if half > 60.0 and float(np.abs(v).max()) > 0.0 and "energies" in r:
        strong = x[np.abs(v - np.median(v)) > 0.02 * np.abs(v - np.median(v)).max()]
        if strong.size:
            centre, half = (
                float(0.5 * (strong[0] + strong[-1])),
                min(half, float(0.75 * (strong[-1] - strong[0]) + 5.0)),
            )
    span = max(high - low, 1e-3)
    ax.plot(x, v, color=COLORS["black"])
    ax.set_xlim(max(float(x[0]), centre - half), min(float(x[-1]), centre + half))
    limits = (low - 0.08 * span, max(high + 0.15 * span, top + 0.35 * span))
    ax.set_ylim(*limits)
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel("energy (hartree)")
    return limits


def _enlarge(ax: Axes, r: Results) -> None:
    """Draw a barrier or well that is a line on the whole axis once more, by itself."""
    x, v = r["x"], r["potential"]
    far = 0.5 * float(v[0] + v[-1])
    rough = np.flatnonzero(np.abs(v - far) > 0.02 * float(np.ptp(v)))
    left, right = ax.get_xlim()
    if not rough.size or x[rough[-1]] - x[rough[0]] > 0.06 * (right - left):
        return
    middle = 0.5 * float(x[rough[0]] + x[rough[-1]])
    half = max(0.7 * float(x[rough[-1]] - x[rough[0]]), 5 * float(x[1] - x[0]))
    shown = np.abs(x - middle) < half
    inset = ax.inset_axes((0.66, 0.45, 0.33, 0.5))
    inset.plot(x[shown], v[shown], color="k", linewidth=0.9)
    # levels, or the energy of the packet
    for line in ax.get_lines()[1:]:
        y = float(np.asarray(line.get_ydata())[0])
        inset.axhline(y, color=line.get_color(), linestyle=line.get_linestyle(), linewidth=0.8)
    inset.set_xlim(middle - half, middle + half)
    inset.tick_params(labelsize="x-small")
    inset.locator_params(nbins=3)


def states(r: Results) -> Figure | None:
    """Potential with the levels; densities of the first and the last state."""
    if "psi_final" not in r:
        return None
    fig = figure("double", 2.9)
    a, b = fig.subplots(1, 2)
    low, high = _draw_potential(a, r)
    colors = list(COLORS.values())
    if "energies" in r:
        for k, e in enumerate(r["energies"][:SHOWN_LEVELS]):
            a.axhline(float(e), color=colors[k % 6], linewidth=0.7)
    scale = 0.2 * (high - low)
    rho0, x = np.abs(r["psi_initial"]) ** 2, r["x"]
    at = float(r.scalars["energy_initial"].value or 0.0)
    if "energies" not in r:
        # energy of the packet
        a.axhline(at, color=COLORS["sky"], linestyle="--", linewidth=0.8)
    a.fill_between(x, at, at + scale * rho0 / rho0.max(), color=COLORS["sky"], alpha=0.6, linewidth=0)
    a.set_title("potential, levels, initial density")
    _enlarge(a, r)
    rho = np.abs(r["psi_final"]) ** 2
    # below this both curves are rounding
    floor = 1e-14 * max(float(rho0.max()), float(rho.max()))
    b.semilogy(*curve(x, np.maximum(rho0, floor)), color="0.6", label="t = 0")
    b.semilogy(*curve(x, np.maximum(rho, floor)), linewidth=0.8, label="end")
    b.set_xlim(float(x[0]), float(x[-1]))
    b.set_ylim(floor, None)
    if "absorber" in r or "mask" in r:
        weight = r["absorber"] if "absorber" in r else 1.0 - r["mask"]
        strip = x[weight > 0]
        for part in (strip[strip < 0.5 * (x[0] + x[-1])], strip[strip > 0.5 * (x[0] + x[-1])]):
            if part.size:
                b.axvspan(float(part[0]), float(part[-1]), color="0.9", zorder=0)
    b.set_xlabel("x (bohr)")
    b.set_ylabel(r"$|\psi|^2$ (1/bohr)")
    b.set_title("density" + (", absorber shaded" if "absorber" in r or "mask" in r else ""))
    b.legend()
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    **motion.FIGURES,
    "states": states,
}
