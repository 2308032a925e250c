"""`task: solve` on several ranks: rows of one system, or whole systems of a batch; the solution goes to rank 0 at the end.

Of one system every rank reduces its own rows, and all solve the reduced system of the joint lines (Sec. 6.2 of the paper,
:mod:`qsim.tridiag.solver.shared`).  Systems of a batch are solved by each rank as one rank does.  What either way does not
solve well, rank 0 solves by itself, with every remedy that one rank has.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.links import HostLinks, links_of
from qsim.core.device.parallel import SerialComm, agreed, by_all, first, share
from qsim.core.errors import DeviceError, MemoryLimitError, QsimError
from qsim.core.run.loop import Progress, drive
from qsim.tridiag.solver.robustness.verdicts import difficulty
from qsim.tridiag.solver.shared import spans
from qsim.tridiag.solver.systems import RandomSource, Share
from qsim.tridiag.systems.build import STORED, bytes_in_memory, max_ranks
from qsim.tridiag.systems.result import (
    CHECKS,
    CHUNK,
    NO_CHECKS,
    PROFILE,
    Solved,
    SolveResult,
    beside,
    checks_of,
    full_shape,
    joined_checks,
    joined_profile,
    profile_of,
)
from qsim.tridiag.systems.sources import located

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.solver.shared import Span
    from qsim.tridiag.solver.shared_rows import SharedRows
    from qsim.tridiag.solver.systems import BatchSource
    from qsim.tridiag.systems.problem import SolveProblem

__all__ = ["shared"]

# backward errors accepted, by bytes of a real number: the same as on one rank
TOLERANCE = {8: 1e-14, 4: 1e-6}
# largest of all ranks
WORST = ("residual", "backward_error", "rowwise_error", "refinements")


def shared(
    problem: SolveProblem,
    source: BatchSource,
    monitor: Monitor,
    limit: float,
    alone: Callable[[Share, Monitor, int, int], Solved],
) -> SolveResult | None:
    """Solve on all ranks; None if the system is not for them, so that rank 0 has to solve it by itself.

    Parameters
    ----------
    problem, source, monitor
        What is solved.
    limit
        Bytes that the memory of this rank may hold.
    alone
        Solves some systems of a batch on this rank, given their first row and the rows of the batch.

    Raises
    ------
    DeviceError
        If there are more ranks than they can share; of a file the deck does not say how many those are.
    MemoryLimitError
        If what a rank has to hold does not fit.
    """
    comm = monitor.comm
    _require_work(problem, source, comm)
    _require_room(source, comm, limit, on_gpu=problem.device.is_cuda)
    part = _systems(problem, source, monitor, alone) if source.batch > 1 else _rows(problem, source, monitor)
    if part is None:
        return None
    with monitor.stage("collect"):
        return _joined(part[0], part[1], source, monitor)


def _require_work(problem: SolveProblem, source: BatchSource, comm: Comm) -> None:
    """Refuse more ranks than there are systems, or rows, and what one rank alone can solve."""
    if source.batch > 1:
        # a system of a batch stays with one rank
        if source.batch < comm.size:
            raise by_all(
                DeviceError(
                    f"{comm.size} ranks were started for {source.batch} systems",
                    hint=f"start at most {source.batch} ranks",
                )
            )
        return
    # rows of one system are shared by the partition method alone: its joint lines are what ranks exchange
    kind = problem.solver.type
    if problem.system.corners is not None or kind != "nshape":
        what = f"solver.type: {kind} of one system" if kind != "nshape" else "one cyclic system"
        raise by_all(
            DeviceError(
                f"{what} runs on one rank, but {comm.size} were started",
                hint="start it without mpirun or srun",
            )
        )
    most = max_ranks(problem.solver, source.n)
    if most < comm.size:
        raise by_all(
            DeviceError(
                f"{comm.size} ranks were started for {source.n} rows, which occupy at most {most}",
                hint=f"start at most {most} ranks",
            )
        )


def _require_room(source: BatchSource, comm: Comm, limit: float, *, on_gpu: bool) -> None:
    """Refuse parts that do not fit: several ranks work in memory."""
    rows = -(-source.n // comm.size)
    need = bytes_in_memory(rows, source.columns, source.dtype.itemsize)
    # ranks of one host divide its memory; a GPU belongs to its rank
    limit = limit if on_gpu else limit / comm.local_size
    if any(comm.allgather(need > limit)):
        raise by_all(
            MemoryLimitError(
                f"the {rows} rows of a rank take {need / 1e9:.3g} GB in memory, but {limit / 1e9:.3g} GB may be used",
                hint="start more ranks, raise solver.memory, or use one rank, which solves block by block what does not fit",
            )
        )


class _Work:
    """A solution that all ranks make together, which cannot be interrupted."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work

    def advance(self, report: Report) -> None:
        """Solve."""
        self.work()
        report(Progress(1, savable=False))

    def state(self) -> State:
        """Return nothing: a solution is not continued."""
        return {}


