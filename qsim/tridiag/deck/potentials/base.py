"""The base of potentials: V, its slope, its limit far away.

Atomic units; the electron has mass 1.  Slopes, which the dipole acceleration needs, are analytic.  Values may be infinite or NaN
where a formula is; :func:`qsim.tridiag.tdse.potentials.evaluate` refuses them with their place.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from qsim.core.deck.blocks import Block
from qsim.tridiag.deck.numbers import Points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PotentialBlock"]


class PotentialBlock(Block):
    """A potential energy as a function of one coordinate.

    Attributes
    ----------
    place : int
        Position in lists of the documentation; new potentials come last.
    limit : float or None
        V far away, hartree: the energy above which the electron is free.  Infinite for a potential that confines it; None where
        nothing is known beyond the grid.
    in_parts : bool
        Whether the points of a large grid are worth evaluating part by part: not where that is no work, makes parts of its
        own, or reads a file that has to cover all of them.
    edges : bool
        Whether V jumps, at places that may lie on grid points.
    zero : bool
        Whether V vanishes everywhere.
    """

    place: ClassVar[int] = 100
    limit: ClassVar[float | None] = 0.0
    in_parts: ClassVar[bool] = True
    zero: ClassVar[bool] = False

    @property
    def edges(self) -> bool:
        """True if V jumps, at places that may lie on grid points."""
        return False

    @property
    def analytic(self) -> bool:
        """True if V has a meaning for complex x, which `continued` gives."""
        return True

    def continued(self, x: "NDArray[np.complex128]") -> "NDArray[np.complex128]":
        """Return the analytic continuation of V, hartree, at complex points (n,), bohr: the same formula."""
        found: Any = self.V(x)  # type: ignore[arg-type]
        return found  # type: ignore[no-any-return]

    def V(self, x: Points) -> Points:
        """Return V, hartree, at the points x (n,), bohr.

        Raises
        ------
        InvalidInput
            With the key within the block, if a formula or table has no value there.
        FileError
            If a table cannot be read.
        """
        raise NotImplementedError

    def dV(self, x: Points) -> Points:
        """Return dV/dx, hartree/bohr, at the points x (n,), bohr; errors as for `V`."""
        raise NotImplementedError
