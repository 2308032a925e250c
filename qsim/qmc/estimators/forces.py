r"""Forces on the nuclei: minus the derivative of the energy of the trial function, all of its coefficients kept.

With electrons carried along, E the local energy and g the derivative of log psi (half of the Jacobian's included),

.. math::
   \mathbf F_a=-\langle f\,\partial_aE\rangle-2\,\langle f\,(E-\bar E)\,\mathbf g_a\rangle .

Next to a node E and g grow as one over the distance x, so that their product has no variance.  The factor
:math:`f=9t^2-15t^4+7t^6` for :math:`t=x/\epsilon<1`, with :math:`x=|\psi|/|\nabla\psi|`, takes that away; its integral leaves an
error of order :math:`\epsilon^3` (S. Pathak and L. K. Wagner, AIP Adv. 10, 085213 (2020)), which half the range tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.core.deck.units import Length
from qsim.core.results.tables import Table
from qsim.qmc.estimators.histograms import ERROR, Boundaries, EstimatorBlock, Histogram, Setting
from qsim.qmc.statistics.block_sums import BlockMeans
from qsim.qmc.statistics.blocking import Estimate, derived

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["Forces", "NuclearForces", "Response", "factor"]

RANGES = (1.0, 0.5, 0.25)  # of the regularisation, over that of the deck
RANGE = 1e-2  # bohr, where there are nodes
APART = 3.0  # standard deviations by which forces of two ranges may differ


class Response(NamedTuple):
    """What configurations change by as nuclei move.

    Attributes
    ----------
    energy : (W,) float64
        Local energies, hartree.
    energy_slopes, log_slopes : (W, 3 A) float64
        Derivatives of the local energy (hartree/bohr) and of log psi (1/bohr) by the coordinates of the nuclei.
    distance : (W,) float64
        |psi| / |grad psi|, about the distance to the next node, bohr.
    """

    energy: FloatArray
    energy_slopes: FloatArray
    log_slopes: FloatArray
    distance: FloatArray


def factor(distance: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
    """Return the regularisation at distances from a node, 1 beyond `reach`."""
    if not reach:
        return np.ones_like(distance)
    t = np.minimum(distance / reach, 1.0) ** 2
    return np.asarray(t * (9.0 + t * (-15.0 + 7.0 * t)))


class Forces(EstimatorBlock):
    """Forces on the nuclei in vmc: derivatives of the energy at fixed parameters."""

    key = "forces"
    summary = "forces on the nuclei, of vmc sections"
    diffusion = False

    warp: bool = Field(default=True, description="carry electrons along with the nuclei near them")
    regularise: Annotated[Length, Field(ge=0.0, le=1.0)] | Literal["auto"] = Field(
        default="auto",
        description="distance to a node below which samples count less and less; auto: 0.01 bohr, and 0 where there are no nodes",
    )

    @classmethod
    def tables(cls) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        axes, unit = ("atom", "xyz"), "hartree/bohr"
        fixed = "minus the derivative of the energy of the trial function, whose parameters stay"
        return (
            Table("force", axes, unit, "force on each nucleus", note=fixed),
            Table("force_error", axes, unit, "error of force", note=ERROR),
            Table("force_ranges", ("range",), "bohr", "ranges of the regularisation next to nodes"),
            Table("force_by_range", ("range", *axes), unit, "forces with each of these ranges"),
            Table("force_by_range_error", ("range", *axes), unit, "their statistical errors", note=ERROR),
        )

    def findings(self, where: str, system: Boundaries) -> Iterator[Finding]:
        """Yield crystals and traps."""
        if system.periodic:
            yield Finding(where, "forces are of open systems in this version")
        elif not system.atoms:
            yield Finding(where, "forces are on nuclei, and a trap has none")
        elif not system.vmc:
            yield Finding(where, "forces are measured in vmc sections, and there is none")

    def cells(self, atoms: int) -> int:
        """Return how many numbers are summed."""
        return 1 + 9 * len(RANGES) * atoms

    def make(self, setting: Setting) -> Histogram:
        """Return the sums."""
        reach = self.regularise
        if reach == "auto":
            reach = RANGE if setting.nodes else 0.0
        return NuclearForces(setting, float(reach), warp=self.warp)


class NuclearForces(Histogram):
    """Forces with their errors: ``force`` (atoms, 3) and what is known of it for each range of the regularisation.

    Parameters
    ----------
    reach
        Largest range of the regularisation, bohr; 0: none.
    warp
        Carry electrons along.
    """

    def __init__(self, setting: Setting, reach: float, *, warp: bool) -> None:
        self.atoms, self.reach, self.warp = len(setting.atoms), reach, warp
        # Of each range: f dE, f E g, f g for all coordinates; behind them the energy.
        super().__init__(setting, (1 + 9 * len(RANGES) * self.atoms,))
        self.counts = np.zeros(self.counts.shape)
        self.sums: Any = BlockMeans()
        self._response = setting.response

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers."""
        assert self._response is not None  # vmc sections have one
        found = self._response(R, warp=self.warp)
        g, E = found.log_slopes, found.energy[:, None]
        columns = []
        for share in RANGES:
            f = factor(found.distance, share * self.reach)[:, None]
            columns += [f * found.energy_slopes, f * E * g, f * g]
        self.counts += count @ np.concatenate([*columns, E], axis=1)

    def _forces(self) -> tuple[list[list[Estimate]], list[list[Estimate]]]:
        """Return the forces of each range, and what they differ by from the first one."""
        rows, weights = self.sums.rows, self.sums.weights
        n = 3 * self.atoms
        parts = rows[:, :-1].T.reshape(len(RANGES), 3, n, -1)
        energy = rows[:, -1]

        def force(d: float, Eg: float, g: float, E: float) -> float:
            return -d - 2.0 * (Eg - E * g)

        def difference(*x: float) -> float:
            return force(x[0], x[1], x[2], x[6]) - force(x[3], x[4], x[5], x[6])

        forces = [
            [derived(force, [*parts[r, :, k], energy], weights) for k in range(n)] for r in range(len(RANGES))
        ]
        others = [
            [derived(difference, [*parts[0, :, k], *parts[r, :, k], energy], weights) for k in range(n)]
            for r in range(1, len(RANGES))
        ]
        return forces, others

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables."""
        shape = (len(RANGES), self.atoms, 3)
        if not len(self.sums.rows):
            nothing = np.full(shape, np.nan)
            means, bars, claimed = nothing, nothing, nothing[0]
        else:
            forces, others = self._forces()
            means = np.array([[one.mean for one in row] for row in forces]).reshape(shape)
            bars = np.array([[_or_nan(one.error) for one in row] for row in forces]).reshape(shape)
            claimed = np.array([_claimed(*found) for found in zip(forces[0], *others, strict=True)]).reshape(
                shape[1:]
            )
        if not errors:
            bars, claimed = np.full(shape, np.nan), np.full(shape[1:], np.nan)
        return {
            "force": means[0],
            "force_error": claimed,
            "force_ranges": self.reach * np.array(RANGES),
            "force_by_range": means,
            "force_by_range_error": bars,
        }

    def notes(self) -> list[str]:
        """Return the components without an error."""
        found = self.arrays()
        lost = np.isnan(found["force_error"]) & np.isfinite(found["force_by_range_error"][0])
        if not lost.any():
            return []
        return [
            f"{int(lost.sum())} components of forces have no error bar: they depend on the range of the regularisation next to "
            f"nodes by more than {APART:g} standard deviations; a smaller regularise has a smaller error, and more noise"
        ]


def _or_nan(error: float | None) -> float:
    return math.nan if error is None else error


def _claimed(force: Estimate, half: Estimate, quarter: Estimate) -> float:
    """Return the error of a force: of chance, and what half the range changes beyond chance; NaN if nothing is claimed."""
    if force.error is None or half.error is None or quarter.error is None:
        return math.nan
    if abs(quarter.mean) > APART * quarter.error + 1e-12:
        return math.nan
    return math.sqrt(force.error**2 + max(half.mean**2 - half.error**2, 0.0))
