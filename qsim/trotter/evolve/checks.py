"""Checks of an evolution: steps that are too long or too many, observables that its system or its initial state cannot give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.trotter.sectors.basis import Sector

if TYPE_CHECKING:
    from qsim.trotter.evolve.problem import Problem

MAX_STEPS = 10**12
STATE_SPINS = 26  # up to which `state` is stored
LONG_STEP = 1.0  # dt times the local field beyond which a product formula is no approximation


__all__ = ["local_field", "physics"]


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
    model = problem.hamiltonian().envelope
    neighbours = 0.5 * abs(model.J).sum(axis=2)
    return float((neighbours + abs(model.h)).max(initial=0.0))


def _observables(problem: Problem) -> Iterator[Finding]:
    """Yield observables that this system or its initial state cannot give."""
    start = problem.start
    for index, item in enumerate(problem.asked.items):
        if item.state and problem.spins > STATE_SPINS:
            yield Finding(
                f"observe.{index}.state",
                f"a state of {problem.spins} spins is too large for a results file; at most {STATE_SPINS} spins",
            )
        if (
            item.entropy is not None
            and "number" in item.entropy.kinds
            and not isinstance(problem.sector, Sector)
        ):
            yield Finding(
                f"observe.{index}.entropy.kinds",
                "the number entropy needs a state of one Sz, but this evolution is in the whole space; leave number out, or make "
                "it possible to use a sector (H that conserves Sz, a start of one Sz, accuracy instead of dt)",
            )
        if item.imbalance and start.type == "polarised" and start.axis[-1] != "z":
            yield Finding(
                f"observe.{index}.imbalance",
                f"all spins are along {start.axis} at t = 0, so that there is no pattern <Sz> to compare with; observe "
                "sx or sy, or take an initial state with a pattern along z",
            )
        if item.imbalance and start.type in ("a1", "random_phase", "haar"):
            yield Finding(
                f"observe.{index}.imbalance",
                "the imbalance compares with a pattern at t = 0, which random states lack",
                "warning",
            )
