"""Figures of collisions: cross sections, angles, waves, scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.plotting import bar_beside, figure, in_column
from qsim.sturmian.radial.curves import CYCLE
from qsim.sturmian.scatter.cross_sections.kinematics import HARTREE_EV

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

# Decades of |u| that a map shows.
DECADES = 5.0
# Most energies of a figure, one panel each.
ROWS = 4
# Colour of break-up; level k has CYCLE[k] in every panel.
BREAK_UP = "0.25"
# Energies from which a curve has no marks.
CROWDED = 50
# Most equations whose residuals are named.
NAMED = 9
# Fixed angles of a polar plot.
SHOWN = 4
# Lines of curves that may lie on one another, such as three gauges.
LINES = ("-", "--", ":")
KEYS = {
    "R": "$R$ (bohr)",
    "order": "points per element",
    "angle": "angle (rad)",
    "length": "length (bohr)",
    "N": "functions per $l$",
    "l_max": r"$l_\mathrm{max}$",
}
SYMBOLS = {"pi a0^2": r"$\pi a_0^2$", "kb": "kb", "a0^2/(hartree sr)": r"$a_0^2$/(hartree sr)"}


def _unit(r: Results, name: str) -> str:
    """Return the unit of an array as it is written in a figure."""
    text = r.unit(name)
    for plain, symbol in SYMBOLS.items():
        if text.startswith(plain):
            return symbol + text[len(plain) :].replace("sr^2", "sr$^2$")
    return text


def _labels(r: Results) -> list[str]:
    names = [str(name) for name in r["label"]]
    return ["" for _ in names] if names == ["born"] else names


def _ev(energy: float) -> str:
    return f"{energy * HARTREE_EV:.4g} eV"


def wave(r: Results) -> Figure | None:
    """Modulus of the largest component of the first solution, the scaled region shaded."""
    if "wave/u" not in r:
        return None
    # Plotted against the arc length: the radius itself is complex beyond R0.
    arc, u = r["wave/r"], r["wave/u"]
    R0 = float(np.max(r["r"].real[np.abs(r["r"].imag) < 1e-12]))
    fig = figure("single", 3.0)
    ax = fig.subplots()
    top = float(u.max())
    mesh = ax.pcolormesh(
        arc, arc, np.maximum(u, top * 10.0**-DECADES).T, norm="log", vmin=top * 10.0**-DECADES, vmax=top, cmap="viridis",
        shading="gouraud", rasterized=True,
    )  # fmt: skip
    end = float(arc[-1])
    for x, y, width, height in ((R0, 0.0, end - R0, end), (0.0, R0, R0, end - R0)):
        ax.fill_between([x, x + width], y, y + height, color="white", alpha=0.45, linewidth=0)
    ax.plot([R0, R0, 0.0], [0.0, R0, R0], color="white", linewidth=0.8, linestyle="--")
    ax.text(0.5 * R0, R0 + 0.3 * (end - R0), "complex radius", color="black", ha="center", fontsize="small")
    ax.set_aspect("equal")
    ax.set_xlim(0.0, end)
    ax.set_ylim(0.0, end)
    ax.set_xlabel("$r_1$ along the contour (bohr)")
    ax.set_ylabel("$r_2$ along the contour (bohr)")
    bar_beside(mesh, ax, "$|u(r_1, r_2)|$")
    return fig


def sharing(r: Results) -> Figure | None:
    """Density of energy sharing with its error band."""
    if "sdcs" not in r:
        return None
    x, values, errors, labels = r["sdcs_share"], r["sdcs"], r["sdcs_error"], _labels(r)
    points = min(values.shape[0], ROWS)
    fig = figure("single" if points == 1 else "double", 2.6 if points < 3 else 4.6)
    columns = min(points, 2)
    axes = np.ravel(np.atleast_1d(fig.subplots(-(-points // columns), columns, squeeze=False)))
    for ax in axes[points:]:
        ax.remove()
    for i, ax in zip(range(points), axes, strict=False):
        for j, label in enumerate(labels):
            y, error, color = values[i, j], errors[i, j], CYCLE[j % len(CYCLE)]
            ax.fill_between(x, np.maximum(y - error, 0.0), y + error, color=color, alpha=0.25, linewidth=0)
            ax.plot(x, y, color=color, linestyle=LINES[j % len(LINES)], label=label or None)
            # Published points lie on the curve of the same spin, in its colour.
            if "known/sdcs" in r:
                ax.plot(
                    r["known/share"],
                    r["known/sdcs"][i, j],
                    "o",
                    color=color,
                    markersize=3,
                    fillstyle="none",
                    label="published" if j == len(labels) - 1 else None,
                )
        ax.set_ylim(bottom=0.0)
        ax.set_xlim(0.0, 1.0)
        ax.set_xlabel(r"$\varepsilon/E$")
        ax.set_ylabel(rf"$d\sigma/d\varepsilon$ ({_unit(r, 'sdcs')})")
        ax.set_title(_ev(float(r["collision_energy"][i])), loc="left")
    handles, names = axes[-1 if points == 1 else points - 1].get_legend_handles_labels()
    if names and points == 1:
        axes[0].legend()
    elif names:
        # below the panels, since curves fill them
        fig.legend(handles, names, loc="outside lower center", ncols=len(names))
    return fig


def cross_sections(r: Results) -> Figure | None:
    """Cross sections against the energy: break-up, all channels and the lowest levels."""
    if "collision_energy" not in r or "sigma_total" not in r or r.shape("sigma_total")[0] < 2:
        return None
    order = np.argsort(r["collision_energy"])
    energy = r["collision_energy"][order] * HARTREE_EV
    labels = _labels(r)
    fig = figure("double", 2.6)
    axes = np.atleast_1d(fig.subplots(1, len(labels), squeeze=False)[0])
    for j, (ax, label) in enumerate(zip(axes, labels, strict=True)):
        broken, error = r["sigma_ionisation"][order, j], r["sigma_ionisation_error"][order, j]
        curves = [("break-up", BREAK_UP, broken, error)]
        if "sigma_level" in r:
            for k, name in enumerate(str(name) for name in r["level"]):
                if k < 4:
                    level, error = r["sigma_level"][order, j, k], r["sigma_level_error"][order, j, k]
                    curves.append((name, CYCLE[k], level, error))
        for name, color, y, error in curves:
            good = np.isfinite(y) & (y > 0.0)
            if not good.any():
                continue
            # A logarithmic axis cannot show an error that reaches zero: bars end at 1 % of the
            # value.
            ax.errorbar(
                energy[good], y[good], yerr=np.minimum(error[good], 0.99 * y[good]), color=color, label=name,
                linestyle="-" if energy.size > 3 else "none", **_marks(energy.size),
            )  # fmt: skip
        ax.set_yscale("log")
        _thresholds(ax, r)
        ax.set_xlabel("energy (eV)")
        ax.set_ylabel(rf"$\sigma$ ({_unit(r, 'sigma_total')})")
        ax.set_title(label, loc="left")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def _marks(count: int) -> dict[str, Any]:
    """Return marks and ends of error bars of a curve of so many points."""
    crowded = count >= CROWDED
    return {"marker": "" if crowded else "o", "markersize": 3, "capsize": 0 if crowded else 2}


def _thresholds(ax: Axes, r: Results) -> None:
    """Mark the impact energies at which levels of a hydrogenic target and its ionisation open."""
    system, task = r.deck.get("system", {}), r.deck.get("task", {})
    potential = system.get("potential", "coulomb")
    name = potential.get("type", "coulomb") if isinstance(potential, dict) else potential
    if task.get("process", "e_h") != "e_h" or name != "coulomb":
        return
    depth = float(r["collision_energy"][0] - r["total_energy"][0])
    low, high = ax.get_xlim()
    for n, share in [*((f"$n={n}$", 1.0 - n**-2.0) for n in range(2, 5)), ("break-up", 1.0)]:
        energy = depth * share * HARTREE_EV
        if low < energy < high:
            ax.axvline(energy, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
            ax.annotate(
                n, (energy, 1.0), xycoords=("data", "axes fraction"), fontsize="small", ha="right", va="top", rotation=90,
                xytext=(-1, -2), textcoords="offset points",
            )  # fmt: skip


def phases(r: Results) -> Figure | None:
    """Phase shifts on their branch against the energy, a line for each spin and L."""
    if "phase_shift" not in r or r.shape("phase_shift")[0] < 2:
        return None
    order = np.argsort(r["collision_energy"])
    energy = r["collision_energy"][order] * HARTREE_EV
    values, errors = r["phase_shift"][order], r["phase_shift_error"][order]
    fig = figure("single")
    ax = fig.subplots()
    for j, label in enumerate(_labels(r)):
        for m, L in enumerate(r["L"]):
            good = np.isfinite(values[:, j, m])
            if not good.any():
                continue
            ax.errorbar(
                energy[good], values[good, j, m], yerr=errors[good, j, m], linewidth=1.0, color=CYCLE[j % len(CYCLE)],
                linestyle=LINES[m % len(LINES)], label=f"{label}, L = {L}", **_marks(energy.size),
            )  # fmt: skip
    low, high = ax.get_ylim()
    # what phases go to at zero energy
    for n in range(int(np.ceil(low / np.pi)), int(np.floor(high / np.pi)) + 1):
        ax.axhline(n * np.pi, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xlabel("energy (eV)")
    ax.set_ylabel(r"$\delta$ (rad)")
    ax.legend(fontsize="small")
    return fig


def residuals(r: Results) -> Figure | None:
    """Relative residual of every driven equation after each step of the solver."""
    if "solver_history" not in r:
        return None
    histories, names = r["solver_history"], [str(name) for name in r["solution"]]
    # solved at once, by elimination
    if np.isfinite(histories).sum(axis=1).max() < 2:
        return None
    named = len(names) <= NAMED
    fig = figure("single", 2.4 + (0.1 * (len(names) + 1) if named else 0.0))
    ax = fig.subplots()
    for k, (history, name) in enumerate(zip(histories, names, strict=True)):
        good = np.isfinite(history) & (history > 0.0)
        steps = 1 + np.arange(history.size)
        label = name if named else None
        line = LINES[(k // len(CYCLE)) % len(LINES)]
        ax.semilogy(steps[good], history[good], line, color=CYCLE[k % len(CYCLE)], linewidth=1.0, label=label)
    ax.set_xlabel("step")
    ax.set_ylabel("relative residual")
    if named:
        # below the axes: curves of several equations fill them
        ax.legend(fontsize="small", ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.22))
    return fig


def unitarity(r: Results) -> Figure | None:
    """Draw the sum of the channels against the total of the optical theorem."""
    if "collision_energy" not in r or "unitarity_defect" not in r or "sigma_level" not in r:
        return None
    labels, energies, total = _labels(r), r["collision_energy"], r["sigma_total"]
    levels = [str(name) for name in r["level"]]
    bars = [(i, j) for i in range(min(energies.size, 6)) for j in range(len(labels))]
    names = [f"{_ev(float(energies[i]))} {labels[j]}".strip() for i, j in bars]
    fig = figure("double", 0.9 + 0.28 * len(bars))
    ax = fig.subplots()
    place = np.arange(len(bars))[::-1]
    left = np.zeros(len(bars))
    parts: list[tuple[str, str, NDArray[np.float64]]] = []
    for k, name in enumerate(levels[:5]):
        level = np.array([r["sigma_level"][i, j, k] / total[i, j] for i, j in bars])
        parts.append((name, CYCLE[k], level))
    if len(levels) > 5:
        higher = np.array([r["sigma_level"][i, j, 5:].sum() / total[i, j] for i, j in bars])
        parts.append(("higher levels", CYCLE[5], higher))
    rest = np.nan_to_num([r["sigma_rest"][i, j] / total[i, j] for i, j in bars])
    parts.append(("beyond the box", "0.75", rest))
    ionisation = np.array([r["sigma_ionisation"][i, j] / total[i, j] for i, j in bars])
    parts.append(("break-up", BREAK_UP, np.nan_to_num(ionisation)))
    # Stacked bars: each channel begins where the one before it ends, so that the end of a bar
    # is the sum of all channels.
    for name, color, share in parts:
        ax.barh(place, share, left=left, height=0.7, color=color, label=name)
        left = left + share
    errors = np.nan_to_num([r["unitarity_error"][i, j] for i, j in bars])
    ax.errorbar(left, place, xerr=errors, fmt="none", ecolor="black", capsize=2, linewidth=0.8)
    ax.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
    ax.set_yticks(place, names)
    ax.set_xlabel("share of the total")
    ax.set_xlim(0.0, max(1.05, 1.02 * float((left + errors).max())))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return fig


def angles(r: Results) -> Figure | None:
    """Fully differential cross section: over both angles, and against one at some angles of the other."""
    if "fdcs" not in r:
        return None
    name = "tdcs" if "tdcs" in r else "fdcs"
    theta, F = r["theta"], r[name][0, 0]
    # in one column below each other: neither has room for its labels in half of it
    column = in_column()
    fig = figure("double", 6.0 if column else 3.1)
    grid = fig.add_gridspec(2, 1) if column else fig.add_gridspec(1, 2)
    ax = fig.add_subplot(grid[0])
    mesh = ax.contourf(theta, theta, F.T, levels=14, cmap="viridis")
    ax.contour(theta, theta, F.T, levels=7, colors="white", linewidths=0.3)
    ax.set_aspect("equal")
    ax.set_xticks([-180, -90, 0, 90, 180])
    ax.set_yticks([-180, -90, 0, 90, 180])
    ax.set_xlabel(r"$\theta_1$ (degree)")
    ax.set_ylabel(r"$\theta_2$ (degree)")
    unit = r.unit(name).replace("a0^2/(hartree sr)/(hartree sr^2)", "atomic units").replace("sr^2", "sr$^2$")
    label = f"{_differential(r)} ({unit})"
    if column:
        fig.colorbar(mesh, ax=ax, label=label, location="bottom", aspect=30)
    else:
        bar_beside(mesh, ax, label)
    polar = fig.add_subplot(grid[1], projection="polar")
    _polar(polar, theta, F, r[f"{name}_error"][0, 0], unit)
    return fig


def _differential(r: Results) -> str:
    """Return what the literature calls the cross section in both angles: of three charges in the end, triply differential."""
    return "FDCS" if r.deck.get("task", {}).get("process") == "born" else "TDCS"


def _polar(
    ax: Axes, theta: NDArray[np.float64], F: NDArray[np.float64], error: NDArray[np.float64], unit: str
) -> None:
    """Draw the distribution of the second electron for some angles of the first."""
    for k, wanted in enumerate(np.linspace(0.0, 90.0, SHOWN)):
        i = int(np.argmin(np.abs(theta - wanted)))
        color = CYCLE[k % len(CYCLE)]
        radians = np.radians(theta)
        ax.plot(radians, F[i], color=color, label=rf"$\theta_1={theta[i]:.0f}\degree$")
        ax.fill_between(
            radians, np.maximum(F[i] - error[i], 0.0), F[i] + error[i], color=color, alpha=0.2, linewidth=0
        )
    ax.set_yticklabels([])
    outer = float(ax.get_ylim()[1])
    ax.set_title(rf"against $\theta_2$; outer circle {outer:.2g} {unit}", fontsize="small")
    if in_column():
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small", ncols=4)
    else:
        ax.legend(loc="center left", bbox_to_anchor=(1.18, 0.5), fontsize="small")


def scans(r: Results) -> Figure | None:
    """Draw the deviations of cross sections at each scanned value from the deck itself."""
    keys = [name.split("/")[1] for name in r.names if name.startswith("scan/") and name.endswith("/value")]
    if not keys:
        return None
    fig = figure("single" if len(keys) == 1 else "double", 2.6)
    axes = np.atleast_1d(fig.subplots(1, len(keys), squeeze=False)[0])
    labels = _labels(r)
    axes[0].set_ylabel("relative deviation")
    for ax, key in zip(axes, keys, strict=True):
        x = r[f"scan/{key}/value"]
        order = np.argsort(x)
        for j, label in enumerate(labels):
            for name, line in (("sigma_total", "-"), ("sigma_ionisation", "--")):
                # scans hold the break-up from amplitudes alone, which is the sum of what each L gives
                own = r[name][0, j] if name == "sigma_total" else r["sigma_ionisation_L"][0, j].sum()
                values = r[f"scan/{key}/{name}"][:, 0, j]
                deviation = np.abs(values / own - 1.0)[order]
                good = np.isfinite(deviation) & (deviation > 0.0)
                text = f"{label} {'all channels' if name == 'sigma_total' else 'break-up'}".strip()
                ax.semilogy(
                    x[order][good],
                    deviation[good],
                    line,
                    marker="o",
                    markersize=3,
                    color=CYCLE[j],
                    label=text,
                )
        ax.set_xlabel(KEYS.get(key, key))
        if key != "R":
            ax.set_xticks(np.sort(x))
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "wave": wave,
    "sharing": sharing,
    "cross_sections": cross_sections,
    "phases": phases,
    "angles": angles,
    "unitarity": unitarity,
    "residuals": residuals,
    "scans": scans,
}
