"""Figures of scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.plotting import COLORS, figure
from qsim.tridiag.tdse.drawing import energy_unit, image

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.device.arrays import FloatArray
    from qsim.core.results.results import Results

__all__ = ["FIGURES", "is_scan", "scan"]

# Values of a scanned quantity, from which on two of them make a map.
FEW = 4
# Most spectra in one panel.
MOST_LINES = 12
LABELS = {
    "intensity": "intensity (W/cm$^2$)",
    "cep": "carrier-envelope phase (rad)",
    "delay": "delay (fs)",
    "run": "run",
}
# number of a run that is drawn: the first that there is
YIELDS = ("continuum_population", "transmission", "double", "dissociation", "norm_final")


def is_scan(r: Results) -> bool:
    """Return whether a results file is one of a scan."""
    return bool(_names(r))


def _names(r: Results) -> list[str]:
    """Return the names of what is scanned, in the order of the file."""
    return [name[5:] for name in r if name.startswith("scan_") and r.dims(name) == ("run",)]


def _label(r: Results, name: str) -> str:
    """Return the label of an axis."""
    unit = "" if name in LABELS else r.unit(f"scan_{name}")
    return LABELS.get(name) or name.replace("_", " ") + (f" ({unit})" if unit else "")


def _yield(r: Results) -> str:
    """Return the name of the number of the runs that is drawn."""
    return next(name for name in YIELDS if f"run_{name}" in r)


def _scanned(r: Results) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name and the values of what varies; the number of the run where several do."""
    names = _varied(r)
    if len(names) != 1:
        return "run", np.arange(int(r.scalars["runs"].value or 1), dtype=float)
    return names[0], _values(r, names[0])


def _varied(r: Results) -> list[str]:
    """Return the names of what varies from run to run."""
    return [name for name in _names(r) if np.unique(r[f"scan_{name}"]).size > 1]


def _values(r: Results, name: str) -> FloatArray:
    """Return the value of each run (runs,), in the unit of its label."""
    values = r[f"scan_{name}"]
    return values * float(to_unit(1.0, "fs", "time")) if name == "delay" else values


def _unsure(r: Results) -> FloatArray | None:
    """Return the errors of the ionisation of all runs; None where none are claimed."""
    name = f"run_{_yield(r)}_error"
    return np.nan_to_num(r[name]) if name in r else None


def _curve(ax: Axes, x: FloatArray, y: FloatArray, error: FloatArray | None, label: str) -> None:
    """Draw points, joined, with their errors where there are some."""
    (line,) = ax.plot(x, y, marker=".", label=label)
    if error is not None:
        ax.errorbar(x, y, error, fmt="none", ecolor=line.get_color(), capsize=1.5)


def _draw_grid(fig: Figure, ax: Axes, r: Results, names: Sequence[str]) -> None:
    """Draw the yields over two scanned values: a map, or curves where one of them has few values."""
    x, y = _values(r, names[0]), _values(r, names[1])
    yields, unsure = r[f"run_{_yield(r)}"], _unsure(r)
    (across, i), (up, k) = (np.unique(values, return_inverse=True) for values in (x, y))
    positive = bool(np.all(yields > 0.0))
    if min(across.size, up.size) < FEW:
        for value in up:
            chosen = np.flatnonzero(y == value)[np.argsort(x[y == value])]
            error = None if unsure is None else unsure[chosen]
            _curve(ax, x[chosen], yields[chosen], error, f"{value:.3g}")
        ax.legend(title=_label(r, names[1]), fontsize="small", title_fontsize="small")
        ax.set_ylabel(_yield(r).replace("_", " "))
        if positive and names[0] == "intensity":
            ax.set_xscale("log")
            ax.set_yscale("log")
    else:
        from matplotlib.colors import LogNorm

        values = np.full((up.size, across.size), np.nan)
        values[k, i] = yields
        norm = LogNorm() if positive and yields.max() > 10.0 * yields.min() else None
        drawn = ax.pcolormesh(across, up, values, shading="nearest", norm=norm, rasterized=True)
        fig.colorbar(drawn, ax=ax, label=_yield(r).replace("_", " "))
        ax.set_ylabel(_label(r, names[1]))
    ax.set_xlabel(_label(r, names[0]))


def _captions(r: Results) -> list[str]:
    """Return what tells each run from the others, in the units of the labels."""
    names = _varied(r)
    columns = [_values(r, name) for name in names]
    return [", ".join(f"{value:.3g}" for value in row) for row in zip(*columns, strict=True)]


