"""A tridiagonal system whose blocks lie on several processes (Sec. 6.2 of the paper).

Process w owns the rows ``J_w + 1 .. J_{w+1}``, process 0 also row 0, so that the last row of each is a joint line.  Each keeps
the line ``J_w`` of its left neighbour besides, reduces what lies between its two joint lines with the stages of Table 1 (nested
partitions of its own included), and sends six numbers: what it adds to a and d of both lines, c of the left one and b of the
right one.  All solve the reduced system of ``P + 1`` lines themselves, with the same numbers and hence to the same bits, and
substitute.  Nothing else is exchanged, whatever the size of the system: 96 bytes per process in double precision.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import cpu
from qsim.tridiag.kernels.partition.stages import Level, joint_lines, rd_jd_ru_ju, rs, ss
from qsim.tridiag.solver.partition import auto, joints, levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.core.device.links import Links

__all__ = ["SharedSolver", "Span", "spans"]

# numbers that a block sends: a, c, d of its left joint line, b, a, d of its right one
SENT = 6


@dataclass(frozen=True)
class Span:
    """The rows of a process.

    Attributes
    ----------
    low, high : int
        First row, and the row after the last.
    rows : int
        Rows of the whole system.
    blocks : int or tuple of int or "auto"
        Joint lines of the deck, as blocks of the process.
    """

    low: int
    high: int
    rows: int
    blocks: int | tuple[int, ...] | str = "auto"

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.high - self.low

    @property
    def first(self) -> int:
        """The left joint line: row 0, or the last row of the process before."""
        return max(self.low - 1, 0)

    @property
    def window(self) -> slice:
        """Own rows and the joint line at their left."""
        return slice(self.first, self.high)

    def wider(self, halo: int) -> slice:
        """Return the own rows with a halo at either side, as far as there are rows."""
        return slice(max(0, self.low - halo), min(self.rows, self.high + halo))


def spans(rows: int, ranks: int, blocks: int | Sequence[int] | str = "auto") -> list[Span]:
    """Return the rows of each process: as equal as possible, or whole blocks of a partition.

    Parameters
    ----------
    rows
        Rows of the system.
    ranks
        Number of processes.
    blocks
        Number or sizes of the blocks of the deck; a process then owns whole blocks.

    Raises
    ------
    ValueError
        If there are more processes than blocks, or than halves of the rows.
    """
    if isinstance(blocks, str):
        if rows < 2 * ranks:
            raise ValueError(f"{rows} rows are too few for {ranks} processes")
        edges = [rows * rank // ranks for rank in range(ranks + 1)]
        return [Span(low, high, rows) for low, high in itertools.pairwise(edges)]
    lines = joints(rows, blocks)
    count = len(lines) - 1
    if count < ranks:
        raise ValueError(f"{count} blocks cannot be shared by {ranks} processes")
    # blocks are given out in turn, as equal in number as possible: a process cannot own a part of one
    cuts = [count * rank // ranks for rank in range(ranks + 1)]
    shares = []
    for left, right in itertools.pairwise(cuts):
        # whole blocks of the partition: the joint line at the left belongs to the process before
        low = int(lines[left]) + 1 if left else 0
        sizes = tuple(int(size) for size in np.diff(lines[left : right + 1]))
        # as for :func:`joints`: the first block holds the line at its left, too
        sizes = (sizes[0] + 1, *sizes[1:])
        shares.append(Span(low, int(lines[right]) + 1, rows, sizes))
    return shares


class SharedSolver:
    """Solves systems of one shape whose rows lie on several processes.

    Parameters
    ----------
    device : Device
    span : Span
        Rows of this process.
    links : Links
        To the other processes.
    iterations : int or "auto"
        Nested partitions within a process.
    watched : bool
        Find `smallest`, too, which takes another exchange of three real numbers.

    Attributes
    ----------
    partition : list of arrays
        Joint lines of the nested partitions of this process, the finest first.
    smallest : float
        Smallest relative pivot of all processes in the last solution; 1 where it is not watched.
    """

    def __init__(
        self,
        device: Device,
        span: Span,
        links: Links,
        iterations: int | str = "auto",
        *,
        watched: bool = False,
    ) -> None:
        self.device, self.span, self.links, self.watched = device, span, links, watched
        self.smallest = 1.0
        lines = span.high - span.first
        auto_blocks, nested = auto(lines, device)
        blocks = auto_blocks if isinstance(span.blocks, str) else span.blocks
        count = nested if isinstance(iterations, str) else iterations
        self.partition = levels(lines, blocks, count)
        # down to the two joint lines at the ends of the process: the rest of the system is theirs
        if len(self.partition[-1]) > 2:
            self.partition.append(np.array([0, len(self.partition[-1]) - 1]))

    def solve(self, a: Array, b: Array, c: Array, d: Array) -> Array:
        """Return the unknowns of the own rows and of the joint line at their left; a collective call.

        Parameters
        ----------
        a, b, c, d : (lines,)
            Diagonal, lower and upper diagonal, right-hand side from the left joint line to the last own row; overwritten.  Of the
            left joint line, process 0 holds everything and the others their share: c, zero in a, and what they add to d.

        Returns
        -------
        (lines,)
            Unknowns; the same array as d.
        """
        device, scale = self.device, None
        lines: tuple[Any, ...] = tuple(part.reshape(1, -1) for part in (a, b, c, d))
        lines = (*lines, lines[3])
        # stages RD, JD, RU, JU on every level, down to the two joint lines at the ends of this process
        done = []
        for partition in self.partition:
            level = Level.empty(device, partition, lines[0].shape[1], 1, a.dtype)
            rd_jd_ru_ju(device, level, scale, *lines[:4])
            joint_lines(device, level, scale, *lines[:4])
            done.append((level, lines))
            scale, lines = level.scale, (level.a, level.b, level.c, level.d, level.x)
        last = done[-1][0]
        # the only exchange about unknowns: six numbers of every process, to all
        x, pivot = self._reduced(last)
        if self.watched:
            own = min(float(level.pivots.min()) for level, _lines in done)
            self.smallest = float(self.links.gather(np.array([min(own, pivot)])).min())
        last.x[...] = device.asarray(x.reshape(1, 2), a.dtype)
        # SS of every level, from the coarsest
        for level, outer in reversed(done):
            ss(device, level, *outer)
        return d

    def _reduced(self, level: Level) -> tuple[NDArray[Any], float]:
        """Return the unknowns of the two joint lines of this process (stage RS), and the smallest relative pivot if watched."""
        xp = self.device.xp
        # six numbers per process: its parts of the equations of both its joint lines
        mine = xp.stack(
            [level.a[0, 0], level.c[0, 0], level.d[0, 0], level.b[0, 1], level.a[0, 1], level.d[0, 1]]
        )
        kind = complex if mine.dtype.kind == "c" else float
        sent = self.links.gather(np.asarray(self.device.to_host(mine), kind))
        # every process solves the small system of all joint lines by itself: cheaper than sending the result around
        a, b, c, d, x = np.zeros((5, 1, len(sent) + 1), kind)
        # joint line w gets the left part of process w and the right part of process w - 1
        a[0, :-1] += sent[:, 0]
        c[0, :-1] = sent[:, 1]
        d[0, :-1] += sent[:, 2]
        b[0, 1:] = sent[:, 3]
        a[0, 1:] += sent[:, 4]
        d[0, 1:] += sent[:, 5]
        size = np.ones_like(a.real)
        # a joint line has the elements that both its processes know
        if self.watched:
            sizes = self.links.gather(np.asarray(self.device.to_host(level.scale[0]), float))
            size[0, :-1] = sizes[:, 0]
            size[0, 1:] = np.maximum(size[0, 1:], sizes[:, 1])
            size[0, -1] = sizes[-1, 1]
        pivot = np.empty(1)
        rs(cpu(1), a, b, c, d, size, x, pivot)
        rank = self.links.rank
        return np.asarray(x[0, rank : rank + 2]), float(pivot[0])
