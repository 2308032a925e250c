"""Sections of a run as computations: what they have in common, and what they leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from qsim.core.run.loop import Resumable, drive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.qmc.statistics.samples import Samples

__all__ = ["ENERGIES", "Sampler", "Series", "sample"]

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
    timestep : float
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
    warnings : list of str
        What a user must know about the sampling.
    """

    kind: str
    label: str
    timestep: float
    blocks: dict[str, NDArray[Any]]
    info: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    samples: Samples | None = None
    warnings: list[str] = field(default_factory=list)


class Sampler(Resumable, Protocol):
    """A section, or one time step of it: a computation that can be saved wherever it reports.

    Attributes
    ----------
    total, unit, what
        Steps in all, what is counted, and the name of the task, as for :func:`~qsim.core.run.loop.drive`.
    done
        Steps done so far.
    """

    total: int
    unit: str
    what: str

    @property
    def done(self) -> int:
        """Steps done so far, also those before a restart."""

    def series(self) -> Series:
        """Return the blocks of the complete section."""


def sample(sampler: Sampler, monitor: Monitor, computation: Resumable | None = None) -> Series:
    """Run a section to its end and return its blocks.

    Parameters
    ----------
    sampler
        The section.
    monitor
        Observer of the run.
    computation
        A computation that advances `sampler` and whose state holds more; by default `sampler` itself.
    """
    drive(
        computation or sampler,
        monitor,
        total=sampler.total,
        unit=sampler.unit,
        what=sampler.what,
        done=sampler.done or None,
    )
    return sampler.series()
