"""Run the deck's task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.tridiag.plane.problem import PlaneProblem
from qsim.tridiag.propagate.problem import Propagation
from qsim.tridiag.scaling.problem import ScalingProblem
from qsim.tridiag.systems.problem import SolveProblem
from qsim.tridiag.tdse.scan.problem import Scan

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.plane.result import PlaneResult
    from qsim.tridiag.problem import Problem
    from qsim.tridiag.propagate.result import Propagated
    from qsim.tridiag.scaling.result import ScalingResult
    from qsim.tridiag.systems.result import SolveResult
    from qsim.tridiag.tdse.scan.result import ScanResult

    Result = Propagated | SolveResult | ScalingResult | AtomResult | PlaneResult | ScanResult


def run(problem: Problem, monitor: Monitor) -> Result:
    """Propagate, solve, or measure the scaling of the solver."""
    if isinstance(problem, Propagation):
        from qsim.tridiag.propagate.run import run_propagation

        return run_propagation(problem, monitor)
    if isinstance(problem, SolveProblem):
        from qsim.tridiag.systems.run import run_solve

        return run_solve(problem, monitor)
    if isinstance(problem, ScalingProblem):
        from qsim.tridiag.scaling.run import run_scaling

        return run_scaling(problem, monitor)
    if isinstance(problem, Scan):
        from qsim.tridiag.tdse.scan.run import run_scan

        return run_scan(problem, monitor)
    if isinstance(problem, PlaneProblem):
        from qsim.tridiag.plane.run import run_plane

        return run_plane(problem, monitor)
    # only atoms load the kernels of atoms
    from qsim.tridiag.atom.run import run_atom

    return run_atom(problem, monitor)
