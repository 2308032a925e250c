"""Plan of `task: basis`: sizes and memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan, Size
from qsim.sturmian import memory
from qsim.sturmian.trials import build, momenta, settle

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["build", "plan"]


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of the functions, and check them."""
    deck = loaded.deck
    try:
        values, points, sectors, findings = settle(loaded)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    ls = momenta(deck, sectors)
    return Plan(
        memory=memory.as_memory(memory.basis(deck, values, ls), "grid.R", kernels=False),
        sizes=values.sizes_on(points),
        findings=findings,
        # The functions are made on the host in any case.
        size=Size(float(points), "points", math.inf),
    )
