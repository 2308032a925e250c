"""Parts of the figures of tridiag: units of time, thinned curves, maps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.load import written_deck
from qsim.core.deck.units import UnitError, parse_quantity, to_unit, unit_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from qsim.core.device.arrays import FloatArray
    from qsim.core.results.results import Results

__all__ = [
    "DECADES",
    "SHOWN_LEVELS",
    "curve",
    "energy_unit",
    "femtoseconds",
    "image",
    "integral",
    "level_names",
    "number",
    "time_axis",
]

# of a drawn curve; longer ones are thinned by their envelope
MAX_POINTS = 4000
# of the density map
DECADES = 8.0
SHOWN_LEVELS = 8


def femtoseconds(t: FloatArray) -> FloatArray:
    """Return times in fs."""
    return np.asarray(to_unit(np.asarray(t), "fs", "time"))


def energy_unit(r: Results) -> tuple[str, float]:
    """Return the unit in which a deck gives the energies of photoelectrons, and how many make a hartree."""
    overrides = [str(item) for item in r.provenance.get("overrides", ())]
    deck = written_deck(str(r.provenance.get("deck_text", "")), overrides)
    for text in _texts([deck.get("observe"), deck.get("spectra")]):
        try:
            parse_quantity(text, "energy")
            name, size = unit_named(re.sub(r"^[-+.\d]*(?:[eE][-+]?\d+)?\s*", "", text.strip()), "energy")
        except UnitError:
            continue
        return name, 1.0 / size
    return "hartree", 1.0


def level_names(r: Results) -> list[str]:
    """Return the names of the levels: numbers of those of a line."""
    if "levels" not in r:
        return [str(k) for k in range(r["populations"].shape[1])]
    # HDF5 returns strings as bytes
    return [name.decode() if isinstance(name, bytes) else str(name) for name in r["levels"]]


def number(r: Results, name: str) -> float | None:
    """Return a finite scalar; None where there is none."""
    value = r.scalars[name].value if name in r.scalars else None
    return value if isinstance(value, float) and np.isfinite(value) else None


def _texts(value: object, key: str = "") -> Iterator[str]:
    """Yield the texts under the keys of energies, of blocks in lists and in one another."""
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _texts(below, str(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, str) and key in ("energy", "energies"):
        yield value


def curve(t: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Thin a long oscillating curve to its minima and maxima, so that no peak is lost."""
    if y.size <= MAX_POINTS:
        return t, y
    # two points per block: its minimum and its maximum
    block = -(-y.size // (MAX_POINTS // 2))
    n = y.size // block
    parts = y[: n * block].reshape(n, block)
    low, high = parts.min(axis=1), parts.max(axis=1)
    return np.repeat(t[: n * block : block], 2), np.stack([low, high], axis=1).ravel()


def integral(values: FloatArray, t: FloatArray) -> FloatArray:
    """Return the integral from the first time on, by trapezoids."""
    return np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]) * np.diff(t))])


def time_axis(ax: Axes, r: Results, labelled: bool = True) -> None:
    """Set the limits and the label of an axis of times."""
    ax.set_xlim(0.0, float(femtoseconds(r["time"][-1])))
    if labelled:
        ax.set_xlabel("time (fs)")


def image(
    ax: Axes, t: FloatArray, y: FloatArray, values: FloatArray, top: float, decades: float
) -> AxesImage:
    """Draw values (y, t) on even axes; an image is drawn a hundred times faster than a mesh."""
    ax.grid(visible=False)
    # pixels are centred on their values
    dt, dy = 0.5 * (t[1] - t[0]), 0.5 * (y[1] - y[0])
    return ax.imshow(
        values,
        extent=(t[0] - dt, t[-1] + dt, y[0] - dy, y[-1] + dy),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap="magma",
        vmin=top - decades,
        vmax=top,
    )
