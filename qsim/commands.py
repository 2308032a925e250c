"""The helper commands: everything about decks and results that is not running them.

Click is the only import that is not made inside a command: ``qsim --help`` lists these commands and must be
fast.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from qsim import commands_examples, commands_results, methods
from qsim.core.text import (
    format_bytes,
    format_scalar,
    format_seconds,
    grouped,
    json_text,
    printable,
)
from qsim.terminal import columns, say
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.deck.blocks import Deck
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.errors import Diagnostic
    from qsim.core.results.results import Results
    from qsim.core.run.check import Case, Report

__all__ = [
    "COMMANDS",
    "DeckFile",
    "columns",
    "device_name",
    "findings_of",
    "format_bytes",
    "format_scalar",
    "format_seconds",
    "grouped",
    "say_warnings",
]

DECK_SUFFIXES = (".yaml", ".yml")

# ------------------------------------------------------------------------------------- argument types


class _FileOf(click.Path):
    """A path that shells complete by its suffix."""

    suffixes: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the files with the right suffix, and the folders on the way to them."""
        head, tail = os.path.split(incomplete)
        prefix = incomplete.removesuffix(tail)
        try:
            entries = sorted(os.scandir(head or "."), key=lambda entry: entry.name)
        except OSError:
            return []
        offered = []
        for entry in entries:
            if not entry.name.startswith(tail) or (entry.name.startswith(".") and not tail):
                continue
            if entry.is_dir():
                offered.append(CompletionItem(f"{prefix}{entry.name}/"))
            elif entry.name.endswith(self.suffixes):
                offered.append(CompletionItem(f"{prefix}{entry.name}"))
        return offered


class DeckFile(_FileOf):
    """A deck; that it exists is checked when it is read, with a suggestion if it does not."""

    name = "deck"
    suffixes = DECK_SUFFIXES


class ResultsFile(_FileOf):
    """A results file."""

    name = "file"
    suffixes = (".h5", ".hdf5")


class MethodName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """The name of a method that is part of this installation."""

    name = "method"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail saying what there is."""
        if not methods.is_available(value):
            self.fail(methods.refusal(value), param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the methods of this installation."""
        names = [name for name in methods.available() if name.startswith(incomplete)]
        return [CompletionItem(name, help=methods.TABLE[name]) for name in names]


def device_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the option ``--device``."""
    if value is not None and not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value.strip().lower()):
        raise click.BadParameter(f"'{value}' is not auto, cpu, cuda or cuda:N")
    return value


# ------------------------------------------------------------------------------------------ terminal


def say_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error, one per line."""
    for warning in warnings:
        click.secho(f"warning: {printable(warning)}", fg="yellow", err=True)


def _print_json(content: Any) -> None:
    from qsim.core.results.jsonable import json_ready

    click.echo(json_text(json_ready(content)))


# ------------------------------------------------------------------------------------------ decks


@click.command()
@click.argument("method", type=MethodName())
@click.option("--full", is_flag=True, help="Every key with its default, unit and meaning.")
@click.option("--example", metavar="NAME", help="One of the decks that 'qsim examples' lists.")
@click.option("--task", help="Task whose deck has keys of its own, such as atom of tridiag.")
def init(method: str, full: bool, example: str | None, task: str | None) -> None:
    """Print a commented deck to start from."""
    if example is not None:
        if full:
            raise click.UsageError("--full and --example exclude each other")
        commands_examples.print_example(example, method)
        return
    from qsim.core.deck.template import template
    from qsim.core.run.stages import stage

    model = stage(method, "deck").DECK
    if task is not None and task not in (known := _tasks(model)):
        listing = f"its tasks: {', '.join(known)}" if known else "its decks have no task"
        raise click.UsageError(f"{method} has no task '{task}'; {listing}")
    click.echo(template(model.model_for({"task": task}) if task else model, full=full), nl=False)


