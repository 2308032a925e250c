"""Moments of S^z in one pass over the state: public wrapper of ``measure.cu`` and its CPU twin."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.trotter.kernels.layers.layers_cpu import JIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray, StateVector
    from qsim.core.device.device import Device

# bits of a tile
TILE = 12
OUTPUTS = 1 + TILE + TILE * (TILE - 1) // 2
# of a CUDA block, as in measure.cu
THREADS = 256
# of a pass on any device, so that the order of additions is the same everywhere
BLOCKS = 2048
# bits of a Walsh-Hadamard transform that are done at a time
WALSH = 11
FIRST, SECOND = np.triu_indices(TILE, 1)


@dataclass
class Moments:
    """First and second moments of the spin components, not divided by the norm.

    Attributes
    ----------
    norm : float
        <psi|psi>.
    s : dict of axis to (N,) float64
        <S^a_j>.
    ss : dict of axis to (N, N) float64
        <S^a_j S^a_k>; 1/4 of the norm on the diagonal.
    energy, variance : float, optional
        <H> and <H^2> - <H>^2, divided by the norm, where they are known without the moments.
    """

    norm: float
    s: dict[str, NDArray[np.float64]]
    ss: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    energy: float | None = None
    variance: float | None = None


@cache
def upper_pairs(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return j and k of all pairs j < k of n bits, in the order (0,1), (0,2), ..., (1,2), ..."""
    first, second = np.triu_indices(n, 1)
    # kept from one call to the next, of which small states have many
    first.flags.writeable = second.flags.writeable = False
    return first, second


