"""Times and kinds of jumps that are drawn once: a Poisson process in strata of the number of jumps (Eq. Q26)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Samples of a stratum from which its spread is known.
FEWEST = 2
# Weight of the strata beyond those that are sampled alone, below which it is rounding.
NOTHING = 1e-14


@dataclass(frozen=True)
class Histories:
    """Samples of one stratum, or of one batch of it.

    Attributes
    ----------
    weight : float
        Of the mean of the stratum in the value: ``(r T)^n/n!``.
    times : list of (n,) float64
        Times of the jumps of each sample, ascending.
    kinds : list of (n,) int64
        Which jump each is.
    """

    weight: float
    times: list[NDArray[np.float64]]
    kinds: list[NDArray[np.int64]]

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.times)

    def batch(self, first: int, last: int) -> Histories:
        """Return some of the samples."""
        return Histories(self.weight, self.times[first:last], self.kinds[first:last])


@dataclass(frozen=True)
class Passes:
    """Passes through the slots, as the kernel reads them."""

    slot: NDArray[np.int64]
    plain: NDArray[np.bool_]
    lengths: NDArray[np.float64]
    after: NDArray[np.int64]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.int64]]:
        """All arrays, in the order of the kernel."""
        return self.slot, self.plain, self.lengths, self.after

    def portions(self, most: int) -> list[tuple[slice, Passes]]:
        """Return at most so many passes at a time, in order, with their places among all."""
        places = [slice(p, min(p + most, self.slot.size)) for p in range(0, self.slot.size, most)]
        slot, plain, lengths, after = self.arrays
        return [(p, Passes(slot[p], plain[p], lengths[p], after[p])) for p in places]


def drawn(rates: NDArray[np.float64], duration: float, count: int, seed: int, stream: int) -> list[Histories]:
    """Return the strata n = 1, 2, ..., and the last one with all higher numbers of jumps.

    The number of samples of each follows its probability; within n = 1 the times are one in each of as many equal intervals.

    Parameters
    ----------
    rates : (K,) float64
        Rates of the Poisson process of each jump, 1/time.
    duration : float
        T.
    count : int
        Samples of all strata together, about.
    seed, stream : int
        Of the random numbers; another stream is other noise.
    """
    rng = np.random.default_rng([seed, stream])
    mean = float(rates.sum()) * duration
    whole = math.expm1(mean)
    strata, weight, n, used = [], mean, 1, 0.0
    while n == 1 or count * weight / whole >= FEWEST:
        samples = max(FEWEST, round(count * weight / whole))
        numbers = np.full(samples, n)
        strata.append(_stratum(rng, rates, duration, weight, numbers))
        used += weight
        n += 1
        weight *= mean / n
    if whole - used > NOTHING * whole:
        strata.append(_stratum(rng, rates, duration, whole - used, _numbers_from(rng, mean, n, FEWEST * 2)))
    return strata


def _numbers_from(rng: np.random.Generator, mean: float, least: int, count: int) -> NDArray[np.int64]:
    """Return numbers of jumps from a Poisson distribution that is cut below `least`."""
    n = np.arange(least, least + 60)
    logs = n * math.log(mean) - np.array([math.lgamma(k + 1.0) for k in n])
    chances = np.exp(logs - logs.max())
    return np.asarray(rng.choice(n, size=count, p=chances / chances.sum()))


def _stratum(
    rng: np.random.Generator,
    rates: NDArray[np.float64],
    duration: float,
    weight: float,
    numbers: NDArray[np.int64],
) -> Histories:
    """Return samples with given numbers of jumps."""
    chances = rates / rates.sum()
    times, kinds = [], []
    for sample, n in enumerate(numbers):
        spots = rng.random(n)
        if n == 1:
            spots = (sample + spots) / numbers.size
        times.append(np.sort(spots) * duration)
        kinds.append(rng.choice(rates.size, size=n, p=chances))
    return Histories(weight, times, kinds)


def passes_of(histories: Histories, slots: int, duration: float, columns: int) -> Passes:
    """Return the passes of samples of `columns` columns each, side by side."""
    tau = duration / slots
    events: list[list[tuple[int, float, int]]] = [[] for _ in range(slots)]
    for sample, (times, kinds) in enumerate(zip(histories.times, histories.kinds, strict=True)):
        for time, kind in zip(times, kinds, strict=True):
            n = min(int(time / tau), slots - 1)
            events[n].append((sample, min(1.0, time / tau - n), int(kind)))
    slot: list[int] = []
    plain: list[bool] = []
    lengths: list[NDArray[np.float64]] = []
    after: list[NDArray[np.int64]] = []
    whole, none = np.ones(histories.count), np.full(histories.count, -1)
    for n in range(slots):
        gone, remaining = np.zeros(histories.count), events[n]
        while remaining:
            length, kinds_after, later = np.zeros(histories.count), none.copy(), []
            for sample, spot, kind in remaining:
                # the first jump of each sample in this pass, its later ones in the next
                if kinds_after[sample] >= 0:
                    later.append((sample, spot, kind))
                    continue
                length[sample] = spot - gone[sample]
                kinds_after[sample] = kind
            gone = gone + length
            slot.append(n)
            plain.append(False)
            lengths.append(length)
            after.append(kinds_after)
            remaining = later
        slot.append(n)
        plain.append(not events[n])
        lengths.append(whole - gone)
        after.append(none)
    repeat = np.repeat
    return Passes(
        np.array(slot, dtype=np.int64),
        np.array(plain),
        np.ascontiguousarray(repeat(np.array(lengths), columns, axis=1)),
        np.ascontiguousarray(repeat(np.array(after, dtype=np.int64), columns, axis=1)),
    )
