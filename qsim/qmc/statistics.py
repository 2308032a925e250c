r"""Means and error bars of correlated series: reblocking, jackknife, warm-up.

A run hands over one number per block and, in diffusion Monte Carlo, the weight of the block.  The mean is
:math:`\bar x = \sum_b w_b x_b / \sum_b w_b`; its error is that of the *influences*
:math:`y_b = w_b (x_b - \bar x)/\bar w`, which have the mean zero and carry the correlation of the values, of
the weights and between the two [1]_.  For equal weights they are the deviations from the mean.

**Reblocking** [2]_.  Level *k* joins :math:`2^k` neighbours.  Its error :math:`\epsilon_k = \sqrt{\sum
y^2/(n_k(n_k - 1))}`, with the error :math:`\epsilon_k/\sqrt{2(n_k - 1)}`, rises until the blocks are longer
than the correlation, and stays.  A series whose blocks show no correlation on any level (that of neighbours is
below 2 standard deviations) keeps level 0; else the level is the first with :math:`8^k > 2 n
(\epsilon_k/\epsilon_0)^4` [3]_, where what is still missing and the noise of the error are equally small, of those
with 8 blocks and more. There is a *plateau* if such a level exists and the series is longer than 50 correlation
times; else the largest error of those levels is quoted, and said to be too small perhaps.

References
----------
.. [1] M. H. Quenouille, Biometrika 43, 353 (1956); J. W. Tukey, Ann. Math. Stat. 29, 614 (1958).
.. [2] H. Flyvbjerg, H. G. Petersen, J. Chem. Phys. 91, 461 (1989), doi:10.1063/1.457480.
.. [3] R. M. Lee, G. J. Conduit, N. Nemec, P. López Ríos, N. D. Drummond, Phys. Rev. E 83, 066706 (2011),
       doi:10.1103/PhysRevE.83.066706.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "MINIMUM_BLOCKS",
    "BlockingCurve",
    "Estimate",
    "derived",
    "geweke",
    "ratio",
    "reblock",
    "require_blocks",
    "warm_up",
    "weighted_mean",
]

MINIMUM_BLOCKS = 20
"""Blocks below which no error bar is given."""

ENOUGH_TIMES = 50.0  # correlation times in a series whose error is trusted
DIFFERENT = 5.0  # standard deviations between the start of a series and its rest that count as a warm-up
CORRELATED = 2.0  # standard deviations of the correlation of neighbours that count as correlation
SMALLEST_LEVEL = 8  # blocks a level needs to say anything about correlation
BATCH = 5  # of MSER-5


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


@dataclass(frozen=True)
class Estimate:
    """A mean and how well it is known.

    Attributes
    ----------
    mean
        Weighted mean.
    error
        One standard deviation of it; None if there are too few blocks to tell.
    error_of_error
        Uncertainty of the error.
    autocorrelation_time
        Integrated, in blocks: the error squared over that of independent blocks, 1 without correlation.
    blocks
        Number of blocks of the series.
    level
        Level of reblocking that the error was read at.
    plateau
        Whether the error can be trusted: blocking stopped to raise it.
    curve
        All levels; empty if there are too few blocks.
    reason
        Why there is no error, or why it is not to be trusted; else empty.
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


def require_blocks(blocks: int, minimum: int = MINIMUM_BLOCKS) -> str:
    """Return why so few blocks give no error bar; empty if there are enough."""
    if blocks >= minimum:
        return ""
    return f"{blocks} block{'' if blocks == 1 else 's'} after the warm-up give no error bar; {minimum} are needed"


