"""Do what the deck's task asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor


def run(problem: Any, monitor: Monitor) -> Any:
    """Find bound states or cross sections, compute integrals, or the basis alone."""
    for text in problem.notices:
        monitor.note(text)
    task = problem.deck.task.type
    if task == "scatter":
        from qsim.sturmian.tasks.collision import run_collisions

        return run_collisions(problem, monitor)
    if task == "bound":
        from qsim.sturmian.tasks.bound import run_bound
        from qsim.sturmian.tasks.doubts import require_contained

        result = run_bound(problem, monitor)
        for text in require_contained(result):
            monitor.warn(text)
        return result
    if task == "integrals":
        from qsim.sturmian.tasks.integrals import run_integrals

        return run_integrals(problem, monitor)
    from qsim.sturmian.tasks.basis import run_basis

    return run_basis(problem, monitor)
