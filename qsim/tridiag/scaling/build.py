"""Plan and build of ``task: scaling``: sizes, memory, work; reads no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.run.stages import Plan, Size
from qsim.tridiag.deck.model import RandomSystem, Scaling
from qsim.tridiag.scaling.problem import ScalingProblem
from qsim.tridiag.systems.build import GPU_ROWS, bytes_of_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.device.device import Device
    from qsim.tridiag.checks import Blame
    from qsim.tridiag.deck.model import TridiagDeck

__all__ = ["build", "plan"]


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
    # without a block `scaling` its default size
    sizes = deck.scaling.n if deck.scaling is not None else [300_000]
    kind = deck.system.dtype if isinstance(deck.system, RandomSystem) else "complex"
    # a row: 4 numbers as given, 4 that the stages overwrite, x, and 4 more of the Woodbury formula
    need = 13 * max(sizes) * bytes_of_number(kind, deck.precision)
    memory = Memory(device=need, parts={"systems": need}, reduce="scaling.n")
    size = Size(float(max(sizes)), "rows", GPU_ROWS)
    table = {"rows": max(sizes), "sizes": len(sizes)}
    return Plan(memory, table, 0, list(_scaling_findings(deck)), size)


def _scaling_findings(deck: TridiagDeck) -> Iterator[Finding]:
    if deck.scaling is None or isinstance(deck.scaling.blocks, str):
        return
    for index, n in enumerate(deck.scaling.n):
        # larger numbers of blocks are left out where they do not fit; without the smallest there is nothing to time
        if min(deck.scaling.blocks) >= n:
            text = f"{n} rows have room for at most {n - 1} blocks; the smallest number given is {min(deck.scaling.blocks)}"
            yield Finding(f"scaling.n.{index}", text)
