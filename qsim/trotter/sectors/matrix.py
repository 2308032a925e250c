"""H of a small sector as a dense matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.sectors.digits.product import StoredMatrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.sectors.linear import SpaceOperator

__all__ = ["matrix_of"]

# Columns between two looks for a stop.
TOGETHER = 64


def matrix_of(
    operator: SpaceOperator,
    look: Callable[[], None] = lambda: None,
) -> NDArray[Any]:
    """Return H (D, D) on the device: the stored matrix, or a product for each column; `look` for a stop between some of them."""
    device, size = operator.device, operator.size
    if isinstance(operator, StoredMatrix) and not device.is_cuda:
        return np.asarray(operator.matrix.toarray())
    with device.use():
        out = device.xp.empty((size, size), operator.dtype)
        unit = device.xp.zeros(size, operator.dtype)
        for k in range(size):
            unit[k] = 1.0
            operator.apply(unit, out[k])
            unit[k] = 0.0
            if k % TOGETHER == TOGETHER - 1:
                look()
        # each product is a column
        matrix = out.T if operator.dtype.kind == "c" else out
        # kernels that take complex vectors alone leave a real H with imaginary parts of zero
        if operator.is_real and matrix.dtype.kind == "c":
            matrix = device.xp.ascontiguousarray(matrix.real)
    return np.asarray(matrix) if device.kind == "cpu" else matrix
