"""Potentials V(x) of the deck and their slopes dV/dx, which the dipole acceleration needs.

Slopes are analytic; formulas are differentiated exactly, tables by their spline.  Only the sharp square well has no slope:
there it is the difference quotient of the grid, which is what the lattice feels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.tridiag.tdse.inputs import formula, formula_slope, in_chunks, spline

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_VALUE = 1e10  # hartree: its rounding error, 1e-6, is as large as what is looked for
CONFINING = ("harmonic", "double_well", "polynomial")
VANISHING = (
    "softcore",
    "morse",
    "square_well",
    "gaussian_well",
    "poschl_teller",
    "eckart",
    "yukawa",
    "none",
    "free",
)


def evaluate(
    block: Any, x: NDArray[np.float64], mass: float = 1.0, key: str = "potential"
) -> NDArray[np.float64]:
    """Return V on the grid, (n,) float64, hartree.

    Parameters
    ----------
    block
        A member of `qsim.tridiag.deck.electron.Potential`.
    x : (n,) float64
        Grid points, bohr.
    mass : float
        Mass, of the harmonic potential only.
    key : str
        Where the block stands in the deck.

    Raises
    ------
    InvalidInput
        If a value is not finite, or so large that nothing else would count, naming the point.
    FileError
        If a table cannot be read.
    """
    with np.errstate(all="ignore"):
        value = _value(block, np.asarray(x, float), mass, key)
    _require_sane(value, x, key)
    return value


def slope(
    block: Any, x: NDArray[np.float64], mass: float = 1.0, key: str = "potential"
) -> NDArray[np.float64]:
    """Return dV/dx on the grid, (n,) float64, hartree/bohr; parameters and errors as in `evaluate`."""
    with np.errstate(all="ignore"):
        value = _slope(block, np.asarray(x, float), mass, key)
    _require_sane(value, x, key)
    return value


def threshold(block: Any, potential: NDArray[np.float64]) -> float | None:
    """Return the energy above which the electron is free: the limit of V at infinity, None if V confines it.

    For tables and formulas it is taken from the walls; as nothing is known beyond them, the lower one counts.
    """
    if block.type in CONFINING:
        return None
    if block.type in VANISHING:
        return 0.0
    return float(min(potential[0], potential[-1]))


def _require_sane(value: NDArray[np.float64], x: NDArray[np.float64], key: str) -> None:
    if not np.all(np.isfinite(value)):
        point = float(x[np.flatnonzero(~np.isfinite(value))[0]])
        raise InvalidInput(key, f"not finite at x = {point:.6g} bohr; change the formula or the grid")
    largest = int(np.argmax(np.abs(value)))
    if abs(value[largest]) > LARGEST_VALUE:
        raise InvalidInput(
            key,
            f"{value[largest]:.3g} a.u. at x = {x[largest]:.6g} bohr is too large for double precision "
            f"(at most {LARGEST_VALUE:g}); change the formula or the grid",
        )


def _value(block: Any, x: NDArray[np.float64], mass: float, key: str) -> NDArray[np.float64]:
    kind = block.type
    if kind == "table":
        return _table(block, x, key)(x)
    if kind == "expression":
        return in_chunks(lambda part: formula(block.value, f"{key}.value", x=part), x)
    if kind == "polynomial":
        return np.polynomial.polynomial.polyval(x, np.asarray(block.coefficients, float))
    if kind in ("none", "free"):
        return np.zeros(x.shape)
    if kind == "square_well":
        return _square_well(block, x)
    y = x - (block.r0 if kind == "morse" else block.x0)
    if kind == "softcore":
        return -block.Z / np.sqrt(y * y + block.a2)
    if kind == "morse":
        return block.D * np.expm1(-block.beta * y) ** 2 - block.D
    if kind == "harmonic":
        return 0.5 * mass * block.omega**2 * y * y
    if kind == "gaussian_well":
        return -block.depth * np.exp(-0.5 * (y / block.width) ** 2)
    if kind == "poschl_teller":
        return -block.depth * _sech(y / block.a) ** 2
    if kind == "eckart":
        return block.V0 * _sech(y / block.a) ** 2
    if kind == "double_well":
        return block.lambda_ * (y * y - block.a**2) ** 2
    assert kind == "yukawa", kind
    r = np.sqrt(y * y + block.a2)
    return -block.Z * np.exp(-r / block.range) / r


def _slope(block: Any, x: NDArray[np.float64], mass: float, key: str) -> NDArray[np.float64]:
    kind = block.type
    if kind == "table":
        return _table(block, x, key).derivative()(x)
    if kind == "expression":
        return in_chunks(lambda part: formula_slope(block.value, f"{key}.value", "x", x=part), x)
    if kind == "polynomial":
        rising = np.polynomial.polynomial.polyder(np.asarray(block.coefficients, float))
        return np.asarray(np.polynomial.polynomial.polyval(x, rising), dtype=float)
    if kind in ("none", "free"):
        return np.zeros(x.shape)
    if kind == "square_well":
        return _square_well_slope(block, x)
    y = x - (block.r0 if kind == "morse" else block.x0)
    if kind == "softcore":
        return block.Z * y / (y * y + block.a2) ** 1.5
    if kind == "morse":
        e = np.exp(-block.beta * y)
        return 2.0 * block.D * block.beta * e * (1.0 - e)
    if kind == "harmonic":
        return mass * block.omega**2 * y
    if kind == "gaussian_well":
        return block.depth * y / block.width**2 * np.exp(-0.5 * (y / block.width) ** 2)
    if kind in ("poschl_teller", "eckart"):
        height = block.V0 if kind == "eckart" else -block.depth
        return -2.0 * height / block.a * _sech(y / block.a) ** 2 * np.tanh(y / block.a)
    if kind == "double_well":
        return 4.0 * block.lambda_ * y * (y * y - block.a**2)
    assert kind == "yukawa", kind
    r = np.sqrt(y * y + block.a2)
    return block.Z * np.exp(-r / block.range) * y / (r * r) * (1.0 / r + 1.0 / block.range)


def _sech(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1/cosh without overflow far away."""
    e = np.exp(-np.abs(y))
    return 2.0 * e / (1.0 + e * e)


def _square_well(block: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    y, half = np.abs(x - block.x0), 0.5 * block.width
    if block.edge == 0.0:
        inside = np.where(y < half, 1.0, 0.0)
        # The half value on the wall keeps the area right, hence the error of a grid that meets the wall of second order.
        inside[np.abs(y - half) <= 1e-9 * (1.0 + half + abs(block.x0))] = 0.5
        return -block.depth * inside
    from scipy.special import erf

    return -0.5 * block.depth * (erf((y + half) / block.edge) - erf((y - half) / block.edge))


def _square_well_slope(block: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    if block.edge == 0.0:
        return np.gradient(_square_well(block, x), x)
    y, half = x - block.x0, 0.5 * block.width
    left, right = np.exp(-(((y + half) / block.edge) ** 2)), np.exp(-(((y - half) / block.edge) ** 2))
    return -block.depth / (math.sqrt(math.pi) * block.edge) * (left - right)


def _table(block: Any, x: NDArray[np.float64], key: str) -> Any:
    curve = spline(block.file, "x")
    first, last = float(curve.x[0]), float(curve.x[-1])
    slack = 1e-9 * (last - first)
    if x[0] < first - slack or x[-1] > last + slack:
        raise InvalidInput(
            f"{key}.file",
            f"the table covers [{first:g}, {last:g}] bohr, the grid needs [{x[0]:g}, {x[-1]:g}]",
        )
    return curve
