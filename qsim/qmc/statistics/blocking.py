r"""Means and error bars of correlated series: autocorrelation, reblocking, jackknife, warm-up.

A run hands over one number per block and, in diffusion Monte Carlo, the weight of the block.  The mean is
:math:`\bar x = \sum_b w_b x_b / \sum_b w_b`; its error is that of the *influences*
:math:`y_b = w_b (x_b - \bar x)/\bar w`, which have the mean zero and carry the correlation of the values, of
the weights and between the two [1]_.  For equal weights they are the deviations from the mean.

The error comes from the autocorrelation of the influences, or from the scatter of independent chains where there are some,
with Student's factor (:mod:`qsim.qmc.statistics.correlation`).  It is *converged* where it is such a scatter, which needs no
correlation time, or if the series (up to four independent ones together) is longer than 15 times the upper bound of that.

**Reblocking** [2]_ joins :math:`2^k` neighbours.  Its error :math:`\epsilon_k = \sqrt{\sum y^2/(n_k(n_k - 1))}`, with the
error :math:`\epsilon_k/\sqrt{2(n_k - 1)}`, rises until the blocks are longer than the correlation, and stays.  The curve shows
that; the error bar does not depend on it.

References
----------
.. [1] M. H. Quenouille, Biometrika 43, 353 (1956); J. W. Tukey, Ann. Math. Stat. 29, 614 (1958).
.. [2] H. Flyvbjerg, H. G. Petersen, J. Chem. Phys. 91, 461 (1989), doi:10.1063/1.457480.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qmc.statistics import MINIMUM_BLOCKS
from qsim.qmc.statistics.correlation import MANY_CHAINS, correlation, lognormal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ROUNDING",
    "BlockingCurve",
    "Chains",
    "Estimate",
    "derived",
    "ratio",
    "reblock",
    "require_blocks",
    "warm_up",
    "weighted_mean",
    "without_error",
]


ENOUGH_TIMES = 15.0  # upper bounds of the correlation time in a series whose error is converged
COUNTED = 4  # independent series whose lengths add up; more of them cannot see a correlation longer than each
FEW_DEGREES = 4.0  # of freedom: an error bar with fewer may be off by any factor
DIFFERENT = 5.0  # standard deviations between the start of a series and its rest that count as a warm-up
SMALLEST_LEVEL = 8  # blocks a level needs to say anything about correlation
BATCH = 5  # of MSER-5
ROUNDING = 1e-14  # of what was added up: error of a number in double precision


class BlockingCurve(NamedTuple):
    """Error of the mean by level.

    Attributes
    ----------
    length : (levels,) int64
        Blocks of the run in a block of the level.
    blocks : (levels,) int64
        How many there are.
    error, error_of_error : (levels,) float64
        Error of the mean and the uncertainty of that, in the unit of the series.
    """

    length: NDArray[np.int64]
    blocks: NDArray[np.int64]
    error: NDArray[np.float64]
    error_of_error: NDArray[np.float64]


class Chains(NamedTuple):
    """Influences in more detail than one per block.

    Attributes
    ----------
    y : (chains, rows) float64
        Influences of independent chains, or of parts of blocks, relative to a mean weight of 1.
    independent
        True if the chains are.
    """

    y: NDArray[np.float64]
    independent: bool = True


@dataclass(frozen=True)
class Estimate:
    """A mean and how well it is known.

    Attributes
    ----------
    mean
        Weighted mean.
    error
        One standard deviation of it, with Student's factor; None if there are too few blocks to tell.
    error_of_error
        Uncertainty of the error.
    autocorrelation_time
        Integrated, in blocks: the error squared, without Student's factor, over that of independent blocks.
    blocks
        Number of blocks of the series.
    level
        Level of reblocking whose blocks are as long as that.
    plateau
        True if the error can be trusted: independent chains say it, or the series is long beside the upper bound of its
        correlation time.
    curve
        All levels; empty if there are too few blocks.
    reason
        Why there is no error, or why it is not to be trusted; else empty.
    degrees
        Degrees of freedom of the error.
    constant
        True if the series differs by rounding alone, which the error then stands for.
    """

    mean: float
    error: float | None
    error_of_error: float | None
    autocorrelation_time: float
    blocks: int
    level: int
    plateau: bool
    curve: BlockingCurve
    reason: str = ""
    degrees: float = 0.0
    constant: bool = False


def require_blocks(blocks: int, minimum: int = MINIMUM_BLOCKS) -> str:
    """Return why so few blocks give no error bar; empty if there are enough."""
    if blocks >= minimum:
        return ""
    return f"{blocks} block{'' if blocks == 1 else 's'} after the warm-up give no error bar; {minimum} are needed"


def without_error(mean: float, blocks: int, reason: str) -> Estimate:
    """Return an estimate that claims nothing, and why."""
    lengths, errors = np.zeros(0, np.int64), np.zeros(0)
    return Estimate(
        mean, None, None, 1.0, blocks, 0, False, BlockingCurve(lengths, lengths, errors, errors), reason
    )


def reblock(
    series: ArrayLike,
    weights: ArrayLike | None = None,
    chains: Chains | None = None,
    rounding: float | None = None,
) -> Estimate:
    """Return the mean of a correlated series with its error.

    Parameters
    ----------
    series : (blocks,) float64
        One value per block.
    weights : (blocks,) float64, optional
        Weights of the blocks, in any unit; correlation with the values is accounted for.
    chains
        Influences of the same mean in more detail; by default those of the blocks.
    rounding
        Error of each value, in the unit of the series, below which none is claimed; by default that of double precision.

    Returns
    -------
    Estimate
        Without an error if there are fewer than `MINIMUM_BLOCKS`.

    Raises
    ------
    NumericsError
        If a value is not finite, or the weights do not add up to something positive.
    """
    # The mean is a ratio of sums; its influences w (x - mean) / <w> carry the correlation
    # with the weights.
    x = _series(series)
    w = _weights(weights, x.size)
    mean = float(np.sum(w * x) / np.sum(w))
    least = ROUNDING * float(np.max(np.abs(x))) if rounding is None else rounding
    return _estimate(mean, w * (x - mean) / np.mean(w), least, chains=chains)


def derived(
    function: Callable[..., float],
    columns: Sequence[ArrayLike],
    weights: ArrayLike | None = None,
    chains: Chains | None = None,
    *,
    positive: bool = False,
    rounding: float | None = None,
) -> Estimate:
    r"""Return a function of the weighted means of several columns, such as a variance, with its error.

    The error is that of the influences :math:`n f - (n - 1) f_{(b)}` with block *b* left out; the mean, without the bias of
    order 1/n, comes from the jackknife over blocks as long as their correlation.

    Parameters
    ----------
    function
        Called with one number per column.
    columns : (columns, blocks) float64
        One value per block.
    weights : (blocks,) float64, optional
        Weights of the blocks.
    chains
        Influences of the same function in more detail.
    positive
        True if the function is a scale, whose logarithm has the symmetric error: a variance.
    rounding
        As for :func:`reblock`.

    Returns
    -------
    Estimate
    """
    # Jackknife: the function of all means, and with each block left out.
    data = np.stack([_series(column) for column in columns])
    w = _weights(weights, data.shape[1])
    sums = data * w
    whole, without = _leave_one_out(function, sums, w)
    n = w.size
    if n < MINIMUM_BLOCKS:
        return _estimate(whole, np.zeros(n), 0.0)
    least = ROUNDING * abs(whole) if rounding is None else rounding
    # The differences are the influences of the blocks: their correlation gives the error as
    # for a plain mean.
    found = _estimate(whole, (n - 1) * (np.mean(without) - without), least, chains=chains)
    for _ in range(found.level):  # blocks that are independent
        sums, w = _pairs(sums), _pairs(w)
    # Bias of order 1/n, by blocks that are as long as the correlation: shorter ones would see
    # too small a bias.
    whole, without = _leave_one_out(function, sums, w)
    found = replace(found, mean=w.size * whole - (w.size - 1) * float(np.mean(without)))
    if (
        positive
        and not found.constant
        and found.error
        and found.error_of_error is not None
        and found.mean > 0.0
    ):
        # The error of a scale is skew: enlarged so that three of them cover on both sides.
        factor = lognormal(found.error / found.mean)
        found = replace(found, error=found.error * factor, error_of_error=found.error_of_error * factor)
    return found


def ratio(numerator: ArrayLike, denominator: ArrayLike, weights: ArrayLike | None = None) -> Estimate:
    """Return the ratio of two means by the jackknife; series as in :func:`derived`."""
    return derived(lambda a, b: a / b, [numerator, denominator], weights)


def weighted_mean(values: ArrayLike, errors: ArrayLike) -> tuple[float, float, float]:
    """Return mean, error and chi squared of independent values with known errors (inverse squares as weights)."""
    x, e = _series(values), _series(errors)
    if np.any(e <= 0):
        raise NumericsError("a weighted mean needs positive error bars", hint="run more blocks")
    # Relative weights, which cannot overflow.
    w = (np.min(e) / e) ** 2
    mean = float(np.sum(w * x) / np.sum(w))
    return mean, float(np.min(e) / np.sqrt(np.sum(w))), float(np.sum(((x - mean) / e) ** 2))


# -------------------------------------------------------------------------------------------- warm-up


def warm_up(series: ArrayLike) -> int:
    r"""Return the first block to keep: what comes before still remembers the start.

    MSER-5 [1]_: of all cuts in the first half, at multiples of 5 blocks, the one with the smallest
    :math:`\sum_{b\ge d} (x_b - \bar x_d)^2/(n - d)^2`, the squared error of the mean of the rest.  A cut is
    made only if the first 5, 10, 20, ... blocks or all before it differ from the rest by more than 5 standard
    deviations, so that a stationary series is kept whole.  A cut close to half of the series says that the run was
    too short; :func:`qsim.qmc.statistics.correlation.drift` tells.

    Parameters
    ----------
    series : (blocks,) float64
        Block energies from the very start.

    Returns
    -------
    int
        Between 0 and half the number of blocks.

    References
    ----------
    .. [1] K. P. White, M. J. Cobb, S. C. Spratt, Proc. Winter Simulation Conference, 755 (2000).
    """
    x = _series(series)
    batch = BATCH if x.size >= 8 * BATCH else 1  # short series cannot afford batches
    means = x[: x.size // batch * batch].reshape(-1, batch).mean(axis=1)
    n = means.size
    if n < 4:
        return 0
    # Batches from each cut to the end.
    left = np.arange(n, 0, -1)
    # sums over the tails, from deviations, so that nothing cancels
    d = means - np.mean(means)
    tail, tail_square = np.cumsum(d[::-1])[::-1], np.cumsum((d * d)[::-1])[::-1]
    spread = np.maximum(tail_square - tail * tail / left, 0.0)
    cut = int(np.argmin(spread[: n // 2 + 1] / left[: n // 2 + 1] ** 2)) * batch
    # A short transient is hidden in the mean of a long start: several lengths are looked at.
    starts = {min(batch << k, cut) for k in range(n.bit_length())}
    differs = cut > 0 and max(abs(_difference(x[:start], x[cut:])) for start in starts) > DIFFERENT
    return cut if differs else 0


def _difference(start: NDArray[np.float64], rest: NDArray[np.float64]) -> float:
    """Return the difference of the means in standard deviations, both with the spread and correlation of the rest."""
    difference = float(np.mean(start) - np.mean(rest))
    # The spread of the start is not used: of a transient it says nothing.
    found = _estimate(0.0, rest - np.mean(rest), ROUNDING * float(np.max(np.abs(rest))), minimum=2)
    squared = (found.error or 0.0) ** 2 * (1.0 + rest.size / start.size)
    if squared == 0.0:
        return 0.0 if difference == 0.0 else float(np.copysign(np.inf, difference))
    return difference / float(np.sqrt(squared))


# ------------------------------------------------------------------------------------------- blocking


def _estimate(
    mean: float,
    y: NDArray[np.float64],
    rounding: float,
    minimum: int = MINIMUM_BLOCKS,
    chains: Chains | None = None,
) -> Estimate:
    """Return the estimate of a mean whose influences are y (blocks,); no error is smaller than that of `rounding`."""
    n = y.size
    if reason := require_blocks(n, minimum):
        return without_error(mean, n, reason)
    # Constant series, as of exact wave functions: their scatter is rounding.
    curve = _levels(y)
    if curve.error[0] <= rounding:
        return Estimate(
            mean, rounding, 0.0, 1.0, n, 0, plateau=True, curve=curve, degrees=n - 1.0, constant=True
        )
    # Walkers or parts of blocks know more about the correlation than block means do.
    chains = chains if chains is not None and chains.y.shape[1] > 0 else Chains(y[None])
    found = correlation(chains.y, independent=chains.independent)
    rows = chains.y.shape[1]
    time = (found.error / float(curve.error[0])) ** 2
    several = chains.y.shape[0] if chains.independent else 1
    scattered, counted = several >= MANY_CHAINS, min(several, COUNTED)
    reason = ""
    # Student's factor cannot make up for a correlation time that is itself a guess.
    if found.degrees < FEW_DEGREES:
        reason = (
            f"{n} blocks are about {max(1.0, rows / found.time):.0f} correlation times of {time:.2g} blocks, too few to know an "
            "error bar, which may be too small; take more or longer blocks, or more walkers"
        )
    # The level whose blocks are as long as the correlation; at least a few blocks must be
    # left there.
    error = max(found.error * found.factor, rounding)
    deepest = int(np.flatnonzero(curve.blocks >= min(SMALLEST_LEVEL, n))[-1])
    return Estimate(
        mean,
        error,
        error / float(np.sqrt(2.0 * found.degrees)),
        time,
        n,
        min(deepest, round(float(np.log2(max(1.0, time))))),
        not reason and (scattered or rows * counted >= ENOUGH_TIMES * found.upper),
        curve,
        reason,
        found.degrees,
    )


def _levels(y: NDArray[np.float64]) -> BlockingCurve:
    """Return the error of the mean by level of reblocking."""
    # Flyvbjerg and Petersen: the naive error of the mean from blocks of 1, 2, 4, ... of them
    # grows to a plateau.
    rows, length = [], 1
    while y.size >= 2:
        n = y.size
        y = y - np.mean(y)  # an odd block may have been dropped
        error = np.sqrt(float(np.sum(y * y)) / (n * (n - 1.0)))
        rows.append((length, n, error, error / np.sqrt(2.0 * (n - 1.0))))
        y, length = 0.5 * _pairs(y), 2 * length
    columns = list(zip(*rows, strict=True))
    return BlockingCurve(
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        np.array(columns[2]),
        np.array(columns[3]),
    )


def _pairs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums of neighbours along the last axis; the last of an odd number is dropped."""
    even = values.shape[-1] // 2 * 2
    return np.asarray(values[..., 0:even:2] + values[..., 1:even:2])


