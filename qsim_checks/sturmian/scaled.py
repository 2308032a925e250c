r"""Truth for coverage of collisions: both radii turned into the complex plane, with none of the code under test.

With ``z = r exp(i theta)`` for both electrons outgoing waves decay, and functions that are square integrable hold them: those of
:class:`qsim_checks.sturmian.oracle.Functions`, in which the whole Hamiltonian is a dense complex symmetric matrix

    H(theta) = exp(-2 i theta) T + V(r exp(i theta)) + exp(-i theta) / r12.

There is no box, no contour that begins somewhere, no iterative solver and no surface at which amplitudes are taken.

photons       source ``D Psi_g``; the photoabsorption is ``Im <D Psi_g| (E - H)^-1 |D Psi_g>`` in the product without conjugation
electrons     s waves alone (Temkin-Poet model): the source ``(1/r> - 1/r2) Psi0`` and all ``(1/r> - 1/r1) P_n F_n`` have a short
              range, so that the integrals of amplitudes converge on the turned radii; the waves F are solutions of their equation
              there
resonances    eigenvalues of H(theta)

Two angles and two numbers of functions say how far each number is converged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import lu_factor, lu_solve
from scipy.special import eval_genlaguerre

from qsim_checks.sturmian.oracle import NODES, Functions, Symmetry, _six_j, _three_j_zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Complex = NDArray[np.complex128]

__all__ = ["Electrons", "photoabsorption", "resonance"]

ITERATIONS, SETTLED = 300, 1e-11  # of a resonance, and its last change, hartree
FINE_STRUCTURE = 7.2973525643e-3  # CODATA 2022
KILOBARN = 28.0028520539e3  # of one bohr^2


def hydrogenic(n: int, Z: float, z: Complex) -> Complex:
    """Return the radial function of the level ns of a charge at complex radii, ``int P^2 dz = 1``."""
    x = 2.0 * Z * z / n
    return np.asarray(math.sqrt(Z / n**3) * x * np.exp(-0.5 * x) * eval_genlaguerre(n - 1, 1, x))


def coulomb_wave(k: float, charge: float, z: Complex) -> Complex:
    """Return the regular s wave ``sin(k z + ...) / k`` in the field -charge/z on a ray from zero, at ascending ``|z|``.

    It is integrated outwards from its first terms, ``C z (1 - charge z)``, with ``C^2 = 2 pi eta / (exp(2 pi eta) - 1)`` and
    ``eta = -charge / k``.
    """
    if charge == 0.0:
        return np.asarray(np.sin(k * z) / k)
    eta = -charge / k
    front = math.sqrt(2.0 * math.pi * eta / math.expm1(2.0 * math.pi * eta))
    turn = z[0] / abs(z[0])
    r = np.abs(z)
    start = min(1e-4 / max(charge, k), 0.5 * r[0])
    z0 = start * turn
    first = [z0 * (1.0 - charge * z0), (1.0 - 2.0 * charge * z0) * turn]

    def slope(x: float, y: Complex) -> list[complex]:
        return [y[1], -(turn**2) * (k * k + 2.0 * charge / (x * turn)) * y[0]]

    found = solve_ivp(
        slope, (start, r[-1]), np.array(first, complex), method="DOP853", t_eval=r, rtol=1e-10, atol=1e-12
    )
    return np.asarray(front * found.y[0])


@dataclass
class Electrons:
    """Two s electrons in the field of a charge Z, turned by an angle.

    Parameters
    ----------
    Z : float
    functions : Functions
        Of the real radius.
    theta : float
        Angle, rad.
    """

    Z: float
    functions: Functions
    theta: float

    @cached_property
    def turn(self) -> complex:
        """``exp(i theta)``."""
        return complex(np.exp(1j * self.theta))

    @cached_property
    def z(self) -> Complex:
        """Turned radii of the nodes."""
        return np.asarray(self.functions.r * self.turn)

    def _matrix(self, S: int) -> tuple[Complex, NDArray[np.int64], NDArray[np.int64], Array]:
        f = self.functions
        u, slope = f.functions(0)
        T = 0.5 * (slope * f.w) @ slope.T
        V = (u * (f.w * -self.Z / f.r)) @ u.T
        h = T / self.turn**2 + V / self.turn
        n = f.count
        a, b = np.triu_indices(n, 0 if S == 0 else 1)
        factor = np.where(a == b, math.sqrt(0.5), 1.0)
        R = f.repulsion(0, (0, 0), (0, 0)).transpose(0, 2, 1, 3) / self.turn
        one = np.eye(n)
        full = R + h[:, None, :, None] * one[None, :, None, :] + one[:, None, :, None] * h[None, :, None, :]
        rows = full[a, b]
        sign = 1 - 2 * S
        H = factor[:, None] * (rows[:, a, b] + sign * rows[:, b, a]) * factor
        return H, a, b, factor

    def inner(self, density: Complex) -> Complex:
        """Return ``int_0^r density (1/r - 1/r') dr'`` at the nodes, of densities (m, points)."""
        low = self._cumulative(density)[0]
        return np.asarray(low / self.functions.r - self._cumulative(density / self.functions.r)[0])

    def outer(self, density: Complex) -> Complex:
        """Return ``int_r^oo density (1/r' - 1/r) dr'`` at the nodes, of densities (m, points)."""
        one, all_one = self._cumulative(density / self.functions.r)
        low, every = self._cumulative(density)
        return np.asarray((all_one[:, None] - one) - (every[:, None] - low) / self.functions.r)

    def _cumulative(self, density: Complex) -> tuple[Complex, Complex]:
        f = self.functions
        values = density.reshape(len(density), -1, NODES)
        whole = (values * f.w.reshape(-1, NODES)).sum(axis=2)
        before = np.cumsum(whole, axis=1) - whole
        within = np.einsum("mei,ji,e->mej", values, f._to_node, f.widths, optimize=True)
        return (before[:, :, None] + within).reshape(len(density), -1), whole.sum(axis=1)

    def solve(self, S: int, energies: list[float], highest: int = 5) -> list[dict[str, complex]]:
        """Return total flux, elastic S-matrix element and fluxes of the levels for impact energies, hartree.

        The flux of a level, in the normalisation of one ordered source, is ``2 k_n |A_n|^2``.
        """
        f, turn, Z = self.functions, self.turn, self.Z
        u, _ = f.functions(0)
        H, a, b, factor = self._matrix(S)
        sign = 1 - 2 * S
        out = []
        for energy in energies:
            k, E = math.sqrt(2.0 * energy), energy - 0.5 * Z * Z
            P, F = hydrogenic(1, Z, self.z), coulomb_wave(k, Z - 1.0, self.z)
            # direct: <f_a f_b| (1/r> - 1/r2) P(r1) F(r2)>
            I = self.inner(u * F)  # (b, r1)
            direct = (u * (f.w * P)) @ I.T
            both = (direct + sign * direct.T) / math.sqrt(2.0)
            s = math.sqrt(2.0) * factor * both[a, b]  # exp(i theta) of the element cancels that of 1/r
            x = lu_solve(lu_factor(E * np.eye(len(H)) - H), s)
            su = complex(s @ x)
            # Born: <P F| W |P F> and the exchanged one
            own = complex((P * P * f.w) @ self.inner((F * F)[None])[0]) * turn
            other = complex((P * F * f.w) @ self.inner((F * P)[None])[0]) * turn
            element = 1.0 - 4j * k * (su + own + sign * other)
            entry: dict[str, complex] = {"total": -2.0 * su.imag, "S": element}
            c = np.zeros((f.count, f.count), complex)
            c[a, b] += x * factor / math.sqrt(2.0)
            c[b, a] += sign * x * factor / math.sqrt(2.0)
            for n in range(1, highest + 1):
                level = -0.5 * (Z / n) ** 2
                if level >= E:
                    break
                kn = math.sqrt(2.0 * (E - level))
                Pn, Fn = hydrogenic(n, Z, self.z), coulomb_wave(kn, Z - 1.0, self.z) * kn
                G = self.outer(u * Pn)  # (b, r1)
                part = complex(np.einsum("ab,ab->", c, (u * (f.w * Fn)) @ G.T))
                # <F_n(1) P_n(2)| s>
                first = complex((Fn * P * f.w) @ self.inner((F * Pn)[None])[0]) * turn
                second = complex((Pn * P * f.w) @ self.inner((F * Fn)[None])[0]) * turn
                A = -2.0 / kn * (part + (first + sign * second) / math.sqrt(2.0))
                entry[f"{n}s"] = 2.0 * kn * abs(A) ** 2
            out.append(entry)
        return out


# ------------------------------------------------------------------------------------ photons, resonances


def _reduced(la: int, lc: int) -> float:
    return (-1) ** la * math.sqrt((2 * la + 1) * (2 * lc + 1)) * _three_j_zero(la, 1, lc)


def _angles(bra: tuple[int, int], ket: tuple[int, int], L: int, L0: int) -> tuple[float, float]:
    """Return ``<(la lb) L 0| C^1_0 |(lc ld) L0 0>`` of electrons 1 and 2 (Edmonds, Eqs. (5.4.1), (7.1.7), (7.1.8))."""
    (a, b), (c, d) = bra, ket
    whole = (-1) ** L * _three_j_zero(L, 1, L0) * math.sqrt((2 * L + 1) * (2 * L0 + 1))
    one = (-1) ** (a + b + L0 + 1) * _six_j(a, L, b, L0, c, 1) * _reduced(a, c) if b == d else 0.0
    two = (-1) ** (a + d + L + 1) * _six_j(b, L, a, L0, d, 1) * _reduced(b, d) if a == c else 0.0
    return whole * one, whole * two


def _states(f: Functions, symmetry: Symmetry) -> list[tuple[int, Array, Array, Array]]:
    """Return sign, both numbers and norm of the exchange-symmetric products of every pair, as in `Functions.matrix`."""
    out = []
    for la, lb in symmetry.pairs:
        sign = -1 if (la + lb - symmetry.L + symmetry.S) % 2 else 1
        a, b = np.meshgrid(np.arange(f.count), np.arange(f.count), indexing="ij")
        kept = np.ones_like(a, bool)
        if la == lb:
            kept = a <= b if sign > 0 else a < b
        factor = np.where((a == b) & (la == lb), math.sqrt(0.5), 1.0)
        out.append((sign, a[kept], b[kept], factor[kept]))
    return out


def _radial(f: Functions, gauge: str, la: int, lc: int, Z: float) -> Complex:
    """Return the radial dipole operator from lc to la, (count, count); Z/r^2 in the acceleration."""
    u, slope = f.functions(lc)
    left, _ = f.functions(la)
    if gauge == "length":
        return np.asarray(f.turn * (left * (f.w * f.r)) @ u.T)
    if gauge == "acceleration":
        return np.asarray(Z / f.turn**2 * (left * (f.w / f.r**2)) @ u.T)
    over = -(lc + 1) if la == lc + 1 else lc
    return np.asarray((left * f.w) @ (slope + over * u / f.r).T / f.turn)


def _dipole(f: Functions, upper: Symmetry, lower: Symmetry, x: Complex, gauge: str, Z: float) -> Complex:
    """Return the dipole source of a state with coefficients x, in the products of `upper`."""
    components: dict[tuple[int, int], Any] = {}
    start = 0
    for (lc, ld), (sign, a, b, factor) in zip(lower.pairs, _states(f, lower), strict=True):
        part = np.zeros((f.count, f.count), complex)
        values = x[start : start + a.size] * factor
        start += a.size
        part[a, b] += values
        components[lc, ld] = components.get((lc, ld), 0.0) + part
        components[ld, lc] = components.get((ld, lc), 0.0) + sign * part.T
    out = []
    for bra, (_, a, b, factor) in zip(upper.pairs, _states(f, upper), strict=True):
        total = np.zeros((f.count, f.count), complex)
        for ket, part in components.items():
            one, two = _angles(bra, ket, upper.L, lower.L)
            if one:
                total += one * _radial(f, gauge, bra[0], ket[0], Z) @ part
            if two:
                total += two * part @ _radial(f, gauge, bra[1], ket[1], Z).T
        out.append(total[a, b] * factor)
    return np.concatenate(out)


def photoabsorption(
    f: Functions,
    lower: Symmetry,
    upper: Symmetry,
    root: int,
    excess: Sequence[float],
    gauges: Sequence[str],
    Z: float,
    *,
    photons: bool = False,
) -> Array:
    """Return the photoabsorption cross section for excess energies and gauges, kb, (energies, gauges).

    Parameters
    ----------
    f : Functions
        On turned radii.
    lower, upper : Symmetry
        Of the initial and of the final state.
    root : int
        Of the initial state.
    excess : list of float
        Energy above that of two free electrons, hartree.
    gauges : list of {"length", "velocity", "acceleration"}
    Z : float
        Charge of the nucleus.
    photons : bool
        Whether the energies are those of photons instead.
    """
    H0 = f.matrix(lower)
    values, vectors = np.linalg.eig(H0)
    bound = np.argsort(values.real + 1e3 * (np.abs(values.imag) > 1e-2))[root]
    x = vectors[:, bound]
    x = x / np.sqrt(x @ x)
    energy = float(values[bound].real)
    H = f.matrix(upper)
    sources = np.stack([_dipole(f, upper, lower, x, gauge, Z) for gauge in gauges], axis=1)
    out = np.zeros((len(excess), len(gauges)))
    for i, given in enumerate(excess):
        E = given + energy if photons else given
        omega = E - energy
        u = np.linalg.solve(E * np.eye(len(H)) - H, sources)
        flux = -2.0 * np.einsum("ig,ig->g", sources, u).imag
        scale = np.array([omega ** (-2 * {"length": 0, "velocity": 1, "acceleration": 2}[g]) for g in gauges])
        out[i] = 2.0 * math.pi * omega * FINE_STRUCTURE * KILOBARN * flux * scale
    return out


def resonance(f: Functions, symmetry: Symmetry, near: complex) -> complex:
    """Return the eigenvalue of the turned Hamiltonian that is nearest to an energy, hartree, by inverse iteration."""
    H = f.matrix(symmetry)
    solve = lu_factor(H - near * np.eye(len(H)))
    v: Any = np.random.default_rng(0).standard_normal(len(H))
    value = complex(near)
    for _ in range(ITERATIONS):
        v = lu_solve(solve, v)
        v /= np.linalg.norm(v)
        before, value = value, complex((v @ H @ v) / (v @ v))
        if abs(value - before) < SETTLED:
            break
    return value
