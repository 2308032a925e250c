"""Plan and build of ``task: solve``: sizes, memory, work; reads no file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.device.hardware import free_host_memory
from qsim.core.device.parallel import connected
from qsim.core.run.stages import Plan, Size
from qsim.tridiag.checks import partition_findings
from qsim.tridiag.deck.model import FileSystem, LaplaceSystem, RandomSystem
from qsim.tridiag.systems.problem import SolveProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.device.device import Device
    from qsim.tridiag.checks import Blame
    from qsim.tridiag.deck.model import Precision, Solver, SystemSource, TridiagDeck

__all__ = [
    "FREE_SHARE",
    "STORED",
    "block_findings",
    "build",
    "bytes_in_memory",
    "bytes_of_number",
    "max_ranks",
    "plan",
    "streamable",
]

# numbers of x up to which the results file holds it
STORED = 20_000_000
# of the free memory that a system in memory may take
FREE_SHARE = 0.8
# numbers per row at the peak, measured with one right-hand side; cyclic: in addition
NUMBERS = {"nshape": 5.6, "thomas": 5.6, "literal": 8.0, "woodbury": 8.0, "lapack": 9.6, "cyclic": 14.2}
# of them on a GPU: the system, the solution and its residual on the device, where copies of the literal stages are reused for the
# residual; on the host nothing but the system and the solution, for the checks
ON_GPU = {"nshape": 6.0, "literal": 8.0}
CHECKED = 5.0
# shares of the bytes to use, and of a solution that is kept, at the peak
STREAMED, KEPT = 0.8, 1.7
# solved block by block on a CPU of a few cores
ROWS_PER_SECOND = 1.6e6
# rows of a process at least: with fewer there is nothing to share
LEAST = 64
# processes for a file, of which the run finds out how many rows and systems it holds
ANY = 1 << 30
# rows times right-hand sides from which a GPU is faster than its host, which makes the numbers and writes the file in both
# cases: an estimate from the speeds of kernels (docs/howto/devices.md)
GPU_ROWS = 3e6
# days of a system that is solved block by block beyond which it is refused
MOST_DAYS = 1000.0
# of real elimination and substitution: 3 divisions or products and 2 x 3 more
ROW_FLOPS = 9.0


def plan(deck: TridiagDeck) -> Plan:
    """Estimate what a run takes; reads no file."""
    block = deck.system
    if block is None or isinstance(block, FileSystem):
        return _plan_file(block, deck.solver)
    return _plan_generated(block, deck.solver, deck.precision)


def build(deck: TridiagDeck, device: Device, blame: Blame) -> SolveProblem:
    """Return the problem of a deck."""
    # the deck has checked that
    assert deck.system is not None
    return SolveProblem(
        device=device,
        system=deck.system,
        solver=deck.solver,
        precision=deck.precision,
        seed=deck.run.seed or 0,
        blame=blame,
    )


def bytes_of_number(kind: str, precision: Precision) -> int:
    """Return the bytes of a complex or real number."""
    return {"complex": 16, "real": 8}[kind] // (2 if precision == "single" else 1)


def _kind(block: SystemSource | None) -> str:
    """Return whether the numbers of a generated system are complex or real."""
    if isinstance(block, RandomSystem):
        return block.dtype
    return "real" if isinstance(block, LaplaceSystem) else "complex"


def _plan_generated(block: SystemSource, solver: Solver, precision: Precision) -> Plan:
    """Estimate the memory of a generated system, in memory or block by block."""
    assert not isinstance(block, FileSystem)
    batch, columns = (block.batch, block.rhs) if isinstance(block, RandomSystem) else (1, 1)
    item, rows = bytes_of_number(_kind(block), precision), block.n * batch
    # decides whether the system is solved in memory or block by block
    need = bytes_in_memory(rows, columns, item)
    sizes = {"rows": block.n, "systems": batch, "right-hand sides": columns, "bytes in memory": need}
    findings = list(block_findings(solver, block.n))
    cyclic = block.corners is not None
    literal = solver.blocks != "auto"
    peak = _peak(solver.type, literal, rows, columns, cyclic) * item
    on_gpu = _on_gpu(solver.type, literal, rows, columns, cyclic) * item
    less = int(rows * (CHECKED - NUMBERS["nshape"])) * item if on_gpu and columns == 1 and not cyclic else 0
    comm = connected()
    # several ranks work in memory
    if comm is not None and comm.size > 1:
        peak = max(peak, need)
        on_gpu, less = (need // comm.size, 2 * rows * columns * item - peak) if on_gpu else (0, 0)
    elif streamable(solver):
        # what does not fit is solved block by block
        limit = _limit(solver)
        if need > limit:
            stored = rows * columns if rows * columns <= STORED and rows * columns * item <= limit else 0
            budget: float = limit if solver.memory != "auto" else 0.5 * limit
            peak = min(int(STREAMED * budget), peak) + int(KEPT * stored * item)
            findings += _years(rows * columns)
            on_gpu = less = 0
    # libraries and the sequential method have the host alone
    size = Size(float(rows * columns), "rows", GPU_ROWS if solver.type == "nshape" else math.inf)
    memory = Memory(host=peak, parts={"system": peak}, reduce="system.n", on_gpu=on_gpu, on_gpu_host=less)
    ranks, shared = _ranks(block, solver)
    return Plan(
        memory,
        sizes,
        0,
        findings,
        size,
        operations=ROW_FLOPS * rows * columns,
        reduce="system.n",
        ranks=ranks,
        shared=shared,
    )


def _ranks(block: SystemSource, solver: Solver) -> tuple[int, str]:
    """Return how many processes can share a generated system, and what they share."""
    assert not isinstance(block, FileSystem)
    batch = block.batch if isinstance(block, RandomSystem) else 1
    if batch > 1:
        return batch, "systems"
    if solver.type != "nshape" or block.corners is not None:
        return 1, ""
    return max_ranks(solver, block.n), "rows" if solver.blocks == "auto" else "blocks"


def max_ranks(solver: Solver, rows: int) -> int:
    """Return how many processes can share the rows of one system: whole blocks where the deck gives them."""
    most = max(1, rows // LEAST)
    if solver.blocks == "auto":
        return most
    blocks = len(solver.blocks) if isinstance(solver.blocks, list) else int(solver.blocks)
    return max(1, min(rows // 2, blocks))


def _years(rows: int) -> list[Finding]:
    """Return a mistake for a system whose streaming would take years: a number of rows with some zeros too many."""
    days = rows / ROWS_PER_SECOND / 86400.0
    if days <= MOST_DAYS:
        return []
    text = f"{rows:.1e} rows take about {days:.1e} days block by block, and more than {MOST_DAYS:g} days are refused"
    return [Finding("system.n", text)]


def _plan_file(block: FileSystem | None, solver: Solver) -> Plan:
    """Estimate from the size of a file that holds the four arrays; texts and compressed files say little."""
    path = None if block is None else block.file
    sizes = {"file": str(path or "")}
    if path is None or not path.is_file():
        return Plan(sizes=sizes, ranks=ANY, shared="rows")
    # nearly all of the time goes into reading the file and writing the solution
    bytes_read = Size(float(path.stat().st_size), "bytes", math.inf)
    if path.suffix not in (".npz", ".h5", ".hdf5"):
        return Plan(sizes=sizes, size=bytes_read, ranks=ANY, shared="rows")
    need = int(NUMBERS["nshape"] / 4 * path.stat().st_size)
    limit = _limit(solver)
    peak = min(need, int(STREAMED * 0.5 * limit)) if streamable(solver) and need > limit else need
    return Plan(Memory(host=peak, parts={"system": peak}), sizes, size=bytes_read, ranks=ANY, shared="rows")


def _limit(solver: Solver) -> float:
    """Return the bytes that a system in host memory may take."""
    if solver.memory != "auto":
        return float(solver.memory)
    free = free_host_memory()
    return FREE_SHARE * free if free else float("inf")


def bytes_in_memory(rows: int, columns: int, item: int) -> int:
    """Return what a system in memory may take at most, which decides whether it is solved block by block."""
    return rows * item * (12 if columns == 1 else 4 + 9 * columns)


def _peak(solver: str, literal: bool, rows: int, columns: int, cyclic: bool) -> int:
    """Return the numbers that a solution in memory holds at its peak, as measured (CPU)."""
    # the matrix is copied for each right-hand side
    if columns > 1:
        return rows * (3 + 6 * columns)
    each = NUMBERS["literal" if literal and solver == "nshape" else solver] + (
        NUMBERS["cyclic"] if cyclic else 0.0
    )
    return int(rows * each)


def _on_gpu(solver: str, literal: bool, rows: int, columns: int, cyclic: bool) -> int:
    """Return the numbers that a solution in memory holds on a GPU; none of the serial solvers, which run on the host."""
    if solver != "nshape":
        return 0
    if columns > 1:
        return rows * (3 + 6 * columns)
    each = ON_GPU["literal" if literal else "nshape"] + (NUMBERS["cyclic"] if cyclic else 0.0)
    return int(rows * each)


def streamable(solver: Solver) -> bool:
    """Return True for a solver that can go block by block."""
    return solver.type == "nshape"


def block_findings(solver: Solver, n: int) -> Iterator[Finding]:
    """Yield what does not fit n rows in the blocks and the memory of the solver."""
    yield from partition_findings(solver.blocks, n, f"the system has {n}", "rows")
    if solver.memory != "auto" and not streamable(solver):
        yield Finding(
            "solver.memory", f"{solver.type} works in memory; only nshape goes block by block", "warning"
        )
