r"""Tricubic B-splines through Bloch functions: their mesh, their coefficients, and what they cost in kinetic energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.cell import Cell

__all__ = ["PADDING", "Function", "kinetic_error", "mesh_for", "sampled", "spline_coefficients"]

ALIASES = 6  # of a spline, in the estimate of its error
SHIFT = np.array([0.31, 0.57, 0.83])  # of a mesh of samples, so that no point is an ion
PADDING = 3  # more points of a table for each axis


@dataclass(frozen=True)
class Function:
    """One Bloch function: one real orbital, or real and imaginary part.

    Attributes
    ----------
    kappa : (3,) float64
        In reciprocal vectors of the primitive cell; of a bare plane wave in 1/bohr.
    gvectors : (n, 3) int64
    coefficients : (n,) complex128
    parts
        1: real, with ``2 kappa`` whole; 2: complex.
    energy
        Hartree.
    kinetic
        Kinetic energy of the band that the plane waves stand for, hartree; None where they are the band itself.
    """

    kappa: NDArray[np.float64]
    gvectors: NDArray[np.int64]
    coefficients: NDArray[np.complex128]
    parts: int
    energy: float
    kinetic: float | None = None

    def kinetic_lost(self, cell: Cell) -> float:
        """Return by how much the kinetic energy of the plane waves differs from that of the band, hartree."""
        if self.kinetic is None:
            return 0.0
        k2 = (((self.gvectors + self.kappa) @ cell.reciprocal) ** 2).sum(1)
        weight = np.abs(self.coefficients) ** 2
        return float(0.5 * (weight @ k2) / weight.sum() - self.kinetic)


def mesh_for(functions: list[list[Function]], meshfactor: float) -> tuple[int, int, int]:
    """Return the points of the splines along each axis: 4 meshfactor times the largest component of G, even."""
    largest = np.max([np.abs(f.gvectors).max(0) for spin in functions for f in spin], axis=0)
    points = [int(np.ceil(4.0 * meshfactor * int(x) - 1e-9)) for x in largest]
    x, y, z = (max(4, n + n % 2) for n in points)
    return x, y, z


def spline_coefficients(function: Function, mesh: tuple[int, int, int]) -> NDArray[np.complex128]:
    """Return the coefficients (n0 + 3, n1 + 3, n2 + 3) of the tricubic spline through a function's values on its mesh.

    The first one belongs to the point before the origin.  Each plane wave is divided by ``prod_d (4 + 2 cos theta_d) / 6`` with
    its phase theta from one point to the next; the values beyond the cell have the phase of the k point.
    """
    grid = np.zeros(mesh, np.complex128)
    n = np.array(mesh)
    theta = 2.0 * np.pi * (function.gvectors + function.kappa) / n
    filtered = function.coefficients / np.prod((4.0 + 2.0 * np.cos(theta)) / 6.0, axis=1)
    x, y, z = (function.gvectors % n).T
    np.add.at(grid, (x, y, z), filtered)
    values = np.fft.ifftn(grid) * grid.size
    indices = [np.arange(-1, m + 2) for m in mesh]
    values = values[np.ix_(*(i % m for i, m in zip(indices, mesh, strict=True)))]
    for axis, (i, m) in enumerate(zip(indices, mesh, strict=True)):
        shape = [1, 1, 1]
        shape[axis] = len(i)
        values = values * np.exp(2j * np.pi * function.kappa[axis] * i / m).reshape(shape)
    return np.asarray(values, np.complex128)


def kinetic_error(function: Function, mesh: tuple[int, int, int], cell: Cell) -> float:
    """Return by how much the kinetic energy of a spline differs from that of its plane waves, hartree.

    The spline through a wave of phase theta per point has waves ``theta + 2 pi m`` of amplitudes ``sinc^4((theta + 2 pi m)/2)
    / ((4 + 2 cos theta)/6)``; those of different plane waves do not meet on a mesh that holds them all.
    """
    n = np.array(mesh)
    k = 2.0 * np.pi * (function.gvectors + function.kappa)
    theta = k / n
    waves = theta[..., None] + 2.0 * np.pi * np.arange(-ALIASES, ALIASES + 1)
    amplitude = np.sinc(waves / (2.0 * np.pi)) ** 4 / ((4.0 + 2.0 * np.cos(theta)) / 6.0)[..., None]
    moments = [(amplitude**2 * (waves * n[:, None]) ** p).sum(-1) for p in range(3)]
    weight = np.abs(function.coefficients) ** 2
    metric = cell.inverse.T @ cell.inverse
    norm = np.prod(moments[0], axis=1)
    total = np.zeros(len(weight))
    for a in range(3):
        for b in range(3):
            if a == b:
                term = moments[2][:, a] / moments[0][:, a]
            else:
                term = moments[1][:, a] * moments[1][:, b] / (moments[0][:, a] * moments[0][:, b])
            total += metric[a, b] * term * norm
    exact = np.einsum("na,ab,nb->n", k, metric, k)
    return float(0.5 * ((weight * total).sum() / (weight * norm).sum() - (weight * exact).sum()))


def sampled(
    functions: list[Function], mesh: tuple[int, int, int], cell: Cell
) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
    """Return values and gradients (n, 4, P) of functions at all points of a shifted mesh, and the points (n, 3) in bohr.

    The sums over plane waves are Fourier transforms whatever the mesh: at its points, waves that differ by multiples of it agree.
    """
    n = np.array(mesh)
    u = (np.stack(np.meshgrid(*[np.arange(m) for m in mesh], indexing="ij"), -1).reshape(-1, 3) + SHIFT) / n
    out = np.empty((len(u), 4, len(functions)), np.complex128)
    for p, function in enumerate(functions):
        k = function.gvectors + function.kappa
        c = function.coefficients * np.exp(2j * np.pi * k @ (SHIFT / n))
        factors = np.concatenate([np.ones((1, len(k))), 1j * (k @ cell.reciprocal).T])
        for j, factor in enumerate(factors):
            grid = np.zeros(mesh, np.complex128)
            np.add.at(grid, tuple((function.gvectors % n).T), factor * c)
            out[:, j, p] = np.fft.ifftn(grid).ravel() * grid.size
        out[:, :, p] *= np.exp(2j * np.pi * (u - SHIFT / n) @ function.kappa)[:, None]
    return out, u @ cell.lattice
