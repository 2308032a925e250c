"""The first field of a deck, by the kind of its guess."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import formula
from qsim.qoc.control.guesses.carriers import ladder, resonant, weak_seed
from qsim.qoc.control.guesses.files import file
from qsim.qoc.control.guesses.random import random, without_symmetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.control.guesses.pulse import Pulse
    from qsim.qoc.deck.control import ExpressionGuess, ZeroGuess


def zero(_block: ZeroGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return no field."""
    return np.zeros(pulse.times.size)


def expression(block: ExpressionGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return a formula of t and T, times the shape."""
    key = "control.guess.value"
    field = formula(block.value, key, t=pulse.times, T=pulse.duration)
    return pulse.checked(field, key) * pulse.shape


GUESSES: dict[str, Callable[[Any, Pulse], NDArray[np.float64]]] = {
    "zero": zero,
    "resonant": resonant,
    "ladder": ladder,
    "expression": expression,
    "file": file,
    "random": random,
}
"""The first field (N,) of a block of the deck and a pulse, by the type of the block."""


def first_field(pulse: Pulse) -> NDArray[np.float64]:
    """Return the field (N,) of the deck's guess at the midpoints, before bounds and other constraints.

    Raises
    ------
    InvalidInput
        If no path of dipole transitions joins the states, or a formula or a file cannot be used.
    """
    block = pulse.deck.control.guess
    return GUESSES[block.type](block, pulse)


def escape(pulse: Pulse, guess: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the guess (N,) without its symmetries; one too weak to move the state gives way to a resonant seed."""
    try:
        seed = weak_seed(pulse)
    except InvalidInput:
        # no path of dipole transitions, which a given field does not need
        seed = guess
    weak = np.linalg.norm(guess) < 0.1 * np.linalg.norm(seed)
    return without_symmetry(seed if weak else guess, pulse.seed)
