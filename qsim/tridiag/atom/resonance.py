r"""Resonance of an atom in a static field by complex scaling: position and decay rate without a propagation.

With ``r = rho e^(i theta)`` on the mapped grid of rho the outgoing wave decays, and the bound level becomes a complex eigenvalue
``E - i Gamma / 2`` of

    (-D2 / 2 + M2 r'^2 (V + l (l + 1) / (2 r^2) + Q / (2 r'^2) - E)) X_l + F M2 r'^2 r (c_l X_(l+1) + c_(l-1) X_(l-1)) = 0,

the Numerov scheme of :mod:`qsim.tridiag.atom.grid` with complex r and r' (and a complex first entry).  The level is followed from
F = 0 by inverse iteration with sparse elimination.  Three spacings are extrapolated in the fourth power.
"""

from __future__ import annotations

import cmath
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from qsim.core.errors import NumericsError
from qsim.tridiag.atom.grid import first_entry, mapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Resonance", "resonance"]

ANGLE = 0.45  # theta, below pi / 3
RATIO = 1.3  # of the spacings
ORDER = 4
LEAST_L, MORE_L, MOST_L = 14, 6, 62
LEAST_BOX, MORE_BOX, MOST_BOX = 36.0, 1.35, 400.0
SAME = 3e-9  # relative change of the rate from more l, or a larger box, that is taken as none
STAGES = 6  # fields from 0 to F
ITERATIONS = 40
SAFETY = 3.0


@dataclass(frozen=True)
class Resonance:
    """A level in a static field.

    Attributes
    ----------
    energy, rate : float
        E, hartree, and Gamma, a.u.
    energy_error, rate_error : float
        Claimed errors.
    lmax : int
    box : float
        Radius up to which rho goes, bohr.
    """

    energy: float
    rate: float
    energy_error: float
    rate_error: float
    lmax: int
    box: float


@dataclass(frozen=True)
class Level:
    """What is followed: potential of complex r, charge of the nucleus, n, l, m, energy of the free level, spacings."""

    potential: Callable[[Any], Any]
    charge: float
    l: int
    m: int
    energy: float
    spacings: tuple[float, float, float]  # dr0, dr, width


def _bands(first: complex, n: int) -> tuple[Any, Any]:
    """Return M2 and D2."""
    diagonal = np.full(n, 10.0 / 12.0, dtype=complex)
    diagonal[0] = first
    side = np.full(n - 1, 1.0 / 12.0)
    mass = sp.diags_array([side, diagonal, side], offsets=[-1, 0, 1])
    return mass, 12.0 * (mass - sp.eye_array(n))


def _operators(level: Level, lmax: int, box: float, finer: float) -> tuple[Any, Any, Any, slice]:
    """Return free Hamiltonian, coupling per field, and right side (all times M2 r'^2), and the points of the level's l."""
    dr0, dr, width = level.spacings
    grid = mapped(box, dr * finer, dr0 * finer, width / finer)
    turn = cmath.exp(1j * ANGLE)
    r, square = grid.r * turn, (grid.slope * turn) ** 2
    curvature = grid.curvature / turn**2
    l = np.arange(abs(level.m), lmax + 1)
    c = np.sqrt(((l[:-1] + 1.0) ** 2 - level.m**2) / ((2.0 * l[:-1] + 1.0) * (2.0 * l[:-1] + 3.0)))
    v = level.potential(r)
    free, right, coupling = [], [], [[None] * l.size for _ in l]
    for k, one in enumerate(l):
        mass, second = _bands(complex(first_entry(int(one), level.charge, grid.step * turn)), r.size)
        centrifugal = one * (one + 1.0) / (2.0 * r**2)
        free.append(-0.5 * second + mass @ sp.diags_array(square * (v + centrifugal + curvature)))
        right.append(mass @ sp.diags_array(square))
        for other in (k - 1, k + 1):
            if 0 <= other < l.size:
                coupling[k][other] = float(c[min(k, other)]) * (mass @ sp.diags_array(square * r))
    here = level.l - abs(level.m)
    return (
        sp.block_diag(free, format="csc"),
        sp.block_array(coupling, format="csc") if l.size > 1 else 0.0 * sp.block_diag(free, format="csc"),
        sp.block_diag(right, format="csc"),
        slice(here * r.size, (here + 1) * r.size),
    )


