"""The propagator of the paper on the grid: Crank-Nicolson steps with a five-point stencil."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.kernels.grid import GridBatch, cn_backward, cn_forward
from qsim.qoc.propagators.propagator import SEGMENT_BYTES, Members, Propagator, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CrankNicolson(Propagator):
    """The paper's propagator on the grid (Eq. Q3), with a shift of the energy zero; its gradient is Eq. Q8.

    Parameters
    ----------
    shifts : (molecules,) float64
        Energy added to each molecule's potential; the phase error of a state grows with the cube of its energy.
    store : bool
        Keep trajectories for the gradient; otherwise recover them by time reversal.
    """

    name = "crank_nicolson"

    def __init__(self, *args: Any, shifts: NDArray[np.float64], store: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        molecules = self.members.molecules
        self.store, self.shifts, self._dx = store, shifts, molecules[0].dx
        self._h = self._put([m.diagonal + s for m, s in zip(molecules, shifts, strict=True)], self.real)
        self._mu = self._put([m.dipole for m in molecules], self.real)
        self._off = self._put([m.off for m in molecules], self.real)
        self._states = np.array([m.states[: self.levels] for m in molecules])
        self._bras = [self._put(states.T, self.complex) for states in self._states]

    def of_members(self, members: Members) -> CrankNicolson:
        """Return the same propagator for other members of the same molecules."""
        same = (self.device, members, self.initial, self.steps, self.duration, self.single)
        return CrankNicolson(*same, shifts=self.shifts, store=self.store)

    @property
    def points(self) -> int:
        """Number of grid points L."""
        return int(self._states.shape[2])

    def trajectory_bytes(self) -> int:
        """N x L complex numbers if stored, else one state."""
        return (self.steps if self.store else 1) * self.points * self.complex.itemsize

    def forward(self, fields: NDArray[np.float64], members: slice | None = None, keep: bool = False) -> Run:
        """Propagate; see :meth:`Propagator.forward`."""
        members, eps = self._all(members), self._fields(fields)
        batch = self._batch(eps.shape[0], members)
        psi = self._start(eps.shape[0], members)
        trajectory = None
        if keep and self.store:
            trajectory = self.device.xp.empty((psi.shape[0], self.steps, self.points), self.complex)
        cn_forward(self.device, batch, psi, eps, trajectory)
        xp, system = self.device.xp, self.members.system[members]
        final = psi.reshape(eps.shape[0], system.size, self.pairs, self.points)
        amplitudes = np.empty((*final.shape[:3], self.levels), complex)
        # one matrix product for all members of a molecule
        for s in np.unique(system):
            own = np.flatnonzero(system == s)
            part = final if own.size == system.size else final[:, self.device.asarray(own)]
            amplitudes[:, own] = self.device.to_host(part @ self._bras[s]) * self._dx
        norms = self.device.to_host(xp.sum(xp.abs(final) ** 2, axis=-1, dtype=np.float64)) * self._dx
        first = np.sum(np.abs(self.initial) ** 2, axis=-1)
        return Run(
            amplitudes,
            float(np.max(np.abs(norms - first))),
            members,
            {"batch": batch, "eps": eps, "trajectory": trajectory, "psi": psi},
        )

    def backward(self, run: Run, source: NDArray[np.int64], bras: NDArray[np.complex128]) -> Any:
        """Carry costates back; see :meth:`Propagator.backward`."""
        system = self.members.system[run.members][np.asarray(source) // self.pairs]
        q = np.empty((bras.shape[0], self.points), complex)
        for s in np.unique(system):
            own = system == s
            q[own] = bras[own] @ self._states[s]
        # Time reversal overwrites the final state, so it works on a copy.
        psi = run.handle["psi"] if run.handle["trajectory"] is not None else run.handle["psi"].copy()
        return cn_backward(
            self.device,
            run.handle["batch"],
            self._put(q, self.complex),
            self._put(source, np.int32),
            psi,
            run.handle["eps"],
            run.handle["trajectory"],
        )

    def populations(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        """Level populations (N, K), a segment of steps at a time; see :meth:`Propagator.populations`."""
        one, bras = slice(0, 1), self._states[self.members.system[0]] * self._dx
        eps, psi = self._fields(field), self._start(1, slice(0, 1))[:1]
        batch = self._batch(1, one)
        batch = GridBatch(
            batch.h,
            batch.mu,
            batch.off,
            batch.system[:1],
            batch.field[:1],
            batch.scale[:1],
            self.tau,
            self._dx,
        )
        length = max(1, int(SEGMENT_BYTES // (self.points * self.complex.itemsize)))
        out = np.empty((self.steps, self.levels))
        c = self.initial[0].copy()
        for start in range(0, self.steps, length):
            part = self.device.xp.ascontiguousarray(eps[:, start : start + length])
            trajectory = self.device.xp.empty((1, part.shape[1], self.points), self.complex)
            cn_forward(self.device, batch, psi, part, trajectory)
            middle = self.device.to_host(trajectory[0]) @ bras.T
            # the stored means are (psi_j + psi_{j+1}) / 2
            for j in range(part.shape[1]):
                c = 2.0 * middle[j] - c
                out[start + j] = np.abs(c) ** 2
        return out

    def wavefunction(self, run: Run) -> NDArray[np.complex128]:
        """Return psi(T) of the first field, member and pair on the grid (L,)."""
        return self.device.to_host(run.handle["psi"][0]).astype(complex)

    def _batch(self, fields: int, members: slice) -> GridBatch:
        return GridBatch(
            self._h, self._mu, self._off, **self._layout(fields, members), tau=self.tau, dx=self._dx
        )

    def _start(self, fields: int, members: slice) -> Any:
        system = self.members.system[members]
        psi = np.array([self.initial @ states for states in self._states])[system]
        return self._put(np.broadcast_to(psi, (fields, *psi.shape)).reshape(-1, self.points), self.complex)
