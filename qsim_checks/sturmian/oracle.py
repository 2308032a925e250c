"""Truth for coverage: two electrons in rational Chebyshev functions, with none of the code under test.

The radial functions of each l are ``r^(l+1) exp(-k r) T_n((r - d) / (r + d))``, made orthonormal on the half line: there is no
box and no grid, and they resolve lengths of every size.  Integrals are made by composite Gauss-Legendre quadrature that knows
where the potential is not smooth; those of the repulsion by integrating the interpolated pair densities within each interval, so
that the kink of ``r<^l / r>^(l+1)`` costs nothing.  The matrix of all pairs is diagonalised by LAPACK.  Energies are upper bounds
from the variational principle, and converge like a fifth power of the number of functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.linalg import eigh, qr

__all__ = ["Functions", "Symmetry", "energies", "moments"]

NODES = 16  # Gauss-Legendre points of an interval
INTERVALS = 24  # of the whole range, before the breaks are added
LESS = 4  # functions left out to see how far the energies have converged
EXPONENTS = (0.06, 0.16, 0.32, 0.6)  # tried, relative to the charge
MIDDLES = (1.0, 3.0)  # of the functions, times the charge, bohr
TRIED = 9  # functions with which exponent and middle are chosen

Array = NDArray[np.float64]
Potential = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Symmetry:
    """Total momentum and spin of two electrons, and the pairs of orbital momenta that are kept (la <= lb)."""

    L: int
    S: int
    pairs: tuple[tuple[int, int], ...]


# ------------------------------------------------------------------------------------------ angular parts


def _triangle(a: int, b: int, c: int) -> float:
    f = math.factorial
    return f(a + b - c) * f(a - b + c) * f(-a + b + c) / f(a + b + c + 1)


def _three_j_zero(a: int, b: int, c: int) -> float:
    """Return the 3j symbol of a, b, c with zero projections."""
    total = a + b + c
    if total % 2 or not abs(a - b) <= c <= a + b:
        return 0.0
    g, f = total // 2, math.factorial
    return (-1) ** g * math.sqrt(_triangle(a, b, c)) * f(g) / (f(g - a) * f(g - b) * f(g - c))


def _six_j(a: int, b: int, c: int, d: int, e: int, g: int) -> float:
    """Return the 6j symbol {a b c; d e g} by Racah's sum."""
    triads = ((a, b, c), (a, e, g), (d, b, g), (d, e, c))
    if any(not abs(x - y) <= z <= x + y for x, y, z in triads):
        return 0.0
    f = math.factorial
    low = max(sum(triad) for triad in triads)
    tops = (a + b + d + e, b + c + e + g, c + a + g + d)
    total = 0.0
    for t in range(low, min(tops) + 1):
        bottom = math.prod(f(t - sum(triad)) for triad in triads) * math.prod(f(top - t) for top in tops)
        total += (-1) ** t * f(t + 1) / bottom
    return total * math.prod(math.sqrt(_triangle(*triad)) for triad in triads)


def coefficient(L: int, bra: tuple[int, int], ket: tuple[int, int], l: int) -> float:
    """Return the angular factor of ``r<^l / r>^(l+1)`` between two coupled pairs."""
    (a, b), (c, d) = bra, ket
    root = math.sqrt((2 * a + 1) * (2 * b + 1) * (2 * c + 1) * (2 * d + 1))
    threes = _three_j_zero(a, l, c) * _three_j_zero(b, l, d)
    return (-1) ** (L + b + d) * root * threes * _six_j(L, b, a, l, c, d) if threes else 0.0


# ------------------------------------------------------------------------------------------- radial parts


@lru_cache(maxsize=4)
def _panel(n: int) -> tuple[Array, Array, Array]:
    """Return Gauss-Legendre nodes and weights on [0, 1], and the matrix of the integrals from 0 to each node."""
    x, w = np.polynomial.legendre.leggauss(n)
    P = np.polynomial.legendre.legvander(x, n)
    # the integral of P_k from -1 to x is (P_(k+1) - P_(k-1)) / (2k+1)
    k = np.arange(1, n)
    integral = np.empty((n, n))
    integral[:, 0] = x + 1.0
    integral[:, 1:] = (P[:, k + 1] - P[:, k - 1]) / (2 * k + 1)
    inverse = (P[:, :n] * (np.arange(n) + 0.5)).T * w  # values to Legendre coefficients
    return 0.5 * (x + 1.0), 0.5 * w, 0.5 * integral @ inverse


