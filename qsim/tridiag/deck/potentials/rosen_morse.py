"""The potential of Rosen and Morse, a well or barrier ``1/cosh^2`` between two different plateaus.

N. Rosen and P. M. Morse, Phys. Rev. 42, 210 (1932).
"""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Energy, Length
from qsim.tridiag.deck.numbers import SIGNED, SIZE, Points
from qsim.tridiag.deck.potentials.base import PotentialBlock

__all__ = ["RosenMorse"]


class RosenMorse(PotentialBlock):
    """``V = -depth / cosh((x - x0) / a)^2 + step tanh((x - x0) / a)``, which tends to -step and step far away."""

    # the lower plateau depends on the keys: it is taken from the walls of the grid
    limit = None

    type: Literal["rosen_morse"]
    depth: Annotated[Energy, SIGNED] = Field(
        description="depth; negative for a barrier", json_schema_extra={"example": 1.0}
    )
    step: Annotated[Energy, SIGNED] = Field(
        default=0.0, description="half of the difference of V far away on the right and on the left"
    )
    a: Annotated[Length, SIZE] = Field(default=1.0, description="range")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        y = (x - self.x0) / self.a
        return np.asarray(self.step * np.tanh(y) - self.depth * _sech_squared(y))

    def dV(self, x: Points) -> Points:
        """Return ``(2 depth tanh(y) + step) / (a cosh(y)^2)`` (n,), hartree/bohr, with ``y = (x - x0) / a``."""
        import numpy as np

        y = (x - self.x0) / self.a
        return np.asarray((2.0 * self.depth * np.tanh(y) + self.step) / self.a * _sech_squared(y))


def _sech_squared(y: Points) -> Points:
    """Return 1/cosh^2 without overflow far away."""
    import numpy as np

    # 4 e / (1 + e)^2 with e = exp(-2 |y|), which underflows to 0 far away
    e = np.exp(-2.0 * y * np.sign(np.real(y)))
    return np.asarray(4.0 * e / (1.0 + e) ** 2)
