r"""Radial grids: finite elements with a discrete variable representation (FE-DVR), on the real axis or a complex contour.

Gauss-Lobatto points of every element are nodes, quadrature and basis at once: ``chi_i(r_j) = delta_ij / sqrt(w_i)``.  Potentials
are diagonal, a function ``u(r) = sum_i c_i chi_i(r)`` has ``u(r_i) = c_i / sqrt(w_i)``, and ``int u v dr = c_u . c_v`` without
any complex conjugation, on exterior complex scaling (ECS) contours, too.

References: Rescigno and McCurdy, Phys. Rev. A 62, 032706 (2000), for the basis; McCurdy, Baertschy and Rescigno, J. Phys. B 37,
R137 (2004), for ECS and the Poisson kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Bohr times Z: width of the innermost element.
FIRST_WIDTH = 0.2
# Ratio of neighbouring widths.
GROWTH = 1.4
# Bohr.
LARGEST_WIDTH = 5.0


@lru_cache(maxsize=64)
def lobatto(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the Gauss-Lobatto rule on [-1, 1] and the derivatives of its Lagrange polynomials.

    Parameters
    ----------
    n : int
        Number of points, both ends included, at least 2.

    Returns
    -------
    x : (n,) float64
        Nodes, ascending: -1, the zeros of P'_{n-1}, 1.
    w : (n,) float64
        Weights; exact for polynomials up to degree 2n - 3.
    D : (n, n) float64
        ``D[i, j] = L_j'(x_i)``.
    """
    from numpy.polynomial import legendre

    if n < 2:
        raise ValueError(f"a Gauss-Lobatto rule has at least 2 points, not {n}")
    # Interior nodes are the zeros of P'_{n-1}; the series has the coefficient 1 of P_{n-1}
    # alone.
    last = np.zeros(n)
    last[-1] = 1.0
    slope = legendre.legder(last)
    x = np.concatenate(([-1.0], np.sort(legendre.legroots(slope).real), [1.0]))
    curvature = legendre.legder(slope)
    # Newton steps: the companion matrix loses some digits
    for _ in range(3):
        x[1:-1] -= legendre.legval(x[1:-1], slope) / legendre.legval(x[1:-1], curvature)
    # Exactly antisymmetric, so that a grid and its mirror image agree to the bit.
    x = 0.5 * (x - x[::-1])
    P = legendre.legval(x, last)
    w = np.asarray(2.0 / (n * (n - 1) * P**2), np.float64)
    distance = x[:, None] - x[None, :]
    np.fill_diagonal(distance, 1.0)
    # L_j'(x_i) = P(x_i) / (P(x_j) (x_i - x_j)) for i != j, P the Legendre polynomial of degree
    # n - 1.
    D = P[:, None] / (P[None, :] * distance)
    np.fill_diagonal(D, 0.0)
    # the derivative of a constant is zero, to the last bit
    np.fill_diagonal(D, -D.sum(axis=1))
    for array in (x, w, D):
        array.flags.writeable = False
    return x, w, D


