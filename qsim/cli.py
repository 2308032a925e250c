"""The command ``qsim``: a lazy group of commands, the options of a run, and errors as exit codes.

Standard output carries only the requested output (``--json``, a schema, a deck, the content of a file); all
that is said goes to standard error.  Nothing heavy is imported before a command needs it, so that
``qsim --help`` and shell completion answer at once.
"""

from __future__ import annotations

import difflib
import errno
import json
import logging
import math
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim import commands, commands_many, methods
from qsim.core.device.parallel import abort, connected, is_agreed, world
from qsim.core.errors import DeckError, FileError, Interrupted, QsimError, Stopped
from qsim.core.run.signals import before_the_work
from qsim.core.run.streams import make_patient, output_error
from qsim.core.text import json_text, printable
from qsim.terminal import say
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.run.pipeline import Options, Outcome

__all__ = ["cli", "main"]

OFF = logging.CRITICAL + 1
FORMATS = ("png", "pdf", "svg")
HELPERS = {**commands.COMMANDS, **commands_many.COMMANDS}
"""The commands that run no deck, or many."""
MAX_ROWS = 16
"""Most scalars that the closing table shows without ``-v``."""


# ---------------------------------------------------------------------------------------------- errors


class Failure(click.ClickException):
    """An error with its exit code and, on a terminal, the lines of the deck that it speaks of."""

    def __init__(self, error: QsimError) -> None:
        super().__init__(str(error))
        self.error = error
        self.exit_code = error.exit_code  # type: ignore[misc]  # what click takes, whatever it declares

    def show(self, file: Any = None) -> None:
        """Write message and hint to standard error."""
        if isinstance(self.error, DeckError) and self.error.diagnostics:
            for diagnostic in self.error.diagnostics:
                click.echo(str(diagnostic), err=True)
                if sys.stderr.isatty() and (excerpt := diagnostic.excerpt()):
                    click.echo(excerpt, err=True)
        else:
            kind = "" if isinstance(self.error, Stopped | Interrupted) else "error: "
            click.echo(f"qsim: {kind}{self.message}", err=True)
        if self.error.hint:
            say(f"hint: {self.error.hint}")


class InternalError(QsimError):
    """A bug: an exception that qsim did not foresee."""

    several_lines = True  # its notes


def _unforeseen(error: Exception) -> InternalError:
    """Return the error to show for a bug; its traceback is written to a file or, if wanted, on the screen."""
    name = type(error).__name__
    text = f"{name}: {error}" if str(error) else name
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    message = f"internal error: {text.splitlines()[0]}{notes}"
    if _wants_traceback():
        return InternalError(message)
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="qsim-traceback-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
        return InternalError(message, hint=f"the traceback is in {file.name}; QSIM_TRACEBACK=1 shows it here")
    except OSError:
        return InternalError(message, hint="set QSIM_TRACEBACK=1 to see the traceback")


def _wants_traceback() -> bool:
    return os.environ.get("QSIM_TRACEBACK", "") not in ("", "0")


# ---------------------------------------------------------------------------------------------- group


@contextmanager
def _escaped() -> Iterator[None]:
    """Escape control characters of the words that a usage error repeats."""
    try:
        yield
    except click.ClickException as error:
        if not isinstance(error, Failure):
            error.message = printable(error.message)
        raise


class QsimGroup(click.Group):
    """The commands: one per installed method, made when asked for, and the helpers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the methods of this installation and the helper commands."""
        return [*methods.available(), *HELPERS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; a method that is not part of this version gets one that says so."""
        if cmd_name in HELPERS:
            return HELPERS[cmd_name]
        if methods.is_available(cmd_name):
            return method_command(cmd_name)
        return _absent_command(cmd_name) if cmd_name in methods.TABLE else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion for a misspelt one and a hint for a deck without its method."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            if name.endswith((".yaml", ".yml")):
                ctx.fail(f"'{name}' is a deck; give its method first: qsim METHOD {name}")
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(f"no such command '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List methods and helpers in a section each."""
        sections = {
            "Methods": {name: methods.TABLE[name] for name in methods.available()},
            "Commands": {name: command.get_short_help_str(90) for name, command in HELPERS.items()},
        }
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(list(rows.items()))

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Read the options of the group."""
        with _escaped():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn every error into a message and an exit code."""
        try:
            with _escaped():
                return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as error:
            raise Failure(Interrupted()) from error
        except Exception as error:
            if _wants_traceback():
                traceback.print_exc()
            failure = Failure(error if isinstance(error, QsimError) else _unforeseen(error))
            _end_with_others(failure, error)
            raise failure from error


LATER = 1.0
"""Seconds that other ranks leave to the first one to tell an error that all have."""


def _end_with_others(failure: Failure, error: Exception) -> None:
    """On several ranks, tell an error once, and end them all."""
    comm = connected()
    if comm is None or comm.size == 1:
        return
    if is_agreed(error):  # every rank ends by itself, with the same code
        if comm.rank:
            sys.exit(failure.exit_code)
        return
    if comm.rank:
        time.sleep(LATER)
        click.echo(f"qsim: on rank {comm.rank} of {comm.size}:", err=True)
    failure.show()
    abort(failure.exit_code)


def _absent_command(name: str) -> click.Command:
    """Return a command that takes anything and says that the method is not there."""

    def refuse(rest: tuple[str, ...]) -> None:
        raise click.UsageError(methods.refusal(name))

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
        hidden=True,
    )


