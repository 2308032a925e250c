"""What the kernels of two coordinates take together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_STEP", "Filter", "Phases"]


class Filter(NamedTuple):
    """A kinetic Cayley step.

    Attributes
    ----------
    constants : (1 or n, 8) float64
        Re and Im of lambda of the recurrences up and down, of alpha, and of beta: the same for all points, or of each point; then
        both recurrences begin with nothing, and there are no images.
    head : (m, 2) float64
        Re and Im of the weights of the first m points in the image beyond a wall; of no step there are none.
    """

    constants: NDArray[np.float64]
    head: NDArray[np.float64]

    @property
    def numbers(self) -> NDArray[np.complex128]:
        """Both lambda, alpha and beta, (1 or n, 4)."""
        return self.constants.view(complex)

    @property
    def decay(self) -> float:
        """Smallest ``-ln |lambda|``."""
        # a line of one point has no recurrence
        return -math.log(max(float(np.abs(self.numbers[:, :2]).max()), 1e-30))


class Phases(NamedTuple):
    """Phases of the potential between two kinetic steps along one axis, and what an absorber takes with them.

    Attributes
    ----------
    table : (2, numbers) float64
        Re and Im of the factors of both coordinates.
    origin, stride : int
        Place of the first point of the first line in the table, and distance of two points of a line; lines lie side by side.
    line : (2, n) float64
        Re and Im of the factors along the line.
    across : (2, lines) float64
        Those across the lines.
    inside : (n,) float64
        Share of a point of the line that lies inside.
    edges : (lines,) float64
        Share of a line that lies inside.
    kept_line, kept_across : (n,), (lines,) float64
        Squares of the factors of the absorber; none without one.
    bend : float
        Phase per ``|psi|^2``, of a potential that is proportional to it.
    twist : (2, n lines) float64
        Re and Im of factors with which the pass begins, line beside line; none without numbers.
    """

    table: NDArray[np.float64]
    origin: int
    stride: int
    line: NDArray[np.float64]
    across: NDArray[np.float64]
    inside: NDArray[np.float64]
    edges: NDArray[np.float64]
    kept_line: NDArray[np.float64]
    kept_across: NDArray[np.float64]
    bend: float = 0.0
    twist: NDArray[np.float64] = np.zeros((2, 0))


#: A filter that changes nothing.
NO_STEP = Filter(np.array([[0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0]]), np.zeros((0, 2)))
