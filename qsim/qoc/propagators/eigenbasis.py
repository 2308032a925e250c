"""Strang splitting in the lowest eigenstates of each molecule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.kernels.eigenbasis import EigenBatch, Update, eb_backward, eb_costates, eb_forward, eb_krotov
from qsim.qoc.propagators.propagator import SEGMENT_BYTES, Members, Propagator, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Eigenbasis(Propagator):
    """Strang splitting in the lowest K eigenstates of each molecule (Eq. Q4); its gradient is Eq. Q9."""

    name = "eigenbasis"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        molecules, k = self.members.molecules, self.levels
        self._batches: dict[tuple[int, int, int], EigenBatch] = {}
        self._half = np.empty((len(molecules), k), complex)
        self._rotation = np.empty((len(molecules), k, k))
        step = np.empty((len(molecules), k, k), complex)
        slope = np.empty((len(molecules), k))
        for i, molecule in enumerate(molecules):
            slope[i], self._rotation[i] = np.linalg.eigh(molecule.dipole_matrix[:k, :k])
            # a common phase drops out
            energies = molecule.energies[:k] - molecule.energies[0]
            self._half[i] = np.exp(-0.5j * energies * self.tau)
            step[i] = _unitary((self._rotation[i].T * self._half[i] ** 2) @ self._rotation[i])
        self._step, self._slope = self._put(step, self.complex), self._put(slope, self.real)

    def of_members(self, members: Members) -> Eigenbasis:
        """Return the same propagator for other members of the same molecules."""
        return Eigenbasis(self.device, members, self.initial, self.steps, self.duration, self.single)

    def trajectory_bytes(self) -> int:
        """N x K complex numbers."""
        return self.steps * self.levels * self.complex.itemsize

    def forward(self, fields: NDArray[np.float64], members: slice | None = None, keep: bool = False) -> Run:
        """Propagate; see :meth:`Propagator.forward`."""
        members, eps = self._all(members), self._fields(fields)
        batch, system = self._batch(eps.shape[0], members), self.members.system[members]
        # The first half step of Strang's splitting is in the start, the last one in the amplitudes.
        start = np.einsum("ski,sk,pk->spi", self._rotation, self._half, self.initial)[system]
        w = self._put(
            np.broadcast_to(start, (eps.shape[0], *start.shape)).reshape(-1, self.levels), self.complex
        )
        trajectory = None
        if keep:
            trajectory = self.device.xp.empty((w.shape[0], self.steps, self.levels), self.complex)
        eb_forward(self.device, batch, w, eps, trajectory)
        final = self.device.to_host(w).astype(complex).reshape(eps.shape[0], *start.shape)
        amplitudes = np.empty_like(final)
        for s, own in self._places(system):
            amplitudes[:, own] = (final[:, own] @ self._rotation[s].T) * self._half[s]
        return Run(
            amplitudes,
            _norm_error(amplitudes, self.initial),
            members,
            {"batch": batch, "eps": eps, "trajectory": trajectory},
        )

    def _batch(self, fields: int, members: slice) -> EigenBatch:
        """Return what the kernels take of all trajectories; kept as the layout is."""
        key = (fields, members.start, members.stop)
        if key not in self._batches:
            layout = self._layout(fields, members)
            self._batches[key] = EigenBatch(self._step, self._slope, **layout, tau=self.tau)
        return self._batches[key]

    def _places(self, system: NDArray[np.int64]) -> list[tuple[int, Any]]:
        """Return the molecules among some trajectories and the places of each: one matrix product for all of a molecule."""
        if len(self.members.molecules) == 1:
            return [(0, slice(None))]
        return [(int(s), system == s) for s in np.unique(system)]

    def backward(self, run: Run, source: NDArray[np.int64], bras: NDArray[np.complex128]) -> Any:
        """Carry costates back; see :meth:`Propagator.backward`."""
        system = self.members.system[run.members][np.asarray(source) // self.pairs]
        q = np.empty(bras.shape, complex)
        for s, own in self._places(system):
            q[own] = (bras[own] * self._half[s]) @ self._rotation[s]
        return eb_backward(
            self.device,
            run.handle["batch"],
            self._put(q, self.complex),
            self._put(source, np.int32),
            run.handle["eps"],
            run.handle["trajectory"],
        )

    def populations(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        """Level populations (N, K); see :meth:`Propagator.populations`."""
        one = slice(0, 1)
        run = self.forward(field, one, keep=True)
        trajectory, rotation = run.handle["trajectory"][0], self._rotation[self.members.system[0]].T
        out = np.empty((self.steps, self.levels))
        length = max(1, int(SEGMENT_BYTES // (4 * self.levels * self.complex.itemsize)))
        for start in range(0, self.steps, length):
            w = self.device.to_host(trajectory[start : start + length])
            # the free half step that follows changes no population
            out[start : start + length] = np.abs(w @ rotation) ** 2
        return out

    def wavefunction(self, run: Run) -> NDArray[np.complex128]:
        """Return psi(T) of the first field, member and pair on the grid (L,): the sum over levels."""
        return np.asarray(run.amplitudes[0, 0, 0] @ self.members.molecules[self.members.system[0]].states)

    def krotov(
        self,
        field: NDArray[np.float64],
        bras: NDArray[np.complex128],
        gain: NDArray[np.float64],
        alpha: float,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the field after one backward and one updating forward sweep (Krotov); computed on the CPU.

        ``bras`` (M * pairs, K) are the weighted costates at T under ``field``; ``gain`` is the shape over Krotov's lambda.
        """
        layout = {k: self.device.to_host(v) for k, v in self._layout(1, self._all(None)).items()}
        step, slope = self.device.to_host(self._step), self.device.to_host(self._slope)
        batch = EigenBatch(step.astype(complex), slope.astype(float), **layout, tau=self.tau)
        system = layout["system"]
        q = np.einsum("rk,rk,rki->ri", bras, self._half[system], self._rotation[system])
        eps = np.array(field, dtype=float)
        chi = eb_costates(batch, q, eps[None])
        starts = np.einsum("ski,sk,pk->spi", self._rotation, self._half, self.initial)
        w = starts[self.members.system].reshape(-1, self.levels).copy()
        eb_krotov(batch, w, chi, eps, Update(gain, alpha, low, high))
        return eps


def _unitary(step: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return the symmetric unitary matrix next to a nearly unitary one: one Newton step in extended precision.

    The same matrix acts in every step, so what it lacks in unitarity adds up; products of double precision lack 5e-15.
    """
    s = step.astype(np.clongdouble)
    s = 1.5 * s - 0.5 * s @ (s.conj().T @ s)
    return (0.5 * (s + s.T)).astype(complex)


def _norm_error(amplitudes: NDArray[np.complex128], initial: NDArray[np.complex128]) -> float:
    first = np.sum(np.abs(initial) ** 2, axis=-1)
    return float(np.max(np.abs(np.sum(np.abs(amplitudes) ** 2, axis=-1) - first)))
