r"""Errors of means of correlated series: autocorrelation, independent chains, Student factors, slow drift.

G chains of N rows have deviations :math:`y_{gi}` from the mean of all, with the autocovariance
:math:`\Gamma(t)=\langle y_{gi}y_{g,i+t}\rangle`.  The square of the error is :math:`C/(GN)` with
:math:`C=\Gamma(0)+2\sum_{t\le W}\Gamma(t)`.

**Few chains** [1]_.  The window W is where the truncated rest, :math:`\mathrm e^{-W/\tau}`, is as small as the noise,
:math:`\sqrt{W/GN}`; since the deviations are from the mean found, C is too small by about :math:`1-(2W+1)/GN`, which is undone.
The noise of C is that of :math:`\nu=GN/(2W+1)` degrees of freedom.

**Many chains.**  Walkers that never meet are independent whatever their correlation in time: the error is the scatter of
the means of the chains, with :math:`\nu=G-1`, and no window is needed.

**Student.**  An error bar that is itself uncertain covers less than a normal law says.  It is enlarged such that three of it
cover 99.73 % for :math:`\nu` degrees of freedom.

**Skewness.**  Energies that diverge as 1/r, and squares of energies, are skew, and so is the mean of few of them; a mean that is
too low then comes with an error that is too small.  Edgeworth's expansion of Student's ratio [2]_ has the chance
:math:`\tfrac16\gamma(2x^2+1)\varphi(x)` beyond x more on one side and less on the other, with the skewness :math:`\gamma` of the
mean; the error is enlarged by :math:`1+\tfrac12\gamma`, which keeps three of them at 99.7 % up to :math:`\gamma\approx0.4`.  The
skewness is that of rows joined over 2W + 1, where it exceeds what normal numbers show by chance.

**Slow parts.**  A small part of the variance with a long memory hides behind the noise of the first lags.  Where a series has
100 blocks above the window, their scatter is used instead if it is larger by two standard deviations.

References
----------
.. [1] U. Wolff, Comput. Phys. Commun. 156, 143 (2004), doi:10.1016/S0010-4655(03)00467-3.
.. [2] P. Hall, J. R. Stat. Soc. B 54, 221 (1992).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.core.statistics import LEVEL, student

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MANY_CHAINS",
    "Correlation",
    "SlowPart",
    "correlation",
    "drift",
    "lognormal",
    "memory",
    "skewness",
    "slow_part",
]

MANY_CHAINS = 20  # independent chains whose scatter alone gives the error bar
MANY_BLOCKS = 100  # joined blocks that tell whether there is a slow part
SLOW_PART = (
    1.3  # what they must say of the square of the error, over the autocorrelation: two standard deviations
)
STEEPNESS = 2.0  # S of Wolff: how much longer than the integrated one the slowest correlation time may be
SKEW = 0.5  # of the skewness of a mean: by how much it enlarges the error bar, relative
BY_CHANCE = 2.0  # standard deviations of the skewness of normal numbers that do not count
FEWEST_JOINED = 8  # numbers that tell a skewness
LARGEST_RELATIVE = 1.0  # error of a positive quantity over its value: beyond, nothing is known
PERSISTENT = (
    3.0  # standard deviations of a covariance between distant quarters of a series that are no chance
)
SLOWEST = (1.5, 5.0, 15.0)  # decays over the series, in its inverse length, that a drift is looked for with


class Correlation(NamedTuple):
    """Error and correlation time of a mean.

    Attributes
    ----------
    error : float
        Standard error of the mean, as estimated, without Student's factor.
    degrees : float
        Degrees of freedom of that estimate.
    time : float
        Integrated autocorrelation time ``1 + 2 sum rho``, in rows; 1 without correlation.
    upper : float
        Upper bound of it, two standard deviations above.
    window : int
        Rows whose correlation was summed; the length of the series where chains were compared.
    skew : float
        Skewness of the mean, in magnitude; 0 where it may be chance.
    """

    error: float
    degrees: float
    time: float
    upper: float
    window: int
    skew: float = 0.0

    @property
    def factor(self) -> float:
        """Factor on the error that makes three of them cover as a normal law says: Student's, and that of skewness."""
        return student(self.degrees) * (1.0 + SKEW * self.skew)


def skewness(y: NDArray[np.float64]) -> float:
    """Return the magnitude of the skewness of the mean of independent numbers (n,); 0 where it may be chance."""
    n = y.size
    d = y - np.mean(y)
    square = float(np.mean(d * d))
    if n < FEWEST_JOINED or not square > 0.0:
        return 0.0
    # The skewness of n normal numbers scatters with variance 6 / n: that much is taken off.
    # The mean of n numbers has a skewness smaller by sqrt(n).
    third = float(np.mean(d**3)) / square**1.5
    return math.sqrt(max(0.0, third * third - BY_CHANCE**2 * 6.0 / n) / n)


