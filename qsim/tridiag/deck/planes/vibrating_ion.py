"""``system: {type: vibrating_ion}``: a molecular ion of one electron that vibrates and dissociates on a line."""

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.units import Mass
from qsim.tridiag.deck.numbers import SIZE
from qsim.tridiag.deck.planes.base import PlaneSystem, Terms
from qsim.tridiag.deck.surfaces.base import SurfaceBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["VibratingIon"]


class VibratingIon(PlaneSystem):
    """Two nuclei of charge 1 at a distance R, and an electron at x from their centre of mass: no Born-Oppenheimer approximation.

    ``H = p_R^2 / 2 mu + p_x^2 / 2 mu_e + N(R) - sum_k 1 / sqrt((x - x_k)^2 + softening)`` with ``mu = M1 M2 / M``,
    ``mu_e = M / (M + 1)``, M = M1 + M2 and nuclei at ``x_1 = -M2 R / M`` and ``x_2 = M1 R / M``.
    """

    place = 3
    coordinates = ("R", "x")

    type: Literal["vibrating_ion"]
    masses: Annotated[list[Annotated[Mass, SIZE]], Field(min_length=2, max_length=2)] = Field(
        default=[1836.152673426, 1836.152673426], description="masses of the nuclei, electron masses"
    )
    softening: Annotated[float, SIZE] = Field(
        default=1.0, description="square of the softening length of the attraction, bohr^2"
    )
    nuclear: Annotated[str, ExpressionText("R")] = Field(
        default="1/R", description="repulsion of the nuclei, formula of R"
    )

    @property
    def whole(self) -> float:
        """Mass of both nuclei."""
        return self.masses[0] + self.masses[1]

    @property
    def weights(self) -> tuple[float, float]:
        """Reduced masses of R and x."""
        return self.masses[0] * self.masses[1] / self.whole, self.whole / (self.whole + 1.0)

    @property
    def nuclei(self) -> tuple[float, float]:
        """Places of the nuclei in units of R."""
        return -self.masses[1] / self.whole, self.masses[0] / self.whole

    @property
    def couplings(self) -> tuple[float, float]:
        """Factors of E(t): nuclei of different masses follow the field, too."""
        return (self.masses[1] - self.masses[0]) / self.whole, 1.0 + 1.0 / (self.whole + 1.0)

    @property
    def terms(self) -> Terms:
        """V(R, x)."""
        surface = IonSurface(
            nuclear=self.nuclear,
            softening=self.softening,
            shares=list(self.nuclei),
        )
        return Terms(surface=surface, keys=("", "", "", "nuclear"))


class IonSurface(SurfaceBlock):
    """The potential energy of both nuclei and the electron; nuclei at shares of R."""

    # no threshold at which one particle alone is free
    limit = math.inf

    nuclear: str
    softening: float
    shares: list[float]

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return V (n1, n2), hartree."""
        import numpy as np

        from qsim.core.physics.functions import formula

        out = np.array(formula(self.nuclear, "", R=x)[:, None] + 0.0 * y)
        for share in self.shares:
            out -= 1.0 / np.sqrt((y - share * x[:, None]) ** 2 + self.softening)
        return out

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return the slopes along R and x (n1, n2), hartree/bohr."""
        import numpy as np

        from qsim.core.physics.functions import formula_slope

        along = np.array(formula_slope(self.nuclear, "", "R", R=x)[:, None] + 0.0 * y)
        across = np.zeros((x.size, y.size))
        for share in self.shares:
            apart = y - share * x[:, None]
            pull = apart / (apart**2 + self.softening) ** 1.5
            across += pull
            along -= share * pull
        return along, across
