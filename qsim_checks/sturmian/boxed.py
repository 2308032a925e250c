"""Truth for slow electrons: two electrons in a sphere with a wall, whose levels tell the phase of the electron that is far out.

With the target in 1s and the other electron at the wall of radius W, its function vanishes there,

    F_L(kW) cos(delta) + G_L(kW) sin(delta) = 0,        tan(delta) = j_L(kW) / y_L(kW),        k^2/2 = E_n - E_1s,

for every level E_n of the sphere below the first excitation.  The energies are those that the wall chooses.  The functions of
each l are some that decay and the sines of the sphere, made orthonormal; nothing is used of contours, sources or amplitudes.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.linalg import eigh, svd
from scipy.special import spherical_jn, spherical_yn

from qsim_checks.sturmian.oracle import Functions, Symmetry, _panel

__all__ = ["Sphere", "beyond_the_wall", "phases"]

INTERVALS, NODES = 30, 16
DEPENDENT = 1e-7  # singular value from which a function is one of the others
POLARISABILITY = 4.5  # of hydrogen, bohr^3
CORE = 3.0  # bohr: the sines begin beyond this

Array = NDArray[np.float64]


class Sphere(Functions):
    """Functions that vanish at a wall, of an electron in the field of a proton.

    Parameters
    ----------
    wall : float
        Bohr.
    near, far : int
        Functions that decay, and sines, of each l.
    """

    def __init__(self, wall: float, near: int, far: int) -> None:
        super().__init__(0.5, 2.0, near, lambda r: -1.0 / r)
        self.wall, self.near, self.far = wall, near, far
        bounds = wall * (np.arange(INTERVALS + 1) / INTERVALS) ** 2
        x, w, self._to_node = _panel(NODES)
        self.widths = np.diff(bounds)
        self.r = (bounds[:-1, None] + self.widths[:, None] * x).ravel()
        self.w = (self.widths[:, None] * w).ravel()
        self.count = min(self.functions(l)[0].shape[0] for l in range(3))

    def functions(self, l: int) -> tuple[Array, Array]:
        """Return the functions and their derivatives at the nodes, (count, points)."""
        if l in self._functions:
            u, slope = self._functions[l]
            return u[: self.count], slope[: self.count]
        self.count = self.near
        u, slope = super().functions(l)
        # Nothing is left of these at the wall but what a straight line takes away.
        fall = 1.0 - self.r / self.wall
        u, slope = u * fall, slope * fall - u / self.wall
        n = np.arange(1, self.far + 1)[:, None] * math.pi / self.wall
        # The sines begin like r^(l + 1).
        front = -np.expm1(-self.r / CORE)
        rise = np.exp(-self.r / CORE) / CORE
        sine, cosine = np.sin(n * self.r), n * np.cos(n * self.r)
        power = front**l
        steep = l * front ** (l - 1) * rise if l else np.zeros_like(self.r)
        every = np.concatenate((u, sine * power))
        slopes = np.concatenate((slope, cosine * power + sine * steep))
        norms = np.sqrt((every**2 * self.w).sum(axis=1))[:, None]
        every, slopes = every / norms, slopes / norms
        left, s, _ = svd(every * np.sqrt(self.w), full_matrices=False)
        mixed = (left[:, s > DEPENDENT] / s[s > DEPENDENT]).T
        self._functions[l] = mixed @ every, mixed @ slopes
        return self._functions[l]


@lru_cache(maxsize=8)
def phases(
    L: int, S: int, pairs: tuple[tuple[int, int], ...], wall: float, near: int, far: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return impact energies, hartree, and phases modulo pi of the levels of a sphere below the first excitation."""
    sphere = Sphere(wall, near, far)
    values = eigh(sphere.matrix(Symmetry(L, S, pairs)), eigvals_only=True)
    target = float(eigh(sphere.one_body(0), eigvals_only=True)[0])
    energies = [float(E - target) for E in values if 0.0 < E - target < 0.3]
    k = np.sqrt(2.0 * np.array(energies))
    delta = np.arctan(spherical_jn(L, k * wall) / spherical_yn(L, k * wall)) % math.pi
    return tuple(energies), tuple(float(value) for value in delta)


def beyond_the_wall(L: int, pairs: tuple[tuple[int, int], ...], k: float, delta: float, wall: float) -> float:
    """Return what the polarisation of hydrogen beyond a wall adds to a phase in first order, radian."""
    # The target goes to p and the other electron to L - 1 or L + 1: 3j symbols squared.
    weights = {L - 1: L / (2 * L + 1), L + 1: (L + 1) / (2 * L + 1)}
    alpha = POLARISABILITY * sum(w for l, w in weights.items() if (min(1, l), max(1, l)) in pairs)

    def squared(r: float) -> float:
        x = k * r
        wave = x * (math.cos(delta) * spherical_jn(L, x) - math.sin(delta) * spherical_yn(L, x))
        return float(wave**2 / r**4)

    return float(alpha / k * quad(squared, wall, 20.0 * wall, limit=400)[0]) if alpha else 0.0
