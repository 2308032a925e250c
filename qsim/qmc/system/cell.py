r"""Periodic cells: lattice vectors as rows, :math:`r=uA`; reciprocal vectors :math:`B=2\pi A^{-T}`; nearest images.

A vector is folded by rounding its lattice coordinates in a reduced basis.  If what remains is shorter than half the shortest
lattice vector, the Wigner-Seitz radius :math:`r_\mathrm{ws}`, no image is nearer; otherwise a few images have to be tried,
those that can come within a given distance of the origin from anywhere in the folded cell (none for rectangular ones).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Cell", "distances_of_cells", "points_within", "reduced_basis"]

FLAT = 1e-6  # volume over the product of the edges, below which a cell is flat
LONGEST = 1e4  # bohr of a lattice vector: waves of the longest wavelength would be counted in thousands
NEIGHBOURS = np.array(list(itertools.product((-1, 0, 1), repeat=3)))
SWEEPS = 200  # of a reduction; a few are needed for cells that are not made to be nasty


def reduced_basis(lattice: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a basis of the same lattice in which no vector gets shorter by adding others (Minkowski, in three dimensions)."""
    a = np.array(lattice, np.float64)
    shifts = np.array(list(itertools.product((-1, 0, 1), repeat=2)))
    for _ in range(SWEEPS):
        # Shortest first; then the second by the first (Gauss), and the third by the plane of
        # both.
        a = a[np.argsort((a * a).sum(1), kind="stable")]
        q = round(float(a[0] @ a[1] / (a[0] @ a[0])))
        if q:
            a[1] = a[1] - q * a[0]
            continue
        plane = a[:2]
        # Coordinates of the projection, rounded; its neighbours in the plane may be closer.
        near = np.rint(np.linalg.solve(plane @ plane.T, plane @ a[2]))
        candidates = a[2] - (near + shifts) @ plane
        sizes = (candidates * candidates).sum(1)
        best = int(np.argmin(sizes))
        if sizes[best] < (a[2] @ a[2]) * (1.0 - 1e-12):
            a[2] = candidates[best]
            continue
        break
    return a


def points_within(basis: NDArray[np.float64], radius: float) -> NDArray[np.int64]:
    """Return the integers (n, 3) of all points of a lattice (rows of `basis`) within a radius of the origin."""
    inverse = np.linalg.inv(basis)
    # A point m has |m_d| <= radius |column d of the inverse|.
    most = [int(np.floor(radius * np.linalg.norm(inverse[:, d]) + 1e-9)) for d in range(3)]
    grid = np.stack(np.meshgrid(*[np.arange(-m, m + 1) for m in most], indexing="ij"), -1).reshape(-1, 3)
    return np.asarray(grid[((grid @ basis) ** 2).sum(1) <= radius**2 * (1.0 + 1e-12)], np.int64)


