r"""Complex symmetric matrices, ``A = A^T`` without conjugation: factors from matrix products, solution with refinement.

Outgoing Sturmian functions make the Hamiltonian of Eq. (12) complex symmetric.  ``A = L D L^T`` needs half of the operations of
an LU factorisation (4/3 n^3 instead of 8/3 n^3), but the routine of the libraries, zsytrf, runs at a few per cent of their matrix
product.  Here L has unit blocks on its diagonal and D is made of blocks of `BLOCK` rows, each inverted with
pivoting inside; everything else is matrix products.  Halves are factored one after another,

    A11 = L11 D1 L11^T,   W = A21 L11^-T,   L21 = W D1^-1,   A22 - L21 W^T = L22 D2 L22^T,

so that most products are large.  Rows are never exchanged between blocks, which fails where a leading part of A is nearly
singular: the growth of L and the conditions of the blocks of D are watched, and `solve` refines and reports a backward error.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.blas import large_matrices
from qsim.core.device.device import namespace
from qsim.core.errors import NumericsError
from qsim.sturmian.linalg.blas import subtract_product

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

__all__ = ["Factors", "factor", "flops", "solve", "symmetric_root"]

# Rows of a block of D: below them products are too small to be fast.
BLOCK = {"numpy": 64, "cupy": 512}
REFINEMENTS = 3
# Largest element of L: refinement still mends errors of 1e-16 times this.
LARGEST_GROWTH = 1e6


@dataclass(frozen=True, eq=False)
class Factors:
    """Block factors ``A = L D L^T``.

    Attributes
    ----------
    L : (n, n)
        Blocks below the diagonal; blocks of D on it; what lies above is not defined.
    inverses : list of (nb, nb)
        Inverses of the blocks of D.
    bounds : list of int
        First rows of the blocks, and n.
    growth : float
        Largest element of L (a pivoted LU has at most 1).
    condition : float
        Largest condition number (max norm) of a block of D.
    """

    L: Any
    inverses: list[Any]
    bounds: list[int]
    growth: float
    condition: float


def flops(n: int, is_complex: bool = True) -> float:
    """Floating-point operations of a factorisation: n^3/3 (LU: 2 n^3/3), times 4 in complex numbers."""
    return (4.0 if is_complex else 1.0) * n**3 / 3.0


def factor(A: NDArray[Any], block: int | None = None, *, overwrite: bool = False) -> Factors:
    """Factor a symmetric matrix.

    Parameters
    ----------
    A : (n, n) float64 or complex128
        Symmetric, row-major, on a CPU or GPU; only blocks on and below the diagonal are read.
    block : int, optional
        Rows of a block of D.
    overwrite : bool
        Use the memory of A for the factors.

    Raises
    ------
    NumericsError
        If a block of D is singular or L grows beyond `LARGEST_GROWTH`: then only a pivoted LU helps.
    """
    xp = namespace(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"a symmetric matrix is square, not {A.shape}")
    A = A if overwrite else A.copy()
    n, size = A.shape[0], block or BLOCK[xp.__name__]
    bounds = [*range(0, n, size), n]
    inverses: list[Any] = []
    conditions: list[Any] = []
    largest: list[Any] = []

    def divide(first: int, last: int) -> None:
        """Factor the blocks first .. last - 1 of what is left of A."""
        lo, hi = bounds[first], bounds[last]
        # A single block of D is inverted as it is; its condition is the price of not exchanging blocks.
        if last - first == 1:
            D = A[lo:hi, lo:hi]
            inverse = _inverse(xp, D)
            inverses.append(inverse)
            conditions.append(abs(D).max() * abs(inverse).max() * (hi - lo))
            return
        # Halves, recursively: A = [[A11, .], [A21, A22]] -> factor A11, L21 = A21 L11^-T D1^-1, A22 -= L21 D1 L21^T,
        # factor A22.
        # Recursion makes the products as large as they can be, which is where BLAS is fast.
        middle = (first + last) // 2
        divide(first, middle)
        mid = bounds[middle]
        # W = L21 D1, before the division by D1: both factors of the update are needed
        W = A[mid:hi, lo:mid].copy()
        _divide_by_transpose(A, W, bounds, first, middle, lo)
        for k in range(first, middle):
            part = slice(bounds[k] - lo, bounds[k + 1] - lo)
            A[mid:hi, bounds[k] : bounds[k + 1]] = W[:, part] @ inverses[k]
        largest.append(abs(A[mid:hi, lo:mid]).max())
        # only blocks on and below the diagonal: half of the operations of a product
        _subtract_lower(A, W, bounds, middle, last, lo, mid, mid)
        divide(middle, last)

    if n:
        with large_matrices(n):
            divide(0, len(bounds) - 1)
    growth = max((float(value) for value in largest), default=1.0)
    condition = max((float(value) for value in conditions), default=1.0)
    if not np.isfinite(growth) or not np.isfinite(condition) or growth > LARGEST_GROWTH:
        raise NumericsError(
            f"LDL^T without exchange of blocks breaks down: elements of L grow to {growth:.2g}",
            hint="use a pivoted LU factorisation, or another size of the blocks",
        )
    return Factors(A, inverses, bounds, growth, condition)


def _inverse(xp: ModuleType, D: NDArray[Any]) -> Any:
    try:
        inverse = xp.linalg.inv(D)
    except np.linalg.LinAlgError as error:
        raise NumericsError("LDL^T: a block of the diagonal is singular") from error
    return 0.5 * (inverse + inverse.T)


def _divide_by_transpose(
    A: NDArray[Any], W: NDArray[Any], bounds: list[int], first: int, last: int, origin: int
) -> None:
    """Overwrite W, columns of the blocks first .. last - 1, by ``W L^-T``; column 0 of W is row ``origin`` of A."""
    if last - first == 1:
        # a block of L on the diagonal is the identity
        return
    # W L^-T by halves: the left columns are solved, their part of the right ones is subtracted,
    # then these are solved. Most operations are then in one large product.
    middle = (first + last) // 2
    lo, mid, hi = (bounds[k] for k in (first, middle, last))
    _divide_by_transpose(A, W, bounds, first, middle, origin)
    subtract_product(W[:, mid - origin : hi - origin], W[:, lo - origin : mid - origin], A[mid:hi, lo:mid].T)
    _divide_by_transpose(A, W, bounds, middle, last, origin)


def _subtract_lower(
    A: NDArray[Any], W: NDArray[Any], bounds: list[int], first: int, last: int, lo: int, mid: int, origin: int
) -> None:
    """Subtract ``L21 W^T`` from the lower blocks first .. last - 1 of A; L21 lies in the columns lo .. mid - 1 of A."""
    top, bottom = bounds[first], bounds[last]
    if last - first == 1:
        subtract_product(
            A[top:bottom, top:bottom], A[top:bottom, lo:mid], W[top - origin : bottom - origin].T
        )
        return
    # The square below the diagonal in one product, the two triangles by recursion.
    middle = (first + last) // 2
    cut = bounds[middle]
    subtract_product(A[cut:bottom, top:cut], A[cut:bottom, lo:mid], W[top - origin : cut - origin].T)
    _subtract_lower(A, W, bounds, first, middle, lo, mid, origin)
    _subtract_lower(A, W, bounds, middle, last, lo, mid, origin)


def _apply_inverse(factors: Factors, b: NDArray[Any]) -> Any:
    """Return ``L^-T D^-1 L^-1 b`` for b (n, k)."""
    x, bounds, L = b.copy(), factors.bounds, factors.L
    parts = list(itertools.pairwise(bounds))
    # Forward substitution with L, rows of one block at a time, then D^-1, then backward with
    # L^T.
    for lo, hi in parts:
        if lo:
            x[lo:hi] -= L[lo:hi, :lo] @ x[:lo]
    for inverse, (lo, hi) in zip(factors.inverses, parts, strict=True):
        x[lo:hi] = inverse @ x[lo:hi]
    for lo, hi in reversed(parts):
        if hi < len(x):
            x[lo:hi] -= L[hi:, lo:hi].T @ x[hi:]
    return x


def solve(
    A: NDArray[Any],
    b: NDArray[Any],
    factors: Factors | None = None,
    *,
    tolerance: float = 1e-13,
    refinements: int = REFINEMENTS,
) -> tuple[Any, dict[str, float]]:
    """Solve ``A x = b``.

    Parameters
    ----------
    A : (n, n) float64 or complex128
        Symmetric; read for the residuals.
    b : (n,) or (n, k)
    factors
        From `factor`; made here if missing.
    tolerance : float
        Backward error ``max|b - A x| / (||A|| max|x| + max|b|)`` that ends the refinement.
    refinements : int
        Most refinements.

    Returns
    -------
    x : shape of b
    info : dict
        ``backward_error``, ``refinements``, ``growth``, ``condition``.

    Raises
    ------
    NumericsError
        If the backward error stays above 1e-8: the factors are useless.
    """
    factors = factor(A) if factors is None else factors
    # Factors without exchange lose digits where L grows; refinement with the residual of A itself gives them back as
    # long as the factors are good for one digit.
    right = b.reshape(A.shape[0], -1).astype(np.result_type(A.dtype, b.dtype))
    x = _apply_inverse(factors, right)
    norm, scale = float(abs(A).sum(axis=1).max()), float(abs(right).max())
    done = 0
    while True:
        residual = right - A @ x
        error = float(abs(residual).max()) / max(norm * float(abs(x).max()) + scale, np.finfo(float).tiny)
        # "not >" also ends at NaN, which the test after the loop reports.
        if not error > tolerance or done >= refinements:
            break
        x = x + _apply_inverse(factors, residual)
        done += 1
    if not error < 1e-8:
        raise NumericsError(
            f"LDL^T: backward error {error:.2g} after {done} refinements, growth {factors.growth:.2g}",
            hint="use a pivoted LU factorisation",
        )
    info = {"backward_error": error, "refinements": done, "growth": factors.growth}
    return x.reshape(b.shape), {**info, "condition": factors.condition}


def symmetric_root(K: np.ndarray[Any, Any], tolerance: float = 1e-12) -> np.ndarray[Any, Any] | None:
    """Return the lower triangular Q with ``K = Q Q^T``: Cholesky for real, its unconjugated twin for complex symmetric K.

    Parameters
    ----------
    K : (n, n) float64 or complex128
        Symmetric, on the host.
    tolerance : float
        Largest relative error of ``Q Q^T``.

    Returns
    -------
    (n, n) or None
        None if K has no such root that is accurate (real: K is not positive definite).
    """
    if not np.iscomplexobj(K):
        try:
            return np.linalg.cholesky(K)
        except np.linalg.LinAlgError:
            return None
    work, Q = K.copy(), np.zeros_like(K)
    # Cholesky's algorithm with complex square roots. A pivot near zero makes inf or NaN, which
    # the error of Q Q^T shows.
    with np.errstate(all="ignore"):
        for j in range(len(K)):
            Q[j:, j] = work[j:, j] / np.sqrt(work[j, j])
            work[j:, j:] -= np.outer(Q[j:, j], Q[j:, j])
        error = abs(Q @ Q.T - K).max() / abs(K).max()
    return Q if error <= tolerance else None
