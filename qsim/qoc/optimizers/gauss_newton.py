"""Damped Gauss-Newton steps on the residuals of the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.optimizers.search import no_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.optimizers.search import Search

# Damping values tried in one iteration.
TRIALS = 10
# Gain below which the search has converged.
FLAT = 1e-13
# Of the mean squared derivative.
FIRST_DAMPING = 1e-3
LEAST_DAMPING = 1e-12


class GaussNewton:
    """Maximise J by damped Gauss-Newton on the amplitudes outside the target.

    Minimises ``sum |r|^2 + alpha sum eps^2 tau`` with ``r_k = <k|psi(T)>``, k outside the target: phase-free, and quadratically
    convergent where r vanishes at the solution.  One forward and one backward sweep with all costates per iteration.

    Parameters
    ----------
    search : Search
    u : (size,) float64
        First parameters.
    saved : mapping, optional
        State to continue from; `u` is then taken from it.
    """

    kind = "gauss_newton"

    def __init__(
        self,
        search: Search,
        u: NDArray[np.float64],
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self.search = search
        # whose methods `trial` and `jacobian` give residuals
        self.residuals = search.objective.residuals()
        self.u = _into_box(search.control, u)
        self.damping = FIRST_DAMPING
        self.continued = saved is not None
        if saved is not None:
            search.restore(saved)
            self.u = saved["u"]
            self.damping = float(saved["damping"])

    def state(self) -> State:
        """Return parameters and damping at the start of an iteration."""
        return {"kind": self.kind, "u": self.u, "damping": self.damping, **self.search.state()}

    def advance(self, report: Report) -> None:
        """Iterate until J is stationary, or no step raises it, or all sweeps are used up."""
        search, control = self.search, self.search.control
        objective = search.objective
        field, search.at = control.field(self.u), self.u
        p, j, run = self.residuals.trial(field)
        if self.continued:
            # this sweep was counted before the checkpoint
            objective.sweeps -= 1
        else:
            search.record(report, field, p, j, 0.0, savable=False)
        while True:
            # 1 - P is a sum of squares of the amplitudes outside the target: their derivatives give a Hessian
            # without second ones
            r, jacobian = self.residuals.jacobian(run)
            parts = np.concatenate([jacobian.real, jacobian.imag])
            rows = control.pull_back(self.u, parts.reshape(-1, *field.shape))
            residual = np.concatenate([r.real, r.imag])
            penalty, curvature = self._penalty()
            slope = rows.T @ residual + penalty
            metric = control.metric(self.u)
            free = metric > 0
            # damping in units of the mean square of a row, so that it means the same for all problems
            strength = float(np.einsum("rn,rn->", rows, rows)) / rows.shape[0]
            # Where the slope of the first values vanishes no step leads anywhere.
            if strength == 0.0 or not (search.iterations or self.continued):
                search.refuse_critical_point(slope if strength else rows, p)
            for _ in range(TRIALS):
                diagonal = curvature[free] + self.damping * strength
                new = self.u.copy()
                new[free] += _damped_step(rows[:, free], slope[free], diagonal)
                new = _into_box(control, new)
                candidate, search.at = control.field(new), new
                p, value, next_run = self.residuals.trial(candidate)
                if value > j:
                    break
                # a step that lowers J was too long: Levenberg and Marquardt, with a shorter one the next time
                self.damping *= 8.0
                search.refuse_more_than_allowed()
            else:
                search.reason = no_step(value - j)
                return
            self.damping = max(self.damping / 10.0, LEAST_DAMPING)
            gain = value - j
            j, self.u, run = value, new, next_run
            search.iterations += 1
            norm = 2.0 * float(np.linalg.norm(slope))
            search.record(report, candidate, p, j, norm, savable=gain >= FLAT)
            if gain < FLAT:
                search.reason = "converged (J is stationary)"
                return

    def _penalty(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return half the derivative of the fluence penalty by each parameter, and the diagonal of its second one."""
        objective, control = self.search.objective, self.search.control
        field = control.field(self.u)
        # each control has a weight of its own
        weight = np.broadcast_to(objective.alpha * objective.tau, (len(field), 1))
        return control.pull_back(self.u, weight * field), control.metric(self.u, weight[:, 0])


def _into_box(control: Controls, u: NDArray[np.float64]) -> NDArray[np.float64]:
    box = control.box()
    return u if box is None else np.clip(u, box[0], box[1])


def _damped_step(
    rows: NDArray[np.float64], slope: NDArray[np.float64], diagonal: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``-(A^T A + diag)^-1 slope`` by Woodbury's identity; A is (R, n) with few rows."""
    # a system as large as the number of amplitudes, not of parameters
    scaled = rows / diagonal
    small = np.eye(rows.shape[0]) + scaled @ rows.T
    first = slope / diagonal
    return scaled.T @ np.linalg.solve(small, rows @ first) - first
