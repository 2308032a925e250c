"""Krylov solvers of many right-hand sides together: restarted GMRES and conjugate gradients of a complex symmetric operator.

The equation is ``(1 - V G0) y = b`` of :mod:`qsim.sturmian.driven.operator`, of which the solvers know the products alone.
Each right-hand side has its own energy and its own Krylov space; the products are made for all at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from qsim.sturmian.linalg.tiles import copied, scaled, squares, subtract_along

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    from qsim.core.device.device import Device

# Directions that gmres keeps.
RESTART = 120
# Directions that it makes room for at first: where the target can be ionised, 13 to 20 suffice.
FIRST = 24
# Share of a vector left by an orthogonalisation, below which it is repeated.
LOST = 0.3


class Operator(Protocol):
    """Products that a solver needs of the equation; see `qsim.sturmian.driven.operator.Driven`."""

    device: Device
    # whether the outgoing functions span the whole grid
    whole: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape (P, M, M) of a vector."""

    def green(self, y: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return ``G0 y`` on the product grid, (m, P, n, n)."""

    def step(self, y: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return ``(1 - V G0) y``, (m, P, M, M)."""

    def repel(self, u: NDArray[np.complex128]) -> Any:
        """Return ``V u`` on the product grid, (m, P, n, n)."""

    def project(self, w: NDArray[np.complex128]) -> Any:
        """Return functions on the product grid among the basis, (m, P, N, N)."""


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


def norms_of(x: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return the Euclidean norms (m,) of vectors (m, ...), on the host."""
    from qsim.core.device.device import namespace

    xp = namespace(x)
    flat = x.reshape(x.shape[0], -1)
    squares = xp.stack([xp.vdot(row, row).real for row in flat])
    return np.sqrt(np.asarray(squares.get() if hasattr(squares, "get") else squares, float))


def gmres(
    operator: Operator,
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
    # The first residual, as the solution starts from zero.
    r = b
    while active.size:
        # Never more directions than steps that are left to the right-hand side with most of
        # them.
        k_max = min(restart, limit - max(len(history[k]) for k in active))
        if k_max < 1:
            break
        cycle = _Cycle(operator, r, active, E, k_max)
        cycle.run(y, goal, history, observe)
        active = cycle.left
        if active.size:
            part = device.asarray(active)
            # A restart forgets the directions: the residual is computed anew, by which rounding
            # of the recurrence is lost, too.
            r = b[part] - operator.step(y[part], E[part])
    return y, history


class _Cycle:
    """Directions of some right-hand sides between two restarts.

    On a GPU a step waits once for the device, for the coefficients of all right-hand sides together, and a second time where the
    orthogonalisation is repeated.

    Parameters
    ----------
    operator : Operator
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
        operator: Operator,
        r: NDArray[np.complex128],
        numbers: NDArray[np.int64],
        E: NDArray[np.complex128],
        size: int,
    ) -> None:
        self.operator, self.E, self.size = operator, E, size
        self.xp = operator.device.xp
        norms = norms_of(r)
        flat = r.reshape(r.shape[0], -1)
        # Directions of a right-hand side lie next to each other: Gram and Schmidt is then a
        # product with one matrix.
        self.basis = self.xp.empty((r.shape[0], min(size, FIRST) + 1, flat.shape[1]), complex)
        scaled(operator.device, flat, operator.device.asarray(1.0 / norms), self.basis[:, 0])
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
            # One product with the operator for all right-hand sides, then the Arnoldi relation
            # of each: w = A v_k - sum_i h_ik v_i.
            v = self.xp.ascontiguousarray(self.basis[:count, k]).reshape(count, *operator.shape)
            w = operator.step(v, energies).reshape(count, -1)
            h, norms = _orthogonalise(device, self.basis[:count, : k + 1], w)
            residuals = np.array(
                [small.add(k, *of) for small, of in zip(self.small, zip(h, norms, strict=True), strict=True)]
            )
            for number, value in zip(self.running, residuals, strict=True):
                history[number].append(float(value))
            observe()
            # A vanishing remainder means that the space contains the solution exactly.
            done = (residuals <= goal[self.running]) | (norms == 0.0)
            if k + 1 < self.size and not done.all():
                scale = device.asarray(1.0 / np.where(norms > 0.0, norms, 1.0))
                scaled(device, w, scale, self.basis[:count, k + 1])
            self._finish(done, y)
            if not self.running.size:
                return
        self.left = self.running
        self._finish(np.ones(self.running.size, bool), y)

    def _make_room(self, directions: int) -> None:
        """Make room for one direction more: for all of them once the usual number did not suffice."""
        kept = self.basis.shape[1]
        if directions < kept:
            return
        count = self.running.size
        wider = self.xp.empty((count, self.size + 1, self.basis.shape[2]), complex)
        copied(self.operator.device, self.basis[:count], wider[:, :kept])
        self.basis = wider

    def _finish(self, done: NDArray[np.bool_], y: NDArray[np.complex128]) -> None:
        """Add the solutions of some right-hand sides to y, and close up the directions of the others, in place."""
        keep: list[int] = []
        for j, number in enumerate(self.running):
            if done[j]:
                c = self.operator.device.asarray(self.small[j].solve())
                y[number] += (c @ self.basis[j, : c.size]).reshape(y.shape[1:])
                continue
            # Move up in place: the place before has been given back.
            if len(keep) < j:
                self.basis[len(keep)] = self.basis[j]
            keep.append(j)
        self.running = self.running[keep]
        self.small = [self.small[j] for j in keep]


def _orthogonalise(
    device: Device, basis: NDArray[np.complex128], w: NDArray[np.complex128]
) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
    """Subtract from each w (m, size) its part along the rows of its basis (m, k, size), in place.

    Returns
    -------
    h : (m, k) complex128
        Coefficients.
    norms : (m,) float64
        What is left of each.
    """
    # One pass of classical Gram and Schmidt, a second where the first has taken most of w: then rounding counts.
    before = squares(device, w)
    h = subtract_along(device, basis, w)
    coefficients, after, first = _host(h, squares(device, w), before)
    if np.any(after < LOST**2 * first):
        more = subtract_along(device, basis, w)
        extra, after = _host(more, squares(device, w))
        coefficients = coefficients + extra
    return coefficients, np.sqrt(after.real)


def _host(*values: Any) -> tuple[NDArray[Any], ...]:
    """Return arrays (m,) or (m, k) on the host, brought there together."""
    from qsim.core.device.device import namespace

    xp = namespace(values[0])
    if xp is np:
        return values
    # One transfer of all: each alone would wait for the device.
    joined = xp.concatenate([value.reshape(value.shape[0], -1) for value in values], axis=1).get()
    ends = np.cumsum([value.reshape(value.shape[0], -1).shape[1] for value in values])[:-1]
    parts = np.split(joined, ends, axis=1)
    return tuple(
        part if value.ndim > 1 else part[:, 0].real for part, value in zip(parts, values, strict=True)
    )


class _Hessenberg:
    """The small least-squares problem of one right-hand side, by Givens rotations."""

    def __init__(self, size: int, norm: float) -> None:
        # Arnoldi's matrix in triangular form, and the right-hand side |r| e_1 under the same
        # rotations: its last element is the norm of the residual, without a solution.
        self.R = np.zeros((size + 1, size), complex)
        self.g = np.zeros(size + 1, complex)
        self.g[0] = norm
        self.rotations: list[tuple[complex, complex]] = []
        self.residual = float(norm)

    def add(self, k: int, h: NDArray[np.complex128], norm: float) -> float:
        """Add column k; return the norm of the residual."""
        # the earlier rotations first, then a new one that makes the last element vanish: its sine is the factor of
        # the residual
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


def cocg(
    operator: Operator,
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
    # All products are without conjugation: the operator is complex symmetric, not Hermitian, and the recurrence
    # stays as short.
    y, r = xp.zeros_like(b), b.copy()
    history: list[list[float]] = [[] for _ in range(m)]
    active = np.arange(m)
    z = d = dp = None
    rho = None
    for _ in range(limit):
        if not active.size:
            break
        part = device.asarray(active)
        # One G0 and one V per step: G0 r enters the direction z, V G0 r its product with V.
        gr = operator.green(r[part], E[part])
        w = operator.repel(gr)
        if not operator.whole:
            w, gr = operator.project(w), operator.project(gr)
        # r^T G0 r, which takes the place of |r|^2
        fresh = _products(xp, r[part], gr)
        if rho is None or z is None or d is None or dp is None:
            z, d, dp = gr, r[part].copy(), w
        else:
            beta = (fresh / rho)[:, None, None, None]
            # The recurrence of the direction p is carried by three vectors: z = p, d = G0^-1 p
            # and dp = V p.
            z, d, dp = gr + beta * z, r[part] + beta * d, w + beta * dp
        rho = fresh
        # (E - H) p, as d = G0^-1 p and dp = V p
        q = d - dp
        bottom = _products(xp, z, q)
        alpha = (rho / bottom)[:, None, None, None]
        y[part] += alpha * d
        r[part] -= alpha * q
        norms = norms_of(r[part])
        for k, norm in zip(active, norms, strict=True):
            history[k].append(float(norm))
        observe()
        # right-hand sides that have converged leave; the others go on with their own recurrences
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
