"""Vectors of compiled kernels against NumPy, in both precisions."""

import numba as nb
import numpy as np
import pytest

from qsim.core.device.cpu.vectors import (
    floor,
    get,
    higher,
    lane,
    lanes,
    lower,
    pack,
    put,
    root,
    same,
    total,
    transposed,
    unless,
    wide,
)


@nb.njit
def _work(a, b, out):
    v, w = lanes(a, 1), lanes(b, 3)
    put(out, 0, v + w * 2.0)
    put(out, 4, (3.0 - v) / w)
    put(out, 8, root(w) - same(a[0]))
    put(out, 12, pack(a[0], a[1], get(b, 0), get(b, 1)))
    put(out, 16, total(v))
    put(out, 17, lane(w, 2))
    put(out, 18, get(b, 9))
    put(out, 19, wide(v) * 0.1)
    put(out, 23, -(v - w))


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_numbers_are_those_of_numpy(real):
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0.5, 2.0, (2, 5)).astype(real), rng.uniform(0.5, 2.0, (2, 5)).astype(real)
    out = np.full(28, -1.0, real)
    _work(a.ravel(), b, out)
    v, w = a.ravel()[1:5], b.ravel()[3:7]
    wanted = [v + 2 * w, (3 - v) / w, np.sqrt(w) - a[0, 0], [a[0, 0], a[0, 1], b[0, 0], b[0, 1]]]
    wanted += [[v.sum()], [w[2]], [b[1, 4]], 0.1 * v.astype(float), w - v, [-1.0]]
    np.testing.assert_allclose(out, np.concatenate(wanted), rtol=4 * np.finfo(real).eps)


@nb.njit
def _order(a, out):
    v, w = lanes(a, 0), lanes(a, 4)
    for k, row in enumerate(transposed(v, w, lanes(a, 8), lanes(a, 12))):
        put(out, 4 * k, row)
    put(out, 16, floor(v))
    put(out, 20, lower(v, w))
    put(out, 24, higher(v, w))
    put(out, 28, unless(v, w, a[5], a[15]))


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_rows_and_columns_floors_and_choices_are_those_of_numpy(real):
    a = np.random.default_rng(2).uniform(-3.0, 3.0, 16).astype(real)
    a[2] = np.nan
    out = np.zeros(32, real)
    _order(a, out)
    v, w = a[:4], a[4:8]
    chosen = [np.where(v < w, v, w), np.where(v > w, v, w), np.where(w == a[5], a[15], v)]
    np.testing.assert_array_equal(out, np.concatenate([*a.reshape(4, 4).T, np.floor(v), *chosen]))


def test_arrays_in_another_order_are_refused():
    with pytest.raises(nb.TypingError, match="vectors need contiguous arrays"):
        _work(np.ones(10), np.asfortranarray(np.ones((5, 2))), np.zeros(28))