def _leave_one_out(
    function: Callable[..., float], sums: NDArray[np.float64], w: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the function of all means, and of those without each block (blocks,); sums (columns, blocks) are weighted."""
    all_sums, total = np.sum(sums, axis=1), float(np.sum(w))
    whole = float(function(*(all_sums / total)))
    if w.size < 2:
        return whole, np.zeros(w.size)
    without = (all_sums[:, None] - sums) / (total - w)
    return whole, np.array([float(function(*column)) for column in without.T])


def _series(values: ArrayLike) -> NDArray[np.float64]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"a series is one-dimensional and not empty, not of shape {x.shape}")
    if not np.all(np.isfinite(x)):
        bad = int(np.flatnonzero(~np.isfinite(x))[0])
        raise NumericsError(
            f"block {bad} of {x.size} is {x[bad]}", hint="a smaller timestep or a better wavefunction"
        )
    return x


def _weights(values: ArrayLike | None, size: int) -> NDArray[np.float64]:
    if values is None:
        return np.ones(size)
    w = _series(values)
    if w.size != size:
        raise ValueError(f"{w.size} weights for {size} blocks")
    if np.any(w < 0) or not np.sum(w) > 0:
        raise NumericsError(
            f"weights of blocks must not be negative, nor all zero; found {np.min(w)} to {np.max(w)}"
        )
    return w
