"""The matrix products of the dense route, in place and without copies: NumPy on a CPU, cuBLAS on a GPU.

On a CPU large products are made of tiles, which threads of `qsim.core.device.pool` take in turn, each with a BLAS of one thread:
the threads of a BLAS spin for a while after each product, beside the threads of the kernels that follow, and there are two such
libraries, NumPy's and SciPy's.  Tiles depend on the shapes alone, so results do not depend on the number of threads.

CuPy's own ``matmul`` copies submatrices and cannot add to its result; the cuBLAS calls below take leading dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.blas import one_thread
from qsim.core.device.device import namespace
from qsim.core.device.pool import each_call

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device

__all__ = ["product", "subtract_product", "symmetric_square"]

# Numbers of a temporary product.
CHUNK = 1 << 17
# Rows and columns of the result that a thread computes at a time.
TILE = 128
# Multiplications below which starting threads costs more than it saves.
PARALLEL_SIZE = 1 << 20
LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def subtract_product(c: Array, a: Array, b: Array) -> None:
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
        # temporaries that stay in the cache, and off the system's hands
        for lo in range(0, len(c), rows):
            c[lo : lo + rows] -= a[lo : lo + rows] @ b
        return
    # Row-major c is column-major c^T = b^T a^T.
    # cuBLAS counts columns first: for it the array is X^T, and the upper triangle of the product is the lower one in
    # rows.
    blas = xp.cuda.cublas
    ta, lda = _layout(a, blas)
    tb, ldb = _layout(b, blas)
    _, ldc = _layout(c, blas)
    # Factors lie on the host; the pointer mode says so, and is set back for CuPy's own calls.
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
            _address(b),
            ldb,
            _address(a),
            lda,
            one.ctypes.data,
            _address(c),
            ldc,
        )
    finally:
        blas.setPointerMode(handle, mode)


def _layout(matrix: Array, blas: Any) -> tuple[int, int]:
    """Return operation and leading dimension of a row-major matrix that is read as its column-major transpose."""
    item = matrix.dtype.itemsize
    rows, columns = matrix.strides
    if columns == item or matrix.shape[1] == 1:
        return int(blas.CUBLAS_OP_N), max(int(rows) // item, matrix.shape[1])
    if rows == item or matrix.shape[0] == 1:
        return int(blas.CUBLAS_OP_T), max(int(columns) // item, matrix.shape[0])
    raise ValueError("a matrix without an axis of neighbouring elements")


def product(device: Device, a: Array, b: Array) -> Any:
    """Return ``a @ b`` for matrices of one dtype, (m, k) and (k, n), row-major; on a CPU by tiles."""
    if device.is_cuda:
        return device.xp.matmul(a, b)
    out = np.empty((a.shape[0], b.shape[1]), b.dtype)
    columns = _tiles(out.shape[1])
    places = [(rows, part) for rows in _tiles(out.shape[0]) for part in columns]

    # Tiles of the result are disjoint: threads never write to the same place.
    def work(first: int, last: int) -> None:
        for rows, part in places[first:last]:
            np.matmul(a[rows], b[:, part], out=out[rows, part])

    with one_thread():
        each_call(work, len(places), a.shape[1] * out.size, device.threads, PARALLEL_SIZE)
    return out


def _tiles(size: int) -> list[slice]:
    """Cut rows or columns into nearly equal parts of up to `TILE`."""
    count = max(1, -(-size // TILE))
    return [slice(size * k // count, size * (k + 1) // count) for k in range(count)]


def symmetric_square(device: Device, x: Array) -> Any:
    """Return the lower triangle of ``x^T x``, with half of the operations of the whole product.

    Parameters
    ----------
    device
        Where it is.
    x : (k, n) float64 or complex128
        Row-major.

    Returns
    -------
    (n, n), dtype of x
        Row-major; what lies above the diagonal is not defined.
    """
    xp = device.xp
    k, n = x.shape
    if not device.is_cuda:
        lower = np.empty((n, n), x.dtype)
        # Tiles on and below the diagonal, each a product of its own: BLAS has a routine for one triangle, but not
        # one that threads share as evenly.
        parts = _tiles(n)
        places = [(rows, columns) for j, columns in enumerate(parts) for rows in parts[j:]]

        def work(first: int, last: int) -> None:
            for rows, columns in places[first:last]:
                np.matmul(x[:, rows].T, x[:, columns], out=lower[rows, columns])

        with one_thread():
            each_call(work, len(places), k * n * n // 2, device.threads, PARALLEL_SIZE)
        return lower
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
            _address(x),
            n,
            zero.ctypes.data,
            _address(out),
            n,
        )
    finally:
        blas.setPointerMode(handle, mode)
    return out


def _address(array: Array) -> int:
    """Return the address of an array on the GPU."""
    data: Any = array.data
    return int(data.ptr)
