"""Walkers in a crystal on the CPU: moves, local energies, T-moves, in real or complex wavefunctions (fixed phase).

Everything is as in ``walk_cpu`` and ``energy_cpu``, with nearest images, Bloch orbitals, and the two parts of the periodic
Coulomb potential.  Determinants may be complex: moves go with the modulus, local energies are real parts, and no node is kept.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.core.device.cpu.rng import uniform2
from qsim.qmc.kernels.bloch_cpu import bloch_ratio, bloch_rows
from qsim.qmc.kernels.crystal_types import WINDOW
from qsim.qmc.kernels.draws_cpu import normals
from qsim.qmc.kernels.energy_cpu import chosen_move, rotation
from qsim.qmc.kernels.inverses_cpu import DELAYED, close_window, invert, renewed, update_window
from qsim.qmc.kernels.jastrow_cpu import function, function_value
from qsim.qmc.kernels.jit import INLINE, PART
from qsim.qmc.kernels.orbitals_cpu import table_value
from qsim.qmc.kernels.walk_cpu import (
    ACCEPTED,
    ACCEPTED_SQUARE,
    FIXED_NODE,
    NONLOCAL,
    PAIRS,
    PLAIN,
    PROPOSED_SQUARE,
    SINGULAR,
    accepts,
    limited,
    update_inverse,
)

__all__ = ["fold", "local_energy", "nearest", "nonlocal_moves", "renew", "sweep", "velocity"]

TINY = 1e-12
T_MOVE = 5  # pair of uniforms of an electron's T-move, as in energy_cpu
KINETIC, REPULSION, LOCAL, NONLOCAL_ENERGY, EXTERNAL, TOTAL = 0, 1, 2, 3, 4, 5


@nb.njit(**INLINE)
def fold(orbitals, x, y, z):
    """Return a vector with coordinates in the reduced basis within -1/2 ... 1/2."""
    U, A = orbitals.unreduce, orbitals.reduced
    a = x * U[0, 0] + y * U[1, 0] + z * U[2, 0]
    b = x * U[0, 1] + y * U[1, 1] + z * U[2, 1]
    c = x * U[0, 2] + y * U[1, 2] + z * U[2, 2]
    a, b, c = math.floor(a + 0.5), math.floor(b + 0.5), math.floor(c + 0.5)
    return (
        x - (a * A[0, 0] + b * A[1, 0] + c * A[2, 0]),
        y - (a * A[0, 1] + b * A[1, 1] + c * A[2, 1]),
        z - (a * A[0, 2] + b * A[1, 2] + c * A[2, 2]),
    )


@nb.njit(**INLINE)
def nearest(orbitals, x, y, z):
    """Return the shortest image of a vector and its length; exact below the Wigner-Seitz radius."""
    x, y, z = fold(orbitals, x, y, z)
    square = x * x + y * y + z * z
    if square > orbitals.radius2:
        fx, fy, fz = x, y, z
        for k in range(1, orbitals.near.shape[0]):
            t = orbitals.near[k]
            a, b, c = fx + t[0], fy + t[1], fz + t[2]
            other = a * a + b * b + c * c
            if other < square:
                x, y, z, square = a, b, c, other
    return x, y, z, max(math.sqrt(square), TINY)


@nb.njit(**PART)
def electron_value(jastrow, orbitals, R, e, n_up, x, y, z):
    """Return the sum of all Jastrow functions of electron e if it were at (x, y, z)."""
    total = 0.0
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


@nb.njit(**PART)
def electron_gradient(jastrow, orbitals, R, e, n_up, x, y, z):
    """Return sum and gradient (x, y, z) of all Jastrow functions of electron e if it were at (x, y, z)."""
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


@nb.njit(**PART)
def velocity(row, column, n, ratio):
    """Return the real part of the gradient of the determinant over it."""
    vx = vy = vz = row[1, 0] * column[0] * 0.0
    for o in range(n):
        c = column[o]
        vx += row[1, o] * c
        vy += row[2, o] * c
        vz += row[3, o] * c
    return (vx / ratio).real, (vy / ratio).real, (vz / ratio).real


@nb.njit(**PART)
def place_electron(state, w, e, spin, i, n, rows, ratio, x, y, z, work):
    """Put electron e at (x, y, z): row, inverse, position."""
    update_inverse(state.inverse[w, spin], rows[0], i, n, ratio, work.column)
    settle(state, w, e, rows, x, y, z)


@nb.njit(**PART)
def settle(state, w, e, rows, x, y, z):
    """Set the rows and the position of electron e."""
    target = state.rows[w, e]
    for k in range(5):
        for o in range(rows.shape[1]):
            target[k, o] = rows[k, o]
    R = state.R[w]
    R[e, 0], R[e, 1], R[e, 2] = x, y, z


@nb.njit(**PART)
def finish(state, w, n_up, e, waiting, work):
    """Bring the inverse of electron e's spin up to date at the end of its window; return that nothing waits."""
    spin = 0 if e < n_up else 1
    i, n = (e, n_up) if spin == 0 else (e - n_up, state.R.shape[1] - n_up)
    close_window(state.inverse[w, spin], i, n, work.kept, waiting)
    return 0


