"""Figure of an ensemble of quantum systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import figure
from qsim.qoc.deck.ensemble import number_and_unit
from qsim.qoc.quantum.ensembles.quantities import KINDS, PARAMETER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["robustness"]

# Members up to which a line joins their values.
MOST_JOINED = 60


def robustness(r: Results) -> Figure | None:
    """Draw the values of the members: against one parameter, or as a map of two; of more, the smallest over the others."""
    kind = next((k for k in KINDS if f"member_{k}" in r), None)
    if kind is None:
        return None
    values = r[f"member_{kind}"]
    varied = _axes(r)
    fig = figure("single")
    ax = fig.subplots()
    if len(varied) >= 2:
        _map(fig, ax, values, varied, kind)
    else:
        _line(ax, values, varied, kind)
    return fig


def _axes(r: Results) -> list[tuple[str, NDArray[np.float64]]]:
    """Return the parameters that have several values, the first of each axis, longest axes first."""
    found: list[tuple[str, NDArray[np.float64]]] = []
    for entry in r.deck["ensemble"]["members"]:
        lists = {**entry.get("set", {}), **entry.get("scale", {})}
        path, values = next(iter(lists.items()))
        numbers = r[f"{PARAMETER}{path}"]
        if np.unique(numbers).size > 1:
            found.append((_label(path, _unit(values)), numbers))
    return sorted(found, key=lambda item: -np.unique(item[1]).size)


def _unit(values: Any) -> str:
    """Return the unit in which a deck lists values; "" for plain numbers."""
    first = values[0] if isinstance(values, list) else values.get("stop", values.get("sigma"))
    try:
        return number_and_unit(first)[1]
    except ValueError:
        return ""


def _line(
    ax: Axes, values: NDArray[np.float64], varied: list[tuple[str, NDArray[np.float64]]], kind: str
) -> None:
    """Draw the values against the parameter that varies, or against their number."""
    name, numbers = varied[0] if varied else ("member", np.arange(values.size, dtype=float))
    order = np.argsort(numbers, kind="stable")
    # draws are points; a line through them would show their noise
    few = values.size <= MOST_JOINED
    style = ":" if few else "none"
    ax.plot(numbers[order], values[order], marker="o", markersize=4 if few else 2, linestyle=style)
    ax.set_xlabel(name)
    ax.set_ylabel(_symbol(kind))


def _map(
    fig: Figure,
    ax: Axes,
    values: NDArray[np.float64],
    varied: list[tuple[str, NDArray[np.float64]]],
    kind: str,
) -> None:
    """Draw a map of two parameters; of the others, the smallest value."""
    (first, x), (second, y) = varied[:2]
    across, i = np.unique(x, return_inverse=True)
    along, j = np.unique(y, return_inverse=True)
    table = np.full((along.size, across.size), np.inf)
    np.minimum.at(table, (j, i), values)
    # distances from 1 differ by orders of magnitude
    plain = kind in ("observable", "functional", "goals")
    shown = table if plain else np.log10(np.maximum(1.0 - table, 1e-16))
    image = ax.pcolormesh(across, along, shown, shading="nearest", cmap="viridis_r")
    symbol = _symbol(kind)
    bar = symbol if plain else rf"$\log_{{10}}$(1 - {symbol})"
    fig.colorbar(image, ax=ax, label=bar if len(varied) == 2 else f"{bar}, worst")
    ax.set_xlabel(first)
    ax.set_ylabel(second)


def _label(path: str, unit: str = "") -> str:
    """Return the name of a parameter on an axis."""
    kind, _, name = path.partition(".")
    if kind == "control":
        return f"factor of {name or 'the controls'}"
    return f"{path} ({unit})" if unit else path


def _symbol(kind: str) -> str:
    return {
        "probability": "P",
        "fidelity": "F",
        "observable": "mean value",
        "functional": "goal",
        "closeness": "closeness",
        "goals": "mean of the goals",
    }[kind]
