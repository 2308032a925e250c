"""Central potentials of ``task: atom``: one electron in the field of a nucleus and of the other electrons.

Every block holds V(r), its slope, the charge of the nucleus (``-lim r V`` at r = 0, which the Numerov scheme needs) and the
charge that is seen from far away.  Atomic units.
"""

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import Block, DeckPath, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.units import Length
from qsim.core.errors import InvalidInput
from qsim.tridiag.deck.numbers import SIGNED, SIZE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Central", "CentralBlock", "HydrogenAtom"]

Points: TypeAlias = "NDArray[np.float64]"
Charge = Annotated[float, Field(gt=0.0, le=120.0)]

# a1 ... a6 of Tong and Lin, J. Phys. B 38, 2593 (2005), Table 1; Z_c = 1
TONG_LIN = {
    "He": (1.231, 0.662, -1.325, 1.236, -0.231, 0.480),
    "Ne": (8.069, 2.148, -3.570, 1.986, 0.931, 0.602),
    "Ar": (16.039, 2.007, -25.543, 4.525, 0.961, 0.443),
}
# xi and eta of the neutral atoms, Garvey, Jackman and Green, Phys. Rev. A 12, 1144 (1975)
GSZ = {2: (2.625, 1.770), 10: (1.792, 2.710), 18: (0.957, 3.5), 36: (1.351, 4.418), 54: (1.044, 5.101)}


class CentralBlock(Block):
    """A central potential.

    Attributes
    ----------
    measured : float or None
        Measured ionisation potential of the valence level, hartree, where the block knows it.
    """

    measured: ClassVar[float | None] = None

    @abstractmethod
    def V(self, r: Points) -> Points:
        """Return V, hartree, at the radii r (n,), bohr."""

    @abstractmethod
    def dV(self, r: Points) -> Points:
        """Return dV/dr, hartree/bohr, at the radii r (n,), bohr."""

    @property
    @abstractmethod
    def nucleus(self) -> float:
        """Charge at the nucleus, ``-lim r V``."""

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return 1.0


class HydrogenAtom(CentralBlock):
    """``V = -Z / r``: hydrogen and hydrogen-like ions."""

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
        return 0.0


class TongLinAtom(CentralBlock):
    """``V = -(Zc + a1 exp(-a2 r) + a3 r exp(-a4 r) + a5 exp(-a6 r)) / r``, J. Phys. B 38, 2593 (2005)."""

    type: Literal["tong_lin"]
    element: Literal["He", "Ne", "Ar"] | None = Field(
        default=None, description="atom whose parameters are known", json_schema_extra={"example": "He"}
    )
    a: Annotated[list[Annotated[float, SIGNED]], Field(min_length=6, max_length=6)] | None = Field(
        default=None, description="a1 to a6, instead of element"
    )
    Zc: Annotated[float, Field(ge=0.0, le=120.0)] = Field(
        default=1.0, description="charge that is seen from far away"
    )

    @property
    def parameters(self) -> tuple[float, ...]:
        """Parameters a1 to a6.

        Raises
        ------
        InvalidInput
            If neither or both of element and a are given, or if an exponent is not positive.
        """
        if (self.element is None) == (self.a is None):
            raise InvalidInput(
                "element", f"give either element ({', '.join(TONG_LIN)}) or a, a list of a1 to a6"
            )
        found = TONG_LIN[self.element] if self.element is not None else tuple(self.a or ())
        if any(found[k] * (found[k - 1] != 0.0) < 0.0 for k in (1, 3, 5)):
            raise InvalidInput(
                "a", f"a2, a4 and a6 must not be negative, found {found[1]:g}, {found[3]:g}, {found[5]:g}"
            )
        return found

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        a1, a2, a3, a4, a5, a6 = self.parameters
        return np.asarray(
            -(self.Zc + a1 * np.exp(-a2 * r) + a3 * r * np.exp(-a4 * r) + a5 * np.exp(-a6 * r)) / r
        )

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        import numpy as np

        a1, a2, a3, a4, a5, a6 = self.parameters
        slope = a1 * a2 * np.exp(-a2 * r) - a3 * (1.0 - a4 * r) * np.exp(-a4 * r) + a5 * a6 * np.exp(-a6 * r)
        return np.asarray((slope - self.V(r)) / r)

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        a1, _, _, _, a5, _ = self.parameters
        return self.Zc + a1 + a5

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return self.Zc


