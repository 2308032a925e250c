"""A Hamiltonian in a sector as tables for the CPU twin of ``product.cu``, and the groups of them that its parts take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

INTS = (
    "low_offset",
    "high_offset",
    "block",
    "half",
    "group_first",
    "group_count",
    "group_string",
    "group_entry",
    "high_first",
    "high_to",
    "cross_low",
    "cross_high",
    "mirror_site",
    "high_string",
    "high_rank",
    "pattern",
    "low_string",
    "near_first",
)
PLACES = ("clear", "filled", "low_order", "low_to", "near", "near_high")
REALS = (
    "low_value",
    "high_value",
    "cross_value",
    "mirror_value",
    "energy",
    "energy_pairs",
    "high_energy",
    "across",
    "cross",
)


class ProductTables(NamedTuple):
    """A Hamiltonian in a sector as the CPU twin takes it: arrays of each type one after the other, for calls that cost little.

    Attributes
    ----------
    down : int
        Spins down n in all.
    ints : int64
        The arrays :data:`INTS`. ``low_offset``, ``high_offset``, ``block``: first string of every weight, first index of every
        block of the high weight. ``half`` (L + 2,): sums of ``C(L - 1, w)``, where the strings of a weight begin in ``clear``, of
        the next one in ``filled``. ``group_first`` (L + 2,): first group of every weight, of low strings with equally many flips;
        ``group_count``, ``group_string``, ``group_entry``: their number, first string in ``low_order`` and first flip.
        ``high_first``, ``high_to``: flips within the high part from every string on. ``cross_low``, ``cross_high``: bits that a
        flip across the cut joins. ``mirror_site``: sites whose flip with the site that is left out leads to the complement.
        ``high_string``, ``high_rank``. ``pattern`` (2^H,): pattern of the fields of each high string on the low part; all -1
        where there are too many, and ``across`` is used. ``low_string``. ``near_first`` (2 (L + 1),): where `near` begins for
        every weight, for its bits that are 0 and for those that are 1.
    places : uint32
        The arrays :data:`PLACES`, ranks within a weight. ``clear``, ``filled`` (L 2^(L - 1),): low strings in which a bit is 0
        or 1. ``low_order``, ``low_to``: strings by groups, and the strings that their flips lead to. ``near``: for every
        four low strings of a weight and each of their bits that are 0, then 1, four times the rank of the string with that bit
        flipped, and four times the bit, all times 8. ``near_high`` (2^H H,): for every high string its bits that are 0, then
        those that are 1, each as the rank of the string with that bit flipped and, from bit 24 on, the bit. Both are empty unless
        ``cross`` is used.
    reals : float64
        The arrays :data:`REALS`. ``low_value``, ``high_value``, ``cross_value``: ``(Jx + Jy) / 4`` of every flip;
        ``mirror_value`` with the sign of the inversion. ``energy`` (patterns 2^L,): diagonal of the low part with the couplings
        across; ``energy_pairs``: the same, every entry twice, for the two numbers of a complex amplitude. ``high_energy``
        (2^H,). ``across`` (H L,): couplings Jz between the parts. ``cross`` (H L,): values of all flips across, or empty if
        there are few.
    at : int64
        First index of each of these arrays, and the end, of `ints`, `places` and `reals` one after the other.
    """

    down: int
    ints: Any
    places: Any
    reals: Any
    at: Any

    @classmethod
    def packed(cls, down: int, given: dict[str, NDArray[Any]]) -> ProductTables:
        """Return the tables from the arrays by name."""
        arrays, edges = [], []
        for names, kind in ((INTS, np.int64), (PLACES, np.uint32), (REALS, np.float64)):
            parts = [np.ascontiguousarray(given[name], kind).ravel() for name in names]
            edges.append(np.concatenate([[0], np.cumsum([part.size for part in parts])]))
            arrays.append(np.concatenate(parts).astype(kind))
        ints, places, reals = arrays
        return cls(down, ints, places, reals, np.concatenate(edges).astype(np.int64))


# ------------------------------------------------------------------ arguments of the CPU twin's parts


class Strings(NamedTuple):
    """Places of the strings of the sector, by the weights of their L low and H high bits.

    Attributes
    ----------
    low_offset, block, high_rank, half, clear, filled : pointers
        As in :class:`~qsim.trotter.kernels.sectors.product_tables.ProductTables`.
    bits, top : int
        L and H.
    width : int
        Numbers of an amplitude: 1 real, 2 complex.
    """

    low_offset: Any
    block: Any
    high_rank: Any
    half: Any
    clear: Any
    filled: Any
    bits: Any
    top: Any
    width: Any


class Flips(NamedTuple):
    """Flips of two bits: for each the low and the high bit (or, of mirrored ones, the site), its value, and their number."""

    low: Any
    high: Any
    value: Any
    count: Any


class Groups(NamedTuple):
    """Low strings by the number of flips within the low part; as in `ProductTables`."""

    first: Any
    count: Any
    string: Any
    entry: Any
    order: Any
    to: Any
    value: Any


class Near(NamedTuple):
    """Strings that differ from others in one bit, and the values of all flips across the cut; as in `ProductTables`."""

    low: Any
    low_first: Any
    high: Any
    cross: Any


class Vectors(NamedTuple):
    """The vector x, the older one y, and the buffer of eight rows of the new one."""

    x: Any
    y: Any
    buffer: Any


class Row(NamedTuple):
    """A row: all low strings of one weight beside one high string.

    Attributes
    ----------
    place, start : int
        Where it begins in the buffer, and in the vectors.
    less, size : int
        Where its columns with the top low bit begin, and its end.
    p, w : int
        Weights of the high and the low strings.
    h : int
        The high string.
    """

    place: Any
    start: Any
    less: Any
    size: Any
    p: Any
    w: Any
    h: Any


class Diagonal(NamedTuple):
    """The diagonal of a row, ``alpha energy[of + column] + shift``."""

    energy: Any
    of: Any
    shift: Any


class Streams(NamedTuple):
    """Rows that are added to a row, column by column: where each begins, and its factor."""

    source: Any
    factor: Any


class FieldWork(NamedTuple):
    """Work space for the fields of a high string on the low spins, of 2^((L + 1) / 2) numbers or more each."""

    fields: Any
    below: Any
    above: Any


class FieldTables(NamedTuple):
    """Couplings Jz across the cut, energies of the low strings without them, and the low strings."""

    across: Any
    energies: Any
    low_string: Any


class JoinedWork(NamedTuple):
    """Work space of flips across the cut: two tiles that lie `apart`, factors, first numbers of rows and of their factors."""

    tile: Any
    apart: Any
    factors: Any
    starts: Any
    rows_of: Any


class Space(NamedTuple):
    """Work space of all threads: numbers, how many of them a thread has, and indices."""

    numbers: Any
    size: Any
    indices: Any


class Scalars(NamedTuple):
    """The numbers of ``alpha H x + beta x + gamma y``."""

    alpha: Any
    beta: Any
    gamma: Any
