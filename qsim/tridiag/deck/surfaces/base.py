"""The base of potentials of two coordinates: V, its slopes, its limit far away; atomic units."""

from typing import TYPE_CHECKING, ClassVar

from qsim.core.deck.blocks import Block

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SurfaceBlock"]


class SurfaceBlock(Block):
    """A potential energy as a function of two coordinates.

    Attributes
    ----------
    place : int
        Position in lists of the documentation; new potentials come last.
    limit : float or None
        V far away, hartree: the energy above which a particle is free.  Infinite for a potential that confines it; None where
        nothing is known beyond the grid.
    """

    place: ClassVar[int] = 100
    limit: ClassVar[float | None] = None

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return V, hartree, on a grid x (n1,), y (n2,), bohr: (n1, n2).

        Raises
        ------
        InvalidInput
            With the key within the block, if a formula or table has no value there.
        FileError
            If a table cannot be read.
        """
        raise NotImplementedError

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return the slopes along both coordinates, hartree/bohr, (n1, n2) each; points and errors as for `V`."""
        raise NotImplementedError
