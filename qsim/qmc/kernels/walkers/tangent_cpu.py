"""Derivatives with respect to coefficients and orbitals of determinants on the CPU: of log psi and of the local energy.

All one-body operators act on an electron's orbitals alone, ``B_p(r_i) = -1/(2m) (lap phi_p - 2 grad J_i . grad phi_p) + sum_q
v_q exp(J - J_q) phi_p(r_q)``, and change each determinant by its derivative along B.  With minors m of T = A^-1 Phi and their
derivatives m' along ``T' = A^-1 (B - B_ref T)``, psi over the references S, and the coefficient C of a determinant:

    d ln psi / dC = m_I m_J / S,    dE_L / dC = (m'_I m_J + m_I m'_J) / S - (m_I m_J / S) Q,

where Q is the sum of the first term over all determinants with their coefficients.  What changes all determinants alike, the
trace of ``A^-1 B_ref``, drops out (C. Filippi, R. Assaraf and S. Moroni, J. Chem. Phys. 144, 194105 (2016)).

With ``c = d ln psi / d phi(r_i)`` and its derivative c' along B, adding x times the orbital p to q changes

    d ln psi / dx = sum_i phi_p(r_i) c_q(i),    dE_L / dx = sum_i B_p(r_i) c_q(i) + phi_p(r_i) c'_q(i),

since E_L contains ``sum_i c(i) . B(r_i)`` and second derivatives of ln psi are symmetric.  One pass forwards and backwards
through the table of strings gives c' for all electrons and orbitals.
"""

from __future__ import annotations

import numba as nb
from numba import types

from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.choice import Choice
from qsim.qmc.kernels.common.jit import INLINE, JIT, PART
from qsim.qmc.kernels.crystal.types import CrystalOrbitals
from qsim.qmc.kernels.expansion.slater_cpu import column_of, orbitals_of
from qsim.qmc.kernels.expansion.types import ExpansionTables, OneDeterminant
from qsim.qmc.kernels.molecule.orbitals_cpu import orbital_rows
from qsim.qmc.kernels.molecule.types import OrbitalTables
from qsim.qmc.kernels.walkers.evaluators_cpu import electron_of, rows_at

__all__ = ["add_determinants"]


@nb.njit(**PART)
def _one_body(state, w, system, pseudopotentials, e, mixes, work):
    """Set the one-body operators on the orbitals of electron e, whose points and Jastrow slopes are in ``work``.

    They go to ``work.bodies[e]``; if orbitals mix, values and operators of those of the start to ``work.start[:, e]``.
    """
    R = state.R[w]
    spin, i, n = electron_of(system, R, e)
    M = orbitals_of(system, spin, n)
    row, J, targets, at = state.rows[w, e], work.J[e], work.targets[e], work.rows
    column = column_of(system, state.inverse[w, spin, i], work.columns[e])
    B, phi, acted, there = work.bodies[e], work.start[0, e], work.start[1, e], work.start_rows
    every = phi.shape[0] if mixes else 0
    over = 0.5 / system.hamiltonian.mass
    for p in range(M):
        along = J[0] * row[1, p] + J[1] * row[2, p] + J[2] * row[3, p]
        B[p] = over * (2.0 * along - row[4, p])
    if mixes:
        orbital_rows(system.start, spin, R[e, 0], R[e, 1], R[e, 2], there, work.own)
        for p in range(every):
            along = J[0] * there[1, p] + J[1] * there[2, p] + J[2] * there[3, p]
            phi[p], acted[p] = there[0, p], over * (2.0 * along - there[4, p])
    if pseudopotentials is None:
        return
    for q in range(work.counts[e]):
        # The value at a point contains the ratio of the determinants there, of which orbitals have their parts.
        rows_at(system, spin, targets[q, 0], targets[q, 1], targets[q, 2], work)
        ratio = B.dtype.type(0.0)
        for p in range(M):
            ratio += at[0, p] * column[p]
        if ratio == 0.0:
            continue
        value = targets[q, 3] / ratio
        for p in range(M):
            B[p] += value * at[0, p]
        if mixes:
            orbital_rows(system.start, spin, targets[q, 0], targets[q, 1], targets[q, 2], there, work.own)
            for p in range(every):
                acted[p] += value * there[0, p]


