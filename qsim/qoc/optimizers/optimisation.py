"""The search that a deck names: one optimiser, or two in succession, and the way out of a critical point."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.optimizers.gauss_newton import GaussNewton
from qsim.qoc.optimizers.krotov import GridSteps, Krotov
from qsim.qoc.optimizers.lbfgs import Lbfgs
from qsim.qoc.optimizers.search import CriticalPoint, Finished, Search
from qsim.qoc.optimizers.travolta import Travolta, candidates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, Resumable, State
    from qsim.qoc.problem import Problem

# a search that converges below this probability has not left the critical point at zero field.
STALLED = 1e-6
# Of a bound: the soft clip keeps fields 8 % below it.
AT_BOUND = 0.85


class Optimisation:
    """The search that the deck names; the field is left in ``search.field``.

    A search that comes to a critical point goes on from a field without the guess's symmetries, once.

    Parameters
    ----------
    problem : Problem
    search : Search
    saved : mapping, optional
        State to continue from; one of another optimiser is not used.

    Attributes
    ----------
    escaped : bool
        Whether a critical point was left.
    """

    def __init__(self, problem: Problem, search: Search, saved: Mapping[str, Any] | None = None) -> None:
        self.problem = problem
        self.search = search
        self.saved = saved or {}
        self.escaped = bool(self.saved.get("escaped", False))
        self.current: Resumable = _Given(problem, search)

    def state(self) -> State:
        """Return the state of the optimiser at work."""
        return {**self.current.state(), "escaped": self.escaped}

    def advance(self, report: Report) -> None:
        """Search until a maximum, the threshold or the limit is reached.

        Raises
        ------
        CriticalPoint
            If the gradient vanishes exactly at both first fields.
        """
        with suppress(Finished):
            if self._stands_still(report):
                self.escaped, self.saved = True, {}
                self._search(report)

    def why(self) -> str:
        """Return the reason why the search ended, with a remedy where it has not left its first field."""
        if not self._stalled:
            return self.search.reason
        if self._at_the_bounds:
            return f"{self.search.reason}, with the field at control.bounds: the maximum that they allow"
        return (
            f"{self.search.reason} at a critical point, where the gradient vanishes; start from a stronger field, such as "
            "control.guess: ladder, or lower objective.alpha"
        )

    def _stands_still(self, report: Report) -> bool:
        """Search, and return True if that has come to a critical point for the first time."""
        if self.escaped or self.problem.optimizer.type == "none":
            self._search(report)
            return False
        try:
            self._search(report)
        except CriticalPoint:
            if not np.any(self.problem.escape):
                raise
            return True
        return self._stalled and not self._at_the_bounds

    @property
    def _stalled(self) -> bool:
        """True if a search has converged without having moved the state."""
        return self.search.probability < STALLED and self.search.reason.startswith(("converged", "stopped"))

    @property
    def _at_the_bounds(self) -> bool:
        """True if the field reaches its bounds somewhere, as near as their soft clip lets it."""
        field, control = self.search.field, self.problem.control
        if field is None:
            return False
        return bool(np.any(field >= AT_BOUND * control.high) or np.any(field <= AT_BOUND * control.low))

    def _search(self, report: Report) -> None:
        """Run one optimiser, or two in succession."""
        options, search = self.problem.optimizer, self.search
        if options.type == "none":
            self.current.advance(report)
        elif options.type == "travolta":
            scale = 1.0 if options.gradient_tau is None else options.gradient_tau / search.objective.tau
            batch = candidates(search.objective.propagator.device.is_cuda)
            first, saved = self._first_field(), self._saved("travolta")
            self._run(Travolta(search, first, options, saved, scale=scale, batch=batch), report)
        elif options.type == "krotov":
            first = search.control.field(self._parameters())
            steps = GridSteps(search.objective)
            self._run(Krotov(search, steps, first, options.step, self._saved("krotov")), report)
        elif options.type == "lbfgs" and self._saved("gauss_newton") is None:
            finish = options.finish_at if options.finish == "gauss_newton" else None
            lbfgs = Lbfgs(search, self._parameters(), options.memory, finish, self._saved("lbfgs"))
            self._run(lbfgs, report)
            if options.finish == "gauss_newton":
                self._run(GaussNewton(search, lbfgs.last), report)
        else:
            saved = self._saved("gauss_newton")
            self._run(GaussNewton(search, self._parameters(), saved), report)

    def _run(self, optimiser: Resumable, report: Report) -> None:
        self.current = optimiser
        optimiser.advance(report)

    def _first_field(self) -> NDArray[np.float64]:
        return self.problem.escape if self.escaped else self.problem.guess

    def _parameters(self) -> NDArray[np.float64]:
        return self.problem.control.parameters(self._first_field())

    def _saved(self, kind: str) -> Mapping[str, Any] | None:
        return self.saved if self.saved.get("kind") == kind else None


class _Given:
    """No search at all: the first field as it is, constraints applied."""

    def __init__(self, problem: Problem, search: Search) -> None:
        self.problem = problem
        self.search = search

    def state(self) -> State:
        return self.search.state()

    def advance(self, report: Report) -> None:
        search, field = self.search, self.problem.first_field()
        p, j = search.objective.values(field)
        search.field, search.best = field, float(j[0])
        with suppress(Finished):
            search.record(report, field, float(p[0]), float(j[0]), 0.0, savable=False)
        # the limit of one sweep is no reason
        search.reason = "no optimisation"
