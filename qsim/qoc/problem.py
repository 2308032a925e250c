"""What a run needs: molecule, propagators, control and objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.control import Parametrisation
from qsim.qoc.molecule import Molecule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qoc.deck.model import QocDeck
    from qsim.qoc.propagators import Members, Propagator

__all__ = ["Problem"]


@dataclass
class Problem:
    """Everything the run needs.

    Attributes
    ----------
    deck : QocDeck
    device : Device
    members : Members
        Ensemble; the first molecule is the nominal one.
    initial : (pairs, K) complex128
        Level amplitudes at t = 0.
    targets : list of (r, K) complex128
        Orthonormal target vectors of each pair.
    propagator : Propagator
    control : Parametrisation
    times : (N,) float64
        Midpoints, a.u.
    guess : (N,) float64
        First field, a.u.
    notices : list of str
        What the deck left open and how it was settled.
    """

    deck: QocDeck
    device: Device
    members: Members
    initial: NDArray[np.complex128]
    targets: list[NDArray[np.complex128]]
    propagator: Propagator
    control: Parametrisation
    times: NDArray[np.float64]
    guess: NDArray[np.float64]
    notices: list[str]

    @property
    def molecule(self) -> Molecule:
        """The nominal molecule."""
        return self.members.molecules[0]
