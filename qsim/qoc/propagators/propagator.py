"""Propagation of a molecule: in the lowest levels by Strang's splitting, and on the grid by Crank-Nicolson steps.

Both speak in amplitudes of the field-free levels, ``a_k = <k|psi>``, so that everything above them (targets, gradients,
optimisers) does not know which one runs.  A trajectory is (field, ensemble member, state pair), in this order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.kernels.eigenbasis import EigenBatch, Update, eb_backward, eb_costates, eb_forward, eb_krotov
from qsim.qoc.kernels.grid import GridBatch, cn_backward, cn_forward

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.qoc.models.molecule import Molecule

# Of the free memory that trajectories may take.
MEMORY_SHARE = 0.5
# Of trajectory kept at a time when only populations are wanted.
SEGMENT_BYTES = 64e6


@dataclass(frozen=True)
class Members:
    """Ensemble: which molecule each member is and how strongly it sees the field.

    Attributes
    ----------
    molecules : tuple of Molecule
        Distinct systems; the first is the nominal one.
    system : (M,) int
        Molecule of each member.
    scale : (M,) float64
        Field factor of each member.
    """

    molecules: tuple[Molecule, ...]
    system: NDArray[np.int64]
    scale: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number of members M."""
        return int(self.system.size)


@dataclass
class Run:
    """Outcome of a forward propagation.

    Attributes
    ----------
    amplitudes : (fields, members, pairs, K) complex128
        Level amplitudes at T.
    norm_error : float
        Largest deviation of the norm from its first value.
    """

    amplitudes: NDArray[np.complex128]
    norm_error: float
    members: slice
    handle: dict[str, Any] = field(default_factory=dict)


class Propagator(ABC):
    """Base of both propagators.

    Parameters
    ----------
    device : Device
    members : Members
    initial : (pairs, K) complex128
        Level amplitudes at t = 0.
    steps, duration : int, float
        Number of steps N and T, a.u.
    single : bool
        Single precision instead of double.
    """

    name = ""

    def __init__(
        self,
        device: Device,
        members: Members,
        initial: NDArray[np.complex128],
        steps: int,
        duration: float,
        single: bool = False,
    ) -> None:
        self.device, self.members, self.initial = device, members, initial
        self.steps, self.duration, self.tau = steps, duration, duration / steps
        self.single = single
        self.real = np.dtype(np.float32 if single else np.float64)
        self.complex = np.dtype(np.complex64 if single else np.complex128)
        self._chunk = 0
        self._layouts: dict[tuple[int, int, int], dict[str, Any]] = {}

    @abstractmethod
    def of_members(self, members: Members) -> Propagator:
        """Return the same propagator for other members of the same molecules."""

    @property
    def pairs(self) -> int:
        """Number of state pairs."""
        return int(self.initial.shape[0])

    @property
    def levels(self) -> int:
        """Number of levels K whose amplitudes are known."""
        return int(self.initial.shape[1])

    def chunk(self) -> int:
        """Return the number of members whose trajectories fit in memory together, at least one."""
        # asked of the device once: the question takes longer than a short propagation
        if self._chunk == 0:
            each = self.pairs * max(1, self.trajectory_bytes())
            budget = MEMORY_SHARE * (self.device.free_memory() or 1 << 31)
            self._chunk = int(min(self.members.count, max(1, budget // each)))
        return self._chunk

    @abstractmethod
    def trajectory_bytes(self) -> int:
        """Bytes that the gradient of one trajectory keeps."""

    @abstractmethod
    def forward(self, fields: NDArray[np.float64], members: slice | None = None, keep: bool = False) -> Run:
        """Propagate all members and pairs under each field (fields, N)."""

    @abstractmethod
    def backward(self, run: Run, source: NDArray[np.int64], bras: NDArray[np.complex128]) -> Any:
        """Return d(bra . amplitudes)/d eps, (rows, N) complex on the device, for a run of one field made with ``keep``.

        ``bras`` (rows, K) act on level amplitudes; ``source`` (rows,) ascending names the trajectory within the run.
        """

    @abstractmethod
    def populations(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the level populations (N, K) of the first member and pair at the end of every step."""

    @abstractmethod
    def wavefunction(self, run: Run) -> NDArray[np.complex128]:
        """Return psi(T) of the first field, member and pair on the grid (L,)."""

    def krotov(
        self,
        field: NDArray[np.float64],
        bras: NDArray[np.complex128],
        gain: NDArray[np.float64],
        alpha: float,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the field after one backward and one updating forward sweep, where a propagator has it."""
        raise NotImplementedError("Krotov's method runs in the eigenbasis")

    def _layout(self, fields: int, members: slice) -> dict[str, Any]:
        """Index arrays of all trajectories, on the device; kept, since every sweep wants the same."""
        key = (fields, members.start, members.stop)
        if key not in self._layouts:
            system, scale = self.members.system[members], self.members.scale[members]
            m, p = system.size, self.pairs
            self._layouts[key] = {
                "system": self._put(np.tile(np.repeat(system, p), fields), np.int32),
                "field": self._put(np.repeat(np.arange(fields), m * p), np.int32),
                "scale": self._put(np.tile(np.repeat(scale, p), fields), self.real),
            }
        return self._layouts[key]

    def _put(self, array: ArrayLike, dtype: DTypeLike) -> Any:
        # a copy: kernels write in place
        return self.device.asarray(np.array(array, dtype=dtype, order="C"))

    def _fields(self, fields: NDArray[np.float64]) -> Any:
        return self._put(np.atleast_2d(fields), self.real)

    def _all(self, members: slice | None) -> slice:
        return slice(0, self.members.count) if members is None else members


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
        batch = replace(batch, system=batch.system[:1], field=batch.field[:1], scale=batch.scale[:1])
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
