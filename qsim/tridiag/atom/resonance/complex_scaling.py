r"""Resonances of an atom in a static field by complex scaling: position and decay rate without a propagation.

With ``r = rho e^(i theta)`` on the mapped grid of rho the outgoing wave decays, and the bound level becomes a complex eigenvalue
``E - i Gamma / 2`` of

    (-D2 / 2 + M2 r'^2 (V + l (l + 1) / (2 r^2) + Q / (2 r'^2) - E)) X_l + F M2 r'^2 r (c_l X_(l+1) + c_(l-1) X_(l-1)) = 0,

the Numerov scheme of `states/grid` with complex r and r' (and a complex first entry): a banded matrix, radius by
radius.  ``sum_l int X_l Y_l r'^2`` without a conjugate is the product in which states are normalised, and ``<z>`` in it the
slope dE/dF.  The level is followed from F = 0 by inverse iteration, in steps that leave most of the state what it was.

The levels n of hydrogen are degenerate.  A weak field makes of them the parabolic states, the eigenvectors of z among the l of
one n and m: ``n1 - n2 = -(n - |m| - 1), ..., n - |m| - 1`` in steps of 2, with ``dE/dF = 3 n (n1 - n2) / (2 Z)`` (Landau and
Lifshitz, Quantum Mechanics, section 77).  Grid, box and l are chosen here, whatever the run has; three spacings or
more are extrapolated in the fourth power.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg.lapack import zgbtrf, zgbtrs

from qsim.core.errors import NumericsError
from qsim.tridiag.atom.evolution.propagator import AtomLattice
from qsim.tridiag.atom.states.grid import RadialGrid, first_entry, mapped
from qsim.tridiag.atom.states.levels import level
from qsim.tridiag.tdse.scaling import IDLE, RATIO, ROUNDING, SAME, Pencil, Resonance, follow, limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Waves = NDArray[np.complex128]

__all__ = ["Parabolic", "Resonance", "Wanted", "parabolic_weights", "resonance"]

# theta, below pi / 3
ANGLE = 0.45
LEAST_L, MORE_L, MOST_L = 14, 6, 92
MORE_BOX, MOST_BOX = 1.35, 4000.0
# radius of a level n, (a n^2 + b n) / Z, beyond which 1e-8 of it lies: fitted to n = 1 to 30
HOLDS = (2.35, 11.5)
# bohr beyond it, over Z
OUTSIDE = 24.0


@dataclass(frozen=True)
class Parabolic:
    """A Stark state of hydrogen: n1 and n2 nodes uphill and downhill, with n1 + n2 + |m| + 1 = n."""

    n1: int
    n2: int
    m: int = 0

    @property
    def n(self) -> int:
        """Principal quantum number."""
        return self.n1 + self.n2 + abs(self.m) + 1


@dataclass(frozen=True)
class Wanted:
    """A resonance to be found, and its atom.

    Attributes
    ----------
    potential : function
        V of complex radii, hartree.
    nucleus, tail : float
        Charges that are seen near and far.
    which : Parabolic, (n, l) or float
        Stark state of hydrogen; a level that is followed from F = 0; or an energy, hartree, whose nearest resonance is taken.
    m : int
    spacings : (dr0, dr, width)
        Of the grid, as in :func:`qsim.tridiag.atom.states.grid.mapped`.
    """

    potential: Callable[[Any], Any]
    nucleus: float
    tail: float
    which: Parabolic | tuple[int, int] | float
    m: int
    spacings: tuple[float, float, float]


class _Pencil(Pencil):
    """Hamiltonian and right side on one complex grid with l up to a largest; states are (points, l)."""

    def __init__(self, wanted: Wanted, grid: RadialGrid, lmax: int) -> None:
        # r -> r exp(i theta): outgoing waves decay, and the resonance is a bound state with a complex energy
        turn = cmath.exp(1j * ANGLE)
        self.grid, self.m = grid, abs(wanted.m)
        self.r = grid.r * turn
        self.square = ((grid.slope * turn) ** 2)[:, None]
        # m is conserved by a field along z
        l = np.arange(self.m, lmax + 1)
        self.c = np.sqrt(((l[:-1] + 1.0) ** 2 - self.m**2) / ((2.0 * l[:-1] + 1.0) * (2.0 * l[:-1] + 3.0)))
        # Numerov's mass matrix, with the first entry for u ~ r^(l+1) at the nucleus
        self.mass = np.full((grid.points, l.size), 10.0 / 12.0, dtype=complex)
        self.mass[0] = [first_entry(int(one), wanted.nucleus, grid.step * turn) for one in l]
        centrifugal = l * (l + 1.0) / (2.0 * self.r[:, None] ** 2)
        self.potential = (wanted.potential(self.r) + grid.curvature / turn**2)[:, None] + centrifugal

    @property
    def shape(self) -> tuple[int, int]:
        """Points, and number of l."""
        return self.mass.shape

    def weighted(self, x: Waves) -> Waves:
        """Return the right side, ``M2 r'^2 x``."""
        x = self.square * x
        out = self.mass * x
        out[1:] += x[:-1] / 12.0
        out[:-1] += x[1:] / 12.0
        return out

    def product(self, x: Waves, y: Waves) -> complex:
        """Return the product of two states, without a conjugate."""
        return complex(np.sum(self.square * x * y))

    def dipole(self, x: Waves, y: Waves) -> complex:
        """Return ``<x|z|y>`` in this product."""
        # z = r cos(theta) couples l with l - 1 and l + 1
        z = np.zeros_like(y)
        z[:, 1:] += self.c * y[:, :-1]
        z[:, :-1] += self.c * y[:, 1:]
        return self.product(x, self.r[:, None] * z)

    def factors(self, field: float, shift: complex) -> tuple[Any, Any]:
        """Return the LU factors of ``H(F) - shift``, as LAPACK keeps them.

        Raises
        ------
        NumericsError
            If the matrix is singular.
        """
        n, count = self.shape
        wide = count + 1
        # rows by radius, l within: couplings reach one radius and one l further, so the band is count + 1 wide on either side;
        # LAPACK needs as much again above for pivoting
        band = np.zeros((3 * wide + 1, n, count), dtype=complex)
        inner = self.square * (self.potential - shift)
        driven = field * self.square * self.r[:, None]
        # from the radius of a row to the radius of a column
        for step in (-1, 0, 1):
            # Numerov in matrix form: -6 (M2 - 1) is the kinetic part, M2 times the potential the rest
            mass = self.mass if step == 0 else np.full(self.shape, 1.0 / 12.0, dtype=complex)
            band[2 * wide - step * count] = -6.0 * (mass - (step == 0)) + mass * inner
            # the field couples l and l + 1 with the mass of the column
            above, below = 2 * wide - step * count - 1, 2 * wide - step * count + 1
            band[above, :, 1:] = self.c * mass[:, :-1] * driven
            band[below, :, :-1] = self.c * mass[:, 1:] * driven
        lu, pivots, info = zgbtrf(band.reshape(3 * wide + 1, -1), wide, wide, overwrite_ab=True)
        if info != 0:
            raise NumericsError("the resonance was not found: its matrix is singular")
        return lu, pivots

    def solve(self, factors: tuple[Any, Any], b: Waves) -> Waves:
        """Return the solution for a right side."""
        wide = self.shape[1] + 1
        x, _ = zgbtrs(factors[0], wide, wide, b.reshape(-1, 1), factors[1])
        return np.asarray(x.reshape(self.shape))


