"""Derivatives with respect to the coefficients of an expansion on the CPU: of log psi and of the local energy.

All one-body operators act on an electron's orbitals alone, ``B_p(r_i) = -1/(2m) (lap phi_p - 2 grad J_i . grad phi_p) + sum_q
v_q exp(J - J_q) phi_p(r_q)``, and change each determinant by its derivative along B.  With minors m of T = A^-1 Phi and their
derivatives m' along ``T' = A^-1 (B - B_ref T)``, psi over the references S, and the coefficient C of a determinant:

    d ln psi / dC = m_I m_J / S,    dE_L / dC = (m'_I m_J + m_I m'_J) / S - (m_I m_J / S) Q,

where Q is the sum of the first term over all determinants with their coefficients.  What changes all determinants alike, the
trace of ``A^-1 B_ref``, drops out (C. Filippi, R. Assaraf and S. Moroni, J. Chem. Phys. 144, 194105 (2016)).
"""

from __future__ import annotations

import numba as nb
from numba import types

from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.choice import Choice
from qsim.qmc.kernels.common.jit import INLINE, JIT, PART
from qsim.qmc.kernels.expansion.types import ExpansionTables, OneDeterminant
from qsim.qmc.kernels.walkers.evaluators_cpu import electron_of, rows_at

__all__ = ["add_coefficients"]


@nb.njit(**PART)
def _one_body(state, w, system, pseudopotentials, e, spin, M, work, B):
    """Set B (M,) to the one-body operators on the orbitals of electron e, whose points and Jastrow slopes are in ``work``."""
    row, J, targets, column, at = (
        state.rows[w, e],
        work.J[e],
        work.targets[e],
        work.columns[e],
        work.rows,
    )
    over = 0.5 / system.hamiltonian.mass
    for p in range(M):
        along = J[0] * row[1, p] + J[1] * row[2, p] + J[2] * row[3, p]
        B[p] = over * (2.0 * along - row[4, p])
    if pseudopotentials is None:
        return
    for q in range(work.counts[e]):
        # The value at a point contains the ratio of the determinants there, of which orbitals have their parts.
        rows_at(system, spin, targets[q, 0], targets[q, 1], targets[q, 2], work)
        ratio = B.dtype.type(0.0)
        for p in range(M):
            ratio += at[0, p] * column[p]
        if ratio.real == 0.0:
            continue
        value = targets[q, 3] / ratio.real
        for p in range(M):
            B[p] += value * at[0, p]


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


@nb.njit(**INLINE)
def _none(system, state, w, pseudopotentials, parameters, work):
    pass


@apart(types.none, **JIT)
def _of_many(system, state, w, pseudopotentials, parameters, work):
    """Add the derivatives by the coefficients of an expansion, of a walker whose local energy was just computed."""
    tables, numbers, tangent = system.expansion, state.expansion[w], work.tangent
    sizes, level, begin, other, C = (
        tables.sizes,
        tables.level,
        tables.begin,
        tables.other,
        tables.coefficient,
    )
    group, share = parameters.group, parameters.share
    if group.shape[0] == 0:
        return
    R = state.R[w]
    B = tangent[tables.numbers :]
    for x in range(tables.numbers):
        tangent[x] = 0.0
    for e in range(R.shape[0]):
        spin, i, n = electron_of(system, R, e)
        M, inverse = sizes[spin, 1], state.inverse[w, spin, i]
        p = M - n
        T, dT = numbers[sizes[spin, 3] :], tangent[sizes[spin, 3] :]
        _one_body(state, w, system, pseudopotentials, e, spin, M, work, B)
        for q in range(p):
            change = B[n + q]
            for o in range(n):
                change -= B[o] * T[o * p + q]
            for o in range(n):
                dT[o * p + q] += inverse[o] * change
    for spin in range(2):
        _tangent_minors(tables, spin, numbers, tangent)

    m, dm, over = numbers[1:], tangent[1:], 1.0 / numbers[0]
    mean = over * 0.0
    for s in range(level[0, 0], level[0, level.shape[1] - 1]):
        for d in range(begin[s], begin[s + 1]):
            mean += C[d] * (dm[s] * m[other[d]] + m[s] * dm[other[d]])
    mean *= over
    log_slopes, energy_slopes = parameters.log_slopes[w], parameters.energy_slopes[w]
    for s in range(level[0, 0], level[0, level.shape[1] - 1]):
        for d in range(begin[s], begin[s + 1]):
            g = group[d]
            if g >= 0:
                j = other[d]
                log = m[s] * m[j] * over
                energy = (dm[s] * m[j] + m[s] * dm[j]) * over - log * mean
                log_slopes[g] += share[d] * log.real
                energy_slopes[g] += share[d] * energy.real


#: ``(system, state, w, pseudopotentials, parameters, work)``: add the derivatives by the coefficients, if there are any, to
#: ``parameters.log_slopes`` and ``energy_slopes`` of a walker; ``work.J`` is as its local energy has left it.
add_coefficients = Choice({OneDeterminant: _none, ExpansionTables: _of_many}, "expansion")
