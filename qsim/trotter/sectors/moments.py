"""Moments of the spins in a sector: from the probabilities of rows and columns, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.states.measure import Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.operator import SectorOperator

# amplitudes of rows taken together: their probabilities stay in cache
PIECE = 1 << 16
PIECE_CUDA = 1 << 24


def sector_moments(
    operator: SectorOperator, psi: NDArray[Any], pairs: Sequence[tuple[int, int]] | None = None
) -> Moments:
    """Return norm, <S^z_j>, <S^z_j S^z_k>, and <S^x_j S^x_k> = <S^y_j S^y_k> of some pairs.

    All <S^x_j>, <S^y_j> and, with inversion, <S^z_j> vanish by symmetry.

    Parameters
    ----------
    psi : (D,) real or complex
    pairs : of (j, k), optional
        Pairs whose transverse moments are wanted; all others are not a number.
    """
    sector, device = operator.sector, operator.device
    norm, s, ss = diagonal_moments(sector, device, psi)
    spins = sector.spins
    nothing = np.zeros(spins)
    moments = Moments(norm, {"x": nothing, "y": nothing, "z": s}, {"z": ss})
    # a pair that is not measured must not pass for an uncorrelated one
    across = np.full((spins, spins), np.nan)
    np.fill_diagonal(across, 0.25 * norm)
    if pairs:
        values = operator.flips(psi, pairs)
        for (j, k), value in zip(pairs, values, strict=True):
            across[j, k] = across[k, j] = value
    moments.ss |= {"x": across, "y": across}
    return moments


def diagonal_moments(sector: Sector, device: Device, psi: NDArray[Any]) -> tuple[float, Any, Any]:
    """Return norm, <S^z_j> (N,) and <S^z_j S^z_k> (N, N)."""
    xp, low, high = device.xp, sector.low, sector.high
    L, bits = low.bits, sector.bits
    s, ss = np.zeros(bits), np.zeros((bits, bits))
    norm = 0.0
    most = PIECE_CUDA if device.is_cuda else PIECE
    with device.use():
        for p, first, rows, columns in sector.blocks():
            w = sector.down - p
            # block p: probabilities are a matrix, row sums
            # belong to high strings and column sums to low ones
            inside = device.asarray(low.spins[low.offset[w] : low.offset[w + 1]])
            outside = device.asarray(high.spins[high.offset[p] : high.offset[p + 1]])
            step = max(1, most // columns)
            column, row = xp.zeros(columns), []
            cross = xp.zeros((high.bits, L))
            # pieces of rows whose squares stay in cache; single precision is widened before it is squared
            for r in range(0, rows, step):
                end = min(rows, r + step)
                x = psi[first + r * columns : first + end * columns].reshape(end - r, columns)
                weight = x.real.astype(np.float64) ** 2
                if x.dtype.kind == "c":
                    weight += x.imag.astype(np.float64) ** 2
                column += weight.sum(axis=0)
                row.append(weight.sum(axis=1))
                # <S_j S_k> across the cut: spins of the row, probabilities, spins of the column
                cross += outside[r:end].T @ (weight @ inside)
            rows_of = xp.concatenate(row)
            norm += float(rows_of.sum())
            s[:L] += device.to_host(column @ inside)
            s[L:] += device.to_host(rows_of @ outside)
            ss[:L, :L] += device.to_host(inside.T @ (column[:, None] * inside))
            ss[L:, L:] += device.to_host(outside.T @ (rows_of[:, None] * outside))
            products = device.to_host(cross)
            ss[L:, :L] += products
            ss[:L, L:] += products.T
    # the site that is left out is up
    if sector.inversion:
        # states s and its complement have equal weight: <S_j>
        # = 0, and products of two spins are the same in both
        whole = np.zeros((bits + 1, bits + 1))
        whole[:bits, :bits] = ss
        whole[bits, :bits] = whole[:bits, bits] = 0.5 * s
        s, ss = np.zeros(bits + 1), whole
    np.fill_diagonal(ss, 0.25 * norm)
    return norm, s, ss
