"""P, J and their exact gradient for a quantum system under controls (C, N)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.parallel import SerialComm
from qsim.qoc.models.quantum import GateTarget
from qsim.qoc.objectives.costs import column_count, cost_of
from qsim.qoc.objectives.jumps import jump_free
from qsim.qoc.objectives.objective import Evaluation
from qsim.qoc.objectives.sequential import SlotSteps
from qsim.qoc.objectives.terms import Mean, Terms, along, gradient_with_sources
from qsim.qoc.propagators.densities import Densities
from qsim.qoc.propagators.slots import Slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.amplitudes import SlotAmplitudes
    from qsim.qoc.propagators.slots import Motion, Trajectory

# Levels up to which a GPU carries density matrices.
FEW_LEVELS = 8
# Levels above which density matrices are matrices, not columns of a superoperator: many of them, of few columns.
NARROW_LEVELS, WIDE_LEVELS, WIDE = 16, 64, 4


def as_matrices(model: QuantumModel, lindblad: bool) -> bool:
    """Return True if density matrices are too large for the kernels of a GPU."""
    return lindblad and model.dimension > FEW_LEVELS


def _mean_weights(model: QuantumModel, lindblad: bool) -> NDArray[np.float64]:
    """Return the weights (S,) of the columns of one goal in its mean state."""
    if not isinstance(model.goal, GateTarget):
        # one density matrix has the weights of the mixture in it
        single = lindblad and column_count(model, lindblad) == 1
        return np.ones(1) if single else model.weights
    d = model.goal.columns.shape[1]
    if not lindblad:
        return np.full(d, 1.0 / d)
    # of the Hermitian units, the projectors |i><i|
    return np.eye(d).ravel() / d


def _shown_weights(model: QuantumModel, lindblad: bool) -> NDArray[np.float64]:
    """Return the weights (S,) of the columns of one goal whose populations are shown."""
    if not isinstance(model.goal, GateTarget):
        return _mean_weights(model, lindblad)
    return np.eye(1, column_count(model, lindblad))[0]


class SlotObjective:
    """Value and gradient; counts sweeps as `Objective` does.

    Parameters
    ----------
    model : QuantumModel
    motion : Motion
    alpha : float or (C,) float64
        Fluence penalty, of all controls or of each.
    terms : Terms, optional
        Leakage and mean values on the way, subtracted from the value in J.
    device : Device, optional
        A GPU for the columns; matrices stay on the CPU.
    """

    # One set of controls at a time.
    batched = False
    comm: Comm = SerialComm()

    def __init__(
        self,
        model: QuantumModel,
        motion: Motion,
        alpha: float | NDArray[np.float64] = 0.0,
        *,
        terms: Terms | None = None,
        device: Device | None = None,
    ) -> None:
        self.model, self.motion = model, motion
        self.lindblad, self.lossy = motion.lindblad, motion.lossy
        self.alpha = np.broadcast_to(np.asarray(alpha, float), (len(model.controls),))[:, None]
        self.terms = terms or Terms()
        self.start, self.cost = cost_of(model, motion.lindblad)
        most = WIDE_LEVELS if self.start.shape[1] >= WIDE else NARROW_LEVELS
        if motion.lindblad and model.dimension > most:
            self.propagator: Slots = Densities(model, motion)
        else:
            self.propagator = Slots(model, motion, device=device)
        self.sweeps = 0
        self.norm_error = 0.0
        # p_0 of the last fields, of lossy kets
        self.jump_free = 1.0

    @property
    def by_order(self) -> bool:
        """True if the value is that of no jump alone, which one jump and more add to."""
        return self.lossy

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
        final, trajectory = self.propagator.forward(fields, self.start)
        self._keep_norm(final)
        p = self.cost.value(final)
        return np.array([p]), np.array([p - self.penalty(fields) - self.charges(final, trajectory)[0]])

    def valued(self, fields: NDArray[np.float64]) -> tuple[float, ComplexArray]:
        """Return P of controls (C, N) and the columns at T."""
        final = self.propagator.final(fields, self.start)
        self._keep_norm(final)
        return self.cost.value(final), final

    def evaluate(self, fields: NDArray[np.float64]) -> Evaluation:
        """Return P, J and the exact gradient (C, N); two sweeps."""
        self.sweeps += 2
        final, trajectory = self.propagator.forward(fields, self.start)
        self._keep_norm(final)
        p = self.cost.value(final)
        charged, at_end, sources = self.charges(final, trajectory)
        costate = self.cost.derivative(final) - at_end
        if sources:
            turned = costate * self.propagator.turn(fields.shape[1]) - sources[-1]
            less = [-source for source in sources]
            gradient = gradient_with_sources(self.propagator, fields, trajectory, turned, less)
        else:
            gradient = self.propagator.gradient(fields, trajectory, costate)
        self.propagator.release(trajectory)
        total = gradient - 2.0 * self.alpha * self.tau * fields
        return Evaluation(p, p - self.penalty(fields) - charged, total, np.array([p]))

    def residuals(self) -> SlotAmplitudes:
        """Return what gives Gauss-Newton its residuals."""
        # loaded for these decks alone
        from qsim.qoc.objectives.amplitudes import SlotAmplitudes

        return SlotAmplitudes(self)

    def sequential(self) -> SlotSteps:
        """Return the sweeps of Krotov's method."""
        return SlotSteps(self)

    def charges(
        self, final: ComplexArray, trajectory: Trajectory
    ) -> tuple[float, ComplexArray | float, list[ComplexArray]]:
        """Return what the terms subtract, its derivative by the columns at T, and those on the way, at slots 0, ..., N."""
        terms, weights = self.terms, self.mean_weights()
        charged: float = 0.0
        at_end: ComplexArray | float = 0.0
        sources: list[ComplexArray] = []
        if terms.outside is not None:
            value, derivative = Mean(final, weights, self.lindblad).of(terms.outside)
            charged += terms.leakage_weight * value
            at_end = terms.leakage_weight * derivative
        if terms.running is not None:
            # the trajectory has no phase of the shift, and so must its end
            turned = final * self.propagator.turn(trajectory.factors.shape[1])
            value, sources = along(terms, trajectory.at_slots(), turned, weights, self.lindblad)
            charged += value
        return charged, at_end, sources

    def mean_weights(self) -> NDArray[np.float64]:
        """Return the weights (S,) of the columns in the mean state: the start, or the logical space of a gate."""
        return np.concatenate([w * _mean_weights(one, self.lindblad) for w, one in self.model.each()])

    def shown_weights(self) -> NDArray[np.float64]:
        """Return the weights (S,) of the columns whose populations are shown: of a gate, the first logical state."""
        return np.concatenate([w * _shown_weights(one, self.lindblad) for w, one in self.model.each()])

    def look(self, fields: NDArray[np.float64]) -> tuple[ComplexArray, NDArray[np.float64]]:
        """Return the columns at T, and the populations (N, D) of `populations` at the end of each slot."""
        if self.lindblad:
            final, shown, _ = self.passed(fields)
            return final, np.asarray(shown[:, :: self.model.dimension + 1].real, np.float64)
        final, trajectory = self.propagator.forward(fields, self.start)
        states = np.concatenate([trajectory.at_slots()[1:], final[None]])
        return final, self.populations(states)

    def passed(
        self, fields: NDArray[np.float64], beside: ComplexArray | None = None
    ) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return density matrices at T, the one that is shown (N, D^2) at the end of each slot, and what becomes of others.

        `beside` (D^2, s) are carried in the same propagation.
        """
        others = np.zeros((len(self.start), 0), complex) if beside is None else beside
        columns = np.concatenate([self.start, others], axis=1)
        weights = np.append(self.shown_weights(), np.zeros(others.shape[1]))
        final, shown = self.propagator.passed(fields, columns, weights)
        own = self.start.shape[1]
        return np.ascontiguousarray(final[:, :own]), shown, final[:, own:]

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
        """Return the largest change of a norm or of a trace; of kets, keep the probability p_0 that is left."""
        if self.lindblad:
            step = self.model.dimension + 1
            change = np.abs(final[::step].sum(axis=0) - self.start[::step].sum(axis=0))
        else:
            change = np.sum(np.abs(final) ** 2, axis=0) - np.sum(np.abs(self.start) ** 2, axis=0)
            # lossy kets may only become shorter
            change = np.maximum(change, 0.0) if self.lossy else np.abs(change)
            self.jump_free = jump_free(final, self.mean_weights())
        return float(change.max())

    def _keep_norm(self, final: ComplexArray) -> None:
        self.norm_error = max(self.norm_error, self.norm_change(final))
