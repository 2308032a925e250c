"""Moves of walkers on the CPU: single-electron moves, updates of the inverses, full recomputation."""

from __future__ import annotations

import math

import numba as nb
import numpy as np
from numba import types

from qsim.core.device.cpu.rng import uniform2
from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.draws_cpu import PAIRS
from qsim.qmc.kernels.common.inverses_cpu import (
    DELAYED,
    close_window,
    invert,
    renewed,
    update_window,
)
from qsim.qmc.kernels.common.jastrow_cpu import function_value
from qsim.qmc.kernels.common.jit import INLINE, JIT, PART
from qsim.qmc.kernels.common.types import WINDOW
from qsim.qmc.kernels.expansion.slater_cpu import (
    accept,
    begin_spin,
    column_of,
    form_column,
    orbitals_of,
    total_of,
)
from qsim.qmc.kernels.walkers.evaluators_cpu import (
    displacement,
    electron_gradient,
    electron_of,
    move_scale,
    normals_of,
    place_electron,
    place_electrons,
    rows_at,
    velocity,
)

__all__ = [
    "ACCEPTED",
    "ACCEPTED_SQUARE",
    "DRIFT",
    "FIXED_NODE",
    "NONLOCAL",
    "PLAIN",
    "PROPOSED_SQUARE",
    "SCALED",
]

PLAIN, DRIFT, FIXED_NODE = 0, 1, 2  # ways to move
SCALED = 4  # added to one of them: moves are shorter near nuclei
ACCEPTED, PROPOSED_SQUARE, ACCEPTED_SQUARE, NONLOCAL = 0, 1, 2, 3  # columns of State.moves

SINGULAR = 1e-300  # least modulus of a ratio, above the numbers that are not normal


@nb.njit(**INLINE)
def limited(vx, vy, vz, tau):
    """Return the factor that bounds a drift velocity: Umrigar, Nightingale and Runge, J. Chem. Phys. 99, 2865 (1993), a = 1."""
    x = tau * (vx * vx + vy * vy + vz * vz)
    return 2.0 / (1.0 + math.sqrt(1.0 + 2.0 * x))  # (sqrt(1 + 2x) - 1) / x without cancellation


@nb.njit(**INLINE)
def accepts(exponent, draw, e):
    """Decide with probability ``exp(exponent)``."""
    u, _ = uniform2(draw.k0, draw.k1, draw.stream, draw.step, draw.walker, PAIRS * e + 1)
    return math.log(u) < exponent


@nb.njit(**INLINE)
def ratio_of(row, column, n):
    """Return the ratio of two determinants: the sum of a new row with a column of the inverse, in double precision."""
    ratio = row.dtype.type(0.0) * 0.0
    for o in range(n):
        ratio += row[o] * column[o]
    return ratio


@nb.njit(**INLINE)
def set_rows(state, w, e, rows):
    """Keep the rows of electron e; those of molecules are longer than what is kept."""
    target = state.rows[w, e]
    for k in range(5):
        for o in range(target.shape[1]):
            target[k, o] = rows[k, o]


@nb.njit(**PART)
def _close(state, w, system, e, waiting, work):
    """Bring the inverse of electron e's spin up to date at the end of its window; return that nothing waits."""
    spin, i, n = electron_of(system, state.R[w], e)
    close_window(state.inverse[w, spin], i, n, work.kept, waiting)
    return 0


