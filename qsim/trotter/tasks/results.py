"""What the tasks beside an evolution leave; nothing here loads a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.tasks.problem import scale_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.tasks.problem import TaskProblem

__all__ = ["SpectrumResult"]

EPS = 2.2e-16
SAME = 10.0  # times the residuals: levels closer than that may be one level


@dataclass
class SpectrumResult:
    """Levels of all sectors.

    Attributes
    ----------
    problem : TaskProblem
    sectors : list of Sector
    levels, residuals : (sectors, levels) float64
        Not a number where a sector has fewer states.
    observed : dict of arrays
        Expectation values in the lowest (highest) state.
    products : int
    """

    problem: TaskProblem
    sectors: list[Sector]
    levels: NDArray[np.float64]
    residuals: NDArray[np.float64]
    observed: dict[str, NDArray[Any]] = field(default_factory=dict)
    products: int = 0

    @property
    def order(self) -> list[tuple[int, int]]:
        """Sector and number of all levels, the lowest (highest) first."""
        sign = -1.0 if self.problem.deck.spectrum.which == "highest" else 1.0
        places = [tuple(map(int, place)) for place in np.argwhere(np.isfinite(self.levels))]
        return sorted(((i, k) for i, k in places), key=lambda place: sign * self.levels[place])

    @property
    def extreme(self) -> Sector:
        """Sector of the lowest (highest) level."""
        return self.sectors[self.order[0][0]]

    def error(self, number: int) -> float:
        """Return the bound of the error of a level: its residual, and rounding."""
        place = self.order[number]
        return float(self.residuals[place]) + 4.0 * EPS * scale_of(self.problem.model)

    @property
    def degeneracy(self) -> int:
        """Levels that cannot be told from the lowest (highest) one."""
        energies = [self.levels[place] for place in self.order]
        return sum(
            abs(e - energies[0]) <= SAME * (self.error(0) + self.error(k)) for k, e in enumerate(energies)
        )
