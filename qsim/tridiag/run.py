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
    if problem.deck.task == "solve":
        from qsim.tridiag.tasks.solve import run_solve

        return run_solve(problem, monitor)
    from qsim.tridiag.tasks.scaling import run_scaling

    return run_scaling(problem, monitor)
