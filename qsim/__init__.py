"""Numerical solutions of five classic problems of quantum mechanics, on CPUs and GPUs.

Each method is a sub-package driven by a YAML deck: ``qsim tridiag deck.yaml`` on the command line is
``qsim.run("deck.yaml")`` here, and ``qsim.run({"method": "tridiag", ...})`` takes the deck as a mapping.  Importing this
package loads nothing heavy: `run`, `sweep`, `collect` and all others come from `qsim.api` when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.device.compilers.caches import ensure_kernel_cache, recompile_what_changed
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.api import (
        DeckError,
        DeviceError,
        FileError,
        MismatchError,
        NumericsError,
        QsimError,
        Results,
        Stopped,
        check,
        cite,
        collect,
        compare,
        difference,
        examples,
        open_results,
        run,
        sweep,
        table,
        validate,
    )

__all__ = [
    "DeckError",
    "DeviceError",
    "FileError",
    "MismatchError",
    "NumericsError",
    "QsimError",
    "Results",
    "Stopped",
    "__version__",
    "check",
    "cite",
    "collect",
    "compare",
    "difference",
    "examples",
    "open_results",
    "run",
    "sweep",
    "table",
    "validate",
]

recompile_what_changed()
ensure_kernel_cache()  # here, because a method's kernels may be imported without anything else of qsim


def __getattr__(name: str) -> Any:
    """Load what `qsim.api` offers at its first use."""
    if name not in __all__:
        raise AttributeError(f"module 'qsim' has no attribute {name!r}")
    from qsim import api

    value = globals()[name] = getattr(api, name)
    return value


def __dir__() -> list[str]:
    """Return the names that users may rely on."""
    return sorted(__all__)
