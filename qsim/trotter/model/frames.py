"""Frames of the spins: which axis of the deck is the z axis of the strings.

A rotation of all spins by pi about the bisector of two axes exchanges these two and turns the third one over.  It takes a
quantity that H conserves along x or y (the total spin, its parity) to z, where sectors number their states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.deck.axes import AXES, Axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model

# spins that one matrix product turns
TOGETHER = 6
# rotations of a spin by pi about the bisector of z and another axis, but for a factor i; columns: states of S^a = 1/2 and -1/2
TURNS = {
    "x": np.array([[1.0, 1.0], [1.0, -1.0]], np.complex128) * np.sqrt(0.5),
    "y": np.array([[1.0, -1.0j], [1.0j, -1.0]], np.complex128) * np.sqrt(0.5),
}


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

    def places(self, axes: str) -> tuple[str, float]:
        """Return the axes of the strings of a product of components along axes of the deck, and its sign."""
        placed = [self.place(axis) for axis in axes]
        return "".join(axis for axis, _ in placed), float(np.prod([sign for _, sign in placed]))


# by the axis of the deck that is z of the strings; spins along z as they are
FRAMES: dict[Axis, Frame] = {
    "z": Frame(),
    "x": Frame((2, 1, 0), (1.0, -1.0, 1.0)),
    "y": Frame((0, 2, 1), (-1.0, 1.0, 1.0)),
}


def rotated(device: Device, psi: NDArray[Any], axis: str) -> NDArray[Any]:
    """Return a state (2^N,) in the basis of the eigenstates of ``S^a`` of all spins; a new array but along z.

    Twice the same rotation leads back.
    """
    if axis == "z":
        return psi
    xp, spins = device.xp, int(psi.size).bit_length() - 1
    with device.use():
        for low in range(0, spins, TOGETHER):
            count = min(TOGETHER, spins - low)
            # spins next to each other in one matrix product; site `low` is the lowest bit
            turn = device.asarray(reduce(np.kron, [TURNS[axis].conj().T] * count))
            if low:
                psi = xp.matmul(turn, psi.reshape(-1, 1 << count, 1 << low)).reshape(-1)
            else:
                psi = (psi.reshape(-1, 1 << count) @ turn.T).reshape(-1)
    return psi
