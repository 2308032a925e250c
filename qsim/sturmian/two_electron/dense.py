r"""The dense route: Hamiltonian blocks of Eq. (12), assembled from integrals, and their eigenvalues by LAPACK or cuSOLVER.

With functions of a generating potential v, an auxiliary potential U and an energy E, ``(T_l + U - E) S_n = beta_n v S_n``, the
one-electron Hamiltonian of the basis is

    h[n', n] = beta_n int S_n' v S_n dr + E O[n', n] + int S_n' (V - U) S_n dr,

the last term being zero where U is the one-body potential V of the Hamiltonian, as Eq. (12) assumes.  The block of two pairs is

    H[(a'b'), (ab)] = delta (h_a x O_b + O_a x h_b) + sum_l A_l R_l[(a'b'), (ab)],

with Kronecker products and angular coefficients A_l that contain the factor 4 pi / (2l + 1) (Eq. (12) with Eq. (18) of the paper
would count it twice, and its two delta's lack their primes).  The sum over l is made before the integrals: one product a block.

Exchange.  Pairs are stored with la <= lb.  Basis functions are ``(|ab> + s |ba>) / sqrt(2)``, s = (-1)^(la+lb-L+S); with la = lb
only those with a <= b (s = 1) or a < b (s = -1), and ``|aa>`` once.  With D the block of a pair and X that of its exchanged ket,
``H = f' f (D + s X)``, where f = 1/sqrt(2) for ``|aa>`` and 1 else.

Overlap.  Sturmian functions are not orthogonal, and the condition of two electrons' overlap is the square of one's.  The matrix
is therefore reduced one electron at a time: c = Q R makes O = R^T R, and Q replaces c.  ``generalised=True`` leaves the overlap
to LAPACK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.blas import large_matrices
from qsim.core.device.device import Memory
from qsim.core.errors import NumericsError
from qsim.sturmian.two_electron.angular import angular
from qsim.sturmian.two_electron.integrals import (
    kronecker,
    overlap,
    potential_matrix,
    repulsion_kernel,
    repulsion_pairs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.radial.sturmians import Sturmians

__all__ = ["Assembled", "OneElectron", "assemble", "one_electron", "orthonormalised", "solve"]

Pair = tuple[int, int]
RANK = 1e-12  # diagonal of R relative to the largest, below which functions are dependent: gsf.RANK
LARGEST_CONDITION = 1e14  # of the overlap of two electrons, beyond which LAPACK cannot factor it


# -------------------------------------------------------------------------------------- one electron


@dataclass(frozen=True, eq=False)
class OneElectron:
    """Functions of one l with the matrices of their integrals.

    Attributes
    ----------
    c : (n, N)
        Coefficients.
    O, h : (N, N)
        Overlap, Eq. (13), and one-electron Hamiltonian, hartree; symmetric, never conjugated.
    """

    c: NDArray[Any]
    O: NDArray[Any]
    h: NDArray[Any]

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.c.shape[1])


def one_electron(
    grid: RadialGrid,
    V: NDArray[Any],
    functions: Sturmians,
    v: NDArray[Any] | None = None,
    U: NDArray[Any] | None = None,
) -> OneElectron:
    """Return overlap and Hamiltonian of Sturmian functions.

    Parameters
    ----------
    grid : RadialGrid
    V : (n,)
        One-body potential of the Hamiltonian at the nodes, hartree.
    functions : Sturmians
        Functions of one l.
    v, U : (n,), optional
        Generating and auxiliary potential of the functions at the nodes: the integrals of Eq. (12).  Without them the kinetic
        energy of the grid is used, which needs no Sturmian equation.
    """
    c = functions.c
    overlaps = overlap(c, c)
    if v is None:
        h = c.T @ (grid.kinetic(functions.l) @ c) + potential_matrix(c, V, c)
    else:
        h = potential_matrix(c, v, c) * functions.beta + functions.energy * overlaps
        if U is not None:
            h = h + potential_matrix(c, V - U, c)
    return OneElectron(c, overlaps, 0.5 * (h + h.T))


def orthonormalised(one: OneElectron) -> tuple[OneElectron, NDArray[Any]]:
    """Return orthonormal functions Q with ``c = Q R``, and R: the Cholesky factor of O without its loss of digits.

    Raises
    ------
    NumericsError
        If the functions are linearly dependent within rounding.
    """
    if np.iscomplexobj(one.c):
        raise ValueError("complex symmetric overlaps have no orthonormal basis of this kind")
    scale = np.linalg.norm(one.c, axis=0)
    Q, R = np.linalg.qr(one.c / scale)
    size = np.abs(np.diagonal(R))
    if size.min() <= RANK * size.max():
        rank = int(np.count_nonzero(size > RANK * size.max()))
        raise NumericsError(
            f"only {rank} of {one.size} radial functions are independent", hint=f"use basis.N <= {rank}"
        )
    R = R * scale
    half = np.linalg.solve(R.T, one.h)
    h = np.linalg.solve(R.T, half.T)
    return OneElectron(Q, np.eye(one.size), 0.5 * (h + h.T)), R


# --------------------------------------------------------------------------------------- two electrons


@dataclass(frozen=True, eq=False)
class Assembled:
    """Hamiltonian and overlap of two electrons between exchange-symmetric functions.

    Attributes
    ----------
    H, S : (n, n)
        On the device, symmetric; S is None for orthonormal functions.
    pairs : list of (la, lb)
    sizes : list of (Na, Nb)
    bounds : list of int
        First row of each pair, and n.
    signs : list of int
        s of each pair.
    flops : float
        Operations of the matrix products.
    integrals : int
        Repulsion integrals, N^4 counted.
    """

    H: Any
    S: Any
    pairs: list[Pair]
    sizes: list[Pair]
    bounds: list[int]
    signs: list[int]
    flops: float
    integrals: int

    def components(self, x: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the radial components (Na, Nb) of a vector (n,) in the norm of both orders, sqrt(2) for la < lb included."""
        out = []
        for k, (Na, Nb) in enumerate(self.sizes):
            part = x[self.bounds[k] : self.bounds[k + 1]]
            rows = _rows(self.pairs[k], (Na, Nb), self.signs[k])
            if rows is None:
                out.append(part.reshape(Na, Nb))
                continue
            X = np.zeros((Na, Nb), x.dtype)
            X.ravel()[rows] = part * np.where(_on_diagonal(rows, Nb), 0.5, np.sqrt(0.5))
            out.append(X + self.signs[k] * X.T)
        return out


