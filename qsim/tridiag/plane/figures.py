"""Figures of ``task: plane``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, compose, figure
from qsim.tridiag.tdse.drawing import DECADES, femtoseconds, time_axis
from qsim.tridiag.tdse.figures import dipole, field, gabor, hhg, populations

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["FIGURES", "is_plane"]

# maps side by side
MOST_MAPS = 6


def is_plane(r: Results) -> bool:
    """Return True for the results of this task."""
    return "map_time" in r


def overview(r: Results) -> Figure | None:
    """Draw the density, norms, populations, orbitals, harmonics and field on a page, as far as the run has them."""
    return compose(
        r, (density, norms, parts, momenta, currents, populations, orbitals, hhg, field), tallest=9.0
    )


def density(r: Results) -> Figure | None:
    """Map of |psi(x, y)|^2 at some times, with the radius of the regions."""
    if "density_xy" not in r:
        return None
    values, times = r["density_xy"], femtoseconds(r["map_time"])
    chosen = np.unique(np.round(np.linspace(0, len(times) - 1, min(MOST_MAPS, len(times)))).astype(int))
    columns = min(3, len(chosen))
    rows = -(-len(chosen) // columns)
    fig = figure("double", 2.4 * rows)
    axes = np.atleast_1d(fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)).ravel()
    top = float(np.log10(values.max()))
    x, y = r["x_density"], r["y_density"]
    radius = r.scalars["region_radius"].value if "region_radius" in r.scalars else None
    first, second = _coordinates(r)
    for ax in axes[len(chosen) :]:
        ax.set_axis_off()
    for place, (ax, k) in enumerate(zip(axes, chosen, strict=False)):
        ax.grid(visible=False)
        drawn = ax.imshow(
            np.log10(np.maximum(values[k].T, 10.0 ** (top - 2.0 * DECADES))),
            extent=(x[0], x[-1], y[0], y[-1]),
            origin="lower",
            aspect="auto",
            cmap="magma",
            vmin=top - DECADES,
            vmax=top,
        )
        for line in (-radius, radius) if isinstance(radius, float) else ():
            ax.axvline(line, color="white", linewidth=0.4, linestyle=":")
            ax.axhline(line, color="white", linewidth=0.4, linestyle=":")
        ax.set_title(f"{times[k]:.3g} fs")
        if place >= len(chosen) - columns:
            ax.set_xlabel(f"{first} (bohr)")
        if place % columns == 0:
            ax.set_ylabel(f"{second} (bohr)")
    bar = fig.colorbar(drawn, ax=axes.tolist())
    bar.set_label(r"$\log_{10} |\psi|^2$ (bohr$^{-2}$)")
    return fig


def _coordinates(r: Results) -> tuple[str, str]:
    """Return the names of both coordinates."""
    first, second = (str(name) for name in r["coordinate"])
    return first, second


def momenta(r: Results) -> Figure | None:
    """Map of the momenta of both coordinates on a logarithmic scale, and its change by another radius."""
    if "momentum_map" not in r or not r["momentum_map"].max() > 0.0:
        return None
    fig = figure("double", 2.8)
    axes = fig.subplots(1, 2, sharex=True, sharey=True)
    x, y = r["momentum_x"], r["momentum_y"]
    top = float(np.log10(r["momentum_map"].max()))
    first, second = _coordinates(r)
    for ax, name, title in zip(
        axes, ("momentum_map", "momentum_map_change"), ("momenta", "change by another radius"), strict=True
    ):
        ax.grid(visible=False)
        drawn = ax.imshow(
            np.log10(np.maximum(r[name].T, 10.0 ** (top - 2.0 * DECADES))),
            extent=(x[0], x[-1], y[0], y[-1]),
            origin="lower",
            aspect="auto",
            cmap="magma",
            vmin=top - DECADES,
            vmax=top,
        )
        ax.set_title(title)
        ax.set_xlabel(f"momentum of {first} (a.u.)")
    axes[0].set_ylabel(f"momentum of {second} (a.u.)")
    fig.colorbar(drawn, ax=axes.tolist()).set_label(r"$\log_{10}$ density")
    return fig


def currents(r: Results) -> Figure | None:
    """Lines of the current density at the end over |psi(x, y)|^2."""
    if "current_x" not in r:
        return None
    fig = figure("single", 2.8)
    ax = fig.subplots()
    x, y, density = r["x_density"], r["y_density"], r["density_xy"][-1].T
    ax.grid(visible=False)
    ax.imshow(
        np.sqrt(density),
        extent=(x[0], x[-1], y[0], y[-1]),
        origin="lower",
        aspect="auto",
        cmap="Greys",
    )
    u, v = r["current_x"][-1].T, r["current_y"][-1].T
    size = np.hypot(u, v)
    weak = size < 1e-3 * size.max()
    ax.streamplot(
        x,
        y,
        np.ma.masked_where(weak, u),
        np.ma.masked_where(weak, v),
        color=COLORS["blue"],
        density=1.2,
        linewidth=0.5,
        arrowsize=0.6,
    )
    first, second = _coordinates(r)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    ax.set_xlabel(f"{first} (bohr)")
    ax.set_ylabel(f"{second} (bohr)")
    ax.set_title("current density at the end")
    return fig


def parts(r: Results) -> Figure | None:
    """Norms in parts of the grid against time."""
    if "norm_of_parts" not in r:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    t = femtoseconds(r["time"])
    for k, name in enumerate(r["part"]):
        ax.plot(t, r["norm_of_parts"][:, k], label=str(name).removeprefix("norm_in_").replace("_", " "))
    time_axis(ax, r)
    ax.set_ylabel("norm")
    ax.set_title("norms in parts of the grid")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def norms(r: Results) -> Figure | None:
    """Norms by regions, and what the absorber has taken, against time."""
    if "regions" not in r:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    t, parts = femtoseconds(r["time"]), r["regions"]
    for k, (name, color) in enumerate(
        zip(("both inside", "one inside", "none inside"), ("blue", "green", "vermillion"), strict=True)
    ):
        ax.plot(t, np.maximum(parts[:, k], 1e-16), color=COLORS[color], label=name)
    if "absorbed" in r:
        for k, (name, color) in enumerate(
            zip(("absorbed, single", "absorbed, double"), ("green", "vermillion"), strict=True)
        ):
            ax.plot(
                t, np.maximum(r["absorbed"][:, k], 1e-16), color=COLORS[color], linestyle="--", label=name
            )
    ax.set_yscale("log")
    ax.set_ylim(1e-10, 3.0)
    time_axis(ax, r)
    ax.set_ylabel("norm")
    ax.set_title("norms by regions")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def orbitals(r: Results) -> Figure | None:
    """Occupations of natural orbitals at the times of the maps."""
    if "occupations" not in r:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    t, p = femtoseconds(r["map_time"]), r["occupations"]
    for k in range(min(8, p.shape[1])):
        ax.plot(t, np.maximum(p[:, k], 1e-14), marker=".", label=f"{k + 1}")
    ax.set_yscale("log")
    ax.set_ylim(1e-10, 2.0)
    ax.set_xlabel("time (fs)")
    ax.set_ylabel("occupation")
    ax.set_title("natural orbitals")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    "density": density,
    "norm": norms,
    "parts": parts,
    "currents": currents,
    "momenta": momenta,
    "populations": populations,
    "orbitals": orbitals,
    "dipole": dipole,
    "hhg": hhg,
    "gabor": gabor,
    "field": field,
}
