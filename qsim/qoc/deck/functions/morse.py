"""The Morse potential of a diatomic molecule."""

import math
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Quantity
from qsim.qoc.deck.functions.base import Points, PotentialBlock
from qsim.qoc.deck.numbers import SIGNED, SIZE

# Of diatomic molecules, CO has the deepest well (0.412 hartree), N2 the largest range parameter (1.42/bohr), H2 the shortest bond
# (1.40 bohr).
WELL = Quantity("energy", ((0.45, 13.0, "eV"), (1e3, 1e6, "cm-1")))
RANGE = Quantity("inverse length", ((1.6, 5.0, "1/angstrom"), (5.0, 50.0, "1/nm")))
DISTANCE = Quantity("length", ((0.5, 1.39, "angstrom"), (70.0, 500.0, "pm")))


class Morse(PotentialBlock):
    """``V = D (exp(-beta (x - r0)) - 1)^2 - D``, Eq. (8)."""

    place = 0

    type: Literal["morse"]
    D: Annotated[float, WELL, SIZE] = Field(description="well depth")
    beta: Annotated[float, RANGE, SIZE] = Field(description="range parameter")
    r0: Annotated[float, DISTANCE, SIGNED] = Field(description="equilibrium distance")

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return V (L,), hartree, Eq. (8); the mass does not matter."""
        import numpy as np

        return np.asarray(self.D * (np.exp(-self.beta * (x - self.r0)) - 1.0) ** 2 - self.D)

    def highest_bound(self, mass: float) -> float:
        """Return ``sqrt(2 m D) / beta - 1/2`` rounded down to the level below it."""
        return math.ceil(math.sqrt(2 * mass * self.D) / self.beta - 0.5) - 1
