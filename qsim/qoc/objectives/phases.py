"""The best phases of a gate whose local phases do not count (Eq. Q24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray as Columns

__all__ = ["best_phases", "factors_of"]

# Rounds over all phases, and the gain, relative to the value, from which there are no more.
ROUNDS = 400
GAIN = 1e-15
# Starts besides zero and the phases of the dominant eigenvector.
STARTS = 6


def factors_of(generators: NDArray[np.int64], phases: NDArray[np.float64]) -> Columns:
    """Return ``z_a = exp(i sum_k phi_k g_ak)`` (d,)."""
    return np.asarray(np.exp(1j * (generators @ phases)))


def best_phases(matrix: Columns, generators: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the phases (k,) with the largest ``z+ R z``.

    One phase is best where ``z = z_0 + e^{i phi} z_1`` has ``phi = -arg(z_0+ R z_1)``; rounds over all of them rise from several
    starts.

    Parameters
    ----------
    matrix : (d, d) complex128
        R, Hermitian.
    generators : (d, k) int64
        g, zeros and ones.
    """
    count = generators.shape[1]
    vector = np.angle(np.linalg.eigh(matrix)[1][:, -1])
    guess = np.linalg.lstsq(np.column_stack([generators, np.ones(len(generators))]), vector, rcond=None)[0]
    # the same starts every time: a search must see a function
    random = np.random.default_rng(1).uniform(-np.pi, np.pi, (STARTS if count > 1 else 0, count))
    found = [_risen(matrix, generators, start) for start in (np.zeros(count), guess[:count], *random)]
    return max(found, key=lambda one: one[0])[1]


def _risen(
    matrix: Columns, generators: NDArray[np.int64], phases: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the value and the phases of a maximum above a start."""
    phases, before = phases.copy(), -np.inf
    for _ in range(ROUNDS):
        for k in range(phases.size):
            moved = generators[:, k] == 1
            z = factors_of(generators, phases)
            # without the phase itself
            z[moved] *= np.exp(-1j * phases[k])
            phases[k] = -np.angle(np.vdot(z[~moved], matrix[np.ix_(~moved, moved)] @ z[moved]))
        z = factors_of(generators, phases)
        value = float(np.vdot(z, matrix @ z).real)
        if value - before <= GAIN * abs(value):
            break
        before = value
    return value, phases