def _tasks(model: type[Deck]) -> list[str]:
    """Return the tasks that decks of a method may name."""
    from qsim.core.deck.fields import Annotation, fields_of, literals, tags

    kinds = [
        Annotation.of_field(fields_of(one)["task"]) for one in model.variants() if "task" in fields_of(one)
    ]
    return list(dict.fromkeys(str(name) for kind in kinds for name in (literals(kind) or tags(kind))))


@click.command()
@click.argument("method", type=MethodName(), required=False)
def schema(method: str | None) -> None:
    """Print the JSON Schema of decks, for editors.

    Without METHOD, the schema takes the decks of all methods.
    """
    from qsim.core.deck.template import schema as schema_of
    from qsim.core.run.stages import stage

    if method is not None:
        _print_json(schema_of(stage(method, "deck").DECK))
        return
    choices: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for name in methods.available():
        # blocks of different methods may share a name, but not a definition
        text = json.dumps(schema_of(stage(name, "deck").DECK)).replace('"#/$defs/', f'"#/$defs/{name}.')
        one = json.loads(text)
        definitions |= {f"{name}.{key}": block for key, block in one.pop("$defs", {}).items()}
        choices.append(one)
    _print_json({"title": "qsim deck", "oneOf": choices, "$defs": definitions})


@click.command()
@click.argument("decks", type=DeckFile(), nargs=-1, required=True, metavar="DECK...")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.pass_context
def validate(ctx: click.Context, decks: tuple[Path, ...], as_json: bool) -> None:
    """Check decks without running them: keys, values, units and physics."""
    from qsim.core.deck.load import peek_method
    from qsim.core.errors import DeckError, QsimError

    found: list[dict[str, Any]] = []
    code = 0
    for path in decks:
        method: str | None = None
        diagnostics: list[Diagnostic] = []
        failure: str | None = None
        try:
            method = peek_method(path)
            diagnostics = _examine(method, path)
        except QsimError as error:
            diagnostics = list(getattr(error, "diagnostics", ()))
            failure = None if diagnostics else str(error)
            code = DeckError.exit_code if isinstance(error, DeckError) else code or error.exit_code
        valid = failure is None and not any(diagnostic.severity == "error" for diagnostic in diagnostics)
        for diagnostic in diagnostics:
            click.echo(str(diagnostic), err=True)
        if failure or valid:
            say(f"{path}: {failure or 'valid'}")
        found.append(findings_of(path, method, diagnostics, failure))
    if as_json:
        _print_json({"valid": all(entry["valid"] for entry in found), "decks": found})
    ctx.exit(code)


def findings_of(
    path: Path, method: str | None, diagnostics: Iterable[Diagnostic], failure: str | None
) -> dict[str, Any]:
    """Return what was found about a deck, for ``--json``: errors and warnings with their places, or why it cannot be read."""
    problems = [_entry_of(diagnostic) for diagnostic in diagnostics]
    valid = failure is None and not any(problem["severity"] == "error" for problem in problems)
    return {"file": str(path), "method": method, "valid": valid, "problems": problems, "error": failure}


def _examine(method: str, path: Path) -> list[Diagnostic]:
    """Return the warnings about a valid deck; raise DeckError for the mistakes of another."""
    from qsim.core.deck.load import load_deck
    from qsim.core.run.stages import stage, unknown_figures

    if not methods.is_available(method):
        raise _foreign(path)
    loaded: LoadedDeck[Any] = load_deck(path, stage(method, "deck").DECK)
    findings = [
        *loaded.deck.check(),
        *loaded.doubts(),
        *unknown_figures(loaded.deck, stage(method, "output")),
        *stage(method, "build").plan(loaded).findings,
    ]
    loaded.raise_for(findings)
    return [loaded.diagnostic(finding) for finding in findings]


def _foreign(path: Path) -> Exception:
    """Return the error for a deck whose method is not there, placed at its line."""
    from qsim.core.deck.yaml_marks import parse_yaml
    from qsim.core.errors import DeckError

    root, _ = parse_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    node = root.child("method") if root else None
    if node is None:
        return DeckError(f"{path}: names no method")
    return DeckError(node.mark.diagnostic("method", methods.refusal(str(node.value))))


