r"""Many runs that differ in the numbers of a pulse or of the potential, and what they ask of a geometry.

Within a Gaussian beam of peak intensity I0, the volume in which the intensity exceeds I is, with ``c = sqrt(I0 / I - 1)``,

    V = pi w0^2 zR (4 c / 3 + 2 c^3 / 9 - 4 arctan(c) / 3),   -dV/dI = pi w0^2 zR (2 I + I0) sqrt(I0 - I) / (3 I^(5/2))

for a target that is longer than the focus (three dimensions), and ``-dS/dI = pi w0^2 / (2 I)`` for a thin one (two dimensions).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qsim.core.run.loop import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.results.quantities import Quantity
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.scan import FocalAverage

__all__ = ["Evolution", "Motion", "Remarks", "Scan"]

Remarks = list[tuple[str, float, str]]
"""What a user must know of a run: a short name, how bad it is compared with other runs, and the text."""


class Evolution:
    """A propagation that goes from mark to mark, alone or in step with others.

    Attributes
    ----------
    start : int
        Steps done before.
    """

    start: int

    @property
    def remaining(self) -> Sequence[Sequence[int]]:
        """Step numbers that are still to come and are recorded, in the groups that make one call."""
        raise NotImplementedError

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Propagate to the next marks, record, and return the last sums: norm, dipole, ...

        Raises
        ------
        NumericsError
            If the norm is not finite.
        """
        raise NotImplementedError

    def state(self) -> State:
        """Return what continues the propagation bit for bit."""
        raise NotImplementedError

    def result(self) -> Any:
        """Return what the complete propagation leaves."""
        raise NotImplementedError

    def advance(self, report: Report) -> None:
        """Propagate to the end.

        Raises
        ------
        NumericsError
            If the norm is not finite.
        """
        for marks in self.remaining:
            sums = self.to(marks)
            report(Progress(marks[-1], {"norm": float(sums[0]), "dipole": float(sums[1])}))


@dataclass(frozen=True)
class Motion:
    """A geometry as a scan sees it.

    Attributes
    ----------
    task : str
        Name of the quantities of a scan.
    quantities : sequence of Quantity
        Of a single run.
    patterns : tuple of str
        Beginnings of the names of the numbers that a scan keeps of each run.
    energy, spectrum : str
        Names of the photoelectron spectrum of a run and of its axis.
    state : str
        Attribute of a result with the state at the end, which no other rank needs.
    begin
        Propagations of some runs of a scan, at t = 0 or at the states to continue from.
    together
        Propagates them to the next marks on a GPU, and returns the last sums of each.
    analyse
        Adds what the end of a run tells, and its spectra; the dict keeps what runs share.
    errors
        Finds the errors of a run, and returns remarks on large ones.
    warnings
        Remarks on a run.
    work, claimed
        Work of a run, and whether errors are to be found of runs with so much work together; where not, it says why.
    """

    task: str
    quantities: Sequence[Quantity[Any]]
    patterns: tuple[str, ...]
    energy: str
    spectrum: str
    state: str
    begin: Callable[[Scan, Sequence[int], Sequence[Mapping[str, Any] | None]], list[Any]]
    together: Callable[[Sequence[Any], Sequence[int]], list[NDArray[np.float64]]]
    analyse: Callable[[Any, Callable[[], State], Monitor, dict[int, Any]], None]
    errors: Callable[[Any, Callable[[], State], Monitor, float], Remarks]
    warnings: Callable[[Any], Remarks]
    work: Callable[[Any], float]
    claimed: Callable[[Any, float, Monitor], bool]


@dataclass
class Scan:
    """Problem of a scan; all runs have the same steps and the same grid.

    Attributes
    ----------
    motion : Motion
    runs : list
        Problems of the geometry, with `steps` and `dt`.
    values : dict
        What is scanned: one number per run by its key, atomic units.
    focal : FocalAverage or None
    device : Device
        On a CPU, as many runs at the same time as it has threads.
    notices : list of str
    """

    motion: Motion
    runs: list[Any]
    values: dict[str, list[float]]
    focal: FocalAverage | None
    device: Device
    notices: list[str] = field(default_factory=list)
