"""What several commands print: aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from qsim.core.text import printable

__all__ = ["columns"]


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
