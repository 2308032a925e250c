"""The builder of every type of system: from a block of the deck to its matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from qsim.qoc.deck.systems.grid2d import Grid2dSystem
from qsim.qoc.deck.systems.matrices import MatricesSystem
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.rotor import RotorSystem
from qsim.qoc.models.composite import composite_model
from qsim.qoc.models.grid2d import grid2d_model
from qsim.qoc.models.matrices import matrices_model
from qsim.qoc.models.rotor import rotor_model

if TYPE_CHECKING:
    from qsim.qoc.models.quantum import QuantumModel

__all__ = ["System", "model"]

System: TypeAlias = ModelSystem | MatricesSystem | RotorSystem | Grid2dSystem
"""A block `system` of the deck, of any type but the particle on a line."""


def model(system: System, extra: int = 0) -> QuantumModel:
    """Return the matrices, starts and goal of a block `system`.

    Parameters
    ----------
    system
        Block of the deck, of one of the types of `qsim.qoc.deck.systems`.
    extra : int
        Levels more where the basis was cut; what changes is the error of the levels.

    Raises
    ------
    InvalidSystem
        With every mistake that was found; `InvalidInput` of a single one has the same form.
    FileError
        If a file cannot be read.
    """
    if isinstance(system, MatricesSystem):
        return matrices_model(system)
    if isinstance(system, RotorSystem):
        return rotor_model(system, extra)
    if isinstance(system, Grid2dSystem):
        return grid2d_model(system, extra)
    return composite_model(system, extra)
