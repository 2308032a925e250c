"""Figures of the control of a quantum system: controls, spectra, populations, Bloch paths, gates, revivals, levels."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, compose, figure, in_column
from qsim.qoc.deck.systems.quantities import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = [
    "bloch",
    "budget",
    "convergence",
    "fields",
    "gate",
    "goal",
    "is_quantum",
    "levels",
    "overview",
    "populations",
    "spectrum",
]

# Jumps whose shares are drawn.
MOST_BARS = 12
# Largest population from which a level is drawn, and most levels in a figure.
SEEN = 0.01
MOST_CURVES = 8
# Slots from which steps are drawn thinner.
MANY_SLOTS = 200
# Panels of controls, Bloch paths and densities in a figure.
MOST_PANELS = 6
# Colours along a Bloch path.
PIECES = 64
# Power, relative to its largest value, from which a spectrum is shown.
POWER = 1e-4
# Size of an entry of a gate whose phase means something.
PHASED = 0.02
# 1/cm per hartree (CODATA 2018).
WAVENUMBER = 219474.6313632
NAMES = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns", 1e-12: "ps", 1e-15: "fs"}
# Systems whose controls are electric fields in atomic units.
MOLECULES = ("rotor", "grid2d")


def is_quantum(r: Results) -> bool:
    """Return True for results in levels, False for a molecule that moves as in the paper."""
    return "labels" in r


# ------------------------------------------------------------------------------------------- units and names


def _clock(r: Results) -> tuple[float, str]:
    """Return the factor of times and the label of their axis; atomic units become fs, or ps for more than 5 ps."""
    if "time_unit" not in r.scalars:
        return 1.0, "time"
    seconds = float(str(r.scalars["time_unit"].value))
    if seconds in NAMES:
        return 1.0, f"time ({NAMES[seconds]})"
    name, unit = ("ps", 1e-12) if float(r["time"][-1]) * seconds > 5e-12 else ("fs", 1e-15)
    return seconds / unit, f"time ({name})"


def _unit(r: Results) -> str:
    """Return the unit of the controls, in brackets; empty for plain numbers."""
    if r.deck["system"]["type"] in MOLECULES:
        return " (a.u.)"
    unit = r.deck["system"].get("unit")
    return "" if unit is None else f" ({unit})"


def _angular(r: Results) -> tuple[float, str]:
    """Return the factor of angular frequencies and the label of their axis."""
    if r.deck["system"]["type"] in MOLECULES:
        return WAVENUMBER, r"$\tilde\nu$ (cm$^{-1}$)"
    unit = r.deck["system"].get("unit")
    if unit is None:
        return 1.0, r"$\omega$"
    return 1.0 / Units(unit).factor, f"frequency ({unit})"


def _names(r: Results) -> list[str]:
    return [c["name"] for c in r.deck["control"]]


def _look(number: int) -> dict[str, Any]:
    """Return colour and dashes of a curve: eight and more are told apart by dashes."""
    colours = list(COLORS.values())
    return {
        "color": colours[number % len(colours)],
        "linestyle": ("-", "--", ":", "-.")[number // len(colours) % 4],
    }


def _state(r: Results, number: int) -> str:
    """Return how a figure calls a basis state: a ket of its label, J and M of a rotor, a level."""
    label, kind = str(np.asarray(r["labels"])[number]), r.deck["system"]["type"]
    if kind == "grid2d":
        return f"level {label}"
    if kind == "rotor":
        j, m = label.split(",")
        return f"J = {j}, |M| = {m}"
    return rf"$|{label}\rangle$"


def _legend(ax: Axes, columns: int = 4) -> None:
    """Put the legend above the axes, where it covers no curve."""
    ax.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.1, columnspacing=1.2
    )


# ------------------------------------------------------------------------------------------- panels


def _edges(r: Results) -> NDArray[np.float64]:
    """Return the ends of the slots (N + 1,), in the unit of the axis."""
    t, factor = r["time"], _clock(r)[0]
    tau = float(t[1] - t[0]) if t.size > 1 else 2.0 * float(t[0])
    return np.asarray(factor * np.append(t - 0.5 * tau, t[-1] + 0.5 * tau))


def _bounds(r: Results, number: int) -> tuple[float, float] | None:
    """Return the bounds of a control in the unit of its axis; None without."""
    block, system = r.deck["control"][number], r.deck["system"]
    if block.get("bounds") is None:
        return None
    units = Units(system.get("unit"), fields=system["type"] in MOLECULES)
    low, high = (units.control(b, f"control.{number}.bounds") for b in block["bounds"])
    return low, high


def _control(ax: Axes, r: Results, number: int, name: str) -> None:
    """Draw one control as the steps that it is."""
    look = _look(number)
    ax.stairs(
        r[f"control/{name}"],
        _edges(r),
        baseline=None,
        label=name,
        color=look["color"],
        linestyle=look["linestyle"],
        linewidth=0.9 if r["time"].size < MANY_SLOTS else 0.6,
    )


def _controls(ax: Axes, r: Results) -> None:
    """Draw all controls in one panel, with the bounds that they share."""
    edges, names = _edges(r), _names(r)
    for number, name in enumerate(names):
        _control(ax, r, number, name)
    shared = {_bounds(r, number) for number in range(len(names))}
    if len(shared) == 1 and (bounds := shared.pop()) is not None:
        _limits(ax, bounds)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel(_clock(r)[1])
    ax.set_ylabel(f"{'field' if _is_molecule(r) else 'control'}{_unit(r)}")
    _legend(ax, 6)


def _is_molecule(r: Results) -> bool:
    return r.deck["system"]["type"] in MOLECULES


def _limits(ax: Axes, bounds: tuple[float, float]) -> None:
    """Draw bounds as thin lines."""
    for value in bounds:
        ax.axhline(value, color="0.45", linewidth=0.6, linestyle=(0, (5, 3)), zorder=0)


def _populations(ax: Axes, r: Results, columns: int = 4) -> None:
    """Draw the states that are populated most; legends of narrow panels have fewer columns."""
    table, (factor, label) = r["populations"], _clock(r)
    t = factor * r["time_populations"]
    largest = table.max(axis=0)
    chosen = [int(k) for k in np.argsort(-largest, kind="stable")[:MOST_CURVES] if largest[k] > SEEN]
    for number, k in enumerate(sorted(chosen)):
        ax.plot(t, table[:, k], label=_state(r, k), **_look(number))
    ax.set_xlim(0.0, float(t[-1]))
    ax.set_ylim(0.0, 1.02 * float(largest.max()))
    ax.set_xlabel(label)
    ax.set_ylabel("population")
    _legend(ax, 2 if r.deck["system"]["type"] == "rotor" else columns)


def _convergence(ax: Axes, r: Results) -> None:
    """Draw 1 - P against the sweeps, or P itself where it may be no probability."""
    sweeps, p = r["history/sweeps"], r["history/probability"]
    marks: dict[str, Any] = {"marker": "o", "markersize": 2.5} if p.size <= 40 else {}
    plain = {"observable": "mean value", "functional": "goal", "goals": "mean of the goals"}
    kind = next((name for name in plain if name in r.scalars), None)
    if kind is not None:
        ax.plot(sweeps, p, **marks)
        ax.set_ylabel(plain[kind])
    else:
        ax.semilogy(sweeps, np.maximum(1.0 - p, 1e-16), **marks)
        letter = "F" if "fidelity" in r.scalars else "P"
        ax.set_ylabel(f"1 - {letter} (no jump)" if "jump_free" in r.scalars else f"1 - {letter}")
    ax.set_xlabel("sweeps")
    ax.locator_params(axis="x", integer=True, nbins=6)


def _goal_path(ax: Axes, r: Results) -> None:
    """Draw the value of the goal over time, of a rotor through its revival."""
    factor, label = _clock(r)
    ax.plot(factor * r["time_populations"], r["goal"], color=COLORS["blue"], label="pulse")
    if "free_time" in r:
        ax.plot(factor * r["free_time"], r["free_goal"], color=COLORS["vermillion"], label="free")
        ax.axvspan(0.0, factor * float(r["free_time"][0]), color="0.93", linewidth=0, zorder=0)
        _legend(ax)
    ax.set_xlabel(label)
    ax.set_ylabel(_wanted(r))
    ax.set_xlim(left=0.0)


def _wanted(r: Results) -> str:
    """Return the label of the axis of the goal."""
    target = r.deck["system"].get("target")
    if isinstance(target, dict) and "observable" in target:
        text = str(target["observable"])
        if r.deck["system"]["type"] == "rotor":
            text = text.replace("cos2", r"\cos^2\theta").replace("J2", "J^2")
            return rf"$\langle {text}\rangle$" if "*" not in text else f"mean of {target['observable']}"
        return f"mean of {text}"
    if isinstance(target, dict) and "formula" in target:
        return str(target["formula"])
    return "probability of the goal"


# ------------------------------------------------------------------------------------------- figures


def fields(r: Results) -> Figure:
    """Draw every control in a panel of its own, with its first values and its bounds."""
    names = _names(r)[:MOST_PANELS]
    fig = figure("double" if len(names) > 1 else "single", 1.0 + 1.2 * len(names))
    axes = fig.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    edges = _edges(r)
    for number, (ax, name) in enumerate(zip(axes, names, strict=True)):
        ax.stairs(r[f"control_guess/{name}"], edges, baseline=None, color="0.7", linewidth=0.8, label="guess")
        _control(ax, r, number, name)
        if (bounds := _bounds(r, number)) is not None:
            _limits(ax, bounds)
        ax.set_ylabel(f"{name}{_unit(r)}")
        ax.set_xlim(edges[0], edges[-1])
    _legend(axes[0])
    axes[-1].set_xlabel(_clock(r)[1])
    return fig


def spectrum(r: Results) -> Figure | None:
    """Draw the power spectra of the controls; None for results of versions without them."""
    if "frequency" not in r:
        return None
    factor, label = _angular(r)
    frequency, names = factor * r["frequency"], _names(r)
    powers = [r[f"spectrum/{name}"] for name in names]
    largest = max(float(p.max()) for p in powers)
    if largest == 0.0:
        return None
    fig = figure()
    ax = fig.subplots()
    for number, (name, power) in enumerate(zip(names, powers, strict=True)):
        ax.semilogy(frequency, power / largest, label=name, **(_look(number) | {"linewidth": 0.9}))
    strong = np.flatnonzero(np.max(powers, axis=0) > POWER * largest)
    ax.set_xlim(0.0, min(float(frequency[-1]), 1.3 * float(frequency[strong[-1]])))
    ax.set_ylim(0.1 * POWER, 2.0)
    ax.set_xlabel(label)
    ax.set_ylabel("power (arb. units)")
    _lines(ax, r)
    _legend(ax, 6)
    return fig


def _lines(ax: Axes, r: Results) -> None:
    """Mark transitions from the lowest level to those that are populated."""
    if "energies" not in r:
        return
    energies, used = r["energies"], r["populations"].max(axis=0) > SEEN
    for k in np.flatnonzero(used)[:MOST_CURVES]:
        if k > 0:
            ax.axvline(
                WAVENUMBER * float(energies[k] - energies[0]), color="0.6", linewidth=0.5, linestyle=":"
            )


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


def goal(r: Results) -> Figure | None:
    """Draw the value of the goal during the controls and, of a rotor, its revivals; None for gates."""
    if not is_quantum(r) or "goal" not in r:
        return None
    fig = figure("double" if "free_time" in r else "single")
    _goal_path(fig.subplots(), r)
    return fig


def gate(r: Results) -> Figure | None:
    """Draw the matrix in the logical space: size by area, phase by colour; None without a gate."""
    if not is_quantum(r) or "unitary_final" not in r:
        return None
    fig = figure("single", 2.9)
    _matrix(fig.subplots(), r["unitary_final"], fig)
    return fig


def _matrix(ax: Axes, matrix: NDArray[np.complex128], fig: Figure) -> None:
    """Draw entries as squares whose side is their size, their colour the phase."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    count = len(matrix)
    rows, columns = np.nonzero(np.abs(matrix) > PHASED)
    sizes = np.minimum(np.abs(matrix[rows, columns]), 1.0) * 0.94
    squares = [
        Rectangle((c - 0.5 * s, r - 0.5 * s), s, s) for r, c, s in zip(rows, columns, sizes, strict=True)
    ]
    colours = ScalarMappable(Normalize(-1.0, 1.0), "twilight")
    phases = np.angle(matrix[rows, columns]) / np.pi
    ax.add_collection(
        PatchCollection(squares, facecolor=colours.to_rgba(phases), edgecolor="0.4", linewidth=0.3)
    )
    bar = fig.colorbar(colours, ax=ax, label=r"phase / $\pi$", ticks=[-1, -0.5, 0, 0.5, 1])
    bar.outline.set_linewidth(0.4)
    ax.set_xlim(-0.5, count - 0.5)
    ax.set_ylim(count - 0.5, -0.5)
    ax.set_aspect("equal")
    qubits = count.bit_length() - 1
    names = [rf"$|{k:0{qubits}b}\rangle$" if 1 << qubits == count else str(k) for k in range(count)]
    ax.set_xticks(range(count), names)
    ax.set_yticks(range(count), names)
    ax.set_xticks(np.arange(-0.5, count), minor=True)
    ax.set_yticks(np.arange(-0.5, count), minor=True)
    ax.grid(visible=False, which="major")
    ax.grid(visible=True, which="minor")
    ax.tick_params(which="both", length=0)
    ax.set_xlabel("from")
    ax.set_ylabel("to")


