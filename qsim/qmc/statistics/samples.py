"""Sums of independent chains, or of parts of blocks, from which error bars are found after the run.

A block alone does not tell how well its mean is known.  Variational Monte Carlo has walkers that never meet: their sums are
kept apart, by groups of walkers.  Diffusion Monte Carlo has one population: each block is cut into parts.  Rows are joined in
pairs when they become too many, so that memory and checkpoints stay small in the longest run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["COLUMNS", "GROUPS", "PARTS", "Samples"]

COLUMNS = 8  # six energies, the square of the total, the weight
GROUPS = 64  # of walkers, at most
PARTS = 10  # of a block of diffusion, at most
MOST_ROWS = 1024  # before neighbours are joined; even


class Samples:
    """Rows of weighted sums in the order of the run.

    Parameters
    ----------
    groups
        Number of independent chains in a row.
    per_block
        Rows that are added in each block of the run.
    restored
        What :meth:`state` returned, to continue from.
    """

    def __init__(self, groups: int, per_block: int = 1, restored: Mapping[str, Any] | None = None) -> None:
        self.groups, self.per_block = int(groups), int(per_block)
        self._rows: list[NDArray[np.float64]] = []
        self._joined, self._held_count = 1, 0
        self._held = np.zeros((self.groups, COLUMNS))
        if restored:
            self._joined, self._held_count = int(restored["joined"]), int(restored["held_count"])
            self._held = np.array(restored["held"], np.float64)
            self._rows = list(np.array(restored["rows"], np.float64).reshape(-1, self.groups, COLUMNS))

    @property
    def rows_per_block(self) -> float:
        """Rows of :meth:`after` in a block of the run."""
        return self.per_block / self._joined

    def add(self, row: NDArray[np.float64]) -> None:
        """Add the sums (groups, 8) of a block, or of a part of one."""
        self._held = self._held + row
        self._held_count += 1
        if self._held_count < self._joined:
            return
        self._rows.append(self._held)
        self._held, self._held_count = np.zeros((self.groups, COLUMNS)), 0
        if len(self._rows) == MOST_ROWS:
            self._rows = [a + b for a, b in zip(self._rows[::2], self._rows[1::2], strict=True)]
            self._joined *= 2

    def add_walkers(self, sums: NDArray[np.float64]) -> None:
        """Add the sums (walkers, 8) of a block: walker w belongs to group w modulo `groups`."""
        whole = sums.shape[0] // self.groups * self.groups
        row = sums[:whole].reshape(-1, self.groups, COLUMNS).sum(axis=0)
        row[: sums.shape[0] - whole] += sums[whole:]
        self.add(row)

    def after(self, blocks: int) -> NDArray[np.float64]:
        """Return the complete rows (rows, groups, 8) that begin after `blocks` blocks."""
        first = math.ceil(blocks * self.rows_per_block - 1e-9)
        return np.array(self._rows[first:], np.float64).reshape(-1, self.groups, COLUMNS)

    def state(self) -> dict[str, Any]:
        """Return everything, for a checkpoint."""
        return {
            "joined": self._joined,
            "held_count": self._held_count,
            "held": self._held,
            "rows": np.array(self._rows, np.float64).reshape(-1, self.groups, COLUMNS),
        }
