"""Figures of ``task: propagate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, compose, figure
from qsim.tridiag.tdse.drawing import (
    DECADES,
    SHOWN_LEVELS,
    curve,
    energy_unit,
    femtoseconds,
    image,
    time_axis,
)
from qsim.tridiag.tdse.figures import dipole, field, gabor, hhg

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

# population that a linear axis shows
VISIBLE = 0.05
# loss of norm below which its distance from 1 is drawn
KEPT = 1e-6


# ------------------------------------------------------------------------------------------ overview


def overview(r: Results) -> Figure | None:
    """Draw spectra, populations, states and density on a page, as far as the run has them."""
    if "density" not in r:
        return None
    return compose(r, (hhg, photoelectron, populations, states, density, norm, field), tallest=9.0)


# -------------------------------------------------------------------------------- what time does to it


def populations(r: Results) -> Figure | None:
    """Level populations against time."""
    if "populations" not in r:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    t, p = femtoseconds(r["time"]), r["populations"]
    order = np.argsort(-p.max(axis=0), kind="stable")
    # levels that were populated most, in their order
    shown = sorted(int(k) for k in order[:SHOWN_LEVELS] if p[:, k].max() > 1e-12)
    for k in shown:
        ax.plot(t, np.maximum(p[:, k], 1e-14), label=f"{k}")
    ax.plot(t, np.maximum(p.sum(axis=1), 1e-14), color="0.6", linestyle=":", label="sum")
    # the second most populated level decides whether a linear axis shows anything but the first
    second = float(np.sort(p.max(axis=0))[-2]) if p.shape[1] > 1 else 1.0
    # seen on a linear axis
    if second > VISIBLE:
        ax.set_ylim(-0.02, 1.05)
    else:
        ax.set_yscale("log")
        ax.set_ylim(max(1e-10, 0.3 * float(p[:, shown].max(axis=0).min()) if shown else 1e-10) * 1e-3, 2.0)
    time_axis(ax, r)
    ax.set_ylabel("population")
    ax.set_title("populations of the eigenstates")
    ax.legend(title="level", ncols=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def _draw_norms(ax: Axes, r: Results) -> None:
    """Draw the norms with their last values; of a norm that is kept alone, its distance from 1."""
    t = femtoseconds(r["time"])
    parts = [("box", r["norm"], "-")]
    if "norm_within" in r:
        parts += [
            (rf"$|x| <$ {radius:g} bohr", r["norm_within"][:, k], "-") for k, radius in enumerate(r["radius"])
        ]
    if "norm_right" in r:
        parts += [
            (rf"$x >$ {place:g} bohr", r["norm_right"][:, k], "--") for k, place in enumerate(r["place"])
        ]
    # a norm that rounding alone changes is a flat line: its distance from 1 is drawn
    kept = all(float(np.abs(1.0 - values).max()) < KEPT for _, values, _ in parts)
    for k, (label, values, dashes) in enumerate(parts):
        color = COLORS["black"] if k == 0 else list(COLORS.values())[(k - 1) % 6]
        if kept:
            ax.semilogy(
                t, np.maximum(np.abs(1.0 - values), 1e-17), color=color, linestyle=dashes, label=label
            )
        else:
            ax.plot(t, values, color=color, linestyle=dashes, label=f"{label}: {values[-1]:.5g}")
    if len(parts) > 1:
        ax.legend(title=None if kept else "at the end", loc="best")
    ax.set_ylabel("|1 - norm|" if kept else "norm")
    time_axis(ax, r)


def norm(r: Results) -> Figure | None:
    """Norm in the box and within the radii; field-free energy."""
    if "norm" not in r:
        return None
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    _draw_norms(a, r)
    a.set_title("norm")
    e = r["energy"]
    b.plot(femtoseconds(r["time"]), e)
    # rounding alone would fill the axis
    if float(np.ptp(e)) < 1e-6 * max(1e-3, abs(float(e[0]))):
        margin = 0.01 * abs(float(e[0])) + 1e-3
        b.set_ylim(float(e[0]) - margin, float(e[0]) + margin)
    b.ticklabel_format(axis="y", useOffset=False)
    time_axis(b, r)
    b.set_ylabel("energy (hartree)")
    b.set_title(r"field-free energy $\langle (p+A)^2/2 + V \rangle$")
    return fig


def _draw_density(fig: Figure, ax: Axes, r: Results) -> None:
    """Draw the density against time and position, in decades below its maximum, with the edges of the absorber."""
    rho = r["density"]
    largest = max(float(rho.max()), 1e-300)
    with np.errstate(divide="ignore"):
        level = np.log10(np.maximum(rho, largest * 10.0**-DECADES))
    drawn = image(ax, femtoseconds(r["time"]), r["x_density"], level.T, np.log10(largest), DECADES)
    # the axis ends where the density leaves the range of colours
    seen = np.flatnonzero(rho.max(axis=0) > largest * 10.0**-DECADES)
    x = r["x_density"]
    if seen.size:
        margin = 0.03 * (x[seen[-1]] - x[seen[0]]) + 1e-9
        ax.set_ylim(max(x[0], x[seen[0]] - margin), min(x[-1], x[seen[-1]] + margin))
    if "absorber" in r or "mask" in r:
        weight = r["absorber"] if "absorber" in r else 1.0 - r["mask"]
        free = r["x"][weight == 0]
        for edge in (free[0], free[-1]) if free.size else ():
            # where the absorber begins
            ax.axhline(float(edge), color="w", linestyle=":", linewidth=0.7)
    time_axis(ax, r)
    ax.set_ylabel("x (bohr)")
    fig.colorbar(drawn, ax=ax, label=r"$\log_{10} |\psi|^2$ (1/bohr)")


def density(r: Results) -> Figure | None:
    """Space-time map of the density, logarithmic."""
    if "density" not in r:
        return None
    fig = figure("double", 3.0)
    ax = fig.subplots()
    _draw_density(fig, ax, r)
    ax.set_title("density")
    return fig


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


# ------------------------------------------------------------------------------------------- spectra


def photoelectron(r: Results) -> Figure | None:
    """Photoelectron spectrum; the bound part lies below zero energy."""
    if "photoelectron_spectrum" not in r:
        return None
    fig = figure("single")
    ax = fig.subplots()
    unit, factor = energy_unit(r)
    e, p = factor * r["photoelectron_energy"], r["photoelectron_spectrum"] / factor
    for name, label in (("left", "x < 0"), ("right", "x > 0")):
        dashes = "-" if name == "left" else "--"
        ax.semilogy(
            e,
            np.maximum(r[f"photoelectron_{name}"] / factor, 1e-300),
            linewidth=0.7,
            linestyle=dashes,
            label=label,
        )
    ax.semilogy(e, np.maximum(p, 1e-300), color=COLORS["black"], linewidth=0.8, label="all")
    ax.legend()
    shown = p[e > 0] if np.any(e > 0) else p
    ax.set_ylim(
        max(float(shown.max()) * 1e-12, float(shown[shown > 0].min(initial=1.0)) * 0.3), 3.0 * float(p.max())
    )
    up = r.scalars["up"].value if "up" in r.scalars else None
    if isinstance(up, float) and up > 0:
        for multiple in (2, 10):
            if multiple * factor * up < e[-1]:
                ax.axvline(multiple * factor * up, color="0.6", linestyle=":", linewidth=0.8)
                ax.annotate(
                    rf"${multiple}\,U_p$",
                    (multiple * factor * up, 0.97),
                    xycoords=("data", "axes fraction"),
                    xytext=(2, 0),
                    textcoords="offset points",
                    va="top",
                    fontsize="small",
                )
    if e[0] < 0:
        # bound states
        ax.axvspan(float(e[0]), 0.0, color="0.92", zorder=0)
    ax.set_xlim(float(e[0]), float(e[-1]))
    ax.set_xlabel(f"energy ({unit})")
    ax.set_ylabel(f"P(E) (1/{unit})")
    ax.set_title("photoelectron spectrum")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    "field": field,
    "populations": populations,
    "norm": norm,
    "dipole": dipole,
    "density": density,
    "states": states,
    "hhg": hhg,
    "gabor": gabor,
    "photoelectron": photoelectron,
}