def parabolic_weights(n: int, l: int, m: int) -> list[tuple[Parabolic, float]]:
    """Return the Stark states of a level n, l, m of hydrogen with their shares, the largest and the uphill ones first."""
    # within one n, z is tridiagonal in l; its eigenvectors are the parabolic states, in rising order of n1 - n2
    ls = np.arange(abs(m), n)
    # <n l|r|n l-1> = 3/2 n sqrt(n^2 - l^2), here without the factor that all have
    c = np.sqrt((ls[1:] ** 2.0 - m * m) / (4.0 * ls[1:] ** 2.0 - 1.0)) * np.sqrt(n * n - ls[1:] ** 2.0)
    _, states = np.linalg.eigh(np.diag(c, 1) + np.diag(c, -1))
    last = ls.size - 1
    shares = [(Parabolic(k, last - k, m), float(states[l - abs(m), k] ** 2)) for k in range(last, -1, -1)]
    return sorted(shares, key=lambda one: -round(one[1], 9))


def _field_free(wanted: Wanted, pencil: _Pencil, n: int, l: int) -> tuple[complex, Waves]:
    """Return a level without a field, followed from its energy on real radii."""
    grid = pencil.grid
    # the level on real radii starts the inverse iteration: its energy does not depend on the angle, its state
    # is turned by it
    real = AtomLattice(grid, np.asarray(wanted.potential(grid.r)), np.zeros(grid.points), wanted.nucleus)
    energy, phi = level(real, n, l)
    x = np.zeros(pencil.shape, dtype=complex)
    x[:, l - pencil.m] = phi / grid.slope
    return pencil.nearest(0.0, energy, x)


def _start(wanted: Wanted, pencil: _Pencil) -> tuple[complex, Waves]:
    """Return energy and state for a vanishing field: a level, or a parabolic state of the levels of one n."""
    if not isinstance(wanted.which, Parabolic):
        assert isinstance(wanted.which, tuple)
        return _field_free(wanted, pencil, *wanted.which)
    n = wanted.which.n
    levels = [_field_free(wanted, pencil, n, l) for l in range(pencil.m, n)]
    # in a vanishing field the degenerate levels of one n mix to the eigenvectors of z
    z = np.array([[pencil.dipole(x, y).real for _, y in levels] for _, x in levels])
    _, states = np.linalg.eigh(z)
    weights = states[:, wanted.which.n1]
    energy = complex(sum(w * w * e for w, (e, _) in zip(weights, levels, strict=True)))
    return energy, np.asarray(sum(w * x for w, (_, x) in zip(weights, levels, strict=True)))


