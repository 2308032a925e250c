"""One-electron atoms: bare, screened and softened charges."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Length
from qsim.tridiag.deck.central.base import CentralBlock, Charge
from qsim.tridiag.deck.numbers import SIZE, Points

__all__ = ["HydrogenAtom", "SoftCoreAtom", "YukawaAtom"]


class HydrogenAtom(CentralBlock):
    """``V = -Z / r``: hydrogen and hydrogen-like ions."""

    place = 1
    coulomb = True

    type: Literal["hydrogen", "hydrogenic"]
    Z: Charge = Field(default=1.0, description="charge of the nucleus")

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        return -self.Z / r

    def dV(self, r: Points) -> Points:
        """Return ``Z / r^2`` (n,), hartree/bohr."""
        return self.Z / r**2

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        return self.Z

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return self.Z


class YukawaAtom(CentralBlock):
    """``V = -Z exp(-r / range) / r``."""

    place = 2

    type: Literal["yukawa"]
    Z: Charge = Field(default=1.0, description="charge of the nucleus")
    range: Annotated[Length, SIZE] = Field(description="screening length", json_schema_extra={"example": 5.0})

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(-self.Z * np.exp(-r / self.range) / r)

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        import numpy as np

        return np.asarray(self.Z * np.exp(-r / self.range) * (1.0 / r + 1.0 / self.range) / r)

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        return self.Z

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        # screened: nothing is left of the charge
        return 0.0


class SoftCoreAtom(CentralBlock):
    """``V = -Z / sqrt(r^2 + a^2)``: no nucleus, a Coulomb tail."""

    place = 3
    analytic = False

    type: Literal["softcore"]
    Z: Charge = Field(default=1.0, description="charge that is seen from far away")
    a: Annotated[Length, SIZE] = Field(description="radius of the core", json_schema_extra={"example": 1.0})

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        return -self.Z / (r**2 + self.a**2) ** 0.5

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        return self.Z * r / (r**2 + self.a**2) ** 1.5

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus: none."""
        return 0.0

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return self.Z
