"""What every optimiser shares: parameters to field, history, best field, limits, checkpoint state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.qoc.control import Parametrisation
    from qsim.qoc.objective import Evaluation, Objective

COLUMNS = ("sweeps", "probability", "objective", "fluence", "gradient_norm", "seconds")


class Finished(Exception):
    """The threshold is reached or the budget is spent."""


class Search:
    """One optimisation: evaluates, records, remembers the best field, stops.

    Parameters
    ----------
    objective : Objective
    control : Parametrisation
    monitor : Monitor
    threshold : float
        Probability that ends the search.
    max_sweeps : int
        Limit of propagations.
    """

    def __init__(
        self,
        objective: Objective,
        control: Parametrisation,
        monitor: Monitor,
        threshold: float,
        max_sweeps: int,
    ) -> None:
        self.objective, self.control, self.monitor = objective, control, monitor
        self.threshold, self.max_sweeps = threshold, max_sweeps
        self.history: dict[str, list[float]] = {name: [] for name in COLUMNS}
        self.extra: dict[str, Any] = {}
        self.iterations = 0
        self.reached = False
        self.reason = "converged"
        self.field: NDArray[np.float64] | None = None
        self.best = -np.inf
        self._start = time.monotonic()
        self._before = 0.0

    # -------------------------------------------------------------------------------------- evaluation

    def evaluate(self, u: NDArray[np.float64], state: Any = None) -> tuple[Evaluation, NDArray[np.float64]]:
        """Return P, J and dJ/d eps at the field of ``u``, and dJ/du; records and may raise :class:`Finished`."""
        field = self.control.field(u)
        result = self.objective.evaluate(field)
        gradient = self.control.pull_back(u, result.gradient)
        self.record(
            field, result.probability, result.objective, float(np.linalg.norm(result.gradient)), state
        )
        return result, gradient

    def record(
        self,
        field: NDArray[np.float64],
        probability: float,
        objective: float,
        gradient_norm: float,
        state: Any = None,
    ) -> None:
        """Enter one field into the history; raise :class:`Finished` at the threshold or the limit."""
        row = {
            "sweeps": self.objective.sweeps,
            "probability": probability,
            "objective": objective,
            "fluence": float(np.sum(field**2)) * self.objective.tau,
            "gradient_norm": gradient_norm,
            "seconds": self._before + time.monotonic() - self._start,
        }
        for name in COLUMNS:
            self.history[name].append(row[name])
        if objective > self.best or probability >= self.threshold:
            self.best, self.field = objective, field.copy()
        # a checkpoint of the last report would be continued beyond it: the result itself follows at once
        last = probability >= self.threshold or self.objective.sweeps >= self.max_sweeps
        done = min(self.objective.sweeps, self.max_sweeps)
        self.monitor.step(done, None if last else state, P=probability, J=objective)
        if probability >= self.threshold:
            self.reached, self.reason = True, "threshold reached"
            raise Finished
        if self.objective.sweeps >= self.max_sweeps:
            self.reason = f"limit of {self.max_sweeps} sweeps reached"
            raise Finished

    def refuse_critical_point(self, gradient: NDArray[np.float64], probability: float) -> None:
        """Stop when the gradient vanishes exactly: a first field from which no gradient method can move."""
        if not np.any(gradient):
            raise NumericsError(
                f"the gradient vanishes at the first field (P = {probability:.3g}): it is a critical point, not a maximum",
                hint="start from control.guess: ladder, resonant or random",
            )

    # ------------------------------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {
            "history": {k: np.array(v, dtype=float) for k, v in self.history.items()},
            "extra": {k: np.array(v, dtype=float) for k, v in self.extra.items()},
            "iterations": self.iterations,
            "sweeps": self.objective.sweeps,
            "norm_error": self.objective.norm_error,
            "best": float(self.best),
            "field": self.field,
        }

    def restore(self, state: Any) -> None:
        """Continue from a checkpoint's state."""
        self.history = {k: [float(x) for x in v] for k, v in state["history"].items()}
        self.extra = {k: [float(x) for x in v] for k, v in state["extra"].items()}
        self.iterations = int(state["iterations"])
        self.objective.sweeps = int(state["sweeps"])
        self.objective.norm_error = float(state["norm_error"])
        self.best, self.field = float(state["best"]), state["field"]
        self._before = self.history["seconds"][-1] if self.history["seconds"] else 0.0
