"""Warn of cross sections that box, contour or partial waves limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.driven import outgoing
from qsim.sturmian.scatter.phase_quantities import LISTED
from qsim.sturmian.scatter.solved import level_name

if TYPE_CHECKING:
    from qsim.sturmian.scatter.cross_sections.summed import Summed
    from qsim.sturmian.scatter.result import CollisionResult

__all__ = ["warnings_of"]

# Share of the total that unitarity may miss before it is worth a warning.
DEFECT = 0.05
# Relative error of a total or break-up cross section that is worth a warning.
POOR = 0.1
# Relative weight of the L that are left out, likewise.
TAIL = 0.02


def warnings_of(result: CollisionResult) -> list[str]:
    """Return the warnings of all cross sections of a result."""
    out = []
    condition = result.condition
    if condition > outgoing.CONDITION:
        out.append(
            f"the eigenvectors on the contour are nearly dependent, condition {condition:.1e}; a smaller grid.ecs.angle is safer"
        )
    out += _eigenphases(result)
    if len(result.observed) > LISTED:
        return out + _of_many(result)
    for kin, by_label in zip(result.kinematics, result.observed, strict=True):
        for label, seen in by_label.items():
            where = f"{kin.name}, {label}"
            out += [f"{where}: {text}" for text in _warnings(seen, "unitarity" in result.problem.wants)]
            if "excitation" in result.problem.wants:
                out += [f"{where}: {text}" for text in _unknown(seen, result.problem.task.levels)]
    return out


def _eigenphases(result: CollisionResult) -> list[str]:
    """Return the warning of energies without eigenphases, whose open levels the box does not hold."""
    if "eigenphases" not in result.problem.wants:
        return []
    known = {i for i, *_ in result.elastic.eigenphases}
    lacking = [kin.name for i, kin in enumerate(result.kinematics) if kin.E < 0.0 and i not in known]
    if not lacking:
        return []
    text = (
        f"no sum of eigenphases at {len(lacking)} of {len(result.kinematics)} energies, such as {lacking[0]}"
    )
    return [f"{text}: the box does not hold every level that is open; a larger grid.R is needed"]


def _of_many(result: CollisionResult) -> list[str]:
    """Return one line for each column of very many energies."""
    out = []
    for label in result.problem.labels:
        totals = [by_label[label].total for by_label in result.observed]
        poor = [i for i, (value, error) in enumerate(totals) if error > POOR * abs(value) > 0.0]
        if poor:
            worst = max(poor, key=lambda i: totals[i][1] / abs(totals[i][0]))
            text = f"{label}: the total cross section is known to worse than {100.0 * POOR:.0f} % at {len(poor)} of "
            out.append(f"{text}{len(totals)} energies, worst at {result.kinematics[worst].name}")
    return out


def _unknown(seen: Summed, highest: int) -> list[str]:
    """Return the warning of levels up to a principal quantum number that have no error."""
    names = [
        level_name(n, l) for (n, l), (_, error) in seen.levels.items() if n <= highest and np.isnan(error)
    ]
    # or no error at all is known, as a warning says
    if not names or np.isnan(seen.total[1]):
        return []
    text = f"the error of {', '.join(names)} is not known, as the smaller box that would tell it holds no such level"
    return [f"{text}; a larger grid.R is needed"]


def _warnings(seen: Summed, unitarity: bool) -> list[str]:
    """Return the warnings of one energy and one spin or gauge."""
    out = []
    # Levels that the box holds badly are missing from the sum: the usual reason for a defect.
    if unitarity and seen.unitarity is not None:
        defect, error = seen.unitarity
        if abs(defect) > DEFECT + error:
            out.append(f"the channels add up to {1.0 - defect:.3f} of the total; a larger grid.R is needed")
    value, error = seen.total
    if error > POOR * abs(value) > 0.0:
        text = f"the total cross section is known to {100.0 * error / abs(value):.0f} % only"
        out.append(f"{text}; a larger grid.R, a longer contour or a larger l_max is needed")
    if seen.ionisation is not None:
        value, error = seen.ionisation
        if error > POOR * abs(value) > 0.0:
            text = f"the break-up cross section is known to {100.0 * error / abs(value):.0f} % only"
            out.append(f"{text}; a larger grid.R, a finer grid or a larger l_max is needed")
    if seen.tail is not None and seen.tail > TAIL:
        text = f"the largest L still gives {100.0 * seen.tail:.1f} % of the sum over L"
        out.append(f"{text}; add more to channels.L")
    return out
