"""Initial states in a sector."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.states.vectors import norm2, scale

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.arrays import StateVector
    from qsim.core.device.device import Device
    from qsim.trotter.initial.base import InitialState
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.selection import PlainSpace

__all__ = ["OUTSIDE", "initial_state", "restricted", "start_in", "unfolded", "whole_state"]

# weight of a given state outside of the sector that is rounding
OUTSIDE = 1e-10
# whose whole space a given state may fill
MOST_SPINS = 30


def initial_state(
    block: InitialState,
    sector: PlainSpace,
    device: Device,
    dtype: DTypeLike,
    *,
    seed: int,
    member: int = 0,
) -> StateVector:
    """Return the initial state of a deck as a vector (D,) of a sector.

    Random states are drawn in the sector: their amplitudes are functions of seed, member and the number of the state there.

    Raises
    ------
    DeckError
        If the state does not lie in the sector.
    """
    with device.use():
        psi = device.xp.zeros(sector.dimension, dtype=dtype)
    # random states are drawn in the sector itself
    if block.fill(psi, device, seed=seed, member=member):
        return psi
    return start_in(sector, block, device, dtype, seed=seed, member=member)


@singledispatch
def start_in(
    sector: PlainSpace,
    block: InitialState,
    device: Device,
    dtype: DTypeLike,
    *,
    seed: int,
    member: int = 0,
) -> Any:
    """Return an initial state that is not drawn in the sector; as :func:`initial_state`."""
    with device.use():
        psi = device.xp.zeros(sector.dimension, dtype=dtype)
    assert not isinstance(sector, DigitSpace)
    # an Ising state is one amplitude; all others are made in the whole space, and the part in the sector is taken
    string = block.string(sector.spins)
    if string is not None:
        index = (
            sector.index(string)
            if isinstance(sector, ParitySector | WholeSpace)
            else int(sector.index(np.array([string]))[0])
        )
        psi[index] = 1.0
        return psi
    if sector.spins > MOST_SPINS:
        raise DeckError(
            f"initial.type: {block.word} is made in the space of all states, too large for {sector.spins} spins (at most "
            f"{MOST_SPINS}); use basis, neel, domain_wall, haar or random_phase in a sector"
        )
    full = block.vector(sector.spins, device, dtype, seed=seed, member=member)
    psi = (
        sector.restricted(device, full)
        if isinstance(sector, ParitySector | WholeSpace)
        else restricted(sector, device, full)
    )
    # the part outside is refused unless it is rounding
    inside = norm2(psi)
    if not inside > 1.0 - OUTSIDE:
        raise DeckError(
            f"sector: only {inside:.3g} of the initial state {block.word} lies in {sector}; use sector: full"
        )
    scale(1.0 / math.sqrt(inside), psi)
    return psi


def restricted(sector: Sector, device: Device, full: NDArray[Any]) -> Any:
    """Return the part (D,) of a state (2^N,) that lies in a sector."""
    xp = device.xp
    with device.use():
        strings = device.asarray(sector.strings())
        amplitudes = full[strings]
        if sector.inversion:
            # (|s> + z |complement>) / sqrt 2
            other = full[((1 << sector.spins) - 1) ^ strings]
            amplitudes = (amplitudes + sector.inversion * other) * math.sqrt(0.5)
        return xp.ascontiguousarray(amplitudes)


def unfolded(sector: Sector, device: Device, psi: NDArray[Any]) -> tuple[Sector, Any]:
    """Return the sector without inversion and the vector there; the same ones if there is no inversion."""
    if not sector.inversion:
        return sector, psi
    from qsim.trotter.sectors.basis import Sector as Made

    plain = Made(sector.spins, sector.down)
    everything = (1 << sector.spins) - 1
    with device.use():
        out = device.xp.zeros(plain.dimension, dtype=psi.dtype)
        strings = sector.strings()
        out[device.asarray(plain.index(strings))] = psi * math.sqrt(0.5)
        out[device.asarray(plain.index(everything ^ strings))] = psi * (sector.inversion * math.sqrt(0.5))
    return plain, out


def whole_state(sector: PlainSpace, device: Device, psi: NDArray[Any]) -> Any:
    """Return a vector of a sector as a state (2^N,) of all spins."""
    if isinstance(sector, ParitySector | WholeSpace | DigitSpace):
        return sector.whole(device, psi)
    plain, amplitudes = unfolded(sector, device, psi)
    with device.use():
        out = device.xp.zeros(1 << sector.spins, dtype=psi.dtype)
        out[device.asarray(plain.strings())] = amplitudes
    return out
