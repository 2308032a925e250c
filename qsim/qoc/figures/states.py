"""Figures of the states: populations, the goal on the way, gates, Bloch paths, levels and densities on a grid."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, figure
from qsim.qoc.figures import reading
from qsim.qoc.figures.controls import MAX_POINTS, MOST_PANELS
from qsim.qoc.figures.reading import MOST_CURVES, WAVENUMBER, clock, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

# Colours along a Bloch path.
PIECES = 64
# Size of an entry of a gate whose phase means something.
PHASED = 0.02
# Levels that a potential is drawn with.
MOST_LEVELS = 12


def populations_panel(ax: Axes, r: Results, columns: int = 4) -> None:
    """Draw the states that are populated most; legends of narrow panels have fewer columns."""
    t, table = reading.populations_of(r)
    largest, step = table.max(axis=0), max(1, t.size // MAX_POINTS)
    chosen = [k for k in np.argsort(-largest, kind="stable")[:MOST_CURVES] if k in reading.seen(r)]
    for number, k in enumerate(sorted(map(int, chosen))):
        ax.plot(t[::step], table[::step, k], label=reading.state_name(r, k), **reading.look(number))
    ax.set_xlim(0.0, float(t[-1]))
    ax.set_ylim(0.0, 1.02 * float(largest.max()))
    ax.set_xlabel(clock(r)[1])
    ax.set_ylabel("population")
    legend_above(ax, 2 if reading.kind_of(r) == "rotor" else columns)


def populations(r: Results) -> Figure:
    """Draw the populations of the basis states; of a gate, from its first logical state."""
    fig = figure("double", 2.6)
    populations_panel(fig.subplots(), r, 6)
    return fig


def goal_panel(ax: Axes, r: Results) -> None:
    """Draw the value of the goal over time, of a rotor through its revival."""
    factor, label = clock(r)
    ax.plot(factor * r["time_populations"], r["goal"], color=COLORS["blue"], label="pulse")
    if "free_time" in r:
        ax.plot(factor * r["free_time"], r["free_goal"], color=COLORS["vermillion"], label="free")
        ax.axvspan(0.0, factor * float(r["free_time"][0]), color="0.93", linewidth=0, zorder=0)
        legend_above(ax)
    ax.set_xlabel(label)
    ax.set_ylabel(reading.goal_name(r))
    ax.set_xlim(left=0.0)


def goal(r: Results) -> Figure | None:
    """Draw the value of the goal during the controls and, of a rotor, its revivals; None for gates."""
    if "goal" not in r:
        return None
    fig = figure("double" if "free_time" in r else "single")
    goal_panel(fig.subplots(), r)
    return fig


# ------------------------------------------------------------------------------------------- gates and qubits
def gate(r: Results) -> Figure | None:
    """Draw the matrix in the logical space: size by area, phase by colour; None without a gate."""
    if "unitary_final" not in r:
        return None
    fig = figure("single", 2.9)
    matrix_panel(fig.subplots(), r["unitary_final"], fig)
    return fig


def matrix_panel(ax: Axes, matrix: NDArray[np.complex128], fig: Figure) -> None:
    """Draw entries as squares whose side is their size, their colour the phase."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    count = len(matrix)
    rows, columns = np.nonzero(np.abs(matrix) > PHASED)
    sizes = np.minimum(np.abs(matrix[rows, columns]), 1.0) * 0.94
    places = zip(rows, columns, sizes, strict=True)
    squares = [Rectangle((c - 0.5 * s, r - 0.5 * s), s, s) for r, c, s in places]
    colours = ScalarMappable(Normalize(-1.0, 1.0), "twilight")
    faces = colours.to_rgba(np.angle(matrix[rows, columns]) / np.pi)
    ax.add_collection(PatchCollection(squares, facecolor=faces, edgecolor="0.4", linewidth=0.3))
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
    names = [name for name in r.names if name.startswith("bloch/")][:MOST_PANELS]
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
    poles = ((0.0, 0.0, 1.2), r"$|0\rangle$"), ((0.0, 0.0, -1.3), r"$|1\rangle$")
    for place, text in (*poles, ((1.25, 0.0, 0.0), "x"), ((0.0, 1.2, 0.0), "y")):
        ax.text(*place, text, fontsize="small", ha="center", va="center")
    ax.set_box_aspect((1, 1, 1), zoom=1.55)
    ax.set_axis_off()
    ax.view_init(elev=18, azim=35)


