"""Values in types that strict JSON has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["json_ready", "python_scalar"]


def json_ready(value: object) -> Any:
    """Return ``value`` with everything in types that strict JSON has; non-finite numbers become ``None``."""
    value = python_scalar(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return json_ready(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [json_ready(item) for item in value]
    if isinstance(value, complex):
        return [json_ready(value.real), json_ready(value.imag)]
    return str(value)


def python_scalar(value: object) -> Any:
    """Return NumPy and CuPy scalars as Python ones, anything else unchanged."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value
