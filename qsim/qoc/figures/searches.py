"""Figures of the search: its convergence, the paper's line search, ensembles, fronts, and what jumps take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.qoc.deck.ensemble import number_and_unit
from qsim.qoc.figures import reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

    Varied = list[tuple[str, NDArray[np.float64]]]

# Members up to which a line joins their values, and jumps whose shares are drawn.
MOST_JOINED, MOST_BARS = 60, 12
# Path of the parameters of the members in the file.
PARAMETER = "member_parameter/"
# Smallest distance from 1 that is drawn.
LEAST = 1e-16


def convergence_panel(ax: Axes, r: Results) -> None:
    """Draw 1 - P against the sweeps with its verified value, or P itself where it may be no probability."""
    sweeps, p, kind = r["history/sweeps"], r["history/probability"], reading.value_kind(r)
    if kind in reading.MEANS:
        ax.plot(sweeps, p, **reading.marks(p.size))
        ax.set_ylabel(reading.MEANS[kind])
    else:
        ax.semilogy(sweeps, np.maximum(1.0 - p, LEAST), **reading.marks(p.size))
        letter = reading.value_name(kind)[0].upper()
        ax.set_ylabel(f"1 - {letter} (no jump)" if "jump_free" in r.scalars else f"1 - {letter}")
    ax.set_xlabel("sweeps")
    ax.locator_params(axis="x", integer=True, nbins=6)


def convergence(r: Results) -> Figure | None:
    """Draw the way of the search; None without one."""
    if r["history/sweeps"].size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    convergence_panel(ax, r)
    kind = reading.value_kind(r)
    verified = r.scalars[f"{kind}_verified"].value if f"{kind}_verified" in r.scalars else None
    if kind not in reading.MEANS and isinstance(verified, float) and np.isfinite(verified):
        value = max(1.0 - verified, LEAST)
        ax.axhline(value, label="verified", color=COLORS["vermillion"], linestyle="--")
        reading.legend_above(ax)
    return fig


def line_search(r: Results) -> Figure | None:
    """Draw the growing sequence and the bisection of the first iteration, as in Fig. 1 of the paper."""
    if "line_search/gamma" not in r:
        return None
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    g, j, middles = r["line_search/gamma"], r["line_search/objective"], r["line_search/bisection"]
    dots = {"marker": "o", "markersize": 2.5}
    for ax in (a, b):
        ax.plot(g, -j, label="sequence, Eq. (9)", **dots)
        ax.set_xlabel(r"$\gamma$")
        ax.set_ylabel(r"$-J(\gamma)$")
    a.set_title(f"{g.size} evaluations")
    colour = COLORS["vermillion"]
    b.plot(middles, np.interp(middles, g, -j), linestyle="none", color=colour, label="midpoints", **dots)
    b.axvline(middles[-1], color=colour, linewidth=0.7, label=rf"result {middles[-1]:.4g}")
    b.legend()
    return fig


# ------------------------------------------------------------------------------------------- ensembles
def robustness(r: Results) -> Figure | None:
    """Draw the values of the members: against one parameter, or as a map of two; of more, the smallest over the others."""
    kind = next((name.removeprefix("member_") for name in r.names if _is_value(name)), None)
    if kind is None:
        return None
    values, varied = r[f"member_{kind}"], _varied(r)
    fig = figure("single")
    ax = fig.subplots()
    if len(varied) >= 2:
        _map(fig, ax, values, varied, kind)
    else:
        _line(ax, values, varied, kind)
    return fig


def _is_value(name: str) -> bool:
    """Return True for the name of the values of members."""
    kind = name.removeprefix("member_")
    return kind != name and kind in (*reading.MEANS, "fidelity", "closeness", "probability")


def _varied(r: Results) -> Varied:
    """Return the parameters that have several values, the first of each axis, longest axes first."""
    if "member_field_scale" in r:
        return [("field factor", r["member_field_scale"])]
    found: Varied = []
    for entry in r.deck["ensemble"]["members"]:
        path, values = next(iter({**entry.get("set", {}), **entry.get("scale", {})}.items()))
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


def _line(ax: Axes, values: NDArray[np.float64], varied: Varied, kind: str) -> None:
    """Draw the values against the parameter that varies, or against their number."""
    name, numbers = varied[0] if varied else ("member", np.arange(values.size, dtype=float))
    order = np.argsort(numbers, kind="stable")
    # A line through draws, or through members that differ in more, would show what is no curve.
    joined = values.size <= MOST_JOINED and np.unique(numbers).size == numbers.size
    marker: dict[str, Any] = {"marker": "o", "markersize": 4 if values.size <= MOST_JOINED else 2}
    ax.plot(numbers[order], values[order], linestyle=":" if joined else "none", **marker)
    ax.set_title(f"{values.size} members")
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(name)
    ax.set_ylabel(reading.value_name(kind))


def _map(fig: Figure, ax: Axes, values: NDArray[np.float64], varied: Varied, kind: str) -> None:
    """Draw a map of two parameters; of the others, the smallest value."""
    (first, x), (second, y) = varied[:2]
    across, i = np.unique(x, return_inverse=True)
    along, j = np.unique(y, return_inverse=True)
    table = np.full((along.size, across.size), np.inf)
    np.minimum.at(table, (j, i), values)
    # Distances from 1 differ by orders of magnitude.
    plain, symbol = kind in reading.MEANS, reading.value_name(kind)
    shown = table if plain else np.log10(np.maximum(1.0 - table, LEAST))
    image = ax.pcolormesh(across, along, shown, shading="nearest", cmap="viridis_r")
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


# ------------------------------------------------------------------------------------------- fronts and jumps
def front(r: Results) -> Figure | None:
    """Draw the best value against the key of a front, both directions, and the bound; None without a front."""
    if "front/value" not in r:
        return None
    order = np.argsort(r["front/value"])
    x, p, bound = (r[f"front/{name}"][order] for name in ("value", "probability", "bound"))
    fig = figure()
    ax = fig.subplots()
    ax.errorbar(x, p, np.nan_to_num(r["front/error"][order]), marker="o", markersize=4, label="kept")
    open_marks: dict[str, Any] = {"linestyle": "none", "fillstyle": "none"}
    # Not every goal has a bound, and a search backwards is optional: these curves may be NaN.
    for name, marker in (("forward", ">"), ("backward", "<")):
        values = r[f"front/{name}"][order]
        if np.isfinite(values).any():
            ax.plot(x, values, marker=marker, markersize=7, label=name, **open_marks)
    if np.isfinite(bound).any():
        ax.plot(x, bound, linestyle="--", color="0.2", zorder=5, label="bound")
    # Rings mark points whose search ended at its limit, since P may be larger there.
    loose = r["front/converged"][order] == 0
    if loose.any():
        ax.plot(
            x[loose], p[loose], marker="o", markersize=9, color="0.4", label="not converged", **open_marks
        )
    ax.margins(x=0.05)
    ax.set_xlabel(_front_axis(r))
    kind = reading.value_kind(r)
    ax.set_ylabel(
        {"fidelity": "fidelity F", "probability": "probability P"}.get(kind, reading.value_name(kind))
    )
    ax.legend(loc="lower right", fontsize=7)
    return fig


def _front_axis(r: Results) -> str:
    """Return the label of the axis: the key, with the unit of its values."""
    block = r.deck["front"]
    over = str(block["over"])
    if over in ("T", "time.T"):
        seconds = r.scalars["time_unit"].value if "time_unit" in r.scalars else None
        unit = None if seconds is None else reading.NAMES.get(float(str(seconds)), "a.u.")
        return "T" if unit is None else f"T ({unit})"
    units = {str(value).lstrip("+-.0123456789eE ") for value in block["values"]}
    # several units: the values are in that of the system
    named = units.pop() if len(units) == 1 else "unit of the system"
    return f"{over} ({named})" if named else over


def budget(r: Results) -> Figure | None:
    """Draw what is missing from 1: without any jump, by every jump to first order, and in all; None without jumps."""
    if "budget" not in r:
        return None
    kind = next(name for name in ("fidelity", "goals", "probability", "closeness") if name in r.scalars)
    # Jumps are judged in the system as the deck has it, and so are its neighbours.
    own = "_nominal" if "coherent_value_nominal" in r.scalars else ""
    value, coherent = (float(str(r.scalars[f"{name}{own}"].value)) for name in (kind, "coherent_value"))
    # Of many jumps between levels those that take most are drawn.
    taken = np.asarray(r["budget"])
    largest = np.sort(np.argsort(-np.abs(taken), kind="stable")[:MOST_BARS])
    names = ["no jump", *(str(r["jump_names"][k]) for k in largest), "in all"]
    missing = np.array([1.0 - coherent, *taken[largest], 1.0 - value])
    fig = figure()
    ax = fig.subplots()
    places = np.arange(len(names))
    ax.barh(places, missing, color=["C0", *["C1"] * (len(names) - 2), "C7"])
    ax.set_yticks(places, names)
    # the first one on top
    ax.invert_yaxis()
    ax.axvline(0.0, color="black", linewidth=0.8)
    if "leakage" in r.scalars:
        ax.axvline(float(str(r.scalars["leakage"].value)), color="C3", linestyle="--", label="leakage")
        reading.legend_above(ax)
    ax.set_xlabel(("1 - F" if kind == "fidelity" else "1 - P") + (" of the nominal system" if own else ""))
    return fig
