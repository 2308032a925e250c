"""CPU twins of ``nshape.cu``.

Complex and real double systems run eight windows (chunk and halo) side by side in SIMD lanes, as in ``steps_cpu``; the windows
measure how far values beyond their ends reach.  Other types, and systems whose inverse does not decay, go chunk by chunk:
``_partition_reduce_cpu`` leaves one row a chunk, and ``_partition_chunks_cpu`` substitutes.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from qsim.tridiag.kernels.jit import JIT, PART, reciprocal

LANES = 8
# Fields of a row: a (then the inverse pivot), b, c, d (then x), with real and imaginary parts; largest squared growth so far
COMPLEX_ROW = 9 * LANES
REAL_ROW = 5 * LANES
# squared reach of the ends of a window
UNFELT = 1e-34
VECTOR: dict[str, Any] = {**JIT, "fastmath": {"contract", "nsz"}}
VECTOR_PART: dict[str, Any] = {**PART, "fastmath": VECTOR["fastmath"]}


# ------------------------------------------------------------------------------------ windows in lanes


@nb.njit(**VECTOR_PART)
def _eliminate_complex(s):
    """Eliminate row k from row k + 1 in all lanes, in place; ``s`` begins with the fields of row k."""
    # one flat array with constant offsets: with a single base pointer the compiler can prove that the lanes are independent
    for w in range(LANES):
        br = s[COMPLEX_ROW + 2 * LANES + w]
        bi = s[COMPLEX_ROW + 3 * LANES + w]
        # m = b_{k+1} / p_k; row k holds its reciprocal pivot where a_k was
        mr = br * s[w] - bi * s[LANES + w]
        mi = br * s[LANES + w] + bi * s[w]
        cr = s[4 * LANES + w]
        ci = s[5 * LANES + w]
        dr = s[6 * LANES + w]
        di = s[7 * LANES + w]
        er = s[COMPLEX_ROW + 4 * LANES + w]
        ei = s[COMPLEX_ROW + 5 * LANES + w]
        ar = s[COMPLEX_ROW + w]
        ai = s[COMPLEX_ROW + LANES + w]
        # p_{k+1} = a_{k+1} - m c_k; the reciprocal conj(p) / |p|^2 replaces a_{k+1}, and d_{k+1} - m d_k replaces d_{k+1}
        pr = ar - (mr * cr - mi * ci)
        pi = ai - (mr * ci + mi * cr)
        q = 1.0 / (pr * pr + pi * pi)
        s[COMPLEX_ROW + w] = pr * q
        s[COMPLEX_ROW + LANES + w] = -pi * q
        s[COMPLEX_ROW + 6 * LANES + w] -= mr * dr - mi * di
        s[COMPLEX_ROW + 7 * LANES + w] -= mr * di + mi * dr
        # squared growth, the largest entry of the row over its pivot: each row passes on the largest so far
        own = ar * ar + ai * ai
        low = br * br + bi * bi
        upp = er * er + ei * ei
        size = own if own > low else low
        size = q * (size if size > upp else upp)
        # a NaN must be seen, also after rows that are not
        size = size if size == size else np.inf
        s[COMPLEX_ROW + 8 * LANES + w] = s[8 * LANES + w] if size <= s[8 * LANES + w] else size


@nb.njit(**VECTOR_PART)
def _substitute_complex(s):
    for w in range(LANES):
        # x_k = (d_k - c_k x_{k+1}) / p_k, in place of d_k; row k + 1 holds x where d was
        cr = s[4 * LANES + w]
        ci = s[5 * LANES + w]
        xr = s[COMPLEX_ROW + 6 * LANES + w]
        xi = s[COMPLEX_ROW + 7 * LANES + w]
        tr = s[6 * LANES + w] - (cr * xr - ci * xi)
        ti = s[7 * LANES + w] - (cr * xi + ci * xr)
        qr = s[w]
        qi = s[LANES + w]
        s[6 * LANES + w] = qr * tr - qi * ti
        s[7 * LANES + w] = qr * ti + qi * tr


@nb.njit(**VECTOR_PART)
def _eliminate_real(s):
    for w in range(LANES):
        # as in `_eliminate_complex`, without imaginary parts
        b = s[REAL_ROW + LANES + w]
        e = s[REAL_ROW + 2 * LANES + w]
        a = s[REAL_ROW + w]
        m = b * s[w]
        q = 1.0 / (a - m * s[2 * LANES + w])
        s[REAL_ROW + w] = q
        s[REAL_ROW + 3 * LANES + w] -= m * s[3 * LANES + w]
        size = a * a if a * a > b * b else b * b
        size = q * q * (size if size > e * e else e * e)
        size = size if size == size else np.inf
        s[REAL_ROW + 4 * LANES + w] = s[4 * LANES + w] if size <= s[4 * LANES + w] else size


@nb.njit(**VECTOR_PART)
def _substitute_real(s):
    for w in range(LANES):
        s[3 * LANES + w] = s[w] * (s[3 * LANES + w] - s[2 * LANES + w] * s[REAL_ROW + 3 * LANES + w])


@nb.njit(**VECTOR_PART)
def _solve_windows(system, x, cut, group, s, is_complex):
    """Solve the eight windows of a group; return the smallest squared relative pivot and whether all windows are long enough."""
    a, b, c, d = system.a, system.b, system.c, system.d
    length, chunk, halo = cut.length, cut.chunk, cut.halo
    n = a.shape[0]
    size = min(n, chunk + 2 * halo)
    row = COMPLEX_ROW if is_complex else REAL_ROW
    parts = 2 if is_complex else 1
    start = np.zeros(LANES, np.int64)
    first = np.zeros(LANES, np.int64)
    last = np.zeros(LANES, np.int64)
    for w in range(LANES):
        # own rows of a window first .. last - 1; it begins a halo before them, or is moved inwards at the ends of the system
        # so that all windows have `size` rows; lanes beyond the system have no own rows
        first[w] = min(n, (group * LANES + w) * chunk)
        last[w] = min(n, first[w] + chunk)
        start[w] = min(max(0, first[w] - halo), n - size)
    # row 0 of the scratch is outside of the window: no coupling, and a growth of 1 to begin with
    s[:row] = 0.0
    s[row - LANES : row] = 1.0
    s[(size + 1) * row :] = 0.0
    # the same row of all eight windows side by side
    for k in range(size):
        here = (k + 1) * row
        for w in range(LANES):
            j = start[w] + k
            s[here + w] = a[j].real
            s[here + parts * LANES + w] = b[j].real
            s[here + 2 * parts * LANES + w] = c[j].real
            s[here + 3 * parts * LANES + w] = d[j].real
            if is_complex:
                s[here + LANES + w] = a[j].imag
                s[here + 3 * LANES + w] = b[j].imag
                s[here + 5 * LANES + w] = c[j].imag
                s[here + 7 * LANES + w] = d[j].imag
    # the ends of the windows, and of the systems in them
    for part in range(parts):
        for w in range(LANES):
            s[row + (parts + part) * LANES + w] = 0.0
            s[size * row + (2 * parts + part) * LANES + w] = 0.0
            if length < n:
                for j in range((start[w] // length + 1) * length, start[w] + size, length):
                    here = (j - start[w] + 1) * row
                    s[here + (parts + part) * LANES + w] = 0.0
                    s[here - row + (2 * parts + part) * LANES + w] = 0.0
    # Thomas algorithm with x = 0 beyond the window.  One lane waits for its divisions, eight fill the pipelines; a slice
    # of two rows keeps all offsets constant
    for k in range(size):
        if is_complex:
            _eliminate_complex(s[k * row : (k + 2) * row])
        else:
            _eliminate_real(s[k * row : (k + 2) * row])
    for k in range(size, 0, -1):
        if is_complex:
            _substitute_complex(s[k * row : (k + 2) * row])
        else:
            _substitute_real(s[k * row : (k + 2) * row])
    enough = True
    worst = 1.0
    for w in range(LANES):
        # the last row carries the largest squared growth of its window
        growth = s[size * row + 4 * parts * LANES + w]
        worst = min(worst, 1.0 / growth)
        if first[w] < last[w]:
            window = (start[w], first[w], last[w], size)
            # the zeros assumed beyond the window must not matter in its own rows
            enough = enough and _unfelt(b, c, s, (row, parts, w), window, length)
            here = (first[w] - start[w] + 1) * row + 3 * parts * LANES + w
            for j in range(first[w], last[w]):
                x[j] = _number(s, here, x[j])
                here += row
    return worst, enough


@nb.njit(**VECTOR_PART)
def _square(z):
    return z.real * z.real + z.imag * z.imag


@nb.njit(**VECTOR_PART)
def _unfelt(b, c, s, place, window, length):
    """Return whether unit values beyond the ends of a window reach its own rows with less than the rounding error."""
    row, parts, w = place
    start, first, last, size = window
    n = b.shape[0]
    # a value before the window reaches row j as the product of -b / pivot up to there; after it, of c / pivot from the end
    if first > start and start > 0:
        # products of squares need no root, and underflow to zero, which is as good as unfelt
        reach = 1.0
        for k in range(first - start):
            j = start + k
            inv = 0.0
            for part in range(parts):
                inv += s[(k + 1) * row + part * LANES + w] ** 2
            # a corner does not count, whatever stands there; a NaN in the elimination does
            reach *= inv * (0.0 if length < n and j % length == 0 else _square(b[j]))
        if not reach <= UNFELT:
            return False
    if start + size > last and start + size < n:
        reach = 1.0
        for k in range(size - 1, last - start - 1, -1):
            j = start + k
            inv = 0.0
            for part in range(parts):
                inv += s[(k + 1) * row + part * LANES + w] ** 2
            # a corner does not count, whatever stands there; a NaN in the elimination does
            reach *= inv * (0.0 if length < n and j % length == length - 1 else _square(c[j]))
        if not reach <= UNFELT:
            return False
    return True


def _number(s: Any, here: Any, like: Any) -> Any:
    return s[here]


@nb.extending.overload(_number, jit_options=JIT)
def _number_of(s, here, like):
    if isinstance(like, nb.types.Complex):
        return lambda s, here, like: complex(s[here], s[here + LANES])
    return lambda s, here, like: s[here]


# ----------------------------------------------------------------------------------------- chunk by chunk


@nb.njit(**JIT)
def _partition_chunks_cpu(first, last, system, x, joints, length, chunk, work):
    """Second pass of the exact solve: the interiors of the chunks, whose last rows are known."""
    a, b, c, d = system
    n = a.shape[0]
    for w in range(first, last):
        start = w * chunk
        stop = min(start + chunk, n) - 1
        x[stop] = joints[w]
        if stop == start:
            continue
        # the interior of a chunk lies between two joint lines: the one of the chunk before is moved to the right side
        zero = 0 * a[start]
        left = joints[w - 1] if w > 0 else zero
        dd = d[start] - (b[start] if start % length != 0 else zero) * left
        p = a[start]
        # down: reciprocal pivots into `work`, eliminated right-hand sides into x; no coupling across the end of a system
        for j in range(start, stop):
            if j > start:
                bj = b[j] if j % length != 0 else zero
                m = -(bj * work[j - 1])
                p = a[j] + m * (c[j - 1] if j % length != 0 else zero)
                dd = d[j] + m * dd
            work[j] = reciprocal(p)
            x[j] = dd
        # up from the joint line x[stop], which the reduced system gave
        for j in range(stop - 1, start - 1, -1):
            cj = c[j] if (j + 1) % length != 0 else zero
            x[j] = work[j] * (x[j] - cj * x[j + 1])
