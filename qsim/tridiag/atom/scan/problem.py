r"""Many runs of one atom that differ in intensity, carrier phase or delay of one pulse, and the average over a focus.

All runs have the grid, gauge, channels and steps that the most demanding of them needs.

Within a Gaussian beam of peak intensity I0, the volume in which the intensity exceeds I is, with ``c = sqrt(I0 / I - 1)``,

    V = pi w0^2 zR (4 c / 3 + 2 c^3 / 9 - 4 arctan(c) / 3),   -dV/dI = pi w0^2 zR (2 I + I0) sqrt(I0 - I) / (3 I^(5/2))

for a target that is longer than the focus (three dimensions), and ``-dS/dI = pi w0^2 / (2 I)`` for a thin one (two dimensions).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.atom.polarization import field_of
from qsim.tridiag.atom.problem import Setting, setting

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.deck.atom import AtomDeck
    from qsim.tridiag.deck.scan import FocalAverage
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = ["AtomScan", "Settled", "settled"]

SCANNED = ("intensity", "cep", "delay")


@dataclass(frozen=True)
class Settled:
    """The runs of a deck; one without a scan.

    Attributes
    ----------
    decks, pulses
        Deck and field of each run.
    setting : Setting
        Of all runs.
    values : dict
        What is scanned: one number per run, atomic units.
    """

    decks: list[AtomDeck]
    pulses: list[LaserField]
    setting: Setting
    values: dict[str, list[float]]

    @property
    def hardest(self) -> int:
        """Index of the run with the strongest field."""
        peaks = [pulse.peak(self.setting.dt * self.setting.steps) for pulse in self.pulses]
        return int(np.argmax(peaks))


@dataclass
class AtomScan:
    """Problem of a scan.

    Attributes
    ----------
    runs : list of AtomProblem
    values : dict
        What is scanned: one number per run, atomic units.
    focal : FocalAverage or None
    device : Device
        One batch on a GPU; on a CPU, as many runs at the same time as it has threads.
    notices : list of str
    """

    runs: list[AtomProblem]
    values: dict[str, list[float]]
    focal: FocalAverage | None
    device: Device
    notices: list[str] = field(default_factory=list)


def settled(deck: AtomDeck) -> Settled:
    """Return the runs of a deck, with the setting that suits them all.

    Raises
    ------
    InvalidInput
        As :func:`qsim.tridiag.atom.problem.setting`.
    """
    decks, values = _decks(deck)
    pulses = [field_of(one) for one in decks]
    settings = [setting(one, pulse) for one, pulse in zip(decks, pulses, strict=True)]
    if len(settings) == 1:
        return Settled(decks, pulses, settings[0], values)
    # one batch needs one grid and the same steps: the largest of each
    longest = max(settings, key=lambda one: one.dt * one.steps)
    # one gauge for all: velocity as soon as one run needs it, with its map of points
    velocity = [one for one in settings if one.gauge == "velocity"]
    common = replace(
        longest,
        gauge="velocity" if velocity else "length",
        rmax=max(one.rmax for one in settings),
        lmax=max(one.lmax for one in settings),
        core=max(one.core for one in settings),
        begin=max(one.begin for one in settings),
        speed=max(one.speed for one in settings),
        dr0=(velocity or settings)[0].dr0,
        width=(velocity or settings)[0].width,
    )
    return Settled(decks, pulses, common, values)


def _decks(deck: AtomDeck) -> tuple[list[AtomDeck], dict[str, list[float]]]:
    """Return one deck per run: all combinations of what is scanned, the first key slowest."""
    scan = deck.scan
    if scan is None or deck.laser is None:
        return [deck], {}
    given = {name: getattr(scan, name) for name in SCANNED if getattr(scan, name) is not None}
    decks = []
    combinations = list(itertools.product(*given.values()))
    for combination in combinations:
        changed: dict[str, Any] = dict(zip(given, combination, strict=True))
        if "intensity" in changed:
            # in atomic units the intensity is E0^2
            changed |= {"E0": math.sqrt(changed["intensity"]), "intensity": None}
        pulses = list(deck.laser.pulses)
        pulses[scan.pulse] = pulses[scan.pulse].model_copy(update=changed)
        laser = deck.laser.model_copy(update={"pulses": pulses})
        decks.append(deck.model_copy(update={"laser": laser, "scan": None}))
    columns = zip(*combinations, strict=True)
    return decks, {name: [float(v) for v in column] for name, column in zip(given, columns, strict=True)}
