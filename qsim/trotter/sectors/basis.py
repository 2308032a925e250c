"""States of N spins with n of them down, numbered as a direct sum of dense matrices.

The bits of a string are split into ``low`` (the first sites) and ``high``.  Strings of each part are grouped by weight, the
number of their spins down, and numbered within a weight in numeric order.  A vector of the sector is the sum over the weights p
of the high part of matrices ``X_p`` (C(H, p), C(L, n - p)), row = high string, column = low string, one after the other:

    index(s) = block[p] + rank_high * C(L, n - p) + rank_low.

No list of states is kept: two tables of 2^L and 2^H ranks are enough, and loops go through rows and columns.

With spin inversion (``n = N / 2``) only strings with the last site up are kept, one of each pair {s, complement of s}:
``(|s> + z |~s>) / sqrt 2``.  They are the strings of the other N - 1 sites with n down, in the same numbering; the complement
of a string has its rank counted from the other end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.kernels.sectors.terms import Numbering
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Part:
    """Strings of some bits, grouped by weight.

    Attributes
    ----------
    bits : int
    strings : (2^bits,) int64
        By weight, in each weight ascending.
    rank : (2^bits,) int32
        Place of each string among the strings of its weight.
    offset : (bits + 2,) int64
        First place of each weight in `strings`.
    """

    bits: int
    strings: NDArray[np.int64]
    rank: NDArray[np.int32]
    offset: NDArray[np.int64]

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """Weight of every entry of `strings`, (2^bits,)."""
        return np.repeat(np.arange(self.bits + 1), np.diff(self.offset))

    @cached_property
    def spins(self) -> NDArray[np.float64]:
        """S^z = +-1/2 of every bit of every entry of `strings`, (2^bits, bits)."""
        return np.asarray(0.5 - (self.strings[:, None] >> np.arange(self.bits) & 1), np.float64)

    @cached_property
    def clear(self) -> NDArray[np.uint32]:
        """Ranks of the strings in which a bit is 0, by weight, (bits, 2^(bits - 1))."""
        return self._having(0)

    @cached_property
    def filled(self) -> NDArray[np.uint32]:
        """Ranks of the strings in which a bit is 1, by weight, (bits, 2^(bits - 1))."""
        return self._having(1)

    def _having(self, value: int) -> NDArray[np.uint32]:
        rows = [self.strings[(self.strings >> j & 1) == value] for j in range(self.bits)]
        shape = (self.bits, (1 << self.bits) // 2)
        return np.array([self.rank[row] for row in rows], np.uint32).reshape(shape)


@cache
def part(bits: int) -> Part:
    """Return the strings of a number of bits."""
    # stable: within a weight strings keep their numeric order, which all ranks rely on
    numbers = np.arange(1 << bits, dtype=np.int64)
    weight = np.bitwise_count(numbers).astype(np.int64)
    order = np.argsort(weight, kind="stable")
    offset = np.concatenate([[0], np.cumsum([math.comb(bits, w) for w in range(bits + 1)])])
    rank = np.empty(1 << bits, np.int32)
    # rank: place among the strings of the same weight, the inverse of `order`
    rank[order] = np.arange(1 << bits) - offset[weight[order]]
    return Part(bits, numbers[order], rank, offset.astype(np.int64))


@dataclass(frozen=True)
class Sector:
    """The states of N spins with n down, and with one sign under the inversion of all spins.

    Attributes
    ----------
    spins : int
        Number of spins N.
    down : int
        Number of spins down n; ``Sz = N / 2 - n``.
    inversion : int
        Sign under the inversion of all spins: 1, -1, or 0 where it is not used.
    axis : str
        Axis of the deck along which the spins of the strings are.
    """

    spins: int
    down: int
    inversion: int = 0
    axis: str = "z"

    # none beside the inversion
    symmetries = ()

    def __post_init__(self) -> None:
        """Refuse sectors that do not exist."""
        if not 0 <= self.down <= self.spins:
            raise ValueError(f"{self.down} of {self.spins} spins down")
        if self.inversion not in (-1, 0, 1) or (self.inversion and 2 * self.down != self.spins):
            raise ValueError("inversion is 1 or -1, with as many spins up as down")

    @property
    def sz(self) -> float:
        """Total Sz."""
        return 0.5 * self.spins - self.down

    @property
    def bits(self) -> int:
        """Sites that a string holds: the last one is left out with inversion."""
        return self.spins - 1 if self.inversion else self.spins

    @property
    def dimension(self) -> int:
        """Number of states."""
        return math.comb(self.bits, self.down)

    @cached_property
    def low(self) -> Part:
        """The first half of the sites."""
        return part(self.bits // 2)

    @cached_property
    def high(self) -> Part:
        """The other half."""
        return part(self.bits - self.bits // 2)

    @cached_property
    def block(self) -> NDArray[np.int64]:
        """First index of the block of each weight of the high part, (H + 2,)."""
        # rows are high strings of weight p, columns low strings of weight n - p
        sizes = [math.prod(self.shape(p)) for p in range(self.high.bits + 1)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def shape(self, p: int) -> tuple[int, int]:
        """Return rows and columns of the block of weight p of the high part; (rows, 0) if it is empty."""
        w = self.down - p
        columns = math.comb(self.low.bits, w) if 0 <= w <= self.low.bits else 0
        return math.comb(self.high.bits, p), columns

    def blocks(self) -> list[tuple[int, int, int, int]]:
        """Return (p, first index, rows, columns) of the blocks that are not empty."""
        entries = [(p, int(self.block[p]), *self.shape(p)) for p in range(self.high.bits + 1)]
        return [entry for entry in entries if entry[3]]

    def index(self, strings: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of strings of `bits` sites, which must have n sites down."""
        # index = b_p + rank_high C(L, n - p) + rank_low (docs/theory/trotter.md, "Numbering")
        split, above, below = self.numbering
        return above[strings >> split] + below[strings & ((1 << split) - 1)]

    @cached_property
    def digits(self) -> DigitSpace:
        """The same states, without inversion, as a space of strings."""
        return DigitSpace((1,) * self.spins, self.down, axis=self.axis)

    @cached_property
    def numbering(self) -> Numbering:
        """Lin tables of the index, without inversion."""
        high = self.high
        weight = np.bitwise_count(np.arange(1 << high.bits)).astype(np.int64)
        columns = np.array([self.shape(p)[1] for p in range(high.bits + 1)], np.int64)
        above = self.block[weight] + high.rank.astype(np.int64) * columns[weight]
        return Numbering(self.low.bits, above, self.low.rank.astype(np.int64))

    def strings(self) -> NDArray[np.int64]:
        """Return the string of every index, (D,) int64; for small sectors."""
        low, high = self.low, self.high
        parts = [np.zeros(0, np.int64)]
        for p, _, rows, columns in self.blocks():
            first, w = high.offset[p], low.offset[self.down - p]
            # rows times columns of a block, in the order of the index
            tops, bottoms = high.strings[first : first + rows], low.strings[w : w + columns]
            parts.append((tops[:, None] << low.bits | bottoms[None, :]).ravel())
        return np.concatenate(parts)

    def __str__(self) -> str:
        """Return ``Sz = 0, even under inversion``."""
        sign = {0: "", 1: ", even under inversion", -1: ", odd under inversion"}[self.inversion]
        return f"S{self.axis} = {self.sz:g}{sign}"
