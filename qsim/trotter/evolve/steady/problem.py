"""The problem of a steady state."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from qsim.trotter.model.open.channels import charge_of
from qsim.trotter.sectors.digits.liouville import Doubled
from qsim.trotter.sectors.selection import obstacle

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.trotter.deck.open.steady import Steady
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.model.models import Models
    from qsim.trotter.model.open.channels import Channel
    from qsim.trotter.observables.registry import Observables


@dataclass
class SteadyProblem:
    """An open system and what is asked of its steady state.

    Attributes
    ----------
    models : Models
    channels : list of Channel
        Jump operators.
    block : Steady
    observables : Observables
    device : Device
        A CPU.
    whole : bool
        True if the deck asks for all elements of the density matrix, whatever is conserved.
    """

    models: Models
    channels: list[Channel]
    block: Steady
    observables: Observables
    device: Device
    whole: bool = False
    task: str = field(default="steady", init=False)

    @cached_property
    def hamiltonian(self) -> Hamiltonian:
        """H, which is constant."""
        return self.models.hamiltonian()

    @cached_property
    def order(self) -> int | None:
        """0 if the steady state has no coherence between different total Sz, None if it may."""
        kept = not obstacle(self.hamiltonian) and all(charge_of(one) is not None for one in self.channels)
        return 0 if kept and not self.whole else None

    @cached_property
    def doubled(self) -> Doubled:
        """Density matrices of the system."""
        return Doubled(self.device, self.hamiltonian, self.channels, self.models.system.twos, self.order)
