"""SciPy's L-BFGS-B, continued bit for bit.

Its memory belongs to SciPy, so a checkpoint holds all evaluations, which are replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.qoc.optimizers.search import Search


class _Handover(Exception):
    """P has reached the probability at which another method goes on."""


class Lbfgs:
    """Maximise J with SciPy's L-BFGS-B.

    Parameters
    ----------
    search : Search
    u : (size,) float64
        First parameters.
    memory : int
        Stored corrections.
    stop_at : float, optional
        End (without finishing the search) once P reaches this.
    saved : mapping, optional
        State to continue from.

    Attributes
    ----------
    last : (size,) float64
        Last parameters evaluated.
    """

    kind = "lbfgs"

    def __init__(
        self,
        search: Search,
        u: NDArray[np.float64],
        memory: int,
        stop_at: float | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self.search = search
        self.last = u
        self.memory = memory
        self.stop_at = stop_at
        self.saved = saved
        self.replay: list[dict[str, Any]] = [] if saved is None else list(saved["evaluations"])
        self.log: list[dict[str, Any]] = []

    def state(self) -> State:
        """Return all evaluations so far."""
        return {"kind": self.kind, "evaluations": self.log, **self.search.state()}

    def advance(self, report: Report) -> None:
        """Iterate until SciPy is satisfied; the state can be saved after each evaluation."""
        from scipy.optimize import minimize

        # in these units the first field has length one, and so has the first step that SciPy tries
        scale = float(np.linalg.norm(self.last)) or 1.0
        start = self.last / scale

        def value(y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            entry = self._evaluation(report, y * scale)
            return -entry["objective"], -entry["gradient"] * scale

        def count(_: object) -> None:
            if len(self.log) >= len(self.replay):
                self.search.iterations += 1

        options = {"maxcor": self.memory, "maxiter": 10**7, "maxfun": 10**7, "ftol": 1e-14, "gtol": 1e-11}
        try:
            outcome = minimize(
                value,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=self._bounds(scale),
                callback=count,
                options=options,
            )
        except _Handover:
            self.search.reason = "handed over"
            return
        message = str(outcome.message).strip().lower()
        success = "converged" if outcome.success else "stopped before convergence"
        self.search.reason = f"{success} ({message})"

    def _bounds(self, scale: float) -> list[tuple[float, float]] | None:
        box = self.search.control.box()
        if box is None:
            return None
        # a bound that no double holds is none
        with np.errstate(over="ignore"):
            low, high = box[0] / scale, box[1] / scale
        return list(zip(low, high, strict=True))

    def _evaluation(self, report: Report, u: NDArray[np.float64]) -> dict[str, Any]:
        """Return J and its gradient at some parameters, computed or from the checkpoint."""
        self.last = u
        if len(self.log) < len(self.replay):
            return self._replayed(u)
        search = self.search
        entry: dict[str, Any] = {"u": u.copy()}
        # completed below, before any checkpoint can be written
        self.log.append(entry)
        field, search.at = search.control.field(u), u
        result = search.objective.evaluate(field)
        entry["objective"] = result.objective
        entry["gradient"] = search.control.pull_back(u, result.gradient)
        if len(self.log) == 1:
            search.refuse_critical_point(entry["gradient"], result.probability)
        norm = float(np.linalg.norm(result.gradient))
        search.record(report, field, result.probability, result.objective, norm)
        self._hand_over(result.probability)
        return entry

    def _hand_over(self, probability: float) -> None:
        if self.stop_at is not None and probability >= self.stop_at:
            raise _Handover

    def _replayed(self, u: NDArray[np.float64]) -> dict[str, Any]:
        entry = self.replay[len(self.log)]
        if not np.array_equal(entry["u"], u):
            raise NumericsError(
                "the checkpoint cannot be replayed: the optimiser asks for other points than before",
                hint="resume with the versions of SciPy and qsim that wrote it, or start again with --force",
            )
        self.log.append(entry)
        if len(self.log) == len(self.replay) and self.saved is not None:
            self.search.restore(self.saved)
            self._hand_over(self.search.history["probability"][-1])
        return entry