def lognormal(relative: float) -> float:
    """Return the factor on the error of a positive quantity, whose logarithm has the error `relative`.

    Estimates of a scale, such as a variance, are skew: one that is too small has an error that is too small as well.  Three
    error bars reach as far up as three of the logarithm do: :math:`(e^{3r}-1)/3r`.
    """
    r = LEVEL * min(relative, LARGEST_RELATIVE)
    return math.expm1(r) / r if r > 0.0 else 1.0


def correlation(y: NDArray[np.float64], *, independent: bool = True) -> Correlation:
    """Return the error of the mean of deviations.

    Parameters
    ----------
    y : (chains, rows) float64
        Deviations from the mean of all, relative to a mean weight of 1.
    independent
        True if the chains are independent; else they are added up to one.

    Returns
    -------
    Correlation
    """
    if not independent:
        # Chains that are correlated with each other become one.
        y = np.mean(y, axis=0, keepdims=True)
    G, N = y.shape
    y = y - np.mean(y)
    # Wolff, Comput. Phys. Commun. 156, 143 (2004): sum of the autocovariance up to a window
    # that balances truncation and noise.
    gamma = _autocovariance(y)
    if not gamma[0] > 0.0:
        return Correlation(0.0, float(max(G * N - 1, 1)), 1.0, 1.0, 0)
    window = _window(gamma, G * N)
    total = gamma[0] + 2.0 * float(np.sum(gamma[1 : window + 1]))
    # The mean was taken from the same numbers, which makes each autocovariance too small by
    # total / (G N): corrected to first order.
    total = max(total, gamma[0] / N) * (1.0 + (2.0 * window + 1.0) / (G * N))
    # Independent pieces of the length of the window.
    degrees = max(G * N / (2.0 * window + 1.0), 1.0)
    # Skewness of pieces that are independent.
    skew = skewness(_joined(y, 2 * window + 1))
    length = G * N // MANY_BLOCKS
    if length > 2 * window + 1:  # a small slow part, which the window cut off, shows in long blocks
        joined = _joined(y, length)
        # The naive error from long blocks; it counts if it is larger by more than chance.
        slow = length * float(np.var(joined, ddof=1))
        if slow > total * SLOW_PART:
            total, degrees, window = slow, joined.size - 1.0, length
    time = total / gamma[0]
    upper = max(time, 1.0) * (1.0 + 2.0 * math.sqrt(2.0 / degrees))
    if G >= MANY_CHAINS:
        # Many independent chains: the scatter of their means needs no assumption about the
        # correlation within.
        total = N * float(np.sum(np.mean(y, axis=1) ** 2)) / (G - 1.0)
        degrees, window, time = G - 1.0, N, total / gamma[0]
        upper = max(upper, time)
    return Correlation(math.sqrt(total / (G * N)), degrees, time, upper, window, skew)