@nb.njit(**PART)
def sweep(
    state, w, basis, orbitals, jastrow, n_up, mass, tau, mode, k0, k1, stream, step, walker, work, windows
):  # fmt: skip
    """Move each electron of walker w once; ``walker`` is its number in all of the ensemble, for random numbers.

    ``windows`` is None where no inverse is large enough for delayed updates, which are not compiled then.
    """
    R, rows = state.R[w], work.rows
    N = R.shape[0]
    variance = tau / mass
    width = math.sqrt(variance)
    moved = waiting = np.int64(0)
    for e in range(N):
        spin = 0 if e < n_up else 1
        i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
        if windows is not None and waiting and i % WINDOW == 0:
            waiting = finish(state, w, n_up, e - 1, waiting, work)
        column = state.inverse[w, spin, i]
        x, y, z = R[e, 0], R[e, 1], R[e, 2]
        g0, g1, g2 = normals(k0, k1, stream, step, walker, PAIRS * e)
        sx, sy, sz = width * g0, width * g1, width * g2
        old, jx, jy, jz = electron_gradient(jastrow, orbitals, R, e, n_up, x, y, z)
        vx = vy = vz = 0.0
        if mode != PLAIN:
            vx, vy, vz = velocity(state.rows[w, e], column, n, 1.0)
            vx, vy, vz = vx - jx, vy - jy, vz - jz
            f = variance * limited(vx, vy, vz, variance)
            vx, vy, vz = f * vx, f * vy, f * vz
        nx, ny, nz = x + vx + sx, y + vy + sy, z + vz + sz
        square = (nx - x) ** 2 + (ny - y) ** 2 + (nz - z) ** 2
        state.moves[w, PROPOSED_SQUARE] += square
        bloch_rows(basis, orbitals, spin, nx, ny, nz, rows, work.sums, work.w)
        new, jx, jy, jz = electron_gradient(jastrow, orbitals, R, e, n_up, nx, ny, nz)
        ratio = rows[0, 0] * column[0] * 0.0
        for o in range(n):
            ratio += rows[0, o] * column[o]
        if mode == FIXED_NODE and orbitals.is_complex == 0 and ratio.real <= 0.0:
            continue
        size = abs(ratio)
        if not size > SINGULAR:
            continue
        exponent = 2.0 * (math.log(size) + old - new)
        if mode != PLAIN:
            wx, wy, wz = velocity(rows, column, n, ratio)
            wx, wy, wz = wx - jx, wy - jy, wz - jz
            f = variance * limited(wx, wy, wz, variance)
            bx, by, bz = x - nx - f * wx, y - ny - f * wy, z - nz - f * wz
            exponent += 0.5 * ((sx * sx + sy * sy + sz * sz) - (bx * bx + by * by + bz * bz)) / variance
        if exponent < 0.0 and not accepts(exponent, k0, k1, stream, step, walker, PAIRS * e + 1):
            continue
        if windows is not None and n >= DELAYED:
            update_window(state.inverse[w, spin], rows[0], i, n, ratio, work.kept, waiting)
            settle(state, w, e, rows, nx, ny, nz)
            waiting += 1
        else:
            place_electron(state, w, e, spin, i, n, rows, ratio, nx, ny, nz, work)
        state.log_psi[w] += math.log(size) + old - new
        if orbitals.is_complex == 0 and ratio.real < 0.0:
            state.sign[w] = -state.sign[w]
        state.moves[w, ACCEPTED_SQUARE] += square
        moved += 1
    if windows is not None and waiting:
        finish(state, w, n_up, N - 1, waiting, work)
    state.moves[w, ACCEPTED] += moved
    if moved:
        state.age[w] = 0
    else:
        state.age[w] += 1


