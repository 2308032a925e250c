"""Figures of an evolution: conserved quantities, and curves of single numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.trotter.drawing import FLOOR, curve, time_axis, times
from qsim.trotter.evolve.open import figures as of_open
from qsim.trotter.observables.registry import OBSERVABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.trotter.drawing import Times

# change of a mean value from which it is drawn itself, not just its drift
MOVES = 1e-3
# relative change of a variance below which H is taken as constant
CONSERVED = 1e-3


def drift(r: Results) -> Figure | None:
    """Draw the drifts of conserved quantities (energy, norm, total Sz), and energy and total Sz where they change."""
    t = times(r)
    if "energy" not in r or t.size < 2:
        return None
    moving = [name for name in ("energy", "total_sz") if float(np.ptp(r[name])) > MOVES]
    fig = figure("double" if moving else "single", 2.6)
    axes = np.atleast_1d(fig.subplots(1, 1 + len(moving)))
    for ax, name in zip(axes[1:], moving, strict=True):
        curve(ax, r, name, t, color=COLORS["blue" if name == "energy" else "vermillion"])
        ax.set_ylabel(r"$\langle H\rangle$ ($J$)" if name == "energy" else r"$\langle S^z_{tot}\rangle$")
        ax.ticklabel_format(axis="y", useOffset=False)
    b = axes[0]
    kept = "Sz" in str(r.scalars["conserved"].value)
    for name, label, color in (
        ("energy", r"$|\langle H\rangle - \langle H\rangle_0|$ ($J$)", "blue"),
        ("total_sz", r"$|\langle S^z_{tot}\rangle - \langle S^z_{tot}\rangle_0|$", "vermillion"),
    ):
        if name == "energy" and r.scalars["energy_drift"].value is None:
            continue
        if name == "energy" or kept:
            _drift_curve(b, t, r[name] - r[name][0], label, color)
    _drift_curve(b, t, r["norm"] - 1.0, r"$|\langle\psi|\psi\rangle - 1|$", "black")
    b.set_ylabel("drift")
    b.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.1)
    for ax in axes:
        time_axis(ax, t)
    return fig


def _drift_curve(ax: Axes, t: Times, values: NDArray[np.float64], label: str, color: str) -> None:
    ax.semilogy(t, np.maximum(np.abs(values), FLOOR), color=COLORS[color], label=label, linewidth=0.8)


def curves(r: Results) -> Figure | None:
    """Draw everything else that is one number per output time, in panels."""
    t = times(r)
    labels = {kind.arrays[0].name: kind.curve for kind in OBSERVABLES.values() if kind.curve}
    names = [name for name in labels if name in r and not _is_constant(r, name)]
    if not names or t.size < 2:
        return None
    fig = figure("single" if len(names) == 1 else "double", 2.4 if len(names) < 3 else 4.4)
    shape = (1, len(names)) if len(names) < 3 else (2, -(-len(names) // 2))
    axes = np.ravel(np.atleast_1d(fig.subplots(*shape)))
    for ax, name in zip(axes, names, strict=False):
        curve(ax, r, name, t)
        ax.set_ylabel(labels[name])
        if float(np.min(r[name])) < 0.0:
            ax.axhline(0.0, color="0.6", linewidth=0.5)
        time_axis(ax, t)
    for ax in axes[len(names) :]:
        ax.remove()
    return fig


def _is_constant(r: Results, name: str) -> bool:
    """Return True for the variance of a constant H: a line tells less than its number."""
    values = r[name]
    return name == "energy_variance" and float(np.ptp(values)) <= CONSERVED * float(np.abs(values).max())


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"drift": drift, "curves": curves, **of_open.FIGURES}
