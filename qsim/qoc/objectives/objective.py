"""P, J and their exact gradients from level amplitudes.

Ensemble members are shared by the ranks of a run; what they add up to is added in the order of the ranks, so that all ranks go on
with the same numbers.

For one trajectory with target vectors f_1 ... f_r (one for a state, several for "any of these levels")
``P = sum_i |<f_i|psi>|^2``; pairs are averaged, coherently (``|mean o|^2``) or not (``mean |o|^2``), and ensemble members are
averaged.  ``J = P - alpha sum_j eps_j^2 tau`` (Eq. Q1; Eq. 6 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from qsim.core.device.parallel import SerialComm, share, world
from qsim.qoc.deck.system import levels_of, parse_weight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.control.controls import Controls
    from qsim.qoc.deck.system import InitialState, TargetState
    from qsim.qoc.propagators.propagator import Propagator, Run


@dataclass(frozen=True)
class Goal:
    """States that a field is to reach.

    Attributes
    ----------
    transfers : tuple of pairs
        Initial state and target of each pair, in levels.
    coherent : bool
        Whether the overlaps of the pairs are averaged with their phases.
    """

    transfers: tuple[tuple[InitialState, TargetState], ...]
    coherent: bool

    @property
    def top(self) -> int:
        """Highest level of the initial and target states."""
        return max(max(levels_of(i) + levels_of(t)) for i, t in self.transfers)

    def initial(self, levels: int) -> NDArray[np.complex128]:
        """Return the initial amplitudes (pairs, K) in K = `levels` levels."""
        return np.array([amplitudes(i, levels) for i, _ in self.transfers])

    def targets(self, levels: int) -> list[NDArray[np.complex128]]:
        """Return the orthonormal target vectors (r, K) of each pair in K = `levels` levels."""
        return [target_vectors(t, levels) for _, t in self.transfers]


def amplitudes(state: InitialState, levels: int) -> NDArray[np.complex128]:
    """Return the normalised level amplitudes (K,) of a level or a superposition."""
    vector = np.zeros(levels, complex)
    if isinstance(state, dict):
        for key, weight in state.items():
            vector[int(key)] = parse_weight(weight)
        return vector / np.linalg.norm(vector)
    vector[int(state)] = 1.0
    return vector


def target_vectors(state: TargetState, levels: int) -> NDArray[np.complex128]:
    """Return the orthonormal target vectors (r, K): one for a state, one per level for a list of levels."""
    if isinstance(state, list):
        return np.eye(levels, dtype=complex)[state]
    return amplitudes(state, levels)[None]


T = TypeVar("T")


@dataclass(frozen=True)
class Evaluation:
    """P, J and dJ/d eps of one field.

    Attributes
    ----------
    probability, objective : float
    gradient : (N,) float64
        dJ / d eps_j, a.u.
    member_probabilities : (M,) float64
    """

    probability: float
    objective: float
    gradient: NDArray[np.float64]
    member_probabilities: NDArray[np.float64]


class Objective:
    """Value and derivatives; counts sweeps (one forward or backward propagation of everything is one).

    Parameters
    ----------
    propagator : Propagator
    targets : list of (r, K) complex128
        Orthonormal target vectors of each pair.
    alpha : float
        Fluence penalty.
    coherent : bool
    """

    # Many fields go in one launch.
    batched = True

    def __init__(
        self,
        propagator: Propagator,
        targets: list[NDArray[np.complex128]],
        alpha: float,
        coherent: bool = False,
    ) -> None:
        self.propagator, self.targets, self.alpha, self.coherent = propagator, targets, alpha, coherent
        self.sweeps = 0
        self.norm_error = 0.0
        count = propagator.members.count
        # of fewer members than ranks, such as the nominal one alone, every rank computes all
        self.comm = world() if world().size <= count else SerialComm()
        self.own = share(self.comm, count)

    @property
    def tau(self) -> float:
        """Time step, a.u."""
        return self.propagator.tau

    def penalty(self, fields: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``alpha sum eps^2 tau`` along the last axis."""
        return np.asarray(self.alpha * self.tau * np.sum(fields**2, axis=-1))

    def member_probabilities(self, amplitudes: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return P of every field and member from amplitudes (F, M, pairs, K): (F, M)."""
        # (F, M, r)
        overlaps = [amplitudes[:, :, p] @ t.conj().T for p, t in enumerate(self.targets)]
        if self.coherent:
            return np.abs(sum(o[..., 0] for o in overlaps) / len(overlaps)) ** 2
        return np.asarray(sum(np.sum(np.abs(o) ** 2, axis=-1) for o in overlaps) / len(overlaps))

    def probabilities(self, fields: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P averaged over members for each field (F, N): (F,); one sweep a field."""
        run = self._forward(_rows(fields))
        return self.member_probabilities(run).mean(axis=1)

    def values(self, fields: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (P, J) for each field (F, N), or (F, 1, N) as the values of one control; all of them in one batch."""
        fields = _rows(fields)
        p = self.probabilities(fields)
        return p, p - self.penalty(fields)

    def _forward(self, fields: NDArray[np.float64]) -> NDArray[np.complex128]:
        self.sweeps += fields.shape[0]
        run = self.propagator.forward(fields, self.own)
        return np.concatenate(self._from_all(run.norm_error, run.amplitudes), axis=1)

    def _from_all(self, norm_error: float, value: T) -> list[T]:
        """Return the values of all ranks; keep the largest norm error of any."""
        found = self.comm.allgather((norm_error, value))
        self.norm_error = max(self.norm_error, *(error for error, _ in found))
        return [value for _, value in found]

    def evaluate(self, field: NDArray[np.float64]) -> Evaluation:
        """Return P, J and the exact discrete gradient of one field (N,) or (1, N); two sweeps."""
        self.sweeps += 2
        shape, field = field.shape, field.ravel()
        count, step = self.propagator.members.count, self.propagator.chunk()
        probabilities, norm = [np.zeros(0)], 0.0
        gradient = np.zeros(field.size)
        for start in range(self.own.start, self.own.stop, step):
            run = self.propagator.forward(
                field[None], slice(start, min(start + step, self.own.stop)), keep=True
            )
            norm = max(norm, run.norm_error)
            probabilities.append(self.member_probabilities(run.amplitudes)[0])
            bras = self.costates(run.amplitudes[0]) / count
            rows = self.propagator.backward(run, np.arange(bras.shape[0]), bras)
            gradient += 2.0 * self._summed(rows)
        parts = self._from_all(norm, (np.concatenate(probabilities), gradient))
        members = np.concatenate([part for part, _ in parts])
        gradient = sum((part for _, part in parts[1:]), parts[0][1])
        p = float(members.mean())
        total = gradient - 2.0 * self.alpha * self.tau * field
        return Evaluation(p, p - float(self.penalty(field)), total.reshape(shape), members)

    def _summed(self, rows: Any) -> NDArray[np.float64]:
        """Return the real part of the sum of the rows (R, N), on the host and in double precision."""
        device = self.propagator.device
        if not device.is_cuda:
            if rows.dtype == np.complex128 and rows.flags.c_contiguous:
                # sums of all numbers, of which every second one is real: memory is then read in order
                return np.ascontiguousarray(np.sum(rows.view(np.float64), axis=0)[::2])
            return np.asarray(np.sum(rows.real, axis=0, dtype=np.float64))
        # as a matrix product: it reads many rows at memory speed, which a sum along the first axis does not
        ones = device.xp.ones((1, rows.shape[0]), rows.dtype)
        return device.to_host((ones @ rows)[0].real).astype(float)

    def costates(self, amplitudes: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the bras (M * pairs, K) whose overlap changes by dP/2 (real part) of each trajectory."""
        members, pairs, levels = amplitudes.shape
        bras = np.zeros((members, pairs, levels), complex)
        if self.coherent:
            mean = sum(amplitudes[:, p] @ t[0].conj() for p, t in enumerate(self.targets)) / pairs
            for p, t in enumerate(self.targets):
                bras[:, p] = np.conj(mean)[:, None] * t[0].conj() / pairs
        else:
            for p, t in enumerate(self.targets):
                # (M, r)
                overlaps = amplitudes[:, p] @ t.conj().T
                bras[:, p] = overlaps.conj() @ t.conj() / pairs
        return bras.reshape(-1, levels)

    def residuals(self) -> Objective:
        """Return itself: amplitudes outside of the targets are the residuals of Gauss-Newton steps."""
        return self

    def sequential(self) -> MoleculeSteps:
        """Return the sweeps of Krotov's method."""
        return MoleculeSteps(self)

    def trial(self, field: NDArray[np.float64]) -> tuple[float, float, Run]:
        """Return P, J and a run from which :meth:`jacobian` can go back; one sweep."""
        self.sweeps += 1
        run = self.propagator.forward(_rows(field), self.own, keep=True)
        found = self._from_all(run.norm_error, self.member_probabilities(run.amplitudes)[0])
        p = float(np.concatenate(found).mean())
        return p, p - float(self.penalty(field.ravel())), run

    def jacobian(self, run: Run) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the amplitudes outside the targets and their derivatives: (R,), (R, N) complex; one sweep.

        Weighted by ``1 / sqrt(members pairs)``, so that ``sum |r|^2 = 1 - P`` up to what leaves the retained levels.
        """
        self.sweeps += 1
        amplitudes = run.amplitudes[0]
        members, pairs, _ = amplitudes.shape
        weight = 1.0 / np.sqrt(self.propagator.members.count * pairs)
        complements = [complement(t) for t in self.targets]
        rows, bras, source = [], [], []
        for m in range(members):
            for p, basis in enumerate(complements):
                rows.append(weight * (basis.conj() @ amplitudes[m, p]))
                bras.append(weight * basis.conj())
                source.append(np.full(basis.shape[0], m * pairs + p))
        jacobian = self.propagator.backward(run, np.concatenate(source), np.concatenate(bras))
        own = np.concatenate(rows), self.propagator.device.to_host(jacobian)
        parts = self._from_all(0.0, own)
        return np.concatenate([r for r, _ in parts]), np.concatenate([j for _, j in parts])


class MoleculeSteps:
    """Sweeps of a molecule for Krotov's method; controls are (1, N).

    Parameters
    ----------
    objective : Objective
        With the propagator `Eigenbasis`.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def forward(self, field: NDArray[np.float64]) -> Run:
        """Propagate a field."""
        return self.objective.propagator.forward(field)

    def values(self, run: Run, field: NDArray[np.float64]) -> tuple[float, float]:
        """Return P and J of a field that was propagated."""
        p = float(self.objective.member_probabilities(run.amplitudes)[0].mean())
        return p, p - float(self.objective.penalty(field[0]))

    def update(
        self, field: NDArray[np.float64], run: Run, gain: NDArray[np.float64], control: Controls
    ) -> NDArray[np.float64]:
        """Return the field after one backward and one updating forward sweep."""
        # Costates under the old field, weighted by the overlaps: the update at each step needs them at all
        # times.
        own = self.objective
        bras = own.costates(run.amplitudes[0]) / own.propagator.members.count
        moved = own.propagator.krotov(field[0], bras, gain[0], own.alpha, control.low[0], control.high[0])
        return moved[None]


def _rows(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return fields of one control, in any arrangement, as (F, N)."""
    return fields.reshape(-1, fields.shape[-1])


def complement(targets: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return an orthonormal basis (K - r, K) of everything outside the target vectors (r, K)."""
    r = targets.shape[0]
    # The first r columns of Q span the targets, so the next K - r are the rest of the space.
    full, _ = np.linalg.qr(np.concatenate([targets.T, np.eye(targets.shape[1])], axis=1))
    return np.ascontiguousarray(full[:, r : targets.shape[1]].T)