def element_bounds(
    R: float,
    Z: float,
    *,
    elements: int | Sequence[float] | None = None,
    breaks: Sequence[float] = (),
) -> NDArray[np.float64]:
    """Return the bounds of the elements of [0, R].

    Widths grow from the nucleus outwards by a constant ratio up to a largest width; then all of them are scaled to fill the box.

    Parameters
    ----------
    R : float
        Radius of the box, bohr.
    Z : float
        Nuclear charge, which sets the innermost width.
    elements : int or sequence of float, optional
        Number of elements, or their bounds (the first one, 0, may be left out); by default as many as the rule of the widths asks
        for.
    breaks : sequence of float
        Radii that have to be bounds, such as the edge of a square well; ignored where the bounds are given.

    Returns
    -------
    (E + 1,) float64
        Ascending from 0 to R, bohr.

    Raises
    ------
    ValueError
        If given bounds do not ascend from 0 to R, or R or the number of elements is not positive.
    """
    if not R > 0.0:
        raise ValueError(f"the radius of the box is {R:g} bohr; it has to be positive")
    # bounds of the user
    if elements is not None and not isinstance(elements, int):
        given = np.asarray(elements, float)
        if given.size and given.flat[0] > 0.0:
            given = np.insert(given, 0, 0.0)
        if given.ndim != 1 or given.size < 2 or np.any(np.diff(given) <= 0.0):
            raise ValueError("the bounds of the elements have to ascend")
        if given[0] != 0.0 or abs(given[-1] - R) > 1e-12 * R:
            raise ValueError(f"the bounds of the elements have to begin at 0 and end at R = {R:g}")
        return given
    widths = _widths(R, Z)
    if elements is not None:
        if elements < 1:
            raise ValueError(f"{elements} elements; at least 1 is needed")
        # a number of elements: the same widths, all scaled to fill the box
        # none grows beyond the largest width, which it has long reached after a hundred
        grown = min(FIRST_WIDTH / max(Z, 1.0), LARGEST_WIDTH) * GROWTH ** np.minimum(np.arange(elements), 100)
        widths = np.minimum(grown, max(LARGEST_WIDTH, grown[0]))
        widths *= R / widths.sum()
    bounds = np.concatenate(([0.0], np.cumsum(widths)))
    bounds[-1] = R
    for point in sorted(breaks):
        bounds = _with_break(bounds, float(point), split=elements is None)
    return bounds


def _widths(R: float, Z: float) -> NDArray[np.float64]:
    width = min(FIRST_WIDTH / max(Z, 1.0), LARGEST_WIDTH)
    widths: list[float] = []
    total = 0.0
    # Small at the nucleus, where functions vary like exp(-Z r); growing outwards, where waves
    # are long.
    while total < R * (1.0 - 1e-12):
        widths.append(width)
        total += width
        width = min(width * GROWTH, LARGEST_WIDTH)
    # Scaled down only: no element is wider than the rule says.
    return np.asarray(widths) * (R / total)


def _with_break(bounds: NDArray[np.float64], point: float, *, split: bool) -> NDArray[np.float64]:
    """Return bounds of which one is `point`: the nearest is moved there, or a wide element is split."""
    if not bounds[0] < point < bounds[-1]:
        return bounds
    # A bound within a quarter of an element is moved: splitting there would leave a sliver,
    # whose kinetic energy is huge.
    nearest = 1 + int(np.argmin(np.abs(bounds[1:-1] - point))) if bounds.size > 2 else 0
    k = int(np.searchsorted(bounds, point))
    width = bounds[k] - bounds[k - 1]
    if nearest and abs(bounds[nearest] - point) <= 0.25 * width:
        moved = bounds.copy()
        moved[nearest] = point
        return moved
    # Where the user gives the number of elements, it must not grow.
    if split or not nearest:
        return np.insert(bounds, k, point)
    moved = bounds.copy()
    moved[nearest] = point
    return moved


def contour_bounds(real: ArrayLike, angle: float, length: float) -> NDArray[np.complex128]:
    """Return the bounds of an ECS contour: the real ones, then elements turned by `angle` into the upper half plane.

    Parameters
    ----------
    real : (E + 1,) float64
        Bounds of the real elements, bohr.
    angle : float
        Angle of the contour, radian.
    length : float
        Length of the turned part, bohr.
    """
    real = np.asarray(real, float)
    # Waves decay on the contour, so that elements twice as wide as the last real one resolve
    # them.
    width = min(LARGEST_WIDTH, 2.0 * (real[-1] - real[-2]))
    count = max(1, math.ceil(length / width - 1e-9))
    tail = real[-1] + np.linspace(0.0, length, count + 1)[1:] * np.exp(1j * angle)
    return np.concatenate((real.astype(complex), tail))


