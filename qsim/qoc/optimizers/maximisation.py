"""The search for controls: any optimiser, several starts, new random functions where it rests, a way out of critical points."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.optimizers.gauss_newton import GaussNewton
from qsim.qoc.optimizers.krotov import Krotov
from qsim.qoc.optimizers.lbfgs import Lbfgs
from qsim.qoc.optimizers.search import CriticalPoint, Finished
from qsim.qoc.optimizers.travolta import Travolta, candidates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, Resumable, State
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.optimizers.search import Search
    from qsim.qoc.problem import Problem

# Of a bound: the soft clip keeps fields 8 % below it.
AT_BOUND = 0.85


class Maximisation:
    """The optimiser that the deck names, from one start after another; the best controls are left in ``search.field``.

    A start ends at a maximum or at its limit of sweeps. Controls with random functions then draw new ones, added to what they
    have come to; after that the next start begins, unless the threshold is reached.

    Parameters
    ----------
    problem : Problem
    search : Search
    saved : mapping, optional
        State to continue from.

    Attributes
    ----------
    escaped : bool
        Whether the search has come to a critical point, which values beside it have taken the place of.
    """

    def __init__(self, problem: Problem, search: Search, saved: Mapping[str, Any] | None) -> None:
        self.problem, self.search = problem, search
        self.saved = saved
        self.attempt = 0
        # parameters at which new functions were drawn
        self.draws: list[NDArray[np.float64]] = []
        self.current: Resumable | None = None
        # J of the present start before its last draw
        self.before = -np.inf
        self.escaped = False
        self.ended = False
        if saved is not None:
            self.attempt = int(saved["attempt"])
            self.draws = [np.asarray(u) for u in saved["draws"]]
            self.before = float(saved["before_draw"])
            self.escaped = bool(saved.get("escaped", False))
            search.max_sweeps = int(saved["limit"])

    def state(self) -> State:
        """Return the state of the optimiser at work, and which start it is in."""
        # The optimiser's own keys come first: none of them may hide the attempt or the draws.
        search = self.search
        inner = search.state() if self.ended or self.current is None else self.current.state()
        own = {
            "attempt": self.attempt,
            "draws": self.draws,
            "before_draw": self.before,
            "escaped": self.escaped,
            "ended": self.ended,
            "reached": search.reached,
            "reason": search.reason,
        }
        return {**inner, **own, "limit": search.max_sweeps}

    def advance(self, report: Report) -> None:
        """Search until the threshold is reached, or no start is left; nothing remains to be done from a state at the end.

        Raises
        ------
        CriticalPoint
            If the gradient vanishes at the first values of every start, and at the seed.
        """
        search, saved = self.search, self.saved
        if saved is not None and saved.get("ended", False):
            search.restore(saved)
            search.reached, search.reason = bool(saved["reached"]), str(saved["reason"])
        else:
            self._search(report)
        self.ended = True

    def _search(self, report: Report) -> None:
        search = self.search
        # Given controls are propagated once, so restarts and draws do not apply.
        if self.problem.optimizer.type == "none":
            self._given(report)
            return
        while True:
            refused = None
            try:
                self._round(report)
            except Finished:
                pass
            except CriticalPoint as problem:
                refused = problem
            # Zero is where most searches begin, and often a critical point: values beside it go on, once.
            if not self.escaped and (refused is not None or (self._stalled and not self._at_the_bounds)):
                self.escaped = True
                continue
            # The threshold ends everything: further starts could only find another way to it.
            if search.reached:
                return
            # New functions come before a new start, since they keep what has been found (dressed CRAB).
            if self._draws_again():
                continue
            # The last draw may have found less than an earlier one, so the larger J counts.
            search.extra.setdefault("starts/value", []).append(max(self.before, search.round_best))
            if self.attempt >= self.problem.restarts:
                # A critical point is an error only if no start has left any controls.
                if refused is not None and search.field is None:
                    raise refused
                return
            self._next_start()

    def why(self) -> str:
        """Return the reason why the search ended, with a remedy where it has not left its first values."""
        reason = self.search.reason
        if not self._stalled:
            return reason
        if self._at_the_bounds:
            return f"{reason}, with the field at control.bounds: the maximum that they allow"
        return (
            f"{reason} at a critical point, where the gradient vanishes; start from a stronger field, such as "
            "control.guess: ladder, or lower objective.alpha"
        )

    @property
    def _stalled(self) -> bool:
        """True if a search has converged without having moved the state."""
        search = self.search
        return search.probability < self.problem.stalled and search.reason.startswith(
            ("converged", "stopped")
        )

    @property
    def _at_the_bounds(self) -> bool:
        """True if a control reaches its bounds somewhere, as near as their soft clip lets it."""
        field, control = self.search.field, self.search.control
        if field is None:
            return False
        return bool(np.any(field >= AT_BOUND * control.high) or np.any(field <= AT_BOUND * control.low))

    def controls_of(self, tag: Mapping[str, Any]) -> Controls:
        """Return the controls of a start, with the functions that it has drawn."""
        attempt = int(tag.get("attempt", 0))
        # Random functions follow from the seed, the attempt and the number of the draw.
        # Replaying the draws in order therefore makes the same controls again.
        controls = self.problem.start(attempt)[0]
        for number, u in enumerate(tag.get("draws", ()), 1):
            controls, _ = controls.redrawn(np.asarray(u), number)
        return controls

    # ---------------------------------------------------------------------------------------- rounds

    def _given(self, report: Report) -> None:
        """Propagate the first values as they are."""
        search, field = self.search, self.problem.first
        search.at = self.problem.controls.parameters(field)
        p, j = search.objective.values(field)
        with suppress(Finished):
            search.record(report, field, float(p[0]), float(j[0]), 0.0, savable=False)
        # the limit of one sweep is no reason
        search.reason = "no optimisation"

    def _round(self, report: Report) -> None:
        """Run the optimiser from the present start to its end."""
        search = self.search
        u = self._first()
        search.tag = {"attempt": self.attempt, "draws": list(self.draws)}
        # A checkpoint belongs to the first round after it alone; later rounds begin afresh.
        saved, self.saved = self.saved, None
        self._run(self._optimiser(u, saved), report)
        if (
            isinstance(self.current, Lbfgs)
            and getattr(self.problem.optimizer, "finish", "") == "gauss_newton"
        ):
            self._run(self._gauss_newton(self.current.last, None), report)

    def _run(self, optimiser: Resumable, report: Report) -> None:
        self.current = optimiser
        optimiser.advance(report)

    def _first(self) -> NDArray[np.float64]:
        """Set the controls of the present start, and return its first parameters."""
        controls, guess = self.problem.start(self.attempt)
        if self.escaped:
            guess = self.problem.unstuck(self.attempt, guess)
        u = controls.parameters(guess)
        # Each draw begins at what the one before it had found, so u is that of the last one.
        for number, drawn in enumerate(self.draws, 1):
            controls, u = controls.redrawn(drawn, number)
        self.search.control = controls
        return u

    def _gauss_newton(self, u: NDArray[np.float64], saved: Mapping[str, Any] | None) -> Resumable:
        """Return Gauss-Newton at some parameters."""
        return GaussNewton(self.search, u, saved)

    def _optimiser(self, u: NDArray[np.float64], saved: Mapping[str, Any] | None) -> Resumable:
        """Return the optimiser of the deck at some parameters."""
        options, search = self.problem.optimizer, self.search
        if options.type == "krotov":
            return Krotov(search, search.control.field(u), options.step, saved)
        if options.type == "gauss_newton" or (saved is not None and saved.get("kind") == "gauss_newton"):
            return self._gauss_newton(u, saved)
        if options.type == "travolta":
            batch = candidates(search.objective.batched and search.objective.propagator.device.is_cuda)
            return Travolta(search, u, options, saved, scale=self.problem.gradient_scale, batch=batch)
        assert options.type == "lbfgs"
        stop_at = options.finish_at if options.finish == "gauss_newton" else None
        return Lbfgs(search, u, options.memory, stop_at, saved)

    def _draws_again(self) -> bool:
        """Draw new functions where the search has come to rest; return False if there are none, or no sweeps left."""
        search = self.search
        # A round that recorded nothing has no parameters to add new functions to.
        if len(self.draws) >= self.problem.redraws or search.spent or search.round_at is None:
            return False
        self.draws.append(search.round_at)
        self.before = max(self.before, search.round_best)
        search.round_best, search.round_at = -np.inf, None
        return True

    def _next_start(self) -> None:
        self.attempt += 1
        self.draws, self.before = [], -np.inf
        search = self.search
        search.round_best, search.round_at = -np.inf, None
        # The count of sweeps goes on over all starts, and each start has the full number for itself.
        search.max_sweeps = search.objective.sweeps + self.problem.max_sweeps
