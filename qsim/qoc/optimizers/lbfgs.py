"""L-BFGS-B, Gauss-Newton and Krotov.  The paper's own line search is in ``travolta.py``.

Every optimiser is a function ``(search, u, options)`` that returns when :class:`~qsim.qoc.optimizers.search.Finished` is raised
or nothing improves any more; the search remembers the best field.  Checkpoints continue bit for bit: Gauss-Newton and Krotov save
the parameters at the start of an iteration; L-BFGS-B, whose memory belongs to SciPy, replays its recorded evaluations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qoc.optimizers.search import Finished

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.optimizers.search import Search

STATIONARY = (
    1e-11  # change of J by the smallest step tried from which a search without success has not converged
)


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


def _into_box(control: Any, u: NDArray[np.float64]) -> NDArray[np.float64]:
    box = control.box()
    return u if box is None else np.clip(u, box[0], box[1])


# --------------------------------------------------------------------------------------------- Krotov


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


__all__ = ["Finished", "lbfgs"]
