"""Describe the motion of the columns of a quantum system: duration, number of slots, as kets or as density matrices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Motion:
    """Duration, slots, and what a column is.

    Attributes
    ----------
    duration : float
        T, in the unit of time of the model.
    slots : int
        Number N of slots.
    lindblad : bool
        Density matrices with the jumps, instead of kets.
    lossy : bool
        Kets that lose what jumps: order 0 of the expansion in jumps, a lower part of the value.
    """

    duration: float
    slots: int
    lindblad: bool = False
    lossy: bool = False

    @property
    def tau(self) -> float:
        """Length of a slot."""
        return self.duration / self.slots
