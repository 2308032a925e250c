"""Run the deck's task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.tridiag.scaling.problem import ScalingProblem
from qsim.tridiag.systems.problem import SolveProblem
from qsim.tridiag.tdse.motion import Scan

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.problem import Problem
    from qsim.tridiag.scaling.result import ScalingResult
    from qsim.tridiag.systems.result import SolveResult
    from qsim.tridiag.tdse.motion import MotionResult
    from qsim.tridiag.tdse.scan.result import ScanResult

    Result = MotionResult | SolveResult | ScalingResult | ScanResult


def run(problem: Problem, monitor: Monitor) -> Result:
    """Solve, measure the scaling of the solver, or propagate; each task imports its own room only."""
    if isinstance(problem, SolveProblem):
        from qsim.tridiag.systems.run import run_solve

        return run_solve(problem, monitor)
    if isinstance(problem, ScalingProblem):
        from qsim.tridiag.scaling.run import run_scaling

        return run_scaling(problem, monitor)
    if isinstance(problem, Scan):
        from qsim.tridiag.tdse.scan.run import run_scan

        return run_scan(problem, monitor)
    from qsim.tridiag.tdse.run import run_motion

    return run_motion(problem, monitor)
