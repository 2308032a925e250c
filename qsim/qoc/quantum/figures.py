"""Figures of the control of a quantum system: controls, populations, convergence, the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import compose, figure, in_column
from qsim.qoc.deck.quantum import TYPES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["convergence", "fields", "gate", "is_quantum", "overview", "populations"]

# Largest population from which a level is drawn, and most levels in a figure.
SEEN = 0.01
MOST_CURVES = 8


def is_quantum(r: Results) -> bool:
    """Return True for the results of any system but a particle on a line."""
    return r.deck["system"].get("type") in TYPES


def _time(r: Results) -> str:
    names = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns", 1e-12: "ps", 1e-15: "fs"}
    if "time_unit" not in r.scalars:
        return "time"
    return f"time ({names.get(float(str(r.scalars['time_unit'].value)), 'a.u.')})"


def _names(r: Results) -> list[str]:
    return [c["name"] for c in r.deck["control"]]


def _controls(ax: Axes, r: Results) -> None:
    """Draw every control as the steps that it is."""
    t = r["time"]
    tau = float(t[1] - t[0]) if t.size > 1 else 2.0 * float(t[0])
    edges = np.append(t - 0.5 * tau, t[-1] + 0.5 * tau)
    for name in _names(r):
        ax.stairs(r[f"control/{name}"], edges, baseline=None, label=name)
    unit = r.deck["system"].get("unit")
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel(_time(r))
    ax.set_ylabel("control" if unit is None else f"control ({unit})")
    _legend(ax)


def _legend(ax: Axes) -> None:
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.1, fontsize="small")


def _populations(ax: Axes, r: Results) -> None:
    """Draw the levels that are populated most."""
    table, t = r["populations"], r["time_populations"]
    largest = table.max(axis=0)
    chosen = [int(k) for k in np.argsort(-largest)[:MOST_CURVES] if largest[k] > SEEN]
    for k in sorted(chosen):
        ax.plot(t, table[:, k], label=f"level {k}")
    ax.set_xlim(0.0, float(t[-1]))
    ax.set_ylim(0.0, 1.02 * float(largest.max()))
    ax.set_xlabel(_time(r))
    ax.set_ylabel("population")
    _legend(ax)


def _convergence(ax: Axes, r: Results) -> None:
    """Draw 1 - P against the sweeps, or P itself where it is no probability."""
    sweeps, p = r["history/sweeps"], r["history/probability"]
    if "observable" in r.scalars:
        ax.plot(sweeps, p)
        ax.set_ylabel("mean value")
    else:
        ax.semilogy(sweeps, np.maximum(1.0 - p, 1e-16))
        letter = "F" if "fidelity" in r.scalars else "P"
        ax.set_ylabel(f"1 - {letter} (no jump)" if "jump_free" in r.scalars else f"1 - {letter}")
    ax.set_xlabel("sweeps")


def fields(r: Results) -> Figure:
    """Draw the controls."""
    fig = figure()
    _controls(fig.subplots(), r)
    return fig


def populations(r: Results) -> Figure:
    """Draw the populations of the basis states; of a gate, from its first logical state."""
    fig = figure()
    _populations(fig.subplots(), r)
    return fig


def convergence(r: Results) -> Figure | None:
    """Draw the way of the search; None without one."""
    if r["history/sweeps"].size < 2:
        return None
    fig = figure()
    _convergence(fig.subplots(), r)
    return fig


def gate(r: Results) -> Figure | None:
    """Draw sizes and phases of the matrix in the logical space; None without a gate or with jumps."""
    if not is_quantum(r) or "unitary_final" not in r:
        return None
    matrix = r["unitary_final"]
    fig = figure("double")
    left, right = fig.subplots(1, 2)
    # phases of entries that are nearly zero mean nothing
    phase = np.where(np.abs(matrix) > 0.05, np.angle(matrix) / np.pi, np.nan)
    for ax, values, limits, colours, title in (
        (left, np.abs(matrix), (0.0, 1.0), "viridis", "|U|"),
        (right, phase, (-1.0, 1.0), "twilight", r"arg U / $\pi$"),
    ):
        image = ax.imshow(values, vmin=limits[0], vmax=limits[1], cmap=colours)
        fig.colorbar(image, ax=ax, label=title)
        ax.set_xticks(range(matrix.shape[0]))
        ax.set_yticks(range(matrix.shape[0]))
        ax.set_xlabel("from")
        ax.set_ylabel("to")
    return fig


def overview(r: Results) -> Figure | None:
    """Draw controls, populations and convergence side by side."""
    if in_column():
        return compose(r, (fields, populations))
    fig = figure("double", 5.0)
    axes = fig.subplot_mosaic("AA;BC")
    _controls(axes["A"], r)
    _populations(axes["B"], r)
    _convergence(axes["C"], r)
    return fig
