r"""Truth for the response of two electrons: S and P states with all partial waves, in functions of perimetric coordinates.

With ``u = r2 + r12 - r1``, ``v = r1 + r12 - r2``, ``w = r1 + r2 - r12`` the functions

    f = exp(-(b u + a v + (a + b) w)/2) L_i(b u) L_j(a v) L_k((a + b) w),      i + j + k <= order,

are products of an exponential exp(-a r1 - b r2) and polynomials (C. L. Pekeris, Phys. Rev. 112, 1649 (1958)); S states are
``f +- exchanged``, P states of natural parity ``r1 f +- exchanged`` with the vector r1.  All integrals are Gauss-Laguerre sums of
explicit gradients: nothing is shared with the code under test.  Elements are those of M = 0: f = 2 dE |z|^2 from S states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.laguerre import laggauss
from numpy.typing import NDArray

__all__ = ["Response", "response"]

Array = NDArray[np.float64]
Exponents = tuple[tuple[float, float], ...]

# 4 pi alpha a0^2 in Mb; steps of an inverse iteration, and its distance to the energy, hartree.
WEIGHT = 4.0 * np.pi * 28.0028520539 / 137.035999177
ROUNDS, NEAR = 6, 1e-7
# Relative eigenvalue of the overlap below which functions are dependent.
DEPENDENT = 1e-11


class Points(NamedTuple):
    """Points of the plane of nucleus and electrons: r1 along x, r2 in the upper half plane; weights with 8 pi^2 r1 r2 r12/8."""

    u: Array
    v: Array
    w: Array
    weight: Array

    @property
    def r1(self) -> Array:
        return 0.5 * (self.v + self.w)

    @property
    def r2(self) -> Array:
        return 0.5 * (self.u + self.w)

    @property
    def r12(self) -> Array:
        return 0.5 * (self.u + self.v)

    @property
    def second(self) -> tuple[Array, Array]:
        """Cartesian components of r2."""
        r1, r2 = self.r1, self.r2
        cosine = (r1**2 + r2**2 - self.r12**2) / (2.0 * r1 * r2)
        return r2 * cosine, r2 * np.sqrt(np.maximum(0.0, 1.0 - cosine**2))


def _points(scales: tuple[float, float], count: int) -> Points:
    """Return Gauss-Laguerre points in u and v with the first scale, in w with the second."""
    x, weight = laggauss(count)
    flat = weight * np.exp(x)
    u, v, w = (
        part.ravel() for part in np.meshgrid(x / scales[0], x / scales[0], x / scales[1], indexing="ij")
    )
    product = np.einsum("i,j,k->ijk", flat, flat, flat).ravel() / (scales[0] ** 2 * scales[1])
    made = Points(u, v, w, product)
    return made._replace(weight=product * 2.0 * np.pi**2 * made.r1 * made.r2 * made.r12)


def _laguerre(order: int, scale: float, x: Array) -> tuple[Array, Array]:
    """Return ``exp(-s x/2) L_k(s x)`` of k = 0, ..., order and their derivatives in x."""
    y = scale * x
    L, D = np.zeros((order + 1, x.size)), np.zeros((order + 1, x.size))
    L[0] = 1.0
    for k in range(order):
        L[k + 1] = ((2 * k + 1 - y) * L[k] - k * L[k - 1]) / (k + 1) if k else 1.0 - y
        # L_(k+1)' = L_k' - L_k
        D[k + 1] = D[k] - L[k]
    decay = np.exp(-0.5 * y)
    return L * decay, scale * (D - 0.5 * L) * decay


def _functions(exponents: Exponents, order: int, u: Array, v: Array, w: Array) -> list[Array]:
    """Return f and its derivatives in r1, r2 and r12, each (functions, points)."""
    powers = np.array(
        [(i, j, k) for i in range(order + 1) for j in range(order + 1 - i) for k in range(order + 1 - i - j)]
    )
    i, j, k = powers.T
    parts = []
    for a, b in exponents:
        (U, dU), (V, dV), (W, dW) = (_laguerre(order, s, x) for s, x in ((b, u), (a, v), (a + b, w)))
        f = U[i] * V[j] * W[k]
        fu, fv, fw = dU[i] * V[j] * W[k], U[i] * dV[j] * W[k], U[i] * V[j] * dW[k]
        parts.append([f, fv + fw - fu, fu + fw - fv, fu + fv - fw])
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Fields:
    """Components of functions, and of the gradients of the first electron and of both, at points; rows are functions."""

    values: list[Array]
    gradients: list[Array]
    total: list[Array]


def _fields(P: bool, S: int, exponents: Exponents, order: int, at: Points) -> Fields:
    f, f1, f2, f3 = _functions(exponents, order, at.u, at.v, at.w)
    # the electrons exchanged: u and v change places, and with them the derivatives in r1 and r2
    h, h2, h1, h3 = (part * (-1.0) ** S for part in _functions(exponents, order, at.v, at.u, at.w))
    (bx, by), r1 = at.second, at.r1
    cx, cy = bx / at.r2, by / at.r2
    # unit vector from electron 2 to electron 1
    dx, dy = (r1 - bx) / at.r12, -by / at.r12
    if not P:
        p1, p2, p3 = f1 + h1, f2 + h2, f3 + h3
        first = [p1 + p3 * dx, p3 * dy]
        return Fields([f + h], first, [p1 + p2 * cx, p2 * cy])
    fx, fy, hx, hy = f1 + f3 * dx, f3 * dy, h1 + h3 * dx, h3 * dy
    values = [r1 * f + bx * h, by * h]
    # d_j (r1_i f + r2_i h) of electron 1: delta_ij f, also out of the plane, and the derivatives of f and h
    return Fields(values, [f + r1 * fx + bx * hx, by * hx, r1 * fy + bx * hy, f + by * hy, f], [])


@dataclass(frozen=True, eq=False)
class Sector:
    """States of one L and spin.

    Attributes
    ----------
    P : bool
        False: S states.
    S : int
    Z : float
    exponents, order
        Of the functions.
    scales, count
        Of the points.
    """

    P: bool
    S: int
    Z: float
    exponents: Exponents
    order: int
    scales: tuple[float, float]
    count: int

    @cached_property
    def points(self) -> Points:
        return _points(self.scales, self.count)

    @cached_property
    def fields(self) -> Fields:
        return _fields(self.P, self.S, self.exponents, self.order, self.points)

    @cached_property
    def operators(self) -> tuple[Array, Array, Array]:
        """Kinetic energy, potential energy, and the columns of the orthonormal functions in which they are."""
        at = self.points
        root, potential = np.sqrt(at.weight), -self.Z / at.r1 - self.Z / at.r2 + 1.0 / at.r12
        N = sum((p * root) @ (p * root).T for p in self.fields.values)
        V = sum((p * (at.weight * potential)) @ p.T for p in self.fields.values)
        # both electrons have the same kinetic energy
        T = sum((g * root) @ (g * root).T for g in self.fields.gradients)
        unit = 1.0 / np.sqrt(np.diag(N))
        size, turn = np.linalg.eigh(unit[:, None] * N * unit)
        held = size > DEPENDENT
        X = unit[:, None] * turn[:, held] / np.sqrt(size[held])
        # one third of a norm: z is one of three directions
        return X.T @ T @ X, X.T @ V @ X, X * (np.sqrt(3.0) if self.P else 1.0)

    @cached_property
    def states(self) -> tuple[Array, Array]:
        """Energies and vectors of all states in the basis, columns."""
        T, V, X = self.operators
        energies, C = np.linalg.eigh(T + V)
        return energies, X @ C

    def turned(self, theta: float) -> NDArray[np.complex128]:
        """Return the Hamiltonian at radii that are turned by an angle, rad, among the orthonormal functions."""
        T, V, _ = self.operators
        return T * np.exp(-2j * theta) + V * np.exp(-1j * theta)


@dataclass(frozen=True, eq=False)
class Response:
    """S and P states of one spin, and the dipole between them."""

    S: Sector
    P: Sector

    @cached_property
    def dipole(self) -> Array:
        """``<P|z1 + z2|S>`` of the functions of both sectors."""
        at, below, above = self.S.points, self.S.fields, self.P.fields
        bx, by = at.second
        dipole = (at.r1 + bx, by)
        ket = below.values[0] * at.weight
        return np.asarray(sum(p @ (d * ket).T for p, d in zip(above.values, dipole, strict=True)) / 3.0)

    @cached_property
    def elements(self) -> Array:
        """``<P|z1 + z2|S>`` of all P states (rows) and S states."""
        return np.asarray(self.P.states[1].T @ self.dipole @ self.S.states[1])

    def photoabsorption(
        self, L: int, root: int, omega: Sequence[float], theta: float = 0.3
    ) -> NDArray[np.float64]:
        """Return the cross section of an S state into P states, or of a P state into S states alone, Mb.

        Parameters
        ----------
        L, root : int
            The initial state.
        omega : (e,) sequence of float
            Photon energies, hartree.
        theta : float
            Angle by which all radii are turned.
        """
        lower, upper = (self.P, self.S) if L else (self.S, self.P)
        between = upper.operators[2].T @ (self.dipole.T if L else self.dipole) @ lower.operators[2]
        # The bound state at turned radii by inverse iteration from its real energy.
        H, E = lower.turned(theta), self.energy(L, root)
        g = np.ones(len(H), complex)
        for _ in range(ROUNDS):
            g = np.linalg.solve(H - (E + NEAR) * np.eye(len(H)), g)
            g /= np.sqrt(g @ g)
        s = np.exp(1j * theta) * (between @ g)
        H = upper.turned(theta)
        resolvent = np.array([s @ np.linalg.solve(H - (E + w) * np.eye(len(H)), s) for w in omega])
        # the mean of light along z over M of a P state is a third of that of M = 0
        return np.asarray(WEIGHT * np.array(omega) * resolvent.imag / (2 * L + 1))

    def energy(self, L: int, root: int) -> float:
        """Return the energy of a state."""
        return float((self.P if L else self.S).states[0][root])

    def f(self, low: int, high: int) -> float:
        """Return the oscillator strength from an S state to a P state; negative if that lies lower."""
        dE = self.energy(1, high) - self.energy(0, low)
        return float(2.0 * dE * self.elements[high, low] ** 2)

    def alpha(self, root: int, omega: complex = 0.0) -> float:
        """Return the dipole polarisability of an S state."""
        dE = self.P.states[0] - self.energy(0, root)
        return float(np.sum(2.0 * dE * self.elements[:, root] ** 2 / (dE**2 - omega**2)).real)

    def c6(self, one: int, other: int) -> float:
        """Return C6 of two atoms in S states of this spin: the integral over imaginary frequencies of each pair of terms."""
        a, b = (self.P.states[0] - self.energy(0, root) for root in (one, other))
        fa, fb = (2.0 * dE * self.elements[:, root] ** 2 for dE, root in ((a, one), (b, other)))
        return float(1.5 * np.sum(np.outer(fa, fb) / (a[:, None] * b * np.add.outer(a, b))))

    def closure(self, root: int) -> tuple[float, float]:
        """Return ``2/3 <(r1 + r2)^2>`` and ``2/3 <(p1 + p2)^2>`` of an S state."""
        at, c = self.S.points, self.S.states[1][:, root]
        bx, by = at.second
        psi = c @ self.S.fields.values[0]
        both = [c @ part for part in self.S.fields.total]
        r2 = np.sum(at.weight * ((at.r1 + bx) ** 2 + by**2) * psi**2)
        return float(2.0 / 3.0 * r2), float(2.0 / 3.0 * sum(np.sum(at.weight * g**2) for g in both))


@lru_cache(maxsize=16)
def response(Z: float, S: int, excited: bool, order: int, count: int = 24) -> Response:
    """Return S and P states of a charge.

    Parameters
    ----------
    Z : float
    S : int
        Total spin; triplets are excited states.
    excited : bool
        Whether S states beyond the ground state are wanted.
    order : int
        Largest sum of the powers.
    count : int
        Points of each coordinate.
    """
    # exponents of an outer and an inner electron, the outer one first: it is that of the vector of P states
    outer = 0.55 * (Z - 1.0) if excited or S else 0.45 * Z
    loose: Exponents = ((outer, Z),) if Z > 1.5 else ((0.3, 1.0), (0.7, 0.95))
    compact = (0.95 * Z, 0.9 * Z)
    scales = (0.5 * (outer + Z), 1.1 * (outer + Z)) if Z > 1.5 else (0.8, 1.8)
    if excited or S:
        loose = (*loose, (1.3 * outer, 1.05 * Z))
    below = (*loose, compact) if excited or S or Z <= 1.5 else (compact, (1.1 * Z, 0.6 * Z))
    above = (*loose, compact)
    made = [Sector(P, S, Z, part, order, scales, count) for P, part in ((False, below), (True, above))]
    return Response(*made)
