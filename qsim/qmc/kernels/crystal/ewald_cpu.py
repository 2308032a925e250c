"""The periodic Coulomb potential on the CPU: its long-ranged part by waves, its short-ranged one by pairs of nearest images."""

from __future__ import annotations

import math

import numba as nb

from qsim.qmc.kernels.common.jastrow_cpu import TINY, function
from qsim.qmc.kernels.common.jit import CALLED
from qsim.qmc.kernels.common.radial_cpu import table_value
from qsim.qmc.kernels.crystal.geometry_cpu import fold, nearest

__all__ = ["ion_terms", "long_ranged", "pair_terms"]


@nb.njit(**CALLED)
def add_waves(hamiltonian, x, y, z, powers, rho):
    """Add ``exp(i k r)`` of one electron to the waves ``rho`` (n, 2)."""
    # Powers of exp(i b r) along each axis of the reciprocal lattice by products: three sines and
    # cosines for all waves.
    B, most = hamiltonian.inverse, (powers.shape[1] - 1) // 2
    for d in range(3):
        angle = 2.0 * math.pi * (x * B[0, d] + y * B[1, d] + z * B[2, d])
        c, s = math.cos(angle), math.sin(angle)
        line = powers[d]
        line[most, 0], line[most, 1] = 1.0, 0.0
        for m in range(1, most + 1):
            a, b = line[most + m - 1, 0], line[most + m - 1, 1]
            line[most + m, 0], line[most + m, 1] = a * c - b * s, a * s + b * c
            line[most - m, 0], line[most - m, 1] = line[most + m, 0], -line[most + m, 1]
    # Each wave is a product of three of them; rho_k collects all electrons.
    waves = hamiltonian.waves
    p, q, t = powers[0], powers[1], powers[2]
    for k in range(waves.shape[0]):
        i, j, l = most + waves[k, 0], most + waves[k, 1], most + waves[k, 2]
        a = p[i, 0] * q[j, 0] - p[i, 1] * q[j, 1]
        b = p[i, 0] * q[j, 1] + p[i, 1] * q[j, 0]
        rho[k, 0] += a * t[l, 0] - b * t[l, 1]
        rho[k, 1] += a * t[l, 1] + b * t[l, 0]


@nb.njit(**CALLED)
def long_ranged(hamiltonian, R, own):
    """Return the long-ranged energies of the electrons among themselves and with the ions, constants included."""
    N, rho = R.shape[0], own.rho
    for k in range(rho.shape[0]):
        rho[k, 0] = rho[k, 1] = 0.0
    for e in range(N):
        add_waves(hamiltonian, R[e, 0], R[e, 1], R[e, 2], own.powers, rho)
    repulsion, attraction = hamiltonian.repulsion, hamiltonian.attraction
    for k in range(hamiltonian.waves.shape[0]):
        a, b, y = rho[k, 0], rho[k, 1], hamiltonian.weight[k]
        # Without the N terms of an electron with itself.
        repulsion += 0.5 * y * (a * a + b * b - N)
        attraction -= y * (a * hamiltonian.ions[k, 0] + b * hamiltonian.ions[k, 1])
    return repulsion, attraction


@nb.njit(**CALLED)
def pair_terms(R, orbitals, jastrow, hamiltonian, n_up, J):
    """Return the short-ranged repulsion and set J (N, 4) to gradient and Laplacian of the pair functions."""
    # Each pair once: its Coulomb energy, and its Jastrow derivatives for both electrons, with
    # opposite gradients.
    N = R.shape[0]
    repulsion = 0.0
    for e in range(N):
        for k in range(4):
            J[e, k] = 0.0
    for e in range(N):
        for j in range(e + 1, N):
            dx, dy, dz, r = nearest(orbitals, R[e, 0] - R[j, 0], R[e, 1] - R[j, 1], R[e, 2] - R[j, 2])
            if r < hamiltonian.pair_reach:
                repulsion += table_value(hamiltonian.pair, r) / r
            _, du, ddu = function(jastrow, 0 if (e < n_up) == (j < n_up) else 1, r)
            slope = du / r
            bend = ddu + 2.0 * slope
            J[e, 0] += slope * dx
            J[e, 1] += slope * dy
            J[e, 2] += slope * dz
            J[e, 3] += bend
            J[j, 0] -= slope * dx
            J[j, 1] -= slope * dy
            J[j, 2] -= slope * dz
            J[j, 3] += bend
    return repulsion


@nb.njit(**CALLED)
def ion_terms(R, orbitals, jastrow, hamiltonian, J, pseudopotentials):
    """Return the short-ranged energy with the ions and add their Jastrow functions to J (N, 4)."""
    local = 0.0
    images = hamiltonian.images
    # Ions outside: their tables are read for all electrons in turn.
    for a in range(hamiltonian.charge.shape[0]):
        atom, p, f = orbitals.atom[a], hamiltonian.potential[a], 2 + jastrow.species[a]
        for e in range(R.shape[0]):
            dx, dy, dz, r = nearest(orbitals, R[e, 0] - atom[0], R[e, 1] - atom[1], R[e, 2] - atom[2])
            if r < hamiltonian.pair_reach:
                local -= hamiltonian.charge[a] * table_value(hamiltonian.pair, r) / r
            if jastrow.kind[f] != 0:
                _, du, ddu = function(jastrow, f, r)
                slope = du / r
                J[e, 0] += slope * dx
                J[e, 1] += slope * dy
                J[e, 2] += slope * dz
                J[e, 3] += ddu + 2.0 * slope
            # The local part beyond Z / r is short-ranged, but may reach further than half of a short
            # cell: all images within its range count, not the nearest alone.
            if pseudopotentials is not None and p >= 0:
                dx, dy, dz = fold(orbitals, R[e, 0] - atom[0], R[e, 1] - atom[1], R[e, 2] - atom[2])
                for image in range(images.shape[0]):
                    t = images[image]
                    r = math.sqrt((dx + t[0]) ** 2 + (dy + t[1]) ** 2 + (dz + t[2]) ** 2)
                    if r < hamiltonian.reach[p]:
                        r = max(r, TINY)
                        local += table_value(hamiltonian.local[p], r) / r
    return local
