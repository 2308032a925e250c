"""Walkers that change their rank: whose they are, which have to be sent, and that nothing of them is lost on the way."""

import math

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.device.parallel import SerialComm, gathered
from qsim.qmc.kernels.common.types import State
from qsim.qmc.kernels.estimators.estimators import BLOCK
from qsim.qmc.kernels.walkers.branching import FEW, settle
from qsim.qmc.kernels.walkers.rows import copy_rows, put_rows, take_rows
from qsim.qmc.sampling.branching import Population
from qsim.qmc.sampling.exchange import bounds, crossing, groups, has_whole_blocks, has_whole_groups
from qsim.qmc.sampling.numbers import Numbers
from qsim.qmc.sampling.series import Agreement
from qsim.qmc.sampling.walkers import Walkers

RANDOM = np.random.default_rng(5)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


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
        assert sizes.max() <= math.ceil(count / ranks) + (FEW if has_whole_groups(count, ranks) else BLOCK)
    else:
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("count", [1, 128, 1024, 1025, 2048, 3000, 10_000, 50_000, 16 * 8192])
def test_groups_are_whole_blocks_for_one_launch(count):
    edges = groups(count)
    sizes = np.diff(edges)
    assert edges[0] == 0
    assert edges[-1] == count
    assert (edges[:-1] % BLOCK == 0).all()
    assert 0 < sizes.min() <= sizes.max() <= FEW
    assert sizes[:-1].max(initial=BLOCK) - sizes[:-1].min(initial=FEW) <= BLOCK
    # GPUs with some thousand walkers each branch by themselves
    assert all(has_whole_groups(ranks * each, ranks) for ranks in (1, 2, 3, 8) for each in (1024, 2048, 8192))
    assert not has_whole_groups(768, 2)


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


def ensemble(kind, walkers):
    """Arrays as a state has them: real or complex, of one or two precisions, integers."""

    def numbers(*shape):
        made = RANDOM.normal(size=shape) * 10.0 ** RANDOM.integers(-30, 30, shape)
        return (
            (made + 1j * RANDOM.normal(size=shape)).astype(kind)
            if np.dtype(kind).kind == "c"
            else made.astype(kind)
        )

    positions, age = RANDOM.normal(size=(walkers, 2, 3)), RANDOM.integers(0, 2**60, walkers)
    return [
        positions,
        numbers(walkers, 2, 5, 1),
        numbers(walkers, 2, 0, 0),
        RANDOM.normal(size=walkers),
        age,
    ]


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.complex128, np.complex64])
def test_rows_of_walkers_are_put_back_bit_by_bit(device, kind):
    """Also where places are the walkers of others, as of copies."""
    one, other = ensemble(kind, 600), ensemble(kind, 500)
    source, places = RANDOM.integers(0, 600, 333), RANDOM.permutation(500)[:333]
    on, back = device.asarray, device.to_host
    mine, theirs = [on(array) for array in one], [on(array) for array in other]
    rows = take_rows(device, mine, on(source))
    assert rows.dtype == np.uint32
    put_rows(device, theirs, on(places), rows)
    for array, before, after in zip(one, other, theirs, strict=True):
        expected = before.copy()
        expected[places] = array[source]
        assert back(after).tobytes() == expected.tobytes()
    assert take_rows(device, mine, on(source[:0])).shape == (0, rows.shape[1])
    with pytest.raises(ValueError, match="words"):
        put_rows(device, theirs, on(places[:5]), rows)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_rows_are_copied_in_place(device, kind):
    """Those that are copied keep their places, as `settle` arranges."""
    arrays = ensemble(kind, 700)
    indices = settle(np.sort(RANDOM.integers(0, 700, 700)))
    there = [device.asarray(array.copy()) for array in arrays]
    copy_rows(device, there, device.asarray(indices))
    for before, after in zip(arrays, there, strict=True):
        assert device.to_host(after).tobytes() == before[indices].tobytes()


def test_rows_of_all_ranks_in_their_order():
    parts = [RANDOM.normal(size=(n, 3)) for n in (2, 0, 5)]

    class Comm:
        def gather_numbers(self, sent):
            assert sent.shape == (5, 3)
            return np.stack([np.concatenate([part, np.zeros((5 - len(part), 3))]) for part in parts])

    found = gathered(Comm(), parts[0], np.array([2, 0, 5]))
    assert np.array_equal(found, np.concatenate(parts))


def some_walkers(count):
    """Arrays of a state, by name."""
    return {
        "R": RANDOM.normal(size=(count, 1, 3)),
        "rows": np.zeros((count, 1, 5, 1)),
        "inverse": np.zeros((count, 2, 1, 1)),
        "expansion": np.zeros((count, 0)),
        "log_psi": np.zeros(count),
        "sign": np.ones(count),
        "energy": RANDOM.normal(size=(count, 6)),
        "weight": RANDOM.uniform(0.5, 1.5, count),
        "moves": RANDOM.normal(size=(count, 4)),
        "age": RANDOM.integers(0, 20, count),
    }


