r"""One driven equation at many energies: the solutions of a few span those of all others.

``(E - H) u = s`` with an H and sources that do not depend on E has a solution that is a rational function of E.  In the span Q of
solutions at some energies, and with products without conjugation, as H is complex symmetric,

    u(E) = Q c(E),     (E M - A) c = b,     M = Q^T Q,  A = Q^T H Q,  b = Q^T s.

``u^T s``, by which the optical theorem is computed, then has at every node the right value and the right slope; amplitudes,
which are linear in u, the right value.  Every new node tells how far the model was off between the two nodes at its sides; nodes
are added where this is most, until it is little everywhere.

Sources of a photon are those of photon energy one: x = u, omega u, omega^2 u of length, velocity and acceleration obey

    x_velocity = s_length - omega x_length,     x_acceleration = s_velocity - omega x_velocity

with exact states and operators (`qsim.sturmian.driven.sources.gauge_steps`), so that the second and third gauge take few steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.driven import operator as driven

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.driven.operator import Driven, Solution

__all__ = ["Demand", "Reduced"]

# Share of a new direction left by an orthogonalisation, below which it holds nothing but rounding.
DEPENDENT = 1e-9
# Nodes of the first and of other gauges before the first comparison, and between two comparisons.
FIRST, SECOND, NEXT = 8, 4, 4
# A gauge that follows from the one before needs fewer nodes by this factor.
CHAINED = 3
# Share of the largest value of a curve below which relative differences do not count.
FLOOR = 0.02
# Hartree: distance to the first threshold up to which an even grid of energies is as good as a logarithmic one.
SLOW = 0.02
# Hartree: two energies that are one.
SAME = 1e-12


@dataclass(frozen=True)
class Demand:
    """Requirements on the equations of a span.

    Attributes
    ----------
    tolerance : float
        Largest residual of a node, relative to its source.
    limit : int
        Most steps of the solver for one equation.
    agreement : float
        Largest relative error between the nodes.
    most : int
        Most nodes of one gauge.
    together : int
        Equations that are solved together.
    poll
        Called after every step.
    rounding : float
        Residual that rounding leaves.
    """

    tolerance: float
    limit: int
    agreement: float
    most: int
    together: int
    poll: Callable[[], None]
    rounding: float = 0.0

    def check(self, E: NDArray[np.float64], solved: Solution) -> None:
        """Refuse solutions that have not converged.

        Raises
        ------
        NumericsError
            If a residual is far above the tolerance, and above what rounding allows.
        """
        worst = int(np.argmax(solved.residuals))
        if not solved.residuals[worst] <= max(10.0 * self.tolerance, self.rounding):
            raise NumericsError(
                f"E = {E[worst]:.6g} hartree: the relative residual is {solved.residuals[worst]:.1e} after "
                f"{int(solved.iterations[worst])} steps, but {self.tolerance:.1e} is required",
                hint="a larger solver.max_iterations or solver.tolerance, or a smaller grid.ecs.angle",
            )


@dataclass
class Nodes:
    """Numbers of the solver: energies, steps, residuals, seconds of every equation that was solved."""

    E: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, E: NDArray[np.float64], solved: Solution) -> None:
        """Record the equations of one call."""
        self.E += [float(value) for value in E]
        self.steps += [int(value) for value in solved.iterations]
        self.residuals += [float(value) for value in solved.residuals]
        self.seconds += solved.seconds


class Reduced:
    """The driven equation of one symmetry in the span of some of its solutions.

    Parameters
    ----------
    operator : Driven
        E - H in the whole grid.
    s : (k, P, n, n) complex128
        Sources of photon energy one in the order of the gauges, on the device.
    chained : sequence of bool
        For each source whether the one before it is the gauge before it.
    bound : float
        Energy of the initial state on this grid, hartree: the photon energy is E minus this.
    ion : float
        Energy of the lowest level of the ion, hartree: the first threshold.
    """

    def __init__(self, operator: Driven, s: Any, chained: Sequence[bool], bound: float, ion: float) -> None:
        if not operator.whole:
            raise ValueError("the equation of many energies needs the whole grid as its basis")
        self.operator, self.xp, self.s = operator, operator.device.xp, s
        self.chained, self.bound, self.ion = list(chained), bound, ion
        self.count = int(s.shape[0])
        size = int(s[0].size)
        self.Q = self.xp.empty((0, size), complex)
        self.HQ = self.xp.empty((0, size), complex)
        self.nodes = [Nodes() for _ in range(self.count)]
        # Number of directions before the latest nodes of every gauge.
        self.before = [0] * self.count
        # Energies at which every gauge was required, and the errors that were left there.
        self._trusted: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = [
            (np.zeros(1), np.full(1, np.inf)) for _ in range(self.count)
        ]
        self._small()

    @property
    def size(self) -> int:
        """Number of directions."""
        return int(self.Q.shape[0])

    # ------------------------------------------------------------------------------------ the span

    def add(self, vectors: Any) -> None:
        """Add vectors (m, P, n, n) to the span, on the device."""
        xp, operator = self.xp, self.operator
        none = operator.device.asarray(np.zeros(1, complex))
        made: list[Any] = []
        products: list[Any] = []
        for vector in vectors.reshape(vectors.shape[0], -1):
            v = vector / xp.linalg.norm(vector)
            # Gram and Schmidt twice: the second pass removes what rounding left of the first.
            for _ in range(2):
                for basis in (self.Q, *(one[None] for one in made)):
                    v = v - (basis.conj() @ v) @ basis
            norm = float(xp.linalg.norm(v))
            if norm <= DEPENDENT:
                continue
            v = v / norm
            made.append(v)
            # H itself is the residual of a vanishing source at E = 0.
            on_grid = v.reshape(1, *operator.shape)
            products.append(operator.residual(on_grid, xp.zeros_like(on_grid), none).reshape(-1))
        if made:
            self.Q = xp.concatenate((self.Q, xp.stack(made)))
            self.HQ = xp.concatenate((self.HQ, xp.stack(products)))
        self._small()

    def _small(self) -> None:
        """Bring the equation of the span to the host."""
        host = self.operator.device.to_host
        A = np.asarray(host(self.Q @ self.HQ.T), complex)
        # symmetric but for rounding
        self.A = 0.5 * (A + A.T)
        self.M = np.asarray(host(self.Q @ self.Q.T), complex)
        self.b = np.asarray(host(self.s.reshape(self.count, -1) @ self.Q.T), complex)

    def solve(self, E: NDArray[np.float64], size: int | None = None) -> NDArray[np.complex128]:
        """Return the coefficients (k, e, m) of all solutions at energies (e,), hartree, among the first `size` directions."""
        m = self.size if size is None else size
        if m == 0:
            return np.zeros((self.count, len(E), self.size), complex)
        matrices = np.asarray(E, complex)[:, None, None] * self.M[:m, :m] - self.A[:m, :m]
        solved = np.linalg.solve(matrices, np.broadcast_to(self.b[:, :m].T, (len(E), m, self.count)))
        out = np.zeros((self.count, len(E), self.size), complex)
        out[:, :, :m] = np.moveaxis(solved, 2, 0)
        return out

    def products(self, E: NDArray[np.float64], size: int | None = None) -> NDArray[np.complex128]:
        """Return ``s_k^T x_k`` (k, e), without conjugation."""
        return np.einsum("kem,km->ke", self.solve(E, size), self.b)

    def poles(self) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the complex energies (m,) of the span, hartree, and ``x^T s`` (k, m) of their vectors, ``x^T x = 1``."""
        from scipy.linalg import eig

        energies, x = eig(self.A, self.M)
        norms = np.einsum("im,ij,jm->m", x, self.M, x)
        return energies, (self.b @ x) / np.sqrt(norms)

    # ------------------------------------------------------------------------------------ growth

    def grow(self, E: NDArray[np.float64], demand: Demand) -> NDArray[np.float64]:
        """Add solutions until the model no longer changes at some energies.

        Parameters
        ----------
        E : (e,) float64
            Energies at which the equation must hold, ascending, hartree.
        demand : Demand

        Returns
        -------
        (k, e) float64
            Relative error of every gauge that is left, see `_Trust`.
        """
        return np.array([self._grow_gauge(k, E, demand) for k in range(self.count)])

    def place(self, E: NDArray[np.float64], nodes: NDArray[np.float64], demand: Demand) -> None:
        """Add solutions at some nodes, of chained gauges at every third of them, which nothing judges at the energies E."""
        for k in range(self.count):
            at = nodes
            if self.chained[k] and self.nodes[k - 1].E:
                self.add(self.s[k - 1][None])
                at = nodes[::CHAINED]
            self._add_nodes(k, at, demand)
            self._trusted[k] = E, np.zeros(len(E))

    def _grow_gauge(self, k: int, E: NDArray[np.float64], demand: Demand) -> NDArray[np.float64]:
        """Grow the span for one gauge; return the relative error (e,) that is left."""
        chained = self.chained[k] and bool(self.nodes[k - 1].E)
        trust = _Trust(self._scaled(E), np.full(len(E), np.inf))
        possible, most = E, demand.most
        if chained:
            # A second gauge is sought at nodes of the one before, whose solutions it starts from: the span
            # holds them exactly there, and much of the second gauge with its source.
            possible, most = np.array(sorted(self.nodes[k - 1].E)), demand.most // CHAINED
            self.add(self.s[k - 1][None])
        if self.nodes[k].E:
            trust.left = self._again(k, E)
        else:
            first = possible[_spread(self._scaled(possible), SECOND if chained else FIRST)]
            before = self.products(E)[k].imag
            self._add_nodes(k, first, demand)
            # Without a model before them the first nodes tell nothing.
            if chained:
                trust.left = self._relative(k, E, before)
        # A batch of nodes where the error is largest, until it is small everywhere.
        while len(self.nodes[k].E) < most:
            left = np.where(self.at_node(k, E), 0.0, trust.left)
            if float(left.max()) <= demand.agreement:
                break
            chosen = self._worst(k, possible, left if not chained else np.interp(possible, E, left))
            if not chosen.size:
                break
            before = self.products(E)[k].imag
            known = self._scaled(np.array(self.nodes[k].E))
            self._add_nodes(k, chosen, demand)
            trust.update(known, self._scaled(chosen), self._relative(k, E, before))
        self._trusted[k] = E, trust.left
        return np.where(self.at_node(k, E), 0.0, trust.left)

    def _again(self, k: int, E: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the error (e,) that an earlier growth has left, at other energies: that of the energies around them."""
        known, left = self._trusted[k]
        nearest = np.abs(E[:, None] - known[None, :]).argmin(axis=1)
        same = np.abs(E - known[nearest]) <= SAME
        return np.where(same, left[nearest], np.maximum(left[nearest], np.interp(E, known, left)))

    def _scaled(self, E: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a coordinate in which solutions change evenly: logarithmic above the first threshold."""
        return np.asarray(np.log(np.maximum(np.asarray(E) - self.ion, 0.0) + SLOW))

    def _relative(self, k: int, E: NDArray[np.float64], before: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the relative change (e,) of ``Im s_k^T x_k`` since some values before."""
        now = self.products(E)[k].imag
        scale = np.maximum(np.abs(now), FLOOR * np.abs(now).max())
        return np.asarray(np.abs(now - before) / scale)

    def left(self, k: int, E: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the relative error (e,) of gauge k between the nodes, 0 at them."""
        return np.where(self.at_node(k, E), 0.0, self._again(k, E))

    def at_node(self, k: int, E: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell whether energies (e,) are nodes of a gauge, where its equation itself was solved."""
        nodes = np.array(self.nodes[k].E)
        if not nodes.size:
            return np.zeros(len(E), bool)
        return np.asarray(np.abs(np.asarray(E)[:, None] - nodes).min(axis=1) <= SAME)

    def _worst(self, k: int, E: NDArray[np.float64], left: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return some energies, apart from each other and from all nodes of k, where the error is largest."""
        y, known = self._scaled(E), np.array(self.nodes[k].E)
        gap = np.abs(y[:, None] - self._scaled(known)[None, :]).min(axis=1)
        free = np.abs(E[:, None] - known[None, :]).min(axis=1) > SAME
        chosen: list[int] = []
        for _ in range(NEXT):
            # Where nothing is known yet, the middle of the widest gap between nodes.
            unknown = free & np.isinf(left)
            score = np.where(unknown, gap, -1.0) if unknown.any() else np.where(free, left, -1.0)
            best = int(np.argmax(score))
            if score[best] <= 0.0:
                break
            chosen.append(best)
            # Half way to the nearest node is the reach of a new one.
            free &= np.abs(y - y[best]) > 0.5 * gap[best]
            gap = np.minimum(gap, np.abs(y - y[best]))
        return np.asarray(E[sorted(chosen)])

    def _add_nodes(self, k: int, E: NDArray[np.float64], demand: Demand) -> None:
        """Solve the equations of one gauge at some energies, and add the solutions."""
        if not E.size:
            return
        self.before[k] = self.size
        for start in range(0, len(E), demand.together):
            self._solve_nodes(k, np.asarray(E[start : start + demand.together], float), demand)

    def _solve_nodes(self, k: int, E: NDArray[np.float64], demand: Demand) -> None:
        """Solve some equations of one gauge together, from the gauge before where there is one."""
        xp, shape = self.xp, self.operator.on_grid_shape
        asarray, start = self.operator.device.asarray, None
        if self.chained[k]:
            c = asarray(self.solve(E)[k - 1])
            omega = asarray(E - self.bound)[:, None, None, None]
            start = self.s[k - 1][None] - omega * (c @ self.Q).reshape(len(E), *shape)
        solved = driven.solve(
            self.operator,
            xp.broadcast_to(self.s[k], (len(E), *shape)).copy(),
            E,
            tolerance=demand.tolerance,
            max_iterations=demand.limit,
            start=start,
            observe=demand.poll,
        )
        demand.check(E, solved)
        self.nodes[k].add(E, solved)
        self.add(solved.u)


@dataclass
class _Trust:
    """Relative error of a model at some energies, as far as nodes between its nodes have told it.

    A new node shows the error that the model had around it, within the gap between the two nodes at its sides; in other gaps the
    error stays what it was before, or what the new node changes there if that is more.

    Attributes
    ----------
    y : (e,) float64
        Energies in the coordinate of the model.
    left : (e,) float64
        Relative error; infinite where no node has told it yet.
    """

    y: NDArray[np.float64]
    left: NDArray[np.float64]

    def update(
        self, known: NDArray[np.float64], fresh: NDArray[np.float64], change: NDArray[np.float64]
    ) -> None:
        """Learn from new nodes (coordinates) between known ones, with the relative change (e,) that they make."""
        ordered = np.sort(known)
        tested = np.isin(np.searchsorted(ordered, self.y), np.searchsorted(ordered, fresh))
        self.left = np.where(tested, change, np.maximum(self.left, change))


def _spread(y: NDArray[np.float64], nodes: int) -> NDArray[np.int64]:
    """Return numbers of the energies (coordinates, ascending) nearest to the nodes of Chebyshev, where interpolation is best."""
    at = y[0] + 0.5 * (y[-1] - y[0]) * (1.0 - np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes))
    return np.unique(np.abs(y[:, None] - at[None, :]).argmin(axis=0))
