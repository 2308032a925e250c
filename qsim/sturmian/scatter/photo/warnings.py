"""Warn of cross sections over many photon energies that model, box or contour limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.driven import outgoing
from qsim.sturmian.driven.reduced import FAR

if TYPE_CHECKING:
    from qsim.sturmian.scatter.photo.result import PhotoResult

__all__ = ["warnings_of"]

# Share of the photon energies whose error may be large before it is worth a warning.
MANY = 0.25
# Relative error that is large.
POOR = 0.1
# What each part of an error comes from, and its remedy.
CAUSES = {
    "grid": "most of it is what box, contour and grid change: a larger grid.R, a longer grid.ecs.length or a larger grid.order",
    "waves": "most of it is what partial waves change: a larger channels.l_max",
    "contour": "most of it are waves from the end of the contour: a longer grid.ecs.length",
    "threshold": "most of it is the energy of the initial state, from which photon energies count: a larger initial.l_max",
    "model": "most of it is what the solver leaves: a smaller solver.tolerance",
}


def warnings_of(result: PhotoResult) -> list[str]:
    """Return the warnings of a result."""
    out = []
    own, judgement = result.own, result.judgement
    if own.condition > outgoing.CONDITION:
        text = f"the eigenvectors on the contour are nearly dependent, condition {own.condition:.1e}"
        out.append(f"{text}; a smaller grid.ecs.angle is safer")
    asked = result.problem.settings.solver.tolerance
    if own.residual > FAR * asked:
        text = f"solver.tolerance {asked:.2g} was not reached: rounding on this contour leaves a relative residual of"
        out.append(
            f"{text} {own.residual:.1e}, whose solution is kept; a smaller grid.ecs.angle may lower it"
        )
    for k, gauge in enumerate(result.problem.gauges):
        poor = judgement.total_error[k] > POOR * np.abs(judgement.total[k])
        if np.mean(poor) > MANY:
            text = f"{gauge}: the cross section is known to worse than {100.0 * POOR:.0f} % at {int(poor.sum())} of {poor.size}"
            parts = {name: float(np.nansum(part[k][poor])) for name, part in judgement.parts.items()}
            out.append(f"{text} energies; {CAUSES[max(parts, key=lambda name: parts[name])]}")
    return out
