"""Resolvents of an atom on its grid at many energies, shared by threads (CPU): ``(H_l - z)^-1 phi`` of waves that go out.

With ``Z = g phi / r'`` and ``g = 6 + r'^2 (z - V_l)`` each is the system ``(M2 - 6 / g) Z = -M2 (r' phi)``, complex symmetric and
tridiagonal, whose last pivot holds ``rho = Z_(n+1) / Z_n`` at the wall (`qsim.tridiag.atom.photoelectrons.outgoing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numba as nb
import numpy as np

from qsim.core.device.jit import PART as _PART
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["inwards", "resolvents"]

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
PART: dict[str, Any] = {**JIT, **_PART}
# elements of M2 on the diagonal and beside it
MIDDLE, BESIDE = 10.0 / 12.0, 1.0 / 12.0


class Radial(Protocol):
    """The Hamiltonian of one l on the grid: r' and V_l (n,), and the first entry of M2."""

    slope: NDArray[np.float64]
    potential: NDArray[np.float64]
    first: float


@nb.njit(**PART)
def _size(z):
    return abs(z.real) + abs(z.imag)


@nb.njit(**PART)
def _solve(diagonal, x, upper, beyond):
    """Replace the columns of x (n, columns) by solutions, by elimination with pivoting; `diagonal` is overwritten.

    `upper` and `beyond` (n,) are work space: the two diagonals above.
    """
    n, columns = x.shape
    upper[:] = BESIDE
    beyond[:] = 0.0
    for i in range(n - 1):
        if _size(diagonal[i]) >= BESIDE:
            factor = BESIDE / diagonal[i]
            diagonal[i + 1] -= factor * upper[i]
            for c in range(columns):
                x[i + 1, c] -= factor * x[i, c]
        else:
            # the two rows change places; the lower one reaches one column further
            factor = diagonal[i] / BESIDE
            below = diagonal[i + 1]
            diagonal[i] = BESIDE
            diagonal[i + 1] = upper[i] - factor * below
            upper[i] = below
            if i + 2 < n:
                beyond[i] = BESIDE
            upper[i + 1] = -factor * beyond[i]
            for c in range(columns):
                here = x[i, c]
                x[i, c] = x[i + 1, c]
                x[i + 1, c] = here - factor * x[i + 1, c]
    for i in range(n - 1, -1, -1):
        inverse = 1.0 / diagonal[i]
        for c in range(columns):
            value = x[i, c]
            if i + 1 < n:
                value -= upper[i] * x[i + 1, c]
            if i + 2 < n:
                value -= beyond[i] * x[i + 2, c]
            x[i, c] = value * inverse


@nb.njit(**JIT)
def _resolvents_shared(ticket, *arguments):
    return share(ticket, ranges(_resolvents_cpu, arguments))


@nb.njit(**PART)
def _resolvents_cpu(first, last, worker, radial, shifts, phi, out, edges):
    """Fill what `resolvents` returns for some energies; ``radial``: r', V_l, first entry of M2."""
    slope, potential, entry = radial
    z, rho, parts = shifts
    n, columns = phi.shape
    diagonal, upper, beyond = np.empty((3, n), np.complex128)
    g, x = np.empty(n, np.complex128), np.empty((n, columns), np.complex128)
    for energy in range(first, last):
        for s in range(z.shape[1]):
            for j in range(n):
                m = entry if j == 0 else MIDDLE
                g[j] = 6.0 + slope[j] * slope[j] * (z[energy, s] - potential[j])
                diagonal[j] = m - 6.0 / g[j]
                for c in range(columns):
                    value = m * slope[j] * phi[j, c]
                    if j > 0:
                        value += BESIDE * slope[j - 1] * phi[j - 1, c]
                    if j + 1 < n:
                        value += BESIDE * slope[j + 1] * phi[j + 1, c]
                    x[j, c] = -value
            # Z beyond the last point is rho times that in it
            diagonal[n - 1] += BESIDE * rho[energy, s]
            _solve(diagonal, x, upper, beyond)
            for c in range(columns):
                edges[energy, s, c] = x[n - 1, c]
            # one row in place of all of them: the edges alone are wanted
            for j in range(n if out.shape[1] > 1 else 0):
                factor = parts[s] * slope[j] / g[j]
                for c in range(columns):
                    out[energy, j, c] += factor * x[j, c]


def resolvents(
    radial: Radial,
    z: NDArray[np.complex128],
    rho: NDArray[np.complex128],
    phi: NDArray[np.complex128],
    threads: int,
    parts: NDArray[np.complex128] | None = None,
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return ``sum_s parts[s] (H_l - z[k, s])^-1 phi`` and Z of the last point for every k and s.

    Parameters
    ----------
    radial : Radial
        The Hamiltonian of an l.
    z, rho : (k, s) complex128
        Energies, hartree, and how waves go on at the wall.
    phi : (columns, n) complex128
        States.
    threads : int
        At most; each energy has one.
    parts : (s,) complex128, optional
        Weights; without them the sums are not made.

    Returns
    -------
    sums : (k, n, columns) complex128
        Or (k, 1, columns) of zeros without weights.
    edges : (k, s, columns) complex128
    """
    columns, n = phi.shape
    out = np.zeros((len(z), 1 if parts is None else n, columns), complex)
    edges = np.empty((*z.shape, columns), complex)
    weights = np.zeros(z.shape[1], complex) if parts is None else parts
    shifts = tuple(np.ascontiguousarray(one, complex) for one in (z, rho, weights))
    held = (radial.slope, radial.potential, float(radial.first))
    work = Shared(_resolvents_shared, (held, shifts, np.ascontiguousarray(phi.T), out, edges))
    each_part(work, len(z), z.size * n * (4 + columns), threads)
    return out, edges


@nb.njit(**JIT)
def _inwards_shared(ticket, *arguments):
    return share(ticket, ranges(_inwards_cpu, arguments))


@nb.njit(**PART)
def _inwards_cpu(first, last, worker, slope, potential, points, z, rho):
    for k in range(first, last):
        here = rho[k]
        for j in range(slope.shape[0] - 2, points - 1, -1):
            here = 1.0 / (72.0 / (6.0 + slope[j] * slope[j] * (z[k] - potential[j])) - 10.0 - here)
        rho[k] = here


def inwards(
    radial: Radial, points: int, z: NDArray[np.complex128], rho: NDArray[np.complex128], threads: int
) -> NDArray[np.complex128]:
    """Return ``rho`` (k,) at the wall of a box of some points from that at the last but one point of a longer grid."""
    out = np.array(rho)
    work = Shared(_inwards_shared, (radial.slope, radial.potential, points, np.ascontiguousarray(z), out))
    each_part(work, z.size, z.size * (radial.slope.size - points), threads)
    return out