def _entry_of(diagnostic: Diagnostic) -> dict[str, Any]:
    names = ("file", "line", "column", "key", "message", "severity")
    return {name: getattr(diagnostic, name) for name in names}


# ------------------------------------------------------------------------------------------ machine


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def info(as_json: bool) -> None:
    """Print versions, devices and settings, for a bug report."""
    content = _machine()
    if as_json:
        _print_json(content)
        return
    rows: list[tuple[str, str]] = []
    for name, value in content.items():
        if isinstance(value, dict):
            rows += [(f"{name}: {key}", str(item)) for key, item in value.items()]
        elif isinstance(value, list):
            rows += [(f"{name} {index}", _one_line(item)) for index, item in enumerate(value)] or [
                (name, "none")
            ]
        else:
            rows.append((name, str(value)))
    click.echo(columns(rows))


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_one_line(item)}" for name, item in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _machine() -> dict[str, Any]:
    import platform

    from qsim.core.device.device import cuda_status, select
    from qsim.core.device.hardware import available_threads, cpu_name, free_host_memory
    from qsim.core.run.provenance import git_state, versions

    status = cuda_status()
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


# ------------------------------------------------------------------------------------------ results


@click.command()
@click.argument("file", type=ResultsFile())
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--deck", is_flag=True, help="Print the deck of the run, as it was written.")
def show(file: Path, as_json: bool, deck: bool) -> None:
    """Print scalars, tables and provenance of a results file."""
    from qsim.core.results.results import open_results

    with open_results(file) as results:
        if deck:
            text = str(results.provenance.get("deck_text", ""))  # a file or a pipe gets it as it was
            click.echo(printable(text, newlines=True) if sys.stdout.isatty() else text, nl=False)
        elif as_json:
            _print_json(_content(results))
        else:
            _show(results)


def _content(results: Results) -> dict[str, Any]:
    return {
        "file": str(results.path),
        "method": results.method,
        "title": results.title,
        "status": results.status,
        "created": results.created,
        "format_version": results.format_version,
        "scalars": {
            name: {"value": s.value, "error": s.error, "unit": s.unit, "description": s.description}
            for name, s in results.scalars.items()
        },
        "tables": {
            name: {
                "shape": results.shape(name),
                "dims": results.dims(name),
                "unit": results.unit(name),
                "description": results.description(name),
            }
            for name in results.names
        },
        "provenance": results.provenance,
        "log": results.log,
    }


def _show(results: Results) -> None:
    content = _content(results)
    click.echo(
        columns((name, str(content[name])) for name in ("file", "method", "title", "status", "created"))
    )
    scalars = [
        (name, format_scalar(entry["value"], entry["unit"], entry["error"], digits=12), entry["description"])
        for name, entry in content["scalars"].items()
    ]
    click.echo("\n" + columns(scalars, ("scalar", "value", "meaning")))
    tables = [
        (name, " x ".join(map(str, t["shape"])), ", ".join(t["dims"]), t["unit"], t["description"])
        for name, t in content["tables"].items()
    ]
    click.echo("\n" + columns(tables, ("table", "shape", "axes", "unit", "meaning")))
    long = ("deck", "deck_text", "physics")  # --deck and --json print these
    provenance = [(name, _one_line(v)) for name, v in content["provenance"].items() if name not in long]
    click.echo("\n" + columns(provenance, ("provenance", "")))