# ------------------------------------------------------------------------------------------- coordinates
def levels(r: Results) -> Figure | None:
    """Draw levels on a grid: energies with the populations at T, and densities on the potential; None without a grid."""
    if "energies" not in r:
        return None
    if "y" not in r:
        fig = figure("double", 3.2)
        scheme, curves = fig.subplots(1, 2, width_ratios=[1.0, 1.6])
        _scheme(scheme, r)
        (potential_panel if "psi_target" in r else _along)(curves, r)
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
    energies, (_, table) = WAVENUMBER * (r["energies"] - r["energies"][0]), reading.populations_of(r)
    last, largest, used = table[-1], table.max(axis=0), reading.seen(r)
    top = 1.12 * float(energies[used[-1]]) if used and used[-1] else float(energies[-1])
    count = int(np.searchsorted(energies, top))
    ax.hlines(energies[:count], 0.0, 1.0, color="0.7", linewidth=0.7)
    for k in used:
        if k < count:
            ax.hlines(energies[k], 0.0, float(largest[k]), color=COLORS["sky"], linewidth=2.2)
            ax.hlines(energies[k], 0.0, float(last[k]), color=COLORS["vermillion"], linewidth=2.2)
            beside: dict[str, Any] = {
                "xytext": (2 + 8 * (k % 2), 0),
                "textcoords": "offset points",
                "va": "center",
            }
            ax.annotate(str(k), (1.0, float(energies[k])), fontsize="small", **beside)
    ax.plot([], [], color=COLORS["vermillion"], linewidth=2.2, label="at T")
    ax.plot([], [], color=COLORS["sky"], linewidth=2.2, label="largest")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(-0.03 * top, top)
    ax.set_xlabel("population")
    ax.set_ylabel(r"$E - E_0$ (cm$^{-1}$)")
    legend_above(ax, 2)


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
        curve = height + 0.9 * step * density / float(density.max())
        ax.fill_between(x, height, curve, alpha=0.6, linewidth=0.0)
    inside = x[potential < 1.3 * top]
    ax.set_xlim(float(inside[0]), float(inside[-1]))
    ax.set_ylim(float(potential.min()), top)
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel(r"$E - E_0$ (cm$^{-1}$)")


def potential_panel(ax: Axes, r: Results) -> None:
    """Draw potential and levels, with the densities of the initial and the target state at their energies."""
    x, v, energies = r["x"], r["potential"], r["energies"]
    initial, target = (np.abs(r[name]) ** 2 for name in ("psi_initial", "psi_target"))
    drawn = [e for e in energies[:MOST_LEVELS] if np.isfinite(e)]
    mean = [_energy(r, name) for name in ("psi_initial", "psi_target")]
    bottom = float(v.min())
    top = max([*mean, *drawn[: 1 + max(reading.seen(r), default=0)]])
    top += 0.25 * (top - bottom)
    inside = x[(v < top) | (initial > 1e-3 * initial.max()) | (target > 1e-3 * target.max())]
    ax.plot(x, v, color="0.3")
    for energy in drawn:
        where = x[v < energy]
        if energy < top and where.size:
            ax.hlines(energy, where[0], where[-1], color="0.75", linewidth=0.6)
    height = 0.22 * (top - bottom) / max(float(initial.max()), float(target.max()))
    looks = (initial, mean[0], "blue", "-", "initial"), (target, mean[1], "vermillion", "--", "target")
    for density, base, color, dashes, name in looks:
        ax.plot(x, base + height * density, color=COLORS[color], linestyle=dashes, label=name)
        ax.fill_between(x, base, base + height * density, color=COLORS[color], alpha=0.15, linewidth=0)
    ax.set_xlim(inside[0], inside[-1])
    ax.set_ylim(bottom - 0.04 * (top - bottom), top)
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel("energy (hartree)")
    legend_above(ax, 2)


def _energy(r: Results, name: str) -> float:
    """Return the mean energy of a state, by differences on the grid: the height at which it is drawn."""
    x, v, psi = r["x"], r["potential"], r[name]
    dx = float(x[1] - x[0])
    slope = np.gradient(psi, dx)
    kinetic = float(np.sum(np.abs(slope) ** 2)) * dx / (2.0 * float(r.deck["system"]["mass"]))
    return kinetic + float(np.sum(v * np.abs(psi) ** 2)) * dx


def final_panel(ax: Axes, r: Results) -> None:
    """Draw the density at T with that of the target."""
    x = r["x"]
    target, final = np.abs(r["psi_target"]) ** 2, np.abs(r["psi_final"]) ** 2
    ax.plot(x, target, color=COLORS["vermillion"], label="target")
    ax.plot(x, final, color=COLORS["black"], linestyle="--", label=r"$|\psi(T)|^2$")
    inside = x[(target > 1e-4 * target.max()) | (final > 1e-4 * final.max())]
    ax.set_xlim(inside[0], inside[-1])
    ax.set_xlabel("x (bohr)")
    ax.set_ylabel("density (1/bohr)")
    legend_above(ax, 2)


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
