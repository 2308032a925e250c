r"""Muffin tins: Bloch functions near the ions by spherical harmonics, so that the splines between them can be coarse.

Within a sphere of radius R around an ion at :math:`\tau` a plane wave is a sum of spherical waves, so that a band is

.. math:: \phi(\tau + r) = \sum_{lm} u_{lm}(r)\,S_{lm}(r), \qquad
   u_{lm}(r) = 4\pi\,i^l\sum_Gc_Ge^{ik\tau}\,S_{lm}(k)\,f_l(|k|r), \qquad f_l(x) = j_l(x)/x^l,

with real solid harmonics S and :math:`k = \kappa + G`.  The :math:`u_{lm}` are even and smooth; they are tabulated as quintic
Hermite splines, whose second derivatives are good in single precision, too.  From ``inner`` to R the tin passes into the splines
with a weight that is twice continuously differentiable, so that no kinetic energy is hidden in a jump.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.wavefunction.harmonics import solid_harmonics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.cell import Cell
    from qsim.qmc.wavefunction.crystals.bsplines import Function

__all__ = ["NO_TINS", "MuffinTins", "half_distance", "make_tins"]

INNER = 0.75  # of the radius: where the passage into the splines begins
SPACING = 0.12  # bohr, of the radial tables
SERIES = 1.5  # argument below which f_l is summed as a series
TERMS = 14  # of that series


@dataclass(frozen=True)
class MuffinTins:
    """Bloch functions around the ions of the primitive cell.

    Attributes
    ----------
    centres : (I, 3) float64
        Ions of the primitive cell, bohr.
    near : (n, 3) float64
        Lattice vectors of the primitive cell, one of which brings a folded vector into the tin if any does; the first is zero.
    inner, outer
        Radii between which tins pass into splines, bohr.
    lmax
        Largest angular momentum.
    table : (S, I, K, (lmax + 1)^2, 3, C) float64
        Value, slope times h, curvature times h^2 of ``u_lm`` of each channel at the radii k h, ``h = outer / (K - 1)``; m ascends
        from -l.
    cell
        The primitive cell.
    """

    centres: NDArray[np.float64]
    near: NDArray[np.float64]
    inner: float
    outer: float
    lmax: int
    table: NDArray[np.float64]
    cell: Cell | None

    def blend(
        self,
        points: NDArray[np.float64],
        spin: int,
        functions: list[Function],
        values: NDArray[np.complex128],
    ) -> None:
        """Replace values, gradients and Laplacians (n, 5, P) of functions at points (n, 3) where they are in a tin."""
        assert self.cell is not None  # there are tins
        knots = self.table.shape[2]
        h = self.outer / (knots - 1)
        scale = h ** -np.arange(3.0)
        for atom, centre in enumerate(self.centres):
            # The tin of the nearest image of the ion, and the phase of the cell that it lies
            # in.
            d = self.cell.nearest(points - centre)
            r = np.linalg.norm(d, axis=1)
            inside = r < self.outer
            if not inside.any():
                continue
            d, r = d[inside], np.maximum(r[inside], 1e-12)
            cells = np.rint((points[inside] - centre - d) @ self.cell.inverse)
            # Functions in the tin and on splines are mixed, with the derivatives of the
            # weight by the product rule.
            own = self._values(self.table[spin, atom] * scale[:, None], d, r, h)
            weight, slope, curvature = passage(r, self.inner, self.outer)
            channel = 0
            for p, function in enumerate(functions):
                tin = own[..., channel] + (1j * own[..., channel + 1] if function.parts == 2 else 0.0)
                tin = tin * np.exp(2j * np.pi * (cells @ function.kappa))[:, None]
                rest = values[inside, :, p]
                more = tin - rest
                along = (more[:, 1:4] * d).sum(1) / r
                made = rest + weight[:, None] * more
                made[:, 1:4] += (slope / r * more[:, 0])[:, None] * d
                made[:, 4] += 2.0 * slope * along + (curvature + 2.0 * slope / r) * more[:, 0]
                values[inside, :, p] = made
                channel += function.parts

    def _values(
        self, table: NDArray[np.float64], d: NDArray[np.float64], r: NDArray[np.float64], h: float
    ) -> NDArray[np.float64]:
        """Return values, gradients and Laplacians (n, 5, C) of the channels at vectors (n, 3) from an ion."""
        from scipy.interpolate import BPoly

        knots = h * np.arange(len(table))
        # Quintic Hermite interpolation: value, slope and curvature at each knot.
        radial = BPoly.from_derivatives(knots, np.moveaxis(table, 2, 1))
        U, dU, ddU = radial(r), radial.derivative()(r), radial.derivative(2)(r)  # (n, LM, C)
        out = np.zeros((len(r), 5, table.shape[-1]))
        for l in range(self.lmax + 1):
            part = slice(l * l, (l + 1) ** 2)
            # Solid harmonics are harmonic: lap(S U) = S (U'' + 2 (l + 1) U' / r).
            S, G = ascending(l, d)
            out[:, 0] += np.einsum("nm,nmc->nc", S, U[:, part])
            out[:, 1:4] += np.einsum("nmx,nmc->nxc", G, U[:, part])
            out[:, 1:4] += np.einsum("nx,nm,nmc->nxc", d / r[:, None], S, dU[:, part])
            out[:, 4] += np.einsum(
                "nm,nmc->nc", S, ddU[:, part] + (2 * (l + 1) / r)[:, None, None] * dU[:, part]
            )
        return out


def ascending(l: int, d: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the solid harmonics of one l and their gradients with ascending m, as `solid_harmonics`."""
    S, G = solid_harmonics(l, d)
    if l == 1:  # x, y, z there
        S, G = S[:, [1, 2, 0]], G[:, [1, 2, 0]]
    return S, G