@dataclass(frozen=True, eq=False)
class RadialGrid:
    """An FE-DVR basis and its grid; r = 0 is left out, where every reduced radial function vanishes.

    Parameters
    ----------
    bounds : (E + 1,) float64 or complex128
        Bounds of the elements, bohr, beginning with 0; complex beyond the start of an ECS contour.
    order : int
        Gauss-Lobatto points of one element, both ends included.
    keep_last : bool
        Keep the last point, for boundary conditions other than u(R) = 0.

    Attributes
    ----------
    r, w : (n,) float64 or complex128
        Nodes and quadrature weights, bohr.
    T : (n, n) float64 or complex128
        ``1/2 int chi_i' chi_j' dr`` = -1/2 d2/dr2 with the Bloch term, symmetric, hartree.
    R : float or complex
        Last bound.
    R0 : float
        Where the contour leaves the real axis; R on a real grid.
    size : int
        Number n of basis functions.
    is_complex : bool
    """

    bounds: NDArray[Any]
    order: int
    keep_last: bool = False
    r: NDArray[Any] = field(init=False, repr=False)
    w: NDArray[Any] = field(init=False, repr=False)
    T: NDArray[Any] = field(init=False, repr=False)
    R: Any = field(init=False)
    R0: float = field(init=False)
    is_complex: bool = field(init=False)

    def __post_init__(self) -> None:
        """Set up nodes, weights and the kinetic energy."""
        bounds = np.asarray(self.bounds)
        bounds = bounds if np.iscomplexobj(bounds) else bounds.astype(float)
        x, w, D = lobatto(self.order)
        n, elements = self.order, bounds.size - 1
        total = elements * (n - 1) + 1
        r, weight = np.zeros(total, bounds.dtype), np.zeros(total, bounds.dtype)
        T = np.zeros((total, total), bounds.dtype)
        # -1/2 d2/dr2 by parts: half of the integral of the product of derivatives, exact by Lobatto's rule
        stiffness = 0.5 * (D.T * w) @ D
        for e in range(elements):
            half = 0.5 * (bounds[e + 1] - bounds[e])
            part = slice(e * (n - 1), e * (n - 1) + n)
            # Neighbouring elements share a node; its function is a bridge over both, and weights and stiffness of
            # both add up.
            r[part] = bounds[e] + half * (x + 1.0)
            weight[part] += w * half
            T[part, part] += stiffness / half
        # the shared nodes are the bounds to the last bit
        r[:: n - 1] = bounds
        root = np.sqrt(weight)
        # to the normalised basis, delta_ij / sqrt(w_i) at the nodes
        T /= root[:, None] * root[None, :]
        kept = slice(1, None if self.keep_last else -1)
        is_complex = bool(np.iscomplexobj(bounds))
        real = bounds.real[bounds.imag == 0.0] if is_complex else bounds
        values = {
            "bounds": bounds,
            "r": r[kept],
            "w": weight[kept],
            "T": np.ascontiguousarray(T[kept, kept]),
            "R": complex(bounds[-1]) if is_complex else float(bounds[-1]),
            "R0": float(real[-1]),
            "is_complex": is_complex,
        }
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return int(self.r.shape[0])

    @property
    def is_real(self) -> NDArray[np.bool_]:
        """Return which nodes lie on the real axis, R0 included, (n,)."""
        return self.r.real <= self.R0 * (1.0 + 1e-14)

    def kinetic(self, l: int) -> NDArray[Any]:
        """Return -1/2 d2/dr2 + l(l+1)/2r2 in the normalised basis, (n, n), hartree."""
        T = self.T.copy()
        T[np.diag_indices_from(T)] += 0.5 * l * (l + 1) / self.r**2
        return T

    def poisson(self, l: int) -> NDArray[Any]:
        """Return the kernel G_l of the repulsion's multipole l at the nodes.

        ``sum_ij w_i f(r_i) G_l(i, j) w_j g(r_j)`` is the double integral of ``f(r1) r<^l / r>^(l+1) g(r2)``, from the solution of
        Poisson's equation in the very basis, and hence far more accurate than the quadrature of a kernel with a kink.
        With T_l = -1/2 d2/dr2 + l(l+1)/2r2 and u(R) = 0,
        ``G_l(i, j) = (2l+1) [(2 T_l)^-1]_ij / (r_i r_j sqrt(w_i w_j)) + (r_i r_j)^l / R^(2l+1)``.

        Parameters
        ----------
        l : int
            Multipole.

        Returns
        -------
        (n, n) float64 or complex128
            Symmetric, 1/bohr.
        """
        n = self.size - 1 if self.keep_last else self.size
        r, root = self.r[:n], self.r[:n] * np.sqrt(self.w[:n])
        # The solution that vanishes at R, from the basis; the second term of G is the solution of the homogeneous
        # equation that repairs its value at R.
        inverse = _symmetric_inverse(2.0 * self.kinetic(l)[:n, :n])
        scaled = (r / self.R) ** l
        G = (2 * l + 1) * inverse / (root[:, None] * root[None, :]) + np.outer(scaled, scaled) / self.R
        # products of complex numbers do not commute to the last bit
        if self.is_complex:
            G = 0.5 * (G + G.T)
        if not self.keep_last:
            return G
        whole = np.empty((self.size, self.size), G.dtype)
        whole[:n, :n] = G
        # On the wall itself r> = R.
        whole[:, n] = whole[n, :] = (self.r / self.R) ** l / self.R
        return whole

    def share_below(self, radius: float) -> tuple[int, complex] | None:
        """Return the node at a bound of elements, and the share of its weight that belongs to the element below.

        A potential with a step there acts on the node by the mean of both sides with these weights: then its quadrature is exact
        on either side, and the step costs no accuracy.

        Parameters
        ----------
        radius : float
            A real radius, bohr.

        Returns
        -------
        (int, complex) or None
            None if no node lies on a bound at that radius.
        """
        here = np.flatnonzero(np.abs(self.bounds - radius) <= 1e-9 * abs(radius))
        if not here.size or here[0] == 0:
            return None
        k = int(here[0])
        # Bound k is node k (order - 1) of all nodes; the first one, r = 0, is not among the
        # functions.
        node = k * (self.order - 1) - 1
        if node >= self.size:
            return None
        below = lobatto(self.order)[1][-1] * 0.5 * (self.bounds[k] - self.bounds[k - 1])
        return node, complex(below / self.w[node])

    def basis(self, r: ArrayLike) -> NDArray[Any]:
        """Return the basis functions at any points of the grid's contour.

        Parameters
        ----------
        r : (m,) float64 or complex128
            Points, bohr.

        Returns
        -------
        (m, n) float64 or complex128
            ``chi_j(r_i)``, bohr^(-1/2).

        Raises
        ------
        ValueError
            If a point lies outside the box.
        """
        points = np.atleast_1d(np.asarray(r))
        points = points.astype(np.result_type(points, self.bounds, float))
        ends, slack = self.bounds.real, 1e-12 * abs(self.R)
        if np.any(points.real < -slack) or np.any(points.real > ends[-1] + slack):
            raise ValueError(f"points outside of the grid, [0, {ends[-1]:g}] bohr")
        x, _, _ = lobatto(self.order)
        n = self.order
        # elements are told by the real part, which ascends along a contour as well
        element = np.clip(np.searchsorted(ends, points.real, side="right") - 1, 0, ends.size - 2)
        start, stop = self.bounds[element], self.bounds[element + 1]
        local = 2.0 * (points - start) / (stop - start) - 1.0
        polynomials = _lagrange(x, local)
        # the polynomials of an element stand in the columns of its nodes; a shared node is one column
        every = np.zeros((points.size, (ends.size - 1) * (n - 1) + 1), polynomials.dtype)
        columns = (element * (n - 1))[:, None] + np.arange(n)[None, :]
        np.put_along_axis(every, columns, polynomials, axis=1)
        kept = every[:, 1:] if self.keep_last else every[:, 1:-1]
        return kept / np.sqrt(self.w)

    def values(self, c: ArrayLike, r: ArrayLike) -> NDArray[Any]:
        """Return u(r) of functions given by their coefficients, at any points of the grid's contour.

        Parameters
        ----------
        c : (n,) or (n, N)
            Coefficients in the normalised basis.
        r : (m,) float64 or complex128
            Points, bohr; see `basis`.

        Returns
        -------
        (m,) or (m, N)
        """
        result: NDArray[Any] = self.basis(r) @ np.asarray(c)
        return result

    def derivative(self, c: ArrayLike) -> NDArray[Any]:
        """Return du/dr at the nodes.

        The two elements that meet at a node contribute by their quadrature weights, which is the projection of the derivative
        on the basis.

        Parameters
        ----------
        c : (n,) or (n, N)
            Coefficients in the normalised basis.

        Returns
        -------
        (n,) or (n, N)
            Values (not coefficients).
        """
        coefficients = np.asarray(c)
        flat = coefficients.reshape(self.size, -1)
        _, w, D = lobatto(self.order)
        n, elements = self.order, self.bounds.size - 1
        u = np.zeros((elements * (n - 1) + 1, flat.shape[1]), np.result_type(flat, self.r))
        kept = slice(1, None if self.keep_last else -1)
        u[kept] = flat / np.sqrt(self.w)[:, None]
        slope = np.zeros_like(u)
        # the width of the element cancels in w du/dr
        weighted = w[:, None] * D
        # sum over elements of w du/dr; the division by the whole weight of a node then takes
        # the mean of both sides.
        for e in range(elements):
            part = slice(e * (n - 1), e * (n - 1) + n)
            slope[part] += weighted @ u[part]
        result: NDArray[Any] = (slope[kept] / self.w[:, None]).reshape(coefficients.shape)
        return result


