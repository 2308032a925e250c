"""Costs beside the goal: what leaks out of the logical space of a gate, and mean values along the way (Eq. Q25)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.propagators.slots import Slots, Trajectory


@dataclass(frozen=True)
class Mean:
    """Columns whose weighted mean is asked: kets (D, S), or density matrices (D^2, S)."""

    columns: ComplexArray
    weights: NDArray[np.float64]
    lindblad: bool

    def of(self, operator: ComplexArray | csr_array) -> tuple[float, ComplexArray]:
        """Return ``<O>`` and its derivative by the conjugate columns."""
        if not self.lindblad:
            moved = (operator @ self.columns) * self.weights
            return float(np.sum(self.columns.conj() * moved).real), np.asarray(moved)
        dense = operator if isinstance(operator, np.ndarray) else operator.toarray()
        row = dense.reshape(-1, 1)
        value = float((row.conj().T @ self.columns @ self.weights)[0].real)
        return value, np.asarray(0.5 * row * self.weights)


@dataclass(frozen=True)
class Terms:
    """Terms that are subtracted from the value: ``leakage_weight leak + (weight/T) int <O> dt``, in the mean state.

    Attributes
    ----------
    leakage_weight : float
    outside : (D, D) complex128 or None
        Projector on all that is not logical; None: no leakage counts.
    weight : float
        Of the running observable.
    running : csr_array (D, D) or None
        O.
    """

    leakage_weight: float = 0.0
    outside: ComplexArray | None = None
    weight: float = 0.0
    running: csr_array | None = None

    @property
    def empty(self) -> bool:
        """True if nothing is subtracted."""
        return self.outside is None and self.running is None


def leakage_operator(logical: ComplexArray) -> ComplexArray:
    """Return ``1 - V V+`` (D, D)."""
    return np.asarray(np.eye(logical.shape[0]) - logical @ logical.conj().T)


def along(
    terms: Terms, states: ComplexArray, final: ComplexArray, weights: NDArray[np.float64], lindblad: bool
) -> tuple[float, list[ComplexArray]]:
    """Return the running part by the trapezoidal rule over the slots, and its derivatives at the ends of slots 0, ..., N.

    Parameters
    ----------
    states : (N, D or D^2, S) complex128
        Columns at the start of each slot.
    final : (D or D^2, S) complex128
        Columns at T, in the same frame.
    """
    count = states.shape[0]
    total, sources = 0.0, []
    for n in range(count + 1):
        share = terms.weight * (0.5 if n in (0, count) else 1.0) / count
        value, derivative = Mean(states[n] if n < count else final, weights, lindblad).of(terms.running)
        total += share * value
        sources.append(share * derivative)
    return total, sources


def gradient_with_sources(
    propagator: Slots,
    fields: NDArray[np.float64],
    trajectory: Trajectory,
    costate: ComplexArray,
    sources: list[ComplexArray],
) -> NDArray[np.float64]:
    """Return dJ/du (C, N) where J has the derivatives `sources` by the columns at the start of every slot as well."""
    out = np.empty(fields.shape)
    lam = propagator.enter(costate)
    for n in range(fields.shape[1] - 1, -1, -1):
        out[:, n : n + 1] = propagator.back(trajectory.slot(n), lam)
        # A source acts at the start of slot n, so it joins after that slot has been passed.
        lam += propagator.enter(sources[n])
    return propagator.by_controls(fields, out)
