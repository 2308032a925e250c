"""Error bars of series whose correlation is known, warm-up, and fits of time steps.

Chance.  Seeds are fixed, so a test that passes keeps passing; the tolerances are such that another seed would fail with the
probability that is stated.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from qsim.core.errors import NumericsError
from qsim.core.run.progress import Monitor
from qsim.core.statistics import student
from qsim.qmc.analysis import analyse
from qsim.qmc.sampling.series import ENERGIES, Series
from qsim.qmc.statistics import MINIMUM_BLOCKS
from qsim.qmc.statistics.block_sums import BlockSums
from qsim.qmc.statistics.blocking import (
    Chains,
    _difference,
    derived,
    ratio,
    reblock,
    require_blocks,
    warm_up,
    weighted_mean,
)
from qsim.qmc.statistics.correlation import (
    correlation,
    drift,
    lognormal,
    memory,
    skewness,
    slow_part,
)
from qsim.qmc.statistics.timestep import curve, extrapolate


def autoregressive(shape, tau, seed):
    """Return stationary AR(1) series of variance 1 and integrated correlation time ``tau = (1 + phi)/(1 - phi)``."""
    phi = (tau - 1) / (tau + 1)
    noise = np.random.default_rng(seed).standard_normal((*shape[:-1], shape[-1] + 1000))
    return lfilter([np.sqrt(1 - phi * phi)], [1, -phi], noise, axis=-1)[..., 1000:]


@pytest.mark.parametrize(("acceptance", "told"), [(0.02, True), (0.6, False)])
def test_walkers_that_hardly_move_are_told(acceptance, told):
    """Their energies look converged, since the same configurations are measured again and again."""
    x = np.random.default_rng(4).standard_normal(40)
    blocks = dict.fromkeys(ENERGIES, x) | {"energy_squared": x * x + 1.0, "weight": np.ones(40)}
    blocks["acceptance"] = np.full(40, acceptance)
    monitor = Monitor.silent()
    assert analyse(Series("vmc", "vmc, tau = 9", 9.0, blocks), monitor) is not None
    assert any("only 2 % of the moves" in line for line in monitor.warnings) == told


# --- reblocking -----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    tau=st.floats(1.0, 30.0),
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(1e-6, 1e6),
    offset=st.floats(-1e3, 1e3),
)
def test_error_of_an_autoregressive_series(tau, seed, scale, offset):
    """2^15 blocks: the error has at least 40 blocks behind it, hence a spread below 11 %; half is 4.5 of these."""
    n = 1 << 15
    x = offset + scale * autoregressive((n,), tau, seed)
    found = reblock(x)
    exact = scale * np.sqrt(tau / n)
    assert found.plateau
    assert found.error == pytest.approx(exact, rel=0.5)
    assert found.autocorrelation_time == pytest.approx(tau, rel=0.9)
    assert abs(found.mean - offset) < 6 * exact
    assert found.error_of_error == pytest.approx(found.error / np.sqrt(2 * found.degrees))


@pytest.mark.parametrize(
    ("chains", "n", "tau"),
    [(1, 20, 1.0), (1, 30, 2.5), (1, 60, 4.0), (1, 120, 9.0), (1, 1000, 10.0), (5, 25, 2.0), (25, 20, 6.0)],
)
def test_error_bars_cover_the_truth(chains, n, tau):
    """Of 400 series 1, 2 and 3 error bars hold 68.3, 95.4 and 99.7 %, less four standard deviations of such a count."""
    series = autoregressive((400, chains, n), tau, seed=[3, chains, n])
    found = [reblock(x.mean(axis=0), chains=Chains(x - x.mean())) for x in series]
    trusted = [one for one in found if not one.reason]
    assert len(trusted) > (200 if n > 5 * tau else 380)
    for level, share in ((1, 0.683), (2, 0.954), (3, 0.9973)):
        inside = np.mean([abs(one.mean) < level * one.error for one in trusted])
        assert inside > share - 4 * np.sqrt(share * (1 - share) / len(trusted)) - 1e-9
    truth = series.mean(axis=(1, 2)).std()
    assert 0.95 < np.median([one.error for one in trusted]) / truth < 2.6


def test_converged_errors_are_those_of_long_series():
    """Nobody may certify 60 blocks with a correlation time of 9; nearly everybody 3000."""
    short = [reblock(x) for x in autoregressive((200, 60), 9.0, seed=21)]
    long = [reblock(x) for x in autoregressive((50, 3000), 9.0, seed=22)]
    assert np.mean([one.plateau for one in short]) < 0.05
    assert np.mean([one.plateau for one in long]) > 0.95


@pytest.mark.parametrize(("chains", "tau"), [(20, 90.0), (24, 7.0), (50, 30.0), (150, 300.0)])
def test_the_scatter_of_many_walkers_is_sure_however_short_the_run(chains, tau):
    """Means of walkers need no correlation time: runs of 30 rows, some shorter than that, with bars that hold."""
    series = autoregressive((300, chains, 30), tau, seed=[5, chains])
    found = [reblock(x.mean(axis=0), chains=Chains(x - x.mean())) for x in series]
    assert all(one.plateau for one in found)
    z = np.array([one.mean / one.error for one in found])
    assert 0.85 < np.sqrt(np.mean(z**2)) < 1.1
    assert np.sum(np.abs(z) > 3) <= 4
    # Eight of them count for four: 120 rows are too few for a correlation that is longer than a run.
    few = [reblock(x[:8].mean(axis=0), chains=Chains(x[:8] - x[:8].mean())) for x in series[:50]]
    assert tau < 30.0 or np.mean([one.plateau for one in few]) < 0.05


@pytest.mark.parametrize("degrees", [1.5, 4.0, 19.0, 63.0])
def test_student_factor_covers_as_a_normal_law(degrees):
    from scipy.stats import norm, t

    assert t.cdf(3 * student(degrees), degrees) == pytest.approx(norm.cdf(3), abs=1e-9) or degrees == 1.5
    assert 1.0 < student(degrees) <= 10.0


@pytest.mark.parametrize(("memories", "widest"), [(30, 2.2), (120, 1.4), (600, 1.15)])
def test_error_bars_are_not_wider_than_student_makes_them(memories, widest):
    """Scatter of the means of 400 series against the root mean square of what each claims, known to 4 %; one chain, as of dmc."""
    series = autoregressive((400, 10 * memories), 20.0, seed=[8, memories])
    found = [correlation((x - x.mean())[None]) for x in series]
    scatter = float(np.std(series.mean(axis=1)))
    assert 0.88 < np.sqrt(np.mean([one.error**2 for one in found])) / scatter < 1.12
    assert 0.95 < np.sqrt(np.mean([(one.error * one.factor) ** 2 for one in found])) / scatter < widest


def test_skewness_of_means():
    """That of n exponential numbers is 2, of their mean 2 / sqrt(n); of 200 normal samples 5 % show one by chance."""
    generator = np.random.default_rng(12)
    exponential = generator.exponential(size=(50, 4000))
    assert np.mean([skewness(x) for x in exponential]) == pytest.approx(2.0 / np.sqrt(4000), rel=0.05)
    normal = generator.standard_normal((200, 100))
    assert np.mean([skewness(x) > 0.0 for x in normal]) < 0.12
    joined = correlation(exponential[:, :64] - 1.0)
    assert joined.factor > 1.005 * student(joined.degrees)


@pytest.mark.parametrize("relative", [0.01, 0.2])
def test_three_errors_of_a_scale_reach_as_far_as_those_of_its_logarithm(relative):
    assert 1.0 + 3.0 * relative * lognormal(relative) == pytest.approx(np.exp(3.0 * relative), rel=1e-12)


def test_error_bars_of_variances_cover_the_truth():
    """128 squares of Gamma numbers, as in a trap: of 400 series 8 % lie beyond three symmetric error bars, and below 3.5 %."""
    x = np.random.default_rng(13).gamma(1.5, size=(400, 128))
    found = [derived(lambda e, s: s - e * e, [row, row * row], positive=True) for row in x]
    assert np.mean([abs(one.mean - 1.5) > 3.0 * one.error for one in found]) < 0.035
    assert np.mean([abs(one.mean - 1.5) < one.error for one in found]) < 0.88


def test_chains_that_are_copies_are_one():
    x = autoregressive((1, 200), 3.0, seed=5)
    alone = correlation(x - x.mean())
    copies = np.repeat(x - x.mean(), 30, axis=0)
    assert correlation(copies, independent=False).error == pytest.approx(alone.error)
    assert correlation(copies).error < 0.3 * alone.error


def test_memory_of_an_exponential_decay():
    phi = 0.9
    x = autoregressive((8, 4000), (1 + phi) / (1 - phi), seed=6)
    assert memory(x) == pytest.approx(-1 / np.log(phi), rel=0.15)
    assert memory(np.ones((2, 50))) == 0.0


def test_a_small_slow_part_is_found():
    """White noise hides a part of a tenth of its variance with a correlation time of 100: neighbours hardly correlate."""
    n = 1 << 14
    slow = autoregressive((n,), 100.0, seed=5)
    x = np.sqrt(0.9) * np.random.default_rng(6).standard_normal(n) + np.sqrt(0.1) * slow
    found = reblock(x)
    assert found.autocorrelation_time == pytest.approx(0.9 + 0.1 * 100, rel=0.5)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(MINIMUM_BLOCKS, 300), seed=st.integers(0, 2**32 - 1))
def test_uncorrelated_blocks_by_the_textbook(n, seed):
    x = np.random.default_rng(seed).standard_normal(n)
    found = reblock(x)
    assert found.mean == pytest.approx(np.mean(x), abs=1e-12)
    assert found.curve.error[0] == pytest.approx(np.std(x, ddof=1) / np.sqrt(n), rel=1e-10)
    assert list(found.curve.length) == [1 << k for k in range(len(found.curve.length))]
    assert list(found.curve.blocks) == [n >> k for k in range(len(found.curve.blocks))]
    joined = x[: n // 2 * 2].reshape(-1, 2).mean(axis=1)
    assert found.curve.error[1] == pytest.approx(np.std(joined, ddof=1) / np.sqrt(n // 2), rel=1e-9)


def test_uncorrelated_blocks_mostly_stay_on_level_0():
    x = np.random.default_rng(8).standard_normal((500, 256))
    assert np.mean([reblock(row).level == 0 for row in x]) > 0.8


def test_too_short_a_series_says_so():
    found = reblock(autoregressive((100,), 50.0, seed=1))
    assert not found.plateau
    assert "correlation times" in found.reason
    assert found.error > max(found.curve.error[found.curve.blocks >= 8])


@pytest.mark.parametrize(("n", "tau"), [(20, 1.0), (20, 3.0), (40, 3.0), (40, 9.0), (100, 9.0)])
def test_error_bars_of_short_series_are_never_next_to_nothing(n, tau):
    """A level of two blocks would often pass for converged, with an error that is small by chance."""
    series = autoregressive((400, n), tau, seed=[9, n, int(tau)])
    found = [reblock(x) for x in series]
    truth = series.mean(axis=1).std()
    assert min(one.error for one in found) > 0.12 * truth
    assert all(one.curve.blocks[one.level] >= 8 for one in found)


@pytest.mark.parametrize("n", [1, 2, 19])
def test_few_blocks_give_no_error_bar(n):
    found = reblock(np.arange(n, dtype=float))
    assert found.error is None
    assert found.error_of_error is None
    assert not found.plateau
    assert found.mean == pytest.approx((n - 1) / 2)
    assert found.reason == require_blocks(n)
    assert f"{n} block" in found.reason
    assert "20" in found.reason
    assert require_blocks(20) == ""
    assert derived(lambda a: a * a, [np.arange(n, dtype=float)]).error is None


def test_a_constant_series_has_no_error():
    """Zero variance, with and without rounding."""
    for x in (np.full(64, -0.5), -0.5 + 1e-17 * np.arange(64), 1e5 + 1e-12 * autoregressive((64,), 20.0, 2)):
        found = reblock(x)
        assert found.error == pytest.approx(1e-14 * np.abs(x).max(), abs=1e-11)
        assert found.constant
        assert found.plateau
        assert found.autocorrelation_time == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_must_be_finite(bad):
    x = np.zeros(30)
    x[17] = bad
    with pytest.raises(NumericsError, match=r"block 17 of 30"):
        reblock(x)


def test_weights():
    with pytest.raises(NumericsError, match="negative"):
        reblock(np.zeros(30), np.full(30, -1.0))
    with pytest.raises(ValueError, match="29 weights for 30"):
        reblock(np.zeros(30), np.ones(29))
    x, w = autoregressive((2, 500), 1.0, seed=3)
    equal = reblock(x, np.full(500, 7.0))
    assert (equal.mean, equal.error) == pytest.approx((reblock(x).mean, reblock(x).error))
    w = np.exp(0.3 * w)
    assert reblock(x, w).mean == pytest.approx(np.average(x, weights=w))
    assert reblock(x, w).error == pytest.approx(reblock(x, 1e6 * w).error)


def correlated_weights(seed, runs, n, tau):
    """Return energies and weights that know of each other: weight exp(-0.5 x) of an AR(1) series x, energy x + noise."""
    x = autoregressive((runs, n), tau, [seed, 0])
    noise = np.random.default_rng([seed, 1]).standard_normal((runs, n))
    return x + 0.5 * noise, np.exp(-0.5 * x)


def test_error_of_a_mean_with_correlated_weights():
    """The spread of 400 runs is known to 3.5 %; the mean of exp(-x/2) weighted normal numbers is -1/2."""
    energies, weights = correlated_weights(4, 400, 1024, 4.0)
    found = [reblock(e, w) for e, w in zip(energies, weights, strict=True)]
    means = np.array([one.mean for one in found])
    assert means.mean() == pytest.approx(-0.5, abs=5 * means.std() / 20)
    assert np.mean([one.error for one in found]) == pytest.approx(means.std(), rel=0.15)
    # forgetting the weights' correlation gives another error: the test would notice
    naive = np.mean([reblock(e).error for e in energies])
    right = np.mean([one.error for one in found])
    assert abs(naive / right - 1) > 0.03


def test_jackknife_of_a_variance():
    """Of correlated values, against the spread over 300 runs (4 %); the bias of order 1/n is gone."""
    x = autoregressive((300, 400), 3.0, seed=12)
    found = [derived(lambda a, b: b - a * a, [row, row * row]) for row in x]
    values = np.array([one.mean for one in found])
    assert np.mean([one.error for one in found]) == pytest.approx(values.std(), rel=0.2)
    plain = np.mean([np.var(row) for row in x])
    assert abs(values.mean() - 1) < 4 * values.std() / np.sqrt(300)
    assert abs(values.mean() - 1) < abs(plain - 1) + 0.002


def test_ratio_equals_the_weighted_mean():
    energies, weights = (row[0] for row in correlated_weights(9, 1, 2048, 2.0))
    one, other = ratio(weights * energies, weights), reblock(energies, weights)
    assert one.mean == pytest.approx(other.mean, abs=0.05 * other.error)
    assert one.error == pytest.approx(other.error, rel=0.05)


def test_jackknife_of_a_mean_is_the_mean():
    x = autoregressive((640,), 3.0, seed=2)
    one, other = derived(lambda a: a, [x]), reblock(x)
    assert one.mean == pytest.approx(np.mean(x[: 640 >> one.level << one.level]))
    assert (one.error, one.level) == (pytest.approx(other.error), other.level)


def test_weighted_mean():
    mean, error, chi2 = weighted_mean([1.0, 2.0], [0.1, 0.2])
    assert (mean, error) == pytest.approx((1.2, np.sqrt(1 / 125)))
    assert chi2 == pytest.approx(1 / (0.1**2 + 0.2**2))
    with pytest.raises(NumericsError, match="positive"):
        weighted_mean([1.0], [0.0])


# --- warm-up --------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    time=st.floats(3.0, 20.0),
    height=st.floats(10.0, 100.0),
    sign=st.sampled_from([-1, 1]),
    seed=st.integers(0, 2**32 - 1),
)
def test_warm_up_of_a_decay(time, height, sign, seed):
    """What is left of the start is below 3 errors of the mean; of 20000 series the largest was 2.1, the median 0.3."""
    n = 400
    decay = sign * height * np.exp(-np.arange(n) / time)
    found = warm_up(decay + np.random.default_rng(seed).standard_normal(n))
    assert 0 < found <= n // 2
    assert abs(decay[found:].mean()) < 3 / np.sqrt(n - found)


def test_warm_up_is_not_much_longer_than_the_decay():
    """On average over 200 series; a single one may lose up to half to a fluctuation."""
    noise = np.random.default_rng(2).standard_normal((200, 400))
    cuts = [warm_up(20 * np.exp(-np.arange(400) / 8) + row) for row in noise]
    assert 20 < np.mean(cuts) < 60


def test_a_stationary_series_is_kept():
    for tau, share in ((1.0, 0.97), (5.0, 0.93)):
        lost = [warm_up(x) / 400 for x in autoregressive((300, 400), tau, seed=7)]
        assert 1 - np.mean(lost) > share


@pytest.mark.parametrize(
    ("n", "tau", "share"), [(40, 2.0, 0.05), (100, 3.0, 0.03), (100, 9.0, 0.1), (400, 9.0, 0.02)]
)
def test_short_stationary_series_are_seldom_cut(n, tau, share):
    """The best cut of a stationary series leaves the part that looks quietest, with a mean that is off by chance."""
    cut = np.mean([warm_up(x) > 0 for x in autoregressive((300, n), tau, seed=[11, n])])
    assert cut <= share


def test_warm_up_of_short_and_odd_series():
    assert warm_up([1.0]) == 0
    assert warm_up([3.0, 1.0, 1.0]) == 0
    assert warm_up(np.full(50, 2.0)) == 0
    assert warm_up([9.0, 4.0, *np.sin(np.arange(20)) * 0.1]) in (1, 2)
    step = np.r_[np.full(20, 5.0), np.zeros(80)]
    assert warm_up(step) == 20  # no noise at all


def test_one_outlier_does_not_cut_the_series():
    x = np.random.default_rng(3).standard_normal(200)
    x[60] += 30
    assert warm_up(x) <= 65


def test_differences_are_in_standard_deviations():
    """Of white noise: mean 0 and variance 1, but for Student's factor of what is left to compare with."""
    series = np.random.default_rng(13).standard_normal((1500, 260))
    found = np.array([_difference(x[:100], x[100:]) for x in series])
    factor = student(160 / 3)
    assert abs(found.mean()) < 4 / np.sqrt(1500)
    assert found.std() * factor == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize(("chains", "n", "tau"), [(1, 200, 1.0), (1, 200, 6.0), (4, 100, 3.0), (40, 50, 8.0)])
