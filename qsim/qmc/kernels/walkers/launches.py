"""Launches of the kernels of walkers on a GPU: shape, counters, and their order in a generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from qsim.core.device import kernels
from qsim.core.device.arrays import Array
from qsim.qmc.kernels.common.tables import Stream, counters
from qsim.qmc.kernels.walkers.jobs import DIFFUSE, ENERGIES, GENERATIONS, RECOMPUTE, Job
from qsim.qmc.kernels.walkers.walk_cpu import FIXED_NODE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qsim.core.device.arrays import FloatArray
    from qsim.core.device.device import Device
    from qsim.qmc.kernels.walkers.derivatives_cpu import ParameterTables

__all__ = ["PACKAGE", "SHARED_BYTES", "WARP", "Argument", "WalkerLaunch", "as_argument"]

Argument: TypeAlias = Array | np.generic
PACKAGE = "qmc/kernels/walkers"  # folder of the CUDA sources
WARP, SHARED_BYTES = 32, 96 * 1024  # at least two blocks per multiprocessor
SUMS_BYTES = SHARED_BYTES  # of a block that adds derivatives up in shared memory, at most
WARPS = (4, 2, 1)  # of a block: as many as leave enough blocks
BLOCKS = 256  # at least, before a block gets more than one warp: about two for each multiprocessor


def as_argument(record: Array) -> Array:
    """Return a record (1,) as bytes of the same length: CuPy asks NumPy to describe named fields at every launch, for 0.1 ms."""
    return record.view(f"V{record.dtype.itemsize}")


class WalkerLaunch:
    """Launches of kernels on the same walkers, some lanes of a warp for each of them.

    Parameters
    ----------
    walkers : int
    each : int
        Bytes of shared memory of a walker.
    lanes : int
        Of a warp for a walker; more if shared memory is too small for all walkers of a warp.
    macros : mapping
        Of the sources, beside ``WARPS`` and ``LANES``.
    common : int
        Bytes of shared memory that a block has once.
    """

    model: Array
    state: Array
    sizes: Mapping[str, int]

    def __init__(
        self, walkers: int, each: int, lanes: int, macros: Mapping[str, str | int], common: int = 0
    ) -> None:
        self.walkers, self.lanes = walkers, lanes
        # More lanes for a walker are fewer walkers in a warp, which share its memory.
        while self.lanes < WARP and WARP // self.lanes * each > SHARED_BYTES // 2:
            self.lanes *= 2
        groups = WARP // self.lanes
        # As many warps of a block as leave enough blocks for all multiprocessors.
        most = min(SHARED_BYTES // each, walkers // BLOCKS) // groups
        self.warps = next((count for count in WARPS if count <= most), 1)
        self.each = self.warps * groups
        self.shared = self.each * each + common
        self.macros = {**macros, "WARPS": self.warps, "LANES": self.lanes}
        self._functions: dict[str, Any] = {}
        self._records: tuple[Array, Array] | None = None

    @property
    def has_nonlocal(self) -> bool:
        """Return whether there are T-moves to make."""
        return self.sizes["pseudos"] > 0

    def __call__(
        self,
        name: str,
        numbers: tuple[Argument, ...],
        stream: Stream | None = None,
        more: tuple[Argument, ...] = (),
    ) -> None:
        """Launch a kernel with the model, the walkers, numbers, the counters of a stream, and more."""
        kernel = self._functions.get(name)
        if kernel is None:
            kernel = kernels.function(PACKAGE, "walk", name, self.macros, shared_bytes=self.shared)
            self._functions[name] = kernel
        # The same records in every launch: their views take longer than what else is to be done.
        if self._records is None:
            self._records = as_argument(self.model), as_argument(self.state)
        at = () if stream is None else tuple(map(np.uint32, counters(stream)))
        arguments = (*self._records, *numbers, *at, *more)
        kernel((-(-self.walkers // self.each),), (WARP * self.warps,), arguments, shared_mem=self.shared)

    def do(self, job: Job, stream: Stream, sums: FloatArray | None) -> None:
        """Launch the kernels of a job; ``sums`` are as for the kernel `advance` of the CPU."""
        if job.kind == RECOMPUTE:
            assert sums is not None
            self("recompute", (sums,))
        elif job.kind == ENERGIES:
            self("energies", (), stream, (np.uint64(0),))
        elif job.kind == DIFFUSE:
            self._diffuse(job, stream)
        else:
            moves = (np.float64(job.tau), np.int32(job.mode), np.int32(job.sweeps))
            for k in range(job.repeats):
                at = stream._replace(step=stream.step + k * job.sweeps)
                self("walk", moves, at)
                if job.kind == GENERATIONS:
                    assert sums is not None
                    self("energies", (), at, (sums,))

    def _diffuse(self, job: Job, stream: Stream) -> None:
        """Launch a generation of diffusion Monte Carlo: moves, energies and weights, T-moves."""
        effective = job.tau * job.tau_ratio
        self("walk", (np.float64(job.tau), np.int32(FIXED_NODE), np.int32(1)), stream)
        weights = (effective, job.reference, job.trial, job.window)
        self("weigh", tuple(map(np.float64, weights)), stream)
        if job.tmoves and self.has_nonlocal:
            self("nonlocal_steps", (np.float64(effective),), stream)

    def derivatives(
        self, device: Device, parameters: ParameterTables, count: int, stream: Stream
    ) -> tuple[FloatArray, FloatArray]:
        """Launch the kernel of local energies and that of derivatives, which reads what it left in scratch memory.

        Parameters
        ----------
        parameters, count, stream
            As for `derivatives.derivatives`.

        Returns
        -------
        (W, P) float64
            ``d log psi / dp``, on the device.
        (W, P) float64
            ``d E_L / dp`` in hartree, on the device.
        """
        xp = device.xp
        self.do(Job(ENERGIES), stream, None)
        walkers, numbers = self.walkers, int(parameters.place.size)
        # One warp a block, since every lane has sums of its own.
        each = WARP // self.lanes
        blocks = -(-walkers // each)
        # Sums of all lanes in shared memory, or in device memory where there are too many
        # parameters.
        shared, space = 8 * 4 * self.sizes["electrons"] * each, np.uint64(0)
        if shared + 8 * 2 * numbers * WARP <= SUMS_BYTES:
            shared += 8 * 2 * numbers * WARP
        else:
            space = xp.empty(2 * numbers * WARP * blocks)
        log_slopes, energy_slopes = xp.empty((walkers, count)), xp.empty((walkers, count))
        macros = {**self.macros, "WARPS": 1}
        kernel = kernels.function(PACKAGE, "derivatives", "derivatives", macros, shared_bytes=shared)
        arguments = (
            as_argument(self.model),
            as_argument(self.state),
            parameters.first,
            parameters.place,
            np.int32(numbers),
            np.int32(count),
            space,
            log_slopes,
            energy_slopes,
        )
        kernel((blocks,), (WARP,), arguments, shared_mem=shared)
        return log_slopes, energy_slopes