class ScreenedAtom(CentralBlock):
    """``V = -(Z - N + 1 + (N - 1) Omega) / r``, ``Omega = 1 / (1 + (eta / xi) (exp(xi r) - 1))``: Green, Sellin and Zachor."""

    type: Literal["gsz", "gjg"]
    Z: Annotated[float, Field(gt=0.0, le=120.0)] = Field(
        description="charge of the nucleus", json_schema_extra={"example": 18}
    )
    N: Annotated[float, Field(ge=1.0, le=120.0)] | None = Field(
        default=None, description="number of electrons; by default Z, a neutral atom"
    )
    xi: Annotated[float, SIZE] | None = Field(
        default=None, description="xi; known for neutral He, Ne, Ar, Kr, Xe"
    )
    eta: Annotated[float, SIZE] | None = Field(
        default=None, description="eta; known for neutral He, Ne, Ar, Kr, Xe"
    )

    @property
    def parameters(self) -> tuple[float, float, float]:
        """N, xi and eta.

        Raises
        ------
        InvalidInput
            If they are neither given nor known.
        """
        electrons = self.Z if self.N is None else self.N
        if self.xi is not None and self.eta is not None:
            return electrons, self.xi, self.eta
        if electrons != self.Z or self.Z not in GSZ:
            known = ", ".join(str(z) for z in GSZ)
            raise InvalidInput(
                "xi", f"xi and eta are known for the neutral atoms Z = {known}; give both for others"
            )
        xi, eta = GSZ[int(self.Z)]
        return electrons, xi if self.xi is None else self.xi, eta if self.eta is None else self.eta

    def _screening(self, r: Points) -> tuple[Points, Points]:
        """Return Omega and its derivative."""
        import numpy as np

        _, xi, eta = self.parameters
        e = np.exp(-np.minimum(xi * r, 700.0))
        below = e + eta / xi * (1.0 - e)
        return e / below, -eta * e / below**2

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        electrons, _, _ = self.parameters
        return -(self.Z - electrons + 1.0 + (electrons - 1.0) * self._screening(r)[0]) / r

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        electrons, _, _ = self.parameters
        return (-(electrons - 1.0) * self._screening(r)[1] - self.V(r)) / r

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        return self.Z

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return self.Z - self.parameters[0] + 1.0


class MullerArgon(CentralBlock):
    """``V = -(1 + 5.4 exp(-r) + 11.6 exp(-3.682 r)) / r``: argon, Muller, Phys. Rev. A 60, 1341 (1999)."""

    type: Literal["muller_ar"]

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(-(1.0 + 5.4 * np.exp(-r) + 11.6 * np.exp(-3.682 * r)) / r)

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        import numpy as np

        slope = 5.4 * np.exp(-r) + 11.6 * 3.682 * np.exp(-3.682 * r)
        return np.asarray((slope - self.V(r)) / r)

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        return 18.0


class SoftCoreAtom(CentralBlock):
    """``V = -Z / sqrt(r^2 + a^2)``: no nucleus, a Coulomb tail."""

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


class ExponentialTerm(Block):
    """``C r^N exp(-A r)``."""

    C: Annotated[float, SIGNED] = Field(description="factor, hartree / bohr^N")
    N: Annotated[int, Field(ge=-1, le=12)] = Field(description="power of r")
    A: Annotated[float, Field(gt=0.0, le=1e4)] = Field(description="decay, 1/bohr")


class SumOfExponentials(CentralBlock):
    """``V = -Z / r + sum C r^N exp(-A r)``: local pseudo-potentials of valence electrons, the same for all l."""

    type: Literal["sum_exp"]
    Z: Charge = Field(default=1.0, description="charge that is seen from far away")
    terms: Annotated[list[ExponentialTerm], Field(min_length=1, max_length=100)] = Field(
        description="what is added to -Z/r",
        json_schema_extra={"example": [{"C": -2.0, "N": -1, "A": 2.0}, {"C": 3.0, "N": 0, "A": 1.5}]},
    )

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(
            -self.Z / r + sum(one.C * r ** float(one.N) * np.exp(-one.A * r) for one in self.terms)
        )

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        import numpy as np

        slopes = (one.C * r ** float(one.N) * np.exp(-one.A * r) * (one.N / r - one.A) for one in self.terms)
        return np.asarray(self.Z / r**2 + sum(slopes))

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        return self.Z - sum(one.C for one in self.terms if one.N == -1)

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return self.Z


