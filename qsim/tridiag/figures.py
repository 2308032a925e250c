"""Figures of the tasks by name; a results file gets the ones of its own task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.tridiag.atom import figures as atom
from qsim.tridiag.plane import figures as plane
from qsim.tridiag.propagate import figures as propagate
from qsim.tridiag.scaling import figures as scaling
from qsim.tridiag.systems import figures as systems
from qsim.tridiag.tdse.figures import is_atom
from qsim.tridiag.tdse.scan import figures as scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["FIGURES"]

# Scans and atoms share names with propagations; figures of systems draw nothing where their arrays are missing.
_OTHERS = {**propagate.FIGURES, **systems.FIGURES, **scaling.FIGURES}


def _of_task(r: Results) -> dict[str, Callable[[Results], Figure | None]]:
    """Return the figures of the task of a results file."""
    if scan.is_scan(r):
        return scan.FIGURES
    if plane.is_plane(r):
        return plane.FIGURES
    return atom.FIGURES if is_atom(r) else _OTHERS


def _by_name(name: str, first: Callable[[Results], Figure | None]) -> Callable[[Results], Figure | None]:
    """Return the function that draws a figure of any task; `first` documents it."""

    def draw(r: Results) -> Figure | None:
        drawing = _of_task(r).get(name)
        return None if drawing is None else drawing(r)

    draw.__doc__ = first.__doc__
    return draw


# the first task that has a name gives its description and its place
_ALL = {**scan.FIGURES, **plane.FIGURES, **_OTHERS, **atom.FIGURES, **propagate.FIGURES}
_ORDER = dict.fromkeys(
    [*propagate.FIGURES, *atom.FIGURES, *plane.FIGURES, *scan.FIGURES, *systems.FIGURES, *scaling.FIGURES]
)
FIGURES: dict[str, Callable[[Results], Figure | None]] = {name: _by_name(name, _ALL[name]) for name in _ORDER}
