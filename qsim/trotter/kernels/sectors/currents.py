"""Dzyaloshinskii-Moriya couplings along z in a sector of conserved Sz: public wrapper of ``currents.cu``, and its CPU twin.

They are flips of two opposite spins whose sign depends on the direction, and make H complex; they are added to the result
of :func:`qsim.trotter.kernels.sectors.product.sector_product`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray, StateVector
    from qsim.core.device.device import Device
    from qsim.trotter.kernels.sectors.product import SectorTables

__all__ = ["sector_currents"]

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
THREADS = 256


def sector_currents(
    device: Device,
    tables: SectorTables,
    psi: StateVector,
    out: StateVector,
    masks: IndexArray,
    values: FloatArray,
    alpha: float = 1.0,
) -> None:
    """Compute ``out += alpha sum_jk D_jk/2 (i S+_j S-_k - i S-_j S+_k) psi``, which is ``D_jk (S_j x S_k)_z``.

    Parameters
    ----------
    psi, out : (D,) complex
        Different vectors of the sector, on the device.
    masks : (P, 2) int64
        The bits of j and k, on the device.
    values : (P,) float64
        ``D_jk / 2``.
    """
    if psi.dtype.kind != "c" or out.dtype != psi.dtype or out.shape != psi.shape:
        raise ValueError(f"psi {psi.dtype} and out {out.dtype} must be complex, of one shape and type")
    low, high = tables.bits
    strings = tables.strings
    # a row is the unit of work; each is written by one thread, and psi is only read
    if not device.is_cuda:
        numbers = np.array([(p, row) for p, _, count, _ in tables.blocks for row in range(count)], np.int64)
        each_part(
            lambda first, last: _sector_currents_cpu(
                psi, out, strings, low, numbers[first:last], masks, values, float(alpha)
            ),
            len(numbers),
            psi.size,
            device.threads,
        )
        return
    real = "float" if psi.dtype == np.complex64 else "double"
    kernel = kernels.function("trotter/kernels/sectors", "currents", "sector_currents", {"REAL": real})
    for p, first, rows, columns in tables.blocks:
        kernel(
            (-(-rows * columns // THREADS),),
            (THREADS,),
            (
                psi,
                out,
                np.int32(low),
                np.int32(high),
                np.int32(strings.down),
                np.int32(p),
                np.int64(first),
                np.int64(rows),
                np.int64(columns),
                *strings[1:],
                np.int32(len(values)),
                masks,
                values,
                np.float64(alpha),
            ),
        )


@nb.njit(**JIT)
def _sector_currents_cpu(psi, out, t, low, rows, masks, values, alpha):
    """Rows (p, number) of :func:`sector_currents`."""
    under = (1 << low) - 1
    # row = high string h with p spins down, columns = low strings with w
    for m in range(rows.shape[0]):
        p = rows[m, 0]
        w = t.down - p
        first = t.low_offset[w]
        columns = t.low_offset[w + 1] - first
        h = t.high_string[t.high_offset[p] + rows[m, 1]]
        row = t.block[p] + rows[m, 1] * columns
        # i D/2 (S+_j S-_k - S-_j S+_k): a real antisymmetric flip times i, with the sign of its direction
        for c in range(values.shape[0]):
            j = masks[c, 0]
            k = masks[c, 1]
            # the bits of the pair in either part
            top = (j | k) >> low
            bottom = (j | k) & under
            value = alpha * values[c]
            # whole rows
            if bottom == 0:
                one = h & top
                if one == 0 or one == top:
                    continue
                start = t.block[p] + t.high_rank[h ^ top] * columns
                # spin k down here: S+_j S-_k led to this string
                d = value if h & (k >> low) else -value
                for u in range(columns):
                    b = psi[start + u]
                    out[row + u] += complex(-d * b.imag, d * b.real)
                continue
            # sites in the low part, or one in each part: strings of the row are tested one by one
            start = row
            if top:
                # of the low part of the partner
                v = w - 1 if h & top == 0 else w + 1
                if v < 0 or v > low:
                    continue
                others = t.low_offset[v + 1] - t.low_offset[v]
                start = t.block[t.down - v] + t.high_rank[h ^ top] * others
            # i d b = (-d b.imag, d b.real)
            for u in range(columns):
                string = t.low_string[first + u]
                inside = string & bottom
                # antiparallel spins only
                if top:
                    if (inside == 0) == (h & top == 0):
                        continue
                elif inside == 0 or inside == bottom:
                    continue
                d = value if (h << low | string) & k else -value
                b = psi[start + t.low_rank[string ^ bottom]]
                out[row + u] += complex(-d * b.imag, d * b.real)