def distances_of_cells(basis: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how near the cells around some centres (n, 3) come to the origin, bohr.

    A cell holds the centre plus ``u @ basis`` with all ``|u| <= 1/2``.  Its nearest point lies in one of its 27 parts (inside,
    faces, edges, corners), where it is the foot of the perpendicular on the space of that part.
    """
    least = np.full(len(centres), np.inf)
    for sides in NEIGHBOURS:
        # coordinates that are free in this part; the others are at their ends
        free = basis[sides == 0]
        foot = centres + 0.5 * sides @ basis
        u = -foot @ np.linalg.pinv(free)
        foot = foot + u @ free
        # rounding must not lose a foot on the border to all parts that meet there
        within = (np.abs(u) <= 0.5 * (1.0 + 1e-9)).all(axis=1)
        least = np.where(within, np.minimum(least, np.linalg.norm(foot, axis=1)), least)
    return least


@dataclass(frozen=True)
class Cell:
    """A cell of a crystal, or a supercell.

    Attributes
    ----------
    lattice : (3, 3) float64
        Rows are lattice vectors, bohr.
    """

    lattice: NDArray[np.float64]

    @classmethod
    def of(cls, lattice: ArrayLike, key: str = "system.lattice") -> Cell:
        """Build and check a cell.

        Raises
        ------
        InvalidInput
            If the vectors lie in a plane, or one is longer than `LONGEST`.
        """
        a = np.array(lattice, np.float64)
        edges = np.linalg.norm(a, axis=1)
        # Volume relative to the edges: a lattice may be small, but not flat.
        volume = abs(float(np.linalg.det(a)))
        if not volume > FLAT * float(np.prod(edges)) or not edges.all():
            raise InvalidInput(
                key,
                f"the lattice vectors lie in a plane or are zero (volume {volume:g} bohr^3, edges "
                f"{', '.join(f'{x:g}' for x in edges)} bohr)",
            )
        if edges.max() > LONGEST:
            raise InvalidInput(
                key,
                f"a lattice vector is {edges.max():.3g} bohr long; at most {LONGEST:g} bohr are supported",
            )
        return cls(a)

    @cached_property
    def volume(self) -> float:
        """Volume, bohr^3."""
        return abs(float(np.linalg.det(self.lattice)))

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """``A^-1``: lattice coordinates are ``r @ inverse``."""
        return np.asarray(np.linalg.inv(self.lattice), np.float64)

    @cached_property
    def reciprocal(self) -> NDArray[np.float64]:
        """Rows are reciprocal vectors with the factor 2 pi, 1/bohr."""
        return 2.0 * np.pi * self.inverse.T

    @cached_property
    def shortest_wave(self) -> float:
        """Length of the shortest reciprocal vector but 0, 1/bohr."""
        basis = self.reciprocal
        waves = points_within(basis, float(np.linalg.norm(basis, axis=1).min()))
        return float(np.linalg.norm(waves[waves.any(axis=1)] @ basis, axis=1).min())

    @cached_property
    def reduced(self) -> NDArray[np.float64]:
        """Reduced basis of the lattice, by which vectors are folded."""
        return reduced_basis(self.lattice)

    @cached_property
    def radius(self) -> float:
        """Wigner-Seitz radius: half the shortest lattice vector, bohr."""
        return 0.5 * float(np.sqrt((self.reduced**2).sum(1).min()))

    def images(self, reach: float) -> NDArray[np.float64]:
        """Return the lattice vectors (n, 3) that can bring a folded vector within `reach`; the first one is zero."""
        a = self.reduced
        # A folded vector lies in the cell around the origin; t matters if the cell around t
        # comes within the reach of the origin.
        outer = reach + 0.5 * float(np.linalg.norm(a, axis=1).sum())
        others = np.array([m @ a for m in points_within(a, outer) if m.any()]).reshape(-1, 3)
        near = others[distances_of_cells(a, others) < reach * (1.0 - 1e-9)]
        return np.array([np.zeros(3), *sorted(near, key=lambda t: float(t @ t))])

    @cached_property
    def near(self) -> NDArray[np.float64]:
        """Lattice vectors (2 n + 1, 3) that can bring a folded vector within the radius: zero, n of them, and their negatives."""
        found = self.images(self.radius)[1:]
        half = found[[tuple(t) > (0.0, 0.0, 0.0) for t in found]]
        return np.concatenate([np.zeros((1, 3)), half, -half])

    def fold(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return vectors (..., 3) with lattice coordinates of the reduced basis within -1/2 ... 1/2."""
        u = d @ np.linalg.inv(self.reduced)
        return np.asarray((u - np.rint(u)) @ self.reduced)

    def nearest(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shortest images of vectors (..., 3): of a folded one, all neighbours in the reduced basis are tried."""
        folded = self.fold(np.asarray(d, np.float64))
        # All 27 neighbours: more than needed in a reduced basis, but plain.
        candidates = folded[..., None, :] + NEIGHBOURS @ self.reduced
        best = np.argmin((candidates**2).sum(-1), axis=-1)
        return np.take_along_axis(candidates, best[..., None, None], axis=-2)[..., 0, :]