@nb.njit(**PART)
def _turn_inverse(state, w, spin, first, n, work):
    """Set ``work.turned`` of a spin's electrons to what the columns of the inverse change by, ``-A^-1 B_ref A^-1``."""
    inverse, P = state.inverse[w, spin], work.matrix
    for o in range(n):
        for k in range(n):
            P[o, k] = 0.0
        for j in range(n):
            for k in range(n):
                P[o, k] += inverse[j, o] * work.bodies[first + j, k]
    for i in range(n):
        for o in range(n):
            total = P.dtype.type(0.0)
            for k in range(n):
                total -= P[o, k] * inverse[i, k]
            work.turned[first + i, o] = total


@nb.njit(**PART)
def _add_mixed(state, w, system, parameters, work):
    """Add the derivatives by the shares of orbitals, with columns and what they change by."""
    mixed, factor, R = parameters.mixed, parameters.factor, state.R[w]
    log_slopes, energy_slopes = parameters.log_slopes[w], parameters.energy_slopes[w]
    n_up = system.n_up
    for k in range(mixed.shape[0]):
        spin, p, q = mixed[k, 0], mixed[k, 1], mixed[k, 2]
        log = energy = 0.0
        for e in range(0 if spin == 0 else n_up, n_up if spin == 0 else R.shape[0]):
            i = e if spin == 0 else e - n_up
            c = column_of(system, state.inverse[w, spin, i], work.columns[e])[q]
            log += work.start[0, e, p] * c
            energy += work.start[1, e, p] * c + work.start[0, e, p] * work.turned[e, q]
        log_slopes[mixed[k, 3]] += factor[k] * log
        energy_slopes[mixed[k, 3]] += factor[k] * energy


# ------------------------------------------------------------------------------------- one determinant


@apart(types.none, **JIT)
def _of_one(system, state, w, pseudopotentials, parameters, work):
    """Add the derivatives by the orbitals of a determinant, of a walker whose local energy was just computed."""
    if parameters.mixed.shape[0] == 0:
        return
    N, n_up = state.R.shape[1], system.n_up
    for e in range(N):
        _one_body(state, w, system, pseudopotentials, e, True, work)
    _turn_inverse(state, w, 0, 0, n_up, work)
    _turn_inverse(state, w, 1, n_up, N - n_up, work)
    _add_mixed(state, w, system, parameters, work)


# -------------------------------------------------------------------------------------- many of them


@nb.njit(**PART)
def _tangent_minors(tables, spin, numbers, tangent):
    """Set the derivatives of a spin's minors along that of T; both are in ``tangent`` where they are in ``numbers``."""
    level, place, parent = tables.level[spin], tables.place, tables.parent
    own = tables.sizes[spin, 3]
    m, dm, T, dT = numbers[1:], tangent[1:], numbers[own:], tangent[own:]
    t = tables.first_term[spin]
    dm[level[0]] = 0.0
    for k in range(1, level.shape[0] - 1):
        for s in range(level[k], level[k + 1]):
            total = dm.dtype.type(0.0)
            sign = 1.0
            for j in range(t, t + k):
                x, q = place[j], parent[j]
                total += sign * (dT[x] * m[q] + T[x] * dm[q])
                sign = -sign
            dm[s] = total
            t += k


@nb.njit(**PART)
def _tangent_adjoint(tables, spin, numbers, tangent, change, work):
    """Set ``work.Y`` of a spin and what it changes by, if psi over the references changes by ``change``."""
    level, place, parent = tables.level[spin], tables.place, tables.parent
    begin, other, C = tables.begin, tables.other, tables.coefficient
    n, M, own = tables.sizes[spin, 0], tables.sizes[spin, 1], tables.sizes[spin, 3]
    m, dm, T, dT = numbers[1:], tangent[1:], numbers[own:], tangent[own:]
    bar, dbar, Y, dY = work.bar, work.bar_tangent, work.Y, work.Y_tangent
    over = 1.0 / numbers[0]
    for x in range(n * (M - n)):
        Y[x] = dY[x] = 0.0
    last = level[level.shape[0] - 1]
    for s in range(level[0], last):
        a = b = numbers.dtype.type(0.0)
        for d in range(begin[s], begin[s + 1]):
            a += C[d] * m[other[d]]
            b += C[d] * dm[other[d]]
        bar[s] = a * over
        dbar[s] = (b - bar[s] * change) * over
    t = tables.first_term[spin]
    for k in range(1, level.shape[0] - 1):
        t += k * (level[k + 1] - level[k])
    for k in range(level.shape[0] - 2, 0, -1):
        for s in range(level[k + 1] - 1, level[k] - 1, -1):
            t -= k
            b, db = bar[s], dbar[s]
            for j in range(t, t + k):
                x, q = place[j], parent[j]
                Y[x] += b * m[q]
                dY[x] += db * m[q] + b * dm[q]
                bar[q] += b * T[x]
                dbar[q] += db * T[x] + b * dT[x]
                b, db = -b, -db


