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
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.deck.atom import AtomDeck
    from qsim.tridiag.deck.scan import FocalAverage
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = ["AtomScan", "Settled", "below", "focal_average", "settled"]

SCANNED = ("intensity", "cep", "delay")
NODES = 800  # of the focal integral
WINGS = 1e-7  # of the first intensity: where the focal integral ends


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
    """What a scan needs.

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
    found = [setting(one, pulse) for one, pulse in zip(decks, pulses, strict=True)]
    if len(found) == 1:
        return Settled(decks, pulses, found[0], values)
    longest = max(found, key=lambda one: one.dt * one.steps)
    velocity = [one for one in found if one.gauge == "velocity"]
    common = replace(
        longest,
        gauge="velocity" if velocity else "length",
        rmax=max(one.rmax for one in found),
        lmax=max(one.lmax for one in found),
        core=max(one.core for one in found),
        begin=max(one.begin for one in found),
        speed=max(one.speed for one in found),
        dr0=(velocity or found)[0].dr0,
        width=(velocity or found)[0].width,
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
            changed |= {"E0": math.sqrt(changed["intensity"]), "intensity": None}
        pulses = list(deck.laser.pulses)
        pulses[scan.pulse] = pulses[scan.pulse].model_copy(update=changed)
        laser = deck.laser.model_copy(update={"pulses": pulses})
        decks.append(deck.model_copy(update={"laser": laser, "scan": None}))
    columns = zip(*combinations, strict=True)
    return decks, {name: [float(v) for v in column] for name, column in zip(given, columns, strict=True)}


def focal_average(
    intensity: NDArray[np.float64], values: NDArray[np.float64], peak: float, dimensions: int
) -> NDArray[np.float64]:
    """Return the integral of a yield over a Gaussian focus, (...), in units of ``pi w0^2 zR`` (or ``pi w0^2``).

    Parameters
    ----------
    intensity : (k,) float64
        Rising.
    values : (k, ...) float64
        Yield at each, interpolated as a power law between them and continued below the first by the power between the first two.
    peak : float
        Peak intensity, at most the last.
    dimensions : int
        3 or 2.
    """
    logs = np.log(np.maximum(values, 1e-300))
    x = np.log(intensity)
    # t = sqrt(log(peak / I)): the weight of the highest intensities is smooth in t
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    lowest = intensity[0] * WINGS
    end = math.sqrt(math.log(peak / lowest))
    t = 0.5 * end * (1.0 + nodes)
    i = peak * np.exp(-t * t)
    k = np.clip(np.searchsorted(intensity, i) - 1, 0, intensity.size - 2)
    share = ((np.log(i) - x[k]) / (x[k + 1] - x[k])).reshape(-1, *(1,) * (values.ndim - 1))
    found = np.exp(np.clip((1.0 - share) * logs[k] + share * logs[k + 1], -690.0, 690.0))
    volume = 0.5 / i
    if dimensions == 3:
        volume = (2.0 * i + peak) * np.sqrt(np.maximum(peak - i, 0.0)) / (3.0 * i**2.5)
    # dI = -2 t I dt
    measure = 0.5 * end * weights * volume * 2.0 * t * i
    return np.asarray(np.tensordot(measure, found, axes=(0, 0)))


def below(intensity: NDArray[np.float64], values: NDArray[np.float64], peak: float, dimensions: int) -> float:
    """Return the share of a focal average (of (k,) values) that is extrapolated, from below the first intensity."""
    whole = float(focal_average(intensity, values, peak, dimensions))
    cut = np.concatenate([[intensity[0] * (1.0 - 1e-9)], intensity])
    known = focal_average(cut, np.concatenate([[1e-300], values]), peak, dimensions)
    return 1.0 - float(known) / whole if whole > 0.0 else 0.0
