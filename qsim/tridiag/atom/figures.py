"""Figures of ``task: atom``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, compose, figure
from qsim.tridiag.tdse.drawing import (
    DECADES,
    SHOWN_LEVELS,
    energy_unit,
    femtoseconds,
    image,
    integral,
    time_axis,
)
from qsim.tridiag.tdse.figures import dipole, field, gabor, hhg

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["FIGURES", "is_atom"]

# of drawn populations
FLOOR = 1e-14


def is_atom(r: Results) -> bool:
    """Return whether a results file is one of ``task: atom``."""
    return "population_l" in r


def _draw_norms(ax: Axes, r: Results) -> None:
    """Draw what is missing in the box and within the spheres: 1 minus the norm, which shows 1e-6 as well as 0.5."""
    t = femtoseconds(r["time"])
    missing = [("box", r["norm"])]
    if "norm_within" in r:
        missing += [
            (rf"$r < {radius:g}$ bohr", r["norm_within"][:, k]) for k, radius in enumerate(r["radius"])
        ]
    for label, values in missing:
        lost = np.maximum(1.0 - values, 1e-10)
        ax.semilogy(t, lost, label=label if lost.max() > 1e-10 else rf"{label}, below $10^{{-10}}$")
    ax.set_ylim(1e-10, 2.0)
    ax.set_ylabel("1 - norm")
    ax.legend(loc="best")
    time_axis(ax, r)


def _draw_populations(ax: Axes, r: Results) -> None:
    t, p = femtoseconds(r["time"]), r["populations"]
    order = np.argsort(-p.max(axis=0), kind="stable")
    # HDF5 returns strings as bytes
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in r["levels"]]
    # the levels that were populated most, in the order of the file
    shown = sorted(int(k) for k in order[:SHOWN_LEVELS] if p[:, k].max() > 1e-12)
    for k in shown:
        ax.semilogy(t, np.maximum(p[:, k], FLOOR), label=names[k])
    # down to a thousandth of the weakest curve: rounding below it says nothing
    ax.set_ylim(max(1e-10, 1e-3 * float(p[:, shown].max(axis=0).min()) if shown else 1e-10), 2.0)
    ax.set_ylabel("population")
    ax.legend(title="level", ncols=2, loc="center left", bbox_to_anchor=(1.01, 0.5))
    time_axis(ax, r)


def _draw_density(fig: Figure, ax: Axes, r: Results) -> None:
    """Draw the radial density on even radii."""
    # an image has even rows; the points of the map are dense at the nucleus
    rho, at = r["radial_density"], r["r_density"]
    radii = np.linspace(0.0, float(at[-1]), 400)
    even = np.array([np.interp(radii, at, row) for row in rho])
    # eight decades below the maximum: what is less is not drawn
    largest = float(even.max())
    level = np.log10(np.maximum(even, largest * 10.0**-DECADES))
    drawn = image(ax, femtoseconds(r["time"]), radii, level.T, np.log10(largest), DECADES)
    if "absorber" in r and np.any(r["absorber"] > 0):
        ax.axhline(float(r["r"][r["absorber"] > 0][0]), color="w", linewidth=0.6, linestyle=":")
    sphere = _scalar(r, "tsurff_radius")
    if sphere is not None:
        ax.axhline(sphere, color="w", linewidth=0.6, linestyle="--")
    ax.set_ylabel("r (bohr)")
    time_axis(ax, r)
    fig.colorbar(drawn, ax=ax, label=r"$\log_{10}$ density (1/bohr)")


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


def populations(r: Results) -> Figure | None:
    """Level populations against time."""
    fig = figure("double", 2.6)
    ax = fig.subplots()
    _draw_populations(ax, r)
    ax.set_title("populations of the levels")
    return fig


def norm(r: Results) -> Figure | None:
    """Draw what has left the box and the spheres."""
    fig = figure("double", 2.6)
    ax = fig.subplots()
    _draw_norms(ax, r)
    ax.set_title("norm budget")
    return fig


def density(r: Results) -> Figure | None:
    """Map of the radial density, logarithmic, with the edge of the absorber and the sphere of t-SURFF."""
    fig = figure("double", 3.0)
    ax = fig.subplots()
    _draw_density(fig, ax, r)
    ax.set_title("radial density")
    return fig


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
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in r["levels"]]
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


def _scalar(r: Results, name: str) -> float | None:
    value = r.scalars[name].value if name in r.scalars else None
    return value if isinstance(value, float) and np.isfinite(value) else None


def photoelectron(r: Results) -> Figure | None:
    """Photoelectron spectra with the comb of photon orders and the classical limits."""
    if "pes" not in r:
        return None
    fig = figure("double", 2.9)
    ax = fig.subplots()
    unit, factor = energy_unit(r)
    e, p = factor * r["energy"], r["pes"] / factor
    ax.semilogy(
        e,
        np.maximum(p, 1e-300),
        color=COLORS["black"],
        linewidth=0.8,
        label=str(r.scalars["pes_method"].value),
    )
    if "pes_error" in r:
        error = r["pes_error"] / factor
        low, high = np.maximum(p - error, 1e-300), p + error
        ax.fill_between(e, low, high, color="0.85", linewidth=0.0, label="claimed error")
    for name in ("window", "scattering", "tsurff"):
        if f"{name}_pes" in r:
            own = np.maximum(r[f"{name}_pes"] / factor, 1e-300)
            ax.semilogy(factor * r[f"{name}_energy"], own, linewidth=0.7, label=name)
    given = (_scalar(r, name) for name in ("omega", "up", "ionisation_potential"))
    omega, up, ip = (None if value is None else factor * value for value in given)
    # photon orders only where their lines stand apart
    if omega and up is not None and ip and 0.01 * (e[-1] - e[0]) < omega:
        first = int(np.ceil((ip + up) / omega))
        for n in range(first, first + int((e[-1]) / omega) + 2):
            if 0.0 < n * omega - ip - up < e[-1]:
                label = r"$n\omega - I_p - U_p$" if n == first else None
                ax.axvline(n * omega - ip - up, color="0.75", linewidth=0.6, zorder=0, label=label)
    # classical limits: direct electrons reach 2 Up, rescattered ones 10 Up
    for multiple in (2.0, 10.0):
        if up and multiple * up < e[-1]:
            ax.axvline(multiple * up, color=COLORS["vermillion"], linestyle=":", linewidth=0.8)
            ax.annotate(
                rf"${multiple:g}\,U_p$",
                (multiple * up, 0.98),
                xycoords=("data", "axes fraction"),
                va="top",
                fontsize="small",
            )
    # below 0 a window shows bound levels, which would set the scale
    shown = p[e > 0.0]
    top = float(shown.max())
    ax.set_ylim(max(1e-12 * top, 0.3 * float(shown[shown > 0].min())), 5.0 * top)
    ax.set_xlim(max(float(e[0]), -0.05 * factor), float(e[-1]))
    ax.set_xlabel(f"energy ({unit})")
    ax.set_ylabel(f"dP/dE (1/{unit})")
    ax.set_title("photoelectron spectrum")
    ax.legend()
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
    reference, angle = _scalar(r, "attoclock_reference"), _scalar(r, "attoclock_angle")
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


def errors(r: Results) -> Figure | None:
    """Draw what steps, spacings, l and other causes leave in each number whose error is claimed: what to make finer first."""
    if "claimed_parts" not in r:
        return None
    parts, names = r["claimed_parts"], [str(one) for one in r["claimed"]]
    fig = figure("double", 1.2 + 0.16 * len(names))
    ax = fig.subplots()
    at = np.arange(len(names))
    # files of earlier versions have the first three, without their names
    named = r["cause"] if "cause" in r.names else ["time step", "spacing", "angular momenta"]
    causes = [re.sub(r"^the | \(.*\)$", "", str(cause)) for cause in named]
    for k, (cause, marker) in enumerate(zip(causes, "osx^vd", strict=False)):
        ax.plot(np.maximum(parts[:, k], 1e-14), at, marker, markersize=3.5, label=cause)
    # errors of a run differ by orders of magnitude
    ax.set_xscale("log")
    ax.set_yticks(at, names, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("error (unit of each number)")
    ax.set_title("parts of the claimed errors")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def overview(r: Results) -> Figure | None:
    """Draw momenta or spectra first, then populations, densities and angular momenta, as far as the run has them."""
    # a field that turns: what it is for are momenta
    if "attoclock_map" in r:
        spectra: tuple[Callable[[Results], Figure | None], ...] = (attoclock, hhg, photoelectron)
    else:
        spectra = (hhg, photoelectron, momentum)
    return compose(r, (*spectra, populations, norm, density, angular), most=5, tallest=12.0)


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
    "angular": angular,
    "momentum": momentum,
    "attoclock": attoclock,
    "errors": errors,
}
