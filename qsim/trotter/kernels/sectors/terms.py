"""Products in spaces of strings with any matrices of one and two sites: public wrappers of ``terms.cu``, and CPU twins.

A string has one digit for each spin of any size.

A term of H takes the digits a, b of its two sites, of `bits` bits each, as the number ``a << bits | b``, its row.  Every row of a
term has equally many elements beside the diagonal, those that are missing with the value 0: the string of the column is the
string of the row plus `change`, and `value` the matrix element, one for each direction of a flip.  A term of one site has that
site twice.

The index of a string s in its space is ``above[s >> split] + below[s & (1 << split) - 1]``; with characters of permutations it is
that of its smallest image (:mod:`qsim.trotter.kernels.sectors.images`).  H is then

    H_ab = sum_s H(a, s) chi(g) sqrt(nu_b / nu_a),   g s = b,

over the strings s that the smallest string of orbit a couples to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.trotter.kernels.amplitudes import macros
from qsim.trotter.kernels.sectors.images import Images, Listed, find, on_device, smallest
from qsim.trotter.kernels.sectors.product_cpu import JIT, PART

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, IndexArray
    from qsim.core.device.device import Device

THREADS = 256


class Numbering(NamedTuple):
    """Lin tables.

    Attributes
    ----------
    split : int
        Bits of the lower half.
    above : (2^bits,) int64
        First index of the states with an upper half.
    below : (2^split,) int64
        Place of a lower half.
    """

    split: int
    above: IndexArray
    below: IndexArray


class Terms(NamedTuple):
    """The terms of an operator.

    Attributes
    ----------
    sites : (T, 2) int64
        Lowest bits of the digits of the two sites.
    bits : int
        Of a digit.
    first : (T + 1,) int64
        First element of every term.
    change, value : (n,) int64; float64 or complex128
    energies : (T << 2 bits,) of the same kind as `value`
        Diagonal element by the digits of the two sites.
    """

    sites: IndexArray
    bits: int
    first: IndexArray
    change: IndexArray
    value: Array
    energies: Array

    @property
    def is_real(self) -> bool:
        """True if all elements are real."""
        return bool(self.value.dtype.kind == "f")


def term_rows(
    device: Device,
    terms: Terms,
    strings: IndexArray,
    numbering: Numbering,
    psi: Array,
    out: Array,
    factors: tuple[float, float, float],
    *,
    square: bool = True,
) -> None:
    """Compute ``out = a H psi + b psi + c out``, a, b, c = factors, by Lin tables; everything is on the device.

    Parameters
    ----------
    strings : (D,) int64
        Of the rows.
    numbering : Numbering
        Of the columns.
    psi, out : real or complex
        Different arrays of one type.
    square : bool
        Whether rows and columns belong to one space; otherwise b must be 0.
    """
    if device.is_cuda:
        places = strings, np.int32(square), np.int32(numbering.split), numbering.above, numbering.below
        _launch("term_rows", terms, len(strings), places, psi, out, factors)
        return
    given = strings, square, tuple(numbering), terms

    def rows(first: int, last: int) -> None:
        _term_rows_cpu(first, last, *given, psi, out, factors)

    size = len(strings) * max(1, len(terms.sites))
    each_part(rows, len(strings), size, device.threads, alike="term_rows")


def orbit_rows(
    device: Device,
    terms: Terms,
    orbits: Listed,
    group: Images,
    psi: Array,
    out: Array,
    factors: tuple[float, float, float],
) -> None:
    """Compute ``out = a H psi + b psi + c out``, a, b, c = factors, in the states of orbits; everything is on the device.

    Parameters
    ----------
    psi, out : (D,) real or complex
        Different arrays of one type; real ones for H and characters that are real.
    """
    if device.is_cuda:
        kind = np.complex128 if psi.dtype.kind == "c" else np.float64
        last = np.int32(orbits.shift), np.int64(len(orbits.starts) - 1)
        places = (*orbits[:4], *last, *on_device(device, group, kind))
        _launch("orbit_rows", terms, len(psi), places, psi, out, factors)
        return

    def rows(first: int, last: int) -> None:
        _orbit_rows_cpu(first, last, orbits, group, terms, psi, out, factors)

    each_part(rows, len(psi), len(psi) * max(1, len(terms.sites)), device.threads, alike="orbit_rows")


def _launch(
    name: str,
    terms: Terms,
    rows: int,
    places: tuple[Any, ...],
    psi: Array,
    out: Array,
    factors: tuple[float, float, float],
) -> None:
    """Launch a kernel, a thread for each row."""
    kind = np.complex128 if psi.dtype.kind == "c" else np.float64
    kernel = kernels.function("trotter/kernels/sectors", "terms", name, macros(psi.dtype))
    tables = terms.sites, terms.first, terms.change, terms.value.astype(kind), terms.energies.astype(kind)
    kernel(
        (-(-rows // THREADS),),
        (THREADS,),
        (
            psi,
            out,
            np.int64(rows),
            *places,
            np.int32(len(terms.sites)),
            np.int32(terms.bits),
            *tables,
            *map(np.float64, factors),
        ),
    )


@nb.njit(**PART)
def _local(s, terms, term):
    """Return the row of a term that belongs to the digits of a string."""
    mask = (1 << terms.bits) - 1
    return ((s >> terms.sites[term, 0]) & mask) << terms.bits | (s >> terms.sites[term, 1]) & mask


@nb.njit(**PART)
def _width(terms, term):
    """Return the number of elements of each row of a term."""
    return (terms.first[term + 1] - terms.first[term]) >> (2 * terms.bits)


@nb.njit(**JIT)
def _term_rows_cpu(first, last, strings, square, numbering, terms, psi, out, factors):
    """Rows of :func:`term_rows`."""
    split, above, below = numbering
    a, b, c = factors
    # unsigned numbers spare the test for an index from the end
    low, shift = np.uint64((1 << split) - 1), np.uint64(split)
    mask, wide, own = np.uint64((1 << terms.bits) - 1), np.uint64(2 * terms.bits), np.uint64(terms.bits)
    for row in range(np.uint64(first), np.uint64(last)):
        s = np.uint64(strings[row])
        total = psi[0] * 0.0
        energy = terms.energies[0] * 0.0
        for term in range(np.uint64(terms.sites.shape[0])):
            local = ((s >> np.uint64(terms.sites[term, 0])) & mask) << own | (
                s >> np.uint64(terms.sites[term, 1])
            ) & mask
            energy += terms.energies[(term << wide) + local]
            width = np.uint64(terms.first[term + np.uint64(1)] - terms.first[term]) >> wide
            begin = np.uint64(terms.first[term]) + local * width
            for e in range(begin, begin + width):
                value = terms.value[e]
                # an element that is missing leads to the row itself, which costs less than a branch, but for another space
                if not square and value == 0.0:
                    continue
                t = s + np.uint64(terms.change[e])
                total += value * psi[np.uint64(above[t >> shift] + below[t & low])]
        if square:
            total += energy * psi[row]
        total *= a
        if b != 0.0:
            total += b * psi[row]
        if c != 0.0:
            total += c * out[row]
        out[row] = total


@nb.njit(**JIT)
def _orbit_rows_cpu(first, last, orbits, group, terms, psi, out, factors):
    """Rows of :func:`orbit_rows`."""
    a, b, c = factors
    for row in range(first, last):
        s = orbits.strings[row]
        total = psi[0] * 0.0
        energy = terms.energies[0] * 0.0
        for term in range(terms.sites.shape[0]):
            local = _local(s, terms, term)
            energy += terms.energies[(term << (2 * terms.bits)) + local]
            width = _width(terms, term)
            begin = terms.first[term] + local * width
            for e in range(begin, begin + width):
                value = terms.value[e]
                if value == 0.0:
                    continue
                t, r, m = smallest(s + terms.change[e], group)
                k = find(t, orbits)
                if k >= 0:
                    total += value * group.characters[r, m] * orbits.roots[orbits.nu[k]] * psi[k]
        total = a * (total / orbits.roots[orbits.nu[row]] + energy * psi[row])
        if b != 0.0:
            total += b * psi[row]
        if c != 0.0:
            total += c * out[row]
        out[row] = total


@nb.njit(**JIT)
def stored_rows(first, last, starts, columns, value, psi, out, a, b, c):
    """Set some rows of ``out = a H psi + b psi + c out``, H by the starts of its rows, columns and values."""
    for row in range(np.uint64(first), np.uint64(last)):
        total = psi[0] * 0.0
        for e in range(np.uint64(starts[row]), np.uint64(starts[row + np.uint64(1)])):
            total += value[e] * psi[np.uint64(columns[e])]
        total *= a
        if b != 0.0:
            total += b * psi[row]
        if c != 0.0:
            total += c * out[row]
        out[row] = total


@nb.njit(**JIT)
def term_diagonal(strings, terms, out):
    """Set the diagonal elements of strings (D,)."""
    for row in range(strings.size):
        total = terms.energies[0] * 0.0
        for term in range(terms.sites.shape[0]):
            total += terms.energies[(term << (2 * terms.bits)) + _local(strings[row], terms, term)]
        out[row] = total


@nb.njit(**JIT)
def term_columns(strings, terms, first, to, data):
    """List string and value of every element beside the diagonal, row by row, or count them in `first` (D + 1,).

    They are counted, in ``first[1:]``, if `to` and `data` are empty.
    """
    for row in range(strings.size):
        place = first[row] if to.size else 0
        for term in range(terms.sites.shape[0]):
            width = _width(terms, term)
            begin = terms.first[term] + _local(strings[row], terms, term) * width
            for e in range(begin, begin + width):
                if terms.value[e] == 0.0:
                    continue
                if to.size:
                    to[place] = strings[row] + terms.change[e]
                    data[place] = terms.value[e]
                place += 1
        if to.size == 0:
            first[row + 1] = place


@nb.njit(**JIT)
def orbit_columns(orbits, group, terms, first, to, data):
    """Set column and value of every element beside the diagonal in the states of orbits, row by row from `first`."""
    for row in range(orbits.strings.size):
        s, place = orbits.strings[row], first[row]
        for term in range(terms.sites.shape[0]):
            width = _width(terms, term)
            begin = terms.first[term] + _local(s, terms, term) * width
            for e in range(begin, begin + width):
                if terms.value[e] == 0.0:
                    continue
                t, r, m = smallest(s + terms.change[e], group)
                k = find(t, orbits)
                # an orbit without a state is a zero on the diagonal: rows have the lengths that were counted
                to[place] = k if k >= 0 else row
                data[place] = 0.0
                if k >= 0:
                    ratio = orbits.roots[orbits.nu[k]] / orbits.roots[orbits.nu[row]]
                    data[place] = terms.value[e] * group.characters[r, m] * ratio
                place += 1
