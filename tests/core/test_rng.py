"""Random numbers: published vectors, equality of all twins, statistics that can fail."""

import numpy as np
import pytest
from scipy import stats

from qsim.core.device import kernels, rng
from qsim.core.device.cpu import rng as rng_numba
from qsim.core.device.device import cuda_status, select

# Salmon et al., Random123 1.14, kat_vectors: counter, key, result of philox4x32 with 10 rounds
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
KEY = rng.key_from_seed(20240301)


def counters(n):
    return np.random.default_rng(3).integers(0, 2**32, size=(n, 4), dtype=np.uint32)


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_published_vectors(counter, key, expected):
    assert tuple(rng.philox4x32(counter, key)) == expected
    assert rng_numba.philox(*counter, *key) == expected


def test_numpy_twin_is_vectorised_over_any_shape():
    many = counters(24).reshape(2, 3, 4, 4)
    words = rng.philox4x32(many, KEY)
    assert words.shape == many.shape
    assert words.dtype == np.uint32
    np.testing.assert_array_equal(words[1, 2, 3], rng.philox4x32(many[1, 2, 3], KEY))


def test_numba_twin_gives_the_same_bits():
    for counter in counters(200):
        assert rng_numba.philox(*counter, *KEY) == tuple(rng.philox4x32(counter, KEY))


