"""Products with a matrix whose elements vanish away from its diagonal, as those of an operator in finite elements.

Blocks of rows or columns meet only the few functions of their own elements and of the next ones: a product with the full matrix
would mostly multiply zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Banded"]

# Rows or columns of a block: enough for BLAS, few beside those of a matrix.
BLOCK = 32


class Banded:
    """A matrix on a CPU with the range of columns in which each of its rows does not vanish.

    Parameters
    ----------
    matrix : (n, n) complex128
        Zeros lie at the same places in the transposed matrix.
    """

    def __init__(self, matrix: NDArray[np.complex128]) -> None:
        self.matrix = np.ascontiguousarray(matrix)
        pattern = (self.matrix != 0.0) | (self.matrix.T != 0.0)
        # The diagonal counts, so that no range is empty.
        pattern[np.diag_indices_from(pattern)] = True
        self._first = pattern.argmax(axis=1)
        self._last = pattern.shape[1] - pattern[:, ::-1].argmax(axis=1)

    def _ranges(self, begin: int, end: int) -> tuple[slice, slice]:
        """Return a block of rows (or columns), and the range of the others that it meets."""
        return slice(begin, end), slice(int(self._first[begin:end].min()), int(self._last[begin:end].max()))

    def add_rows(self, rows: slice, x: NDArray[np.complex128], out: NDArray[np.complex128]) -> None:
        """Add some rows of ``matrix @ x`` to out (rows, k), for x (n, k)."""
        for begin in range(rows.start, rows.stop, BLOCK):
            block, met = self._ranges(begin, min(begin + BLOCK, rows.stop))
            out[block.start - rows.start : block.stop - rows.start] += self.matrix[block, met] @ x[met]

    def add_right(self, x: NDArray[np.complex128], out: NDArray[np.complex128]) -> None:
        """Add ``x @ matrix`` to out (m, n), for x (m, n)."""
        size = self.matrix.shape[0]
        for begin in range(0, size, BLOCK):
            block, met = self._ranges(begin, min(begin + BLOCK, size))
            out[:, block] += x[:, met] @ self.matrix[met, block]
