r"""The driven equation (E - H) u = s of two electrons: products, preconditioner, Krylov solvers, dense solution.

With ``G0 = (E - h1 - h2)^-1``, known exactly (:mod:`qsim.sturmian.scattering.outgoing`), and ``y = s + V u``, V the repulsion,

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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.kernels.coupling import coupling, terms
from qsim.sturmian.two_electron.hamiltonian import coefficients

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.scattering.outgoing import Outgoing

RESTART = 120  # directions that gmres keeps
FIRST = 24  # directions that it makes room for at first: where the target can be ionised, 13 to 20 suffice
BATCH = 8e9  # bytes of the directions of a solver, that a batch of right-hand sides may take
LOST = 0.3  # share of a vector left by an orthogonalisation, below which it is repeated
USEFUL = 0.5  # relative residual of a start, from which it is not better than nothing
PASSES = 3  # rounds of a solver, each on the residual of the one before
STAGNATION = 0.5  # a round that does not reduce the residual to this share of it is the last one


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
        self._C = {l: device.asarray(orbital.C) for l, orbital in self.orbitals.items()}
        self._Ct = {l: xp.ascontiguousarray(C.T) for l, C in self._C.items()}
        self._e = {l: device.asarray(orbital.e) for l, orbital in self.orbitals.items()}
        self._h: dict[int, Any] = {}
        self.multipoles, A = coefficients(L, S, pairs)
        planes = {} if planes is None else planes
        for l in self.multipoles:
            if l not in planes:
                planes[l] = np.asarray(grid.poisson(l), complex)
        self._G = device.asarray(np.stack([planes[l].ravel() for l in self.multipoles]))
        self._terms = terms(device, A)
        self._entries = int(np.count_nonzero(A))
        self._swapped = [p for p, (a, b) in enumerate(pairs) if a != b]
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
        products = 16.0 * (n * N * N + n * n * N)  # two changes of basis
        return P * products + 8.0 * n * n * (self._entries + len(self.multipoles) * P)

    @property
    def traffic(self) -> float:
        """Bytes that one step moves at least with one right-hand side: vectors in and out, kernels once."""
        n = self.points
        return 16.0 * n * n * (2 * (len(self.pairs) + self.components) + len(self.multipoles))

    # ------------------------------------------------------------------------------------- products

    def _transform(self, x: NDArray[np.complex128], left: Mapping[int, Any], right: Mapping[int, Any]) -> Any:
        """Return ``left[la] x_p right[lb]`` of every pair."""
        xp = self.device.xp
        rows = left[self.pairs[0][0]].shape[0]
        columns = right[self.pairs[0][1]].shape[1]
        out = xp.empty((x.shape[0], len(self.pairs), rows, columns), complex)
        for p, (a, b) in enumerate(self.pairs):
            out[:, p] = xp.matmul(xp.matmul(left[a], x[:, p]), right[b])
        return out

    def on_grid(self, x: NDArray[np.complex128]) -> Any:
        """Return functions given by their coefficients (m, P, N, N) on the product grid, (m, P, n, n)."""
        return self._transform(x, self._C, self._Ct)

    def project(self, w: NDArray[np.complex128]) -> Any:
        """Return functions on the product grid, (m, P, n, n), projected on the basis, (m, P, N, N)."""
        return self._transform(w, self._Ct, self._C)

    def repel(self, u: NDArray[np.complex128]) -> Any:
        """Return the repulsion times functions on the product grid, (m, P, n, n)."""
        xp, n, P = self.device.xp, self.points, len(self.pairs)
        m = u.shape[0]
        if self._swapped:
            F = xp.empty((m, self.components, n, n), complex)
            F[:, :P] = u
            F[:, P:] = u[:, self._swapped].transpose(0, 1, 3, 2)
        else:
            F = xp.ascontiguousarray(u)
        out = xp.empty((m, P, n * n), complex)
        coupling(self.device, self._G, F.reshape(m, self.components, n * n), self._terms, out)
        return out.reshape(m, P, n, n)

    def green(self, y: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return ``G0 y`` on the product grid, (m, P, n, n), for y in the form of the unknowns and energies (m,)."""
        x = self.project(y) if self.whole else y.copy()
        for p, (a, b) in enumerate(self.pairs):
            x[:, p] /= E[:, None, None] - self._e[a][None, :, None] - self._e[b][None, None, :]
        return self.on_grid(x)

    def step(self, y: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return ``(1 - V G0) y``, (m, P, M, M)."""
        w = self.repel(self.green(y, E))
        if not self.whole:
            w = self.project(w)
        return y - w

    def source(self, s: NDArray[np.complex128]) -> Any:
        """Return sources on the product grid, (m, P, n, n), in the form of the unknowns."""
        return s if self.whole else self.project(s)

    def residual(
        self, u: NDArray[np.complex128], s: NDArray[np.complex128], E: NDArray[np.complex128]
    ) -> Any:
        """Return ``s - (E - H) u`` in the form of the unknowns, for u and s on the product grid; H itself is applied."""
        xp = self.device.xp
        if not self._h:
            self._h = {l: self.device.asarray(orbital.h) for l, orbital in self.orbitals.items()}
        r = self.repel(u)
        r += s
        r -= E[:, None, None, None] * u
        for p, (a, b) in enumerate(self.pairs):
            r[:, p] += xp.matmul(self._h[a], u[:, p])
            r[:, p] += xp.matmul(u[:, p], self._h[b])
        return self.source(r)


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


class Krylov(NamedTuple):
    """Method of the solver.

    Attributes
    ----------
    name : str
        ``gmres``: smallest residual, keeps all directions; ``cocg``: conjugate gradients of a complex symmetric operator, four
        vectors.
    restart : int
        Directions of gmres that are kept.
    """

    name: str = "gmres"
    restart: int = RESTART


GMRES = Krylov()


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
    energies = device.asarray(np.asarray(E, complex))
    b = operator.source(s)
    scale = _norms(b)
    residuals = np.where(scale > 0.0, 1.0, 0.0)  # nothing comes of no source
    scale = np.where(scale > 0.0, scale, 1.0)
    method = _gmres if krylov.name == "gmres" else _cocg
    u = device.xp.zeros(s.shape, complex)
    iterations = np.zeros(m, np.int64)
    history: list[list[float]] = [[] for _ in range(m)]
    r = b
    if start is not None:
        tried = operator.residual(start, s, energies)
        better = np.flatnonzero(_norms(tried) < USEFUL * scale)
        if better.size:
            part = device.asarray(better)
            r = b.copy()
            u[part], r[part] = start[part], tried[part]
            residuals[better] = _norms(r[part]) / scale[better]
    for _ in range(PASSES):
        open_ = np.flatnonzero((residuals > tolerance) & (iterations < max_iterations))
        if not open_.size:
            break
        part = device.asarray(open_)
        goal = 0.5 * tolerance * scale[open_]
        found = method(
            operator, r[part], energies[part], goal, int(max_iterations), krylov.restart, observe or _nothing
        )
        for k, steps in zip(open_, found[1], strict=True):
            iterations[k] += len(steps)
            history[k] += [value / scale[k] for value in steps]
        u[part] += operator.green(found[0], energies[part])
        r = operator.residual(u, s, energies)
        before, residuals = residuals, _norms(r) / scale
        if np.all(residuals[open_] > STAGNATION * before[open_]):
            break
    seconds = time.perf_counter() - began
    return Solution(u, residuals, iterations, [np.array(values) for values in history], seconds)


def _nothing() -> None:
    pass


def _norms(x: NDArray[np.complex128]) -> NDArray[np.float64]:
    from qsim.core.device.device import namespace

    xp = namespace(x)
    flat = x.reshape(x.shape[0], -1)
    squares = xp.stack([xp.vdot(row, row).real for row in flat])
    return np.sqrt(np.asarray(squares.get() if hasattr(squares, "get") else squares, float))


def _gmres(
    operator: Driven,
    b: NDArray[np.complex128],
    E: NDArray[np.complex128],
    goal: NDArray[np.float64],
    limit: int,
    restart: int,
    observe: Callable[[], None],
) -> tuple[Any, list[list[float]]]:
    """Restarted GMRES of every right-hand side, in step with each other; those that have converged drop out."""
    device, m = operator.device, b.shape[0]
    y = device.xp.zeros_like(b)
    history: list[list[float]] = [[] for _ in range(m)]
    active = np.arange(m)
    r = b
    while active.size:
        k_max = min(restart, limit - max(len(history[k]) for k in active))
        if k_max < 1:
            break
        cycle = _Cycle(operator, r, active, E, k_max)
        cycle.run(y, goal, history, observe)
        active = cycle.left
        if active.size:
            part = device.asarray(active)
            r = b[part] - operator.step(y[part], E[part])
    return y, history


class _Cycle:
    """Directions of some right-hand sides between two restarts.

    On a GPU a step waits once for the device, for the coefficients of all right-hand sides together, and a second time where the
    orthogonalisation is repeated.

    Parameters
    ----------
    operator : Driven
    r : (m, P, M, M) complex128
        Residuals.
    numbers : (m,) int64
        Which right-hand sides they are.
    E : (all,) complex128
        Energies of all right-hand sides, on the device.
    size : int
        Most directions.
    """

    def __init__(
        self,
        operator: Driven,
        r: NDArray[np.complex128],
        numbers: NDArray[np.int64],
        E: NDArray[np.complex128],
        size: int,
    ) -> None:
        self.operator, self.E, self.size = operator, E, size
        self.xp = operator.device.xp
        norms = _norms(r)
        flat = r.reshape(r.shape[0], -1)
        self.basis = self.xp.empty((r.shape[0], min(size, FIRST) + 1, flat.shape[1]), complex)
        self.basis[:, 0] = flat / operator.device.asarray(norms)[:, None]
        self.running = numbers
        self.small = [_Hessenberg(size, norm) for norm in norms]
        self.left = numbers[:0]

    def run(
        self,
        y: NDArray[np.complex128],
        goal: NDArray[np.float64],
        history: list[list[float]],
        observe: Callable[[], None],
    ) -> None:
        """Make directions until all residuals are small or the room is used up, and add what they give to y."""
        device, operator = self.operator.device, self.operator
        for k in range(self.size):
            count = self.running.size
            self._make_room(k + 1)
            energies = self.E[device.asarray(self.running)]
            v = self.xp.ascontiguousarray(self.basis[:count, k]).reshape(count, *operator.shape)
            w = operator.step(v, energies).reshape(count, -1)
            h, norms = _orthogonalise(self.xp, self.basis[:count, : k + 1], w)
            found = np.array(
                [small.add(k, *of) for small, of in zip(self.small, zip(h, norms, strict=True), strict=True)]
            )
            for number, value in zip(self.running, found, strict=True):
                history[number].append(float(value))
            observe()
            done = (found <= goal[self.running]) | (norms == 0.0)
            if k + 1 < self.size and not done.all():
                scale = device.asarray(1.0 / np.where(norms > 0.0, norms, 1.0))
                self.xp.multiply(w, scale[:, None], out=self.basis[:count, k + 1])
            self._finish(done, y)
            if not self.running.size:
                return
        self.left = self.running
        self._finish(np.ones(self.running.size, bool), y)

    def _make_room(self, directions: int) -> None:
        """Make room for one direction beyond so many: for all of them, if those that suffice as a rule did not."""
        kept = self.basis.shape[1]
        if directions < kept:
            return
        count = self.running.size
        wider = self.xp.empty((count, self.size + 1, self.basis.shape[2]), complex)
        wider[:, :kept] = self.basis[:count]
        self.basis = wider

    def _finish(self, done: NDArray[np.bool_], y: NDArray[np.complex128]) -> None:
        """Add the solutions of some right-hand sides to y, and close up the directions of the others, in place."""
        keep: list[int] = []
        for j, number in enumerate(self.running):
            if done[j]:
                c = self.operator.device.asarray(self.small[j].solve())
                y[number] += (c @ self.basis[j, : c.size]).reshape(y.shape[1:])
                continue
            if len(keep) < j:
                self.basis[len(keep)] = self.basis[j]
            keep.append(j)
        self.running = self.running[keep]
        self.small = [self.small[j] for j in keep]


def _orthogonalise(
    xp: ModuleType, basis: NDArray[np.complex128], w: NDArray[np.complex128]
) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
    """Subtract from each w (m, size) its part along the rows of its basis (m, k, size), in place.

    Returns
    -------
    h : (m, k) complex128
        Coefficients.
    norms : (m,) float64
        What is left of each.
    """
    before = _square(xp, w)
    h = _along(xp, basis, w)
    found, after, first = _host(h, _square(xp, w), before)
    if np.any(after < LOST**2 * first):
        more = _along(xp, basis, w)
        extra, after = _host(more, _square(xp, w))
        found = found + extra
    return found, np.sqrt(after.real)


def _along(xp: ModuleType, basis: NDArray[np.complex128], w: NDArray[np.complex128]) -> Any:
    """Subtract the part of each w along its basis; return the coefficients (m, k).

    One right-hand side after the other: all of them in one product would copy the directions, which are not contiguous.
    """
    found = []
    for directions, row in zip(basis, w, strict=True):
        h = xp.conj(directions @ xp.conj(row))
        row -= h @ directions
        found.append(h)
    return xp.stack(found)


def _square(xp: ModuleType, w: NDArray[np.complex128]) -> Any:
    """Return the squared norms of the rows of w (m, size), on the device."""
    return xp.stack([xp.vdot(row, row).real for row in w])


def _host(*values: Any) -> tuple[NDArray[Any], ...]:
    """Return arrays (m,) or (m, k) on the host, brought there together."""
    from qsim.core.device.device import namespace

    xp = namespace(values[0])
    if xp is np:
        return values
    joined = xp.concatenate([value.reshape(value.shape[0], -1) for value in values], axis=1).get()
    ends = np.cumsum([value.reshape(value.shape[0], -1).shape[1] for value in values])[:-1]
    parts = np.split(joined, ends, axis=1)
    return tuple(
        part if value.ndim > 1 else part[:, 0].real for part, value in zip(parts, values, strict=True)
    )


class _Hessenberg:
    """The small least-squares problem of one right-hand side, by Givens rotations."""

    def __init__(self, size: int, norm: float) -> None:
        self.R = np.zeros((size + 1, size), complex)
        self.g = np.zeros(size + 1, complex)
        self.g[0] = norm
        self.rotations: list[tuple[complex, complex]] = []
        self.residual = float(norm)

    def add(self, k: int, h: NDArray[np.complex128], norm: float) -> float:
        """Add column k; return the norm of the residual."""
        column = np.append(h, norm)
        for i, (c, s) in enumerate(self.rotations):
            upper = np.conj(c) * column[i] + np.conj(s) * column[i + 1]
            column[i + 1] = -s * column[i] + c * column[i + 1]
            column[i] = upper
        length = np.hypot(abs(column[k]), abs(column[k + 1]))
        c, s = (column[k] / length, column[k + 1] / length) if length > 0.0 else (1.0 + 0j, 0j)
        self.rotations.append((c, s))
        self.R[:k, k], self.R[k, k] = column[:k], length
        self.g[k + 1] = -s * self.g[k]
        self.g[k] = np.conj(c) * self.g[k]
        self.residual = float(abs(self.g[k + 1]))
        return self.residual

    def solve(self) -> NDArray[np.complex128]:
        """Return the coefficients of the directions."""
        from scipy.linalg import solve_triangular

        k = len(self.rotations)
        return np.asarray(solve_triangular(self.R[:k, :k], self.g[:k]), complex)


def _cocg(
    operator: Driven,
    b: NDArray[np.complex128],
    E: NDArray[np.complex128],
    goal: NDArray[np.float64],
    limit: int,
    restart: int,
    observe: Callable[[], None],
) -> tuple[Any, list[list[float]]]:
    """Conjugate gradients for a complex symmetric operator, van der Vorst and Melissen, IEEE Trans. Magn. 26, 706 (1990).

    What is followed is y = G0^-1 u: ``(E - H) p = G0^-1 p - V p``, and G0^-1 p obeys the recurrence of p, so that neither h nor
    more than one G0 is needed in a step.
    """
    del restart
    device, m = operator.device, b.shape[0]
    xp = device.xp
    y, r = xp.zeros_like(b), b.copy()
    history: list[list[float]] = [[] for _ in range(m)]
    active = np.arange(m)
    z = d = dp = None
    rho = None
    for _ in range(limit):
        if not active.size:
            break
        part = device.asarray(active)
        gr = operator.green(r[part], E[part])
        w = operator.repel(gr)
        if not operator.whole:
            w, gr = operator.project(w), operator.project(gr)
        fresh = _products(xp, r[part], gr)
        if rho is None or z is None or d is None or dp is None:
            z, d, dp = gr, r[part].copy(), w
        else:
            beta = (fresh / rho)[:, None, None, None]
            z, d, dp = gr + beta * z, r[part] + beta * d, w + beta * dp
        rho = fresh
        q = d - dp  # (E - H) p, as d = G0^-1 p and dp = V p
        bottom = _products(xp, z, q)
        alpha = (rho / bottom)[:, None, None, None]
        y[part] += alpha * d
        r[part] -= alpha * q
        norms = _norms(r[part])
        for k, norm in zip(active, norms, strict=True):
            history[k].append(float(norm))
        observe()
        keep = norms > goal[active]
        if not keep.all():
            kept = device.asarray(np.flatnonzero(keep))
            z, d, dp, rho = z[kept], d[kept], dp[kept], rho[kept]
            active = active[keep]
    return y, history


def _products(xp: ModuleType, x: NDArray[np.complex128], y: NDArray[np.complex128]) -> Any:
    """Return the products x^T y of each right-hand side, without conjugation, on the device."""
    m = x.shape[0]
    return xp.matmul(x.reshape(m, 1, -1), y.reshape(m, -1, 1))[:, 0, 0]
