"""Plan and build of the task that a deck sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput, NumericsError

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.core.run.stages import Plan
    from qsim.tridiag.checks import Blame
    from qsim.tridiag.deck.atom import AtomDeck
    from qsim.tridiag.deck.model import TridiagDeck
    from qsim.tridiag.deck.plane import PlaneDeck
    from qsim.tridiag.problem import Problem


def plan(loaded: LoadedDeck[TridiagDeck]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    deck = loaded.deck
    if deck.task == "propagate":
        from qsim.tridiag.propagate import build as propagate

        return propagate.plan(loaded)
    if deck.task == "atom":
        from qsim.tridiag.atom import build as atom

        return atom.plan(cast("LoadedDeck[AtomDeck]", loaded))
    if deck.task == "plane":
        from qsim.tridiag.plane import build as plane

        return plane.plan(cast("LoadedDeck[PlaneDeck]", loaded))
    if deck.task == "scaling":
        from qsim.tridiag.scaling import build as scaling

        return scaling.plan(deck)
    from qsim.tridiag.systems import build as systems

    return systems.plan(deck)


def build(loaded: LoadedDeck[TridiagDeck], device: Device) -> Problem:
    """Set up the task of the deck."""
    blame = _blame(loaded)
    try:
        return _build(loaded, device, blame)
    except InvalidInput as error:
        blame(error.key, str(error))


def _build(loaded: LoadedDeck[TridiagDeck], device: Device, blame: Blame) -> Problem:
    """Set up the task of the deck; each task imports its own room only."""
    deck = loaded.deck
    if deck.task == "propagate":
        from qsim.tridiag.propagate import build as propagate

        return propagate.build(loaded, device, blame)
    if deck.task == "atom":
        from qsim.tridiag.atom import build as atom

        return atom.build(cast("LoadedDeck[AtomDeck]", loaded), device)
    if deck.task == "plane":
        from qsim.tridiag.plane import build as plane

        return plane.build(cast("LoadedDeck[PlaneDeck]", loaded), device)
    if deck.task == "scaling":
        from qsim.tridiag.scaling import build as scaling

        return scaling.build(deck, device, blame)
    from qsim.tridiag.systems import build as systems

    return systems.build(deck, device, blame)


def _blame(loaded: LoadedDeck[TridiagDeck]) -> Blame:
    """Return the function that raises a mistake at a key of the deck."""

    def blame(key: str, text: str) -> NoReturn:
        loaded.raise_for([Finding(key, text)])
        # raise_for has raised already
        raise NumericsError(text)

    return blame