class FormulaAtom(CentralBlock):
    """A formula of r in atomic units."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("r")] = Field(
        description="formula of r", json_schema_extra={"example": "-(1 + exp(-2*r))/r"}
    )
    Z: Annotated[float, Field(ge=0.0, le=120.0)] | None = Field(
        default=None, description="charge of the nucleus, -lim r V; by default found from the formula"
    )

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        from qsim.core.physics.functions import formula

        return formula(self.value, "value", r=r)

    def dV(self, r: Points) -> Points:
        """Return the exact derivative of the formula (n,), hartree/bohr."""
        from qsim.core.physics.functions import formula_slope

        return formula_slope(self.value, "value", "r", r=r)

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus.

        Raises
        ------
        InvalidInput
            If ``-r V`` has no limit at the nucleus, or another one than Z.
        """
        import numpy as np

        near = np.array([1e-6, 2e-6, 1e-5])
        values = -near * self.V(near)
        limit = float(2.0 * values[0] - values[1])
        if abs(float(values[2]) - limit) > 1e-3 * (1.0 + abs(limit)):
            raise InvalidInput(
                "value",
                f"-r V is {values[0]:.6g} at r = 1e-6 and {values[2]:.6g} at 1e-5 bohr: no charge at r = 0",
            )
        if limit < -1e-9:
            raise InvalidInput("value", f"-r V tends to {limit:.6g} at the nucleus; it must not be negative")
        if self.Z is not None and abs(self.Z - limit) > 1e-6 * (1.0 + limit):
            raise InvalidInput(
                "Z", f"the formula tends to -{limit:.8g}/r at the nucleus, not to -{self.Z:g}/r"
            )
        return max(limit, 0.0)

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        import numpy as np

        return float(-1e4 * self.V(np.array([1e4]))[0])


class TableAtom(CentralBlock):
    """Two columns, r and V in atomic units; r V is interpolated by a cubic spline and goes on as ``-Zc / r`` outside."""

    type: Literal["table"]
    file: DeckPath = Field(description="CSV or white-space file, relative to the deck")

    def _curve(self) -> tuple[Points, object]:
        """Return the radii and the spline of ``r V``.

        Raises
        ------
        InvalidInput
            If the table does not begin near the nucleus, or does not end in a Coulomb tail.
        """
        from qsim.core.deck.columns import by_first_column, read_columns, smooth_curve

        table = by_first_column(self.file, read_columns(self.file, 2, "r, V", distinct="r"), "r")
        r, product = table[:, 0], table[:, 0] * table[:, 1]
        if r[0] < 0.0 or r.size < 8:
            raise InvalidInput(
                "file", f"expected at least 8 radii from 0 on, found {r.size} from {r[0]:g} bohr"
            )
        if r[0] > 0.01:
            raise InvalidInput(
                "file", f"the table begins at r = {r[0]:g} bohr; V is needed from 0.01 bohr on"
            )
        if abs(product[-1] - product[-2]) > 1e-3 * (1.0 + abs(product[-1])):
            raise InvalidInput(
                "file",
                f"no Coulomb tail: r V is {product[-2]:.6g} and {product[-1]:.6g} at the last two radii",
            )
        return r, smooth_curve(self.file, r, product)

    def _product(self, r: Points, derivative: int) -> Points:
        import numpy as np

        radii, curve = self._curve()
        inside = np.clip(r, radii[0], radii[-1])
        values = np.asarray(curve(inside, derivative))  # type: ignore[operator]
        return np.where((r < radii[0]) | (r > radii[-1]), 0.0, values) if derivative else values

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        return self._product(r, 0) / r

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        return (self._product(r, 1) - self.V(r)) / r

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        import numpy as np

        radii, curve = self._curve()
        return max(-float(np.asarray(curve(min(float(radii[0]), 0.0)))), 0.0)  # type: ignore[operator]

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        import numpy as np

        return -float(self._product(np.array([math.inf]), 0)[0])


Central = Annotated[
    HydrogenAtom
    | YukawaAtom
    | SoftCoreAtom
    | TongLinAtom
    | ScreenedAtom
    | MullerArgon
    | SumOfExponentials
    | FormulaAtom
    | TableAtom,
    Field(discriminator="type"),
    short_form,
]
