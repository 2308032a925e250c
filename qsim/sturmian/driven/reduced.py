r"""One driven equation at many energies: one space of directions in which the residual is least at all of them.

``(E - H) u = s`` with an H and sources that do not depend on E is solved at all energies in the span of the same directions q_j,

    u(E) = sum_j c_j(E) q_j,     |s - (E - H) u(E)| least,

which is GMRES with one Krylov space for all right-hand sides.  A new direction is the residual of the energy where it is largest,
preconditioned at that energy.  With w_j = (E0 - H) q_j, E0 an energy below the spectrum, the residual is
``s - sum_j c_j (w_j + (E - E0) q_j)``: the products of all q_j and w_j among each other give its norm at any energy, without a
vector.  (The w_j are orthonormal as far as one pass of Gram and Schmidt makes them; what it leaves is among the products.)  The
residual is thus known at every energy of a deck, and the space grows until it is small at all of them.

The optical theorem needs ``s^T u``.  As H is complex symmetric,

    J = 2 s^T u - u^T (E - H) u

is stationary at the solution: off by the square of the residual.  Amplitudes, which are linear in u, are off by the residual.

Sources of a photon are those of photon energy one: x = u, omega u, omega^2 u of length, velocity and acceleration obey

    x_velocity = s_length - omega x_length,     x_acceleration = s_velocity - omega x_velocity

with exact states and operators (`qsim.sturmian.driven.sources.gauge_steps`): with the source of the first gauge among the
directions the second one takes few more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.blas import one_thread
from qsim.core.device.pool import each_call
from qsim.core.errors import NumericsError
from qsim.sturmian.linalg.least import bordered, normal_equations
from qsim.sturmian.linalg.tiles import add_combinations, combined, products, scaled, squares

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.driven.block import ChannelBlock
    from qsim.sturmian.driven.operator import Driven

__all__ = ["Demand", "Reduced"]

# Share of a new direction left by an orthogonalisation, below which it holds nothing new.
DEPENDENT = 1e-6
# The same, below which its product with H is made anew.
RENEWED = 1e-3
# Hartree: how far below the lowest energy of two independent electrons the energy of the products lies.
BELOW = 0.5
# Energies at which the residual is followed while the space grows; all of them are looked at in the end.
WATCHED = 72
# Ratio of the residuals of the model that tells the error to those of the last one, at half of the energies; and of the largest
# residual of the model that tells which resonances have settled.
EARLIER = 3.0
# Largest share of an earlier error that may be left for a change to tell it.
UNCHANGED = 0.75
# Hartree: distance to the first threshold up to which an even grid of energies is as good as a logarithmic one.
SLOW = 0.02
# Directions for which room is made at first: a system gives memory when it is written to.
ROOM = 256
# Complex multiplications of two directions per number: orthogonalisation 3, products 6, residual 2.
MEETINGS = 11
# Energies whose normal equations a GPU solves together.
BATCH = 64
# Lists of energies whose solutions are kept.
KNOWN = 8
# Factor of the residual that is allowed where many levels are open; excess over what is allowed that is refused.
LOOSE, FAR = 10.0, 10.0
# Share of the tolerance above which an energy may fill a batch of directions.
NEARLY = 0.3
# Smallest 1/(E0 - E), 1/hartree, of an energy of the space.
SINGULAR = 1e-12
# Relative residual below which a difference of squares does not tell it: the residual is computed as a vector there.
VISIBLE = 1e-5
# Batches of directions that lower a residual below `VISIBLE` by less than this factor are rounding: the space grows no further.
STALLED, LOWERED = 5, 0.9
# Hartree: distance from a state at which its residual is preconditioned.
BESIDE = 2e-3
# Energies on either side whose change tells the error of one.
NEIGHBOURS = 2


@dataclass(frozen=True)
class Demand:
    """Requirements on the equations of a space.

    Attributes
    ----------
    tolerance : float
        Largest residual at an energy, relative to its source.
    most : int
        Most directions.
    together : int
        Directions that are made together.
    poll
        Called after every batch of directions.
    rounding : float
        Residual that rounding leaves.
    crowded : float
        Energy, hartree, above which the residual may be `LOOSE` times as large: so many levels of the ion are open there that
        box and grid leave far larger errors.
    """

    tolerance: float
    most: int
    together: int
    poll: Callable[[], None]
    rounding: float = 0.0
    crowded: float = np.inf

    def enough(self, residual: float) -> bool:
        """Tell whether a residual is as small as rounding lets it become."""
        return residual <= max(self.rounding, VISIBLE)

    def excess(self, E: NDArray[np.float64], residuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest residual (e,) of all gauges (k, e) at some energies over the one that is allowed there."""
        allowed = self.tolerance * np.where(self.crowded < E, LOOSE, 1.0)
        return np.asarray(residuals.max(axis=0) / allowed)