@apart(types.none, **JIT)
def sweep(state, w, system, windows, tau, mode, draw, work):
    """Move each electron of walker w once, by Metropolis and Hastings.

    ``windows`` is None where no inverse is large enough for delayed updates, which are not compiled then.
    """
    R, rows = state.R[w], work.rows
    N = R.shape[0]
    place_electrons(system, R, work)
    kind = mode % SCALED
    variance = tau / system.hamiltonian.mass
    width = math.sqrt(variance)
    moved = waiting = np.int64(0)
    for e in range(N):
        spin, i, n = electron_of(system, R, e)
        if windows is not None and waiting and i % WINDOW == 0:
            waiting = _close(state, w, system, e - 1, waiting, work)
        if i == 0:
            begin_spin(system, state, w, spin, work)
        form_column(system, state, w, spin, i, e, work)
        column = column_of(system, state.inverse[w, spin, i], work.columns[e])
        orbitals = orbitals_of(system, spin, n)
        x, y, z = R[e, 0], R[e, 1], R[e, 2]

        # Proposal: r' = r + tau v(r) + normals of variance tau, v = grad log psi = grad log D - grad J, bounded near nodes.
        # The rows at the place of the electron are those of its last accepted move, so the drift needs no orbitals.
        scale = 1.0
        if mode >= SCALED:
            scale = move_scale(system, x, y, z)
            variance = tau * scale * scale / system.hamiltonian.mass
            width = math.sqrt(variance)
        gx, gy, gz = normals_of(system, draw, e, work)
        sx, sy, sz = width * gx, width * gy, width * gz
        old, jx, jy, jz = electron_gradient(system, R, e, x, y, z, work)
        vx = vy = vz = 0.0
        if kind != PLAIN:
            vx, vy, vz = velocity(system, state.rows[w, e], column, orbitals, 1.0)
            vx, vy, vz = vx - jx, vy - jy, vz - jz
            f = variance * limited(vx, vy, vz, variance)
            vx, vy, vz = f * vx, f * vy, f * vz
        nx, ny, nz = x + vx + sx, y + vy + sy, z + vz + sz
        square = (nx - x) ** 2 + (ny - y) ** 2 + (nz - z) ** 2
        state.moves[w, PROPOSED_SQUARE] += square

        # The ratio of determinants is one product, since only one row changes; of real ones its sign tells whether a node
        # was crossed.  Column i stays valid until the move is accepted: it does not depend on row i.
        rows_at(system, spin, nx, ny, nz, work)
        new, jx, jy, jz = electron_gradient(system, R, e, nx, ny, nz, work)
        ratio = ratio_of(rows[0], column, orbitals)
        if kind == FIXED_NODE and system.is_complex == 0 and ratio.real <= 0.0:
            continue
        size = abs(ratio)
        if not size > SINGULAR:
            continue

        # Acceptance: |psi'/psi|^2 G(r <- r') / G(r' <- r) with the Gaussians G of both drifts, and of both widths where they
        # depend on the place.
        exponent = 2.0 * (math.log(size) + old - new)
        if mode != PLAIN:
            back = variance
            if mode >= SCALED:
                back *= (move_scale(system, nx, ny, nz) / scale) ** 2
                exponent += 1.5 * math.log(variance / back)
            f = wx = wy = wz = 0.0
            if kind != PLAIN:
                wx, wy, wz = velocity(system, rows, column, orbitals, ratio)
                wx, wy, wz = wx - jx, wy - jy, wz - jz
                f = back * limited(wx, wy, wz, back)
            bx, by, bz = x - nx - f * wx, y - ny - f * wy, z - nz - f * wz
            turned = (bx * bx + by * by + bz * bz) * (variance / back)
            exponent += 0.5 * ((sx * sx + sy * sy + sz * sz) - turned) / variance
        if exponent < 0.0 and not accepts(exponent, draw, e):
            continue

        # Update: rows, inverse, position, logarithm and sign of psi.
        set_rows(state, w, e, rows)
        if windows is not None and n >= DELAYED:
            update_window(state.inverse[w, spin], rows[0], i, n, ratio, work.kept, waiting)
            waiting += 1
        else:
            accept(system, state, w, spin, i, n, ratio, work)
        R[e, 0], R[e, 1], R[e, 2] = nx, ny, nz
        place_electron(system, R, e, work)
        state.log_psi[w] += math.log(size) + old - new
        if system.is_complex == 0 and ratio.real < 0.0:
            state.sign[w] = -state.sign[w]
        state.moves[w, ACCEPTED_SQUARE] += square
        moved += 1
    if windows is not None and waiting:
        _close(state, w, system, N - 1, waiting, work)
    state.moves[w, ACCEPTED] += moved
    if moved:
        state.age[w] = 0
    else:
        state.age[w] += 1


@nb.njit(**PART)
def jastrow_total(system, R):
    """Return the sum of all Jastrow functions of one configuration, each pair once."""
    jastrow, atom, n_up = system.jastrow, system.orbitals.atom, system.n_up
    N = R.shape[0]
    total = 0.0
    for e in range(N):
        for j in range(e + 1, N):
            _, _, _, r = displacement(system, R[e, 0] - R[j, 0], R[e, 1] - R[j, 1], R[e, 2] - R[j, 2])
            total += function_value(jastrow, 0 if (e < n_up) == (j < n_up) else 1, r)
        for a in range(atom.shape[0]):
            f = 2 + jastrow.species[a]
            if jastrow.kind[f] != 0:
                dx, dy, dz = R[e, 0] - atom[a, 0], R[e, 1] - atom[a, 1], R[e, 2] - atom[a, 2]
                _, _, _, r = displacement(system, dx, dy, dz)
                total += function_value(jastrow, f, r)
    return total


@apart(types.float64, **JIT)
def refresh(state, w, system, work):
    """Recompute rows, inverses and log psi of a walker; return the largest change of an inverse relative to its size.

    Inverses are made in double precision: those of single-electron updates lose digits with every accepted move.
    """
    N, n_up = state.R.shape[1], system.n_up
    rows, matrix, fresh = work.rows, work.matrix, work.fresh
    R = state.R[w]
    log, sign, worst = 0.0, 1.0, 0.0
    for spin in range(2):
        n = n_up if spin == 0 else N - n_up
        begin = 0 if spin == 0 else n_up
        for i in range(n):
            e = begin + i
            rows_at(system, spin, R[e, 0], R[e, 1], R[e, 2], work)
            set_rows(state, w, e, rows)
            for o in range(n):
                matrix[i, o] = rows[0, o]
        a, b = invert(matrix, n, fresh, work.identity, system.is_complex)
        worst = max(worst, renewed(state.inverse[w, spin], fresh, n))
        c, d = total_of(system, state, w, spin, n, work)
        log, sign = log + a + c, sign * b * d
    state.log_psi[w] = log - jastrow_total(system, R)
    state.sign[w] = sign
    return worst
