"""The search of a quantum system: what counts as its value, and where it cannot begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.objectives.jumps import extremes
from qsim.qoc.optimizers.search import CriticalPoint, Search
from qsim.qoc.quantum.outcome import expansion_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.qoc.quantum.problem import QuantumProblem

# Gradient by a parameter, relative to that of a full turn in a slot, that counts as rounding.
VANISHING = 1e-14
# How much more of what jumps a search may come to keep, before it is asked again.
MARGIN = 1.02


class QuantumSearch(Search):
    """A search whose P may be a mean value of any sign: only a vanishing gradient is a critical point.

    Where kets lose what jumps, P is that of no jump: the threshold counts for what is certain with one jump more.
    """

    def __init__(self, problem: QuantumProblem) -> None:
        super().__init__(problem.searched, problem.controls, problem.threshold, problem.max_sweeps)
        self.problem = problem
        # Members have no expansion: their values without a jump are lower parts, which is enough for a threshold.
        self.expands = problem.objective.by_order and problem.ensemble is None
        # gain of P per probability of jumps, as the last expansion had it; at most the largest value
        self.gain = extremes(problem.model)[1] if self.expands else 0.0

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
        """Enter one set of controls into the history and report it; Finished at the threshold or the limit."""
        certain = probability
        # The no-jump value can be below the threshold while that with one jump is above.
        # The expansion is expensive: it is computed only where it can decide.
        if self.expands and probability < self.threshold < np.inf:
            # Probability that something jumps, under the controls of the last evaluation.
            lost = 1.0 - self.problem.objective.jump_free
            # beyond a tenth more than the last gain the threshold is out of reach
            if probability + min(self.gain * MARGIN, self.gain + 1.0) * lost >= self.threshold:
                expansion = expansion_of(self.problem, field)
                # The divisor may vanish where nothing jumps; the gain then plays no part.
                self.gain = max(0.0, (expansion.lower - expansion.zero) / max(lost, 1e-300))
                certain = expansion.lower if expansion.lower >= self.threshold else probability
        try:
            super().record(report, field, certain, objective, gradient_norm, savable=savable)
        finally:
            # the history shows one quantity, that which is maximised
            self.history["probability"][-1] = probability

    def state(self) -> dict[str, object]:
        """Return the state that a checkpoint must hold."""
        return {**super().state(), "gain": self.gain}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint's state."""
        super().restore(state)
        self.gain = float(state["gain"])

    def refuse_critical_point(self, gradient: NDArray[np.float64], probability: float) -> None:
        """Raise :class:`CriticalPoint` if the gradient vanishes at the first values, to rounding, below the threshold."""
        slots = self.problem.objective.propagator
        natural = slots.tau * float(slots.norms[1:].max(initial=0.0))
        if probability >= self.threshold or np.abs(gradient).max(initial=0.0) > VANISHING * natural:
            return
        raise CriticalPoint(
            f"the gradient vanishes at the first values of the controls (P = {probability:.3g}): a critical point",
            hint="start from guess: random, or guess: {type: expression, value: ...}",
        )