def reblock(series: ArrayLike, weights: ArrayLike | None = None) -> Estimate:
    """Return the mean of a correlated series with its error.

    Parameters
    ----------
    series : (blocks,) float64
        One value per block.
    weights : (blocks,) float64, optional
        Weights of the blocks, in any unit; correlation with the values is accounted for.

    Returns
    -------
    Estimate
        Without an error if there are fewer than `MINIMUM_BLOCKS`.

    Raises
    ------
    NumericsError
        If a value is not finite, or the weights do not add up to something positive.
    """
    x = _series(series)
    w = _weights(weights, x.size)
    mean = float(np.sum(w * x) / np.sum(w))
    return _estimate(mean, w * (x - mean) / np.mean(w), scale=float(np.max(np.abs(x))))


def derived(
    function: Callable[..., float], columns: Sequence[ArrayLike], weights: ArrayLike | None = None
) -> Estimate:
    r"""Return a function of the weighted means of several columns, such as a variance, with its error.

    The level of reblocking is that of the influences :math:`n f - (n - 1) f_{(b)}` with block *b* left out;
    mean (without the bias of order 1/n) and error come from the jackknife over the blocks of that level.

    Parameters
    ----------
    function
        Called with one number per column.
    columns : (columns, blocks) float64
        One value per block.
    weights : (blocks,) float64, optional
        Weights of the blocks.

    Returns
    -------
    Estimate
    """
    data = np.stack([_series(column) for column in columns])
    w = _weights(weights, data.shape[1])
    sums = data * w
    whole, without = _leave_one_out(function, sums, w)
    n = w.size
    if n < MINIMUM_BLOCKS:
        return _estimate(whole, np.zeros(n), scale=0.0)
    found = _estimate(whole, (n - 1) * (np.mean(without) - without), scale=abs(whole))
    # the jackknife proper, over blocks that are independent
    for _ in range(found.level):
        sums, w = _pairs(sums), _pairs(w)
    whole, without = _leave_one_out(function, sums, w)
    n = w.size
    centre = float(np.mean(without))
    error = float(np.sqrt((n - 1) / n * np.sum((without - centre) ** 2)))
    return Estimate(
        n * whole - (n - 1) * centre,
        error,
        error / np.sqrt(2.0 * (n - 1)),
        found.autocorrelation_time,
        found.blocks,
        found.level,
        found.plateau,
        found.curve,
        found.reason,
    )


def ratio(numerator: ArrayLike, denominator: ArrayLike, weights: ArrayLike | None = None) -> Estimate:
    """Return the ratio of two means by the jackknife; series as in :func:`derived`."""
    return derived(lambda a, b: a / b, [numerator, denominator], weights)


