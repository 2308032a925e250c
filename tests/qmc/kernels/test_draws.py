"""Normals of moves against NumPy, from the words of the same counters."""

import numba as nb
import numpy as np

from qsim.core.device.cpu.rng import philox
from qsim.core.device.cpu.vectors import pack, put
from qsim.qmc.kernels.common.draws_cpu import logarithms, turns, two_normals, unit
from qsim.qmc.kernels.common.jit import JIT


@nb.njit(**{**JIT, "cache": False})
def _draw(out, words):
    for i in range(out.shape[0]):
        two_normals(1, 2, 3, 4, i, 8, 16, out[i])
        for e in range(2):
            a, b, c, d = philox(4, i, 8 * (e + 1), 3, 1, 2)
            words[i, e, 0], words[i, e, 1], words[i, e, 2], words[i, e, 3] = (
                unit(a),
                unit(b),
                unit(c),
                unit(d),
            )


@nb.njit(**{**JIT, "cache": False})
def _functions(u, out):
    for i in range(0, u.size, 4):
        put(out[0], i, logarithms(u[i], u[i + 1], u[i + 2], u[i + 3]))
        sine, cosine = turns(pack(u[i], u[i + 1], u[i + 2], u[i + 3]))
        put(out[1], i, sine)
        put(out[2], i, cosine)


def test_normals_are_those_of_box_and_muller():
    """At most 6.7 in size; NumPy rounds the angle, whose error is an ulp of 2 pi: 6.7 * 9e-16."""
    out, words = np.zeros((1000, 2, 4)), np.zeros((1000, 2, 4))
    _draw(out, words)
    a, b, c, d = np.moveaxis(words, 2, 0)
    s, t = np.sqrt(-2 * np.log(a)), np.sqrt(-2 * np.log(c))
    wanted = np.stack(
        [s * np.cos(2 * np.pi * b), s * np.sin(2 * np.pi * b), t * np.cos(2 * np.pi * d)], axis=2
    )
    np.testing.assert_allclose(out[..., :3], wanted, atol=7e-15)
    assert np.isclose(out[..., :3].std(), 1.0, atol=0.04)  # four standard errors of 6000 numbers


def test_functions_of_numbers_near_the_ends_and_between():
    """Logarithms to 2 ulp; sines and cosines of exact angles to 1e-15."""
    ends = (np.arange(1000) + 0.5) * 2.0**-32
    between = (np.random.default_rng(3).integers(0, 2**32, 1000) + 0.5) * 2.0**-32
    quarters = np.arange(1, 5) / 4 - 2.0**-33
    u = np.concatenate([ends, 1 - ends, between, quarters])
    out = np.zeros((3, u.size))
    _functions(u, out)
    np.testing.assert_allclose(out[0], np.log(u), rtol=2 * np.finfo(float).eps)
    angle = 2 * np.arccos(np.longdouble(-1)) * u
    np.testing.assert_allclose(out[1], np.sin(angle).astype(float), atol=1e-15, rtol=0)
    np.testing.assert_allclose(out[2], np.cos(angle).astype(float), atol=1e-15, rtol=0)
