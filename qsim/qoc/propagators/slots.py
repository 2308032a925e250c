"""Any quantum system under controls that are constant in each slot: no error of a time step, only of rounding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array, kron

from qsim.core.device.device import cpu
from qsim.qoc.kernels.slots import Pattern, SlotBatch, columns_of, real_of, slot_backward, slot_forward

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel

__all__ = ["Slots", "generators", "series_of"]

# Remainder of the series of one part of a slot: below the rounding of its sum.
REMAINDER = 1e-16
# Norm of tau A in one part; beyond, terms of alternating sign lose digits.
LONGEST = 3.0


def generators(model: QuantumModel, lindblad: bool) -> list[csr_array]:
    """Return A0 and every A_c: ``-i H`` for kets (D, D), or the Lindbladian on rows of rho (D^2, D^2).

    Row by row, ``vec(A rho B) = (A x B^T) vec(rho)``.
    """
    hamiltonians = [model.drift, *(c.operator for c in model.controls)]
    if not lindblad:
        return [csr_array(-1j * h) for h in hamiltonians]
    one = eye_array(model.dimension, format="csr")
    made = [csr_array(-1j * (kron(h, one) - kron(one, h.T))) for h in hamiltonians]
    for jump in model.jumps:
        rate = jump.operator.conj().T @ jump.operator
        loss = kron(rate, one) + kron(one, rate.T)
        made[0] = csr_array(made[0] + kron(jump.operator, jump.operator.conj()) - 0.5 * loss)
    return made


class Slots:
    """Propagation of columns by the Taylor action of each slot, and the exact derivative of what is computed.

    Parameters
    ----------
    model : QuantumModel
    lindblad : bool
        Density matrices as columns (D^2,) instead of kets (D,).
    duration : float
        T, in the unit of time of the model.
    slots : int
        Number N of slots.
    adjoint : bool
        A+ instead of A, which carries targets back; fields must come in reverse.
    """

    def __init__(
        self, model: QuantumModel, lindblad: bool, duration: float, slots: int, *, adjoint: bool = False
    ) -> None:
        self.slots = slots
        self.tau = duration / slots
        self.powers = np.array([c.power for c in model.controls])
        parts = generators(model, lindblad)
        # the middle of the diagonal of H0 multiplies kets by a phase alone, and the series is shorter without it
        self.shift = 0.0 if lindblad else _middle(model.drift)
        parts[0] = csr_array(parts[0] + 1j * self.shift * eye_array(parts[0].shape[0]))
        if adjoint:
            parts, self.shift = [csr_array(a.conj().T) for a in parts], -self.shift
        self.pattern, self.values = _on_one_pattern(parts)
        self.norms = np.array([_norm(a) for a in parts])
        # the largest series that was used, for the error
        self.remainder = 0.0
        self.products = 0

    def forward(self, fields: NDArray[np.float64], columns: ComplexArray) -> tuple[ComplexArray, Trajectory]:
        """Return the columns after some slots under fields (C, n), and what `gradient` goes back along."""
        factors = np.ascontiguousarray(fields ** self.powers[:, None])
        batch = self._batch(*self._series(factors))
        x = real_of(columns)
        states = np.empty((fields.shape[1] * batch.parts, *x.shape))
        slot_forward(cpu(1), batch, factors, x[None], states[None])
        phase = np.exp(-1j * self.shift * self.tau * fields.shape[1])
        return columns_of(x) * phase, Trajectory(factors, states, batch.terms, batch.parts)

    def gradient(
        self, fields: NDArray[np.float64], trajectory: Trajectory, costate: ComplexArray
    ) -> NDArray[np.float64]:
        """Return dJ/du (C, N) from ``dJ/dX*`` (D, S) at T: ``dJ = 2 Re sum conj(costate) dX``."""
        phase = np.exp(1j * self.shift * self.tau * fields.shape[1])
        lam = real_of(costate * phase)
        t = trajectory
        batch = self._batch(t.terms, t.parts)
        out = slot_backward(cpu(1), batch, t.factors, lam[None], t.states[None])[0]
        # d u^p / d u
        inner: NDArray[np.float64] = self.powers[:, None] * fields ** (self.powers[:, None] - 1)
        return out * inner

    def _batch(self, terms: int, parts: int) -> SlotBatch:
        """Return the arguments of the kernels: one member."""
        return SlotBatch(self.pattern, self.values[None], self.tau / parts, terms, parts)

    def _series(self, factors: NDArray[np.float64]) -> tuple[int, int]:
        """Return terms and parts of a slot for the strongest fields, and keep the remainder."""
        norm = float(np.max(self.norms[0] + self.norms[1:] @ np.abs(factors), initial=0.0)) * self.tau
        terms, parts, rest = series_of(norm, self.slots)
        self.remainder = max(self.remainder, rest)
        self.products = terms * parts * self.slots
        return terms, parts


def series_of(norm: float, slots: int) -> tuple[int, int, float]:
    """Return terms and parts of a slot in which A has this norm, times its length, and the remainder of all slots."""
    parts = max(1, math.ceil(norm / LONGEST))
    theta = norm / parts
    terms, term = 1, theta**2 / 2.0
    while term > REMAINDER:
        terms += 1
        term *= theta / (terms + 1)
    # the terms that are left out add up to less than a geometric series
    return terms, parts, term * math.exp(theta) * parts * slots


class Trajectory:
    """Columns at the start of every part of a slot, as the kernel left them."""

    def __init__(
        self, factors: NDArray[np.float64], states: NDArray[np.float64], terms: int, parts: int
    ) -> None:
        self.factors, self.states, self.terms, self.parts = factors, states, terms, parts

    def at_slots(self) -> ComplexArray:
        """Return the columns at the start of each slot, without the phase of the shift: (N, D, S)."""
        states = self.states[:: self.parts]
        count = states.shape[2] // 2
        return np.asarray(states[:, :, :count] + 1j * states[:, :, count:])


def _middle(drift: csr_array) -> float:
    diagonal = drift.diagonal().real
    return 0.5 * float(diagonal.min() + diagonal.max())


def _norm(a: csr_array) -> float:
    """Return the larger of the norms by rows and by columns, which bound the spectral norm."""
    size = abs(a)
    return float(max(size.sum(axis=0).max(initial=0.0), size.sum(axis=1).max(initial=0.0)))


def _on_one_pattern(parts: list[csr_array]) -> tuple[Pattern, ComplexArray]:
    """Return the union of the entries of matrices, and their values (C + 1, E) on it."""
    pattern = csr_array(sum(abs(a) for a in parts))
    pattern.sum_duplicates()
    pattern.eliminate_zeros()
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    width = pattern.shape[1]
    keys = rows.astype(np.int64) * width + pattern.indices
    values = np.zeros((len(parts), keys.size), complex)
    for row, a in zip(values, parts, strict=True):
        entries = a.tocoo()
        entries.sum_duplicates()
        own = entries.data != 0
        place = np.searchsorted(keys, entries.row[own].astype(np.int64) * width + entries.col[own])
        row[place] = entries.data[own]
    return Pattern(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64)), values
