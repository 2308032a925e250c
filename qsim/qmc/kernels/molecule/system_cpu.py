"""Orbitals, distances and potentials in open boundaries on the CPU, as kernels of walkers call them.

:mod:`qsim.qmc.kernels.walkers.evaluators_cpu` says what each function of ``__all__`` is for.  Orbitals, partners of an electron
and points of a pseudopotential are taken four at a time, so that each operation is one of a vector.
"""

from __future__ import annotations

import math

import numba as nb
from numba import types

from qsim.core.device.cpu.vectors import get, lane, lanes, pack, put, same, total, wide
from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.draws_cpu import PAIRS, rotation, two_normals
from qsim.qmc.kernels.common.jastrow_cpu import NONE, TINY
from qsim.qmc.kernels.common.jit import INLINE, JIT
from qsim.qmc.kernels.common.radial_cpu import table_value
from qsim.qmc.kernels.expansion.slater_cpu import column_of, orbitals_of
from qsim.qmc.kernels.molecule import jastrow_cpu
from qsim.qmc.kernels.molecule.jastrow_cpu import electron_values, forms, set_distances, show
from qsim.qmc.kernels.molecule.orbitals_cpu import combinations, orbital_rows, own_radial

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


FAR = 2.0  # bohr: distance to a nucleus from which moves become no longer
SOFT = 1.0  # bohr: size of the ions of pseudopotentials


@nb.njit(**INLINE)
def place_ions(system, work):
    """Place ions among the partners, with the functions and charges of all."""
    N = work.J.shape[0]
    jastrow_cpu.place_ions(system.jastrow, system.hamiltonian, system.orbitals.atom, N, system.n_up, work.own)


@nb.njit(**INLINE)
def place_electrons(system, R, work):
    """Place all electrons among the partners."""
    jastrow_cpu.place_electrons(work.own.places, R)


@nb.njit(**INLINE)
def place_electron(system, R, e, work):
    """Place electron e among the partners."""
    show(work.own.places, R, e)


@nb.njit(**INLINE)
def move_scale(system, x, y, z):
    """Return ``d / (d + FAR)`` with the least distance d to a nucleus, larger by 1/Z or, of a pseudopotential, `SOFT`.

    Moves are in proportion to the size of the shell that an electron is in, from 1/Z of the innermost one to `FAR`.
    """
    atom, hamiltonian = system.orbitals.atom, system.hamiltonian
    least = math.inf
    for a in range(atom.shape[0]):
        if hamiltonian.charge[a] <= 0.0:
            continue
        dx, dy, dz = x - atom[a, 0], y - atom[a, 1], z - atom[a, 2]
        size = SOFT if hamiltonian.potential[a] >= 0 else 1.0 / hamiltonian.charge[a]
        least = min(least, math.sqrt(dx * dx + dy * dy + dz * dz) + size)
    return 1.0 if least == math.inf else least / (least + FAR)


@nb.njit(**INLINE)
def normals_of(system, draw, e, work):
    """Return three normals; those of two electrons are made together, so that vectors are full."""
    draws = work.own.draws
    if e % 2 == 0:
        first, second = PAIRS * e, PAIRS * (e + 1)
        two_normals(draw.k0, draw.k1, draw.stream, draw.step, draw.walker, first, second, draws)
    g = 4 * (e % 2)
    return get(draws, g), get(draws, g + 1), get(draws, g + 2)


@nb.njit(**INLINE)
def rows_at(system, spin, x, y, z, work):
    """Set ``work.rows`` to values, gradients and Laplacians of the orbitals at a point."""
    orbital_rows(system.orbitals, spin, x, y, z, work.rows, work.own)


@nb.njit(**INLINE)
def velocity(system, row, column, n, ratio):
    """Return the gradient of a determinant over it: one division and three products."""
    vx = vy = vz = 0.0
    for o in range(n):
        c = column[o]
        vx += row[1, o] * c
        vy += row[2, o] * c
        vz += row[3, o] * c
    over = 1.0 / ratio
    return vx * over, vy * over, vz * over


@nb.njit(**INLINE)
def displacement(system, dx, dy, dz):
    """Return a vector between two particles and its length, which may be divided by."""
    return dx, dy, dz, max(math.sqrt(dx * dx + dy * dy + dz * dz), TINY)


