"""Couplings of the last site in a sector of parity: public wrapper of ``parity.cu``, and its CPU twin.

The index of a state holds all sites but the last, whose spin makes the number of spins down even or odd. Couplings among the
others are a Hamiltonian of N - 1 spins (:mod:`qsim.trotter.kernels.product.apply`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.trotter.kernels.amplitudes import macros

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, FloatArray, IndexArray, StateVector
    from qsim.core.device.device import Device

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
THREADS = 256
# bits of the amplitudes that a thread of a CPU makes at a time
TILE = 12


class LastSite(NamedTuple):
    """Couplings of the last site.

    Attributes
    ----------
    odd : int
        Whether the number of spins down is odd.
    site : (T,) int32
        Sites that flip together with it.
    coefficient : (T, 4, 2) float64
        Real and imaginary part of the flip, by the spins of the result, ``bit_j + 2 bit_last``.
    J : (N - 1,) float64
        Couplings along z.
    field : float
        Along z.
    """

    odd: int
    site: IndexArray
    coefficient: Array
    J: FloatArray
    field: float


def parity_last(
    device: Device, tables: LastSite, psi: StateVector, out: StateVector, alpha: float = 1.0
) -> None:
    """Add ``alpha`` times the couplings and the field of the last site times psi to out.

    Parameters
    ----------
    psi, out : (2^(N-1),) complex or real
        Different arrays on the device.
    """
    if psi.shape != out.shape or psi.dtype != out.dtype or psi is out:
        raise ValueError("psi and out must be different arrays of one shape and type")
    size = int(psi.shape[0])
    if device.is_cuda:
        kernel = kernels.function("trotter/kernels/product", "parity", "parity_last", macros(psi.dtype))
        flips = (np.int32(tables.site.shape[0]), tables.site, tables.coefficient)
        diagonal = (np.int32(tables.J.shape[0]), tables.J, np.float64(tables.field))
        kernel(
            (-(-size // THREADS),),
            (THREADS,),
            (psi, out, np.uint64(size), np.int32(tables.odd), *flips, *diagonal, np.float64(alpha)),
        )
        return
    bits = min(TILE, size.bit_length() - 1)
    x, y = psi.view(psi.real.dtype), out.view(psi.real.dtype)
    each_part(
        lambda first, last: _parity_last_cpu(x, y, first, last, bits, x.size // size, tables, float(alpha)),
        size >> bits,
        size,
        device.threads,
    )


@nb.njit(**JIT)
def _parity_last_cpu(psi, out, first, last, bits, u, tables, alpha):
    """Tiles first .. last of :func:`parity_last`; psi and out (u 2^(N-1),) real, u = 1 of real amplitudes."""
    odd, site, coefficient, J, field = tables
    size = 1 << bits
    # spin of the last site
    down = np.empty(size, psi.dtype)
    energy = np.empty(size)
    for tile in range(first, last):
        # the last spin of an amplitude follows from the parity
        # of the tile's number and of the index within the tile
        begin = tile << bits
        count = odd
        total = field
        # energy of the last spin in its field and the couplings with the spins above the tile
        for j in range(bits, J.shape[0]):
            spin = begin >> j & 1
            count ^= spin
            total += (0.5 - spin) * J[j]
        # with all spins of the tile up
        for j in range(bits):
            total += 0.5 * J[j]
        down[0] = count
        energy[0] = total
        # each bit of the tile doubles both tables: it turns
        # the last spin over and lowers the energy by J_j
        for j in range(bits):
            for i in range(1 << j):
                down[(1 << j) + i] = 1 - down[i]
                energy[(1 << j) + i] = energy[i] - J[j]
        # diagonal: s of the last site times its field; first, so that the tile of `out` is in cache for the flips
        a, b = out[u * begin : u * (begin + size)], psi[u * begin : u * (begin + size)]
        for i in range(size):
            energy[i] *= alpha * (0.5 - down[i])
        if u == 1:
            for i in range(size):
                a[i] += psi.dtype.type(energy[i]) * b[i]
        else:
            for i in range(size):
                e = psi.dtype.type(energy[i])
                a[2 * i] += e * b[2 * i]
                a[2 * i + 1] += e * b[2 * i + 1]
        # flips of the last site with site j: the last bit is
        # not in the index, the partner differs in bit j alone
        for t in range(site.shape[0]):
            j = site[t]
            run = 1 << min(bits, j)
            for start in range(begin, begin + size, run):
                # the coefficient depends on both spins of the result: one of site j in the run, of the last one by `down`
                up = start >> j & 1
                re = psi.dtype.type(alpha * coefficient[t, up, 0])
                im = psi.dtype.type(alpha * coefficient[t, up, 1])
                more_re = psi.dtype.type(alpha * coefficient[t, up + 2, 0]) - re
                more_im = psi.dtype.type(alpha * coefficient[t, up + 2, 1]) - im
                there = start ^ (1 << j)
                a, b = out[u * start : u * (start + run)], psi[u * there : u * (there + run)]
                d = down[start - begin : start - begin + run]
                if u == 1:
                    for i in range(run):
                        a[i] += (re + more_re * d[i]) * b[i]
                    continue
                for i in range(run):
                    x = re + more_re * d[i]
                    y = im + more_im * d[i]
                    a[2 * i] += x * b[2 * i] - y * b[2 * i + 1]
                    a[2 * i + 1] += x * b[2 * i + 1] + y * b[2 * i]
