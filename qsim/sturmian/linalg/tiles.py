"""Work on many matrices and long vectors that threads of a CPU take in turn: rows of matrices, ranges of vectors.

Each piece calls BLAS with one thread.  The bits of a row may depend on how many rows are multiplied with it, as most kernels of
BLAS round the last rows of a matrix in another way: tiles depend on the numbers and sizes of the matrices alone.  So do the
ranges of a vector, whose sums are added in their order.  Neither depends on the number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.blas import one_thread
from qsim.core.device.pool import each_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = [
    "add_combinations",
    "combined",
    "copied",
    "each_range",
    "each_tile",
    "products",
    "scaled",
    "squares",
    "subtract_along",
    "subtracted",
]

# Rows with which BLAS is as quick as with all of a matrix.
TALL = 96
# Rows below which it is slow.
FLAT = 48
# Number of tiles, where FLAT allows it: three for each of eight threads, so that threads that end first can help.
TILES = 24
# Complex numbers: half a megabyte.
RANGE = 1 << 15
# Multiplications below which starting threads costs more than it saves.
PARALLEL_SIZE = 1 << 20


def each_tile(
    device: Device,
    work: Callable[[int, int, slice], None],
    shape: tuple[int, int, int],
    multiplications: float,
    alike: object,
) -> None:
    """Call ``work(k, p, rows)`` for rows that cover matrices ``k, p``, on the threads of a device.

    Parameters
    ----------
    device
        A CPU.
    work
        Sets what belongs to these rows alone, and releases the interpreter's lock meanwhile.
    shape : (m, P, rows)
        Numbers of matrices, and their rows.
    multiplications
        In all.
    alike
        What names work of the same speed, see `qsim.core.device.pool.each_part`.
    """
    count, pairs, height = shape
    # tiles neither taller than the caches hold nor flatter than BLAS likes, and enough of them for all threads
    least, most = -(-height // TALL), -(-height // FLAT)
    tiles = max(1, min(most, max(least, -(-TILES // max(1, count * pairs)))))
    edges = [height * place // tiles for place in range(tiles + 1)]

    def several(first: int, last: int) -> None:
        for task in range(first, last):
            matrix, tile = divmod(task, tiles)
            work(*divmod(matrix, pairs), slice(edges[tile], edges[tile + 1]))

    size = max(1, int(multiplications))
    with one_thread():
        each_call(several, count * pairs * tiles, size, device.threads, PARALLEL_SIZE, alike)


def each_range(
    device: Device, work: Callable[[int, slice], None], shape: tuple[int, int], numbers: int, alike: object
) -> None:
    """Call ``work(k, range)`` for ranges that cover vectors k, on the threads of a device.

    Parameters
    ----------
    device
        A CPU.
    work
        Sets what belongs to this range alone.
    shape : (m, size)
        Of the vectors.
    numbers
        Read and written in all.
    alike
        As of `each_tile`.
    """
    count, size = shape
    # Ranges of fixed size: sums over a vector are then grouped in the same way on any number of
    # threads.
    ranges = max(1, -(-size // RANGE))

    def several(first: int, last: int) -> None:
        for task in range(first, last):
            k, part = divmod(task, ranges)
            work(k, slice(part * RANGE, min((part + 1) * RANGE, size)))

    with one_thread():
        each_call(several, count * ranges, max(1, numbers), device.threads, PARALLEL_SIZE, alike)


# ---------------------------------------------------------------------------------------- long vectors


def subtracted(device: Device, y: NDArray[np.complex128], w: NDArray[np.complex128]) -> Any:
    """Return ``y - w`` of contiguous arrays, on a CPU in the place of w."""
    if device.is_cuda:
        return y - w
    flat_y, flat_w = y.reshape(1, -1), w.reshape(1, -1)

    def work(k: int, part: slice) -> None:
        np.subtract(flat_y[k, part], flat_w[k, part], out=flat_w[k, part])

    each_range(device, work, flat_w.shape, 3 * w.size, subtracted)
    return w


def scaled(device: Device, w: NDArray[np.complex128], factors: Any, out: NDArray[np.complex128]) -> None:
    """Set ``out[k] = factors[k] w[k]`` for w and out (m, size), factors (m,) on the device."""
    if device.is_cuda:
        device.xp.multiply(w, factors[:, None], out=out)
        return

    def work(k: int, part: slice) -> None:
        np.multiply(w[k, part], factors[k], out=out[k, part])

    each_range(device, work, w.shape, 2 * w.size, scaled)


def copied(device: Device, x: NDArray[np.complex128], out: NDArray[np.complex128]) -> None:
    """Set ``out[...] = x`` for arrays (m, k, size)."""
    if device.is_cuda:
        out[...] = x
        return

    def work(k: int, part: slice) -> None:
        out[k, :, part] = x[k, :, part]

    each_range(device, work, (x.shape[0], x.shape[2]), 2 * x.size, copied)


def squares(device: Device, w: NDArray[np.complex128]) -> Any:
    """Return the squared norms of the rows of w (m, size), on the device."""
    if device.is_cuda:
        return device.xp.stack([device.xp.vdot(row, row).real for row in w])
    # One number per range, added in order by one thread.
    sums = np.empty((w.shape[0], max(1, -(-w.shape[1] // RANGE))))

    def work(k: int, part: slice) -> None:
        sums[k, part.start // RANGE] = np.vdot(w[k, part], w[k, part]).real

    each_range(device, work, w.shape, w.size, squares)
    return sums.sum(axis=1)


def subtract_along(device: Device, basis: NDArray[np.complex128], w: NDArray[np.complex128]) -> Any:
    """Subtract from each w (m, size) its part along the rows of its basis (m, k, size), in place.

    One vector after the other on a GPU: all of them in one product would copy the directions, which are not contiguous.

    Returns
    -------
    (m, k) complex128
        Coefficients ``conj(basis) w``.
    """
    if device.is_cuda:
        xp, parts = device.xp, []
        for directions, row in zip(basis, w, strict=True):
            h = xp.conj(directions @ xp.conj(row))
            row -= h @ directions
            parts.append(h)
        return xp.stack(parts)
    # Classical Gram and Schmidt in two passes over the vector: all coefficients are needed
    # before the first subtraction.
    count, k = basis.shape[:2]
    sums = np.empty((count, max(1, -(-w.shape[1] // RANGE)), k), complex)

    # basis conj(w) is the conjugate of conj(basis) w: a copy of one vector is conjugated
    # instead of all directions.
    def project(j: int, part: slice) -> None:
        sums[j, part.start // RANGE] = basis[j, :, part] @ np.conj(w[j, part])

    each_range(device, project, w.shape, basis.size, project.__code__)
    coefficients = np.conj(sums.sum(axis=1))

    def subtract(j: int, part: slice) -> None:
        w[j, part] -= coefficients[j] @ basis[j, :, part]

    each_range(device, subtract, w.shape, basis.size, subtract.__code__)
    return coefficients


def products(
    device: Device,
    left: NDArray[np.complex128],
    right: NDArray[np.complex128],
    conjugate: tuple[bool, ...] = (False,),
) -> Any:
    """Return ``left @ right.T`` of vectors (a, size) and (b, size), with the right ones as they are or conjugated, on the device.

    Returns
    -------
    (a, len(conjugate) b) complex128
        One block of columns for each element of `conjugate`.
    """
    if device.is_cuda:
        return device.xp.concatenate([left @ (right.conj() if one else right).T for one in conjugate], axis=1)
    # One product per range, added in order by one thread.
    ranges = max(1, -(-left.shape[1] // RANGE))
    sums = np.empty((ranges, left.shape[0], len(conjugate) * right.shape[0]), complex)

    # Vectors are conjugated range by range, in the caches of the thread that multiplies them.
    def work(_: int, part: slice) -> None:
        there = right[:, part]
        operand = np.concatenate([there.conj() if one else there for one in conjugate])
        np.matmul(left[:, part], operand.T, out=sums[part.start // RANGE])

    multiplications = left.size * right.shape[0] * len(conjugate)
    each_range(device, work, (1, left.shape[1]), multiplications, work.__code__)
    return sums.sum(axis=0)


def combined(device: Device, c: NDArray[np.complex128], x: NDArray[np.complex128], out: NDArray[Any]) -> None:
    """Set out (m, size) to ``c @ x``, for coefficients (m, a) and vectors (a, size)."""
    if device.is_cuda:
        device.xp.matmul(c, x, out=out)
        return

    def work(_: int, part: slice) -> None:
        out[:, part] = c @ x[:, part]

    each_range(device, work, (1, x.shape[1]), x.size * c.shape[0], work.__code__)


def add_combinations(
    device: Device, c: NDArray[np.complex128], x: NDArray[np.complex128], out: NDArray[np.complex128]
) -> None:
    """Add ``c @ x`` to out (m, size), for coefficients (m, a) and vectors (a, size)."""
    if device.is_cuda:
        out += c @ x
        return

    def work(_: int, part: slice) -> None:
        out[:, part] += c @ x[:, part]

    each_range(device, work, (1, x.shape[1]), x.size * c.shape[0], work.__code__)
