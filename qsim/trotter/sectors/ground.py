"""The ground state of a sector as a start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.lowest import lowest_levels, same
from qsim.trotter.sectors.operator import sector_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.linear import SpaceOperator
    from qsim.trotter.sectors.symmetric import PlainSpace

__all__ = ["TOLERANCE", "Ground", "ground_state", "lowest_of"]

# residual in units of the size of the spectrum
TOLERANCE = 1e-13


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


def ground_state(
    device: Device, sector: PlainSpace, model: Model, linear: SpaceOperator | None = None
) -> Ground:
    """Find the lowest state of a sector, of H as it acts there; by default in a sector of Sz of spins 1/2.

    Raises
    ------
    NumericsError
        If it is degenerate in the sector, within the residuals.
    """
    if linear is None:
        assert isinstance(sector, Sector)
        linear = sector_operator(device, sector, model)
    return lowest_of([linear], scale_of(model))[1]


def lowest_of(operators: Sequence[SpaceOperator], scale: float) -> tuple[Any, Ground]:
    """Find the lowest state of several spaces, of H as it acts in each: its space and the state.

    Parameters
    ----------
    scale : float
        Size of the spectrum of H.

    Raises
    ------
    NumericsError
        If it is degenerate, within the residuals.
    """
    # two levels of each at least are searched: the gap to the next one bounds the error of the vector
    every = [lowest_levels(linear, 1, TOLERANCE * scale, scale) for linear in operators]
    place = min(range(len(every)), key=lambda number: float(every[number].energies[0]))
    levels, sector = every[place], operators[place].sector
    first = float(levels.energies[0]), float(levels.errors[0])
    states = sum(
        same(first, other, scale) is not False
        for one in every
        for other in zip(one.energies, one.errors, strict=True)
    )
    if states > 1 or not levels.known:
        least = "" if levels.known else "at least "
        where = f" in the sector {sector}"
        hint = "another sz, the sign of the inversion (sector: {sz: 0, inversion: 1}), or a small term that chooses one state"
        if len(every) > 1:
            where = " in the sectors of both parities together"
            hint = "name one parity (sector: {parity: even}), or add a small term that chooses one state"
        raise NumericsError(
            f"the ground state is degenerate{where}: {least}{states} states have the energy {first[0]:.10g}",
            hint=hint,
        )
    # a sector of one state has no other level
    gap = (
        np.inf
        if levels.every and len(levels.energies) == 1
        else float(levels.energies[1] - levels.energies[0])
    )
    return sector, Ground(levels.vectors[0], first[0], float(levels.residuals[0]), gap)
