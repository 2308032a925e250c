"""The commands ``qsim METHOD DECK``: run one deck, show its plan or its closing table."""

from __future__ import annotations

import json
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim import methods
from qsim.cli.arguments import DeckFile, DeckKey, device_option, formats_option
from qsim.cli.decks import findings_of, of_another_method
from qsim.cli.failures import failure_object
from qsim.cli.terminal import columns, say, say_warnings
from qsim.core.device.cuda.driver import device_of, prepare
from qsim.core.device.parallel import launched_ranks, world
from qsim.core.errors import DeckError, QsimError, Stopped
from qsim.core.text import format_bytes, format_scalar, format_seconds, grouped, json_text

if TYPE_CHECKING:
    from qsim.core.run.pipeline import Options, Outcome

__all__ = ["method_command"]

# Most scalars that the closing table shows without `-v`.
MAX_ROWS = 16
# Far more than a machine has.
MOST_GPUS = 64


def method_command(name: str) -> click.Command:
    """Return the command that runs decks of a method; its options are the same for all methods."""

    @click.command(
        name,
        help=f"{methods.TABLE[name]}\n\nRun DECK and write NAME.h5, NAME.summary.json and the figures, NAME "
        f"being that of the deck. 'qsim init {name}' writes a deck to start from."
        + (f"\n\nLimits: {methods.LIMITS[name]}" if name in methods.LIMITS else ""),
        short_help=methods.TABLE[name],
    )
    @click.argument("deck", type=DeckFile())
    @click.option(
        "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Results file, or folder."
    )
    @device_option
    @click.option(
        "--gpus",
        metavar="N",
        type=click.IntRange(1, MOST_GPUS),
        help="Share the run among N GPUs of this machine (--device cpu: N processes).",
    )
    @click.option("--threads", metavar="N", type=click.IntRange(min=1), help="CPU threads, at most.")
    @click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        type=DeckKey(),
        multiple=True,
        help="Replace a key of the deck; may be repeated.",
    )
    @click.option(
        "--dry-run", is_flag=True, help="Check the deck; show sizes, memory, steps; print all its keys."
    )
    @click.option(
        "--measure",
        is_flag=True,
        help="With --dry-run: run the first steps for 10 s and tell how long all take.",
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
    @formats_option("Format of the figures, png by default; may be repeated.")
    @click.option("--no-figures", is_flag=True, help="Draw no figures: the same as --figures none.")
    # Click hands the options over by name; a class holds them with their types.
    def command(**values: Any) -> None:
        _run(name, _Arguments(**values))

    return command


@dataclass(frozen=True)
class _Arguments:
    """Arguments and options of the command of a method, as the parser names them."""

    deck: Path
    output: Path | None
    device: str | None
    gpus: int | None
    threads: int | None
    overrides: tuple[str, ...]
    dry_run: bool
    measure: bool
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
        if self.measure and not self.dry_run:
            raise click.UsageError("--measure needs --dry-run")
        if self.allow_changes and not self.resume:
            raise click.UsageError("--allow-changes needs --resume")
        if self.gpus is None:
            return
        if self.device is not None and self.device.startswith("cuda:"):
            raise click.UsageError(
                f"--gpus and --device {self.device} exclude each other; CUDA_VISIBLE_DEVICES chooses GPUs"
            )
        if launched_ranks() not in (1, self.gpus):
            raise click.UsageError(
                f"--gpus {self.gpus}, but a launcher started {launched_ranks()} processes already"
            )

    def share(self, method: str) -> None:
        """Let as many processes as ``--gpus`` says take the place of this one, unless they are running already."""
        if self.gpus is None or launched_ranks() > 1:
            return
        from qsim.core.run.launcher import become_ranks, require_gpus

        if self.device != "cpu":
            require_gpus(self.gpus)
        if self.gpus > 1:
            # the processes read the option again, and find that they have been started
            become_ranks(self.gpus, [method, *sys.argv[sys.argv.index(method) + 1 :]])

    def prepare(self) -> None:
        """Start the driver of a GPU that is named; ranks choose their devices together, later."""
        if world().size == 1:
            prepare(device_of(self.device))

    def options(self) -> Options:
        """Return the options of the pipeline."""
        from qsim.core.run.pipeline import Options

        return Options(
            device="cuda" if self.gpus is not None and self.device in (None, "auto") else self.device,
            threads=self.threads,
            overrides=self.overrides,
            output=self.output,
            force=self.force,
            resume=self.resume,
            allow_changes=self.allow_changes,
            dry_run=self.dry_run,
            measure=self.measure,
            # True: what the deck says.
            figures=False if self.no_figures else self.figures or True,
            formats=self.formats or ("png",),
            verbosity=-1 if self.quiet else int(self.verbose),
            command=shlex.join(["qsim", *sys.argv[1:]]),
        )


def _run(method: str, arguments: _Arguments) -> None:
    """Run a deck and show its summary."""
    arguments.refuse_clashes()
    arguments.share(method)
    rank = world().rank  # before NumPy is imported: it settles the threads of each rank
    # beside the imports that follow
    arguments.prepare()
    from qsim.core.run.pipeline import execute

    try:
        outcome = execute(method, arguments.deck, arguments.options())
    # Scripts that read --json get an object in every case: summary, plan, stop or mistakes.
    except Stopped as stop:
        if arguments.as_json and not rank:
            click.echo(
                json.dumps({"method": method, "status": "stopped", "checkpoint": str(stop.checkpoint)})
            )
        raise
    except DeckError as told:
        error = of_another_method(told, method, arguments.deck)
        if arguments.as_json and not rank:
            diagnostics = getattr(error, "diagnostics", ())
            failure = None if diagnostics else str(error)
            findings = findings_of(arguments.deck, method, diagnostics, failure)
            click.echo(json_text({"valid": False, "decks": [findings]}))
        raise error from told
    except QsimError as error:
        # A program that reads the output gets an answer in any case; the message itself goes to stderr.
        if arguments.as_json and not rank:
            click.echo(json_text({"method": method, **failure_object(error)}))
        raise
    # All ranks ran, the first one speaks.
    if rank:
        return
    # The deck with all its keys goes to standard output, the table of sizes to standard error.
    if arguments.dry_run:
        if arguments.as_json or not arguments.quiet:
            _show_plan(outcome.summary, as_json=arguments.as_json)
        return
    if arguments.as_json:
        click.echo(json_text(outcome.summary))
    if not arguments.quiet:
        _show_outcome(method, outcome, verbose=arguments.verbose)


def _show_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    """Show what a run would take; the deck with all its keys is what goes to standard output."""
    if as_json:
        click.echo(json_text(plan))
        return
    from qsim.core.deck.describe import deck_lines

    # Rows for a reader on standard error, the resolved deck on standard output, where it can be
    # redirected into a file.
    size, memory = format_bytes, plan["memory"]
    rows = [(name, _size_text(value)) for name, value in plan["sizes"].items()]
    rows += [("steps", str(plan["steps"]))] if plan["steps"] and "steps" not in plan["sizes"] else []
    rows += [("compilation", plan["compilation"])] if plan["compilation"] else []
    rows += [("time", plan["measured"]["text"])] if "measured" in plan else []
    rows += [(f"memory: {name}", size(number)) for name, number in memory["parts"].items()]
    rows += [
        ("memory on the host", size(memory["host"])),
        ("memory on the device", size(memory["device"])),
        ("memory for a job (--mem)", f"{math.ceil(memory['job'] / 2**20)}M"),
    ]
    rows += [(f"free on {plan['device']}", size(memory["free"]))]
    click.echo(columns(rows), err=True)
    for notice in plan["notices"]:
        say(notice)
    say_warnings(warning.replace(": warning: ", ": ", 1) for warning in plan["warnings"])
    click.echo("\n".join(deck_lines(plan["deck"])))


def _size_text(value: float | str) -> str:
    """Return a size with at most six digits, whole numbers with all of theirs."""
    return f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else str(value)


def _show_outcome(method: str, outcome: Outcome, *, verbose: bool) -> None:
    """Show the closing table: scalars, times, files, and once more the warnings."""
    from qsim.core.results.tables import Named
    from qsim.core.run.stages import Method

    summary = outcome.summary
    scalars = Named(summary["scalars"], summary.get("aliases", {}))
    if outcome.already:
        say(f"{outcome.results} is complete; nothing to do")
    # The headline of the method first, then the others in the order of the file.
    first = [scalars.real(name) for name in Method[Any, Any, Any](method).headline if name in scalars]
    names = list(dict.fromkeys([*first, *scalars]))
    shown = names if verbose else names[:MAX_ROWS]
    rows = [(name, format_scalar(**scalars[name], digits=12 if verbose else 6)) for name in shown]
    if len(shown) < len(names):
        rows.append(("...", f"{len(names) - len(shown)} more: qsim show {outcome.results}"))
    click.echo(f"\n{columns(rows)}\n", err=True)
    times = [f"{name} {format_seconds(seconds)}" for name, seconds in summary["timing"].items()]
    below = [("time", ", ".join(times))]
    below += [("" if index else "files", file) for index, file in enumerate(grouped(summary["files"]))]
    warnings = summary["warnings"]
    # A run that was complete before has said nothing yet: its warnings are shown below.
    if warnings and not outcome.already:  # the run said them when they came up
        text = "1 warning above" if len(warnings) == 1 else f"{len(warnings)} warnings above"
        below.append(("warnings", text))
    click.echo(columns(below), err=True)
    if outcome.already:
        say_warnings(warnings)