@pytest.mark.parametrize("draw", [0, 1, 6, 7])
def test_uniforms_of_both_twins_are_equal_in_every_bit(draw):
    numbers = rng.uniform(KEY, 3, 17, 50, draw=draw, first=1000)
    twins = [rng_numba.uniform2(*KEY, 3, 17, 1000 + i, draw // 2)[draw % 2] for i in range(50)]
    assert numbers.tobytes() == np.array(twins).tobytes()


@pytest.mark.parametrize("draw", [0, 1, 6, 7])
def test_one_number_is_that_of_many_in_every_bit(draw):
    """Words of the counter wrap as 32 bits do."""
    for stream, step, first in ((3, 17, 1000), (0x8003, 2**32 - 1, 2**32 - 50)):
        many = rng.uniform(KEY, stream, step, 50, draw=draw, first=first)
        each = [rng.uniform(KEY, stream, step, 1, draw=draw, first=first + i) for i in range(50)]
        assert many.tobytes() == np.concatenate(each).tobytes()


@pytest.mark.parametrize("draw", [0, 1])
def test_normals_of_both_twins_agree_to_rounding(draw):
    numbers = rng.normal(KEY, 3, 17, 500, draw=draw)
    twins = [rng_numba.normal2(*KEY, 3, 17, i, 0)[draw] for i in range(500)]
    # a few roundings each in log, sqrt, 2 pi u and cos, on numbers of size up to 9
    np.testing.assert_allclose(numbers, twins, rtol=0, atol=16 * np.finfo(float).eps * 9)


@pytest.mark.parametrize("draws", [1, 4, 7])
def test_normals_side_by_side_are_those_of_each_draw(draws):
    found = rng.normals(KEY, 3, 5, 33, draws, first=9)
    for k in range(draws):
        np.testing.assert_array_equal(found[:, k], rng.normal(KEY, 3, 5, 33, draw=k, first=9))


def test_numbers_depend_on_the_global_index_only():
    """Any split over processes gives the same numbers as one process."""
    whole = rng.normal(KEY, 1, 5, 100)
    np.testing.assert_array_equal(whole[60:], rng.normal(KEY, 1, 5, 40, first=60))


def test_each_word_of_the_counter_matters():
    base = rng.uniform(KEY, 1, 2, 4)
    for other in (
        rng.uniform(KEY, 2, 2, 4),
        rng.uniform(KEY, 1, 3, 4),
        rng.uniform(KEY, 1, 2, 4, first=4),
        rng.uniform(KEY, 1, 2, 4, draw=1),
        rng.uniform(KEY, 1, 2, 4, draw=2),
        rng.uniform(rng.key_from_seed(20240302), 1, 2, 4),
    ):
        assert not np.isin(base, other).any()


@pytest.mark.parametrize("word", [0, 0xFFFFFFFF])
def test_uniforms_stay_inside_the_open_interval(word):
    """All bits 0 and all bits 1 are the extremes."""
    value = rng._to_unit(np.array([word], dtype=np.uint64), np.array([word], dtype=np.uint64))[0]
    assert value == (2.0**-53 if word == 0 else 1 - 2.0**-53)
    assert 0.0 < value < 1.0


def test_key_is_that_of_numpys_seed_sequence():
    assert KEY.dtype == np.uint32
    np.testing.assert_array_equal(KEY, np.random.SeedSequence(20240301).generate_state(2))
    assert rng.key_from_seed(2**80).shape == (2,)


def test_drawn_seeds_differ():
    seeds = {rng.draw_seed() for _ in range(10)}
    assert len(seeds) == 10
    assert all(0 <= seed < 2**32 for seed in seeds)


N = 200_000


@pytest.mark.parametrize("draw", [0, 1])
def test_uniforms_are_uniform(draw):
    assert stats.kstest(rng.uniform(KEY, 0, 0, N, draw=draw), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("draw", [0, 1])
def test_normals_are_normal(draw):
    assert stats.kstest(rng.normal(KEY, 0, 0, N, draw=draw), "norm").pvalue > 1e-4


def test_draws_steps_and_neighbours_are_uncorrelated():
    base = rng.normal(KEY, 0, 0, N)
    others = [
        rng.normal(KEY, 0, 0, N, draw=1),
        rng.normal(KEY, 0, 0, N, draw=2),
        rng.normal(KEY, 0, 1, N),
        rng.normal(KEY, 1, 0, N),
        np.roll(base, 1),
    ]
    for other in others:
        assert abs(np.mean(base * other)) < 5 / np.sqrt(N)
        assert abs(np.mean((base**2 - 1) * (other**2 - 1))) < 5 * 2 / np.sqrt(N)


def test_the_statistics_above_can_fail():
    """A generator that is wrong in the fourth digit, or repeats a draw, must not pass."""
    numbers = rng.normal(KEY, 0, 0, N)
    assert stats.kstest(1.02 * numbers, "norm").pvalue < 1e-4
    assert stats.kstest(rng.uniform(KEY, 0, 0, N) ** 1.02, "uniform").pvalue < 1e-4
    assert abs(np.mean(numbers * rng.normal(KEY, 0, 0, N))) > 5 / np.sqrt(N)


# ---------------------------------------------------------------------------------------------- CUDA


@pytest.fixture(scope="module")
def cuda():
    if not (status := cuda_status()).count:
        pytest.skip(status.reason)
    return select("cuda")[0]


@pytest.mark.gpu
def test_philox_on_the_device_gives_the_same_bits(cuda):
    n = 1000
    many = counters(n)
    many[: len(VECTORS)] = [counter for counter, _, _ in VECTORS]
    with cuda.use():
        inputs, words = cuda.asarray(many), cuda.xp.empty((n, 4), dtype=np.uint32)
        kernel = kernels.function("core/device", "selftest", "philox")
        for key in [KEY, *(np.array(key, dtype=np.uint32) for _, key, _ in VECTORS)]:
            kernel(kernels.blocks(n), (256,), (inputs, words, *key, np.int32(n)))
            np.testing.assert_array_equal(cuda.to_host(words), rng.philox4x32(many, key))


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "atol"), [("uniform", 0.0), ("normal", 16 * np.finfo(float).eps * 9)])
def test_numbers_on_the_device_agree(cuda, name, atol):
    n, stream, step, first, pair = 1000, 3, 17, 5000, 4
    with cuda.use():
        out = cuda.xp.empty((n, 2))
        integers = [np.uint32(number) for number in (*KEY, stream, step, first, pair)]
        kernels.function("core/device", "selftest", name)(
            kernels.blocks(n), (256,), (out, *integers, np.int32(n))
        )
        found = cuda.to_host(out)
    for odd in (0, 1):
        host = getattr(rng, name)(KEY, stream, step, n, draw=2 * pair + odd, first=first)
        np.testing.assert_allclose(found[:, odd], host, rtol=0, atol=atol)
