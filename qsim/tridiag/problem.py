"""Problems of the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

# kernels come with the problems, and output must not load them
if TYPE_CHECKING:
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.plane.problem import PlaneProblem
    from qsim.tridiag.propagate.problem import Propagation
    from qsim.tridiag.scaling.problem import ScalingProblem
    from qsim.tridiag.systems.problem import SolveProblem
    from qsim.tridiag.tdse.motion import Scan

    Problem = Propagation | SolveProblem | ScalingProblem | AtomProblem | PlaneProblem | Scan
