"""Local energies on the CPU: kinetic, Coulomb, local and nonlocal pseudopotentials; T-moves.

The nonlocal part of an ion is ``sum_l (2l+1) dV_l(r) sum_q w_q P_l(cos theta_q) psi(r_q) / psi(r)`` with a randomly turned rule
of points q on the sphere through the electron.  Its negative terms become transitions of weight ``-tau v_q`` in diffusion Monte
Carlo: T-moves, one electron after the other, which is size consistent (Casula, Moroni, Sorella and Filippi, J. Chem. Phys. 132,
154113 (2010)).
"""

from __future__ import annotations

import math

import numba as nb

from qsim.core.device.cpu.rng import uniform2
from qsim.core.device.cpu.vectors import get, lane, lanes, pack, put, same, total, wide
from qsim.qmc.kernels.draws_cpu import TWO_PI
from qsim.qmc.kernels.jastrow_cpu import (
    NONE,
    electron_gradient,
    electron_value,
    electron_values,
    forms,
    place_electrons,
    set_distances,
    show,
)
from qsim.qmc.kernels.jit import INLINE, PART
from qsim.qmc.kernels.orbitals_cpu import combinations, orbital_rows, own_radial, table_value
from qsim.qmc.kernels.walk_cpu import NONLOCAL, PAIRS, update_inverse

__all__ = ["local_energy", "nonlocal_energy", "nonlocal_moves"]

TINY = 1e-12
T_MOVE = 5  # pair of uniforms of an electron's T-move; 3 and 4 are free
KINETIC, REPULSION, LOCAL, NONLOCAL_ENERGY, EXTERNAL, TOTAL = 0, 1, 2, 3, 4, 5


@nb.njit(**INLINE)
def rotation(k0, k1, stream, step, walker, pair, Q):
    """Set Q (3, 3) to a random rotation (Shoemake, Graphics Gems III, 1992)."""
    a, b = uniform2(k0, k1, stream, step, walker, pair)
    c, _ = uniform2(k0, k1, stream, step, walker, pair + 1)
    s, t = math.sqrt(1.0 - a), math.sqrt(a)
    x, y = s * math.sin(TWO_PI * b), s * math.cos(TWO_PI * b)
    z, w = t * math.sin(TWO_PI * c), t * math.cos(TWO_PI * c)
    Q[0, 0], Q[0, 1], Q[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)
    Q[1, 0], Q[1, 1], Q[1, 2] = 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    Q[2, 0], Q[2, 1], Q[2, 2] = 2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)


@nb.njit(**INLINE)
def legendre(l, x):
    """Return P_l of a vector of four numbers."""
    if l == 0:
        return same(1.0)
    if l == 1:
        return x
    if l == 2:
        return 1.5 * x * x - 0.5
    below, p = x * (2.5 * x * x - 1.5), 0.125 * (x * x * (35.0 * x * x - 30.0) + 3.0)
    if l == 3:
        return below
    for k in range(4, l):
        below, p = p, (1.0 / (k + 1)) * ((2.0 * k + 1.0) * x * p - float(k) * below)
    return p


