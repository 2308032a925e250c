"""Random decks of sturmian, and what their results should be: see :mod:`qsim.core.run.coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian.coverage import collisions, decks, judges

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from qsim.core.run.coverage import Trial

__all__ = ["trial"]

BOUND, EXTRAPOLATED, INTEGRALS, COLLISIONS = (
    0.6,
    0.1,
    0.05,
    0.18,
)  # shares of the decks; the rest makes the basis alone


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck and say how to judge it."""
    from qsim.core.run.coverage import Trial

    kind = rng.random()
    if kind < BOUND:
        deck, model = decks.bound(rng, folder)
        return Trial(deck, lambda results: judges.bound(results, deck, model))
    if kind > 1.0 - COLLISIONS:
        deck, judge = collisions.collision(rng)
        return Trial(deck, lambda results: judge(results, deck))
    if kind < BOUND + EXTRAPOLATED:
        deck, model = decks.extrapolated(rng)
        return Trial(deck, lambda results: judges.bound(results, deck, model))
    if kind < BOUND + EXTRAPOLATED + INTEGRALS:
        deck, model = decks.integrals(rng)
        return Trial(deck, lambda results: judges.integrals(results, deck, model))
    deck, model = decks.basis(rng)
    return Trial(deck, lambda results: judges.basis(results, deck, model))
