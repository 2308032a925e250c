"""Polynomials in x, for potentials and dipole functions."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.qoc.deck.functions.base import DipoleBlock, Points, PotentialBlock


class Polynomial(PotentialBlock, DipoleBlock):
    """``sum_n c_n x^n``; Eq. (11) is ``[0, 0, -0.25, 0.00390625, 0.015625]``."""

    place = 2

    type: Literal["polynomial"]
    coefficients: Annotated[list[float], Field(min_length=1)] = Field(
        description="ascending powers of x, atomic units"
    )

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return the value (L,), a.u.; the mass does not matter."""
        import numpy as np

        return np.asarray(np.polynomial.polynomial.polyval(x, np.asarray(self.coefficients, float)))
