"""Open systems by sampled histories with fixed noise: an unbiased value with an exact gradient (Eq. Q26).

``P = sum_n (r T)^n/n! mean of the value of kets that jump n times``: jumps L_k/sqrt(r_k) at times of a Poisson process that are
drawn once, in strata of the number of jumps, and kets under ``H - i sum_k L_k+ L_k/2`` between them. The map is linear for given
times, so that no derivative of a time is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.kernels.portions import MOST, look
from qsim.qoc.kernels.slots import columns_of, real_of
from qsim.qoc.kernels.trajectories import jumping_backward, jumping_forward
from qsim.qoc.objectives.objective import Evaluation
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.propagators.slots import Motion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel

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


# Bytes of the trajectories that are kept at a time.
BATCH_BYTES = 2.5e8
# Of the mean rate of a jump over all levels, which a rate has at least: histories that the first controls do not show.
LEAST = 0.05


def rates_of(model: QuantumModel, duration: float, fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rates (K,) of the Poisson process: those along the kets without a jump, and a share of the mean over all levels."""
    objective = SlotObjective(model, Motion(duration, fields.shape[1], lossy=True))
    final, trajectory = objective.propagator.forward(fields, objective.start)
    states = np.concatenate([trajectory.at_slots(), final[None]])
    weights = objective.mean_weights()
    kept = float(np.sum(np.abs(states) ** 2, axis=1).mean(axis=0) @ weights)
    flat = states.transpose(1, 0, 2).reshape(model.dimension, -1)
    rates = []
    for jump in model.jumps:
        moved = np.abs(jump.operator @ flat) ** 2
        along = float(moved.sum(axis=0).reshape(len(states), -1).mean(axis=0) @ weights) / kept
        everywhere = float(np.sum(np.abs(jump.operator.data) ** 2)) / model.dimension
        rates.append(along + LEAST * everywhere)
    return np.array(rates)


@dataclass(frozen=True)
class Sampled:
    """Estimate with noise of its own.

    Attributes
    ----------
    value, error : float
        P and its standard error.
    density : (D, D) complex128
        Mean density matrix at T.
    populations : (N, D) float64
        At the end of each slot.
    """

    value: float
    error: float
    density: ComplexArray
    populations: NDArray[np.float64]


