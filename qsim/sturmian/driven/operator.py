r"""The driven equation (E - H) u = s of two electrons: products, preconditioner, Krylov solvers, dense solution.

With ``G0 = (E - h1 - h2)^-1``, known exactly (:mod:`qsim.sturmian.driven.outgoing`), and ``y = s + V u``, V the repulsion,

    (1 - V G0) y = s,        u = G0 y.

This is the equation with the separated-electron (Kronecker) preconditioner on its right, written so that the one-electron
Hamiltonian itself is not needed in an iteration: one step is G0, which is a division between two changes of basis (four matrix
products per pair), and one pass of the elementwise kernel ``coupling``.  V decays where G0 does not and the other way round, so
that the number of steps hardly depends on the size of the box.

Many right-hand sides run together: each has its own energy and its own Krylov space, and the products are made for all at once.

Vectors have shape ``(m, P, n, n)`` in the whole grid and ``(m, P, N, N)`` among N functions.  Pairs are stored with la <= lb;
components with la < lb carry a factor sqrt(2), so that the operator is complex symmetric.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.pool import each_call
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.driven.krylov import GMRES, Krylov, cocg, gmres, norms_of
from qsim.sturmian.kernels.coupling import coupling, terms
from qsim.sturmian.linalg.banded import Banded
from qsim.sturmian.linalg.tiles import each_tile, subtracted
from qsim.sturmian.two_electron.hamiltonian import coefficients

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.sturmian.driven.outgoing import Outgoing
    from qsim.sturmian.radial.grid import RadialGrid

# Bytes that the directions of one batch of right-hand sides may take.
BATCH = 8e9
# Relative residual from which a start is no better than zero.
USEFUL = 0.5
# Rounds of a solver, each on the residual of the one before.
PASSES = 3
# Stop if a round reduces the residual by less than this factor.
STAGNATION = 0.5


class Driven:
    """E - H of one total angular momentum and spin on a complex contour.

    Parameters
    ----------
    device
        Where vectors live and products are made.
    grid
        Radial grid with a contour.
    orbitals
        For each l the outgoing eigenfunctions of h_l; all in the whole grid, or all in spans of functions.
    L, S
        Total orbital and spin angular momentum.
    pairs
        Stored pairs, la <= lb.
    planes
        Cache of the kernels ``r<^l / r>^(l+1)``, shared by the operators of one grid.
    """

    def __init__(
        self,
        device: Device,
        grid: RadialGrid,
        orbitals: Mapping[int, Outgoing],
        L: int,
        S: int,
        pairs: Sequence[tuple[int, int]],
        planes: dict[int, NDArray[np.complex128]] | None = None,
    ) -> None:
        self.device, self.grid, self.L, self.S, self.pairs = device, grid, L, S, list(pairs)
        self.orbitals = {l: orbitals[l] for pair in pairs for l in pair}
        self.whole = all(orbital.whole for orbital in self.orbitals.values())
        sizes = {orbital.size for orbital in self.orbitals.values()}
        if len(sizes) != 1:
            raise ValueError("every l needs the same number of outgoing functions")
        self.points, self.functions = grid.size, sizes.pop()
        xp = device.xp
        # Matrices and their transposes: products of rows of C, C^T on either side then read
        # memory in order.
        self._C = {l: device.asarray(orbital.C) for l, orbital in self.orbitals.items()}
        self._Ct = {l: xp.ascontiguousarray(C.T) for l, C in self._C.items()}
        self._e = {l: device.asarray(orbital.e) for l, orbital in self.orbitals.items()}
        self._h: dict[int, Any] = {}
        self.multipoles, A = coefficients(L, S, pairs)
        planes = {} if planes is None else planes
        fill_planes(planes, grid, self.multipoles, device.threads)
        self.planes, self.factors = planes, A
        self._G = device.asarray(np.stack([planes[l].ravel() for l in self.multipoles]))
        self._terms = terms(device, A)
        self._entries = int(np.count_nonzero(A))
        self._swapped = [p for p, (a, b) in enumerate(pairs) if a != b]
        # Pair of every component, and whether its electrons have changed places.
        self.kets = [(p, False) for p in range(len(pairs))] + [(p, True) for p in self._swapped]
        self.components = len(pairs) + len(self._swapped)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape (P, M, M) of a vector."""
        M = self.points if self.whole else self.functions
        return len(self.pairs), M, M

    @property
    def on_grid_shape(self) -> tuple[int, int, int]:
        """Shape (P, n, n) of a function on the product grid."""
        return len(self.pairs), self.points, self.points

    @property
    def unknowns(self) -> int:
        """Number of coefficients that exchange symmetry leaves free."""
        total, M = 0, self.functions
        for a, b in self.pairs:
            total += M * M if a != b else M * (M + exchange_sign(a, b, self.L, self.S)) // 2
        return total

    @property
    def flops(self) -> float:
        """Floating-point operations of one step of a solver with one right-hand side."""
        n, N, P = self.points, self.functions, len(self.pairs)
        # two changes of basis
        products = 16.0 * (n * N * N + n * n * N)
        return P * products + 8.0 * n * n * (self._entries + len(self.multipoles) * P)

    @property
    def traffic(self) -> float:
        """Bytes that one step moves at least with one right-hand side: vectors in and out, kernels once."""
        n = self.points
        return 16.0 * n * n * (2 * (len(self.pairs) + self.components) + len(self.multipoles))

    # ------------------------------------------------------------------------------------- products

    def _transform(
        self,
        x: NDArray[np.complex128],
        left: Mapping[int, Any],
        right: Mapping[int, Any],
        out: NDArray[np.complex128] | None = None,
        then: Callable[[int, int, slice], None] | None = None,
    ) -> Any:
        """Return ``left[la] x_p right[lb]`` of every pair.

        Parameters
        ----------
        x : (m, P, ., .)
        left, right
            A matrix of each l.
        out : (m, P, ., .), optional
            Where to write it.
        then
            On a CPU, called with function, pair and rows that have just been written.
        """
        xp, count, P = self.device.xp, x.shape[0], len(self.pairs)
        (rows, inner), columns = left[self.pairs[0][0]].shape, right[self.pairs[0][1]].shape[1]
        made = xp.empty((count, P, rows, columns), complex) if out is None else out
        if self.device.is_cuda:
            for p, (a, b) in enumerate(self.pairs):
                made[:, p] = xp.matmul(xp.matmul(left[a], x[:, p]), right[b])
            return made

        def work(k: int, p: int, part: slice) -> None:
            a, b = self.pairs[p]
            np.matmul(left[a][part] @ x[k, p], right[b], out=made[k, p, part])
            if then is not None:
                then(k, p, part)

        # a thread takes some rows of one pair of one function through both products
        each = float(rows) * x.shape[3] * (inner + columns)
        each_tile(self.device, work, (count, P, rows), 4.0 * count * P * each, work.__code__)
        return made

    def on_grid(self, x: NDArray[np.complex128]) -> Any:
        """Return functions given by their coefficients (m, P, N, N) on the product grid, (m, P, n, n)."""
        return self._transform(x, self._C, self._Ct)

    def project(self, w: NDArray[np.complex128]) -> Any:
        """Return functions on the product grid, (m, P, n, n), projected on the basis, (m, P, N, N)."""
        return self._transform(w, self._Ct, self._C)

    def repel(self, u: NDArray[np.complex128]) -> Any:
        """Return the repulsion times functions on the product grid, (m, P, n, n)."""
        if not self._swapped:
            return self._repelled(self.device.xp.ascontiguousarray(u))
        n, P = self.points, len(self.pairs)
        # The kernel takes all components, (la, lb) and (lb, la), as separate functions.
        F = self.device.xp.empty((u.shape[0], self.components, n, n), complex)
        F[:, :P] = u
        F[:, P:] = u[:, self._swapped].transpose(0, 1, 3, 2)
        return self._repelled(F)

    def _repelled(self, F: NDArray[np.complex128]) -> Any:
        """Return the repulsion times functions of which all components are given, (m, C, n, n): (m, P, n, n)."""
        m, n, P = F.shape[0], self.points, len(self.pairs)
        out = self.device.xp.empty((m, P, n * n), complex)
        coupling(self.device, self._G, F.reshape(m, self.components, n * n), self._terms, out)
        return out.reshape(m, P, n, n)

    def _components(self, x: NDArray[np.complex128]) -> Any:
        """Return all components of functions given by their coefficients, (m, P, N, N), on the product grid: (m, C, n, n)."""
        n, P = self.points, len(self.pairs)
        F = self.device.xp.empty((x.shape[0], self.components, n, n), complex)

        # The other order of the electrons is the transpose; a thread writes it while the rows
        # that it has just made are in its caches.
        def across(k: int, p: int, rows: slice) -> None:
            if p in self._swapped:
                F[k, P + self._swapped.index(p), :, rows] = F[k, p, rows].T

        self._transform(x, self._C, self._Ct, F[:, :P], across)
        if self.device.is_cuda and self._swapped:
            F[:, P:] = F[:, self._swapped].transpose(0, 1, 3, 2)
        return F

    def divided(self, y: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return y in the form of the unknowns, divided by ``E - e_a - e_b``, among the outgoing functions: (m, P, N, N)."""
        # Among eigenfunctions G0 is a division. On a CPU it follows the product tile by tile,
        # which spares another pass through memory.
        if self.whole and not self.device.is_cuda:
            x = self.device.xp.empty((y.shape[0], len(self.pairs), self.functions, self.functions), complex)

            def divide(k: int, p: int, rows: slice) -> None:
                a, b = self.pairs[p]
                x[k, p, rows] /= E[k] - self._e[a][rows, None] - self._e[b]

            return self._transform(y, self._Ct, self._C, x, divide)
        x = self.project(y) if self.whole else y.copy()
        for p, (a, b) in enumerate(self.pairs):
            x[:, p] /= E[:, None, None] - self._e[a][None, :, None] - self._e[b][None, None, :]
        return x

    def green(self, y: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return ``G0 y`` on the product grid, (m, P, n, n), for y in the form of the unknowns and energies (m,)."""
        return self.on_grid(self.divided(y, E))

    def step(self, y: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return ``(1 - V G0) y``, (m, P, M, M)."""
        w = self._repelled(self._components(self.divided(y, E)))
        if not self.whole:
            w = self.project(w)
        return subtracted(self.device, y, w)

    def source(self, s: NDArray[np.complex128]) -> Any:
        """Return sources on the product grid, (m, P, n, n), in the form of the unknowns."""
        return s if self.whole else self.project(s)

    def residual(
        self, u: NDArray[np.complex128], s: NDArray[np.complex128] | None, E: NDArray[np.complex128]
    ) -> Any:
        """Return ``s - (E - H) u`` in the form of the unknowns, for u and s on the product grid; H itself is applied.

        Without sources s, which are zero then.
        """
        xp = self.device.xp
        # The one-electron Hamiltonian itself, not its eigenvectors: their rounding is among the
        # errors that a residual must show. Finite elements couple to their neighbours alone.
        if not self._h:
            as_operand = self.device.asarray if self.device.is_cuda else Banded
            self._h = {l: as_operand(orbital.h) for l, orbital in self.orbitals.items()}
        r = self.repel(u)
        if self.device.is_cuda:
            if s is not None:
                r += s
            r -= E[:, None, None, None] * u
            for p, (a, b) in enumerate(self.pairs):
                r[:, p] += xp.matmul(self._h[a], u[:, p])
                r[:, p] += xp.matmul(u[:, p], self._h[b])
            return self.source(r)

        # s - (E - h_1 - h_2 - V) u by rows: the kernel has left V u in r, and every row adds
        # its own share of the rest.
        def work(k: int, p: int, rows: slice) -> None:
            a, b = self.pairs[p]
            part = r[k, p, rows]
            if s is not None:
                part += s[k, p, rows]
            part -= E[k] * u[k, p, rows]
            self._h[a].add_rows(rows, u[k, p], part)
            self._h[b].add_right(u[k, p, rows], part)

        each_tile(self.device, work, r.shape[:3], 2.0 * r.size * self.grid.order, work.__code__)
        return self.source(r)


def fill_planes(
    planes: dict[int, NDArray[np.complex128]], grid: RadialGrid, multipoles: Sequence[int], threads: int
) -> None:
    """Add the kernels ``r<^l / r>^(l+1)`` (n, n) of those multipoles l that a cache lacks, on some threads."""
    missing = [l for l in multipoles if l not in planes]

    def work(first: int, last: int) -> None:
        for l in missing[first:last]:
            planes[l] = np.asarray(grid.poisson(l), complex)

    each_call(work, len(missing), len(missing) * grid.size**3, threads)


@dataclass
class Solution:
    """Outgoing solutions of some right-hand sides.

    Attributes
    ----------
    u : (m, P, n, n) complex128
        On the product grid, on the device.
    residuals : (m,) float64
        ``|s - (E - H) u| / |s|``, computed from u with H itself.
    iterations : (m,) int64
        Steps of the solver.
    history : list of (k,) float64
        Relative residual after each step, as the solver followed it.
    seconds : float
        Wall time.
    """

    u: Any
    residuals: NDArray[np.float64]
    iterations: NDArray[np.int64]
    history: list[NDArray[np.float64]]
    seconds: float = 0.0


def solve(
    operator: Driven,
    s: NDArray[np.complex128],
    E: NDArray[np.float64] | NDArray[np.complex128],
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 300,
    krylov: Krylov = GMRES,
    start: NDArray[np.complex128] | None = None,
    observe: Callable[[], None] | None = None,
) -> Solution:
    """Solve (E - H) u = s for some right-hand sides together.

    Parameters
    ----------
    operator
        See `Driven`.
    s : (m, P, n, n) complex128
        Sources on the product grid, on the device.
    E : (m,)
        Total energies, hartree.
    tolerance
        Largest relative residual.
    max_iterations
        Steps of each right-hand side.
    krylov : Krylov
        Method.
    start : (m, P, n, n) complex128, optional
        Guess of the solutions, on the device; not used where its residual is hardly smaller than the source.
    observe
        Called after every step.

    Returns
    -------
    Solution
        Converged or not: the residuals tell.
    """
    device, m, began = operator.device, s.shape[0], time.perf_counter()
    # The unknown of the iteration is y = G0^-1 u with the two electrons independent in G0 (right preconditioning):
    # its residual is the residual of the equation itself.
    energies = device.asarray(np.asarray(E, complex))
    b = operator.source(s)
    scale = norms_of(b)
    # nothing comes of no source
    residuals = np.where(scale > 0.0, 1.0, 0.0)
    scale = np.where(scale > 0.0, scale, 1.0)
    # Both have the same arguments and return the unknown and the norms of the residual.
    method = gmres if krylov.name == "gmres" else cocg
    u = device.xp.zeros(s.shape, complex)
    iterations = np.zeros(m, np.int64)
    history: list[list[float]] = [[] for _ in range(m)]
    r = b
    if start is not None:
        # a guess serves only where it takes a good part of the source away; otherwise its own error has to be
        # iterated away
        tried = operator.residual(start, s, energies)
        better = np.flatnonzero(norms_of(tried) < USEFUL * scale)
        if better.size:
            part = device.asarray(better)
            r = b.copy()
            u[part], r[part] = start[part], tried[part]
            residuals[better] = norms_of(r[part]) / scale[better]
    # Passes: the residual of the iteration drifts from the true one, which is computed anew and corrected as a
    # right-hand side of its own until it stagnates.
    for _ in range(PASSES):
        open_ = np.flatnonzero((residuals > tolerance) & (iterations < max_iterations))
        if not open_.size:
            break
        part = device.asarray(open_)
        # half of the tolerance, so that the drift does not need another pass
        goal = 0.5 * tolerance * scale[open_]
        y, histories = method(
            operator, r[part], energies[part], goal, int(max_iterations), krylov.restart, observe or _nothing
        )
        for k, steps in zip(open_, histories, strict=True):
            iterations[k] += len(steps)
            history[k] += [value / scale[k] for value in steps]
        # u = G0 y; corrections of later passes add up.
        u[part] += operator.green(y, energies[part])
        r = operator.residual(u, s, energies)
        before, residuals = residuals, norms_of(r) / scale
        if np.all(residuals[open_] > STAGNATION * before[open_]):
            break
    seconds = time.perf_counter() - began
    return Solution(u, residuals, iterations, [np.array(values) for values in history], seconds)


def _nothing() -> None:
    pass
