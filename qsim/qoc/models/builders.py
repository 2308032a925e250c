"""The builder of every type of system: from a block of the deck to its matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from qsim.core.deck.table_units import doubted
from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.grid import GridSystem
from qsim.qoc.deck.systems.grid2d import Grid2dSystem
from qsim.qoc.deck.systems.matrices import MatricesSystem
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.rotor import RotorSystem
from qsim.qoc.deck.systems.states import AnyOperator, Observable, Thermal
from qsim.qoc.models.composite import composite_model
from qsim.qoc.models.grid2d import grid2d_model
from qsim.qoc.models.line.model import grid_model
from qsim.qoc.models.matrices import matrices_model
from qsim.qoc.models.quantum import ObservableTarget
from qsim.qoc.models.rotor import rotor_model

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from qsim.qoc.models.quantum import QuantumModel

System: TypeAlias = ModelSystem | MatricesSystem | RotorSystem | GridSystem | Grid2dSystem
"""A block `system` of the deck, of any type."""


def model(system: System, extra: int = 0) -> QuantumModel:
    """Return the matrices, starts and goal of a block `system`.

    Parameters
    ----------
    system
        Block of the deck, of one of the types of `qsim.qoc.deck.systems`.
    extra : int
        How often the levels that couplings reach are added where the basis was cut; what changes is the error of the levels.

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
    if isinstance(system, GridSystem):
        return grid_model(system, extra)
    if isinstance(system, Grid2dSystem):
        return grid2d_model(system, extra)
    return composite_model(system, extra)


def observable_of(system: System, formula: str, key: str, *, hermitian: bool = True) -> csr_array:
    """Return the operator (D, D) of a formula, Hermitian if it must be, in the names of a block `system`.

    Raises
    ------
    InvalidInput
        At `key`, if the formula is mistaken.
    """
    # as the goal of the same system, which knows the names; its start is any
    cold = Thermal(thermal=1e-9, below=0.5)
    kind = Observable if hermitian else AnyOperator
    goal_alone = {"target": kind(observable=formula), "initial": cold, "pairs": None}
    asked = system.model_copy(update=goal_alone)
    try:
        goal = model(asked).goal
    except InvalidInput as problem:
        raise InvalidInput(key, str(problem)) from None
    assert isinstance(goal, ObservableTarget)
    return goal.operator


def other_curves(system: System) -> System | None:
    """Return a system with other curves that the rows of its tables allow; None without such tables."""
    if isinstance(system, Grid2dSystem):
        return _other_surfaces(system)
    if not isinstance(system, GridSystem):
        return None
    found: dict[str, object] = {
        name: other
        for name in ("potential", "dipole", "polarisability")
        if (other := doubted(getattr(system, name))) is not None
    }
    named = {name: doubted(block) or block for name, block in system.dipoles.items()}
    if any(block is not system.dipoles[name] for name, block in named.items()):
        found["dipoles"] = named
    return system.model_copy(update=found) if found else None


def _other_surfaces(system: Grid2dSystem) -> Grid2dSystem | None:
    """Return two coordinates with other surfaces that the rows of their tables allow; None without such tables."""
    found: dict[str, object] = {}
    if (other := doubted(system.potential)) is not None:
        found["potential"] = other
    components = {name: getattr(system.dipole, name) for name in ("x", "y")}
    tables = {
        name: doubted(component) for name, component in components.items() if not isinstance(component, str)
    }
    if any(tables.values()):
        found["dipole"] = system.dipole.model_copy(update={name: one for name, one in tables.items() if one})
    return system.model_copy(update=found) if found else None
