"""Errors of the numbers of a run, and their parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KICK", "SPACING", "STEP", "TABLE", "Accuracy"]

# parts of an error that every number has
STEP, SPACING = "the time step", "the grid spacing"
TABLE, KICK = "the rows of the table", "pulses narrower than a step in length gauge"


@dataclass(frozen=True)
class Accuracy:
    """Errors of the numbers of a run.

    Attributes
    ----------
    errors : dict
        Claimed error by the name of the scalar; empty if none were found.
    time_step, spacing : dict
        Its parts: ``|e_t|``, or the estimate from three steps, and ``|e_x|``.
    why_not
        Why there are none; empty if there are.
    rest : dict
        The other parts of it by the name of the scalar, then by `TABLE`, `KICK`, `BETWEEN`, `ROUNDED`, `WALLS`, `LEVELS`.
    """

    errors: Mapping[str, float]
    time_step: Mapping[str, float]
    spacing: Mapping[str, float]
    why_not: str = ""
    rest: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def parts(self, name: str) -> dict[str, float]:
        """Return the parts of the error of a scalar by what makes them."""
        return {STEP: self.time_step[name], SPACING: self.spacing[name], **self.rest[name]}