def _lagrange(x: NDArray[np.float64], points: NDArray[Any]) -> NDArray[Any]:
    """Return the Lagrange polynomials of the nodes x at some points, (m, n), by the barycentric formula."""
    distance = x[:, None] - x[None, :]
    np.fill_diagonal(distance, 1.0)
    weight = 1.0 / np.prod(distance, axis=1)
    offset = points[:, None] - x[None, :]
    # On a node the barycentric formula is 0/0: the polynomial of that node is 1, all others are
    # 0.
    on_node = np.abs(offset) < 1e-15
    offset[on_node] = 1.0
    terms = weight / offset
    result: NDArray[Any] = terms / terms.sum(axis=1, keepdims=True)
    rows = on_node.any(axis=1)
    result[rows] = on_node[rows]
    return result


def _symmetric_inverse(A: NDArray[Any]) -> NDArray[Any]:
    """Return the symmetric inverse of a positive definite (real) or any complex symmetric matrix."""
    if np.iscomplexobj(A):
        inverse = np.linalg.inv(A)
        return 0.5 * (inverse + inverse.T)
    from scipy.linalg import get_lapack_funcs

    # T_l is positive definite: Cholesky takes half of the operations of a general inverse and
    # keeps the symmetry.
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
    factor, info = potrf(A, lower=True)
    if info != 0:
        return np.linalg.inv(A)
    inverse, _ = potri(factor, lower=True)
    lower = np.tril(inverse)
    return lower + np.tril(lower, -1).T


def radial_grid(
    block: Any, Z: float, *, R: float | None = None, breaks: Sequence[float] = (), keep_last: bool = False
) -> RadialGrid:
    """Return the grid of the deck's block ``grid``.

    Parameters
    ----------
    block
        Has ``R``, ``order``, ``elements`` ("auto", a number or bounds) and ``ecs`` (None, or with ``angle`` and ``length``).
    Z : float
        Nuclear charge.
    R : float, optional
        Radius of the box, bohr, where the deck leaves it open (``auto``).
    breaks : sequence of float
        Radii that have to be bounds of elements.
    keep_last : bool
        See `RadialGrid`.
    """
    radius = float(block.R if R is None else R)
    elements = getattr(block, "elements", None)
    bounds: NDArray[Any] = element_bounds(
        radius, Z, elements=None if isinstance(elements, str) else elements, breaks=breaks
    )
    ecs = getattr(block, "ecs", None)
    if ecs is not None:
        bounds = contour_bounds(bounds, ecs.angle, ecs.length)
    return RadialGrid(bounds, block.order, keep_last=keep_last)
