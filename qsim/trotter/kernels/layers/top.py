"""Rotation of the top bits of a part of a state on the way to other processes or from them: wrapper of ``top.cu``, CPU twin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.trotter.kernels.layers.layers_cpu import JIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, StateVector
    from qsim.core.device.device import Device

THREADS = 256
# columns of a range of a CPU thread
PIECE = 1 << 10


class Act(IntEnum):
    """The action on the top bits."""

    MOVE = 0
    ROTATE = 1
    GATES = 2


@dataclass(frozen=True)
class Columns:
    """Some columns of the parts of a state, and the buffer of what goes to other processes or comes from them.

    Attributes
    ----------
    psi : (2^n,) complex
        2^g parts, one below the other; part b belongs to process b after an exchange.
    low, width : int
        Columns ``low .. low + width - 1`` of every part.
    rank : int
        Number of this process, whose part stays.
    buffer : (2^g - 1, width) complex, optional
        Row ``(b ^ rank) - 1`` is part b.  Without a buffer all parts are in psi.
    arrived : bool
        The buffer is read; otherwise it is written.
    """

    psi: StateVector
    low: int
    width: int
    rank: int
    buffer: Array | None = None
    arrived: bool = False


def rotate_top(
    device: Device, columns: Columns, factors: NDArray[Any], act: Act, gates: NDArray[Any] | None = None
) -> None:
    """Multiply the parts by factors and act on the top g bits; what leaves or arrives is copied in the same pass.

    Parameters
    ----------
    columns : Columns
        Read and written.
    factors : (2^g,) complex
        Of each part.
    act : Act
        ``ROTATE`` is a Hadamard rotation of every bit, without its factor 2^(-1/2).
    gates : (g, 2, 2) complex, optional
        For ``GATES``: matrices of the bits, the lowest first; row and column 0 are up.
    """
    psi, parts = columns.psi, len(factors)
    g, part = parts.bit_length() - 1, psi.shape[0] // parts
    if parts != 1 << g or columns.low + columns.width > part:
        raise ValueError(
            f"{parts} parts of {part} amplitudes have no columns up to {columns.low + columns.width}"
        )
    if columns.buffer is not None and columns.buffer.size != (parts - 1) * columns.width:
        raise ValueError(f"a buffer of {columns.buffer.size} amplitudes does not hold {parts - 1} rows")
    matrices = np.zeros((g, 2, 2), psi.dtype) if gates is None else np.asarray(gates, psi.dtype)
    factors = np.asarray(factors, psi.dtype)
    if device.is_cuda:
        defines = {"REAL": "float" if psi.dtype == np.complex64 else "double", "GLOBAL": g}
        kernel = kernels.function("trotter/kernels/layers", "top", "rotate_top", defines)
        # a null pointer where there is no buffer
        buffer = np.uint64(0) if columns.buffer is None else columns.buffer
        sizes = (np.uint64(part), np.uint64(columns.width))
        how = (np.int32(columns.rank), np.int32(columns.arrived), np.int32(act))
        arrays = (psi[columns.low :], buffer, device.asarray(factors), device.asarray(matrices))
        kernel((-(-columns.width // THREADS),), (THREADS,), (*arrays, *sizes, *how))
        return
    table = psi.reshape(parts, part)[:, columns.low : columns.low + columns.width]
    empty = np.empty((0, columns.width), psi.dtype)
    buffer = empty if columns.buffer is None else columns.buffer.reshape(parts - 1, columns.width)

    def work(first: int, last: int) -> None:
        low, high = first * PIECE, min(last * PIECE, columns.width)
        _rotate_top_cpu(table, buffer, factors, matrices, columns.rank, columns.arrived, int(act), low, high)

    each_part(work, -(-columns.width // PIECE), parts * columns.width, device.threads)


@nb.njit(**JIT)
def _rotate_top_cpu(table, buffer, factors, gates, rank, arrived, act, first, last):
    """Columns first .. last of :func:`rotate_top`; table (2^g, width) is a view of psi."""
    parts = table.shape[0]
    some = buffer.shape[0] > 0
    v = np.empty(parts, table.dtype)
    for i in range(first, last):
        # what has arrived lies in the buffer, the own part and what has not left in the state
        for b in range(parts):
            if some and arrived and b != rank:
                v[b] = buffer[(b ^ rank) - 1, i] * factors[b]
            else:
                v[b] = table[b, i] * factors[b]
        if act != 0:
            for k in range(gates.shape[0]):
                for b in range(parts):
                    if not b >> k & 1:
                        up = v[b]
                        down = v[b | 1 << k]
                        if act == 1:
                            v[b] = up + down
                            v[b | 1 << k] = up - down
                        else:
                            v[b] = gates[k, 0, 0] * up + gates[k, 0, 1] * down
                            v[b | 1 << k] = gates[k, 1, 0] * up + gates[k, 1, 1] * down
        for b in range(parts):
            if some and not arrived and b != rank:
                buffer[(b ^ rank) - 1, i] = v[b]
            else:
                table[b, i] = v[b]
