"""Determinants as kernels of walkers call them on the CPU: one, or an expansion in many.

Psi is linear in the orbital values of one electron.  So ``column[p] = d ln Psi / d phi_p(r_i)`` takes the place of the inverse's
column everywhere: its products with values, gradients and Laplacians of the M orbitals at a point are ratios, drifts and kinetic
energies.  Of one determinant it is that column.

Of an expansion, ``Psi / (D_up D_dn) = sum_IJ C_IJ m_I m_J`` with references D and minors m of T = A^-1 Phi, each a sum of
products with minors of the level below (no division: nothing is inverted that may be singular).  The same table backwards gives
Y = d ln Psi / dT, and with it ``G = Y A^-1`` in the rows of particles and ``A^-1 - T G`` in those of the reference.

M. A. Morales and others, J. Chem. Theory Comput. 8, 2181 (2012); C. Filippi, R. Assaraf and S. Moroni, J. Chem. Phys. 144,
194105 (2016).
"""

from __future__ import annotations

import math

import numba as nb
from numba import types

from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.choice import Choice
from qsim.qmc.kernels.common.inverses_cpu import invert, renewed, update_inverse
from qsim.qmc.kernels.common.jit import INLINE, JIT, PART
from qsim.qmc.kernels.expansion.types import ExpansionTables, OneDeterminant

__all__ = ["accept", "begin_spin", "column_of", "form_column", "form_columns", "orbitals_of", "total_of"]

SMALL = 1e-6  # ratio of reference determinants below which the reference is inverted anew

# ------------------------------------------------------------------------------------- one determinant


@nb.njit(**INLINE)
def _orbitals_one(system, spin, n):
    return n


@nb.njit(**INLINE)
def _begin_one(system, state, w, spin, work):
    pass


@nb.njit(**INLINE)
def _form_one(system, state, w, spin, i, e, work):
    pass


@nb.njit(**INLINE)
def _column_one(system, inverse, formed):
    return inverse


@nb.njit(**INLINE)
def _columns_one(system, state, w, work):
    pass


@nb.njit(**INLINE)
def _accept_one(system, state, w, spin, i, n, ratio, work):
    update_inverse(state.inverse[w, spin], work.rows[0], i, n, ratio, work.column)


@nb.njit(**INLINE)
def _total_one(system, state, w, spin, n, work):
    return 0.0, 1.0


# -------------------------------------------------------------------------------------- many of them


@nb.njit(**INLINE)
def _orbitals_many(system, spin, n):
    return system.expansion.sizes[spin, 1]


@nb.njit(**PART)
def _minors(tables, spin, numbers):
    """Set the minors of a spin by its T, both in the numbers of a walker."""
    level, place, parent = tables.level[spin], tables.place, tables.parent
    m, T = numbers[1:], numbers[tables.sizes[spin, 3] :]
    t = tables.first_term[spin]
    m[level[0]] = 1.0
    for s in range(level[1], level[2]):
        m[s] = T[place[t]]
        t += 1
    for s in range(level[2], level[3]):
        m[s] = T[place[t]] * m[parent[t]] - T[place[t + 1]] * m[parent[t + 1]]
        t += 2
    for k in range(3, level.shape[0] - 1):
        for s in range(level[k], level[k + 1]):
            total = T[place[t]] * m[parent[t]]
            sign = -1.0
            for j in range(t + 1, t + k):
                total += sign * T[place[j]] * m[parent[j]]
                sign = -sign
            m[s] = total
            t += k


@nb.njit(**PART)
def _adjoint(tables, spin, numbers, work):
    """Set ``work.Y`` to ``d ln Psi / dT`` of a spin, from the weights of its strings."""
    level, place, parent = tables.level[spin], tables.place, tables.parent
    n, M = tables.sizes[spin, 0], tables.sizes[spin, 1]
    m, T, bar, Y = numbers[1:], numbers[tables.sizes[spin, 3] :], work.bar, work.Y
    over = 1.0 / numbers[0]
    for x in range(n * (M - n)):
        Y[x] = 0.0
    last = level[level.shape[0] - 1]
    for s in range(level[0], last):
        bar[s] = work.weights[s] * over
    t = tables.first_term[spin]
    for k in range(1, level.shape[0] - 1):
        t += k * (level[k + 1] - level[k])
    for k in range(level.shape[0] - 2, 1, -1):
        for s in range(level[k + 1] - 1, level[k] - 1, -1):
            t -= k
            b = bar[s]
            for j in range(t, t + k):
                x, q = place[j], parent[j]
                Y[x] += b * m[q]
                bar[q] += b * T[x]
                b = -b
    for s in range(level[2] - 1, level[1] - 1, -1):
        t -= 1
        Y[place[t]] += bar[s]


@nb.njit(**PART)
def _weigh(tables, spin, numbers, weights):
    """Set the weights of a spin's strings, ``sum_J C_IJ m_J`` over those of the other spin; return Psi over the references."""
    level, begin, other, C, m = (
        tables.level[spin],
        tables.begin,
        tables.other,
        tables.coefficient,
        numbers[1:],
    )
    total = numbers.dtype.type(0.0)
    for s in range(level[0], level[level.shape[0] - 1]):
        a = numbers.dtype.type(0.0)
        for d in range(begin[s], begin[s + 1]):
            a += C[d] * m[other[d]]
        weights[s] = a
        total += a * m[s]
    return total


@apart(types.none, **JIT)
def _begin_many(system, state, w, spin, work):
    """Prepare the moves of a spin: what the other one makes its strings weigh."""
    numbers = state.expansion[w]
    numbers[0] = _weigh(system.expansion, spin, numbers, work.weights)
    work.stale[0] = 1


