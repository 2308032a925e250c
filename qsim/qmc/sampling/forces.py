r"""Changes of local energies and of log psi as nuclei move, electrons carried along: what forces are made of.

Every coefficient of the trial function stays; atomic orbitals, Jastrow functions and pseudopotentials follow their atoms, and
each electron follows the nuclei near it (space warp), :math:`\mathbf r\to\mathbf r+\omega_a(\mathbf r)\,\delta\mathbf R_a` with
:math:`\omega_a=|\mathbf r-\mathbf R_a|^{-4}/\sum_b|\mathbf r-\mathbf R_b|^{-4}`, whose Jacobian is
:math:`1+\delta\mathbf R_a\cdot\nabla\omega_a`.  Central differences of the same configuration, with the same rotations of the
points of pseudopotentials, take the kernels of energies as they are: whatever changes there is in the derivative.

C. J. Umrigar, Int. J. Quantum Chem. Symp. 23, 217 (1989); C. Filippi and C. J. Umrigar, Phys. Rev. B 61, R16291 (2000).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.estimators.forces import Response
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.sampling.walkers import empty_state, tables_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.qmc.kernels.common.tables import Tables
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["Displacements", "warped"]

STEP = (
    1e-4  # bohr: displacement of a nucleus; errors of 1e-8 of the derivatives by curvature, and by rounding
)
STREAMS = 0xE0000000  # and a section number: streams of the random rotations


class Displacements:
    """A trial function at the displaced geometries of its nuclei.

    Parameters
    ----------
    walkers
        Whose trial function it is; always in double precision, since derivatives are small differences.
    section
        Number of the section, a word of the random counters.
    """

    def __init__(self, walkers: Walkers, section: int) -> None:
        self.walkers, self.section = walkers, section
        self.tables = tables_of(walkers.device, walkers.wavefunction, np.float64)
        self.positions = walkers.wavefunction.system.positions

    def __call__(self, R: FloatArray, *, warp: bool) -> Response:
        """Return energies and derivatives of configurations (W, N, 3), with electrons carried along or where they are."""
        walkers, device = self.walkers, self.walkers.device
        state = empty_state(device, walkers.wavefunction, self.tables, len(R), np.float64)
        stream = walk.Stream(walkers.key, STREAMS + self.section, walkers.generation, walkers.offset)
        state.R[...] = R
        walk.recompute(device, state, self.tables)
        slope = np.sqrt(walk.slopes(device, state, self.tables, stream))
        energy = state.energy[:, 5].copy()
        shape = (len(R), self.positions.size)
        energy_slopes, log_slopes = np.zeros(shape), np.zeros(shape)
        for k in range(self.positions.size):
            for h in (STEP, -STEP):
                a, axis = divmod(k, 3)
                tables = self._moved(a, axis, h)
                state.R[...], jacobian = warped(R, self.positions, a, axis, h) if warp else (R, 0.0)
                walk.recompute(device, state, tables)
                walk.energies(device, state, tables, stream)
                energy_slopes[:, k] += state.energy[:, 5] / (2.0 * h)
                log_slopes[:, k] += (state.log_psi + 0.5 * jacobian) / (2.0 * h)
        return Response(energy, energy_slopes, log_slopes, 1.0 / np.maximum(slope, np.finfo(float).tiny))

    def _moved(self, atom: int, axis: int, h: float) -> Tables:
        """Return the tables with an atom moved along an axis."""
        system = self.walkers.wavefunction.system
        positions = self.positions.copy()
        positions[atom, axis] += h
        # Centres that have functions, but no charge, come behind the ions.
        places = self.tables.orbitals.atom.copy()
        places[atom, axis] += h
        orbitals = self.tables.orbitals._replace(atom=places)
        return self.tables._replace(orbitals=orbitals, ion_ion=replace(system, positions=positions).ion_ion)


def warped(
    R: NDArray[np.float64], atoms: NDArray[np.float64], atom: int, axis: int, h: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return configurations (W, N, 3) that follow an atom moved along an axis, and the logarithm of the Jacobian, (W,)."""
    d = R[:, :, None] - atoms
    square = (d * d).sum(axis=-1)
    # Relative to the nearest nucleus: r^-4 overflows next to it.
    weight = (square.min(axis=-1, keepdims=True) / square) ** 2
    weight /= weight.sum(axis=-1, keepdims=True)
    slope = -4.0 * d[..., axis] / square  # of the logarithm of each r^-4 along the axis
    change = weight[..., atom] * (slope[..., atom] - (weight * slope).sum(axis=-1))
    moved = R.copy()
    moved[..., axis] += h * weight[..., atom]
    return moved, np.log1p(h * change).sum(axis=1)
