"""Do what the deck's task asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.tridiag.problem import Propagation

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.problem import Systems


def run(problem: Propagation | Systems, monitor: Monitor) -> Any:
    """Propagate, solve, or measure the scaling of the solver."""
    for text in problem.notices:
        monitor.note(text)
    if isinstance(problem, Propagation):
        from qsim.tridiag.tasks.propagate import run_propagation

        return run_propagation(problem, monitor)
    from qsim.tridiag.tasks import solve as solve_task

    return (
        solve_task.run_solve(problem, monitor)
        if problem.deck.task == "solve"
        else solve_task.run_scaling(problem, monitor)
    )