@nb.njit(**PART)
def _form_many(system, state, w, spin, i, e, work):
    """Form the column of an electron in ``work.columns``."""
    tables, numbers = system.expansion, state.expansion[w]
    if work.stale[0] == 1:
        _adjoint(tables, spin, numbers, work)
        work.stale[0] = 0
    n, M, first = tables.sizes[spin, 0], tables.sizes[spin, 1], tables.sizes[spin, 2]
    T, Y, inverse, column = (
        numbers[tables.sizes[spin, 3] :],
        work.Y,
        state.inverse[w, spin, i],
        work.columns[e],
    )
    p = M - n
    for q in range(n, M):
        column[q] = 0.0
    for h in range(first, n):
        a = inverse[h]
        for q in range(p):
            column[n + q] += Y[h * p + q] * a
    for o in range(n):
        total = column.dtype.type(0.0)
        for q in range(p):
            total += T[o * p + q] * column[n + q]
        column[o] = inverse[o] - total


@nb.njit(**INLINE)
def _column_many(system, inverse, formed):
    return formed


@apart(types.none, **JIT)
def _columns_many(system, state, w, work):
    """Form the columns of all electrons."""
    first = 0
    for spin in range(2):
        n = system.expansion.sizes[spin, 0]
        _begin_many(system, state, w, spin, work)
        for i in range(n):
            _form_many(system, state, w, spin, i, first + i, work)
        first += n


@apart(types.none, **JIT)
def _accept_many(system, state, w, spin, i, n, ratio, work):
    """Take over an accepted move of electron i of a spin, whose rows are in ``work`` and in the state already."""
    tables, numbers, row = system.expansion, state.expansion[w], work.rows[0]
    inverse, M = state.inverse[w, spin], tables.sizes[spin, 1]
    T, p = numbers[tables.sizes[spin, 3] :], M - n
    rho = numbers.dtype.type(0.0)
    for o in range(n):
        rho += row[o] * inverse[i, o]
    if abs(rho) < SMALL:
        # Near a node of the reference, which is none of Psi: updates would lose all digits.
        first = 0 if spin == 0 else system.n_up
        for k in range(n):
            for o in range(n):
                work.matrix[k, o] = state.rows[w, first + k, 0, o]
        invert(work.matrix, n, work.fresh, work.identity, system.is_complex)
        renewed(inverse, work.fresh, n)
        _set_table(state, w, spin, first, n, p, T, work.fresh)
    else:
        # T_p += c (phi'_p - phi'_ref . T_p) with c = A^-1 e_i / rho
        change = work.Y
        for q in range(p):
            change[q] = row[n + q]
        for o in range(n):
            a = row[o]
            for q in range(p):
                change[q] -= a * T[o * p + q]
        over = 1.0 / rho
        for o in range(n):
            c = inverse[i, o] * over
            for q in range(p):
                T[o * p + q] += c * change[q]
        update_inverse(inverse, row, i, n, rho, work.column)
    _minors(tables, spin, numbers)
    total, level = numbers.dtype.type(0.0), tables.level[spin]
    for s in range(level[0], level[level.shape[0] - 1]):
        total += work.weights[s] * numbers[1 + s]
    numbers[0] = total
    work.stale[0] = 1


@nb.njit(**PART)
def _set_table(state, w, spin, first, n, p, T, inverse):
    """Set T = A^-1 Phi of a spin by rows and inverse."""
    for x in range(n * p):
        T[x] = 0.0
    for i in range(n):
        for o in range(n):
            a = inverse[i, o]
            for q in range(p):
                T[o * p + q] += a * state.rows[w, first + i, 0, n + q]


@apart(types.Tuple((types.float64, types.float64)), **JIT)
def _total_many(system, state, w, spin, n, work):
    """Take over an inverse in ``work.fresh``; return log and sign of Psi over the references after the second spin, else 0, 1."""
    tables, numbers = system.expansion, state.expansion[w]
    first = 0 if spin == 0 else system.n_up
    p = tables.sizes[spin, 1] - n
    _set_table(state, w, spin, first, n, p, numbers[tables.sizes[spin, 3] :], work.fresh)
    _minors(tables, spin, numbers)
    if spin == 0:
        return 0.0, 1.0
    numbers[0] = 1.0
    total = _weigh(tables, spin, numbers, work.weights)
    numbers[0] = total
    if not abs(total) > 0.0:
        return -math.inf, 0.0
    return math.log(abs(total)), 1.0 if system.is_complex != 0 or total.real > 0.0 else -1.0


def _either(one, many):
    return Choice({OneDeterminant: one, ExpansionTables: many}, "expansion")


#: ``(system, spin, n)``: number of orbitals of a spin with n electrons that occur.
orbitals_of = _either(_orbitals_one, _orbitals_many)
#: ``(system, state, w, spin, work)``: call it before the first column of a spin is formed, and after moves of the other one.
begin_spin = _either(_begin_one, _begin_many)
#: ``(system, state, w, spin, i, e, work)``: form the column of electron e, number i of its spin.
form_column = _either(_form_one, _form_many)
#: ``(system, state, w, work)``: form all columns.
form_columns = _either(_columns_one, _columns_many)
#: ``(system, state.inverse[w, spin, i], work.columns[e])``: the column of electron e as it was formed last.
column_of = _either(_column_one, _column_many)
#: ``(system, state, w, spin, i, n, ratio, work)``: take over an accepted move; ``ratio`` is that of Psi.
accept = _either(_accept_one, _accept_many)
#: ``(system, state, w, spin, n, work)``: after an inverse was made anew: log and sign of what the determinant is multiplied by.
total_of = _either(_total_one, _total_many)
