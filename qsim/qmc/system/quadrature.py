r"""Rules for averages over a sphere, for the nonlocal parts of pseudopotentials.

Each is invariant under the octahedral or icosahedral group and exact for all spherical harmonics up to a degree: 6 points (3),
12 (5, icosahedron), 18 (5), 26 (7), 32 (9, icosahedral), 50 (11).  References: McLaren, Math. Comp. 17, 361 (1963); Lebedev, USSR
Comp. Math. 15, 44 (1975); Mitas, Shirley and Ceperley, J. Chem. Phys. 95, 3467 (1991).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXACT_TO", "Rule", "legendre", "random_rotation", "rule"]

#: Degree to which each rule, named by its number of points, is exact.
EXACT_TO: dict[int, int] = {6: 3, 12: 5, 18: 5, 26: 7, 32: 9, 50: 11}


class Rule(NamedTuple):
    """Unit vectors (Q, 3) and weights (Q,) of sum 1."""

    points: NDArray[np.float64]
    weights: NDArray[np.float64]


def rule(size: int) -> Rule:
    """Return the rule of 6, 12, 18, 26, 32 or 50 points.

    Raises
    ------
    ValueError
        For other sizes.
    """
    if size not in EXACT_TO:
        raise ValueError(f"spherical rules have {', '.join(map(str, EXACT_TO))} points, not {size}")
    third = 1.0 / math.sqrt(3.0)
    axes = _orbit((1.0, 0.0, 0.0))
    edges = _orbit((math.sqrt(0.5), math.sqrt(0.5), 0.0))
    corners = _orbit((third, third, third))
    if size == 6:
        parts = [(axes, 1 / 6)]
    elif size == 12:
        parts = [(_icosahedron(), 1 / 12)]
    elif size == 18:
        parts = [(axes, 1 / 30), (edges, 1 / 15)]
    elif size == 26:
        parts = [(axes, 1 / 21), (edges, 4 / 105), (corners, 9 / 280)]
    elif size == 32:
        parts = [(_icosahedron(), 5 / 168), (_dodecahedron(), 27 / 840)]
    else:
        small = 1.0 / math.sqrt(11.0)
        parts = [
            (axes, 4 / 315),
            (edges, 64 / 2835),
            (corners, 27 / 1280),
            (_orbit((small, small, 3.0 * small)), 14641 / 725760),
        ]
    points = np.concatenate([points for points, _ in parts])
    return Rule(points, np.concatenate([np.full(len(points), weight) for points, weight in parts]))


def legendre(count: int, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Legendre polynomials P_0 ... P_(count-1) at x (...,): (count, ...) float64."""
    x = np.asarray(x, np.float64)
    out = np.ones((max(count, 2), *x.shape))
    out[1] = x
    for k in range(2, count):
        out[k] = ((2 * k - 1) * x * out[k - 1] - (k - 1) * out[k - 2]) / k
    return out[:count]


def random_rotation(generator: np.random.Generator) -> NDArray[np.float64]:
    """Return a rotation matrix (3, 3) drawn uniformly, from a normalised quaternion of four normals."""
    w, x, y, z = (q := generator.normal(size=4)) / np.sqrt(q @ q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _orbit(point: tuple[float, float, float]) -> NDArray[np.float64]:
    """Return all distinct permutations and reflections of a point."""
    images = {
        tuple(sign * x + 0.0 for sign, x in zip(signs, p, strict=True))
        for p in itertools.permutations(point)
        for signs in itertools.product((1.0, -1.0), repeat=3)
    }
    return np.array(sorted(images, reverse=True))


def _icosahedron() -> NDArray[np.float64]:
    """Return the poles and two rings of five at the polar angle atan 2."""
    latitude = math.atan(2.0)
    points = [(0.0, 0.0, 1.0), (0.0, 0.0, -1.0)]
    for k in range(5):
        for angle, shift in ((latitude, 0.0), (math.pi - latitude, 1.0)):
            phi = (2 * k + shift) * math.pi / 5
            points.append((math.sin(angle) * math.cos(phi), math.sin(angle) * math.sin(phi), math.cos(angle)))
    return np.array(points)


def _dodecahedron() -> NDArray[np.float64]:
    """Return the 20 directions of the centres of that icosahedron's faces."""
    vertices = _icosahedron()
    near = vertices @ vertices.T > 0.4  # neighbours have 1/sqrt(5) = 0.447, others less
    faces = [
        vertices[i] + vertices[j] + vertices[k]
        for i, j, k in itertools.combinations(range(12), 3)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    return np.array([face / np.linalg.norm(face) for face in faces])
