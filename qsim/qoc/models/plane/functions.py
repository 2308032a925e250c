"""Potentials and dipoles of two coordinates at the points of a grid: formulas, wells and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.table_units import TableOfXY
from qsim.core.physics.functions import formula
from qsim.core.physics.surfaces import sane, surface_of, tabulated
from qsim.qoc.deck.systems.grid2d import FormulaOfXY, HenonHeiles

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray
    from qsim.qoc.deck.systems.grid2d import Component, Grid2dSystem, PotentialOfXY


def potential_at(block: PotentialOfXY, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return V (n1, n2) at the points x, y (n1, n2), hartree.

    Raises
    ------
    InvalidInput
        If it is not finite or too large somewhere, or a table does not cover the points.
    FileError
        If a table cannot be read.
    """
    key = "system.potential"
    if isinstance(block, FormulaOfXY):
        return sane(formula(block.value, f"{key}.value", x=x, y=y), f"{key}.value")
    if isinstance(block, TableOfXY):
        return sane(tabulated(block, x[:, 0], y[0], f"{key}.file"), f"{key}.file")
    if isinstance(block, HenonHeiles):
        return np.asarray(0.5 * (x * x + y * y) + block.strength * (x * x * y - y**3 / 3.0))
    with np.errstate(over="ignore"):
        wells = [(1.0 - np.exp(-block.beta * (q - block.r0))) ** 2 for q in (x, y)]
    return sane(np.asarray(block.D * (wells[0] + wells[1])), key)


def dipole_at(component: Component, x: FloatArray, y: FloatArray, key: str) -> FloatArray:
    """Return a component of the dipole (n1, n2) at the points x, y (n1, n2), a.u.

    Raises
    ------
    InvalidInput
        If it is not finite or too large somewhere, or a table does not cover the points.
    FileError
        If a table cannot be read.
    """
    if isinstance(component, str):
        return sane(formula(component, key, x=x, y=y), key)
    return sane(tabulated(component, x[:, 0], y[0], f"{key}.file"), f"{key}.file")


def remarks(system: Grid2dSystem) -> dict[str, str]:
    """Return what a user must know of the splines through the tables of a system, by their keys.

    Raises
    ------
    InvalidInput, FileError
        As :func:`potential_at` does.
    """
    blocks = {f"system.dipole.{name}": getattr(system.dipole, name) for name in "xy"}
    blocks["system.potential"] = system.potential
    tables = {f"{key}.file": block for key, block in blocks.items() if isinstance(block, TableOfXY)}
    found = {key: surface_of(block, key).remark() for key, block in tables.items()}
    return {key: text for key, text in found.items() if text}
