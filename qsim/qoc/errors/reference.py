"""The errors that a run claims, and levels that share neither grid, stencil nor walls with it: what they are measured against."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.physics.splines import cubic_spline
from qsim.qoc.models.molecule import Molecule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.models.line.landscape import Landscape


# Parts of the error of P: changes by the run's time step, the stencil's grid, the walls, and the truncation to K levels; between
# a field that is constant in each step and a spline, if the deck leaves open which is meant; from these to the function of time
# that the deck gives; and the error of the reference itself with what the rows of tables leave open.
PARTS = ("time step", "grid", "box", "levels", "interpolation", "slots", "reference")


@dataclass(frozen=True)
class Errors:
    """Errors of a run and of its levels.

    Attributes
    ----------
    parts : dict
        Change of P by the names of `PARTS`; NaN where it is not known.
    between : str
        Course of the field between its values: ``hold`` or ``cubic``.
    energies : (K,) float64
        Error of each energy, hartree; NaN for levels above the potential far outside.
    dipoles : (K, K) float64
        Error of each dipole matrix element, a.u.
    member : (S,) int
        Ensemble members on which the errors were determined.
    truth : (S, pairs, levels) complex128
        Final amplitudes of the reference for these members.
    of_members : (S,) float64
        Error of P of each of these members.
    guess : float
        Error of P of the first field; NaN where it is not known.
    fallen : str or None
        Reason why the levels do not belong to the whole potential.
    unclaimed : str or None
        Why no error of P is known; the parts are NaN then, and no member was followed.
    continuous : (float, float) or None
        P under that function, and its error.
    """

    parts: dict[str, float]
    between: str
    energies: NDArray[np.float64]
    dipoles: NDArray[np.float64]
    member: NDArray[np.int64]
    truth: NDArray[np.complex128]
    of_members: NDArray[np.float64]
    guess: float = math.nan
    fallen: str | None = None
    unclaimed: str | None = None
    continuous: tuple[float, float] | None = None

    @property
    def total(self) -> float:
        """Error of P: the sum of the parts, at most 1; NaN if it is not known."""
        return math.nan if self.unclaimed else min(1.0, sum(self.parts.values()))


# Grid on which a potential is looked at between the points.
FINER = 4
# Of an eigenvalue, in units of the largest one.
ROUNDING = 30 * np.finfo(float).eps


def aligned(molecule: Molecule, master: Molecule) -> tuple[Molecule, NDArray[np.float64]]:
    """Return a molecule with the signs of another one's levels, and the overlaps of the common levels.

    Levels beyond those of the master keep their signs.  Overlaps are integrals over the molecule's own points.
    """
    # levels are the same up to a sign, which amplitudes inherit: the overlap on the common interval tells it
    common = min(molecule.energies.size, master.energies.size)
    inside = (molecule.x >= master.x[0]) & (molecule.x <= master.x[-1])
    # States are (levels, points). Outside of the master's points its levels count as zero.
    other = np.zeros((common, molecule.x.size))
    for level in range(common):
        other[level, inside] = cubic_spline(master.x, master.states[level], molecule.x[inside])
    overlaps = np.einsum("kx,kx->k", molecule.states[:common], other) * molecule.dx
    signs = np.ones(molecule.energies.size)
    signs[:common] = np.where(overlaps < 0, -1.0, 1.0)
    return Molecule(
        molecule.x,
        molecule.mass,
        molecule.potential,
        molecule.dipole,
        molecule.diagonal,
        molecule.off,
        molecule.energies,
        molecule.states * signs[:, None],
        molecule.dipole_matrix * np.outer(signs, signs),
    ), np.abs(overlaps)


def refined(
    ground: Landscape, molecule: Molecule, scale: float
) -> tuple[Molecule, NDArray[np.float64], NDArray[np.float64]]:
    """Return the levels of a sine basis with the potential and the dipole between its points, and what remains uncertain.

    The levels are known everywhere as sums of sines.  With ``M = <i|V|j>`` on a grid `FINER` times finer minus the sum over the
    points, ``diag(E) + M`` (Eq. Q5 of the theory page) is diagonalised (Rayleigh and Ritz).  Two levels closer than M are mixed
    by it as the true ones are: no other basis of the same size would show that, as each set of points sees another M.

    Parameters
    ----------
    ground : Landscape
    molecule : Molecule
        Levels by :func:`sine_levels`.
    scale : float
        Factor of the potential of the ensemble member.

    Returns
    -------
    refined : Molecule
        Its energies, states and dipole matrix are the better ones.
    missed : (K,) float64
        ``|M_kk|``, hartree: the energy of each level that the points do not see.
    angles : (K, K) float64
        Angle by which two levels may still mix (Eq. Q6), at most 1: what the finer grid misses and rounding, over their distance.
    """
    between, rest, dipoles = _between_points(ground, molecule, scale)
    # energies from the lowest one, so that its rounding does not hide small elements of M
    shift = float(molecule.energies[0])
    energies, turn = np.linalg.eigh(np.diag(molecule.energies - shift) + between)
    # a level keeps the sign of the one it comes from
    turn = turn * np.where(np.diagonal(turn) < 0, -1.0, 1.0)
    rounding = ROUNDING * float(np.abs(molecule.diagonal).max())
    uncertain = np.abs(turn.T @ rest @ turn) + rounding
    gaps = np.abs(energies[:, None] - energies)
    # First-order perturbation theory: the angle is the matrix element over the distance (Eq. Q6).
    angles = np.minimum(uncertain / np.maximum(gaps, 1e-300), 1.0)
    np.fill_diagonal(angles, 0.0)
    better = replace(
        molecule,
        energies=energies + shift,
        states=np.ascontiguousarray(turn.T @ molecule.states),
        dipole_matrix=turn.T @ dipoles @ turn,
    )
    return better, np.abs(np.diagonal(between)), angles


def _between_points(
    ground: Landscape, molecule: Molecule, scale: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return matrix elements of the potential between the points, their error, and those of the dipole, each (K, K).

    The error of a sum falls with the square of the spacing at least (a potential with a kink): a third of the change from half
    as fine a grid is what the finer one still misses.
    """
    n = molecule.x.size
    a, b = molecule.x[0] - molecule.dx, molecule.x[-1] + molecule.dx
    k = np.arange(1, n + 1)
    # Coefficients of the sines from the values at the points, and then the states between them.
    waves = np.sin(np.pi / (n + 1) * np.outer(k, k))
    coefficients = molecule.states @ waves * (2.0 / (n + 1))
    # Places between the walls, 0 and 1; every FINER-th of them is a point of the basis.
    fine = np.arange(1, FINER * (n + 1)) / (FINER * (n + 1))
    states = coefficients @ np.sin(np.pi * np.outer(k, fine))
    x = a + (b - a) * fine
    v = scale * ground.potential(x)
    whole = (states * v) @ states.T / FINER
    # the same integral on half as fine a grid, for its error
    every_other = (states[:, 1::2] * v[1::2]) @ states[:, 1::2].T / (FINER // 2)
    # This is what the basis has of the potential already: the sum over its own points.
    sampled = (molecule.states * molecule.potential) @ molecule.states.T
    dipoles = (states * ground.dipole(x)) @ states.T * (molecule.dx / FINER)
    between, rest = (whole - sampled) * molecule.dx, (whole - every_other) * molecule.dx / 3.0
    return _symmetric(between), _symmetric(rest), _symmetric(dipoles)


def _symmetric(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (matrix + matrix.T)
