r"""Radial integrals of the dense route: overlaps, Kronecker products, electron repulsion by matrix products and by quadrature.

Functions are given by coefficients c (n, N) in a normalised FE-DVR basis, so that ``int u' f u dr = sum_i c'_i f(r_i) c_i``.

Repulsion.  With pair densities ``rho[i, (n' n)] = c'_in' c_in`` and the Poisson kernel K = G_l of the grid, Eq. (15) is

    R[(a' a), (b' b)] = rho_a^T K rho_b,

two matrix products instead of four nested loops: 8 (Nq^2 Q + Nq P Q) operations for P and Q pairs of complex functions.  For the
functions of one electron, pairs are packed (n' <= n), which divides the second product by four; if both electrons have the same,
``K = q q^T`` makes ``R = X^T X`` with ``X = q^T rho`` and halves it again (zsyrk): Nq N^4 instead of 8 Nq N^4 operations.
The paper stores all N^4 numbers; `PairIntegrals.expand` writes them.  Its own route, Gauss-Legendre outside and Simpson inside,
is `repulsion_simpson`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import namespace
from qsim.sturmian.kernels.repulsion import expand_pairs, kronecker_products, pair_densities, simpson_terms
from qsim.sturmian.linalg.blas import product, symmetric_square
from qsim.sturmian.linalg.ldlt import symmetric_root

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.sturmian.radial.grid import RadialGrid

__all__ = [
    "PairIntegrals",
    "Quadrature",
    "Samples",
    "kronecker",
    "overlap",
    "potential_matrix",
    "quadrature",
    "repulsion_gemm",
    "repulsion_kernel",
    "repulsion_pairs",
    "repulsion_rank",
    "repulsion_simpson",
    "sample",
]

RANK_TOLERANCES = (1e-8, 1e-12)
Multipoles = int | Mapping[int, float]


# -------------------------------------------------------------------------------------- one electron


def overlap(bra: NDArray[Any], ket: NDArray[Any]) -> Any:
    """Return Eq. (13), ``int u' u dr`` of functions (n, N') and (n, N): (N', N), never conjugated."""
    return bra.T @ ket


def potential_matrix(bra: NDArray[Any], v: NDArray[Any], ket: NDArray[Any]) -> Any:
    """Return Eq. (14), ``int u' v u dr`` for v (n,) at the nodes: (N', N)."""
    return bra.T @ (v[:, None] * ket)


def kronecker(
    A: NDArray[Any], B: NDArray[Any], out: NDArray[Any] | None = None, *, accumulate: bool = False
) -> Any:
    """Return Eq. (20), the two-electron matrix ``A[a', a] B[b', b]`` with rows (a', b') and columns (a, b).

    Parameters
    ----------
    A, B : (Na', Na) and (Nb', Nb)
    out : (Na' Nb', Na Nb), optional
        Row-major; written, or added to with ``accumulate``.
    """
    xp = namespace(A)
    kind = np.result_type(A.dtype, B.dtype) if out is None else out.dtype
    if out is None:
        out = xp.empty((A.shape[0] * B.shape[0], A.shape[1] * B.shape[1]), kind)
        accumulate = False
    first, second = (xp.ascontiguousarray(part.astype(kind, copy=False)) for part in (A, B))
    kronecker_products(first, second, accumulate, out)
    return out


# ------------------------------------------------------------------------------------ matrix products


@dataclass(frozen=True, eq=False)
class PairIntegrals:
    """Repulsion integrals of pairs of functions.

    Attributes
    ----------
    device
        Where they are.
    values : (pairs of a, pairs of b)
        Integrals, hartree times bohr^0 of the functions' norm.
    shape : (Na', Na, Nb', Nb)
    packed_a, packed_b : bool
        Whether pairs are n' <= n only, see :mod:`qsim.sturmian.kernels.repulsion`.
    lower : bool
        Only the lower triangle of ``values`` is set; the whole is symmetric.
    points : int
        Points of the grid.
    """

    device: Device
    values: Any
    shape: tuple[int, int, int, int]
    packed_a: bool
    packed_b: bool
    lower: bool
    points: int

    @property
    def count(self) -> int:
        """Number of integrals as the paper counts them: N^4."""
        # int64: N = 256 has 4e9 integrals.
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def flops(self) -> float:
        """Operations of the larger of the two products."""
        each = 8.0 if self.values.dtype.kind == "c" else 2.0
        return each * self.points * self.values.size * (0.5 if self.lower else 1.0)

    def expand(
        self, out: NDArray[Any] | None = None, *, factor: float = 1.0, accumulate: bool = False
    ) -> Any:
        """Return ``factor`` times all integrals as the matrix (Na' Nb', Na Nb) of a block of Eq. (12), or add them to ``out``."""
        na1, na0, nb1, nb0 = self.shape
        if out is None:
            out = self.device.xp.empty((na1 * nb1, na0 * nb0), self.values.dtype)
            accumulate = False
        flags = (self.packed_a, self.packed_b, self.lower)
        expand_pairs(self.device, self.values, self.shape, *flags, factor, accumulate, out)
        return out

    def whole(self) -> Any:
        """Return all integrals with rows (a', a) and columns (b', b), (Na' Na, Nb' Nb)."""
        # From the order (a', b'), (a, b) of Eq. (12) to pairs (a', a), (b', b).
        na1, na0, nb1, nb0 = self.shape
        four = self.expand().reshape(na1, nb1, na0, nb0)
        return self.device.xp.ascontiguousarray(four.transpose(0, 2, 1, 3)).reshape(na1 * na0, nb1 * nb0)


def repulsion_kernel(grid: RadialGrid, l: Multipoles) -> NDArray[Any]:
    """Return the kernel of one multipole, or the sum ``sum_l A_l G_l`` of several: (n, n), symmetric."""
    if isinstance(l, Mapping):
        total = np.zeros((grid.r.size,) * 2, grid.r.dtype)
        for order, factor in l.items():
            total += factor * grid.poisson(order)
        return total
    return np.asarray(grid.poisson(l))


def repulsion_pairs(
    device: Device,
    kernel: NDArray[Any],
    functions: tuple[Any, Any, Any, Any],
    *,
    root: NDArray[Any] | None = None,
    use_root: bool = True,
    dtype: DTypeLike | None = None,
) -> PairIntegrals:
    """Return the integrals of all pairs of functions with a kernel, as matrix products.

    Parameters
    ----------
    kernel : (n, n)
        From `repulsion_kernel`.
    functions : (a', a, b', b), each (n, N)
        Coefficients.  The same object (or equal arrays) for a' and a makes packed pairs, likewise b' and b; the same pairs for
        both electrons use the symmetry of the result.
    root : (n, n), optional
        From :func:`qsim.sturmian.linalg.ldlt.symmetric_root`, on the host or the device; made here if it is of use.
    use_root : bool
        Whether the kernel may have a root: sums of multipoles are not positive.
    dtype
        Of the integrals; by default the dtype of kernel and functions.
    """
    kind = np.dtype(dtype or np.result_type(kernel, *functions))
    bra_a, ket_a, bra_b, ket_b = functions
    packed_a, packed_b = _equal(bra_a, ket_a), _equal(bra_b, ket_b)
    same = _equal(bra_a, bra_b) and _equal(ket_a, ket_b)
    shape = (bra_a.shape[1], ket_a.shape[1], bra_b.shape[1], ket_b.shape[1])
    on_device: dict[int, Any] = {}

    # The same functions are sent once: for equal electrons that is a quarter of the transfers.
    def moved(c: NDArray[Any]) -> Any:
        if id(c) not in on_device:
            on_device[id(c)] = device.xp.ascontiguousarray(device.asarray(c, kind))
        return on_device[id(c)]

    with device.use():
        # Eq. (15) is rho_a^T G rho_b with the densities of all pairs at the nodes: two matrix products instead of
        # N^4 double sums.
        rho_b = pair_densities(device, moved(bra_b), moved(ket_b), packed_b)
        if same:
            # equal pairs: with G = K K^T the result is X^T X with X = K^T rho, of which one triangle is computed
            root = symmetric_root(kernel) if root is None and use_root else root
            if root is not None:
                X = _product(device, device.asarray(root).T, rho_b)
                square = symmetric_square(device, X)
                return PairIntegrals(device, square, shape, packed_a, packed_b, True, len(kernel))
            rho_a = rho_b
        else:
            rho_a = pair_densities(device, moved(bra_a), moved(ket_a), packed_a)
        # the kernel, which is the larger factor, meets the side with fewer pairs
        if rho_a.shape[1] < rho_b.shape[1]:
            values = product(device, _product(device, kernel, rho_a).T, rho_b)
        else:
            values = product(device, rho_a.T, _product(device, kernel, rho_b))
        return PairIntegrals(device, values, shape, packed_a, packed_b, False, len(kernel))


def _equal(first: object, second: object) -> bool:
    # Arrays on a GPU count as equal only if they are one object: a comparison there costs a
    # transfer.
    return first is second or (
        isinstance(first, np.ndarray)
        and isinstance(second, np.ndarray)
        and first.shape == second.shape
        and bool(np.array_equal(first, second))
    )


def _product(device: Device, matrix: NDArray[Any], rho: NDArray[Any]) -> Any:
    """Return ``matrix @ rho``; a real matrix times complex columns as real numbers, half of the operations."""
    if rho.dtype.kind == "c" and matrix.dtype.kind != "c":
        real = rho.real.dtype
        return product(device, device.asarray(matrix, real), rho.view(real)).view(rho.dtype)
    return product(device, device.asarray(matrix, rho.dtype), rho)


def repulsion_gemm(
    grid: RadialGrid,
    l: Multipoles,
    bra_a: NDArray[Any],
    ket_a: NDArray[Any],
    bra_b: NDArray[Any],
    ket_b: NDArray[Any],
    *,
    device: Device,
    symmetric: bool = True,
) -> Any:
    """Return Eq. (15) for all functions, or ``sum_l A_l`` times it for ``l = {l: A_l}``.

    Parameters
    ----------
    grid
        FE-DVR grid of the functions.
    l : int or dict of int to float
        Multipole(s).
    bra_a, ket_a, bra_b, ket_b : (n, N)
        Coefficients of a', a, b', b.
    device
        Where to compute.
    symmetric : bool
        Use the symmetries of equal functions; False makes all products, as a check and as a measure.

    Returns
    -------
    (Na' Na, Nb' Nb)
        On the device, rows (a', a), columns (b', b).
    """
    kernel = repulsion_kernel(grid, l)
    if symmetric:
        return repulsion_pairs(device, kernel, (bra_a, ket_a, bra_b, ket_b)).whole()
    kind = np.result_type(kernel, bra_a, ket_a, bra_b, ket_b)
    with device.use():
        c = [device.xp.ascontiguousarray(device.asarray(x, kind)) for x in (bra_a, ket_a, bra_b, ket_b)]
        rho_a, rho_b = pair_densities(device, c[0], c[1], False), pair_densities(device, c[2], c[3], False)
        return product(device, rho_a.T, _product(device, kernel, rho_b))


def repulsion_rank(
    grid: RadialGrid,
    l: int,
    bra: NDArray[Any],
    ket: NDArray[Any],
    tolerances: tuple[float, ...] = RANK_TOLERANCES,
) -> tuple[dict[float, int], NDArray[np.float64]]:
    """Return the numerical rank of the matrix of integrals of one electron's pairs, at several relative tolerances.

    The matrix is ``X^T X`` with ``X = q^T rho``; it has the rank of X, whose singular values are returned, too, relative to the
    largest.  (On a complex contour q may not exist; the pair densities alone are taken then.)
    """
    from qsim.core.device.device import cpu

    kind = np.result_type(bra, ket)
    c1, c0 = (np.ascontiguousarray(c, kind) for c in (bra, ket))
    rho = pair_densities(cpu(1), c1, c0, _equal(bra, ket))
    root = symmetric_root(repulsion_kernel(grid, l))
    X = rho if root is None else root.T @ rho
    # Singular values of a wide matrix from its triangular factor: no squares, full accuracy.
    values = np.linalg.svd(np.linalg.qr(X.T, mode="r") if X.shape[1] > X.shape[0] else X, compute_uv=False)
    relative = values / values[0]
    return {limit: int(np.count_nonzero(relative > limit)) for limit in tolerances}, relative


# ------------------------------------------------------------------------------------ nested quadrature


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Points of the paper's quadrature: Gauss-Legendre on [0, R], Simpson between each point and the next, the last being R.

    Attributes
    ----------
    r, w : (Nq,) float64
        Outer points and weights, bohr.
    fine, fine_w : (Nq, Ns) float64
        Simpson points and weights of [r_j, r_(j+1)], bohr.
    """

    r: NDArray[np.float64]
    w: NDArray[np.float64]
    fine: NDArray[np.float64]
    fine_w: NDArray[np.float64]


def quadrature(Nq: int, Ns: int, R: float) -> Quadrature:
    """Return Nq outer points and Ns (odd, at least 3) inner ones in every interval."""
    if Ns < 3 or Ns % 2 == 0:
        raise ValueError(f"Simpson's rule has an odd number of points, at least 3, not {Ns}")
    x, w = np.polynomial.legendre.leggauss(Nq)
    r = 0.5 * R * (x + 1.0)
    ends = np.append(r, R)
    share = np.linspace(0.0, 1.0, Ns)
    # 1, 4, 2, 4, ..., 4, 1 times h/3, with h the width of the interval over Ns - 1.
    rule = np.ones(Ns)
    rule[1:-1:2], rule[2:-1:2] = 4.0, 2.0
    width = np.diff(ends)
    fine = ends[:-1, None] + width[:, None] * share
    # never beyond R by rounding
    fine[:, -1] = ends[1:]
    return Quadrature(r, 0.5 * R * w, fine, width[:, None] * rule / (3.0 * (Ns - 1)))


@dataclass(frozen=True, eq=False)
class Samples:
    """Values of N functions at the points of a quadrature: ``at`` (Nq, N) and ``fine`` (Nq, Ns, N)."""

    at: Any
    fine: Any


def sample(
    function: Callable[[NDArray[np.float64]], NDArray[Any]],
    points: Quadrature,
    device: Device,
    dtype: DTypeLike,
) -> Samples:
    """Evaluate functions, ``function(r (m,)) -> (m, N)``, at all points."""
    Nq, Ns = points.fine.shape
    at, fine = function(points.r), function(points.fine.ravel()).reshape(Nq, Ns, -1)
    return Samples(
        *(device.xp.ascontiguousarray(device.asarray(np.asarray(u), np.dtype(dtype))) for u in (at, fine))
    )


def repulsion_simpson(
    functions: tuple[Samples, Samples, Samples, Samples],
    points: Quadrature,
    l: int,
    *,
    device: Device,
    side: int = 8,
    out: NDArray[Any] | None = None,
) -> Any:
    """Return Eq. (15) by the algorithm of the paper: Eqs. (21) to (24), the last corrected.

    Parameters
    ----------
    functions : (a', a, b', b)
        From `sample`, on the device.
    points
        From `quadrature`.
    l : int
        Multipole.
    device
        Where to compute.
    side : int
        CUDA: the paper's TILE_W, one of 2, 4, 8, 16.
    out : (Na' Nb', Na Nb), optional
        Written if given.

    Returns
    -------
    (Na' Nb', Na Nb)
        On the device.
    """
    bra_a, ket_a, bra_b, ket_b = functions
    shape = [f.at.shape[1] for f in functions]
    with device.use():
        if out is None:
            out = device.xp.zeros((shape[0] * shape[2], shape[1] * shape[3]), bra_a.at.dtype)
        else:
            out[...] = 0
        # Eq. (21) has two terms, for the inner electron inside and outside of the outer one: the same sums with the
        # electrons exchanged.
        fine_weights = device.asarray(points.fine_w * points.fine ** (-l - 1.0))
        weights = device.asarray(points.w * points.r**l)
        for (i1, i0), (o1, o0), swapped in (
            ((bra_a, ket_a), (bra_b, ket_b), False),
            ((bra_b, ket_b), (bra_a, ket_a), True),
        ):
            simpson_terms(
                device,
                (i1.fine, i0.fine),
                fine_weights,
                weights,
                (o1.at, o0.at),
                swapped,
                out,
                side,
            )
    return out
