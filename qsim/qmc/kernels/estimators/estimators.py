"""Histograms of walkers: public wrappers of ``estimators.cu`` and their CPU twins.

Weights are counted in integers of :math:`2^{-24}`, so that a histogram does not depend on the order of the
additions, on threads or on the device; an entry has room for :math:`2^{39}` samples of weight 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.qmc.kernels.estimators import estimators_cpu

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray
    from qsim.core.device.device import Device
    from qsim.qmc.kernels.common.types import State

__all__ = [
    "BLOCK",
    "TOTALS",
    "UNIT",
    "block_totals",
    "count_quanta",
    "mesh_histogram",
    "pair_histogram",
    "quanta",
    "radial_histogram",
    "take_totals",
]

UNIT = 2.0**24
THREADS = 128  # as in estimators.cu
TOTALS = 13  # sums of a generation
BLOCK = THREADS  # walkers whose sums are taken together, on a CPU too
PARALLEL_SIZE = 1 << 16  # distances below which starting threads costs more than it saves


def quanta(device: Device, weight: FloatArray) -> IndexArray:
    """Return weights (walkers,) float64 as integers of 1/`UNIT`, int64."""
    xp = device.xp
    return xp.rint(weight * UNIT).astype(np.int64)


def count_quanta(device: Device, weight: FloatArray, total: IndexArray) -> IndexArray:
    """Return :func:`quanta` of weights (walkers,) and add their sum to a number (), int64, on the device."""
    if not device.is_cuda:
        return _count_quanta_cpu(device, weight, total)
    walkers = int(weight.shape[0])
    count = device.xp.empty(walkers, np.int64)
    if walkers:
        kernel = kernels.function("qmc/kernels/estimators", "estimators", "count_quanta", {"REAL": "double"})
        arguments = (weight, np.int64(walkers), np.float64(UNIT), count, total)
        kernel(kernels.blocks(walkers, THREADS), (THREADS,), arguments)
    return count


def _count_quanta_cpu(device: Device, weight: FloatArray, total: IndexArray) -> IndexArray:
    count = quanta(device, weight)
    total += count.sum()
    return count


def pair_histogram(
    device: Device, R: FloatArray, count: IndexArray, n_up: int, rmax: float, out: IndexArray
) -> None:
    """Add the pairs of electrons of all walkers to histograms of their distance.

    Parameters
    ----------
    R : (walkers, N, 3) float64
        Positions, spin-up electrons first (bohr).
    count : (walkers,) int64
        Weights, from :func:`quanta`.
    n_up
        Number of spin-up electrons.
    rmax
        End of the last bin (bohr); pairs beyond are left out.
    out : (3, bins) int64, in and out
        Up-up, up-down, down-down.
    """
    walkers, N = _check(R, count, out, (3,))
    inverse_width = out.shape[1] / rmax
    if device.is_cuda:
        sizes = (np.int64(walkers), *map(np.int32, (N, n_up, out.shape[1])))
        _launch("pair_histogram", R, (R, count, *sizes, np.float64(inverse_width), out))
        return
    _pair_histogram_cpu(device, R, count, n_up, inverse_width, out)


def _pair_histogram_cpu(device, R, count, n_up, inverse_width, out):
    """Do the same on the CPU."""
    _parts(
        device,
        R.shape[0],
        R.shape[0] * R.shape[1] * (R.shape[1] - 1) // 2,
        lambda first, last, own: estimators_cpu.pairs(first, last, R, count, n_up, inverse_width, own),
        out,
    )


def mesh_histogram(
    device: Device,
    R: FloatArray,
    count: IndexArray,
    n_up: int,
    origin: FloatArray,
    spacing: FloatArray,
    out: IndexArray,
) -> None:
    """Add the electrons of all walkers to histograms on a mesh; those outside are left out.

    Parameters
    ----------
    R, count, n_up
        As for :func:`pair_histogram`.
    origin, spacing : (3,) float64
        Corner and size of the first cell (bohr); on the host.
    out : (2, n0, n1, n2) int64, in and out
        By spin and cell.
    """
    walkers, N = _check(R, count, out, (2,), 4)
    scale = 1.0 / np.asarray(spacing, np.float64)
    start = np.asarray(origin, np.float64)
    if device.is_cuda:
        sizes = (np.int64(walkers), *map(np.int32, (N, n_up, *out.shape[1:])))
        _launch("mesh_histogram", R, (R, count, *sizes, *map(np.float64, (*start, *scale)), out))
        return
    _mesh_histogram_cpu(device, R, count, n_up, start, scale, out)


def _mesh_histogram_cpu(device, R, count, n_up, origin, scale, out):
    """Do the same on the CPU."""
    _parts(
        device,
        R.shape[0],
        R.shape[0] * R.shape[1],
        lambda first, last, own: estimators_cpu.mesh(first, last, R, count, n_up, origin, scale, own),
        out,
    )


def radial_histogram(
    device: Device,
    R: FloatArray,
    count: IndexArray,
    atom: FloatArray,
    n_up: int,
    rmax: float,
    out: IndexArray,
) -> None:
    """Add the electrons of all walkers to histograms of their distance from each atom.

    Parameters
    ----------
    R, count, n_up, rmax
        As for :func:`pair_histogram`.
    atom : (A, 3) float64
        Positions of the atoms (bohr), on the device.
    out : (2, A, bins) int64, in and out
        By spin, atom and distance.
    """
    walkers, N = _check(R, count, out, (2, atom.shape[0]))
    inverse_width = out.shape[2] / rmax
    if device.is_cuda:
        sizes = (np.int64(walkers), *map(np.int32, (N, n_up, *out.shape[1:])))
        _launch("radial_histogram", R, (R, count, atom, *sizes, np.float64(inverse_width), out))
        return
    _radial_histogram_cpu(device, R, count, atom, n_up, inverse_width, out)


def _radial_histogram_cpu(device, R, count, atom, n_up, inverse_width, out):
    """Do the same on the CPU."""
    _parts(
        device,
        R.shape[0],
        R.shape[0] * R.shape[1] * atom.shape[0],
        lambda first, last, own: estimators_cpu.radial(first, last, R, count, atom, n_up, inverse_width, own),
        out,
    )


def take_totals(device: Device, state: State, reference: float = 0.0, window: float = math.inf) -> FloatArray:
    """Return the sums of a generation over all walkers, on the host; the counts of moves begin anew.

    Parameters
    ----------
    reference, window : float
        Energy and width (hartree) of a window.

    Returns
    -------
    (13,) float64
        Sums of weight times energies (6), of weight times the square of their total, of weights, of the counts of moves (4), and
        of weight times what of the total energy lies beyond the window.
    """
    return device.to_host(block_totals(device, state, reference, window)).sum(axis=0)


def block_totals(
    device: Device,
    state: State,
    reference: float = 0.0,
    window: float = math.inf,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return the sums of :func:`take_totals` over each block of `BLOCK` walkers, (blocks, 13) float64, on the device.

    Parameters
    ----------
    out : (blocks, 13) float64, optional
        Takes them.
    """
    weight, energy = state.weight, state.energy
    walkers = int(weight.shape[0])
    blocks = -(-walkers // THREADS)
    if out is None:
        out = device.xp.empty((blocks, TOTALS))
    if not device.is_cuda:
        _block_totals_cpu(state, reference, window, out)
        return out
    if blocks:
        kernel = kernels.function("qmc/kernels/estimators", "estimators", "block_totals", {"REAL": "double"})
        numbers = (np.int64(walkers), np.float64(reference), np.float64(window))
        kernel((blocks,), (THREADS,), (weight, energy, state.moves, *numbers, out))
    return out


def _block_totals_cpu(state: State, reference: float, window: float, out: FloatArray) -> None:
    starts = range(0, state.weight.shape[0], BLOCK)
    for row, first in zip(out, starts, strict=True):
        own = slice(first, first + BLOCK)
        weight, energy = state.weight[own], state.energy[own]
        # Sums over a block of walkers in their order, whatever the number of ranks.
        row[:6] = weight @ energy
        row[6] = weight @ energy[:, 5] ** 2
        row[7] = weight.sum()
        row[8:12] = state.moves[own].sum(axis=0)
        row[12] = weight @ np.maximum(np.abs(energy[:, 5] - reference) - window, 0.0)
    state.moves[...] = 0.0


def _check(
    R: FloatArray, count: IndexArray, out: IndexArray, first: tuple[int, ...], dimensions: int | None = None
) -> tuple[int, int]:
    """Return walkers and electrons of arrays of the right shapes and dtypes."""
    # Kernels read without bounds: shapes are checked here, once.
    fits = R.ndim == 3 and R.shape[2] == 3 and count.shape == R.shape[:1]
    fits = fits and out.shape[: len(first)] == first and out.ndim == (dimensions or len(first) + 1)
    if not fits or R.dtype != np.float64 or count.dtype != np.int64 or out.dtype != np.int64:
        raise ValueError(
            f"arrays do not match: R {R.shape} {R.dtype}, count {count.shape} {count.dtype}, out {out.shape} {out.dtype}"
        )
    return R.shape[0], R.shape[1]


def _launch(name: str, R: FloatArray, arguments: tuple[object, ...]) -> None:
    if R.shape[0] * R.shape[1] == 0:
        return
    kernel = kernels.function("qmc/kernels/estimators", "estimators", name, {"REAL": "double"})
    kernel(kernels.blocks(R.shape[0] * R.shape[1], THREADS), (THREADS,), arguments)


def _parts(
    device: Device, walkers: int, work: int, add: Callable[[int, int, IndexArray], None], out: IndexArray
) -> None:
    """Call ``add(first, last, histogram)`` for all walkers, each thread with a histogram of its own."""
    # histograms of the threads must be cleared and added: worth it only if they are small beside the work
    if device.threads <= 1 or walkers <= 1 or work < max(PARALLEL_SIZE, 4 * device.threads * out.size):
        add(0, walkers, out)
        return
    # Histograms of threads are added at the end: no atomic operations.
    parts = min(walkers, device.threads)
    own = np.zeros((parts, *out.shape), np.int64)

    def part(first: int, last: int) -> None:
        for p in range(first, last):
            add(walkers * p // parts, walkers * (p + 1) // parts, own[p])

    each_part(part, parts, work, device.threads, PARALLEL_SIZE)
    out += own.sum(axis=0)
