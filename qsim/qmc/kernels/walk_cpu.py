"""Moves of walkers on the CPU: single-electron moves, updates of the inverses, full recomputation."""

from __future__ import annotations

import math

import numba as nb

from qsim.core.device.cpu.rng import uniform2
from qsim.core.device.cpu.vectors import get
from qsim.qmc.kernels.draws_cpu import two_normals
from qsim.qmc.kernels.inverses_cpu import invert, renewed
from qsim.qmc.kernels.jastrow_cpu import electron_gradient, function_value, place_electrons, show
from qsim.qmc.kernels.jit import INLINE, PART
from qsim.qmc.kernels.orbitals_cpu import orbital_rows

__all__ = ["ACCEPTED", "ACCEPTED_SQUARE", "DRIFT", "FIXED_NODE", "NONLOCAL", "PLAIN", "PROPOSED_SQUARE"]

PLAIN, DRIFT, FIXED_NODE = 0, 1, 2  # ways to move
ACCEPTED, PROPOSED_SQUARE, ACCEPTED_SQUARE, NONLOCAL = 0, 1, 2, 3  # columns of State.moves

PAIRS = 8  # counters of an electron in a generation: 0 displacement, 1 acceptance, 5 T-move, the others free
SINGULAR = 1e-300


@nb.njit(**INLINE)
def limited(vx, vy, vz, tau):
    """Return the factor that bounds a drift velocity: Umrigar, Nightingale and Runge, J. Chem. Phys. 99, 2865 (1993), a = 1."""
    x = tau * (vx * vx + vy * vy + vz * vz)
    return 2.0 / (1.0 + math.sqrt(1.0 + 2.0 * x))  # (sqrt(1 + 2x) - 1) / x without cancellation


@nb.njit(**INLINE)
def update_inverse(inverse, row, i, n, ratio, scratch):
    """Replace row i of a Slater matrix of n electrons (Sherman and Morrison); ``inverse[k]`` is column k."""
    M = inverse.shape[1]
    column = inverse[i]
    over = inverse.dtype.type(1.0) / inverse.dtype.type(ratio)
    for o in range(M):
        scratch[o] = column[o] * over
    for k in range(n):
        if k != i:
            dot = inverse.dtype.type(0.0)
            other = inverse[k]
            for o in range(n):
                dot += row[o] * other[o]
            for o in range(n):
                other[o] -= dot * scratch[o]
    for o in range(n):
        column[o] = scratch[o]