def weighted_mean(values: ArrayLike, errors: ArrayLike) -> tuple[float, float, float]:
    """Return mean, error and chi squared of independent values with known errors (inverse squares as weights)."""
    x, e = _series(values), _series(errors)
    if np.any(e <= 0):
        raise NumericsError("a weighted mean needs positive error bars", hint="run more blocks")
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
    too short; :func:`geweke` tells.

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
    left = np.arange(n, 0, -1)
    # sums over the tails, from deviations, so that nothing cancels
    d = means - np.mean(means)
    tail, tail_square = np.cumsum(d[::-1])[::-1], np.cumsum((d * d)[::-1])[::-1]
    spread = np.maximum(tail_square - tail * tail / left, 0.0)
    cut = int(np.argmin(spread[: n // 2 + 1] / left[: n // 2 + 1] ** 2)) * batch
    starts = {min(batch << k, cut) for k in range(n.bit_length())}
    differs = cut > 0 and max(abs(_difference(x[:start], x[cut:])) for start in starts) > DIFFERENT
    return cut if differs else 0


def geweke(series: ArrayLike, first: float = 0.2, last: float = 0.5) -> float:
    """Return by how many standard deviations the first part of a series differs from its last part.

    Parameters
    ----------
    series : (blocks,) float64
        Blocks after the warm-up.
    first, last
        Fractions to compare.

    Returns
    -------
    float
        Standard normal for a stationary series; beyond 3 the run still drifts.
    """
    x = _series(series)
    return _difference(x[: max(1, int(first * x.size))], x[-max(1, int(last * x.size)) :])


def _difference(start: NDArray[np.float64], rest: NDArray[np.float64]) -> float:
    """Return the difference of the means in standard deviations, both with the spread and correlation of the rest."""
    difference = float(np.mean(start) - np.mean(rest))
    found = _estimate(0.0, rest - np.mean(rest), scale=float(np.max(np.abs(rest))), minimum=2)
    squared = (found.error or 0.0) ** 2 * (1.0 + rest.size / start.size)
    if squared == 0.0:
        return 0.0 if difference == 0.0 else float(np.copysign(np.inf, difference))
    return difference / float(np.sqrt(squared))


# ------------------------------------------------------------------------------------------- blocking


def _estimate(mean: float, y: NDArray[np.float64], scale: float, minimum: int = MINIMUM_BLOCKS) -> Estimate:
    """Return the estimate of a mean whose influences are y (blocks,); `scale` is the size that rounding is relative to."""
    n = y.size
    if reason := require_blocks(n, minimum):
        lengths, errors = np.zeros(0, np.int64), np.zeros(0)
        empty = BlockingCurve(lengths, lengths, errors, errors)
        return Estimate(mean, None, None, 1.0, n, 0, False, empty, reason)
    curve, correlation = _levels(y)
    level, found = _level(curve, correlation, scale)
    tau = float((curve.error[level] / curve.error[0]) ** 2) if curve.error[0] > 0.0 else 1.0
    enough = n >= ENOUGH_TIMES * tau or level == 0
    reason = ""
    if not (found and enough):
        # what blocking shows is a lower bound; quote the most pessimistic level that has some blocks
        trusted = np.flatnonzero(curve.blocks >= min(SMALLEST_LEVEL, n))
        level = int(trusted[np.argmax(curve.error[trusted])])
        tau = max(1.0, float((curve.error[level] / curve.error[0]) ** 2))
        reason = f"{n} blocks are {n / tau:.0f} correlation times; the error bar may be too small below {ENOUGH_TIMES:.0f}"
    return Estimate(
        mean,
        float(curve.error[level]),
        float(curve.error_of_error[level]),
        tau,
        n,
        level,
        not reason,
        curve,
        reason,
    )


def _levels(y: NDArray[np.float64]) -> tuple[BlockingCurve, NDArray[np.float64]]:
    """Return the curve and the correlation of neighbours on each level, in its standard deviations."""
    rows, correlation, length = [], [], 1
    while y.size >= 2:
        n = y.size
        y = y - np.mean(y)  # an odd block may have been dropped
        square = float(np.sum(y * y))
        error = np.sqrt(square / (n * (n - 1.0)))
        rows.append((length, n, error, error / np.sqrt(2.0 * (n - 1.0))))
        # its expectation without correlation is -1/n
        correlation.append(
            (float(np.sum(y[1:] * y[:-1])) / square + 1.0 / n) * np.sqrt(n) if square > 0 else 0.0
        )
        y, length = 0.5 * _pairs(y), 2 * length
    columns = list(zip(*rows, strict=True))
    curve = BlockingCurve(
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        np.array(columns[2]),
        np.array(columns[3]),
    )
    return curve, np.array(correlation)


def _level(curve: BlockingCurve, correlation: NDArray[np.float64], scale: float) -> tuple[int, bool]:
    """Return the level to read the error at, and whether there is one."""
    if curve.error[0] <= 1e-14 * scale:
        return 0, True  # constant but for rounding
    if np.all(correlation[curve.blocks >= SMALLEST_LEVEL] < CORRELATED):
        return 0, True
    wanted = 2.0 * curve.blocks[0] * (curve.error / curve.error[0]) ** 4
    # the error of a handful of blocks may be next to nothing by chance, and would pass for one that has converged
    able = curve.blocks >= SMALLEST_LEVEL
    enough = np.flatnonzero(able & (curve.length.astype(float) ** 3 > wanted))
    return (int(enough[0]), True) if enough.size else (0, False)


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
