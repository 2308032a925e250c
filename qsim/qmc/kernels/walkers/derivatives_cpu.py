"""Derivatives with respect to parameters on the CPU, of log psi and of the local energy: Jastrow factor, and all of them.

With J = sum_k p_k B_k and v the gradient of log psi, ``d log psi / dp_k = -B_k`` (summed over pairs and ions) and the kinetic
energy changes by ``(1/m) sum_e (v_e . grad_e B_k + lap_e B_k / 2)``.  A term v_q of the nonlocal potential contains
``psi(r_q) / psi(r)`` and changes by ``v_q (B_k(r) - B_k(r_q))`` summed over the functions of the electron that is moved.
What is left of the local energy stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
from numba import types

from qsim.core.device.arrays import FloatArray, IndexArray
from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.jastrow_cpu import BSPLINE, PADE
from qsim.qmc.kernels.common.jit import INLINE, JIT, PART
from qsim.qmc.kernels.expansion.slater_cpu import column_of, orbitals_of
from qsim.qmc.kernels.walkers.evaluators_cpu import displacement, electron_of, velocity

__all__ = ["NO_PARAMETERS", "Derivatives", "ParameterTables", "collect", "derivatives", "set_velocities"]


class ParameterTables(NamedTuple):
    """The parameter that each number of the Jastrow tables, each coefficient of an expansion and each orbital follows.

    Attributes
    ----------
    first : (F,) int64
        Place of the first number of each function: its B-spline coefficients, or the b of a Padé form.
    place : (C,) int64
        Parameter that moves the number, with slope 1; -1: it is fixed.
    group : (D,) int64
        Parameter that moves the coefficient of each determinant, in the order of the tables of the expansion; -1: it is fixed.
        Empty if none is wanted.
    share : (D,) float64
        Slope of the coefficient with it.
    mixed : (E, 4) int64
        Spin, orbital of the start that is added, orbital of determinants that gets it, parameter.  Empty if none is wanted.
    factor : (E,) float64
        Slope of the share of the one in the other.
    """

    first: IndexArray
    place: IndexArray
    group: IndexArray
    share: FloatArray
    mixed: IndexArray
    factor: FloatArray


class Derivatives(NamedTuple):
    """Tables, results and work space of a thread that takes derivatives.

    Attributes
    ----------
    first, place, group, share, mixed, factor
        As in `ParameterTables`.
    log_slopes, energy_slopes : (W, P) float64, out
        Derivatives of log psi and of the local energy, hartree.
    values, slopes : (C,) float64
        Work space of the thread.
    """

    first: IndexArray
    place: IndexArray
    group: IndexArray
    share: FloatArray
    mixed: IndexArray
    factor: FloatArray
    log_slopes: FloatArray
    energy_slopes: FloatArray
    values: FloatArray
    slopes: FloatArray


_NUMBERS, _ROWS = np.zeros(1), np.zeros((1, 1))
_PLACES = np.zeros(1, np.int64)
NO_PARAMETERS = Derivatives(
    _PLACES,
    _PLACES,
    _PLACES,
    _NUMBERS,
    np.zeros((1, 4), np.int64),
    _NUMBERS,
    _ROWS,
    _ROWS,
    _NUMBERS,
    _NUMBERS,
)
"""For jobs that take no derivatives."""


@nb.njit(**INLINE)
def add_values(jastrow, first, f, r, scale, out):
    """Add ``scale`` times the derivatives of function f at r to the numbers ``out`` (C,)."""
    kind, k = jastrow.kind[f], first[f]
    if kind == BSPLINE:
        if r >= jastrow.rcut[f]:
            return
        # u is linear in its coefficients: the derivative is the basis function.
        x = r * jastrow.inverse_h[f]
        i = int(x)
        t = x - i
        s = 1.0 - t
        a = scale / 6.0
        k += i
        out[k] += a * s * s * s
        out[k + 1] += a * (4.0 + t * t * (3.0 * t - 6.0))
        out[k + 2] += a * (4.0 + s * s * (3.0 * s - 6.0))
        out[k + 3] += a * t * t * t
    elif kind == PADE:
        # d/db of -a r / (1 + b r) = a r^2 / (1 + b r)^2.
        q = r / (1.0 + jastrow.pade[f, 1] * r)
        out[k] += scale * jastrow.pade[f, 0] * q * q


@nb.njit(**INLINE)
def add_slopes(jastrow, first, f, r, slope, bend, out):
    """Add ``slope`` times the first and ``bend`` times the second r-derivatives of what :func:`add_values` adds."""
    kind, k = jastrow.kind[f], first[f]
    if kind == BSPLINE:
        if r >= jastrow.rcut[f]:
            return
        inverse_h = jastrow.inverse_h[f]
        x = r * inverse_h
        i = int(x)
        t = x - i
        s = 1.0 - t
        # First derivatives of the basis functions with `slope`, second ones with `bend`.
        a, b = 0.5 * slope * inverse_h, bend * inverse_h * inverse_h
        k += i
        out[k] += b * s - a * s * s
        out[k + 1] += b * (3.0 * t - 2.0) + a * t * (3.0 * t - 4.0)
        out[k + 2] += b * (3.0 * s - 2.0) - a * s * (3.0 * s - 4.0)
        out[k + 3] += b * t + a * t * t
    elif kind == PADE:
        b = jastrow.pade[f, 1]
        q = 1.0 / (1.0 + b * r)
        out[k] += 2.0 * jastrow.pade[f, 0] * q * q * q * (slope * r + bend * q * (1.0 - 2.0 * b * r))


@nb.njit(**INLINE)
def add_electron(system, first, R, e, x, y, z, scale, out):
    """Add ``scale`` times the derivatives of all functions of electron e, if it were at (x, y, z), to ``out``."""
    jastrow, atom, n_up = system.jastrow, system.orbitals.atom, system.n_up
    for j in range(R.shape[0]):
        if j != e:
            _, _, _, r = displacement(system, x - R[j, 0], y - R[j, 1], z - R[j, 2])
            add_values(jastrow, first, 0 if (j < n_up) == (e < n_up) else 1, r, scale, out)
    for a in range(atom.shape[0]):
        _, _, _, r = displacement(system, x - atom[a, 0], y - atom[a, 1], z - atom[a, 2])
        add_values(jastrow, first, 2 + jastrow.species[a], r, scale, out)


@nb.njit(**INLINE)
def set_velocities(state, w, system, work):
    """Turn the gradients ``work.J`` (N, 5) of the Jastrow exponent into those of log psi."""
    R, J = state.R[w], work.J
    for e in range(R.shape[0]):
        spin, i, n = electron_of(system, R, e)
        column = column_of(system, state.inverse[w, spin, i], work.columns[e])
        gx, gy, gz = velocity(system, state.rows[w, e], column, orbitals_of(system, spin, n), 1.0)
        J[e, 0], J[e, 1], J[e, 2] = gx - J[e, 0], gy - J[e, 1], gz - J[e, 2]


@apart(types.none, **JIT)
def derivatives(state, w, system, pseudopotentials, parameters, work):
    """Set the derivatives by the numbers of the Jastrow tables, of a walker whose local energy was just computed.

    ``parameters.values`` and ``slopes`` (C,) become those of J and of the local energy.
    """
    set_velocities(state, w, system, work)
    jastrow, atom, n_up = system.jastrow, system.orbitals.atom, system.n_up
    R, v, first = state.R[w], work.J, parameters.first
    values, slopes = parameters.values, parameters.slopes
    N = R.shape[0]
    over = 1.0 / system.hamiltonian.mass
    for c in range(values.shape[0]):
        values[c] = slopes[c] = 0.0

    # Kinetic part of each pair, (1/m) (v_e . grad_e B + lap_e B / 2); a function of r has the gradient B' r / |r| and the
    # Laplacian B'' + 2 B' / r.  Both electrons of a pair have one Laplacian each and opposite gradients; an ion has none.
    for e in range(N):
        for j in range(e + 1, N):
            dx, dy, dz, r = displacement(system, R[e, 0] - R[j, 0], R[e, 1] - R[j, 1], R[e, 2] - R[j, 2])
            f = 0 if (e < n_up) == (j < n_up) else 1
            along = (v[e, 0] - v[j, 0]) * dx + (v[e, 1] - v[j, 1]) * dy + (v[e, 2] - v[j, 2]) * dz
            add_values(jastrow, first, f, r, 1.0, values)
            add_slopes(jastrow, first, f, r, over * (along + 2.0) / r, over, slopes)
        for a in range(atom.shape[0]):
            f = 2 + jastrow.species[a]
            dx, dy, dz = R[e, 0] - atom[a, 0], R[e, 1] - atom[a, 1], R[e, 2] - atom[a, 2]
            dx, dy, dz, r = displacement(system, dx, dy, dz)
            along = v[e, 0] * dx + v[e, 1] * dy + v[e, 2] * dz
            add_values(jastrow, first, f, r, 1.0, values)
            add_slopes(jastrow, first, f, r, over * (along + 1.0) / r, 0.5 * over, slopes)
    add_nonlocal(state, w, system, pseudopotentials, parameters, work)


@nb.njit(**PART)
def add_nonlocal(state, w, system, pseudopotentials, parameters, work):
    """Add the derivatives of the nonlocal energy, whose points are in ``work``, to ``parameters.slopes`` (C,)."""
    if pseudopotentials is None:
        return
    R, targets, first, slopes = state.R[w], work.targets, parameters.first, parameters.slopes
    for e in range(R.shape[0]):
        # v_q (B(r) - B(r_q)): the functions at the place of the electron come once, with the sum of all v_q
        total = 0.0
        for q in range(work.counts[e]):
            x, y, z, value = targets[e, q, 0], targets[e, q, 1], targets[e, q, 2], targets[e, q, 3]
            total += value
            add_electron(system, first, R, e, x, y, z, -value, slopes)
        if work.counts[e] > 0:
            add_electron(system, first, R, e, R[e, 0], R[e, 1], R[e, 2], total, slopes)


@nb.njit(**PART)
def collect(w, parameters):
    """Add the derivatives by the numbers of the Jastrow tables to those of log psi and of the local energy by the parameters."""
    place, values, slopes = parameters.place, parameters.values, parameters.slopes
    log_slopes, energy_slopes = parameters.log_slopes[w], parameters.energy_slopes[w]
    for c in range(place.shape[0]):
        # Several numbers of the tables may follow one parameter; log psi has -J.
        p = place[c]
        if p >= 0:
            log_slopes[p] -= values[c]
            energy_slopes[p] += slopes[c]
