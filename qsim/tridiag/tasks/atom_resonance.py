"""The resonance of `task: atom` in a static field, found by complex scaling beside the propagation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.errors import NumericsError
from qsim.tridiag.atom.resonance import Level, resonance

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.tasks.atom_result import AtomResult

__all__ = ["find"]


def find(result: AtomResult, monitor: Monitor) -> None:
    """Store position and rate of the initial level in the field, with their errors, where the deck asks for them."""
    problem = result.problem
    if problem.scaled is None:
        return
    start, found = problem.start[0], problem.setting
    field = sum(pulse.block.polarity * pulse.block.E0 for pulse in problem.pulse.pulses)
    level = Level(
        potential=problem.scaled,
        charge=problem.lattice.charge,
        l=start.l,
        m=problem.frame.m,
        energy=start.energy,
        spacings=(found.dr0, found.dr, found.width),
    )
    try:
        seen = resonance(level, field)
    except NumericsError as error:
        monitor.warn(f"no resonance: {error}")
        return
    result.numbers |= {"resonance_energy": seen.energy, "resonance_rate": seen.rate}
    result.errors |= {"resonance_energy": seen.energy_error, "resonance_rate": seen.rate_error}
    if seen.rate_error > 0.1 * abs(seen.rate):
        monitor.warn(
            f"resonance_rate is uncertain by {seen.rate_error:.2g}: lower grid.dr, and dr0 of grid.map"
        )
