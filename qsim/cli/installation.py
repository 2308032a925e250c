"""The commands about the installation: ``info``, ``check``, ``warmup``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim import methods
from qsim.cli.arguments import MethodName, device_option, require_method
from qsim.cli.terminal import columns, one_line, print_json, print_path, say
from qsim.core.text import format_bytes
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.examples.check import Case, Report

__all__ = ["check", "info", "warmup"]

# Seconds of a deck whose kernels are recorded: long ones have called them all by then.
RECORDED = 35.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def info(as_json: bool) -> None:
    """Print versions, devices and settings, for a bug report."""
    content = _machine()
    if as_json:
        print_json(content)
        return
    rows: list[tuple[str, str]] = []
    # One row per entry: nested mappings and lists are spread, so that a bug report can be read
    # line by line.
    for name, value in content.items():
        if isinstance(value, dict):
            rows += [(f"{name}: {key}", str(item)) for key, item in value.items()]
        elif isinstance(value, list):
            rows += [(f"{name} {index}", one_line(item)) for index, item in enumerate(value)] or [
                (name, "none")
            ]
        else:
            rows.append((name, str(value)))
    click.echo(columns(rows))


def _machine() -> dict[str, Any]:
    """Return versions, devices and settings."""
    import platform

    from qsim.core.device.device import cuda_status, select
    from qsim.core.device.hardware import available_threads, cpu_name, free_host_memory
    from qsim.core.run.provenance import git_state, versions

    status = cuda_status()
    # Whatever may change where or how a run computes.
    prefixes = ("QSIM_", "CUDA_", "CUPY_", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "NCCL_", "SLURM_JOB")
    return {
        "qsim": __version__,
        "git": git_state(),
        "methods": ", ".join(methods.available()) or "none",
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "threads": available_threads(),
        "memory_free": format_bytes(free_host_memory()),
        "versions": versions(),
        "cuda": str(status) + (f" ({status.reason})" if status.reason else ""),
        "gpu": [select(f"cuda:{index}")[0].describe() for index in range(status.count)],
        "environment": {key: os.environ[key] for key in sorted(os.environ) if key.startswith(prefixes)},
        "cache": {
            "cupy": os.environ.get("CUPY_CACHE_DIR", str(Path.home() / ".cupy" / "kernel_cache")),
            "numba": os.environ.get("NUMBA_CACHE_DIR", "__pycache__ beside the modules"),
        },
    }


@click.command()
@click.argument("method", type=MethodName(), required=False)
@click.option("--deck", metavar="NAME", help="Only the deck of this name.")
@device_option
@click.option("--update", is_flag=True, help="Rewrite the references' own values instead (in a checkout).")
@click.option("--slow", is_flag=True, help="Also the decks that take long.")
@click.option(
    "--coverage", metavar="N", type=click.IntRange(1), help="Run N random decks per method instead."
)
@click.option("--seed", metavar="S", type=click.IntRange(0), help="Seed of the random decks (default 1).")
@click.option("--kind", metavar="K", help="Random decks of this kind alone; METHOD must be named.")
@click.option(
    "--jobs", metavar="J", type=click.IntRange(1), help="Processes for the random decks (default 1)."
)
def check(  # noqa: PLR0913  # one parameter per option
    method: str | None,
    deck: str | None,
    device: str | None,
    update: bool,
    slow: bool,
    coverage: int | None,
    seed: int | None,
    kind: str | None,
    jobs: int | None,
) -> None:
    """Run the reference decks and compare with stored numbers: a test of the installation.

    With --coverage, run random decks and hold every claimed error against the truth.

    Exit with 7 if something differs.
    """
    # Random decks are another program: options of the reference decks are refused, not ignored.
    if coverage is not None:
        if deck is not None or update or slow:
            raise click.UsageError("--coverage draws its own decks; --deck, --update and --slow do not apply")
        _check_kind(method, kind)
        drawn = {"seed": 1 if seed is None else seed, "device": device, "kind": kind, "jobs": jobs or 1}
        _check_coverage([method] if method else methods.available(), coverage, drawn)
        return
    if seed is not None or kind is not None or jobs is not None:
        raise click.UsageError("--seed, --kind and --jobs belong to --coverage")
    from qsim.core.errors import MismatchError
    from qsim.core.examples.check import cases, folders

    place = folders()
    if update and not place.writable:
        raise click.UsageError("--update works in a checkout, not in an installed qsim")
    chosen = cases([method] if method else methods.available(), place, deck)
    # A deck that is named runs, slow or not.
    skipped = [case for case in chosen if case.slow and not slow and deck is None]
    chosen = [case for case in chosen if case not in skipped]
    if not chosen:
        raise click.UsageError(f"no reference deck{f' named {deck}' if deck else ''} to run")
    if update:
        _update(chosen, device)
        return
    failed = [report for case in chosen if not (report := _check_one(case, device)).ok]
    if skipped:
        click.echo(f"{len(skipped)} slow decks left out; --slow runs them", err=True)
    if failed:
        raise MismatchError(f"{len(failed)} of {len(chosen)} decks differ from their references")
    click.echo(f"{len(chosen)} decks agree with their references", err=True)


def _check_kind(method: str | None, kind: str | None) -> None:
    """Refuse a kind of random decks that the method does not have."""
    from qsim_checks.coverage import kinds

    if kind is None:
        return
    if method is None:
        raise click.UsageError(
            "--kind needs the method whose decks it names: qsim check METHOD --coverage N --kind K"
        )
    allowed = kinds(method)
    if kind not in allowed:
        raise click.UsageError(f"{method} has no random decks of kind '{kind}'; it has {', '.join(allowed)}")


def _check_coverage(names: Sequence[str], count: int, drawn: Mapping[str, Any]) -> None:
    """Run random decks of methods, print the table, and end with 7 if a claim does not hold."""
    from qsim.core.errors import MismatchError
    from qsim_checks.coverage import HEADER, Judged, cover, table

    kind = f" --kind {drawn['kind']}" if drawn["kind"] else ""

    def report(judged: Judged) -> None:
        place = f"{judged.method} --seed {judged.seed}{kind}, trial {judged.index}"
        if judged.failure is not None:
            say(f"FAIL {place}: {judged.failure}")
        for claim in judged.broken:
            click.echo(
                f"FAIL {place}: {claim.quantity} is off by {claim.difference:.3g}; "
                f"claimed {claim.claimed:.3g}, requested {claim.requested:.3g}",
                err=True,
            )

    # Claims that do not hold are printed when they are found, the table of all at the end.
    outcomes = [cover(name, count, report=report, **drawn) for name in names]
    click.echo(columns(table(outcomes), HEADER))
    if broken := [coverage.method for coverage in outcomes if not coverage.ok]:
        raise MismatchError(f"claimed errors do not hold: {', '.join(broken)}")


def _check_one(case: Case, device: str | None) -> Report:
    from qsim.core.examples.check import run_case

    # Results are compared and thrown away.
    with tempfile.TemporaryDirectory(prefix="qsim-check-") as folder:
        report = run_case(case, Path(folder), device)
    click.echo(f"{'ok  ' if report.ok else 'FAIL'} {report.seconds:7.2f} s  {report}", err=True)
    return report


def _update(chosen: Iterable[Case], device: str | None) -> None:
    from qsim.core.examples.check import update

    for case in chosen:
        with tempfile.TemporaryDirectory(prefix="qsim-check-") as folder:
            changed = update(case, Path(folder), device)
        click.echo(f"{case.name}: {', '.join(changed) or 'unchanged'}", err=True)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1, metavar="[METHOD]...")
@device_option
@click.option("--record", is_flag=True, help="Also write down which kernels each deck needs (in a checkout).")
def warmup(folder: Path, names: tuple[str, ...], device: str | None, record: bool) -> None:
    """Compile the kernels of all methods, or of those named, into FOLDER, for jobs that start at once.

    Jobs copy it to a folder of their node; see the scripts of 'Run on a cluster'. The reference decks are run for it, which
    takes minutes.
    """
    from qsim.core.device.compilers.caches import keep_kernels_in
    from qsim.core.results.atomic import refuse_controls

    for name in names:
        require_method(name)
    refuse_controls(folder)
    # Before anything that imports numba or CuPy, which read their cache folders once.
    keep_kernels_in(folder.absolute())
    from qsim.core.examples.check import cases, folders, run_case

    known = cases(list(names) or methods.available(), folders(), None)
    if record:
        _record(known, device)
        print_path(folder)
        return
    for case in known:
        if case.slow:
            continue
        with tempfile.TemporaryDirectory(prefix="qsim-warmup-") as place:
            report = run_case(case, Path(place), device)
        click.echo(f"{report.seconds:7.2f} s  {case.name}", err=True)
    print_path(folder)


def _record(cases: Sequence[Case], device: str | None) -> None:
    """Write the tables of kernels that decks need on a device, the CPU unless another is named."""
    from qsim.core.examples.check import folders
    from qsim.core.examples.kernels import record_tables

    if not folders().writable:
        raise click.UsageError("--record works in a checkout, not in an installed qsim")

    def tell(name: str, kernels: int) -> None:
        click.echo(f"{kernels:4d} kernels  {name}", err=True)

    for path in record_tables(cases, device or "cpu", RECORDED, tell):
        print_path(path)
