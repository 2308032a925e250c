"""The base of systems of two coordinates: what a run must know of one."""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from qsim.core.deck.blocks import Block, Finding
from qsim.tridiag.deck.electron import Grid
from qsim.tridiag.deck.potentials.base import PotentialBlock
from qsim.tridiag.deck.surfaces.base import SurfaceBlock

__all__ = ["PlaneSystem", "Terms"]


class Terms(NamedTuple):
    """The potential energy ``first(x) + second(y) + between(x - y) + surface(x, y)``; terms that are not there are None.

    The names in `keys` are the keys of the system's block that hold them.
    """

    first: PotentialBlock | None = None
    second: PotentialBlock | None = None
    between: PotentialBlock | None = None
    surface: SurfaceBlock | None = None
    keys: tuple[str, str, str, str] = ("potential", "potential", "repulsion", "potential")


class PlaneSystem(Block):
    """What two coordinates are.

    Attributes
    ----------
    place : int
        Position in lists of the documentation.
    coordinates : (str, str)
        Names of both in the deck's `grid`.
    planar : bool
        Whether they are x and y of one plane, in which a field may have any direction.
    pair : bool
        Whether they are two particles, of which one or both may be freed.
    charged : bool
        Whether a laser acts on them.
    radial : bool
        Whether the first one is a distance from an axis.
    """

    place: ClassVar[int] = 100
    coordinates: ClassVar[tuple[str, str]] = ("x", "y")
    planar: ClassVar[bool] = False
    pair: ClassVar[bool] = False
    charged: ClassVar[bool] = True
    radial: ClassVar[bool] = False

    @property
    def symmetry(self) -> int:
        """1 for even, -1 for odd under exchange, 0 for none."""
        return 0

    @property
    def weights(self) -> tuple[float, float]:
        """Masses of both coordinates, electron masses."""
        return 1.0, 1.0

    @property
    def couplings(self) -> tuple[float, float]:
        """Factors of E(t) times either coordinate in the energy: 1 for an electron."""
        return 1.0, 1.0

    @property
    def nonlinearity(self) -> float:
        """Factor g of ``|psi|^2`` in the potential, hartree bohr^2."""
        return 0.0

    @property
    def turning(self) -> tuple[float, float]:
        """Factors a, b of ``(p_x + a y)^2`` and ``(p_y - b x)^2`` in the kinetic energies: a magnetic field, rotation."""
        return 0.0, 0.0

    @property
    def centrifugal(self) -> tuple[float, float]:
        """Factors of ``-x^2 / 2`` and ``-y^2 / 2`` in the potential energy, hartree/bohr^2."""
        return 0.0, 0.0

    @property
    def nuclei(self) -> tuple[float, float] | None:
        """Places of two nuclei along the second coordinate, in units of the first one, their distance."""
        return None

    @property
    def terms(self) -> Terms:
        """Terms of the potential energy."""
        raise NotImplementedError

    def sharp(self, spacing: float) -> bool:
        """Return True if the potential is so sharp that errors fall slower than with the square of the spacing."""
        return False

    def check(self, key: str, grids: tuple[Grid, Grid]) -> Iterator[Finding]:
        """Yield what contradicts itself or the grid."""
        yield from ()
