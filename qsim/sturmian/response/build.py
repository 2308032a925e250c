"""Plan and problem of `task: response`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan, Size
from qsim.sturmian import memory, trials
from qsim.sturmian.deck.blocks import FeDvr
from qsim.sturmian.deck.response import Response
from qsim.sturmian.deck.response_rules import partners, waves
from qsim.sturmian.response.others import others
from qsim.sturmian.response.problem import ResponseProblem
from qsim.sturmian.two_electron.linear import MOST

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["build", "plan"]

# Unknowns from which a GPU is faster than its host, as for bound states.
GPU_UNKNOWNS = 1e5
# Trial functions of one equation beyond those of its frequencies.
TRIALS = 40


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of a response, and check its physics."""
    deck = loaded.deck
    try:
        settled = trials.settle(loaded)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    values, points, sectors, findings = settled
    task = deck.task
    assert isinstance(task, Response)
    # A file of another atom is read now: a wrong one is a mistake of the deck.
    try:
        others(task.files)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    pairs = max((len(sector.pairs) for sector in sectors), default=1)
    functions = values.size(0, points)
    unknowns = pairs * functions**2
    # every step of a first-order function goes to the grid and back, as every step of a state does
    flops = 2.0 * pairs * points * functions * (points + functions) * len(sectors)
    return Plan(
        memory=memory.as_memory(
            _memory(settled, task), "grid.R" if isinstance(deck.basis, FeDvr) else "basis.N"
        ),
        sizes=values.sizes_on(points)
        | {"pairs": pairs, "unknowns": unknowns, "states": sum(len(sector.roots) for sector in sectors)},
        findings=findings,
        size=Size(float(unknowns), "unknowns", GPU_UNKNOWNS),
        operations=flops,
        reduce="channels.l_max",
    )


def _memory(settled: trials.Settled, task: Response) -> dict[str, int]:
    """Return bytes of the largest first-order function: its Hamiltonian, trial functions and products, and a step on the grid."""
    values, points, sectors, _ = settled
    most: dict[str, int] = {}
    vectors = min(MOST, TRIALS + 6 * len(task.frequencies) * len(task.gauges))
    for sector in sectors:
        functions = max(values.size(l, points) for pair in sector.pairs for l in pair)
        size = memory.Size.of(sector.pairs, points, functions, max(sector.roots) + 1)
        parts = memory.davidson(size, 1)
        parts["subspace"] = 3 * vectors * size.P * size.M**2 * memory.REAL
        # components of every level and its sources on the product grid
        parts["functions on the product grid"] += 6 * size.C * points**2 * memory.REAL
        if sum(parts.values()) > sum(most.values()):
            most = parts
    return most


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> ResponseProblem:
    """Set up grid, potential and symmetries, and what is to be extrapolated."""
    problem = trials.build(loaded, device)
    given = {item.name: getattr(problem, item.name) for item in fields(problem)}
    given["extrapolate"] = waves(loaded.deck)
    task = loaded.deck.task
    assert isinstance(task, Response)
    return ResponseProblem(**given, partners=partners(loaded.deck), others=others(task.files))
