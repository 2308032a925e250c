"""Figures of a qoc results file: one of each kind, with the panels that apply to its system and its goal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import compose, figure, in_column
from qsim.core.text import format_scalar
from qsim.qoc.figures import controls, reading, searches, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def overview(r: Results) -> Figure | None:
    """Draw controls and potential above populations or spectrum, the gate or the goal or the final density, and the search."""
    if in_column():
        return compose(r, (controls.fields, states.populations))
    searched, densities = r["history/sweeps"].size > 1, "psi_target" in r
    fig = figure("double", 4.8 if densities else 4.6)
    # Each row is laid out by itself: the colour bar of a gate leaves no gap beside the populations.
    top, bottom = np.ravel(np.asarray(fig.subfigures(2, 1)))
    above: list[Callable[[Axes, Results], None]] = [controls.panel]
    below: list[Callable[[Axes, Results], None]] = [states.populations_panel]
    if densities:
        above, below = [states.potential_panel, controls.panel], [controls.spectrum_panel, states.final_panel]
    elif "unitary_final" in r:
        below.append(lambda ax, r: states.matrix_panel(ax, r["unitary_final"], bottom))
    elif "free_time" in r or (not searched and "goal" in r):
        below.append(states.goal_panel)
    if searched:
        below.append(searches.convergence_panel)
    upper = np.ravel(top.subplots(1, len(above), width_ratios=[1, 1.6][-len(above) :]))
    lower = np.ravel(
        bottom.subplots(1, len(below), width_ratios=[1.4, 1.1, 1.0] if len(below) == 3 else None)
    )
    for ax, draw in zip((*upper, *lower), (*above, *below), strict=True):
        draw(ax, r)
    kind = reading.value_kind(r)
    if kind in r.scalars:
        value = format_scalar(r.scalars[kind].value, error=r.scalars[kind].error)
        upper[-1].set_title(f"{reading.value_name(kind)} = {value}", fontsize="small")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    "fields": controls.fields,
    "spectrum": controls.spectrum,
    "populations": states.populations,
    "convergence": searches.convergence,
    "spectrogram": controls.spectrogram,
    "line_search": searches.line_search,
    "robustness": searches.robustness,
    "gate": states.gate,
    "budget": searches.budget,
    "front": searches.front,
    "bloch": states.bloch,
    "goal": states.goal,
    "levels": states.levels,
}
