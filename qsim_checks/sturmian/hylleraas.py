r"""Truth for coverage: S states of two electrons with all partial waves, in powers of Hylleraas' coordinates.

With ``s = r1 + r2``, ``t = r1 - r2``, ``u = r12`` the functions ``exp(-k s) s^l t^m u^n`` hold the electrons' cusp, which partial
waves approach slowly: m is even in singlets and odd in triplets.  With ``0 <= t <= u <= s`` all integrals are factorials.  The
energy is the lowest root of

    H = int { u (s^2 - t^2) (f_s g_s + f_t g_t + f_u g_u) + s (u^2 - t^2) (f_s g_u + f_u g_s) + t (s^2 - u^2) (f_t g_u + f_u g_t)
              - (4 Z s u - s^2 + t^2) f g },        N = int u (s^2 - t^2) f g

(E. Hylleraas, Z. Phys. 54, 347 (1929); Bethe and Salpeter, Quantum Mechanics of One- and Two-Electron Atoms, Sec. 32).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import gammaln

__all__ = ["s_state"]

Array = NDArray[np.float64]
Monomial = dict[tuple[int, int, int], Array]
"""Coefficients of ``s^a t^b u^c`` relative to the powers of a function, for all functions."""

ORDER = 11  # largest sum of the powers
LESS = 2  # of it, that shows how far the energies have converged
EXPONENTS = (0.35, 0.5, 0.62, 0.75, 0.9)  # over Z, of which a few functions choose one
TRIED = 6  # sum of the powers of these


@lru_cache(maxsize=128)
def s_state(Z: float, S: int, root: int) -> tuple[float, float]:
    """Return the energy of an S state in the field of a charge, hartree, and how far it has converged."""
    k = min(EXPONENTS, key=lambda exponent: _energy(Z, S, root, exponent * Z, TRIED)) * Z
    found = [_energy(Z, S, root, k, order) for order in (ORDER, ORDER - LESS)]
    return found[0], found[1] - found[0]


def _energy(Z: float, S: int, root: int, k: float, order: int) -> float:
    powers = np.array(
        [
            (l, m, n)
            for m in range(S, order + 1, 2)
            for l in range(order - m + 1)
            for n in range(order - m - l + 1)
        ]
    )
    l, m, n = powers.T
    count = len(powers)
    f: Monomial = {(0, 0, 0): np.ones(count)}
    slope = {
        "s": {(0, 0, 0): np.full(count, -k), (-1, 0, 0): l.astype(float)},
        "t": {(0, -1, 0): m.astype(float)},
        "u": {(0, 0, -1): n.astype(float)},
    }

    def integral(one: Monomial, other: Monomial, weight: dict[tuple[int, int, int], float]) -> Array:
        """Return ``int weight one other`` of all pairs of functions."""
        out = np.zeros((count, count))
        for at, c in one.items():
            for by, d in other.items():
                for of, w in weight.items():
                    a, b, e = (
                        p[:, None] + p + shift
                        for p, shift in zip((l, m, n), np.add(np.add(at, by), of), strict=True)
                    )
                    factor = w * c[:, None] * d
                    kept = (factor != 0.0) & (b >= 0) & (b + e + 1 >= 0)
                    a, b, e = np.where(kept, a, 0), np.where(kept, b, 0), np.where(kept, e, 0)
                    total = a + b + e + 3
                    size = np.exp(gammaln(total) - total * np.log(2.0 * k) - scale[:, None] - scale)
                    out += np.where(kept, factor * size / ((b + 1.0) * (b + e + 2.0)), 0.0)
        return out

    total = 2 * (l + m + n) + 6
    scale = 0.5 * (gammaln(total) - total * np.log(2.0 * k))  # the functions are normalised, roughly
    volume = {(2, 0, 1): 1.0, (0, 2, 1): -1.0}
    N = integral(f, f, volume)
    H = sum(integral(slope[x], slope[x], volume) for x in "stu")
    for x, weight in (("s", {(1, 0, 2): 1.0, (1, 2, 0): -1.0}), ("t", {(2, 1, 0): 1.0, (0, 1, 2): -1.0})):
        mixed = integral(slope[x], slope["u"], weight)
        H = H + mixed + mixed.T
    H = H - integral(f, f, {(1, 0, 1): 4.0 * Z, (2, 0, 0): -1.0, (0, 2, 0): 1.0})
    # functions that depend on the others to rounding are left out
    unit = 1.0 / np.sqrt(np.diag(N))
    values, vectors = np.linalg.eigh(unit[:, None] * N * unit)
    held = values > 1e-13 * values[-1]
    basis = unit[:, None] * vectors[:, held] / np.sqrt(values[held])
    return float(eigh(basis.T @ H @ basis, eigvals_only=True)[root])
