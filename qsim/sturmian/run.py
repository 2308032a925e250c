"""Run the task of the deck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian.problem import Problem
from qsim.sturmian.response.problem import ResponseProblem

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.basis.result import BasisResult
    from qsim.sturmian.bound.result import BoundResult
    from qsim.sturmian.driven.problem import Problem as DrivenProblem
    from qsim.sturmian.integrals.result import IntegralsResult
    from qsim.sturmian.resonances.result import ResonanceResult
    from qsim.sturmian.response.result import ResponseResult
    from qsim.sturmian.scatter.photo.result import PhotoResult
    from qsim.sturmian.scatter.result import CollisionResult

    Result = (
        BoundResult
        | ResponseResult
        | IntegralsResult
        | BasisResult
        | CollisionResult
        | PhotoResult
        | ResonanceResult
    )


def run(problem: Problem | DrivenProblem, monitor: Monitor) -> Result:
    """Find bound states, their response, or cross sections, compute integrals, or the basis alone."""
    if not isinstance(problem, Problem):
        return _driven(problem, monitor)
    if problem.task.type == "bound":
        from qsim.sturmian.bound import run as bound

        return bound.run(problem, monitor)
    if isinstance(problem, ResponseProblem):
        from qsim.sturmian.response import run as response

        return response.run(problem, monitor)
    if problem.task.type == "integrals":
        from qsim.sturmian.integrals import run as integrals

        return integrals.run(problem, monitor)
    from qsim.sturmian.basis import run as basis

    return basis.run(problem, monitor)


def _driven(problem: DrivenProblem, monitor: Monitor) -> Result:
    """Solve driven equations for cross sections, or find resonances."""
    from qsim.sturmian.scatter.photo.problem import Photoionisation
    from qsim.sturmian.scatter.problem import Collision

    if isinstance(problem, Photoionisation):
        from qsim.sturmian.scatter.photo import run as photo

        return photo.run(problem, monitor)
    if isinstance(problem, Collision):
        from qsim.sturmian.scatter import run as scatter

        return scatter.run(problem, monitor)
    from qsim.sturmian.resonances import run as resonances

    return resonances.run(problem, monitor)
