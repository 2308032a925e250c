"""Potentials of the deck on a grid, with errors at their place in the deck; the equations are in the blocks themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import CACHED, in_chunks, require_sane

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.deck.potentials import PotentialBlock

# Points about a cell through which a density is interpolated, with an error of order 6.
NODES = np.arange(-2, 4)
# Gauss points in a cell
QUADRATURE = 12
# cells taken at once
CELLS = 20_000


def evaluate(
    block: PotentialBlock, x: NDArray[np.float64], key: str = "potential", threads: int = 1
) -> NDArray[np.float64]:
    """Return V on the grid, (n,) float64, hartree.

    Parameters
    ----------
    block
        The potential.
    x : (n,) float64
        Grid points, bohr.
    key : str
        Where the block stands in the deck.
    threads : int
        That share the points.

    Raises
    ------
    InvalidInput
        If a value is not finite, or so large that nothing else would count, naming the point.
    FileError
        If a table cannot be read.
    """
    return _on_grid(block, block.V, x, key, threads)


def slope(
    block: PotentialBlock, x: NDArray[np.float64], key: str = "potential", threads: int = 1
) -> NDArray[np.float64]:
    """Return dV/dx on the grid, (n,) float64, hartree/bohr; parameters and errors as in `evaluate`."""
    return _on_grid(block, block.dV, x, key, threads)


def threshold(block: PotentialBlock, potential: NDArray[np.float64]) -> float | None:
    """Return the energy above which the electron is free: the limit of V at infinity, None if V confines it.

    For tables and formulas it is taken from the walls; as nothing is known beyond them, the lower one counts.
    """
    if block.limit is None:
        return float(min(potential[0], potential[-1]))
    return None if math.isinf(block.limit) else block.limit


def averaged(block: PotentialBlock, x: NDArray[np.float64], key: str = "potential") -> NDArray[np.float64]:
    """Return V as a density feels it that is known at the grid points, (n,) float64, hartree.

    Eq. T26 of the theory page.  With ``l_i`` the function that interpolates between the points (1 at point i, 0 at all
    others, of degree 5 in each cell),

        ``Vbar_i = integral V(x) l_i(x) dx / dx``,    ``sum_i |psi_i|^2 Vbar_i dx = integral V |psi|^2 dx``.

    Where the grid resolves V this is ``V(x_i)`` to the order 6 in dx; where it does not, an edge between two points
    or a well narrower than dx counts here and not there.  The three outermost points keep ``V(x_i)``.

    Parameters
    ----------
    block, x, key
        As for `evaluate`.

    Raises
    ------
    InvalidInput
        If V is not finite at a grid point or between two points.
    FileError
        If a table cannot be read.
    """
    dx = float(x[1] - x[0])
    out = evaluate(block, x, key)
    # too few points for a polynomial of degree 5 in each cell
    if x.size < 2 * NODES.size:
        return out
    # Gauss points in each cell: V between the points, where the grid does not see it
    roots, weights = np.polynomial.legendre.leggauss(QUADRATURE)
    # of the Gauss points in a cell of length 1
    places = 0.5 * (roots + 1.0)
    # (QUADRATURE, 6)
    shares = 0.5 * weights[:, None] * _cardinals(places)
    sums = np.zeros(x.size)
    for first in range(0, x.size - 1, CELLS):
        cells = np.arange(first, min(first + CELLS, x.size - 1))
        inside = evaluate(block, (x[cells, None] + dx * places).ravel(), key)
        # each cell adds to the six points about it, by the polynomials that interpolate between them
        felt = inside.reshape(cells.size, QUADRATURE) @ shares
        for column, node in enumerate(NODES.tolist()):
            low, high = max(first + node, 0), min(first + node + cells.size, x.size)
            sums[low:high] += felt[low - first - node : high - first - node, column]
    # points near the ends lack cells on one side
    whole = slice(NODES.size // 2, x.size - NODES.size // 2)
    out[whole] = sums[whole]
    return out


def _cardinals(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the six Lagrange polynomials of the points about a cell of length 1 at places in it: (places, 6)."""
    columns = []
    for place, node in enumerate(NODES):
        others = np.delete(NODES, place)
        columns.append(np.prod((places[:, None] - others) / (node - others), axis=1))
    return np.stack(columns, axis=1)


def _on_grid(
    block: PotentialBlock,
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    x: NDArray[np.float64],
    key: str,
    threads: int,
) -> NDArray[np.float64]:
    """Return a function of a block on the grid; what is wrong with it lies at `key`."""

    def quietly(part: NDArray[np.float64]) -> NDArray[np.float64]:
        # overflow and division by zero are found in the values, and reported with their place
        with np.errstate(all="ignore"):
            return function(part)

    x = np.asarray(x, float)
    # a formula may need all points at once; others are cut for the caches and the threads
    at_once = not block.in_parts or x.size <= CACHED
    try:
        value = quietly(x) if at_once else in_chunks(quietly, x, threads, chunk=CACHED)
    except InvalidInput as error:
        raise InvalidInput(f"{key}.{error.key}", str(error)) from error
    require_sane(value, x, key, "the grid")
    return value
