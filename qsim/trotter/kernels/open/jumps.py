"""Quantum trajectories of spins 1/2 in layers: full steps until the norm falls below a number, moments, jumps.

A state is two arrays, real and imaginary part, in the z frame.  A layer of axis a multiplies it by ``exp(-i tau (E_a - i G_a))``
in the frame of the axis, E_a the energies of the couplings and fields along a, G_a half of the rates of the jumps.  Frames are
changed by Walsh-Hadamard rotations of :mod:`qsim.trotter.kernels.layers.layers_cpu`; that of y takes ``(-i)^(spins down)``, which
belongs to the tables of the z layers beside it.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.trotter.kernels.layers.layers_cpu import JIT, phase_table, rotate


@nb.njit(**JIT)
def axis_energies(pairs, fields, out):
    """Set out (2^N,) to ``sum_{j<k} pairs_jk s_j s_k + sum_j fields_j s_j``, s = 1/2 for bit 0, -1/2 for bit 1."""
    n = fields.shape[0]
    # string by string from the one without its highest bit down: a flip of spin j from up changes its energy by -field on it
    out[0] = 0.0
    for j in range(n):
        out[0] += 0.5 * fields[j]
        for k in range(j):
            out[0] += 0.25 * pairs[j, k]
    for j in range(n):
        for low in range(1 << j):
            field = fields[j]
            for k in range(n):
                if k != j:
                    field += pairs[j, k] * (0.5 - ((low >> k) & 1))
            out[(1 << j) + low] = out[low] - field


@nb.njit(**JIT)
def exponential(x):
    """Replace numbers by their exponentials, by polynomials that become vector code instead of a call for each."""
    largest = 0.0
    for i in range(x.shape[0]):
        largest = max(largest, abs(x[i]))
    # of exp(x / 2^s)^(2^s); decays of a step are small, so that s is mostly 0
    halvings = 0
    while largest > 0.35:
        largest *= 0.5
        halvings += 1
    unit = 0.5**halvings
    for i in range(x.shape[0]):
        z = x[i] * unit
        # Taylor's series: the rest is below 1e-17 for |z| <= 0.35
        s = 1.0 / 6227020800.0
        s = s * z + 1.0 / 479001600.0
        s = s * z + 1.0 / 39916800.0
        s = s * z + 1.0 / 3628800.0
        s = s * z + 1.0 / 362880.0
        s = s * z + 1.0 / 40320.0
        s = s * z + 1.0 / 5040.0
        s = s * z + 1.0 / 720.0
        s = s * z + 1.0 / 120.0
        s = s * z + 1.0 / 24.0
        s = s * z + 1.0 / 6.0
        s = s * z + 0.5
        s = s * z + 1.0
        x[i] = s * z + 1.0
    for _ in range(halvings):
        for i in range(x.shape[0]):
            x[i] *= x[i]


@nb.njit(**JIT)
def fill(energies, decays, stages, weights, downs, cosines, sines):
    """Tabulate layers: ``scale exp(-i E - G) exp(i pi shift)`` for every spin down, E and G weighted sums of diagonals.

    Parameters
    ----------
    energies, decays : (P, 3, 2^N), (Q, 3, 2^N) float64
        By part of H or of the decay, and by axis.
    stages : (L, 4) float64
        Axis, shift, scale, and whether the axis has a decay.
    weights : (L, P + Q) float64
        Integral of the factor of every part over a layer.
    downs : (2^N,) float64
        Spins down.
    cosines, sines : (L, 2^N) float64
    """
    parts = energies.shape[0]
    total = np.empty(downs.shape[0])
    for k in range(stages.shape[0]):
        axis = int(stages[k, 0])
        for i in range(total.shape[0]):
            total[i] = weights[k, 0] * energies[0, axis, i]
        for p in range(1, parts):
            for i in range(total.shape[0]):
                total[i] += weights[k, p] * energies[p, axis, i]
        phase_table(total, downs, 1.0 / math.pi, stages[k, 1], stages[k, 2], cosines[k], sines[k])
        if stages[k, 3] == 0.0:
            continue
        for i in range(total.shape[0]):
            total[i] = -weights[k, parts] * decays[0, axis, i]
        for p in range(1, decays.shape[0]):
            for i in range(total.shape[0]):
                total[i] -= weights[k, parts + p] * decays[p, axis, i]
        exponential(total)
        for i in range(total.shape[0]):
            cosines[k, i] *= total[i]
            sines[k, i] *= total[i]


@nb.njit(**JIT)
def multiply(re, im, cosines, sines):
    """Multiply a state by a table."""
    for i in range(re.shape[0]):
        a = re[i]
        re[i] = a * cosines[i] - im[i] * sines[i]
        im[i] = a * sines[i] + im[i] * cosines[i]


@nb.njit(**JIT)
def norm_and_rate(re, im, decay):
    """Return ``<psi|psi>`` and ``<psi| 2 G |psi>`` of a diagonal G (2^N,)."""
    w = 0.0
    q = 0.0
    for i in range(re.shape[0]):
        p = re[i] * re[i] + im[i] * im[i]
        w += p
        q += p * decay[i]
    return w, 2.0 * q


@nb.njit(**JIT)
def full_steps(re, im, bits, cosines, sines, turned, decay, steps, least):
    """Make full steps until the norm squared is below `least`; return their number, and norm and rate before the last and after.

    Parameters
    ----------
    re, im : (2^N,) float64
    cosines, sines : (L, 2^N) float64
        Tables of the layers of a step, ``scale exp(-i tau (E - i G))``.
    turned : (L,) bool
        Whether a layer follows a rotation of all spins.
    decay : (2^N,) float64
        G along z.
    steps : int
    least : float
    """
    w, q = norm_and_rate(re, im, decay)
    before_w, before_q = w, q
    for step in range(steps):
        for k in range(cosines.shape[0]):
            if turned[k]:
                rotate(re, bits, 0)
                rotate(im, bits, 0)
            multiply(re, im, cosines[k], sines[k])
        before_w, before_q = w, q
        w, q = norm_and_rate(re, im, decay)
        if w < least:
            return step + 1, before_w, before_q, w, q
    return steps, before_w, before_q, w, q


@nb.njit(**JIT)
def firsts(re, im, bits, out):
    """Set out (N, 3) to ``<S^x_j>, <S^y_j>, <S^z_j>``, not divided by the norm."""
    size = re.shape[0]
    for j in range(bits):
        m = 1 << j
        x = 0.0
        y = 0.0
        z = 0.0
        for base in range(0, size, 2 * m):
            for k in range(base, base + m):
                a = re[k]
                b = im[k]
                c = re[k + m]
                d = im[k + m]
                # <up|psi>* <down|psi>
                x += a * c + b * d
                y += a * d - b * c
                z += a * a + b * b - c * c - d * d
        out[j, 0] = x
        out[j, 1] = y
        out[j, 2] = 0.5 * z


@nb.njit(**JIT)
def applied(re, im, bits, w, out_re, out_im):
    """Set the output to ``sum_j w_j . S_j psi``, w (N, 3) complex128; return its norm squared."""
    size = re.shape[0]
    out_re[:] = 0.0
    out_im[:] = 0.0
    for j in range(bits):
        z = 0.5 * w[j, 2]
        # <up| w . S |down> and <down| w . S |up>
        up = 0.5 * (w[j, 0] - 1j * w[j, 1])
        down = 0.5 * (w[j, 0] + 1j * w[j, 1])
        if z == 0.0 and up == 0.0 and down == 0.0:
            continue
        m = 1 << j
        for base in range(0, size, 2 * m):
            for k in range(base, base + m):
                a = complex(re[k], im[k])
                b = complex(re[k + m], im[k + m])
                first = z * a + up * b
                second = down * a - z * b
                out_re[k] += first.real
                out_im[k] += first.imag
                out_re[k + m] += second.real
                out_im[k + m] += second.imag
    total = 0.0
    for i in range(size):
        total += out_re[i] * out_re[i] + out_im[i] * out_im[i]
    return total
