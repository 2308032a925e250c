"""Consistency rules of a deck with photon energies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck.photon import MOST_PHOTONS, PhotonRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.sturmian.deck.collision import Scatter
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["rules"]


def rules(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield contradictions of a deck with photon energies."""
    given = task.photon
    if task.excess is not None:
        yield Finding("task.excess", "photon and excess say the same thing; give one of them")
    if isinstance(given, PhotonRange):
        yield from _range(given)
    elif isinstance(given, list) and len(set(given)) < len(given):
        yield Finding("task.photon", "a photon energy is a duplicate")
    for key in ("ejected", "angles"):
        if key in task.model_fields_set:
            yield Finding(
                f"task.{key}", f"{key} belongs to double photoionisation, which excess asks for; leave it out"
            )
    wanted = [name for name in ("sdcs", "fdcs") if name in task.observables]
    if wanted and "observables" in task.model_fields_set:
        text = f"{wanted[0]} is that of two free electrons; ask for it with excess instead of photon"
        yield Finding("task.observables", text)
    if "basis" in deck.model_fields_set and deck.basis.type != "fedvr":
        yield Finding("basis.type", "many photon energies share the whole grid; give basis: fedvr")
    if deck.solver.type == "dense":
        yield Finding("solver.type", "many photon energies need the driven equation; give matrix_free")
    if deck.scan is not None:
        yield Finding(
            "scan", "photon energies are given in task.photon, and their errors need no scan; leave it out"
        )


def _range(given: PhotonRange) -> Iterator[Finding]:
    """Yield mistakes in a range of photon energies."""
    if given.to <= given.first:
        yield Finding(
            "task.photon.to", f"the range ends at {given.to:g} hartree, which is not above its beginning"
        )
        return
    if given.step is None:
        return
    if given.count is not None:
        yield Finding("task.photon.step", "count and step say the same thing; give one of them")
    elif (given.to - given.first) / given.step > MOST_PHOTONS:
        text = f"the step makes more than {MOST_PHOTONS} energies"
        yield Finding("task.photon.step", f"{text}; resonances are refined without a small step")