def test_false_alarms_of_drift_are_rare(chains, n, tau):
    series = autoregressive((400, chains, n), tau, seed=[17, chains, n])
    assert np.mean([drift(x) < 0.01 for x in series]) < 0.03


@pytest.mark.parametrize(
    ("chains", "n", "tau", "length"), [(1, 400, 1.0, 90.0), (1, 400, 3.0, 90.0), (30, 100, 5.0, 25.0)]
)
def test_slow_drift_is_noticed(chains, n, tau, length):
    """A decay that moves the mean by four standard errors: found in eight of ten cases."""
    series = autoregressive((200, chains, n), tau, seed=[18, chains, n])
    decay = np.exp(-np.arange(n) / length)
    decay *= 4.0 * np.sqrt(tau / (n * chains)) / decay.mean()
    assert np.mean([drift(x + decay) < 0.01 for x in series]) > 0.8


@pytest.mark.parametrize(
    ("chains", "n", "tau"), [(24, 60, 1.0), (64, 100, 4.0), (64, 400, 30.0), (64, 47, 1.5)]
)
def test_slow_parts_are_seldom_seen_where_there_are_none(chains, n, tau):
    # three standard deviations on one side, of products of normal numbers: about 0.4 % (1 % with 24 chains)
    series = autoregressive((400, chains, n), tau, 45)
    assert sum(slow_part(y) is not None for y in series) < 12


