r"""Coulomb energies of periodic point charges by Ewald's sums, converged to rounding.

All potentials have zero average over the cell: charges stand in a uniform neutralising background.  With :math:`\eta` of the
order of the inverse edge,

.. math::

    v(r)=\sum_T\frac{\operatorname{erfc}(\eta|r+T|)}{|r+T|}
        +\frac{4\pi}{V}\sum_{k\ne0}\frac{e^{-k^2/4\eta^2}}{k^2}\cos kr-\frac{\pi}{\eta^2V},\qquad
    \xi=\lim_{r\to0}\left(v(r)-\frac1r\right).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.system.cell import points_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.cell import Cell

__all__ = ["ewald_energy", "madelung", "potential"]

DIGITS = 6.5  # exp(-DIGITS^2) = 4e-19
CHUNK = 2**21  # numbers of a temporary array


class _Sums:
    """The two sums of a cell."""

    def __init__(self, cell: Cell) -> None:
        self.eta = float(np.sqrt(np.pi)) * cell.volume ** (-1.0 / 3.0)
        extent = 0.5 * float(np.linalg.norm(cell.reduced, axis=1).sum())
        self.cell = cell
        self.T = points_within(cell.reduced, DIGITS / self.eta + extent) @ cell.reduced
        m = points_within(cell.reciprocal, 2.0 * self.eta * DIGITS)
        k = m[np.any(m != 0, axis=1)] @ cell.reciprocal
        self.k = k
        k2 = (k**2).sum(1)
        self.weight = 4.0 * np.pi / cell.volume * np.exp(-k2 / (4.0 * self.eta**2)) / k2
        self.constant = -np.pi / (self.eta**2 * cell.volume)

    def values(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return v at displacements (n, 3), none of them a lattice vector."""
        from scipy.special import erfc

        folded = self.cell.fold(d)
        out = np.full(len(d), self.constant)
        step = max(1, CHUNK // max(len(self.T), len(self.k)))
        for begin in range(0, len(d), step):
            part = folded[begin : begin + step]
            r = np.sqrt(((part[:, None] + self.T) ** 2).sum(-1))
            out[begin : begin + step] += (erfc(self.eta * r) / r).sum(1)
            out[begin : begin + step] += np.cos(part @ self.k.T) @ self.weight
        return out

    @property
    def self_image(self) -> float:
        """Xi."""
        from scipy.special import erfc

        r = np.sqrt((self.T**2).sum(1))
        r = r[r > 0.0]
        near = float((erfc(self.eta * r) / r).sum()) - 2.0 * self.eta / float(np.sqrt(np.pi))
        return near + float(self.weight.sum()) + self.constant


def potential(cell: Cell, d: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the periodic potential v of a unit charge at displacements (n, 3) from it, hartree."""
    return _Sums(cell).values(np.asarray(d, np.float64))


def madelung(cell: Cell) -> float:
    """Return xi, twice the energy of a unit charge with its own images and background, hartree."""
    return _Sums(cell).self_image


def ewald_energy(cell: Cell, charges: NDArray[np.float64], positions: NDArray[np.float64]) -> float:
    """Return the energy per cell of point charges (n,) at positions (n, 3), images and background included, hartree."""
    q = np.asarray(charges, np.float64)
    sums = _Sums(cell)
    i, j = np.triu_indices(len(q), 1)
    between = sums.values(positions[i] - positions[j]) if i.size else np.zeros(0)
    return float((q[i] * q[j] * between).sum() + 0.5 * (q**2).sum() * sums.self_image)
