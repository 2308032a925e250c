"""Arrays on their way from the device to the host, while the device goes on with the next generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device

__all__ = ["Message"]

LINE = 64  # bytes


class Message:
    """Arrays on their way from the device to the host.

    The copies are queued behind the kernels that have been started; nobody waits before :meth:`read`.

    Parameters
    ----------
    device
        Where the arrays are.
    arrays
        Contiguous.  On a CPU they are kept as they are, and must not be changed.
    """

    def __init__(self, device: Device, arrays: Sequence[Array]) -> None:
        self._arrays: list[Any] = list(arrays)
        self._event: Any = None
        self._sources: list[Any] = []
        if not device.is_cuda:
            return
        cuda = device.xp.cuda
        sources: list[Any] = list(arrays)
        # One piece of memory that is never paged out, since only copies to such run beside the
        # host; each array begins at a whole line of it.
        starts = np.cumsum([0, *(-(-array.nbytes // LINE) * LINE for array in sources)])
        memory = cuda.alloc_pinned_memory(max(int(starts[-1]), 1))
        for k, array in enumerate(sources):
            place = np.frombuffer(memory, array.dtype, array.size, int(starts[k])).reshape(array.shape)
            array.get(out=place, blocking=False)
            self._arrays[k] = place
        self._event = cuda.Event(disable_timing=True)
        self._event.record()
        # The arrays of the device must live until they have been copied.
        self._sources = sources

    def read(self) -> list[NDArray[Any]]:
        """Return the arrays on the host, once they are there."""
        if self._event is not None:
            self._event.synchronize()
            self._event, self._sources = None, []
        return self._arrays
