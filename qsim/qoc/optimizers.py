"""L-BFGS-B, Gauss-Newton and Krotov.  The paper's own line search is in ``travolta.py``.

Every optimiser is a function ``(search, u, options)`` that returns when :class:`~qsim.qoc.search.Finished` is raised or nothing
improves any more; the search remembers the best field.  Checkpoints continue bit for bit: Gauss-Newton and Krotov save the
parameters at the start of an iteration; L-BFGS-B, whose memory belongs to SciPy, replays its recorded evaluations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qoc.search import Finished

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.propagators import Eigenbasis
    from qsim.qoc.search import Search

GN_TRIALS = 10  # damping values tried in one Gauss-Newton iteration
GN_FLAT = 1e-13  # gain below which Gauss-Newton has converged
STATIONARY = (
    1e-11  # change of J by the smallest step tried from which a search without success has not converged
)
KROTOV_TRIALS = 25  # doublings of Krotov's lambda in one iteration
KROTOV_EASE = 0.8  # factor of lambda after a step that raised J


# ------------------------------------------------------------------------------------------- L-BFGS-B


def lbfgs(
    search: Search, u: NDArray[np.float64], memory: int, stop_at: float | None = None
) -> NDArray[np.float64]:
    """Maximise J with SciPy's L-BFGS-B; returns the last parameters evaluated.

    Parameters
    ----------
    search : Search
    u : (size,) float64
        First parameters.
    memory : int
        Stored corrections.
    stop_at : float, optional
        Return (without finishing the search) once P reaches this.
    """
    from scipy.optimize import minimize

    # in these units the first field has length one, and so has the first step that SciPy tries
    scale = float(np.linalg.norm(u)) or 1.0
    log: list[dict[str, Any]] = []
    replay = list(_saved(search)["evaluations"]) if _resumes(search, "lbfgs") else []
    box = search.control.box()
    last = u

    class Handover(Exception):
        pass

    def state() -> dict[str, Any]:
        return {"kind": "lbfgs", "evaluations": log, **search.state()}

    def value(y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal last
        last = y * scale
        if len(log) < len(replay):
            entry = replay[len(log)]
            if not np.array_equal(entry["u"], last):
                raise NumericsError(
                    "the checkpoint cannot be replayed: the optimiser asks for other points than before",
                    hint="resume with the versions of SciPy and qsim that wrote it, or start again with --force",
                )
            log.append(entry)
            if len(log) == len(replay):
                search.restore(_saved(search))
            return -entry["objective"], -entry["gradient"] * scale
        entry = {"u": last.copy()}
        log.append(entry)  # completed below, before any checkpoint can be written

        field = search.control.field(last)
        result = search.objective.evaluate(field)
        entry["objective"], entry["gradient"] = (
            result.objective,
            search.control.pull_back(last, result.gradient),
        )
        if len(log) == 1:
            search.refuse_critical_point(entry["gradient"], result.probability)
        search.record(
            field, result.probability, result.objective, float(np.linalg.norm(result.gradient)), state
        )
        if stop_at is not None and result.probability >= stop_at:
            raise Handover
        return -entry["objective"], -entry["gradient"] * scale

    def count(_: Any) -> None:
        if len(log) >= len(replay):
            search.iterations += 1

    bounds = None
    if box is not None:
        with np.errstate(over="ignore"):  # a bound that no double holds is none
            low, high = box[0] / scale, box[1] / scale
        bounds = list(zip(low, high, strict=True))
    options = {"maxcor": memory, "maxiter": 10**7, "maxfun": 10**7, "ftol": 1e-14, "gtol": 1e-11}
    try:
        outcome = minimize(
            value, u / scale, jac=True, method="L-BFGS-B", bounds=bounds, callback=count, options=options
        )
        message = str(outcome.message).strip().lower()
        search.reason = (
            f"converged ({message})" if outcome.success else f"stopped before convergence ({message})"
        )
    except Handover:
        search.reason = "handed over"
    return last


# --------------------------------------------------------------------------------------- Gauss-Newton


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


def _into_box(control: Any, u: NDArray[np.float64]) -> NDArray[np.float64]:
    box = control.box()
    return u if box is None else np.clip(u, box[0], box[1])


# --------------------------------------------------------------------------------------------- Krotov


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


def _no_step(loss: float) -> str:
    """Say how a search without a step to a larger J ends: at a maximum if the smallest step changes J by rounding only."""
    if abs(loss) < STATIONARY:
        return "converged (J is stationary to rounding)"
    return f"stopped before convergence (no step improves J; the smallest one tried changes it by {loss:.2g})"


def _resumes(search: Search, kind: str) -> bool:
    """Whether the monitor brings a checkpoint of this optimiser."""
    return search.monitor.restored is not None and search.monitor.restored.get("kind") == kind


def _saved(search: Search) -> Any:
    """State of the checkpoint, known to be there."""
    return search.monitor.restored


__all__ = ["Finished", "gauss_newton", "krotov", "lbfgs"]
