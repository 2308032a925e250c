"""Calls of a kernel that take no longer than a fraction of a second, so that a stop is heard between them."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Multiplications of a call: a few tenths of a second of a slow core.
MOST = 2e8

# Of the thread at work: threads that compute have a context of their own.
_watch: ContextVar[Callable[[], None] | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Callable[[], None] | None) -> Iterator[None]:
    """Have a function called between the calls of kernels, which raises where a stop is requested; None: nothing."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def look() -> None:
    """Look for a stop."""
    watch = _watch.get()
    if watch is not None:
        watch()


def portions(slots: int, parts: int, work: float) -> list[tuple[slice, slice]]:
    """Return slots, and parts of a slot, of each call in order: some slots with all their parts, or some parts of one slot.

    Parameters
    ----------
    slots, parts : int
        Slots, and parts of each.
    work : float
        Multiplications of a part.
    """
    every = slice(0, parts)
    if parts * work > MOST:
        count = max(1, int(MOST / work))
        pieces = [slice(p, min(p + count, parts)) for p in range(0, parts, count)]
        return [(slice(n, n + 1), piece) for n in range(slots) for piece in pieces]
    count = max(1, int(MOST / (parts * work)))
    return [(slice(n, min(n + count, slots)), every) for n in range(0, slots, count)]


def part_rows(slots: slice, parts: slice, each: int) -> slice:
    """Return the rows of a trajectory of some slots with all their parts, or of some parts of one slot."""
    return slice(slots.start * each + parts.start, (slots.stop - 1) * each + parts.stop)