def moments_of_axis(
    device: Device, psi: StateVector
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return norm, <S^z_j> (N,) and <S^z_j S^z_k> (N, N) of a state (2^N,)."""
    n = int(psi.shape[0]).bit_length() - 1
    # small states: one tile is the whole state
    if n <= TILE:
        norms, firsts, seconds = moments_of_members(device, psi[None])
        return float(norms[0]), firsts[0], seconds[0]
    outside = n - TILE
    sums, kept = _summed_tiles(device, psi)
    # sums over all tiles with the signs of outer bits: a Walsh-Hadamard transform of the sums of every tile gives the sums of all
    # outer bits and pairs of them at once, 13 numbers a tile instead of a pass over the state for each
    walsh(device, kept, outside)
    # all numbers by one transfer
    high, upper = upper_pairs(outside)
    places = _places(device, outside)
    numbers = device.to_host(device.xp.concatenate([sums, kept.reshape(-1)[places]]))
    inside, one = (
        numbers[:OUTPUTS],
        numbers[OUTPUTS : OUTPUTS + (1 + TILE) * outside].reshape(1 + TILE, outside),
    )
    s = np.zeros(n)
    ss = np.zeros((n, n))
    norm = float(inside[0])
    # first moments, then second ones: of two inner bits, of an inner and an outer one, of two outer ones
    s[:TILE] = 0.5 * inside[1 : 1 + TILE]
    s[TILE:] = 0.5 * one[0]
    ss[FIRST, SECOND] = 0.25 * inside[1 + TILE :]
    ss[:TILE, TILE:] = 0.25 * one[1:]
    ss[TILE + high, TILE + upper] = 0.25 * numbers[OUTPUTS + one.size :]
    ss += ss.T
    np.fill_diagonal(ss, 0.25 * norm)
    return norm, s, ss


@cache
def _places(device: Device, outside: int) -> Any:
    """Return where in the transformed (13, 2^outside) numbers the sums with signs of one outer bit are, and of two alone."""
    high, upper = upper_pairs(outside)
    one = (np.arange(1 + TILE)[:, None] << outside) + (1 << np.arange(outside))
    return device.asarray(np.concatenate([one.ravel(), (1 << high) | (1 << upper)]))


def _summed_tiles(device: Device, psi: StateVector) -> tuple[Any, Any]:
    """Return the signed sums (79,) of all tiles together, and of each tile the 13 with at most one bit, (13, tiles)."""
    if not device.is_cuda:
        sums = measure_tiles(device, psi)
        return sums.sum(axis=0), np.ascontiguousarray(sums[:, : 1 + TILE].T)
    tiles = int(psi.shape[0]) >> TILE
    kept = device.xp.empty((1 + TILE, tiles))
    sums = device.xp.empty((min(tiles, BLOCKS), OUTPUTS))
    _launch(psi, tiles, kept, sums)
    return sums.sum(axis=0), kept


def _launch(psi: StateVector, tiles: int, kept: FloatArray | np.uint64, sums: FloatArray) -> None:
    real = "float" if psi.dtype.itemsize == 8 else "double"
    kernel = kernels.function("trotter/kernels/states", "measure", "measure_tiles", {"REAL": real})
    kernel((sums.shape[0],), (THREADS,), (psi, np.uint64(tiles), kept, sums))


def first_moments(device: Device, psi: StateVector) -> tuple[float, NDArray[np.float64]]:
    """Return norm and <S^z_j> (N,) of a state (2^N,)."""
    norm, s, _ = moments_of_axis(device, psi)
    return norm, s


def moments_of_members(
    device: Device, psi: StateVector
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return norms (M,), <S^z_j> (M, n) and <S^z_j S^z_k> (M, n, n) of states (M, 2^n), n <= 12.

    On the CPU no bit of a member's moments depends on the other members.
    """
    members, size = psi.shape
    n = int(size).bit_length() - 1
    if not device.is_cuda:
        sums = np.empty((members, 1 + n + n * (n - 1) // 2))
        flat = psi.reshape(-1)
        each_part(
            lambda first, last: _measure_tiles_cpu(flat, n, first, last, np.empty(size), sums),
            members,
            psi.size,
            device.threads,
        )
    elif n == TILE:
        # the kernel takes tiles of 12 bits
        sums = device.to_host(measure_tiles(device, psi.reshape(-1)))
    else:
        # fewer bits: a matrix product with the signs
        p = psi.real.astype(np.float64) ** 2 + psi.imag.astype(np.float64) ** 2
        sums = device.to_host(p @ device.asarray(_signs(n)))
    # signs are of sigma^z: S = sigma / 2 gives 1/2 and 1/4
    first, second = upper_pairs(n)
    ss = np.zeros((members, n, n))
    ss[:, first, second] = ss[:, second, first] = 0.25 * sums[:, 1 + n :]
    ss[:, np.arange(n), np.arange(n)] = 0.25 * sums[:, :1]
    return sums[:, 0].copy(), 0.5 * sums[:, 1 : 1 + n], ss


@cache
def _signs(n: int) -> NDArray[np.float64]:
    """Return the signs (2^n, outputs) of all indices in each sum."""
    z = 1.0 - 2.0 * (np.arange(1 << n)[:, None] >> np.arange(n) & 1)
    first, second = upper_pairs(n)
    return np.hstack([np.ones((1 << n, 1)), z, z[:, first] * z[:, second]])


def measure_tiles(device: Device, psi: StateVector) -> Any:
    """Return the signed sums of every tile of 4096 amplitudes.

    Parameters
    ----------
    psi : (2^N,) complex, N >= 12

    Returns
    -------
    (2^(N - 12), 79) float64
        Signs of no bit, of bits 0 .. 11, of the pairs of bits of ``numpy.triu_indices(12, 1)``.
    """
    count = int(psi.shape[0]) >> TILE
    out = device.xp.empty((count, OUTPUTS))
    if device.is_cuda:
        _launch(psi, count, np.uint64(0), out)
        return out
    each_part(
        lambda first, last: _measure_tiles_cpu(psi, TILE, first, last, np.empty(1 << TILE), out),
        count,
        psi.shape[0],
        device.threads,
    )
    return out


def walsh(device: Device, x: FloatArray, bits: int) -> None:
    """Do the Walsh-Hadamard transform of rows ``x`` (rows, 2^bits) float64, without its factor, in place."""
    if device.is_cuda:
        kernel = kernels.function("trotter/kernels/states", "measure", "walsh", {"REAL": "double"})
        for low in range(0, bits, WALSH):
            some = min(WALSH, bits - low)
            arguments = (x, np.int32(bits), np.int32(low), np.int32(some))
            kernel((1 << (bits - some), x.shape[0]), (THREADS,), arguments, shared_mem=8 << some)
        return
    _walsh_cpu(x, bits)


def _walsh_cpu(x: FloatArray, bits: int) -> None:
    # one bit at a time: sum where it is up, difference for its sign
    for j in range(bits):
        pair = x.reshape(len(x), -1, 2, 1 << j)
        total, difference = pair[:, :, 0] + pair[:, :, 1], pair[:, :, 0] - pair[:, :, 1]
        pair[:, :, 0], pair[:, :, 1] = total, difference


@nb.njit(**JIT)
def _measure_tiles_cpu(psi, bits, first, last, p, out):
    """Tiles first .. last of :func:`measure_tiles`, of any size: bits are summed over, so that the work halves with each."""
    size = 1 << bits
    for tile in range(first, last):
        part = psi[tile * size : (tile + 1) * size]
        for i in range(size):
            # products of single precision would be rounded to it
            re = np.float64(part[i].real)
            im = np.float64(part[i].imag)
            p[i] = re * re + im * im
        place = 1 + bits
        # pairs (a, b): from the probabilities summed over the bits below a
        length = size
        # bit a is the lowest that is left; <sigma_a> from neighbours
        for a in range(bits):
            total = 0.0
            half = length // 2
            for i in range(half):
                even = p[2 * i]
                odd = p[2 * i + 1]
                total += even - odd
            out[tile, 1 + a] = total
            # pairs (a, b): the difference of neighbours has the sign of a, the place of the run the sign of b
            for b in range(a + 1, bits):
                run = 1 << (b - a - 1)
                pair = 0.0
                for base in range(0, half, 2 * run):
                    for i in range(base, base + run):
                        pair += p[2 * i] - p[2 * i + 1]
                    for i in range(base + run, base + 2 * run):
                        pair -= p[2 * i] - p[2 * i + 1]
                out[tile, place] = pair
                place += 1
            # then bit a is summed over: half as many numbers for all bits above
            for i in range(half):
                p[i] = p[2 * i] + p[2 * i + 1]
            length = half
        # the last number is the norm of the tile
        out[tile, 0] = p[0]
