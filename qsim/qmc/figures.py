"""Figures of a qmc results file."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import COLORS, bar_beside, compose, figure
from qsim.core.text import with_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

SPINS = {"uu": r"$\uparrow\uparrow$", "ud": r"$\uparrow\downarrow$", "dd": r"$\downarrow\downarrow$"}
CYCLE = [color for name, color in COLORS.items() if name != "black"]
ENERGY = "energy (hartree)"
TAU = r"$\tau$ (1/hartree)"
SHOWN = 4  # panels of traces at most
ROUNDING = 1e-8  # hartree: energies that differ by less have no slope worth a figure
CONSTANT = 1e-8
"""Relative spread of numbers that differ by rounding."""
LINE = 10  # blocks that a running mean joins


def _groups(r: Results) -> list[tuple[str, str]]:
    """Return the groups of all vmc and dmc parts with their labels, in the order of the run."""
    found = []
    for index, kind in enumerate(r["section"]):
        if kind == "vmc":
            found.append((f"series_{index}", f"vmc (section {index})"))
        elif kind == "dmc":
            taus = _timesteps(r, index)
            found += [(f"series_{index}/tau_{k}", rf"dmc, $\tau = {tau:g}$") for k, tau in enumerate(taus)]
    return [(group, label) for group, label in found if f"{group}/energy" in r]


def _timesteps(r: Results, index: int) -> list[float]:
    """Return the time steps of a section in the order of the deck."""
    block = r.deck["series"][index]["dmc"]
    return [float(tau) for tau in block["timesteps"]]


def _mean(r: Results, group: str) -> tuple[float, float]:
    """Return the mean energy of a part and its error, NaN if there is none."""
    k = list(r[f"{group}/component"]).index("energy")
    return float(r[f"{group}/mean"][k]), float(r[f"{group}/mean_error"][k])


def _no_offset(ax: Axes) -> None:
    """Write energies in full, not as an offset."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    ax.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    ax.yaxis.set_major_locator(MaxNLocator(5))


def _whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def _panels(count: int) -> tuple[Figure, Any]:
    fig = figure("double", 0.5 + 1.25 * count)
    return fig, np.atleast_1d(fig.subplots(count, 1, squeeze=False)[:, 0])


# ------------------------------------------------------------------------------------------------ traces


