"""The common part of both propagators: the ensemble, the outcome of a run, and the interface.

Both speak in amplitudes of the field-free levels, ``a_k = <k|psi>``, so that everything above them (targets, gradients,
optimisers) does not know which one runs.  A trajectory is (field, ensemble member, state pair), in this order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

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
