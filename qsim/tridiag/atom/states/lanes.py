"""Channels (l, m) of a run in the order of the kernels: even lanes, then odd lanes; some lanes may be empty."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.kernels.atom.length import HALF, NO_SWAPS
from qsim.tridiag.kernels.atom.records import Links

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AnyLanes", "Lanes", "Links", "PlanarLanes"]

# largest l in a field that turns: the channels of both parities fill the lanes of the kernels at 70
MOST_PLANAR = 98


NO_LINKS = Links(np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Lanes:
    """Channels of one m, which a field along z conserves.

    Attributes
    ----------
    m : int
        Magnetic quantum number.
    lmax : int
        Largest l.
    width : int
        What the pairs are a multiple of; lanes beyond the largest l are empty.
    """

    m: int
    lmax: int
    width: int = 1

    @property
    def used(self) -> int:
        """Number of channels."""
        return self.lmax - abs(self.m) + 1

    @property
    def pairs(self) -> int:
        """K: half of the number of lanes."""
        return -(-((self.used + 1) // 2) // self.width) * self.width

    @property
    def plain(self) -> Lanes:
        """The lanes without empty pairs."""
        return Lanes(self.m, self.lmax)

    @property
    def lowest(self) -> int:
        """Smallest l."""
        return abs(self.m)

    @property
    def ls(self) -> NDArray[np.int64]:
        """L of each channel, (used,)."""
        return np.arange(abs(self.m), self.lmax + 1)

    @property
    def ms(self) -> NDArray[np.int64]:
        """M of each channel, (used,)."""
        return np.full(self.used, self.m)

    @property
    def momenta(self) -> NDArray[np.int64]:
        """L of each lane (2 K,)."""
        # kernels have the even lanes before the odd ones, so that pairs (0, 1), (2, 3), ... lie at equal
        # distances
        k = np.arange(2 * self.pairs)
        return np.asarray(abs(self.m) + np.concatenate([k[::2], k[1::2]]))

    @property
    def order(self) -> NDArray[np.int64]:
        """Lane of each channel (used,), lowest l first."""
        # the inverse: channel l = |m| + k lies in lane k/2 of its half
        k = np.arange(self.used)
        return np.asarray(np.where(k % 2 == 0, k // 2, self.pairs + k // 2))

    def coupling(self, l: Any) -> NDArray[np.float64]:
        """Return ``c_lm = <l+1 m|cos|l m>``; 0 beyond the largest l."""
        l = np.asarray(l)
        # <l+1 m|cos|l m> from the recurrence of the associated Legendre functions
        c = np.sqrt(((l + 1.0) ** 2 - self.m**2) / ((2.0 * l + 1.0) * (2.0 * l + 3.0)))
        return np.where(l < self.lmax, c, 0.0)

    @property
    def even(self) -> NDArray[np.float64]:
        """Couplings of the even lanes to the odd ones, (K,)."""
        return self.coupling(self.momenta[: self.pairs])

    @property
    def odd(self) -> NDArray[np.float64]:
        """Couplings of the odd lanes to the next even ones, (K,)."""
        return self.coupling(self.momenta[self.pairs :])

    @property
    def swaps(self) -> NDArray[np.int64]:
        """Lanes that exchange, (0, 2): none."""
        return NO_SWAPS

    @property
    def turns(self) -> NDArray[np.float64]:
        """M of swapped lanes: not needed, (0,)."""
        return np.zeros(0)

    @property
    def links(self) -> Links:
        """Pairs of planar lanes: none."""
        return NO_LINKS

    def wider(self, lmax: int) -> Lanes:
        """Return the lanes up to another l."""
        return Lanes(self.m, lmax, self.width)


@dataclass(frozen=True)
class PlanarLanes:
    """Channels of a field that turns in the xy plane, l + m even, odd, or both.

    Attributes
    ----------
    parities : tuple of int
        ``(l + m) mod 2`` of the channels, which the field conserves.
    lmax : int
        Largest l.
    """

    parities: tuple[int, ...]
    lmax: int

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Parity, p and q of each lane, (2 K, 3); q = -1 of an empty one."""
        even, odd = [], []
        for s in self.parities:
            # l = p + q + s <= lmax bounds the triangle; rows of q begin at q = 0, even q in the even half of
            # the lanes
            last = self.lmax - s
            for p in range(last + 1):
                for i in range((last - p) // 2 + 1):
                    even.append((s, p, 2 * i))
                    odd.append((s, p, 2 * i + 1 if 2 * i + 1 <= last - p else -1))
        return np.array(even + odd, dtype=np.int64).reshape(-1, 3)

    @cached_property
    def _lane(self) -> dict[tuple[int, int, int], int]:
        """Lane of each (parity, p, q)."""
        return {tuple(slot): k for k, slot in enumerate(self._slots.tolist()) if slot[2] >= 0}

    @cached_property
    def channels(self) -> NDArray[np.int64]:
        """L and m of each channel (used, 2), lowest l first, then lowest m."""
        pairs = [(p + q + s, p - q) for s, p, q in self._lane]
        return np.array(sorted(pairs), dtype=np.int64)

    @property
    def used(self) -> int:
        """Number of channels."""
        return len(self._lane)

    @property
    def plain(self) -> PlanarLanes:
        """These lanes, which have no pairs that are empty."""
        return self

    @property
    def pairs(self) -> int:
        """K: half of the number of lanes."""
        return len(self._slots) // 2

    @property
    def lowest(self) -> int:
        """Smallest l."""
        return min(self.parities)

    @property
    def ls(self) -> NDArray[np.int64]:
        """L of each channel, (used,)."""
        return np.asarray(self.channels[:, 0])

    @property
    def ms(self) -> NDArray[np.int64]:
        """M of each channel, (used,)."""
        return np.asarray(self.channels[:, 1])

    @cached_property
    def momenta(self) -> NDArray[np.int64]:
        """L of each lane (2 K,); of empty lanes, one that does no harm."""
        s, p, q = self._slots.T
        return np.asarray(np.where(q >= 0, p + q + s, self.lmax + 1))

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Lane of each channel, (used,)."""
        lane = self._lane
        return np.array(
            [lane[((l + m) % 2, (l + m) // 2, (l - m) // 2)] for l, m in self.channels.tolist()],
            dtype=np.int64,
        )

    def _down(self, first: int, last: int) -> NDArray[np.float64]:
        """Return the couplings (l, m) to (l + 1, m - 1) of some lanes, 0 beyond the largest l."""
        s, p, q = self._slots[first:last].T
        l, m = p + q + s, p - q
        c = 0.5 * np.sqrt(
            np.maximum((l - m + 1.0) * (l - m + 2.0) / ((2.0 * l + 1.0) * (2.0 * l + 3.0)), 0.0)
        )
        return np.where((q >= 0) & (l < self.lmax), c, 0.0)

    @cached_property
    def even(self) -> NDArray[np.float64]:
        """Couplings of the even lanes to the odd ones, (K,)."""
        return self._down(0, self.pairs)

    @cached_property
    def odd(self) -> NDArray[np.float64]:
        """Couplings of the odd lanes to the next even ones, (K,)."""
        return self._down(self.pairs, 2 * self.pairs)

    @cached_property
    def swaps(self) -> NDArray[np.int64]:
        """Places in the scratch array of the lanes that exchange p and q, (count, 2)."""
        lane, k = self._lane, self.pairs
        exchanged = [(lane[s, p, q], lane[s, q, p]) for s, p, q in lane if p < q]
        places = np.array(exchanged, dtype=np.int64).reshape(-1, 2)
        # odd lanes lie HALF places on in the scratch array of a row
        return np.where(places < k, places, places - k + HALF)

    @cached_property
    def turns(self) -> NDArray[np.float64]:
        """M of the channel in each lane when p and q are exchanged, (2 K,)."""
        _, p, q = self._slots.T
        return np.where(q >= 0, q - p, 0).astype(float)

    @cached_property
    def links(self) -> Links:
        """Pairs of lanes that the field couples."""
        lane, pairs, coupling, sign = self._lane, [], [], []
        for (s, p, q), here in lane.items():
            l, m = p + q + s, p - q
            # neighbours in p have m + 1, neighbours in q have m - 1; k turns one formula into the other
            for to, up in (((s, p + 1, q), 1), ((s, p, q + 1), -1)):
                if to in lane:
                    pairs.append((here, lane[to]))
                    k = l + up * m
                    coupling.append(
                        -0.5 * up * ((k + 1.0) * (k + 2.0) / ((2.0 * l + 1.0) * (2.0 * l + 3.0))) ** 0.5
                    )
                    sign.append(float(up))
        return Links(np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(coupling), np.array(sign))

    def wider(self, lmax: int) -> PlanarLanes:
        """Return the lanes up to another l."""
        return PlanarLanes(self.parities, lmax)


AnyLanes = Lanes | PlanarLanes
