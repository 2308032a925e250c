r"""The optimised breakup of the periodic Coulomb potential (Natoli and Ceperley, J. Comput. Phys. 117, 171 (1995)).

.. math::  v(r)=v_s(r)-\bar v_s+\sum_{0<k\le k_c}y_k\cos kr,\qquad y_k=\frac{4\pi}{Vk^2}-\hat v_s(k)

with a short-ranged part :math:`v_s(r)=f(r)/r` that vanishes from :math:`r_c\le r_\mathrm{ws}` on, so that only nearest images
count, and its average :math:`\bar v_s`.  Here f is a quintic Hermite spline with :math:`f(0)=1` and
:math:`f=f'=f''=0` at :math:`r_c`, and its free values are those that make the neglected tail
:math:`\sum_{k>k_c}|4\pi/(Vk^2)-\hat v_s(k)|^2` smallest.  What is left is measured against converged Ewald sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qmc.system import radial
from qsim.qmc.system.cell import points_within
from qsim.qmc.system.ewald import madelung, potential

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.cell import Cell

__all__ = ["Breakup", "break_up"]

MOST_KNOTS = 15  # of f; more than k_c r_c would leave combinations that no wave beyond k_c sees
TAIL = 12.0  # times k_c: where the tail ends that is made small
SHELLS = 600  # points of the tail
ORDER = 24  # of the quadrature within a knot
SAMPLES = 200  # displacements at which the breakup is compared with Ewald sums


def _hermite(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the six quintic polynomials of value, slope, curvature at 0 and at 1, with two derivatives: (3, 6, n)."""
    c = np.array(
        [
            [1, 0, 0, -10, 15, -6],
            [0, 1, 0, -6, 8, -3],
            [0, 0, 0.5, -1.5, 1.5, -0.5],
            [0, 0, 0, 10, -15, 6],
            [0, 0, 0, -4, 7, -3],
            [0, 0, 0, 0.5, -1, 0.5],
        ]
    )
    powers = np.arange(6)
    value = c @ t ** powers[:, None]
    first = (c * powers)[:, 1:] @ t ** powers[:5, None]
    second = (c * powers * (powers - 1))[:, 2:] @ t ** powers[:4, None]
    return np.stack([value, first, second])


