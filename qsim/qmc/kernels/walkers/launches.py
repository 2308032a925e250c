"""What launches for walkers of molecules and crystals have in common: shape, counters, and order in a generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
from qsim.qmc.kernels.common.tables import Stream, counters
from qsim.qmc.kernels.walkers import walk_cpu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.kernels.walkers.derivatives_cpu import ParameterTables

__all__ = ["SHARED_BYTES", "WARP", "WalkerLaunch", "as_argument", "diffusion", "generation", "slopes"]

WARP, SHARED_BYTES = 32, 96 * 1024  # at least two blocks per multiprocessor
SUMS_BYTES = SHARED_BYTES  # of a block that adds derivatives up in shared memory, at most
WARPS = (4, 2, 1)  # of a block: as many as leave enough blocks
BLOCKS = 256  # at least, before a block gets more than one warp: about two for each multiprocessor


def as_argument(record: NDArray[Any]) -> NDArray[Any]:
    """Return a record (1,) as bytes of the same length: CuPy asks NumPy to describe named fields at every launch, for 0.1 ms."""
    return record.view(f"V{record.dtype.itemsize}")


class WalkerLaunch:
    """Launches of kernels on the same walkers, some lanes of a warp for each of them.

    Parameters
    ----------
    package : str
        Folder of the CUDA sources.
    walkers : int
    each : int
        Bytes of shared memory of a walker.
    lanes : int
        Of a warp for a walker; more if so many walkers of a warp have no memory.
    macros : mapping
        Of the source, beside ``WARPS`` and ``LANES``.
    common : int
        Bytes of shared memory that a block has once.
    """

    model: NDArray[Any]
    state: NDArray[Any]
    sizes: Mapping[str, int]

    def __init__(
        self,
        package: str,
        walkers: int,
        each: int,
        lanes: int,
        macros: Mapping[str, str | int],
        common: int = 0,
    ) -> None:
        self.package, self.walkers, self.lanes = package, walkers, lanes
        while self.lanes < WARP and WARP // self.lanes * each > SHARED_BYTES // 2:
            self.lanes *= 2
        groups = WARP // self.lanes
        most = min(SHARED_BYTES // each, walkers // BLOCKS) // groups
        self.warps = next((count for count in WARPS if count <= most), 1)
        self.each = self.warps * groups
        self.shared = self.each * each + common
        self.macros = {**macros, "WARPS": self.warps, "LANES": self.lanes}
        self._functions: dict[str, Any] = {}

    @property
    def has_nonlocal(self) -> bool:
        """Whether there are T-moves to make."""
        return self.sizes["pseudos"] > 0

    def __call__(
        self, name: str, numbers: tuple[Any, ...], stream: Stream | None = None, more: tuple[Any, ...] = ()
    ) -> None:
        """Launch a kernel with the model, the walkers, numbers, the counters of a stream, and more."""
        kernel = self._functions.get(name)
        if kernel is None:
            kernel = kernels.function(self.package, "walk", name, self.macros, shared_bytes=self.shared)
            self._functions[name] = kernel
        at = () if stream is None else tuple(np.uint32(x) for x in counters(stream))
        arguments = (as_argument(self.model), as_argument(self.state), *numbers, *at, *more)
        kernel((-(-self.walkers // self.each),), (WARP * self.warps,), arguments, shared_mem=self.shared)


def generation(
    launch: WalkerLaunch, tau: float, mode: int, sweeps: int, count: int, stream: Stream, sums: Any
) -> None:
    """Launch ``count`` generations of variational Monte Carlo."""
    for k in range(count):
        at = stream._replace(step=stream.step + k * sweeps)
        launch("walk", (np.float64(tau), np.int32(mode), np.int32(sweeps)), at)
        launch("energies", (), at, (sums,))


def diffusion(
    launch: WalkerLaunch, tau: float, stream: Stream, tmoves: bool, limits: tuple[float, float, float, float]
) -> None:
    """Launch a generation of diffusion Monte Carlo; ``limits`` are reference, trial, window and tau_ratio."""
    reference, trial, window, tau_ratio = limits
    launch("walk", (np.float64(tau), np.int32(walk_cpu.FIXED_NODE), np.int32(1)), stream)
    launch("weigh", tuple(map(np.float64, (tau * tau_ratio, reference, trial, window))), stream)
    if tmoves and launch.has_nonlocal:
        launch("nonlocal_steps", (np.float64(tau * tau_ratio),), stream)


def slopes(
    launch: WalkerLaunch, device: Device, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[Any, Any]:
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
    launch("energies", (), stream, (np.uint64(0),))
    walkers, numbers = launch.walkers, int(parameters.place.size)
    each = WARP // launch.lanes
    blocks = -(-walkers // each)
    shared, space = 8 * 4 * launch.sizes["electrons"] * each, np.uint64(0)
    if shared + 8 * 2 * numbers * WARP <= SUMS_BYTES:
        shared += 8 * 2 * numbers * WARP
    else:
        space = xp.empty(2 * numbers * WARP * blocks)
    log_slopes, energy_slopes = xp.empty((walkers, count)), xp.empty((walkers, count))
    macros = {**launch.macros, "WARPS": 1}
    kernel = kernels.function(launch.package, "derivatives", "derivatives", macros, shared_bytes=shared)
    sizes = (np.int32(numbers), np.int32(count))
    arguments = (*parameters, *sizes, space, log_slopes, energy_slopes)
    kernel(
        (blocks,),
        (WARP,),
        (as_argument(launch.model), as_argument(launch.state), *arguments),
        shared_mem=shared,
    )
    return log_slopes, energy_slopes
