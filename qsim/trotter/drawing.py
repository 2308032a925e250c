"""Curves and maps against time, as all figures of trotter have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

    Times = NDArray[np.float64]

# below which a drift is drawn as if it were this: rounding of a double
FLOOR = 1e-17
# points that are marked
FEW = 15
# median of a map over its largest value, below which its colours would be nearly white
FAINT = 0.1
# drawn beside each other at most
CURVES = 8
TIME = r"time ($1/J$)"


def times(r: Results) -> Times:
    """Return the output times; none of results without a time."""
    return np.asarray(r["time"]) if "time" in r else np.empty(0)


def _logarithmic(t: Times) -> bool:
    """Return True if output times call for a logarithmic axis: most of them in the first tenth."""
    return t.size > 5 and float(np.median(t)) < 0.1 * float(t[-1])


def panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of two columns of a page with panels side by side, two in a row, and the panels.

    Parameters
    ----------
    count : int
    height : float
        Of a row, inches.
    """
    from qsim.core.results.plotting import figure

    rows = -(-count // 2)
    fig = figure("double", 0.6 + height * rows)
    places = list(np.ravel(np.atleast_1d(fig.subplots(rows, min(count, 2)))))
    for ax in places[count:]:
        ax.remove()
    return fig, places[:count]


def time_axis(ax: Axes, t: Times, labelled: bool = True) -> None:
    """Set limits, scale and label of an axis of time."""
    if t.size > 1:
        if _logarithmic(t):
            ax.set_xscale("log")
            ax.set_xlim(float(t[t > 0][0]), float(t[-1]))
        else:
            ax.set_xlim(float(t[0]), float(t[-1]))
    if labelled:
        ax.set_xlabel(TIME)


def curve(ax: Axes, r: Results, name: str, t: Times, column: int | None = None, **style: Any) -> None:
    """Draw an array against time with the band of its standard error, if there is an ensemble."""
    values = r[name] if column is None else r[name][:, column]
    style = {"marker": "o", "markersize": 2.5} | style if t.size <= FEW else style
    (line,) = ax.plot(t, values, **style)
    if f"{name}_error" in r:
        error = r[f"{name}_error"] if column is None else r[f"{name}_error"][:, column]
        ax.fill_between(t, values - error, values + error, color=line.get_color(), alpha=0.25, linewidth=0)


def color_map(
    fig: Figure, ax: Axes, t: Times, rows: NDArray[Any], values: NDArray[np.float64], label: str, limit: float
) -> None:
    """Draw values (time, row) as a map, centred on zero; where most are small, colours follow their square root."""
    from matplotlib.colors import FuncNorm, Normalize

    norm: Normalize = Normalize(-limit, limit)
    if faint := float(np.median(np.abs(values))) < FAINT * limit:
        norm = FuncNorm(
            (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda y: np.sign(y) * y**2), -limit, limit
        )
    image = ax.pcolormesh(t, rows, values.T, shading="nearest", cmap="RdBu_r", norm=norm, rasterized=True)
    bar = fig.colorbar(image, ax=ax, label=label, pad=0.02)
    if faint:
        steps = limit * np.array([1.0, 0.25, 0.05])
        bar.set_ticks([*-steps, 0.0, *steps[::-1]], labels=[f"{x:.2g}" for x in [*-steps, 0.0, *steps[::-1]]])
