"""Run the deck's task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.tridiag.propagate.problem import Propagation
from qsim.tridiag.scaling.problem import ScalingProblem
from qsim.tridiag.systems.problem import SolveProblem

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.atom.scan.result import AtomScanResult
    from qsim.tridiag.problem import Problem
    from qsim.tridiag.propagate.result import Propagated
    from qsim.tridiag.scaling.result import ScalingResult
    from qsim.tridiag.systems.result import SolveResult

    Result = Propagated | SolveResult | ScalingResult | AtomResult | AtomScanResult


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
    # only atoms load the kernels of atoms
    from qsim.tridiag.atom.problem import AtomProblem

    if isinstance(problem, AtomProblem):
        from qsim.tridiag.atom.run import run_atom

        return run_atom(problem, monitor)
    from qsim.tridiag.atom.scan.run import run_scan

    return run_scan(problem, monitor)
