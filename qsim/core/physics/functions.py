"""Functions of one variable from a deck: formulas with exact derivatives, tables as curves, and what refuses bad values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.columns import by_first_column
from qsim.core.deck.expression import Expression
from qsim.core.deck.tables import read_table
from qsim.core.deck.units import to_unit
from qsim.core.device.pool import each_part
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.physics.curves import table_curve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray
    from scipy.interpolate import PPoly

    from qsim.core.deck.table_units import Tabulated
    from qsim.core.physics.curves import Curve

__all__ = [
    "CACHED",
    "chosen",
    "curve_of",
    "formula",
    "formula_slope",
    "in_chunks",
    "remark_on",
    "require_sane",
]

CHUNK = 1 << 20  # values evaluated at a time: the stack of a formula on a grid of 1e9 points stays small
CACHED = 1 << 16  # values whose temporaries stay in the caches of a core
LARGEST_VALUE = (
    1e10  # a.u. of a potential or dipole: its rounding error, 1e-6, is as large as the effects that matter
)


def in_chunks(
    function: Callable[[NDArray[Any]], NDArray[Any]],
    x: ArrayLike,
    threads: int = 1,
    dtype: type = float,
    chunk: int = CHUNK,
) -> NDArray[Any]:
    """Return ``function(x)`` of a one-dimensional float array, evaluated in chunks.

    Parameters
    ----------
    function
        Acts on each number by itself, and releases the interpreter lock if there are threads.
    x : (n,) float64
    threads : int
        That share the chunks.
    dtype
        Of the result.
    chunk : int
        Numbers evaluated at a time.
    """
    x = np.asarray(x, dtype=float)
    if x.size <= chunk:
        return np.asarray(function(x), dtype=dtype)
    out: NDArray[Any] = np.empty(x.size, dtype)

    # Chunks write disjoint ranges of the result, so that threads need no lock, and their number
    # changes no bit.
    def work(first: int, last: int) -> None:
        for low in range(first * chunk, min(last * chunk, x.size), chunk):
            out[low : low + chunk] = function(x[low : low + chunk])

    each_part(work, -(-x.size // chunk), x.size, threads)
    return out


def formula(text: str, key: str, **variables: ArrayLike) -> NDArray[np.float64]:
    """Evaluate a formula of the deck.

    Raises
    ------
    InvalidInput
        If it is not finite somewhere, naming the place.
    """
    try:
        return Expression(text, tuple(variables))(**variables)
    except NumericsError as error:
        raise InvalidInput(key, str(error)) from error


def formula_slope(text: str, key: str, variable: str, **variables: ArrayLike) -> NDArray[np.float64]:
    """Return the derivative of a formula with respect to one of its variables, exact up to rounding.

    The formula's program is run on pairs (value, derivative).  Steps (``sign``, ``heaviside``) have the derivative 0, and
    kinks (``abs``, ``min``, ``max``) the derivative of one of their sides.

    Raises
    ------
    InvalidInput
        If the derivative is not finite somewhere.
    """
    # Forward-mode differentiation: every operand carries its derivative with respect to the
    # variable, and every function applies the chain rule.
    stack: list[tuple[Any, Any]] = []
    with np.errstate(all="ignore"):
        for step in Expression(text, tuple(variables)).program:
            if step.kind == "number":
                stack.append((np.float64(step.value), np.float64(0.0)))
            elif step.kind == "name":
                value = np.asarray(variables[step.value], dtype=float)
                stack.append((value, np.float64(1.0 if step.value == variable else 0.0)))
            else:
                arguments = stack[len(stack) - step.count :]
                del stack[len(stack) - step.count :]
                stack.append(_dual(step.value, arguments))
    shape = np.shape(variables[variable])
    result = np.array(np.broadcast_to(stack.pop()[1], shape), dtype=float)
    if not np.all(np.isfinite(result)):
        place = np.asarray(variables[variable], dtype=float)[~np.isfinite(result)].flat[0]
        raise InvalidInput(key, f"the derivative of {text!r} is not finite at {variable} = {place:.6g}")
    return result


def _dual(name: str, arguments: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Apply one function or operator to pairs (value, derivative)."""
    # The derivative of the argument that is taken; of the first one where both are equal.
    if name in ("min", "max"):
        (f, df), *others = arguments
        for g, dg in others:
            first = f <= g if name == "min" else f >= g
            f, df = np.where(first, f, g), np.where(first, df, dg)
        return f, df
    if len(arguments) == 2:
        (f, df), (g, dg) = arguments
        return _BINARY[name](f, df, g, dg)
    ((f, df),) = arguments
    value, slope = _UNARY[name](f)
    return value, np.where(df == 0.0, 0.0, slope * df)  # 0 times an infinite slope is 0: sqrt(0 * x)


def _power(
    f: NDArray[np.float64], df: NDArray[np.float64], g: NDArray[np.float64], dg: NDArray[np.float64]
) -> tuple[Any, Any]:
    value = f**g
    # d(f^g) = g f^(g-1) df + f^g ln(f) dg. Each term is dropped where a factor is zero, as the
    # other one may be infinite there: f^-1 and ln(f) at f = 0.
    by_base = np.where((df == 0.0) | (g == 0.0), 0.0, g * f ** (g - 1.0) * df)
    by_exponent = np.where((dg == 0.0) | (value == 0.0), 0.0, value * np.log(f) * dg)
    return value, by_base + by_exponent


def _erf(f: NDArray[np.float64]) -> tuple[Any, Any]:
    from scipy.special import erf

    return erf(f), 2.0 / np.sqrt(np.pi) * np.exp(-f * f)


