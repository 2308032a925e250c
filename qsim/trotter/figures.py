"""Figures of a trotter results file: those of all tasks, and an overview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.results.plotting import compose
from qsim.trotter.dynamics import figures as dynamics
from qsim.trotter.evolve import figures as evolve
from qsim.trotter.levels import figures as levels
from qsim.trotter.spectrum import figures as spectrum
from qsim.trotter.thermal import figures as thermal

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["FIGURES", "overview"]

# maps first, then curves, echo and entropy; of the other tasks theirs
OVERVIEW = (
    "sz_map",
    "polarisation",
    "curves",
    "echo",
    "entropy",
    "correlator",
    "correlations",
    "total",
    "levels",
    "structure_factor",
    "cuts",
    "spectral",
    "thermal",
    "gap_ratio",
)


def overview(r: Results) -> Figure | None:
    """Draw what was observed on a page."""
    return compose(r, [FIGURES[name] for name in OVERVIEW])


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    **evolve.FIGURES,
    **spectrum.FIGURES,
    **dynamics.FIGURES,
    **thermal.FIGURES,
    **levels.FIGURES,
}
