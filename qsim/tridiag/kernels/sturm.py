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
import numpy as np

from qsim.core.device.jit import PART as _PART
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
PART: dict[str, Any] = {**JIT, **_PART}
# of the inverse iteration for a state; two suffice
ITERATIONS = 4
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


@nb.njit(**PART)
def _solve_symmetric(diagonal, off, x, upper, beyond):
    """Replace x by the solution of a tridiagonal system by elimination with pivoting; `diagonal` is overwritten.

    ``off``: the number beside the diagonal, on either side; ``upper``, ``beyond`` (n,): work space, the two diagonals above.
    """
    n = x.shape[0]
    upper[:] = off
    beyond[:] = 0.0
    for i in range(n - 1):
        if abs(diagonal[i]) >= abs(off):
            factor = off / diagonal[i]
            diagonal[i + 1] -= factor * upper[i]
            x[i + 1] -= factor * x[i]
        else:
            # the two rows change places; the lower one reaches one column further
            factor = diagonal[i] / off
            diagonal[i], below = off, diagonal[i + 1]
            diagonal[i + 1] = upper[i] - factor * below
            upper[i] = below
            beyond[i] = off if i + 2 < n else 0.0
            upper[i + 1] = -factor * beyond[i]
            x[i], x[i + 1] = x[i + 1], x[i] - factor * x[i + 1]
    for i in range(n - 1, -1, -1):
        value = x[i]
        if i + 1 < n:
            value -= upper[i] * x[i + 1]
        if i + 2 < n:
            value -= beyond[i] * x[i + 2]
        x[i] = value / (diagonal[i] if abs(diagonal[i]) > TINY else TINY)


@nb.njit(**PART)
def _state_radial(slope, v, first, energy, x, g, work):
    """Fill the state x (n,) of a level, ``sum x^2 = 1``, by inverse iteration as `states/levels` does."""
    n = x.shape[0]
    # a little off the eigenvalue, at which the matrix would be singular to rounding
    shift = energy + 1e-13 * max(abs(energy), 1e-3)
    for j in range(n):
        g[j] = 6.0 + slope[j] * slope[j] * (shift - v[j])
        x[j] = 1.0
    diagonal, upper, beyond, right = work[0], work[1], work[2], work[3]
    for _ in range(ITERATIONS):
        # (M2 - 6 / g) Z = -M2 (r' x), and x' = r' Z / g
        for j in range(n):
            m = first if j == 0 else 10.0 / 12.0
            diagonal[j] = m - 6.0 / g[j]
            before = slope[j - 1] * x[j - 1] if j > 0 else 0.0
            after = slope[j + 1] * x[j + 1] if j + 1 < n else 0.0
            right[j] = -(m * slope[j] * x[j] + (before + after) / 12.0)
        _solve_symmetric(diagonal, 1.0 / 12.0, right, upper, beyond)
        square = 0.0
        for j in range(n):
            x[j] = slope[j] * right[j] / g[j]
            square += x[j] * x[j]
        norm = np.sqrt(square)
        for j in range(n):
            x[j] /= norm


@nb.njit(**JIT)
def _populations_shared(ticket, *arguments):
    return share(ticket, ranges(_populations_cpu, arguments))


@nb.njit(**PART)
def _populations_cpu(first, last, worker, grid, momenta, levels, phi, out):
    """Fill the populations of some levels; ``grid``: r' and r'^2; ``momenta``: of each l what `populations` takes."""
    slope, square = grid
    v, entries, low, channels = momenta
    n = slope.shape[0]
    x, g, work = np.empty(n), np.empty(n), np.empty((4, n))
    for task in range(first, last):
        place, k = levels[task, 0], levels[task, 1]
        energy = level_radial(square, v[place], entries[place], k, low[place], 0.0)
        _state_radial(slope, v[place], entries[place], energy, x, g, work)
        total = 0.0
        for c in range(channels[place], channels[place + 1]):
            re, im = 0.0, 0.0
            for j in range(n):
                re += phi[c, j].real * x[j]
                im += phi[c, j].imag * x[j]
            total += re * re + im * im
        out[task] = total


def populations(slope, v, entries, levels, low, channels, phi, threads):
    """Return what a state holds of bound levels, summed over m, (tasks,) float64.

    Parameters
    ----------
    slope : (n,) float64
        r'.
    v : (k, n) float64
        Potential with the centrifugal term and the curvature of the grid, for each of some l, hartree.
    entries : (k,) float64
        First diagonal entry of M2.
    levels : (tasks, 2) int64
        Place of l, and number of the level below 0, 0 first.
    low : (k,) float64
        Energy below all levels.
    channels : (k + 1,) int64
        Where the channels of each l begin in `phi`.
    phi : (channels, n) complex128
        State.
    threads : int
        At most.
    """
    out = np.zeros(len(levels))
    arguments = ((slope, slope**2), (v, entries, low, channels), levels, phi, out)
    each_part(Shared(_populations_shared, arguments), len(levels), out.size * slope.size * 64, threads)
    return out
