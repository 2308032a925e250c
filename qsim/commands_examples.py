"""The command ``qsim examples``, and the decks that ``qsim init --example`` prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from qsim import methods
from qsim.terminal import columns, name_written, say

if TYPE_CHECKING:
    from qsim.core.run.examples import Example

__all__ = ["examples", "print_example"]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
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
    from qsim.core.run.examples import copy_example
    from qsim.core.run.examples import examples as listed
    from qsim.core.run.files import require_folder

    if method is not None and not methods.is_available(method):
        raise click.UsageError(methods.refusal(method))
    chosen = [method] if method else methods.available()
    if not names:
        rows = [(each.method, each.name, each.title, "long" if each.long else "") for each in listed(chosen)]
        click.echo(columns(rows, ("method", "name", "computes", "")))
        click.echo("'qsim examples NAME' copies a deck here, 'qsim METHOD NAME.yaml' runs it", err=True)
        return
    folder = output or Path()
    require_folder(folder)
    found = [_example(name, chosen) for name in names]
    for example in found:
        for path in copy_example(example, folder, force=force):
            name_written(path)


def print_example(name: str, method: str) -> None:
    """Print a deck of a method as it is written; on standard error, what it needs beside it."""
    example = _example(name, [method])
    click.echo(example.text(), nl=False)
    if example.files:
        files = ", ".join(path.name for path in example.files)
        say(f"it reads {files}; 'qsim examples {name}' copies deck and files")


def _example(name: str, chosen: list[str]) -> Example:
    """Return the deck of a name, or fail with the nearest name."""
    import difflib

    from qsim.core.run.examples import examples as listed

    known = {each.name: each for each in listed(chosen)}
    found = known.get(name.removesuffix(".yaml"))
    if found is None:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"; did you mean '{close[0]}'?" if close else ""
        if methods.is_available(name):
            guess = f"; 'qsim examples --method {name}' lists the decks of {name}"
        where = f" of {chosen[0]}" if len(chosen) == 1 else ""
        raise click.UsageError(f"no example{where} is called '{name}'{guess} ('qsim examples' lists them)")
    return found
