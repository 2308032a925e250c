r"""Truth for photons and excited states: two electrons on a grid of finite elements whose radii are turned as a whole.

Both radii are ``r exp(i theta)`` from the nucleus on, so that no contour begins anywhere; initial and final states live in one
box, whose wall lies where nothing is left of either.  In Lobatto functions of the elements every multipole of 1/r12 is diagonal
(its kernel solves Poisson's equation), the Hamiltonian of few pairs of orbital momenta is sparse, and SuperLU solves it directly:
no iterative solver, no basis of few functions, no surface.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from qsim_checks.sturmian.oracle import Symmetry, coefficient
from qsim_checks.sturmian.scaled import FINE_STRUCTURE, KILOBARN, _angles

__all__ = ["Turned"]

STEPS = 12  # of the inverse iteration of a bound state
GROWTH = 1.35  # ratio of the widths of neighbouring elements near the nucleus

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


@dataclass
class Turned:
    """Two electrons around a charge Z, in a box.

    Parameters
    ----------
    Z : float
    R : float
        Wall, bohr.
    order : int
        Points of an element, both ends included.
    widest : float
        Largest width of an element, bohr.
    theta : float
        Angle of the radii, rad.
    """

    Z: float
    R: float
    order: int
    widest: float
    theta: float

    @cached_property
    def _grid(self) -> tuple[Array, Array, Array]:
        """Return nodes and weights without both ends of the box, and d/dr of the nodes' functions at all points."""
        bounds, width = [0.0], 0.8 / self.Z
        while bounds[-1] < self.R:
            bounds.append(bounds[-1] + width)
            width = min(GROWTH * width, self.widest)
        edges = np.array(bounds) * self.R / bounds[-1]
        P = np.polynomial.legendre.Legendre.basis(self.order - 1)
        x = np.concatenate(([-1.0], np.sort(P.deriv().roots().real), [1.0]))
        w = 2.0 / (self.order * (self.order - 1) * P(x) ** 2)
        away = x[:, None] - x[None, :] + np.eye(self.order)
        D = P(x)[:, None] / P(x)[None, :] / away * (1.0 - np.eye(self.order))
        D[0, 0], D[-1, -1] = (sign * self.order * (self.order - 1) / 4.0 for sign in (-1.0, 1.0))
        last, size = self.order - 1, (edges.size - 1) * (self.order - 1) + 1
        r, weights, T = np.zeros(size), np.zeros(size), np.zeros((size, size))
        for e, (a, b) in enumerate(itertools.pairwise(edges)):
            at, half = slice(e * last, (e + 1) * last + 1), 0.5 * (b - a)
            r[at] = a + half * (x + 1.0)
            weights[at] += half * w
            T[at, at] += D.T @ (w[:, None] * D) / half
        root = np.sqrt(weights)
        T /= root[:, None] * root[None, :]
        return r[1:-1], weights[1:-1], T[1:-1, 1:-1]

    @cached_property
    def turn(self) -> complex:
        """``exp(i theta)``."""
        return complex(math.cos(self.theta), math.sin(self.theta))

    def _one(self, l: int) -> Complex:
        r, _, T = self._grid
        radial = np.diag(0.5 * l * (l + 1) / (r * self.turn) ** 2 - self.Z / (r * self.turn))
        return np.asarray(0.5 * T / self.turn**2 + radial)

    def _kernel(self, l: int) -> Complex:
        """Return ``r<^l / r>^(l + 1)`` between nodes, which solves Poisson's equation in the box."""
        r, w, T = self._grid
        inverse = np.linalg.inv(T + np.diag(l * (l + 1) / r**2))
        root = np.sqrt(w)
        inside = (2 * l + 1) * inverse / (np.outer(r, r) * np.outer(root, root))
        return np.asarray((inside + np.outer(r, r) ** l / self.R ** (2 * l + 1)) / self.turn)

    def solved(self, symmetry: Symmetry, E: float) -> SuperLU:
        """Return a factorisation of E - H of one symmetry, of components (pairs, n, n) with la <= lb."""
        n = self._grid[0].size
        one, each = sparse.identity(n), np.arange(n * n)
        swap = sparse.csr_matrix((np.ones(n * n), (each, each.reshape(n, n).T.ravel())))
        top = 2 * max(b for _, b in symmetry.pairs)
        kernels = [self._kernel(l).ravel() for l in range(top + 1)]
        rows = []
        for a, b in symmetry.pairs:
            row = []
            for c, d in symmetry.pairs:
                found = [coefficient(symmetry.L, (a, b), (c, d), l) for l in range(top + 1)]
                block = -sparse.diags(sum(A * kernel for A, kernel in zip(found, kernels, strict=True)))
                if c != d:
                    found = [coefficient(symmetry.L, (a, b), (d, c), l) for l in range(top + 1)]
                    other = sum(A * kernel for A, kernel in zip(found, kernels, strict=True))
                    block = block - self._sign(symmetry, c, d) * sparse.diags(other) @ swap
                if (a, b) == (c, d):
                    h = sparse.kron(sparse.csr_matrix(self._one(a)), one)
                    h = h + sparse.kron(one, sparse.csr_matrix(self._one(b)))
                    block = block + E * sparse.identity(n * n) - h
                row.append(block)
            rows.append(row)
        matrix = sparse.csc_matrix(sparse.bmat(rows))
        # symmetric but for rounding: pivots of the diagonal keep it sparse
        return splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )

    @staticmethod
    def _sign(symmetry: Symmetry, a: int, b: int) -> int:
        return -1 if (a + b - symmetry.L + symmetry.S) % 2 else 1

    def _product(self, symmetry: Symmetry, x: Complex, y: Complex) -> complex:
        """Return the product without conjugation; components with la < lb count twice."""
        weights = np.array([1.0 if a == b else 2.0 for a, b in symmetry.pairs])
        return complex(weights @ (x * y).sum(axis=(1, 2)))

    def bound(self, symmetry: Symmetry, near: float) -> tuple[float, Complex]:
        """Return the level nearest to an energy, hartree, and its components (pairs, n, n), by inverse iteration."""
        n = self._grid[0].size
        solve = self.solved(symmetry, near)
        r = self._grid[0] * np.sqrt(self._grid[1])
        start = np.outer(r * np.exp(-self.Z * self._grid[0]), r * np.exp(-0.3 * self._grid[0]))
        v = np.array([start] * len(symmetry.pairs), complex)
        value = complex(near)
        for _ in range(STEPS):
            for k, (a, b) in enumerate(symmetry.pairs):
                if a == b:
                    v[k] = v[k] + self._sign(symmetry, a, b) * v[k].T
            v = v / np.sqrt(self._product(symmetry, v, v))
            found = solve.solve(v.ravel()).reshape(len(symmetry.pairs), n, n)
            value = near - 1.0 / self._product(symmetry, v, found)
            v = found
        v = v / np.sqrt(self._product(symmetry, v, v))
        return value.real, v

    def _dipole(self, gauge: str, to: int, start: int) -> Complex:
        """Return the radial dipole operator from one orbital momentum to another, (n, n)."""
        r, _, _ = self._grid
        if gauge == "length":
            return np.diag(r * self.turn)
        # [h, r] without solving anything: the slope between functions that vanish at both ends
        h = self._one(to) @ np.diag(r * self.turn) - np.diag(r * self.turn) @ self._one(start)
        return np.asarray(-h)

    def photoabsorption(
        self,
        lower: Symmetry,
        upper: Symmetry,
        state: tuple[float, Complex],
        photons: list[float],
        gauges: list[str],
    ) -> Array:
        """Return the photoabsorption (energies, gauges) of a bound state with M = 0 by light along z, kb."""
        energy, x = state
        components = dict(zip(lower.pairs, x, strict=True))
        for (a, b), part in list(components.items()):
            components[b, a] = part if a == b else self._sign(lower, a, b) * part.T
        sources = []
        for gauge in gauges:
            for bra in upper.pairs:
                total = np.zeros_like(x[0])
                for ket, part in components.items():
                    first, second = _angles(bra, ket, upper.L, lower.L)
                    if first:
                        total = total + first * self._dipole(gauge, bra[0], ket[0]) @ part
                    if second:
                        total = total + second * part @ self._dipole(gauge, bra[1], ket[1]).T
                sources.append(total)
        s = np.array(sources).reshape(len(gauges), len(upper.pairs), *x[0].shape)
        out = np.zeros((len(photons), len(gauges)))
        for i, omega in enumerate(photons):
            solve = self.solved(upper, energy + omega)
            for g, gauge in enumerate(gauges):
                u = solve.solve(s[g].ravel()).reshape(s[g].shape)
                flux = -2.0 * self._product(upper, s[g], u).imag
                power = 1.0 if gauge == "length" else omega**-2
                out[i, g] = 2.0 * math.pi * omega * FINE_STRUCTURE * KILOBARN * flux * power
        return out
