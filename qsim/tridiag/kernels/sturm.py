"""Counts of eigenvalues below an energy, for the tridiagonal pencils of the two stencils (CPU).

``H - E`` has as many negative eigenvalues as H has eigenvalues below E (Sylvester).  For the three-point stencil they are the
negative pivots of the tridiagonal matrix itself.  For the compact stencil ``H = c (M^-1 - 1) + V`` with ``c = 6/dx^2`` and
``M = 1 + delta^2/12``; with ``Q = c - V + E`` the block matrix ``[[M, sqrt(c)], [sqrt(c), Q]]`` has the Schur complements
``-(H - E)`` and ``M - c/Q``, the latter tridiagonal, so that

    below(E) = positive pivots of (M - c/Q)  -  negative entries of Q.
"""

from __future__ import annotations

from typing import Any

import numba as nb

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# in place of a pivot that is zero: E is then an eigenvalue of a leading block, and either sign gives a count
# that is right on one side of E; small enough not to shift any count, large enough for off2 / TINY to be finite
TINY = 1e-290


@nb.njit(**JIT)
def below_three_point(v, dx, energy):
    """Return the number of eigenvalues of the three-point Hamiltonian below `energy`; v (n,) float64."""
    # square of the off-diagonal -1/(2 dx^2): the recurrence of pivots needs no more
    off2 = 0.25 / dx**4
    count = 0
    pivot = 1e300
    for i in range(v.shape[0]):
        pivot = 1.0 / dx**2 + v[i] - energy - off2 / pivot
        if abs(pivot) < TINY:
            pivot = -TINY
        if pivot < 0.0:
            count += 1
    return count


@nb.njit(**JIT)
def below_numerov(v, dx, energy):
    """Return the number of eigenvalues of the compact Hamiltonian below `energy`; v (n,) float64."""
    c = 6.0 / dx**2
    count = 0
    pivot = 1e300
    for i in range(v.shape[0]):
        # the block with Q is diagonal, so its negative entries are counted on the way
        q = c - v[i] + energy
        if abs(q) < TINY:
            q = TINY
        # M has 10/12 on its diagonal and 1/12 beside it; 1/144 is the product of two of these
        pivot = 10.0 / 12.0 - c / q - (1.0 / 144.0) / pivot
        if abs(pivot) < TINY:
            pivot = -TINY
        if pivot > 0.0:
            count += 1
        if q < 0.0:
            count -= 1
    return count


@nb.njit(**JIT)
def below_radial(a, v, first, energy):
    """Return the number of eigenvalues below `energy` of ``-1/2 (1/r') M2^-1 D2 (1/r') + V`` (`states/grid`).

    a (n,) is ``r'^2``, v (n,) V, `first` the first diagonal entry of M2: with ``g = 6 + a (E - V)`` that is
    positive pivots of ``M2 - 6/g`` minus negative g.
    """
    count = 0
    pivot = 1e300
    for i in range(v.shape[0]):
        # r' (H - E) r' has as many negative eigenvalues as H - E: it is the compact pencil with dx = 1 and r'^2
        # (V - E)
        g = 6.0 + a[i] * (energy - v[i])
        if abs(g) < TINY:
            g = TINY
        pivot = (first if i == 0 else 10.0 / 12.0) - 6.0 / g - (1.0 / 144.0) / pivot
        if abs(pivot) < TINY:
            pivot = -TINY
        if pivot > 0.0:
            count += 1
        if g < 0.0:
            count -= 1
    return count


@nb.njit(**JIT)
def level_radial(a, v, first, k, low, high):
    """Return the k-th eigenvalue (0 first) between `low` and `high`, by bisection to rounding."""
    # 200 halvings pass any range of doubles; the loop ends when no number lies between the ends
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        # more than k levels below: level k is one of them
        if below_radial(a, v, first, middle) > k:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)