def bloch(r: Results) -> Figure | None:
    """Draw the paths of the Bloch vectors of all parts, of a gate from its first logical state; None without parts."""
    names = [name for name in r.names if name.startswith("bloch/")][:MOST_PANELS] if is_quantum(r) else []
    if not names:
        return None
    fig = figure("double" if len(names) > 1 else "single", 3.0)
    for number, name in enumerate(names):
        ax: Any = fig.add_subplot(1, len(names), number + 1, projection="3d")
        _sphere(ax, np.asarray(r[name]))
        ax.set_title(name.removeprefix("bloch/"))
    return fig


def _sphere(ax: Any, path: NDArray[np.float64]) -> None:
    """Draw a path in the Bloch sphere, |0> on top, coloured by time."""
    from matplotlib import colormaps

    turn = np.linspace(0.0, 2.0 * np.pi, 73)
    cosine, sine, zero = np.cos(turn), np.sin(turn), np.zeros_like(turn)
    for x, y, z in ((cosine, sine, zero), (cosine, zero, sine), (zero, cosine, sine)):
        ax.plot(x, y, z, color="0.85", linewidth=0.6)
    for axis in np.eye(3):
        ax.plot(*np.outer([-1.0, 1.0], axis).T, color="0.85", linewidth=0.5)
    # Pieces that share their ends.
    edges = np.unique(np.linspace(0, len(path) - 1, PIECES + 1).astype(int))
    for number, (first, last) in enumerate(pairwise(edges)):
        colour = colormaps["viridis"](number / max(1, edges.size - 2))
        ax.plot(*path[first : last + 1].T, color=colour, linewidth=1.2)
    ax.scatter(*path[0], color=COLORS["blue"], s=14, label="first")
    ax.scatter(*path[-1], color=COLORS["vermillion"], s=14, label="last")
    for place, text in (
        ((0.0, 0.0, 1.2), r"$|0\rangle$"),
        ((0.0, 0.0, -1.3), r"$|1\rangle$"),
        ((1.25, 0.0, 0.0), "x"),
        ((0.0, 1.2, 0.0), "y"),
    ):
        ax.text(*place, text, fontsize="small", ha="center", va="center")
    ax.set_box_aspect((1, 1, 1), zoom=1.55)
    ax.set_axis_off()
    ax.view_init(elev=18, azim=35)