class Functions:
    """Functions of one exponent and middle, their quadrature, and their integrals.

    Parameters
    ----------
    exponent : float
        k of ``exp(-k r)``, 1/bohr.
    middle : float
        Radius d that is the middle of the Chebyshev polynomials' range, bohr.
    count : int
        Functions of each l.
    potential
        Potential energy of one electron, hartree.
    breaks
        Radii where the potential is not smooth, bohr.
    turn : float or complex
        Factor of the radii in all operators: ``exp(i theta)`` turns them into the complex plane.
    """

    def __init__(
        self,
        exponent: float,
        middle: float,
        count: int,
        potential: Potential,
        breaks: Sequence[float] = (),
        turn: complex = 1.0,
    ) -> None:
        self.turn = turn
        self.exponent, self.middle, self.count, self.potential = exponent, middle, count, potential
        self._repulsion: dict[tuple[int, tuple[int, int], tuple[int, int]], Array] = {}
        self._functions: dict[int, tuple[Array, Array]] = {}
        end = 45.0 / exponent
        bounds = end * (np.arange(INTERVALS + 1) / INTERVALS) ** 3
        bounds = np.unique(np.concatenate((bounds, [b for b in breaks if 0.0 < b < end])))
        bounds = bounds[np.concatenate(([True], np.diff(bounds) > 1e-9))]
        x, w, self._to_node = _panel(NODES)
        self.widths = np.diff(bounds)
        self.r = (bounds[:-1, None] + self.widths[:, None] * x).ravel()
        self.w = (self.widths[:, None] * w).ravel()

    @cached_property
    def V(self) -> Array:
        """Potential at the nodes."""
        return np.asarray(self.potential(self.turn * self.r))

    def functions(self, l: int) -> tuple[Array, Array]:
        """Return the functions and their derivatives at the nodes, (count, points)."""
        if l not in self._functions:
            k, d, r = self.exponent, self.middle, self.r
            x = (r - d) / (r + d)
            T = chebyshev.chebvander(x, self.count - 1).T
            slopes = chebyshev.chebval(x, chebyshev.chebder(np.eye(self.count)))
            front = (k * r) ** (l + 1) * np.exp(-k * r)
            u = front * T
            slope = u * ((l + 1) / r - k) + front * slopes * 2.0 * d / (r + d) ** 2
            R = qr((u * np.sqrt(self.w)).T, mode="r")[0][: self.count]
            self._functions[l] = (np.linalg.solve(R.T, u), np.linalg.solve(R.T, slope))
        return self._functions[l]

    def one_body(self, l: int) -> Array:
        """Return the one-electron Hamiltonian, (count, count)."""
        u, slope = self.functions(l)
        weight = self.w * (self.V + 0.5 * l * (l + 1) / (self.turn * self.r) ** 2)
        return np.asarray(0.5 / self.turn**2 * (slope * self.w) @ slope.T + (u * weight) @ u.T)

    def potential_of(self, density: Array, l: int) -> Array:
        """Return ``int r<^l / r>^(l+1) density dr'`` at the nodes; density (m, points)."""
        m, n = density.shape[0], NODES
        inner = (density * self.r**l).reshape(m, -1, n)
        outer = (density * self.r ** (-l - 1.0)).reshape(m, -1, n)
        w = (self.w).reshape(-1, n)

        def cumulative(values: Array) -> tuple[Array, Array]:
            whole = (values * w).sum(axis=2)
            before = np.cumsum(whole, axis=1) - whole
            within = np.einsum("mei,ji,e->mej", values, self._to_node, self.widths, optimize=True)
            return (before[:, :, None] + within).reshape(m, -1), whole.sum(axis=1)

        low, _ = cumulative(inner)
        high, total = cumulative(outer)
        return low * self.r ** (-l - 1.0) + (total[:, None] - high) * self.r**l

    def repulsion(self, l: int, left: tuple[int, int], right: tuple[int, int]) -> Array:
        """Return ``R[a, c, b, d]``: densities a c of one electron (momenta ``left``) and b d of the other."""
        key, N = (l, left, right), self.count
        if key in self._repulsion:
            return self._repulsion[key]
        rho = (self.functions(left[0])[0][:, None] * self.functions(left[1])[0][None]).reshape(N * N, -1)
        sigma = (self.functions(right[0])[0][:, None] * self.functions(right[1])[0][None]).reshape(N * N, -1)
        R = (rho * self.w) @ self.potential_of(sigma, l).T
        self._repulsion[key] = R.reshape(N, N, N, N)
        return self._repulsion[key]

    # ------------------------------------------------------------------------------------ two electrons

    def direct(self, L: int, bra: tuple[int, int], ket: tuple[int, int]) -> Array:
        """Return ``<a b|H|c d>`` as (a, b, c, d)."""
        N = self.count
        H = np.zeros((N, N, N, N), type(self.turn))
        for l in range(
            max(abs(bra[0] - ket[0]), abs(bra[1] - ket[1])), min(bra[0] + ket[0], bra[1] + ket[1]) + 1
        ):
            if A := coefficient(L, bra, ket, l):
                H += (
                    A
                    / self.turn
                    * self.repulsion(l, (bra[0], ket[0]), (bra[1], ket[1])).transpose(0, 2, 1, 3)
                )
        if bra == ket:
            one = np.eye(N)
            H += np.einsum("ac,bd->abcd", self.one_body(bra[0]), one)
            H += np.einsum("ac,bd->abcd", one, self.one_body(bra[1]))
        return H

    def matrix(self, symmetry: Symmetry, count: int | None = None) -> Array:
        """Return the Hamiltonian between all exchange-symmetric products, of the first functions only if asked."""
        n = self.count if count is None else count
        rows, blocks = [], []
        for la, lb in symmetry.pairs:
            sign = -1 if (la + lb - symmetry.L + symmetry.S) % 2 else 1
            a, b = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
            kept = np.ones_like(a, bool)
            if la == lb:
                kept = a <= b if sign > 0 else a < b
            factor = np.where((a == b) & (la == lb), math.sqrt(0.5), 1.0)
            rows.append((sign, a[kept], b[kept], factor[kept]))
        for p, bra in enumerate(symmetry.pairs):
            _, a, b, f = rows[p]
            line = []
            for q, ket in enumerate(symmetry.pairs):
                sign, c, d, g = rows[q]
                D = self.direct(symmetry.L, bra, ket)[a, b][:, c, d]
                X = self.direct(symmetry.L, bra, ket[::-1])[a, b][:, d, c]
                line.append(f[:, None] * (D + sign * X) * g)
            blocks.append(line)
        H = np.block(blocks)
        return 0.5 * (H + H.T)

    def lowest(self, symmetry: Symmetry, roots: int, count: int | None = None) -> Array:
        """Return the lowest energies, hartree; infinite ones where the basis has no more."""
        H = self.matrix(symmetry, count)
        found = eigh(H, eigvals_only=True, subset_by_index=(0, min(roots, len(H)) - 1), check_finite=False)
        return np.concatenate((found, np.full(roots - len(found), np.inf)))


