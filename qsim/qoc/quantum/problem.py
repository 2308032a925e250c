"""Problem of a run with a quantum system."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from qsim.qoc.control.controls import Functions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.qoc.control.controls import Controls
    from qsim.qoc.control.making import Making
    from qsim.qoc.deck.optimizers import QuantumOptimizer
    from qsim.qoc.deck.quantum import QuantumVerify
    from qsim.qoc.models.builders import System
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.bounds import Limits
    from qsim.qoc.objectives.ensemble import EnsembleObjective
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.quantum.ensembles.members import Ensemble
    from qsim.qoc.quantum.open.dissipation import Dissipation

__all__ = ["Points", "QuantumProblem"]


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


@dataclass
class QuantumProblem:
    """Everything that the run needs.

    Attributes
    ----------
    system : ModelSystem, MatricesSystem, RotorSystem or Grid2dSystem
        Block of the deck, from which a larger basis is built for the error of the levels.
    model : QuantumModel
    objective : SlotObjective
    dissipation : Dissipation
        How jumps enter the search and the result.
    finish : SlotObjective or None
        The Lindbladian that follows the search once, where the search is without jumps.
    limits : Limits
        What no search can pass.
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
    points : Points or None
        Searches of a front, in whose place this problem stands.
    ensemble : Ensemble or None
        Systems that see the same controls, whose values count instead of that of `model`.
    functions : Functions or None
        The controls that are looked at, as functions of time; None if they are constant in the slots.
    leak_tolerance : float or None
        Population of the highest two levels above which a run warns.
    observed : dict of csr_array (D, D)
        Operators whose mean values over time are kept, by name.
    states_at : (n,) float64
        Times whose states are kept.
    """

    system: System
    model: QuantumModel
    objective: SlotObjective
    dissipation: Dissipation
    finish: SlotObjective | None
    limits: Limits
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
    points: Points | None = None
    ensemble: Ensemble | None = None
    functions: Functions | None = None
    leak_tolerance: float | None = None
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