def passage(
    r: NDArray[np.float64], inner: float, outer: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight of a tin and its first two derivatives: 1 to `inner`, 0 from `outer` on, a quintic between."""
    # 1 - 10 x^3 + 15 x^4 - 6 x^5, with two derivatives that vanish at both ends.
    x = np.clip((r - inner) / (outer - inner), 0.0, 1.0)
    width = outer - inner
    return (
        1.0 - x**3 * (10.0 - 15.0 * x + 6.0 * x * x),
        -30.0 * x * x * (1.0 - x) ** 2 / width,
        -60.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / width**2,
    )


def half_distance(cell: Cell, positions: NDArray[np.float64]) -> float:
    """Return half the shortest distance of two ions, images included, bohr."""
    # An ion and its own images, and then pairs.
    shortest = 2.0 * cell.radius
    for i in range(len(positions)):
        for j in range(i):
            shortest = min(shortest, float(np.linalg.norm(cell.nearest(positions[i] - positions[j]))))
    return 0.5 * shortest


def make_tins(
    cell: Cell, positions: NDArray[np.float64], functions: list[list[Function]], radius: float, lmax: int
) -> MuffinTins:
    """Tabulate functions around the ions of a primitive cell.

    Parameters
    ----------
    cell, positions
        The primitive cell and its ions (I, 3), bohr.
    functions
        For one or two spins.
    radius
        Of the tins, bohr: at most `half_distance`.
    lmax
        Largest angular momentum.
    """
    # Knots as close as the error of quintic interpolation needs it.
    knots = max(4, math.ceil(radius / SPACING)) + 1
    r = np.linspace(0.0, radius, knots)
    channels = max(sum(f.parts for f in spin) for spin in functions)
    table = np.zeros((len(functions), len(positions), knots, (lmax + 1) ** 2, 3, channels))
    for spin, of_spin in enumerate(functions):
        channel = 0
        for function in of_spin:
            values = _expand(function, cell, positions, r, lmax)
            table[spin, ..., channel] = values.real
            if function.parts == 2:
                table[spin, ..., channel + 1] = values.imag
            channel += function.parts
    # Slopes and curvatures in units of the knots, as kernels interpolate.
    table *= (radius / (knots - 1)) ** np.arange(3.0)[:, None]
    return MuffinTins(
        np.ascontiguousarray(positions, np.float64),
        np.ascontiguousarray(cell.images(radius)),
        INNER * radius,
        radius,
        lmax,
        table,
        cell,
    )


def _expand(
    function: Function, cell: Cell, positions: NDArray[np.float64], r: NDArray[np.float64], lmax: int
) -> NDArray[np.complex128]:
    """Return ``u_lm`` with its first two derivatives at radii (K,): (I, K, (lmax + 1)^2, 3)."""
    # exp(ikr) = 4 pi sum_lm i^l j_l(kr) S_lm(k) S_lm(r) / (k r)^l around each ion, whose
    # place brings a phase.
    k = (function.gvectors + function.kappa) @ cell.reciprocal
    amplitudes = np.exp(1j * positions @ k.T) * function.coefficients  # (I, n)
    # Waves of one length share their Bessel functions.
    size, shell = np.unique(np.round(np.linalg.norm(k, axis=1), 10), return_inverse=True)
    x = size[:, None] * r
    # With f_l(x) = j_l(x) / x^l: f_l' = -x f_(l+1), so that slopes and curvatures need two
    # more l.
    f = [reduced_bessel(l, x) for l in range(lmax + 3)]
    out = np.empty((len(positions), len(r), (lmax + 1) ** 2, 3), np.complex128)
    for l in range(lmax + 1):
        S = ascending(l, k)[0]
        jets = (
            f[l],
            -size[:, None] * x * f[l + 1],
            size[:, None] ** 2 * (x * x * f[l + 2] - f[l + 1]),
        )
        for m in range(2 * l + 1):
            weighted = amplitudes * S[:, m]
            # Sums over the waves of each length first, then one product with the radial
            # functions.
            by_shell = np.array(
                [
                    np.bincount(shell.ravel(), w.real, len(size))
                    + 1j * np.bincount(shell.ravel(), w.imag, len(size))
                    for w in weighted
                ]
            )
            for n, jet in enumerate(jets):
                out[:, :, l * l + m, n] = 4.0 * np.pi * 1j**l * (by_shell @ jet)
    return out


def reduced_bessel(l: int, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``j_l(x) / x^l``."""
    from scipy.special import spherical_jn

    small = np.zeros_like(x)
    # j_l(x) / x^l cancels for small x: a power series there.
    odd = math.prod(range(2 * l + 1, 0, -2))  # (2l + 1)!!
    term = np.full_like(x, 1.0 / odd)
    for n in range(TERMS):
        small += term
        term = term * (-0.5 * np.minimum(x, SERIES) ** 2) / ((n + 1) * (2 * l + 2 * n + 3))
    far = np.maximum(x, SERIES)
    return np.where(x < SERIES, small, spherical_jn(l, far) / far**l)


NO_TINS = MuffinTins(np.zeros((0, 3)), np.zeros((1, 3)), 0.0, 0.0, 0, np.zeros((1, 0, 2, 1, 3, 1)), None)
