r"""Generalised Sturmian functions, and the one-electron orbitals that are made of them.

A Sturmian function solves Schrödinger's equation at one *given* energy E, and its eigenvalue is the strength of a generating
potential:

    (T_l + U - E) S_n = beta_n v S_n,        int S_n v S_m dr = delta_nm,

with v > 0, T_l = -1/2 d2/dr2 + l(l+1)/2r2 and an auxiliary potential U, so that -v is the attractive generating potential.  It is
Eqs. (9) and (14) of Colavecchia, Comput. Phys. Commun. 185, 1955 (2014), in FE-DVR.  Nothing is ever conjugated: with outgoing
boundary conditions the problem is complex symmetric.

It is solved in its inverse form, ``v^(1/2) (T_l + U - E)^-1 v^(1/2) x = x / beta``: a bounded spectrum, whether the operator is
definite or not, and however small v becomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.radial.coulomb import outgoing_logarithmic_derivative

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.radial.grid import RadialGrid

# 1/beta relative to the largest one, below which a function is rounding error.
NOISE = 1e-14
# Singular value relative to the largest one, below which a function is no new one.
RANK = 1e-12
# How far beyond the expected lowest beta another one may lie.
MARGIN = 10.0
# Distance of E to a level of the auxiliary potential, relative, that is too small.
CLOSE = 1e-7


@dataclass(frozen=True, eq=False)
class Sturmians:
    """The Sturmian functions of one angular momentum.

    Attributes
    ----------
    l : int
        Angular momentum.
    energy : float
        Energy E of the functions, hartree.
    beta : (N,) float64 or complex128
        Eigenvalues, by ascending real part; negative ones exist if U has levels below E.
    c : (n, N) float64 or complex128
        Coefficients in the normalised FE-DVR basis, one function per column; real functions rise from r = 0.
    orthogonality : float
        Largest deviation of ``int S_n v S_m dr`` from delta_nm, Eq. (14).
    rank : int
        Numerical rank of the functions (each normalised), N at best.
    residual : float
        Largest norm of ``(T_l + U - E) S - beta v S`` relative to the norm of ``beta v S``.
    outgoing : bool
        Whether the functions are outgoing waves.
    """

    l: int
    energy: float
    beta: NDArray[Any]
    c: NDArray[Any]
    orthogonality: float
    rank: int
    residual: float
    outgoing: bool = False

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.beta.shape[0])

    def apart(self, other: Sturmians) -> NDArray[np.float64]:
        """Return by how much the eigenvalues of others differ, hartree, (N,)."""
        if not np.iscomplexobj(self.beta):
            return np.asarray(np.abs(other.beta - self.beta))
        # Complex eigenvalues have no order that both grids keep.
        return np.asarray(np.abs(self.beta[:, None] - other.beta).min(axis=1))


@dataclass(frozen=True, eq=False)
class Orbitals:
    """Eigenfunctions of the one-electron Hamiltonian in the span of a basis.

    Attributes
    ----------
    l : int
        Angular momentum.
    e : (M,) float64
        Eigenvalues of h_l, ascending, hartree.
    C : (n, M) float64
        Orthonormal coefficients in the normalised FE-DVR basis, one function per column.
    """

    l: int
    e: NDArray[np.float64]
    C: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.e.shape[0])


def sturmians(
    grid: RadialGrid,
    l: int,
    U: NDArray[Any],
    E: float,
    v: NDArray[Any],
    N: int,
    *,
    outgoing: bool = False,
    charge: float = 0.0,
) -> Sturmians:
    """Return the first N Sturmian functions of an angular momentum.

    Parameters
    ----------
    grid : RadialGrid
        Outgoing functions need an ECS contour, or a grid that keeps its last point: then the boundary condition is the
        logarithmic derivative of the outgoing (E > 0) or decaying (E < 0) Coulomb function (Robin).
    l : int
        Angular momentum.
    U : (n,)
        Auxiliary potential at the nodes, hartree.
    E : float
        Energy of the functions, hartree.
    v : (n,)
        Generating potential at the nodes, hartree; zero is allowed.
    N : int
        Number of functions.
    outgoing : bool
        Outgoing instead of decaying functions.
    charge : float
        Charge of U beyond the box, for the Robin condition.

    Returns
    -------
    Sturmians

    Raises
    ------
    NumericsError
        If E is a level of the auxiliary potential, if the numerical rank is below N, if v is unusable, or if E and the boundary
        condition contradict each other.
    """
    _require_sense(grid, E, outgoing, l)
    _require_usable(grid, v, l)
    if grid.size < N:
        raise NumericsError(
            f"{N} Sturmian functions of l = {l} do not fit into a radial grid of {grid.size} functions",
            hint="a smaller N, or more elements",
        )
    # A = T_l + U - E, and A c = beta v c: the generalised problem whose eigenvalues beta are the strengths of v.
    A = grid.kinetic(l)
    # Boundary condition at R. With the last point kept, the surface term of the kinetic energy
    # prescribes the logarithmic derivative there; without it the function vanishes at R, or has
    # decayed on the contour. By parts, -1/2 int chi u'' has the surface term -1/2 chi(R) u'(R),
    # which the grid's T leaves out (Bloch). With u'(R) = slope u(R) it is one diagonal element,
    # as chi_n(R) = w_n^-1/2 alone does not vanish there.
    if grid.keep_last:
        slope = outgoing_logarithmic_derivative(l, E, charge, float(grid.R.real))
        if outgoing:
            A = A.astype(complex)
            A[-1, -1] -= 0.5 * slope / grid.w[-1]
        else:
            A[-1, -1] -= 0.5 * slope.real / grid.w[-1]
    elif np.iscomplexobj(U) and not np.iscomplexobj(A):
        A = A.astype(complex)
    A[np.diag_indices_from(A)] += U - E
    # With x = sqrt(v) c the problem is M x = x / beta, M = sqrt(v) A^-1 sqrt(v): symmetric, and without a division
    # by v, which vanishes far outside. The smallest |beta|, which are wanted, are the largest eigenvalues of M.
    root = np.sqrt(v.astype(complex) if np.iscomplexobj(A) else v)
    inverse = _inverse(A, l, E)
    M = root[:, None] * inverse * root[None, :]
    mu: NDArray[Any]
    x: NDArray[Any]
    if np.iscomplexobj(M):
        mu, x = _complex_pairs(M, N, _lowest_strength(grid, A, v))
    else:
        mu, x = _real_pairs(M, N)
    beta = 1.0 / mu
    # c = beta A^-1 sqrt(v) x holds where v is zero as well
    c = inverse @ (root[:, None] * x) * beta
    _require_off_level(beta, c, v, E, l)
    if mu.shape[0] < N:
        raise _too_many(N, mu.shape[0], l, v)
    # orthonormal with weight v, without conjugation: Eq. (14)
    c /= np.sqrt(np.einsum("in,i,in->n", c, v, c))
    # The inverse multiplies rounding errors by beta; one step of Newton's square root makes up for it in Eq. (14).
    c = 1.5 * c - 0.5 * (c @ (c.T @ (v[:, None] * c)))
    # the sign of an eigenvector is arbitrary: functions begin positive
    first = c[0].real
    c *= np.where(first < 0.0, -1.0, 1.0)
    # functions of neighbouring beta may agree to rounding in a small box; then fewer are independent than were found
    rank = numerical_rank(c)
    if rank < N:
        raise _too_many(N, rank, l, v)
    vc = v[:, None] * c
    right = beta * vc
    # Relative to beta v S: with the operator's norm a wrong function of small beta would not
    # show.
    residual = np.linalg.norm(A @ c - right, axis=0) / np.linalg.norm(right, axis=0)
    deviation = c.T @ vc
    deviation[np.diag_indices_from(deviation)] -= 1.0
    return Sturmians(
        l=l,
        energy=float(E),
        beta=beta,
        c=np.ascontiguousarray(c),
        orthogonality=float(np.abs(deviation).max()),
        rank=rank,
        residual=float(residual.max()),
        outgoing=outgoing,
    )


def numerical_rank(c: NDArray[Any]) -> int:
    """Return how many of the functions (columns) are independent, each normalised to one, at the level of `RANK`."""
    # Norms differ by orders between functions near and far, and say nothing about independence.
    normalised = c / np.linalg.norm(c, axis=0)
    singular = np.linalg.svd(normalised, compute_uv=False)
    return int(np.count_nonzero(singular > RANK * singular[0]))


def orbitals(
    grid: RadialGrid,
    l: int,
    V: NDArray[np.float64],
    c: NDArray[np.float64] | None = None,
) -> Orbitals:
    """Return the eigenfunctions of h_l = T_l + V in the span of some functions.

    Parameters
    ----------
    grid : RadialGrid
        A real grid.
    l : int
        Angular momentum.
    V : (n,) float64
        One-body potential at the nodes, hartree.
    c : (n, N) float64, optional
        Coefficients of the functions, of any norm; by default the whole FE-DVR basis.

    Returns
    -------
    Orbitals
        Of as many functions as are independent.
    """
    from scipy.linalg import eigh, qr

    H = grid.kinetic(l)
    H[np.diag_indices_from(H)] += V
    if c is None:
        e, C = eigh(H, overwrite_a=True, check_finite=False, driver="evd")
        return Orbitals(l, e, np.ascontiguousarray(C))
    # Pivoting puts the directions in the order of what each adds; those below RANK of the first add rounding only.
    Q, R, _ = qr(c / np.linalg.norm(c, axis=0), mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diagonal(R))
    Q = Q[:, size > RANK * size[0]]
    # Rayleigh and Ritz in the span
    h = Q.T @ (H @ Q)
    e, rotation = eigh(0.5 * (h + h.T), overwrite_a=True, check_finite=False, driver="evd")
    return Orbitals(l, e, np.ascontiguousarray(Q @ rotation))


def _require_sense(grid: RadialGrid, E: float, outgoing: bool, l: int) -> None:
    """Raise if the energy and the boundary conditions contradict each other."""
    if outgoing and not E > 0.0:
        raise NumericsError(
            f"outgoing Sturmian functions of l = {l} need a positive energy, not {E:.6g} hartree",
            hint="boundary: bound, or a positive energy",
        )
    if outgoing and not (grid.is_complex or grid.keep_last):
        raise NumericsError(
            "outgoing Sturmian functions need a complex contour", hint="grid: {ecs: {angle: 0.3, length: 25}}"
        )
    if not outgoing and not E < 0.0:
        raise NumericsError(
            f"bound Sturmian functions of l = {l} need a negative energy, not {E:.6g} hartree",
            hint="boundary: outgoing, or a negative energy",
        )


def _require_usable(grid: RadialGrid, v: NDArray[Any], l: int) -> None:
    if not np.all(np.isfinite(v)) or not np.any(v):
        raise NumericsError(f"the generating potential of l = {l} is zero everywhere or not finite")
    # On a contour v is complex and has no sign.
    on_axis = grid.is_real if grid.is_complex else slice(None)
    if np.any(v[on_axis].real < 0.0):
        place = grid.r[on_axis].real[v[on_axis].real < 0.0][0]
        raise NumericsError(
            f"the generating potential is negative at r = {place:.6g} bohr; it must not change its sign"
        )


def _inverse(A: NDArray[Any], l: int, E: float) -> NDArray[Any]:
    """Return the symmetric inverse of ``A = T_l + U - E``; refuse an E that is a level of U."""
    from scipy.linalg import get_lapack_funcs

    # Cholesky succeeds only if A is positive definite, the usual case of bound functions; else
    # there are levels of U below E, and the general inverse follows.
    if not np.iscomplexobj(A):
        potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
        factor, info = potrf(A, lower=True)
        # E lies below all levels
        if info == 0:
            lower = np.tril(potri(factor, lower=True)[0])
            return lower + np.tril(lower, -1).T
    try:
        inverse = np.linalg.inv(A)
    except np.linalg.LinAlgError:
        raise _on_level(E, E, l) from None
    return 0.5 * (inverse + inverse.T)


def _real_pairs(M: NDArray[np.float64], N: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenpairs of the N lowest beta = 1/mu: negative ones first, then by descending mu."""
    from scipy.linalg import eigh

    mu, x = eigh(M, check_finite=False, driver="evd")
    floor = NOISE * np.abs(mu).max()
    # mu nearest to zero has the lowest beta
    negative = np.flatnonzero(mu < -floor)[::-1]
    positive = np.flatnonzero(mu > floor)[::-1]
    chosen = np.concatenate((negative, positive))[:N]
    return mu[chosen], x[:, chosen]