@nb.njit(**INLINE)
def nonlocal_electron(
    state, w, e, orbitals, jastrow, hamiltonian, n_up, old, k0, k1, stream, step, walker, work, targets
):  # fmt: skip
    """Return the nonlocal energy of electron e and the number of points, whose places and values go to ``targets`` (k, 4).

    ``old`` is the sum of its Jastrow functions; ``work.places`` are those of the walker.
    """
    R, combined, Q, factors = state.R[w], work.combined, work.Q, work.factors
    coefficients = orbitals.across
    N, atoms = R.shape[0], orbitals.atom.shape[0]
    spin = 0 if e < n_up else 1
    i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
    column = state.inverse[w, spin, i]
    total, count = 0.0, 0
    known = False
    for a in range(atoms):
        p = hamiltonian.potential[a]
        if p < 0 or hamiltonian.channels[p] == 0:
            continue
        ax, ay, az = orbitals.atom[a, 0], orbitals.atom[a, 1], orbitals.atom[a, 2]
        dx, dy, dz = R[e, 0] - ax, R[e, 1] - ay, R[e, 2] - az
        r = math.sqrt(dx * dx + dy * dy + dz * dz)
        if r >= hamiltonian.cutoff[p]:
            continue
        channels = hamiltonian.channels[p]
        for l in range(channels):
            factors[l] = (2 * l + 1) * table_value(hamiltonian.delta[p, l], r)
        if not known:
            known = True
            of_spin = spin * coefficients.shape[1] * combined.shape[0]
            for b in range(0, combined.shape[0], 4):
                value = same(0.0)
                for o in range(n):
                    value = value + column[o] * wide(lanes(coefficients, of_spin + o * combined.shape[0] + b))
                put(combined, b, value)
        rotation(k0, k1, stream, step, walker, PAIRS * N + 2 * (e * atoms + a), Q)
        own_radial(orbitals, a, r, work.radial)
        over = 1.0 / max(r, TINY)
        points, number = hamiltonian.points, hamiltonian.points.shape[0]
        for first in range(
            0, number, 4
        ):  # four points at once; those beyond the last are computed and not used
            i0, i1 = 3 * first, 3 * min(first + 1, number - 1)
            i2, i3 = 3 * min(first + 2, number - 1), 3 * min(first + 3, number - 1)
            px = pack(get(points, i0), get(points, i1), get(points, i2), get(points, i3))
            py = pack(get(points, i0 + 1), get(points, i1 + 1), get(points, i2 + 1), get(points, i3 + 1))
            pz = pack(get(points, i0 + 2), get(points, i1 + 2), get(points, i2 + 2), get(points, i3 + 2))
            ux = Q[0, 0] * px + Q[0, 1] * py + Q[0, 2] * pz
            uy = Q[1, 0] * px + Q[1, 1] * py + Q[1, 2] * pz
            uz = Q[2, 0] * px + Q[2, 1] * py + Q[2, 2] * pz
            cosine = (ux * dx + uy * dy + uz * dz) * over
            weight = same(0.0)
            for l in range(channels):
                weight = weight + factors[l] * legendre(l, cosine)
            x, y, z = ax + r * ux, ay + r * uy, az + r * uz
            ratio = weight * combinations(orbitals, combined, a, x, y, z, work)
            change = old - electron_values(jastrow, orbitals.atom, e, n_up, x, y, z, work)
            for q in range(min(4, number - first)):
                value = hamiltonian.weights[first + q] * lane(ratio, q) * math.exp(lane(change, q))
                total += value
                targets[count, 0], targets[count, 1] = lane(x, q), lane(y, q)
                targets[count, 2], targets[count, 3] = lane(z, q), value
                count += 1
    return total, count


@nb.njit(**INLINE)
def local_energy(state, w, orbitals, jastrow, hamiltonian, ion_ion, n_up, work):
    """Set ``state.energy[w]`` without the nonlocal part."""
    R, J, counts, distances = state.R[w], work.J, work.counts, work.distances
    N, atoms, size = R.shape[0], orbitals.atom.shape[0], work.places.shape[1]
    local = external = 0.0
    repulsion = attraction = same(0.0)
    without = forms(jastrow) == NONE
    place_electrons(work.places, R)
    for e in range(N):
        J[e, 4], J[e, 0], J[e, 1], J[e, 2], J[e, 3] = electron_gradient(
            jastrow, orbitals.atom, R, e, n_up, R[e, 0], R[e, 1], R[e, 2], work
        )
        if without:
            set_distances(e, R[e, 0], R[e, 1], R[e, 2], work)
        for j in range(0, size, 4):
            over = 1.0 / lanes(distances, j)
            repulsion = repulsion + lanes(work.charges, j) * over
            attraction = attraction + lanes(work.charges, size + j) * over
        for a in range(atoms):
            p = hamiltonian.potential[a]
            if p >= 0:
                r = distances[N + a]
                local += table_value(hamiltonian.local[p], r) / r
        if hamiltonian.omega != 0.0:
            external += R[e, 0] * R[e, 0] + R[e, 1] * R[e, 1] + R[e, 2] * R[e, 2]
    laplacians = 0.0
    for e in range(N):
        spin = 0 if e < n_up else 1
        i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
        row, column = state.rows[w, e], state.inverse[w, spin, i]
        gx = gy = gz = lap = 0.0
        for o in range(n):
            c = column[o]
            gx += row[1, o] * c
            gy += row[2, o] * c
            gz += row[3, o] * c
            lap += row[4, o] * c
        jx, jy, jz = J[e, 0], J[e, 1], J[e, 2]
        laplacians += lap - 2.0 * (gx * jx + gy * jy + gz * jz) + (jx * jx + jy * jy + jz * jz) - J[e, 3]
    for e in range(N):
        counts[e] = 0
    kinetic = -0.5 * laplacians / hamiltonian.mass
    external *= 0.5 * hamiltonian.mass * hamiltonian.omega * hamiltonian.omega
    energy = state.energy[w]
    between, local = total(repulsion), local - total(attraction)
    energy[KINETIC], energy[REPULSION], energy[LOCAL] = kinetic, between, local
    energy[NONLOCAL_ENERGY], energy[EXTERNAL] = 0.0, external
    energy[TOTAL] = kinetic + between + local + external + ion_ion


