"""Warnings of a response: numbers that basis, box or partial waves leave uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.response.limits import WITH_GAUGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.sturmian.response.result import ResponseResult

__all__ = ["warnings", "without_lifetime"]

# Relative error that is worth a warning.
POOR = 0.02
NAMES = {
    "f": "oscillator strengths",
    "alpha": "polarisabilities",
    "rate": "decay rates",
    "c6": "dispersion coefficients",
}


def warnings(result: ResponseResult) -> Iterator[str]:
    """Yield a warning for each kind of numbers of which some are uncertain."""
    for name, text in NAMES.items():
        limit = result.limits.get(name)
        if limit is None or not np.isfinite(limit.values).any():
            continue
        # the first gauge of the deck is that of the scalars
        gauges = name in WITH_GAUGES
        values, errors = (part[..., 0] if gauges else part for part in limit)
        size = np.abs(values)
        # weak transitions count by the strongest one
        scale = np.fmax(size, 1e-3 * np.nanmax(size))
        worst = float(np.nanmax(errors / scale))
        if worst > POOR:
            remedy = "more functions, a basis.energy closer to the states' (auto), a larger grid.R, or a larger l_max"
            if name == "alpha":
                remedy = f"{remedy}; near a level, a frequency further from it"
            yield f"{text} are uncertain by up to {100.0 * worst:.2g} %; give {remedy}"


def without_lifetime(result: ResponseResult) -> Iterator[str]:
    """Yield a note for each state without a lifetime where one was requested."""
    if not result.shows_lifetimes:
        return
    values, _ = result.lifetimes()
    for level, value in zip(result.levels, values, strict=False):
        if not np.isfinite(value):
            ground = level.L == level.S == level.root == 0
            reason = (
                "is stable"
                if ground
                else "is metastable: no lower level that electric dipole radiation leads to"
            )
            yield f"{level.name} {reason}; it has no lifetime here"
