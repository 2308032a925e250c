"""The vibrational Hamiltonian on a grid: potential, dipole, bands, eigenstates, and levels in use against the box of their grid.

``H = -1/(2m) d^2/dx^2 + V(x)`` with the fourth-order five-point stencil of Eq. (3) on L equidistant points, both ends included
and psi = 0 outside: a real symmetric pentadiagonal matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.table_units import doubted as redrawn
from qsim.core.errors import NumericsError
from qsim.core.physics.functions import require_sane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from qsim.qoc.deck.functions import FunctionBlock, Potential
    from qsim.qoc.deck.system import System

# Above this size a shift-inverted Lanczos iteration beats LAPACK's banded solver.
DENSE_LIMIT = 1500


@dataclass(frozen=True)
class Molecule:
    """A system on its grid, with the lowest eigenstates.

    Attributes
    ----------
    x : (L,) float64
        Grid points, bohr.
    mass : float
        Effective mass, electron masses.
    potential, dipole : (L,) float64
        Potential energy (hartree) and dipole function (a.u.).
    diagonal : (L,) float64
        Diagonal of the field-free Hamiltonian, hartree.
    off : (2,) float64
        First and second off-diagonal, hartree.
    energies : (K,) float64
        Lowest eigenvalues, hartree.
    states : (K, L) float64
        Eigenvectors with ``sum(psi^2) dx = 1``; the outermost lobe at small x is positive.
    dipole_matrix : (K, K) float64
        ``<i|mu|j>``, a.u.
    """

    x: NDArray[np.float64]
    mass: float
    potential: NDArray[np.float64]
    dipole: NDArray[np.float64]
    diagonal: NDArray[np.float64]
    off: NDArray[np.float64]
    energies: NDArray[np.float64]
    states: NDArray[np.float64]
    dipole_matrix: NDArray[np.float64]

    @property
    def dx(self) -> float:
        """Grid spacing, bohr."""
        return float(self.x[1] - self.x[0])

    def wall_density(self, levels: tuple[int, ...]) -> float:
        """Largest ``|psi|^2 dx`` at either end of the box among the given levels."""
        ends = self.states[list(levels)][:, [0, -1]]
        return float(np.max(ends**2) * self.dx)


def kinetic_bands(mass: float, dx: float) -> tuple[float, float, float]:
    """Return diagonal, first and second off-diagonal of the kinetic energy (Eq. Q2; Eq. 3 of the paper)."""
    # The stencil (-1, 16, -30, 16, -1)/12 of the second derivative, times -1/2m.
    k = 1.0 / (24.0 * mass * dx * dx)
    return 30.0 * k, -16.0 * k, k


def molecule(system: System, states: int, mass_scale: float = 1.0, potential_scale: float = 1.0) -> Molecule:
    """Set up the Hamiltonian and its lowest eigenstates.

    Parameters
    ----------
    system : System
        Block of the deck.
    states : int
        Number of eigenstates K.
    mass_scale, potential_scale : float
        Factors of an ensemble member.

    Raises
    ------
    InvalidInput
        If the potential or the dipole is not finite on the grid.
    """
    grid = system.grid
    # The mass of an ensemble member scales the kinetic energy alone; formulas see that of the deck.
    x = np.linspace(grid.xmin, grid.xmax, grid.points)
    v = potential_scale * function_of_x(system.potential, x, system.mass, "system.potential")
    mu = function_of_x(system.dipole, x, system.mass, "system.dipole")
    return on_grid(x, system.mass * mass_scale, v, mu, states)


def doubted(system: System) -> System | None:
    """Return the system with other curves that the rows of its tables allow; None without such tables."""
    given = {name: redrawn(getattr(system, name)) for name in ("potential", "dipole")}
    found = {name: other for name, other in given.items() if other is not None}
    return system.model_copy(update=found) if found else None


def on_grid(
    x: NDArray[np.float64], mass: float, v: NDArray[np.float64], mu: NDArray[np.float64], states: int
) -> Molecule:
    """Return the lowest eigenstates of a potential and a dipole given on equidistant points.

    Parameters
    ----------
    x, v, mu : (L,) float64
        Points (bohr), potential (hartree) and dipole (a.u.).
    mass : float
        Effective mass, electron masses.
    states : int
        Number of eigenstates K.
    """
    centre, o1, o2 = kinetic_bands(mass, float(x[1] - x[0]))
    diagonal = centre + v
    energies, vectors = lowest_states(diagonal, o1, o2, min(states, x.size - 1))
    # From unit vectors to wavefunctions with integral psi^2 dx = 1.
    vectors /= np.sqrt(float(x[1] - x[0]))
    matrix = (vectors * mu) @ vectors.T * float(x[1] - x[0])
    return Molecule(
        x, mass, v, mu, diagonal, np.array([o1, o2]), energies, vectors, 0.5 * (matrix + matrix.T)
    )


def lowest_states(
    diagonal: NDArray[np.float64], o1: float, o2: float, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest eigenvalues (K,) and unit eigenvectors (K, L) of a pentadiagonal matrix with constant off-diagonals."""
    from scipy.linalg import eig_banded

    size = diagonal.shape[0]
    # Lanczos needs many vectors where a large part of the spectrum is asked for.
    if size <= DENSE_LIMIT or count > size // 8:
        bands = np.zeros((3, size))
        bands[0], bands[1, :-1], bands[2, :-2] = diagonal, o1, o2
        energies, vectors = eig_banded(bands, lower=True, select="i", select_range=(0, count - 1))
    else:
        energies, vectors = _lanczos(diagonal, o1, o2, count)
    order = np.argsort(energies)
    energies, vectors = energies[order], np.ascontiguousarray(vectors[:, order].T)
    # the sign of an eigenvector is arbitrary: fix it, so that runs can be compared
    for row in vectors:
        lobe = np.flatnonzero(np.abs(row) > 1e-2 * np.abs(row).max())[0]
        if row[lobe] < 0:
            row *= -1
    return energies, vectors


