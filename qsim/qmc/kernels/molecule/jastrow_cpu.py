"""Jastrow functions of an electron in open boundaries, on the CPU: four of its partners at once."""

from __future__ import annotations

import math

import numba as nb

from qsim.core.device.cpu.vectors import (
    floor,
    get,
    higher,
    lane,
    lanes,
    lower,
    pack,
    put,
    root,
    same,
    total,
    transposed,
    unless,
)
from qsim.qmc.kernels.common.jastrow_cpu import BSPLINE, NONE, SIXTH, TINY, function, function_value
from qsim.qmc.kernels.common.jit import CALLED, INLINE, PART

__all__ = [
    "electron_gradient",
    "electron_value",
    "electron_values",
    "forms",
    "place_electrons",
    "place_ions",
    "set_distances",
    "show",
]

FAR = 1e150  # bohr: of what is no partner; its square is a number, and functions and charges vanish there
#: Coefficients of 1, t, t^2 and t^3 in the four basis functions of a cubic spline.
ROW0, ROW1 = (SIXTH, 4.0 * SIXTH, SIXTH, 0.0), (-0.5, 0.0, 0.5, 0.0)
ROW2, ROW3 = (0.5, -1.0, 0.5, 0.0), (-SIXTH, 0.5, -0.5, SIXTH)


@nb.njit(**CALLED)
def place_ions(jastrow, hamiltonian, atom, N, n_up, work):
    """Set what ``work`` knows of ions, and of the functions and charges of all partners; see `Work`."""
    places, curves, begins, charges = work.places, work.curves, work.begins, work.charges
    A, width = atom.shape[0], jastrow.spline.shape[1]
    for j in range(places.shape[1]):
        # Everything begins as what is no partner: far away, without charge. Vectors of four may then
        # run over the end of the partners.
        places[0, j] = places[1, j] = places[2, j] = work.distances[j] = FAR
        work.numbers[j] = j
        charges[0, j] = charges[1, j] = 0.0
        if j < N:
            # Half: each pair of electrons is met from both of its ends.
            charges[0, j] = 0.5 if hamiltonian.interacting and N > 1 else 0.0
        elif j < N + A:
            for k in range(3):
                places[k, j] = atom[j - N, k]
            charges[1, j] = hamiltonian.charge[j - N]
        # For an electron of either spin, where the spline of this partner lies in the table. Ions
        # have one function for both spins.
        for spin in range(2):
            f = 0 if (j < n_up) == (spin == 0) else 1
            if N <= j < N + A:
                f = 2 + jastrow.species[j - N]
            begins[spin, j] = f * width
            curves[spin, 0, j] = jastrow.inverse_h[f]
            curves[spin, 1, j] = math.floor(jastrow.rcut[f] * jastrow.inverse_h[f] + 0.5)


@nb.njit(**INLINE)
def show(places, R, e):
    """Place electron e among the partners."""
    places[0, e], places[1, e], places[2, e] = R[e, 0], R[e, 1], R[e, 2]


@nb.njit(**INLINE)
def place_electrons(places, R):
    """Place all electrons among the partners."""
    for e in range(R.shape[0]):
        show(places, R, e)


@nb.njit(**INLINE)
def forms(jastrow):
    """Return `NONE` if all functions are zero, `BSPLINE` if they are splines or zero, and a higher number otherwise."""
    most = NONE
    # Kinds are numbered so that the highest says how general the code must be.
    for f in range(jastrow.kind.shape[0]):
        most = max(most, get(jastrow.kind, f))
    return most


@nb.njit(**INLINE)
def _cubics(spline, begins, at, step, x):
    """Return u, u' and u'' in the place x, in units of the knots, of four splines that begin at ``begins[at + step k]``."""
    # Four partners read four coefficients each, from splines that may differ; the transposition turns
    # four rows into the first, second, third and fourth coefficients of all.
    k = floor(x)
    t = x - k
    a, b, d, e = transposed(
        lanes(spline, get(begins, at) + int(lane(k, 0))),
        lanes(spline, get(begins, at + step) + int(lane(k, 1))),
        lanes(spline, get(begins, at + 2 * step) + int(lane(k, 2))),
        lanes(spline, get(begins, at + 3 * step) + int(lane(k, 3))),
    )
    # Monomial form in t: value and two derivatives then share their products.
    p = 0.5 * (d - a)  # as in `function`
    q = 0.5 * (a + d) - b
    s = SIXTH * (e - a) + 0.5 * (b - d)
    u = SIXTH * (a + 4.0 * b + d) + t * (p + t * (q + t * s))
    return u, p + t * (2.0 * q + 3.0 * s * t), 2.0 * q + 6.0 * s * t


@nb.njit(**CALLED)
def _gradient(jastrow, atom, R, e, n_up, x, y, z, work):
    """Do what :func:`electron_gradient` does for functions of any form, one after another."""
    distances = work.distances
    u = gx = gy = gz = lap = 0.0
    N = R.shape[0]
    # Any form of function, one partner after another; systems with Pade or logarithmic forms are
    # small.
    for j in range(N + atom.shape[0]):
        if j < N:
            f = 0 if (j < n_up) == (e < n_up) else 1
            dx, dy, dz = x - R[j, 0], y - R[j, 1], z - R[j, 2]
        else:
            f = 2 + jastrow.species[j - N]
            dx, dy, dz = x - atom[j - N, 0], y - atom[j - N, 1], z - atom[j - N, 2]
        if j == e:
            # The electron itself is no partner, and its Coulomb energy vanishes.
            distances[j] = FAR
            continue
        r = max(math.sqrt(dx * dx + dy * dy + dz * dz), TINY)
        distances[j] = r
        value, du, ddu = function(jastrow, f, r)
        slope = du / r
        u += value
        gx += slope * dx
        gy += slope * dy
        gz += slope * dz
        lap += ddu + 2.0 * slope
    return u, gx, gy, gz, lap


