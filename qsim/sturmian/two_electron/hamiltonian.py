"""The Hamiltonian of two electrons, applied without its matrix.

With radial components ``u_p(r1, r2)`` for the pairs ``p = (la, lb)`` of one total L, S and parity,

    H = h(r1) + h(r2) + sum_l A_l r<^l / r>^(l+1),

the one-electron part is diagonal in the eigenvectors of ``h_l`` in each basis, and on the product grid of an FE-DVR the
repulsion is diagonal too (its kernels come from a Poisson equation:
:meth:`qsim.sturmian.radial.grid.RadialGrid.poisson`).  A product is therefore ``X -> C X C^T``, an elementwise kernel,
``W -> C^T W C``: about ``4 P (n M^2 + n^2 M)`` flops instead of ``2 (P M^2)^2``.

Exchange: the component (lb, la) is ``(-1)^(la+lb-L+S)`` times the transpose of (la, lb), so pairs are stored with la <= lb.  The
norm counts both orders: stored components with la < lb carry a factor sqrt(2), those with la = lb are symmetric or antisymmetric.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm, gathered, in_shares
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.kernels import products
from qsim.sturmian.kernels.coupling import coupling, terms
from qsim.sturmian.two_electron.angular import multipoles
from qsim.sturmian.two_electron.sizes import MODEL_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.radial.sturmians import Orbitals

__all__ = ["TwoElectron", "coefficients"]

# Energy of the places that pad bases of different sizes to one, hartree; nothing couples to them.
ABSENT = 1e6
# Operations of a product with one vector from which its pairs are shared: a millisecond of a core, or less.
SHARED_FLOPS = 2e6


def coefficients(L: int, S: int, pairs: Sequence[tuple[int, int]]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the multipoles l that occur and the coefficients (l, p, c).

    The components c are the stored pairs, then the other order of those with la != lb; the factors of the norm and the signs of
    exchange are included.
    """
    swapped = [p for p, (a, b) in enumerate(pairs) if a != b]
    kets = [(*pair, p, 1) for p, pair in enumerate(pairs)]
    kets += [(pairs[p][1], pairs[p][0], p, exchange_sign(*pairs[p], L, S)) for p in swapped]
    top = 2 * max(max(pair) for pair in pairs)
    A = np.zeros((top + 1, len(pairs), len(kets)))
    for p, (a, b) in enumerate(pairs):
        for c, (la, lb, _, sign) in enumerate(kets):
            # Stored components with la != lb carry sqrt(2): times sqrt(2) for the bra's norm,
            # divided by sqrt(2) for the ket's.
            norm = np.sqrt((1 if a == b else 2) / (1 if la == lb else 2))
            for l, value in multipoles(L, (a, b), (la, lb)):
                A[l, p, c] = sign * norm * value
    used = [l for l in range(top + 1) if A[l].any()]
    return used, A[used]


