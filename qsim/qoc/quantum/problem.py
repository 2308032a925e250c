"""Problem of a run with a quantum system."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import rng
from qsim.qoc.control.controls import Functions
from qsim.qoc.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

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