def _joined(y: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Return the means of `count` neighbours of each chain (chains, rows), at most of the whole chain, as one array."""
    N = y.shape[1]
    length = min(length, N)
    return np.asarray(y[:, : N // length * length].reshape(-1, length).mean(axis=1))


def memory(y: NDArray[np.float64], *, independent: bool = True) -> float:
    """Return the decay time of the correlation, in rows: that of an exponential with the same integrated time.

    Parameters
    ----------
    y : (chains, rows) float64
    independent
        As for :func:`correlation`.
    """
    if not independent:
        y = np.mean(y, axis=0, keepdims=True)
    y = y - np.mean(y)
    gamma = _autocovariance(y)
    if not gamma[0] > 0.0:
        return 0.0
    window = _window(gamma, y.size)
    time = 1.0 + 2.0 * float(np.sum(gamma[1 : window + 1])) / gamma[0]
    time *= 1.0 + (2.0 * window + 1.0) / y.size
    return 0.0 if time <= 1.0 + 1e-9 else 1.0 / math.log((time + 1.0) / (time - 1.0))


class SlowPart(NamedTuple):
    """A part of a series that decays so slowly that distant quarters of it still resemble each other.

    Attributes
    ----------
    time : float
        Decay time, in rows, one standard deviation above the estimate; at most the length of the series, which cannot tell
        a longer one.
    deviation : float
        Standard deviation of this part of the values of one chain.
    """

    time: float
    deviation: float


def slow_part(y: NDArray[np.float64]) -> SlowPart | None:
    """Return the part of independent chains that outlives a quarter of the series; None if there is no sign of one.

    A walker that is shut in by the nodes of a trial function, or by the distance of two centres, keeps the energy of its place
    for long.  Most of the variance decays much faster, so that the integrated time says nothing about it; the covariances
    between quarters of the series do, averaged over the chains.  They have no bias from the mean of all, since the mean over
    the chains is taken out of each quarter.

    Parameters
    ----------
    y : (chains, rows) float64
        Influences of independent chains on a mean.
    """
    chains, rows = y.shape
    quarter = rows // 4
    if chains < MANY_CHAINS or quarter < 1:
        return None
    means = y[:, : 4 * quarter].reshape(chains, 4, quarter).mean(axis=2)
    covariance = np.cov(means, rowvar=False)
    near = float(np.mean(np.diagonal(covariance, 1)))
    # Two pairs are two quarters apart and one is three: 7/3 on average, 4/3 further than neighbours.
    far = float(np.diagonal(covariance, 2).sum() + covariance[0, 3]) / 3.0
    # Of independent quarters a covariance has the variance s^4 / (chains - 1); three of them are averaged.
    chance = float(np.mean(np.diagonal(covariance))) / math.sqrt(3.0 * (chains - 1.0))
    if not far > PERSISTENT * chance:
        return None
    # The slowest decay that the noise allows: a warm-up that is longer than needed costs little.
    slowest = far + chance
    time = 4.0 / 3.0 * quarter / math.log(near / slowest) if near > slowest else math.inf
    time = min(time, float(rows))
    # What is half a quarter old on average has decayed by that much when it is averaged over a quarter and its neighbour.
    return SlowPart(time, math.sqrt(max(near, far) * math.exp(min(1.0, quarter / time))))


def drift(y: NDArray[np.float64], *, independent: bool = True) -> float:
    """Return the probability that a stationary series looks as much like a decay as this one does.

    Decays of several lengths are fitted; each amplitude is compared with its scatter between the chains, or with what the
    autocovariance of the rest says.  The smallest of their probabilities is returned, times their number.

    Parameters
    ----------
    y : (chains, rows) float64
    independent
        As for :func:`correlation`.
    """
    from scipy.special import stdtr

    if not independent:
        y = np.mean(y, axis=0, keepdims=True)
    G, N = y.shape
    if N < 4:
        return 1.0
    y = y - np.mean(y)
    smallest = 1.0
    for speed in SLOWEST:
        # A decay with the mean taken out and norm 1: its amplitude in noise without
        # correlation has the variance of the noise.
        shape = np.exp(-speed * (np.arange(N) + 0.5) / N)
        shape -= shape.mean()
        shape /= math.sqrt(float(shape @ shape))
        # One for each chain.
        amplitudes = y @ shape
        amplitude = float(np.mean(amplitudes))
        if G >= MANY_CHAINS:
            spread, degrees = float(np.std(amplitudes, ddof=1)) / math.sqrt(G), G - 1.0
        else:
            # Few chains: the variance of the amplitude by the autocovariance of what the fit
            # leaves.
            rest = y - amplitude * shape
            gamma = _autocovariance(rest)
            if not gamma[0] > 0.0:
                return 1.0 if amplitude == 0.0 else 0.0
            window = _window(gamma, G * N)
            overlap = np.array([float(shape[t:] @ shape[: N - t]) for t in range(window + 1)])
            overlap[1:] *= 2.0
            # the fit of shape and mean has taken some of the slow scatter away
            scatter = max(float(gamma[: window + 1] @ overlap), gamma[0] / N)
            scatter *= 1.0 + 2.0 * (2.0 * window + 1.0) / (G * N)
            spread, degrees = math.sqrt(scatter / G), max(G * N / (2.0 * window + 1.0) - 1.0, 1.0)
        if not spread > 0.0:
            return 1.0 if amplitude == 0.0 else 0.0
        smallest = min(smallest, 2.0 * float(stdtr(degrees, -abs(amplitude) / spread)))
    return min(1.0, len(SLOWEST) * smallest)


def _autocovariance(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the autocovariance (rows,) of chains (chains, rows) about zero, averaged over pairs of rows so far apart."""
    N = y.shape[1]
    # By FFT with zeros behind, so that the ends do not meet.
    transformed = np.fft.rfft(y, 2 * N, axis=1)
    found = np.fft.irfft(np.mean(np.abs(transformed) ** 2, axis=0), 2 * N)[:N]
    return np.asarray(found / np.arange(N, 0, -1))


def _window(gamma: NDArray[np.float64], size: int) -> int:
    """Return the window that makes truncation and noise equally small (Wolff, equation 52); half of the series at most."""
    time = 0.5  # in Wolff's convention, 1/2 + sum rho
    N = gamma.size
    for W in range(1, max(2, N // 2)):
        if W >= N:
            break
        # The first window at which the truncation exp(-W / tau) is smaller than the noise.
        time += gamma[W] / gamma[0]
        slowest = (
            STEEPNESS / math.log((2.0 * time + 1.0) / (2.0 * time - 1.0)) if time > 0.5 + 1e-12 else 1e-12
        )
        if math.exp(-W / slowest) - slowest / math.sqrt(W * size) < 0.0:
            return W
    return max(1, min(N - 1, N // 2))
