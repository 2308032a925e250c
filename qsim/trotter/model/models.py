"""The Hamiltonians of a run: of every trajectory, of the way back of its echo, and of the ground state that it starts in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.trotter.deck.couplings import (
    Anisotropy,
    Dipolar,
    FieldTerm,
    NuclearTerm,
    OrientedTerm,
    Pairs,
    are_driven,
)
from qsim.trotter.deck.lattices import AllToAll
from qsim.trotter.initial.ground import GroundState
from qsim.trotter.lattices.bonds import wrapped
from qsim.trotter.model import nuclei  # noqa: F401 - it brings the terms of nuclei
from qsim.trotter.model.hamiltonian import build_hamiltonian, zero_of
from qsim.trotter.observables.echo import Echo

if TYPE_CHECKING:
    from qsim.trotter.deck.couplings import System, Term
    from qsim.trotter.deck.model import TrotterDeck
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model

GROUND_TERMS = (
    # number of the first term of a ground state, by which its disorder is apart from all other
    1000
)


@dataclass(frozen=True)
class Models:
    """Couplings and fields of every trajectory.

    Attributes
    ----------
    system : System
        Spins and terms of the deck, checked.
    seed : int
        Seed of the run, for disorder without a seed of its own.
    disorder, states : int
        Realisations of the disorder, and trajectories of each of them, which stand in a row.
    sigma_terms : sequence of Term
        Perturbation of the way back of an echo.
    ground_terms : sequence of Term
        Of the Hamiltonian whose ground state the trajectories begin with.
    """

    system: System
    seed: int
    disorder: int = 1
    states: int = 1
    sigma_terms: Sequence[Term] = ()
    ground_terms: Sequence[Term] = ()

    @classmethod
    def of(cls, deck: TrotterDeck) -> Models:
        """Return the Hamiltonians of a deck."""
        echo = Echo.block_in(deck.observe)
        return cls(
            deck.system,
            deck.run.seed if deck.run.seed is not None else 0,
            deck.ensemble.disorder,
            deck.ensemble.states,
            sigma_terms=echo.sigma if echo is not None else (),
            ground_terms=deck.initial.terms if isinstance(deck.initial, GroundState) else (),
        )

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.system.spins

    @property
    def driven(self) -> bool:
        """True if a term of the system depends on time."""
        return are_driven(self.system.terms)

    @property
    def driven_sigma(self) -> bool:
        """True if a term of the way back depends on time."""
        return are_driven(self.sigma_terms)

    @property
    def notes(self) -> list[str]:
        """Notices about bonds across periodic boundaries, one for each kind."""
        texts = []
        for term in (*self.system.terms, *self.sigma_terms, *self.ground_terms):
            lattice = getattr(term, "lattice", None) or self.system.lattice
            placed = getattr(term, "positions", None) is not None or isinstance(term, Dipolar)
            if (
                lattice is None
                or placed
                or isinstance(term, FieldTerm | Pairs | Anisotropy | NuclearTerm)
                or getattr(term, "list", None)
            ):
                continue
            # as `_bonds` of the Hamiltonian chooses shells
            shells = term.shells
            if shells is None and getattr(term, "alpha", None) is None and not isinstance(lattice, AllToAll):
                shells = [1]
            texts.append(wrapped(lattice, self.spins, shells))
        return [text for text in dict.fromkeys(texts) if text]

    @property
    def has_tensors(self) -> bool:
        """True if a term of the system or of the way back may couple different components of two spins."""
        return any(isinstance(term, OrientedTerm) for term in (*self.system.terms, *self.sigma_terms))

    def realisation(self, member: int) -> int:
        """Return the number of the realisation of the disorder of a trajectory."""
        return member // self.states

    def hamiltonian(self, member: int = 0) -> Hamiltonian:
        """Return the Hamiltonian of a trajectory."""
        return build_hamiltonian(self.system, seed=self.seed, realisation=self.realisation(member))

    def part(self, numbers: Sequence[int]) -> Model:
        """Return some of the terms alone, without time profiles; with the disorder of the whole Hamiltonian."""
        total = zero_of(self.system)
        for number in numbers:
            term = self.system.terms[number]
            total = total + build_hamiltonian(self.system, seed=self.seed, terms=[term], first=number).at(0.0)
        return total

    def sigma(self, member: int = 0) -> Hamiltonian:
        """Return the perturbation of the echo of a trajectory."""
        return self._of(self.sigma_terms, len(self.system.terms), member)

    def ground(self, member: int = 0) -> Hamiltonian:
        """Return the Hamiltonian whose ground state a trajectory begins with."""
        return self._of(self.ground_terms, GROUND_TERMS, member)

    def _of(self, terms: Sequence[Term], first: int, member: int) -> Hamiltonian:
        return build_hamiltonian(
            self.system, seed=self.seed, realisation=self.realisation(member), terms=terms, first=first
        )
