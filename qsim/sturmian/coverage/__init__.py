"""Random decks of sturmian, and what their results should be: see :mod:`qsim.core.run.coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian.coverage import decks, judges

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from qsim.core.run.coverage import Trial

__all__ = ["trial"]


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck and say how to judge it."""
    from qsim.core.run.coverage import Trial

    if rng.random() < 0.9:
        deck, model = decks.bound(rng, folder)
        return Trial(deck, lambda results: judges.bound(results, deck, model))
    deck, model = decks.basis(rng)
    return Trial(deck, lambda results: judges.basis(results, deck, model))