@nb.njit(**INLINE)
def electron_value(system, R, e, x, y, z, work):
    """Return the sum of the Jastrow functions of electron e at a point."""
    return jastrow_cpu.electron_value(
        system.jastrow, system.orbitals.atom, R, e, system.n_up, x, y, z, work.own
    )


@nb.njit(**INLINE)
def electron_gradient(system, R, e, x, y, z, work):
    """Return the sum of the Jastrow functions of electron e at a point and its gradient."""
    u, gx, gy, gz, _ = jastrow_cpu.electron_gradient(
        system.jastrow, system.orbitals.atom, R, e, system.n_up, x, y, z, work.own
    )
    return u, gx, gy, gz


@nb.njit(**INLINE)
def renew_exponent(system, R, e, work):
    """Set ``work.J[e, 4]``, from which the ratios of Jastrow factors at the points are taken."""
    work.J[e, 4] = electron_value(system, R, e, R[e, 0], R[e, 1], R[e, 2], work)


@nb.njit(**INLINE)
def exponent_before(system, R, e, work):
    """Return the sum of the Jastrow functions of electron e where it is, as its points were made with."""
    return work.J[e, 4]


# ---------------------------------------------------------------------------------------- potentials


@nb.njit(**INLINE)
def potentials(system, R, pseudopotentials, work):
    """Return repulsion, energy with ions and external energy; set ``work.J`` to derivatives and sums of the Jastrow functions."""
    orbitals, jastrow, hamiltonian = system.orbitals, system.jastrow, system.hamiltonian
    J, own, distances = work.J, work.own, work.own.distances
    N, atoms, size = R.shape[0], orbitals.atom.shape[0], own.places.shape[1]
    local = external = 0.0
    repulsion = attraction = same(0.0)
    without = forms(jastrow) == NONE
    jastrow_cpu.place_electrons(own.places, R)
    for e in range(N):
        # The distances to all partners, which the Jastrow functions leave behind, serve the Coulomb energies, too.
        J[e, 4], J[e, 0], J[e, 1], J[e, 2], J[e, 3] = jastrow_cpu.electron_gradient(
            jastrow, orbitals.atom, R, e, system.n_up, R[e, 0], R[e, 1], R[e, 2], own
        )
        if without:
            set_distances(e, R[e, 0], R[e, 1], R[e, 2], own)
        # Each pair of electrons comes twice, with half a charge; what is no partner is far away and has no charge.
        for j in range(0, size, 4):
            over = 1.0 / lanes(distances, j)
            repulsion = repulsion + lanes(own.charges, j) * over
            attraction = attraction + lanes(own.charges, size + j) * over
        for a in range(atoms):
            p = hamiltonian.potential[a]
            if p >= 0:
                r = distances[N + a]
                local += table_value(hamiltonian.local[p], r) / r
        if hamiltonian.omega != 0.0:
            external += R[e, 0] * R[e, 0] + R[e, 1] * R[e, 1] + R[e, 2] * R[e, 2]
    external *= 0.5 * hamiltonian.mass * hamiltonian.omega * hamiltonian.omega
    return total(repulsion), local - total(attraction), external


@nb.njit(**INLINE)
def legendre(l, x):
    """Return P_l of a vector of four numbers."""
    if l == 0:
        return same(1.0)
    if l == 1:
        return x
    if l == 2:
        return 1.5 * x * x - 0.5
    # P_3 and P_4 in closed form; l > 4 by Bonnet's recurrence.
    below, p = x * (2.5 * x * x - 1.5), 0.125 * (x * x * (35.0 * x * x - 30.0) + 3.0)
    if l == 3:
        return below
    for k in range(4, l):
        below, p = p, (1.0 / (k + 1)) * ((2.0 * k + 1.0) * x * p - float(k) * below)
    return p