def _sign(pair: Pair, L: int, S: int) -> int:
    return -1 if (sum(pair) - L + S) % 2 else 1


def _rows(pair: Pair, sizes: Pair, sign: int) -> NDArray[np.int64] | None:
    """Return which products (a, b) of a pair with la = lb are kept, a <= b or a < b; None if all are."""
    if pair[0] != pair[1]:
        return None
    first, second = np.triu_indices(sizes[0], 0 if sign > 0 else 1)
    return np.asarray(first * sizes[1] + second)


def _on_diagonal(rows: NDArray[np.int64], Nb: int) -> NDArray[np.bool_]:
    return np.asarray(rows // Nb == rows % Nb)


def assemble(
    device: Device, grid: RadialGrid, basis: Mapping[int, OneElectron], L: int, S: int, pairs: Sequence[Pair]
) -> Assembled:
    """Return the matrices of Eq. (12) for one symmetry.

    Parameters
    ----------
    device
        Where integrals and matrices are made.
    grid : RadialGrid
    basis : dict of l to OneElectron
        From `one_electron` or `orthonormalised`.
    L, S : int
        Total orbital and spin angular momentum.
    pairs : list of (la, lb)
        la <= lb.

    Raises
    ------
    MemoryLimitError
        If matrices and integrals do not fit on the device.
    """
    xp = device.xp
    signs = [_sign(pair, L, S) for pair in pairs]
    sizes = [(basis[la].size, basis[lb].size) for la, lb in pairs]
    rows = [_rows(*part) for part in zip(pairs, sizes, signs, strict=True)]
    counts = [Na * Nb if kept is None else kept.size for (Na, Nb), kept in zip(sizes, rows, strict=True)]
    bounds = [0, *np.cumsum(counts).tolist()]
    n, kind = bounds[-1], np.result_type(*(basis[l].c for pair in pairs for l in pair), grid.r)
    orthonormal = all(np.array_equal(one.O, np.eye(one.size)) for one in basis.values())
    largest = max(Na * Nb for Na, Nb in sizes) ** 2 * kind.itemsize
    matrices = (1 if orthonormal else 2) * n * n * kind.itemsize
    device.require(
        Memory(device=matrices + 4 * largest, parts={"H": matrices, "integrals": largest}, reduce="basis.N")
    )
    kernels: dict[int, NDArray[Any]] = {}
    flops, integrals = 0.0, 0
    with device.use():
        H = xp.zeros((n, n), kind)
        overlaps = None if orthonormal else xp.zeros((n, n), kind)
        places = [None if kept is None else device.asarray(kept) for kept in rows]
        factors: list[Any] = [
            None if kept is None else device.asarray(np.where(_on_diagonal(kept, Nb), np.sqrt(0.5), 1.0))
            for kept, (_, Nb) in zip(rows, sizes, strict=True)
        ]

        def symmetric(D: Any, X: Any, p: int, q: int) -> Any:
            """Return ``f' f (D + s X)`` of the kept rows and columns."""
            M = D if X is None else D + signs[q] * X
            if places[p] is not None:
                M = M[places[p]] * factors[p][:, None]
            if places[q] is not None:
                M = M[:, places[q]] * factors[q]
            return M

        def exchanged(D: Any, p: int, q: int) -> Any:
            """Return the block D with the functions of its ket exchanged."""
            Na, Nb = sizes[q]
            return D.reshape(-1, Na, Nb).transpose(0, 2, 1).reshape(D.shape)

        def repulsion(p: int, ket: Pair) -> Any:
            """Return ``sum_l A_l R_l`` between a pair and any ordered ket; None if all A_l are zero."""
            nonlocal flops, integrals
            bra = pairs[p]
            coefficients = _coefficients(L, bra, ket)
            if not coefficients:
                return None
            for l in coefficients:
                if l not in kernels:
                    kernels[l] = repulsion_kernel(grid, l)
            K = np.einsum("k,kij->ij", list(coefficients.values()), [kernels[l] for l in coefficients])
            c = (basis[bra[0]].c, basis[ket[0]].c, basis[bra[1]].c, basis[ket[1]].c)
            made = repulsion_pairs(device, K, c, dtype=kind, use_root=False)
            integrals += made.count
            flops += made.flops
            return made.expand()

        for p, bra in enumerate(pairs):
            here = slice(bounds[p], bounds[p + 1])
            for q in range(p + 1):
                ket = pairs[q]
                there = slice(bounds[q], bounds[q + 1])
                D = repulsion(p, ket)
                if D is None:
                    D = xp.zeros((sizes[p][0] * sizes[p][1], sizes[q][0] * sizes[q][1]), kind)
                if p == q:
                    overlap_ab, h = _on(device, kind, basis, bra)
                    kronecker(h[0], overlap_ab[1], D, accumulate=True)
                    kronecker(overlap_ab[0], h[1], D, accumulate=True)
                    if overlaps is not None:
                        W = kronecker(*overlap_ab)
                        X = exchanged(W, p, q) if places[q] is not None else None
                        overlaps[here, there] = symmetric(W, X, p, q)
                if places[q] is not None:
                    X = exchanged(D, p, q)
                else:
                    X = repulsion(p, (ket[1], ket[0]))
                    if X is not None:  # the ket's functions come in the order (b, a)
                        Na, Nb = sizes[q]
                        X = X.reshape(-1, Nb, Na).transpose(0, 2, 1).reshape(D.shape)
                H[here, there] = symmetric(D, X, p, q)
                if q < p:
                    H[there, here] = H[here, there].T
    return Assembled(H, overlaps, list(pairs), sizes, bounds, signs, flops, integrals)


def _coefficients(L: int, bra: Pair, ket: Pair) -> dict[int, float]:
    low = max(abs(bra[0] - ket[0]), abs(bra[1] - ket[1]))
    high = min(bra[0] + ket[0], bra[1] + ket[1])
    found = {l: angular(L, *bra, *ket, l) for l in range(low, high + 1)}
    return {l: A for l, A in found.items() if A != 0.0}


def _on(
    device: Device, kind: Any, basis: Mapping[int, OneElectron], pair: Pair
) -> tuple[list[Any], list[Any]]:
    return (
        [device.asarray(basis[l].O, kind) for l in pair],
        [device.asarray(basis[l].h, kind) for l in pair],
    )


# --------------------------------------------------------------------------------------- eigenvalues


def solve(
    grid: RadialGrid,
    V: NDArray[Any],
    functions: Mapping[int, Sturmians],
    L: int,
    S: int,
    pairs: Sequence[Pair],
    n_roots: int,
    device: Device,
    *,
    v: NDArray[Any] | None = None,
    U: NDArray[Any] | None = None,
    generalised: bool = False,
) -> tuple[NDArray[np.float64], list[list[NDArray[np.float64]]], dict[str, Any]]:
    """Return the lowest states of one symmetry by dense linear algebra.

    Parameters
    ----------
    grid, V, v, U
        As for `one_electron`.
    functions : dict of l to Sturmians
        Real (bound) functions of every l in ``pairs``.
    L, S, pairs
        Symmetry; pairs with la <= lb.
    n_roots : int
        Number of states.
    device
        CPU: LAPACK, only these roots.  CUDA: cuSOLVER, all roots.
    generalised : bool
        Solve ``H x = E S x`` between the Sturmian functions themselves, on the host.

    Returns
    -------
    energies : (n_roots,) float64
        hartree.
    vectors
        For each state and pair the coefficients (Na, Nb) of products of Sturmian functions, in the norm of both orders.
    info : dict
        ``unknowns``, ``condition`` (of the overlap of two electrons), ``flops``, ``integrals``.

    Raises
    ------
    NumericsError
        If the functions are dependent, or for ``generalised`` if LAPACK cannot factor their overlap.
    """
    one = {l: one_electron(grid, V, functions[l], v, U) for l in sorted({l for pair in pairs for l in pair})}
    reduced = {l: orthonormalised(part) for l, part in one.items()}
    condition = {l: float(np.linalg.cond(R)) ** 2 for l, (_, R) in reduced.items()}
    worst = max(condition[a] * condition[b] for a, b in pairs)
    basis = one if generalised else {l: Q for l, (Q, _) in reduced.items()}
    made = assemble(device, grid, basis, L, S, pairs)
    if generalised and not worst < LARGEST_CONDITION:
        raise NumericsError(
            f"the overlap of two electrons has the condition number {worst:.1e}: too large for a Cholesky factorisation",
            hint="use fewer functions, or the reduction by one electron",
        )
    energies, x = _eigenpairs(device, made, n_roots)
    vectors = []
    for column in x.T:
        parts = made.components(column)
        if not generalised:
            parts = [
                np.linalg.solve(reduced[la][1], np.linalg.solve(reduced[lb][1], X.T).T)
                for (la, lb), X in zip(pairs, parts, strict=True)
            ]
        vectors.append(parts)
    info = {
        "unknowns": made.bounds[-1],
        "condition": worst,
        "flops": made.flops,
        "integrals": made.integrals,
    }
    return energies, vectors, info


def _eigenpairs(device: Device, made: Assembled, roots: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the lowest eigenvalues and eigenvectors (n, roots), on the host."""
    n = made.bounds[-1]
    if roots > n:
        raise NumericsError(f"{roots} states are wanted, but the basis has {n} functions only")
    if made.H.dtype.kind == "c":
        raise ValueError("bound states need real functions")
    if device.is_cuda and made.S is None:
        with device.use():
            energies, x = device.xp.linalg.eigh(made.H)
            return device.to_host(energies[:roots]), device.to_host(x[:, :roots])
    from scipy.linalg import LinAlgError, eigh

    try:
        with large_matrices(n):
            return eigh(
                device.to_host(made.H),
                None if made.S is None else device.to_host(made.S),
                subset_by_index=(0, roots - 1),
                check_finite=False,
                driver="evr" if made.S is None else "gvx",
            )
    except LinAlgError as error:
        raise NumericsError(
            f"LAPACK cannot solve the eigenproblem: {error}", hint="use fewer functions"
        ) from error
