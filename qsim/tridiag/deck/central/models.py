"""Model potentials of rare gases, with one active electron."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.errors import InvalidInput
from qsim.tridiag.deck.central.base import CentralBlock
from qsim.tridiag.deck.numbers import SIGNED, SIZE, Points

__all__ = ["MullerArgon", "ScreenedAtom", "TongLinAtom"]

# a1 ... a6 of Tong and Lin, J. Phys. B 38, 2593 (2005), Table 1; Z_c = 1
TONG_LIN = {
    "He": (1.231, 0.662, -1.325, 1.236, -0.231, 0.480),
    "Ne": (8.069, 2.148, -3.570, 1.986, 0.931, 0.602),
    "Ar": (16.039, 2.007, -25.543, 4.525, 0.961, 0.443),
}
# xi and eta of the neutral atoms, Garvey, Jackman and Green, Phys. Rev. A 12, 1144 (1975)
GSZ = {2: (2.625, 1.770), 10: (1.792, 2.710), 18: (0.957, 3.5), 36: (1.351, 4.418), 54: (1.044, 5.101)}


class TongLinAtom(CentralBlock):
    """``V = -(Zc + a1 exp(-a2 r) + a3 r exp(-a4 r) + a5 exp(-a6 r)) / r``, J. Phys. B 38, 2593 (2005)."""

    place = 4

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
        # an exponent counts only where its factor is not zero
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
        # V = -g / r: dV/dr = (-g' - V) / r
        slope = a1 * a2 * np.exp(-a2 * r) - a3 * (1.0 - a4 * r) * np.exp(-a4 * r) + a5 * a6 * np.exp(-a6 * r)
        return np.asarray((slope - self.V(r)) / r)

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        a1, _, _, _, a5, _ = self.parameters
        # at r = 0 the exponentials are 1, and the term with r vanishes
        return self.Zc + a1 + a5

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return self.Zc


class ScreenedAtom(CentralBlock):
    """``V = -(Z - N + 1 + (N - 1) Omega) / r``, ``Omega = 1 / (1 + (eta / xi) (exp(xi r) - 1))``: Green, Sellin and Zachor."""

    place = 5

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
        # Omega in terms of exp(-xi r), which cannot overflow; 700 keeps the exponential above the smallest
        # number
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
        # the active electron sees the nucleus and the N - 1 others
        return self.Z - self.parameters[0] + 1.0


class MullerArgon(CentralBlock):
    """``V = -(1 + 5.4 exp(-r) + 11.6 exp(-3.682 r)) / r``: argon, Muller, Phys. Rev. A 60, 1341 (1999)."""

    place = 6

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
        # 1 + 5.4 + 11.6
        return 18.0
