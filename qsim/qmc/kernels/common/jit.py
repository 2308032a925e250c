"""Compilation of the CPU kernels of ``qmc``."""

from typing import Any

from qsim.core.device.jit import PART as _PART

#: Sums may be contracted; order and special values stay as written, since walkers are checked for NaN.  Arrays are not
#: reference-counted (``_nrt``): the atomic operations of a view in every inner loop took half of the time.  So kernels
#: allocate nothing; their work space comes from the caller.
JIT: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
    "_nrt": False,
    "no_cfunc_wrapper": True,
}

#: Functions that kernels call, and Python never.
PART: dict[str, Any] = {**JIT, **_PART}

#: Small ones are written into their callers.
INLINE: dict[str, Any] = {**PART, "forceinline": True}

#: Long ones are called from small ones; numba would write a `PART` into what it was first compiled for, if that is small.
CALLED: dict[str, Any] = {**PART, "forceinline": False}