def _follow(level: Level, field: float, lmax: int, box: float, finer: float) -> complex:
    """Return the complex eigenvalue in a field, followed from the free level."""
    free, coupling, right, here = _operators(level, lmax, box, finer)
    n = here.stop - here.start
    # r-major order: the elimination fills a band as wide as three times the number of l
    count = free.shape[0] // n
    order = np.arange(free.shape[0]).reshape(count, n).T.ravel()
    free, coupling, right = (matrix[order][:, order] for matrix in (free, coupling, right))
    start = np.zeros(free.shape[0], dtype=complex)
    start[np.flatnonzero((order >= here.start) & (order < here.stop))] = 1.0
    found: list[complex] = []
    x = start
    energy: complex = level.energy
    for stage in range(STAGES + 1):
        f = field * stage / STAGES
        guess = energy if len(found) < 3 else 3.0 * found[-1] - 3.0 * found[-2] + found[-3]
        energy, x = _inverse(free + f * coupling, right, guess, x)
        found.append(energy)
    return energy


def _inverse(
    matrix: Any, right: Any, energy: complex, x: NDArray[np.complex128]
) -> tuple[complex, NDArray[np.complex128]]:
    """Return the eigenvalue nearest to an energy, with its vector: inverse iteration, twice with a new shift.

    Raises
    ------
    NumericsError
        If it does not converge.
    """
    for _ in range(3):
        shift = energy + 1e-7 * (1.0 + 1.0j) * max(abs(energy), 1e-2)
        solve = splu((matrix - shift * right).tocsc(), permc_spec="NATURAL", diag_pivot_thresh=0.1).solve
        before = energy
        for _ in range(ITERATIONS):
            y = solve(right @ x)
            # x = (lambda - shift) y for an eigenvector
            now = shift + complex(np.vdot(y, x) / np.vdot(y, y))
            x = y / np.linalg.norm(y)
            if abs(now - energy) < 1e-15 * max(abs(now), 1e-3):
                break
            energy = now
        energy = now
        if abs(energy - before) < 1e-14 * abs(energy):
            return energy, x
    if abs(energy - before) > 1e-10 * abs(energy):
        raise NumericsError("the resonance was not found: its inverse iteration does not converge")
    return energy, x


def resonance(level: Level, field: float) -> Resonance:
    """Return position and rate of a level in a static field along z.

    Parameters
    ----------
    level
        What is followed.
    field
        F, a.u.

    Raises
    ------
    NumericsError
        If neither l nor box converge.
    """
    lmax, box = level.l + LEAST_L, LEAST_BOX + 2.0 / max(math.sqrt(2.0 * abs(level.energy)), 0.02)
    value = _follow(level, field, lmax, box, 1.0)
    while True:
        more, wide = (
            _follow(level, field, lmax + MORE_L, box, 1.0),
            _follow(level, field, lmax, box * MORE_BOX, 1.0),
        )
        small = SAME * abs(value.imag) + 1e-15
        cut = (abs(more - value), abs(wide - value))
        if max(cut) < small:
            break
        lmax += MORE_L if cut[0] >= small else 0
        box *= MORE_BOX if cut[1] >= small else 1.0
        if lmax > MOST_L or box > MOST_BOX:
            raise NumericsError(
                f"the resonance does not converge up to l = {MOST_L} and a box of {MOST_BOX:g} bohr"
            )
        value = more if cut[1] < small else _follow(level, field, lmax, box, 1.0)
    ladder = [_follow(level, field, lmax, box, RATIO**-k) for k in range(1, 4)]
    gain = RATIO**ORDER
    coarse, fine = ((gain * b - a) / (gain - 1.0) for a, b in itertools.pairwise(ladder))
    rounding = 1e-13 * abs(fine)
    uncertain = SAFETY * (abs(fine - coarse) + max(cut)) + rounding
    return Resonance(fine.real, -2.0 * fine.imag, uncertain, 2.0 * uncertain, lmax, box)
