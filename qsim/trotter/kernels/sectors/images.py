"""Orbits of strings under permutations of sites and the inversion of all spins: public wrapper of ``images.cu``, and CPU twins.

A string holds a digit of each site in equally many bits.  The rotations of a string by whole cells that belong to the group are
shifts of its bits; the other elements are these times a few others, one of each coset, whose images are put together from
tables of eight bits.  The smallest rotation begins with a longest run of cells that are zero: ``y & rot(y)``, with y the marks of
such cells, leaves the ends of the longest runs after as many steps as a run is long, and only these are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.trotter.kernels.amplitudes import macros
from qsim.trotter.kernels.sectors.product_cpu import JIT, PART

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, FloatArray, IndexArray
    from qsim.core.device.device import Device

THREADS = 256


class Images(NamedTuple):
    """A group of R cosets of L rotations.

    Attributes
    ----------
    tables : (R, bytes, 256) int64
        Images of eight bits under an element of each coset, the identity first.
    characters : (R, L) float64 or complex128
        chi of that element and then m rotations.
    cell, bits : int
        Bits of a rotation and of a string.
    marks : int
        Lowest bit of every cell.
    """

    tables: IndexArray
    characters: FloatArray | Array
    cell: int
    bits: int
    marks: int


class Listed(NamedTuple):
    """Orbits that have a state.

    Attributes
    ----------
    strings : (D,) int64
        Smallest strings, ascending.
    nu : (D,) uint16
    roots : (G + 1,) float64
        Square roots of 0, 1, 2, ..., the number of elements.
    starts : (B + 1,) uint32
        First of the strings whose bits from `shift` on are a number.
    shift : int
    """

    strings: IndexArray
    nu: Array
    roots: FloatArray
    starts: IndexArray
    shift: int


@intrinsic
def _place(context, x):
    """Return the place of the lowest bit of a number that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@nb.njit(**PART)
def image(s, tables, r):
    """Return the image of a string under the element of a coset."""
    if r == 0:
        return s
    out = 0
    for c in range(tables.shape[1]):
        out |= tables[r, c, (s >> (8 * c)) & 255]
    return out


@nb.njit(**PART)
def rotated(x, k, bits):
    """Return a string of some bits, rotated upwards by k of them."""
    return ((x << k) | (x >> (bits - k))) & ((1 << bits) - 1)


@nb.njit(**PART)
def _runs(x, group):
    """Return the length of the longest run of zero cells, and the lowest bits of the cells at their tops."""
    marks, cell = group.marks, group.cell
    # a single cell has no other rotation
    if marks == 1:
        return 0, marks
    filled = x
    for i in range(1, cell):
        filled |= x >> i
    y = ~filled & marks
    if y == 0 or y == marks:
        return 0 if y == 0 else group.bits, marks
    length, ends = 0, y
    while y:
        ends = y
        length += 1
        y &= rotated(y, cell, group.bits)
    return length, ends


@nb.njit(**PART)
def smallest(s, group):
    """Return the smallest image of a string, and coset and rotation of the element that leads to it."""
    best, coset, turn, longest = 0, 0, 0, -1
    top = group.bits - group.cell
    for r in range(group.tables.shape[0]):
        x = image(s, group.tables, r)
        length, ends = _runs(x, group)
        # an image with a longer run of zeros at the top is smaller
        if length < longest:
            continue
        first = length > longest
        longest = length
        while ends:
            k = top - _place(ends)
            ends &= ends - 1
            t = rotated(x, k, group.bits)
            if first or t < best:
                best, coset, turn, first = t, r, k, False
    return best, coset, turn // group.cell


@nb.njit(**PART)
def _norm(s, group):
    """Return ``nu = sum of chi(g) over g with g s = s`` of a string that is the smallest of its orbit; 0 of others."""
    nu, own = 0.0, 0
    top = group.bits - group.cell
    for r in range(group.tables.shape[0]):
        x = image(s, group.tables, r)
        length, ends = _runs(x, group)
        if r == 0:
            own = length
        if length < own:
            continue
        if length > own:
            return 0.0
        while ends:
            k = top - _place(ends)
            ends &= ends - 1
            t = rotated(x, k, group.bits)
            if t < s:
                return 0.0
            # real in sum: with g it contains the inverse of g
            if t == s:
                nu += group.characters[r, k // group.cell].real
    return nu


def list_orbits(
    device: Device,
    halves: tuple[IndexArray, ...],
    group: Images,
    at: IndexArray,
    strings: IndexArray,
    nu: IndexArray,
    size: int,
) -> None:
    """Count the orbits that begin with some upper halves, or list them from where `at` says.

    Parameters
    ----------
    halves
        Upper halves (H,), in their place; the class of each; first lower half of every class; lower halves. On the device.
    at : (H,) int64
        Set to the numbers of orbits if `strings` is empty, else first orbit of every upper half.
    strings, nu : (D,) int64 and uint16, out
    size : int
        Strings in all, roughly.
    """
    if not device.is_cuda:
        each_part(
            lambda first, last: _list_orbits_cpu(first, last, halves, group, at, strings, nu),
            len(at),
            size,
            device.threads,
            alike="list_orbits",
        )
        return
    kernel = kernels.function("trotter/kernels/sectors", "images", "list_orbits", macros(np.complex128))
    if len(at):
        kernel(
            (len(at),),
            (THREADS,),
            (*halves, at, strings, nu, np.int32(strings.size > 0), *on_device(device, group)),
        )


def on_device(device: Device, group: Images, kind: Any = np.complex128) -> tuple[Any, ...]:
    """Return a group as arguments of kernels of CUDA, characters of a type."""
    return (
        device.asarray(group.tables),
        device.asarray(group.characters).astype(kind),
        *(np.int32(n) for n in (*group.tables.shape[:2], group.characters.shape[1], group.cell, group.bits)),
        np.int64(group.marks),
    )


@nb.njit(**JIT)
def _list_orbits_cpu(first, last, halves, group, at, strings, nu):
    """Upper halves first .. last of :func:`list_orbits`."""
    highs, classes, starts, lows = halves
    for i in range(first, last):
        count = 0
        for j in range(starts[classes[i]], starts[classes[i] + 1]):
            s = highs[i] | lows[j]
            found = _norm(s, group)
            # nu is 0 or a positive integer: 0.5 leaves room for rounding of the characters
            if found > 0.5:
                if strings.size:
                    strings[at[i] + count] = s
                    nu[at[i] + count] = np.uint16(found + 0.5)
                count += 1
        if strings.size == 0:
            at[i] = count


@nb.njit(**PART)
def find(s, orbits):
    """Return the number of the orbit with this smallest string; -1 if it has no state."""
    bucket = s >> orbits.shift
    if bucket >= orbits.starts.size - 1:
        return -1
    low, high = np.int64(orbits.starts[bucket]), np.int64(orbits.starts[bucket + 1])
    while low < high:
        middle = (low + high) >> 1
        if orbits.strings[middle] < s:
            low = middle + 1
        else:
            high = middle
    return low if low < orbits.strings.size and orbits.strings[low] == s else -1


@nb.njit(**JIT)
def images_of(strings, group, orbits, place, factor):
    """Set place and factor of every string in the states of orbits: ``chi(g) sqrt(nu_a / G)``, g leads to the smallest string a.

    The place of a string of no state is -1.
    """
    size = np.sqrt(1.0 * group.characters.size)
    for k in range(strings.size):
        s, r, m = smallest(strings[k], group)
        a = find(s, orbits)
        place[k] = a
        factor[k] = group.characters[r, m] * (orbits.roots[orbits.nu[a]] / size) if a >= 0 else 0.0
