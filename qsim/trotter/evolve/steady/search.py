r"""The search for the steady state and for the slowest modes.

``G rho = 0`` with the trace 1 is ``(G - c m t) rho = -c m``, t the trace, which is a left eigenvector of G, and m the state in
which all states are as likely: 0 becomes -c.  GMRES solves it with the inverse of the evolution between jumps; what it takes
does not grow with the time that the system needs to get there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress
from qsim.trotter.evolve.open.arnoldi import Arnoldi
from qsim.trotter.evolve.open.density import VECTORS
from qsim.trotter.evolve.steady.between import Between
from qsim.trotter.evolve.steady.modes import Modes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.trotter.evolve.steady.problem import SteadyProblem

__all__ = ["Search", "zeros_of"]

# elements up to which G is diagonalised, unless a time is given for the search; and those in which there is nothing to search
DENSE, FEW = 400, 60
# of a rate that is 0, relative to the largest eigenvalue or 1
UNIQUE = 1e-8
# inverse rates after which only steady parts are left
LONG = 40.0
# vectors of GMRES, and how often it begins again
INNER, OUTER = 30, 20
ULP = 2.2e-16


def zeros_of(values: NDArray[np.complex128]) -> int:
    """Return how many of some eigenvalues have the rate 0."""
    rates = -values.real
    return int(np.count_nonzero(rates <= UNIQUE * max(1.0, float(np.abs(values).max(initial=0.0)))))


class Search:
    """The steady state and the slowest modes of a problem.

    Attributes
    ----------
    v : (D,) complex128 or None
        The steady state.
    values : (M,) complex128 or None
        Eigenvalues of G, 0 first.
    errors : (M,) float64 or None
        Their errors.
    """

    def __init__(self, problem: SteadyProblem, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        self.values: NDArray[np.complex128] | None = None
        self.errors: NDArray[np.float64] | None = None
        self.v: NDArray[np.complex128] | None = None
        if restored is not None:
            self.v, self.values, self.errors = (
                None if restored.get(name) is None else np.array(restored[name])
                for name in ("v", "values", "errors")
            )

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: a search that was interrupted begins anew."""
        return {"values": self.values, "errors": self.errors, "v": self.v}

    def advance(self, report: Report) -> None:
        """Find the steady state and the slowest rates."""
        doubled, block = self.problem.doubled, self.problem.block
        G = doubled.real_parts[0][1]
        dense = G.shape[0] <= (DENSE if block.tau == "auto" else FEW)
        if self.values is None and dense:
            self._dense(G, block.modes + 1)
        if self.values is not None and self.v is not None:
            return
        between = None if dense else Between(doubled)
        mixed = doubled.real_of(doubled.mixed())
        # populations alone, all the same
        trace = mixed / float(mixed @ mixed)
        if self.v is None:
            self.v = self._steady(G, between, mixed, trace, report)
            report(Progress())
        if self.values is None:
            assert between is not None
            modes = Modes(G, between, doubled.real_of(self.v), trace)
            tau = None if block.tau == "auto" else block.tau
            values, errors = modes.find(block.modes, block.tolerance, tau, report)
            self.values, self.errors = np.append(0.0, values), np.append(0.0, errors)
        if zeros_of(self.values) > 1:
            self.v = self._limit(G, report)

    def _dense(self, G: Any, count: int) -> None:
        """Take all eigenvalues of a small G, with what rounding makes of them."""
        from scipy.linalg import eig

        matrix = G.toarray()
        values, left, right = eig(matrix, left=True)
        order = np.argsort(-values.real)[:count]
        overlaps = np.abs(np.einsum("ij,ij->j", left.conj(), right))
        rounding = 10.0 * ULP * float(np.linalg.norm(matrix))
        # where eigenvectors are parallel, an eigenvalue moves like the root of a change
        errors = np.minimum(rounding / np.maximum(overlaps, 1e-300), np.sqrt(rounding))
        self.values, self.errors = values[order], errors[order]

    def _steady(
        self,
        G: Any,
        between: Between | None,
        mixed: NDArray[np.float64],
        trace: NDArray[np.float64],
        report: Report,
    ) -> NDArray[np.complex128]:
        doubled, tolerance = self.problem.doubled, self.problem.block.tolerance
        c = max(float(np.abs(G.diagonal()).max()), 1e-3)

        def moved(x: NDArray[Any]) -> NDArray[Any]:
            x = np.ravel(x)
            report(Progress())
            return np.asarray(G @ x - c * float(trace @ x) * mixed)

        if between is None:
            x = np.linalg.lstsq(G.toarray() - c * np.outer(mixed, trace), -c * mixed, rcond=None)[0]
        else:
            from scipy.sparse.linalg import LinearOperator, gcrotmk

            made = between
            shape = G.shape
            x, _ = gcrotmk(
                LinearOperator(shape, matvec=moved, dtype=np.float64),
                -c * mixed,
                x0=mixed,
                M=LinearOperator(shape, matvec=lambda y: made.solve(np.ravel(y), 0.0), dtype=np.float64),
                m=INNER,
                maxiter=OUTER,
                rtol=0.0,
                atol=0.1 * tolerance * float(np.linalg.norm(mixed)),
            )
        x = x / float(trace @ x)
        if not np.linalg.norm(G @ x) <= tolerance:
            return self._limit(G, report)
        return doubled.of_real(x)

    def _limit(self, G: Any, report: Report) -> NDArray[np.complex128]:
        """Return what the state in which all states are as likely becomes: the start decides where several states are steady."""
        doubled = self.problem.doubled
        v = doubled.real_of(doubled.mixed())
        exponential = Arnoldi(v.size, VECTORS, np.float64)
        t = 1.0
        for _ in range(200):
            if np.linalg.norm(G @ v) <= self.problem.block.tolerance:
                break
            v = exponential.advance(lambda y: G @ y, v, t, 1e-3 * self.problem.block.tolerance)
            t = min(2.0 * t, LONG)
            report(Progress())
        found = doubled.of_real(v)
        return np.asarray(found / doubled.trace(found))