def levels(r: Results) -> Figure | None:
    """Draw levels on a grid: energies with the populations at T, and densities on the potential."""
    if not is_quantum(r) or "densities" not in r:
        return None
    if "y" not in r:
        fig = figure("double", 3.2)
        scheme, curves = fig.subplots(1, 2, width_ratios=[1.0, 1.6])
        _scheme(scheme, r)
        _along(curves, r)
        return fig
    shown = np.asarray(r["level_shown"])[:MOST_PANELS]
    fig = figure("double", 3.6)
    grid = fig.add_gridspec(2, 4, width_ratios=[1.25, 1.0, 1.0, 1.0])
    _scheme(fig.add_subplot(grid[:, 0]), r)
    for number, level in enumerate(shown):
        ax = fig.add_subplot(grid[number // 3, 1 + number % 3])
        _density(ax, r, number, int(level))
        if number % 3:
            ax.set_yticklabels([])
        else:
            ax.set_ylabel("y (bohr)")
        if number + 3 < shown.size:
            ax.set_xticklabels([])
        else:
            ax.set_xlabel("x (bohr)")
    return fig


def _scheme(ax: Axes, r: Results) -> None:
    """Draw energies above the lowest level, with their populations at T as bars."""
    energies = WAVENUMBER * (r["energies"] - r["energies"][0])
    last, largest = r["populations"][-1], r["populations"].max(axis=0)
    used = np.flatnonzero(largest > SEEN)
    top = 1.12 * float(energies[used[-1]]) if used.size and used[-1] else float(energies[-1])
    count = int(np.searchsorted(energies, top))
    ax.hlines(energies[:count], 0.0, 1.0, color="0.7", linewidth=0.7)
    for k in used:
        if k < count:
            ax.hlines(energies[k], 0.0, float(largest[k]), color=COLORS["sky"], linewidth=2.2)
            ax.hlines(energies[k], 0.0, float(last[k]), color=COLORS["vermillion"], linewidth=2.2)
            ax.annotate(
                str(k),
                (1.0, float(energies[k])),
                xytext=(2 + 8 * (k % 2), 0),
                textcoords="offset points",
                fontsize="small",
                va="center",
            )
    ax.plot([], [], color=COLORS["vermillion"], linewidth=2.2, label="at T")
    ax.plot([], [], color=COLORS["sky"], linewidth=2.2, label="largest")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(-0.03 * top, top)
    ax.set_xlabel("population")
    ax.set_ylabel(r"$E - E_0$ (cm$^{-1}$)")
    _legend(ax, 2)


def _along(ax: Axes, r: Results) -> None:
    """Draw the potential of one coordinate, and |psi|^2 of levels above their energies."""
    x, potential, energies = r["x"], WAVENUMBER * (r["potential"] - r["energies"][0]), r["energies"]
    shown = [int(k) for k in r["level_shown"]][:MOST_PANELS]
    heights = WAVENUMBER * (energies[shown] - energies[0])
    step = float(np.diff(heights).min(initial=max(float(heights[-1]), 1.0)))
    top = float(heights[-1]) + 2.0 * step
    ax.plot(x, potential, color="0.4")
    for number, height in enumerate(heights):
        density = r["densities"][number]
        ax.fill_between(
            x, height, height + 0.9 * step * density / float(density.max()), alpha=0.6, linewidth=0.0
        )
    inside = x[potential < 1.3 * top]
    ax.set_xlim(float(inside[0]), float(inside[-1]))
    ax.set_ylim(float(potential.min()), top)
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel(r"$E - E_0$ (cm$^{-1}$)")


def _density(ax: Axes, r: Results, number: int, level: int) -> None:
    """Draw |psi|^2 of a level with contours of the potential."""
    x, y, potential, density = r["x"], r["y"], r["potential"], r["densities"][number]
    ax.pcolormesh(x, y, density.T, cmap="Blues", shading="gouraud", rasterized=True)
    low, energies = float(potential.min()), r["energies"]
    reach = float(energies[min(energies.size - 1, max(6, level + 1))]) - low
    ax.contour(x, y, potential.T, low + reach * np.linspace(0.15, 1.35, 5), colors="0.5", linewidths=0.4)
    inside = r["densities"].max(axis=0) > 1e-3 * float(r["densities"].max())
    for axis, set_limits, points in ((1, ax.set_xlim, x), (0, ax.set_ylim, y)):
        there = points[inside.any(axis=axis)]
        set_limits(float(there[0]), float(there[-1]))
    ax.set_title(f"level {level}", fontsize="small")
    ax.grid(visible=False)


def overview(r: Results) -> Figure | None:
    """Draw controls, populations, and the gate or the goal over time beside the convergence."""
    if in_column():
        return compose(r, (fields, populations))
    searched = r["history/sweeps"].size > 1
    third = "unitary_final" in r or "free_time" in r or (not searched and "goal" in r)
    fig = figure("double", 4.6)
    # Each row is laid out by itself: the colour bar of a gate leaves no gap beside the populations.
    top, bottom = np.ravel(np.asarray(fig.subfigures(2, 1)))
    count = 1 + third + searched
    below = list(np.ravel(bottom.subplots(1, count, width_ratios=[1.4, 1.1, 1.0] if count == 3 else None)))
    _controls(top.subplots(), r)
    _populations(below[0], r, 2 if count == 3 else 4)
    if searched:
        _convergence(below[-1], r)
    if third and "unitary_final" in r:
        _matrix(below[1], r["unitary_final"], bottom)
    elif third:
        _goal_path(below[1], r)
    return fig


def budget(r: Results) -> Figure | None:
    """Draw what is missing from 1: without any jump, by every jump to first order, and in all; None without jumps."""
    if not is_quantum(r) or "budget" not in r:
        return None
    kinds = ("fidelity", "goals", "probability", "closeness")
    kind = next(name for name in kinds if name in r.scalars)
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
    colours = ["C0", *["C1"] * (len(names) - 2), "C7"]
    ax.barh(places, missing, color=colours)
    ax.set_yticks(places, names)
    # the first one on top
    ax.invert_yaxis()
    ax.axvline(0.0, color="black", linewidth=0.8)
    if "leakage" in r.scalars:
        leak = float(str(r.scalars["leakage"].value))
        ax.axvline(leak, color="C3", linestyle="--", label="leakage")
        _legend(ax)
    ax.set_xlabel(("1 - F" if kind == "fidelity" else "1 - P") + (" of the nominal system" if own else ""))
    return fig
