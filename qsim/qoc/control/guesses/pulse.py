"""The pulse that a first field is made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.deck.model import QocDeck
    from qsim.qoc.models.molecule import Molecule

# a.u. of a formula or a file.
LARGEST_FIELD = 1e10


@dataclass(frozen=True)
class Pulse:
    """Deck, molecule and times of a first field.

    Attributes
    ----------
    deck : QocDeck
    molecule : Molecule
        The nominal one.
    times : (N,) float64
        Midpoints of the steps, a.u.
    shape : (N,) float64
        Factor S(t) of every field.
    """

    deck: QocDeck
    molecule: Molecule
    times: NDArray[np.float64]
    shape: NDArray[np.float64]

    @property
    def duration(self) -> float:
        """T, a.u."""
        return self.deck.time.T

    @property
    def seed(self) -> int:
        """Seed of random numbers."""
        return self.deck.run.seed or 0

    def checked(self, field: NDArray[np.float64], key: str) -> NDArray[np.float64]:
        """Return a field that has been read, after a look at its size.

        Raises
        ------
        InvalidInput
            If a value is no field strength.
        """
        worst = int(np.argmax(np.abs(field)))
        if abs(field[worst]) > LARGEST_FIELD:
            raise InvalidInput(
                key,
                f"{field[worst]:.3g} a.u. at t = {self.times[worst]:.6g} a.u. is not a field strength "
                f"(at most {LARGEST_FIELD:g})",
            )
        return field
