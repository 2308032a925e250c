"""Run the deck's task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.tridiag.problem import Propagation, ScalingProblem, SolveProblem

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.problem import Problem
    from qsim.tridiag.tasks.atom_result import AtomResult
    from qsim.tridiag.tasks.atom_scan_result import AtomScanResult
    from qsim.tridiag.tasks.propagate_result import Propagated
    from qsim.tridiag.tasks.scaling_result import ScalingResult
    from qsim.tridiag.tasks.solve_result import SolveResult

    Result = Propagated | SolveResult | ScalingResult | AtomResult | AtomScanResult


def run(problem: Problem, monitor: Monitor) -> Result:
    """Propagate, solve, or measure the scaling of the solver."""
    for text in problem.notices:
        monitor.note(text)
    if isinstance(problem, Propagation):
        from qsim.tridiag.tasks.propagate import run_propagation

        return run_propagation(problem, monitor)
    if isinstance(problem, SolveProblem):
        from qsim.tridiag.tasks.solve import run_solve

        return run_solve(problem, monitor)
    if isinstance(problem, ScalingProblem):
        from qsim.tridiag.tasks.scaling import run_scaling

        return run_scaling(problem, monitor)
    from qsim.tridiag.atom.problem import AtomProblem  # only atoms load the kernels of atoms

    if isinstance(problem, AtomProblem):
        from qsim.tridiag.tasks.atom import run_atom

        return run_atom(problem, monitor)
    from qsim.tridiag.tasks.atom_scan import run_scan

    return run_scan(problem, monitor)
