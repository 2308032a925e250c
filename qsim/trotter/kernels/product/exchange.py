"""Couplings of different components of two spins, ``K_ab S^a_j S^b_k``: public wrapper of ``exchange.cu``, and its CPU twin.

It is added to the result of :mod:`qsim.trotter.kernels.product.apply`. A pair has up to three terms: both spins
flipped (xy and yx), the first (xz, yz) or the second (zx, zy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.jit import PART as _PART
from qsim.core.device.pool import each_part
from qsim.trotter.kernels.amplitudes import macros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, IndexArray, StateVector
    from qsim.core.device.device import Device

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
PART: dict[str, Any] = {**JIT, **_PART}
THREADS = 256
# bits of the amplitudes that a thread of a CPU makes at a time
TILE = 12


class ExchangeTables(NamedTuple):
    """Terms of the couplings.

    Attributes
    ----------
    mask : (T,) uint64
        Spins that a term flips.
    sites : (T, 2) int32
        j and k.
    coefficient : (T, 4, 2) float64
        Real and imaginary part, by the spins of the result, ``bit_j + 2 bit_k``.
    """

    mask: IndexArray
    sites: IndexArray
    coefficient: ComplexArray


def exchange_tables(device: Device, cross: NDArray[np.float64]) -> ExchangeTables:
    """Return the terms of couplings (3, 3, N, N), zero for equal components; see :mod:`qsim.trotter.model.tensors`."""
    masks: list[int] = []
    sites: list[tuple[int, int]] = []
    rows: list[NDArray[np.complex128]] = []
    # spins of the result, in the order bit_j + 2 bit_k; S^a in units of hbar, s = +-1/2
    bit_j, bit_k = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    sj, sk = 0.5 - bit_j, 0.5 - bit_k
    for j, k in np.argwhere(np.triu(cross.any(axis=(0, 1)), 1)):
        K = cross[:, :, j, k]
        # <s|S^y|s'> = i s' with the spin s' before the flip, which is opposite to the spin of the result
        both = 0.5j * (K[0, 1] * -sk + K[1, 0] * -sj)
        # one spin flips: S^x has 1/2, S^y has -i s of the result; the other spin is diagonal
        first = (0.5 * K[0, 2] - 1j * sj * K[1, 2]) * sk
        second = (0.5 * K[2, 0] - 1j * sk * K[2, 1]) * sj
        # a term is stored if one of its four coefficients differs from zero
        for mask, row in ((1 << j | 1 << k, both), (1 << j, first), (1 << k, second)):
            if row.any():
                masks.append(int(mask))
                sites.append((int(j), int(k)))
                rows.append(row.astype(np.complex128))
    coefficient = np.array(rows, np.complex128).reshape(-1, 4)
    return ExchangeTables(
        device.asarray(np.array(masks, np.uint64)),
        device.asarray(np.array(sites, np.int32).reshape(-1, 2)),
        device.asarray(coefficient.view(np.float64).reshape(-1, 4, 2)),
    )


def exchange(
    device: Device, tables: ExchangeTables, psi: StateVector, out: StateVector, alpha: float = 1.0
) -> None:
    """Add ``alpha`` times the couplings times psi to out.

    Parameters
    ----------
    psi, out : (2^N,) complex or real
        Different arrays on the device.
    """
    if psi.shape != out.shape or psi.dtype != out.dtype or psi is out:
        raise ValueError("psi and out must be different arrays of one shape and type")
    size = int(psi.shape[0])
    if device.is_cuda:
        kernel = kernels.function("trotter/kernels/product", "exchange", "exchange", macros(psi.dtype))
        terms = np.int32(tables.mask.shape[0])
        kernel(
            (-(-size // THREADS),),
            (THREADS,),
            (psi, out, np.uint64(size), terms, *tables, np.float64(alpha)),
        )
        return
    x, y = psi.view(psi.real.dtype), out.view(psi.real.dtype)
    # tiles are the work that threads share; a state of few spins is one tile
    bits = min(TILE, size.bit_length() - 1)
    each_part(
        lambda first, last: _exchange_cpu(x, y, first, last, bits, x.size // size, *tables, float(alpha)),
        size >> bits,
        size,
        device.threads,
    )


@nb.njit(**JIT)
def _exchange_cpu(psi, out, first, last, bits, u, mask, sites, coefficient, alpha):
    """Tiles first .. last of :func:`exchange`; psi and out (u 2^N,) real, u = 1 of real amplitudes.

    Runs of amplitudes have one coefficient.
    """
    for tile in range(first, last):
        begin = tile << bits
        for t in range(mask.shape[0]):
            j = sites[t, 0]
            k = sites[t, 1]
            # below both sites the bits do not matter: a run of amplitudes with one coefficient, neighbours in memory
            run = 1 << min(bits, min(j, k))
            flipped = np.int64(mask[t])
            for start in range(begin, begin + (1 << bits), run):
                # the coefficient depends on the two spins alone
                which = (start >> j & 1) + 2 * (start >> k & 1)
                re = psi.dtype.type(alpha * coefficient[t, which, 0])
                im = psi.dtype.type(alpha * coefficient[t, which, 1])
                if re == 0 and im == 0:
                    continue
                a = out[u * start : u * (start + run)]
                # the partner run may lie in another tile; it is only read, and each tile writes its own amplitudes
                there = start ^ flipped
                b = psi[u * there : u * (there + run)]
                if u == 1:
                    for i in range(run):
                        a[i] += re * b[i]
                    continue
                for i in range(run):
                    a[2 * i] += re * b[2 * i] - im * b[2 * i + 1]
                    a[2 * i + 1] += re * b[2 * i + 1] + im * b[2 * i]
