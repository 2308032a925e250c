"""Amplitudes of state vectors as kernels of CUDA take them: complex or real, in double or single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def macros(dtype: DTypeLike) -> dict[str, str | int]:
    """Return the macros of ``amplitudes.cuh`` for vectors of a type."""
    kind = np.dtype(dtype)
    width = 2 if kind.kind == "c" else 1
    return {"REAL": "float" if kind.itemsize == 4 * width else "double", "WIDTH": width}
