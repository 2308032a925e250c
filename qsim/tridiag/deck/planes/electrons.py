"""``system: {type: electrons}``: two electrons on a line."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.tridiag.deck.electron import Grid
from qsim.tridiag.deck.planes.base import PlaneSystem, Terms
from qsim.tridiag.deck.potentials import Potential
from qsim.tridiag.deck.potentials.cores import SoftCore

__all__ = ["Electrons"]

EXCHANGE = {"even": 1, "singlet": 1, "odd": -1, "triplet": -1, "none": 0}


class Electrons(PlaneSystem):
    """Two electrons on a line: ``V(x) + V(y) + W(x - y)``."""

    place = 1
    pair = True

    type: Literal["electrons"]
    potential: Potential = Field(
        description="potential energy of either electron, as of task: propagate",
        json_schema_extra={"example": {"type": "softcore", "Z": 2.0, "a2": 1.0}},
    )
    repulsion: Literal["none"] | Potential = Field(
        default=SoftCore(type="softcore", Z=-1.0, a2=1.0),
        description="potential energy as a function of their distance x - y; none: independent electrons",
        validate_default=True,
        json_schema_extra={"example": {"type": "softcore", "Z": -1.0, "a2": 1.0}},
    )
    exchange: Literal["even", "odd", "singlet", "triplet", "none"] = Field(
        default="even",
        description="even or singlet: psi(x, y) = psi(y, x); odd or triplet: the other sign; none: electrons that can be told "
        "apart",
    )

    @property
    def symmetry(self) -> int:
        """1 for even, -1 for odd, 0 for none."""
        return EXCHANGE[self.exchange]

    @property
    def terms(self) -> Terms:
        """The same potential of both, and their repulsion."""
        return Terms(
            self.potential, self.potential, None if isinstance(self.repulsion, str) else self.repulsion
        )

    def check(self, key: str, grids: tuple[Grid, Grid]) -> Iterator[Finding]:
        """Yield what treats the two electrons differently."""
        x, y = grids
        # the repulsion is a function of x - y: one table of both axes
        if abs(x.dx - y.dx) > 1e-9 * x.dx and self.repulsion != "none":
            yield Finding("grid.y", f"x and y need one spacing, found {x.dx:.6g} and {y.dx:.6g} bohr")
        if self.symmetry and (x.xmin, x.xmax, x.points, x.stencil) != (y.xmin, y.xmax, y.points, y.stencil):
            yield Finding(
                "grid.y",
                f"exchange: {self.exchange} needs x and y alike; leave y out, or set exchange: none",
            )
