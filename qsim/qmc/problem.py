"""What a run needs: the trial function, the sections and their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.deck.model import QmcDeck
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["SECTIONS", "Part", "Problem"]

SECTIONS = 256  # numbers of random streams from one time step of a section to the next


class Part(NamedTuple):
    """A section of the deck, or one time step of it.

    Attributes
    ----------
    section
        Number of the section in the deck, from 0.
    kind
        ``optimize``, ``vmc`` or ``dmc``.
    block
        Its settings, with the number of walkers.
    timestep
        Of diffusion, 1/hartree; None for the other kinds.
    step
        Number of the time step within the section.
    """

    section: int
    kind: str
    block: Any
    timestep: float | None
    step: int

    @property
    def number(self) -> int:
        """What its random numbers are counted under; it does not depend on the other sections."""
        return self.section + SECTIONS * self.step


@dataclass
class Problem:
    """Everything that a run needs.

    Attributes
    ----------
    deck : QmcDeck
        As it was written.
    device : Device
    wavefunction : Wavefunction
        At the start.
    key : (2,) uint32
        Of the random numbers.
    parts : list of Part
        In the order in which they are run.
    notices : list of str
        What the deck left open and how it was settled.
    warnings : list of str
        What is doubtful about that.
    """

    deck: QmcDeck
    device: Device
    wavefunction: Wavefunction
    key: NDArray[np.uint32]
    parts: list[Part]
    notices: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def single(self) -> bool:
        """Whether orbitals and inverses are kept in single precision."""
        return self.deck.run.precision == "mixed"
