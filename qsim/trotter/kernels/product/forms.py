"""The two forms of a product H psi in the space of all states, and which of them costs less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray

__all__ = ["Form", "costs_of", "form_of", "turned_axes"]

Form = Literal["bonds", "frames"]

# of the estimate for pairs, measured on a CPU, whose tiles stay in its cache: 0.6 ns with 17 spins, 0.8 ns with 21
CPU_BONDS = 0.5
# ns per amplitude: a pair, a field, a bit of a transform
BOND_COST, FLIP_COST, FRAME_COST = 1.5, 1.5, 0.45


def turned_axes(J: FloatArray, h: FloatArray) -> tuple[int, ...]:
    """Return which of x = 0 and y = 1 occur in couplings (3, N, N) or fields (3, N); the frame form visits these."""
    return tuple(axis for axis in (0, 1) if J[axis].any() or h[axis].any())


def costs_of(J: FloatArray, h: FloatArray) -> dict[Form, float]:
    """Return the cost of either form, ns per amplitude on one CPU thread, roughly.

    A coefficient that vanishes for equal or opposite spins halves the work of a pair; the frame form makes two transforms, of N
    bits each, for every axis.
    """
    spins = J.shape[1]
    upper = np.triu_indices(spins, 1)
    jx, jy = J[0][upper], J[1][upper]
    pairs = 0.5 * float(np.count_nonzero(jx != jy) + np.count_nonzero(jx != -jy))
    flips = float(np.count_nonzero((h[0] != 0) | (h[1] != 0)))
    levels = 2.0 * spins * len(turned_axes(J, h))
    return {"bonds": BOND_COST * pairs + FLIP_COST * flips, "frames": FRAME_COST * levels}


def form_of(J: FloatArray, h: FloatArray, *, cuda: bool) -> Form:
    """Return the form that costs less; the one by frames needs a vector as work space."""
    costs = costs_of(J, h)
    pairs = costs["bonds"] if cuda else CPU_BONDS * costs["bonds"]
    return "bonds" if pairs < costs["frames"] else "frames"
