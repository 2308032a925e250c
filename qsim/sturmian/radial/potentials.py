r"""One-body potentials V(r) of the system, and generating potentials v(r) of the Sturmian basis.

V is the potential energy of one electron, hartree; v > 0 is the strength that a Sturmian function's eigenvalue multiplies (see
:mod:`qsim.sturmian.radial.sturmians`), and has no unit of its own.  Both are continued to complex radii where they are
given by a formula of their own; tables and formulas of the deck are not, and have to have reached ``-charge / r`` before a
contour begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.expression import Expression
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.physics.curves import table_curve
from qsim.core.physics.functions import chosen
from qsim.sturmian.radial.grid import RadialGrid
from qsim.sturmian.radial.inputs import read_radial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.physics.curves import Curve

# Bohr: where a formula is taken to have reached its limit.
FAR = 1e4
# Relative deviation from -charge/r that counts as having reached it.
SETTLED = 1e-6
# What the rows of a table may leave open of r V, of the charge.
NEGLIGIBLE = 1e-9
# Of the change to the other curve that the rows of a table allow: the truth may be further.
DOUBT = 2.0
# Radii at which a potential is looked at.
SCANNED = 4000
KEY = "system.potential"


class OneBody:
    """Potential energy of one electron in the field of the nucleus or core.

    Parameters
    ----------
    block
        A potential of :mod:`qsim.sturmian.deck.blocks`; None for the bare nucleus.
    Z : float
        Charge of the nucleus.
    key : str
        Where the block stands in the deck.
    doubt : float
        Share of the way from the curve of a table to the other one that its rows allow.

    Attributes
    ----------
    charge : float
        ``V -> -charge / r`` far outside.
    coulombic : bool
        Whether V really goes to zero like that; if not, as for a formula that confines, the charge is 0.

    Raises
    ------
    InvalidInput
        If the formula is not finite far outside.
    FileError
        If a table cannot be read.
    """

    def __init__(self, block: Any, Z: float, key: str = KEY, doubt: float = 0.0) -> None:
        self.block, self.Z, self.key, self.doubt = block, float(Z), key, doubt
        self.type: str = "coulomb" if block is None else block.type
        self.charge, self.coulombic = self.Z, True
        self.curve: Curve | None = None
        if self.type == "table":
            table = read_radial(block)
            # table_curve refuses what is too large
            with np.errstate(over="ignore"):
                rv = table[:, 0] * table[:, 1]
            # r V is smooth where V has the pole of the nucleus.
            self.curve = table_curve(block.file, table[:, 0], rv, block.interpolation)
            # A table is continued by -charge/r from its last row.
            self.charge = -float(rv[-1])
        elif self.type == "expression":
            self.charge, self.coulombic = self._formula_charge()
        given = getattr(block, "charge", None)
        if isinstance(given, int | float):
            self.charge, self.coulombic = float(given), True

    @property
    def breaks(self) -> tuple[float, ...]:
        """Radii where V is known not to be smooth: the ends of a table, bohr."""
        return () if self.curve is None else (float(self.curve.at.x[0]), float(self.curve.at.x[-1]))

    def __call__(self, r: NDArray[Any]) -> NDArray[Any]:
        """Return V at some radii.

        Parameters
        ----------
        r : (n,) float64 or complex128
            Radii, bohr, not zero.

        Returns
        -------
        (n,) float64, or complex128 for complex radii
            Hartree.

        Raises
        ------
        InvalidInput
            If the formula is not finite somewhere, or not settled where a contour leaves the real axis.
        """
        r = np.asarray(r)
        if self.type == "coulomb":
            return -self.Z / r
        # On the contour only the Coulomb tail has an analytic continuation: everything else
        # must have ended before.
        real = np.ones(r.shape, bool) if not np.iscomplexobj(r) else r.imag == 0.0
        V = np.empty(r.shape, r.dtype if np.iscomplexobj(r) else float)
        V[real] = self._on_axis(r[real].real)
        if not real.all():
            self._require_settled(float(r[real].real.max()) if real.any() else float(r.real.min()))
            V[~real] = -self.charge / r[~real]
        return V

    def _on_axis(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.curve is None:
            return self._formula(r)
        spline = chosen(self.block, self.curve)
        if self.doubt:
            other = self.curve.other
            spline = type(other)(spline.c + self.doubt * (other.c - spline.c), spline.x)
        first, last = float(spline.x[0]), float(spline.x[-1])
        # Inside of the first row V goes on as -a/r + b, outside of the last one as -charge/r.
        inner = np.where(r < first, first, np.minimum(r, last))
        rV = np.asarray(spline(inner), float)
        slope = float(spline(first, 1))
        rV = np.where(r < first, rV + slope * (r - first), rV)
        rV = np.where(r > last, -self.charge, rV)
        return rV / r

    def unsure(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return by how much V may be wrong at some radii, as its rows allow other curves; zeros without a table."""
        if self.curve is None:
            return np.zeros(r.shape)
        x = self.curve.at.x
        inside = (r >= x[0]) & (r <= x[-1])
        apart = self.curve.other(r[inside]) - self.curve.at(r[inside])
        out = np.zeros(r.shape)
        out[inside] = np.abs(apart) / r[inside]
        return out

    def left_open(self) -> bool:
        """Tell whether the rows of a table leave something open that counts."""
        if self.curve is None:
            return False
        r = 0.5 * (self.curve.at.x[1:] + self.curve.at.x[:-1])
        return bool((self.unsure(r) * r).max() > NEGLIGIBLE * max(1.0, abs(self.charge)))

    def doubted(self) -> OneBody:
        """Return what tells the error of a table: the potential itself where its rows leave nothing open."""
        return OneBody(self.block, self.Z, self.key, DOUBT) if self.left_open() else self

    def _formula(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        try:
            return Expression(self.block.value, ("r", "Z"))(r=r, Z=self.Z)
        except NumericsError as error:
            raise InvalidInput(f"{self.key}.value", str(error)) from error

    def _formula_charge(self) -> tuple[float, bool]:
        # -r V at two distances: equal for a Coulomb tail, zero for a short range, different for
        # anything that confines.
        far = np.array([FAR, 10.0 * FAR])
        strength = -far * self._formula(far)
        if abs(strength[1] - strength[0]) > SETTLED * max(1.0, abs(strength[0])):
            return 0.0, False
        # An exact number where the formula has one: -r V at 1e4 bohr is rounded by 1e-16 of it.
        return float(np.round(strength[1], 10)), True

    def settled_from(self) -> float:
        """Return the radius, bohr, from which ``-charge / r`` is what V is, so that a complex contour may begin there.

        Raises
        ------
        InvalidInput
            If V does not become that anywhere.
        """
        if self.type == "coulomb":
            return 0.0
        r = np.geomspace(1e-3, FAR, SCANNED)
        if not self.coulombic or self._unsettled(r[-1:]).any():
            text = "a complex contour needs a potential that goes like -charge/r beyond R; give its charge"
            raise InvalidInput(self.key, text)
        away = np.flatnonzero(self._unsettled(r))
        return float(r[away[-1] + 1]) if away.size else 0.0

    def _unsettled(self, r: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell at which radii, bohr, V is not yet ``-charge / r``."""
        return np.asarray(
            np.abs(self._on_axis(r) * r + self.charge) > SETTLED * max(1.0, abs(self.charge)), bool
        )

    def _require_settled(self, r: float) -> None:
        need = self.settled_from()
        if r < need and self._unsettled(np.array([r]))[0]:
            text = f"a complex contour begins at {r:g} bohr, where V is not yet -{self.charge:.8g}/r"
            raise InvalidInput(
                self.key, f"{text} within {SETTLED:g}; it is from {need:.4g} bohr on: give a larger R"
            )


def generating(
    block: Any, where: RadialGrid | NDArray[Any], *, alpha: float | None = None, r0: float | None = None
) -> NDArray[Any]:
    """Return the generating potential at some radii.

    Parameters
    ----------
    block
        A generating potential of :mod:`qsim.sturmian.deck.blocks`.
    where : RadialGrid or (n,) float64 or complex128
        A grid, or radii in bohr.  On a grid, the step of a sharp well is distributed over both sides of its node, so that it
        costs no accuracy if an element ends there.
    alpha, r0 : float, optional
        What stands for ``auto`` in the block.

    Returns
    -------
    (n,) float64, or complex128 for complex radii
        Real and not negative on the real axis.

    Raises
    ------
    InvalidInput
        If a table is negative, or needed off the real axis.
    FileError
        If a table cannot be read.
    """
    r = where.r if isinstance(where, RadialGrid) else np.asarray(where)
    kind = block.type
    if kind == "coulomb":
        return 1.0 / r
    if kind == "square_well":
        return _square_well(where, r, _number(block.r0, r0, "r0"), float(block.tail))
    if kind == "table":
        return _generating_table(block, r)
    rate = _number(block.alpha, alpha, "alpha")
    # Far outside the exponential may underflow to zero, which the inverse form of the Sturmian
    # equation allows.
    with np.errstate(under="ignore"):
        decay = np.exp(-rate * r)
        if kind == "yukawa":
            return decay / r
        if kind == "hulthen":
            return decay / -np.expm1(-rate * r)
    assert kind in ("exponential", "exp"), kind
    return decay


def breaks(block: Any, *, r0: float | None = None) -> tuple[float, ...]:
    """Return the radii where elements have to end for a generating potential: the edge of a square well."""
    if block is None or block.type != "square_well":
        return ()
    return (_number(block.r0, r0, "r0"),)


def _number(given: Any, resolved: float | None, name: str) -> float:
    if isinstance(given, str):
        if resolved is None:
            raise ValueError(f"{name} is 'auto', but no value was given for it")
        return float(resolved)
    return float(given)


def _square_well(where: RadialGrid | NDArray[Any], r: NDArray[Any], r0: float, tail: float) -> NDArray[Any]:
    # The edge itself counts as inside, up to rounding of a bound.
    inside = r.real <= r0 * (1.0 + 1e-12)
    v: NDArray[Any] = np.ones(r.shape, r.dtype if np.iscomplexobj(r) else float)
    if tail > 0.0:
        with np.errstate(under="ignore"):
            v[~inside] = np.exp(-(r[~inside] - r0) / tail)
        return v
    v[~inside] = 0.0
    # A sharp edge on a node: the node's weight belongs to two elements, and v is 1 in the lower
    # one only.
    share = where.share_below(r0) if isinstance(where, RadialGrid) else None
    if share is not None:
        node, below = share
        v[node] = below if np.iscomplexobj(v) else below.real
    return v


def _generating_table(block: Any, r: NDArray[Any]) -> NDArray[Any]:
    """Return a tabulated generating potential at some radii, (n,): a curve of r v, zero beyond the last row.

    Raises
    ------
    InvalidInput
        If a value is negative, or the table reaches into a complex contour.
    """
    key = "basis.generating.file"
    table = read_radial(block)
    if np.any(table[:, 1] < 0.0):
        place = table[table[:, 1] < 0.0][0, 0]
        raise InvalidInput(
            key, f"the generating potential is negative at r = {place:g} bohr; v has to be positive"
        )
    last = float(table[-1, 0])
    real = np.ones(r.shape, bool) if not np.iscomplexobj(r) else r.imag == 0.0
    if not real.all() and r.real[~real].min() < last:
        raise InvalidInput(
            key, f"the table reaches to {last:g} bohr, into the complex contour; end it at R or before"
        )
    # table_curve refuses what is too large
    with np.errstate(over="ignore"):
        found = table_curve(block.file, table[:, 0], table[:, 0] * table[:, 1], block.interpolation)
    curve = chosen(block, found)
    v = np.zeros(r.shape, r.dtype if np.iscomplexobj(r) else float)
    within = real & (r.real <= last)
    x = r.real[within]
    first = float(table[0, 0])
    # Inside of the first row r v is constant: v goes on as 1/r.
    rv = np.where(x < first, table[0, 0] * table[0, 1], curve(np.maximum(x, first)))
    # a cubic may dip below a small positive tail
    v[within] = np.maximum(rv / x, 0.0)
    return v
