"""Build stage of the counter."""

from dataclasses import dataclass

from qsim.core.device.device import Memory
from qsim.core.run.stages import Plan


@dataclass
class Problem:
    steps: int
    start: float
    growth: float
    pause: float
    fail: str
    seed: int


def plan(loaded):
    from qsim.core.deck.blocks import Finding

    count = loaded.deck.count
    need = 2**60 if count.huge else 8 * count.steps
    findings = [Finding("count.start", "0.5 is no start", "error")] if count.start == 0.5 else []
    memory = Memory(host=need, parts={"values": need}, reduce="count.steps")
    return Plan(
        memory=memory,
        sizes={"values": count.steps},
        steps=count.steps,
        findings=findings,
        ranks=4,
        shared="steps",
    )


def build(loaded, device):
    count = loaded.deck.count
    if count.fail == "memory":
        raise MemoryError
    added = 0.0 if count.file is None else float(count.file.read_text(encoding="utf-8"))
    return Problem(
        count.steps, count.start + added, count.growth, count.pause, count.fail, loaded.deck.run.seed
    )
