"""Axes of the spins, in the order of all arrays."""

from typing import Literal

__all__ = ["AXES", "PAIR_AXES", "Axis", "PairAxes"]

Axis = Literal["x", "y", "z"]
PairAxes = Literal["xx", "yy", "zz"]

AXES: tuple[Axis, ...] = ("x", "y", "z")
PAIR_AXES: tuple[PairAxes, ...] = ("xx", "yy", "zz")