@pytest.mark.parametrize(
    ("chains", "n", "time", "share"), [(64, 108, 90.0, 0.1), (64, 400, 200.0, 0.05), (40, 60, 60.0, 0.3)]
)
def test_slow_parts_are_seen(chains, n, time, share):
    """A slow part whose share of the variance is small, behind noise without memory."""
    tau = (1 + np.exp(-1 / time)) / (1 - np.exp(-1 / time))
    slow = np.sqrt(share) * autoregressive((200, chains, n), tau, 46)
    series = slow + np.sqrt(1 - share) * autoregressive((200, chains, n), 1.0, 47)
    found = [slow_part(y) for y in series]
    seen = [one for one in found if one is not None]
    assert len(seen) > 160
    # an upper bound of the time, unless the series is too short to know it; the deviation to its own noise
    assert np.mean([one.time >= 0.7 * min(time, n) for one in seen]) > 0.9
    assert np.median([one.deviation for one in seen]) == pytest.approx(np.sqrt(share), rel=0.4)


def test_slow_parts_need_independent_chains():
    assert slow_part(autoregressive((3, 200), 60.0, 48)) is None
    assert slow_part(np.zeros((64, 100))) is None
    assert slow_part(np.ones((64, 3))) is None


def test_drift_of_series_without_noise():
    assert drift(np.ones((1, 40))) == 1.0
    x = np.exp(-np.arange(200) / 20)
    assert drift(x[None] + 1e-9 * np.sin(np.arange(200.0))) < 0.01


