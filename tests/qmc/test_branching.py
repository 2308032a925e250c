"""Branching: the number of copies is right on average, the population is kept, runaways are errors.

Chance: seeds are fixed; the bounds of the averages are 5 standard deviations, which another seed would pass with a
probability of 1 - 1e-6 per number.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.core.device.device import cpu
from qsim.core.device.rng import key_from_seed, uniform
from qsim.core.errors import NumericsError
from qsim.qmc.kernels.walkers.branching import comb, settle, settled_comb, settled_combs, shifts
from qsim.qmc.sampling.branching import CONTROLS, Population
from qsim.qmc.statistics.blocking import reblock, warm_up


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def some_weights(n, seed=0, spread=0.3):
    """Return weights of mean near 1."""
    return np.exp(spread * np.random.default_rng([n, seed]).standard_normal(n))


def branch(device, population, weights, uniforms):
    """Branch on a device; return indices and weights on the host."""
    found = population.branch(device.asarray(weights), np.asarray(uniforms, float))
    return tuple(device.to_host(array) for array in found)


def copies(indices, n):
    return np.bincount(indices, minlength=n)


# --- the comb -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 33, 100])
def test_copies_of_the_comb_average_to_the_weights(device, n):
    """Exactly: as the shift runs over a fine uniform grid of m values, each count is off by less than one shift."""
    weights, m = some_weights(n), 2000
    population = Population(n, limits=(0.0, 10.0))
    total = np.zeros(n)
    for k in range(m):
        indices, new = branch(device, population, weights, [(k + 0.5) / m])
        found = copies(indices, n)
        assert indices.shape == new.shape == (n,)
        expected = n * weights / weights.sum()
        assert np.all(found >= np.floor(expected - 1e-8))
        assert np.all(found <= np.ceil(expected + 1e-8))
        total += found
    np.testing.assert_allclose(total / m, n * weights / weights.sum(), rtol=0, atol=2 / m)


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.floats(0.0, 8.0), min_size=1, max_size=50).filter(lambda w: sum(w) > 0.1),
    shift=st.floats(0.0, 1.0, exclude_min=True, exclude_max=True),
)
def test_comb_keeps_number_and_weight(weights, shift):
    w = np.array(weights)
    population = Population(w.size, limits=(0.0, 1e9))
    indices, new = population.branch(w, np.array([shift]))
    assert np.all(new == new[0])
    assert indices.size == w.size
    assert new.sum() == pytest.approx(w.sum(), rel=1e-9, abs=1e-9 * w.size)
    assert np.all(w[indices] > 0)
    # the definition, with real numbers: the walker under each tooth, but for teeth on an edge
    order = np.argsort(w, kind="stable")
    edges, teeth = np.cumsum(w[order]), (np.arange(w.size) + shift) * w.sum() / w.size
    clear = np.min(np.abs(edges[:, None] - teeth), axis=0) > 1e-7 * w.size
    if clear.all() and np.min(np.diff(w[order]), initial=1.0, where=np.diff(w[order]) > 0) > 1e-9:
        wanted = order[np.searchsorted(edges, teeth, side="right")]
        assert sorted(indices) == sorted(wanted)


def test_comb_with_equal_weights_moves_nothing(device):
    for n in (1, 31, 1000):
        indices, new = branch(device, Population(n), np.full(n, 1.25), [0.37])
        np.testing.assert_array_equal(indices, np.arange(n))
        np.testing.assert_allclose(new, 1.25, rtol=1e-9)


def test_copies_do_not_come_in_bursts():
    """Of nearly equal weights about as many walkers die for every shift: sum |w - 1| / 2."""
    n = 2000
    weights = some_weights(n, spread=0.01)
    weights *= n / weights.sum()
    dead = [
        (copies(Population(n).branch(weights, np.array([u]))[0], n) == 0).sum()
        for u in np.linspace(0.01, 0.99, 99)
    ]
    assert np.mean(dead) == pytest.approx(np.abs(weights - 1).sum() / 2, rel=0.1)
    assert np.ptp(dead) <= 2


def test_survivors_keep_their_places(device):
    n = 500
    indices, _ = branch(device, Population(n, limits=(0.1, 10)), some_weights(n, spread=1.0), [0.2])
    alive = copies(indices, n) > 0
    assert 0.2 < alive.mean() < 0.95
    np.testing.assert_array_equal(indices[alive], np.arange(n)[alive])


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40).flatmap(lambda n: st.lists(st.integers(0, n - 1), min_size=n, max_size=n)))
def test_settling_is_a_permutation(places):
    turned = (np.array(places, np.int64) * 7919 + 3) % 40  # equal ones side by side, in an order of their own
    given_indices = np.array(places, np.int64)[np.argsort(turned, kind="stable")]
    found = settle(given_indices)
    np.testing.assert_array_equal(np.sort(found), np.sort(given_indices))
    present = np.unique(given_indices)
    np.testing.assert_array_equal(found[present], present)


def test_comb_makes_the_target_of_another_number(device):
    """The first branching after a variational run with more walkers; expectations scale with the ratio."""
    weights = some_weights(80)
    population = Population(50, limits=(0.5, 2.0))
    counts = np.zeros(80)
    for k in range(1000):
        indices, new = branch(device, population, weights, [(k + 0.5) / 1000])
        assert indices.size == 50
        assert new.sum() == pytest.approx(weights.sum(), rel=1e-9)
        counts += copies(indices, 80)
    np.testing.assert_allclose(counts / 1000, 50 * weights / weights.sum(), atol=2e-3)


def test_weighted_averages_are_kept(device):
    """Sum of new weights times any function of the walkers, averaged over 4000 counter-based shifts."""
    n, key = 64, key_from_seed(1)
    weights, f = some_weights(n, spread=0.6), np.random.default_rng(4).standard_normal(n)
    population = Population(n, limits=(0.1, 10))
    sums = []
    for step in range(4000):
        indices, new = branch(device, population, weights, uniform(key, 5, step, 1))
        sums.append(np.sum(new * f[indices]))
    assert abs(np.mean(sums) - weights @ f) < 5 * np.std(sums) / np.sqrt(4000)


@pytest.mark.parametrize("sizes", [[1], [31], [1024], [1, 33, 640], [1024, 1023, 5, 128]])
def test_groups_branch_like_populations_of_their_own(device, sizes):
    """With shifts of their own, and weights whose integers are sums of powers of two; a group without weight stays as it is."""
    edges, uniform = np.cumsum([0, *sizes]), 0.3141
    whole = np.rint(some_weights(edges[-1], spread=0.5) * 2.0**32).astype(np.int64)
    if len(sizes) > 3:
        whole[edges[2] : edges[3]] = 0
    weights = device.asarray(np.full(edges[-1], -1.0))
    found = settled_combs(device.asarray(whole), device.asarray(edges), 5, uniform, 2.0**32, weights)
    found, weights = device.to_host(found), device.to_host(weights)
    for first, last, shift in zip(edges, edges[1:], shifts(uniform, 5, len(sizes)), strict=False):
        own, n = slice(first, last), int(last - first)
        if not whole[own].any():
            assert found[own].tolist() == list(range(first, last))
            assert (weights[own] == -1.0).all()
            continue
        population = Population(n, limits=(0.0, 1e9))
        wanted, mean = population.choose(whole[own], int(whole[own].sum()), np.array([shift]))
        np.testing.assert_array_equal(found[own], wanted + first)
        assert (weights[own] == mean).all()


def test_shifts_of_combs_are_uniform():
    """Of every group, over the uniform number; that of the first is the number itself."""
    grid = (np.arange(1000) + 0.5) / 1000
    found = np.array([shifts(u, 0, 40) for u in grid])
    np.testing.assert_array_equal(found[:, 0], grid)
    assert found.min() >= 0.0
    assert found.max() < 1.0
    wanted = np.broadcast_to(grid[:, None], found.shape)
    np.testing.assert_allclose(np.sort(found, axis=0), wanted, atol=1.1e-3)


# --- birth and death ------------------------------------------------------------------------------


def test_copies_of_birth_and_death_average_to_the_weights(device):
    """4000 generations of 40 walkers, all within 5 standard deviations; copies are the floor or the ceiling."""
    n, m = 40, 4000
    weights, key = some_weights(n, spread=0.5), key_from_seed(2)
    population = Population(n, "birth_death", (0.1, 10.0))
    total = np.zeros(n)
    for step in range(m):
        indices, new = branch(device, population, weights, uniform(key, 5, step, n))
        found = copies(indices, n)
        assert np.all((found == np.floor(weights)) | (found == np.ceil(weights)))
        assert indices.size == new.size
        assert np.all(new == 1)
        total += found
    part = weights % 1
    np.testing.assert_array_less(np.abs(total / m - weights), 5 * np.sqrt(part * (1 - part) / m) + 1e-9)


def test_number_of_uniforms():
    assert Population(9).draws(9) == 1
    assert Population(9, "birth_death").draws(9) == 9
    with pytest.raises(ValueError, match="uniform numbers"):
        Population(9).branch(np.ones(9), np.full(9, 0.5))


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("size", [0.4, 2.1])
def test_a_population_outside_of_its_limits_is_an_error(device, control, size):
    population = Population(100, control)
    uniforms = np.full(population.draws(100), 0.5)
    with pytest.raises(NumericsError, match=r"left its limits, 50 to 200 .*target of 100") as caught:
        branch(
            device,
            population,
            np.full(100, size) if control == "comb" else np.full(100, 3 * size - 0.9),
            uniforms,
        )
    assert "timesteps" in caught.value.hint
    assert "Jastrow" in caught.value.hint


def test_limits_are_allowed_values():
    population = Population(100)
    population.check(50)
    population.check(200)
    for size in (49.9, 200.1, 0.0, np.nan):
        with pytest.raises(NumericsError, match="limits"):
            population.check(size)
    with pytest.raises(ValueError, match="not a population"):
        Population(100, limits=(1.5, 2.0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1, 2000.0])
@pytest.mark.parametrize("control", CONTROLS)
def test_runaway_walkers_are_named(device, control, bad):
    weights = np.ones(64)
    weights[[17, 20]] = bad
    population = Population(64, control)
    with pytest.raises(NumericsError, match=r"walker 17 is .*2 of 64"):
        branch(device, population, weights, np.full(population.draws(64), 0.5))


# --- trial energy and age -------------------------------------------------------------------------


def test_trial_energy():
    population = Population(1000)
    assert population.trial_energy(-2.9, 1000.0, 0.01) == pytest.approx(-2.9)
    assert population.trial_energy(-2.9, 1100.0, 0.01) == pytest.approx(-2.9 - np.log(1.1))
    assert population.trial_energy(-2.9, 900.0, 0.01, feedback=0.3) == pytest.approx(-2.9 - 0.3 * np.log(0.9))
    assert population.trial_energy(-2.9, 1100.0, 0.01, warmup=True) == pytest.approx(-2.9 - 25 * np.log(1.1))
    # late feedback that is too strong would swing
    assert population.trial_energy(-2.9, 1100.0, 5.0, feedback=1.0) == pytest.approx(-2.9 - 0.1 * np.log(1.1))
    with pytest.raises(NumericsError, match="limits"):
        population.trial_energy(-2.9, 2001.0, 0.01)


@pytest.mark.parametrize(("tau", "feedback"), [(0.05, 2.0), (0.05, 100.0), (2.0, 1.0)])
@pytest.mark.parametrize("warmup", [False, True])
def test_late_feedback_restores_the_population(tau, feedback, warmup):
    """Walkers that all have the same energy, and a sum of weights that acts two generations later: it goes to the target."""
    population = Population(1000)
    totals = [1500.0, 1500.0]
    for _ in range(300):
        trial = population.trial_energy(-1.0, totals[-2], tau, feedback, warmup=warmup)
        totals.append(totals[-1] * np.exp(tau * (trial + 1.0)))
    away = np.log(np.array(totals) / 1000)
    a = tau * min(feedback, 0.5 / tau) if not warmup else 0.25
    # x'' = x' - a x: roots z, whose larger one tells how fast
    rate = np.abs(np.roots([1.0, -1.0, a])).max()
    assert rate < 0.96
    assert abs(away[-1]) < 1e-4
    assert np.abs(away).max() <= np.log(1.5) + 1e-12
    if not warmup and a <= 0.25:
        assert away[60] / away[50] == pytest.approx(rate**10, rel=1e-3)


def test_persistent_walkers_lose_weight(device):
    weights, ages = np.array([3.0, 0.2, 3.0, 1.0]), np.array([11, 11, 10, 0])
    found, count = Population(4, max_age=10).limit_old(device.asarray(weights), device.asarray(ages))
    np.testing.assert_array_equal(device.to_host(found), [0.5, 0.2, 3.0, 1.0])
    assert int(count) == 2


# --- all of it together ---------------------------------------------------------------------------


def diffusion(control, tau, walkers, blocks, steps, seed):
    """Diffusion Monte Carlo of a particle in r^2/2 with the guide exp(-0.4 r^2); return energies and weights of blocks.

    Sums steer, and weights choose, one generation late.
    """
    generator, population = np.random.default_rng(seed), Population(walkers, control)
    x = generator.standard_normal((walkers, 3)) * np.sqrt(1 / 1.6)

    def local(x):
        return 1.2 + 0.18 * (x * x).sum(axis=1)

    weight, trial, sums = np.ones(walkers), 1.5375, np.zeros(2)
    data, estimate, held, late = [], 1.5375, None, float(walkers)
    for block in range(blocks):
        sums[:] = 0
        for _ in range(steps):
            before = local(x)
            # the exact propagator of the drift-diffusion part: no rejection, and an error of order tau^2 in all
            noise = generator.standard_normal(x.shape)
            x = x * np.exp(-0.8 * tau) + np.sqrt(-np.expm1(-1.6 * tau) / 1.6) * noise
            energy = local(x)
            weight = weight * np.exp(tau * (trial - 0.5 * (before + energy)))
            sums += (weight @ energy, weight.sum())
            trial, late = population.trial_energy(estimate, late, tau), weight.sum()
            if held is not None:
                # copies have what their walker has gained since
                indices, new = population.branch(held, generator.random(population.draws(len(held))))
                x, weight = x[indices], new * (weight / held)[indices]
            held = weight
        data.append((sums[0] / sums[1], sums[1]))
        # the average since the early transient steers; it settles while blocks are still cut as warm-up
        estimate = np.mean([e for e, _ in data[block // 2 :]])
    return np.array(data).T


@pytest.mark.parametrize("control", CONTROLS)
def test_diffusion_finds_the_ground_state(control):
    """The energy 3/2 of the oscillator from a guide of 1.5375, within 4 standard deviations (1 in 16000) and their like.

    Splitting costs below 1e-4 at this time step, a population of 1000 about as much.
    """
    energies, weights = diffusion(control, 0.05, 1000, 120, 20, seed=3)
    first = warm_up(energies)
    found = reblock(energies[first:], weights[first:])
    assert first < 40
    assert found.error < 1.5e-3
    assert abs(found.mean - 1.5) < 4 * found.error + 2e-4
    assert abs(reblock(weights[first:] / (20 * 1000)).mean - 1) < 0.02


@pytest.mark.gpu
@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("n", [1, 33, 1024, 1025, 8192, 100_001])
def test_cuda_chooses_the_same_walkers(cuda, control, n):
    population = Population(n, control)
    for seed in range(5):
        weights = some_weights(n, seed, 0.1)
        uniforms = uniform(key_from_seed(seed), 5, 0, population.draws(n))
        for one, other in zip(
            branch(cpu(1), population, weights, uniforms),
            branch(cuda, population, weights, uniforms),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


def test_surplus_copies_fill_the_places_of_the_dead_in_their_order():
    np.testing.assert_array_equal(settle(np.array([0, 0, 2, 2, 5, 5])), [0, 0, 2, 2, 5, 5])
    np.testing.assert_array_equal(settle(np.array([1, 1, 1, 3, 4, 4])), [1, 1, 1, 3, 4, 4])
    np.testing.assert_array_equal(settle(np.array([2, 2, 4, 4, 4, 5])), [2, 4, 2, 4, 4, 5])


@pytest.mark.parametrize("spread", [0.0, 1e-8, 0.1, 3.0])
@pytest.mark.parametrize("n", [1, 2, 100, 3000])
def test_the_comb_in_one_call_is_that_of_sorted_weights(n, spread):
    """Equal weights, nearly equal ones, and such as fill all 42 bits; walkers without weight."""
    for seed in range(5):
        weights = some_weights(n, seed, spread)
        weights[1::7] = 0.0
        weights[2::5] = weights[0]
        whole = np.rint(np.minimum(weights, 1000.0) * 2.0**32).astype(np.int64)
        (step, rest), (start, more) = (
            divmod(int(whole.sum()), n),
            divmod(int(whole.sum()) // 3 * seed // 2, n),
        )
        found = settled_comb(whole, step, rest, start, more)
        np.testing.assert_array_equal(found, settle(np.sort(comb(whole, n, step, rest, start, more))))


def test_copies_stay_near_their_walkers(device):
    """Past any boundary go no more than one side has too many of: here those that the sums of weights differ by."""
    n = 5000
    weights = some_weights(n, spread=0.1)
    weights *= n / weights.sum()
    indices, _ = branch(device, Population(n), weights, [0.4])
    for edge in (100, 1664, 2500, 4000):
        passing = np.count_nonzero((np.arange(n) < edge) != (indices < edge))
        assert passing == abs(np.count_nonzero(indices < edge) - edge) <= 30


@pytest.mark.parametrize("control", CONTROLS)
def test_the_next_generation_limits_persistent_walkers_first(device, control):
    """As `limit_old` and then `branch`, bit by bit."""
    n = 200
    weights, ages = some_weights(n, spread=0.5), np.arange(n) % 15
    population = Population(n, control, limits=(0.1, 10))
    draws = uniform(key_from_seed(3), 1, 2, population.draws(n))
    indices, new, old = population.next_generation(device.asarray(weights), device.asarray(ages), draws)
    limited, count = population.limit_old(weights, ages)
    expected = population.branch(limited, draws)
    assert old == count == (ages > population.max_age).sum() > 0
    assert not np.array_equal(limited, weights)
    np.testing.assert_array_equal(device.to_host(indices), expected[0])
    np.testing.assert_array_equal(device.to_host(new), expected[1])


def test_the_walker_in_the_message_is_one_that_was_not_limited(device):
    weights, ages = (
        device.asarray(np.array([5000.0, 1.0, np.nan, 1.0])),
        device.asarray(np.array([50, 0, 0, 0])),
    )
    with pytest.raises(NumericsError, match=r"walker 2 is nan \(1 of 4 "):
        Population(4).next_generation(weights, ages, np.array([0.5]))
