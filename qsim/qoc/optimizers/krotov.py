"""Krotov's method: sequential updates whose objective cannot fall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.optimizers.search import Search
    from qsim.qoc.propagators import Eigenbasis
from qsim.qoc.optimizers.gauss_newton import GN_FLAT
from qsim.qoc.optimizers.lbfgs import _no_step, _resumes, _saved

__all__ = ["KROTOV_EASE", "KROTOV_TRIALS", "krotov"]

KROTOV_TRIALS = 25  # doublings of Krotov's lambda in one iteration


KROTOV_EASE = 0.8  # factor of lambda after a step that raised J


def krotov(search: Search, field: NDArray[np.float64], step: float | str) -> None:
    """Maximise J by Krotov's sequential update; lambda doubles until J rises and eases after every success."""
    objective, control = search.objective, search.control
    propagator: Eigenbasis = objective.propagator  # type: ignore[assignment]
    lam = 0.0 if step == "auto" else float(step)
    if _resumes(search, "krotov"):
        saved = _saved(search)
        search.restore(saved)
        field, lam, j = saved["current"], float(saved["lam"]), float(saved["j"])
        run = propagator.forward(field[None])
    else:
        field = np.clip(field, control.low, control.high)
        objective.sweeps += 1
        run = propagator.forward(field[None])
        p = float(objective.member_probabilities(run.amplitudes)[0].mean())
        j = p - float(objective.penalty(field))
        search.record(field, p, j, 0.0)

    def state() -> dict[str, Any]:
        return {"kind": "krotov", "current": field, "lam": lam, "j": j, **search.state()}

    while True:
        bras = objective.costates(run.amplitudes[0]) / propagator.members.count
        if lam == 0.0:
            lam = _first_lambda(search, field)
        objective.sweeps += 1
        for _ in range(KROTOV_TRIALS):
            new = propagator.krotov(
                field, bras, control.shape / lam, objective.alpha, control.low, control.high
            )
            objective.sweeps += 1
            next_run = propagator.forward(new[None])
            objective.norm_error = max(objective.norm_error, next_run.norm_error)
            p = float(objective.member_probabilities(next_run.amplitudes)[0].mean())
            value = p - float(objective.penalty(new))
            if value > j:
                break
            lam *= 2.0
            if objective.sweeps >= search.max_sweeps:
                search.reason = f"limit of {search.max_sweeps} sweeps reached"
                return
        else:
            search.reason = _no_step(value - j)
            return
        gain, change = value - j, float(np.linalg.norm(new - field))
        field, run, j = new, next_run, value
        used = lam
        if step == "auto":
            lam *= KROTOV_EASE
        search.iterations += 1
        search.record(field, p, j, change * used * objective.tau, None if gain < GN_FLAT else state)
        if gain < GN_FLAT:
            search.reason = "converged (J is stationary)"
            return


def _first_lambda(search: Search, field: NDArray[np.float64]) -> float:
    """Lambda with which the first update is as large as half the field."""
    result = search.objective.evaluate(field)
    search.refuse_critical_point(result.gradient, result.probability)
    size = float(np.abs(field).max()) or 1e-3
    return float(np.abs(result.gradient).max()) / search.objective.tau / (0.5 * size)
