"""The resonance of `task: atom` in a static field, found by complex scaling beside the propagation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.errors import NumericsError
from qsim.tridiag.atom.problem import dense, potential_value
from qsim.tridiag.atom.resonance.complex_scaling import Parabolic, Wanted, parabolic_weights, resonance
from qsim.tridiag.deck.initial import level_name
from qsim.tridiag.deck.pulses.ramps import StaticPulse

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.deck.atom import AtomDeck
    from qsim.tridiag.deck.observe import StarkState

__all__ = ["find", "wanted"]

# Z dr0, at most
AT_NUCLEUS = 0.1
# bohr over the charge that is seen from far away
SPACING = 0.2
# share of the initial level in the resonance, below which others that have parts of it are reported
NEARLY_ALL = 0.8
# relative error of a rate from which a warning is given
UNSURE = 0.1
# Stark states that a message names
LISTED = 5


def wanted(deck: AtomDeck, block: StarkState) -> Wanted:
    """Return the resonance that a deck requests."""
    m = block.m if block.m is not None else 0
    if block.m is None and len(deck.levels) == 1:
        m = deck.levels[0].m
    which: Parabolic | tuple[int, int] | float
    if block.n1 is not None and block.n2 is not None:
        which = Parabolic(block.n1, block.n2, m)
    elif block.energy is not None:
        which = block.energy
    else:
        which = (deck.levels[0].n, deck.levels[0].l)
        if deck.atom.coulomb:
            which = parabolic_weights(*which, m)[0][0]
    tail = potential_value(deck, lambda one: one.tail)
    nucleus = potential_value(deck, lambda one: one.nucleus)
    dr = SPACING / max(tail, 1.0)
    dr0, width = dense(nucleus, "length")
    return Wanted(deck.atom.V, nucleus, tail, which, m, (min(dr0, AT_NUCLEUS / nucleus, dr), dr, width))


def find(result: AtomResult, monitor: Monitor) -> None:
    """Store position and rate of the resonance in the field, with their errors, where the deck requests them."""
    problem = result.problem
    one, block = problem.resonance, problem.observed.resonance
    if one is None or block is None:
        return
    # the deck allows a resonance in constant fields alone
    blocks = [pulse.block for pulse in problem.pulse.pulses]
    field = sum(pulse.polarity * pulse.E0 for pulse in blocks if isinstance(pulse, StaticPulse))
    try:
        seen = resonance(one, abs(field))
    except NumericsError as error:
        monitor.warn(f"no resonance: {error}")
        return
    result.resonance = _name(one)
    result.numbers |= {"resonance_energy": seen.energy, "resonance_rate": seen.rate}
    result.errors |= {"resonance_energy": seen.energy_error, "resonance_rate": seen.rate_error}
    if seen.rate_error > UNSURE * abs(seen.rate):
        monitor.warn(
            f"resonance_rate = {seen.rate:.3g} is uncertain by {seen.rate_error:.2g}: rates of so weak a field are lost "
            "in the rounding of the energy"
        )
    if not block.named:
        text = _mixture(result, one, seen.weight)
        if text:
            monitor.warn(text)


def _name(one: Wanted) -> str:
    """Return which resonance it is, in words."""
    if isinstance(one.which, Parabolic):
        return f"n1 = {one.which.n1}, n2 = {one.which.n2}, m = {one.m}"
    if isinstance(one.which, tuple):
        return f"{level_name(*one.which)}, m = {one.m}"
    return f"nearest to {one.which:.10g} hartree, m = {one.m}"


def _mixture(result: AtomResult, one: Wanted, weight: float) -> str:
    """Return what is to be said of an initial level that is made of several resonances; nothing of one that is not."""
    start = result.problem.start[0]
    name = level_name(start.n, start.l)
    if not isinstance(one.which, Parabolic):
        if weight >= NEARLY_ALL:
            return ""
        return (
            f"the resonance that {name} becomes in a rising field holds {weight:.2g} of it: the initial state is a mixture of "
            "several, which decay at different rates; observe: [{resonance: {energy: ...}}] names another"
        )
    parts = [(state, share) for state, share in parabolic_weights(start.n, start.l, one.m) if share > 1e-9]
    if len(parts) < 2:
        return ""
    listed = ", ".join(f"({state.n1}, {state.n2}) {share:.3g}" for state, share in parts[:LISTED])
    more = f" and {len(parts) - LISTED} more" if len(parts) > LISTED else ""
    other = parts[1][0]
    return (
        f"{name} is a mixture of {len(parts)} Stark states, which decay at different rates: (n1, n2) with shares {listed}{more}; "
        f"the resonance belongs to ({one.which.n1}, {one.which.n2}), and "
        f"observe: [{{resonance: {{n1: {other.n1}, n2: {other.n2}}}}}] names another"
    )
