r"""The errors of qsim, each with the exit code that the command line returns.

::

    Exception
     └── QsimError                 1   anything that qsim itself reports
          ├── DeckError            3   the deck is mistaken; lists every mistake with its place
          ├── DeviceError          4   device, driver or communicator not usable as requested
          │    └── MemoryLimitError
          │                        4   the problem does not fit; says what is needed, free, and to lower
          ├── NumericsError        5   non-finite, diverged, or not converged where that is required
          ├── FileError            6   exists already, unreadable, not ours, or of a newer format
          ├── MismatchError        7   `qsim compare` or `qsim check` found a difference
          ├── Stopped             75   stopped on request, with a checkpoint to resume from
          └── Interrupted        130   stopped at once by a second Ctrl-C

Exit code 2 (usage) belongs to the command line parser; an exception outside this tree is a bug and exits
with 1. Messages say what is wrong; `hint`, where there is one, says what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from qsim.core.text import printable

Severity = Literal["error", "warning", "note"]

# Diagnostics that are shown one by one.
MOST = 50
# Characters of a line of a deck that are shown below a message.
EXCERPT = 160

__all__ = [
    "MOST",
    "DeckError",
    "DeviceError",
    "Diagnostic",
    "FileError",
    "Interrupted",
    "InvalidInput",
    "MemoryLimitError",
    "MismatchError",
    "More",
    "NoGpuError",
    "NumericsError",
    "QsimError",
    "Severity",
    "Stopped",
    "at_most",
]


@dataclass(frozen=True)
class Diagnostic:
    """One error, warning or note about a deck, with its place.

    Attributes
    ----------
    file
        The deck as it was named by the user, or ``<--set KEY>`` for an override.
    line, column
        Place of the key, counted from 1.
    key
        Dotted path of the key, ``"control.bounds.0"``; empty for the deck as a whole.
    message
        What is wrong, what was found, and what is allowed.
    severity
        A deck with a diagnostic of severity ``"error"`` does not run; a ``"note"`` tells how something is taken, and is not kept.
    source
        The text of that line, for `excerpt`; may be empty.
    """

    file: str
    line: int
    column: int
    key: str
    message: str
    severity: Severity = "error"
    source: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        """Return ``file:line:column: key: message``, the form that editors and terminals make clickable."""
        key = f"{self.key}: " if self.key else ""
        kind = "" if self.severity == "error" else f"{self.severity}: "
        # an override is one line, and its key begins it; a deck given as a mapping has keys only
        start = self.file == "<deck>" or (
            self.file.startswith("<--set") and (self.line, self.column) == (1, 1)
        )
        place = "" if start else f":{self.line}:{self.column}"
        return printable(f"{self.file}{place}: {key}{kind}{self.message}")

    def excerpt(self) -> str:
        """Return the offending line with a caret below the column, or an empty string if it is not known."""
        if not self.source.strip():
            return ""
        # control characters become one symbol, so that the caret stands under its character
        shown = "".join(c if c.isprintable() or c == "\t" else "\N{MIDDLE DOT}" for c in self.source)
        # A window around the column: the line of a deck may be as long as the deck.
        first = max(0, self.column - 1 - EXCERPT // 2)
        before = "... " if first else ""
        after = " ..." if len(shown) > first + EXCERPT else ""
        lead = before + shown[first : self.column - 1].ljust(self.column - 1 - first)
        lead = "".join("\t" if c == "\t" else " " for c in lead)
        number = f"{self.line:>5} | "
        text = f"{before}{shown[first : first + EXCERPT]}{after}"
        return f"{number}{text}\n{' ' * (len(number) - 2)}| {lead}^"


@dataclass(frozen=True)
class More(Diagnostic):
    """The number of further diagnostics, which are not shown one by one."""

    def __str__(self) -> str:
        """Return ``... and 12 more``."""
        return self.message


def at_most(diagnostics: Iterable[Diagnostic], untold: int = 0) -> tuple[Diagnostic, ...]:
    """Return the first `MOST` diagnostics and, if there are others, how many.

    Parameters
    ----------
    diagnostics
        In the order in which they are shown.
    untold
        Number of further diagnostics that are not among them.
    """
    every = tuple(diagnostics)
    # An entry that itself stands for further diagnostics counts as many as it names.
    untold += sum(int(p.message.split()[2]) if isinstance(p, More) else 1 for p in every[MOST:])
    if untold <= 0:
        return every
    last = every[min(len(every), MOST) - 1]
    return (
        *every[:MOST],
        More(last.file, last.line, last.column, "", f"... and {untold} more", last.severity),
    )


class QsimError(Exception):
    """Base of all errors that qsim reports by itself.

    Parameters
    ----------
    message
        What went wrong, in one sentence with the numbers in it.
    hint
        What to do about it.
    """

    exit_code: ClassVar[int] = 1
    # True if line breaks of the message are its own, and not part of a name that it quotes.
    several_lines = False

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = None if hint is None else printable(hint)

    def __str__(self) -> str:
        """Return the message, safe for a terminal whatever the deck or the file that it quotes holds."""
        return printable(super().__str__(), newlines=self.several_lines)

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows instead of a traceback: what went wrong, and what to do."""
        return [f"{type(self).__name__}: {self}", *([f"hint: {self.hint}"] if self.hint else [])]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by content: errors cross process borders, whatever their constructor takes."""
        # Exceptions are rebuilt by calling their class with `args`, which fails for
        # constructors with other parameters.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[QsimError], args: tuple[Any, ...], state: dict[str, Any]) -> QsimError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class InvalidInput(ValueError):
    """A value of the deck that shows to be wrong only when it is used.

    The stages of a method turn it into a :class:`DeckError` with the place of its key.

    Parameters
    ----------
    key
        Dotted key of the deck, ``"system.potential"``.
    message
        What is wrong, what was found, what is allowed.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class DeckError(QsimError):
    """The deck is mistaken.

    Parameters
    ----------
    diagnostics
        Every mistake found, in the order of the file; or one text where no place in a deck can be named.
    hint
        What to do about it.
    untold
        Number of further mistakes that are not among `diagnostics`.

    Attributes
    ----------
    diagnostics
        The first `MOST` mistakes; if there are others, a last entry gives their number.
    """

    exit_code = 3

    def __init__(
        self,
        diagnostics: str | Diagnostic | Iterable[Diagnostic],
        *,
        hint: str | None = None,
        untold: int = 0,
    ) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = ()
        if isinstance(diagnostics, Diagnostic):
            self.diagnostics = (diagnostics,)
        elif not isinstance(diagnostics, str):
            self.diagnostics = at_most(diagnostics, untold)
        self.several_lines = bool(self.diagnostics)
        text = diagnostics if isinstance(diagnostics, str) else "\n".join(map(str, self.diagnostics))
        super().__init__(text, hint=hint)


