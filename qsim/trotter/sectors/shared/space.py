"""A space of bits whose vectors 2^g processes share: the top g bits of the index number the process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.links import total
from qsim.trotter.kernels.states.measure import moments_of_axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, FloatArray
    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.sectors.digits.space import DigitSpace
    from qsim.trotter.sectors.parity import ParitySector, WholeSpace

__all__ = ["LEAST_BITS", "SharedSpace", "bits_of", "most_ranks"]

# of the amplitudes of a process: a CUDA tile
LEAST_BITS = 9
# of the number of processes: those that the highest tile of a CUDA device rotates
MOST_BITS = 4
# amplitudes that are observed at a time
PIECE = 1 << 22


def bits_of(ranks: int) -> int:
    """Return g of 2^g ranks.

    Raises
    ------
    ValueError
        If the number is no power of two.
    """
    if ranks < 1 or ranks & (ranks - 1):
        raise ValueError(f"a state is shared by 1, 2, 4, ... ranks, found {ranks}")
    return ranks.bit_length() - 1


def most_ranks(bits: int) -> int:
    """Return how many processes can share a vector of 2^bits amplitudes, more than 2^LEAST_BITS."""
    return 1 << min(bits - LEAST_BITS, bits // 2, MOST_BITS)


@dataclass(frozen=True)
class SharedSpace:
    """All states of N spins 1/2, or those of one parity, of which every process has a part.

    Attributes
    ----------
    base : WholeSpace or ParitySector
    links : Links
    """

    base: WholeSpace | ParitySector
    links: Links

    # as of the base
    sz = float("nan")
    inversion = 0
    symmetries = ()

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.base.spins

    @property
    def axis(self) -> str:
        """Axis of the deck along which the spins of the strings are."""
        return self.base.axis

    @property
    def dimension(self) -> int:
        """Number of states."""
        return self.base.dimension

    @property
    def digits(self) -> DigitSpace:
        """The same states as a space of strings of digits."""
        return self.base.digits

    @property
    def size(self) -> int:
        """Amplitudes of this process."""
        return self.dimension >> bits_of(self.links.size)

    def __str__(self) -> str:
        """Return ``even number of spins down``."""
        return str(self.base)

    def last(self, device: Device, start: int, end: int) -> Array | None:
        """Return the spin (1: down) of the last site at some indices of the whole space, None if the index holds it."""
        known = getattr(self.base, "last_spin", None)
        return None if known is None else known(device, start, end)

    def along_strings(self, device: Device, psi: Array) -> tuple[float, FloatArray, FloatArray]:
        """Return norm, ``<S^z_j>`` (N,) and ``<S^z_j S^z_k>`` (N, N) along the axis of the strings; a collective call.

        Parameters
        ----------
        psi : (size,)
            Amplitudes of this process.
        """
        n = self.spins
        sums = np.zeros(1 + n + n * n)
        begin = self.links.rank * self.size
        with device.use():
            for start in range(0, self.size, PIECE):
                part = psi[start : start + PIECE]
                sums += self._piece(device, part, begin + start)
        whole = total(self.links, sums)
        return float(whole[0]), whole[1 : 1 + n], whole[1 + n :].reshape(n, n)

    def _piece(self, device: Device, part: Array, first: int) -> NDArray[np.float64]:
        """Return norm, first and second moments of a piece of the whole space, one behind the other."""
        n, low = self.spins, int(part.size).bit_length() - 1
        top = self.dimension.bit_length() - 1
        down = self.last(device, first, first + part.size)
        out = np.zeros(1 + n + n * n)
        # with the last site up, with it down; or all at once
        for value in (None,) if down is None else (0, 1):
            kept = part if value is None else part * (down == value)
            norm, s, ss = moments_of_axis(device, device.xp.ascontiguousarray(kept, np.complex128))
            # of spins above the piece, which have one value in it
            fixed = [0.5 - (first >> j & 1) for j in range(low, top)]
            if value is not None:
                fixed.append(0.5 - value)
            values = np.array(fixed, np.float64)
            both = np.outer(s, values)
            one = np.concatenate([s, norm * values])
            two = np.block([[ss, both], [both.T, norm * np.outer(values, values)]])
            out += np.concatenate([[norm], one, two.ravel()])
        return out

    def interleaved(self, device: Device, psi: Array) -> tuple[Array, int]:
        """Return the state of all spins as its processes share it, and the bit of site 0.

        Of one parity the last site becomes bit 0 of the index, all others move up by one, so that every process keeps its part.
        """
        with device.use():
            begin = self.links.rank * self.size
            down = self.last(device, begin, begin + self.size)
            if down is None:
                return psi, 0
            out = device.xp.zeros((self.size, 2), psi.dtype)
            out[:, 0] = psi * (down == 0)
            out[:, 1] = psi * (down == 1)
            return out.reshape(-1), 1