class _Weighted(Functions):
    """The same functions with another operator: a function of each radius, or a factor g(r1) g(r2) of the cosine between."""

    def __init__(self, own: Functions, one: Potential | None, between: Potential | None) -> None:
        self.__dict__.update(own.__dict__)
        self.one, self.between = one, between

    def one_body(self, l: int) -> Array:
        """Return the matrix of the function of the radius, (count, count)."""
        u = self.functions(l)[0]
        return np.zeros((self.count,) * 2) if self.one is None else (u * self.w * self.one(self.r)) @ u.T

    def repulsion(self, l: int, left: tuple[int, int], right: tuple[int, int]) -> Array:
        """Return the product of the matrices of g, of the multipole 1 alone."""
        if self.between is None or l != 1:
            return np.zeros((self.count,) * 4)
        g = self.w * self.between(self.r)
        a, c = (self.functions(one)[0] for one in left)
        b, d = (self.functions(one)[0] for one in right)
        return np.einsum("ac,bd->acbd", (a * g) @ c.T, (b * g) @ d.T)


class _Free(Functions):
    """The same functions without repulsion."""

    def __init__(self, own: Functions) -> None:
        self.__dict__.update(own.__dict__)

    def repulsion(self, l: int, left: tuple[int, int], right: tuple[int, int]) -> Array:
        """Return nothing."""
        return np.zeros((self.count,) * 4)


