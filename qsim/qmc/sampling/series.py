"""Sections of a run as computations: what they have in common, and what they leave."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from qsim.core.run.loop import Progress, Resumable, drive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.qmc.sampling.walkers import Walkers
    from qsim.qmc.statistics.samples import Samples

__all__ = ["ENERGIES", "PIECE", "Agreement", "Beginning", "Pace", "Sampler", "Series", "averaged", "sample"]

#: Names of the energies of a block, in the order of ``State.energy``; hartree, for the whole system.
ENERGIES = ("kinetic", "electron_electron", "local", "nonlocal", "external", "energy")
SUMMED = ("weight", "seconds", "generations", "persistent")  # of all twists, and not their mean
LARGEST = ("inverse_error",)
EVERY = 1.0  # seconds between two reports of several ranks
PIECE = 0.5  # seconds of a block to the next chance to stop


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
        all walkers and generations), ``acceptance``, ``seconds``; of diffusion also ``population``, ``trial_energy`` and
        ``cut_energy`` (what the window of branching cuts off).
    info : dict of float
        Numbers of the whole section.
    arrays : dict
        Other arrays: estimators, histories.
    samples : Samples or None
        What error bars come from; not part of the results.
    warnings : list of str
        What a user must know about the sampling.
    member : str or None
        Folder of one of several twists, such as ``twist_1``, or of a state but the first; None for their average.
    """

    kind: str
    label: str
    timestep: float
    blocks: dict[str, NDArray[Any]]
    info: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    samples: Samples | None = None
    warnings: list[str] = field(default_factory=list)
    member: str | None = None


def averaged(series: Sequence[Series], weights: Sequence[float]) -> Series:
    """Return the average of a section over twists: means over each block of all of them, estimators, and numbers."""
    shares = np.asarray(weights) / np.sum(weights)

    def mean(name: str, values: list[Any]) -> Any:
        if name in LARGEST:
            return max(values)
        if name in SUMMED:
            return sum(values)
        # Axes are the same for all twists and stay; everything else is averaged with the
        # weights.
        if all(np.array_equal(one, values[0]) for one in values):  # axes of estimators
            return values[0]
        if name.endswith("_error"):  # of independent runs
            return np.sqrt(sum((share * one) ** 2 for share, one in zip(shares, values, strict=True)))
        return sum(share * one for share, one in zip(shares, values, strict=True))

    def combined(found: list[dict[str, Any]]) -> dict[str, Any]:
        return {name: mean(name, [one[name] for one in found]) for name in found[0]}

    return replace(
        series[0],
        label=f"{series[0].kind}, tau = {series[0].timestep:g}",
        blocks=combined([one.blocks for one in series]),
        info=combined([one.info for one in series]),
        arrays=combined([one.arrays for one in series]),
        samples=None,
        member=None,
    )


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


class Agreement:
    """When several ranks report progress and look for a stop: about once a second, by what the numbers of a block bring along.

    One rank reports wherever it can.

    Parameters
    ----------
    ranks
        Number of ranks.

    Attributes
    ----------
    due : bool
        Whether all ranks report now; at first they do.
    """

    def __init__(self, ranks: int) -> None:
        self.due, self._alone = True, ranks == 1
        self._reported = time.monotonic()

    def waited(self) -> float:
        """Return the seconds since this rank has reported, which it tells the others."""
        return time.monotonic() - self._reported

    @property
    def overdue(self) -> bool:
        """Whether all ranks report now, or the only one has not for `PIECE` seconds."""
        return self.due and (not self._alone or self.waited() > PIECE)

    def learn(self, waited: NDArray[np.float64]) -> None:
        """Take in the seconds of all ranks: the same numbers lead to the same choice everywhere."""
        self.due = self.due or bool(waited.max() > EVERY)

    def reported(self) -> None:
        """Begin to wait for the next report."""
        self.due, self._reported = self._alone, time.monotonic()


class Pace:
    """Numbers of generations that take about `PIECE` seconds, after which a stop is possible; the same on all ranks.

    On a GPU, whose launches are not waited for, all of them are one piece.

    Parameters
    ----------
    walkers
        Whose generations they are.
    """

    def __init__(self, walkers: Walkers) -> None:
        self._comm = walkers.comm
        # It is found from one generation.
        self._pace = self._left = math.inf if walkers.device.is_cuda else 1.0
        self._done, self._since = 0, 0.0

    def part(self, count: int) -> int:
        """Return how many of `count` generations are to be done at once."""
        if not self._done:
            self._since = time.perf_counter()
        return int(min(max(1.0, self._left), count))

    def due(self, count: int) -> bool:
        """Return whether it is time to report after so many more generations; a collective call."""
        self._done += count
        self._left -= count
        if self._left >= 1.0:
            return False
        # The slowest rank sets the pace.
        took = self._comm.gather_numbers(np.array([time.perf_counter() - self._since]))
        self._pace = PIECE * self._done / max(float(took.max()), 1e-9)
        self._left, self._done = self._pace, 0
        return True


class Beginning:
    """The state in which an iteration began: what a stop within it saves, so that it begins again.

    Attributes
    ----------
    state
        Between :meth:`begin` and :meth:`end`; None on a GPU.
    """

    def __init__(self) -> None:
        self.state: Mapping[str, Any] | None = None
        self._report: Report | None = None
        self._comm: Comm | None = None
        self._looked = 0.0

    def begin(self, walkers: Walkers, state: Callable[[], Mapping[str, Any]], report: Report) -> None:
        """Keep a state whose walkers are determined by their positions."""
        if not walkers.device.is_cuda:
            self._comm = walkers.comm
            self.state = copy.deepcopy({**state(), "walkers": walkers.saved(exact=True)})
            self._report, self._looked = report, time.perf_counter()

    def look(self) -> None:
        """Look for a request to stop, if it is time to on any rank; a collective call."""
        if self.state is None or self._report is None or self._comm is None:
            return
        if self._comm.gather_numbers(np.array([time.perf_counter() - self._looked])).max() > PIECE:
            self._report(Progress())
            self._looked = time.perf_counter()

    def end(self) -> None:
        """Forget it."""
        self.state = None


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