@apart(types.Tuple((types.float64, types.int64)), **JIT)
def nonlocal_electron(system, state, w, e, draw, work):
    """Return the nonlocal energy of electron e and the number of its points, whose places and values go to ``work.targets``.

    ``work.J[e, 4]`` is the sum of its Jastrow functions; ``work.own.places`` are those of the walker.
    """
    orbitals, jastrow, hamiltonian = system.orbitals, system.jastrow, system.hamiltonian
    R, combined, Q, factors = state.R[w], work.own.combined, work.Q, work.factors
    targets, old = work.targets[e], work.J[e, 4]
    coefficients = orbitals.across
    N, atoms, n_up = R.shape[0], orbitals.atom.shape[0], system.n_up
    spin = 0 if e < n_up else 1
    i, n = (e, n_up) if spin == 0 else (e - n_up, N - n_up)
    # Only the inverse of the electron's own spin changes; the ratio is a product with its column.
    column = column_of(system, state.inverse[w, spin, i], work.columns[e])
    n = orbitals_of(system, spin, n)
    total, count = 0.0, 0
    known = False
    for a in range(atoms):
        p = hamiltonian.potential[a]
        if p < 0 or hamiltonian.channels[p] == 0:
            continue
        ax, ay, az = orbitals.atom[a, 0], orbitals.atom[a, 1], orbitals.atom[a, 2]
        # The nonlocal part vanishes beyond a short range: most pairs end here.
        dx, dy, dz = R[e, 0] - ax, R[e, 1] - ay, R[e, 2] - az
        r = math.sqrt(dx * dx + dy * dy + dz * dz)
        if r >= hamiltonian.cutoff[p]:
            continue
        channels = hamiltonian.channels[p]
        for l in range(channels):
            # Radial parts of all channels once for an ion; the angles of the points bring the rest.
            factors[l] = (2 * l + 1) * table_value(hamiltonian.delta[p, l], r)
        # All points have the same column of the inverse.  Summed into the coefficients once, it leaves one sum over atomic
        # orbitals for the ratio of determinants at a point, instead of one for each orbital.
        if not known:
            known = True
            of_spin = spin * coefficients.shape[1] * combined.shape[0]
            for b in range(0, combined.shape[0], 4):
                value = same(0.0)
                for o in range(n):
                    value = value + column[o] * wide(lanes(coefficients, of_spin + o * combined.shape[0] + b))
                put(combined, b, value)
        rotation(draw, PAIRS * N + 2 * (e * atoms + a), Q)
        own_radial(orbitals, a, r, work.own.radial)
        over = 1.0 / max(r, TINY)
        points, number = hamiltonian.points, hamiltonian.points.shape[0]
        # Four points at once; those beyond the last are computed and not used.
        for first in range(0, number, 4):
            i0, i1 = 3 * first, 3 * min(first + 1, number - 1)
            i2, i3 = 3 * min(first + 2, number - 1), 3 * min(first + 3, number - 1)
            px = pack(get(points, i0), get(points, i1), get(points, i2), get(points, i3))
            py = pack(get(points, i0 + 1), get(points, i1 + 1), get(points, i2 + 1), get(points, i3 + 1))
            pz = pack(get(points, i0 + 2), get(points, i1 + 2), get(points, i2 + 2), get(points, i3 + 2))
            ux = Q[0, 0] * px + Q[0, 1] * py + Q[0, 2] * pz
            uy = Q[1, 0] * px + Q[1, 1] * py + Q[1, 2] * pz
            uz = Q[2, 0] * px + Q[2, 1] * py + Q[2, 2] * pz
            # sum_l (2 l + 1) dV_l(r) P_l(cos theta) psi(r_q) / psi(r): the ratio of determinants times that of Jastrow factors
            cosine = (ux * dx + uy * dy + uz * dz) * over
            weight = same(0.0)
            for l in range(channels):
                weight = weight + factors[l] * legendre(l, cosine)
            x, y, z = ax + r * ux, ay + r * uy, az + r * uz
            ratio = weight * combinations(orbitals, combined, a, x, y, z, work.own)
            change = old - electron_values(jastrow, orbitals.atom, N, e, n_up, x, y, z, work.own)
            # v_q = w_q sum_l ... D(r_q) / D(r) exp(J(r) - J(r_q)); places and values are kept for
            # T-moves and derivatives.
            for q in range(min(4, number - first)):
                value = hamiltonian.weights[first + q] * lane(ratio, q) * math.exp(lane(change, q))
                total += value
                targets[count, 0], targets[count, 1] = lane(x, q), lane(y, q)
                targets[count, 2], targets[count, 3] = lane(z, q), value
                count += 1
    return total, count
