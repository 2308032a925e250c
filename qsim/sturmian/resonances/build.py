"""From the deck to a search for resonances, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian.deck.collision_symmetry import Settings, sectors_of
from qsim.sturmian.driven.automatic import numbers_of
from qsim.sturmian.driven.plan import Demands
from qsim.sturmian.driven.plan import plan as equations
from qsim.sturmian.driven.problem import Problem
from qsim.sturmian.resonances.located import OTHERS, TOGETHER, USUAL

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.core.run.stages import Plan
    from qsim.sturmian.deck.model import SturmianDeck


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of a search for resonances, and check its physics."""
    errors = bool(Settings.of(loaded.deck).task.errors)
    # Every direction of a space is kept with its product with H, a batch of them is made at a time; those that tell the errors
    # are the coarser grid's, once more with other partial waves.
    kept = round(2 * USUAL * (1.0 + OTHERS * errors))
    return equations(loaded, Demands(rounds=1 + errors, directions=TOGETHER, kept=kept))


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> Problem:
    """Settle a deck of resonances."""
    settings = Settings.of(loaded.deck)
    numbers, notices = numbers_of(settings)
    return Problem(device, settings, numbers, sectors_of(loaded.deck), notices)
