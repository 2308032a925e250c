"""Random decks of tridiag, and the truth to hold their results against; see :mod:`qsim.core.run.coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.tridiag.coverage.motion import motion
from qsim.tridiag.coverage.systems import system

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from qsim.core.run.coverage import Trial

__all__ = ["trial"]


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of ``task: solve`` or ``task: propagate`` and its judge."""
    return system(rng, folder) if rng.random() < 0.45 else motion(rng, folder)
