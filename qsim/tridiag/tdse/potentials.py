"""Potentials of the deck on a grid, with errors at their place in the deck; the equations are in the blocks themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import require_sane

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.deck.potentials import PotentialBlock


def evaluate(block: PotentialBlock, x: NDArray[np.float64], key: str = "potential") -> NDArray[np.float64]:
    """Return V on the grid, (n,) float64, hartree.

    Parameters
    ----------
    block
        The potential.
    x : (n,) float64
        Grid points, bohr.
    key : str
        Where the block stands in the deck.

    Raises
    ------
    InvalidInput
        If a value is not finite, or so large that nothing else would count, naming the point.
    FileError
        If a table cannot be read.
    """
    return _on_grid(block.V, x, key)


def slope(block: PotentialBlock, x: NDArray[np.float64], key: str = "potential") -> NDArray[np.float64]:
    """Return dV/dx on the grid, (n,) float64, hartree/bohr; parameters and errors as in `evaluate`."""
    return _on_grid(block.dV, x, key)


def threshold(block: PotentialBlock, potential: NDArray[np.float64]) -> float | None:
    """Return the energy above which the electron is free: the limit of V at infinity, None if V confines it.

    For tables and formulas it is taken from the walls; as nothing is known beyond them, the lower one counts.
    """
    if block.limit is None:
        return float(min(potential[0], potential[-1]))
    return None if math.isinf(block.limit) else block.limit


def _on_grid(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], x: NDArray[np.float64], key: str
) -> NDArray[np.float64]:
    """Return a function of a block on the grid; what is wrong with it lies at `key`."""
    try:
        with np.errstate(all="ignore"):
            value = function(np.asarray(x, float))
    except InvalidInput as error:
        raise InvalidInput(f"{key}.{error.key}", str(error)) from error
    require_sane(value, x, key, "the grid")
    return value
