"""Problem of a run with a quantum system, and its search: what counts as its value, and where it cannot begin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import rng
from qsim.qoc.control.controls import Functions
from qsim.qoc.objectives.jumps import extremes
from qsim.qoc.optimizers.search import CriticalPoint, Search
from qsim.qoc.problem import Problem
from qsim.qoc.quantum.outcome import expansion_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.run.loop import Report
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.control.making import Making
    from qsim.qoc.deck.optimizers import Optimizer
    from qsim.qoc.deck.quantum import QuantumVerify
    from qsim.qoc.models.builders import System
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.bounds import Limits
    from qsim.qoc.objectives.ensemble import EnsembleObjective
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.quantum.dissipation import Dissipation
    from qsim.qoc.quantum.ensembles.members import Ensemble

# Random numbers of values beside a critical point, their modes, and their size in turns by pi of each control.
ESCAPE_STREAM, ESCAPE_MODES, ESCAPE_SIZE = 1 << 20, 5, 0.3


@dataclass(frozen=True)
class Points:
    """The searches of a front.

    Attributes
    ----------
    problems : list of QuantumProblem
        One for each value.
    values : (n,) float64
        The values as numbers: times in the unit of the system.
    over : str
        The key that they belong to.
    warm_start, both_ways : bool
        Whether a search begins from the controls of its neighbour, and whether all are searched in both directions.
    """

    problems: list[QuantumProblem]
    values: NDArray[np.float64]
    over: str
    warm_start: bool
    both_ways: bool


@dataclass(kw_only=True)
class QuantumProblem(Problem):
    """A quantum system by its matrices.

    Attributes
    ----------
    system : ModelSystem, MatricesSystem, RotorSystem or Grid2dSystem
        Block of the deck, from which a larger basis is built for the error of the levels.
    model : QuantumModel
    dissipation : Dissipation
        How jumps enter the search and the result.
    finish : SlotObjective or None
        The Lindbladian that follows the search once, where the search is without jumps.
    limits : Limits
        What no search can pass.
    making : Making
        From which further starts are made.
    ensemble : Ensemble or None
        Systems that see the same controls, whose values count instead of that of `model`.
    observed : dict of csr_array (D, D)
        Operators whose mean values over time are kept, by name.
    states_at : (n,) float64
        Times whose states are kept.
    """

    objective: SlotObjective
    optimizer: Optimizer
    verify: QuantumVerify
    system: System
    model: QuantumModel
    dissipation: Dissipation
    finish: SlotObjective | None
    limits: Limits
    making: Making
    ensemble: Ensemble | None = None
    observed: dict[str, csr_array] = field(default_factory=dict)
    states_at: NDArray[np.float64] | None = None

    def with_functions(self, controls: Controls, u: NDArray[np.float64]) -> QuantumProblem:
        """Return the problem with the functions of time that parameters (size,) mean."""
        if controls.held:
            return replace(self, functions=None)
        return replace(self, functions=Functions(controls, u, controls.given))

    @property
    def searched(self) -> SlotObjective | EnsembleObjective:
        """Return the function that the search maximises: the value of the ensemble if there is one."""
        return self.objective if self.ensemble is None else self.ensemble.objective

    @property
    def units(self) -> tuple[str, str]:
        """Units of controls and times in the results."""
        return self.model.units

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the controls."""
        return tuple(term.name for term in self.model.controls)

    @property
    def redraws(self) -> int:
        """Times that new random functions are drawn in a start."""
        return self.making.redraws

    def start(self, attempt: int) -> tuple[Controls, NDArray[np.float64]]:
        """Return the controls and the first values (C, N) of a start."""
        return self.making.start(attempt) if attempt else (self.controls, self.guess)

    def unstuck(self, attempt: int, guess: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return first values (C, N) without a symmetry: a few weak sines with random amplitudes more, tenths of a turn each."""
        slots = self.objective.propagator
        own = zip(self.model.controls, slots.norms[1:], strict=True)
        natural = [
            (np.pi / self.duration / norm) ** (1.0 / term.power) if norm else 1.0 for term, norm in own
        ]
        key = rng.key_from_seed(self.making.setting.seed)
        draws = rng.normal(key, ESCAPE_STREAM, attempt, len(natural) * ESCAPE_MODES)
        phase = np.pi * self.times / self.duration
        modes = np.sin(np.arange(1, ESCAPE_MODES + 1)[:, None] * phase)
        sizes = ESCAPE_SIZE * np.array(natural)[:, None] / np.sqrt(ESCAPE_MODES)
        return guess + np.asarray(sizes * (draws.reshape(-1, ESCAPE_MODES) @ modes))


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
