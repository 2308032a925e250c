"""From the deck to a collision, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan
from qsim.sturmian.deck.collision_symmetry import Settings, sectors_of
from qsim.sturmian.driven.automatic import numbers_of
from qsim.sturmian.driven.krylov import FIRST, RESTART
from qsim.sturmian.driven.plan import Demands
from qsim.sturmian.driven.plan import plan as equations
from qsim.sturmian.scatter.cross_sections import kinematics
from qsim.sturmian.scatter.initial import recorded
from qsim.sturmian.scatter.problem import Collision

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.sturmian.deck.model import SturmianDeck


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of a collision, and check its physics."""
    settings = Settings.of(loaded.deck)
    task = settings.task
    # The file of an initial state is read now: a wrong one is a mistake of the deck, found
    # before anything is computed.
    try:
        recorded(settings)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    gauges = len(task.gauges) if task.process == "photo" else 1
    rounds = 1 + bool(task.errors) + sum(len(values) for values in settings.scan.values())
    demands = Demands(
        rounds=rounds,
        directions=_directions(settings),
        sources=gauges,
        kept=_kept(task.errors, gauges),
        ranks=max(1, len(sectors_of(loaded.deck)) * len(settings.energies) * rounds),
        # the search for an initial state calls the library of eigenvalues besides
        library="cublas" if task.process == "e_h" else "cusolver, complex",
    )
    return equations(loaded, demands)


def _directions(settings: Settings) -> int:
    """Return the directions that the solver keeps: few where the target can be ionised, all where it can be excited alone."""
    level = -0.5 * float(settings.system.Z) ** 2
    excited = settings.task.process == "e_h" and any(
        kinematics.electron(energy, level).E < 0.0 for energy in settings.energies
    )
    return FIRST + RESTART if excited else FIRST


def _kept(errors: bool, gauges: int) -> int:
    """Return the number of solutions of one symmetry and energy that others start from.

    Solutions with fewer partial waves, which tell the errors, start from those with all of them; one gauge from another.
    """
    if errors:
        return 2 * gauges
    return gauges if gauges > 1 else 0


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> Collision:
    """Settle a collision deck."""
    settings = Settings.of(loaded.deck)
    numbers, notices = numbers_of(settings)
    return Collision(device, settings, numbers, sectors_of(loaded.deck), notices, recorded(settings))
