r"""The search for the steady state and for the slowest modes.

``G rho = 0`` with the trace 1 is ``(G - c m t) rho = -c m``, t the trace, which is a left eigenvector of G, and m the state in
which all states are as likely: 0 becomes -c.  GMRES solves it with the inverse of the evolution between jumps; what it takes
does not grow with the time that the system needs to get there.
"""

from __future__ import annotations

from functools import cached_property
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
    from scipy.sparse import csr_array

    from qsim.core.run.loop import Report
    from qsim.trotter.evolve.steady.problem import SteadyProblem
    from qsim.trotter.sectors.digits.liouville import Doubled

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


class Inverse:
    """The inverse of ``G - c m t``, which is that of G among vectors without a trace.

    Attributes
    ----------
    G : (D, D) sparse
        The generator among Hermitian matrices.
    mixed, trace : (D,) float64
        m and t.
    c : float
    """

    def __init__(self, doubled: Doubled, between: Between | None) -> None:
        self.G, self.between = doubled.real_parts[0][1], between
        self.mixed = doubled.real_of(doubled.mixed())
        # populations alone, all the same
        self.trace = self.mixed / float(self.mixed @ self.mixed)
        self.c = max(float(np.abs(self.G.diagonal()).max()), 1e-3)

    def of(self, b: NDArray[np.float64], tolerance: float, report: Report) -> NDArray[np.float64]:
        """Return the solution for a right side, with a residual of the tolerance if it is reached."""
        G, mixed, trace, c = self.G, self.mixed, self.trace, self.c
        if self.between is None:
            return np.asarray(np.linalg.lstsq(G.toarray() - c * np.outer(mixed, trace), b, rcond=None)[0])
        from scipy.sparse.linalg import LinearOperator, gcrotmk

        between = self.between

        def moved(x: NDArray[Any]) -> NDArray[Any]:
            report(Progress())
            x = np.ravel(x)
            return np.asarray(G @ x - c * float(trace @ x) * mixed)

        x, _ = gcrotmk(
            LinearOperator(G.shape, matvec=moved, dtype=np.float64),
            b,
            M=LinearOperator(G.shape, matvec=lambda y: between.solve(np.ravel(y), 0.0), dtype=np.float64),
            m=INNER,
            maxiter=OUTER,
            rtol=0.0,
            # the tolerance of a state with the trace 1
            atol=0.1 * tolerance * min(1.0, c * float(np.linalg.norm(mixed))),
        )
        return np.asarray(x)


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

    @property
    def dense(self) -> bool:
        """True if G is small enough to be diagonalised."""
        return self.problem.doubled.space.dimension <= (DENSE if self.problem.block.tau == "auto" else FEW)

    @cached_property
    def inverse(self) -> Inverse:
        """What solves linear equations with G."""
        doubled = self.problem.doubled
        return Inverse(doubled, None if self.dense else Between(doubled))

    def advance(self, report: Report) -> None:
        """Find the steady state and the slowest rates."""
        doubled, block = self.problem.doubled, self.problem.block
        if self.values is not None and self.v is not None:
            return
        inverse = self.inverse
        if self.dense:
            self._dense(inverse.G, block.modes + 1)
        if self.v is None:
            self.v = self._steady(inverse, report)
            report(Progress())
        if self.values is None:
            assert inverse.between is not None
            modes = Modes(inverse.G, inverse.between, doubled.real_of(self.v), inverse.trace)
            tau = None if block.tau == "auto" else block.tau
            values, errors = modes.find(block.modes, block.tolerance, tau, report)
            self.values, self.errors = np.append(0.0, values), np.append(0.0, errors)
        if zeros_of(self.values) > 1:
            self.v = self._limit(inverse.G, report)

    def _dense(self, G: csr_array, count: int) -> None:
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

    def _steady(self, inverse: Inverse, report: Report) -> NDArray[np.complex128]:
        """Return the state with ``G rho = 0``, or what comes of the one in which all states are as likely if none is found."""
        G, tolerance = inverse.G, self.problem.block.tolerance
        x = inverse.of(-inverse.c * inverse.mixed, tolerance, report)
        x = x / float(inverse.trace @ x)
        if not np.linalg.norm(G @ x) <= tolerance:
            return self._limit(G, report)
        return self.problem.doubled.of_real(x)

    def _limit(self, G: csr_array, report: Report) -> NDArray[np.complex128]:
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
