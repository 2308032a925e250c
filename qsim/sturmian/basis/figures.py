"""Figures of the basis: functions and eigenvalues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.sturmian.radial.curves import CYCLE, RADIUS, smooth

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.device.arrays import Array, BoolArray, FloatArray
    from qsim.core.results.results import Results

# Functions of an l.
SHOWN = 5
# Height of the generating potential at a tenth of the radius, over the height of the largest function.
TALL = 0.75


def momenta_of(r: Results) -> list[int]:
    """Return the orbital momenta whose functions the file holds."""
    parts = (name.split("/") for name in r.names)
    return sorted(int(part[1][1:]) for part in parts if part[0] == "basis" and part[2:] == ["beta"])


def _contour(r: Array) -> tuple[Any, Any, str]:
    """Return the arc length along the radius, which nodes are real, and the label of the axis."""
    if not np.iscomplexobj(r):
        return r, np.ones(r.size, bool), RADIUS
    real = np.abs(r.imag) < 1e-12 * np.abs(r)
    R = float(r[real].real.max())
    return np.where(real, r.real, R + np.abs(r - R)), real, "length of the contour (bohr)"


def basis(r: Results) -> Figure | None:
    """Draw the first Sturmian functions of up to three l with the generating potential; imaginary parts dashed."""
    momenta = [l for l in momenta_of(r) if f"basis/l{l}/S" in r][:3]
    if not momenta:
        return None
    s, real, label = _contour(r["r"])
    fig = figure("double", 0.6 + 1.45 * len(momenta))
    axes = np.atleast_1d(fig.subplots(len(momenta), 1, sharex=True))
    end = _extent(r, s, momenta)
    for ax, l in zip(axes, momenta, strict=True):
        functions = r[f"basis/l{l}/S"]
        drawn = min(SHOWN, len(functions))
        largest = float(np.abs(functions[:drawn]).max())
        if "generating" in r:
            v = np.abs(r["generating"])
            # v diverges at the nucleus: it is scaled by its value at a tenth of the radius, or
            # by its largest one where it is zero there.
            level = float(np.interp(0.1 * end, s, v)) or float(v.max())
            ax.fill_between(
                s, 0.0, TALL * largest * v / level, color="0.9", linewidth=0, label="$v(r)$, scaled"
            )
        for n in range(drawn):
            color = CYCLE[n % len(CYCLE)]
            ax.plot(*smooth(s, real, functions[n].real), color=color, linewidth=0.9, label=f"$n = {n}$")
            if np.iscomplexobj(functions):
                curve = smooth(s, real, functions[n].imag)
                ax.plot(*curve, color=color, linewidth=0.7, linestyle=(0, (3, 1.5)))
        if not real.all():
            _shade(ax, s, real, note=l == momenta[0])
        ax.axhline(0.0, color="0.5", linewidth=0.4)
        ax.set_xlim(0.0, end)
        ax.set_ylim(-1.15 * largest, 1.15 * largest)
        ax.set_ylabel(rf"$S_{{n{l}}}(r)$")
        ax.text(1.02, 0.06, f"$l = {l}$", transform=ax.transAxes, va="bottom", fontsize="medium")
    axes[0].legend(ncols=1, loc="upper left", bbox_to_anchor=(1.005, 1.05))
    axes[-1].set_xlabel(label)
    return fig


def _extent(r: Results, s: FloatArray, momenta: list[int]) -> float:
    """Return the radius beyond which nothing is left to be seen of the functions that are shown."""
    last = 0.0
    for l in momenta:
        functions = np.abs(r[f"basis/l{l}/S"][:SHOWN])
        visible = np.flatnonzero((functions > 0.01 * functions.max()).any(axis=0))
        last = max(last, float(s[visible[-1]]))
    return min(1.05 * last, float(s[-1]))


def _shade(ax: Axes, s: FloatArray, real: BoolArray, note: bool) -> None:
    """Mark the part of the axis where the radius is complex."""
    start = float(s[real].max())
    ax.axvspan(start, float(s[-1]), color=COLORS["orange"], alpha=0.12, linewidth=0)
    if note:
        ax.annotate(
            "complex $r$", (start, 1.0), (3, -2), xycoords=("data", "axes fraction"), va="top",
            textcoords="offset points", fontsize="small", color="0.35",
        )  # fmt: skip


def beta(r: Results) -> Figure | None:
    """Eigenvalues beta: in the complex plane for outgoing functions, else against their number."""
    momenta = momenta_of(r)
    if not momenta:
        return None
    fig = figure("single", 2.7)
    ax = fig.subplots()
    # At most six l, evenly chosen: more markers cannot be told apart.
    drawn = momenta if len(momenta) <= 6 else momenta[:: -(-len(momenta) // 6)]
    is_complex = any(np.iscomplexobj(r[f"basis/l{l}/beta"]) for l in drawn)
    for k, l in enumerate(drawn):
        values = r[f"basis/l{l}/beta"]
        style: dict[str, Any] = {"marker": "osD^vP"[k % 6], "markersize": 2.6, "color": CYCLE[k % len(CYCLE)]}
        style |= {"label": f"$l = {l}$", "markeredgewidth": 0}
        if is_complex:
            style |= {"markersize": 2.5 + 1.2 * k, "markerfacecolor": "none", "markeredgewidth": 0.6}
            ax.plot(values.real, values.imag, linestyle="none", **style)
        else:
            ax.plot(np.arange(1, values.size + 1), values, linewidth=0.6, **style)
    if is_complex:
        ax.axhline(0.0, color="0.5", linewidth=0.4)
        ax.axvline(0.0, color="0.5", linewidth=0.4)
        ax.set_xlabel(r"Re $\beta$ (hartree)")
        ax.set_ylabel(r"Im $\beta$ (hartree)")
    else:
        lowest = min(float(r[f"basis/l{l}/beta"].min()) for l in drawn)
        # Negative beta belong to levels of U below the energy: a logarithmic axis would hide
        # them.
        if lowest > 0.0:
            ax.set_yscale("log")
            ax.set_xscale("log")
        else:
            ax.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(max(abs(lowest), 1e-3))))
        ax.set_xlabel("number of the function")
        ax.set_ylabel(r"$\beta$ (hartree)")
    ax.legend()
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"basis": basis, "beta": beta}
