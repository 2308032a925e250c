"""Mistakes in a deck that several tasks look for, and how a run reports one at its key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from qsim.core.deck.blocks import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Blame", "partition_findings"]

Blame = Callable[[str, str], NoReturn]
"""Raises a mistake that only the run finds out: the key of the deck, and what is wrong."""


def partition_findings(blocks: int | str | list[int], n: int, whole: str, unit: str) -> Iterator[Finding]:
    """Yield partitions that n rows have no room for; `whole` says how many there are, `unit` what they are."""
    if isinstance(blocks, list):
        if sum(blocks) != n:
            yield Finding("solver.blocks", f"the blocks hold {sum(blocks)} rows, but {whole}")
        # row 0 is a joint line without a block of its own, so that block 0 holds two
        if blocks[0] < 2 <= n:
            yield Finding("solver.blocks", "the first block holds row 0 and its joint line: at least 2 rows")
    # the bound of one block per row after the first: every joint line is another row
    elif isinstance(blocks, int) and n > 1 and blocks > n - 1:
        yield Finding("solver.blocks", f"{n} {unit} have room for at most {n - 1} blocks, not {blocks}")
