r"""Twists of a run and their weights: one, a list, or a regular grid reduced by time reversal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.deck import wavefunction as blocks

__all__ = ["Twist", "twists_of"]


class Twist(NamedTuple):
    """A twist in reciprocal vectors of the supercell, and its share of the average."""

    vector: NDArray[np.float64]
    weight: float

    def __str__(self) -> str:
        return "twist (" + ", ".join(f"{x:g}" for x in self.vector) + ")"


def twists_of(block: blocks.System) -> list[Twist]:
    """Return the twists of a deck's system with weights of sum 1."""
    if block.twist_grid is not None:
        found = _grid(block.twist_grid, block.twist_shift)
    elif block.twists is not None:
        found = [(np.array(one.twist, np.float64), one.weight) for one in block.twists]
    else:
        found = [(np.array(block.twist, np.float64), 1.0)]
    total = sum(weight for _, weight in found)
    return [Twist(vector, weight / total) for vector, weight in found]


def _grid(counts: list[int], shift: list[float]) -> list[tuple[NDArray[np.float64], float]]:
    """Return the points ``(i + shift) / n`` of a grid within -1/2 ... 1/2; opposite ones are one with twice the weight."""
    kept: dict[tuple[float, ...], tuple[NDArray[np.float64], float]] = {}
    for index in itertools.product(*(range(n) for n in counts)):
        point = (np.array(index) + shift) / np.array(counts)
        folded = [p - np.ceil(p - 0.5 - 1e-9) + 0.0 for p in (point, -point)]
        # Rounded, so that points which differ by rounding are one; its exact fractions are kept.
        first, exact = max(((tuple(np.round(p, 9).tolist()), p) for p in folded), key=lambda pair: pair[0])
        kept[first] = (
            kept[first][0] if first in kept else exact,
            kept[first][1] + 1.0 if first in kept else 1.0,
        )
    return list(kept.values())