def _caption_title(r: Results) -> str:
    """Return the title of a legend of `_captions`."""
    runs = int(r.scalars["runs"].value or 1)
    more = f"\n({MOST_LINES} of {runs} runs)" if runs > MOST_LINES else ""
    return (",\n".join(_label(r, name) for name in _varied(r)) or "run") + more


def _draw_yields(ax: Axes, r: Results, name: str, x: FloatArray) -> None:
    """Draw the ionisation of all runs, its ADK value, and its integral over the focus, against what is scanned."""
    yields = r[f"run_{_yield(r)}"]
    _curve(ax, x, yields, _unsure(r), "continuum")
    if name == "intensity" and "run_adk_yield" in r:
        low = 1e-2 * float(yields.min())
        ax.plot(x, np.maximum(r["run_adk_yield"], low), color="0.5", linestyle=":", label="ADK")
        ax.legend()
    if "focal_yield" in r:
        other = ax.twinx()
        other.plot(x, r["focal_yield"], color=COLORS["vermillion"], marker=".", linestyle="--")
        other.set_ylabel("integrated over the focus", color=COLORS["vermillion"])
        other.grid(visible=False)
        if name == "intensity" and np.all(r["focal_yield"] > 0.0):
            other.set_yscale("log")
    if name == "intensity" and np.all(yields > 0.0):
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_xlabel(_label(r, name))
    ax.set_ylabel(_yield(r).replace("_", " "))
    # the left belongs to the factor of the axis
    ax.set_title("ionisation" if _yield(r) == YIELDS[0] else _yield(r).replace("_", " "), loc="right")


def _draw_map(fig: Figure, ax: Axes, r: Results, name: str, x: FloatArray) -> None:
    """Draw the spectra of all runs, those along the field where they are known."""
    along = "scan_pes_along" in r
    shown = "scan_pes_along" if along else "scan_pes"
    unit, factor = energy_unit(r)
    density = f"dP/dE ({(r.unit(shown) or '1/hartree').replace('hartree', unit)})"
    values, energy = r[shown] / factor, factor * r["energy"]
    order = np.argsort(x, kind="stable")
    steps = np.diff(x[order])
    # an image needs even columns and at least three of them; otherwise one line per run
    even = steps.size > 0 and float(np.ptp(steps)) < 1e-6 * float(np.abs(steps).max())
    if x.size < 3 or not even or name == "run":
        labels = _captions(r) or [""] * x.size
        for k in order[:MOST_LINES]:
            ax.semilogy(energy, np.maximum(values[k], 1e-300), linewidth=0.7, label=labels[k])
        top = float(values.max())
        ax.set_ylim(1e-8 * top, 3.0 * top)
        ax.legend(title=_caption_title(r), ncols=2, fontsize="x-small", title_fontsize="x-small")
        ax.set_xlabel(f"energy ({unit})")
        ax.set_ylabel(density)
    else:
        drawn = image(ax, x[order], energy, values[order].T, float(values.max()), float(values.max()))
        fig.colorbar(drawn, ax=ax, label=density)
        ax.set_xlabel(_label(r, name))
        ax.set_ylabel(f"energy ({unit})")
    ax.set_title("electrons along the field" if along else "photoelectrons")


def scan(r: Results) -> Figure | None:
    """Ionisation against what is scanned, and the photoelectron or harmonic spectra of all runs."""
    if not is_scan(r):
        return None
    name, x = _scanned(r)
    names = _varied(r)
    if len(names) == 2 and not {"scan_pes", "scan_hhg"} & set(r):
        # the norm against the number of a run tells nothing
        fig = figure("single", 2.9)
        _draw_grid(fig, fig.subplots(), r, names)
        return fig
    fig = figure("double", 2.9)
    a, b = fig.subplots(1, 2)
    if len(names) == 2:
        _draw_grid(fig, a, r, names)
    else:
        _draw_yields(a, r, name, x)
    if "scan_pes" in r:
        _draw_map(fig, b, r, name, x)
    elif "scan_hhg" in r:
        labels = _captions(r) or [""] * x.size
        for k, label in enumerate(labels[:MOST_LINES]):
            b.semilogy(r["hhg_order"], np.maximum(r["scan_hhg"][k], 1e-300), linewidth=0.6, label=label)
        b.set_xlabel("harmonic order")
        b.set_ylabel("power (a.u.)")
        b.legend(title=_caption_title(r), ncols=2, fontsize="x-small", title_fontsize="x-small")
        b.set_title("harmonics")
    else:
        b.plot(x, r["run_norm_final"], marker=".")
        b.set_xlabel(_label(r, name))
        b.set_ylabel("norm at the end")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"overview": scan, "scan": scan}
