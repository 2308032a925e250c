"""The ground state of a sector as a start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.lanczos import Search
from qsim.trotter.sectors.operator import SectorOperator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.basis import Sector

__all__ = ["Ground", "ground_state"]

SAME = 1e3  # residuals: levels closer than that have no lowest state that numbers could tell
TOLERANCE = 1e-13  # residual in units of the size of the spectrum


@dataclass(frozen=True)
class Ground:
    """The lowest state of a sector.

    Attributes
    ----------
    vector : (D,) float64
        On the device, normalised.
    energy, residual : float
    gap : float
        Distance to the next level of the sector; infinite where there is none.
    """

    vector: NDArray[Any]
    energy: float
    residual: float
    gap: float

    @property
    def error(self) -> float:
        """Bound of the distance of the vector from the ground state, ``sqrt 2`` times the residual over the gap."""
        return float(np.sqrt(2.0)) * self.residual / self.gap


def ground_state(device: Device, sector: Sector, model: Model) -> Ground:
    """Find the lowest state of a sector.

    Raises
    ------
    NumericsError
        If it is degenerate in the sector, to what the residuals can tell.
    """
    scale, linear = scale_of(model), SectorOperator(device, sector, model)
    search = Search(device, linear, 2, TOLERANCE * scale, scale, dtype=linear.dtype)
    while not search.complete:
        search.next_level()
    found = search.found
    if len(found.energies) == 1:
        return Ground(found.vectors[0], found.energies[0], found.residuals[0], np.inf)
    gap = found.energies[1] - found.energies[0]
    if gap <= SAME * max(sum(found.residuals), search.tolerance):
        raise NumericsError(
            f"the ground state is degenerate in the sector {sector}: two levels at {found.energies[0]:.10g}, {gap:.1g} apart",
            hint="another sz, the sign of the inversion (sector: {sz: 0, inversion: 1}), or a small term that chooses one state",
        )
    return Ground(found.vectors[0], found.energies[0], found.residuals[0], gap)
