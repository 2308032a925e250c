"""Monitor of a run: progress, wall times, checks for finite numbers, checkpoints, stops.

A method's ``run`` does no input or output; it calls :meth:`Monitor.step` after each step.  On a terminal the
monitor shows a live bar, elsewhere one line per interval, always on stderr.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

from qsim.core.device.compilers.compilation import Compilation
from qsim.core.device.compilers.sound import damage_told
from qsim.core.device.parallel import SerialComm, by_all, first
from qsim.core.device.pool import listening
from qsim.core.errors import FileError, Interrupted, InvalidInput, NumericsError, QsimError, Stopped
from qsim.core.run.task import Task
from qsim.core.run.timing.clock import RunClock
from qsim.core.text import long_time, printable, reason

if TYPE_CHECKING:
    from types import TracebackType

    from qsim.core.device.compilers.ahead import Ahead
    from qsim.core.device.parallel import Comm
    from qsim.core.run.signals import Signals
    from qsim.core.run.timing.sections import Sections

__all__ = ["Monitor", "RunClock"]

State = Callable[[], Mapping[str, Any]]
T = TypeVar("T")

# Seconds that a stop request waits for a step that can be saved, in a task that never could.
# SLURM leaves 30 s between SIGTERM and the end, if a site has not changed that.
GRACE = 10.0
# The same once the wall time is over, which asks a task that never could save as much earlier.
LATE = 1.5

# What to do at a report; of several processes, the highest wish counts.
NOTHING, SAVE, STOP, GIVE_UP, AT_ONCE = range(5)

# Seconds of compilation that are worth a line.
# Less is not noticed.
TOLD = 1.0

# What may differ between texts that are told together.
NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")

# Exceptions that the state of another problem causes.
UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError)

_logger = logging.getLogger("qsim")
_logger.addHandler(logging.NullHandler())  # a program that uses qsim decides what becomes of its log


class Watch(Protocol):
    """Timer of the first steps of a run (:class:`qsim.core.run.timing.measure.Stopwatch`)."""

    start: float

    def look(self, monitor: Monitor, task: Task) -> None:
        """Look at the time of a task; it may end the run."""


class Monitor:
    """Observer of one run.

    Parameters
    ----------
    checkpoint
        File for checkpoints; None for a run that cannot be resumed.
    meta
        What is stored with each checkpoint besides the elapsed time.
    interval
        Seconds between checkpoints.
    restored
        State of the checkpoint to continue from.
    signals
        Where stop requests come from.
    quiet
        Say nothing on stderr; the log is kept all the same.
    stream
        Where to write; stderr by default.
    clock
        Time spent and allowed; the run stops with a checkpoint before that is over. Without a limit by default.

    Attributes
    ----------
    comm : Comm
        Processes of the run; this one alone by default. All of them report at the same points; whether to save or to stop is
        decided together, and the first one writes.
    timing : dict of float
        Seconds of each stage, summed over repeated stages.
    warnings : list of str
        Warnings for the summary.
    log : deque of str
        Last lines of everything said.
    restored : mapping or None
        State to continue from.
    polled : bool
        True if the run has reported anything yet.
    sections : Sections or None
        Work of the sections of the run, if there are several; set by a method before the first of them.
    stopwatch : Watch or None
        Ends the run when its first steps have been timed.
    compilers : Ahead or None
        Processes that compile kernels beside the run.
    """

    def __init__(
        self,
        *,
        checkpoint: str | Path | None = None,
        meta: Mapping[str, Any] | None = None,
        interval: float = 600.0,
        restored: Mapping[str, Any] | None = None,
        signals: Signals | None = None,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: RunClock | None = None,
    ) -> None:
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.meta = dict(meta or {})
        self.interval = interval
        self.restored = restored
        self.signals = signals
        self.quiet = quiet
        self.timing: dict[str, float] = {}
        self.warnings: list[str] = []
        self._held: list[tuple[str, str, int]] | None = None
        self.log: deque[str] = deque(maxlen=1000)
        self._stream = stream
        self.comm: Comm = SerialComm()
        self._apart = False
        # Checkpoints: when the last one was written, how long it took, and the longest time between two
        # reports; the last two say how early a run must stop to be in time.
        self._clock = clock or RunClock()
        self._saved_at = self.now()
        self._save_seconds = 0.0
        self._polled_at = self.now()
        self._longest_gap = 0.0
        self.polled = False
        # Stops: since when one is wanted, and whether this task has ever been able to save.
        self._stop_since: float | None = None
        self._savable = False
        self._settled: State | None = None
        self._task: Task | None = None
        self.sections: Sections | None = None
        self.stopwatch: Watch | None = None
        # Compilation is subtracted from the speed of tasks: seconds in all, and seconds that no message has
        # named yet.
        self._compiled = 0.0
        self._said_compiling = False
        self._untold = 0.0
        self._in_compile_stage = False
        self.compilers: Ahead | None = None
        self._listening = ExitStack()
        self._compilation = Compilation(self._compilation_begun, self._compilation_ended, self._clock.now)

    @classmethod
    def silent(cls) -> Monitor:
        """Return a monitor that says nothing, saves nothing and never stops: for library use and tests."""
        return cls(quiet=True)

    # ------------------------------------------------------------------------------------------- time

    @property
    def elapsed(self) -> float:
        """Seconds spent on the run so far, earlier processes included."""
        return self._clock.elapsed

    def now(self) -> float:
        """Return the time of the clock, s."""
        return self._clock.now()

    def working(self) -> float:
        """Return the time without that of the compiler: the speed of a task is measured in it."""
        return self.now() - self._compiled - self._compilation.under_way

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the wall time of the block to ``timing[name]``, also if it fails.

        What kernels take to compile within goes to ``timing["compile"]`` instead.
        """
        self._compilation.listen()
        # A stage of this name is compilation that the compiler itself does not report, such as that of a
        # library.
        if name == "compile" and not self._in_compile_stage:
            self._in_compile_stage = True
            self._compilation.begin()
            try:
                yield
            finally:
                self._compilation.end()
                self._in_compile_stage = False
            return
        start = self.working()
        try:
            yield
        finally:
            self.timing[name] = self.timing.get(name, 0.0) + self.working() - start

    # The monitor is told by the compiler; the bar says why nothing moves.
    def compiling(self) -> None:
        """Say, once in a run and before the wait, that kernels are being compiled."""
        if not self._said_compiling:
            self._said_compiling = True
            beside = self.compilers.working if self.compilers is not None else 0
            where = f" in {beside + 1} processes" if beside else ""
            self.note(
                f"compiling kernels{where}, once for this machine; steps and their times are told after it"
            )

    def _compilation_begun(self) -> None:
        self.compiling()
        if self.signals is not None:
            self.signals.compiling(True)
        if self._task is not None:
            done, of = self.compilers.told() if self.compilers is not None else (0, 0)
            self._task.retitle("compiling kernels" + (f", {done} of {of}" if of else ""))

    def _compilation_ended(self, seconds: float) -> None:
        if self.signals is not None:
            self.signals.compiling(False)
        self._compiled += seconds
        self._untold += seconds
        self.timing["compile"] = self.timing.get("compile", 0.0) + seconds
        if self._task is not None:
            self._task.retitle(None)

    def _tell_compilation(self) -> None:
        """Say how long kernels took to compile, once steps are done."""
        if self._untold >= TOLD and not self._compilation.under_way:
            self.note(f"compiled kernels in {self._untold:.1f} s, kept for later runs")
            self._untold = 0.0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let each of several ranks go its own way in the block: reports there show progress, but a stop waits for the end."""
        self._apart = self.comm.size > 1
        try:
            yield
        finally:
            self._apart = False

    # ---------------------------------------------------------------------------------------- progress

    def begin(
        self, total: int | None, unit: str, what: str = "", *, done: int | None = None, at_most: bool = False
    ) -> None:
        """Start a task, after the end of the one before.

        Parameters
        ----------
        total
            Number of steps; None if it is not known.
        unit
            What is counted, such as ``"sweeps"``.
        what
            Name of the task.
        done
            Steps done before, in another process; by default those of the first report of a resumed run.
        at_most
            True if the total is a limit that is rarely reached, such as ``max_sweeps``: the time left is not derived from it.
        """
        self.end()
        self._compilation.listen()
        self._savable, self._settled = False, None
        self._polled_at = self.now()
        self._task = Task(self, total, unit, what, done, at_most)

    def end(self) -> None:
        """Finish the current task, if there is one, with its last line."""
        if self._task is not None:
            self._task.close()
            self._task = None

    def settle(self, state: State) -> None:
        """Keep the state of a task that is complete: a stop in what follows it, until another task begins, saves this state."""
        self._settled = state

    def step(self, done: int, state: State | None = None, **observables: float) -> None:
        """Report that ``done`` steps are done.

        Parameters
        ----------
        done
            Steps done so far, also those before a restart.
        state
            Makes the state to save; called only when a checkpoint is due.
        **observables
            Numbers to show and to check.

        Raises
        ------
        NumericsError
            If an observable is not finite.
        Stopped
            If a stop was requested or the wall time is nearly over, and the state is saved.
        Interrupted
            If a stop was requested and this task cannot save, or a second Ctrl-C came.
        """
        self._tell_compilation()
        # A number that is not finite ends the run here, before it gets into a checkpoint.
        for name, value in observables.items():
            if not math.isfinite(value):
                unit = f" {self._task.unit}" if self._task else ""
                raise NumericsError(f"{name.replace('_', ' ')} is {value} after {done}{unit}")
        if self._task is not None:
            self._task.update(done, observables)
            if self.stopwatch is not None:
                self.stopwatch.look(self, self._task)
        self.poll(state)
        # After the poll, which may have saved: only then is it known whether a stop loses anything.
        if self._task is not None and (left := self._task.days_left()):
            self._announce(left)

    def _announce(self, seconds: float) -> None:
        """Warn, once per task, of a run that takes days."""
        if self._savable and self._clock.limit is not None:
            runs = math.ceil(seconds / self._clock.limit)
            remedy = f"that is {runs} times run.walltime, each continued with --resume"
        elif self._savable:
            remedy = "run.walltime stops it in time with a checkpoint, from which --resume continues"
        else:
            remedy = "this part of it has no checkpoint"
        name = f" of '{self._task.what}'" if self._task is not None and self._task.what else ""
        self.warn(
            f"at the present speed the rest{name} takes {long_time(seconds)}; {remedy}; --dry-run tells the sizes to reduce"
        )

    def poll(self, state: State | None = None) -> None:
        """Save and stop as :meth:`step` does, without progress."""
        # Ranks in `alone` do not report at the same points: a collective call would wait for ever.
        if self._apart:
            return
        now, state = self.now(), state or self._settled
        self.polled = True
        # The first gap begins with the task, so that a long set-up counts, too.
        self._longest_gap = max(self._longest_gap, now - self._polled_at)
        self._polled_at = now
        savable = state is not None and self.checkpoint is not None
        reason = self._stop_reason(now, savable=savable)
        # All ranks do the same: a rank that has reason to stop, or is asked to save, takes the others with it.
        wish = self.comm.allmax(self._wish(reason, now, savable=savable))
        # This task has shown that it can save: later stops wait for a report that can.
        if savable and wish < STOP:
            self._savable = True
        if wish >= STOP:
            self._stop(wish, reason, state)
        elif wish == SAVE and state is not None:
            self._save_in_passing(state, now)

    def listen(self) -> None:
        """Look for a stop within long work of kernels, where nothing new can be saved and other ranks may be elsewhere.

        The times between reports, by which a run stops before its wall time, are not those between these looks.
        """
        if self.comm.size > 1:
            return
        now, savable = self.now(), self._settled is not None and self.checkpoint is not None
        reason = self._stop_reason(now, savable=savable)
        if (wish := self._wish(reason, now, savable=savable)) >= STOP:
            self._stop(wish, reason, self._settled)

    def _stop(self, wish: int, reason: str, state: State | None) -> None:
        """End the run, with a checkpoint where that is wanted and possible."""
        if wish == AT_ONCE:
            self.end()
            raise by_all(
                Interrupted("interrupted by a second Ctrl-C", hint="the last checkpoint, if any, is kept")
            )
        # The rank that wants to stop knows why; the others say the same.
        reason = next(text for text in self.comm.allgather(reason) if text)
        if state is not None and self.checkpoint is not None:
            path = self._save(state)
            self.end()
            raise by_all(Stopped(path, f"{reason}; checkpoint written to {path}"))
        if wish == GIVE_UP:
            self.end()
            raise by_all(Interrupted(f"{reason}; this part of the run has no checkpoint"))

    def _wish(self, reason: str, now: float, *, savable: bool) -> int:
        """Return what this process would do at this report."""
        if self.signals is not None and self.signals.at_once:
            return AT_ONCE
        if not reason:
            due = savable and now - self._saved_at >= self.interval
            return SAVE if due else NOTHING
        self._stop_since = self._stop_since if self._stop_since is not None else now
        if savable:
            return STOP
        patience = LATE if self._clock.nearly_over(now, self._longest_gap) else GRACE
        waited = now - self._stop_since >= (patience if self.checkpoint else 0.0)
        return GIVE_UP if waited and not self._savable else NOTHING

    @contextmanager
    def continuing(self) -> Iterator[None]:
        """Turn what goes wrong with a restored state, before the run reports its first step, into an error of the checkpoint.

        Without a restored state nothing is changed.

        Raises
        ------
        FileError
            If the state lacks something, or does not fit the problem.
        """
        try:
            yield
        except (QsimError, InvalidInput):
            raise
        except Exception as error:
            # An array of another shape or type in the state comes to light as one of these, or as an error of
            # the compiler for a type that no kernel takes. Others are bugs and stay what they are.
            foreseen = isinstance(error, UNFIT) or type(error).__module__.startswith("numba.")
            if self.restored is None or self.polled or not foreseen:
                raise
            raise FileError(
                f"the run cannot be continued from {self.checkpoint}, whose state does not fit this deck: {reason(error)}",
                hint="continue with the deck and the qsim that wrote it, or start anew with --force instead of --resume",
            ) from error

    def _stop_reason(self, now: float, *, savable: bool) -> str:
        if self.signals is not None and self.signals.stop:
            return f"stopped by {self.signals.stop}"
        # another step and the checkpoint must still fit
        needed = 1.5 * self._longest_gap + 2.0 * self._save_seconds + 0.5
        needed += 0.0 if savable or self._savable or self.checkpoint is None else GRACE
        return "stopped before the wall time limit" if self._clock.nearly_over(now, needed) else ""

    def _save_in_passing(self, state: State, now: float) -> None:
        """Write a checkpoint; a full disk must not end a run that needs no checkpoint to go on."""
        try:
            self.note(f"checkpoint written to {self._save(state)}")
        except FileError as error:
            self._saved_at = now  # try again after the interval
            self.warn(f"{error}; the run continues")

    def _save(self, state: State) -> Path:
        """Write a checkpoint and remember how long that took."""
        from qsim.core.run import checkpoint

        if self.checkpoint is None:
            raise ValueError("this monitor has no checkpoint file")
        start, file = self.now(), self.checkpoint
        content = state()  # on all ranks: it may gather what they hold
        path = first(
            self.comm, lambda: checkpoint.save(file, content, {**self.meta, "elapsed": self.elapsed})
        )
        self._saved_at = self._polled_at = self.now()
        self._save_seconds = max(self._save_seconds, self._saved_at - start)
        return path

    # --------------------------------------------------------------------------------------- judgements

    def judged(self, what: str, judge: Callable[[], T], missing: T) -> T:
        """Return what a judgement finds about computed results, or `missing` with a warning if it fails.

        Error estimates, comparisons and diagnostics judge results that have cost work: a judgement that fails may cost no
        more than itself.  The main computation is never wrapped in it.

        Parameters
        ----------
        what
            What is judged, as the subject of the warning: ``"the error of the energy"``.
        judge
            Finds it. If it communicates with other processes, it must fail on all of them.
        missing
            What stands for it if it fails.

        Raises
        ------
        Stopped, Interrupted
            If a stop was requested while it was judged.
        """
        try:
            return judge()
        except (Stopped, Interrupted):
            raise
        except Exception as error:
            self.not_found(what, error)
            return missing

    def not_found(self, what: str, error: Exception) -> None:
        """Warn of something about the results that an exception keeps from being known."""
        _logger.debug("%s", what, exc_info=error)
        self.warn(f"{what} could not be found: {reason(error)}; everything else is complete")

    # ----------------------------------------------------------------------------------------- talking

    def note(self, text: str) -> None:
        """Report information."""
        if not self._hold(text, logging.INFO):
            self._say(text, logging.INFO)

    def warn(self, text: str) -> None:
        """Report a warning; it is kept for the summary, once."""
        if text not in self.warnings and not self._hold(text, logging.WARNING):
            self.warnings.append(text)
            self._say(f"warning: {text}", logging.WARNING)

    @contextmanager
    def together(self, kind: str) -> Iterator[None]:
        """Hold back what is told of members ``kind (...): ...``; at the end, texts that differ in numbers alone are one."""
        self._held, self._members = [], re.compile(rf"({kind} \([^)]*\)): (.*)", re.DOTALL)
        try:
            yield
        finally:
            held, self._held = self._held, None
            groups: dict[tuple[str, int], list[tuple[str, str]]] = {}
            for member, text, level in held:
                groups.setdefault((NUMBER.sub("#", text), level), []).append((member, text))
            for (_, level), same in groups.items():
                more = len({member for member, _ in same}) - 1
                others = f" and {more} more (numbers of the first)" if more else ""
                told = f"{same[0][0]}{others}: {same[0][1]}"
                (self.warn if level == logging.WARNING else self.note)(told)

    def _hold(self, text: str, level: int) -> bool:
        """Hold back a text about a member of a group; False if there is none, or the text is about something else."""
        found = self._members.fullmatch(text) if self._held is not None else None
        if found and self._held is not None:
            self._held.append((found[1], found[2], level))
        return found is not None

    def _say(self, text: str, level: int) -> None:
        text = printable(text)
        self.log.append(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")
        _logger.log(level, "%s", text)
        if self.quiet:
            return
        # A live bar is redrawn below what is printed through its console.
        with suppress(OSError, ValueError):  # a run does not end because nobody listens
            if self._task is not None and self._task.bar is not None:
                self._task.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=self.stream, flush=True)

    @property
    def stream(self) -> TextIO | None:
        """Stream that this monitor writes to; looked up late, since test runners and shells exchange stderr.

        None in a program that has no standard error.
        """
        return self._stream if self._stream is not None else sys.stderr

    @property
    def on_terminal(self) -> bool:
        """True if a live bar can be shown."""
        try:
            terminal = not self.quiet and self.stream is not None and self.stream.isatty()
        except (OSError, ValueError):
            return False
        return terminal and os.environ.get("TERM") not in ("dumb", "unknown")

    def __enter__(self) -> Monitor:
        self._compilation.__enter__()
        self._listening.enter_context(listening(self.listen))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._tell_compilation()
        for notice in damage_told():
            self.note(notice)
        self._listening.close()
        self._compilation.__exit__()
