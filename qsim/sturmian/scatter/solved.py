"""Numbers of the solver for one symmetry of a collision, and a picture of one solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.driven.operator import Driven, Solution
    from qsim.sturmian.driven.setup import Setup

LETTERS = "spdfghiklmnoqrtuvwxyz"


@dataclass
class Solved:
    """Numbers of the solver for one symmetry.

    Attributes
    ----------
    L, S : int
    label : str
        Spin or gauge.
    points : list of int
        Numbers of the energies.
    unknowns : int
    residuals : (m,) float64
        Of these energies.
    iterations : (m,) int64
    history : list of (k,) float64
    flops, traffic : float
        Of one step with one right-hand side: operations, and bytes moved at least.
    seconds : float
        Spent in the solver.
    condition : float
        Largest condition number of the eigenvectors of h on the contour.
    """

    L: int
    S: int
    label: str
    points: list[int]
    unknowns: int
    residuals: NDArray[np.float64]
    iterations: NDArray[np.int64]
    history: list[NDArray[np.float64]]
    flops: float
    traffic: float
    seconds: float
    condition: float


@dataclass
class Wave:
    """The largest component of one solution, for a picture.

    Attributes
    ----------
    r : (n,) float64
        Arc length along the contour, bohr.
    u : (n, n) float64
        |u|.
    R0 : float
    title : str
    """

    r: NDArray[np.float64]
    u: NDArray[np.float64]
    R0: float
    title: str


def picture(setup: Setup, operator: Driven, solutions: Solution, label: str) -> Wave:
    """Return the largest component of the first of some solutions."""
    grid = setup.grid
    u = np.asarray(operator.device.to_host(solutions.u[0]))
    root = np.sqrt(grid.w)
    # From coefficients to values: without the weights of both nodes.
    values = np.abs(u / (root[:, None] * root[None, :]))
    # The component with most of the norm on the real axis; on the contour everything decays.
    weight = (np.abs(u[:, : setup.count, : setup.count]) ** 2).sum(axis=(1, 2))
    p = int(np.argmax(weight))
    a, b = operator.pairs[p]
    arc = np.where(grid.is_real, grid.r.real, grid.R0 + np.abs(grid.r - grid.R0))
    return Wave(arc, values[p], grid.R0, f"L = {operator.L}, (la, lb) = ({a}, {b}), {label}")


def level_name(n: int, l: int) -> str:
    """Return a name such as ``2p``."""
    return f"{n}{LETTERS[l] if l < len(LETTERS) else f'[{l}]'}"
