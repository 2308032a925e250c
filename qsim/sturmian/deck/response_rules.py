"""Consistency rules of `task: response`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck.response import Response
from qsim.sturmian.deck.symmetry import pairs, states_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["rules", "waves"]

# Values of l_max whose results give the limit of all partial waves, where the deck lists none.
WAVES = 4


def waves(deck: SturmianDeck) -> list[int]:
    """Return the values of l_max whose results are extrapolated: the deck's, or its own l_max and those below."""
    if deck.extrapolate is not None:
        return list(deck.extrapolate.l_max)
    top = 4 if deck.channels.l_max is None else deck.channels.l_max
    first = max(top - WAVES + 1, 0)
    return list(range(first, first + WAVES))


def rules(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield contradictions of a deck whose task is response."""
    task = deck.task
    assert isinstance(task, Response)
    if deck.channels.pairs is not None:
        text = "a response needs all pairs up to l_max in every symmetry; give channels.l_max"
        yield Finding("channels.pairs", text)
    if deck.solver.type == "dense":
        yield Finding("solver.type", "first-order functions are found by matrix_free")
    if deck.scan is not None:
        text = "this block belongs to task: bound; a response finds its errors from extrapolate and a smaller basis"
        yield Finding("scan", text)
    yield from _duplicates(task)
    if "acceleration" in task.gauges and deck.system.potential.type != "coulomb":
        yield Finding("task.gauges", "the acceleration is that in the field -Z/r; take length and velocity")
    if deck.channels.pairs is None:
        yield from _pairs(deck, waves(deck)[-1])
    yield from _observables(deck, task)


def _pairs(deck: SturmianDeck, top: int) -> Iterator[Finding]:
    """Yield symmetries without pairs at the largest l_max."""
    for L, _, parity, _ in states_of(deck):
        if not pairs(L, top + L, parity=parity):
            key = "states" if deck.states is not None else "channels.parity"
            yield Finding(key, f"no pair (la, lb) of {parity} parity couples to L = {L}")
            return


def _duplicates(task: Response) -> Iterator[Finding]:
    """Yield values that a list of the task has twice."""
    lists: dict[str, Sequence[object]] = {
        "observables": task.observables,
        "multipoles": task.multipoles,
        "gauges": task.gauges,
        "omega": task.frequencies,
        "partners": [sorted(pair) for pair in task.partners or []],
    }
    for name, values in lists.items():
        for k, value in enumerate(values):
            if value in values[:k]:
                yield Finding(f"task.{name}.{k}", f"{value} is a duplicate")
                break


def _observables(deck: SturmianDeck, task: Response) -> Iterator[Finding]:
    """Yield observables that the states do not have, and keys of observables that are not asked for."""
    wanted, states = set(task.observables), states_of(deck)
    needs = [name for name in task.observables if name != "oscillator_strengths"]
    for k, (L, _, parity, _) in enumerate(states):
        if parity != natural(L) and needs:
            key = "channels.parity" if deck.states is None else f"states.{k}"
            text = f"a state without an electron in 1s reaches a continuum below itself, and has no {needs[0]} of this kind"
            yield Finding(key, f"{text}; give observables: [oscillator_strengths]")
            return
    if "polarisability" not in wanted and "omega" in task.model_fields_set:
        yield Finding(
            "task.omega", "frequencies belong to observables: [polarisability]; add it, or leave them out"
        )
    if "oscillator_strengths" in wanted and "observables" in task.model_fields_set and len(states) < 2:
        text = "transitions need two states at least, but the deck has one; add states, or leave them out"
        yield Finding("task.observables", text)
    if "lifetimes" in wanted and not any(_decays(*state) for state in states):
        text = "no state of the deck decays by electric dipole radiation: 1 1S, 2 1S and 2 3S live longer by orders"
        yield Finding("task.observables", f"{text}; leave lifetimes out")
    if task.partners is not None and "c6" not in wanted:
        yield Finding("task.partners", "partners belong to observables: [c6]; add it, or leave them out")
    if task.other is not None and "c6" not in wanted:
        yield Finding("task.with", "other atoms belong to observables: [c6]; add it, or leave them out")
    if "c6" in wanted:
        yield from _partners(deck, task)


def natural(L: int) -> str:
    """Return the parity of la + lb of states with an electron in 1s."""
    return "odd" if L % 2 else "even"


def _decays(L: int, S: int, parity: str, root: int) -> bool:
    """Return True if a state of natural parity has a lower one that electric dipole radiation leads to."""
    if parity != natural(L):
        return False
    # 1 1S, 2 1S and 2 3S have no P state below them; every P state has an S state
    return L > 0 or root + S > 1


def _partners(deck: SturmianDeck, task: Response) -> Iterator[Finding]:
    """Yield partners that are no states of the deck, or whose force is not the integral over imaginary frequencies."""
    states = states_of(deck)
    for k, pair in enumerate(task.partners or []):
        for number in pair:
            if number >= len(states):
                text = f"state {number} is not there: the deck has {len(states)}, counted from 0"
                yield Finding(f"task.partners.{k}", text)
            elif (reason := _no_force(*states[number])) is not None:
                yield Finding(f"task.partners.{k}", reason)
    if task.partners is None and all(_no_force(*state) is not None for state in states):
        yield Finding("task.observables", f"no state of the deck has a C6: {_no_force(*states[0])}")


def _no_force(L: int, S: int, parity: str, root: int) -> str | None:
    """Return why the C6 of a state is not computed; None if it is."""
    if L > 0:
        return f"with L = {L} the force depends on the direction; C6 is computed between S states"
    if _decays(L, S, parity, root):
        return "a state with a lower P state exchanges real photons, which the integral over imaginary frequencies misses"
    return None


def partners(deck: SturmianDeck) -> list[tuple[int, int]]:
    """Return the numbers of the states of each dispersion coefficient: the deck's, or all pairs of S states that have one."""
    task = deck.task
    assert isinstance(task, Response)
    if "c6" not in task.observables:
        return []
    if task.partners is not None:
        return [(pair[0], pair[1]) for pair in task.partners]
    fit = [k for k, state in enumerate(states_of(deck)) if _no_force(*state) is None]
    return [(a, b) for a in fit for b in fit if a <= b]
