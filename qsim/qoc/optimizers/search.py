"""Common part of the optimisers: parameters to field, history, best field, limits, checkpoint state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.objectives.objective import Evaluation

COLUMNS = ("sweeps", "probability", "objective", "fluence", "gradient_norm", "seconds")
STATIONARY = 1e-11
"""Change of J by the smallest step tried from which a search without success has not converged."""

ROUNDING = 1e-13
"""Rounding of an overlap after thousands of steps; below the noise of 3.2e-13 with which the paper starts from no field."""


class Aim(Protocol):
    """Function of controls (C, N) that a search maximises; `batched`: `values` takes many sets (F, C, N) at once."""

    sweeps: int
    norm_error: float
    batched: bool

    @property
    def tau(self) -> float:
        """Length of a step."""

    def values(self, fields: NDArray[np.float64], /) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P and J, one each per field."""

    def evaluate(self, field: NDArray[np.float64], /) -> Evaluation:
        """Return P, J and the exact gradient."""


class Finished(Exception):
    """The threshold is reached or the budget is spent."""


class CriticalPoint(NumericsError):
    """The gradient vanishes at a field that is no maximum."""


class Search:
    """One optimisation: counts, records, remembers the best field, and knows when to end.

    Parameters
    ----------
    objective : Aim
    control : Controls
    threshold : float
        Probability that ends the search.
    max_sweeps : int
        Limit of propagations.

    Attributes
    ----------
    at : (size,) float64 or None
        Parameters of the field that is recorded next, if the optimiser knows them.
    tag : dict
        Where the search stands among several starts; kept beside the best field.
    """

    objective: Any

    def __init__(self, objective: Aim, control: Controls, threshold: float, max_sweeps: int) -> None:
        self.objective = objective
        self.control = control
        self.threshold = threshold
        self.max_sweeps = max_sweeps
        self.history: dict[str, list[float]] = {name: [] for name in COLUMNS}
        self.extra: dict[str, Any] = {}
        self.iterations = 0
        self.reached = False
        self.reason = "converged"
        self.field: NDArray[np.float64] | None = None
        self.best = -np.inf
        # P of `field`
        self.probability = 0.0
        self.at: NDArray[np.float64] | None = None
        self.parameters: NDArray[np.float64] | None = None
        self.tag: dict[str, Any] = {}
        self.best_tag: dict[str, Any] = {}
        # of the present start alone
        self.round_best = -np.inf
        self.round_at: NDArray[np.float64] | None = None
        self._start = time.monotonic()
        self._before = 0.0

    def record(
        self,
        report: Report,
        field: NDArray[np.float64],
        probability: float,
        objective: float,
        gradient_norm: float,
        *,
        savable: bool = True,
    ) -> None:
        """Enter one field into the history and report it.

        Parameters
        ----------
        report
            Where progress goes.
        field : (N,) float64
            Field, a.u.
        probability, objective, gradient_norm : float
            P, J and the norm of dJ/d eps.
        savable : bool
            Whether the optimiser can be continued from here.

        Raises
        ------
        Finished
            At the threshold or the limit.
        """
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
            self.best, self.field, self.probability = objective, field.copy(), probability
            self.parameters, self.best_tag = _copied(self.at), dict(self.tag)
        if objective > self.round_best:
            self.round_best, self.round_at = objective, _copied(self.at)
        # a checkpoint of the last report would be continued beyond it: the result itself follows at once
        last = probability >= self.threshold or self.spent
        done = min(self.objective.sweeps, self.max_sweeps)
        report(Progress(done, {"P": probability, "J": objective}, savable=savable and not last))
        if probability >= self.threshold:
            self.reached, self.reason = True, "threshold reached"
            raise Finished
        self.refuse_more_than_allowed()

    @property
    def spent(self) -> bool:
        """True if all sweeps are used up."""
        return self.objective.sweeps >= self.max_sweeps

    def refuse_more_than_allowed(self) -> None:
        """Raise :class:`Finished` if all sweeps are used up."""
        if self.spent:
            self.reason = f"limit of {self.max_sweeps} sweeps reached"
            raise Finished

    def refuse_critical_point(self, gradient: NDArray[np.float64], probability: float) -> None:
        """Raise :class:`CriticalPoint` at a first field from which no gradient method can move.

        Its gradient is zero; or the overlap with the target is, to which the gradient of its square is proportional.
        """
        if not np.any(gradient) or probability < ROUNDING**2:
            raise CriticalPoint(
                f"the gradient vanishes at the first field (P = {probability:.3g}): it is a critical point, not a maximum",
                hint="start from control.guess: ladder, resonant or random",
            )

    # ------------------------------------------------------------------------------------------ state

    def state(self) -> dict[str, object]:
        """Return the state that a checkpoint must hold of every search."""
        return {
            "history": {k: np.array(v, dtype=float) for k, v in self.history.items()},
            "extra": {k: np.array(v, dtype=float) for k, v in self.extra.items()},
            "iterations": self.iterations,
            "sweeps": self.objective.sweeps,
            "norm_error": self.objective.norm_error,
            "best": float(self.best),
            "probability": self.probability,
            "field": self.field,
            "parameters": self.parameters,
            "tag": self.tag,
            "best_tag": self.best_tag,
            "round_best": float(self.round_best),
            "round_at": self.round_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint's state."""
        self.history = {k: [float(x) for x in v] for k, v in state["history"].items()}
        self.extra = {k: [float(x) for x in v] for k, v in state["extra"].items()}
        self.iterations = int(state["iterations"])
        self.objective.sweeps = int(state["sweeps"])
        self.objective.norm_error = float(state["norm_error"])
        self.best, self.field = float(state["best"]), state["field"]
        self.probability = float(state["probability"])
        self.parameters, self.tag, self.best_tag = state["parameters"], state["tag"], state["best_tag"]
        self.round_best, self.round_at = float(state["round_best"]), state["round_at"]
        self._before = self.history["seconds"][-1] if self.history["seconds"] else 0.0


def _copied(u: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    return None if u is None else u.copy()


def told(kind: str) -> tuple[str, str]:
    """Return what a search counts, and its name on the screen: controls that are given are propagated once."""
    return ("propagation", "given controls") if kind == "none" else ("sweeps", kind)


def no_step(loss: float) -> str:
    """Return why a search ends that finds no larger J: a maximum if the smallest step changes J (by `loss`) within rounding."""
    if abs(loss) < STATIONARY:
        return "converged (J is stationary to rounding)"
    return f"stopped before convergence (no step improves J; the smallest one tried changes it by {loss:.2g})"
