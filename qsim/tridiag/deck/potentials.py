"""Potentials V of the tridiag deck: each block holds its equation, its slope and its limit far away.

Atomic units; the electron has mass 1.  Slopes, which the dipole acceleration needs, are analytic: formulas are differentiated
exactly, tables by their spline.  Only the sharp square well has no slope: there it is the difference quotient of the grid,
which is what the lattice feels.  Values may be infinite or not a number where a formula is;
:func:`qsim.tridiag.tdse.potentials.evaluate` refuses them with their place.
"""

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import AliasChoices, Field

from qsim.core.deck.blocks import Block, DeckPath, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.units import Energy, Frequency, InverseLength, Length
from qsim.tridiag.deck.laser import NOT_NEGATIVE, SIGNED, SIZE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.interpolate import CubicSpline

__all__ = ["Potential", "PotentialBlock", "SoftCore", "SquareWell"]

Points: TypeAlias = "NDArray[np.float64]"


class PotentialBlock(Block):
    """A potential energy as a function of one coordinate.

    Attributes
    ----------
    limit : float or None
        V far away, hartree: the energy above which the electron is free.  Infinite for a potential that confines it; None where
        nothing is known beyond the grid.
    in_parts : bool
        Whether the points of a large grid are worth evaluating part by part: not where that is no work, makes parts of its
        own, or reads a file that has to cover all of them.
    """

    limit: ClassVar[float | None] = 0.0
    in_parts: ClassVar[bool] = True

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


class SoftCore(PotentialBlock):
    """``V = -Z / sqrt((x - x0)^2 + a2)``; with Z = 1 and a2 = 2 the ground state lies at -0.5 hartree."""

    type: Literal["softcore"]
    Z: Annotated[float, SIGNED] = Field(default=1.0, description="charge; negative repels")
    a2: Annotated[float, SIZE] = Field(default=2.0, description="square of the softening length, bohr^2")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="position of the charge")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        y = x - self.x0
        return -self.Z / np.sqrt(y * y + self.a2)

    def dV(self, x: Points) -> Points:
        """Return ``Z y / (y^2 + a2)^(3/2)`` (n,), hartree/bohr, with ``y = x - x0``."""
        y = x - self.x0
        return self.Z * y / (y * y + self.a2) ** 1.5


class Morse(PotentialBlock):
    """``V = D (exp(-beta (x - r0)) - 1)^2 - D``."""

    type: Literal["morse"]
    D: Annotated[Energy, SIZE] = Field(description="well depth", json_schema_extra={"example": 0.1994})
    beta: Annotated[InverseLength, SIZE] = Field(
        validation_alias=AliasChoices("beta", "a"),
        description="range parameter (also: a)",
        json_schema_extra={"example": 1.189},
    )
    r0: Annotated[Length, SIGNED] = Field(
        default=0.0,
        validation_alias=AliasChoices("r0", "x0"),
        description="equilibrium distance (also: x0)",
    )

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(self.D * np.expm1(-self.beta * (x - self.r0)) ** 2 - self.D)

    def dV(self, x: Points) -> Points:
        """Return ``2 D beta e (1 - e)`` (n,), hartree/bohr, with ``e = exp(-beta (x - r0))``."""
        import numpy as np

        e = np.exp(-self.beta * (x - self.r0))
        return np.asarray(2.0 * self.D * self.beta * e * (1.0 - e))


class Harmonic(PotentialBlock):
    """``V = omega^2 (x - x0)^2 / 2``."""

    limit = math.inf

    type: Literal["harmonic"]
    omega: Annotated[Frequency, SIZE] = Field(
        description="angular frequency", json_schema_extra={"example": 0.1}
    )
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="minimum")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        y = x - self.x0
        return 0.5 * self.omega**2 * y * y

    def dV(self, x: Points) -> Points:
        """Return ``omega^2 (x - x0)`` (n,), hartree/bohr."""
        return self.omega**2 * (x - self.x0)