@click.command()
@click.argument("first", type=ResultsFile(), metavar="A")
@click.argument("second", type=ResultsFile(), metavar="B")
@click.option(
    "--rtol", type=click.FloatRange(min=0), default=1e-9, show_default=True, help="Relative tolerance."
)
@click.option(
    "--atol", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Absolute tolerance."
)
@click.option(
    "--sigmas", type=click.FloatRange(min=0), default=3.0, show_default=True, help="Allowed standard errors."
)
@click.option("--only", metavar="NAME", multiple=True, help="Only this scalar or array; may be repeated.")
@click.option(
    "--headline", is_flag=True, help="Only the scalars that a run shows first, without diagnostics."
)
@click.option("--all", "show_all", is_flag=True, help="Also show quantities that agree.")
def compare(first: Path, second: Path, only: tuple[str, ...], headline: bool, **how: Any) -> None:
    """Compare scalars and arrays of two results files; exit with 7 if they differ.

    Numbers agree within rtol times their size (arrays: their largest element) plus atol plus sigmas times
    their combined standard error.
    """
    from qsim.core.results.results import open_results

    with open_results(first) as a, open_results(second) as b:
        names = {*only, *(_headline_of(a) if headline else ())}
        if unknown := sorted(
            name for name in only if not any(name in r.scalars or name in r for r in (a, b))
        ):
            raise click.UsageError(f"neither file has '{unknown[0]}'; 'qsim show FILE' lists names")
        _compare(a, b, names, **how)


def _headline_of(results: Results) -> Sequence[str]:
    from qsim.core.run.stages import Method

    if not methods.is_available(results.method):
        raise click.UsageError(methods.refusal(results.method))
    return list(Method[Any, Any, Any](results.method).headline)


def _compare(
    a: Results, b: Results, names: set[str], *, rtol: float, atol: float, sigmas: float, show_all: bool
) -> None:
    """Print differences of two files, of some quantities if there are names; fail if there are any."""
    from qsim.core.errors import MismatchError
    from qsim.core.results.compare import Tolerance, compare_results

    found = compare_results(a, b, Tolerance(rtol, atol, sigmas))
    found = [item for item in found if not names or item.name in names or item.name == "method"]
    different = [item for item in found if not item.same]
    if rows := found if show_all else different:
        table = (
            (
                "" if i.same else "differs",
                i.name,
                i.first,
                i.second,
                _number(i.difference),
                _number(i.allowed),
                i.note,
            )
            for i in rows
        )
        click.echo(columns(table, ("", "quantity", "A", "B", "difference", "allowed", "")))
    if different:
        raise MismatchError(f"{len(different)} of {len(found)} quantities differ")
    click.echo(f"{len(found)} quantities agree", err=True)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


# ------------------------------------------------------------------------------------------ check


@click.command()
@click.argument("method", type=MethodName(), required=False)
@click.option("--deck", metavar="NAME", help="Only the deck of this name.")
@click.option("--device", metavar="D", help="Where to compute: auto, cpu, cuda or cuda:N.")
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
    from qsim.core.run.check import cases, folders

    place = folders()
    if update and not place.writable:
        raise click.UsageError("--update works in a checkout, not in an installed qsim")
    chosen = cases([method] if method else methods.available(), place, deck)
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
    from qsim.core.run.coverage import kinds

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
    from qsim.core.run.coverage import HEADER, Judged, cover, table

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

    found = [cover(name, count, report=report, **drawn) for name in names]
    click.echo(columns(table(found), HEADER))
    if broken := [coverage.method for coverage in found if not coverage.ok]:
        raise MismatchError(f"claimed errors do not hold: {', '.join(broken)}")


def _check_one(case: Case, device: str | None) -> Report:
    import tempfile

    from qsim.core.run.check import run_case

    with tempfile.TemporaryDirectory(prefix="qsim-check-") as folder:
        report = run_case(case, Path(folder), device)
    click.echo(f"{'ok  ' if report.ok else 'FAIL'} {report.seconds:7.2f} s  {report}", err=True)
    return report


def _update(chosen: Iterable[Case], device: str | None) -> None:
    import tempfile

    from qsim.core.run.check import update

    for case in chosen:
        with tempfile.TemporaryDirectory(prefix="qsim-check-") as folder:
            changed = update(case, Path(folder), device)
        click.echo(f"{case.name}: {', '.join(changed) or 'unchanged'}", err=True)


COMMANDS: dict[str, click.Command] = {
    "init": init,
    "validate": validate,
    "schema": schema,
    "show": show,
    "plot": commands_results.plot,
    "view": commands_results.view,
    "compare": compare,
    "cite": commands_results.cite,
    "examples": commands_examples.examples,
    "check": check,
    "info": info,
}
