"""P, J and their exact gradients from level amplitudes.

For one trajectory with target vectors f_1 ... f_r (one for a state, several for "any of these levels")
``P = sum_i |<f_i|psi>|^2``; pairs are averaged, coherently (``|mean o|^2``) or not (``mean |o|^2``), and ensemble members are
averaged.  ``J = P - alpha sum_j eps_j^2 tau`` (Eq. Q1; Eq. 6 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.propagators import Propagator, Run


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

    @property
    def tau(self) -> float:
        """Time step, a.u."""
        return self.propagator.tau

    def penalty(self, fields: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``alpha sum eps^2 tau`` along the last axis."""
        return np.asarray(self.alpha * self.tau * np.sum(fields**2, axis=-1))

    def member_probabilities(self, amplitudes: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return P of every field and member from amplitudes (F, M, pairs, K): (F, M)."""
        overlaps = [amplitudes[:, :, p] @ t.conj().T for p, t in enumerate(self.targets)]  # (F, M, r)
        if self.coherent:
            return np.abs(sum(o[..., 0] for o in overlaps) / len(overlaps)) ** 2
        return np.asarray(sum(np.sum(np.abs(o) ** 2, axis=-1) for o in overlaps) / len(overlaps))

    def probabilities(self, fields: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P averaged over members for each field (F, N): (F,); one sweep a field."""
        run = self._forward(np.atleast_2d(fields))
        return self.member_probabilities(run).mean(axis=1)

    def values(self, fields: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (P, J) for each field (F, N); all of them in one batch."""
        fields = np.atleast_2d(fields)
        p = self.probabilities(fields)
        return p, p - self.penalty(fields)

    def _forward(self, fields: NDArray[np.float64]) -> NDArray[np.complex128]:
        self.sweeps += fields.shape[0]
        run = self.propagator.forward(fields)
        self.norm_error = max(self.norm_error, run.norm_error)
        return run.amplitudes

    def evaluate(self, field: NDArray[np.float64]) -> Evaluation:
        """Return P, J and the exact discrete gradient of one field (N,); two sweeps."""
        self.sweeps += 2
        count = self.propagator.members.count
        probabilities = np.empty(count)
        gradient = np.zeros(field.size)
        step = self.propagator.chunk()
        for start in range(0, count, step):
            members = slice(start, min(start + step, count))
            run = self.propagator.forward(field[None], members, keep=True)
            self.norm_error = max(self.norm_error, run.norm_error)
            probabilities[members] = self.member_probabilities(run.amplitudes)[0]
            bras = self.costates(run.amplitudes[0]) / count
            rows = self.propagator.backward(run, np.arange(bras.shape[0]), bras)
            gradient += 2.0 * self._summed(rows)
        p = float(probabilities.mean())
        total = gradient - 2.0 * self.alpha * self.tau * field
        return Evaluation(p, p - float(self.penalty(field)), total, probabilities)

    def _summed(self, rows: Any) -> NDArray[np.float64]:
        """Return the real part of the sum of the rows (R, N), on the host and in double precision."""
        device = self.propagator.device
        if not device.is_cuda:
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
                overlaps = amplitudes[:, p] @ t.conj().T  # (M, r)
                bras[:, p] = overlaps.conj() @ t.conj() / pairs
        return bras.reshape(-1, levels)

    def trial(self, field: NDArray[np.float64]) -> tuple[float, float, Run]:
        """Return P, J and a run from which :meth:`jacobian` can go back; one sweep."""
        self.sweeps += 1
        run = self.propagator.forward(field[None], keep=True)
        self.norm_error = max(self.norm_error, run.norm_error)
        p = float(self.member_probabilities(run.amplitudes)[0].mean())
        return p, p - float(self.penalty(field)), run

    def jacobian(self, run: Run) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the amplitudes outside the targets and their derivatives: (R,), (R, N) complex; one sweep.

        Weighted by ``1 / sqrt(members pairs)``, so that ``sum |r|^2 = 1 - P`` up to what leaves the retained levels.
        """
        self.sweeps += 1
        amplitudes = run.amplitudes[0]
        members, pairs, _ = amplitudes.shape
        weight = 1.0 / np.sqrt(members * pairs)
        complements = [complement(t) for t in self.targets]
        rows, bras, source = [], [], []
        for m in range(members):
            for p, basis in enumerate(complements):
                rows.append(weight * (basis.conj() @ amplitudes[m, p]))
                bras.append(weight * basis.conj())
                source.append(np.full(basis.shape[0], m * pairs + p))
        jacobian = self.propagator.backward(run, np.concatenate(source), np.concatenate(bras))
        return np.concatenate(rows), self.propagator.device.to_host(jacobian)


def complement(targets: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return an orthonormal basis (K - r, K) of everything outside the target vectors (r, K)."""
    r = targets.shape[0]
    full, _ = np.linalg.qr(np.concatenate([targets.T, np.eye(targets.shape[1])], axis=1))
    return np.ascontiguousarray(full[:, r : targets.shape[1]].T)