class SquareWell(PotentialBlock):
    """``V = -depth`` on an interval, 0 outside; with ``edge`` the walls are error functions of that width."""

    type: Literal["square_well"]
    depth: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("depth", "V0"),
        description="depth (also: V0); negative makes a barrier",
        json_schema_extra={"example": 0.5},
    )
    width: Annotated[Length, SIZE] = Field(description="full width", json_schema_extra={"example": 2.0})
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")
    edge: Annotated[Length, NOT_NEGATIVE] = Field(
        default=0.0,
        description="smoothing length of the walls; 0: sharp, and a grid point on a wall feels half the depth",
    )

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree: ``-depth/2 (erf((y + width/2)/edge) - erf((y - width/2)/edge))`` with ``y = |x - x0|``."""
        import numpy as np

        y, half = np.abs(x - self.x0), 0.5 * self.width
        if self.edge == 0.0:
            inside = np.where(y < half, 1.0, 0.0)
            # The half value on the wall keeps the area right, hence the error of a grid that meets the wall of second order.
            inside[np.abs(y - half) <= 1e-9 * (1.0 + half + abs(self.x0))] = 0.5
            return np.asarray(-self.depth * inside)
        from scipy.special import erf

        return np.asarray(-0.5 * self.depth * (erf((y + half) / self.edge) - erf((y - half) / self.edge)))

    def dV(self, x: Points) -> Points:
        """Return dV/dx (n,), hartree/bohr; of a sharp well, the difference quotient of the grid."""
        import numpy as np

        if self.edge == 0.0:
            return np.asarray(np.gradient(self.V(x), x))
        y, half = x - self.x0, 0.5 * self.width
        left, right = np.exp(-(((y + half) / self.edge) ** 2)), np.exp(-(((y - half) / self.edge) ** 2))
        return np.asarray(-self.depth / (math.sqrt(math.pi) * self.edge) * (left - right))


class GaussianWell(PotentialBlock):
    """``V = -depth exp(-(x - x0)^2 / (2 width^2))``."""

    type: Literal["gaussian_well"]
    depth: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("depth", "V0"),
        description="depth (also: V0); negative makes a barrier",
        json_schema_extra={"example": 0.5},
    )
    width: Annotated[Length, SIZE] = Field(
        description="standard deviation", json_schema_extra={"example": 1.0}
    )
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(-self.depth * np.exp(-0.5 * ((x - self.x0) / self.width) ** 2))

    def dV(self, x: Points) -> Points:
        """Return ``-V(x) (x - x0) / width^2`` (n,), hartree/bohr."""
        import numpy as np

        y = x - self.x0
        return np.asarray(self.depth * y / self.width**2 * np.exp(-0.5 * (y / self.width) ** 2))


class PoschlTeller(PotentialBlock):
    """``V = -depth / cosh((x - x0) / a)^2``, with ``depth = n (n + 1) / (2 a^2)`` without reflection."""

    type: Literal["poschl_teller"]
    depth: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("depth", "V0"),
        description="depth (also: V0)",
        json_schema_extra={"example": 1.0},
    )
    a: Annotated[Length, SIZE] = Field(default=1.0, description="range")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        return -self.depth * _sech((x - self.x0) / self.a) ** 2

    def dV(self, x: Points) -> Points:
        """Return ``-2 V(x) tanh((x - x0) / a) / a`` (n,), hartree/bohr."""
        return _sech2_slope(-self.depth, self.a, x - self.x0)


class Eckart(PotentialBlock):
    """``V = V0 / cosh((x - x0) / a)^2``, the barrier with a known transmission."""

    type: Literal["eckart"]
    V0: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("V0", "height"),
        description="height (also: height)",
        json_schema_extra={"example": 0.8},
    )
    a: Annotated[Length, SIZE] = Field(default=1.0, description="range")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        return self.V0 * _sech((x - self.x0) / self.a) ** 2

    def dV(self, x: Points) -> Points:
        """Return ``-2 V(x) tanh((x - x0) / a) / a`` (n,), hartree/bohr."""
        return _sech2_slope(self.V0, self.a, x - self.x0)


class DoubleWell(PotentialBlock):
    """``V = lambda ((x - x0)^2 - a^2)^2``, minima at ``x0 +- a``."""

    limit = math.inf

    type: Literal["double_well"]
    lambda_: Annotated[float, SIZE] = Field(
        alias="lambda", description="strength, hartree/bohr^4", json_schema_extra={"example": 0.02}
    )
    a: Annotated[Length, SIZE] = Field(
        description="distance of the minima from the centre", json_schema_extra={"example": 3.0}
    )
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        y = x - self.x0
        return self.lambda_ * (y * y - self.a**2) ** 2

    def dV(self, x: Points) -> Points:
        """Return ``4 lambda y (y^2 - a^2)`` (n,), hartree/bohr, with ``y = x - x0``."""
        y = x - self.x0
        return 4.0 * self.lambda_ * y * (y * y - self.a**2)


class Yukawa(PotentialBlock):
    """``V = -Z exp(-r / range) / r`` with ``r = sqrt((x - x0)^2 + a2)``: a soft core of short range."""

    type: Literal["yukawa"]
    Z: Annotated[float, SIGNED] = Field(default=1.0, description="charge; negative repels")
    range: Annotated[Length, SIZE] = Field(description="screening length", json_schema_extra={"example": 5.0})
    a2: Annotated[float, SIZE] = Field(default=2.0, description="square of the softening length, bohr^2")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="position of the charge")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        y = x - self.x0
        r = np.sqrt(y * y + self.a2)
        return np.asarray(-self.Z * np.exp(-r / self.range) / r)

    def dV(self, x: Points) -> Points:
        """Return ``-V y/r (1/r + 1/range)`` (n,), hartree/bohr, with ``y = x - x0``."""
        import numpy as np

        y = x - self.x0
        r = np.sqrt(y * y + self.a2)
        return np.asarray(self.Z * np.exp(-r / self.range) * y / (r * r) * (1.0 / r + 1.0 / self.range))


class Polynomial(PotentialBlock):
    """``sum_n c_n x^n``."""

    limit = math.inf

    type: Literal["polynomial"]
    coefficients: Annotated[list[float], Field(min_length=1)] = Field(
        description="ascending powers of x, atomic units"
    )

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(np.polynomial.polynomial.polyval(x, np.asarray(self.coefficients, float)))

    def dV(self, x: Points) -> Points:
        """Return ``sum_n n c_n x^(n-1)`` (n,), hartree/bohr."""
        import numpy as np

        rising = np.polynomial.polynomial.polyder(np.asarray(self.coefficients, float))
        return np.asarray(np.polynomial.polynomial.polyval(x, rising), dtype=float)


class PotentialTable(PotentialBlock):
    """Two columns, x and V in atomic units, interpolated by a cubic spline."""

    limit = None
    in_parts = False

    type: Literal["table"]
    file: DeckPath = Field(description="CSV or white-space file, relative to the deck")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(self._curve(x)(x))

    def dV(self, x: Points) -> Points:
        """Return the derivative of the spline (n,), hartree/bohr."""
        import numpy as np

        return np.asarray(self._curve(x).derivative()(x))

    def _curve(self, x: Points) -> "CubicSpline":
        """Return the spline; it must cover the points x."""
        from qsim.core.physics.functions import spline

        return spline(self.file, "x", x)


class PotentialFormula(PotentialBlock):
    """A formula of x in atomic units."""

    limit = None
    in_parts = False

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("x")] = Field(description="formula of x")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        from qsim.core.physics.functions import formula, in_chunks

        return in_chunks(lambda part: formula(self.value, "value", x=part), x)

    def dV(self, x: Points) -> Points:
        """Return the exact derivative of the formula (n,), hartree/bohr."""
        from qsim.core.physics.functions import formula_slope, in_chunks

        return in_chunks(lambda part: formula_slope(self.value, "value", "x", x=part), x)


class FreeParticle(PotentialBlock):
    """No potential."""

    in_parts = False

    type: Literal["none", "free"]

    def V(self, x: Points) -> Points:
        """Return zeros (n,)."""
        import numpy as np

        return np.zeros(x.shape)

    def dV(self, x: Points) -> Points:
        """Return zeros (n,)."""
        import numpy as np

        return np.zeros(x.shape)


def _sech(y: Points) -> Points:
    """Return 1/cosh without overflow far away."""
    import numpy as np

    e = np.exp(-np.abs(y))
    return np.asarray(2.0 * e / (1.0 + e * e))


def _sech2_slope(height: float, a: float, y: Points) -> Points:
    """Return the derivative of ``height / cosh(y / a)^2``."""
    import numpy as np

    return np.asarray(-2.0 * height / a * _sech(y / a) ** 2 * np.tanh(y / a))


Potential = Annotated[
    SoftCore
    | Morse
    | Harmonic
    | SquareWell
    | GaussianWell
    | PoschlTeller
    | Eckart
    | DoubleWell
    | Yukawa
    | Polynomial
    | PotentialTable
    | PotentialFormula
    | FreeParticle,
    Field(discriminator="type"),
    short_form,
]