@nb.njit(**CALLED)
def electron_gradient(jastrow, atom, R, e, n_up, x, y, z, work):
    """Return sum, gradient (x, y, z) and Laplacian of all functions of electron e, if it were at (x, y, z).

    Four partners at once; ``work.distances`` are set to those of all, unless all functions are zero.
    """
    form = forms(jastrow)
    # Without Jastrow factor nobody needs distances here; the local energy sets them by itself.
    if form == NONE:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    if form > BSPLINE:
        return _gradient(jastrow, atom, R, e, n_up, x, y, z, work)
    places, curves, begins = work.places, work.curves, work.begins
    u = gx = gy = gz = lap = same(0.0)
    # The electron meets itself among the partners: it is put far away, where functions and charges
    # vanish, which costs less than to leave it out.
    size = places.shape[1]
    own = 0 if e < n_up else size
    for j in range(0, size, 4):
        dx, dy, dz = x - lanes(places, j), y - lanes(places, size + j), z - lanes(places, 2 * size + j)
        # r is never zero, since slopes are divided by it.
        dx = unless(dx, lanes(work.numbers, j), float(e), FAR)
        r = higher(root(dx * dx + dy * dy + dz * dz), same(TINY))
        put(work.distances, j, r)
        # Beyond its range a spline is read where its coefficients are zero: `lower` takes the place
        # of a branch, which four lanes could not take apart.
        inverse_h = lanes(curves, 2 * own + j)
        end = lanes(curves, 2 * own + size + j)  # where splines and what follows them in the table are zero
        value, du, ddu = _cubics(jastrow.spline, begins, own + j, 1, lower(r * inverse_h, end))
        # grad u = u' r / |r|, lap u = u'' + 2 u' / r.
        slope = (inverse_h * du) / r
        u = u + value
        gx = gx + slope * dx
        gy = gy + slope * dy
        gz = gz + slope * dz
        lap = lap + (inverse_h * inverse_h * ddu + 2.0 * slope)
    return total(u), total(gx), total(gy), total(gz), total(lap)


@nb.njit(**CALLED)
def set_distances(e, x, y, z, work):
    """Set ``work.distances`` to those of a point and the partners of electron e."""
    places, size = work.places, work.places.shape[1]
    for j in range(0, size, 4):
        dx, dy, dz = x - lanes(places, j), y - lanes(places, size + j), z - lanes(places, 2 * size + j)
        dx = unless(dx, lanes(work.numbers, j), float(e), FAR)
        put(work.distances, j, higher(root(dx * dx + dy * dy + dz * dz), same(TINY)))


@nb.njit(**CALLED)
def electron_value(jastrow, atom, R, e, n_up, x, y, z, work):
    """Return the sum of all functions of electron e, if it were at (x, y, z)."""
    u, _, _, _, _ = electron_gradient(jastrow, atom, R, e, n_up, x, y, z, work)
    return u


@nb.njit(**PART)
def _four_values(jastrow, f, r, scratch):
    """Return a function at four distances."""
    put(scratch, 0, r)
    for k in range(4):
        scratch[k] = function_value(jastrow, f, scratch[k])
    return lanes(scratch, 0)


@nb.njit(**INLINE)
def _add_spline(spline, at, t, sums):
    """Add the products of four coefficients of a spline and their basis functions."""
    b0, b1, b2, b3 = pack(*ROW0), pack(*ROW1), pack(*ROW2), pack(*ROW3)
    return sums + lanes(spline, at) * (b0 + t * (b1 + t * (b2 + t * b3)))


@nb.njit(**INLINE)
def electron_values(jastrow, atom, N, e, n_up, x, y, z, work):
    """Return the sums of all functions of electron e if it were at each of four points, whose coordinates are vectors."""
    places, curves, begins = work.places, work.curves, work.begins
    sums = s0 = s1 = s2 = s3 = same(0.0)
    size, form = places.shape[1], forms(jastrow)
    if form == NONE:
        return sums
    # Points lie side by side in a vector and partners follow one another: the electron itself can be
    # left out here.
    own = 0 if e < n_up else size
    for j in range(N + atom.shape[0]):
        if j == e:
            continue
        dx, dy, dz = x - get(places, j), y - get(places, size + j), z - get(places, 2 * size + j)
        r = root(dx * dx + dy * dy + dz * dz)
        if form == BSPLINE:
            # Four points in four intervals: each lane has its own four coefficients, which are
            # multiplied with the basis functions at t. The sums over the four are made once, at the
            # end.
            place = lower(r * get(curves, 2 * own + j), same(get(curves, 2 * own + size + j)))
            k = floor(place)
            t = place - k
            begin = get(begins, own + j)
            s0 = _add_spline(jastrow.spline, begin + int(lane(k, 0)), lane(t, 0), s0)
            s1 = _add_spline(jastrow.spline, begin + int(lane(k, 1)), lane(t, 1), s1)
            s2 = _add_spline(jastrow.spline, begin + int(lane(k, 2)), lane(t, 2), s2)
            s3 = _add_spline(jastrow.spline, begin + int(lane(k, 3)), lane(t, 3), s3)
        else:
            f = 0 if (j < n_up) == (e < n_up) else 1
            if j >= N:
                f = 2 + jastrow.species[j - N]
            sums = sums + _four_values(jastrow, f, r, work.here)
    s0, s1, s2, s3 = transposed(s0, s1, s2, s3)
    return sums + ((s0 + s1) + (s2 + s3))
