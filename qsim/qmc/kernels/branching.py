"""Population control on a GPU: public wrappers of ``branching.cu``; the twin is the array code of ``qmc.branching``."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsim.core import kernels
from qsim.core.device import namespace

__all__ = ["comb", "integers", "settle"]

THREADS, SETTLERS = 256, 1024  # as in branching.cu


def integers(
    weights: Any, ages: Any, max_age: int, heaviest: float, limit: float, unit: float
) -> tuple[Any, int, int, int]:
    """Return weights as integers, their sum, and how many are out of range and persistent.

    Parameters
    ----------
    weights : (W,) float64 CuPy array
    ages : (W,) int64 CuPy array, or None
        Generations since the last accepted move.
    max_age
        Beyond this age a walker is persistent, and its weight at most ``heaviest``.
    limit
        Weights are in range from 0 to this.
    unit
        Integers per unit of weight.

    Returns
    -------
    whole : (W,) int64 CuPy array
        0 where the weight is out of range.
    total, bad, old : int
    """
    xp, n = namespace(weights), weights.size
    whole, sums = xp.empty(n, np.int64), xp.zeros(3, np.int64)
    age = (np.uint64(0), np.int64(-1)) if ages is None else (ages, np.int64(max_age))
    numbers = map(np.float64, (heaviest, limit, unit))
    arguments = (weights, age[0], np.int64(n), age[1], *numbers, whole, sums)
    _kernel("weigh_walkers")((-(-n // THREADS),), (THREADS,), arguments)
    total, bad, old = (int(x) for x in sums.get())
    return whole, total, bad, old


def comb(whole: Any, n: int, step: int, rest: int, start: int, more: int) -> Any:
    """Return the walkers (n,) int64 on which the teeth ``k step + start + (k rest + more) // n`` fall.

    Parameters
    ----------
    whole : (W,) int64 CuPy array
        Weights, laid end to end in ascending order.
    """
    xp = namespace(whole)
    order = xp.argsort(whole, kind="stable")
    cumulated, indices = xp.cumsum(whole[order]), xp.empty(n, np.int64)
    numbers = (np.int64(x) for x in (whole.size, n, step, rest, start, more))
    _kernel("comb")((-(-n // THREADS),), (THREADS,), (order, cumulated, *numbers, indices))
    return indices


def settle(indices: Any) -> Any:
    """Return indices (n,) int64 permuted as by ``qmc.branching.settle``."""
    xp, n = namespace(indices), indices.size
    found, work = indices.copy(), xp.empty((2, n), np.int64)
    _kernel("settle")((1,), (SETTLERS,), (found, np.int64(n), work[0], work[1]))
    return found


def _kernel(name: str) -> Any:
    return kernels.function("qmc/kernels", "branching", name, {"REAL": "double"})
