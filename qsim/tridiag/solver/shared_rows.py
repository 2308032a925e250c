"""One tridiagonal system whose rows lie on several processes, solved once and judged: residual, backward error, refinement.

Every process reads its rows, solves with :class:`~qsim.tridiag.solver.shared.SharedSolver`, and sends the six numbers of its
joint lines, its first unknown and a few norms; nothing longer than the number of right-hand sides is exchanged.  What
elimination without pivoting does not solve well even with refinement is left to the caller (:attr:`SharedRows.doubtful`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import namespace
from qsim.tridiag.kernels.partition import stages
from qsim.tridiag.solver.batch import ROUGH, Errors
from qsim.tridiag.solver.ladder import REFINEMENTS, ROUNDED, WEAK_PIVOT
from qsim.tridiag.solver.robustness.verdicts import SUSPICIOUS, SUSPICIOUS_PIVOT
from qsim.tridiag.solver.shared import SharedSolver
from qsim.tridiag.solver.systems import RandomSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.core.device.links import Links
    from qsim.tridiag.solver.shared import Span
    from qsim.tridiag.solver.systems import Source

__all__ = ["SharedRows"]


class SharedRows:
    """The rows of one process with those next to them, and the solution there.

    Parameters
    ----------
    device : Device
    span : Span
        Rows of this process.
    links : Links
        To the other processes.
    source : Source
        The whole system; own rows and the joint line at their left are read.
    iterations : int or "auto"
        Nested partitions within a process.

    Attributes
    ----------
    x : (columns, lines)
        Unknowns of the joint line at the left (but on process 0), the own rows, and the row after them (but on the last process).
    errors : Errors
        Norms of every right-hand side's solution, of all processes.
    smallest : float
        Smallest relative pivot of all processes.
    refinements : int
        Refinements made.
    doubtful : bool
        Whether the solution may be wrong: pivoting or other scales are needed, or elements are not finite.
    """

    def __init__(
        self, device: Device, span: Span, links: Links, source: Source, iterations: int | str = "auto"
    ) -> None:
        self.device, self.span, self.links = device, span, links
        self.columns, self.dtype = source.columns, source.dtype
        self.solver = SharedSolver(device, span, links, iterations, watched=True)
        self.smallest, self.refinements, self.doubtful = 1.0, 0, True
        # of the own rows
        self._first = span.low - span.first
        self._lines = span.high - span.first
        self._next = int(span.high < span.rows)
        a, b, c, d = self._read(source)
        xp = namespace(a)
        self._left = c[
            :1
        ].copy()  # couples the joint line at the left to the own rows; that row's residual is the neighbour's
        # the joint line at the left is a row of the neighbour: it is solved for here, and judged there
        if self._first:
            for part in (a, b, c):
                part[0] = 0
            d[:, 0] = 0
        # the row after the own ones belongs to the next process: an empty row here, with x filled in for the residual
        if self._next:
            none = xp.zeros(1, a.dtype)
            a, b, c = (xp.concatenate((part, none)) for part in (a, b, c))
            d = xp.concatenate((d, xp.zeros((self.columns, 1), a.dtype)), axis=1)
        self.a, self.b, self.c, self.d = a, b, c, d

    def _read(self, source: Source) -> tuple[Array, Array, Array, Array]:
        """Return the own rows and the joint line at their left, on the device; a random system is made there."""
        device, low, high = self.device, self.span.first, self.span.high
        if not (device.is_cuda and isinstance(source, RandomSource)):
            a, b, c, d = source.read(low, high)
            return device.asarray(a), device.asarray(b), device.asarray(c), device.asarray(d)
        a, b, c = (device.xp.empty(high - low, source.dtype) for _ in range(3))
        d = device.xp.empty((source.columns, high - low), source.dtype)
        source.fill(device, low, a, b, c, d)
        return a, b, c, d

    def solve(self, tolerance: float) -> None:
        """Solve, and refine where pivots are small or the backward error exceeds `tolerance`; a collective call."""
        self.x = self._applied(self.d)
        smallest = self.solver.smallest
        r = namespace(self.x).empty_like(self.x)
        self.errors = self._judged(self.x, r)
        self.smallest = smallest
        if self._good(tolerance, WEAK_PIVOT):
            self.doubtful = False
            return
        eps = float(np.finfo(self.dtype).eps)
        # all processes see the same norms, so that they stop together
        while self.refinements < REFINEMENTS and np.isfinite(self.errors.residual).all():
            if self.refinements and (self.errors.worst <= ROUNDED * eps).all():
                break
            self.refinements += 1
            trial = self.x + self._applied(r)
            rest = namespace(r).empty_like(r)
            trial_errors = self._judged(trial, rest)
            # column by column: a correction that does not help one right-hand side is not taken there
            better = trial_errors.worst < self.errors.worst
            if not better.any():
                break
            for column in np.flatnonzero(better).tolist():
                self.x[column], r[column] = trial[column], rest[column]
            self.errors.update(better, trial_errors)
        self.doubtful = not self._good(tolerance, SUSPICIOUS_PIVOT * eps)

    def _good(self, tolerance: float, pivot: float) -> bool:
        """Return whether all rows are solved well with pivots above `pivot`.

        No scaling of rows and columns can make a row-wise error larger, so that a badly scaled system is judged as well.
        """
        eps = float(np.finfo(self.dtype).eps)
        fine = (self.errors.backward <= tolerance) & (self.errors.rowwise <= max(tolerance, ROUGH * eps))
        return bool(self.smallest >= pivot and (fine & (self.errors.condition * eps <= SUSPICIOUS)).all())

    def _applied(self, d: Array) -> Array:
        """Return the solution for right-hand sides of these rows, with the neighbours' at both ends."""
        window = slice(0, self._lines)
        x = namespace(d).zeros_like(d)
        for column in range(self.columns):
            a, b, c = (part[window].copy() for part in (self.a, self.b, self.c))
            # of the joint line at the left, its coupling to the own rows: the neighbour knows the rest of it
            c[:1] = self._left
            # the residual shows what is not finite
            with np.errstate(all="ignore"):
                x[column, window] = self.solver.solve(a, b, c, d[column, window].copy())
        # the residual of the last own row needs x of the first row of the next process
        edge = np.ascontiguousarray(self.device.to_host(x[:, self._first]))
        edges = self.links.gather(edge)
        if self._next:
            x[:, -1] = self.device.asarray(edges[self.links.rank + 1])
        return x

    def _judged(self, x: Array, r: Array) -> Errors:
        """Write the residual of the own rows to `r`, zero in the neighbours'; return norms over all processes."""
        norms = np.empty((self.columns, 5))
        for column in range(self.columns):
            one = slice(column, column + 1)
            norms[one] = stages.residual(
                self.device, self.a[None], self.b[None], self.c[None], self.d[one], x[one], r[one]
            )
        return Errors(*self.links.gather(norms).max(axis=0).T.copy())

    # ------------------------------------------------------------------------------------ own rows

    @property
    def own(self) -> NDArray[Any]:
        """Unknowns of the own rows on the host, (rows, columns)."""
        part = self.x[:, self._first : self._first + self.span.size]
        return np.ascontiguousarray(self.device.to_host(part).T)

    def residual(self, low: int, high: int) -> NDArray[Any]:
        """Return ``d - T x`` of some of the own rows, counted from the first of them, (columns, high - low)."""
        host, at = self.device.to_host, self._first
        rows = slice(at + low, at + high)
        a, b, c, d = (host(part[..., rows]) for part in (self.a, self.b, self.c, self.d))
        # with the rows before and after
        x = np.zeros((self.columns, high - low + 2), self.dtype)
        first, last = max(at + low - 1, 0), min(at + high + 1, self.x.shape[1])
        x[:, first - (at + low - 1) : last - (at + low - 1)] = host(self.x[:, first:last])
        below, here, above = x[:, :-2], x[:, 1:-1], x[:, 2:]
        with np.errstate(all="ignore"):
            return np.asarray(d - a * here - b * below - c * above)
