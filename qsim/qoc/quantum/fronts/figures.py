"""Figure of a front: the value of the goal against the key that was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["front"]

# Seconds of a unit of time by its name.
TIMES = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns", 1e-12: "ps", 1e-15: "fs"}
# Names of what is maximised.
MEANING = {
    "fidelity": "fidelity F",
    "observable": "mean value",
    "functional": "goal",
    "probability": "probability P",
    "goals": "mean of the goals",
}


def front(r: Results) -> Figure | None:
    """Draw the best value against the key of a front, both directions, and the bound; None without a front."""
    if "front/value" not in r:
        return None
    order = np.argsort(r["front/value"])
    x = r["front/value"][order]
    fig = figure()
    ax = fig.subplots()
    error = np.nan_to_num(r["front/error"][order])
    ax.errorbar(x, r["front/probability"][order], error, marker="o", markersize=4, label="kept")
    for name, marker in (("forward", ">"), ("backward", "<")):
        values = r[f"front/{name}"][order]
        if np.isfinite(values).any():
            ax.plot(x, values, linestyle="none", marker=marker, markersize=7, fillstyle="none", label=name)
    # Not every goal has a bound, and a search backwards is optional: these curves may be NaN.
    bound = r["front/bound"][order]
    if np.isfinite(bound).any():
        ax.plot(x, bound, linestyle="--", color="0.2", zorder=5, label="bound")
    # Rings mark points whose search ended at its limit, since P may be larger there.
    loose = r["front/converged"][order] == 0
    if loose.any():
        ax.plot(
            x[loose],
            r["front/probability"][order][loose],
            linestyle="none",
            marker="o",
            markersize=9,
            fillstyle="none",
            color="0.4",
            label="not converged",
        )
    ax.margins(x=0.05)
    ax.set_xlabel(_axis(r))
    kind = next((name for name in MEANING if name in r.scalars), "probability")
    ax.set_ylabel(MEANING[kind])
    ax.legend(loc="lower right", fontsize=7)
    return fig


def _axis(r: Results) -> str:
    """Return the label of the axis: the key, with the unit of its values."""
    block = r.deck["front"]
    over = str(block["over"])
    if over in ("T", "time.T"):
        seconds = r.scalars["time_unit"].value if "time_unit" in r.scalars else None
        unit = None if seconds is None else TIMES.get(float(str(seconds)), "a.u.")
        return "T" if unit is None else f"T ({unit})"
    units = {str(value).lstrip("+-.0123456789eE ") for value in block["values"]}
    # several units: the values are in that of the system
    unit = units.pop() if len(units) == 1 else "unit of the system"
    return f"{over} ({unit})" if unit else over
