"""Output of all commands: aligned columns, warnings, JSON, names of files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from qsim.core.text import json_text, printable

__all__ = ["columns", "one_line", "print_json", "print_path", "say", "say_warnings"]


def columns(rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return rows of texts as aligned columns; nothing is cut or folded, so that paths can be copied.

    Control characters are escaped: the texts may come from a deck or a results file.
    """
    lines = [list(header)] if header else []
    lines += [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    if header:
        texts[0] = click.style(texts[0], bold=True)
    return "\n".join(texts)


def one_line(value: object) -> str:
    """Return a value as one line; numbers with six digits."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {one_line(item)}" for name, item in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def say(text: str) -> None:
    """Print a line on standard error; names in it may hold anything."""
    click.echo(printable(text), err=True)


def say_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error, one per line."""
    for warning in warnings:
        click.secho(f"warning: {printable(warning)}", fg="yellow", err=True)


def print_path(path: Path) -> None:
    """Print the path of a file that was written: as it is for a program, escaped on a terminal."""
    click.echo(printable(str(path)) if sys.stdout.isatty() else str(path))


def print_json(content: object) -> None:
    """Print a value as strict JSON on standard output."""
    from qsim.core.results.jsonable import json_ready

    click.echo(json_text(json_ready(content)))
