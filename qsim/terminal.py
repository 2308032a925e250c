"""What several commands print: aligned columns, names of files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from qsim.core.text import printable

__all__ = ["columns", "name_written", "say"]


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


def say(text: str) -> None:
    """Print a line on standard error; names in it may hold anything."""
    click.echo(printable(text), err=True)


def name_written(path: Path) -> None:
    """Print the path of a file that was made: as it is for a program, escaped on a terminal."""
    click.echo(printable(str(path)) if sys.stdout.isatty() else str(path))