def trace(r: Results) -> Figure | None:
    """Energy of each block, a running mean, and the mean with its error; of the last parts."""
    groups = _groups(r)[-SHOWN:]
    if not groups:
        return None
    fig, axes = _panels(len(groups))
    for ax, (group, label) in zip(axes, groups, strict=True):
        energy = r[f"{group}/energy"]
        mean, error = _mean(r, group)
        constant = _is_constant(energy)
        if constant:  # an exact wave function leaves rounding
            label, energy, mean = f"{label}: around {mean:.9g} hartree", energy - mean, 0.0
        number = np.arange(1, energy.size + 1)
        ax.plot(
            number,
            energy,
            color=COLORS["sky"],
            linewidth=0.6,
            marker="." if energy.size < 60 else "",
            markersize=2,
        )
        if energy.size >= 3 * LINE:
            running = np.convolve(energy, np.ones(LINE) / LINE, mode="valid")
            ax.plot(number[LINE // 2 : LINE // 2 + running.size], running, color=COLORS["blue"])
        ax.axhline(mean, color=COLORS["vermillion"], linewidth=0.9)
        if np.isfinite(error):
            ax.axhspan(mean - error, mean + error, color=COLORS["vermillion"], alpha=0.25, linewidth=0)
        ax.set_title(label, loc="left")
        ax.set_xlim(0.5, energy.size + 0.5)
        _whole_numbers(ax)
        if not constant:
            _no_offset(ax)
        ax.set_ylabel("rounding (hartree)" if constant else ENERGY)
    axes[-1].set_xlabel("block")
    return fig


def _is_constant(values: NDArray[np.float64]) -> bool:
    """Return True for numbers that differ by rounding only."""
    return float(np.ptp(values)) < CONSTANT * float(np.abs(values).max())


def population(r: Results) -> Figure | None:
    """Draw population and trial energy of diffusion Monte Carlo by block."""
    groups = [
        (group, label)
        for group, label in _groups(r)
        if f"{group}/population" in r and not _is_constant(r[f"{group}/population"])
    ][-SHOWN:]
    if not groups:
        return None
    fig, axes = _panels(len(groups))
    for ax, (group, label) in zip(axes, groups, strict=True):
        size = r[f"{group}/population"]
        number = np.arange(1, size.size + 1)
        ax.plot(number, size, color=COLORS["green"], linewidth=0.8)
        ax.set_ylabel("population", color=COLORS["green"])
        _no_offset(ax)
        ax.set_title(label, loc="left")
        other = ax.twinx()
        other.plot(number, r[f"{group}/trial_energy"], color=COLORS["orange"], linewidth=0.8)
        other.set_ylabel(r"$E_\mathrm{T}$ (hartree)", color=COLORS["orange"])
        other.grid(visible=False)
        _no_offset(other)
        ax.set_xlim(0.5, size.size + 0.5)
    axes[-1].set_xlabel("block")
    return fig


def reblock(r: Results) -> Figure | None:
    """Error of the mean energy against the length of the joined blocks, with the error that is quoted."""
    groups = [(group, label) for group, label in _groups(r) if f"{group}/reblock/error" in r]
    if not groups:
        return None
    fig = figure("single", 2.5)
    ax = fig.subplots()
    lowest = np.inf
    for k, (group, label) in enumerate(groups[-6:]):
        length, error = r[f"{group}/reblock/length"], r[f"{group}/reblock/error"]
        good = (r[f"{group}/reblock/blocks"] >= 4) & (error > 0.0)
        if not good.any():
            continue
        color = CYCLE[k % len(CYCLE)]
        bars = r[f"{group}/reblock/error_of_error"][good]
        ax.errorbar(
            length[good], error[good], bars, color=color, marker="o", markersize=2.5, capsize=1.5, label=label
        )
        quoted = _mean(r, group)[1]
        if np.isfinite(quoted):
            ax.axhline(
                quoted, color=color, linestyle=":", linewidth=0.8, label="as quoted" if k == 0 else None
            )
        lowest = min(lowest, float(error[good].min()))
    if not np.isfinite(lowest):
        return None
    ax.set_xscale("log", base=2)
    ax.set_ylim(0.0, None)
    ax.set_xlabel("blocks joined")
    ax.set_ylabel("error of the mean (hartree)")
    ax.legend()
    return fig


# --------------------------------------------------------------------------------------------- time step


def timestep(r: Results) -> Figure | None:
    """Diffusion energies against the time step, with their fit and the value at zero."""
    sections = [i for i, kind in enumerate(r["section"]) if kind == "dmc" and f"series_{i}/timestep" in r]
    sections = [i for i in sections if r.shape(f"series_{i}/timestep")[0] > 1]
    sections = [i for i in sections if float(np.ptp(r[f"series_{i}/timestep_energy"])) > ROUNDING]
    if not sections:
        return None
    fig = figure("single", 2.5)
    ax = fig.subplots()
    for k, index in enumerate(sections):
        group, color = f"series_{index}", CYCLE[k % len(CYCLE)]
        tau, energy, error = (
            r[f"{group}/{name}"] for name in ("timestep", "timestep_energy", "timestep_error")
        )
        bars = np.where(np.isfinite(error), error, 0.0)
        label = f"section {index}" if len(sections) > 1 else "dmc"
        ax.errorbar(tau, energy, bars, color=color, marker="o", linestyle="none", capsize=2, label=label)
        if f"{group}/fit/coefficients" not in r:
            continue
        c, covariance = r[f"{group}/fit/coefficients"], r[f"{group}/fit/covariance"]
        x = np.linspace(0.0, 1.05 * float(tau.max()), 200)
        powers = x[:, None] ** np.arange(c.size)
        y, spread = powers @ c, np.sqrt(np.einsum("pi,ij,pj->p", powers, covariance, powers))
        order = "linear fit" if c.size == 2 else "quadratic fit"
        fit = order if tau.size > c.size else f"through {tau.size} points"
        ax.plot(x, y, color=color, linewidth=0.9, label=fit)
        ax.fill_between(x, y - spread, y + spread, color=color, alpha=0.15, linewidth=0)
        ax.errorbar(
            [0.0], [c[0]], [spread[0]], color=color, marker="s", markerfacecolor="white", capsize=2, clip_on=False,
            label=rf"$\tau \to 0$: {with_error(float(c[0]), float(spread[0]))}",
        )  # fmt: skip
    ax.set_xlim(0.0, None)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(TAU)
    ax.set_ylabel(ENERGY)
    _no_offset(ax)
    ax.legend()
    return fig


# ------------------------------------------------------------------------------------------- optimisation


def optimisation(r: Results) -> Figure | None:
    """Energy and variance at each iteration."""
    # of several twists it is that of one of them
    names = [
        (i, name.removesuffix("/energy"))
        for i, kind in enumerate(r["section"])
        for name in r.names
        if kind == "optimize" and fnmatch(name, f"series_{i}/*history/energy")
    ]
    if not names:
        return None
    fig = figure("double", 2.3)
    left, right = fig.subplots(1, 2)
    first = 0
    for k, (index, group) in enumerate(names):
        color = CYCLE[k % len(CYCLE)]
        energy, variance = r[f"{group}/energy"], r[f"{group}/variance"]
        number = first + np.arange(energy.size)
        label = f"section {index}"
        style: dict[str, Any] = {
            "color": color,
            "marker": "o",
            "markersize": 2.5,
            "capsize": 1.5,
            "label": label,
        }
        left.errorbar(number, energy, r[f"{group}/energy_error"], **style)
        right.errorbar(number, variance, r[f"{group}/variance_error"], **style)
        first += energy.size
    for ax, text in ((left, ENERGY), (right, r"variance of $E_\mathrm{L}$ (hartree$^2$)")):
        ax.set_xlabel("iteration")
        ax.set_ylabel(text)
        _whole_numbers(ax)
    _no_offset(left)
    right.set_ylim(0.0, None)
    if len(names) > 1:
        left.legend()
    return fig


def jastrow(r: Results) -> Figure | None:
    """Functions of the Jastrow factor at the end and, dashed, at the start."""
    names = [name.split("/")[1] for name in r.names if name.startswith("jastrow/") and name.endswith("/u")]
    pairs = [name for name in names if name in ("uu", "ud")]
    ions = [name for name in names if name not in pairs]
    panels = [(some, text) for some, text in ((pairs, "$u(r)$"), (ions, r"$\chi(r)$")) if some]
    if not panels:
        return None
    fig = figure("double" if len(panels) > 1 else "single", 2.3)
    axes = np.atleast_1d(fig.subplots(1, len(panels)))
    for ax, (some, text) in zip(axes, panels, strict=True):
        changed = False
        for k, name in enumerate(some):
            x, end, start = (r[f"jastrow/{name}/{part}"] for part in ("r", "u", "u_start"))
            # pairs of spins have the colours that they have in other panels
            color = CYCLE[(list(SPINS).index(name) if name in SPINS else k) % len(CYCLE)]
            ax.plot(x, end, color=color, label=SPINS.get(name, name))
            if not np.array_equal(start, end):
                ax.plot(x, start, color=color, linestyle="--", linewidth=0.8)
                changed = True
        if changed:
            ax.plot([], [], color="0.4", linestyle="--", linewidth=0.8, label="at the start")
        ax.axhline(0.0, color="0.5", linewidth=0.4)
        ax.set_xlim(0.0, None)
        ax.set_xlabel("$r$ (bohr)")
        ax.set_ylabel(text)
        ax.legend()
    return fig


# --------------------------------------------------------------------------------------------- estimators


def _last_with(r: Results, name: str) -> tuple[str, str] | None:
    return next(((group, label) for group, label in reversed(_groups(r)) if f"{group}/{name}" in r), None)


def gofr(r: Results) -> Figure | None:
    """Distribution of the distances of two electrons, of the last section that measured it."""
    found = _last_with(r, "gofr_r")
    if found is None:
        return None
    group, label = found
    x = r[f"{group}/gofr_r"]
    fig = figure("single", 2.5)
    ax = fig.subplots()
    # in a cell pairs fill all space: their density levels off; in a molecule it is the number of pairs that does
    periodic = r.deck.get("system", {}).get("cell", "open") != "open"
    shell = np.ones_like(x) if periodic else 4.0 * np.pi * x**2
    uu, dd = (r[f"{group}/gofr_{kind}"] for kind in ("uu", "dd"))
    same = bool(uu.any()) and float(np.abs(uu - dd).max()) < 0.1 * float(
        uu.max()
    )  # as many up as down: one curve hides the other
    for k, (kind, text) in enumerate(SPINS.items()):
        if kind == "dd" and same:
            continue
        text = rf"{text}, {SPINS['dd']}" if kind == "uu" and same else text
        y, error = shell * r[f"{group}/gofr_{kind}"], shell * r[f"{group}/gofr_{kind}_error"]
        if not y.any():
            continue
        ax.plot(x, y, color=CYCLE[k], label=text)
        if np.isfinite(error).all():
            ax.fill_between(x, y - error, y + error, color=CYCLE[k], alpha=0.25, linewidth=0)
    ax.set_xlim(0.0, float(x[-1]))
    ax.set_ylim(0.0, None)
    ax.set_xlabel("$r$ (bohr)")
    ax.set_ylabel("$h(r)$, pairs per bohr$^3$" if periodic else r"$4\pi r^2 h(r)$, pairs per bohr")
    ax.set_title(label, loc="left")
    ax.legend()
    return fig


def sofk(r: Results) -> Figure | None:
    """Draw the structure factor of the last section that measured it."""
    found = _last_with(r, "sofk")
    if found is None:
        return None
    group, label = found
    fig = figure("single", 2.5)
    ax = fig.subplots()
    ax.errorbar(r[f"{group}/sofk_k"], r[f"{group}/sofk"], r[f"{group}/sofk_error"], fmt=".", color=CYCLE[0])
    ax.set_xlim(0.0, None)
    ax.set_ylim(0.0, None)
    ax.set_xlabel("$k$ (1/bohr)")
    ax.set_ylabel("$S(k)$")
    ax.set_title(label, loc="left")
    return fig


def density(r: Results) -> Figure | None:
    """Density integrated along z (of a mesh), or around each atom."""
    found = _last_with(r, "density_up")
    if found is None:
        return _radial(r)
    group, label = found
    x, y, z = (r[f"{group}/density_{axis}"] for axis in "xyz")
    values = r[f"{group}/density_up"] + r[f"{group}/density_down"]
    # atoms of a planar molecule should be seen: integrate along the axis in which they spread least
    crystal = (
        r.deck["system"].get("cell") == "periodic"
    )  # whose axes are its lattice vectors, in any directions
    symbols = [] if crystal or "atoms/symbol" not in r else list(r["atoms/symbol"])
    atoms = r["atoms/position"] if symbols else np.zeros((1, 3))
    axis = int(np.argmin(np.ptp(atoms, axis=0)[::-1]))  # z first
    axis = 2 - axis
    grids, names = [x, y, z], ("a_1", "a_2", "a_3") if crystal else ("x", "y", "z")
    width = float(grids[axis][1] - grids[axis][0]) if grids[axis].size > 1 else 1.0
    flat = values.sum(axis=axis) * width
    a, b = (k for k in range(3) if k != axis)
    fig = figure("single", 2.9)
    ax = fig.subplots()
    positive = flat[flat > 0.0]
    if not positive.size:
        return None
    from matplotlib.colors import PowerNorm

    image = ax.pcolormesh(grids[a], grids[b], flat.T, shading="nearest", norm=PowerNorm(0.5), rasterized=True)
    bar = bar_beside(image, ax, "electrons per bohr$^2$")
    bar.set_ticks([f * float(flat.max()) for f in (0.0, 0.1, 0.3, 0.6, 1.0)])
    bar.ax.yaxis.set_major_formatter("{x:.2g}")
    for symbol, place in zip(symbols, atoms, strict=False):
        ax.annotate(
            str(symbol), (place[a], place[b]), color="white", fontsize="small", ha="center", va="center"
        )
    ax.set_aspect("equal")
    ax.grid(visible=False)
    ax.set_xlabel(f"${names[a]}$ (bohr)")
    ax.set_ylabel(f"${names[b]}$ (bohr)")
    ax.set_title(f"{label}, integrated over ${names[axis]}$", loc="left")
    return fig


def _radial(r: Results) -> Figure | None:
    """Density around each atom against the distance, of the last part that measured it."""
    found = _last_with(r, "radial_r")
    if found is None:
        return None
    group, label = found
    x = r[f"{group}/radial_r"]
    values = r[f"{group}/radial_up"] + r[f"{group}/radial_down"]
    symbols = [str(symbol) for symbol in r["atoms/symbol"]]
    fig = figure("single", 2.5)
    ax = fig.subplots()
    for k in range(min(values.shape[0], 6)):
        ax.plot(
            x,
            4.0 * np.pi * x**2 * values[k],
            color=CYCLE[k % len(CYCLE)],
            label=symbols[k] if len(symbols) == 1 else f"{symbols[k]} {k}",
        )
    ax.set_xlim(0.0, float(x[-1]))
    ax.set_ylim(0.0, None)
    ax.set_xlabel("$r$ (bohr)")
    ax.set_ylabel(r"$4\pi r^2 n(r)$ (1/bohr)")
    ax.set_title(label, loc="left")
    ax.legend()
    return fig


def overview(r: Results) -> Figure | None:
    """Draw the energies of the series, the density and the trial function on a page."""
    return compose(r, (timestep, trace, density, jastrow, gofr, optimisation))


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    "trace": trace,
    "population": population,
    "reblock": reblock,
    "timestep": timestep,
    "optimisation": optimisation,
    "jastrow": jastrow,
    "gofr": gofr,
    "sofk": sofk,
    "density": density,
}
