"""Figures of one motion, each with the panels that its geometry and its deck have.

Field, dipole, norms, populations, density, harmonics and their time-frequency map, photoelectrons, parts of the claimed errors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.plotting import COLORS, figure
from qsim.tridiag.tdse.drawing import (
    DECADES,
    SHOWN_LEVELS,
    curve,
    energy_unit,
    femtoseconds,
    image,
    integral,
    level_names,
    number,
    time_axis,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = [
    "FIGURES",
    "density",
    "draw_norms",
    "field",
    "hhg",
    "is_atom",
    "norm",
    "photoelectron",
    "populations",
]

# population that a linear axis shows
VISIBLE = 0.05
# of drawn populations
FLOOR = 1e-14
# loss of norm below which its distance from 1 is drawn
KEPT = 1e-6


def is_atom(r: Results) -> bool:
    """Return whether a results file is one of ``task: atom``."""
    return "population_l" in r


def field(r: Results) -> Figure | None:
    """Electric field and vector potential."""
    if "trace/field" not in r or not np.any(r["trace/field"]):
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    ax.plot(*curve(femtoseconds(r["trace/time"]), r["trace/field"]), linewidth=0.8)
    turning = "trace/field_y" in r and bool(np.any(r["trace/field_y"]))
    ax.set_ylabel("$E_x$ (full), $E_y$ (dotted) (a.u.)" if turning else "E (a.u.)", color=COLORS["blue"])
    other = ax.twinx()
    # A is stored at the output times alone, which may be few: it is minus the integral of the field of every step
    t, start = r["trace/time"], float(r["vector_potential"][0])
    for name, line in (
        (("trace/field", "--"), ("trace/field_y", "-.")) if turning else (("trace/field", "--"),)
    ):
        # A along y begins at 0: the rows of the file have only that along x
        A = start - integral(r[name], t) if name == "trace/field" else -integral(r[name], t)
        other.plot(*curve(femtoseconds(t), A), color=COLORS["vermillion"], linestyle=line, linewidth=0.8)
    if turning:
        ax.plot(
            *curve(femtoseconds(t), r["trace/field_y"]), color=COLORS["blue"], linestyle=":", linewidth=0.8
        )
    label = "$A_x$ (dashed), $A_y$ (dash-dotted) (a.u.)" if turning else "A (a.u.)"
    other.set_ylabel(label, color=COLORS["vermillion"])
    # zero at the same height
    for one in (ax, other):
        largest = 1.08 * max(abs(v) for v in one.get_ylim())
        one.set_ylim(-largest, largest)
    time_axis(ax, r)
    ax.set_title("laser field and vector potential")
    return fig


def dipole(r: Results) -> Figure | None:
    """Dipole and velocity, and acceleration, along the fine trace."""
    if "trace/dipole" not in r:
        return None
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2, sharex=True)
    # two curves of one panel, each with an axis of its own
    axes = (a, a.twinx(), b)
    t = femtoseconds(r["trace/time"])
    # an atom in a field along one direction calls it z
    x = "z" if "population_l" in r and "trace/field_y" not in r else "x"
    for ax, name, label, color in zip(
        axes,
        ("dipole", "velocity", "acceleration"),
        (
            rf"$\langle {x} \rangle$ (bohr)",
            rf"$\langle \dot {x} \rangle$ (a.u.)",
            rf"$\langle \ddot {x} \rangle$ (a.u.)",
        ),
        ("blue", "green", "vermillion"),
        strict=True,
    ):
        ax.plot(*curve(t, r[f"trace/{name}"]), color=COLORS[color], linewidth=0.7)
        ax.set_ylabel(label, color=COLORS[color])
    axes[1].grid(visible=False)
    a.set_title("dipole and velocity")
    b.set_title("acceleration")
    for ax in (a, b):
        time_axis(ax, r)
    return fig


def populations(r: Results) -> Figure | None:
    """Level populations against time."""
    if "populations" not in r:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    t, p, names = femtoseconds(r["time"]), r["populations"], level_names(r)
    order = np.argsort(-p.max(axis=0), kind="stable")
    # levels that were populated most, in their order
    shown = sorted(int(k) for k in order[:SHOWN_LEVELS] if p[:, k].max() > 1e-12)
    for k in shown:
        ax.plot(t, np.maximum(p[:, k], FLOOR), label=names[k])
    if not is_atom(r):
        ax.plot(t, np.maximum(p.sum(axis=1), FLOOR), color="0.6", linestyle=":", label="sum")
    # the second most populated level decides whether a linear axis shows anything but the first
    second = float(np.sort(p.max(axis=0))[-2]) if p.shape[1] > 1 else 1.0
    if second > VISIBLE:
        ax.set_ylim(-0.02, 1.05)
    else:
        # down to a thousandth of the weakest curve: rounding below it says nothing
        ax.set_yscale("log")
        ax.set_ylim(max(1e-10, 1e-3 * float(p[:, shown].max(axis=0).min()) if shown else 1e-10), 2.0)
    time_axis(ax, r)
    ax.set_ylabel("population")
    ax.set_title("populations of the levels")
    ax.legend(title="level", ncols=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def draw_norms(ax: Axes, r: Results) -> None:
    """Draw the norms with their last values; of an atom, and of norms that are kept, their distance from 1."""
    t, within = femtoseconds(r["time"]), "r" if is_atom(r) else "|x|"
    parts = [("box", r["norm"], "-")]
    for name, places, sign, dashes in (
        ("norm_within", "radius", f"{within} <", "-"),
        ("norm_right", "place", "x >", "--"),
    ):
        if name in r:
            parts += [
                (rf"${sign}$ {place:g} bohr", r[name][:, k], dashes) for k, place in enumerate(r[places])
            ]
    # a norm that rounding alone changes is a flat line; a logarithm shows 1e-6 as well as 0.5
    kept = is_atom(r) or all(float(np.abs(1.0 - values).max()) < KEPT for _, values, _ in parts)
    for k, (label, values, dashes) in enumerate(parts):
        color = list(COLORS.values())[(k - 1) % 6] if k else COLORS["black"]
        text = label if kept else f"{label}: {values[-1]:.5g}"
        shown = np.maximum(np.abs(1.0 - values), 1e-17) if kept else values
        ax.plot(t, shown, color=color, linestyle=dashes, label=text)
    if kept:
        ax.set_yscale("log")
    if is_atom(r):
        ax.set_ylim(1e-10, 2.0)
    if len(parts) > 1:
        ax.legend(title=None if kept else "at the end", loc="best")
    ax.set_ylabel("|1 - norm|" if kept else "norm")
    time_axis(ax, r)


def norm(r: Results) -> Figure | None:
    """Norm in the box and within the radii; field-free energy, where it is recorded."""
    if "norm" not in r:
        return None
    fig = figure("double", 2.6)
    recorded = "energy" in r and r.dims("energy") == ("time",)
    axes = fig.subplots(1, 2 if recorded else 1, squeeze=False)[0]
    draw_norms(axes[0], r)
    axes[0].set_title("norm")
    if not recorded:
        return fig
    e, b = r["energy"], axes[1]
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


def density(r: Results) -> Figure | None:
    """Space-time map of the density, logarithmic, with the edges of the absorber and the surface of t-SURFF."""
    atom = is_atom(r)
    if "density" not in r and not atom:
        return None
    fig = figure("double", 3.0)
    ax = fig.subplots()
    if atom:
        # an image has even rows; the points of the map are dense at the nucleus
        x = np.linspace(0.0, float(r["r_density"][-1]), 400)
        rho = np.array([np.interp(x, r["r_density"], row) for row in r["radial_density"]])
    else:
        x, rho = r["x_density"], r["density"]
    largest = max(float(rho.max()), 1e-300)
    level = np.log10(np.maximum(rho, largest * 10.0**-DECADES))
    drawn = image(ax, femtoseconds(r["time"]), x, level.T, np.log10(largest), DECADES)
    # the axis ends where the density leaves the range of colours
    seen = np.flatnonzero(rho.max(axis=0) > largest * 10.0**-DECADES)
    if seen.size and not atom:
        margin = 0.03 * (x[seen[-1]] - x[seen[0]]) + 1e-9
        ax.set_ylim(max(x[0], x[seen[0]] - margin), min(x[-1], x[seen[-1]] + margin))
    if "absorber" in r or "mask" in r:
        weight = r["absorber"] if "absorber" in r else 1.0 - r["mask"]
        free = r["r" if atom else "x"][weight == 0]
        # where the absorber begins
        ends = [-1] if atom else [0, -1]
        for edge in free[ends] if free.size else ():
            ax.axhline(float(edge), color="w", linestyle=":", linewidth=0.7)
    if (surface := number(r, "tsurff_radius")) is not None:
        for edge in (surface,) if atom else (-surface, surface):
            ax.axhline(edge, color="w", linewidth=0.6, linestyle="--")
    time_axis(ax, r)
    ax.set_ylabel("r (bohr)" if atom else "x (bohr)")
    what = "density" if atom else r"$|\psi|^2$"
    fig.colorbar(drawn, ax=ax, label=rf"$\log_{{10}}$ {what} (1/bohr)")
    ax.set_title("radial density" if atom else "density")
    return fig


def photoelectron(r: Results) -> Figure | None:
    """Photoelectron spectra with the comb of photon orders and the classical limits; bound states lie below zero energy."""
    plain = "pes" in r
    if not plain and "photoelectron_spectrum" not in r:
        return None
    fig = figure("double", 2.9)
    ax = fig.subplots()
    unit, factor = energy_unit(r)
    axis, main = "photoelectron_energy", "photoelectron_spectrum"
    if plain:
        axis, main = "energy" if is_atom(r) else "pes_energy", "pes"
    e, p = factor * r[axis], r[main] / factor
    label = str(r.scalars["pes_method"].value) if plain else "all"
    ax.semilogy(e, np.maximum(p, 1e-300), color=COLORS["black"], linewidth=0.8, label=label)
    if plain and "pes_error" in r:
        error = r["pes_error"] / factor
        low, high = np.maximum(p - error, 1e-300), p + error
        ax.fill_between(e, low, high, color="0.85", linewidth=0.0, label="claimed error")
    others = [(f"{name}_energy", f"{name}_pes", name) for name in ("window", "scattering", "tsurff")]
    sides = "pes" if plain else "photoelectron"
    others += [(axis, f"{sides}_left", "x < 0"), (axis, f"{sides}_right", "x > 0")]
    for along, name, text in others:
        if name in r:
            dashes = "--" if name.endswith("right") else "-"
            ax.semilogy(
                factor * r[along], np.maximum(r[name] / factor, 1e-300), dashes, linewidth=0.7, label=text
            )
    given = (number(r, name) for name in ("omega", "up", "ionisation_potential"))
    omega, up, ip = (None if value is None else factor * value for value in given)
    # photon orders only where their lines stand apart
    if plain and omega and up is not None and ip and 0.01 * (e[-1] - e[0]) < omega:
        first = int(np.ceil((ip + up) / omega))
        for n in range(first, first + int((e[-1]) / omega) + 2):
            if 0.0 < n * omega - ip - up < e[-1]:
                comb = r"$n\omega - I_p - U_p$" if n == first else None
                ax.axvline(n * omega - ip - up, color="0.75", linewidth=0.6, zorder=0, label=comb)
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
    if e[0] < 0.0:
        # bound states, which would set the scale
        ax.axvspan(float(e[0]), 0.0, color="0.92", zorder=0)
    shown = p[e > 0.0] if np.any(e > 0.0) else p
    top = float(shown.max()) if plain else float(p.max())
    ax.set_ylim(max(1e-12 * top, 0.3 * float(shown[shown > 0].min(initial=1.0))), 5.0 * top)
    ax.set_xlim(max(float(e[0]), -0.05 * factor) if plain else float(e[0]), float(e[-1]))
    ax.set_xlabel(f"energy ({unit})")
    ax.set_ylabel(f"dP/dE (1/{unit})")
    ax.set_title("photoelectron spectrum")
    ax.legend()
    return fig


def hhg(r: Results) -> Figure | None:
    """Harmonic spectrum with the classical cutoff and the end of the plateau."""
    if "hhg_spectrum" not in r:
        return None
    fig = figure("double", 2.9)
    ax = fig.subplots()
    h, s = r["hhg_order"], r["hhg_spectrum"]
    ax.semilogy(h, np.maximum(s, 1e-300), linewidth=0.7)
    top = float(s[h > 0.5].max()) if np.any(h > 0.5) else float(s.max())
    ax.set_ylim(max(top * 1e-15, float(s[s > 0].min()) * 0.3), top * 5.0)
    ax.set_xlim(0.0, float(h[-1]))
    for name, label, color in (
        ("hhg_cutoff_classical", r"$(I_p + 3.17\,U_p)/\omega$", "vermillion"),
        ("hhg_cutoff_order", "end of the plateau", "green"),
    ):
        value = r.scalars[name].value if name in r.scalars else None
        if isinstance(value, float) and np.isfinite(value) and value <= h[-1]:
            ax.axvline(
                value,
                color=COLORS[color],
                linestyle="--" if color == "green" else ":",
                linewidth=1.0,
                label=f"{label} = {value:.1f}",
            )
    # odd orders, of which an atom emits; thinned out on a long axis
    step = max(1, int(h[-1]) // 30)
    ax.set_xticks(np.arange(1, int(h[-1]) + 1, 2 * step))
    ax.set_xlabel(r"harmonic order $\omega_h/\omega$")
    ax.set_ylabel("spectral power (a.u.)")
    omega = r.scalars["omega"].value if "omega" in r.scalars else None
    if isinstance(omega, float) and omega > 0:
        ev = float(to_unit(omega, "eV", "energy"))
        above = ax.secondary_xaxis(
            "top",
            functions=(lambda order: np.multiply(order, ev), lambda energy: np.divide(energy, ev)),
        )
        above.set_xlabel("photon energy (eV)")
    ax.set_title("high harmonics")
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    return fig


def gabor(r: Results) -> Figure | None:
    """Time-frequency map of the emission."""
    if "hhg_gabor" not in r:
        return None
    fig = figure("double", 3.0)
    ax = fig.subplots()
    power = r["hhg_gabor"]
    orders = r["gabor_order"]
    largest = float(power[:, orders > 2].max()) if np.any(orders > 2) else float(power.max())
    level = np.log10(np.maximum(power, largest * 1e-6))
    drawn = image(ax, femtoseconds(r["gabor_time"]), orders, level.T, np.log10(largest), 6.0)
    value = r.scalars["hhg_cutoff_classical"].value if "hhg_cutoff_classical" in r.scalars else None
    if isinstance(value, float) and value <= orders[-1]:
        ax.axhline(value, color="w", linewidth=0.6, linestyle=":")
    ax.set_xlabel("time (fs)")
    ax.set_ylabel("harmonic order")
    ax.set_title("time-frequency analysis of the acceleration")
    fig.colorbar(drawn, ax=ax, label=r"$\log_{10}$ power (a.u.)")
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


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "field": field,
    "populations": populations,
    "norm": norm,
    "dipole": dipole,
    "density": density,
    "hhg": hhg,
    "gabor": gabor,
    "photoelectron": photoelectron,
    "errors": errors,
}
