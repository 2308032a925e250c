r"""The dense route: Hamiltonian blocks of Eq. (12), assembled from integrals, and their eigenvalues by LAPACK or cuSOLVER.

With functions of a generating potential v, an auxiliary potential U and an energy E, ``(T_l + U - E) S_n = beta_n v S_n``, the
one-electron Hamiltonian of the basis is

    h[n', n] = beta_n int S_n' v S_n dr + E O[n', n] + int S_n' (V - U) S_n dr,

the last term being zero where U is the one-body potential V of the Hamiltonian, as Eq. (12) assumes.  The block of two pairs is

    H[(a'b'), (ab)] = delta (h_a x O_b + O_a x h_b) + sum_l A_l R_l[(a'b'), (ab)],

with Kronecker products and angular coefficients A_l that contain the factor 4 pi / (2l + 1) (Eq. (12) with Eq. (18) of the paper
would count it twice, and its two delta's lack their primes).  The sum over l is made before the integrals: one product a block.

Exchange.  Pairs are stored with la <= lb.  Basis functions are ``(|ab> + s |ba>) / sqrt(2)``, s = (-1)^(la+lb-L+S); with la = lb
only those with a <= b (s = 1) or a < b (s = -1), and ``|aa>`` once.  With D the block of a pair and X
the block of its exchanged ket, ``H = f' f (D + s X)``, where f = 1/sqrt(2) for ``|aa>`` and 1 else.

Overlap.  Sturmian functions are not orthogonal, and the condition of two electrons' overlap is the square of one's.  The matrix
is therefore reduced one electron at a time: c = Q R makes O = R^T R, and Q replaces c.  ``generalised=True`` leaves the overlap
to LAPACK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.blas import large_matrices
from qsim.core.device.device import Memory
from qsim.core.device.parallel import SerialComm, agreed, in_shares, owners
from qsim.core.errors import NumericsError
from qsim.core.run.stops.lapack import lowest_pairs
from qsim.sturmian.deck.blocks import LESS
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.two_electron.angular import multipoles
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
    from qsim.core.device.parallel import Comm
    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.radial.sturmians import Sturmians

__all__ = [
    "Assembled",
    "Field",
    "OneElectron",
    "Symmetry",
    "assemble",
    "eigenpairs",
    "one_electron",
    "orthonormalised",
    "solve",
]

Pair = tuple[int, int]
# Diagonal element of R relative to the largest, below which functions are dependent: gsf.RANK.
RANK = 1e-12
# Condition number of the overlap of two electrons beyond which LAPACK cannot factor it.
LARGEST_CONDITION = 1e14


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
    # Either way h is the same operator. With v it comes from Eq. (12), which replaces the
    # kinetic energy by the Sturmian equation.
    if v is None:
        h = c.T @ (grid.kinetic(functions.l) @ c) + potential_matrix(c, V, c)
    else:
        h = potential_matrix(c, v, c) * functions.beta + functions.energy * overlaps
        if U is not None:
            h = h + potential_matrix(c, V - U, c)
    # Both routes leave an antisymmetric part of rounding, which LAPACK would read from one
    # triangle.
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
    # Columns of norm one: the diagonal of R then measures independence and not the size of a
    # function.
    scale = np.linalg.norm(one.c, axis=0)
    Q, R = np.linalg.qr(one.c / scale)
    size = np.abs(np.diagonal(R))
    if size.min() <= RANK * size.max():
        rank = int(np.count_nonzero(size > RANK * size.max()))
        raise NumericsError(
            f"only {rank} of {one.size} radial functions are independent", hint=f"use basis.N <= {rank}"
        )
    R = R * scale
    # R^-T h R^-1 by two triangular solutions; the inverse of R is never formed.
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
            # One triangle was kept. Filling both gives off-diagonal elements x / sqrt(2) each,
            # and the diagonal, which X + X^T doubles, x.
            X = np.zeros((Na, Nb), x.dtype)
            X.ravel()[rows] = part * np.where(_on_diagonal(rows, Nb), 0.5, np.sqrt(0.5))
            out.append(X + self.signs[k] * X.T)
        return out

    def vector(self, components: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return radial components (Na, Nb) as a vector (n,) of the kept functions: the inverse of `components`."""
        out = []
        for X, pair, sizes, sign in zip(components, self.pairs, self.sizes, self.signs, strict=True):
            part, rows = X.ravel(), _rows(pair, sizes, sign)
            # Off the diagonal one kept number stands for both orders of the electrons.
            if rows is not None:
                part = part[rows] * np.where(_on_diagonal(rows, sizes[1]), 1.0, np.sqrt(2.0))
            out.append(part)
        return np.concatenate(out)


