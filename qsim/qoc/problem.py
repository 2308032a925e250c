"""Problem of a run: molecules, propagator, control, goal and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.control.parametrisation import Parametrisation
from qsim.qoc.models.molecule import Molecule
from qsim.qoc.objectives.goal import Goal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qoc.control.mesh import Course
    from qsim.qoc.deck.model import Verify
    from qsim.qoc.deck.optimizers import Optimizer
    from qsim.qoc.deck.system import System
    from qsim.qoc.propagators.propagator import Members, Propagator

__all__ = ["Problem"]


@dataclass
class Problem:
    """Everything the run needs.

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
    control : Parametrisation
    constrained : bool
        Whether the field has a shape, bounds, a band or zero area.
    times : (N,) float64
        Midpoints, a.u.
    duration : float
        T, a.u.
    guess : (N,) float64
        First field, a.u.
    escape : (N,) float64
        The guess without its symmetries: where a search goes on, once, that has come to a critical point, a.u.
    guess_given : bool
        Whether the guess has an amplitude of its own: a formula, a file, or random.
    optimizer : Optimizer
        Options of the search.
    verify : Verify
        Options of the independent propagation.
    leak_tolerance : float or None
        Population of the highest two levels above which a warning is due; None on the grid, which keeps all levels.
    intensity_limit : float or None
        Intensity (W/cm2) above which a warning is due; None where the deck bounds the field.
    notices : list of str
        What the deck left open and how it was settled.
    warnings : list of str
        The same, where it must be known.
    course : Course or None
        The field as a function of time, where the deck gives it and nothing is searched.
    """

    device: Device
    system: System
    members: Members
    factors: list[tuple[float, float]]
    goal: Goal
    initial: NDArray[np.complex128]
    targets: list[NDArray[np.complex128]]
    propagator: Propagator
    control: Parametrisation
    constrained: bool
    times: NDArray[np.float64]
    duration: float
    guess: NDArray[np.float64]
    escape: NDArray[np.float64]
    guess_given: bool
    optimizer: Optimizer
    verify: Verify
    leak_tolerance: float | None
    intensity_limit: float | None
    notices: list[str]
    warnings: list[str]
    course: Course | None = None

    @property
    def molecule(self) -> Molecule:
        """The nominal molecule."""
        return self.members.molecules[0]

    def first_field(self) -> NDArray[np.float64]:
        """Return the guess as the optimiser sees it, constraints applied."""
        if not self.constrained:
            return self.guess
        return self.control.field(self.control.parameters(self.guess))
