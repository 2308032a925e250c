"""Initial states of spins of any size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.sectors.states import OUTSIDE

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.initial.base import InitialState
    from qsim.trotter.sectors.digits.space import DigitSpace

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
    sector: DigitSpace,
    block: InitialState,
    device: Device,
    dtype: DTypeLike,
    *,
    seed: int,
    member: int = 0,
) -> Any:
    """Return the initial state of a deck as a vector (D,) of a space of digits.

    Raises
    ------
    DeckError
        If the state does not lie in the space, or is one of spins 1/2.
    """
    digits = block.digits(sector.twos)
    if digits is not None:
        string = sum(digit << j * sector.bits for j, digit in enumerate(digits))
        psi = np.zeros(sector.dimension, dtype)
        psi[sector.index(np.array([string]))] = 1.0
        return psi
    angles = getattr(block, "angles", None)
    if angles is None:
        raise DeckError(
            f"initial.type: {block.word} is a state of spins 1/2; take basis, product, haar or random_phase"
        )
    strings = sector.strings()
    psi = np.ones(sector.dimension, np.complex128)
    for j, (theta, phi) in enumerate(zip(*angles(sector.spins), strict=True)):
        psi *= coherent(sector.twos[j], float(theta), float(phi))[sector.digit(strings, j)]
    inside = float(np.vdot(psi, psi).real)
    if not inside > 1.0 - OUTSIDE:
        raise DeckError(
            f"sector: only {inside:.3g} of the initial state {block.word} lies in {sector}; use sector: full"
        )
    return (psi / math.sqrt(inside)).astype(dtype)