# ------------------------------------------------------------------------------------ rows of a system


def _rows(problem: SolveProblem, source: BatchSource, monitor: Monitor) -> tuple[Solved, int] | None:
    """Return the solution in the own rows, and the first of them; None if pivoting is needed."""
    # with the kernels, which plans do not need
    from qsim.tridiag.solver.shared_rows import SharedRows

    comm, device, solver = monitor.comm, problem.device, problem.solver
    span = agreed(comm, lambda: _span(problem, source, comm))
    links = links_of(comm, device)
    tolerance = solver.tolerance or TOLERANCE[source.dtype.type(0).real.itemsize]
    with monitor.stage("compile"):
        # a system of this rank alone compiles the same kernels before the clock starts
        small = RandomSource(64, dtype=source.dtype, columns=source.columns)
        itself = HostLinks(SerialComm(), device)
        SharedRows(device, spans(64, 1)[0], itself, small, solver.iterations).solve(tolerance)
    with monitor.stage("make"):
        mine = agreed(comm, lambda: SharedRows(device, span, links, source, solver.iterations))
    start = time.perf_counter()
    with monitor.stage("solve"):
        # one unit of work: ranks meet in a collective call, where none can be stopped alone
        drive(_Work(lambda: mine.solve(tolerance)), monitor, total=1, unit="systems", what="solve")
        device.synchronize()
    # the slowest rank decides how long the solution took
    seconds = max(comm.allgather(time.perf_counter() - start))
    # all ranks judge by the same norms and come here together
    if mine.doubtful:
        monitor.note("the matrix needs more than elimination without pivoting: rank 0 solves it by itself")
        return None
    with monitor.stage("analyse"):
        x = mine.own
        flat = x[:, 0] if source.columns == 1 else x
        profile = monitor.judged(PROFILE, lambda: profile_of(mine.residual, flat, span.low, source.n), None)
        # squares of numbers above 1e154 are infinite
        with np.errstate(over="ignore"):
            checks = monitor.judged(CHECKS, lambda: checks_of(flat, span.low, source.n), NO_CHECKS)
        return Solved(flat, _info(mine, comm), seconds, checks, profile, []), span.low


def _span(problem: SolveProblem, source: BatchSource, comm: Comm) -> Span:
    """Return the rows of this rank, or raise what is wrong with the blocks of the deck."""
    with located(problem):
        return spans(source.n, comm.size, problem.solver.blocks)[comm.rank]


def _info(mine: SharedRows, comm: Comm) -> dict[str, Any]:
    """Return how the rows of all ranks were solved; a collective call."""
    partition = mine.solver.partition
    sizes = comm.allgather((len(partition[0]) - 1, len(partition)))
    return {
        "residual": float(mine.errors.residual.max()),
        "backward_error": float(mine.errors.backward.max()),
        "algorithm": "nshape-shared",
        "blocks": sum(blocks for blocks, _nested in sizes),
        "iterations": max(nested for _blocks, nested in sizes),
        "min_pivot": mine.smallest,
        "refinements": mine.refinements,
        "equilibrated": False,
        "rowwise_error": float(mine.errors.rowwise.max()),
    }