def on_ranks(device, comm, arrays):
    """Walkers without a trial function."""
    made = object.__new__(Walkers)
    made.device, made.comm, made._numbers, made._groups = device, comm, None, None
    made.state = State(**{name: device.asarray(array.copy()) for name, array in arrays.items()})
    return made


def test_walkers_branch_in_their_group_until_all_do(device):
    """Groups keep their weight and their walkers; together all have one weight, and walkers go anywhere."""
    count, uniform = 1100, np.array([0.3])
    arrays = some_walkers(count) | {"age": np.zeros(count, np.int64)}
    arrays["weight"][:512] *= 1.1
    population, edges = Population(count), groups(count)
    assert edges.tolist() == [0, 512, 1100]
    for together in (False, True):
        walkers = on_ranks(device, SerialComm(), arrays)
        before = walkers.branch(population, uniform, together=together)
        assert device.to_host(before.weights).tobytes() == arrays["weight"].tobytes()
        weight, R = device.to_host(walkers.state.weight), device.to_host(walkers.state.R)
        source = np.array([np.flatnonzero((arrays["R"] == r).all(axis=(1, 2)))[0] for r in R])
        assert 700 < np.unique(source).size < count
        # those that live on keep their places
        assert (source[source] == source).all()
        inside = np.searchsorted(edges, source, side="right") == np.searchsorted(
            edges, np.arange(count), side="right"
        )
        assert inside.all() == (not together)
        for own in (slice(0, 512), slice(512, count)) if not together else (slice(0, count),):
            assert np.ptp(weight[own]) == 0.0
            assert weight[own].sum() == pytest.approx(arrays["weight"][own].sum(), rel=1e-9)


class Waiting(Exception):
    """The other rank has not sent yet."""


class Pair:
    """One of two ranks that run one after the other, each again once both have sent."""

    size = 2

    def __init__(self, rank, sent):
        self.rank, self.sent = rank, sent

    def gather_numbers(self, values):
        self.sent[self.rank] = values
        if len(self.sent) < 2:
            raise Waiting
        return np.stack([self.sent[0], self.sent[1]])


@pytest.mark.parametrize("count", [6 * BLOCK, 3 * BLOCK + 10])
def test_sums_of_two_ranks_and_two_generations_are_one_message(device, count):
    """Of whole blocks and, where a block would lie on both ranks, of the walkers themselves."""
    half = int(bounds(count, 2)[1])
    arrays = some_walkers(count)

    def walkers(comm):
        made = on_ranks(device, comm, arrays)
        if comm.size == 2:  # what the other rank has is out of date here
            foreign = slice(half, count) if comm.rank == 0 else slice(0, half)
            made.state.weight[foreign] = -1.0
            made.state.age[foreign] = -1
        return made

    def read(comm):
        ensemble = walkers(comm)
        found = Numbers(ensemble, 0.1, 0.5, 3)
        for _ in range(2):
            found.add()
            ensemble.mine.energy[...] *= 1.1
            ensemble.mine.moves[...] = 0.5
        found.weigh(device.asarray(np.array([1, 10, 100]) * (1 + comm.rank)))
        found.send()
        told = found.read(np.array([comm.rank + 0.5, 7.0]))
        assert told[:, 0].tolist() == [0.5, 1.5][: comm.size]
        assert (told[:, 1] == 7.0).all()
        return found

    wanted, sent = read(SerialComm()), {}
    with pytest.raises(Waiting):
        read(Pair(0, sent))
    for rank in (1, 0):
        found = read(Pair(rank, sent))
        assert found.totals.tobytes() == wanted.totals.tobytes()
        assert found.groups.tobytes() == wanted.groups.tobytes()
        assert found.weighed.tolist() == [3, 30, 300]
    assert wanted.totals.shape == (2, 13)
    weight, energy = arrays["weight"], arrays["energy"]
    np.testing.assert_allclose(
        wanted.totals[:, 5], np.array([1.0, 1.1]) * (weight @ energy[:, 5]), rtol=1e-12
    )
    np.testing.assert_allclose(wanted.totals[1, 8:12], 0.5 * count, rtol=1e-12)
    np.testing.assert_allclose(wanted.groups, [weight.mean()], rtol=1e-12)
    if count % (2 * BLOCK) == 0:
        assert sent[0].nbytes == 8 * (2 + 2 * 3 * 13 + 3)


def test_ranks_report_together_at_first_and_then_when_one_has_waited():
    ranks = [Agreement(2) for _ in range(2)]
    for _ in range(2):
        assert all(rank.due for rank in ranks)
        for rank in ranks:
            rank.reported()
            rank.learn(np.array([0.3, 0.9]))
            assert not rank.due
            rank.learn(np.array([1.1, 0.2]))
    alone = Agreement(1)
    alone.reported()
    assert alone.due
    assert 0.0 <= alone.waited() < 60.0
