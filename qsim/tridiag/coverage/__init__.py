"""Random decks of tridiag, and the truth to hold their results against; see :mod:`qsim.core.run.coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.tridiag.coverage.atoms import atom
from qsim.tridiag.coverage.atoms_planar import turning
from qsim.tridiag.coverage.motion import motion
from qsim.tridiag.coverage.systems import system
from qsim.tridiag.coverage.wild import wild

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from qsim.core.run.coverage import Trial

__all__ = ["trial"]

WILD = 0.06  # of systems whose elements lie far apart
SHARES = 0.45, 0.88, 0.96  # of all systems, with motion in one dimension, and with atoms in a field along z


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of ``task: solve``, ``task: propagate`` or ``task: atom`` and its judge."""
    drawn = rng.random()
    if drawn < WILD:
        return wild(rng, folder)
    if drawn < SHARES[0]:
        return system(rng, folder)
    if drawn < SHARES[1]:
        return motion(rng, folder)
    return atom(rng) if drawn < SHARES[2] else turning(rng)
