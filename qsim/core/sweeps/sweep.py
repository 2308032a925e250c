"""Sweeps: one deck at many values of some keys, as a folder of numbered decks with their results.

The same command again runs what is missing, failed or stopped, and a batch system can finish a folder that was begun here.
Several processes may work on one folder: a deck that another one runs is waited for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from qsim.core.device.workers import Crew
from qsim.core.errors import FileError, Interrupted, QsimError, Stopped
from qsim.core.results.atomic import write_text
from qsim.core.run.files.lock import BusyError, OutputLock, held, remove_dead
from qsim.core.run.pipeline import Options, execute
from qsim.core.sweeps.folder import Point, Sweep

__all__ = ["Done", "run", "run_here"]

# Seconds between two looks at decks that another process runs, and after which one of them is tried, whatever is seen: where the
# system does not tell whether a process lives, its lock does.
LOOK, TRY = 0.3, 5.0


@dataclass(frozen=True)
class _Task:
    method: str
    point: Point
    device: str | None
    figures: bool
    command: str


@dataclass(frozen=True)
class Done:
    """Outcome of one deck.

    Attributes
    ----------
    code
        Exit code, as `qsim METHOD` would have; 0 for a complete run.
    summary
        Of a complete run.
    message, hint
        Of another.
    seconds
        Wall time of this process.
    busy
        Another process runs this deck; it is waited for.
    """

    code: int
    summary: Mapping[str, Any] | None = None
    message: str = ""
    hint: str = ""
    seconds: float = 0.0
    busy: bool = False


def run(
    sweep: Sweep,
    *,
    jobs: int = 1,
    device: str | None = None,
    figures: bool = False,
    command: str = "",
    stop: Callable[[], str | None] = lambda: None,
) -> Iterator[tuple[Point, Done]]:
    """Run the decks that are missing; yield each with what became of it, in the order in which they end.

    Parameters
    ----------
    sweep
        From :func:`prepare`.
    jobs
        Number of processes.
    device, figures, command
        As for `Options`.
    stop
        As for :class:`~qsim.core.device.workers.Crew`.
    """
    tasks = [_Task(sweep.method, point, device, figures, command) for point in sweep.missing]
    yield from _shared(sweep, tasks, Crew(_run_one, _lost, jobs, stop).work, stop)


def run_here(
    sweep: Sweep, *, device: str | None = None, stop: Callable[[], str | None] = lambda: None
) -> Iterator[tuple[Point, Done]]:
    """Run the decks that are missing one after another in this process; yield each with what became of it."""
    tasks = [
        _Task(sweep.method, point, device, figures=False, command="qsim.sweep") for point in sweep.missing
    ]
    yield from _shared(sweep, tasks, lambda left: ((task, _run_one(task)) for task in left), stop)


def _shared(
    sweep: Sweep,
    tasks: Sequence[_Task],
    work: Callable[[Sequence[_Task]], Iterator[tuple[_Task, Done]]],
    stop: Callable[[], str | None],
) -> Iterator[tuple[Point, Done]]:
    """Work through tasks beside other processes: what these run is left to them, and looked at again when they are done."""
    told: set[Point] = set()
    with ExitStack() as stack:
        # The first process owns the folder, so that no sweep of other decks changes those that wait; others join it.
        with suppress(BusyError):
            stack.enter_context(OutputLock(sweep.folder / "sweep"))
        while tasks and not stop():
            busy: list[_Task] = []
            for task, done in work(tasks):
                if done.busy:
                    busy.append(task)
                if not done.busy or task.point not in told:
                    yield task.point, done
                told.add(task.point)
            tasks = busy
            # Also where the lock does not tell who lives: not at once again.
            until = time.monotonic() + TRY
            while tasks and not stop():
                time.sleep(LOOK)
                if time.monotonic() > until or not all(held(task.point.stem) for task in tasks):
                    break
    # A run that was killed after its results were complete, or before its deck got another number, has nobody who follows it.
    remove_dead(sweep.folder)


def _run_one(task: _Task) -> Done:
    """Run one deck, or continue it; leave a record if it fails."""
    point, start = task.point, time.monotonic()
    # resume: a deck that was stopped goes on from its checkpoint, a new one begins.
    options = Options(
        device=task.device,
        output=point.results,
        resume=True,
        figures=task.figures,
        verbosity=-1,
        command=task.command,
    )
    try:
        if point.results.is_dir():  # as an output it would be filled, and the deck never be complete
            raise FileError(f"{point.results} is a folder, where the results belong", hint="move it away")
        # What is told of this point, and counts as done, is what the file says; another process may have run it.
        content = point.content()
        if content is None:
            point.require_deck()
            execute(task.method, point.deck, options)
            content = point.content()
        if content is None:
            raise FileError(
                f"the results in {point.results} are not of this deck: another sweep has changed {point.deck.name}",
                hint="the same command says what differs",
            )
    except (Stopped, Interrupted) as error:
        return Done(error.exit_code, message=str(error))
    except BusyError as error:
        return Done(error.exit_code, message=f"{error.owner} runs it", busy=True)
    except QsimError as error:
        return _recorded(point, Done(error.exit_code, message=str(error), hint=error.hint or ""))
    except Exception as error:  # a bug in one run must not cost the others
        return _recorded(point, Done(1, message=f"internal error: {type(error).__name__}: {error}"))
    point.failed.unlink(missing_ok=True)
    return Done(0, summary=content, seconds=time.monotonic() - start)


def _lost(task: _Task) -> Done:
    return _recorded(
        task.point,
        Done(1, message="its process ended without a word: killed, perhaps for its memory, or crashed"),
    )


def _recorded(point: Point, done: Done) -> Done:
    content = {"deck": point.deck.name, "code": done.code, "error": done.message, "hint": done.hint}
    with suppress(FileError):  # a full disk, which the message tells already
        write_text(point.failed, json.dumps(content, indent=2) + "\n")
    return done
