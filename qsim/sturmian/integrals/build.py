"""Plan of `task: integrals`: sizes and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan, Size
from qsim.sturmian import memory
from qsim.sturmian.deck.blocks import FeDvr
from qsim.sturmian.deck.model import Integrals
from qsim.sturmian.trials import build, settle

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["build", "plan"]

# Integrals of the largest N from which a GPU is faster than its host (docs/howto/devices.md): repulsion_tables with 1.7e7 takes
# 0.42 times as long on it as on one core, and there were no 16 to compare with.
GPU_INTEGRALS = 1e7


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of the integrals, and check the functions."""
    deck, task = loaded.deck, loaded.deck.task
    assert isinstance(task, Integrals)
    try:
        values, points, _, findings = settle(loaded)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    functions = values.size(0, points)
    # Each N is timed on its own; the largest takes the most.
    largest = max([functions, *(task.N or [])])
    on_grid = isinstance(deck.basis, FeDvr) or points > 20 * max(functions, 1)
    return Plan(
        memory=memory.as_memory(
            memory.integrals(deck, values, points, functions), "grid.R" if on_grid else "basis.N"
        ),
        sizes={**values.sizes_on(points), "integrals": largest**4},
        findings=findings,
        size=Size(float(largest) ** 4, "integrals", GPU_INTEGRALS),
    )
