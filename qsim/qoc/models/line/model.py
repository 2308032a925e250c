"""``system: {type: grid}``: a molecule by its lowest levels, ``H = H0 - mu E - (alpha/4) E0^2``."""

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
from qsim.qoc.models.line.levels import line, used_levels
from qsim.qoc.models.molecule import level_findings
from qsim.qoc.models.operators import sparse_matrix
from qsim.qoc.models.quantum import ControlTerm

if TYPE_CHECKING:
    from qsim.qoc.deck.systems.grid import GridSystem
    from qsim.qoc.models.line.levels import Line
    from qsim.qoc.models.quantum import QuantumModel


def grid_model(system: GridSystem, extra: int = 0) -> QuantumModel:
    """Return the matrices of a molecule in its lowest levels.

    Parameters
    ----------
    system
        Block of the deck.
    extra : int
        How often an eighth of the levels is added, in a basis that shares neither points nor walls with the deck.

    Raises
    ------
    InvalidSystem
        With every mistake that was found.
    """
    faults, units = Faults(), Units("hartree", fields=True)
    with faults.catch():
        if system.dipole is None and not system.dipoles and system.polarisability is None:
            raise InvalidInput(
                "system.dipole", "no field acts on this molecule; give dipole or polarisability"
            )
        levels = line(system, units, extra)
    faults.stop()
    doubts = _judged(system, levels, faults) if extra == 0 else {}
    count = levels.energies.size
    drift = sparse_matrix(sparse.diags_array(levels.energies))
    labels = tuple(map(str, range(count)))
    basis = Basis(
        labels,
        drift,
        drift,
        units,
        levels.operator,
        errors=levels.errors,
        cut_at="system.states",
        inside=np.arange(count) < levels.kept,
        doubts=doubts,
    )
    controls = _controls(system, levels, faults)
    places = {label: place for place, label in enumerate(labels)}
    jumps = level_jumps(system.jumps, Levels(levels.energies, places, units, levels.operator), faults)
    with faults.catch():
        goal = aim(system, basis, lambda gate, start: named_states(gate, start, basis))
    faults.stop()
    return replace(goal.model(basis, controls, jumps), line=levels)


def _controls(system: GridSystem, levels: Line, faults: Faults) -> tuple[ControlTerm, ...]:
    """Return the control of each dipole function, and that of the polarisability, which enters squared."""
    # The cycle mean of E0^2 cos^2 is E0^2/2, and the energy of an induced dipole half of alpha E^2.
    given = [("field", "dipole", system.dipole, -1.0, 1)]
    given += [(name, f"dipoles.{name}", block, -1.0, 1) for name, block in system.dipoles.items()]
    given += [("envelope", "polarisability", system.polarisability, -0.25, 2)]
    found: list[ControlTerm] = []
    for name, key, block, factor, power in given:
        if block is None:
            continue
        with faults.catch():
            if name in [control.name for control in found]:
                raise InvalidInput(f"system.{key}", f"the control of the dipole is called {name!r} already")
            values = levels.values(block, f"system.{key}")
            if not np.any(values):
                raise InvalidInput(f"system.{key}", "this function is 0 at every point")
            found.append(ControlTerm(name, sparse_matrix(factor * levels.matrix(values)), power))
    return tuple(found)


def _judged(system: GridSystem, levels: Line, faults: Faults) -> dict[str, str]:
    """Return warnings by key about the levels in use; errors go to `faults`."""
    doubts: dict[str, str] = {}
    for finding in level_findings(used_levels(system), levels.molecule, system.potential):
        if finding.severity == "error":
            with faults.catch():
                raise InvalidInput(finding.key, finding.message)
        else:
            doubts[finding.key] = finding.message
    return doubts