@dataclass(frozen=True)
class Breakup:
    """The two parts of the potential of a cell.

    Attributes
    ----------
    cell
        The periodic cell.
    rc
        Range of the short part, bohr.
    values : (knots, 3) float64
        Value, slope and curvature of f at its knots, in units of the knots' distance.
    waves : (n, 3) int64
        Half of the reciprocal vectors, in units of ``cell.reciprocal``; the others are their negatives.
    weights : (n,) float64
        ``2 y_k`` of those, hartree: the factor 2 stands for the other half.
    average : float
        Mean of the short part over the cell, hartree.
    xi : float
        Potential of a charge's own images, hartree.
    error : float
        Largest deviation from Ewald sums at random displacements, hartree.
    """

    cell: Cell
    rc: float
    values: NDArray[np.float64]
    waves: NDArray[np.int64]
    weights: NDArray[np.float64]
    average: float
    xi: float
    error: float = 0.0

    def f(self, r: NDArray[np.float64]) -> radial.Jet:
        """Return r v_s(r) with its derivatives."""
        knots = len(self.values)
        h = self.rc / (knots - 1)
        inside = np.asarray(r) < self.rc
        x = np.where(inside, r, 0.0) / h
        i = np.minimum(x.astype(np.int64), knots - 2)
        basis = _hermite(x - i)
        ends = np.concatenate([self.values[i], self.values[i + 1]], axis=1)
        out = (basis * ends.T[None]).sum(1) * inside
        return radial.Jet(out[0], out[1] / h, out[2] / h**2)

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """Return f as kernels take it."""
        return radial.table(self.f, radial.knot_at_or_after(self.rc))

    def potential(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return v at displacements (n, 3) by the two parts."""
        nearest = self.cell.nearest(d)
        r = np.sqrt((nearest**2).sum(-1))
        k = self.waves @ self.cell.reciprocal
        return np.asarray(self.f(r).value / r - self.average + np.cos(d @ k.T) @ self.weights)


def _transform(rc: float, knots: int, k: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``4 pi integral dr h(r) sin(kr) / k`` over the basis: (3 knots, n); k = 0 gives ``4 pi integral dr r h``."""
    h = rc / (knots - 1)
    t, w = np.polynomial.legendre.leggauss(ORDER)
    t, w = 0.5 * (t + 1.0), 0.5 * w
    basis = _hermite(t)[0] * w * h
    out = np.zeros((knots, 3, k.size))
    for i in range(knots - 1):
        r = h * (i + t)
        kernel = r[:, None] * np.sinc(r[:, None] * k / np.pi)
        part = basis @ kernel
        out[i] += part[:3]
        out[i + 1] += part[3:]
    return 4.0 * np.pi * out.reshape(3 * knots, k.size)


def break_up(cell: Cell, kc_rc: float = 15.0, tolerance: float = 1e-4) -> Breakup:
    """Divide the Coulomb potential of a cell.

    Parameters
    ----------
    cell
        The periodic cell.
    kc_rc
        Product of both cutoffs; the short part ends at the Wigner-Seitz radius.
    tolerance
        Largest deviation from the Ewald sums that is accepted, hartree.

    Raises
    ------
    NumericsError
        If the two parts do not add up to the Ewald sums.
    """
    rc = cell.radius
    kc = kc_rc / rc
    knots = min(MOST_KNOTS, max(4, int(kc_rc)))
    fixed = np.zeros((knots, 3))
    fixed[0, 0] = 1.0
    free = np.ones((knots, 3), bool)
    free[0, 0] = False
    free[-1] = False
    # the sum over the shells of a lattice is replaced by the integral over k^2 dk
    edges = kc * TAIL ** np.linspace(0.0, 1.0, SHELLS + 1)
    k = np.sqrt(edges[1:] * edges[:-1])
    root = np.sqrt(k**2 * np.diff(edges)) / cell.volume
    rows = _transform(rc, knots, k)
    target = 4.0 * np.pi / k**2 - fixed.ravel() @ rows
    design = (rows[free.ravel()] * root).T
    scale = np.sqrt((design**2).sum(0))
    solution = np.linalg.lstsq(design / scale, target * root, rcond=1e-14)[0] / scale
    values = fixed.copy()
    values[free] = solution
    waves = points_within(cell.reciprocal, kc)
    waves = waves[_is_first_half(waves)]
    size = np.sqrt(((waves @ cell.reciprocal) ** 2).sum(1))
    short = values.ravel() @ _transform(rc, knots, size)
    weights = 2.0 / cell.volume * (4.0 * np.pi / size**2 - short)
    average = float((values.ravel() @ _transform(rc, knots, np.zeros(1)))[0]) / cell.volume
    made = Breakup(cell, rc, values, waves, weights, average, madelung(cell))
    error = _deviation(made)
    if not error <= tolerance:
        raise NumericsError(
            f"the breakup of the Coulomb potential differs from converged Ewald sums by {error:.2g} hartree, more than "
            f"{tolerance:g}",
            hint="a larger coulomb.kc_rc",
        )
    return Breakup(cell, rc, values, waves, weights, average, made.xi, error)


def _is_first_half(m: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which of m and -m is kept: the one whose first number that is not zero is positive."""
    x, y, z = m.T
    return np.asarray((x > 0) | ((x == 0) & (y > 0)) | ((x == 0) & (y == 0) & (z > 0)))


def _deviation(made: Breakup) -> float:
    u = np.random.default_rng(7).random((SAMPLES, 3))
    d = u @ made.cell.lattice
    return float(np.abs(made.potential(d) - potential(made.cell, d)).max())