@nb.njit(**PART)
def jastrow_total(jastrow, orbitals, R, n_up):
    """Return the sum of all Jastrow functions of one configuration."""
    total = 0.0
    atom = orbitals.atom
    for e in range(R.shape[0]):
        for j in range(e + 1, R.shape[0]):
            _, _, _, r = nearest(orbitals, R[e, 0] - R[j, 0], R[e, 1] - R[j, 1], R[e, 2] - R[j, 2])
            total += function_value(jastrow, 0 if (e < n_up) == (j < n_up) else 1, r)
        for a in range(atom.shape[0]):
            f = 2 + jastrow.species[a]
            if jastrow.kind[f] != 0:
                _, _, _, r = nearest(
                    orbitals, R[e, 0] - atom[a, 0], R[e, 1] - atom[a, 1], R[e, 2] - atom[a, 2]
                )
                total += function_value(jastrow, f, r)
    return total


@nb.njit(**PART)
def renew(state, w, basis, orbitals, jastrow, n_up, work):
    """Recompute rows, inverses and log psi of a walker; return the largest change of an inverse relative to its size."""
    N = state.R.shape[1]
    rows, matrix, fresh = work.rows, work.matrix, work.fresh
    R = state.R[w]
    log, sign, worst = 0.0, 1.0, 0.0
    for spin in range(2):
        n = n_up if spin == 0 else N - n_up
        begin = 0 if spin == 0 else n_up
        for i in range(n):
            e = begin + i
            x, y, z = R[e, 0], R[e, 1], R[e, 2]
            bloch_rows(basis, orbitals, spin, x, y, z, rows, work.sums, work.w)
            settle(state, w, e, rows, x, y, z)
            for o in range(n):
                matrix[i, o] = rows[0, o]
        a, b = invert(matrix, n, fresh, work.identity, orbitals.is_complex)
        log, sign = log + a, sign * b
        worst = max(worst, renewed(state.inverse[w, spin], fresh, n))
    state.log_psi[w] = log - jastrow_total(jastrow, orbitals, R, n_up)
    state.sign[w] = sign
    return worst


# ----------------------------------------------------------------------------------------- local energy


@nb.njit(**PART)
def add_waves(hamiltonian, x, y, z, powers, rho):
    """Add ``exp(i k r)`` of one electron to the waves ``rho`` (n, 2)."""
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
    waves = hamiltonian.waves
    p, q, t = powers[0], powers[1], powers[2]
    for k in range(waves.shape[0]):
        i, j, l = most + waves[k, 0], most + waves[k, 1], most + waves[k, 2]
        a = p[i, 0] * q[j, 0] - p[i, 1] * q[j, 1]
        b = p[i, 0] * q[j, 1] + p[i, 1] * q[j, 0]
        rho[k, 0] += a * t[l, 0] - b * t[l, 1]
        rho[k, 1] += a * t[l, 1] + b * t[l, 0]


@nb.njit(**PART)
def long_ranged(hamiltonian, R, work):
    """Return the long-ranged energies of the electrons among themselves and with the ions, constants included."""
    N, rho = R.shape[0], work.rho
    for k in range(rho.shape[0]):
        rho[k, 0] = rho[k, 1] = 0.0
    for e in range(N):
        add_waves(hamiltonian, R[e, 0], R[e, 1], R[e, 2], work.powers, rho)
    repulsion, attraction = hamiltonian.repulsion, hamiltonian.attraction
    for k in range(hamiltonian.waves.shape[0]):
        a, b, y = rho[k, 0], rho[k, 1], hamiltonian.weight[k]
        repulsion += 0.5 * y * (a * a + b * b - N)
        attraction -= y * (a * hamiltonian.ions[k, 0] + b * hamiltonian.ions[k, 1])
    return repulsion, attraction


