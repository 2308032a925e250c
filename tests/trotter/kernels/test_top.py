"""Rotation of the top bits on the way to other processes: tensor products = CPU twin = CUDA, with buffers and without.

Tolerance: each amplitude is the sum of at most 16 products, of which each is rounded twice; ``64 eps`` of the largest.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.trotter.kernels.layers.top import Act, Columns, rotate_top

EPS = {np.dtype(np.complex128): 2.3e-16, np.dtype(np.complex64): 1.2e-7}
HADAMARD = np.array([[1.0, 1.0], [1.0, -1.0]])


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def random(generator, *shape):
    return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)


def acted(parts, act, gates):
    """Return the parts (2^g, columns) after the action on the top bits, by one matrix of all of them."""
    g = len(gates)
    whole = np.eye(1)
    for k in range(g):
        one = {Act.MOVE: np.eye(2), Act.ROTATE: HADAMARD, Act.GATES: gates[k]}[act]
        # the lowest bit is the last factor
        whole = np.kron(one, whole)
    return whole @ parts


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("g", [1, 2, 3, 4])
def test_parts_in_place_leaving_and_arriving(device, g, dtype):
    """One result, wherever parts lie before and after: in the state, or all but the own one in a buffer."""
    generator = np.random.default_rng(g)
    parts, columns = 1 << g, 1 << 11
    for act, width, low in (
        (Act.MOVE, 32, 64),
        (Act.ROTATE, 33, 1),
        (Act.GATES, columns, 0),
        (Act.ROTATE, 1, 5),
    ):
        psi = random(generator, parts, columns).astype(dtype)
        factors, gates = random(generator, parts), random(generator, g, 2, 2)
        rank = int(generator.integers(parts))
        others = [rank ^ step for step in range(1, parts)]
        here = slice(low, low + width)
        wanted = acted(psi[:, here] * factors[:, None], act, gates)
        scale = 64 * EPS[np.dtype(dtype)] * np.abs(wanted).max()
        for arrived in (None, False, True):
            state, buffer = psi.copy(), np.full((parts - 1, width), 7.0 + 0j, dtype)
            if arrived:
                buffer[:] = state[others, here]
                state[others, here] = 9.0
            on = device.asarray(state.reshape(-1)), device.asarray(buffer)
            some = Columns(on[0], low, width, rank, None if arrived is None else on[1], bool(arrived))
            rotate_top(device, some, factors, act, gates)
            found, sent = (device.to_host(array) for array in on)
            found = found.reshape(parts, columns)
            if arrived is False:
                # parts that leave are read from the state, which keeps them
                assert np.array_equal(found[others], psi[others])
                found[others, here] = sent
            assert np.abs(found[:, here] - wanted).max() <= scale
            elsewhere = np.ones(columns, bool)
            elsewhere[here] = False
            assert np.array_equal(found[:, elsewhere], psi[:, elsewhere])


def test_columns_and_buffers_that_do_not_fit(device):
    psi = device.asarray(np.zeros(64, complex))
    for some in (Columns(psi, 24, 16, 0), Columns(psi, 0, 8, 0, device.asarray(np.zeros(7, complex)))):
        with pytest.raises(ValueError, match="amplitudes"):
            rotate_top(device, some, np.ones(2, complex), Act.ROTATE)
