r"""Counting statistics of jumps in a steady state.

The number n of jumps within a long time T has the mean ``r T`` and the variance ``F r T`` with the Fano factor

    F = 1 + (2 / r) int_0^inf (Tr[J exp(G t) J rho] - r^2) dt = 1 - (2 / r) Tr[J y],   G y = J rho - r rho,   Tr y = 0,

J x = sum_k L_k x L_k^+ over the jumps that are counted and r = Tr[J rho].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.model.open.channels import decays_of, digits_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.evolve.steady.problem import SteadyProblem
    from qsim.trotter.evolve.steady.search import Inverse

# of all rates together, below which an entry makes no jumps
DARK = 1e-9


def rates_of(problem: SteadyProblem, v: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return ``Tr[J x]`` of every entry of the deck: the rate of its jumps if x is the state."""
    doubled = problem.doubled
    entries = sorted({channel.entry for channel in problem.channels})
    found, trace = np.zeros(entries[-1] + 1), doubled.trace(v).real
    for entry in entries:
        own = [channel for channel in problem.channels if channel.entry == entry]
        for number, decay in enumerate(decays_of(own, doubled.twos)):
            model = digits_of(decay.model, doubled.twos)
            found[entry] += decay.constant * trace + doubled.mean(("rate", entry, number), model, v).real
    return found


def counting(
    problem: SteadyProblem,
    inverse: Inverse,
    v: NDArray[np.complex128],
    rates: NDArray[np.float64],
    error: float,
    gap: float,
) -> dict[str, Any]:
    """Return the Fano factors of the entries of the deck and of all jumps, and their errors.

    Parameters
    ----------
    rates : (entries,) float64
        Of the jumps of the state v.
    error, gap : float
        Of the state in the norm of the trace, and the slowest rate.
    """
    doubled, total = problem.doubled, float(rates.sum())
    largest = float(sum((np.abs(channel.w) ** 2).sum() for channel in problem.channels))
    root = math.sqrt(float(np.prod([two + 1.0 for two in doubled.twos])))
    found, errors = np.full((2, rates.size), math.nan)
    sums, size = np.zeros(rates.size), 0.0
    for entry, rate in enumerate(rates):
        own = [channel for channel in problem.channels if channel.entry == entry]
        if not own:
            continue
        q = doubled.real_of(doubled.jumped(own, v) - rate * v)
        y = inverse.of(q, problem.block.tolerance, lambda _: None)
        left = float(np.linalg.norm(inverse.G @ y - q))
        after = rates_of(problem, doubled.of_real(y))
        # what is left over, and what the error of the state changes, decay with the gap at least
        off = largest * (root * left + 2.0 * largest * error) / gap
        sums, size = sums + after, size + off
        if rate > DARK * total:
            found[entry] = 1.0 - 2.0 * after[entry] / rate
            errors[entry] = 2.0 * off / rate + abs(found[entry] - 1.0) * largest * error / rate
    values: dict[str, Any] = {"fano_entries": found, "fano_entries_error": errors}
    if total > DARK * largest:
        fano = 1.0 - 2.0 * float(sums.sum()) / total
        values |= {
            "fano": fano,
            "fano_error": 2.0 * size / total + abs(fano - 1.0) * largest * error / total,
        }
    return values
