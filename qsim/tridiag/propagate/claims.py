"""Errors of the numbers of a run, and their parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from qsim.tridiag.propagate.problem import Propagation

__all__ = ["KICK", "SPACING", "STEP", "TABLE", "Accuracy", "cuts"]

# parts of an error that every number has
STEP, SPACING = "the time step", "the grid spacing"
TABLE, KICK = "the rows of the table", "pulses narrower than a step in length gauge"


@dataclass(frozen=True)
class Accuracy:
    """Errors of the numbers of a run.

    Attributes
    ----------
    errors : dict
        Claimed error by the name of the scalar; empty if none were found.
    time_step, spacing : dict
        Its parts: ``|e_t|``, or the estimate from three steps, and ``|e_x|``.
    why_not
        Why there are none; empty if there are.
    rest : dict
        The other parts of it by the name of the scalar, then by `TABLE`, `KICK`, `BETWEEN`, `ROUNDED`, `WALLS`, `LEVELS`.
    """

    errors: Mapping[str, float]
    time_step: Mapping[str, float]
    spacing: Mapping[str, float]
    why_not: str = ""
    rest: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def parts(self, name: str) -> dict[str, float]:
        """Return the parts of the error of a scalar by what makes them."""
        return {STEP: self.time_step[name], SPACING: self.spacing[name], **self.rest[name]}


def cuts(problem: Propagation, psi: NDArray[Any]) -> dict[str, float]:
    """Return the errors of norms in parts of the box by the cells that their edges cut (Eq. T27).

    A cell is taken to have one density.  An edge at the distance ``u dx`` from its point leaves out ``rho' dx^2 ((1/4 - u^2)/2 -
    1/24)``; the second term is that of the midpoint rule beyond it.  Spacings of companions cut other cells, so that this part of
    the error does not show there.
    """
    lattice = problem.lattice
    edges: dict[str, tuple[float, ...]] = {
        f"norm_within_{r:g}": (-r, r) for r in problem.observed.norm_within
    }
    edges |= {f"norm_right_{place:g}": (place,) for place in problem.observed.norm_right}
    out = {}
    # points are counted from the left wall, which is point 0
    xmin = problem.box.xmin
    for name, places in edges.items():
        out[name] = 0.0
        for place in places:
            i = round((place - xmin) / lattice.dx)
            if not 0 <= i <= lattice.points + 1:
                continue
            u = (place - xmin) / lattice.dx - i
            # the density about the edge as a parabola: slope and curvature give the error of the cell that is cut (Eq. T27)
            before, here, after = (_density(psi, k) for k in (i - 1, i, i + 1))
            slope, bend = 0.5 * abs(after - before), abs(after - 2.0 * here + before)
            size = abs(0.5 * (0.25 - u * u) - 1.0 / 24.0) + 0.01
            out[name] += lattice.dx * (slope * size + bend / 24.0)
    return out


def _density(psi: NDArray[Any], point: int) -> float:
    """Return |psi|^2 at a point counted from the left wall, where psi is odd: the density beyond a wall is its mirror image."""
    walls = len(psi) + 1
    inside = walls - abs(walls - abs(point))
    return float(abs(psi[inside - 1])) ** 2 if 0 < inside < walls else 0.0
