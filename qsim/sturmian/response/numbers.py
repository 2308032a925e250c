r"""Compute a response as arrays of one l_max: transitions, polarisabilities, dispersion coefficients, sums.

With reduced elements of Edmonds' convention and dE the energies of the final levels above the level:

    f(i -> f) = 2/3 dE S/(2 L_i + 1),   S = <f || z || i>^2 = <f || grad || i>^2 / dE^2 = <f || grad V || i>^2 / dE^4
    A(i -> f) = 4/3 alpha^3 |dE|^3 S/(2 L_i + 1)  for dE < 0
    R_L'(w) = sum_n 2 dE_n <n L' || Q_k || L>^2 / (dE_n^2 - w^2)
    alpha(w) = sum_L' R_L'(w) / ((2L + 1)(2k + 1)),   alpha_M(w) = sum_L' (L k L'; -M 0 M)^2 R_L'(w)
    C6 = 3/pi int alpha_A(i w) alpha_B(i w) dw
    S(k) = sum f dE^k:  S(-2) = alpha(0), S(-1) = 2/3 <(r1 + r2)^2>, S(0) = 2, S(1) = 2/3 <(p1 + p2)^2>,
    S(2) = 4 pi/3 Z <delta(r1) + delta(r2)>
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.radial.grid import lobatto
from qsim.sturmian.two_electron.angular import wigner_3j

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.response.sectors import Level
    from qsim.sturmian.response.solutions import Atom, Reached
    from qsim.sturmian.two_electron.linear import Response

# Fine-structure constant and the atomic unit of time in seconds, CODATA 2022.
FINE_STRUCTURE = 7.2973525643e-3
ATOMIC_TIME = 2.4188843265864e-17
# Powers of the energy in the sums S(k).
POWERS = (-2, -1, 0, 1, 2)
# Gauss-Legendre points of the integral over imaginary frequencies: the two that are compared differ by 1e-12 for helium.
CASIMIR_POINTS = 64
# Imaginary frequencies at which polarisabilities are stored for other decks, nodes of a rule with this number of points: of
# the scale 1 they serve ionisation energies from 0.02 to 50 hartree.
STORED = CASIMIR_POINTS


def is_allowed(one: Level, other: Level, order: int) -> bool:
    """Return True if a multipole connects two levels."""
    changes = one.parity != other.parity
    triangle = abs(one.L - other.L) <= order <= one.L + other.L
    return one != other and one.S == other.S and changes == bool(order % 2) and triangle


def transitions(
    atom: Atom, levels: Sequence[Level], gauges: Sequence[str], multipoles: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """Return oscillator strengths, emission rates and transition moments between levels.

    Returns
    -------
    dict
        ``f`` and ``A``, (level, level, gauge), from the first index to the second, A in 1/s; ``rate`` (level, gauge), sum of A;
        ``moment`` (level, level, multipole), size of the reduced element in length, bohr^k.  NaN where selection rules forbid.
    """
    n = len(levels)
    f = np.full((n, n, len(gauges)), np.nan)
    A, moment = f.copy(), np.full((n, n, len(multipoles)), np.nan)
    for a in range(n):
        for b in range(a + 1, n):
            one, other = levels[a], levels[b]
            for k, order in enumerate(multipoles):
                if is_allowed(one, other, order):
                    moment[a, b, k] = moment[b, a, k] = abs(atom.element(other, one, order, "length"))
            if not is_allowed(one, other, 1):
                continue
            dE = atom.energy(other) - atom.energy(one)
            for g, gauge in enumerate(gauges):
                power = {"length": 0, "velocity": 2, "acceleration": 4}[gauge]
                strength = atom.element(other, one, 1, gauge) ** 2 / abs(dE) ** power
                f[a, b, g] = 2.0 / 3.0 * dE * strength / (2 * one.L + 1)
                f[b, a, g] = -2.0 / 3.0 * dE * strength / (2 * other.L + 1)
                upper = (b, a) if dE > 0.0 else (a, b)
                weight = 2 * levels[upper[0]].L + 1
                rate = 4.0 / 3.0 * FINE_STRUCTURE**3 * abs(dE) ** 3 * strength / weight
                A[(*upper, g)] = rate / ATOMIC_TIME
    decays = np.isfinite(A).any(axis=(1, 2))
    rates = np.where(decays[:, None], np.nansum(A, axis=1), np.nan)
    return {"f": f, "A": A, "rate": rates, "moment": moment}


def fields(responses: Sequence[Reached], velocity: bool, omega: float) -> list[tuple[int, float]]:
    """Return L' and R_L'(omega) of every sector that a multipole leads to."""

    def both(response: Response) -> float:
        if not response.levels.size:
            return 0.0
        return (response.resolvent(omega) + response.resolvent(-omega)).real

    made = [(one.L, one.velocities if velocity else one.lengths) for one in responses]
    return [(L, both(response)) for L, response in made if response is not None]


def scalar_part(level: Level, order: int, parts: Sequence[tuple[int, float]]) -> float:
    """Return the polarisability averaged over the directions of a level."""
    return sum(R for _, R in parts) / ((2 * level.L + 1) * (2 * order + 1))


def tensor_part(level: Level, order: int, parts: Sequence[tuple[int, float]]) -> float:
    """Return the factor of ``(3 M^2 - L (L + 1))/(L (2 L - 1))`` in the polarisability of M; NaN for S states.

    Dipoles have no other part that depends on M; of quadrupoles it is the part of rank 2.
    """
    L = level.L
    if L == 0:
        return math.nan
    M = np.arange(-L, L + 1)
    shape = (3 * M**2 - L * (L + 1)) / (L * (2 * L - 1))
    each = [sum(wigner_3j(L, order, Lp, -int(m), 0, int(m)) ** 2 * R for Lp, R in parts) for m in M]
    return float(shape @ np.array(each) / (shape @ shape))


def at_imaginary(responses: Sequence[Reached], omega: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the dipole polarisability of an S state at imaginary frequencies, (k,), bohr^3."""
    total = np.zeros(omega.size)
    for one in responses:
        dE, b = one.lengths.levels, one.lengths.strengths
        total += 2.0 / 3.0 * np.sum(dE * b**2 / (dE**2 + omega[:, None] ** 2), axis=1)
    return total


