"""Plan of `task: integrals`: sizes, memory and work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan
from qsim.core.run.work import Work
from qsim.sturmian import memory, work
from qsim.sturmian.deck.blocks import FeDvr, as_list
from qsim.sturmian.deck.model import Integrals
from qsim.sturmian.trials import build, settle

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["build", "plan"]

# Of kernels for the integrals of one size, multipole and route, roughly, for the choice of a device.
LAUNCHES = 100.0


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of the integrals, and check the functions."""
    deck, task = loaded.deck, loaded.deck.task
    assert isinstance(task, Integrals)
    try:
        values, points, _, findings = settle(loaded)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    functions = values.size(0, points)
    largest = max([functions, *(task.N or [])])
    on_grid = isinstance(deck.basis, FeDvr) or points > 20 * max(functions, 1)
    seconds = work.integrals_seconds(deck, points, memory.finer(deck, values), functions)
    cases = len(task.routes) * len(as_list(task.l)) * len(task.N or [0])
    return Plan(
        memory=memory.as_memory(
            memory.integrals(deck, values, points, functions), "grid.R" if on_grid else "basis.N"
        ),
        sizes={**values.sizes_on(points), "integrals": largest**4},
        findings=findings,
        work=Work(core=seconds.all, lanes=float(largest) ** 4, launches=LAUNCHES * cases, host=seconds.host),
    )
