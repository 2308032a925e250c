"""Exchange of the bits that number processes with the top bits of a local index, piece by piece, beside the kernels.

Part b of a state, whose top g bits are b, goes to process b, which sends its part of this number instead.  The bits are rotated
in the pass that copies the amplitudes of a piece into the buffer that is sent from, or out of the one that was received into
(:mod:`qsim.trotter.kernels.layers.top`).  There are two buffers each way: while one is on its way, kernels work on the other, so
that passes over a piece that is about to leave, or has just arrived, take no time of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.layers.top import Act, Columns, rotate_top

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, StateVector
    from qsim.core.device.device import Device
    from qsim.core.device.links import Links

    # works on columns low .. low + width - 1 of all parts
    Work = Callable[[int, int], None]

# Bytes of a buffer: links between GPUs reach their full rate with this size (two H200); on a CPU tables are made for each piece.
BUFFER = {"cpu": 1 << 24, "cuda": 1 << 28}


class Exchange:
    """Exchanges of the parts of a state; every call is made by all processes.

    Parameters
    ----------
    device : Device
    links : Links
        To 2^g processes.
    bits : int
        n, of the local index.
    dtype : dtype
        Of the amplitudes.

    Attributes
    ----------
    width : int
        Columns of a piece, a power of two.
    """

    def __init__(self, device: Device, links: Links, bits: int, dtype: np.dtype[Any]) -> None:
        self.device, self.links, self.dtype = device, links, dtype
        self.parts = links.size
        self.columns = (1 << bits) // self.parts
        rows = max(1, self.parts // 2)
        self.width = min(self.columns, BUFFER[device.kind] // dtype.itemsize // rows)
        self._buffers: dict[str, list[Any]] = {}
        # what waits for the pieces that are coming
        self._coming = [_nothing, _nothing]

    def leave(
        self,
        psi: StateVector,
        factors: NDArray[Any],
        act: Act,
        before: Work | None = None,
        gates: NDArray[Any] | None = None,
    ) -> None:
        """Act on the top bits, then exchange the parts.

        Parameters
        ----------
        psi : (2^n,) complex
            In place.
        factors : (2^g,) complex
            Of the parts before they leave.
        act : Act
        before : function, optional
            Called with (low, width) of each piece before it is acted on.
        gates : (g, 2, 2) complex, optional
            For :attr:`Act.GATES`.
        """
        buffers, waiting = self._pair("out"), [_nothing, _nothing]
        for number, low in enumerate(self._lows):
            # what left this buffer two pieces ago has gone
            waiting[number % 2]()
            if before is not None:
                before(low, self.width)
            some = Columns(psi, low, self.width, self.links.rank, buffers[number % 2])
            rotate_top(self.device, some, factors, act, gates)
            # what comes may overwrite the state at once: its amplitudes are in the buffer
            waiting[number % 2] = self._send(psi, low, buffers[number % 2])
        for wait in waiting:
            wait()

    def arrive(
        self,
        psi: StateVector,
        factors: NDArray[Any],
        act: Act,
        after: Work | None = None,
        gates: NDArray[Any] | None = None,
    ) -> None:
        """Exchange the parts, then act on the top bits; as :meth:`leave`, `after` is called with each finished piece."""
        for number, low in enumerate(self._lows):
            self._receive(psi, number, factors, act, gates)
            if after is not None:
                after(low, self.width)

    def through(self, psi: StateVector, entering: NDArray[Any], between: Work, leaving: NDArray[Any]) -> None:
        """Exchange the parts and rotate the top bits, work on each piece, rotate them again and exchange the parts back.

        Both exchanges and the work are under way at the same time.

        Parameters
        ----------
        psi : (2^n,) complex
            In place.
        entering, leaving : (2^g,) complex
            Factors of the parts after the first exchange, and before the second one.
        between : function
            Called with (low, width) of each piece.
        """
        buffers, waiting = self._pair("out"), [_nothing, _nothing]
        for number, low in enumerate(self._lows):
            self._receive(psi, number, entering, Act.ROTATE, None)
            between(low, self.width)
            waiting[number % 2]()
            some = Columns(psi, low, self.width, self.links.rank, buffers[number % 2])
            rotate_top(self.device, some, leaving, Act.ROTATE)
            waiting[number % 2] = self._send(psi, low, buffers[number % 2])
        for wait in waiting:
            wait()

    @property
    def _lows(self) -> range:
        """First columns of the pieces."""
        return range(0, self.columns, self.width)

    def _receive(
        self, psi: StateVector, number: int, factors: NDArray[Any], act: Act, gates: NDArray[Any] | None
    ) -> None:
        """Wait for a piece and act on it; the one after the next sets out, as its buffer is free then."""
        buffers = self._pair("in")
        # the first two set out together
        for ahead in range(2) if number == 0 else ():
            self._begin(psi, ahead)
        self._coming[number % 2]()
        some = Columns(
            psi, self._lows[number], self.width, self.links.rank, buffers[number % 2], arrived=True
        )
        rotate_top(self.device, some, factors, act, gates)
        self._begin(psi, number + 2)

    def _begin(self, psi: StateVector, number: int) -> None:
        """Let a piece set out into the buffer for it, if there is one of this number."""
        if number < len(self._lows):
            buffer = self._pair("in")[number % 2]
            self._coming[number % 2] = self.links.trade(
                [
                    (b, part, buffer[(b ^ self.links.rank) - 1])
                    for b, part in self._others(psi, self._lows[number])
                ]
            )

    def _send(self, psi: StateVector, low: int, buffer: Array) -> Callable[[], None]:
        """Let a piece set out from a buffer; what comes takes its place in the state."""
        return self.links.trade(
            [(b, buffer[(b ^ self.links.rank) - 1], part) for b, part in self._others(psi, low)]
        )

    def _others(self, psi: StateVector, low: int) -> list[tuple[int, Any]]:
        """Return the pieces that other processes get, and whose place what they send takes: (process, amplitudes)."""
        table = psi.reshape(self.parts, -1)
        return [
            (b, table[b, low : low + self.width])
            for step in range(1, self.parts)
            for b in [self.links.rank ^ step]
        ]

    def _pair(self, way: str) -> list[Any]:
        """Return both buffers of what comes in or goes out, (2^g - 1, width) each, made at their first use."""
        if way not in self._buffers:
            shape = (self.parts - 1, self.width)
            self._buffers[way] = [self.device.xp.empty(shape, self.dtype) for _ in range(2)]
        return self._buffers[way]


def _nothing() -> None:
    """Wait for nothing."""
