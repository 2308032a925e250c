"""Choose the treatment of the jumps of a system: left out, by their number, or by the Lindbladian."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.models.quantum import GateTarget
from qsim.qoc.objectives.costs import column_count, is_quadratic
from qsim.qoc.objectives.jumps import jump_free
from qsim.qoc.propagators.densities import Densities
from qsim.qoc.propagators.slots import Motion, Slots, total_rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.deck.quantum import Unravelled
    from qsim.qoc.models.quantum import QuantumModel

# Probability of jumps below which `auto` searches without them.
WEAK = 0.2
# Operations that a propagation after the search may take: half a minute of one core.
BUDGET = 2e11
# Operations of a propagation below which a search carries density matrices as well: a tenth of a second with the gradient.
QUICK = 1e8
# Operations of a propagation that `auto` may take to know the probability of jumps.
LOOK = 2e10
# Entries of the jumps' superoperator that are kept.
MOST_ENTRIES = 2e7


@dataclass(frozen=True)
class Dissipation:
    """The equation that is propagated.

    Attributes
    ----------
    search : {"closed", "no_jump", "lindblad", "trajectories"}
        In the search.
    finish : bool
        Whether the Lindbladian follows once at the end.
    notice : str
        How `auto` was settled; empty otherwise.
    count : int
        Sampled histories.
    """

    search: Literal["closed", "no_jump", "lindblad", "trajectories"]
    finish: bool = False
    notice: str = ""
    count: int = 0

    @property
    def lindblad(self) -> bool:
        """True if the search carries density matrices."""
        return self.search == "lindblad"

    @property
    def lossy(self) -> bool:
        """True if the search carries kets that lose what jumps."""
        return self.search == "no_jump"

    def motion(self, duration: float, slots: int) -> Motion:
        """Return how the columns of the search move."""
        return Motion(duration, slots, self.lindblad, self.lossy)


def choose(
    asked: str | Unravelled, made: QuantumModel, duration: float, guess: NDArray[np.float64]
) -> Dissipation:
    """Return what is propagated, from the key `dissipation` and the first values (C, N) of the controls.

    Raises
    ------
    InvalidInput
        If histories are asked for a goal whose value is no sum over them.
    """
    if asked == "none" or not made.jumps:
        return Dissipation("closed")
    if asked == "lindblad":
        return Dissipation("lindblad")
    if asked != "auto":
        _require_sum(asked, made)
        if isinstance(asked, str):
            return Dissipation("no_jump")
        return Dissipation("trajectories", count=asked.trajectories.count)
    if not is_quadratic(made):
        return Dissipation("lindblad", notice="dissipation: auto -> lindblad (the goal is not linear in rho)")
    # The order of the tests: are jumps frequent, is the exact way cheap, else expand in their number.
    lost = _lost(made, duration, guess)
    told = f"{100 * lost:.2g} % of the first histories have jumps"
    # The expansion leaves about the square of this probability open, which would be too much.
    if lost >= WEAK:
        return Dissipation("lindblad", notice=f"dissipation: auto -> lindblad ({told})")
    if lindblad_fits(made, duration, guess, QUICK):
        return Dissipation("lindblad", notice="dissipation: auto -> lindblad (a small system)")
    # One propagation after the search may cost far more than each of those within it.
    finish = lindblad_fits(made, duration, guess, BUDGET)
    end = "the Lindbladian once at the end" if finish else "with the interval that more jumps leave"
    return Dissipation("no_jump", finish, f"dissipation: auto -> no_jump, {end} ({told})")


def _require_sum(asked: str | Unravelled, made: QuantumModel) -> None:
    """Refuse goals whose value is no sum over histories.

    Raises
    ------
    InvalidInput
        For coherent pairs, mixed density matrices, and sampled histories of a gate with free phases.
    """
    gates = (one.goal for _, one in made.each() if isinstance(one.goal, GateTarget))
    free = any(goal.free_phases == "local" for goal in gates)
    if not is_quadratic(made):
        text = "the value of this goal is no sum over histories with and without jumps; use lindblad"
        raise InvalidInput("dissipation", text)
    if free and not isinstance(asked, str):
        raise InvalidInput("dissipation", "free phases are not found by sampled histories; use lindblad")


def _lost(made: QuantumModel, duration: float, guess: NDArray[np.float64]) -> float:
    """Return the probability of jumps under the first values; from the rates of the start where that takes long."""
    weights = made.weights
    # What the norm of lossy kets has lost at T is the probability of at least one jump.
    kets = Slots(made, Motion(duration, guess.shape[1], lossy=True))
    if kets.operations(guess, made.states.shape[1]) > LOOK:
        # An estimate: the start keeps its rate for all of T, and so decays exponentially.
        rates = np.sum(made.states.conj() * (total_rate(made) @ made.states), axis=0).real
        return -math.expm1(-duration * float(rates @ weights))
    return float(weights.sum()) - jump_free(kets.final(guess, made.states), weights)


def lindblad_fits(made: QuantumModel, duration: float, guess: NDArray[np.float64], budget: float) -> bool:
    """Return True if the Lindbladian takes less operations than a budget, once, without a gradient."""
    # A jump acts as the Kronecker product of L and its conjugate: entries are squared.
    entries = sum(jump.operator.nnz**2 for jump in made.jumps)
    if entries > MOST_ENTRIES:
        return False
    count = column_count(made, lindblad=True)
    return Densities(made, Motion(duration, guess.shape[1], lindblad=True)).operations(guess, count) < budget


def first_order_fits(made: QuantumModel, duration: float, fields: NDArray[np.float64]) -> bool:
    """Return True if order 1 of the expansion in jumps takes less than the budget."""
    kets = Slots(made, Motion(duration, fields.shape[1], lossy=True))
    # four parts of a slot, with about half of the terms each
    propagated = 2.0 * kets.operations(fields, made.dimension + made.states.shape[1])
    jumped = 32.0 * made.states.size * made.dimension * len(made.jumps) * fields.shape[1]
    return propagated + jumped < BUDGET
