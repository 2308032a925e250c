"""Notices and warnings that arise while a trial function is built."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Notes"]


@dataclass
class Notes:
    """Notices and warnings about what the deck left open, for the report of the run."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Keep one line."""
        self.lines.append(line)
