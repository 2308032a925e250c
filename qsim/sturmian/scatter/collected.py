"""Everything that the solutions of a collision have shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from qsim.sturmian.scatter.elastic import Elastic

if TYPE_CHECKING:
    from qsim.sturmian.driven.setup import Bound, Setup
    from qsim.sturmian.scatter.cross_sections.kinematics import Kinematics
    from qsim.sturmian.scatter.cross_sections.summed import Summed
    from qsim.sturmian.scatter.problem import Collision
    from qsim.sturmian.scatter.solved import Solved, Wave

__all__ = ["CollisionResult"]


@dataclass
class CollisionResult:
    """Cross sections of all energies, with the solver's numbers.

    Attributes
    ----------
    problem : Collision
    setup : Setup
    kinematics : list of Kinematics
        One for each energy.
    observed : list of dict
        For each energy: sums over L by label (spin or gauge).
    solved : list of Solved
    wave : Wave or None
    initial : Bound or None
    convergence : dict
        Totals at each value of the scanned keys.
    elastic : Elastic
        Phases and scattering lengths (e_h).
    """

    problem: Collision
    setup: Setup
    kinematics: list[Kinematics]
    observed: list[dict[str, Summed]]
    solved: list[Solved]
    wave: Wave | None
    initial: Bound | None
    task: ClassVar[str] = "collisions"
    convergence: dict[str, dict[str, list[object]]] = field(default_factory=dict)
    elastic: Elastic = field(default_factory=Elastic)

    @property
    def condition(self) -> float:
        """Largest condition number of the eigenvectors of h that were used."""
        return max((solved.condition for solved in self.solved), default=1.0)

    @property
    def columns(self) -> list[list[Summed]]:
        """Sums over L, [energy][spin or gauge]."""
        return [list(by_label.values()) for by_label in self.observed]

    @property
    def levels(self) -> list[tuple[int, int]]:
        """Levels (n, l) that the other electron stays in, in any column, ascending."""
        return sorted({name for row in self.columns for sums in row for name in sums.levels})

    @property
    def momenta(self) -> list[int]:
        """Total orbital momenta of the solutions, ascending."""
        return sorted({L for row in self.columns for sums in row for L in sums.by_L})
