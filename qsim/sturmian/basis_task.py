"""`task: basis`: the Sturmian functions alone, bound or outgoing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.progress import Monitor
    from qsim.sturmian.build import Problem
    from qsim.sturmian.gsf import Sturmians

TAIL = 1e-3  # of the largest value, that an outgoing function should have fallen to at the end of the contour


@dataclass
class BasisResult:
    """Sturmian functions by l.

    Attributes
    ----------
    condition : dict of float
        Condition number of the functions of an l, each normalised.
    """

    problem: Problem
    bases: dict[int, Sturmians]
    condition: dict[int, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def run_basis(problem: Problem, monitor: Monitor) -> BasisResult:
    """Compute the functions of every l of the deck."""
    result = BasisResult(problem, {})
    monitor.begin(len(problem.ls), "l", "basis")
    with monitor.stage("basis"):
        for k, l in enumerate(problem.ls):
            functions = problem.functions(l)
            result.bases[l] = functions
            result.condition[l] = condition(functions.c)
            result.notes += _doubts(problem, functions)
            monitor.step(k + 1, orthogonality=functions.orthogonality)
    monitor.end()
    for text in result.notes:
        monitor.warn(text)
    return result


def condition(c: NDArray[Any]) -> float:
    """Return the ratio of the largest to the smallest singular value of the functions, each normalised to one."""
    singular = np.linalg.svd(c / np.linalg.norm(c, axis=0), compute_uv=False)
    return float(singular[0] / max(singular[-1], 1e-300))


def _doubts(problem: Problem, functions: Sturmians) -> list[str]:
    """Return what an outgoing basis should not do."""
    if not problem.grid.is_complex:
        return []
    values = np.abs(functions.c) / np.sqrt(np.abs(problem.grid.w))[:, None]
    end = float((values[-1] / values.max(axis=0)).max())
    if end < TAIL:
        return []
    return [
        f"functions of l = {functions.l} have {end:.1e} of their largest value left at the end of the contour; a longer "
        "grid.ecs.length lets them die out"
    ]
