"""Operators of wave number q on a state of a sector: ``S_q = N^(-1/2) sum_j exp(i q j) S_j``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.sectors.basis import Sector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = ["raised", "target_of", "wave", "weighted"]

PIECE = 1 << 20


def target_of(sector: Sector, operator: str) -> Sector | None:
    """Return the sector that an operator (``sz``, ``sp``, ``sm``) leads to; None where it annihilates all states."""
    if operator == "sz":
        return Sector(sector.spins, sector.down, -sector.inversion)
    down = sector.down + (-1 if operator == "sp" else 1)
    return Sector(sector.spins, down) if 0 <= down <= sector.spins else None


def weighted(
    sector: Sector, device: Device, psi: NDArray[Any], factors: NDArray[np.complex128]
) -> NDArray[Any]:
    """Return ``sum_j c_j S^z_j psi``; with inversion it has the opposite sign under it.

    Parameters
    ----------
    psi : (D,) real
    factors : (N,) complex128
    """
    xp, low, high = device.xp, sector.low, sector.high
    L = low.bits
    with device.use():
        out = xp.empty(sector.dimension, np.complex128)
        constant = 0.5 * factors[sector.bits :].sum()  # of a site that is left out, which is up
        of_low = device.asarray(low.spins @ factors[:L] + constant)
        of_high = device.asarray(high.spins @ factors[L : sector.bits])
        for p, first, rows, columns in sector.blocks():
            w = sector.down - p
            column = of_low[low.offset[w] : low.offset[w + 1]]
            row = of_high[high.offset[p] : high.offset[p + 1]]
            x = psi[first : first + rows * columns].reshape(rows, columns)
            y = out[first : first + rows * columns].reshape(rows, columns)
            y[...] = (row[:, None] + column[None, :]) * x
    return out


def raised(
    sector: Sector, target: Sector, device: Device, psi: NDArray[Any], factors: NDArray[np.complex128]
) -> NDArray[Any]:
    """Return ``sum_j c_j S^+_j psi`` (or S^-, if the target has one more spin down) in the target sector.

    The flips are looked up string by string on the host: one pass for each site.
    """
    host, strings = device.to_host(psi), target.strings()
    out = np.zeros(target.dimension, np.complex128)
    more = target.down > sector.down
    for start in range(0, target.dimension, PIECE):
        piece = strings[start : start + PIECE]
        for j in range(sector.spins):
            chosen = np.flatnonzero((piece >> j & 1) == (1 if more else 0))
            out[start + chosen] += factors[j] * host[sector.index(piece[chosen] ^ (1 << j))]
    return device.asarray(out)


def wave(spins: int, q: float) -> NDArray[np.complex128]:
    """Return ``exp(i q j) / sqrt N`` of all sites."""
    return np.asarray(np.exp(1j * q * np.arange(spins)) / math.sqrt(spins), np.complex128)
