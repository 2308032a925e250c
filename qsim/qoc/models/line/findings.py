"""Levels in use against the box of their grid, without the matrices that a run in levels needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qsim.qoc.deck.functions import Potential
    from qsim.qoc.models.molecule import Molecule

# Largest |psi|^2 dx at a wall of a level in use.
WALL_DENSITY = 1e-6


def level_findings(
    used: Iterable[tuple[str, int]], molecule: Molecule, potential: Potential, remedy: str = ""
) -> Iterator[Finding]:
    """Yield levels in use that are not bound, lie above a wall, or feel one.

    Parameters
    ----------
    used
        Keys and numbers of levels.
    molecule
        Levels on the grid of the deck.
    potential
        Block of the deck.
    remedy
        What follows the advice to widen the grid.
    """
    last = potential.highest_bound(molecule.mass)
    top = float(min(molecule.potential[0], molecule.potential[-1]))
    for key, level in used:
        if level > last:
            held = "holds no bound level"
            if last >= 0:
                held = f"holds levels 0 to {last:g}"
            text = f"level {level} is not bound: this" if last >= 0 else "this"
            yield Finding(key, f"{text} Morse potential {held}")
            continue
        if level >= molecule.energies.size:
            continue
        energy = float(molecule.energies[level])
        if energy >= top:
            yield Finding(
                key,
                f"level {level} (E = {energy:.6g} hartree) is a box state: it lies above the potential at a wall "
                f"({top:.6g} hartree); widen system.grid{remedy}",
            )
        elif (density := molecule.wall_density((level,))) > WALL_DENSITY:
            yield Finding(
                "system.grid",
                f"|psi|^2 dx of level {level} at the wall is {density:.2g} (should stay below {WALL_DENSITY:g}); "
                f"the box shifts this level, widen it{remedy}",
                "warning",
            )
