"""The problem of a run: the trial function, the parts of the run with their settings, and what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from qsim.qmc.deck.series import Dmc, Optimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.deck.series import Section
    from qsim.qmc.estimators.histograms import EstimatorBlock
    from qsim.qmc.system.twists import Twist
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["SECTIONS", "Part", "Problem"]

SECTIONS = 256  # numbers of random streams from one time step of a section to the next


@dataclass(frozen=True)
class Part:
    """A section of the run, or one time step of a section of diffusion.

    Attributes
    ----------
    section
        Number of the section in the deck, from 0.
    block
        Its settings.
    walkers
        Number of walkers: the block's own, or that of the section before.
    timestep
        Time step of the moves, 1/hartree; 0 if the warm-up finds it.
    step
        Number of the time step within the section.
    """

    section: int
    block: Section
    walkers: int
    timestep: float
    step: int = 0

    @property
    def kind(self) -> str:
        """``optimize``, ``vmc`` or ``dmc``."""
        return type(self.block).__name__.lower()

    @property
    def number(self) -> int:
        """Word of the random counters of this part; it does not depend on the other sections."""
        return self.section + SECTIONS * self.step

    @property
    def blocks(self) -> int:
        """Number of Monte Carlo blocks; 1 for an optimisation."""
        return 1 if isinstance(self.block, Optimize) else self.block.blocks

    @property
    def generations(self) -> float:
        """Number of times that the section moves all electrons."""
        rounds = self.block.iterations + 1 if isinstance(self.block, Optimize) else self.block.blocks
        return float(self.block.steps) * rounds

    @property
    def reports(self) -> int:
        """Steps of the progress: blocks, or samples of an optimisation."""
        return self.block.iterations + 1 if isinstance(self.block, Optimize) else self.block.blocks

    @property
    def extrapolate(self) -> Literal["linear", "quadratic", "none"]:
        """Fit to the energies of the time steps of this section: ``linear``, ``quadratic`` or ``none``."""
        return self.block.extrapolate if isinstance(self.block, Dmc) else "none"


@dataclass
class Problem:
    """Everything that a run needs.

    Attributes
    ----------
    device : Device
    wavefunction : Wavefunction
        At the start.
    key : (2,) uint32
        Of the random numbers.
    single : bool
        True if orbitals and inverses are kept in single precision.
    kinds : sequence of str
        Kind of each section.
    parts : sequence of Part
        In the order in which they are run.
    measured : sequence of blocks
        What is measured beside the energy.
    atoms : (A, 3) float64
        Places of the ions, bohr; none of electrons in a trap.
    notices : list of str
        What the deck left open and how it was settled.
    warnings : list of str
        The same, where it must be known.
    twists : sequence of Twist
        Of a crystal, with weights of sum 1; all sections are run for each of them.
    others : sequence of Wavefunction
        Trial functions of all twists, or of all states, but the first.
    roots : sequence of int
        Of several states, their numbers in the expansion; empty for one.
    penalty : float or None
        Of a squared overlap of states, hartree; None: found at the start.
    excited : bool
        Whether the only state is an excited one.
    """

    device: Device
    wavefunction: Wavefunction
    key: NDArray[np.uint32]
    single: bool
    kinds: Sequence[str]
    parts: Sequence[Part]
    measured: Sequence[EstimatorBlock]
    atoms: NDArray[np.float64]
    notices: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    twists: Sequence[Twist] = ()
    others: Sequence[Wavefunction] = ()
    roots: Sequence[int] = ()
    penalty: float | None = None
    excited: bool = False

    @property
    def members(self) -> int:
        """Number of twists or states."""
        return 1 + len(self.others)

    def place(self, member: int, part: int) -> int:
        """Return the place of a part in the order of the run: twists one after the other, states together in each part."""
        return part * self.members + member if self.roots else member * len(self.parts) + part

    def name(self, member: int) -> str:
        """Return what a twist or state is called; empty where there is one."""
        if self.roots:
            return f"state {self.roots[member]}"
        return str(self.twists[member]) if self.others else ""

    def wavefunction_of(self, member: int) -> Wavefunction:
        """Return the trial function of a twist or state at the start."""
        return self.others[member - 1] if member else self.wavefunction