@nb.njit(**INLINE)
def legendre(l, x):
    """Return P_l(x)."""
    if l == 0:
        return 1.0
    if l == 1:
        return x
    below, p = x, 1.5 * x * x - 0.5
    for k in range(2, l):
        below, p = p, ((2 * k + 1) * x * p - k * below) / (k + 1)
    return p


@nb.njit(**PART)
def nonlocal_electron(
    state, w, e, basis, orbitals, jastrow, hamiltonian, n_up, k0, k1, stream, step, walker, work, targets
):  # fmt: skip
    """Return the nonlocal energy of electron e and the number of points, whose places and values go to ``targets`` (k, 4)."""
    R, Q, factors, images = state.R[w], work.Q, work.factors, hamiltonian.images
    N, atoms = R.shape[0], orbitals.atom.shape[0]
    spin = 0 if e < n_up else 1
    i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
    column = state.inverse[w, spin, i]
    total, count = 0.0, 0
    old, known = 0.0, False
    for a in range(atoms):
        p = hamiltonian.potential[a]
        if p < 0 or hamiltonian.channels[p] == 0:
            continue
        atom = orbitals.atom[a]
        fx, fy, fz = fold(orbitals, R[e, 0] - atom[0], R[e, 1] - atom[1], R[e, 2] - atom[2])
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
                old = electron_value(jastrow, orbitals, R, e, n_up, R[e, 0], R[e, 1], R[e, 2])
                known = True
            ax, ay, az = R[e, 0] - dx, R[e, 1] - dy, R[e, 2] - dz
            number = (e * atoms + a) * images.shape[0] + image
            rotation(k0, k1, stream, step, walker, PAIRS * N + 2 * number, Q)
            over = 1.0 / max(r, TINY)
            for q in range(hamiltonian.points.shape[0]):
                point = hamiltonian.points[q]
                ux = Q[0, 0] * point[0] + Q[0, 1] * point[1] + Q[0, 2] * point[2]
                uy = Q[1, 0] * point[0] + Q[1, 1] * point[1] + Q[1, 2] * point[2]
                uz = Q[2, 0] * point[0] + Q[2, 1] * point[1] + Q[2, 2] * point[2]
                cosine = (ux * dx + uy * dy + uz * dz) * over
                weight = 0.0
                for l in range(channels):
                    weight += factors[l] * legendre(l, cosine)
                x, y, z = ax + r * ux, ay + r * uy, az + r * uz
                ratio = bloch_ratio(basis, orbitals, spin, x, y, z, column, n, work.sums, work.w)
                new = electron_value(jastrow, orbitals, R, e, n_up, x, y, z)
                value = hamiltonian.weights[q] * weight * ratio.real * math.exp(old - new)
                total += value
                targets[count, 0], targets[count, 1], targets[count, 2], targets[count, 3] = x, y, z, value
                count += 1
    return total, count


@nb.njit(**PART)
def pair_terms(R, orbitals, jastrow, hamiltonian, n_up, J):
    """Return the short-ranged repulsion and set J (N, 4) to gradient and Laplacian of the pair functions."""
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


@nb.njit(**PART)
def ion_terms(R, orbitals, jastrow, hamiltonian, J, pseudopotentials):
    """Return the short-ranged energy with the ions and add their Jastrow functions to J (N, 4)."""
    local = 0.0
    images = hamiltonian.images
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
            if pseudopotentials is not None and p >= 0:
                dx, dy, dz = fold(orbitals, R[e, 0] - atom[0], R[e, 1] - atom[1], R[e, 2] - atom[2])
                for image in range(images.shape[0]):
                    t = images[image]
                    r = math.sqrt((dx + t[0]) ** 2 + (dy + t[1]) ** 2 + (dz + t[2]) ** 2)
                    if r < hamiltonian.reach[p]:
                        r = max(r, TINY)
                        local += table_value(hamiltonian.local[p], r) / r
    return local


