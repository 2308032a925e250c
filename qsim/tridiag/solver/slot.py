"""Place of one block of a streamed solution on a CUDA device: copies in both directions overlap with kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.tridiag.solver.systems import Block

__all__ = ["Slot"]


class Slot:
    """Place for one block on a CUDA device: buffers there, pinned ones on the host, and a stream of its own."""

    def __init__(self, device: Device, rows: int, columns: int, dtype: np.dtype[Any]) -> None:
        xp = device.xp
        with device.use():
            self.stream = xp.cuda.Stream(non_blocking=True)
            self._flat = [xp.empty(rows * k, dtype) for k in (1, 1, 1, columns, columns)]
            self.work = xp.empty(rows, dtype)
            # page-locked memory: copies from pageable memory would wait for the host
            self._pinned = [_pinned(xp, rows * k, dtype) for k in (1, 1, 1, columns, columns)]
        self._columns = columns

    def arrays(self, rows: int) -> list[Any]:
        """Return a, b, c, d on the device."""
        return [self._view(self._flat[i], i, rows) for i in range(4)]

    def x(self, rows: int) -> Any:
        """Return x (columns, rows) on the device."""
        return self._view(self._flat[4], 4, rows)

    def _view(self, flat: Array, i: int, rows: int) -> Any:
        return flat[:rows] if i < 3 else flat[: rows * self._columns].reshape(self._columns, rows)

    def upload(self, host: Block) -> None:
        """Start copying a block to the device."""
        rows = len(host[0])
        for i, part in enumerate(host):
            pinned = self._view(self._pinned[i], i, rows)
            # one copy on the host, then one that overlaps with kernels of other slots
            pinned[...] = part
            self._view(self._flat[i], i, rows).set(pinned, stream=self.stream)

    def download(self, rows: int) -> None:
        """Start copying x to the host."""
        self.x(rows).get(stream=self.stream, out=self.fetched(rows), blocking=False)

    def fetched(self, rows: int) -> NDArray[Any]:
        """Return x on the host, once the stream has come to its end."""
        view: NDArray[Any] = self._view(self._pinned[4], 4, rows)
        return view


def _pinned(xp: ModuleType, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    memory = xp.cuda.alloc_pinned_memory(max(1, size) * dtype.itemsize)
    return np.frombuffer(memory, dtype, size)
