"""The arrays that describe an expansion in determinants to kernels, as named tuples (numba passes them as they are)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["LEVELS", "ExpansionTables", "OneDeterminant"]

LEVELS = 8  # largest number of electrons that a string moves out of the reference


class OneDeterminant(NamedTuple):
    """A single determinant, whose inverse is all that there is.

    Attributes
    ----------
    numbers : int
        Numbers of a walker in `State.expansion`: 1, which nothing reads.
    """

    numbers: int


class ExpansionTables(NamedTuple):
    """Strings of both spins, those of spin up first, each spin's by ascending level with its reference in front.

    The reference occupies the first n orbitals of its spin, those that no string empties before the others.  The minor of a
    string with holes h and particles p is the determinant of T[h, p], T = A^-1 Phi; Laplace's expansion along the row of the last
    hole makes it a sum of products with minors of the level below, which are in the list, too:
    ``m = T[h_k, p_k] m_k - T[h_k, p_(k-1)] m_(k-1) + ...``, where the string of m_j lacks h_k and p_j.

    Attributes
    ----------
    sizes : (2, 4) int64
        For each spin: electrons, orbitals, the first row of T that a hole can be, where T begins among the numbers of a walker.
    level : (2, LEVELS + 2) int64
        First string of each level, and behind the last level the end.
    first_term : (2,) int64
        Place of the first term of a spin; a string of level k has k of them, one behind the other.
    place : (terms,) int32
        Place of the term's factor in T, row by row.
    parent : (terms,) int32
        String of the term's minor.
    begin : (S + 1,) int64
        Determinants of each string: where they begin in the next two.
    other : (2 D,) int32
        String of the other spin.
    coefficient : (2 D,) float64
        With the signs of the orders of both strings.
    children : (S + 1,) int64
        Terms of each string's minor in the strings above: where they begin in the next.
    child : (terms,) int32
        The terms.
    cells : (cells + 1,) int64
        Terms of each number of T, spin up first: where they begin in the next.
    cell : (terms,) int32
        The terms.
    owner : (terms,) int32
        String k that a term belongs to, ``~k`` if it is subtracted.
    numbers : int
        Numbers of a walker in `State.expansion`: psi over the product of both reference determinants, the minors of all
        strings (S,), T (n, M - n) of both spins.
    """

    sizes: IndexArray
    level: IndexArray
    first_term: IndexArray
    place: NDArray[np.int32]
    parent: NDArray[np.int32]
    begin: IndexArray
    other: NDArray[np.int32]
    coefficient: FloatArray
    children: IndexArray
    child: NDArray[np.int32]
    cells: IndexArray
    cell: NDArray[np.int32]
    owner: NDArray[np.int32]
    numbers: int
