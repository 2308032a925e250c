"""H of a small sector as a dense matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.sectors.operator import SectorOperator

__all__ = ["matrix_of"]


def matrix_of(operator: SectorOperator) -> NDArray[Any]:
    """Return H (D, D) float64 on the device, a product for each column."""
    device, size = operator.device, operator.size
    with device.use():
        out = device.xp.empty((size, size))
        unit = device.xp.zeros(size)
        for k in range(size):
            unit[k] = 1.0
            operator.apply(unit, out[k])
            unit[k] = 0.0
    return np.asarray(out) if device.kind == "cpu" else out
