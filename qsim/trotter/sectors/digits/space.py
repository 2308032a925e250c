"""States of spins of any size: all of them, those of one total Sz, or those of one parity.

The digit d_j = S_j - m_j counts quanta of site j, 0 for m = S.  A string holds them in equally many bits for each site, site 0 in
the lowest ones; bits per site are a power of two, so that no digit lies across two bytes.  States are numbered in the order of
their strings: with the string cut into two halves, the index is the number of states whose upper half is smaller plus the place
of the lower half among those that complete it (Lin tables).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.trotter.kernels.sectors.terms import Numbering

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device


def bits_of(two: int) -> int:
    """Return the bits of a digit 0 to two: 1, 2, 4, ..."""
    return 1 << max(0, (two.bit_length() - 1).bit_length())


class _Half(NamedTuple):
    """Strings of some sites, ascending, and their quanta."""

    strings: NDArray[np.int64]
    quanta: NDArray[np.int64]


@dataclass(frozen=True)
class DigitSpace:
    """States of spins of any size.

    Attributes
    ----------
    twos : tuple of int
        2 S of every site.
    down : int
        Quanta below all spins up, -1 where they are not fixed.
    odd : int
        Whether the number of quanta is odd (1) or even (0), -1 where it is not fixed.
    axis : str
        Axis of the deck along which the spins of the strings are.
    """

    twos: tuple[int, ...]
    down: int = -1
    odd: int = -1
    axis: str = "z"

    # fixed by characters alone
    inversion = 0
    symmetries = ()

    @property
    def spins(self) -> int:
        """Number of sites."""
        return len(self.twos)

    @property
    def sz(self) -> float:
        """Total Sz; not a number where it is not fixed."""
        return math.nan if self.down < 0 else 0.5 * sum(self.twos) - self.down

    @property
    def bits(self) -> int:
        """Bits of a digit."""
        return bits_of(max(self.twos))

    @property
    def digits(self) -> DigitSpace:
        """The space itself, as of spins 1/2."""
        return self

    @property
    def everything(self) -> DigitSpace:
        """The space of all states."""
        return DigitSpace(self.twos, axis=self.axis)

    def count(self, twos: list[int], weights: list[int]) -> int:
        """Return how many choices of digits 0 to twos[i], each worth weights[i] quanta, lie in the space."""
        if self.down < 0:
            total = math.prod(two + 1 for two in twos)
            if self.odd < 0:
                return total
            # sum of (-1)^quanta: digits of an even weight count alike, those of an odd one cancel in pairs
            signs = math.prod(
                two + 1 if weight % 2 == 0 else 1 - two % 2 for two, weight in zip(twos, weights, strict=True)
            )
            return (total - signs) // 2 if self.odd else (total + signs) // 2
        ways = [1] + [0] * self.down
        for two, weight in zip(twos, weights, strict=True):
            made = [0] * (self.down + 1)
            for digit in range(two + 1):
                for k in range(digit * weight, self.down + 1):
                    made[k] += ways[k - digit * weight]
            ways = made
        return ways[self.down]

    @cached_property
    def dimension(self) -> int:
        """Number of states."""
        return self.count(list(self.twos), [1] * self.spins)

    @property
    def low(self) -> int:
        """Sites of the lower half."""
        return (self.spins + 1) // 2

    def _half(self, sites: range) -> _Half:
        strings, quanta = np.zeros(1, np.int64), np.zeros(1, np.int64)
        # the last site is the highest digit: strings come in ascending order
        for place, site in enumerate(sites):
            digits = np.arange(self.twos[site] + 1)
            strings = (digits[:, None] << place * self.bits | strings).ravel()
            quanta = (digits[:, None] + quanta).ravel()
        return _Half(strings, quanta)

    @cached_property
    def _halves(self) -> tuple[_Half, _Half]:
        return self._half(range(self.low)), self._half(range(self.low, self.spins))

    def _class(self, quanta: NDArray[np.int64], *, upper: bool) -> NDArray[np.int64]:
        """Return a number for the quanta of a half: halves that complete each other have the same one."""
        if self.down >= 0:
            return self.down - quanta if upper else quanta
        if self.odd >= 0:
            return quanta % 2 ^ self.odd if upper else quanta % 2
        return np.zeros_like(quanta)

    def _completing(self) -> tuple[dict[int, NDArray[np.int64]], NDArray[np.int64]]:
        """Return the lower halves by their class, and the class of every upper half."""
        lower, upper = self._halves
        own = self._class(lower.quanta, upper=False)
        return {int(c): lower.strings[own == c] for c in np.unique(own)}, self._class(
            upper.quanta, upper=True
        )

    @cached_property
    def numbering(self) -> Numbering:
        """The tables of the numbering."""
        upper = self._halves[1]
        split, high = self.low * self.bits, (self.spins - self.low) * self.bits
        by_class, wanted = self._completing()
        below = np.zeros(1 << split, np.int64)
        for some in by_class.values():
            below[some] = np.arange(some.size)
        sizes = np.array([by_class[int(c)].size if int(c) in by_class else 0 for c in wanted], np.int64)
        above = np.zeros(1 << high, np.int64)
        above[upper.strings] = np.cumsum(sizes) - sizes
        return Numbering(split, above, below)

    def halves(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return upper halves in their place, the class of each, first lower half of every class, and lower halves; ascending."""
        by_class, wanted = self._completing()
        taken = np.isin(wanted, np.array(sorted(by_class), np.int64))
        number = np.searchsorted(sorted(by_class), wanted[taken]).astype(np.int64)
        sizes = [by_class[c].size for c in sorted(by_class)]
        lows = np.concatenate([by_class[c] for c in sorted(by_class)])
        highs = self._halves[1].strings[taken] << self.low * self.bits
        return highs, number, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), lows

    def strings(self) -> NDArray[np.int64]:
        """Return the string of every index, (D,) int64, ascending."""
        by_class, wanted = self._completing()
        split, none = self.low * self.bits, np.zeros(0, np.int64)
        parts = [
            top << split | by_class.get(int(c), none)
            for top, c in zip(self._halves[1].strings, wanted, strict=True)
        ]
        return np.concatenate([none, *parts])

    def index(self, strings: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of strings, which must lie in the space."""
        split, above, below = self.numbering
        return above[strings >> split] + below[strings & ((1 << split) - 1)]

    def whole(self, device: Device, psi: NDArray[Any]) -> NDArray[Any]:
        """Return a vector of the space as a state of all strings."""
        every = self.everything
        state = np.zeros(every.dimension, psi.dtype)
        state[every.index(self.strings())] = psi
        return state

    def restricted(self, device: Device, full: NDArray[Any]) -> NDArray[Any]:
        """Return the part (D,) of a state of all strings that lies in the space."""
        return full[self.everything.index(self.strings())]

    def digit(self, strings: NDArray[np.int64], site: int) -> NDArray[np.int64]:
        """Return the digit of a site."""
        return strings >> site * self.bits & ((1 << self.bits) - 1)

    def __str__(self) -> str:
        """Return ``Sz = 1``, ``even number of quanta`` or ``all states``."""
        if self.down >= 0:
            return f"S{self.axis} = {self.sz:g}"
        if self.odd < 0:
            return "all states"
        along = "" if self.axis == "z" else f" along {self.axis}"
        return f"{'odd' if self.odd else 'even'} number of quanta below all up{along}"
