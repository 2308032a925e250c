"""Checks of an evolution: steps that are too long or too many, observables that its system or its initial state cannot give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.trotter.observables.base import Setting
from qsim.trotter.observables.registry import OBSERVABLES

if TYPE_CHECKING:
    from qsim.trotter.evolve.problem import Problem

__all__ = ["local_field", "physics"]

MAX_STEPS = 10**12
# dt times the local field beyond which a product formula is no approximation
LONG_STEP = 1.0


def physics(problem: Problem) -> Iterator[Finding]:
    """Yield errors and warnings of a deck whose keys are valid."""
    yield from _step(problem)
    yield from _observables(problem)


def _step(problem: Problem) -> Iterator[Finding]:
    """Yield a time step that is hopelessly short, or too long for the couplings."""
    dt = problem.evolution.dt
    if dt is None:
        return
    if problem.times[-1] / dt > MAX_STEPS:
        yield Finding(
            "evolve.dt",
            f"{problem.times[-1] / dt:.3g} steps would run for years; at most {float(MAX_STEPS):.0e} are allowed",
        )
        return
    strength = local_field(problem)
    if dt * strength > LONG_STEP:
        yield Finding(
            "evolve.dt",
            f"dt = {dt:g} is long for couplings of up to {strength:.3g} per site: their product is {dt * strength:.3g}, and the "
            f"error of the splitting is small only below {LONG_STEP:g}; lower dt, or give accuracy",
            "warning",
        )


def local_field(problem: Problem) -> float:
    """Return the largest field of neighbours and external fields that a spin can feel along one axis, J."""
    return problem.hamiltonian().envelope.strongest


def _observables(problem: Problem) -> Iterator[Finding]:
    """Yield observables that this system or its initial state cannot give."""
    setting = Setting(problem.spins, problem.models.system.states, problem.start, problem.charged)
    for index, item in enumerate(problem.observables.items):
        for name in item.named():
            yield from OBSERVABLES[name].physics(item, f"observe.{index}", setting)
