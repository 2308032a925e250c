"""Plan and build of ``task: scaling``: sizes, memory, work; reads no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.run.stages import Plan
from qsim.core.run.work import Work
from qsim.tridiag.deck.model import RandomSystem, Scaling
from qsim.tridiag.scaling.problem import ScalingProblem
from qsim.tridiag.scaling.run import block_numbers
from qsim.tridiag.systems.build import MADE, PASSES, ROW_SECONDS, START, bytes_of_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.device.device import Device
    from qsim.tridiag.checks import Blame
    from qsim.tridiag.deck.model import TridiagDeck

__all__ = ["build", "plan", "scaling_seconds"]

# s per row of one timed pass
TIMED_SECONDS = 4e-8


def build(deck: TridiagDeck, device: Device, blame: Blame) -> ScalingProblem:
    """Return the problem of a deck."""
    return ScalingProblem(
        device=device,
        system=deck.system,
        setting=deck.scaling or Scaling(),
        precision=deck.precision,
        seed=deck.run.seed or 0,
        blame=blame,
    )


def plan(deck: TridiagDeck) -> Plan:
    """Estimate memory and work of a timing run."""
    sizes = deck.scaling.n if deck.scaling is not None else [300_000]
    kind = deck.system.dtype if isinstance(deck.system, RandomSystem) else "complex"
    need = 13 * max(sizes) * bytes_of_number(kind, deck.precision)
    memory = Memory(device=need, parts={"systems": need}, reduce="scaling.n")
    block = deck.scaling or Scaling()
    # every size, number of blocks and of partitions is timed some times, and the solvers to compare with as well
    core = scaling_seconds(block)
    made = ROW_SECONDS[kind] * MADE * sum(sizes)
    work = Work(
        core=core,
        reduce="scaling.n",
        lanes=float(max(sizes)),
        launches=PASSES * _timed(block),
        # the systems are made there, and the libraries of the host are timed there
        host=min(core, START + made + TIMED_SECONDS * _others(block) * sum(sizes)),
    )
    found = {"rows": max(sizes), "sizes": len(sizes)}
    return Plan(memory, found, 0, list(_scaling_findings(deck)), work)


def scaling_seconds(block: Scaling) -> float:
    """Return about how long a timing run takes on one core, s: every size, number of partitions and of blocks, some times."""
    return START + TIMED_SECONDS * (_timed(block) + _others(block)) * sum(block.n)


def _timed(block: Scaling) -> int:
    """Return the timed passes of the partition method."""
    counts = block_numbers(block.n) if isinstance(block.blocks, str) else block.blocks
    return (block.repeats + 1) * len(block.iterations) * len(counts)


def _others(block: Scaling) -> int:
    """Return the passes of the solvers beside it, each as long as four of its own."""
    return 4 * (block.repeats + 1) * len(block.compare)


def _scaling_findings(deck: TridiagDeck) -> Iterator[Finding]:
    if deck.scaling is None or isinstance(deck.scaling.blocks, str):
        return
    for index, n in enumerate(deck.scaling.n):
        if min(deck.scaling.blocks) >= n:
            text = f"{n} rows have room for at most {n - 1} blocks; the smallest number given is {min(deck.scaling.blocks)}"
            yield Finding(f"scaling.n.{index}", text)
