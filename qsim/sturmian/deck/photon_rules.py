"""Consistency rules of a deck with photon energies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck.collision_symmetry import initial_of, sectors_of
from qsim.sturmian.deck.photon import MOST_PHOTONS, PhotonRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.sturmian.deck.collision import Scatter
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["rules"]


def rules(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield contradictions of a deck with photon energies."""
    if task.photon is not None and task.excess is not None:
        yield Finding("task.excess", "photon and excess say the same thing; give one of them")
    key = "excess" if task.photon is None else "photon"
    given = getattr(task, key)
    if isinstance(given, PhotonRange):
        yield from _range(given, key)
    elif key == "photon" and isinstance(given, list) and len(set(given)) < len(given):
        yield Finding("task.photon", "a photon energy is a duplicate")
    for name in ("ejected", "angles"):
        if name in task.model_fields_set:
            text = f"{name} belongs to double photoionisation, which a positive excess asks for; leave it out"
            yield Finding(f"task.{name}", text)
    yield from _left_out(deck)
    if "sum_rules" in task.observables and not {"length", "velocity"} & set(task.gauges):
        yield Finding(
            "task.observables", "sum_rules need the length or the velocity gauge; add one to gauges"
        )
    if "basis" in deck.model_fields_set and deck.basis.type != "fedvr":
        yield Finding("basis.type", "many photon energies share the whole grid; give basis: fedvr")
    if deck.solver.type == "dense":
        yield Finding("solver.type", "many photon energies need the driven equation; give matrix_free")
    if deck.scan is not None:
        yield Finding(
            "scan", "photon energies are given in task.photon, and their errors need no scan; leave it out"
        )


def _left_out(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield total momenta that the dipole reaches and the deck leaves out."""
    channels, initial = deck.channels, initial_of(deck)
    if initial.L == 0 or channels.pairs is not None or "parity" in channels.model_fields_set:
        return
    have = {sector.L for sector in sectors_of(deck)}
    missing = [L for L in range(initial.L - 1, initial.L + 2) if L not in have]
    # from P states L = 0 and 2 alone have an electron in 1s, and L = 1 is another parity
    if not missing or not have <= set(range(initial.L - 1, initial.L + 2)):
        return
    text = f"the dipole leads from {'SPDFG'[initial.L]} states to L = {', '.join(map(str, missing))} as well"
    if channels.L is not None:
        yield Finding("channels.L", f"{text}, which the cross sections lack", "warning")
    else:
        yield Finding("channels.l_max", f"{text}, of which there are no pairs up to l_max; give a larger one")


def _range(given: PhotonRange, key: str) -> Iterator[Finding]:
    """Yield mistakes in a range of photon energies."""
    if given.to <= given.first:
        text = f"the range ends at {given.to:g} hartree, which is not above its beginning"
        yield Finding(f"task.{key}.to", text)
        return
    if given.step is None:
        return
    if given.count is not None:
        yield Finding(f"task.{key}.step", "count and step say the same thing; give one of them")
    elif (given.to - given.first) / given.step > MOST_PHOTONS:
        text = f"the step makes more than {MOST_PHOTONS} energies"
        yield Finding(f"task.{key}.step", f"{text}; resonances are refined without a small step")
