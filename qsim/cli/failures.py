"""Errors as messages and exit codes."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from qsim.cli.terminal import say
from qsim.core.device.parallel import abort, connected, is_agreed
from qsim.core.errors import DeckError, Interrupted, QsimError, Stopped
from qsim.core.text import json_text, printable

__all__ = ["Failure", "escape_usage_errors", "failure_object", "failure_of", "failures_as_json"]

# Seconds that other ranks leave to the first one to print an error that all have.
OTHER_RANKS_WAIT = 1.0


class Failure(click.ClickException):
    """An error with its exit code and, on a terminal, the lines of the deck that it speaks of."""

    def __init__(self, error: QsimError) -> None:
        super().__init__(str(error))
        self.error = error
        self.exit_code = error.exit_code  # type: ignore[misc]  # what click takes, whatever it declares

    def show(self, file: IO[Any] | None = None) -> None:
        """Write message and hint to standard error."""
        if isinstance(self.error, DeckError) and self.error.diagnostics:
            # One line per mistake, as editors and scripts read them; on a terminal with the line of the deck
            # below.
            for diagnostic in self.error.diagnostics:
                click.echo(str(diagnostic), err=True)
                if sys.stderr.isatty() and (excerpt := diagnostic.excerpt()):
                    click.echo(excerpt, err=True)
        else:
            # A stop that was requested is no error.
            kind = "" if isinstance(self.error, Stopped | Interrupted) else "error: "
            click.echo(f"qsim: {kind}{self.message}", err=True)
        if self.error.hint:
            say(f"hint: {self.error.hint}")


class InternalError(QsimError):
    """A bug: an exception that qsim did not foresee."""

    several_lines = True  # its notes


def failure_of(error: Exception) -> Failure:
    """Return what to show for an error, after it was shown by one rank for all where it stopped all of them."""
    if _wants_traceback():
        traceback.print_exc()
    # Errors of qsim are messages; any other exception is a bug and says so.
    failure = Failure(error if isinstance(error, QsimError) else _unforeseen(error))
    _end_with_others(failure, error)
    return failure


def _unforeseen(error: Exception) -> InternalError:
    """Return the error to show for a bug; its traceback is written to a file or, if wanted, on the screen."""
    name = type(error).__name__
    text = f"{name}: {error}" if str(error) else name
    # Notes say in which stage it happened, and that the results are complete.
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    message = f"internal error: {text.splitlines()[0]}{notes}"
    if _wants_traceback():
        return InternalError(message)
    try:
        # A traceback on the screen hides the message; it is kept in a file for a bug report.
        with tempfile.NamedTemporaryFile(
            "w", prefix="qsim-traceback-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
        return InternalError(message, hint=f"the traceback is in {file.name}; QSIM_TRACEBACK=1 shows it here")
    except OSError:
        return InternalError(message, hint="set QSIM_TRACEBACK=1 to see the traceback")


def _wants_traceback() -> bool:
    return os.environ.get("QSIM_TRACEBACK", "") not in ("", "0")


def failure_object(error: QsimError) -> dict[str, Any]:
    """Return what ``--json`` prints of a command that failed: exit code, message and hint."""
    return {
        "status": "failed",
        "exit_code": error.exit_code,
        "error": str(error),
        "hint": error.hint,
    }


@contextmanager
def failures_as_json(as_json: bool) -> Iterator[None]:
    """Print an object for a program that reads the output, where a command fails; the message itself goes to stderr."""
    try:
        yield
    except QsimError as error:
        if as_json:
            click.echo(json_text(failure_object(error)))
        raise


@contextmanager
def escape_usage_errors() -> Iterator[None]:
    """Escape control characters of the words that a usage error repeats."""
    try:
        yield
    except click.ClickException as error:
        if not isinstance(error, Failure):
            error.message = printable(error.message)  # type: ignore[misc]  # what click shows, whatever it declares
        raise


def _end_with_others(failure: Failure, error: Exception) -> None:
    """On several ranks, tell an error once, and end them all."""
    comm = connected()
    if comm is None or comm.size == 1:
        return
    # An error that all ranks raise is printed by the first one; the others end quietly, with the same code.
    if is_agreed(error):  # every rank ends by itself, with the same code
        if comm.rank:
            sys.exit(failure.exit_code)
        return
    if comm.rank:
        # The first rank may be about to print the same error, and to end all.
        time.sleep(OTHER_RANKS_WAIT)
        click.echo(f"qsim: on rank {comm.rank} of {comm.size}:", err=True)
    failure.show()
    abort(failure.exit_code)
