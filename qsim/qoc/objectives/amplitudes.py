"""Amplitudes that a quantum system should not have at T, with their derivatives: residuals of Gauss-Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.models.quantum import GateTarget, ObservableTarget, StateTarget
from qsim.qoc.objectives.costs import FreeGate
from qsim.qoc.objectives.objective import complement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel

# Singular values, relative to the largest, of directions that others have already.
DEPENDENT = 1e-10


def refuse_without_amplitudes(model: QuantumModel, density: bool) -> None:
    """Refuse goals whose distance from 1 is no sum of squared amplitudes.

    Raises
    ------
    InvalidInput
        For density matrices, observables and mixtures as goals.
    """
    # Gauss-Newton takes 1 - P as a sum of squares, whose residuals are amplitudes of kets.
    if density:
        text = "Gauss-Newton needs amplitudes, which density matrices do not have; use lbfgs"
        raise InvalidInput("optimizer", text)
    if isinstance(model.goal, ObservableTarget):
        text = "Gauss-Newton needs a largest value with no amplitude left; of an observable use lbfgs"
        raise InvalidInput("optimizer", text)
    if not isinstance(model.goal, GateTarget | StateTarget):
        raise InvalidInput("optimizer", "Gauss-Newton needs states or a gate as a goal; use lbfgs")


@dataclass(frozen=True)
class SlotTrial:
    """Controls (C, N) that were propagated, and the columns at T."""

    fields: NDArray[np.float64]
    final: ComplexArray


class SlotAmplitudes:
    """Residuals of kets: everything outside the targets; of gates and coherent pairs the distance up to a phase.

    States: ``r = sqrt(w_s) Q_s+ x_s`` with Q_s a basis of all that is no target of column s, so that ``sum |r|^2 = 1 - P``.
    Gates: ``r = c (X - e^{i phi} W)`` at the best phase, with ``sum |r|^2 = 1 - F`` near the goal.

    Parameters
    ----------
    objective : SlotObjective
        Of kets.
    """

    def __init__(self, objective: Any) -> None:
        self.objective = objective
        goal = objective.model.goal
        self.wanted: ComplexArray | None = None
        if isinstance(goal, GateTarget):
            # The columns that the gate makes of the logical basis.
            self.wanted = goal.columns @ goal.unitary
            # |r|^2 adds up to the infidelity averaged over all states: d + 1, not d.
            self.scale = 1.0 / math.sqrt(goal.unitary.shape[0] + 1)
        elif isinstance(goal, StateTarget):
            count = objective.start.shape[1]
            # One set of target vectors serves all columns, or each column has its own.
            given = [np.asarray(v, np.complex128) for v in goal.vectors]
            vectors = given if len(given) == count else [given[0]] * count
            if goal.coherent:
                self.wanted = np.array([v[0] for v in vectors]).T
                self.scale = 1.0 / math.sqrt(count)
            # What is outside of the targets must vanish.
            self.outside = [complement(v).T for v in vectors]

    def trial(self, fields: NDArray[np.float64]) -> tuple[float, float, SlotTrial]:
        """Return P, J and what `jacobian` goes on from; one sweep."""
        objective = self.objective
        # A sweep is one propagation of all columns.
        objective.sweeps += 1
        final, _ = objective.propagator.forward(fields, objective.start)
        objective.norm_error = max(objective.norm_error, objective.norm_change(final))
        p = objective.cost.value(final)
        return p, p - objective.penalty(fields), SlotTrial(fields, final)

    def jacobian(self, trial: SlotTrial) -> tuple[ComplexArray, ComplexArray]:
        """Return residuals (R,) and their derivatives (R, C, N); about two sweeps for each level."""
        # Relative phases count in a gate, and in coherent pairs.
        if self.wanted is not None:
            return self._up_to_a_phase(trial, *self._nearest(trial, self.wanted))
        # The square root, since residuals are squared.
        weights = np.sqrt(self.objective.model.weights)
        parts = [
            (
                w * (basis.conj().T @ trial.final[:, s]),
                self._rows(trial, s, np.asarray(w * basis, np.complex128)),
            )
            for s, (basis, w) in enumerate(zip(self.outside, weights, strict=True))
        ]
        return np.concatenate([r for r, _ in parts]), np.concatenate([rows for _, rows in parts])

    def _nearest(self, trial: SlotTrial, wanted: ComplexArray) -> tuple[ComplexArray, list[ComplexArray]]:
        """Return the columns of the gate that the value is of, and those along which it follows the controls."""
        goal, cost = self.objective.model.goal, self.objective.cost
        if not isinstance(cost, FreeGate) or not isinstance(goal, GateTarget):
            return wanted, []
        gate = cost.family.gate(cost.phases(trial.final))
        return goal.columns @ gate, [goal.columns @ along for along in cost.family.directions(gate)]

    def _up_to_a_phase(
        self, trial: SlotTrial, wanted: ComplexArray, directions: list[ComplexArray]
    ) -> tuple[ComplexArray, ComplexArray]:
        size, count = wanted.shape
        # A global phase does not count, so the distance is taken at the phase that makes it smallest.
        phase = np.exp(1j * np.angle(np.vdot(wanted, trial.final)))
        residual = self.scale * (trial.final - wanted * phase)
        # Residuals of all levels: derivatives of every component of the columns.
        units = np.asarray(self.scale * np.eye(size), np.complex128)
        rows = np.array([self._rows(trial, s, units) for s in range(count)])
        rows = rows.reshape(count * size, *rows.shape[2:])
        # the goal follows the controls: what moves along it is no residual
        along = np.array([(phase * one).T.ravel() for one in (1j * wanted, *directions)])
        basis = _real_span(along)
        moved = np.einsum("kr,rcn->kcn", basis.conj(), rows).real
        return residual.T.ravel(), rows - np.einsum("kr,kcn->rcn", basis, moved)

    def _rows(self, trial: SlotTrial, column: int, basis: ComplexArray) -> ComplexArray:
        """Return ``d <b|x_s>/du`` (B, C, N) of one column for every b of a basis (D, B)."""
        objective, propagator = self.objective, self.objective.propagator
        # The way of this column alone, which all rows of its gradient share.
        start = np.ascontiguousarray(objective.start[:, column : column + 1])
        _, trajectory = propagator.forward(trial.fields, start)
        rows = []
        for vector in basis.T:
            bra = np.ascontiguousarray(vector[:, None].astype(complex))
            # 2 Re <b/2|dx> and 2 Re <i b/2|dx> = Im <b|dx>
            real = propagator.gradient(trial.fields, trajectory, (0.5 + 0j) * bra)
            imaginary = propagator.gradient(trial.fields, trajectory, 0.5j * bra)
            rows.append(real + 1j * imaginary)
        # Counted in sweeps of all columns: each row has gone back with one column, twice.
        objective.sweeps += math.ceil(2 * len(rows) / objective.start.shape[1])
        return np.array(rows)


def _real_span(vectors: ComplexArray) -> ComplexArray:
    """Return vectors (k, R) whose real multiples span the same, orthonormal by the real part of their products."""
    _, sizes, rows = np.linalg.svd(np.concatenate([vectors.real, vectors.imag], axis=1), full_matrices=False)
    kept = rows[sizes > DEPENDENT * sizes[0]]
    return np.asarray(kept[:, : vectors.shape[1]] + 1j * kept[:, vectors.shape[1] :])
