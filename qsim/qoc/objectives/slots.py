"""P, J and their exact gradient for a quantum system under controls (C, N), and the sweeps of Krotov's method.

J may have terms beside the goal: what leaks out of the logical space of a gate, and mean values along the way (Eq. Q25).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm
from qsim.qoc.models.quantum import GateTarget
from qsim.qoc.objectives.costs import column_count, cost_of
from qsim.qoc.objectives.jumps import jump_free
from qsim.qoc.objectives.objective import Evaluation
from qsim.qoc.propagators.densities import Densities
from qsim.qoc.propagators.slots import Slots

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray
    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.amplitudes import SlotAmplitudes
    from qsim.qoc.propagators.slots import Motion, Trajectory


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


@dataclass(frozen=True)
class SlotRun:
    """Result of a forward sweep: the columns (D, S) at T, and how far a norm is off."""

    final: ComplexArray
    norm_error: float


class SlotSteps:
    """Sweeps of any quantum system for Krotov's method.

    In slot n the derivative ``dP/du_c`` is taken between the columns under the new controls and the costates under the old
    ones; ``u_c <- u_c + S/lambda (dP/du_c / tau - 2 alpha_c u_c)``, clipped to the bounds.

    Parameters
    ----------
    objective : SlotObjective
    """

    def __init__(self, objective: Any) -> None:
        self.objective = objective
        # A+ carries costates from the end of a slot to its start
        self.back = Slots(objective.model, objective.motion, adjoint=True)

    def forward(self, fields: NDArray[np.float64]) -> SlotRun:
        """Propagate controls (C, N)."""
        objective = self.objective
        final, _ = objective.propagator.forward(fields, objective.start)
        return SlotRun(final, objective.norm_change(final))

    def values(self, run: SlotRun, fields: NDArray[np.float64]) -> tuple[float, float]:
        """Return P and J of controls that were propagated."""
        p = self.objective.cost.value(run.final)
        return p, p - self.objective.penalty(fields)

    def update(
        self, fields: NDArray[np.float64], run: SlotRun, gain: NDArray[np.float64], control: Controls
    ) -> NDArray[np.float64]:
        """Return the controls (C, N) after one backward and one updating forward sweep."""
        objective, propagator = self.objective, self.objective.propagator
        ends = self._costates(fields, run)
        new, x = fields.copy(), objective.start
        low, high, alpha = control.low, control.high, objective.alpha[:, 0]
        for n, costate in enumerate(ends):
            # the state has already passed all earlier slots under their new controls
            old = np.ascontiguousarray(fields[:, n : n + 1])
            _, trajectory = propagator.forward(old, x)
            slope = propagator.gradient(old, trajectory, costate)[:, 0]
            moved = old[:, 0] + gain[:, n] * (slope / objective.tau - 2.0 * alpha * old[:, 0])
            # a control that is fixed has no gain, and need not lie within its bounds
            moved = np.where(gain[:, n] > 0.0, np.clip(moved, low[:, n], high[:, n]), old[:, 0])
            new[:, n] = moved
            x, _ = propagator.forward(np.ascontiguousarray(new[:, n : n + 1]), x)
        return new

    def _costates(self, fields: NDArray[np.float64], run: SlotRun) -> list[ComplexArray]:
        """Return the costates (D, S) at the end of every slot under the old controls."""
        costate = self.objective.cost.derivative(run.final)
        ends = [costate]
        for n in range(fields.shape[1] - 1, 0, -1):
            costate, _ = self.back.forward(np.ascontiguousarray(fields[:, n : n + 1]), costate)
            ends.append(costate)
        # collected from T backwards, but used from time 0 forwards
        return ends[::-1]


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