def moments(
    symmetry: Symmetry, root: int, potential: Potential, charge: float, *, breaks: Sequence[float] = ()
) -> dict[str, tuple[float, float]]:
    """Return the expectation values of a state by the names of the run, each with its error, atomic units."""
    k, d = _shape(symmetry, root + 1, potential, charge, breaks)
    count = 14 + 2 * root
    found, *fewer = (
        _moments(Functions(k * charge, d / charge, n, potential, breaks), symmetry, root)
        for n in (count, count - LESS // 2, count - LESS)
    )
    # the means of a state that is not converged need not rise or fall steadily: one difference can pass through zero
    off = {
        name: max(factor * abs(value - less[name]) for factor, less in zip((8.0, 4.0), fewer, strict=True))
        for name, value in found.items()
    }
    return {name: (value, off[name] + 1e-9 * (1.0 + abs(value))) for name, value in found.items()}


def _moments(basis: Functions, symmetry: Symmetry, root: int) -> dict[str, float]:
    """Return the expectation values of a state in a basis."""
    _, vectors = eigh(basis.matrix(symmetry), subset_by_index=(root, root))
    c = vectors[:, 0]

    def mean(functions: Functions) -> float:
        return float(c @ functions.matrix(symmetry) @ c)

    def each(one: Potential) -> float:
        return mean(_Weighted(basis, one, None))

    whole, free, nuclear = mean(basis), mean(_Free(basis)), each(basis.potential)
    r2, dot = 0.5 * each(lambda r: r**2), mean(_Weighted(basis, None, lambda r: r))
    return {
        "mean_r": 0.5 * each(lambda r: r),
        "mean_r2": r2,
        "mean_inv_r": 0.5 * each(lambda r: 1.0 / r),
        "mean_inv_r2": 0.5 * each(lambda r: 1.0 / r**2),
        "mean_r1_dot_r2": dot,
        "mean_r12_squared": 2.0 * (r2 - dot),
        "mean_cos_theta12": mean(_Weighted(basis, None, np.ones_like)),
        "mean_inv_r12": whole - free,
        "repulsion": whole - free,
        "nuclear": nuclear,
        "kinetic": free - nuclear,
        "virial_ratio": -(nuclear + whole - free) / (free - nuclear),
    }


def _shape(
    symmetry: Symmetry, roots: int, potential: Potential, charge: float, breaks: Sequence[float]
) -> tuple[float, float]:
    """Return exponent and middle that make the highest of some roots lowest, in units of the charge."""
    few = Symmetry(symmetry.L, symmetry.S, symmetry.pairs[:2])

    def tried(shape: tuple[float, float]) -> float:
        k, d = shape
        return float(Functions(k * charge, d / charge, TRIED, potential, breaks).lowest(few, roots)[-1])

    return min(product(EXPONENTS, MIDDLES), key=tried)


def energies(
    symmetry: Symmetry,
    roots: int,
    potential: Potential,
    charge: float,
    *,
    count: int = 16,
    breaks: Sequence[float] = (),
) -> tuple[Array, Array]:
    """Return the lowest energies of a symmetry and their errors, hartree, each (roots,).

    Exponent and middle are those that make the highest of the roots lowest.  What the last functions gain says how much more
    there is to gain: 0.4 times that by the fifth power, and never yet as much as three times that.

    Parameters
    ----------
    symmetry, roots
        What is wanted.
    potential, breaks
        As for `Functions`.
    charge : float
        Scale of the exponents, 1/bohr.
    count : int
        Functions of each l.
    """
    k, d = _shape(symmetry, roots, potential, charge, breaks)
    basis = Functions(k * charge, d / charge, count, potential, breaks)
    found = basis.lowest(symmetry, roots)
    gain = np.abs(basis.lowest(symmetry, roots, count - LESS) - found)
    return found - 0.4 * gain, 1.2 * gain + 1e-12 * (1.0 + np.abs(found))