_BINARY: dict[str, Callable[..., tuple[Any, Any]]] = {
    "+": lambda f, df, g, dg: (f + g, df + dg),
    "-": lambda f, df, g, dg: (f - g, df - dg),
    "*": lambda f, df, g, dg: (f * g, df * g + f * dg),
    "/": lambda f, df, g, dg: (f / g, (df - f / g * dg) / g),
    "^": _power,
    "atan2": lambda f, df, g, dg: (np.arctan2(f, g), (df * g - f * dg) / (f * f + g * g)),
}
_UNARY: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "neg": lambda f: (-f, -1.0),
    "sin": lambda f: (np.sin(f), np.cos(f)),
    "cos": lambda f: (np.cos(f), -np.sin(f)),
    "tan": lambda f: (np.tan(f), 1.0 / np.cos(f) ** 2),
    "asin": lambda f: (np.arcsin(f), 1.0 / np.sqrt(1.0 - f * f)),
    "acos": lambda f: (np.arccos(f), -1.0 / np.sqrt(1.0 - f * f)),
    "atan": lambda f: (np.arctan(f), 1.0 / (1.0 + f * f)),
    "sinh": lambda f: (np.sinh(f), np.cosh(f)),
    "cosh": lambda f: (np.cosh(f), np.sinh(f)),
    "tanh": lambda f: (np.tanh(f), 1.0 - np.tanh(f) ** 2),
    "sech": lambda f: (1.0 / np.cosh(f), -np.tanh(f) / np.cosh(f)),
    "exp": lambda f: (np.exp(f), np.exp(f)),
    "log": lambda f: (np.log(f), 1.0 / f),
    "log10": lambda f: (np.log10(f), 1.0 / (f * np.log(10.0))),
    "sqrt": lambda f: (np.sqrt(f), 0.5 / np.sqrt(f)),
    "abs": lambda f: (np.abs(f), np.sign(f)),
    "sign": lambda f: (np.sign(f), 0.0 * f),
    "heaviside": lambda f: (np.heaviside(f, 0.5), 0.0 * f),
    "erf": _erf,
}


def chosen(table: Tabulated, curve: Curve) -> PPoly:
    """Return the curve of a table, or the other one that its rows allow where the block is `doubted`."""
    return curve.other if table._doubted else curve.at


def remark_on(table: Tabulated, curve: Curve, key: str) -> Iterator[Finding]:
    """Yield what a user must know of the curve through a table whose block stands at a key."""
    if text := curve.remark(table.columns()[0].name, getattr(table, "interpolation", "auto")):
        yield Finding(f"{key}.file", text, "warning")


def curve_of(table: Tabulated, x: NDArray[np.float64] | None = None, key: str = "file") -> Curve:
    """Return a two-column table as a curve by its key ``interpolation``, in atomic units.

    Parameters
    ----------
    table
        The block that names the file, the columns and their units.
    x : (n,) float64, optional
        Ascending points, bohr, at which the curve is needed.
    key
        Where the deck names the file, for the message.

    Raises
    ------
    FileError
        If the file cannot be read or is no table.
    InvalidInput
        If the table does not cover the points.
    """
    name = table.columns()[0].name
    path = table.table_file() or name
    points = by_first_column(path, read_table(table, distinct=name), name)
    first, last = float(points[0, 0]), float(points[-1, 0])
    # Ends of a grid that agree with the ends of the table but for rounding are inside.
    slack = 1e-9 * (last - first)
    if x is not None and (x[0] < first - slack or x[-1] > last + slack):
        text = f"the table covers [{first:g}, {last:g}] bohr, the grid needs [{x[0]:g}, {x[-1]:g}]"
        wider = x[[0, -1]] / float(to_unit(1.0, "angstrom", "length"))
        if first - slack <= wider[0] and wider[1] <= last + slack:
            text += f"; if the grid is meant in angstrom, write '{x[0]:g} angstrom' and '{x[-1]:g} angstrom'"
        raise InvalidInput(key, text)
    return table_curve(path, points[:, 0], points[:, 1], getattr(table, "interpolation", "auto"))


def require_sane(value: NDArray[np.float64], x: NDArray[np.float64], key: str, grid: str) -> None:
    """Refuse a potential or dipole that is not finite somewhere, or so large that nothing else would count.

    Parameters
    ----------
    value : (n,) float64
        Potential or dipole, a.u.
    x : (n,) float64
        Its points, bohr.
    key
        Key of the function in the deck.
    grid
        Key of the grid, for the remedy.

    Raises
    ------
    InvalidInput
        With the first point that is not finite, or the largest value.
    """
    with np.errstate(invalid="ignore"):
        # NaN is not below: one pass over cached chunks tells whether there is anything to say
        if all(
            np.all(np.abs(value[low : low + CACHED]) <= LARGEST_VALUE) for low in range(0, value.size, CACHED)
        ):
            return
    if not np.all(np.isfinite(value)):
        point = float(x[np.flatnonzero(~np.isfinite(value))[0]])
        raise InvalidInput(key, f"not finite at x = {point:.6g} bohr; change the formula or {grid}")
    largest = int(np.argmax(np.abs(value)))
    if abs(value[largest]) > LARGEST_VALUE:
        raise InvalidInput(
            key,
            f"{value[largest]:.3g} a.u. at x = {x[largest]:.6g} bohr is too large for double precision "
            f"(at most {LARGEST_VALUE:g}); change the formula or {grid}",
        )
