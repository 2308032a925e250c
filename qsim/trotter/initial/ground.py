"""Ground states of other Hamiltonians."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from qsim.core.deck.blocks import Count, Finding
from qsim.trotter.deck.couplings import Term, are_driven
from qsim.trotter.deck.term_rules import check_terms
from qsim.trotter.initial.base import InitialState

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["GroundState"]


class GroundState(InitialState):
    """The lowest state of another Hamiltonian of the same spins: at one Sz where it conserves it, else of all states.

    In the sector of the deck, where that Hamiltonian keeps it: the lowest state of one parity, one momentum.
    """

    example = {"terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]}

    type: Literal["ground_state"]
    terms: Annotated[list[Term], Field(min_length=1)] = Field(
        description="terms of that Hamiltonian, as in system.terms",
        json_schema_extra={"example": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]},
    )
    up: Count | None = Field(
        default=None,
        description="number of spins up, where that Hamiltonian conserves Sz; by default half of them, rounded down",
    )

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield more spins up than there are."""
        # The other bound, 0, is the type of the key.
        if self.up is not None and self.up > spins:
            yield Finding(f"{key}.up", f"{self.up} spins up, but system.spins = {spins}")

    def check_evolution(self, deck: Any) -> Iterator[Finding]:
        """Yield mistakes of the terms."""
        yield from check_terms(self.terms, deck.system, "initial.terms")
        # A Hamiltonian that depends on time has no ground state.
        if are_driven(self.terms):
            yield Finding(
                "initial.terms", "a ground state belongs to a constant H, but a term has a time profile"
            )

    def down(self, spins: int) -> int:
        """Return the number of spins down."""
        # Half of an odd number is rounded down, as the key says.
        return spins - (spins // 2 if self.up is None else self.up)

    def lowered(self, twos: tuple[int, ...]) -> int:
        """Return the quanta below all spins up."""
        return self.down(sum(twos))

    def vector(
        self, spins: int, device: "Device", dtype: "DTypeLike", *, seed: int, member: int = 0
    ) -> "Amplitudes":
        """Refuse: a ground state is found in its sector, by the problem of the run."""
        raise ValueError("a ground state is found in its sector")
