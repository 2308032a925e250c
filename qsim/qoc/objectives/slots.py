"""P, J and their exact gradient for a quantum system under controls (C, N)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import GateTarget
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.objectives.objective import Evaluation
from qsim.qoc.propagators.slots import Slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel

__all__ = ["SlotObjective"]


class SlotObjective:
    """Value and gradient; counts sweeps as `Objective` does.

    Parameters
    ----------
    model : QuantumModel
    lindblad : bool
        Density matrices with the jumps, instead of kets.
    duration : float
        T, in the unit of time of the model.
    slots : int
        Number N of slots.
    alpha : float or (C,) float64
        Fluence penalty, of all controls or of each.
    """

    def __init__(
        self,
        model: QuantumModel,
        lindblad: bool,
        duration: float,
        slots: int,
        alpha: float | NDArray[np.float64] = 0.0,
    ) -> None:
        self.model, self.lindblad = model, lindblad
        self.alpha = np.broadcast_to(np.asarray(alpha, float), (len(model.controls),))[:, None]
        self.propagator = Slots(model, lindblad, duration, slots)
        self.start, self.cost = cost_of(model, lindblad)
        self.sweeps = 0
        self.norm_error = 0.0

    @property
    def tau(self) -> float:
        """Length of a slot."""
        return self.propagator.tau

    def penalty(self, fields: NDArray[np.float64]) -> float:
        """Return ``sum_c alpha_c sum u_c^2 tau``."""
        return float(self.tau * np.sum(self.alpha * fields**2))

    def values(self, fields: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P and J of one set of controls (C, N), as arrays (1,)."""
        self.sweeps += 1
        final, _ = self.propagator.forward(fields, self.start)
        self._keep_norm(final)
        p = self.cost.value(final)
        return np.array([p]), np.array([p - self.penalty(fields)])

    def evaluate(self, fields: NDArray[np.float64]) -> Evaluation:
        """Return P, J and the exact gradient (C, N); two sweeps."""
        self.sweeps += 2
        final, trajectory = self.propagator.forward(fields, self.start)
        self._keep_norm(final)
        p = self.cost.value(final)
        gradient = self.propagator.gradient(fields, trajectory, self.cost.derivative(final))
        total = gradient - 2.0 * self.alpha * self.tau * fields
        return Evaluation(p, p - self.penalty(fields), total, np.array([p]))

    def mean_weights(self) -> NDArray[np.float64]:
        """Return the weights (S,) of the columns in the mean state: the start, or the logical space of a gate."""
        if not isinstance(self.model.goal, GateTarget):
            return self.model.weights
        d = self.model.goal.columns.shape[1]
        if not self.lindblad:
            return np.full(d, 1.0 / d)
        # of the matrix units |i><j|, the diagonal ones
        return np.eye(d).ravel() / d

    def shown_weights(self) -> NDArray[np.float64]:
        """Return the weights (S,) of the columns whose populations are shown: of a gate, the first logical state."""
        if not isinstance(self.model.goal, GateTarget):
            return self.model.weights
        return np.eye(1, self.start.shape[1])[0]

    def populations(self, columns: ComplexArray) -> NDArray[np.float64]:
        """Return the populations (..., D) of the mean start, or of a gate's first one, from columns (..., D or D^2, S)."""
        weights = self.shown_weights()
        if not self.lindblad:
            return np.asarray(np.abs(columns) ** 2 @ weights)
        return np.asarray(columns[..., :: self.model.dimension + 1, :].real @ weights)

    def density(self, final: ComplexArray) -> ComplexArray:
        """Return the mean density matrix (D, D) of final columns."""
        weights = self.mean_weights()
        if self.lindblad:
            size = self.model.dimension
            return np.asarray((final @ weights).reshape(size, size))
        return np.asarray((final * weights) @ final.conj().T)

    def norm_change(self, final: ComplexArray) -> float:
        """Return the largest change of a norm or of a trace."""
        if self.lindblad:
            step = self.model.dimension + 1
            change = np.abs(final[::step].sum(axis=0) - self.start[::step].sum(axis=0))
        else:
            change = np.abs(np.sum(np.abs(final) ** 2, axis=0) - np.sum(np.abs(self.start) ** 2, axis=0))
        return float(change.max())

    def _keep_norm(self, final: ComplexArray) -> None:
        self.norm_error = max(self.norm_error, self.norm_change(final))