def casimir_nodes(scale: float, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return frequencies and weights of the integral from 0 to infinity, ``w = scale (1 + x)/(1 - x)``."""
    x, w = np.polynomial.legendre.leggauss(count)
    return scale * (1.0 + x) / (1.0 - x), 2.0 * scale * w / (1.0 - x) ** 2


def dispersion(
    one: Sequence[Reached], other: Sequence[Reached], scale: float, count: int = CASIMIR_POINTS
) -> float:
    """Return C6 of two atoms in S states, hartree bohr^6."""
    omega, weights = casimir_nodes(scale, count)
    return float(3.0 / math.pi * np.sum(weights * at_imaginary(one, omega) * at_imaginary(other, omega)))


def dispersion_with(one: Sequence[Reached], alpha: NDArray[np.float64]) -> float:
    """Return C6 with an atom whose polarisability is known at the nodes of the rule with that many points and the scale 1."""
    omega, weights = casimir_nodes(1.0, alpha.size)
    return float(3.0 / math.pi * np.sum(weights * at_imaginary(one, omega) * alpha))


def sums(
    level: Level, responses: Sequence[Reached], nucleus: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return S(-2), ..., S(2) of a level by closure, and as the spectrum in the basis gives them; NaN where neither does.

    Parameters
    ----------
    level : Level
    responses : sequence of Reached
        Under the dipole.
    nucleus : float
        Z times the density of both electrons at the nucleus, 1/bohr^3; NaN if the field there is not that of a charge.
    """
    average = 2.0 / (3.0 * (2 * level.L + 1))
    static = scalar_part(level, 1, fields(responses, velocity=False, omega=0.0))
    r2, p2 = (average * sum(one.closures[k] for one in responses) for k in (0, 1))
    closure = np.array([static, r2, 2.0, p2, 4.0 * math.pi / 3.0 * nucleus])
    moments = [average * sum(one.moments[k] for one in responses) for k in (0, 1, 2)]
    return closure, np.array([static, *moments, math.nan])


def density_at_nucleus(grid: RadialGrid, components: dict[tuple[int, int], NDArray[np.float64]]) -> float:
    """Return the density of both electrons at the nucleus, ``<delta(r1) + delta(r2)>``, 1/bohr^3.

    Near the nucleus a component with an s electron is ``r1 u'(0, r2)``.
    """
    slope = origin_derivative(grid)
    total = sum(float(np.sum((slope @ F) ** 2)) for (la, _), F in components.items() if la == 0)
    return 2.0 * total / (4.0 * math.pi)


def origin_derivative(grid: RadialGrid) -> NDArray[np.float64]:
    """Return ``chi_j'(0)`` of the functions of a real grid, (n,), bohr^(-3/2)."""
    _, _, D = lobatto(grid.order)
    half = 0.5 * (grid.bounds[1] - grid.bounds[0])
    inside = min(grid.order - 1, grid.size)
    slope = np.zeros(grid.size)
    slope[:inside] = D[0, 1 : 1 + inside] / half
    return np.asarray(slope / np.sqrt(grid.w), float)
