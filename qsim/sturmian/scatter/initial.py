"""The bound state of another deck, against which the initial state of a collision is held.

A collision needs its initial state in its own grid and up to its own l_max: ``(H - E) Psi`` has to vanish there, or the source
would hold what the state lacks.  The state is therefore found anew; results of a bound deck tell whether it is the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import FileError, InvalidInput, NumericsError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.sturmian.deck.collision_symmetry import Settings
    from qsim.sturmian.driven.setup import Bound
    from qsim.sturmian.radial.grid import RadialGrid

__all__ = ["Recorded", "recorded", "require_same"]

KEY = "initial.file"
# Hartree: residual of a state that is worth comparing with.
CONVERGED = 1e-5
# The integral of |rho - rho'| dr, from which two states are not the same; l_max and grid make up to 0.02.
DIFFERENT = 0.1
# Relative difference of energies, likewise.
APART = 0.02


@dataclass(frozen=True, eq=False)
class Recorded:
    """A bound state from a results file.

    Attributes
    ----------
    path : Path
    energy, error : float
        Hartree.
    r, density : (n,) float64
        Bohr; radial density of one electron, 1/bohr.
    """

    path: Path
    energy: float
    error: float
    r: NDArray[np.float64]
    density: NDArray[np.float64]


def recorded(settings: Settings) -> Recorded | None:
    """Return the state of ``initial.file``; None if the deck names no file.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or holds no converged state of this system and symmetry.
    """
    from qsim.core.results.results import open_complete

    path = settings.initial.file
    if path is None:
        return None
    try:
        with open_complete(path) as results:
            return _read(settings, path, results)
    except FileError as error:
        raise InvalidInput(KEY, str(error)) from error


def _read(settings: Settings, path: Path, results: Results) -> Recorded:
    """Return the state of an open results file; refuse another system or symmetry, or one that has not converged."""
    from qsim.core.results.results import real_numbers

    deck = results.deck
    if results.method != "sturmian" or deck.get("task", {}).get("type") != "bound":
        raise InvalidInput(KEY, f"{path.name} holds no results of sturmian with task: bound")
    # The system must agree key by key; the symmetry is looked up among the states of the file.
    theirs, ours = deck.get("system", {}), settings.system.model_dump(mode="json")
    for key, value in ours.items():
        if theirs.get(key) != value:
            text = f"the state of {path.name} has system.{key} = {theirs.get(key)}, but this deck has {value}"
            raise InvalidInput(KEY, text)
    block = settings.initial
    symmetry = (block.L, block.S, block.root)
    count = results.shape("L") if "L" in results else ()
    L, S, roots, energies, errors = (
        real_numbers(results, name, count) for name in ("L", "S", "root", "energies", "energy_errors")
    )
    r = real_numbers(results, "r")
    density = real_numbers(results, "density", (*count, *r.shape))
    known = list(zip(*(column.astype(int).tolist() for column in (L, S, roots)), strict=True))
    if symmetry not in known:
        has = ", ".join(f"L = {L}, S = {S}, root {root}" for L, S, root in known)
        text = f"{path.name} has no state with L = {block.L}, S = {block.S}, root {block.root}"
        raise InvalidInput(KEY, f"{text}, but {has}")
    k = known.index(symmetry)
    residual = results.scalars[f"residual_{k}"].value if f"residual_{k}" in results.scalars else None
    if not (isinstance(residual, float) and residual <= CONVERGED):
        found = f"{residual:.1e}" if isinstance(residual, float) else "unknown"
        text = f"the state of {path.name} has not converged: its residual is {found} hartree"
        raise InvalidInput(KEY, f"{text}, but {CONVERGED:g} at most is allowed; lower its solver.tolerance")
    return Recorded(
        path,
        float(energies[k]),
        float(errors[k]),
        r,
        density[k],
    )


def require_same(state: Recorded, initial: Bound, grid: RadialGrid) -> None:
    """Refuse an initial state that differs from the state of the file.

    Raises
    ------
    NumericsError
        If energies or densities differ by more than grid and partial waves explain.
    """
    from scipy.interpolate import PchipInterpolator

    real = grid.is_real
    r, w = grid.r[real].real, grid.w[real].real
    # Radial density of the first electron: squares of all ordered components, summed over the
    # second one.
    both = np.array([np.square(part).sum(axis=1) for part in initial.components.values()])
    # times the weights
    ours = both.sum(axis=0)[real]
    # A monotone interpolation of the other grid's density: a cubic spline could become negative
    # in its tail.
    nodes, values = np.concatenate(([0.0], state.r)), np.concatenate(([0.0], state.density))
    theirs = np.where(r <= nodes[-1], PchipInterpolator(nodes, values)(np.minimum(r, nodes[-1])), 0.0)
    difference = float(np.abs(ours - w * theirs).sum())
    apart = abs(initial.energy - state.energy) / abs(state.energy)
    if difference > DIFFERENT or apart > APART:
        raise NumericsError(
            f"the initial state is not the one of {state.path.name}: "
            f"energy {initial.energy:.6f} against {state.energy:.6f} hartree, "
            f"and the densities differ by {difference:.2g} of one electron",
            hint="the same system and root in both decks; a finer grid or a larger initial.l_max",
        )
