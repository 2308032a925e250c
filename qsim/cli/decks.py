"""The commands about decks before they run: ``init``, ``examples``, ``schema``, ``validate``.

Click is the only import that is not made inside a command: ``qsim --help`` lists these commands and must be fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim import methods
from qsim.cli.arguments import DeckFile, ExampleName, MethodName, TaskName, TypeName, require_method
from qsim.cli.terminal import columns, print_json, print_path, say
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.errors import Diagnostic, QsimError
    from qsim.core.examples.catalogue import Example

__all__ = ["examples", "findings_of", "init", "of_another_method", "schema", "validate"]


@click.command()
@click.argument("method", type=MethodName())
@click.option("--full", is_flag=True, help="Every key with its default, unit and meaning.")
@click.option(
    "--example", metavar="NAME", type=ExampleName(), help="One of the decks that 'qsim examples' lists."
)
@click.option(
    "--task", metavar="TASK", type=TaskName(), help="Only the keys of this task, such as levels of trotter."
)
@click.option(
    "--type",
    "type_",
    metavar="TYPE",
    type=TypeName(),
    help="Only the keys of this type of system, such as model of qoc.",
)
def init(method: str, full: bool, example: str | None, task: str | None, type_: str | None) -> None:
    """Print a commented deck to start from."""
    if example is not None:
        if full:
            raise click.UsageError("--full and --example exclude each other")
        _print_example(example, method)
        return
    from qsim.core.deck.fields import tasks_of, types_of
    from qsim.core.deck.template import template
    from qsim.core.run.stages import stage

    # The deck module alone is imported: a template needs no kernels.
    model = stage(method, "deck").DECK
    known = tasks_of(model.variants())
    types = types_of(model.variants())
    # Every key of one task or type makes a deck that runs; those of all would not.
    if full and task is None and type_ is None and known:
        task, *others = known
        say(f"every key of task: {task}; --task prints the keys of {', '.join(others)}")
    if full and type_ is None and not known and len(types) > 1:
        say(f"every key of what qsim init {method} begins; --type prints those of system: {', '.join(types)}")
    for what, name, names in (("task", task, known), ("type", type_, list(types))):
        if name is not None and name not in names:
            listing = f"its {what}s: {', '.join(names)}" if names else f"its decks have no {what}"
            raise click.UsageError(f"{method} has no {what} '{name}'; {listing}")
    if task is not None and type_ is not None:
        raise click.UsageError("--task and --type exclude each other")
    chosen = model.model_for({"task": task}) if task else types.get(type_ or "", model)
    click.echo(template(chosen, full=full, task=task or "", type_=type_ or ""), nl=False)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", type=ExampleName())
@click.option("--method", metavar="METHOD", help="Only the decks of this method.")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder to copy to; by default here.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
def examples(names: tuple[str, ...], method: str | None, output: Path | None, force: bool) -> None:
    """List the decks that come with qsim, or copy those NAMEd here."""
    from qsim.core.examples.catalogue import copy_example
    from qsim.core.examples.catalogue import examples as listed
    from qsim.core.run.files.paths import require_folder

    if method is not None:
        require_method(method)
    chosen = [method] if method else methods.available()
    if not names:
        rows = [(each.method, each.name, each.title, "long" if each.long else "") for each in listed(chosen)]
        click.echo(columns(rows, ("method", "name", "computes", "")))
        click.echo("'qsim examples NAME' copies a deck here, 'qsim METHOD NAME.yaml' runs it", err=True)
        return
    folder = output or Path()
    require_folder(folder)
    # all names are known before the first file is written
    for example in [_example(name, chosen) for name in names]:
        for path in copy_example(example, folder, force=force):
            print_path(path)


def _print_example(name: str, method: str) -> None:
    """Print a deck of a method as it is written; on standard error, what it needs beside it."""
    example = _example(name, [method])
    click.echo(example.text(), nl=False)
    if example.files:
        files = ", ".join(path.name for path in example.files)
        say(f"it reads {files}; 'qsim examples {name}' copies deck and files")


def _example(name: str, chosen: list[str]) -> Example:
    """Return the deck of a name, or fail with the nearest name."""
    import difflib

    from qsim.core.examples.catalogue import examples as listed

    known = {each.name: each for each in listed(chosen)}
    example = known.get(name.removesuffix(".yaml"))
    if example is None:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"; did you mean '{close[0]}'?" if close else ""
        if methods.is_available(name):
            guess = f"; 'qsim examples --method {name}' lists the decks of {name}"
        where = f" of {chosen[0]}" if len(chosen) == 1 else ""
        raise click.UsageError(f"no example{where} is called '{name}'{guess} ('qsim examples' lists them)")
    return example


@click.command()
@click.argument("method", type=MethodName(), required=False)
@click.option(
    "--summary",
    "of_summary",
    is_flag=True,
    help="The schema of what --json prints and NAME.summary.json holds.",
)
def schema(method: str | None, of_summary: bool) -> None:
    """Print the JSON Schema of decks, for editors.

    Without METHOD, the schema takes the decks of all methods.
    """
    if of_summary:
        if method is not None:
            raise click.UsageError("--summary is the same for all methods: leave METHOD out")
        from qsim.core.results.summary import SCHEMA

        print_json(SCHEMA)
        return
    from qsim.core.deck.template import schema as schema_of
    from qsim.core.run.stages import stage

    if method is not None:
        print_json(schema_of(stage(method, "deck").DECK))
        return
    # A deck is of one method: the schema of all is a choice of theirs.
    choices: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    dialect = ""
    for name in methods.available():
        # blocks of different methods may share a name, but not a definition
        text = json.dumps(schema_of(stage(name, "deck").DECK)).replace('"#/$defs/', f'"#/$defs/{name}.')
        one = json.loads(text)
        definitions |= {f"{name}.{key}": block for key, block in one.pop("$defs", {}).items()}
        # a part of one document has the base of that
        dialect = one.pop("$schema")
        one.pop("$id", None)
        choices.append(one)
    about = {"$schema": dialect, "$id": f"urn:qsim:schema:{__version__}:deck", "title": "deck of qsim"}
    print_json({**about, "oneOf": choices, "$defs": definitions})


@click.command()
@click.argument("decks", type=DeckFile(), nargs=-1, required=True, metavar="DECK...")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def validate(ctx: click.Context, decks: tuple[Path, ...], as_json: bool) -> None:
    """Check decks without running them: keys, values, units and physics."""
    from qsim.core.deck.load import peek_method
    from qsim.core.errors import DeckError, QsimError
    from qsim.core.run.examine import examine

    findings: list[dict[str, Any]] = []
    code = 0
    # Every deck is examined, whatever the others are like.
    for path in decks:
        method: str | None = None
        diagnostics: list[Diagnostic] = []
        failure: str | None = None
        hint: str | None = None
        try:
            method = peek_method(path)
            if not methods.is_available(method):
                raise _foreign(path)
            diagnostics = examine(method, path)
        except QsimError as error:
            error = of_another_method(error, method, path)
            diagnostics = list(getattr(error, "diagnostics", ()))
            failure = None if diagnostics else str(error)
            hint = error.hint
            # A mistake in a deck wins over a file that cannot be read.
            code = DeckError.exit_code if isinstance(error, DeckError) else code or error.exit_code
        valid = failure is None and not any(diagnostic.severity == "error" for diagnostic in diagnostics)
        for diagnostic in diagnostics:
            click.echo(str(diagnostic), err=True)
        if failure or valid:
            say(f"{path}: {failure or 'valid'}")
        if hint:
            say(f"hint: {hint}")
        findings.append(findings_of(path, method, diagnostics, failure))
    if as_json:
        print_json({"valid": all(entry["valid"] for entry in findings), "decks": findings})
    ctx.exit(code)


def findings_of(
    path: Path, method: str | None, diagnostics: Iterable[Diagnostic], failure: str | None
) -> dict[str, Any]:
    """Return the findings about a deck for ``--json``: errors and warnings with their places, or why it cannot be read."""
    problems = [_entry_of(diagnostic) for diagnostic in diagnostics]
    valid = failure is None and not any(problem["severity"] == "error" for problem in problems)
    return {"file": str(path), "method": method, "valid": valid, "problems": problems, "error": failure}


def _foreign(path: Path) -> Exception:
    """Return the error for a deck whose method is not there, placed at its line."""
    from qsim.core.deck.yaml_marks import parse_yaml
    from qsim.core.errors import DeckError

    # The deck was readable a moment ago, when its method was read.
    root, _ = parse_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    node = root.child("method") if root else None
    if node is None:
        return DeckError(f"{path}: names no method")
    return DeckError(node.mark.diagnostic("method", methods.refusal(str(node.value))))


def of_another_method(error: QsimError, method: str | None, path: Path) -> QsimError:
    """Return what to tell of a mistaken deck: in one sentence, if all of its keys are those of another method."""
    from qsim.core.deck.fields import fields_of
    from qsim.core.deck.yaml_marks import parse_yaml
    from qsim.core.errors import DeckError
    from qsim.core.run.stages import stage

    unknown = [item.key for item in getattr(error, "diagnostics", ()) if "unknown key" in item.message]
    foreign = [key for key in unknown if key and "." not in key]
    if method is None or len(foreign) < 2:
        return error

    def keys(name: str) -> set[str]:
        return {key for variant in stage(name, "deck").DECK.variants() for key in fields_of(variant)}

    # The deck was readable a moment ago, when its mistakes were found.
    root, _ = parse_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    written = set() if root is None else set(root.value)
    others = [name for name in methods.available() if name != method]
    meant = [name for name in others if set(foreign) <= written <= keys(name)]
    node = None if root is None else root.child("method")
    if len(meant) != 1 or node is None:
        return error
    named = f"if a deck of {meant[0]} is meant, write method: {meant[0]}"
    text = f"{', '.join(foreign)} are keys of {meant[0]}, not of {method}; {named}"
    return DeckError(node.mark.diagnostic("method", text))


def _entry_of(diagnostic: Diagnostic) -> dict[str, Any]:
    names = ("file", "line", "column", "key", "message", "severity")
    return {name: getattr(diagnostic, name) for name in names}
