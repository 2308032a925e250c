"""The straightforward banded gradient: scalar LDL^T in complex arithmetic, one row after another, numba, one thread.

What a careful programmer writes first; the yardstick beside which the kernels of ``qsim/qoc/kernels`` are timed, and an
independent check of their numbers.
"""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(fastmath=True, error_model="numpy", cache=True)
def _solve(h, mu, eps, half, o1, o2, b, inverse, l1, x):
    """Solve ``(1 + i half (diag(h - mu eps) + o1, o2 bands)) x = b`` by LDL^T; inverse, l1 are workspaces."""
    size = h.shape[0]
    a1 = 1j * half * o1
    a2 = 1j * half * o2
    for i in range(size):
        pivot = 1.0 + 1j * half * (h[i] - mu[i] * eps)
        y = b[i]
        if i > 0:
            n = a1 - a2 * l1[i - 1] if i > 1 else a1
            l1[i] = n * inverse[i - 1]
            pivot -= n * l1[i]
            y -= l1[i] * x[i - 1]
        if i > 1:
            l2 = a2 * inverse[i - 2]
            pivot -= a2 * l2
            y -= l2 * x[i - 2]
        inverse[i] = np.conj(pivot) / (pivot.real * pivot.real + pivot.imag * pivot.imag)
        x[i] = y
    for i in range(size - 1, -1, -1):
        y = inverse[i] * x[i]
        if i + 1 < size:
            y -= l1[i + 1] * x[i + 1]
        if i + 2 < size:
            y -= a2 * inverse[i] * x[i + 2]
        x[i] = y


@nb.njit(fastmath=True, error_model="numpy", cache=True)
def forward(psi, h, mu, o1, o2, eps, tau, trajectory, keep):
    """Propagate psi (L,) in place over eps (N,); trajectory (N, L) receives the midpoint means if ``keep``."""
    size = psi.shape[0]
    inverse, l1, x = np.empty_like(psi), np.empty_like(psi), np.empty_like(psi)
    for j in range(eps.shape[0]):
        _solve(h, mu, eps[j], 0.5 * tau, o1, o2, psi, inverse, l1, x)
        for i in range(size):
            psi[i] = 2.0 * x[i] - psi[i]
        if keep:
            for i in range(size):
                trajectory[j, i] = x[i]


@nb.njit(fastmath=True, error_model="numpy", cache=True)
def backward(q, h, mu, o1, o2, eps, tau, dx, trajectory, out):
    """Carry the conjugated costate q (L,) back and fill out (N,) with the derivative of its overlap with psi(T)."""
    size = q.shape[0]
    inverse, l1, x = np.empty_like(q), np.empty_like(q), np.empty_like(q)
    for j in range(eps.shape[0] - 1, -1, -1):
        _solve(h, mu, eps[j], 0.5 * tau, o1, o2, q, inverse, l1, x)
        total = 0j
        for i in range(size):
            total += mu[i] * x[i] * trajectory[j, i]
            q[i] = 2.0 * x[i] - q[i]
        out[j] = 1j * tau * dx * total
