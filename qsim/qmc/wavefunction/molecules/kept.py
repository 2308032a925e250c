r"""What the tables of radial functions keep of orbitals: norm and kinetic energy, hartree.

Tables end at 32 bohr and begin with intervals of 1/2048 bohr, so that diffuse functions lose their tails and very sharp ones
their shape.  For two shells of one atom and one l, :math:`f=r^lR` and :math:`g=r^lQ`,

.. math:: S=\int fg\,r^2dr,\qquad T=\tfrac12\int\left[f'g'+l(l+1)fg/r^2\right]r^2dr ,

once with the functions and once with their tables.  Pairs of shells at different atoms are left out: they lose no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.qmc.system.radial import KNOTS, LARGEST, evaluate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.radial import Jet
    from qsim.qmc.wavefunction.molecules.orbitals import OrbitalSet, Shell

__all__ = ["Loss", "kinetic_loss"]

POINTS = 8  # of Gauss and Legendre for an interval
FINEST, FARTHEST = 1e-6, 1e4  # bohr: between which functions are integrated
RATIO = 1.2  # of neighbouring radii where tables have none


def _radii() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return radii and weights: several for each interval of the tables, and for finer ones at both ends."""
    first, last = float(KNOTS[1]), LARGEST
    inner = np.geomspace(FINEST, first, 1 + int(np.log(first / FINEST) / np.log(RATIO)))[:-1]
    outer = np.geomspace(last, FARTHEST, 1 + int(np.log(FARTHEST / last) / np.log(RATIO)))[1:]
    edges = np.concatenate([[0.0], inner, KNOTS[1:], outer])
    x, w = np.polynomial.legendre.leggauss(POINTS)
    half = 0.5 * np.diff(edges)[:, None]
    return ((edges[:-1, None] + half) + half * x).ravel(), (half * w).ravel()


class Loss(NamedTuple):
    """Change of the kinetic energies of occupied orbitals by tables, in magnitude, and what they are; hartree in all."""

    lost: float
    kinetic: float


def kinetic_loss(orbitals: OrbitalSet, occupied: tuple[int, int], mass: float = 1.0) -> Loss:
    """Return what tables change of the kinetic energies of occupied orbitals.

    Parameters
    ----------
    orbitals
        Of a molecule or a trap.
    occupied
        Electrons of each spin.
    mass
        Of the particles.
    """
    r, weights = _radii()
    groups: dict[tuple[int, int], list[int]] = {}
    for k, shell in enumerate(orbitals.shells):
        groups.setdefault((shell.atom, shell.l), []).append(k)
    count = sum(occupied)
    # rows: norm and kinetic energy, exact, and what tables add; of each occupied orbital of both spins
    found = np.zeros((4, count))
    for (_, l), members in groups.items():
        exact, kept = (
            _integrals(np.array([_jet(orbitals.shells[k], r, tables=tables) for k in members]), l, r, weights)
            for tables in (False, True)
        )
        pairs = np.stack([*exact, *(b - a for a, b in zip(exact, kept, strict=True))])
        for m in range(2 * l + 1):
            rows = [int(orbitals.first[k]) + m for k in members]
            C = np.concatenate([orbitals.coefficients[s][rows, : occupied[s]] for s in (0, 1)], axis=1)
            found += np.einsum("ao,qab,bo->qo", C, pairs, C)
    norm, kinetic, lost, changed = found
    # A smaller norm makes what is left count more.
    mean = float(kinetic.sum() / max(norm.sum(), 1e-300))
    return Loss(float(np.abs(changed - mean * lost).sum()) / mass, float(kinetic.sum()) / mass)


def _jet(shell: Shell, r: NDArray[np.float64], *, tables: bool) -> Jet:
    return evaluate(shell.table, r) if tables else shell.function(r)


def _integrals(
    jets: NDArray[np.float64], l: int, r: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return overlaps and kinetic energies of all pairs of radial functions, jets (shells, 3, radii)."""
    R, slope = jets[:, 0], jets[:, 1]
    f = R * r ** (l + 1)
    # r f' = r^l (l R + r R'), and the angular part has the same power of r
    df = (l * R + r * slope) * r**l
    turning = np.sqrt(l * (l + 1)) * R * r**l
    return (f * weights) @ f.T, 0.5 * ((df * weights) @ df.T + (turning * weights) @ turning.T)
