"""Vectors that are the same on every orbit of a group: orbits of a sector, Chebyshev series in one call; on the CPU alone."""

from __future__ import annotations

import numba as nb

from qsim.trotter.kernels.sectors.images import image, rotated
from qsim.trotter.kernels.sectors.product_cpu import JIT


@nb.njit(**JIT)
def orbits_of(strings, numbering, group, place, first):
    """Give the strings of every orbit of a sector its number; return how many orbits there are.

    Parameters
    ----------
    strings : (D,) int64
        In the order of their index.
    numbering : Numbering
        Of their index.
    group : Images
    place : (D,) int32, in/out
        -1 at first; the number of the orbit of every string.
    first : (D,) int64, out
        Index of the first string of every orbit.
    """
    split, above, below = numbering
    under = (1 << split) - 1
    count = 0
    # orbits are numbered by their first string in the order of the index
    for i in range(strings.size):
        if place[i] >= 0:
            continue
        # the first string of an orbit that comes along stands for it; all its images get the number, some of them several times
        first[count] = i
        for r in range(group.tables.shape[0]):
            x = image(strings[i], group.tables, r)
            for turn in range(0, group.bits, group.cell):
                s = rotated(x, turn, group.bits)
                place[above[s >> split] + below[s & under]] = count
        count += 1
    return count


@nb.njit(**JIT)
def bessel(x, values):
    """Set values to the Bessel functions J_0(x), J_1(x), ..., x > 0, by the recurrence downwards (Miller).

    The last order must lie so far beyond x that its value is negligible; ``J_0 + 2 sum_k J_2k = 1`` sets the scale.
    """
    count = values.size
    # downwards from J_m = 0 and a tiny J_(m-1): J_k is the solution
    # that grows in this direction, so that errors of the start fade
    above = 0.0
    here = 1e-300
    total = 0.0
    # here: J_k but for the scale; 15 orders beyond the last one let the error of the start fade
    for k in range(count + 15, -1, -1):
        if k < count:
            values[k] = here
        if k % 2 == 0:
            total += here if k == 0 else 2.0 * here
        below = 2.0 * k / x * here - above
        above = here
        # J_(k-1) = (2 k / x) J_k - J_(k+1)
        here = below
        # downwards the J_k grow from any start; before they overflow all of them are scaled, those that are stored as well
        if abs(here) > 1e200:
            here *= 1e-200
            above *= 1e-200
            total *= 1e-200
            for j in range(max(k, 0), count):
                values[j] *= 1e-200
    for k in range(count):
        values[k] /= total


@nb.njit(**JIT)
def series(matrix, psi, old, new, total, numbers, centre, inverse, forward):
    """Sum ``sum_k (-i)^k c_k T_k((H - centre) inverse) psi``; times i^k instead if not `forward`.

    Parameters
    ----------
    matrix
        Values, columns and first entries of the rows of H without its diagonal, real; and its diagonal.
    psi, old, new, total : (orbits,) complex128
        State, two work spaces, and the sum.
    numbers : (m,) float64
        ``(2 - delta_k0) |J_k|`` with the sign of J_k.
    """
    data, indices, indptr, diagonal = matrix
    size = psi.size
    # the term k = 0, T_0 psi = psi
    for i in range(size):
        old[i] = psi[i]
        total[i] = numbers[0] * psi[i]
    sign = -1.0 if forward else 1.0
    for k in range(1, numbers.size):
        twice = inverse if k == 1 else 2.0 * inverse
        back = 0.0 if k == 1 else 1.0
        c = numbers[k]
        # (-i)^k c, or i^k c: one of its parts is zero, and every second pair of k has the other sign
        rotated = c if k & 2 == 0 else -c
        re = rotated if k & 1 == 0 else 0.0
        im = 0.0 if k & 1 == 0 else sign * rotated
        for i in range(size):
            # recurrence and sum in one pass over the row, while its numbers are in registers; `new` holds T_(k-2) until it is
            # overwritten
            x = old[i]
            a = (diagonal[i] - centre) * x.real
            b = (diagonal[i] - centre) * x.imag
            for j in range(indptr[i], indptr[i + 1]):
                y = old[indices[j]]
                a += data[j] * y.real
                b += data[j] * y.imag
            before = new[i]
            a = twice * a - back * before.real if k > 1 else twice * a
            b = twice * b - back * before.imag if k > 1 else twice * b
            new[i] = complex(a, b)
            total[i] += complex(re * a - im * b, re * b + im * a)
        old, new = new, old