@dataclass(frozen=True)
class _Found:
    """A resonance on one grid."""

    pencil: _Pencil
    energy: complex
    x: Waves

    def again(self, wanted: Wanted, field: float, grid: RadialGrid, lmax: int) -> _Found:
        """Return it with another grid or other l."""
        old, new = self.pencil.grid, _Pencil(wanted, grid, lmax)
        # both grids count points of the same map: x of one is a multiple of x of the other
        stretch = grid.step / old.step
        here, there = np.arange(1, old.points + 1), stretch * np.arange(1, grid.points + 1)
        x = np.zeros(new.shape, dtype=complex)
        for k in range(min(new.shape[1], self.x.shape[1])):
            x[:, k] = np.interp(there, here, self.x[:, k], right=0.0)
        return _Found(new, *new.nearest(field, self.energy, x))


def _first(wanted: Wanted, field: float) -> tuple[_Found, int, float]:
    """Return the resonance on the first grid, its lmax, and the share of the level it was followed from."""
    which = wanted.which
    if isinstance(which, float):
        # a level of that energy would have n = Z / sqrt(2 |E|): it sizes the box
        n, lowest = 1.0 / math.sqrt(2.0 * max(abs(which), 1e-4)) * max(wanted.tail, 1.0), abs(wanted.m)
    else:
        n, lowest = (which.n, which.n - 1) if isinstance(which, Parabolic) else which
    z = max(wanted.tail, 1.0)
    box = (HOLDS[0] * n * n + HOLDS[1] * n + OUTSIDE) / z
    lmax = lowest + LEAST_L
    dr0, dr, width = wanted.spacings
    pencil = _Pencil(wanted, mapped(box, dr, dr0, width), lmax)
    if isinstance(which, float):
        # no state to begin with: something smooth with all l
        x = np.exp(-pencil.grid.r[:, None]) * np.ones(pencil.shape, dtype=complex)
        return _Found(pencil, *pencil.nearest(field, which, x)), lmax, math.nan
    energy, start = _start(wanted, pencil)
    found, x = follow(pencil, field, energy, start)
    return _Found(pencil, found, x), lmax, abs(pencil.product(start, x)) ** 2


def resonance(wanted: Wanted, field: float) -> Resonance:
    """Return position and rate of a level in a static field along z.

    Parameters
    ----------
    wanted
        Which one.
    field
        F, a.u., not negative.

    Raises
    ------
    NumericsError
        If it cannot be followed, or if neither l nor box converge.
    """
    value, lmax, weight = _first(wanted, field)
    grid, last = value.pencil.grid, math.inf
    while True:
        wide = grid.resized(round(MORE_BOX * grid.points))
        # more l and a larger box, one at a time: each shows what it alone changes
        more, larger = (
            value.again(wanted, field, grid, lmax + MORE_L),
            value.again(wanted, field, wide, lmax),
        )
        # as small as rounding of the energy makes them, or negligible beside the rate
        small = SAME * abs(value.energy.imag) + ROUNDING * abs(value.energy)
        cut = (abs(more.energy - value.energy), abs(larger.energy - value.energy))
        # converged, or changes that no longer fall and are as small as rounding
        if max(cut) < small or 0.5 * last < max(cut) < IDLE * abs(value.energy):
            break
        last = max(cut)
        lmax += MORE_L if cut[0] >= small else 0
        grid = wide if cut[1] >= small else grid
        if lmax > MOST_L or grid.wall > MOST_BOX / max(wanted.tail, 1.0):
            raise NumericsError(
                f"the resonance does not converge up to l = {MOST_L} and a box of {MOST_BOX:g} bohr"
            )
        value = larger if cut[0] < small else value.again(wanted, field, grid, lmax)
    return replace(_extrapolated(wanted, field, value, max(cut)), weight=weight)


def _extrapolated(wanted: Wanted, field: float, value: _Found, cut: float) -> Resonance:
    """Return the limit of fine spacings, with its error."""
    base = value.pencil
    lmax = base.m + base.shape[1] - 1

    def level(k: int) -> tuple[float, complex]:
        grid = mapped(base.grid.wall, base.grid.far, base.grid.step, base.grid.width, RATIO**-k)
        return grid.step, value.again(wanted, field, grid, lmax).energy

    fine, uncertain = limit(level, cut)
    return Resonance(fine.real, -2.0 * fine.imag, uncertain, 2.0 * uncertain, lmax, base.grid.wall, math.nan)
