"""Memory of H in spaces of digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.trotter.sectors.digits.product import MOST_STORED, elements, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.trotter.model.larger import SpinModel
    from qsim.trotter.sectors.digits.space import DigitSpace

__all__ = ["digit_bytes"]


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
        kept = stored_bytes(model, states)
        return tables + 16 * states + (3 * kept if kept <= MOST_STORED else 0)
    # images of all elements while the matrix is sorted; observables are taken from the strings of the space below
    return tables + int(states * (16 + 60 * (1 + elements(model)))) + 64 * most