# ------------------------------------------------------------------------------------ systems of a batch


def _systems(
    problem: SolveProblem,
    source: BatchSource,
    monitor: Monitor,
    alone: Callable[[Share, Monitor, int, int], Solved],
) -> tuple[Solved, int] | None:
    """Return the solutions of the own systems, and the first of their rows; None if any rank failed."""
    comm, rows = monitor.comm, source.n // source.batch
    mine = share(comm, source.batch)
    solved: list[Solved] = []
    why = ""
    # no rank waits in here: their systems have nothing to exchange
    with monitor.alone():
        try:
            solved.append(alone(Share(source, mine.start, mine.stop), monitor, mine.start * rows, source.n))
        except (QsimError, ValueError) as error:
            # rank 0 tells it with the numbers of the whole batch
            why = str(error)
    # all ranks hear of a failure before any of them goes on
    if reasons := [text for text in comm.allgather(why) if text]:
        monitor.note(f"rank 0 solves the batch by itself, since for a part of it: {reasons[0]}")
        return None
    own = solved[0]
    reports = comm.allgather((own.info, own.seconds, own.notes))
    infos = [info for info, _seconds, _notes in reports]
    # the batch has the worst errors of all parts, and the name of the most difficult system's algorithm
    own.info |= {name: max(info[name] for info in infos) for name in WORST}
    own.info["min_pivot"] = min(info["min_pivot"] for info in infos)
    own.info["equilibrated"] = any(info["equilibrated"] for info in infos)
    own.info["algorithm"] = max((str(info["algorithm"]) for info in infos), key=difficulty)
    own.seconds = max(seconds for _info, seconds, _notes in reports)
    own.notes = list(dict.fromkeys(note for _info, _seconds, notes in reports for note in notes))
    return own, mine.start * rows


# ------------------------------------------------------------------------------------ on rank 0


def _joined(part: Solved, low: int, source: BatchSource, monitor: Monitor) -> SolveResult:
    """Return the result with the whole solution on rank 0, or in a file beside; other ranks have none."""
    comm, size = monitor.comm, source.n * source.columns
    stored, kept, notes = size <= STORED, None, list(part.notes)
    path = None
    if not stored:
        # the first rank writes the file, and looks for the room
        path, text = first(comm, lambda: beside(monitor, size * source.dtype.itemsize))
        notes += [text] if path is None else []
    flat = (source.n,) if source.columns == 1 else (source.n, source.columns)
    with ExitStack() as stack:
        out: Any = None
        # other ranks take part in the collection without a place of their own
        if comm.rank == 0 and stored:
            out = kept = np.empty(flat, source.dtype)
        elif comm.rank == 0 and path is not None:
            from qsim.core.results.hdf5 import new_dataset

            out = stack.enter_context(new_dataset(path, flat, source.dtype))
        if stored or path is not None:
            _collect(comm, part.x, low, out)
    if path is not None:
        part.info["x_file"] = path.name
        monitor.note(f"solution written to {path}")
    return SolveResult(
        None if kept is None else kept.reshape(full_shape(source)),
        part.info,
        source.name,
        str(np.dtype(source.dtype)),
        source.n // source.batch,
        source.batch,
        source.columns,
        part.seconds,
        joined_checks(comm.allgather(part.checks)),
        joined_profile(comm.allgather(part.profile)),
        notes=notes,
    )


def _collect(comm: Comm, own: NDArray[Any], low: int, out: Any) -> None:
    """Write the rows of all ranks to `out` on rank 0, some at a time, so that no rank ever needs room for all of them."""
    for rank, (start, count) in enumerate(comm.allgather((low, len(own)))):
        for lo in range(0, count, CHUNK):
            # a collective call: ranks whose turn it is not send nothing
            gathered = comm.gather(own[lo : lo + CHUNK] if comm.rank == rank else None)
            part = None if gathered is None else gathered[rank]
            if part is not None:
                out[start + lo : start + lo + len(part)] = part
