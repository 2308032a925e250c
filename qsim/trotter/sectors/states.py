"""Initial states in a sector."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.model.frames import rotated
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.sectors.symmetric import SymmetricSector
from qsim.trotter.states.vectors import norm2, scale

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.arrays import StateVector
    from qsim.core.device.device import Device
    from qsim.trotter.initial.base import InitialState

AnySector = Sector | ParitySector | WholeSpace | DigitSpace | SymmetricSector

# weight of a given state outside of the sector that is rounding
OUTSIDE = 1e-10
# whose whole space a given state may fill
MOST_SPINS = 30


def initial_state(
    block: InitialState,
    sector: AnySector,
    device: Device,
    dtype: DTypeLike,
    *,
    seed: int,
    member: int = 0,
) -> StateVector:
    """Return the initial state of a deck as a vector (D,) of a sector.

    Random states are drawn in the sector: their amplitudes are functions of seed, member and the number of the state there.
    Others are made along the axes of the deck, and turned to those of the strings.

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
    sector: AnySector,
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
    if string is not None and sector.axis == "z" and not sector.symmetries:
        assert not isinstance(sector, SymmetricSector)
        psi[int(sector.index(np.array([string]))[0])] = 1.0
        return psi
    if sector.spins > MOST_SPINS:
        raise DeckError(
            f"initial.type: {block.word} is made in the space of all states, too large for {sector.spins} spins (at most "
            f"{MOST_SPINS}); use basis, neel, domain_wall, haar or random_phase in a sector"
        )
    full = block.vector(sector.spins, device, dtype, seed=seed, member=member)
    psi = restricted(sector, device, rotated(device, full, sector.axis)).astype(dtype, copy=False)
    return normalised(sector, psi, block)


def normalised(sector: AnySector, psi: StateVector, block: InitialState) -> StateVector:
    """Return the part of an initial state in a sector, divided by its norm in place.

    Raises
    ------
    DeckError
        If the part outside is more than rounding.
    """
    inside = norm2(psi)
    if not inside > 1.0 - OUTSIDE:
        raise DeckError(
            f"sector: only {inside:.3g} of the initial state {block.word} lies in {sector}; use sector: full"
        )
    scale(1.0 / math.sqrt(inside), psi)
    return psi


@start_in.register(SymmetricSector)
def _(sector: SymmetricSector, *rest: Any, **options: Any) -> Any:
    # of larger spins in the space below, of spins 1/2 as by default
    find = start_in.dispatch(DigitSpace if isinstance(sector.base, DigitSpace) else object)
    return find(sector, *rest, **options)


@singledispatch
def restricted(sector: AnySector, device: Device, full: NDArray[Any]) -> Any:
    """Return the part (D,) of a state of all spins, (2^N,) of spins 1/2, along the axes of the strings, in a sector."""
    assert isinstance(sector, ParitySector | WholeSpace | DigitSpace)
    return sector.restricted(device, full)


@restricted.register(SymmetricSector)
def _(sector: SymmetricSector, device: Device, full: NDArray[Any]) -> Any:
    return sector.folded(restricted(sector.base, device, full), full.dtype)


@restricted.register(Sector)
def _(sector: Sector, device: Device, full: NDArray[Any]) -> Any:
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
    plain = Sector(sector.spins, sector.down)
    everything = (1 << sector.spins) - 1
    with device.use():
        out = device.xp.zeros(plain.dimension, dtype=psi.dtype)
        strings = sector.strings()
        out[device.asarray(plain.index(strings))] = psi * math.sqrt(0.5)
        out[device.asarray(plain.index(everything ^ strings))] = psi * (sector.inversion * math.sqrt(0.5))
    return plain, out


@singledispatch
def whole_state(sector: AnySector, device: Device, psi: NDArray[Any]) -> Any:
    """Return a vector of a sector as a state of all spins, (2^N,) of spins 1/2, along the axes of the strings."""
    assert isinstance(sector, ParitySector | WholeSpace | DigitSpace)
    return sector.whole(device, psi)


@whole_state.register(SymmetricSector)
def _(sector: SymmetricSector, device: Device, psi: NDArray[Any]) -> Any:
    return whole_state(sector.base, device, sector.whole(psi))


@whole_state.register(Sector)
def _(sector: Sector, device: Device, psi: NDArray[Any]) -> Any:
    plain, amplitudes = unfolded(sector, device, psi)
    with device.use():
        out = device.xp.zeros(1 << sector.spins, dtype=psi.dtype)
        out[device.asarray(plain.strings())] = amplitudes
    return out
