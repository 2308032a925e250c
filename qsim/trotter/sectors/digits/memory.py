"""Memory of H in spaces of digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.model.larger import quanta_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.trotter.model.larger import SpinModel
    from qsim.trotter.sectors.digits.space import DigitSpace

__all__ = ["digit_bytes"]


def elements(model: SpinModel) -> float:
    """Return how many elements beside the diagonal a row of H has, in the mean over all states."""
    total = 0.0
    for term in model.terms:
        size = len(quanta_of([model.twos[j] for j in term.sites]))
        total += (np.count_nonzero(term.matrix) - np.count_nonzero(term.matrix.diagonal())) / size
    return total


def digit_bytes(model: SpinModel, sectors: Sequence[Any], states: int, *, stored: bool) -> int:
    """Return the bytes of strings, diagonal and Lin tables, or of a stored matrix, of the largest of some spaces.

    Parameters
    ----------
    sectors : sequence of DigitSpace or DigitOrbits
    states : int
        Of the largest sector.
    """
    bases: list[DigitSpace] = [getattr(sector, "base", sector) for sector in sectors]
    if not bases:
        return 0
    one, most = bases[0], max(base.dimension for base in bases)
    tables = 16 << one.low * one.bits
    if not stored:
        return tables + 16 * states
    # images of all elements while the matrix is sorted; observables are taken from the strings of the space below
    return tables + int(states * (16 + 60 * (1 + elements(model)))) + 64 * most
