"""Operators on a state of a sector: ``S_q = N^(-1/2) sum_j exp(i q j) S_j``, and the current of Sz."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device


def target_of(sector: Sector, operator: str) -> Sector | None:
    """Return the sector that an operator (``sz``, ``sp``, ``sm``, ``current``) leads to; None where it annihilates all states."""
    if operator in ("sz", "current"):
        # S^z is odd under the inversion
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
        # of a site that is left out, which is up
        constant = 0.5 * factors[sector.bits :].sum()
        # diagonal: sum over low sites plus sum over high sites, a number for each column and each row
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


def reach(coupled: NDArray[np.bool_], ring: bool) -> NDArray[np.float64]:
    """Return the distance ``x_k - x_j`` of all sites, (N, N), on a ring the way round that is shorter.

    Raises
    ------
    DeckError
        If coupled sites lie opposite each other on a ring.
    """
    n, site = len(coupled), np.arange(len(coupled))
    # [j, k]
    distance = (site[None, :] - site[:, None]).astype(float)
    if ring:
        # the shorter way round
        distance -= n * np.round(distance / n)
        # half of the ring away both ways are equal, and the current has no direction
        opposite = np.argwhere(coupled & (2 * np.abs(distance) == n))
        if len(opposite):
            j, k = (int(place) for place in opposite[0])
            raise DeckError(
                f"dynamics.operator: sites {j} and {k} are coupled and lie opposite each other on the ring: the current between "
                "them has no direction"
            )
    return distance


@singledispatch
def current_of(model: Model, ring: bool) -> Model:
    """Return the current of Sz, ``i [H, sum_j x_j S^z_j]``, as a Hamiltonian that conserves Sz.

    With ``d = x_k - x_j`` a coupling ``Jxy (S^x_j S^x_k + S^y_j S^y_k)`` gives ``d Jxy (S^x_j S^y_k - S^y_j S^x_k)``, and a
    Dzyaloshinskii-Moriya coupling ``D (S^x_j S^y_k - S^y_j S^x_k)`` gives ``-d D (S^x_j S^x_k + S^y_j S^y_k)``.  Sites lie at
    ``x_j = j``; on a ring d is the way round that is shorter.

    Raises
    ------
    DeckError
        If coupled sites lie opposite each other on a ring.
    """
    n = model.spins
    coupled = model.J[0] != 0.0 if model.cross is None else (model.J[0] != 0.0) | (model.cross[0, 1] != 0.0)
    distance = reach(coupled, ring)
    zero = Model.zero(n)
    cross = np.zeros((3, 3, n, n))
    # odd in j and k, as the difference of the two products is
    cross[0, 1] = distance * model.J[0]
    cross[1, 0] = cross[0, 1].T
    J = zero.J
    if model.cross is not None:
        J = J.copy()
        J[0] = J[1] = -distance * model.cross[0, 1]
    return Model(n, J, zero.h, cross)


def wave(spins: int, q: float) -> NDArray[np.complex128]:
    """Return ``exp(i q j) / sqrt N`` of all sites."""
    return np.asarray(np.exp(1j * q * np.arange(spins)) / math.sqrt(spins), np.complex128)
