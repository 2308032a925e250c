"""Magnetisation along each axis and its response to a uniform field, from all levels and states.

Where H does not commute with ``M_a = sum_j S^a_j`` the susceptibility is not a fluctuation but the integral of Kubo,

    chi_a = int_0^(1/T) dtau <M_a(tau) M_a> - <M_a>^2 / T
          = sum_nm |<n|M_a|m>|^2 (p_n - p_m) / (E_m - E_n) - <M_a>^2 / T,

the derivative of ``<M_a>`` by a field, ``H - h M_a``; pairs of equal energy count with ``p_n / T``.  ``M_a`` leads from one
space to another where these are parities along another axis.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.deck.axes import AXES
from qsim.trotter.measurement.spaces import columns_in
from qsim.trotter.sectors.digits.measure import magnetisation
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.matrix import matrix_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.device import Device
    from qsim.trotter.measurement.spaces import PlainSpace
    from qsim.trotter.thermal.problem import ThermalProblem

__all__ = ["response_of"]

# x of (1 - exp(-x)) / x below which it is 1 to rounding
EQUAL = 1e-16


def total_spin(spins: int, axis: str) -> csr_array:
    """Return the total spin along an axis of the strings, (2^N, 2^N)."""
    from scipy.sparse import csr_array, dia_array

    index = np.arange(1 << spins)
    s = 0.5 - (index >> np.arange(spins)[:, None] & 1)
    if axis == "z":
        return csr_array(dia_array((s.sum(axis=0)[None], [0]), shape=(index.size, index.size)))
    # S^x flips with 1/2, S^y with i s of the old spin
    values = np.full(s.shape, 0.5) if axis == "x" else 1j * s
    rows = index ^ (1 << np.arange(spins))[:, None]
    return csr_array((values.ravel(), (rows.ravel(), np.tile(index, spins))), shape=(index.size, index.size))


@singledispatch
def total_between(rows: PlainSpace, columns: PlainSpace, device: Device, axis: str) -> csr_array:
    """Return the total spin along an axis of the strings between the states of two spaces, (D, D')."""
    return total_spin(rows.spins, axis)[rows.strings()][:, columns.strings()]


total_between.register(DigitSpace)(magnetisation)


def response_of(problem: ThermalProblem, temperatures: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return ``magnetisation_a`` and ``susceptibility_a`` per site of every axis of the deck, (T,) each."""
    place = problem.place
    # once more, so that a checkpoint need not hold the states
    matrices = (matrix_of(problem.operator(sector, problem.model)) for sector in problem.sectors)
    solved = [np.linalg.eigh(place.to_host(matrix)) for matrix in matrices]
    made = [columns_in(sector, vectors) for sector, (_, vectors) in zip(problem.sectors, solved, strict=True)]
    states = [(values, vectors) for (values, _), (_, vectors) in zip(solved, made, strict=True)]
    beta = 1.0 / temperatures
    lowest = min(float(values[0]) for values, _ in states)
    weights = [np.exp(-beta[:, None] * (values - lowest)) for values, _ in states]
    Z = sum(w.sum(axis=1) for w in weights)
    spaces = [space for space, _ in made]
    found: dict[str, NDArray[np.float64]] = {}
    for axis in AXES:
        own, sign = problem.frame.place(axis)
        mean, square = np.zeros(beta.size), np.zeros(beta.size)
        for a, (ours, bras) in enumerate(states):
            for b, (theirs, kets) in enumerate(states):
                between = total_between(spaces[a], spaces[b], place, own)
                if not between.nnz:
                    continue
                block = bras.conj().T @ (between @ kets)
                if a == b:
                    mean += sign * (weights[a] @ block.diagonal().real)
                size, apart = np.abs(block) ** 2, np.abs(ours[:, None] - theirs)
                # of two levels the lower one has the larger weight: nothing cancels
                lower = np.minimum(ours[:, None], theirs) - lowest
                for t, inverse in enumerate(beta):
                    x = np.maximum(inverse * apart, EQUAL)
                    square[t] += inverse * float((size * np.exp(-inverse * lower) * -np.expm1(-x) / x).sum())
        mean, square = mean / Z, square / Z
        found[f"magnetisation_{axis}"] = mean / problem.spins
        found[f"susceptibility_{axis}"] = (square - beta * mean**2) / problem.spins
    return found
