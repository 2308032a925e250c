"""Initial states of spins of any size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import cpu
from qsim.trotter.sectors.digits.measure import turned_to_z
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.states import normalised

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.initial.base import InitialState
    from qsim.trotter.sectors.symmetric import SymmetricSector

__all__ = ["coherent", "state_in"]


def coherent(two: int, theta: float, phi: float) -> NDArray[np.complex128]:
    """Return a spin S = two / 2 along a direction, (2S + 1,): 2S spinors ``cos(theta/2), exp(i phi) sin(theta/2)`` together.

    ``<m| = binomial(2S, S - m)^(1/2) cos^(S + m) sin^(S - m) exp(i phi (S - m))``.
    """
    k = np.arange(two + 1)
    size = np.sqrt([float(math.comb(two, int(d))) for d in k])
    return np.asarray(
        size * math.cos(0.5 * theta) ** (two - k) * (np.exp(1j * phi) * math.sin(0.5 * theta)) ** k
    )


def state_in(
    sector: DigitSpace | SymmetricSector,
    block: InitialState,
    device: Device,
    dtype: DTypeLike,
    *,
    seed: int,
    member: int = 0,
) -> Any:
    """Return the initial state of a deck as a vector (D,) of a space of digits, or of a character there.

    Raises
    ------
    DeckError
        If the state does not lie in the space, or is one of spins 1/2.
    """
    base = sector if isinstance(sector, DigitSpace) else sector.base.digits
    if base.axis == "z":
        psi = _along_z(base, block, seed, member)
    else:
        every = DigitSpace(base.twos)
        along = _along_z(every, block, seed, member)
        psi = base.restricted(device, turned_to_z(every, device, along, base.axis))
    if not isinstance(sector, DigitSpace):
        psi = sector.folded(psi, np.complex128)
    return normalised(sector, device.asarray(psi.astype(dtype)), block)


def _along_z(space: DigitSpace, block: InitialState, seed: int, member: int) -> NDArray[np.complex128]:
    """Return the part of an initial state in a space of strings along z, not divided by its norm."""
    digits = block.digits(space.twos)
    if digits is not None:
        string = sum(digit << j * space.bits for j, digit in enumerate(digits))
        psi = np.zeros(space.dimension, np.complex128)
        psi[space.index(np.array([string]))] = 1.0
        return psi
    angles = getattr(block, "angles", None)
    if angles is None:
        every = block.amplitudes(space.twos, seed=seed, member=member)
        return np.asarray(space.restricted(cpu(1), every))
    strings = space.strings()
    psi = np.ones(space.dimension, np.complex128)
    for j, (theta, phi) in enumerate(zip(*angles(space.spins), strict=True)):
        psi *= coherent(space.twos[j], float(theta), float(phi))[space.digit(strings, j)]
    return psi
