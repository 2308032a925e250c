"""Products in spaces of digits, one for each spin of any size, packed into strings; on the CPU alone.

A term of H takes the digits a, b of its two sites, of `bits` bits each, as the number ``a << bits | b``.  Its row of ``starts``
says which of the arrays `change` and `value` hold the strings that couple to a string with these digits: the string of the column
is the string of the row plus `change`, and `value` the matrix element.  A term of one site has that site twice.

The index of a string s in its space is ``above[s >> split] + below[s & (1 << split) - 1]``.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qsim.trotter.kernels.sectors.product_cpu import JIT, PART

__all__ = [
    "digit_columns",
    "digit_counts",
    "digit_diagonal",
    "digit_representatives",
    "digit_rows",
    "stored_rows",
]


@nb.njit(**PART)
def _row_of(s, sites, bits, term):
    """Return the row of the tables of a term that belongs to the digits of a string."""
    mask = (1 << bits) - 1
    local = ((s >> sites[term, 0]) & mask) << bits | (s >> sites[term, 1]) & mask
    return (term << (2 * bits)) + local


@nb.njit(**JIT)
def digit_diagonal(strings, sites, bits, energies, out):
    """Set the diagonal elements of strings.

    Parameters
    ----------
    strings : (D,) int64
    sites : (T, 2) int64
        Lowest bits of the digits of the two sites of a term.
    energies : (T << 2 bits,) float64, or complex128 of an operator that is not Hermitian
        Diagonal element by the digits of the two sites.
    out : (D,) of the same kind
    """
    for row in range(strings.size):
        total = energies[0] * 0.0
        for term in range(sites.shape[0]):
            total += energies[_row_of(strings[row], sites, bits, term)]
        out[row] = total


@nb.njit(**JIT)
def digit_rows(first, last, strings, diagonal, numbering, tables, psi, out, factors):
    """Set some rows of ``out = a H psi + b psi + c out``.

    Parameters
    ----------
    first, last : int
        Rows.
    strings : (D,) int64
        Of the rows.
    diagonal : (D,) float64 or complex128
        Diagonal elements; of length 0 where rows and columns belong to different spaces, and b must be 0.
    numbering : (split, above, below)
        Of the columns.
    tables : (sites, bits, starts, change, value)
        Of the terms.
    psi : vector of the columns
    out : vector of the rows
    factors : (a, b, c) of float
    """
    split, above, below = numbering
    sites, bits, starts, change, value = tables
    a, b, c = factors
    # unsigned numbers spare the test for an index from the end
    low = np.uint64((1 << split) - 1)
    shift, mask = np.uint64(split), np.uint64((1 << bits) - 1)
    wide, own_bits = np.uint64(2 * bits), np.uint64(bits)
    square = diagonal.size > 0
    for row in range(np.uint64(first), np.uint64(last)):
        s = np.uint64(strings[row])
        total = psi[0] * 0.0
        for term in range(np.uint64(sites.shape[0])):
            local = ((s >> np.uint64(sites[term, 0])) & mask) << own_bits | (
                s >> np.uint64(sites[term, 1])
            ) & mask
            local += term << wide
            for e in range(np.uint64(starts[local]), np.uint64(starts[local + np.uint64(1)])):
                t = s + np.uint64(change[e])
                total += value[e] * psi[np.uint64(above[t >> shift] + below[t & low])]
        if square:
            total += diagonal[row] * psi[row]
        total *= a
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
def digit_counts(strings, sites, bits, starts, count):
    """Count the elements of H beside the diagonal in the rows of strings."""
    for row in range(strings.size):
        total = 0
        for term in range(sites.shape[0]):
            local = _row_of(strings[row], sites, bits, term)
            total += starts[local + 1] - starts[local]
        count[row] = total


@nb.njit(**JIT)
def digit_columns(strings, sites, bits, starts, change, value, first, to, data):
    """List string and value of every element of H beside the diagonal, row by row from `first` (D + 1,)."""
    for row in range(strings.size):
        place = first[row]
        for term in range(sites.shape[0]):
            local = _row_of(strings[row], sites, bits, term)
            for e in range(starts[local], starts[local + 1]):
                to[place] = strings[row] + change[e]
                data[place] = value[e]
                place += 1


@nb.njit(**JIT)
def digit_representatives(strings, tables, characters, representative, norms):
    """List the strings that are the smallest of their orbit and have a state of these characters; return how many.

    As :func:`qsim.trotter.kernels.sectors.orbits.representatives`, among given strings and with images that the tables say alone.
    """
    count = 0
    for k in range(strings.size):
        s = strings[k]
        nu = 0.0
        smallest = True
        for g in range(tables.shape[0]):
            r = 0
            for piece in range(tables.shape[1]):
                r |= tables[g, piece, (s >> (8 * piece)) & 255]
            if r < s:
                smallest = False
                break
            if r == s:
                nu += characters[g].real
        # nu is 0 or a positive integer: 0.5 leaves room for rounding of the characters
        if smallest and nu > 0.5:
            if count >= representative.size:
                return count + 1
            representative[count] = s
            norms[count] = nu
            count += 1
    return count