def _lowest_strength(grid: RadialGrid, A: NDArray[Any], v: NDArray[Any]) -> float:
    """Return the modulus of the lowest beta by perturbation theory: the level of U that is furthest below E, over its <v>.

    Zero if there is no level below E.
    """
    from scipy.linalg import eigh

    # A without the contour is real and has U's levels minus E; beta <v> = level - E to first
    # order.
    inside = np.flatnonzero(grid.r.real < grid.R0 * (1.0 - 1e-12))
    depth, x = eigh(A[np.ix_(inside, inside)].real, subset_by_index=[0, 0], check_finite=False)
    if depth[0] >= 0.0:
        return 0.0
    return float(-depth[0] / max(float(x[:, 0] ** 2 @ v[inside].real), 1e-300))


def _complex_pairs(
    M: NDArray[np.complex128], N: int, lowest: float
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return N eigenpairs by ascending real part of beta = 1/mu.

    Functions of a negative beta, such as bound states of U, are always kept; of the rest, those with the smallest modulus of
    beta.  Far out on a contour, where v is tiny, beta is huge and turns through all directions: there a negative real
    part means nothing, so that such functions have to stay within `MARGIN` times the lowest beta that is expected.
    """
    mu, x = np.linalg.eig(M)
    modulus = np.abs(mu)
    # A hundred times the noise of real matrices: eigenvectors of a complex symmetric matrix are
    # not orthogonal, and rounding grows with their condition.
    resolved = np.flatnonzero(modulus > 100.0 * NOISE * modulus.max())
    mu, x, modulus = mu[resolved], x[:, resolved], modulus[resolved]
    # 1/mu lies in the sector of 45 degrees around the negative axis, as mu does
    bound = (mu.real < 0.0) & (np.abs(mu.imag) <= -mu.real) & (MARGIN * lowest * modulus >= 1.0)
    chosen = np.lexsort((-modulus, ~bound))[:N]
    chosen = chosen[np.argsort((1.0 / mu[chosen]).real, kind="stable")]
    return mu[chosen], x[:, chosen]


def _require_off_level(
    beta: NDArray[Any],
    c: NDArray[Any],
    v: NDArray[Any],
    E: float,
    l: int,
) -> None:
    """Raise if E is a level of the auxiliary potential: there beta = 0, and the function is no Sturmian one."""
    nearest = int(np.argmin(np.abs(beta)))
    S = c[:, nearest]
    # to first order in beta: <S|T + U - E|S> = beta <S|v|S>
    distance = complex(beta[nearest] * (S @ (v * S)) / (S @ S))
    if abs(distance) < CLOSE * max(1e-3, abs(E)):
        raise _on_level(E, E + distance.real, l)


def _on_level(E: float, level: float, l: int) -> NumericsError:
    return NumericsError(
        f"the energy {E:.8g} hartree of the Sturmian functions is the level {level:.8g} of the auxiliary potential with l = {l}; "
        "there is no Sturmian function at that energy",
        hint="another energy, for instance minus the ionisation energy of the state (energy: auto)",
    )


def _too_many(N: int, rank: int, l: int, v: NDArray[Any]) -> NumericsError:
    smallest = float(np.abs(v).min() / np.abs(v).max())
    return NumericsError(
        f"only {rank} of {N} Sturmian functions of l = {l} are independent in double precision "
        f"(the generating potential falls to {smallest:.1e} of its largest value)",
        hint="a smaller N, a smaller alpha, or a longer range of the generating potential",
    )
