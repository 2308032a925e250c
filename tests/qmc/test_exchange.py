"""Walkers that change their rank: whose they are, which have to be sent, and that nothing of them is lost on the way."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.qmc.kernels.estimators import BLOCK
from qsim.qmc.sampling.exchange import bounds, crossing, gathered, has_whole_blocks, packed, unpack

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 5, 127, 128, 1000, 3 * 128, 6 * 128, 50_000])
def test_every_walker_has_one_rank(count, ranks):
    edges = bounds(count, ranks)
    assert edges[0] == 0
    assert edges[-1] == count
    sizes = np.diff(edges)
    assert (sizes >= 0).all()
    if has_whole_blocks(count, ranks):
        assert (edges[1:-1] % BLOCK == 0).all()
        assert sizes.max() <= math.ceil(count / ranks) + BLOCK
    else:
        assert sizes.max() - sizes.min() <= 1


def test_those_that_cross_are_the_sources_of_foreign_places():
    for _ in range(50):
        old, new, ranks = (
            int(RANDOM.integers(1, 400)),
            int(RANDOM.integers(1, 400)),
            int(RANDOM.integers(1, 6)),
        )
        indices = RANDOM.integers(0, old, new)
        places, edges = bounds(new, ranks), bounds(old, ranks)
        owner_of_place = np.searchsorted(places, np.arange(new), side="right") - 1
        owner_of_source = np.searchsorted(edges, indices, side="right") - 1
        expected = np.unique(indices[owner_of_place != owner_of_source])
        assert crossing(indices, places, edges).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.complex128, np.complex64])
def test_packed_walkers_are_unpacked_bit_by_bit(kind):
    def numbers(*shape):
        made = RANDOM.normal(size=shape) * 10.0 ** RANDOM.integers(-30, 30, shape)
        return (
            (made + 1j * RANDOM.normal(size=shape)).astype(kind)
            if np.dtype(kind).kind == "c"
            else made.astype(kind)
        )

    def made():
        return SimpleNamespace(
            R=RANDOM.normal(size=(6, 2, 3)), rows=numbers(6, 2, 5, 1), age=RANDOM.integers(0, 2**50, 6)
        )

    names, one, other = ("R", "rows", "age"), made(), made()
    own = np.array([4, 1, 3])
    rows = packed([getattr(one, name)[own] for name in names])
    assert rows.dtype == np.float64
    unpack(rows, other, names, own)
    for name in names:
        assert np.array_equal(getattr(other, name)[own], getattr(one, name)[own])
        assert not np.array_equal(getattr(other, name)[0], getattr(one, name)[0])
    assert packed([getattr(one, name)[:0] for name in names]).shape == (0, rows.shape[1])


def test_rows_of_all_ranks_in_their_order():
    parts = [RANDOM.normal(size=(n, 3)) for n in (2, 0, 5)]

    class Comm:
        def gather_numbers(self, sent):
            assert sent.shape == (5, 3)
            return np.stack([np.concatenate([part, np.zeros((5 - len(part), 3))]) for part in parts])

    found = gathered(Comm(), parts[0], np.array([2, 0, 5]))
    assert np.array_equal(found, np.concatenate(parts))
