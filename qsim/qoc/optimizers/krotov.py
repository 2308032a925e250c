"""Krotov's method: sequential updates whose objective cannot fall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.optimizers.gauss_newton import FLAT
from qsim.qoc.optimizers.search import no_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.qoc.optimizers.search import Search

# Doublings of lambda in one iteration.
TRIALS = 25
# Factor of lambda after a step that raised J.
EASE = 0.8


class Krotov:
    """Maximise J by Krotov's sequential update; lambda doubles until J rises and eases after every success.

    Parameters
    ----------
    search : Search
    field : (C, N) float64
        First values of the controls.
    step : float or str
        Lambda, or ``auto``.
    saved : mapping, optional
        State to continue from; `field` is then taken from it.
    """

    kind = "krotov"

    def __init__(
        self,
        search: Search,
        field: NDArray[np.float64],
        step: float | str,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self.search = search
        # sweeps of the propagator; a run is what one forward sweep leaves
        self.steps = search.objective.sequential()
        self.field = np.clip(field, search.control.low, search.control.high)
        self.automatic = step == "auto"
        self.lam = 0.0 if self.automatic else float(step)
        self.j = -np.inf
        self.continued = saved is not None
        if saved is not None:
            search.restore(saved)
            self.field = saved["current"]
            self.lam = float(saved["lam"])
            self.j = float(saved["j"])

    def state(self) -> State:
        """Return field, lambda and J at the start of an iteration."""
        return {"kind": self.kind, "current": self.field, "lam": self.lam, "j": self.j, **self.search.state()}

    def advance(self, report: Report) -> None:
        """Iterate until J is stationary, or no step raises it, or all sweeps are used up."""
        search, control = self.search, self.search.control
        objective = search.objective
        run = self.steps.forward(self.field)
        if not self.continued:
            objective.sweeps += 1
            p, self.j = self.steps.values(run, self.field)
            search.record(report, self.field, p, self.j, 0.0, savable=False)
        while True:
            # zero stands for a lambda that has not been chosen yet
            if self.lam == 0.0:
                self.lam = self._first_lambda()
            objective.sweeps += 1
            # The update raises J if lambda is large enough; it is doubled until it does.
            for _ in range(TRIALS):
                new = self.steps.update(self.field, run, control.shape / self.lam, control)
                objective.sweeps += 1
                next_run = self.steps.forward(new)
                objective.norm_error = max(objective.norm_error, next_run.norm_error)
                p, value = self.steps.values(next_run, new)
                if value > self.j:
                    break
                self.lam *= 2.0
                search.refuse_more_than_allowed()
            else:
                search.reason = no_step(value - self.j)
                return
            gain = value - self.j
            norm = float(np.linalg.norm(new - self.field)) * self.lam * objective.tau
            self.field, run, self.j = new, next_run, value
            # a success allows a smaller lambda, that is, a longer step the next time
            if self.automatic:
                self.lam *= EASE
            search.iterations += 1
            search.record(report, self.field, p, self.j, norm, savable=gain >= FLAT)
            if gain < FLAT:
                search.reason = "converged (J is stationary)"
                return

    def _first_lambda(self) -> float:
        """Return the lambda with which the first update is as large as half the field."""
        result = self.search.objective.evaluate(self.field)
        self.search.refuse_critical_point(result.gradient, result.probability)
        size = float(np.abs(self.field).max()) or 1e-3
        return float(np.abs(result.gradient).max()) / self.search.objective.tau / (0.5 * size)
