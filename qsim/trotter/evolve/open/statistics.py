"""Errors of means over quantum trajectories, a rule to stop, and counting statistics of their jumps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.trotter.evolve.trajectories.averages import Averages
    from qsim.trotter.model.models import Models

__all__ = ["Counted", "Enough", "counted", "numbers_of", "ranges_of", "windows_of"]

# trajectories between two looks at the errors, and before the first one
EVERY, LEAST = 64, 128
# of all evolutions, which the deck does not name
ALWAYS = ("norm", "energy", "energy_variance", "jumps", "total_sz")


def ranges_of(models: Models) -> dict[str, tuple[float, float]]:
    """Return the extreme values of observables of one trajectory, by the names of their arrays."""
    S, total = 0.5 * max(models.system.twos), 0.5 * models.system.quanta
    ranges = {f"s{a}": (-S, S) for a in "xyz"} | {f"total_s{a}": (-total, total) for a in "xyz"}
    pairs = [a + b for a in "xyz" for b in "xyz"]
    return ranges | {f"correlator_{ab}": (-S * S, S * S) for ab in pairs} | {"fidelity": (0.0, 1.0)}


@dataclass(frozen=True)
class Enough:
    """The rule that ends a run: all errors of what is observed are below a number.

    Attributes
    ----------
    ranges : dict
        As `ranges_of`.
    target : float
    begins : bool
        True if the first row is that of t = 0.
    """

    ranges: dict[str, tuple[float, float]]
    target: float
    begins: bool

    def __call__(self, averages: Averages) -> bool:
        """Return True if no more trajectories are needed; looked at now and then."""
        if averages.count < LEAST or averages.count % EVERY:
            return False
        errors = averages.errors(self.ranges, begins=self.begins)
        named = [name for name in errors if name not in ALWAYS] or ["total_sz"]
        return max(float(errors[name].max(initial=0.0)) for name in named) <= self.target


@dataclass(frozen=True)
class Counted:
    """Statistics of the jumps of all trajectories until t_final, or in windows of time.

    Attributes
    ----------
    mean, mean_error : float
        Jumps of a trajectory, or of a window.
    fano, fano_error : float
        Variance over mean of their number, with the error of a jackknife; not a number without jumps.
    """

    mean: float
    mean_error: float
    fano: float
    fano_error: float


def numbers_of(jumps: Sequence[NDArray[np.float64]], entries: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the number of jumps of every entry of dissipation in every trajectory, (entries, trajectories).

    Parameters
    ----------
    jumps : sequence of (n, 2) float64
        Time and channel of the jumps of each trajectory.
    entries : (channels,) int64
        Entry of each channel.
    """
    count = int(entries.max(initial=-1)) + 1
    return np.array([np.bincount(entries[one[:, 1].astype(int)], minlength=count) for one in jumps], float).T


def windows_of(
    jumps: Sequence[NDArray[np.float64]], counted: NDArray[np.bool_], window: float, span: tuple[float, float]
) -> NDArray[np.float64]:
    """Return the number of jumps in every window of every trajectory, (windows, trajectories).

    Parameters
    ----------
    jumps : sequence of (n, 2) float64
        As of `numbers_of`.
    counted : (channels,) bool
        Whether the jumps of a channel are counted.
    window : float
        Length.
    span : (float, float)
        Times at which the first window begins and the last one has ended.
    """
    start, end = span
    edges = start + window * np.arange(int((end - start) / window * (1.0 + 1e-12)) + 1)
    own = [np.sort(one[counted[one[:, 1].astype(int)], 0]) for one in jumps]
    return np.diff([np.searchsorted(times, edges, "right") for times in own], axis=1).astype(float).T


def counted(n: NDArray[np.float64]) -> Counted:
    """Return the counting statistics of the numbers of jumps of trajectories (trajectories,), or (windows, trajectories).

    Trajectories are the samples of the errors: windows of one depend on each other.
    """
    n = np.atleast_2d(n)
    windows, count, mean = n.shape[0], n.shape[1], float(n.mean())
    # of few events the interval of Poisson's distribution
    spread = float(n.mean(axis=0).std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    few = mean * n.size < 30.0
    error = max(spread, math.sqrt(max(float(n.sum()), 1.0)) / n.size) if few else spread
    if count < 3 or not mean > 0.0:
        return Counted(mean, error, math.nan, math.nan)
    fano = float(n.var(ddof=1)) / mean
    # each trajectory left out once
    s1, s2 = n.sum() - n.sum(axis=0), (n**2).sum() - (n**2).sum(axis=0)
    m = windows * (count - 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        left = (s2 - s1**2 / m) / (m - 1.0) / (s1 / m)
    left = left[np.isfinite(left)]
    jack = (
        math.sqrt((count - 1.0) / count * float(((left - left.mean()) ** 2).sum())) if left.size else math.nan
    )
    # of few events, which show no spread, the error of Poisson's distribution
    return Counted(mean, error, fano, max(jack, math.sqrt(2.0 / n.size)))