# --- arrays by block ------------------------------------------------------------------------------


def test_block_sums_equal_reblocking():
    x = autoregressive((256, 3), 1.0, seed=1)
    w = np.exp(0.2 * autoregressive((256,), 1.0, seed=2))
    sums = BlockSums((3,))
    for value, weight in zip(x, w, strict=True):
        sums.add(value * weight, weight)
    one = [reblock(x[:, k], w) for k in range(3)]
    np.testing.assert_allclose(sums.mean(), [e.mean for e in one], rtol=1e-12)
    inflation = sums.error() / [e.curve.error[0] for e in one]
    assert np.ptp(inflation) < 1e-9
    assert 1 <= inflation[0] < 1.5
    assert sums.blocks == 256


def test_block_sums_see_correlation():
    """200 entries that correlate over 8 blocks."""
    x = autoregressive((200, 1024), 8.0, seed=4)
    sums = BlockSums((200,))
    for column in x.T:
        sums.add(column.copy(), 1.0)
    assert np.sqrt(np.mean(sums.error() ** 2)) == pytest.approx(np.sqrt(8 / 1024), rel=0.15)


def test_block_sums_continue_and_need_blocks():
    x = np.random.default_rng(2).standard_normal((45, 2, 2))
    whole, half = BlockSums((2, 2)), BlockSums((2, 2))
    assert np.isnan(whole.mean()).all()
    assert np.isnan(whole.error()).all()
    for k, value in enumerate(x):
        whole.add(value, 1.0 + k)
        if k == 18:
            assert np.isfinite(whole.mean()).all()
            assert np.isnan(whole.error()).all()
    for value_k, value in enumerate(x[:23]):
        half.add(value, 1.0 + value_k)
    resumed = BlockSums((2, 2))
    resumed.restore(half.state())
    for k, value in enumerate(x[23:]):
        resumed.add(value, 24.0 + k)
    np.testing.assert_array_equal(resumed.mean(), whole.mean())
    np.testing.assert_array_equal(resumed.error(), whole.error())
    with pytest.raises(ValueError, match="positive"):
        whole.add(x[0], 0.0)


