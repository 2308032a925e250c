"""``system: {type: grid2d}``: two coordinates by their levels, ``H0 = p1^2/2m1 + p2^2/2m2 + g p1 p2 + V(x, y)``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.quantities import Units
from qsim.qoc.models.basis import Basis
from qsim.qoc.models.faults import Faults
from qsim.qoc.models.goals import aim, named_states
from qsim.qoc.models.line.jumps import Levels, level_jumps
from qsim.qoc.models.operators import evaluate, sparse_matrix
from qsim.qoc.models.plane.levels import plane, remarks
from qsim.qoc.models.quantum import ControlTerm

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.deck.systems.grid2d import Grid2dSystem
    from qsim.qoc.models.plane.levels import Plane
    from qsim.qoc.models.quantum import QuantumModel

# Largest probability at the points next to a wall in a level of the start or the goal.
WALL = 1e-8


def grid2d_model(system: Grid2dSystem, extra: int = 0) -> QuantumModel:
    """Return the matrices of two coordinates in their lowest levels.

    Parameters
    ----------
    system
        Block of the deck.
    extra : int
        How often a sixteenth of the levels is added, with four times as many points in each coordinate.

    Raises
    ------
    InvalidSystem
        With every mistake that was found.
    """
    faults = Faults()
    with faults.catch():
        if system.dipole.x is None and system.dipole.y is None:
            raise InvalidInput(
                "system.dipole", "no component is given; write dipole: {x: x}, a formula of x and y"
            )
        levels = plane(system, extra * max(1, system.states // 16))
    faults.stop()
    count = levels.energies.size
    drift = sparse_matrix(sparse.diags_array(levels.energies))
    x, y = np.meshgrid(levels.axes[0].x, levels.axes[1].x, indexing="ij")
    named = {"H0": drift, "x": sparse_matrix(levels.matrix(x)), "y": sparse_matrix(levels.matrix(y))}

    def observable(text: str, key: str) -> csr_array:
        return evaluate(text, tuple(named), named.__getitem__, key, count)

    labels = tuple(map(str, range(count)))
    units = Units("hartree", fields=True)
    basis = Basis(
        labels,
        drift,
        drift,
        units,
        observable,
        errors=levels.errors,
        cut_at="system.states",
        inside=np.arange(count) < system.states,
    )
    controls: list[ControlTerm] = []
    for name, values in levels.dipoles.items():
        with faults.catch():
            matrix = sparse_matrix(-levels.matrix(values))
            if matrix.nnz == 0:
                raise InvalidInput(f"system.dipole.{name}", "this component is 0 everywhere")
            controls.append(ControlTerm(name, matrix))
    places = {label: place for place, label in enumerate(labels)}
    jumps = level_jumps(system.jumps, Levels(levels.energies, places, units, observable), faults)
    with faults.catch():
        goal = aim(system, basis, lambda gate, start: named_states(gate, start, basis))
        _require_room(levels, goal.start.states)
    faults.stop()
    # systems with more levels, for the error, have the same tables
    doubts = remarks(system) if extra == 0 else {}
    return replace(goal.model(basis, controls, jumps), plane=levels, doubts=doubts)


def _require_room(levels: Plane, columns: ComplexArray) -> None:
    """Refuse a start that feels the walls.

    Raises
    ------
    InvalidInput
        Naming the level and its probability there.
    """
    used = np.flatnonzero(np.abs(columns).max(axis=1) > 1e-6)
    for level in used:
        there = levels.at_walls(int(level))
        if there > WALL:
            text = f"level {level} has the probability {there:.2g} next to the walls, at most {WALL:g}; move min and max"
            raise InvalidInput("system.grid", text)
