"""Problem of a run: what every search needs, and the molecules of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.run.progress import Monitor
    from qsim.qoc.control.controls import Controls, Functions
    from qsim.qoc.control.parametrisation import Parametrisation
    from qsim.qoc.deck.model import Verify
    from qsim.qoc.deck.optimizers import Optimizer
    from qsim.qoc.deck.quantum import QuantumVerify
    from qsim.qoc.deck.system import System
    from qsim.qoc.models.molecule import Molecule
    from qsim.qoc.objectives.objective import Goal, Objective
    from qsim.qoc.propagators.propagator import Members, Propagator

# A search that converges below this probability has not left the critical point at zero field.
STALLED = 1e-6


@dataclass(kw_only=True)
class Problem:
    """What every search needs.

    Attributes
    ----------
    objective : Objective or SlotObjective
        Value and gradient of the controls; of an ensemble of quantum systems, those of the system as the deck has it.
    begin, analyse : callable
        Return a search of the problem that has not begun; look at what it has found, and return the result.
    controls : Controls
    guess : (C, N) float64
        First values.
    times : (N,) float64
        Middles of the slots, in the unit of time of the system.
    duration : float
    threshold : float
        P that ends the search; infinite for none.
    optimizer : Optimizer
        Options of the search.
    verify : Verify
        Options of the independent propagation.
    warnings : list of str
        What must be known of the choices of the deck.
    notices : list of str
        How open choices were settled.
    gradient_scale : float
        Factor of the gradient in the paper's line search.
    leak_tolerance : float or None
        Population of the highest two levels above which a run warns; None where all levels are kept.
    functions : Functions or None
        The controls that are looked at, as functions of time; None if they are constant in the slots.
    points : Points or None
        Searches of a front, in whose place this problem stands.
    units : (str, str)
        Units of controls and times in the results.
    names : tuple of str
        Names of the controls.
    redraws : int
        Times that new random functions are drawn in a start.
    stalled : float
        P below which a search that has converged has not left its first values.
    """

    objective: Any
    begin: Callable[[Any], Any]
    analyse: Callable[[Any, Any, Any, NDArray[np.float64], Monitor], Any]
    controls: Controls
    guess: NDArray[np.float64]
    times: NDArray[np.float64]
    duration: float
    threshold: float
    optimizer: Optimizer
    verify: Verify | QuantumVerify
    warnings: list[str]
    notices: list[str]
    gradient_scale: float = 1.0
    leak_tolerance: float | None = None
    functions: Functions | None = None
    points: Any = None
    units: tuple[str, str] = ("a.u.", "a.u.")
    names: tuple[str, ...] = ("field",)
    redraws: int = 0
    stalled: float = 0.0

    @property
    def searched(self) -> Any:
        """The function that the search maximises."""
        return self.objective

    @property
    def max_sweeps(self) -> int:
        """Limit of sweeps of each start."""
        return int(getattr(self.optimizer, "max_sweeps", 1))

    @property
    def restarts(self) -> int:
        """Further starts after the first."""
        return int(getattr(self.optimizer, "restarts", 0))

    @property
    def first(self) -> NDArray[np.float64]:
        """First values (C, N), constraints applied."""
        return self.guess

    @property
    def alone(self) -> bool:
        """True if no other rank propagates a part of the members."""
        return bool(self.searched.comm.size == 1)

    def start(self, attempt: int) -> tuple[Controls, NDArray[np.float64]]:
        """Return the controls and the first values (C, N) of a start."""
        return self.controls, self.guess

    def unstuck(self, attempt: int, guess: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return first values (C, N) beside a critical point."""
        raise NotImplementedError


@dataclass(kw_only=True)
class MoleculeProblem(Problem):
    """A molecule on its grid, or an ensemble of them, with the propagators of the paper and of its levels.

    Attributes
    ----------
    device : Device
    system : System
        Potential and dipole as functions of x, the mass, and the box.
    members : Members
        Ensemble; the first molecule is the nominal one.
    factors : list of (float, float)
        Mass and potential factor of each molecule of the ensemble.
    goal : Goal
    initial : (pairs, K) complex128
        Level amplitudes at t = 0, with the noise of a zero guess.
    targets : list of (r, K) complex128
        Orthonormal target vectors of each pair.
    propagator : Propagator
    constrained : bool
        Whether the field has a shape, bounds, a band or zero area.
    escape : (1, N) float64
        The guess without its symmetries: where a search goes on, once, that has come to a critical point, a.u.
    guess_given : bool
        Whether the guess has an amplitude of its own: a formula, a file, or random.
    intensity_limit : float or None
        Intensity (W/cm2) above which a warning is due; None where the deck bounds the field.
    """

    objective: Objective
    verify: Verify
    device: Device
    system: System
    members: Members
    factors: list[tuple[float, float]]
    goal: Goal
    initial: NDArray[np.complex128]
    targets: list[NDArray[np.complex128]]
    propagator: Propagator
    constrained: bool
    escape: NDArray[np.float64]
    guess_given: bool
    intensity_limit: float | None
    stalled: float = STALLED

    @property
    def molecule(self) -> Molecule:
        """The nominal molecule."""
        return self.members.molecules[0]

    @property
    def control(self) -> Parametrisation:
        """The map from parameters to the field."""
        return self.controls.lines[0].map

    @property
    def first(self) -> NDArray[np.float64]:
        """The guess (1, N) as the optimiser sees it, constraints applied."""
        return self.controls.field(self.controls.parameters(self.guess)) if self.constrained else self.guess

    def unstuck(self, attempt: int, guess: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the field (1, N) without symmetries; that of a guess that has none is itself."""
        return self.escape if np.any(self.escape) else guess
