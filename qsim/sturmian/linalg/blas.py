"""The matrix products of the dense route, in place and without copies: NumPy and SciPy on a CPU, cuBLAS on a GPU.

CuPy's own ``matmul`` copies submatrices and cannot add to its result; the cuBLAS calls below take leading dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qsim.core.device.device import namespace

__all__ = ["subtract_product", "symmetric_square"]

CHUNK = 1 << 17  # numbers of a temporary product
LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def subtract_product(c: Any, a: Any, b: Any) -> None:
    """Compute ``c -= a @ b``.

    Parameters
    ----------
    c : (m, n)
        Row-major or a part of a row-major matrix; read and written.
    a, b : (m, k) and (k, n), dtype of c
        Row-major, transposed row-major, or parts of such; read.
    """
    if 0 in (*c.shape, a.shape[1]):
        return
    xp = namespace(c)
    if xp is np:
        rows = max(128, CHUNK // c.shape[1])
        for lo in range(0, len(c), rows):  # temporaries that stay in the cache, and off the system's hands
            c[lo : lo + rows] -= a[lo : lo + rows] @ b
        return
    # Row-major c is column-major c^T = b^T a^T.
    blas = xp.cuda.cublas
    ta, lda = _layout(a, blas)
    tb, ldb = _layout(b, blas)
    _, ldc = _layout(c, blas)
    one, minus = np.ones(1, c.dtype), np.full(1, -1, c.dtype)
    gemm = getattr(blas, LETTERS[c.dtype.char] + "gemm")
    handle = xp.cuda.get_cublas_handle()
    mode = blas.getPointerMode(handle)
    blas.setPointerMode(handle, blas.CUBLAS_POINTER_MODE_HOST)
    try:
        gemm(
            handle,
            tb,
            ta,
            c.shape[1],
            c.shape[0],
            a.shape[1],
            minus.ctypes.data,
            b.data.ptr,
            ldb,
            a.data.ptr,
            lda,
            one.ctypes.data,
            c.data.ptr,
            ldc,
        )
    finally:
        blas.setPointerMode(handle, mode)


def _layout(matrix: Any, blas: Any) -> tuple[int, int]:
    """Return operation and leading dimension of a row-major matrix that is read as its column-major transpose."""
    item = matrix.dtype.itemsize
    rows, columns = matrix.strides
    if columns == item or matrix.shape[1] == 1:
        return int(blas.CUBLAS_OP_N), max(int(rows) // item, matrix.shape[1])
    if rows == item or matrix.shape[0] == 1:
        return int(blas.CUBLAS_OP_T), max(int(columns) // item, matrix.shape[0])
    raise ValueError("a matrix without an axis of neighbouring elements")


def symmetric_square(x: Any) -> Any:
    """Return the lower triangle of ``x^T x``, with half of the operations of the whole product.

    Parameters
    ----------
    x : (k, n) float64 or complex128
        Row-major.

    Returns
    -------
    (n, n), dtype of x
        Row-major; what lies above the diagonal is not defined.
    """
    xp = namespace(x)
    k, n = x.shape
    if xp is np:
        from scipy.linalg import blas as host

        syrk = getattr(host, LETTERS[x.dtype.char] + "syrk")
        return syrk(1.0, x.T, trans=0, lower=0).T  # column-major upper = row-major lower
    blas = xp.cuda.cublas
    out = xp.empty((n, n), x.dtype)
    one, zero = np.ones(1, x.dtype), np.zeros(1, x.dtype)
    syrk = getattr(blas, LETTERS[x.dtype.char] + "syrk")
    handle = xp.cuda.get_cublas_handle()
    mode = blas.getPointerMode(handle)
    blas.setPointerMode(handle, blas.CUBLAS_POINTER_MODE_HOST)
    try:
        syrk(
            handle,
            blas.CUBLAS_FILL_MODE_UPPER,
            blas.CUBLAS_OP_N,
            n,
            k,
            one.ctypes.data,
            x.data.ptr,
            n,
            zero.ctypes.data,
            out.data.ptr,
            n,
        )
    finally:
        blas.setPointerMode(handle, mode)
    return out
