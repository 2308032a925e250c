"""Derivatives with respect to Jastrow parameters in crystals on the CPU: as ``derivatives_cpu``, with nearest images."""

from __future__ import annotations

import numba as nb

from qsim.qmc.kernels.common.jit import PART
from qsim.qmc.kernels.crystal.walk_cpu import nearest, velocity
from qsim.qmc.kernels.walkers.derivatives_cpu import add_slopes, add_values

__all__ = ["walker_derivatives"]


@nb.njit(**PART)
def add_electron(jastrow, first, orbitals, R, e, n_up, x, y, z, scale, out):
    """Add ``scale`` times the derivatives of all functions of electron e, if it were at (x, y, z), to ``out``."""
    atom = orbitals.atom
    for j in range(R.shape[0]):
        if j != e:
            _, _, _, r = nearest(orbitals, x - R[j, 0], y - R[j, 1], z - R[j, 2])
            add_values(jastrow, first, 0 if (j < n_up) == (e < n_up) else 1, r, scale, out)
    for a in range(atom.shape[0]):
        _, _, _, r = nearest(orbitals, x - atom[a, 0], y - atom[a, 1], z - atom[a, 2])
        add_values(jastrow, first, 2 + jastrow.species[a], r, scale, out)


@nb.njit(**PART)
def walker_derivatives(state, w, orbitals, jastrow, n_up, mass, parameters, work, pseudopotentials):
    """Set ``values`` and ``slopes`` of the parameters (C,): derivatives of J and of the local energy.

    ``work`` is as the local energy left it; ``pseudopotentials`` is None without any.
    """
    R, atom, v, targets = state.R[w], orbitals.atom, work.J, work.targets
    first, values, slopes = parameters.first, parameters.values, parameters.slopes
    N = R.shape[0]
    over = 1.0 / mass
    for e in range(N):
        spin = 0 if e < n_up else 1
        i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
        gx, gy, gz = velocity(state.rows[w, e], state.inverse[w, spin, i], n, 1.0)
        v[e, 0], v[e, 1], v[e, 2] = gx - v[e, 0], gy - v[e, 1], gz - v[e, 2]
    for c in range(values.shape[0]):
        values[c] = slopes[c] = 0.0
    for e in range(N):
        for j in range(e + 1, N):
            dx, dy, dz, r = nearest(orbitals, R[e, 0] - R[j, 0], R[e, 1] - R[j, 1], R[e, 2] - R[j, 2])
            f = 0 if (e < n_up) == (j < n_up) else 1
            along = (v[e, 0] - v[j, 0]) * dx + (v[e, 1] - v[j, 1]) * dy + (v[e, 2] - v[j, 2]) * dz
            add_values(jastrow, first, f, r, 1.0, values)
            add_slopes(jastrow, first, f, r, over * (along + 2.0) / r, over, slopes)
        for a in range(atom.shape[0]):
            f = 2 + jastrow.species[a]
            dx, dy, dz, r = nearest(
                orbitals, R[e, 0] - atom[a, 0], R[e, 1] - atom[a, 1], R[e, 2] - atom[a, 2]
            )
            along = v[e, 0] * dx + v[e, 1] * dy + v[e, 2] * dz
            add_values(jastrow, first, f, r, 1.0, values)
            add_slopes(jastrow, first, f, r, over * (along + 1.0) / r, 0.5 * over, slopes)
    if pseudopotentials is not None:
        for e in range(N):
            total = 0.0
            for q in range(work.counts[e]):
                x, y, z, value = targets[e, q, 0], targets[e, q, 1], targets[e, q, 2], targets[e, q, 3]
                total += value
                add_electron(jastrow, first, orbitals, R, e, n_up, x, y, z, -value, slopes)
            if work.counts[e] > 0:
                add_electron(jastrow, first, orbitals, R, e, n_up, R[e, 0], R[e, 1], R[e, 2], total, slopes)
