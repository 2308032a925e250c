"""Problem of a run: molecules, propagator, control, goal and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.control import Parametrisation
from qsim.qoc.deck.molecule import levels_of, parse_weight
from qsim.qoc.molecule import Molecule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qoc.deck.model import Optimizer, Verify
    from qsim.qoc.deck.molecule import InitialState, System, TargetState
    from qsim.qoc.propagators import Members, Propagator

__all__ = ["Goal", "Problem", "amplitudes", "target_vectors"]


@dataclass(frozen=True)
class Goal:
    """Goal of the field: ``J = P - alpha integral eps^2 dt``, Eq. (6), until P reaches the threshold.

    Attributes
    ----------
    transfers : tuple of pairs
        Initial state and target of each pair, in levels.
    alpha : float
        Fluence penalty, a.u.
    coherent : bool
        Whether the overlaps of the pairs are averaged with their phases.
    threshold : float
        Probability that ends the search.
    """

    transfers: tuple[tuple[InitialState, TargetState], ...]
    alpha: float
    coherent: bool
    threshold: float

    @property
    def top(self) -> int:
        """Highest level of the initial and target states."""
        return max(max(levels_of(i) + levels_of(t)) for i, t in self.transfers)

    def initial(self, levels: int) -> NDArray[np.complex128]:
        """Return the initial amplitudes (pairs, K) in so many levels."""
        return np.array([amplitudes(i, levels) for i, _ in self.transfers])

    def targets(self, levels: int) -> list[NDArray[np.complex128]]:
        """Return the orthonormal target vectors (r, K) of each pair in so many levels."""
        return [target_vectors(t, levels) for _, t in self.transfers]


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

    @property
    def molecule(self) -> Molecule:
        """The nominal molecule."""
        return self.members.molecules[0]


def amplitudes(state: InitialState, levels: int) -> NDArray[np.complex128]:
    """Return the normalised level amplitudes (K,) of a level or a superposition."""
    vector = np.zeros(levels, complex)
    if isinstance(state, dict):
        for key, weight in state.items():
            vector[int(key)] = parse_weight(weight)
        return vector / np.linalg.norm(vector)
    vector[int(state)] = 1.0
    return vector


def target_vectors(state: TargetState, levels: int) -> NDArray[np.complex128]:
    """Return the orthonormal target vectors (r, K): one for a state, one per level for a list of levels."""
    if isinstance(state, list):
        return np.eye(levels, dtype=complex)[state]
    return amplitudes(state, levels)[None]
