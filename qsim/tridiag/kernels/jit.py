"""Parts of all compiled CPU kernels of ``tridiag``: compiler options, reciprocals, magnitudes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from qsim.core.device.jit import PART as _PART

# No fast-math flag that lets the compiler assume finite numbers: breakdown shows as inf and NaN, and must be seen.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
PART: dict[str, Any] = {**JIT, **_PART}


@njit(**PART)
def largest(values: Any) -> Any:
    """Return the largest modulus of numbers, 0 of none."""
    # A loop: numba compiles `np.abs(values).max()` for half a second.
    most = 0.0
    for value in values:
        most = max(most, abs(value))
    return most


def reciprocal(z: Any) -> Any:
    """Return ``1 / z`` in the precision of z; inf or NaN for zero, and no overflow on the way."""
    return 1 / z


def magnitude(z: Any) -> Any:
    """Return ``|Re z| + |Im z|``, within a factor of sqrt(2) of ``|z|``, which can neither overflow nor underflow."""
    return abs(z.real) + abs(z.imag)


@overload(reciprocal, jit_options=JIT)
def _reciprocal(z):
    """Return the compiled form of `reciprocal`: by ``|z|^2`` where that is in range, else by Smith's division."""
    if isinstance(z, types.Complex):
        real = np.float32 if z.bitwidth == 64 else np.float64
        one, low, high = (real(1), real(1e-30), real(1e30)) if real is np.float32 else (1.0, 1e-280, 1e280)

        def divide(z):
            re, im = z.real, z.imag
            square = re * re + im * im
            if low < square < high:
                t = one / square
                return complex(re * t, -im * t)
            # |z|^2 overflows or underflows: scaled by the larger part (Smith)
            scale = max(abs(re), abs(im))
            re, im = re / scale, im / scale
            t = one / (re * re + im * im) / scale
            return complex(re * t, -im * t)

        return divide
    unit = np.float32(1) if z.bitwidth == 32 else 1.0
    return lambda z: unit / z


@overload(magnitude, jit_options=JIT)
def _magnitude(z):
    if isinstance(z, types.Complex):
        return lambda z: abs(z.real) + abs(z.imag)
    return lambda z: abs(z)
