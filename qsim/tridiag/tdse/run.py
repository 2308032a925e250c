"""One motion: find the steps if they are left open, carry the state from output time to output time, analyse what was recorded.

The run is a fixed sequence of calls that depends on the deck alone, not on when it was interrupted: a resumed run repeats
exactly the calls that the uninterrupted one would have made.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import drive
from qsim.tridiag.tdse import harmonics, judge, step_search
from qsim.tridiag.tdse.photoelectrons import photoelectrons

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.tdse.motion import Motion, MotionResult, Remarks

__all__ = ["analyse", "finished", "run_motion"]

# of a logarithm of the norm
ROUNDING = 1e-12


def run_motion(problem: Motion, monitor: Monitor) -> MotionResult:
    """Find the steps if they are left open, propagate, record, analyse."""
    geometry, comm = problem.geometry, monitor.comm
    if (allowed := problem.accuracy) is not None:

        def trial(steps: int, report: Report) -> dict[str, float]:
            return geometry.trial(problem.with_steps(steps), comm, report)

        longest = step_search.longest_step(problem.pulse.fastest)
        search = step_search.Search(allowed, problem.step_order, problem.dt, problem.t_final, longest, trial)
        problem = problem.with_steps(step_search.settled_steps(search, monitor))
    evolution = geometry.evolution(problem, step_search.propagated(monitor), comm)
    with monitor.stage("propagate"):
        drive(evolution, monitor, total=problem.steps, unit="steps", what="propagate", done=evolution.start)
    with monitor.stage("analyse"):
        result: MotionResult = evolution.result()
        work = geometry.work(result)
        for *_, text in finished(result, evolution.state, monitor, comm, work):
            monitor.warn(text)
    return result


def finished(
    result: MotionResult,
    state: Callable[[], State],
    monitor: Monitor,
    comm: Comm,
    work: float,
    shared: dict[int, Any] | None = None,
) -> Remarks:
    """Add what the end of a run tells, its spectra and its errors; return what a user must know.

    What fails of that is told, and costs nothing of the rest.

    Parameters
    ----------
    result
        The propagation.
    state
        What a stop request saves: the propagation at its end.
    monitor
        Told of progress and of what fails.
    comm
        Processes that share the companions.
    work
        Of all runs that are to be repeated for their errors.
    shared : dict, optional
        What the runs of a scan share: spectra then have no errors.
    """
    problem, geometry, judged = result.problem, result.problem.geometry, monitor.judged
    analyse(result, monitor)
    if problem.observed.resonance is not None:
        judged("the resonance", lambda: geometry.resonance(result, monitor), None)
    if problem.spectra:
        states = {} if shared is None else shared
        judged("the photoelectron spectra", lambda: photoelectrons(result, state, monitor, states), None)
    none: Remarks = []
    remarks = judged("warnings about the run", lambda: list(geometry.warnings(result)), none)

    def errors() -> Remarks:
        companions = geometry.companions(result, state, comm, work)
        # of spectra a scan keeps no errors; an attoclock angle is read from one
        companions.with_spectra = shared is None or "attoclock_angle" in result.numbers
        return judge.errors(companions, monitor)

    if judge.claimed(problem, work, monitor, quiet=shared is not None):
        remarks = remarks + judged("the errors of the numbers", errors, none)
    return remarks


def analyse(result: MotionResult, monitor: Monitor | None = None) -> None:
    """Add what the end of the run tells: energies, bound and free population, decay rate, harmonics.

    Parameters
    ----------
    result
        The propagation.
    monitor
        Told of what fails, which costs nothing of the rest; without it an exception is raised.
    """
    observed = result.problem.observed
    parts: dict[str, Callable[[Any], None]] = {
        **result.problem.geometry.parts(result),
        "the decay rate": decay_rate,
    }
    if observed.hhg is not None:
        parts["the harmonic spectrum"] = harmonics.spectrum
    if observed.gabor is not None:
        parts["the time-frequency map"] = harmonics.time_frequency_map
    for what, part in parts.items():
        if monitor is None:
            part(result)
        else:
            monitor.judged(what, partial(part, result), None)


def decay_rate(result: MotionResult) -> None:
    """Find the decay rate of the norm in a static field, ``-d ln(norm) / dt`` over the last half of the time after the ramps.

    Its error is the difference of the rates of the two halves of that time.
    """
    problem, pulses = result.problem, result.problem.pulse.pulses
    blocks = [pulse.block for pulse in pulses]
    if not blocks or any(not pulse.block.constant or math.isfinite(pulse.length) for pulse in pulses):
        return
    # the norm decays at a steady rate only after the ramp is over, and after the transient that it leaves: half of the time
    begin = max(block.delay + kink for block in blocks for kink in block.kinks())
    time, norm = result.traced("time"), result.traced("norm")
    late = time >= begin + 0.5 * (problem.t_final - begin)
    if np.count_nonzero(late) < 8 or float(norm[late].min()) <= 0.0 or problem.absorber.type == "none":
        return
    t, log = time[late], np.log(norm[late])
    # a line through the logarithm of the norm; two halves of that time tell how straight it is
    middle = t.size // 2
    parts = [
        -float(np.polyfit(t[part], log[part], 1)[0])
        for part in (slice(None), slice(middle), slice(middle, None))
    ]
    result.numbers["rate"] = parts[0]
    result.errors["rate"] = abs(parts[2] - parts[1]) + ROUNDING / float(t[-1] - t[0])
