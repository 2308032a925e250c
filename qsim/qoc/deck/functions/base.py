"""The bases of functions of x: potentials, hartree, and dipole functions, a.u.

Values may be infinite or NaN where a formula is; :func:`qsim.qoc.models.molecule.function_of_x` refuses them with their place.
"""

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from qsim.core.deck.blocks import Block

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray

# Points x (L,), bohr, and values there; decks are read without NumPy.
Points: TypeAlias = "FloatArray"


class FunctionBlock(Block):
    """A function of the coordinate x.

    Attributes
    ----------
    place : int
        Position in lists of the documentation; new functions come last.
    """

    place: ClassVar[int] = 100

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return the values (L,) at the points x of a particle of this mass (electron masses).

        Parameters
        ----------
        key
            Where the block stands in the deck, for messages: ``system.potential``.

        Raises
        ------
        InvalidInput
            If a formula or a table has no value at some point.
        FileError
            If a table cannot be read.
        """
        raise NotImplementedError


class PotentialBlock(FunctionBlock):
    """A potential energy, hartree."""

    def highest_bound(self, mass: float) -> float:
        """Return the number of the highest bound level of a particle of this mass; infinite where no formula gives it.

        It is -1 where no level is bound.
        """
        return float("inf")


class DipoleBlock(FunctionBlock):
    """A dipole function, a.u."""