# --- time steps -----------------------------------------------------------------------------------


def test_exact_lines_and_parabolas():
    taus = np.array([0.02, 0.01, 0.005, 0.0025])
    line = extrapolate(taus, -2.9 + 0.3 * taus, [1e-3] * 4)
    assert line.value == pytest.approx(-2.9, abs=1e-13)
    assert line.chi2 == pytest.approx(0, abs=1e-18)
    np.testing.assert_allclose(line.coefficients, [-2.9, 0.3], rtol=1e-11)
    bent = extrapolate(taus, -2.9 + 0.3 * taus - 4 * taus**2, [1e-3] * 4, "quadratic")
    np.testing.assert_allclose(bent.coefficients, [-2.9, 0.3, -4], rtol=1e-9)
    assert (line.degrees, bent.degrees) == (2, 1)


def test_fit_equals_numpy():
    taus = np.array([0.04, 0.02, 0.01, 0.005, 0.0025])
    energies = -75.0 + 0.3 * taus + 1e-3 * np.random.default_rng(1).standard_normal(5)
    errors = np.array([1, 2, 1, 3, 2]) * 1e-3
    for order, degree in (("linear", 1), ("quadratic", 2)):
        found = extrapolate(taus, energies, errors, order)
        wanted, covariance = np.polyfit(taus, energies + 75, degree, w=1 / errors, cov="unscaled")
        np.testing.assert_allclose(
            found.coefficients, wanted[::-1] + np.eye(1, degree + 1)[0] * -75, rtol=1e-8
        )
        np.testing.assert_allclose(found.covariance, covariance[::-1, ::-1], rtol=1e-8)
        assert found.error == pytest.approx(np.sqrt(covariance[-1, -1]))
        assert found.chi2 == pytest.approx(np.sum(((np.polyval(wanted, taus) - energies - 75) / errors) ** 2))


