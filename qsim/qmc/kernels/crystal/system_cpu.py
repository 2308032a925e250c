"""Orbitals, distances and potentials in crystals on the CPU, as kernels of walkers call them.

:mod:`qsim.qmc.kernels.walkers.evaluators_cpu` says what each function of ``__all__`` is for.  Distances are those of nearest
images; determinants may be complex (fixed phase): local energies are real parts then, and no node is kept.
"""

from __future__ import annotations

import math

import numba as nb
from numba import types

from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.draws_cpu import PAIRS, normals, rotation
from qsim.qmc.kernels.common.jastrow_cpu import TINY, function, function_value
from qsim.qmc.kernels.common.jit import CALLED, INLINE, JIT
from qsim.qmc.kernels.common.radial_cpu import table_value
from qsim.qmc.kernels.crystal.bloch_cpu import bloch_ratio, bloch_rows
from qsim.qmc.kernels.crystal.ewald_cpu import ion_terms, long_ranged, pair_terms
from qsim.qmc.kernels.crystal.geometry_cpu import fold, nearest
from qsim.qmc.kernels.expansion.slater_cpu import column_of, orbitals_of

__all__ = [
    "displacement",
    "electron_gradient",
    "electron_value",
    "exponent_before",
    "move_scale",
    "nonlocal_electron",
    "normals_of",
    "place_electron",
    "place_electrons",
    "place_ions",
    "potentials",
    "renew_exponent",
    "rows_at",
    "velocity",
]


@nb.njit(**INLINE)
def place_ions(system, work):
    """Do nothing: distances are made one by one."""


@nb.njit(**INLINE)
def place_electrons(system, R, work):
    """Do nothing: distances are made one by one."""


@nb.njit(**INLINE)
def place_electron(system, R, e, work):
    """Do nothing: distances are made one by one."""


@nb.njit(**INLINE)
def move_scale(system, x, y, z):
    """Return 1: moves have one length in all of a cell."""
    return 1.0


@nb.njit(**INLINE)
def normals_of(system, draw, e, work):
    """Return three normals."""
    return normals(draw.k0, draw.k1, draw.stream, draw.step, draw.walker, PAIRS * e)


@nb.njit(**INLINE)
def rows_at(system, spin, x, y, z, work):
    """Set ``work.rows`` to values, gradients and Laplacians of the orbitals at a point."""
    bloch_rows(system.basis, system.orbitals, spin, x, y, z, work.rows, work.own.sums, work.own.w)


@nb.njit(**CALLED)
def velocity(system, row, column, n, ratio):
    """Return the real part of the gradient of the determinant over it."""
    # A sum of the type of the determinant: complex sums keep their imaginary part until they are
    # divided by a complex ratio.
    vx = vy = vz = row[1, 0] * column[0] * 0.0
    for o in range(n):
        c = column[o]
        vx += row[1, o] * c
        vy += row[2, o] * c
        vz += row[3, o] * c
    return (vx / ratio).real, (vy / ratio).real, (vz / ratio).real


@nb.njit(**INLINE)
def displacement(system, dx, dy, dz):
    """Return the shortest image of a vector and its length, which may be divided by."""
    return nearest(system.orbitals, dx, dy, dz)


@nb.njit(**CALLED)
def electron_value(system, R, e, x, y, z, work):
    """Return the sum of all Jastrow functions of electron e if it were at (x, y, z)."""
    orbitals, jastrow, n_up = system.orbitals, system.jastrow, system.n_up
    total = 0.0
    # Without pair functions no distance between electrons is needed here.
    if jastrow.kind[0] != 0 or jastrow.kind[1] != 0:
        up, dn = (0, 1) if e < n_up else (1, 0)
        for j in range(R.shape[0]):
            if j != e:
                _, _, _, r = nearest(orbitals, x - R[j, 0], y - R[j, 1], z - R[j, 2])
                total += function_value(jastrow, up if j < n_up else dn, r)
    atom = orbitals.atom
    for a in range(atom.shape[0]):
        f = 2 + jastrow.species[a]
        if jastrow.kind[f] != 0:
            _, _, _, r = nearest(orbitals, x - atom[a, 0], y - atom[a, 1], z - atom[a, 2])
            total += function_value(jastrow, f, r)
    return total


@nb.njit(**CALLED)
def electron_gradient(system, R, e, x, y, z, work):
    """Return sum and gradient (x, y, z) of all Jastrow functions of electron e if it were at (x, y, z)."""
    orbitals, jastrow, n_up = system.orbitals, system.jastrow, system.n_up
    total = gx = gy = gz = 0.0
    if jastrow.kind[0] != 0 or jastrow.kind[1] != 0:
        up, dn = (0, 1) if e < n_up else (1, 0)
        for j in range(R.shape[0]):
            if j != e:
                dx, dy, dz, r = nearest(orbitals, x - R[j, 0], y - R[j, 1], z - R[j, 2])
                u, du, _ = function(jastrow, up if j < n_up else dn, r)
                slope = du / r
                total, gx, gy, gz = total + u, gx + slope * dx, gy + slope * dy, gz + slope * dz
    atom = orbitals.atom
    for a in range(atom.shape[0]):
        f = 2 + jastrow.species[a]
        if jastrow.kind[f] != 0:
            dx, dy, dz, r = nearest(orbitals, x - atom[a, 0], y - atom[a, 1], z - atom[a, 2])
            u, du, _ = function(jastrow, f, r)
            slope = du / r
            total, gx, gy, gz = total + u, gx + slope * dx, gy + slope * dy, gz + slope * dz
    return total, gx, gy, gz


