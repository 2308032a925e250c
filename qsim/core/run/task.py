"""One counted task of a run, as it is shown: a live bar on a terminal, lines elsewhere."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from qsim.core.run.streams import PatientText

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from qsim.core.run.timing.sections import Sections

__all__ = ["Task"]

# Seconds until the first line, between lines elsewhere than on a terminal, between pictures of a live bar, of a
# day.
FIRST_LINE = 1.0
LINE_INTERVAL = 30.0
REFRESH = 0.1
DAY = 86400.0
# Seconds between reports from which a time left is told.
KNOWN = 2.0
# Seconds between two reports from which a speed is derived; what comes before the first, such as compilation,
# does not count.
OBSERVED = 10.0


class Observer(Protocol):
    """The part of the monitor that a task needs.

    Attributes
    ----------
    sections
        Work of the sections of the run, if there are several.
    restored
        State from which the run continues.
    quiet
        True if nothing is to be shown.
    """

    sections: Sections | None
    restored: Mapping[str, Any] | None
    quiet: bool

    @property
    def stream(self) -> TextIO | None:
        """Return the stream that texts are written to."""

    @property
    def on_terminal(self) -> bool:
        """True if a live bar can be shown."""

    def now(self) -> float:
        """Return the time of the clock, s."""

    def working(self) -> float:
        """Return the time without that of the compiler, s."""

    def note(self, text: str) -> None:
        """Report information."""


class Task:
    """One counted task: a live bar on a terminal, lines elsewhere."""

    def __init__(
        self,
        monitor: Observer,
        total: int | None,
        unit: str,
        what: str,
        done: int | None,
        at_most: bool,
    ) -> None:
        self.monitor, self.total, self.unit, self.what = monitor, total, unit, what
        self.at_most = at_most
        self.start = self.now = monitor.working()
        self.observed: tuple[int, float] | None = None  # steps done and time of the first report
        self.announced = False
        self.first = done if done is not None else 0
        # where a resumed run starts is known from its first report, unless it said so
        self.first_unknown = done is None and monitor.restored is not None
        self.done = self.first
        self.observables: Mapping[str, float] = {}
        # As if a line had been shown that long ago that the next one is due after FIRST_LINE.
        self.shown_at = monitor.now() + FIRST_LINE - LINE_INTERVAL
        self.shown: int | None = None
        self.bar: Progress | None = None
        self.row: TaskID | None = None
        self.picture = None if monitor.quiet or monitor.on_terminal else _notebook_line()
        if monitor.on_terminal:
            with suppress(OSError, ValueError):
                self._open_bar()

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}", markup=False),
            # A terminal that goes away must not end the run: rich writes through a stream that takes
            # everything.
            console=Console(file=cast("TextIO", PatientText(self.monitor.stream or sys.stderr))),
            # Drawn at reports alone, at most every REFRESH seconds: no thread beside the run.
            auto_refresh=False,
        )
        self.row = self.bar.add_task(self._title, total=self.total, text="")
        self.bar.start()

    @property
    def _title(self) -> str:
        """Name of the task, with the place of its section."""
        place = self.monitor.sections.label if self.monitor.sections else ""
        name = self.what or self.unit
        return f"{name} ({place})" if place else name

    def retitle(self, text: str | None) -> None:
        """Show another name of the task on a terminal; None for its own."""
        if self.bar is not None and self.row is not None:
            with suppress(OSError, ValueError):
                self.bar.update(self.row, description=text or self._title)
                self.bar.refresh()

    def update(self, done: int, observables: Mapping[str, float]) -> None:
        """Take a report, and show it when it is time."""
        now = self.now = self.monitor.working()
        if self.observed is None:
            self.observed = (done, now)
        if self.first_unknown:
            self.first, self.start, self.first_unknown = done, now, False
        self.done, self.observables = done, observables
        live = self.bar is not None or self.picture is not None
        if self.monitor.now() - self.shown_at >= (REFRESH if live else LINE_INTERVAL):
            self._show(now)

    def days_left(self) -> float:
        """Return the seconds left, once, as soon as it is known that they are more than a day; else 0."""
        if self.announced or self.at_most or self.total is None or self.observed is None:
            return 0.0
        done, since = self.observed
        if self.done <= done or self.now - since < OBSERVED:
            return 0.0
        left = (self.total - self.done) * (self.now - since) / (self.done - done)
        # Once per task, whatever becomes of the speed.
        self.announced = left > DAY
        return left if self.announced else 0.0

    def _show(self, now: float) -> None:
        self.shown_at, self.shown = self.monitor.now(), self.done
        if self.bar is not None and self.row is not None:
            with suppress(OSError, ValueError):
                elapsed = f"{_duration(now - self.start)} elapsed"
                self.bar.update(
                    self.row, completed=self.done, text=f"{self._text(now)}  {elapsed}{self._left(now)}"
                )
                self.bar.refresh()
        elif self.picture is not None:
            # The picture in the cell is replaced, and a dead front end must not end the run.
            with suppress(Exception):
                self.picture(self._title, (self.done / self.total) if self.total else None, self._line(now))
        else:
            self.monitor.note(f"{self._title}: {self._line(now)}" if self.what else self._line(now))

    def _text(self, now: float) -> str:
        count = f"{self.done}/{self.total}" if self.total else f"{self.done}"
        rate = self._rate(now)
        shown = [f"{count} {self.unit}"] + ([f"{rate:.3g}/s"] if rate else [])
        return "  ".join(
            shown + [f"{name.replace('_', ' ')} {value:.6g}" for name, value in self.observables.items()]
        )

    def _line(self, now: float) -> str:
        if self.at_most:
            return self._text(now)
        percent = f"{100.0 * self.done / self.total:5.1f} %  " if self.total else ""
        return f"{percent}{self._text(now)}{self._left(now)}"

    def _left(self, now: float) -> str:
        """Return the time left; nothing while it is not known, or where the total is a limit that is rarely reached."""
        rate, left = self._rate(now), (self.total or 0) - self.done
        if self.at_most or not rate or left <= 0 or self.observed is None:
            return ""
        if now - self.observed[1] < KNOWN:
            return ""
        text = f"  {_duration(left / rate)} left"
        # Sections that come after this one are estimated by their work beside that of this one.
        later = self.monitor.sections.left_after(*self._own(now)) if self.monitor.sections else None
        return text if later is None else f"{text}, {_duration(left / rate + later)} of all sections"

    def _own(self, now: float) -> tuple[float, float]:
        """Return the share of the steps that were done here, and the seconds that took."""
        return (self.done - self.first) / (self.total or 1), now - self.start

    def _rate(self, now: float) -> float:
        """Return steps per second since the first report: what comes before it, such as compilation, does not count."""
        if self.observed is None:
            return 0.0
        done, since = self.observed
        return (self.done - done) / (now - since) if now > since and self.done > done else 0.0

    def close(self) -> None:
        """End the task with its last line."""
        now = self.monitor.working()
        if self.monitor.sections is not None:
            self.monitor.sections.leave(*self._own(now))
        if self.bar is not None:
            self._show(now)
            with suppress(OSError, ValueError):
                self.bar.stop()
        # No last line for a task without a step, nor the same line twice.
        elif self.done > self.first and self.shown != self.done:
            self._show(now)


def _notebook_line() -> Callable[[str, float | None, str], None] | None:
    """Return what shows a task in the output of a notebook's cell, and replaces it; None elsewhere."""
    shell = sys.modules.get("IPython")
    kernel = getattr(shell, "get_ipython", lambda: None)() if shell is not None else None
    if kernel is None or type(kernel).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import HTML, display

    # IPython has no types.
    picture: Any = HTML
    handle: Any = cast("Any", display)(picture(""), display_id=True)

    def show(title: str, share: float | None, text: str) -> None:
        bar = f'<progress max="1" value="{share:.4f}"></progress>' if share is not None else ""
        words = html.escape(f"{title}  {text}")
        handle.update(
            picture(f'<div style="font-family: monospace; white-space: pre-wrap">{bar} {words}</div>')
        )

    return show


def _duration(seconds: float) -> str:
    """Return ``1:02:03`` or ``02:03``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
