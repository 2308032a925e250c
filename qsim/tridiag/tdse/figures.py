"""Figures of every propagation in a laser field: field, dipole, harmonics and their time-frequency map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.plotting import COLORS, figure
from qsim.tridiag.tdse.drawing import curve, femtoseconds, image, integral, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["dipole", "draw_field", "field", "gabor", "has_field", "hhg"]


def has_field(r: Results) -> bool:
    """Return whether a run had a laser field."""
    return "trace/field" in r and bool(np.any(r["trace/field"]))


def draw_field(ax: Axes, r: Results) -> None:
    """Draw E(t) of the fine trace."""
    ax.plot(*curve(femtoseconds(r["trace/time"]), r["trace/field"]), linewidth=0.8)
    ax.set_ylabel("E (a.u.)")


def field(r: Results) -> Figure | None:
    """Electric field and vector potential."""
    if not has_field(r):
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    draw_field(ax, r)
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


# ------------------------------------------------------------------------------------------- density


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
