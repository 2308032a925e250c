"""Run the task of the deck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian.problem import Problem

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.scattering.problem import Problem as Collision
    from qsim.sturmian.scattering.resonances import ResonanceResult
    from qsim.sturmian.scattering.results import CollisionResult
    from qsim.sturmian.tasks.basis import BasisResult
    from qsim.sturmian.tasks.integrals import IntegralsResult
    from qsim.sturmian.tasks.states import BoundResult

    Result = BoundResult | IntegralsResult | BasisResult | CollisionResult | ResonanceResult


def run(problem: Problem | Collision, monitor: Monitor) -> Result:
    """Find bound states or cross sections, compute integrals, or the basis alone."""
    for text in problem.notices:
        monitor.note(text)
    if not isinstance(problem, Problem):
        return _collision(problem, monitor)
    if problem.task.type == "bound":
        from qsim.sturmian.tasks.bound import run_bound
        from qsim.sturmian.tasks.doubts import require_contained

        found = run_bound(problem, monitor)
        for text in require_contained(found, monitor.judged):
            monitor.warn(text)
        return found
    if problem.task.type == "integrals":
        from qsim.sturmian.tasks.integrals import run_integrals

        return run_integrals(problem, monitor)
    from qsim.sturmian.tasks.basis import run_basis

    return run_basis(problem, monitor)


def _collision(problem: Collision, monitor: Monitor) -> Result:
    if problem.process == "resonances":
        from qsim.sturmian.scattering.resonances import run_resonances

        return run_resonances(problem, monitor)
    from qsim.sturmian.tasks.collision import run_collisions

    return run_collisions(problem, monitor)