@nb.njit(**INLINE)
def nonlocal_energy(
    state, w, orbitals, jastrow, hamiltonian, ion_ion, n_up, k0, k1, stream, step, walker, work
):  # fmt: skip
    """Add the nonlocal part to what :func:`local_energy` set; ``work.targets`` and ``work.counts`` keep its points."""
    energy, counts = state.energy[w], work.counts
    nonlocal_, most = 0.0, 0
    for p in range(hamiltonian.channels.shape[0]):
        most = max(most, hamiltonian.channels[p])
    if most > 0:
        for e in range(counts.shape[0]):
            value, counts[e] = nonlocal_electron(
                state, w, e, orbitals, jastrow, hamiltonian, n_up, work.J[e, 4],
                k0, k1, stream, step, walker, work, work.targets[e],
            )  # fmt: skip
            nonlocal_ += value
    energy[NONLOCAL_ENERGY] = nonlocal_
    energy[TOTAL] = (
        energy[KINETIC] + energy[REPULSION] + energy[LOCAL] + nonlocal_ + energy[EXTERNAL] + ion_ion
    )


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


@nb.njit(**PART)
def nonlocal_moves(
    state, w, orbitals, jastrow, hamiltonian, n_up, tau, k0, k1, stream, step, walker, work
):  # fmt: skip
    """Make the T-moves of a walker with the points of its local energy; points are redone once an electron has moved."""
    R, rows, targets, counts = state.R[w], work.rows, work.targets, work.counts
    N = R.shape[0]
    moved = False
    for e in range(N):
        if counts[e] == 0:
            continue
        old = work.J[e, 4]
        if moved:
            old = electron_value(jastrow, orbitals.atom, R, e, n_up, R[e, 0], R[e, 1], R[e, 2], work)
            _, counts[e] = nonlocal_electron(
                state, w, e, orbitals, jastrow, hamiltonian, n_up, old, k0, k1, stream, step, walker, work, targets[e]
            )  # fmt: skip
        u, _ = uniform2(k0, k1, stream, step, walker, PAIRS * e + T_MOVE)
        chosen = chosen_move(targets[e], counts[e], tau, u)
        if chosen < 0:
            continue
        spin = 0 if e < n_up else 1
        i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
        x, y, z = targets[e, chosen, 0], targets[e, chosen, 1], targets[e, chosen, 2]
        orbital_rows(orbitals, spin, x, y, z, rows, work)
        column = state.inverse[w, spin, i]
        ratio = 0.0
        for o in range(n):
            ratio += rows[0, o] * column[o]
        if not abs(ratio) > 0.0:
            continue
        new = electron_value(jastrow, orbitals.atom, R, e, n_up, x, y, z, work)
        update_inverse(state.inverse[w, spin], rows[0], i, n, ratio, work.column)
        target = state.rows[w, e]
        for k in range(5):
            for o in range(target.shape[1]):
                target[k, o] = rows[k, o]
        R[e, 0], R[e, 1], R[e, 2] = x, y, z
        show(work.places, R, e)
        state.log_psi[w] += math.log(abs(ratio)) + old - new
        if ratio < 0.0:
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
