"""Frames of the spins: which axis of the deck is the z axis of the strings.

A rotation of all spins by pi about the bisector of two axes exchanges these two and turns the third one over.  It takes a
quantity that H conserves along x or y (the total spin, its parity) to z, where sectors number their states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.deck.axes import AXES, Axis

if TYPE_CHECKING:
    from qsim.trotter.model.hamiltonian import Model

__all__ = ["FRAMES", "Frame"]


@dataclass(frozen=True)
class Frame:
    """Axes in which the strings of a space are written.

    Attributes
    ----------
    axes : tuple of int
        Axis of the deck along which each axis x, y, z of the strings points.
    signs : tuple of float
        -1 where it points the other way.
    """

    axes: tuple[int, int, int] = (0, 1, 2)
    signs: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @property
    def axis(self) -> Axis:
        """Axis of the deck along which the spins of the strings are."""
        return AXES[self.axes[2]]

    def turned(self, model: Model) -> Model:
        """Return a model with its components along the axes of the strings."""
        if self.axis == "z":
            return model
        return model.rotated(list(self.axes), np.array(self.signs))

    def place(self, axis: str) -> tuple[Axis, float]:
        """Return the axis of the strings along which an axis of the deck points, and its sign."""
        number = self.axes.index(AXES.index(axis))
        return AXES[number], self.signs[number]


# by the axis of the deck that is z of the strings; spins along z as they are
FRAMES: dict[Axis, Frame] = {
    "z": Frame(),
    "x": Frame((2, 1, 0), (1.0, -1.0, 1.0)),
    "y": Frame((0, 2, 1), (-1.0, 1.0, 1.0)),
}