def _rows(pair: Pair, sizes: Pair, sign: int) -> NDArray[np.int64] | None:
    """Return which products (a, b) of a pair with la = lb are kept, a <= b or a < b; None if all are."""
    if pair[0] != pair[1]:
        return None
    first, second = np.triu_indices(sizes[0], 0 if sign > 0 else 1)
    return np.asarray(first * sizes[1] + second)


def _on_diagonal(rows: NDArray[np.int64], Nb: int) -> NDArray[np.bool_]:
    return np.asarray(rows // Nb == rows % Nb)


def assemble(
    device: Device,
    grid: RadialGrid,
    basis: Mapping[int, OneElectron],
    symmetry: Symmetry,
    comm: Comm | None = None,
) -> Assembled:
    """Return the matrices of Eq. (12) for one symmetry.

    Parameters
    ----------
    device
        Where integrals and matrices are made.
    grid : RadialGrid
    basis : dict of l to OneElectron
        From `one_electron` or `orthonormalised`.
    symmetry : Symmetry
    comm : Comm, optional
        Processes that share kernels and blocks, each made whole by one of them; all get the bits of one process.

    Raises
    ------
    MemoryLimitError
        If matrices and integrals do not fit on the device.
    """
    comm = SerialComm() if comm is None else comm
    pairs = symmetry.pairs
    made = agreed(comm, lambda: _Assembly(device, grid, basis, symmetry))
    # H is symmetric: blocks of pairs q <= p are computed, those across are transposes.
    blocks = [(p, q) for p in range(len(pairs)) for q in range(p + 1)]
    # kernels first, as several blocks need each; then the blocks of the lower triangle, by cost
    needed = sorted({l for p, q in blocks for l in made.multipoles(p, q)})
    made.kernels = in_shares(comm, needed, partial(repulsion_kernel, grid))
    owner = owners([made.cost(p, q) for p, q in blocks], comm.size)

    def fill() -> None:
        for (p, q), rank in zip(blocks, owner, strict=True):
            if rank == comm.rank:
                made.block(p, q)

    with device.use():
        agreed(comm, fill)
        # every process ends with the whole matrix, block by block as its owner has made it
        if comm.size > 1:
            for (p, q), rank in zip(blocks, owner, strict=True):
                made.put(p, q, comm.bcast(made.get(p, q) if rank == comm.rank else None, rank))
            counts = comm.allgather((made.flops, made.integrals))
            made.flops = sum(flops for flops, _ in counts)
            made.integrals = sum(integrals for _, integrals in counts)
    return made.result()


class _Assembly:
    """The matrices of one symmetry while they are made; parameters as for `assemble`."""

    def __init__(
        self,
        device: Device,
        grid: RadialGrid,
        basis: Mapping[int, OneElectron],
        symmetry: Symmetry,
    ) -> None:
        L, S, pairs = symmetry
        self.device, self.grid, self.basis, self.L, self.pairs = device, grid, basis, L, list(pairs)
        self.signs = [exchange_sign(la, lb, L, S) for la, lb in pairs]
        self.sizes = [(basis[la].size, basis[lb].size) for la, lb in pairs]
        rows = [_rows(*part) for part in zip(pairs, self.sizes, self.signs, strict=True)]
        counts = [
            Na * Nb if kept is None else kept.size for (Na, Nb), kept in zip(self.sizes, rows, strict=True)
        ]
        self.bounds = [0, *np.cumsum(counts).tolist()]
        n = self.bounds[-1]
        # Complex if any function or the contour is.
        self.kind = np.result_type(*(basis[l].c for pair in pairs for l in pair), grid.r)
        # Without an overlap matrix one of the two largest arrays is saved.
        orthonormal = all(np.array_equal(one.O, np.eye(one.size)) for one in basis.values())
        self._require(n, orthonormal)
        self.kernels: dict[int, NDArray[Any]] = {}
        self.flops, self.integrals = 0.0, 0
        with device.use():
            self.H = device.xp.zeros((n, n), self.kind)
            self.overlaps = None if orthonormal else device.xp.zeros((n, n), self.kind)
            self.places: list[Any] = [None if kept is None else device.asarray(kept) for kept in rows]
            # f of the module's docstring: 1/sqrt(2) for |aa>, which both orders would count
            # twice.
            self.factors: list[Any] = [
                None if kept is None else device.asarray(np.where(_on_diagonal(kept, Nb), np.sqrt(0.5), 1.0))
                for kept, (_, Nb) in zip(rows, self.sizes, strict=True)
            ]

    def _require(self, n: int, orthonormal: bool) -> None:
        item = self.kind.itemsize
        # The integrals of the largest block, its exchange, their expansion and the kept rows
        # exist at the same time.
        largest = max(Na * Nb for Na, Nb in self.sizes) ** 2 * item
        matrices = (1 if orthonormal else 2) * n * n * item
        parts = {"H": matrices, "integrals": largest}
        self.device.require(Memory(device=matrices + 4 * largest, parts=parts, reduce=LESS))

    def multipoles(self, p: int, q: int) -> set[int]:
        """Return the multipoles of the block of two pairs, and of its exchange."""
        bra, ket = self.pairs[p], self.pairs[q]
        return {l for order in (ket, ket[::-1]) for l, _ in multipoles(self.L, bra, order)}

    def cost(self, p: int, q: int) -> float:
        """Return the work of a block: its integrals, twice where the exchanged ket has others."""
        here, there = self.sizes[p], self.sizes[q]
        return float(np.prod(here)) * float(np.prod(there)) * (1.0 if self.places[q] is not None else 2.0)

    def get(self, p: int, q: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return a block of H that was made here, and of the overlap on the diagonal, on the host."""
        here, there = (slice(self.bounds[k], self.bounds[k + 1]) for k in (p, q))
        S = None if self.overlaps is None or p != q else self.device.to_host(self.overlaps[here, here])
        return self.device.to_host(self.H[here, there]), S

    def put(self, p: int, q: int, block: tuple[NDArray[Any], NDArray[Any] | None] | None) -> None:
        """Take the block of H that another process has made, and that across the diagonal."""
        # some process has made it
        assert block is not None
        here, there = (slice(self.bounds[k], self.bounds[k + 1]) for k in (p, q))
        self.H[here, there] = self.device.asarray(block[0])
        if q < p:
            self.H[there, here] = self.H[here, there].T
        if self.overlaps is not None and block[1] is not None:
            self.overlaps[here, here] = self.device.asarray(block[1])

    def block(self, p: int, q: int) -> None:
        """Fill the block of two pairs, q <= p, and the one across the diagonal."""
        here = slice(self.bounds[p], self.bounds[p + 1])
        there = slice(self.bounds[q], self.bounds[q + 1])
        bra, ket = self.pairs[p], self.pairs[q]
        made = self._repulsion(bra, ket)
        size = (self.sizes[p][0] * self.sizes[p][1], self.sizes[q][0] * self.sizes[q][1])
        D = self.device.xp.zeros(size, self.kind) if made is None else made
        # One-electron integrals connect equal momenta only: delta of Eq. (12).
        if p == q:
            self._one_electron(p, D)
        X: NDArray[Any] | None
        # Exchange of the ket. With la = lb the exchanged integrals are the direct ones with the
        # two functions swapped; with la != lb they have other multipoles and are computed.
        if self.places[q] is not None:
            X = self._exchanged(D, q)
        else:
            X = self._repulsion(bra, (ket[1], ket[0]))
            # the ket's functions come in the order (b, a)
            if X is not None:
                Na, Nb = self.sizes[q]
                X = X.reshape(-1, Nb, Na).transpose(0, 2, 1).reshape(D.shape)
        self.H[here, there] = self._symmetric(D, X, p, q)
        if q < p:
            self.H[there, here] = self.H[here, there].T

    def _one_electron(self, p: int, D: NDArray[Any]) -> None:
        """Add the one-electron integrals of a pair to its block, and fill the block of the overlap."""
        overlap_ab, h = _on(self.device, self.kind, self.basis, self.pairs[p])
        kronecker(h[0], overlap_ab[1], D, accumulate=True)
        kronecker(overlap_ab[0], h[1], D, accumulate=True)
        if self.overlaps is not None:
            here = slice(self.bounds[p], self.bounds[p + 1])
            W = kronecker(*overlap_ab)
            X = self._exchanged(W, p) if self.places[p] is not None else None
            self.overlaps[here, here] = self._symmetric(W, X, p, p)

    def _symmetric(self, D: NDArray[Any], X: NDArray[Any] | None, p: int, q: int) -> NDArray[Any]:
        """Return ``f' f (D + s X)`` of the kept rows and columns."""
        M = D if X is None else D + self.signs[q] * X
        if self.places[p] is not None:
            M = M[self.places[p]] * self.factors[p][:, None]
        if self.places[q] is not None:
            M = M[:, self.places[q]] * self.factors[q]
        return M

    def _exchanged(self, D: NDArray[Any], q: int) -> NDArray[Any]:
        """Return the block D with the functions of its ket exchanged."""
        Na, Nb = self.sizes[q]
        return D.reshape(-1, Na, Nb).transpose(0, 2, 1).reshape(D.shape)

    def _repulsion(self, bra: Pair, ket: Pair) -> NDArray[Any] | None:
        """Return ``sum_l A_l R_l`` between a pair and any ordered ket; None if all A_l are zero."""
        coefficients = dict(multipoles(self.L, bra, ket))
        if not coefficients:
            return None
        # The multipoles are summed before the integrals: one pair of matrix products per block
        # instead of one per l. Such a sum need not be positive, hence no Cholesky root.
        K = np.einsum("k,kij->ij", list(coefficients.values()), [self.kernels[l] for l in coefficients])
        basis = self.basis
        c = (basis[bra[0]].c, basis[ket[0]].c, basis[bra[1]].c, basis[ket[1]].c)
        made = repulsion_pairs(self.device, K, c, dtype=self.kind, use_root=False)
        self.integrals += made.count
        self.flops += made.flops
        return made.expand()

    def result(self) -> Assembled:
        """Return the matrices; complete once all blocks are filled."""
        return Assembled(
            self.H,
            self.overlaps,
            self.pairs,
            self.sizes,
            self.bounds,
            self.signs,
            self.flops,
            self.integrals,
        )


def _on(
    device: Device, kind: Any, basis: Mapping[int, OneElectron], pair: Pair
) -> tuple[list[Any], list[Any]]:
    return (
        [device.asarray(basis[l].O, kind) for l in pair],
        [device.asarray(basis[l].h, kind) for l in pair],
    )


# --------------------------------------------------------------------------------------- eigenvalues


class Field(NamedTuple):
    """Grid and potentials of one electron.

    Attributes
    ----------
    grid : RadialGrid
    V : (n,)
        One-body potential of the Hamiltonian at the nodes, hartree.
    v, U : (n,), optional
        Generating and auxiliary potential of the functions, as for `one_electron`.
    """

    grid: RadialGrid
    V: NDArray[Any]
    v: NDArray[Any] | None = None
    U: NDArray[Any] | None = None


class Symmetry(NamedTuple):
    """Total orbital and spin angular momentum, and pairs with la <= lb."""

    L: int
    S: int
    pairs: Sequence[Pair]


def solve(
    field: Field,
    functions: Mapping[int, Sturmians],
    symmetry: Symmetry,
    n_roots: int,
    device: Device,
    *,
    generalised: bool = False,
) -> tuple[NDArray[np.float64], list[list[NDArray[np.float64]]], dict[str, Any]]:
    """Return the lowest states of one symmetry by dense linear algebra.

    Parameters
    ----------
    field : Field
    functions : dict of l to Sturmians
        Real (bound) functions of every l of the pairs.
    symmetry : Symmetry
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
    grid, V, v, U = field
    pairs = symmetry.pairs
    # The overlap of two electrons is the product of two of one: its condition number is too, and a reduction of each
    # l to orthonormal functions makes H x = E x of the generalised problem at the price of matrices (N, N).
    one = {l: one_electron(grid, V, functions[l], v, U) for l in sorted({l for pair in pairs for l in pair})}
    reduced = {l: orthonormalised(part) for l, part in one.items()}
    condition = {l: float(np.linalg.cond(R)) ** 2 for l, (_, R) in reduced.items()}
    worst = max(condition[a] * condition[b] for a, b in pairs)
    basis = one if generalised else {l: Q for l, (Q, _) in reduced.items()}
    # `generalised` keeps the Sturmian functions and leaves their overlap to LAPACK, as the
    # paper does; it is the check of the reduction.
    made = assemble(device, grid, basis, symmetry)
    if generalised and not worst < LARGEST_CONDITION:
        raise NumericsError(
            f"the overlap of two electrons has the condition number {worst:.1e}: too large for a Cholesky factorisation",
            hint="use fewer functions, or the reduction by one electron",
        )
    # back to coefficients of the Sturmian functions: X = R_a^-1 X' R_b^-T of every pair
    energies, x = eigenpairs(device, made, n_roots)
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


def eigenpairs(device: Device, made: Assembled, roots: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the lowest eigenvalues and eigenvectors (n, roots), on the host."""
    n = made.bounds[-1]
    if roots > n:
        raise NumericsError(f"{roots} states are wanted, but the basis has {n} functions only")
    if made.H.dtype.kind == "c":
        raise ValueError("bound states need real functions")
    # cuSOLVER's symmetric solver returns all eigenpairs; generalised problems go to LAPACK on
    # the host.
    if device.is_cuda and made.S is None:
        with device.use():
            energies, x = device.xp.linalg.eigh(made.H)
            return device.to_host(energies[:roots]), device.to_host(x[:, :roots])
    overlap = None if made.S is None else device.to_host(made.S)
    try:
        with large_matrices(n):
            return lowest_pairs(device.to_host(made.H), overlap, roots)
    except np.linalg.LinAlgError as error:
        raise NumericsError(
            f"LAPACK cannot solve the eigenproblem: {error}", hint="use fewer functions"
        ) from error
