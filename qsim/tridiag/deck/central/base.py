"""The base of central potentials: V(r), its slope, the charge of the nucleus, the charge that is seen from far away.

Atomic units.  The Numerov scheme needs the charge of the nucleus, ``-lim r V`` at r = 0.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from qsim.core.deck.blocks import Block
from qsim.tridiag.deck.numbers import Points

__all__ = ["CentralBlock", "Charge"]

Charge = Annotated[float, Field(gt=0.0, le=120.0)]


class CentralBlock(Block):
    """A central potential.

    Attributes
    ----------
    place : int
        Position in lists of the documentation; new potentials come last.
    measured : float or None
        Measured ionisation potential of the valence level, hartree, where the block knows it.
    analytic : bool
        Whether V takes complex radii, which resonances need.
    coulomb : bool
        Whether V is ``-Z / r``, whose levels have parabolic quantum numbers in a field.
    """

    place: ClassVar[int] = 100
    measured: ClassVar[float | None] = None
    analytic: ClassVar[bool] = True
    coulomb: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """Name of the potential, as the deck gives it."""
        return str(getattr(self, "type", type(self).__name__))

    def V(self, r: Points) -> Points:
        """Return V, hartree, at the radii r (n,), bohr."""
        raise NotImplementedError

    def dV(self, r: Points) -> Points:
        """Return dV/dr, hartree/bohr, at the radii r (n,), bohr."""
        raise NotImplementedError

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus, ``-lim r V``."""
        raise NotImplementedError

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        # a neutral atom without one electron
        return 1.0
