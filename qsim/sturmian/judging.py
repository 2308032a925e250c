"""Judgements of computed results (errors, warnings, comparisons), which may fail without losing the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Judged", "unguarded"]

T = TypeVar("T")


class Judged(Protocol):
    """`Monitor.judged`: returns what a judgement finds, or a substitute with a warning if it fails."""

    def __call__(self, what: str, judge: Callable[[], T], missing: T, /) -> T:
        """Return the judgement named `what`, or `missing`."""


def unguarded(_what: str, judge: Callable[[], T], _missing: T, /) -> T:
    """Return what a judgement finds, and let it fail: for callers without a monitor."""
    return judge()
