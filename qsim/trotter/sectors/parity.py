"""All states, and those whose number of spins down is even, or odd: conserved by couplings of unlike x and y components.

Of one parity the last site is left out of the index; its spin follows from the others. 2^(N-1) amplitudes, no tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.sectors.terms import Numbering
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model

__all__ = ["ParitySector", "WholeSpace", "parity_obstacle"]

PIECE = 1 << 22


def _numbering(spins: int, bits: int) -> Numbering:
    """Return the tables of an index that holds the lowest bits of a string."""
    split = bits // 2
    above = (np.arange(1 << spins - split, dtype=np.int64) << split) & ((1 << bits) - 1)
    return Numbering(split, above, np.arange(1 << split, dtype=np.int64))


@dataclass(frozen=True)
class WholeSpace:
    """All states of N spins, numbered by their strings."""

    spins: int

    # there is no quantum number
    sz = math.nan
    inversion = 0
    axis = "z"
    symmetries = ()

    @property
    def dimension(self) -> int:
        """Number of states."""
        return 1 << self.spins

    @property
    def digits(self) -> DigitSpace:
        """The same states as a space of strings of digits."""
        return DigitSpace((1,) * self.spins)

    @property
    def numbering(self) -> Numbering:
        """Tables of the index."""
        return _numbering(self.spins, self.spins)

    def strings(self) -> NDArray[np.int64]:
        """Return the string of every index, (D,) int64."""
        return np.arange(self.dimension, dtype=np.int64)

    def index(self, strings: Any) -> Any:
        """Return the index of strings."""
        return strings

    def whole(self, device: Device, psi: NDArray[Any]) -> Any:
        """Return a vector as a state (2^N,) of all spins: itself."""
        return psi

    restricted = whole

    def __str__(self) -> str:
        """Return ``all states``."""
        return "all states"


@dataclass(frozen=True)
class ParitySector:
    """The states of N spins with an even (0) or odd (1) number of spins down along an axis."""

    spins: int
    odd: int
    axis: str = "z"

    # of no definite Sz
    sz = math.nan
    inversion = 0
    symmetries = ()

    @property
    def dimension(self) -> int:
        """Number of states."""
        return 1 << (self.spins - 1)

    def index(self, strings: Any) -> Any:
        """Return the index of strings of all sites, which must be of this parity."""
        return strings & (self.dimension - 1)

    @property
    def digits(self) -> DigitSpace:
        """The same states as a space of strings of digits."""
        return DigitSpace((1,) * self.spins, odd=self.odd, axis=self.axis)

    @property
    def numbering(self) -> Numbering:
        """Tables of the index."""
        return _numbering(self.spins, self.spins - 1)

    def strings(self) -> NDArray[np.int64]:
        """Return the string of every index, (D,) int64."""
        index = np.arange(self.dimension, dtype=np.int64)
        down = (np.bitwise_count(index).astype(np.int64) & 1) ^ self.odd
        return np.asarray(index | down << (self.spins - 1), np.int64)

    def __str__(self) -> str:
        """Return ``even number of spins down``."""
        along = "" if self.axis == "z" else f" along {self.axis}"
        return f"{'odd' if self.odd else 'even'} number of spins down{along}"

    def last_spin(self, device: Device, start: int, end: int) -> Any:
        """Return the spin of the last site (1: down) of some indices."""
        # parity of the bits by folding: each shift adds the upper half of the bits to the lower one
        n = device.xp.arange(start, end, dtype=np.int64)
        for shift in (32, 16, 8, 4, 2, 1):
            n = n ^ (n >> shift)
        return (n & 1) ^ self.odd

    def whole(self, device: Device, psi: NDArray[Any]) -> Any:
        """Return a vector of the sector as a state (2^N,) of all spins."""
        size = self.dimension
        with device.use():
            out = device.xp.zeros(2 * size, psi.dtype)
            for start in range(0, size, PIECE):
                end = min(start + PIECE, size)
                # the last site is the highest bit: of every pair of amplitudes one is zero
                down, x = self.last_spin(device, start, end), psi[start:end]
                out[start:end] = x * (1 - down)
                out[size + start : size + end] = x * down
        return out

    def restricted(self, device: Device, full: NDArray[Any]) -> Any:
        """Return the part (2^(N-1),) of a state (2^N,) that lies in the sector."""
        size = self.dimension
        with device.use():
            out = device.xp.empty(size, full.dtype)
            for start in range(0, size, PIECE):
                end = min(start + PIECE, size)
                down = self.last_spin(device, start, end)
                out[start:end] = device.xp.where(down == 1, full[size + start : size + end], full[start:end])
        return out


@singledispatch
def parity_obstacle(hamiltonian: Hamiltonian | Model, axis: int = 2) -> str:
    """Return why H does not conserve the parity of the number of spins down along an axis, ``""`` if it does."""
    # conserved by every part, at all times
    parts = [hamiltonian.static, *(part for _, part in getattr(hamiltonian, "driven", ()))]
    for model in parts:
        for other in ((axis + 1) % 3, (axis + 2) % 3):
            # the two other components of one site turn its spin
            # over, and so do their products with the one along the axis
            name = "xyz"[other]
            if model.h[other].any():
                return f"the field along {name} at site {int(np.flatnonzero(model.h[other])[0])} flips a single spin"
            if model.cross is not None and model.cross[other, axis].any():
                j, k = (int(site) for site in np.argwhere(model.cross[other, axis])[0])
                return f"the coupling J{name}{'xyz'[axis]} of sites {j} and {k} flips a single spin"
    return ""
