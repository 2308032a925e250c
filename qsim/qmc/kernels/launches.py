"""What launches for walkers of molecules and crystals have in common: shape, counters, and order in a generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
from qsim.qmc.kernels import walk_cpu
from qsim.qmc.kernels.tables import Stream, counters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["SHARED_BYTES", "WARP", "WalkerLaunch", "diffusion", "generation"]

WARP, SHARED_BYTES = 32, 96 * 1024  # at least two blocks per multiprocessor
WARPS = (4, 2, 1)  # of a block: as many as leave enough blocks
BLOCKS = 256  # at least, before a block gets more than one warp: about two for each multiprocessor


class WalkerLaunch:
    """Launches of kernels on the same walkers, some lanes of a warp for each of them.

    Parameters
    ----------
    source : str
        Stem of the CUDA source.
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
        source: str,
        walkers: int,
        each: int,
        lanes: int,
        macros: Mapping[str, str | int],
        common: int = 0,
    ) -> None:
        self.source, self.walkers, self.lanes = source, walkers, lanes
        while self.lanes < WARP and WARP // self.lanes * each > SHARED_BYTES // 2:
            self.lanes *= 2
        groups = WARP // self.lanes
        most = min(SHARED_BYTES // each, walkers // BLOCKS) // groups
        self.warps = next((count for count in WARPS if count <= most), 1)
        self.each = self.warps * groups
        self.shared = self.each * each + common
        self.macros = {**macros, "WARPS": self.warps, "LANES": self.lanes}

    @property
    def has_nonlocal(self) -> bool:
        """Whether there are T-moves to make."""
        return self.sizes["pseudos"] > 0

    def __call__(
        self, name: str, numbers: tuple[Any, ...], stream: Stream | None = None, more: tuple[Any, ...] = ()
    ) -> None:
        """Launch a kernel with the model, the walkers, numbers, the counters of a stream, and more."""
        kernel = kernels.function("qmc/kernels", self.source, name, self.macros, shared_bytes=self.shared)
        at = () if stream is None else tuple(np.uint32(x) for x in counters(stream))
        arguments = (self.model, self.state, *numbers, *at, *more)
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