@nb.njit(**PART)
def local_energy(
    state, w, basis, orbitals, jastrow, hamiltonian, ion_ion, n_up, k0, k1, stream, step, walker, work,
    pseudopotentials,
):  # fmt: skip
    """Set ``state.energy[w]``; ``work.targets`` and ``work.counts`` keep the points of the nonlocal part.

    ``pseudopotentials`` is None if there are none; nothing that they need is compiled then.
    """
    R, J = state.R[w], work.J
    N = R.shape[0]
    repulsion, local = long_ranged(hamiltonian, R, work)
    repulsion += pair_terms(R, orbitals, jastrow, hamiltonian, n_up, J)
    local += ion_terms(R, orbitals, jastrow, hamiltonian, J, pseudopotentials)
    laplacians = 0.0
    for e in range(N):
        spin = 0 if e < n_up else 1
        i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
        row, column = state.rows[w, e], state.inverse[w, spin, i]
        gx, gy, gz = velocity(row, column, n, 1.0)
        lap = 0.0
        for o in range(n):
            lap += (row[4, o] * column[o]).real
        jx, jy, jz = J[e, 0], J[e, 1], J[e, 2]
        laplacians += lap - 2.0 * (gx * jx + gy * jy + gz * jz) + (jx * jx + jy * jy + jz * jz) - J[e, 3]
    nonlocal_ = 0.0
    if pseudopotentials is not None:
        for e in range(N):
            value, work.counts[e] = nonlocal_electron(
                state, w, e, basis, orbitals, jastrow, hamiltonian, n_up, k0, k1, stream, step, walker, work, work.targets[e]
            )  # fmt: skip
            nonlocal_ += value
    kinetic = -0.5 * laplacians / hamiltonian.mass
    energy = state.energy[w]
    energy[KINETIC], energy[REPULSION], energy[LOCAL] = kinetic, repulsion, local
    energy[NONLOCAL_ENERGY], energy[EXTERNAL] = nonlocal_, 0.0
    energy[TOTAL] = kinetic + repulsion + local + nonlocal_ + ion_ion


@nb.njit(**PART)
def nonlocal_moves(
    state, w, basis, orbitals, jastrow, hamiltonian, n_up, tau, k0, k1, stream, step, walker, work
):  # fmt: skip
    """Make the T-moves of a walker with the points of its local energy; points are redone once an electron has moved."""
    R, rows, targets, counts = state.R[w], work.rows, work.targets, work.counts
    N = R.shape[0]
    moved = False
    for e in range(N):
        if counts[e] == 0:
            continue
        if moved:
            _, counts[e] = nonlocal_electron(
                state, w, e, basis, orbitals, jastrow, hamiltonian, n_up, k0, k1, stream, step, walker, work, work.targets[e]
            )  # fmt: skip
        u, _ = uniform2(k0, k1, stream, step, walker, PAIRS * e + T_MOVE)
        chosen = chosen_move(targets[e], counts[e], tau, u)
        if chosen < 0:
            continue
        spin = 0 if e < n_up else 1
        i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
        x, y, z = targets[e, chosen, 0], targets[e, chosen, 1], targets[e, chosen, 2]
        bloch_rows(basis, orbitals, spin, x, y, z, rows, work.sums, work.w)
        column = state.inverse[w, spin, i]
        ratio = rows[0, 0] * column[0] * 0.0
        for o in range(n):
            ratio += rows[0, o] * column[o]
        if not abs(ratio) > 0.0:
            continue
        old = electron_value(jastrow, orbitals, R, e, n_up, R[e, 0], R[e, 1], R[e, 2])
        new = electron_value(jastrow, orbitals, R, e, n_up, x, y, z)
        place_electron(state, w, e, spin, i, n, rows, ratio, x, y, z, work)
        state.log_psi[w] += math.log(abs(ratio)) + old - new
        if orbitals.is_complex == 0 and ratio.real < 0.0:
            state.sign[w] = -state.sign[w]
        state.moves[w, NONLOCAL] += 1.0
        moved = True
