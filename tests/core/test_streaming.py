"""Stores past the caches leave what ordinary ones do, and are such."""

import numba as nb
import numpy as np
import pytest

from qsim.core.device.cpu.streaming import settle, stream


@nb.njit
def _copy(source, out):
    for place in range(source.size):
        stream(out, place, source[place])
    settle()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_numbers_arrive_wherever_they_lie(kind, step, first):
    rng = np.random.default_rng([step, first])
    source = rng.standard_normal(40).astype(kind)
    if source.dtype.kind == "c":
        source += 1j * rng.standard_normal(40).astype(kind)
    out = np.zeros(130, kind)
    _copy(source, out[first::step][:40])
    wanted = np.zeros(130, kind)
    wanted[first::step][:40] = source
    np.testing.assert_array_equal(out, wanted)


def test_stores_are_streaming_and_settled():
    _copy(np.zeros(3, complex), np.zeros(3, complex))
    for text in _copy.inspect_llvm().values():
        assert "!nontemporal" in text
        assert "fence seq_cst" in text


def test_other_numbers_are_refused():
    with pytest.raises(TypeError, match="cannot be stored"):
        _copy(np.zeros(3), np.zeros(3, np.float32))
