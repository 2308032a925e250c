"""What `task: solve` and `task: scaling` will take: sizes, memory, work; reads no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.device.hardware import free_host_memory
from qsim.core.run.stages import Plan
from qsim.core.run.work import CACHED, Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.tridiag.deck.model import TridiagDeck

__all__ = ["FREE_SHARE", "STORED", "block_findings", "bytes_in_memory", "plan", "streamable"]

STORED = 20_000_000  # numbers of x up to which the results file holds it
FREE_SHARE = 0.8  # of the free memory that a system in memory may take
# numbers per row at the peak, measured with one right-hand side; cyclic: in addition
NUMBERS = {"nshape": 5.6, "thomas": 5.6, "literal": 8.0, "woodbury": 8.0, "lapack": 9.6, "cyclic": 14.2}
STREAMED, KEPT = 0.8, 1.7  # shares of the bytes to use, and of a solution that is kept, at the peak
ROWS_PER_SECOND = 1.6e6  # solved block by block on a CPU of a few cores
ROW_FLOPS = 9.0  # of real elimination and substitution: 3 divisions or products and 2 x 3 more


def plan(deck: TridiagDeck) -> Plan:
    """Estimate what a solve or scaling run takes; reads no file."""
    item = {"complex": 16, "real": 8} if deck.run.precision != "single" else {"complex": 8, "real": 4}
    if deck.task == "scaling":
        sizes = deck.scaling.n if deck.scaling is not None else [300_000]
        width = item[getattr(deck.system, "dtype", "complex")]
        need = 13 * max(sizes) * width
        memory = Memory(device=need, parts={"systems": need}, reduce="scaling.n")
        return Plan(memory, {"rows": max(sizes), "sizes": len(sizes)}, 0, list(_scaling_findings(deck)))
    block = deck.system
    n = getattr(block, "n", 0)
    if block is None or not n:
        return _plan_file(deck)
    batch, columns = getattr(block, "batch", 1), getattr(block, "rhs", 1)
    columns = columns if isinstance(columns, int) else 1
    kind = getattr(block, "dtype", "real" if block.source == "laplace" else "complex")
    rows = n * batch
    need = bytes_in_memory(rows, columns, item[kind])
    found = {"rows": n, "systems": batch, "right-hand sides": columns, "bytes in memory": need}
    findings = list(block_findings(deck, n))
    cyclic = getattr(block, "corners", None) is not None
    peak = _peak(deck.solver.type, deck.solver.blocks != "auto", rows, columns, cyclic) * item[kind]
    about = 0.0
    if streamable(deck):  # what does not fit is solved block by block
        limit = _limit(deck)
        if need > limit:
            stored = (
                rows * columns if rows * columns <= STORED and rows * columns * item[kind] <= limit else 0
            )
            budget: float = limit if deck.solver.memory != "auto" else 0.5 * limit
            peak = min(int(STREAMED * budget), peak) + int(KEPT * stored * item[kind])
            about = rows * columns / ROWS_PER_SECOND
    # the diagonals and the right-hand side are read, the solution is written
    moved = float(rows * (3 + 2 * columns) * item[kind])
    work = Work(
        ROW_FLOPS * rows * columns, bytes=moved if moved > CACHED else 0.0, about=about, reduce="system.n"
    )
    return Plan(Memory(host=peak, parts={"system": peak}, reduce="system.n"), found, 0, findings, work)


def _plan_file(deck: TridiagDeck) -> Plan:
    """Estimate from the size of a file that holds the four arrays; texts and compressed files say little."""
    path = getattr(deck.system, "file", None)
    sizes = {"file": str(path or "")}
    if path is None or not path.is_file() or path.suffix not in (".npz", ".h5", ".hdf5"):
        return Plan(sizes=sizes)
    need = int(NUMBERS["nshape"] / 4 * path.stat().st_size)
    peak = min(need, int(STREAMED * 0.5 * _limit(deck))) if streamable(deck) and need > _limit(deck) else need
    return Plan(Memory(host=peak, parts={"system": peak}), sizes)


def _limit(deck: TridiagDeck) -> float:
    """Return the bytes that a system in host memory may take."""
    if deck.solver.memory != "auto":
        return float(deck.solver.memory)
    free = free_host_memory()
    return FREE_SHARE * free if free else float("inf")


def bytes_in_memory(rows: int, columns: int, item: int) -> int:
    """Return what a system in memory may take at most, which decides whether it is solved block by block."""
    return rows * item * (12 if columns == 1 else 4 + 9 * columns)


def _peak(solver: str, literal: bool, rows: int, columns: int, cyclic: bool) -> int:
    """Return the numbers that a solution in memory holds at its peak, as measured (CPU)."""
    if columns > 1:  # the matrix is copied for each right-hand side
        return rows * (3 + 6 * columns)
    each = NUMBERS["literal" if literal and solver == "nshape" else solver] + (
        NUMBERS["cyclic"] if cyclic else 0.0
    )
    return int(rows * each)


def streamable(deck: TridiagDeck) -> bool:
    """Tell whether the solver of a deck can go block by block."""
    return deck.solver.type == "nshape"


def block_findings(deck: TridiagDeck, n: int) -> Iterator[Finding]:
    """Yield what does not fit n rows in the blocks and the memory of the solver."""
    blocks = deck.solver.blocks
    if isinstance(blocks, list) and sum(blocks) != n:
        yield Finding("solver.blocks", f"the blocks hold {sum(blocks)} rows, but the system has {n}")
    elif isinstance(blocks, list) and blocks[0] < 2 and n > 1:
        yield Finding("solver.blocks", "the first block holds row 0 and its joint line: at least 2 rows")
    elif isinstance(blocks, int) and n > 1 and blocks > n - 1:
        yield Finding("solver.blocks", f"{n} rows have room for at most {n - 1} blocks, not {blocks}")
    if deck.solver.memory != "auto" and not streamable(deck):
        yield Finding(
            "solver.memory", f"{deck.solver.type} works in memory; only nshape goes block by block", "warning"
        )


def _scaling_findings(deck: TridiagDeck) -> Iterator[Finding]:
    if deck.scaling is None or isinstance(deck.scaling.blocks, str):
        return
    for index, n in enumerate(deck.scaling.n):
        if min(deck.scaling.blocks) >= n:
            text = f"{n} rows have room for at most {n - 1} blocks; the smallest number given is {min(deck.scaling.blocks)}"
            yield Finding(f"scaling.n.{index}", text)
