"""Orbits of strings under a group of permutations of the sites, with or without turning all spins over; on the CPU alone.

An image is put together from tables of eight bits: ``image(s, g) = OR_c tables[g, c, byte c of s]``, then complemented if the
element turns all spins over.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qsim.trotter.kernels.sectors.product_cpu import JIT, PART

__all__ = ["entries_of_orbits", "image_of", "images_of", "representatives"]


@nb.njit(**PART)
def image_of(s, tables, turned, full, g):
    """Return the image of a string under one element."""
    out = 0
    for c in range(tables.shape[1]):
        out |= tables[g, c, (s >> (8 * c)) & 255]
    return out ^ full if turned[g] else out


@nb.njit(**PART)
def _parity(s):
    """Return 1 for an odd number of bits, 0 for an even one."""
    odd = 0
    while s:
        s &= s - 1
        odd ^= 1
    return odd


@nb.njit(**JIT)
def representatives(spins, down, odd, tables, turned, characters, representative, norms):
    """List the strings that are the smallest of their orbit and have a state of these characters; return how many.

    Parameters
    ----------
    down, odd : int
        Number of spins down of the strings, -1 for any; whether it is odd (1) or even (0), -1 for either.
    tables : (G, bytes, 256) int64
    turned : (G,) bool
    characters : (G,) complex128
        chi(g).
    representative : (D,) int64, out
        Ascending.
    norms : (D,) float64, out
        ``nu = sum of chi(g) over g with g s = s``.
    """
    full = (1 << spins) - 1
    # the first string of the weight: its lowest bits set
    s = (1 << down) - 1 if down >= 0 else 0
    count = 0
    # all strings of this weight in ascending order
    while s <= full:
        nu = 0.0
        smallest = odd < 0 or _parity(s) == odd
        # s stands for its orbit if no image is smaller; most strings
        # fail within the first few elements, which ends the loop
        for g in range(turned.size if smallest else 0):
            r = image_of(s, tables, turned, full, g)
            if r < s:
                smallest = False
                break
            # sum of the characters of the elements that leave s as
            # it is: real, since with g it contains the inverse of g
            if r == s:
                nu += characters[g].real
        # nu is 0 or a positive integer: 0.5 leaves room for rounding of the characters
        if smallest and nu > 0.5:
            # more than the arrays hold: the caller has the dimension
            # from the characters, so that this is an error
            if count >= representative.size:
                return count + 1
            representative[count] = s
            norms[count] = nu
            count += 1
        if down < 0:
            s += 1
            continue
        # no spin down: one string, and no next one
        if s == 0:
            break
        # the next number with as many bits (Gosper): the lowest run of ones moves up by one place, its
        # other ones return to the bottom
        low = s & -s
        high = s + low
        s = (((s ^ high) >> 2) // low) | high
    return count


@nb.njit(**PART)
def _smallest(s, tables, turned, full):
    """Return the smallest image of a string, and the element that leads to it."""
    # all elements are tried: the order of a group is N to 8 N, and tables of bytes make an image cheap
    best = image_of(s, tables, turned, full, 0)
    which = 0
    for g in range(1, turned.size):
        r = image_of(s, tables, turned, full, g)
        if r < best:
            best = r
            which = g
    return best, which


@nb.njit(**JIT)
def entries_of_orbits(spins, group, representative, norms, masks, sites, coefficients, first, to, data):
    """Fill the rows of H but for its diagonal, in the states of orbits.

    ``H_ba = h chi(g)* sqrt(nu_b / nu_a)``, where g leads from the flipped string of a to b; row a holds its complex conjugate.

    Parameters
    ----------
    group
        Tables, turned and characters, as in :func:`representatives`.
    masks : (T,) int64
        Bits of the spins that a term flips.
    sites : (T, 2) int64
        Two sites j and k on which its matrix element depends.
    coefficients : (T, 4) complex128
        h by the spins of the flipped string, ``bit_j + 2 bit_k``; a term without one has no entry.
    first : (D + 1,) int64
        First entry of every row.
    to, data : int32, complex128, out
        Column and value; entries of a row may have the same column.
    """
    tables, turned, characters = group
    full = (1 << spins) - 1
    for a in range(representative.size):
        e = first[a]
        # each flip of a maps to one entry: the flipped string,
        # its representative b, and the element between them
        for m in range(masks.size):
            flipped = representative[a] ^ masks[m]
            h = coefficients[m, (flipped >> sites[m, 0] & 1) + 2 * (flipped >> sites[m, 1] & 1)]
            if h == 0.0:
                continue
            s, g = _smallest(flipped, tables, turned, full)
            # representatives are in ascending order
            b = np.searchsorted(representative, s)
            # the orbit may have no state in this sector: its characters add up to zero; then the entry is a zero on the diagonal,
            # so that every row has the length that was counted
            to[e] = a
            data[e] = 0.0
            if b < representative.size and representative[b] == s:
                to[e] = b
                # complex conjugate: row a
                data[e] = h.conjugate() * characters[g] * np.sqrt(norms[b] / norms[a])
            e += 1


@nb.njit(**JIT)
def images_of(strings, spins, tables, turned, characters, representative, norms, place, factor):
    """Set place and factor of every string in the states of orbits: ``chi(g) sqrt(nu_a / G)``, g leads to the representative a.

    The place of a string of no state is -1.
    """
    full = (1 << spins) - 1
    for k in range(strings.size):
        s, g = _smallest(strings[k], tables, turned, full)
        a = np.searchsorted(representative, s)
        # strings whose orbit has no state here keep amplitude zero
        place[k] = -1
        factor[k] = 0.0
        if a < representative.size and representative[a] == s:
            place[k] = a
            factor[k] = characters[g] * np.sqrt(norms[a] / turned.size)