@nb.njit(**PART)
def _turn_columns(state, w, tables, spin, first, numbers, tangent, work):
    """Add to ``work.turned`` of a spin what the minors change the columns by."""
    n, M, hole, own = (
        tables.sizes[spin, 0],
        tables.sizes[spin, 1],
        tables.sizes[spin, 2],
        tables.sizes[spin, 3],
    )
    T, dT, Y, dY, p = numbers[own:], tangent[own:], work.Y, work.Y_tangent, M - n
    for i in range(n):
        inverse, column, turned = state.inverse[w, spin, i], work.columns[first + i], work.turned[first + i]
        for q in range(p):
            total = turned.dtype.type(0.0)
            for h in range(hole, n):
                total += dY[h * p + q] * inverse[h] + Y[h * p + q] * turned[h]
            turned[n + q] = total
        for o in range(n):
            total = turned.dtype.type(0.0)
            for q in range(p):
                total += dT[o * p + q] * column[n + q] + T[o * p + q] * turned[n + q]
            turned[o] -= total


@apart(types.none, **JIT)
def _of_many(system, state, w, pseudopotentials, parameters, work):
    """Add the derivatives by coefficients and orbitals of an expansion, of a walker whose local energy was just computed."""
    tables, numbers, tangent = system.expansion, state.expansion[w], work.tangent
    sizes, level, begin, other, C = (
        tables.sizes,
        tables.level,
        tables.begin,
        tables.other,
        tables.coefficient,
    )
    group, share = parameters.group, parameters.share
    mixes = parameters.mixed.shape[0] > 0
    if group.shape[0] == 0 and not mixes:
        return
    R = state.R[w]
    for x in range(tables.numbers):
        tangent[x] = 0.0
    for e in range(R.shape[0]):
        spin, i, n = electron_of(system, R, e)
        inverse, B = state.inverse[w, spin, i], work.bodies[e]
        p = sizes[spin, 1] - n
        T, dT = numbers[sizes[spin, 3] :], tangent[sizes[spin, 3] :]
        _one_body(state, w, system, pseudopotentials, e, mixes, work)
        for q in range(p):
            change = B[n + q]
            for o in range(n):
                change -= B[o] * T[o * p + q]
            for o in range(n):
                dT[o * p + q] += inverse[o] * change
    for spin in range(2):
        _tangent_minors(tables, spin, numbers, tangent)

    m, dm, over = numbers[1:], tangent[1:], 1.0 / numbers[0]
    total = over * 0.0
    for s in range(level[0, 0], level[0, level.shape[1] - 1]):
        for d in range(begin[s], begin[s + 1]):
            total += C[d] * (dm[s] * m[other[d]] + m[s] * dm[other[d]])
    if group.shape[0] > 0:
        mean = total * over
        log_slopes, energy_slopes = parameters.log_slopes[w], parameters.energy_slopes[w]
        for s in range(level[0, 0], level[0, level.shape[1] - 1]):
            for d in range(begin[s], begin[s + 1]):
                g = group[d]
                if g >= 0:
                    j = other[d]
                    log = m[s] * m[j] * over
                    energy = (dm[s] * m[j] + m[s] * dm[j]) * over - log * mean
                    log_slopes[g] += share[d] * log
                    energy_slopes[g] += share[d] * energy
    if not mixes:
        return
    for spin in range(2):
        first, n = 0 if spin == 0 else system.n_up, sizes[spin, 0]
        _turn_inverse(state, w, spin, first, n, work)
        _tangent_adjoint(tables, spin, numbers, tangent, total, work)
        _turn_columns(state, w, tables, spin, first, numbers, tangent, work)
    _add_mixed(state, w, system, parameters, work)


_of_molecule = Choice({OneDeterminant: _of_one, ExpansionTables: _of_many}, "expansion")


@nb.njit(**INLINE)
def _molecule(system, state, w, pseudopotentials, parameters, work):
    _of_molecule(system, state, w, pseudopotentials, parameters, work)


@nb.njit(**INLINE)
def _crystal(system, state, w, pseudopotentials, parameters, work):
    pass


#: ``(system, state, w, pseudopotentials, parameters, work)``: add the derivatives by coefficients and orbitals, if there are any,
#: to ``parameters.log_slopes`` and ``energy_slopes`` of a walker; ``work.J`` is as its local energy has left it.
add_determinants = Choice({OrbitalTables: _molecule, CrystalOrbitals: _crystal})
