"""States whose number of spins down is even, or odd: conserved by couplings of unlike x and y components.

The last site is left out of the index; its spin follows from the others. 2^(N-1) amplitudes, no tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Hamiltonian

__all__ = ["ParitySector", "parity_obstacle"]

PIECE = 1 << 22


@dataclass(frozen=True)
class ParitySector:
    """The states of N spins with an even (0) or odd (1) number of spins down."""

    spins: int
    odd: int

    @property
    def dimension(self) -> int:
        """Number of states."""
        return 1 << (self.spins - 1)

    def index(self, string: int) -> int:
        """Return the index of a string of all sites, which must be of this parity."""
        return string & (self.dimension - 1)

    def __str__(self) -> str:
        """Return ``even number of spins down``."""
        return f"{'odd' if self.odd else 'even'} number of spins down"

    def _last(self, device: Device, start: int, end: int) -> Any:
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
                down, x = self._last(device, start, end), psi[start:end]
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
                down = self._last(device, start, end)
                out[start:end] = device.xp.where(down == 1, full[size + start : size + end], full[start:end])
        return out


def parity_obstacle(hamiltonian: Hamiltonian) -> str:
    """Return why H does not conserve the parity of the number of spins down, ``""`` if it does."""
    # conserved by every part, at all times
    for model in (hamiltonian.static, *(part for _, part in hamiltonian.driven)):
        for axis, name in enumerate("xy"):
            # S^x and S^y of one site change the number of spins
            # down by one, and so do their products with S^z
            if model.h[axis].any():
                return f"the field along {name} at site {int(np.flatnonzero(model.h[axis])[0])} flips a single spin"
            if model.cross is not None and model.cross[axis, 2].any():
                j, k = (int(site) for site in np.argwhere(model.cross[axis, 2])[0])
                return f"the coupling J{name}z of sites {j} and {k} flips a single spin"
    return ""
