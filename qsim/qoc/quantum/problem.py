"""Problem of a run with a quantum system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qsim.qoc.control.controls import Controls
    from qsim.qoc.control.making import Making
    from qsim.qoc.deck.optimizers import QuantumOptimizer
    from qsim.qoc.deck.quantum import QuantumVerify
    from qsim.qoc.deck.systems.grid2d import Grid2dSystem
    from qsim.qoc.deck.systems.matrices import MatricesSystem
    from qsim.qoc.deck.systems.model import ModelSystem
    from qsim.qoc.deck.systems.rotor import RotorSystem
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.slots import SlotObjective

    System = ModelSystem | MatricesSystem | RotorSystem | Grid2dSystem

__all__ = ["QuantumProblem"]


@dataclass
class QuantumProblem:
    """Everything that the run needs.

    Attributes
    ----------
    system : ModelSystem, MatricesSystem, RotorSystem or Grid2dSystem
        Block of the deck, from which a larger basis is built for the error of the levels.
    model : QuantumModel
    objective : SlotObjective
    controls : Controls
    guess : (C, N) float64
        First values, constraints applied.
    times : (N,) float64
        Middles of the slots, in the unit of time of the model.
    duration : float
    threshold : float
        P that ends the search; infinite for none.
    making : Making
        From which further starts are made.
    optimizer : QuantumOptimizer
        Options of the search.
    gradient_scale : float
        Factor of the gradient in the paper's line search.
    verify : QuantumVerify
    warnings : list of str
        What must be known of the choices of the deck.
    notices : list of str
        How open choices were settled.
    """

    system: System
    model: QuantumModel
    objective: SlotObjective
    controls: Controls
    guess: NDArray[np.float64]
    times: NDArray[np.float64]
    duration: float
    threshold: float
    making: Making
    optimizer: QuantumOptimizer
    gradient_scale: float
    verify: QuantumVerify
    warnings: list[str]
    notices: list[str]

    @property
    def max_sweeps(self) -> int:
        """Limit of sweeps of each start."""
        return int(getattr(self.optimizer, "max_sweeps", 1))

    @property
    def restarts(self) -> int:
        """Further starts after the first."""
        return int(getattr(self.optimizer, "restarts", 0))

    @property
    def redraws(self) -> int:
        """Times that new random functions are drawn in a start."""
        return self.making.redraws
