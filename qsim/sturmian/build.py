"""From the deck to the problem of its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian import trials

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.core.run.stages import Plan
    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.driven.problem import Problem as DrivenProblem
    from qsim.sturmian.problem import Problem


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory, and check the physics; nothing large is allocated, and no basis made that takes long."""
    task = loaded.deck.task
    if task.type == "bound":
        from qsim.sturmian.bound import build as bound

        return bound.plan(loaded)
    if task.type == "response":
        from qsim.sturmian.response import build as response

        return response.plan(loaded)
    if task.type == "basis":
        from qsim.sturmian.basis import build as basis

        return basis.plan(loaded)
    if task.type == "integrals":
        from qsim.sturmian.integrals import build as integrals

        return integrals.plan(loaded)
    if task.process == "resonances":
        from qsim.sturmian.resonances import build as resonances

        return resonances.plan(loaded)
    if task.by_photons:
        from qsim.sturmian.scatter.photo import build as photo

        return photo.plan(loaded)
    from qsim.sturmian.scatter import build as scatter

    return scatter.plan(loaded)


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> Problem | DrivenProblem:
    """Set up grid, potential and symmetries of the task."""
    task = loaded.deck.task
    if task.type == "response":
        from qsim.sturmian.response import build as response

        return response.build(loaded, device)
    if task.type != "scatter":
        return trials.build(loaded, device)
    if task.process == "resonances":
        from qsim.sturmian.resonances import build as resonances

        return resonances.build(loaded, device)
    if task.by_photons:
        from qsim.sturmian.scatter.photo import build as photo

        return photo.build(loaded, device)
    from qsim.sturmian.scatter import build as scatter

    return scatter.build(loaded, device)
