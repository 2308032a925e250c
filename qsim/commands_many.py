"""The commands about many runs: sweeps over keys of a deck, and one table of their results."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim import methods
from qsim.commands import DeckFile, columns, device_name, format_scalar, format_seconds
from qsim.terminal import name_written, say

if TYPE_CHECKING:
    from qsim.core.run.sweep import Axis, Done, Point, Sweep

__all__ = ["COMMANDS"]

STOPPED = 75
SHOWN = 2
"""Scalars shown in the line of a deck that is done."""
LISTED = 20
"""Failures listed at the end."""


@click.command()
@click.argument("deck", type=DeckFile())
@click.option(
    "--over",
    "axes",
    metavar="KEY=VALUES",
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
    "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Replace a key of the deck in all runs."
)
@click.option(
    "-o", "--output", metavar="FOLDER", type=click.Path(path_type=Path), help="Folder; by default NAME.sweep."
)
@click.option(
    "--device", metavar="D", callback=device_name, help="Where to compute: auto, cpu, cuda or cuda:N."
)
@click.option("--figures", is_flag=True, help="Draw the figures of every run.")
@click.option("--slurm", is_flag=True, help="Write decks, index and the script of a job array; run nothing.")
@click.option("--dry-run", is_flag=True, help="Show the decks; write and run nothing.")
def sweep(**given: Any) -> None:
    """Run DECK at many values of some keys, in warm processes.

    The folder NAME.sweep gets numbered decks, their index, and the results of each.  The same command again runs what is
    missing, failed or stopped, and nothing else; 'qsim collect NAME.sweep' makes a table of the results.
    """
    _sweep(**given)


def _sweep(
    deck: Path,
    axes: tuple[str, ...],
    zipped: bool,
    overrides: tuple[str, ...],
    output: Path | None,
    **how: Any,
) -> None:
    from qsim.core.deck.load import peek_method
    from qsim.core.device.parallel import launched_ranks
    from qsim.core.run.sweep import parse_axis, points, prepare, write_array

    if launched_ranks() > 1:
        raise click.UsageError("a sweep starts its own processes: --jobs N instead of mpirun or srun")
    method = peek_method(deck)
    if not methods.is_available(method):
        raise click.UsageError(methods.refusal(method))
    try:
        parsed = [parse_axis(text) for text in axes]
        values = points(parsed, zipped=zipped)
    except ValueError as error:
        raise click.UsageError(f"--over {error}") from None
    if how["dry_run"]:
        click.echo(columns([(str(i), *row) for i, row in enumerate(values, 1)], ("number", *_keys(parsed))))
        return
    made = prepare(method, deck, parsed, overrides=overrides, zipped=zipped, folder=output)
    if how["slurm"]:
        if not made.missing:
            click.echo(f"all {len(made.points)} decks are complete; nothing to submit", err=True)
            return
        name_written(write_array(made, at_once=how["jobs"], device=how["device"]))
        return
    _run_sweep(made, jobs=how["jobs"] or 1, device=how["device"], figures=how["figures"])


def _keys(axes: list[Axis]) -> list[str]:
    return [axis.key for axis in axes]


def _run_sweep(sweep: Sweep, *, jobs: int, device: str | None, figures: bool) -> None:
    from qsim.core.run.signals import Signals
    from qsim.core.run.stages import Method
    from qsim.core.run.sweep import run

    total, left = len(sweep.points), len(sweep.missing)
    before = f", {total - left} complete already" if left < total else ""
    say(f"{sweep.method} {sweep.folder}: {total} decks{before}")
    failed: list[tuple[Point, Done]] = []
    first: Callable[[], Any] = lambda: Method[Any, Any, Any](sweep.method).headline  # noqa: E731 - loads the method
    done = 0
    with Signals() as signals:
        command = shlex.join(["qsim", *sys.argv[1:]])
        for point, outcome in run(
            sweep, jobs=jobs, device=device, figures=figures, command=command, stop=lambda: signals.stop
        ):
            done += 1
            if outcome.code:
                failed.append((point, outcome))
            place = f"[{total - left + done}/{total}] {point.deck.stem}  {sweep.settings(point)}"
            say(f"{place}  {_told(outcome, first())}")
        stop = signals.stop
    _close(sweep, failed, stop)


def _told(outcome: Done, headline: Any) -> str:
    if outcome.summary is None:
        kind = "stopped" if outcome.code == STOPPED else "FAILED"
        return f"{kind}: {outcome.message.splitlines()[0] if outcome.message else outcome.code}"
    scalars = outcome.summary["scalars"]
    names = [name for name in headline if name in scalars][:SHOWN]
    told = [f"{name} {format_scalar(**scalars[name])}" for name in names]
    return "  ".join([*told, format_seconds(outcome.seconds)])


def _close(sweep: Sweep, failed: list[tuple[Point, Done]], stop: str | None) -> None:
    """Say what there is and what is left; end with the code of what went wrong."""
    from qsim.core.errors import QsimError

    missing = sweep.missing
    if not missing:
        folder = shlex.quote(str(sweep.folder))
        say(f"all {len(sweep.points)} decks are complete: qsim collect {folder} -o table.csv")
        return
    broken = [(point, done) for point, done in failed if done.code not in (STOPPED, 130)]
    for point, done in broken[:LISTED]:
        say(f"{point.deck}: {done.message.splitlines()[0] if done.message else done.code}")
        if done.hint:
            say(f"hint: {done.hint}")
    if len(broken) > LISTED:
        click.echo(f"... and {len(broken) - LISTED} more", err=True)
    reason = f"stopped by {stop}; " if stop else ""
    error = QsimError(
        f"{reason}{len(missing)} of {len(sweep.points)} decks are not complete",
        hint="the same command runs these",
    )
    error.exit_code = broken[0][1].code if broken and not stop else STOPPED  # type: ignore[misc]  # of this one
    raise error


@click.command()
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUNS...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="Table to write, .csv or .h5, with a figure beside it.",
)
@click.option(
    "--scalar", "names", metavar="NAME", multiple=True, help="Take this scalar only; may be repeated."
)
@click.option("--all", "everything", is_flag=True, help="All scalars, not only the headline of each method.")
@click.option("--force", is_flag=True, help="Replace an existing table and figure.")
@click.option("--no-figures", is_flag=True, help="Draw no figure.")
def collect(
    runs: tuple[Path, ...],
    output: Path,
    names: tuple[str, ...],
    everything: bool,
    force: bool,
    no_figures: bool,
) -> None:
    """Write one table of many runs: every key in which their decks differ, and their scalars with errors.

    RUNS are folders, results files or summaries.
    """
    from qsim.core.results.plotting import FORMATS
    from qsim.core.results.summary import read_summary
    from qsim.core.run import collect as gather
    from qsim.core.run.files import refuse_existing
    from qsim.core.run.stages import Method

    if output.suffix not in (".csv", ".h5", ".hdf5"):
        raise click.UsageError(f"-o {output}: a table is a .csv or a .h5 file")
    stem = output.with_suffix("")
    drawn = [] if no_figures else [stem.with_name(f"{stem.name}.{ending}") for ending in FORMATS]
    if not force:
        refuse_existing([output, *drawn], "-o FILE writes elsewhere")
    found = gather.find_runs(runs)
    kinds = dict.fromkeys(str(read_summary(path)["method"]) for path in found)
    if names or everything:
        chosen = dict.fromkeys(kinds, names)
    else:
        chosen = {k: tuple(Method[Any, Any, Any](k).headline) for k in kinds if methods.is_available(k)}
    table = gather.collect(found, chosen)
    if absent := [name for name in names if name not in {column.name for column in table.columns}]:
        raise click.UsageError(f"no run has the scalar '{absent[0]}'; 'qsim show FILE' lists them")
    command = shlex.join(["qsim", *sys.argv[1:]])
    name_written(gather.write_collection(table, output, overwrite=force, command=command))
    for path in gather.draw_collection(table, stem) if drawn else ():
        name_written(path)
    if lacking := gather.incomplete(runs):
        click.echo(f"{len(lacking)} decks are not complete and not in the table:", err=True)
        for line in lacking[:LISTED]:
            say(f"  {line}")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1, metavar="[METHOD]...")
@click.option(
    "--device", metavar="D", callback=device_name, help="Where to compute: auto, cpu, cuda or cuda:N."
)
def warmup(folder: Path, names: tuple[str, ...], device: str | None) -> None:
    """Compile the kernels of all methods, or of those named, into FOLDER, for jobs that start at once.

    Jobs copy it to a folder of their node; see the scripts of 'Run on a cluster'. The reference decks are run for it, which
    takes minutes.
    """
    import tempfile

    from qsim.core.device.caches import keep_kernels_in
    from qsim.core.results.atomic import refuse_controls

    if wrong := [name for name in names if not methods.is_available(name)]:
        raise click.UsageError(methods.refusal(wrong[0]))
    refuse_controls(folder)
    keep_kernels_in(folder.absolute())
    from qsim.core.run.check import cases, folders, run_case

    chosen = [case for case in cases(list(names) or methods.available(), folders(), None) if not case.slow]
    for case in chosen:
        with tempfile.TemporaryDirectory(prefix="qsim-warmup-") as place:
            report = run_case(case, Path(place), device)
        click.echo(f"{report.seconds:7.2f} s  {case.name}", err=True)
    name_written(folder)


COMMANDS: dict[str, click.Command] = {"sweep": sweep, "collect": collect, "warmup": warmup}