def test_errors_of_fits_cover_the_truth():
    """2000 fits: the pulls have mean 0 and variance 1 within 5 standard deviations, chi squared its degrees of freedom."""
    taus, errors = np.array([0.02, 0.01, 0.005]), np.array([1e-4, 2e-4, 3e-4])
    noise = np.random.default_rng(5).standard_normal((2000, 3)) * errors
    fits = [extrapolate(taus, -2.9 + 0.1 * taus + row, errors) for row in noise]
    pulls = np.array([(fit.value + 2.9) / fit.error for fit in fits])
    assert abs(pulls.mean()) < 5 / np.sqrt(2000)
    assert abs(pulls.var() - 1) < 5 * np.sqrt(2 / 2000)
    assert np.mean([fit.chi2 for fit in fits]) == pytest.approx(1, abs=5 * np.sqrt(2 / 2000))
    assert np.mean([fit.probability for fit in fits]) == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / 2000))


def test_curve_of_a_fit():
    fit = extrapolate([0.02, 0.01, 0.005], [-1.0, -2.0, -3.0], [0.1, 0.2, 0.3], "quadratic")
    energy, error = curve(fit, [0.0, 0.005, 0.01, 0.02])
    np.testing.assert_allclose(energy, [fit.value, -3, -2, -1], rtol=1e-10)
    np.testing.assert_allclose(error, [fit.error, 0.3, 0.2, 0.1], rtol=1e-9)
    assert fit.probability == 1.0
    assert fit.degrees == 0


@pytest.mark.parametrize(
    ("taus", "errors", "order", "message"),
    [
        ([0.01], [0.1], "linear", "needs 2 different time steps, 1 given"),
        ([0.01, 0.01], [0.1, 0.1], "linear", "2 different time steps, 1 given"),
        ([0.01, 0.02], [0.1, 0.1], "quadratic", "quadratic extrapolation needs 3"),
        ([0.01, 0.02], [0.1, None], "linear", "an error bar at every time step"),
        ([0.01, 0.02], [0.1, 0.0], "linear", "must be positive"),
        ([0.01, -0.02], [0.1, 0.1], "linear", "not positive"),
        ([0.01, 0.02], [0.1, np.nan], "linear", "not finite"),
    ],
)
def test_fits_that_cannot_be(taus, errors, order, message):
    with pytest.raises(NumericsError, match=message):
        extrapolate(taus, [-1.0] * len(taus), errors, order)
