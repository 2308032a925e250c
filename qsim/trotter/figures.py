"""Figures of a trotter results file: of all tasks, and an overview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.results.plotting import compose
from qsim.trotter.dynamics import figures as dynamics
from qsim.trotter.evolve import figures as evolve
from qsim.trotter.evolve.steady import figures as steady
from qsim.trotter.fid import figures as fid
from qsim.trotter.levels import figures as levels
from qsim.trotter.observables.registry import OBSERVABLES
from qsim.trotter.spectrum import figures as spectrum
from qsim.trotter.thermal import figures as thermal

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

# maps first, then curves, echo and entropy, then figures of other tasks; figures that are not named here follow
ORDER = (
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
    "nmr",
    "multiplets",
    "fid",
    "steady",
    "emission",
    "jumps",
)


# drifts judge a run, and are no result
LEFT_OUT = ("overview", "drift")


def overview(r: Results) -> Figure | None:
    """Draw an overview of the observables on one page."""
    others = [name for name in FIGURES if name not in (*ORDER, *LEFT_OUT)]
    return compose(r, [FIGURES[name] for name in (*ORDER, *others)])


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    **{name: draw for kind in OBSERVABLES.values() for name, draw in kind.figures.items()},
    **evolve.FIGURES,
    **spectrum.FIGURES,
    **dynamics.FIGURES,
    **thermal.FIGURES,
    **levels.FIGURES,
    **fid.FIGURES,
    **steady.FIGURES,
}