@nb.njit(**INLINE)
def renew_exponent(system, R, e, work):
    """Do nothing: :func:`nonlocal_electron` makes what it needs."""


@nb.njit(**INLINE)
def exponent_before(system, R, e, work):
    """Return the sum of the Jastrow functions of electron e where it is."""
    return electron_value(system, R, e, R[e, 0], R[e, 1], R[e, 2], work)


# ---------------------------------------------------------------------------------------- potentials


@nb.njit(**INLINE)
def potentials(system, R, pseudopotentials, work):
    """Return repulsion, energy with ions, and no external energy; set ``work.J`` to derivatives of the Jastrow functions."""
    orbitals, jastrow, hamiltonian, J = system.orbitals, system.jastrow, system.hamiltonian, work.J
    repulsion, local = long_ranged(hamiltonian, R, work.own)
    repulsion += pair_terms(R, orbitals, jastrow, hamiltonian, system.n_up, J)
    local += ion_terms(R, orbitals, jastrow, hamiltonian, J, pseudopotentials)
    return repulsion, local, 0.0


@nb.njit(**INLINE)
def legendre(l, x):
    """Return P_l(x)."""
    if l == 0:
        return 1.0
    if l == 1:
        return x
    # Bonnet's recurrence.
    below, p = x, 1.5 * x * x - 0.5
    for k in range(2, l):
        below, p = p, ((2 * k + 1) * x * p - k * below) / (k + 1)
    return p


@apart(types.Tuple((types.float64, types.int64)), **JIT)
def nonlocal_electron(system, state, w, e, draw, work):
    """Return the nonlocal energy of electron e and the number of its points, whose places and values go to ``work.targets``."""
    orbitals, hamiltonian, n_up = system.orbitals, system.hamiltonian, system.n_up
    R, Q, factors, images = state.R[w], work.Q, work.factors, hamiltonian.images
    own, targets = work.own, work.targets[e]
    N, atoms = R.shape[0], orbitals.atom.shape[0]
    spin = 0 if e < n_up else 1
    i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
    column = column_of(system, state.inverse[w, spin, i], work.columns[e])
    n = orbitals_of(system, spin, n)
    total, count = 0.0, 0
    old, known = 0.0, False
    for a in range(atoms):
        p = hamiltonian.potential[a]
        if p < 0 or hamiltonian.channels[p] == 0:
            continue
        atom = orbitals.atom[a]
        fx, fy, fz = fold(orbitals, R[e, 0] - atom[0], R[e, 1] - atom[1], R[e, 2] - atom[2])
        # An electron can be in range of several images of an ion: the cutoff may be longer than half of a short cell.
        for image in range(images.shape[0]):
            t = images[image]
            dx, dy, dz = fx + t[0], fy + t[1], fz + t[2]
            r = math.sqrt(dx * dx + dy * dy + dz * dz)
            if r >= hamiltonian.cutoff[p]:
                continue
            channels = hamiltonian.channels[p]
            for l in range(channels):
                factors[l] = (2 * l + 1) * table_value(hamiltonian.delta[p, l], r)
            if not known:
                old = electron_value(system, R, e, R[e, 0], R[e, 1], R[e, 2], work)
                known = True
            ax, ay, az = R[e, 0] - dx, R[e, 1] - dy, R[e, 2] - dz
            # The rotation of each electron and image has counters of its own, whatever the order of the loops.
            number = (e * atoms + a) * images.shape[0] + image
            rotation(draw, PAIRS * N + 2 * number, Q)
            over = 1.0 / max(r, TINY)
            for q in range(hamiltonian.points.shape[0]):
                point = hamiltonian.points[q]
                ux = Q[0, 0] * point[0] + Q[0, 1] * point[1] + Q[0, 2] * point[2]
                uy = Q[1, 0] * point[0] + Q[1, 1] * point[1] + Q[1, 2] * point[2]
                uz = Q[2, 0] * point[0] + Q[2, 1] * point[1] + Q[2, 2] * point[2]
                # sum_l (2 l + 1) dV_l(r) P_l(cos theta) psi(r_q) / psi(r), and of complex functions the real part
                cosine = (ux * dx + uy * dy + uz * dz) * over
                weight = 0.0
                for l in range(channels):
                    weight += factors[l] * legendre(l, cosine)
                x, y, z = ax + r * ux, ay + r * uy, az + r * uz
                ratio = bloch_ratio(system.basis, orbitals, spin, x, y, z, column, n, own.sums, own.w)
                new = electron_value(system, R, e, x, y, z, work)
                value = hamiltonian.weights[q] * weight * ratio.real * math.exp(old - new)
                total += value
                targets[count, 0], targets[count, 1], targets[count, 2], targets[count, 3] = x, y, z, value
                count += 1
    return total, count
