"""Delayed updates on the CPU: the bits of single updates, whatever moves are accepted.

Both do the same operations on a column in the same order.  Of complex numbers a compiler may fuse products and sums of one and
not of the other, as it finds them in its cache or not, which changes a number by a rounding for each of the n moves.
"""

import numba as nb
import numpy as np
import pytest

from qsim.qmc.kernels.common import inverses_cpu
from qsim.qmc.kernels.common.inverses_cpu import DELAYED, WINDOW, update_inverse


@nb.njit
def single_update(inverse, row, i, n, ratio, scratch):
    """What Python cannot call."""
    update_inverse(inverse, row, i, n, ratio, scratch)


@nb.njit
def update_window(inverse, row, i, n, ratio, kept, count):
    """What Python cannot call."""
    inverses_cpu.update_window(inverse, row, i, n, ratio, kept, count)


@nb.njit
def close_window(inverse, i, n, kept, count):
    """What Python cannot call."""
    inverses_cpu.close_window(inverse, i, n, kept, count)


def agree(delayed, single):
    """Real numbers to the bit, complex ones within roundings."""
    moves = single.shape[-1] if single.dtype.kind == "c" else 0
    atol = moves * np.finfo(single.dtype).eps * np.abs(single).max()
    np.testing.assert_allclose(delayed, single, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("n", [1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 5])
def test_delayed_updates_are_single_updates(n, kind):
    generator = np.random.default_rng(n)
    numbers = generator.normal(size=(2, n + 2, n))
    parts = numbers[0] + 1j * numbers[1] if np.dtype(kind).kind == "c" else numbers[0]
    slater = (parts[:n] + 3.0 * np.sqrt(n) * np.eye(n)).astype(kind)
    delayed = np.zeros((n, n + 2), kind)  # rows are longer than a spin has electrons
    delayed[:, :n] = np.linalg.inv(slater).T
    single, kept, scratch = delayed.copy(), np.zeros((2, WINDOW, n + 2), kind), np.zeros(n + 2, kind)
    waiting = 0
    for i in range(n):
        if waiting and i % WINDOW == 0:
            close_window(delayed, i - 1, n, kept, waiting)
            waiting = 0
        row = np.zeros(n + 2, kind)
        row[:n] = slater[i] + generator.normal(size=n).astype(kind)
        if generator.random() < 0.2:
            continue
        ratio = row[:n] @ single[i, :n]
        slater[i] = row[:n]
        single_update(single, row, i, n, ratio, scratch)
        update_window(delayed, row, i, n, ratio, kept, waiting)
        waiting += 1
        if i + 1 < n and (i + 1) % WINDOW:  # the column of the next electron is up to date
            agree(delayed[i + 1], single[i + 1])
    if waiting:
        close_window(delayed, n - 1, n, kept, waiting)
    agree(delayed, single)
    eps = np.finfo(kind).eps
    np.testing.assert_allclose(slater @ delayed[:, :n].T, np.eye(n), atol=200 * n * eps)
    assert WINDOW < DELAYED