@nb.njit(**PART)
def sweep(state, w, orbitals, jastrow, n_up, mass, tau, mode, k0, k1, stream, step, walker, work):
    """Move each electron of walker w once; ``walker`` is its number in all of the ensemble, for random numbers."""
    R, rows, places, draws = state.R[w], work.rows, work.places, work.draws
    N = R.shape[0]
    atom = orbitals.atom
    place_electrons(places, R)
    variance = tau / mass
    width = math.sqrt(variance)
    moved = 0
    for e in range(N):
        spin = 0 if e < n_up else 1
        i = e if e < n_up else e - n_up
        n = n_up if spin == 0 else N - n_up
        inverse = state.inverse[w, spin]
        column = inverse[i]
        x, y, z = R[e, 0], R[e, 1], R[e, 2]
        if e % 2 == 0:
            two_normals(k0, k1, stream, step, walker, PAIRS * e, PAIRS * (e + 1), draws)
        g = 4 * (e % 2)
        sx, sy, sz = width * get(draws, g), width * get(draws, g + 1), width * get(draws, g + 2)
        old, jx, jy, jz, _ = electron_gradient(jastrow, atom, R, e, n_up, x, y, z, work)
        vx = vy = vz = 0.0
        if mode != PLAIN:
            row = state.rows[w, e]
            for o in range(n):
                c = column[o]
                vx += row[1, o] * c
                vy += row[2, o] * c
                vz += row[3, o] * c
            vx, vy, vz = vx - jx, vy - jy, vz - jz
            f = variance * limited(vx, vy, vz, variance)
            vx, vy, vz = f * vx, f * vy, f * vz
        nx, ny, nz = x + vx + sx, y + vy + sy, z + vz + sz
        square = (nx - x) ** 2 + (ny - y) ** 2 + (nz - z) ** 2
        state.moves[w, PROPOSED_SQUARE] += square
        orbital_rows(orbitals, spin, nx, ny, nz, rows, work)
        new, jx, jy, jz, _ = electron_gradient(jastrow, atom, R, e, n_up, nx, ny, nz, work)
        ratio = 0.0
        for o in range(n):
            ratio += rows[0, o] * column[o]
        if mode == FIXED_NODE and ratio <= 0.0:
            continue
        size = abs(ratio)
        if not size > SINGULAR:
            continue
        exponent = 2.0 * (math.log(size) + old - new)
        if mode != PLAIN:
            wx = wy = wz = 0.0
            for o in range(n):
                c = column[o]
                wx += rows[1, o] * c
                wy += rows[2, o] * c
                wz += rows[3, o] * c
            over = 1.0 / ratio
            wx, wy, wz = wx * over - jx, wy * over - jy, wz * over - jz
            f = variance * limited(wx, wy, wz, variance)
            bx, by, bz = x - nx - f * wx, y - ny - f * wy, z - nz - f * wz
            exponent += 0.5 * ((sx * sx + sy * sy + sz * sz) - (bx * bx + by * by + bz * bz)) / variance
        if exponent < 0.0 and not accepts(exponent, k0, k1, stream, step, walker, PAIRS * e + 1):
            continue
        update_inverse(inverse, rows[0], i, n, ratio, work.column)
        target = state.rows[w, e]
        for k in range(5):
            for o in range(target.shape[1]):
                target[k, o] = rows[k, o]
        R[e, 0], R[e, 1], R[e, 2] = nx, ny, nz
        show(places, R, e)
        state.log_psi[w] += math.log(size) + old - new
        if ratio < 0.0:
            state.sign[w] = -state.sign[w]
        state.moves[w, ACCEPTED_SQUARE] += square
        moved += 1
    state.moves[w, ACCEPTED] += moved
    if moved:
        state.age[w] = 0
    else:
        state.age[w] += 1


@nb.njit(**INLINE)
def accepts(exponent, k0, k1, stream, step, walker, pair):
    """Decide with probability ``exp(exponent)``."""
    u, _ = uniform2(k0, k1, stream, step, walker, pair)
    return math.log(u) < exponent


@nb.njit(**PART)
def jastrow_total(jastrow, atom, R, n_up):
    """Return the sum of all functions of one configuration."""
    N = R.shape[0]
    total = 0.0
    for e in range(N):
        for j in range(e + 1, N):
            r = math.sqrt((R[e, 0] - R[j, 0]) ** 2 + (R[e, 1] - R[j, 1]) ** 2 + (R[e, 2] - R[j, 2]) ** 2)
            total += function_value(jastrow, 0 if (e < n_up) == (j < n_up) else 1, r)
        for a in range(atom.shape[0]):
            f = 2 + jastrow.species[a]
            if jastrow.kind[f] != 0:
                dx, dy, dz = R[e, 0] - atom[a, 0], R[e, 1] - atom[a, 1], R[e, 2] - atom[a, 2]
                total += function_value(jastrow, f, math.sqrt(dx * dx + dy * dy + dz * dz))
    return total


@nb.njit(**PART)
def refresh(state, w, orbitals, jastrow, n_up, work):
    """Recompute rows, inverses and log psi of a walker; return the largest change of an inverse relative to its size."""
    N = state.R.shape[1]
    M = state.inverse.shape[2]
    rows, matrix, fresh = work.rows, work.matrix, work.fresh
    R = state.R[w]
    log, sign, worst = 0.0, 1.0, 0.0
    for spin in range(2):
        n = n_up if spin == 0 else N - n_up
        begin = 0 if spin == 0 else n_up
        for i in range(n):
            e = begin + i
            orbital_rows(orbitals, spin, R[e, 0], R[e, 1], R[e, 2], rows, work)
            for k in range(5):
                for o in range(M):
                    state.rows[w, e, k, o] = rows[k, o]
            for o in range(n):
                matrix[i, o] = rows[0, o]
        a, b = invert(matrix, n, fresh, work.identity, False)
        log, sign = log + a, sign * b
        worst = max(worst, renewed(state.inverse[w, spin], fresh, n))
    state.log_psi[w] = log - jastrow_total(jastrow, orbitals.atom, R, n_up)
    state.sign[w] = sign
    return worst