def _lanczos(diagonal: NDArray[np.float64], o1: float, o2: float, count: int) -> tuple[Any, Any]:
    """Shift-inverted Lanczos with a fixed start vector (so that runs are reproducible)."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import ArpackError, eigsh

    size = diagonal.shape[0]
    matrix = diags_array(
        [
            np.full(size - 2, o2),
            np.full(size - 1, o1),
            diagonal,
            np.full(size - 1, o1),
            np.full(size - 2, o2),
        ],
        offsets=[-2, -1, 0, 1, 2],
        format="csc",
    )
    bottom = float(
        np.min(diagonal - 30.0 * o2)
    )  # below the potential's minimum, hence below every eigenvalue
    try:
        energies, vectors = eigsh(matrix, k=count, sigma=bottom, v0=np.ones(size), tol=0.0)
    except ArpackError as error:
        raise NumericsError(f"the eigenstates did not converge: {error}") from error
    return energies, vectors


def function_of_x(block: FunctionBlock, x: NDArray[np.float64], mass: float, key: str) -> NDArray[np.float64]:
    """Evaluate a potential or dipole block of the deck on the grid.

    Raises
    ------
    InvalidInput
        If a value is not finite, or so large that nothing else would count, naming the point.
    FileError
        If a table cannot be read or does not cover the grid.
    """
    with np.errstate(all="ignore"):
        value = block.at(x, mass, key)
    require_sane(value, x, key, "system.grid")
    return value


def bare_function_of_x(block: FunctionBlock, x: NDArray[np.float64], mass: float) -> NDArray[np.float64]:
    """Evaluate a potential or dipole block anywhere; values may be infinite or NaN.

    Raises
    ------
    InvalidInput
        If a formula or a table has no value at some point.
    """
    with np.errstate(all="ignore"):
        return block.at(x, mass, "system")


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
