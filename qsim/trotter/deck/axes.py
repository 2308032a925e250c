"""Axes of the spins, in the order of all arrays."""

from typing import Literal

Axis = Literal["x", "y", "z"]
PairAxes = Literal["xx", "yy", "zz", "xy", "yx", "yz", "zy", "zx", "xz"]

AXES: tuple[Axis, ...] = ("x", "y", "z")
PAIR_AXES: tuple[PairAxes, ...] = ("xx", "yy", "zz")
UNLIKE: tuple[PairAxes, ...] = ("xy", "yx", "yz", "zy", "zx", "xz")