class _Products(NamedTuple):
    """Products of directions and sources on the host; those with W and the first one with conjugation of the left factor.

    Attributes
    ----------
    WW, QQ, WQ : (m, m) complex128
        ``W^* W^T``, ``Q^* Q^T`` and ``W^* Q^T``.
    M, A : (m, m) complex128
        ``Q Q^T`` and ``Q W^T``, the matrices of 1 and E0 - H without conjugation.
    b, Qs, Ws : (k, m) complex128
        ``s Q^T``, and ``s Q^*T``, ``s W^*T`` with conjugation.
    """

    WW: NDArray[np.complex128]
    QQ: NDArray[np.complex128]
    WQ: NDArray[np.complex128]
    M: NDArray[np.complex128]
    A: NDArray[np.complex128]
    b: NDArray[np.complex128]
    Qs: NDArray[np.complex128]
    Ws: NDArray[np.complex128]


class Reduced:
    """The driven equation of one symmetry in one space of directions for all energies.

    Parameters
    ----------
    operator : Driven
        E - H in the whole grid.
    s : (k, P, n, n) complex128
        Sources of photon energy one in the order of the gauges, on the device.
    chained : sequence of bool
        For each source whether the one before it is the gauge before it.
    ion : float
        Energy of the lowest level of the ion, hartree: the first threshold.
    lowest : float
        Energy of the lowest level of one electron, hartree: no state of two lies below twice as much.
    block : ChannelBlock, optional
        Makes directions from residuals; by default ``(E - h_1 - h_2)^-1`` does.
    """

    def __init__(
        self,
        operator: Driven,
        s: Any,
        chained: Sequence[bool],
        ion: float,
        lowest: float,
        block: ChannelBlock | None = None,
    ) -> None:
        if not operator.whole:
            raise ValueError("the equation of many energies needs the whole grid as its basis")
        self.operator, self.device, self.xp, self.s = operator, operator.device, operator.device.xp, s
        self.chained, self.ion, self.E0, self.block = list(chained), ion, 2.0 * lowest - BELOW, block
        self.precondition = operator.green if block is None else block.green
        self.count, self.size = int(s.shape[0]), 0
        self._s = s.reshape(self.count, -1)
        self._Q = self.xp.empty((0, self._s.shape[1]), complex)
        self._W = self._Q
        self._norms = np.sqrt(self._host(squares(self.device, self._s)).real)
        square, flat = np.zeros((0, 0), complex), np.zeros((self.count, 0), complex)
        self._small = _Products(*[square] * 5, *[flat] * 3)
        # After every batch: directions, largest residual over the allowed one at the energies that are followed.
        self.history: list[tuple[int, float]] = []
        self.energies: list[float] = []
        # The largest one, and the largest relative residual, of the energies that the space was last grown for.
        self.worst = self.left = np.inf
        # Directions of the model that tells the errors of cross sections.
        self.earlier = 0
        self._known: dict[tuple[bytes, int, int], tuple[NDArray[np.complex128], NDArray[np.float64]]] = {}

    @property
    def Q(self) -> Any:
        """Directions (m, P n n), on the device."""
        return self._Q[: self.size]

    @property
    def W(self) -> Any:
        """Their products with E0 - H, orthonormal but for rounding."""
        return self._W[: self.size]

    @property
    def bilinear(self) -> NDArray[np.complex128]:
        """Products of directions without conjugation, (m, m)."""
        return self._small.M

    @property
    def operations(self) -> float:
        """Floating-point operations of the space: bases and repulsion of each direction, their products, strips."""
        of_directions = self.size * self.operator.flops
        # Every direction meets those before it in an orthogonalisation, six products and a residual.
        of_pairs = MEETINGS * 8.0 * self._s.shape[1] * self.size**2 / 2.0
        return of_directions + of_pairs + (0.0 if self.block is None else self.block.operations)

    @property
    def recent(self) -> int:
        """Directions of the latest model whose largest residual was markedly larger: resonances that it has have settled."""
        sizes = [size for size, worst in self.history if worst > EARLIER * self.worst]
        return sizes[-1] if sizes else self.history[0][0]

    def _host(self, array: Any) -> NDArray[np.complex128]:
        return np.asarray(self.device.to_host(array), complex)

    # ------------------------------------------------------------------------------------ the space

    def add(self, vectors: Any) -> None:
        """Add vectors (m, P, n, n) to the space, on the device."""
        v, w = self._with_products(vectors)
        turn, share = self._orthogonalised(v, w)
        if share < RENEWED:
            # Rounding grows by 1/share in the products, from one such direction to the next: they are made anew.
            left = self.xp.empty((int(turn.shape[0]), v.shape[1]), complex)
            combined(self.device, turn, v, left)
            v, w = self._with_products(left)
            turn, _ = self._orthogonalised(v, w)
        if not turn.shape[0]:
            return
        first, self.size = self.size, self.size + int(turn.shape[0])
        self._make_room()
        for of, out in ((v, self.Q), (w, self.W)):
            combined(self.device, turn, of, out[first:])
        self._extend_products(first)

    def _with_products(self, vectors: Any) -> tuple[Any, Any]:
        """Return vectors (m, ...) as v, and ``w = (E0 - H) v`` of norm one, both (m, P n n)."""
        device, v = self.device, self.xp.empty((vectors.shape[0], self._s.shape[1]), complex)
        scaled(device, vectors.reshape(v.shape), device.asarray(np.ones(v.shape[0])), v)
        # residual without a source: -(E0 - H) v
        energies = device.asarray(np.full(v.shape[0], self.E0, complex))
        w = self.operator.residual(v.reshape(-1, *self.operator.on_grid_shape), None, energies)
        w = w.reshape(v.shape)
        norms = np.sqrt(self._host(squares(device, w)).real)
        scaled(device, w, device.asarray(-1.0 / norms), w)
        scaled(device, v, device.asarray(1.0 / norms), v)
        return v, w

    def _orthogonalised(self, v: Any, w: Any) -> tuple[Any, float]:
        """Subtract from w (m, P n n) its part along W, v alike; return what makes w orthonormal, (k, m), and the least share."""
        device = self.device
        if self.size:
            # W is not quite orthonormal: its own products make the projection exact, so that errors do not add up.
            h = np.linalg.solve(self._small.WW, self._host(products(device, self.W, w, (True,))).conj())
            away = device.asarray(np.ascontiguousarray(-h.T))
            add_combinations(device, away, self.W, w)
            add_combinations(device, away, self.Q, v)
        # Eigenvectors of the Gram matrix rather than Cholesky's factor: vectors that depend on each other are told apart.
        squared, x = np.linalg.eigh(self._host(products(device, w, w, (True,))))
        keep = squared > DEPENDENT**2
        turn = device.asarray(np.ascontiguousarray(x[:, keep].conj().T / np.sqrt(squared[keep])[:, None]))
        return turn, float(np.sqrt(squared[keep]).min(initial=1.0))

    def _make_room(self) -> None:
        """Make room for some directions more than there are."""
        if self.size <= self._Q.shape[0]:
            return
        rows = max(ROOM, 2 * self.size)
        for name in ("_Q", "_W"):
            old = getattr(self, name)
            wider = self.xp.empty((rows, old.shape[1]), complex)
            wider[: old.shape[0]] = old
            setattr(self, name, wider)

    def _extend_products(self, first: int) -> None:
        """Add the products of the directions from number `first` on with all of them."""
        device, old = self.device, self._small
        new = self.xp.concatenate((self.Q[first:], self.W[first:]))
        m = self.size - first
        # One pass through the directions for all that they enter, conjugated and not.
        qq, qw, bilinear, a = np.split(
            self._host(products(device, self.Q, new, (True, False))), [m, 2 * m, 3 * m], axis=1
        )
        wq, ww = np.split(self._host(products(device, self.W, new, (True,))).conj(), 2, axis=1)
        WW = bordered(old.WW, ww, ww.conj().T)
        QQ = bordered(old.QQ, qq.conj(), qq.T)
        WQ = bordered(old.WQ, wq, qw.T)
        M = bordered(old.M, bilinear, bilinear.T)
        A = bordered(old.A, a, a.T)
        Qs, Ws, b, _ = np.split(self._host(products(device, self._s, new, (True, False))), 4, axis=1)
        rows = [np.concatenate(pair, axis=1) for pair in ((old.b, b), (old.Qs, Qs), (old.Ws, Ws))]
        self._small = _Products(WW, QQ, WQ, M, A, *rows)

    # ------------------------------------------------------------------------------------ solutions

    def solve(self, E: NDArray[np.float64], size: int | None = None) -> NDArray[np.complex128]:
        """Return the coefficients (k, e, m) of all solutions at energies (e,), hartree, among the first `size` directions."""
        return self._solved(E, size)[0]

    def residuals(self, E: NDArray[np.float64], size: int | None = None) -> NDArray[np.float64]:
        """Return the residuals (k, e) at some energies, hartree, relative to the sources."""
        return self._solved(E, size)[1]

    def _solved(
        self, E: NDArray[np.float64], size: int | None = None
    ) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Return coefficients (k, e, m) and relative residuals (k, e)."""
        m = self.size if size is None else size
        E = np.asarray(E, float)
        key = (E.tobytes(), m, self.size)
        # Totals, amplitudes and residuals are asked for at the same energies, one after the other.
        if key not in self._known:
            if len(self._known) >= KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = self._solved_anew(E, m)
        return self._known[key]

    def _solved_anew(
        self, E: NDArray[np.float64], m: int
    ) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Return coefficients and relative residuals among the first m directions."""
        small = self._small
        c = np.zeros((self.count, E.size, self.size), complex)
        taken = np.zeros((self.count, E.size))
        crossed = small.WQ[:m, :m] + small.WQ[:m, :m].conj().T
        parts = (small.WW[:m, :m], crossed, small.QQ[:m, :m])
        e = E - self.E0
        solve = self._on_gpu if self.device.is_cuda else normal_equations

        def work(first: int, last: int) -> None:
            some = e[first:last]
            right = small.Ws[:, :m].T + some[:, None, None] * small.Qs[:, :m].T
            x = solve(parts, some, right)
            c[:, first:last, :m] = x.transpose(2, 0, 1)
            taken[:, first:last] = (right.conj() * x).real.sum(axis=1).T

        if self.device.is_cuda:
            work(0, E.size)
        else:
            with one_thread():
                each_call(work, E.size, max(1, E.size * m**3), self.device.threads)
        residuals = np.sqrt(np.maximum(1.0 - taken / self._norms[:, None] ** 2, 0.0))
        low = np.argwhere(residuals < VISIBLE)
        for first in range(0, len(low), BATCH):
            k, at = low[first : first + BATCH].T
            r = self._vectors(k, E[at], c[k, at]).reshape(k.size, -1)
            residuals[k, at] = np.sqrt(self._host(squares(self.device, r)).real) / self._norms[k]
        return c, residuals

    def true_residual(self, E: float) -> float:
        """Return the largest relative residual of all gauges at an energy, hartree, from products with H itself."""
        c = self.solve(np.array([E]))[:, 0]
        u = self.xp.zeros(self._s.shape, complex)
        add_combinations(self.device, self.device.asarray(c), self.Q, u)
        shape = (self.count, *self.operator.on_grid_shape)
        energies = self.device.asarray(np.full(self.count, E, complex))
        r = self.operator.residual(u.reshape(shape), self._s.copy().reshape(shape), energies)
        found = np.sqrt(self._host(squares(self.device, r.reshape(self.count, -1))).real) / self._norms
        return float(found.max())

    def _on_gpu(
        self, parts: tuple[NDArray[np.complex128], ...], e: NDArray[np.float64], right: NDArray[np.complex128]
    ) -> NDArray[np.complex128]:
        """Return what `normal_equations` does, some energies at a time in one call of the device."""
        xp, asarray = self.xp, self.device.asarray
        one, crossed, squared = (asarray(part) for part in parts)
        out = np.empty(right.shape, complex)
        for first in range(0, e.size, BATCH):
            some = slice(first, first + BATCH)
            shift = asarray(e[some])[:, None, None]
            normal = one + shift * (crossed + shift * squared)
            out[some] = self._host(xp.linalg.solve(normal, asarray(right[some])))
        # A singular equation leaves no number.
        for i in np.flatnonzero(~np.isfinite(out).all(axis=(1, 2))):
            out[i] = normal_equations(parts, e[i : i + 1], right[i : i + 1])[0]
        return out

    def products(self, E: NDArray[np.float64], size: int | None = None) -> NDArray[np.complex128]:
        """Return ``s_k^T x_k`` (k, e), without conjugation, in the form that is stationary."""
        c, small = self.solve(E, size), self._small
        linear = np.einsum("kem,km->ke", c, small.b)
        energy = (np.asarray(E) - self.E0)[None, :]
        squared = ((c @ small.A) * c).sum(axis=2) + energy * ((c @ small.M) * c).sum(axis=2)
        return np.asarray(2.0 * linear - squared)

    def poles(self, size: int | None = None) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the complex energies (m,) of the space, hartree, and ``x^T s`` (k, m) of their vectors, ``x^T x = 1``."""
        energies, x = self.states(size)
        return energies, self._small.b[:, : x.shape[0]] @ x

    def states(self, size: int | None = None) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the complex energies (m,) of the space, hartree, and the coefficients (size, m) of their vectors, ``x^T x = 1``.

        Their residual has no part along the w_j: ``(W^* W^T + (E - E0) W^* Q^T) x = 0``.  The quotient of Rayleigh without
        conjugation then is off by the square of the error of x.
        """
        m, small = self.size if size is None else size, self._small
        inverse, x = np.linalg.eig(np.linalg.solve(small.WW[:m, :m], small.WQ[:m, :m]))
        x = x[:, np.abs(inverse) > SINGULAR]
        norms = np.einsum("im,im->m", x, small.M[:m, :m] @ x)
        energies = self.E0 - np.einsum("im,im->m", x, small.A[:m, :m] @ x) / norms
        return energies, x / np.sqrt(norms)

    def vector(self, x: NDArray[np.complex128]) -> Any:
        """Return the vector (1, P, n, n) of some coefficients (size,), on the device."""
        u = self.xp.zeros((1, self._s.shape[1]), complex)
        add_combinations(self.device, self.device.asarray(x[None]), self.Q[: x.size], u)
        return u.reshape(1, *self.operator.on_grid_shape)

    def improve(self, x: NDArray[np.complex128], energy: complex) -> None:
        """Add the direction that corrects the vector of some coefficients (size,) at its complex energy, hartree.

        The residual is preconditioned beside that energy, where the inverse does not return the vector itself.
        """
        r = self.xp.zeros((1, self._s.shape[1]), complex)
        weights = self.device.asarray(x[None])
        add_combinations(self.device, weights, self.W[: x.size], r)
        add_combinations(self.device, (energy - self.E0) * weights, self.Q[: x.size], r)
        r = r.reshape(1, *self.operator.on_grid_shape)
        self._add_at(r / self.xp.linalg.norm(r), np.array([energy.real + BESIDE]))

    def changes(
        self,
        now: NDArray[np.complex128] | NDArray[np.float64],
        before: NDArray[np.complex128] | NDArray[np.float64],
        E: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return how far values (..., k, e) still are from what they tend to, from those of the earlier model.

        An error is proportional to a power of the residual: of an earlier error e / share the change is e (1 / share - 1). The
        change at the energies around counts, too, as it may vanish at one of them by accident.
        """
        change = np.abs(np.asarray(now) - np.asarray(before))
        for _ in range(NEIGHBOURS):
            padded = np.pad(change, [(0, 0)] * (change.ndim - 1) + [(1, 1)], mode="edge")
            change = np.maximum(change, np.maximum(padded[..., :-2], padded[..., 2:]))
        earlier = np.maximum(self.residuals(E, self.earlier), 1e-300)
        share = np.minimum(self.residuals(E) / earlier, UNCHANGED)
        return np.asarray(change * share / (1.0 - share))

    def grow(self, E: NDArray[np.float64], demand: Demand) -> NDArray[np.float64]:
        """Add directions until the residuals are small at some energies.

        Parameters
        ----------
        E : (e,) float64
            Energies at which the equation must hold, ascending, hartree.
        demand : Demand

        Returns
        -------
        (k, e) float64
            Relative residuals.

        Raises
        ------
        NumericsError
            If the residual is far above the tolerance, and above what rounding allows, with the most directions.
        """
        watched = _thinned(self._scaled(E))
        if not self.size:
            self._begin(E[watched], demand)
        while True:
            self._grow_watched(E[watched], demand)
            residuals = self.residuals(E)
            worst = demand.excess(E, residuals)
            # Energies between those that were followed are followed as well where the residual is larger there.
            more = np.setdiff1d(_apart(worst, 1.0, WATCHED // 2), watched)
            if not more.size or self.size >= demand.most:
                break
            watched = np.union1d(watched, more)
        self.worst = float(worst.max())
        self._check(E, residuals, demand)
        self.earlier = self._earlier(E[watched])
        return residuals

    def _earlier(self, E: NDArray[np.float64]) -> int:
        """Return the directions of the latest model whose residuals were markedly larger at most of some energies."""
        now = np.maximum(self.residuals(E), 1e-300)
        for size, _ in reversed(self.history):
            if size < self.size and np.median(self.residuals(E, size) / now) > EARLIER:
                return size
        return self.history[0][0]

    def _begin(self, E: NDArray[np.float64], demand: Demand) -> None:
        """Begin with the sources of gauges that others follow from, and with independent electrons at some energies."""
        at = E[np.unique(np.linspace(0, E.size - 1, min(demand.together, E.size)).astype(int))]
        for k in range(self.count):
            if self.chained[k]:
                self.add(self.s[k - 1][None])
            else:
                s = self.xp.broadcast_to(self.s[k], (at.size, *self.s[k].shape)).copy()
                self._add_at(s, at)
        demand.poll()

    def _add_at(self, residuals: Any, E: NDArray[np.float64]) -> None:
        """Add directions from residuals (m, P, n, n) at energies (m,)."""
        self.energies += [float(value) for value in E]
        self.add(self.precondition(residuals, self.device.asarray(np.asarray(E, complex))))

    def _grow_watched(self, E: NDArray[np.float64], demand: Demand) -> None:
        """Add directions until the residuals are small at energies that are followed."""
        # A least residual never grows with the space: energies that are good enough are not looked at again.
        worst, left = np.full(E.size, np.inf), np.arange(E.size)
        least, stalled = np.inf, 0
        while True:
            c, residuals = self._solved(E[left])
            worst[left] = demand.excess(E[left], residuals)
            self.worst = float(worst.max())
            self.history.append((self.size, self.worst))
            lowered = self.worst < LOWERED * least
            stalled = 0 if lowered or not demand.enough(float(residuals.max())) else stalled + 1
            least = min(least, self.worst)
            if self.worst <= 1.0 or self.size >= demand.most or stalled >= STALLED:
                return
            chosen = _apart(worst[left], 1.0, demand.together)
            size = self.size
            self._add_residuals(E[left[chosen]], residuals[:, chosen], c[:, chosen])
            demand.poll()
            if self.size == size:
                return
            left = left[worst[left] > 1.0]

    def _add_residuals(
        self, E: NDArray[np.float64], residuals: NDArray[np.float64], c: NDArray[np.complex128]
    ) -> None:
        """Add directions from the residuals (k, m) at energies (m,), those of the gauge where each is largest."""
        gauges, each = residuals.argmax(axis=0), np.arange(E.size)
        r = self._vectors(gauges, E, c[gauges, each])
        size = self.size
        self._add_at(r, E)
        if self.size == size:
            # Independent electrons have other poles than the preconditioner, where that gives nothing new.
            self.add(self.operator.green(r, self.device.asarray(E.astype(complex))))

    def _vectors(self, gauges: NDArray[np.int64], E: NDArray[np.float64], c: NDArray[np.complex128]) -> Any:
        """Return residuals (m, P, n, n) of some gauges and energies with coefficients (m, j)."""
        r = self._s[self.device.asarray(gauges)].copy()
        add_combinations(self.device, self.device.asarray(-c), self.W, r)
        add_combinations(self.device, self.device.asarray((self.E0 - E)[:, None] * c), self.Q, r)
        return r.reshape(-1, *self.operator.on_grid_shape)

    def _check(self, E: NDArray[np.float64], residuals: NDArray[np.float64], demand: Demand) -> None:
        """Refuse solutions that have not converged."""
        worst, excess = residuals.max(axis=0), demand.excess(E, residuals)
        e = int(np.argmax(excess))
        # Products of the space could drift away from H: the equation itself has the last word.
        true = max(float(worst[e]), self.true_residual(float(E[e])))
        self.left = max(true, float(worst.max()))
        if not (excess[e] * true <= FAR * worst[e] or demand.enough(true)):
            raise NumericsError(
                f"E = {E[e]:.6g} hartree: the relative residual is {true:.1e} with {self.size} directions, "
                f"but {worst[e] / excess[e]:.1e} is required",
                hint="a larger solver.max_iterations or solver.tolerance, or a smaller grid.ecs.angle",
            )

    def _scaled(self, E: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a coordinate in which solutions change evenly: logarithmic above the first threshold."""
        return np.asarray(np.log(np.maximum(np.asarray(E) - self.ion, 0.0) + SLOW))


def _thinned(y: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return numbers of about `WATCHED` energies (coordinates, ascending), both ends among them.

    Half of them are even in the coordinate, which is dense near the threshold, half even among the energies of the deck.
    """
    if y.size <= WATCHED:
        return np.arange(y.size)
    at = np.linspace(y[0], y[-1], WATCHED // 2)
    even = np.linspace(0, y.size - 1, WATCHED // 2).astype(int)
    return np.union1d(np.abs(y[:, None] - at[None, :]).argmin(axis=0), even)


def _apart(worst: NDArray[np.float64], least: float, most: int) -> NDArray[np.int64]:
    """Return numbers of energies with the largest values above `least`, spread over all energies that are above it."""
    left = np.where(worst > least, worst, 0.0)
    order = np.cumsum(left > 0.0)
    # Of neighbours one is enough: its direction serves the others, too.
    reach = order[-1] / (2.0 * most)
    chosen: list[int] = []
    while len(chosen) < most and left.max() > 0.0:
        best = int(np.argmax(left))
        chosen.append(best)
        left[np.abs(order - order[best]) <= reach] = 0.0
    return np.array(sorted(chosen), np.int64)
