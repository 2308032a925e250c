"""Small matrices of a space of directions: normal equations at many energies, and room for new rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["bordered", "normal_equations"]


def normal_equations(
    parts: tuple[NDArray[np.complex128], ...], e: NDArray[np.float64], right: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Return the coefficients (e, m, k) of least residual at distances e from E0, for right-hand sides (e, m, k).

    The matrix is ``W^* W + e (W^* Q + Q^* W) + e^2 Q^* Q``; W is nearly orthonormal, so that it is well conditioned.
    """
    from scipy.linalg.lapack import zpotrs

    one, crossed, squared = parts
    out = np.empty(right.shape, complex)
    for i, shift in enumerate(e):
        normal = shift * squared
        normal += crossed
        normal *= shift
        normal += one
        try:
            # unlike SciPy's, it lets other threads work meanwhile
            lower = np.linalg.cholesky(normal)
        except np.linalg.LinAlgError:
            out[i] = np.linalg.lstsq(normal, right[i], rcond=None)[0]
            continue
        # LAPACK reads the transposed factor, which is that of the conjugated matrix.
        x, _ = zpotrs(lower.T, right[i].conj(), lower=0)
        out[i] = x.conj()
    return out


def bordered(
    old: NDArray[np.complex128], columns: NDArray[np.complex128], rows: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Return a matrix with new columns (m, j) on its right and new rows (j, m) below it."""
    first, m = old.shape[0], columns.shape[0]
    out = np.empty((m, m), complex)
    out[:first, :first], out[first:], out[:, first:] = old, rows, columns
    return out
