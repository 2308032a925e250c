"""Population control: public wrappers of ``branching.cu`` and their CPU twins.

All sums are of integers, so CPU and GPU choose the same walkers, bit by bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
from qsim.core.device.device import namespace
from qsim.qmc.kernels.walkers import comb_cpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray

__all__ = ["FEW", "comb", "settle", "settled_comb", "settled_combs", "shifts", "weigh_walkers"]

THREADS, SETTLERS, FEW = 256, 1024, 1024  # as in branching.cu
GOLDEN = 0.6180339887498949  # (sqrt(5) - 1) / 2, as in branching.cu


def weigh_walkers(
    weights: FloatArray,
    ages: NDArray[np.int64] | None,
    max_age: int,
    heaviest: float,
    limit: float,
    unit: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return weights as integers, their sum, and how many are out of range and persistent; a GPU is not waited for.

    Parameters
    ----------
    weights : (W,) float64, NumPy or CuPy
    ages : (W,) int64, or None
        Generations since the last accepted move.
    max_age
        Beyond this age a walker is persistent, and its weight at most ``heaviest``.
    limit
        Weights are in range from 0 to this.
    unit
        Integers per unit of weight.

    Returns
    -------
    whole : (W,) int64
        0 where the weight is out of range.
    sums : (3,) int64
        The sum, how many weights are out of range, and how many walkers are persistent; where the weights are.
    """
    xp, n = namespace(weights), weights.size
    if xp is np:
        return _weigh_walkers_cpu(weights, ages, max_age, heaviest, limit, unit)
    whole, sums = xp.empty(n, np.int64), xp.zeros(3, np.int64)
    age = (np.uint64(0), np.int64(-1)) if ages is None else (ages, np.int64(max_age))
    numbers = map(np.float64, (heaviest, limit, unit))
    arguments = (weights, age[0], np.int64(n), age[1], *numbers, whole, sums)
    if n:
        _kernel("weigh_walkers")((-(-n // THREADS),), (THREADS,), arguments)
    return whole, sums


def comb(whole: NDArray[np.int64], n: int, step: int, rest: int, start: int, more: int) -> NDArray[np.int64]:
    """Return the walkers (n,) int64 on which the teeth ``k step + start + (k rest + more) // n`` fall.

    Parameters
    ----------
    whole : (W,) int64, NumPy or CuPy
        Weights, laid end to end in ascending order.
    """
    xp = namespace(whole)
    order = xp.argsort(whole, kind="stable")
    cumulated = xp.cumsum(whole[order])
    if xp is np:
        return _comb_cpu(order, cumulated, n, step, rest, start, more)
    indices = xp.empty(n, np.int64)
    numbers = (np.int64(x) for x in (whole.size, n, step, rest, start, more))
    _kernel("comb")((-(-n // THREADS),), (THREADS,), (order, cumulated, *numbers, indices))
    return indices


def settle(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Permute indices (n,) into 0 .. n - 1, equal ones side by side, so that every walker that occurs keeps its place.

    Surplus copies go, in their order, to the places of walkers that die.
    """
    xp, n = namespace(indices), indices.size
    if xp is np:
        return _settle_cpu(indices)
    found, work = indices.copy(), xp.empty((2, n), np.int64)
    _kernel("settle")((1,), (SETTLERS,), (found, np.int64(n), work[0], work[1]))
    return found


def settled_comb(whole: NDArray[np.int64], step: int, rest: int, start: int, more: int) -> NDArray[np.int64]:
    """Return what :func:`settle` makes of :func:`comb` in ascending order, for as many teeth as walkers."""
    xp, n = namespace(whole), whole.size
    if xp is np:
        return _settled_comb_cpu(whole, step, rest, start, more)
    # Many walkers by several launches, few by one.
    if n > FEW:
        return settle(xp.sort(comb(whole, n, step, rest, start, more)))
    indices = xp.empty(n, np.int64)
    numbers = (np.int64(x) for x in (step, rest, start, more))
    _kernel("settled_comb")((1,), (SETTLERS,), (whole, np.int32(n), *numbers, indices))
    return indices


def settled_combs(
    whole: NDArray[np.int64],
    edges: NDArray[np.int64],
    first: int,
    uniform: float,
    unit: float,
    weights: FloatArray,
) -> NDArray[np.int64]:
    """Let groups of walkers branch, each by a comb of its own; a GPU is not waited for.

    Parameters
    ----------
    whole : (W,) int64, NumPy or CuPy
        Weights as integers of 1 / `unit`.
    edges : (groups + 1,) int64
        First walker of each group, and W; where the weights are.  No group has more than `FEW` walkers.
    first
        Number of the first of these groups, by which :func:`shifts` tells them apart.
    uniform
        In 0 to 1.
    unit
        Integers per unit of weight.
    weights : (W,) float64, out
        The mean of its group for every walker; of a group without any weight they stay.

    Returns
    -------
    (W,) int64
        Number of the old walker in each place; every walker that lives on keeps its own.
    """
    xp = namespace(whole)
    if xp is np:
        return _settled_combs_cpu(whole, edges, first, uniform, unit, weights)
    indices = xp.empty(whole.size, np.int64)
    numbers = (np.int64(first), np.float64(uniform), np.float64(unit))
    _kernel("settled_combs")((edges.size - 1,), (SETTLERS,), (whole, edges, *numbers, weights, indices))
    return indices


def shifts(uniform: float, first: int, count: int) -> FloatArray:
    """Return the shifts of the combs of groups ``first ..``, (count,) float64, from one uniform number.

    Multiples of the golden ratio are added to it: each shift is uniform in 0 to 1, as unbiased combs need; that of group 0 is the
    number itself.
    """
    moved = uniform + (first + np.arange(count)) * GOLDEN
    shift: FloatArray = moved - np.floor(moved)
    return shift


def _weigh_walkers_cpu(
    weights: FloatArray,
    ages: NDArray[np.int64] | None,
    max_age: int,
    heaviest: float,
    limit: float,
    unit: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    old = np.zeros(weights.size, bool) if ages is None else ages > max_age
    # Persistent walkers, stuck where the local energy is very low, are kept from multiplying.
    limited = np.where(old, np.minimum(weights, heaviest), weights)
    good = (limited >= 0) & (limited <= limit)  # false for NaN
    whole = np.rint(np.where(good, limited, 0.0) * unit).astype(np.int64)
    return whole, np.array([whole.sum(), (~good).sum(), old.sum()], np.int64)


def _comb_cpu(
    order: NDArray[np.int64],
    cumulated: NDArray[np.int64],
    n: int,
    step: int,
    rest: int,
    start: int,
    more: int,
) -> NDArray[np.int64]:
    k = np.arange(n, dtype=np.int64)
    # Tooth k at (k + u) total / n in integers: quotient and rest apart, so that no product
    # passes 63 bits.
    teeth = k * step + start + (k * rest + more) // n
    return order[np.searchsorted(cumulated, teeth, side="right")].astype(np.int64)


def _settle_cpu(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    n = indices.size
    alive = np.zeros(n, dtype=bool)
    alive[indices] = True
    surplus = np.zeros(n, dtype=bool)
    # Indices ascend: the second and later ones of equal ones are copies.
    surplus[1:] = indices[1:] == indices[:-1]
    found = np.arange(n, dtype=np.int64)
    found[~alive] = indices[surplus]
    return found


def _settled_comb_cpu(
    whole: NDArray[np.int64], step: int, rest: int, start: int, more: int
) -> NDArray[np.int64]:
    work, indices = np.empty((3, whole.size), np.int64), np.empty(whole.size, np.int64)
    buckets = np.empty(comb_cpu.BUCKETS, np.int64)
    numbers = (step, rest, start, more)
    comb_cpu.settled_comb(np.ascontiguousarray(whole), *numbers, work[0], work[1], buckets, work[2], indices)
    return indices


def _settled_combs_cpu(
    whole: NDArray[np.int64],
    edges: NDArray[np.int64],
    first: int,
    uniform: float,
    unit: float,
    weights: FloatArray,
) -> NDArray[np.int64]:
    work, indices = np.empty((3, FEW), np.int64), np.empty(whole.size, np.int64)
    buckets, uniforms = np.empty(comb_cpu.BUCKETS, np.int64), shifts(uniform, first, edges.size - 1)
    comb_cpu.settled_combs(
        np.ascontiguousarray(whole), np.array(edges), uniforms, float(unit), work, buckets, weights, indices
    )
    return indices


def _kernel(name: str) -> Any:
    return kernels.function("qmc/kernels/walkers", "branching", name, {"REAL": "double"})
