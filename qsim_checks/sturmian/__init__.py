"""Random decks of sturmian, and what their results should be: see :mod:`qsim_checks.coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim_checks.coverage import Trial
from qsim_checks.sturmian import collisions, decks, excited, judges, responses, tabled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    from qsim_checks.coverage import Kind

__all__ = ["KINDS", "trial"]

BOUND, EXTRAPOLATED, INTEGRALS, COLLISIONS = (
    0.6,
    0.1,
    0.05,
    0.18,
)  # shares of the decks; the rest makes the basis alone


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck and say how to judge it."""
    drawn = rng.random()
    if drawn > 1.0 - COLLISIONS:
        return collisions.collision(rng)
    if drawn < BOUND:
        return _bound(rng, folder)
    if drawn < BOUND + EXTRAPOLATED:
        return _extrapolated(rng, folder)
    if drawn < BOUND + EXTRAPOLATED + INTEGRALS:
        return _integrals(rng, folder)
    return _basis(rng, folder)


def _bound(rng: np.random.Generator, folder: Path) -> Trial:
    deck, model = decks.bound(rng, folder)
    return Trial(deck, lambda results: judges.bound(results, deck, model))


def _extrapolated(rng: np.random.Generator, folder: Path) -> Trial:
    deck, model = decks.extrapolated(rng)
    return Trial(deck, lambda results: judges.bound(results, deck, model))


def _integrals(rng: np.random.Generator, folder: Path) -> Trial:
    deck, model = decks.integrals(rng, folder)
    return Trial(deck, lambda results: judges.integrals(results, deck, model))


def _basis(rng: np.random.Generator, folder: Path) -> Trial:
    deck, model = decks.basis(rng, folder)
    return Trial(deck, lambda results: judges.basis(results, deck, model))


KINDS: Mapping[str, Kind] = {
    "bound": _bound,
    "extrapolated": _extrapolated,
    "integrals": _integrals,
    "basis": _basis,
    "electron": lambda rng, folder: collisions.collision(rng, "electron"),
    "photo": lambda rng, folder: collisions.collision(rng, "photo"),
    "photons": lambda rng, folder: collisions.collision(rng, "photons"),
    "excited_photons": lambda rng, folder: excited.trial(rng),
    "slow": lambda rng, folder: collisions.collision(rng, "slow"),
    "resonances": lambda rng, folder: collisions.collision(rng, "resonances"),
    "responses": lambda rng, folder: responses.trial(rng),
    "excited_responses": lambda rng, folder: responses.excited_trial(rng),
    "tabled_responses": lambda rng, folder: responses.tabled_trial(rng, folder),
    "tabled_collisions": tabled.trial,
}
"""Kinds of decks that can be drawn alone: bound states, their limits of all partial waves, integrals and functions of a basis;
collisions of electrons with ions, slow ones with hydrogen, photoabsorption above double ionisation and at any photon energy, from
excited states too, doubly excited states; transitions and polarisabilities of S states, of excited ones
with quadrupoles; transitions, collisions and resonances in the field of a table of few rows."""
