"""The command ``sweep``: one deck at many values of some keys."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim.cli.arguments import DeckFile, DeckKey, device_option, require_method
from qsim.cli.terminal import columns, print_path, say, say_warnings
from qsim.core.text import format_bytes, format_scalar, format_seconds, shell_path, shorten

if TYPE_CHECKING:
    from qsim.core.sweeps.folder import Point, Sweep
    from qsim.core.sweeps.sweep import Done
    from qsim.core.sweeps.values import Axis

__all__ = ["sweep"]

STOPPED = 75  # exit codes of a run that wrote a checkpoint on request, and of one that was interrupted
INTERRUPTED = 130
# Most scalars in the line of a deck that is done.
MAX_SCALARS = 2
# Characters of a warning in the line of its run.
MOST_OF_WARNING = 100
# Most failures listed at the end.
MAX_FAILURES = 20


@click.command()
@click.argument("deck", type=DeckFile())
@click.option(
    "--over",
    "axes",
    metavar="KEY=VALUES",
    type=DeckKey(),
    multiple=True,
    required=True,
    help="Values of a key: A:B:N (N values, ends included), A:B:N:log, or X,Y,...; may be repeated.",
)
@click.option(
    "--zip", "zipped", is_flag=True, help="Take the values of the keys side by side, not all combinations."
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1),
    help="Decks at the same time (default 1; --slurm: no limit).",
)
@click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    type=DeckKey(),
    multiple=True,
    help="Replace a key of the deck in all runs.",
)
@click.option(
    "-o", "--output", metavar="FOLDER", type=click.Path(path_type=Path), help="Folder; by default NAME.sweep."
)
@device_option
@click.option("--figures", is_flag=True, help="Draw the figures of every run.")
@click.option("--slurm", is_flag=True, help="Write decks, index and the script of a job array; run nothing.")
@click.option(
    "--force", is_flag=True, help="Remove results that are not of their decks, and run these again."
)
@click.option("--dry-run", is_flag=True, help="Validate and show the decks; write and run nothing.")
def sweep(**values: Any) -> None:
    """Run DECK at many values of some keys, in warm processes.

    The folder NAME.sweep gets numbered decks, their index, and the results of each.  The same command again runs what is
    missing, failed or stopped, and nothing else; 'qsim collect NAME.sweep' makes a table of the results.
    """
    _sweep(_Arguments(**values))


@dataclass(frozen=True)
class _Arguments:
    """Arguments and options of the command, as the parser names them."""

    deck: Path
    axes: tuple[str, ...]
    zipped: bool
    jobs: int | None
    overrides: tuple[str, ...]
    output: Path | None
    device: str | None
    figures: bool
    slurm: bool
    force: bool
    dry_run: bool


def _sweep(arguments: _Arguments) -> None:
    """Prepare a sweep; then show it, write its job array, or run it."""
    from qsim.core.deck.load import peek_method
    from qsim.core.device.parallel import launched_ranks
    from qsim.core.sweeps.array import write_array
    from qsim.core.sweeps.folder import prepare
    from qsim.core.sweeps.values import parse_axis, points

    # Under mpirun every rank would start a sweep of its own.
    if launched_ranks() > 1:
        raise click.UsageError("a sweep starts its own processes: --jobs N instead of mpirun or srun")
    method = peek_method(arguments.deck)
    require_method(method)
    zipped, device = arguments.zipped, arguments.device
    try:
        # Mistakes of --over belong to the command line, not to the deck.
        axes = [parse_axis(text) for text in arguments.axes]
        points(axes, zipped=zipped)
    except ValueError as error:
        raise click.UsageError(f"--over {error}") from None
    if arguments.dry_run:
        _show_decks(method, arguments, axes)
        return
    prepared = prepare(
        method,
        arguments.deck,
        axes,
        overrides=arguments.overrides,
        zipped=zipped,
        folder=arguments.output,
        force=arguments.force,
    )
    for notice in prepared.notices:
        say(notice)
    # Decks and index are written by now, in every case; they are run here, or left to the batch
    # system.
    if not arguments.slurm:
        _run_sweep(prepared, jobs=arguments.jobs or 1, device=device, figures=arguments.figures)
    elif prepared.missing:
        # how many, so that a step is not taken for a number
        ends = "; ".join(f"{axis.key} from {axis.values[0]} to {axis.values[-1]}" for axis in axes)
        click.echo(f"{len(prepared.points)} decks, {len(prepared.missing)} to run: {ends}", err=True)
        print_path(write_array(prepared, at_once=arguments.jobs, device=device))
    else:
        click.echo(f"all {len(prepared.points)} decks are complete; nothing to submit", err=True)


def _show_decks(method: str, arguments: _Arguments, axes: Sequence[Axis]) -> None:
    """Print the numbers and values of all decks, which are valid, and what the plans of some say."""
    from qsim.core.sweeps.array import evenly, largest_memory
    from qsim.core.sweeps.folder import decks_of

    decks = list(decks_of(method, arguments.deck, axes, arguments.overrides, zipped=arguments.zipped))
    examined, memory = largest_memory(method, [loaded for _, loaded in evenly(decks)])
    rows = [(str(number), *values) for number, (values, _) in enumerate(decks, 1)]
    click.echo(columns(rows, ("number", *(axis.key for axis in axes))))
    say_warnings(dict.fromkeys(warning for _, loaded in decks for warning in loaded.warnings))
    say(
        f"all {len(decks)} decks are valid; memory of a run {format_bytes(memory)} (largest of {examined} examined)"
    )


def _run_sweep(sweep: Sweep, *, jobs: int, device: str | None, figures: bool) -> None:
    """Run what is missing, with a line per deck; a stop request ends the decks at work with checkpoints."""
    from qsim.core.run.signals import Signals
    from qsim.core.sweeps.sweep import run

    total, left = len(sweep.points), len(sweep.missing)
    before = f", {total - left} complete already" if left < total else ""
    say(f"{sweep.method} {sweep.folder}: {total} decks{before}")
    failed: list[tuple[Point, Done]] = []
    done = warned = 0
    # A stop request is passed on to the processes, which write checkpoints.
    with Signals() as signals:
        command = shlex.join(["qsim", *sys.argv[1:]])
        for point, outcome in run(
            sweep, jobs=jobs, device=device, figures=figures, command=command, stop=lambda: signals.stop
        ):
            place = f"{point.deck.stem}  {sweep.settings(point)}  {_result_text(outcome, sweep.method)}"
            # What another process runs comes again when that is done.
            if outcome.busy:
                say(place)
                continue
            done += 1
            if outcome.code:
                failed.append((point, outcome))
            warned += bool(outcome.summary and outcome.summary["warnings"])
            say(f"[{total - left + done}/{total}] {place}")
        stop = signals.stop
    if warned:
        say(
            f"{warned} of {done} runs have warnings: 'qsim show FILE.h5', and the column 'warnings' of qsim collect"
        )
    _close(sweep, failed, stop)


def _result_text(outcome: Done, method: str) -> str:
    """Return the first scalars of a run and its time, or how it failed."""
    from qsim.core.run.stages import Method

    # A run without a summary was stopped or failed.
    if outcome.busy:
        return f"{outcome.message}; waiting for it"
    if outcome.summary is None:
        kind = "stopped" if outcome.code == STOPPED else "FAILED"
        return f"{kind}: {outcome.message.splitlines()[0] if outcome.message else outcome.code}"
    from qsim.core.results.tables import Named

    scalars = Named(outcome.summary["scalars"], outcome.summary.get("aliases", {}))
    headline = Method[Any, Any, Any](
        method
    ).headline  # loads the method, hence not before the first run is done
    names = [scalars.real(name) for name in headline if name in scalars][:MAX_SCALARS]
    # a line has no space for notes
    texts = [f"{name} {format_scalar(**{**scalars[name], 'note': ''})}" for name in names]
    return "  ".join([*texts, format_seconds(outcome.seconds), *_marks(outcome.summary["warnings"])])


def _marks(warnings: Sequence[str]) -> list[str]:
    """Return what marks the line of a run that has warnings: the first of them."""
    more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
    return [f"WARNING: {shorten(warnings[0].splitlines()[0], MOST_OF_WARNING)}{more}"] if warnings else []


def _close(sweep: Sweep, failed: list[tuple[Point, Done]], stop: str | None) -> None:
    """Say what there is and what is left; end with the code of what went wrong."""
    from qsim.core.errors import QsimError

    # Looked up on the disk: another process may have completed some of them.
    missing = sweep.missing
    if not missing:
        say(
            f"all {len(sweep.points)} decks are complete: qsim collect {shell_path(sweep.folder)} -o table.csv"
        )
        return
    # Stopped decks are no failures: the same command continues them.
    broken = [(point, done) for point, done in failed if done.code not in (STOPPED, INTERRUPTED)]
    for point, done in broken[:MAX_FAILURES]:
        say(f"{point.deck}: {done.message.splitlines()[0] if done.message else done.code}")
        if done.hint:
            say(f"hint: {done.hint}")
    if len(broken) > MAX_FAILURES:
        click.echo(f"... and {len(broken) - MAX_FAILURES} more", err=True)
    reason = f"stopped by {stop}; " if stop else ""
    error = QsimError(
        f"{reason}{len(missing)} of {len(sweep.points)} decks are not complete",
        hint="the same command runs these",
    )
    error.exit_code = broken[0][1].code if broken and not stop else STOPPED  # type: ignore[misc]  # of this one
    raise error
