"""Numbers of the forces of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qmc.results.parts import part_results

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.run import Result

__all__ = ["FORCES"]


def _forces(result: Result, name: str = "force") -> NDArray[np.float64] | None:
    """Return the forces (A, 3), or their errors, of the last section that has measured them."""
    found = [item.series.arrays[name] for item in part_results(result) if name in item.series.arrays]
    return found[-1] if found else None


def _largest(result: Result) -> float | None:
    found = _forces(result)
    return None if found is None else float(np.linalg.norm(found, axis=1).max())


def _error(result: Result) -> float | None:
    """Return the error of the largest force along itself; None where a component has none."""
    found, errors = _forces(result), _forces(result, "force_error")
    if found is None or errors is None:
        return None
    a = int(np.argmax(np.linalg.norm(found, axis=1)))
    error = float(np.linalg.norm(found[a] * errors[a]) / max(np.linalg.norm(found[a]), np.finfo(float).tiny))
    return error if np.isfinite(error) else None


def _warped(result: Result) -> bool:
    """Return True if forces were measured with electrons carried along: their sum is zero for every configuration."""
    carried = any(getattr(block, "warp", False) for block in result.problem.measured)
    return carried and _forces(result) is not None


def _net(result: Result) -> float | None:
    found = _forces(result)
    return None if found is None else float(np.linalg.norm(found.sum(axis=0)))


FORCES: tuple[Quantity[Result], ...] = (
    Quantity(
        "vmc_force_largest",
        "hartree/bohr",
        "largest force on a nucleus",
        _largest,
        error=_error,
        when=lambda r: _forces(r) is not None,
    ),
    Quantity(
        "vmc_force_net",
        "hartree/bohr",
        "sum of the forces on all nuclei, electrons carried along: zero but for rounding",
        _net,
        when=_warped,
        exact=True,
    ),
)
