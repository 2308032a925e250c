"""Figures that only an atom has: angular momenta, radial functions, momenta, the attoclock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, compose, figure
from qsim.tridiag.tdse import figures as motion
from qsim.tridiag.tdse.drawing import (
    energy_unit,
    femtoseconds,
    image,
    integral,
    level_names,
    number,
    time_axis,
)
from qsim.tridiag.tdse.figures import is_atom

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["FIGURES"]


def _draw_angular(fig: Figure, ax: Axes, r: Results) -> None:
    p = r["population_l"]
    # without a field one l remains, of which there is no map
    if p.shape[1] < 2:
        ax.plot(femtoseconds(r["time"]), p[:, 0])
        ax.set_ylabel(f"norm of l = {int(r['l'][0])}")
        time_axis(ax, r)
        return
    # down to rounding: l that the run does not need show as empty
    level = np.log10(np.maximum(p, 1e-16))
    drawn = image(ax, femtoseconds(r["time"]), r["l"].astype(float), level.T, 0.0, 16.0)
    ax.set_ylabel("l")
    ax.locator_params(axis="y", integer=True)
    time_axis(ax, r)
    fig.colorbar(drawn, ax=ax, label=r"$\log_{10}$ norm")


def angular(r: Results) -> Figure | None:
    """Norm of each angular momentum against time: whether lmax suffices."""
    if not is_atom(r):
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    _draw_angular(fig, ax, r)
    ax.set_title("angular momenta")
    return fig


def _radial(r: Results) -> Any:
    """Return |u|^2 of each l at the end, (l, points), from the smallest l on; nothing where the state is not stored."""
    if "u_final" in r:
        return np.abs(r["u_final"]) ** 2
    out = np.zeros((r["population_l"].shape[1], r["r"].size))
    if "u_channels" in r:
        # channels of one l and several m add up
        np.add.at(out, r["channels"][:, 0].astype(int) - int(r["l"][0]), np.abs(r["u_channels"]) ** 2)
    return out


def states(r: Results) -> Figure | None:
    """Level diagram of the potential, and radial functions at the end."""
    fig = figure("double", 2.9)
    a, b = fig.subplots(1, 2)
    radii, v = r["r"], r["potential"]
    e = r["level_energy"]
    names = level_names(r)
    valence = r.scalars["ionisation_potential"].value
    # core levels of a heavy atom would press the valence levels into a line
    low = -2.0 * float(valence) if isinstance(valence, float) else 1.15 * float(e.min())
    a.plot(radii, np.maximum(v, low), color="0.6")
    written: dict[int, float] = {}
    for energy, name in sorted(zip(e.tolist(), names, strict=True)):
        l = "spdfghiklmnoqrtuvwxyz".find(name[-1])
        a.plot([1.0 + 4.0 * l, 3.4 + 4.0 * l], [energy, energy], color=COLORS["blue"])
        if (
            low < energy and energy - written.get(l, -np.inf) > -0.045 * low
        ):  # else it would cover the one below
            # the potential passes there
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            a.annotate(name, (3.5 + 4.0 * l, energy), fontsize="small", va="center", bbox=behind)
            written[l] = energy
    a.set_xlim(0.0, max(16.0, 4.0 * len({name[-1] for name in names}) + 4.0))
    a.set_ylim(low, max(0.1, -0.1 * low))
    a.set_xlabel("r (bohr); levels by l")
    a.set_ylabel("energy (hartree)")
    a.set_title("potential and levels")
    u = _radial(r)
    largest = max(float(u.max()), 1e-300)
    for l in range(min(len(u), 6)):
        b.semilogy(radii, np.maximum(u[l], largest * 1e-14), linewidth=0.7, label=f"l = {int(r['l'][0]) + l}")
    b.set_xlim(0.0, float(radii[-1]))
    b.set_ylim(largest * 1e-14, 3.0 * largest)
    b.set_xlabel("r (bohr)")
    b.set_ylabel(r"$|u_l|^2$ (1/bohr)")
    b.set_title("state at the end")
    b.legend(ncols=2)
    return fig


def momentum(r: Results) -> Figure | None:
    """Angle-resolved spectrum, and the momentum map: along the field, or upright on the plane in which it turns."""
    if "momentum_map" not in r:
        return None
    fig = figure("double", 2.9)
    a, b = fig.subplots(1, 2)
    pad = r["pad"]
    top = np.log10(float(pad[r["energy"] > 0].max()))
    level = np.log10(np.maximum(pad, 10.0 ** (top - 6.0)))
    unit, factor = energy_unit(r)
    drawn = image(a, factor * r["energy"], np.degrees(r["theta"]), level.T, top, 6.0)
    a.set_xlabel(f"energy ({unit})")
    a.set_ylabel(r"$\theta$ (degrees)")
    a.set_yticks(range(0, 181, 45))
    mean = ", mean over azimuths" if "pad_sphere" in r else ""
    a.set_title(rf"$\log_{{10}}$ d$^2$P/dEd$\Omega${mean}")
    fig.colorbar(drawn, ax=a)
    density = r["momentum_map"]
    top = np.log10(float(density.max()))
    level = np.log10(np.maximum(density, 10.0 ** (top - 5.0)))
    drawn = image(b, r["momentum_z"], r["momentum_x"], level.T, top, 5.0)
    b.set_aspect("equal")
    b.set_xlabel(r"$k_z$ (a.u.)")
    b.set_ylabel(r"$k_x$ (a.u.)")
    b.set_title(r"$\log_{10}$ d$^3$P/dk$^3$")
    fig.colorbar(drawn, ax=b)
    return fig


def attoclock(r: Results) -> Figure | None:
    """Momentum map in the plane of a field that turns, with -A(t), and the distribution of azimuths."""
    if "attoclock_map" not in r:
        return None
    fig = figure("double", 3.0)
    a, b = fig.subplots(1, 2)
    side, density = r["momentum_x"], r["attoclock_map"]
    drawn = image(a, side, r["momentum_y"], density, float(density.max()), float(density.max()))
    t = r["trace/time"]
    # -A is the integral of E
    along, across = (integral(r[name], t) for name in ("trace/field", "trace/field_y"))
    a.plot(along, across, color="w", linewidth=0.6, linestyle=":", label=r"$-A(t)$")
    # the map about -A(t); far momenta are empty
    reach = min(float(side[-1]), 1.6 * float(np.hypot(along, across).max()) + 0.3)
    a.set_xlim(-reach, reach)
    a.set_ylim(-reach, reach)
    a.set_aspect("equal")
    a.set_xlabel("$k_x$ (a.u.)")
    a.set_ylabel("$k_y$ (a.u.)")
    a.set_title(r"d$^3$P/dk$^3$ in the plane; dotted: $-A(t)$")
    fig.colorbar(drawn, ax=a)
    degrees = np.degrees(r["azimuth"])
    b.plot(degrees, r["attoclock_distribution"])
    reference, angle = number(r, "attoclock_reference"), number(r, "attoclock_angle")
    if reference is not None and angle is not None:
        b.axvline(reference, color="0.5", linestyle=":", label=r"$-A$ at the peak of $|E|$")
        top = degrees[int(np.argmax(r["attoclock_distribution"]))]
        b.axvline(top, color=COLORS["vermillion"], linewidth=0.8, label=f"maximum, {angle:.1f}° away")
        b.legend()
    b.set_xlim(-180.0, 180.0)
    b.set_xticks(range(-180, 181, 60))
    b.set_ylim(bottom=0.0)
    b.set_xlabel("azimuth (degrees)")
    b.set_ylabel(r"$\int k\,$d$k\,$d$^3$P/dk$^3$")
    b.set_title("azimuths of the photoelectrons")
    return fig


def overview(r: Results) -> Figure | None:
    """Draw momenta or spectra first, then populations, densities and angular momenta, as far as the run has them."""
    # a field that turns: what it is for are momenta
    if "attoclock_map" in r:
        spectra: tuple[Callable[[Results], Figure | None], ...] = (
            attoclock,
            motion.hhg,
            motion.photoelectron,
        )
    else:
        spectra = (motion.hhg, motion.photoelectron, momentum)
    return compose(
        r, (*spectra, motion.populations, motion.norm, motion.density, angular), most=5, tallest=12.0
    )


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    **motion.FIGURES,
    "states": states,
    "angular": angular,
    "momentum": momentum,
    "attoclock": attoclock,
}
