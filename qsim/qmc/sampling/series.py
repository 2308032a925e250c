"""What a section of a run leaves, and how it is continued."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.statistics.samples import Samples

__all__ = ["ENERGIES", "Resume", "Series"]

#: Names of the energies of a block, in the order of ``State.energy``; hartree, for the whole system.
ENERGIES = ("kinetic", "electron_electron", "local", "nonlocal", "external", "energy")


@dataclass
class Series:
    """Blocks of one section, or of one time step of it.

    Attributes
    ----------
    kind : {"optimize", "vmc", "dmc"}
    label : str
        For tables and figures, such as ``"dmc, tau = 0.01"``.
    timestep : float or None
        1/hartree.
    blocks : dict of (blocks,) float64
        Means over a block: ``energy``, its components (:data:`ENERGIES`), ``energy_squared``, ``weight`` (sum of the weights of
        all walkers and generations), ``acceptance``, ``seconds``; of diffusion also ``population`` and ``trial_energy``.
    info : dict of float
        Numbers of the whole section.
    arrays : dict
        Other arrays: estimators, histories.
    samples : Samples or None
        What error bars come from; not part of the results.
    """

    kind: str
    label: str
    timestep: float | None
    blocks: dict[str, NDArray[Any]]
    info: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    samples: Samples | None = None


@dataclass
class Resume:
    """How a section is saved within the state of the run, and what it continues from.

    Attributes
    ----------
    wrap
        Makes the state of the run from that of the section.
    restored
        State of the section to continue from, or None; taken once.
    """

    wrap: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    restored: Mapping[str, Any] | None = None
