"""Names that ``import qsim.tridiag`` offers without loading NumPy, SciPy and Numba."""

from __future__ import annotations

from typing import Any

PUBLIC = {"Solution": "qsim.tridiag.solver.solution", "solve": "qsim.tridiag.solver.solve"}


def attribute(name: str) -> Any:
    """Return a public name of the package, importing its module at the first use (PEP 562)."""
    if name in PUBLIC:
        import importlib

        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'qsim.tridiag' has no attribute {name!r}")
