"""Local energies on the CPU: kinetic, Coulomb, local and nonlocal pseudopotentials; T-moves.

The nonlocal part of an ion is ``sum_l (2l+1) dV_l(r) sum_q w_q P_l(cos theta_q) psi(r_q) / psi(r)`` with a randomly turned rule
of points q on the sphere through the electron.  Its negative terms become transitions of weight ``-tau v_q`` in diffusion Monte
Carlo: T-moves, one electron after the other, which is size consistent (Casula, Moroni, Sorella and Filippi, J. Chem. Phys. 132,
154113 (2010)).
"""

from __future__ import annotations

import math

import numba as nb
from numba import types

from qsim.core.device.cpu.rng import uniform2
from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.draws_cpu import PAIRS
from qsim.qmc.kernels.common.jit import INLINE, JIT, PART
from qsim.qmc.kernels.expansion.slater_cpu import (
    accept,
    begin_spin,
    column_of,
    form_column,
    form_columns,
    orbitals_of,
)
from qsim.qmc.kernels.walkers.evaluators_cpu import (
    electron_of,
    electron_value,
    exponent_before,
    nonlocal_electron,
    place_electron,
    potentials,
    renew_exponent,
    rows_at,
)
from qsim.qmc.kernels.walkers.walk_cpu import NONLOCAL, ratio_of, set_rows

__all__ = ["TOTAL", "add_generation", "clipped", "local_energy", "nonlocal_moves"]

T_MOVE = 5  # pair of uniforms of an electron's T-move; 3 and 4 are free
KINETIC, REPULSION, LOCAL, NONLOCAL_ENERGY, EXTERNAL, TOTAL = 0, 1, 2, 3, 4, 5


@nb.njit(**INLINE)
def nonlocal_energy(state, w, system, pseudopotentials, draw, work):
    """Return the nonlocal energy; ``work.targets`` and ``work.counts`` keep its points for T-moves and derivatives."""
    if pseudopotentials is None:
        return 0.0
    total = 0.0
    for e in range(state.R.shape[1]):
        value, work.counts[e] = nonlocal_electron(system, state, w, e, draw, work)
        total += value
    return total


@apart(types.none, **JIT)
def local_energy(state, w, system, pseudopotentials, draw, work):
    """Set ``state.energy[w]``.

    ``pseudopotentials`` is None if there are none; nothing that they need is compiled then.
    """
    R, J = state.R[w], work.J
    repulsion, local, external = potentials(system, R, pseudopotentials, work)

    # With psi = D exp(-J): lap psi / psi = lap D / D - 2 grad D . grad J / D + |grad J|^2 - lap J.  Rows and inverses are up to
    # date, so that the determinant's part is two products for each electron.
    form_columns(system, state, w, work)
    laplacians = 0.0
    for e in range(R.shape[0]):
        spin, i, n = electron_of(system, R, e)
        row, column = state.rows[w, e], column_of(system, state.inverse[w, spin, i], work.columns[e])
        gx = gy = gz = lap = row.dtype.type(0.0) * 0.0
        for o in range(orbitals_of(system, spin, n)):
            c = column[o]
            gx += row[1, o] * c
            gy += row[2, o] * c
            gz += row[3, o] * c
            lap += row[4, o] * c
        jx, jy, jz = J[e, 0], J[e, 1], J[e, 2]
        along = gx.real * jx + gy.real * jy + gz.real * jz
        laplacians += lap.real - 2.0 * along + (jx * jx + jy * jy + jz * jz) - J[e, 3]

    nonlocal_ = nonlocal_energy(state, w, system, pseudopotentials, draw, work)
    kinetic = -0.5 * laplacians / system.hamiltonian.mass
    energy = state.energy[w]
    energy[KINETIC], energy[REPULSION], energy[LOCAL] = kinetic, repulsion, local
    energy[NONLOCAL_ENERGY], energy[EXTERNAL] = nonlocal_, external
    energy[TOTAL] = kinetic + repulsion + local + nonlocal_ + external + system.ion_ion


@nb.njit(**PART)
def chosen_move(targets, count, tau, u):
    """Return the point that a T-move goes to, -1 for none, with a random number u below 1.

    ``targets[q, 3]`` < 0 are the matrix elements V of points to go to, with the probability ``-tau V`` beside 1 to stay.
    """
    total = 1.0
    for q in range(count):
        if targets[q, 3] < 0.0:
            total -= tau * targets[q, 3]
    place = u * total - 1.0  # below 0: stay
    chosen = -1
    if place < 0.0:
        return chosen
    for q in range(count):
        if targets[q, 3] < 0.0:
            chosen = q
            place += tau * targets[q, 3]
            if place < 0.0:
                break
    return chosen


@apart(types.none, **JIT)
def nonlocal_moves(state, w, system, pseudopotentials, tau, draw, work):
    """Make the T-moves of a walker with the points of its local energy."""
    if pseudopotentials is None:
        return
    R, rows, targets, counts = state.R[w], work.rows, work.targets, work.counts
    moved = False
    for e in range(R.shape[0]):
        if counts[e] == 0:
            continue
        # Electrons move one after another.  Once one has, the values at the points of those that follow are others.
        spin, i, n = electron_of(system, R, e)
        if moved:
            begin_spin(system, state, w, spin, work)
            form_column(system, state, w, spin, i, e, work)
            renew_exponent(system, R, e, work)
            _, counts[e] = nonlocal_electron(system, state, w, e, draw, work)
        u, _ = uniform2(draw.k0, draw.k1, draw.stream, draw.step, draw.walker, PAIRS * e + T_MOVE)
        chosen = chosen_move(targets[e], counts[e], tau, u)
        if chosen < 0:
            continue

        # The value at the point was made without gradients; rows are needed for the update, and the ratio with them.
        x, y, z = targets[e, chosen, 0], targets[e, chosen, 1], targets[e, chosen, 2]
        rows_at(system, spin, x, y, z, work)
        column = column_of(system, state.inverse[w, spin, i], work.columns[e])
        ratio = ratio_of(rows[0], column, orbitals_of(system, spin, n))
        if not abs(ratio) > 0.0:
            continue
        old = exponent_before(system, R, e, work)
        new = electron_value(system, R, e, x, y, z, work)
        set_rows(state, w, e, rows)
        accept(system, state, w, spin, i, n, ratio, work)
        R[e, 0], R[e, 1], R[e, 2] = x, y, z
        place_electron(system, R, e, work)
        state.log_psi[w] += math.log(abs(ratio)) + old - new
        if system.is_complex == 0 and ratio.real < 0.0:
            state.sign[w] = -state.sign[w]
        state.moves[w, NONLOCAL] += 1.0
        moved = True


@nb.njit(**INLINE)
def add_generation(state, w, sums):
    """Add a walker's energies to ``sums`` (W, 8): components, square of the total, number of generations."""
    for c in range(6):
        sums[w, c] += state.energy[w, c]
    total = state.energy[w, TOTAL]
    sums[w, 6] += total * total
    sums[w, 7] += 1.0


@nb.njit(**INLINE)
def clipped(energy, reference, window):
    """Return an energy within ``window`` of the reference."""
    return min(max(energy, reference - window), reference + window)
