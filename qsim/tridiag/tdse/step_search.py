"""The time step of a run with ``time.accuracy``: trial runs tell the error of norms and populations.

A number Q depends on the step as ``Q + e h^p``. Trials with steps 4 h, 2 h and h give p, which is that of the steps at most and
less where an absorber or a dense core spoils it; the error of the step h, ``|Q(2h) - Q(h)| / (2^p - 1)`` of the worst number;
and the step at which that is a fraction of what the deck allows. Where it is much shorter than h, or longer than 2 h, it is
tried itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress, drive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
__all__ = ["SAMPLES", "STAGES", "SUZUKI", "Search", "longest_step", "propagated", "settled_steps"]

# 4 q^3 + (1 - 4 q)^3 = 0: the third-order errors of the five steps cancel
SUZUKI = 1.0 / (4.0 - 4.0 ** (1.0 / 3.0))
# lengths in steps, by order; the middle stage goes back in time by 0.66 dt
STAGES = {2: (1.0,), 4: (SUZUKI, SUZUKI, 1.0 - 4.0 * SUZUKI, SUZUKI, SUZUKI)}

ROUNDING = 1e-13
# of the accuracy
MARGIN = 0.4
# of a step over the step of the trials, at most
GROWTH = 2.0
# of trials over those before
LEAP = 6.0
# of the step of the trials: a shorter one is tried before it is taken
TRUSTED = 0.5
# the same, where the trials show the order of the steps
ASYMPTOTIC = 0.1
SAME_ORDER = 0.15
ROUNDS = 6
# a.u.
SHORTEST = 1e-4
# of the trace of a trial
SAMPLES = 400
# of a carrier, by itself
STEPS_PER_CYCLE = 20.0


def longest_step(fastest: float) -> float:
    """Return the longest step that a run takes by itself, a.u.: 20 per cycle of the highest frequency, 1 without one."""
    return min(1.0, 2.0 * math.pi / (STEPS_PER_CYCLE * fastest)) if fastest else 1.0


@dataclass(frozen=True)
class Search:
    """What the search needs of a run.

    Attributes
    ----------
    accuracy : float
        Error allowed.
    order : int
        Of the steps.
    dt, t_final, longest : float
        Step of the first trial, duration, and longest step, a.u.
    trial
        Numbers of a run with so many steps.
    """

    accuracy: float
    order: int
    dt: float
    t_final: float
    longest: float
    trial: Callable[[int, Report], Mapping[str, float]]


def settled_steps(search: Search, monitor: Monitor) -> int:
    """Return the number of steps that an accuracy needs; a continued run keeps that of its checkpoint.

    Parameters
    ----------
    search
        The run.
    monitor
        Told of progress and of the step that is found.

    Raises
    ------
    NumericsError
        If no step reaches the accuracy.
    """
    # a run that is continued must keep its steps, so that it goes on bit for bit
    if (saved := propagated(monitor)) is not None:
        return int(saved["steps"])
    with monitor.stage("find the step"):
        trials = _Trials(search)
        drive(trials, monitor, total=None, unit="trials", what="find the step")
    steps = math.ceil(search.t_final / trials.dt)
    monitor.note(
        f"time.accuracy: {search.accuracy:g} takes {steps} steps of {search.t_final / steps:.6g} a.u."
    )
    return steps


def propagated(monitor: Monitor) -> Mapping[str, Any] | None:
    """Return the propagation that a run continues; None at its beginning, or if it was stopped in the trials."""
    saved: Any = monitor.restored
    return None if saved is None or saved.get("steps") == 0 else saved


@dataclass
class _Trials:
    """Runs with steps 4 h, 2 h and h, and the step that they lead to."""

    search: Search
    dt: float = 0.0

    def advance(self, report: Report) -> None:
        """Find the step.

        Raises
        ------
        NumericsError
            If no step reaches the accuracy.
        """
        search = self.search
        order, longest = search.order, search.longest
        h, done = search.dt, 0
        for _ in range(ROUNDS):
            # h, 2 h and 4 h: two differences give the error and its power
            tried = [self._numbers(factor * h, report) for factor in (1.0, 2.0, 4.0)]
            done += len(tried)
            report(Progress(done))
            error, power = _worst(tried, order)
            # the step that would give the accuracy, with a margin, if the power holds
            ratio = (MARGIN * search.accuracy / error) ** (1.0 / power) if error > 0.0 else GROWTH
            # far from the expected power an extrapolation to longer steps is not believed
            trusted = ASYMPTOTIC if abs(power - order) < SAME_ORDER else TRUSTED
            # longer than what was found before, and too long
            if ratio < trusted and self.dt:
                return
            if ratio >= trusted:
                self.dt = min(h * min(ratio, GROWTH), longest)
                if ratio <= GROWTH or self.dt == longest:
                    return
            # try again near the step that was predicted
            h = min(max(h * min(ratio, LEAP), SHORTEST), longest)
        if self.dt:
            return
        raise NumericsError(
            f"no step reaches time.accuracy: {search.accuracy:g}; steps of {h:.2g} a.u. leave {error:.2g}",
            hint="ask for less, or for time.order: 4 in length gauge",
        )

    def _numbers(self, dt: float, report: Report) -> Mapping[str, float]:
        steps = max(2, round(self.search.t_final / dt))
        return self.search.trial(steps, lambda progress: report(Progress()))

    def state(self) -> State:
        """Return that nothing is kept of trials: a run that is stopped in them begins with them again."""
        return {"steps": 0}


def _worst(tried: Sequence[Mapping[str, float]], order: int) -> tuple[float, float]:
    """Return the largest error of a norm or population in the first of three runs with steps h, 2 h, 4 h, and its power of h."""
    worst, power = 0.0, float(order)
    for name in tried[0]:
        if not name.startswith(("norm", "pop", "bound")):
            continue
        # only norms and populations count: their errors are absolute, and time.accuracy is about them
        one, two, four = (numbers[name] for numbers in tried)
        near, far = abs(two - one), abs(four - two)
        # power of h from three steps, between 1 and the order; rounding is not taken for a power
        p = (
            min(max(math.log2(far / near), 1.0), float(order))
            if near > ROUNDING and far > ROUNDING
            else float(order)
        )
        if near / (2.0**p - 1.0) > worst:
            worst, power = near / (2.0**p - 1.0), p
    return worst, power
