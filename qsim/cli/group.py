"""The command ``qsim``: the group of all commands, and what goes to which stream.

Standard output carries only the requested output (``--json``, a schema, a deck, the content of a file); all
that is said goes to standard error.  Nothing heavy is imported before a command needs it, so that
``qsim --help`` and shell completion answer at once.
"""

from __future__ import annotations

import difflib
import errno
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from qsim import methods
from qsim.cli import decks, figures, installation, results, sweep
from qsim.cli.failures import Failure, escape_usage_errors, failure_of
from qsim.cli.run import method_command
from qsim.cli.terminal import say
from qsim.core.errors import FileError, Interrupted, QsimError
from qsim.core.run.signals import before_the_work
from qsim.core.run.streams import make_patient, output_error
from qsim.version import __version__

__all__ = ["cli", "main"]

# A level above all: the log is written no more.
OFF = logging.CRITICAL + 1
# All commands but the methods, in the order of `qsim --help`.
COMMANDS: dict[str, click.Command] = {
    "init": decks.init,
    "validate": decks.validate,
    "schema": decks.schema,
    "show": results.show,
    "table": results.table,
    "plot": figures.plot,
    "view": figures.view,
    "compare": results.compare,
    "difference": results.difference,
    "cite": results.cite,
    "examples": decks.examples,
    "check": installation.check,
    "info": installation.info,
    "sweep": sweep.sweep,
    "collect": results.collect,
    "warmup": installation.warmup,
}


class QsimGroup(click.Group):
    """One command per installed method, made at its first use, and `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the methods of this installation and the other commands."""
        return [*methods.available(), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; a method that is not part of this version gets one that says so."""
        # A method is made into a command here, at its first use: `--help` of the group loads none.
        if cmd_name in COMMANDS:
            return COMMANDS[cmd_name]
        if methods.is_available(cmd_name):
            return method_command(cmd_name)
        return _absent_command(cmd_name) if cmd_name in methods.TABLE else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion for a misspelt one and a hint for a deck without its method."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            # `qsim deck.yaml` is the commonest slip.
            if name.endswith((".yaml", ".yml")):
                ctx.fail(f"'{name}' is a deck; give its method first: qsim METHOD {name}")
            # Words of other programs for the same; a deck behind them tells the method.
            if name in ("run", "start", "submit") and len(args) > 1:
                ctx.fail(
                    f"no such command '{name}'; a deck is run by its method: qsim {_method_in(args[1])} {args[1]}"
                )
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(f"no such command '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List methods and the other commands in a section each."""
        sections = {
            "Methods": {name: methods.TABLE[name] for name in methods.available()},
            "Commands": {name: command.get_short_help_str(200) for name, command in COMMANDS.items()},
        }
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(list(rows.items()))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # settings of click's contexts
    ) -> click.Context:
        """Read the options of the group."""
        with escape_usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn every error into a message and an exit code."""
        try:
            with escape_usage_errors():
                return super().invoke(ctx)
        # These are what click itself ends commands with, and shows.
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        # Outside of a run, where signals are not caught, Ctrl-C ends the command at once.
        except KeyboardInterrupt as error:
            raise Failure(Interrupted()) from error
        except Exception as error:
            raise failure_of(error) from error


def _method_in(deck: str) -> str:
    """Return the method that a deck names; METHOD if it cannot be told."""
    from qsim.core.deck.load import peek_method

    try:
        name = peek_method(Path(deck))
    except QsimError:
        return "METHOD"
    return name if methods.is_available(name) else "METHOD"


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
    # The handler lives as long as this command: a Python program may call several in one
    # process.
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
        # Once: every further line would fail in the same way.
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
    # Signals and streams first, so that nothing after them can fail unseen.
    words = sys.argv[1:] if args is None else list(args)
    before_the_work(words, methods.TABLE)
    make_patient()
    try:
        cli.main(args=words, prog_name="qsim")
    except SystemExit as end:
        # All files are written by now; what could not be printed changes the exit code alone.
        # Standard output is flushed here: a full disk or a closed pipe shows only now.
        error = output_error()
        if error is None or end.code not in (0, None):
            raise
        message = f"qsim: error: cannot write to standard output: {error.strerror}; all files are written"
        click.echo(message, err=True)
        sys.exit(FileError.exit_code)