class DeviceError(QsimError):
    """The device, its driver or the communicator cannot be used as requested."""

    exit_code = 4


class NoGpuError(DeviceError):
    """A GPU was requested by name for a run that has no CUDA kernels."""


class MemoryLimitError(DeviceError):
    """The problem does not fit into the memory that is free."""


class NumericsError(QsimError):
    """A number became non-finite, a solver diverged, or a required convergence was not reached."""

    exit_code = 5


class FileError(QsimError):
    """A file exists already, cannot be read or written, or is not what it should be."""

    exit_code = 6


class MismatchError(QsimError):
    """Two results differ by more than the tolerance."""

    exit_code = 7


class Stopped(QsimError):
    """The run stopped on request after it wrote a checkpoint.

    Parameters
    ----------
    checkpoint
        The file that ``--resume`` continues from.
    message
        Why the run stopped.
    """

    exit_code = 75

    def __init__(
        self, checkpoint: str | Path, message: str | None = None, *, hint: str | None = None
    ) -> None:
        self.checkpoint = Path(checkpoint)
        super().__init__(
            message or f"stopped; checkpoint written to {self.checkpoint}",
            hint=hint or "continue with the same command and --resume",
        )


class Interrupted(QsimError):
    """The run was stopped without a checkpoint: by a second Ctrl-C, or in a part that has none."""

    exit_code = 130

    def __init__(self, message: str = "interrupted", *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