class Unravelling(SlotObjective):
    """Value and gradient over sampled histories; the same noise every time.

    Parameters
    ----------
    model : QuantumModel
    motion : Motion
        Of kets.
    alpha : float or (C,) float64
        Fluence penalty.
    rates : (K,) float64
        Of the Poisson process.
    count, seed : int
        Samples with jumps, and the seed of their times.
    """

    def __init__(
        self,
        model: QuantumModel,
        motion: Motion,
        alpha: float | NDArray[np.float64],
        rates: NDArray[np.float64],
        count: int,
        seed: int,
    ) -> None:
        # order 0 without a jump, to which the samples add
        super().__init__(model, replace(motion, lindblad=False, lossy=True), alpha)
        self.rates, self.count, self.seed = rates, count, seed
        self.jumps = _jumps(model, rates)
        self.strata = drawn(rates, motion.duration, count, seed, 0)

    @property
    def by_order(self) -> bool:
        """False: all numbers of jumps are in the value."""
        return False

    @property
    def mean_jumps(self) -> float:
        """Mean number r T of jumps of the process; weights are spread as exp(r T)."""
        return float(self.rates.sum()) * self.motion.duration

    def values(self, fields: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P and J of one set of controls (C, N), as arrays (1,)."""
        p, _ = super().values(fields)
        p = p + sum(self._mean(fields, stratum) for stratum in self.strata)
        return p, p - self.penalty(fields)

    def evaluate(self, fields: NDArray[np.float64]) -> Evaluation:
        """Return P, J and the exact gradient (C, N) for this noise."""
        found = super().evaluate(fields)
        p, gradient = found.probability, found.gradient.copy()
        for stratum in self.strata:
            for batch in self._batches(stratum):
                x, trajectory, passes = self._forward(fields, batch)
                share = stratum.weight / stratum.count
                p += share * float(self.cost.values(x).sum())
                costates = np.array([share * self.cost.derivative(one) for one in x])
                gradient += self._backward(fields, passes, trajectory, costates)
        return Evaluation(p, p - self.penalty(fields), gradient, np.array([p]))

    def sampled(self, fields: NDArray[np.float64], stream: int) -> Sampled:
        """Return the estimate with the noise of another stream: it knows nothing of the search."""
        final, populations = self.look(fields)
        value, variance = self.cost.value(final), 0.0
        density = self.density(final)
        for stratum in drawn(self.rates, self.motion.duration, self.count, self.seed, stream):
            found = []
            for batch in self._batches(stratum):
                x, trajectory, passes = self._forward(fields, batch)
                share = stratum.weight / stratum.count
                found.append(self.cost.values(x))
                flat = x.transpose(1, 0, 2).reshape(x.shape[1], -1)
                weights = np.tile(self.mean_weights(), batch.count)
                density = density + share * (flat * weights) @ flat.conj().T
                populations = populations + share * self._populations(trajectory, passes, x)
            every = np.concatenate(found)
            value += stratum.weight * float(every.mean())
            variance += stratum.weight**2 * float(every.var(ddof=1)) / every.size
        return Sampled(value, math.sqrt(variance), density, populations)

    # ------------------------------------------------------------------------------------------- pieces

    def _mean(self, fields: NDArray[np.float64], stratum: Histories) -> float:
        """Return the part of one stratum in the value."""
        sums = [float(self.cost.values(self._forward(fields, b)[0]).sum()) for b in self._batches(stratum)]
        return stratum.weight * sum(sums) / stratum.count

    def _batches(self, stratum: Histories) -> list[Histories]:
        """Return the samples of a stratum in batches whose trajectories fit."""
        each = 16.0 * self.start.size * 2.0 * self.propagator.slots
        size = max(1, int(BATCH_BYTES / each))
        return [stratum.batch(first, first + size) for first in range(0, stratum.count, size)]

    def _forward(
        self, fields: NDArray[np.float64], batch: Histories
    ) -> tuple[ComplexArray, NDArray[np.float64], Passes]:
        """Return the columns at T (samples, D, S), the trajectory, and the passes."""
        propagator = self.propagator
        count = self.start.shape[1]
        passes = passes_of(batch, propagator.slots, self.motion.duration, count)
        factors, terms, parts = propagator.prepare(fields, None)
        x = real_of(np.tile(self.start, batch.count))
        trajectory = np.empty((passes.slot.size * parts, *x.shape))
        pattern = (propagator.pattern.start, propagator.pattern.column, propagator.values)
        tau = propagator.tau / parts
        for place, some in passes.portions(self._together(x, terms * parts)):
            look()
            rows = trajectory[place.start * parts : place.stop * parts]
            jumping_forward(pattern, self.jumps, some.arrays, factors, tau, terms, parts, x, rows)
        final = columns_of(x) * np.conj(propagator.turn(propagator.slots))
        return final.reshape(x.shape[0], batch.count, count).transpose(1, 0, 2), trajectory, passes

    def _backward(
        self,
        fields: NDArray[np.float64],
        passes: Passes,
        trajectory: NDArray[np.float64],
        costates: ComplexArray,
    ) -> NDArray[np.float64]:
        """Return the gradient (C, N) of one batch."""
        propagator = self.propagator
        factors, terms, parts = propagator.prepare(fields, None)
        flat = costates.transpose(1, 0, 2).reshape(costates.shape[1], -1)
        lam = real_of(flat * propagator.turn(propagator.slots))
        out = np.zeros(fields.shape)
        pattern = (propagator.pattern.start, propagator.pattern.column, propagator.values)
        tau = propagator.tau / parts
        # The way back takes each product of the series three times.
        for place, some in reversed(passes.portions(self._together(lam, 3 * terms * parts))):
            look()
            rows = trajectory[place.start * parts : place.stop * parts]
            jumping_backward(pattern, self.jumps, some.arrays, factors, tau, terms, parts, lam, rows, out)
        return propagator.by_controls(fields, out)

    def _together(self, x: NDArray[np.float64], products: int) -> int:
        """Return the passes of a call, each with some products with all columns."""
        return max(1, int(MOST / (2.0 * self.propagator.pattern.column.size * x.shape[1] * products)))

    def _populations(
        self, trajectory: NDArray[np.float64], passes: Passes, final: ComplexArray
    ) -> NDArray[np.float64]:
        """Return the populations (N, D), summed over samples, at the end of every slot."""
        parts = trajectory.shape[0] // passes.slot.size
        first = np.searchsorted(passes.slot, np.arange(1, self.propagator.slots)) * parts
        starts = trajectory[first]
        count = starts.shape[2] // 2
        sizes = starts[:, :, :count] ** 2 + starts[:, :, count:] ** 2
        weights = np.tile(self.shown_weights(), final.shape[0])
        last = np.abs(final.transpose(1, 0, 2).reshape(final.shape[1], -1)) ** 2 @ weights
        return np.concatenate([sizes @ weights, last[None]])


def _jumps(
    model: QuantumModel, rates: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return all ``L_k/sqrt(r_k)`` as the arrays of the kernel."""
    starts, columns, values, offset = [], [], [], 0
    for jump, rate in zip(model.jumps, rates, strict=True):
        a = jump.operator
        starts.append(a.indptr.astype(np.int64) + offset)
        columns.append(a.indices.astype(np.int64))
        values.append(a.data / math.sqrt(rate))
        offset += a.nnz
    every = np.concatenate(values)
    real, imaginary = np.ascontiguousarray(every.real), np.ascontiguousarray(every.imag)
    return np.array(starts), np.concatenate(columns), real, imaginary