class TwoElectron:
    """Hamiltonian of one total angular momentum, spin and parity.

    Vectors have shape ``(m, P, M, M)``: m functions, P pairs, M orbitals (bases of fewer are padded; the padding stays zero).

    Parameters
    ----------
    device
        Where vectors live and products are made.
    grid
        Radial grid of both electrons.
    orbitals
        For each l: energies ``e`` (M,) and coefficients ``C`` (n, M), eigenvectors of h_l in the basis.
    L, S
        Total orbital and spin angular momentum.
    pairs
        Stored pairs, la <= lb.
    planes
        Cache of the kernels ``r<^l / r>^(l+1)``, shared by the operators of one grid.
    comm
        Processes that share the kernels, and on CPUs the pairs of every product; all of them then make the same calls, and get
        the bits of one process.

    Attributes
    ----------
    shape : (P, M, M)
    size : int
        Number of unknowns, without padding, exchange symmetry used.
    one_body : (P, M, M) float64
        ``e_i + e_j`` on the device.
    multipoles : list of int
    dense : (L, P, C) float64
        Coefficients of the multipoles, from :func:`coefficients`.
    """

    def __init__(
        self,
        device: Device,
        grid: RadialGrid,
        orbitals: Mapping[int, Orbitals],
        L: int,
        S: int,
        pairs: Sequence[tuple[int, int]],
        planes: dict[int, NDArray[Any]] | None = None,
        comm: Comm | None = None,
    ) -> None:
        self.device, self.grid, self.L, self.S, self.pairs = device, grid, L, S, list(pairs)
        xp, n = device.xp, grid.r.size
        self.sizes = {l: orbitals[l].e.size for pair in pairs for l in pair}
        self.orbitals = {l: orbitals[l] for l in self.sizes}
        # Bases of all l are padded to one size, so that products of all pairs are one batch; nothing couples to the
        # padding.
        M = max(self.sizes.values())
        self.shape = (len(pairs), M, M)
        padded = {l: _padded(orbitals[l], M) for l in self.sizes}
        self._a = device.asarray(np.stack([padded[a][1] for a, _ in pairs]))
        self._b = device.asarray(np.stack([padded[b][1] for _, b in pairs]))
        # transposes are stored: with them every product reads rows
        self._at = xp.ascontiguousarray(self._a.transpose(0, 2, 1))
        self._bt = xp.ascontiguousarray(self._b.transpose(0, 2, 1))
        # in orbitals of h_l the one-body part is diagonal, e_a + e_b
        self.one_body = device.asarray(np.stack([np.add.outer(padded[a][0], padded[b][0]) for a, b in pairs]))
        self.multipoles, A = coefficients(L, S, pairs)
        planes = {} if planes is None else planes
        self._comm: Comm = SerialComm() if comm is None else comm
        planes |= in_shares(self._comm, [l for l in self.multipoles if l not in planes], grid.poisson)
        self._planes = planes
        self._G = device.asarray(np.stack([planes[l].ravel() for l in self.multipoles]))
        self._A = terms(device, A)
        self.dense = A
        # pairs (a, b) with a != b have a component for each order of the electrons, which are transposes of each
        # other; the second ones follow the pairs
        self._swapped = [p for p, (a, b) in enumerate(pairs) if a != b]
        self._same = [p for p, (a, b) in enumerate(pairs) if a == b]
        self._signs = device.asarray(
            np.array([float(exchange_sign(*pairs[p], L, S)) for p in self._same])[:, None, None]
        )
        self.components = len(pairs) + len(self._swapped)
        self.size = sum(self._unknowns(p) for p in range(len(pairs)))
        self.points = n
        self._parts = self._shared_pairs(A)
        own = self._parts[self._comm.rank]
        self._own = terms(device, np.ascontiguousarray(A[:, own])) if len(self._parts) > 1 else self._A

    def _shared_pairs(self, A: NDArray[np.float64]) -> list[slice]:
        """Return the pairs of which each process makes the products: all, where sending would take longer than making."""
        ranks, P = self._comm.size, len(self.pairs)
        if ranks == 1 or self.device.is_cuda or self.flops < SHARED_FLOPS:
            return [slice(0, P)] * (1 if ranks == 1 else ranks)
        n, M = self.points, self.shape[1]
        work = 4.0 * (n * M * M + n * n * M) + 2.0 * n * n * np.count_nonzero(A, axis=(0, 2))
        # A pair belongs to the rank in whose share of the total work its middle lies: shares
        # are nearly equal, pairs stay contiguous, and every rank computes the same cuts.
        middles = (np.cumsum(work) - 0.5 * work) / work.sum()
        cuts = np.searchsorted(middles, np.arange(ranks + 1) / ranks).tolist()
        cuts[0], cuts[-1] = 0, P
        return [slice(low, high) for low, high in itertools.pairwise(cuts)]

    def _unknowns(self, p: int) -> int:
        # A symmetric matrix has m (m + 1)/2 free elements, an antisymmetric one m (m - 1)/2.
        a, b = self.pairs[p]
        if a != b:
            return self.sizes[a] * self.sizes[b]
        m = self.sizes[a]
        return m * (m + exchange_sign(a, b, self.L, self.S)) // 2

    @property
    def flops(self) -> float:
        """Floating-point operations of a product with one vector."""
        P, M, _ = self.shape
        n = self.points
        return 4.0 * P * (n * M * M + n * n * M) + 2.0 * n * n * np.count_nonzero(self.dense)

    # ------------------------------------------------------------------------------------- products

    def symmetrise(self, x: NDArray[np.float64]) -> Any:
        """Project the components with la = lb on the symmetry of the spin, in place; returns x."""
        # Rounding breaks the symmetry slowly, and a search would then converge to states of the
        # other spin, which may lie lower.
        if not self.device.is_cuda:
            products.symmetrised(x, np.array(self._same, np.int64), self._signs.reshape(-1))
        elif self._same:
            part = x[:, self._same]
            x[:, self._same] = 0.5 * (part + self._signs * part.transpose(0, 1, 3, 2))
        return x

    def on_grid(self, x: NDArray[np.float64]) -> Any:
        """Return all components on the product grid, (m, C, n, n): stored pairs, then the other order of those with la != lb.

        Values are coefficients of the normalised FE-DVR basis, ``u(r_i, r_j) sqrt(w_i w_j)``; signs of exchange are not applied.
        """
        xp, n, P = self.device.xp, self.points, len(self.pairs)
        F = xp.empty((x.shape[0], self.components, n, n), x.dtype)
        # F = C_a X C_b^T for the stored pairs. The other order of the electrons is its
        # transpose; the kernel finds both among the components, with the sign of exchange in
        # its coefficients.
        if not self.device.is_cuda:
            products.on_grid(self.device, products.Vectors(self._a, np.ascontiguousarray(x), self._bt), F)
            F[:, P:] = F[:, self._swapped].transpose(0, 1, 3, 2)
        elif self._swapped:
            stored = xp.matmul(xp.matmul(self._a, x), self._bt)
            F[:, :P] = stored
            F[:, P:] = stored[:, self._swapped].transpose(0, 1, 3, 2)
        else:
            xp.matmul(xp.matmul(self._a, x), self._bt, out=F)
        return F

    def repel(self, F: NDArray[np.float64]) -> Any:
        """Return the repulsion times a function on the grid: (m, C, n, n) to (m, P, n, n)."""
        m, C, n, _ = F.shape
        out = self.device.xp.empty((m, len(self.pairs), n * n), F.dtype)
        coupling(self.device, self._G, F.reshape(m, C, n * n), self._A, out)
        return out.reshape(m, len(self.pairs), n, n)

    def project(self, W: NDArray[np.float64]) -> Any:
        """Return a function on the grid, (m, P, n, n), in the basis, (m, P, M, M)."""
        xp = self.device.xp
        return xp.matmul(xp.matmul(self._at, W), self._b)

    def repulsion(self, x: NDArray[np.float64]) -> Any:
        """Return the repulsion times ``x`` (m, P, M, M)."""
        if self._parts[0].stop < len(self.pairs):
            return self.symmetrise(self._together(x))
        if self.device.is_cuda:
            return self.symmetrise(self.project(self.repel(self.on_grid(x))))
        # Without swapped pairs every component is a product of its own rows, and the grid never
        # leaves the caches. With them a row needs columns of another component, so that the
        # functions are written to memory first.
        if self._swapped:
            V = products.repelled(self.device, self.on_grid(x), self._G, self._A, self._b)
        else:
            vectors = products.Vectors(self._a, np.ascontiguousarray(x), self._bt)
            V = products.repelled_products(self.device, vectors, self._G, self._A, self._b)
        return self.symmetrise(products.contracted(self.device, self._at, V))

    def _together(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the repulsion times ``x`` before its symmetry, of which every process makes some pairs; a collective call."""
        m, P, n, own = len(x), len(self.pairs), self.points, self._parts[self._comm.rank]
        mine = np.empty((m, own.stop - own.start, n, n))
        vectors = products.Vectors(self._a[own], np.ascontiguousarray(x[:, own]), self._bt[own])
        products.on_grid(self.device, vectors, mine)
        # Every rank needs all components on the grid for the rows of its own pairs: one
        # exchange before the kernel, one after it.
        F = np.empty((m, self.components, n, n))
        F[:, :P] = self._joined(mine)
        F[:, P:] = F[:, self._swapped].transpose(0, 1, 3, 2)
        V = products.repelled(self.device, F, self._G, self._own, self._b[own])
        return self._joined(products.contracted(self.device, self._at[own], V))

    def _joined(self, part: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return matrices (m, P, ., .) of all pairs from the matrices of this rank's own pairs."""
        m, _, rows, columns = part.shape
        counts = np.array([slice_.stop - slice_.start for slice_ in self._parts], np.int64)
        # Pairs are made the slowest index, as ranks hold contiguous pairs and messages are
        # joined in order.
        mine = np.ascontiguousarray(part.transpose(1, 0, 2, 3)).reshape(-1, m * rows * columns)
        whole = gathered(self._comm, mine, counts)
        return np.ascontiguousarray(whole.reshape(-1, m, rows, columns).transpose(1, 0, 2, 3))

    def apply(self, x: NDArray[np.float64]) -> Any:
        """Return ``H x`` for ``x`` (m, P, M, M)."""
        y = self.repulsion(x)
        y += self.one_body * x
        return y

    # ------------------------------------------------------------------------- guesses, preconditioner

    def diagonal(self) -> Any:
        """Return ``e_i + e_j + J_ij`` (P, M, M) with the monopole of the repulsion, for preconditioners."""
        xp = self.device.xp
        if 0 not in self.multipoles:
            return self.one_body.copy()
        # The direct integral of orbitals i and j, J_ij = sum C_ai^2 G_0 C_bj^2; exchange and
        # higher multipoles are left to the iteration.
        n = self.points
        G = self._G[self.multipoles.index(0)].reshape(n, n)
        return self.one_body + xp.matmul(xp.matmul(self._at**2, G), self._b**2)

    def model_space(self, size: int = MODEL_SIZE) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """Return (m, eigenvalues, eigenvectors) of H among the lowest m orbitals of each l.

        Returns
        -------
        m : int
            Orbitals taken of each l: as many as keep ``P m^2`` below ``size``, at least one.
        values : (k,)
            Ascending; only functions of the right exchange symmetry.
        vectors : (k, P, m, m)
        """
        P, M, _ = self.shape
        m = max(1, min(M, int(np.sqrt(size / P))))
        H = self._model_matrix(m)
        keep = self._symmetric_space(m)
        values, vectors = np.linalg.eigh(keep.T @ H @ keep)
        return m, values, (keep @ vectors).T.reshape(-1, P, m, m)

    def _symmetric_space(self, m: int) -> NDArray[np.float64]:
        """Orthonormal columns (P m^2, k) that span the functions of the right symmetry, without padding."""
        columns = []
        place = np.arange(len(self.pairs) * m * m).reshape(-1, m, m)
        for p, (a, b) in enumerate(self.pairs):
            sign = exchange_sign(a, b, self.L, self.S)
            for i in range(min(m, self.sizes[a])):
                for j in range(min(m, self.sizes[b]) if a != b else i + 1):
                    # An antisymmetric matrix has no diagonal.
                    if a == b and i == j and sign < 0:
                        continue
                    v = np.zeros(place.size)
                    v[place[p, i, j]] = 1.0
                    if a == b and i != j:
                        v[place[p, i, j]] = np.sqrt(0.5)
                        v[place[p, j, i]] = sign * np.sqrt(0.5)
                    columns.append(v)
        return np.array(columns).reshape(-1, place.size).T

    def _model_matrix(self, m: int) -> NDArray[np.float64]:
        """H (P m^2, P m^2) among the lowest m orbitals, from pair densities; components with la = lb not yet symmetrised."""
        P, host = len(self.pairs), self.device.to_host
        C = {l: _padded(self.orbitals[l], m)[1][:, :m] for l in self.sizes}
        # rho_ab,(i i') = C_ia C_i'b at the nodes, in which normalised coefficients contain the
        # weights.
        density = {(a, b): (C[a][:, :, None] * C[b][:, None, :]).reshape(-1, m * m) for a in C for b in C}
        kets = [*self.pairs, *((self.pairs[p][1], self.pairs[p][0]) for p in self._swapped)]
        H = np.zeros((P, m, m, P, m, m))
        for index, l in enumerate(self.multipoles):
            G = self._planes[l]
            potential: dict[tuple[int, int], NDArray[np.float64]] = {}
            for p, c in np.argwhere(self.dense[index]):
                (a, b), (x, y) = self.pairs[p], kets[c]
                # The potential of the pair (a, x) serves all pairs of the second electron.
                if (a, x) not in potential:
                    potential[a, x] = density[a, x].T @ G
                # i i' j j'
                R = (potential[a, x] @ density[b, y]).reshape(m, m, m, m)
                # (i j), (i' j')
                block = self.dense[index, p, c] * R.transpose(0, 2, 1, 3)
                if c < P:
                    H[p, :, :, c] += block
                else:
                    # the component is the transpose of the stored one
                    H[p, :, :, self._swapped[c - P]] += block.transpose(0, 1, 3, 2)
        # In orbitals of h_l the one-electron part is diagonal.
        full = H.reshape(P * m * m, -1)
        full[np.diag_indices_from(full)] += host(self.one_body[:, :m, :m]).ravel()
        return full


def _padded(orbitals: Orbitals, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Energies and coefficients with places that nothing couples to, up to ``size`` orbitals."""
    missing = max(0, size - orbitals.e.size)
    return (
        np.concatenate([orbitals.e, np.full(missing, ABSENT)]),
        np.pad(orbitals.C, ((0, 0), (0, missing))),
    )