@click.group(
    cls=QsimGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, "--version", prog_name="qsim", message="%(prog)s %(version)s")
def cli() -> None:
    """Quantum dynamics and structure from YAML decks, on CPUs and NVIDIA GPUs.

    Write a deck with 'qsim init METHOD', run it with 'qsim METHOD DECK', look at the results with 'qsim show'
    and 'qsim plot', or open them with any HDF5 reader.
    """
    if (path := os.environ.get("QSIM_LOG")) and (handler := _log_file(path)):
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("qsim")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        context = click.get_current_context()
        context.call_on_close(partial(logger.removeHandler, handler))
        context.call_on_close(handler.close)


class _LogFile(logging.FileHandler):
    """The file of QSIM_LOG; when it cannot be written any more, the run goes on without it."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Warn once, instead of a traceback per line."""
        if self.level < OFF:
            self.setLevel(OFF)
            reason = sys.exc_info()[1]
            say(f"warning: cannot write the log {self.baseFilename}: {reason}; continuing without it")

    def close(self) -> None:
        """Close the file, whatever of it could not be written."""
        with suppress(OSError, ValueError):
            super().close()


def _log_file(path: str) -> _LogFile | None:
    """Open the file of QSIM_LOG to append to it; warn if that is not possible."""
    try:
        if Path(path).is_fifo():  # to open it would wait for a reader
            raise OSError(errno.EINVAL, "it is a pipe, not a file")
        return _LogFile(path, encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        say(f"warning: cannot write the log {path} (QSIM_LOG): {reason}; continuing without it")
        return None


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; streams that fail change nothing but the last word."""
    words = sys.argv[1:] if args is None else list(args)
    before_the_work(words, methods.TABLE)
    make_patient()
    try:
        cli.main(args=words, prog_name="qsim")
    except SystemExit as end:
        error = output_error()
        if error is None or end.code not in (0, None):
            raise
        message = f"qsim: error: cannot write to standard output: {error.strerror}; all files are written"
        click.echo(message, err=True)
        sys.exit(FileError.exit_code)


# ---------------------------------------------------------------------------------------- running a deck


def method_command(name: str) -> click.Command:
    """Return the command that runs decks of a method; its options are the same for all methods."""

    @click.command(
        name,
        help=f"{methods.TABLE[name]}\n\nRun DECK and write NAME.h5, NAME.summary.json and the figures, NAME "
        f"being that of the deck. 'qsim init {name}' writes a deck to start from.",
        short_help=methods.TABLE[name],
    )
    @click.argument("deck", type=commands.DeckFile())
    @click.option(
        "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Results file, or folder."
    )
    @click.option(
        "--device",
        metavar="D",
        callback=commands.device_name,
        help="Where to compute: auto, cpu, cuda or cuda:N.",
    )
    @click.option("--threads", metavar="N", type=click.IntRange(min=1), help="CPU threads, at most.")
    @click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Replace a key of the deck; may be repeated.",
    )
    @click.option(
        "--dry-run", is_flag=True, help="Check the deck; show sizes, memory, steps; print all its keys."
    )
    @click.option("--resume", is_flag=True, help="Continue from the checkpoint, or start if there is none.")
    @click.option("--force", is_flag=True, help="Replace existing results.")
    @click.option(
        "--allow-changes", is_flag=True, help="With --resume: continue although the deck has changed."
    )
    @click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
    @click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
    @click.option("-v", "--verbose", is_flag=True, help="Show every scalar with all its digits.")
    @click.option(
        "--figures", metavar="WHICH", help="Figures to draw: overview (by default), all, none, or NAME,NAME."
    )
    @click.option(
        "--format",
        "formats",
        multiple=True,
        type=click.Choice(FORMATS),
        help="Format of the figures, png by default; may be repeated.",
    )
    @click.option("--no-figures", is_flag=True, help="Draw no figures: the same as --figures none.")
    def command(**given: Any) -> None:
        _run(name, _Given(**given))

    return command


@dataclass(frozen=True)
class _Given:
    """Arguments and options of the command of a method, as the parser names them."""

    deck: Path
    output: Path | None
    device: str | None
    threads: int | None
    overrides: tuple[str, ...]
    dry_run: bool
    resume: bool
    force: bool
    allow_changes: bool
    as_json: bool
    quiet: bool
    verbose: bool
    no_figures: bool
    figures: str | None
    formats: tuple[str, ...]

    def refuse_clashes(self) -> None:
        """Raise a usage error for options that exclude each other."""
        if self.resume and self.force:
            raise click.UsageError("--resume and --force exclude each other")
        if self.quiet and self.verbose:
            raise click.UsageError("-q and -v exclude each other")
        if self.no_figures and self.figures not in (None, "none"):
            raise click.UsageError("--no-figures and --figures exclude each other")
        if self.allow_changes and not self.resume:
            raise click.UsageError("--allow-changes needs --resume")

    def options(self) -> Options:
        """Return the options of the pipeline."""
        from qsim.core.run.pipeline import Options

        return Options(
            device=self.device,
            threads=self.threads,
            overrides=self.overrides,
            output=self.output,
            force=self.force,
            resume=self.resume,
            allow_changes=self.allow_changes,
            dry_run=self.dry_run,
            figures=False if self.no_figures else self.figures or True,
            formats=self.formats or ("png",),
            verbosity=-1 if self.quiet else int(self.verbose),
            command=shlex.join(["qsim", *sys.argv[1:]]),
        )


def _run(method: str, given: _Given) -> None:
    """Run a deck and show its summary."""
    given.refuse_clashes()
    rank = world().rank  # before NumPy is imported: it settles the threads of each rank
    from qsim.core.run.pipeline import execute

    try:
        outcome = execute(method, given.deck, given.options())
    except Stopped as stop:
        if given.as_json and not rank:
            click.echo(
                json.dumps({"method": method, "status": "stopped", "checkpoint": str(stop.checkpoint)})
            )
        raise
    except DeckError as error:
        if given.as_json and not rank:
            failure = None if error.diagnostics else str(error)
            found = commands.findings_of(given.deck, method, error.diagnostics, failure)
            click.echo(json_text({"valid": False, "decks": [found]}))
        raise
    if rank:
        return
    if given.dry_run:
        if given.as_json or not given.quiet:
            _show_plan(outcome.summary, as_json=given.as_json)
        return
    if given.as_json:
        click.echo(json_text(outcome.summary))
    if not given.quiet:
        _show_outcome(method, outcome, verbose=given.verbose)


def _show_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    """Show what a run would take; the deck with all its keys is what goes to standard output."""
    if as_json:
        click.echo(json_text(plan))
        return
    from qsim.core.deck.describe import deck_lines

    size, memory = commands.format_bytes, plan["memory"]
    rows = [(name, _size_text(value)) for name, value in plan["sizes"].items()]
    rows += [("steps", str(plan["steps"]))] if plan["steps"] and "steps" not in plan["sizes"] else []
    rows += [("time", plan["time"])] if plan["time"] else []
    rows += [(f"memory: {name}", size(number)) for name, number in memory["parts"].items()]
    rows += [
        ("memory on the host", size(memory["host"])),
        ("memory on the device", size(memory["device"])),
        ("memory for a job (--mem)", f"{math.ceil(memory['job'] / 2**20)}M"),
    ]
    rows += [(f"free on {plan['device']}", size(memory["free"]))]
    click.echo(commands.columns(rows), err=True)
    for notice in plan["notices"]:
        say(notice)
    commands.say_warnings(warning.replace(": warning: ", ": ", 1) for warning in plan["warnings"])
    click.echo("\n".join(deck_lines(plan["deck"])))


def _size_text(value: float | str) -> str:
    """Return a size with at most six digits, whole numbers with all of theirs."""
    return f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else str(value)


def _show_outcome(method: str, outcome: Outcome, *, verbose: bool) -> None:
    """Show the closing table: scalars, times, files, and once more the warnings."""
    from qsim.core.run.stages import Method

    summary, scalars = outcome.summary, outcome.summary["scalars"]
    if outcome.already:
        say(f"{outcome.results} is complete; nothing to do")
    first = [name for name in Method[Any, Any, Any](method).headline if name in scalars]
    names = list(dict.fromkeys([*first, *scalars]))
    shown = names if verbose else names[:MAX_ROWS]
    rows = [(name, commands.format_scalar(**scalars[name], digits=12 if verbose else 6)) for name in shown]
    if len(shown) < len(names):
        rows.append(("...", f"{len(names) - len(shown)} more: qsim show {outcome.results}"))
    click.echo(f"\n{commands.columns(rows)}\n", err=True)
    times = [f"{name} {commands.format_seconds(seconds)}" for name, seconds in summary["timing"].items()]
    below = [("time", ", ".join(times))]
    below += [
        ("" if index else "files", file) for index, file in enumerate(commands.grouped(summary["files"]))
    ]
    warnings = summary["warnings"]
    if warnings and not outcome.already:  # the run said them when they came up
        text = "1 warning above" if len(warnings) == 1 else f"{len(warnings)} warnings above"
        below.append(("warnings", text))
    click.echo(commands.columns(below), err=True)
    if outcome.already:
        commands.say_warnings(warnings)
