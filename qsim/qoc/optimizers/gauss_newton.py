"""Damped Gauss-Newton steps on the residuals of the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.optimizers.search import Search
from qsim.qoc.optimizers.lbfgs import _into_box, _no_step, _resumes, _saved

__all__ = ["GN_FLAT", "GN_TRIALS", "gauss_newton"]

GN_TRIALS = 10  # damping values tried in one Gauss-Newton iteration


GN_FLAT = 1e-13  # gain below which Gauss-Newton has converged


def gauss_newton(search: Search, u: NDArray[np.float64]) -> None:
    """Maximise J by damped Gauss-Newton on the amplitudes outside the target.

    Minimises ``sum |r|^2 + alpha sum eps^2 tau`` with ``r_k = <k|psi(T)>``, k outside the target: phase-free, and quadratically
    convergent where r vanishes at the solution.  One forward sweep and one backward sweep with all costates an iteration.
    """
    objective, control = search.objective, search.control
    weight = objective.alpha * objective.tau
    damping = 1e-3
    if _resumes(search, "gauss_newton"):
        saved = _saved(search)
        search.restore(saved)
        u, damping = saved["u"], float(saved["damping"])
        _, j, run = objective.trial(control.field(u))
        objective.sweeps -= 1  # this sweep was counted before the checkpoint
    else:
        u = _into_box(control, u)
        field = control.field(u)
        p, j, run = objective.trial(field)
        search.record(field, p, j, np.nan_to_num(0.0))

    def state() -> dict[str, Any]:
        return {"kind": "gauss_newton", "u": u, "damping": damping, **search.state()}

    while True:
        field = control.field(u)
        r, jacobian = objective.jacobian(run)
        rows = control.pull_back(u, np.concatenate([jacobian.real, jacobian.imag]))
        residual = np.concatenate([r.real, r.imag])
        slope = rows.T @ residual + weight * control.pull_back(u, field)
        metric = control.metric(u)
        free = metric > 0
        strength = float(np.einsum("rn,rn->", rows, rows)) / rows.shape[0]
        if strength == 0.0:
            search.refuse_critical_point(rows, 1.0 - float(residual @ residual))
        for _ in range(GN_TRIALS):
            step = _damped_step(rows[:, free], slope[free], weight * metric[free] + damping * strength)
            new = u.copy()
            new[free] += step
            new = _into_box(control, new)
            candidate = control.field(new)
            p, value, next_run = objective.trial(candidate)
            if value > j:
                break
            damping *= 8.0
            if objective.sweeps >= search.max_sweeps:
                search.reason = f"limit of {search.max_sweeps} sweeps reached"
                return
        else:
            search.reason = _no_step(value - j)
            return
        damping = max(damping / 10.0, 1e-12)
        gain, j, u, run = value - j, value, new, next_run
        search.iterations += 1
        search.record(candidate, p, j, 2.0 * float(np.linalg.norm(slope)), None if gain < GN_FLAT else state)
        if gain < GN_FLAT:
            search.reason = "converged (J is stationary)"
            return


def _damped_step(
    rows: NDArray[np.float64], slope: NDArray[np.float64], diagonal: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``-(A^T A + diag)^-1 slope`` by Woodbury's identity; A is (R, n) with few rows."""
    scaled = rows / diagonal
    small = np.eye(rows.shape[0]) + scaled @ rows.T
    first = slope / diagonal
    return scaled.T @ np.linalg.solve(small, rows @ first) - first
