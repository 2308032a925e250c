r"""Free particles in a trap in determinants of mixed orbitals: energy and variance by algebra in a space of strings.

Orbitals are sums of oscillator functions :math:`\varphi_i` of one width, which are orthonormal.  A determinant of sums is a sum
of determinants, with minors for coefficients (Cauchy and Binet).  With the elements :math:`h` of a particle's Hamiltonian and
:math:`W_{ij}=\langle h\varphi_i|h\varphi_j\rangle-(h^2)_{ij}` what leads out of the space,

.. math:: \langle H^2\rangle = |P H\psi|^2 + \langle\psi|\textstyle\sum W|\psi\rangle .
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np

from qsim.qmc.wavefunction.molecules.trap import oscillator_function

__all__ = ["QUANTA", "Row", "mixture"]

Row = tuple[float, tuple[int, ...], tuple[int, ...]]
"""A determinant: coefficient and orbitals of both spins, ascending."""
SHELLS = [((quanta - l) // 2, l) for quanta in range(5) for l in range(quanta % 2, quanta + 1, 2)]
FUNCTIONS = [(k, l, m) for k, l in SHELLS for m in range(2 * l + 1)]
QUANTA = [2 * k + l for k, l, _ in FUNCTIONS]
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(300)


@cache
def _of_a_particle(alpha: float, omega: float, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """Return h between all functions, hartree, and the overlaps of h with itself, hartree^2."""
    reach = 9.0 / np.sqrt(alpha)
    r, weight = 0.5 * reach * (POINTS + 1.0), 0.5 * reach * WEIGHTS
    own = 2.0 * alpha / mass  # the frequency that the functions are of
    values = [oscillator_function(k, l, alpha)(r).value * r**l for k, l, _ in FUNCTIONS]
    acted = [
        (own * (2 * k + l + 1.5) + 0.5 * mass * (omega**2 - own**2) * r**2) * f
        for (k, l, _), f in zip(FUNCTIONS, values, strict=True)
    ]
    h, G = np.zeros((2, len(FUNCTIONS), len(FUNCTIONS)))
    for i, (_, l, m) in enumerate(FUNCTIONS):
        for j, (_, l2, m2) in enumerate(FUNCTIONS):
            if (l, m) == (l2, m2):
                h[i, j] = (weight * r**2) @ (values[i] * acted[j])
                G[i, j] = (weight * r**2) @ (acted[i] * acted[j])
    return h, G


def _of_strings(one: np.ndarray, strings: list[tuple[int, ...]]) -> np.ndarray:
    """Return the sum of an operator of a particle over particles, between strings."""
    number = {string: k for k, string in enumerate(strings)}
    found = np.zeros((len(strings), len(strings)))
    for column, string in enumerate(strings):
        for place, q in enumerate(string):
            left = string[:place] + string[place + 1 :]
            for p in np.flatnonzero(one[:, q]).tolist():
                if p not in left:
                    before = sum(o < p for o in left)
                    found[number[(*left[:before], p, *left[before:])], column] += (-1.0) ** (
                        place + before
                    ) * one[p, q]
    return found


def mixture(
    trap: tuple[float, float, float],
    rows: Sequence[Row],
    numbers: Sequence[Sequence[int]],
    shares: Sequence[np.ndarray],
) -> tuple[float, float]:
    """Return energy (hartree) and variance (hartree^2).

    Parameters
    ----------
    trap
        Exponent of the functions, frequency, mass.
    rows
        The determinants.
    numbers
        For each spin the oscillator functions, by their numbers, those of determinants first.
    shares : pair of (all, occurring) float64
        Of these functions in the orbitals of determinants.
    """
    h, G = _of_a_particle(*trap)
    minors, energies, beyond = [], [], []
    for spin, occupied in enumerate(([row[1] for row in rows], [row[2] for row in rows])):
        own = np.array(list(numbers[spin]), np.int64)
        n = len(occupied[0])
        strings = list(combinations(range(len(own)), n))
        place = {o: k for k, o in enumerate(own.tolist())}
        columns = np.array([[place[o] for o in string] for string in occupied], np.int64).reshape(
            len(rows), n
        )
        table = np.array(strings, np.int64).reshape(len(strings), n)
        minors.append(
            np.linalg.det(np.asarray(shares[spin])[table[:, None, :, None], columns[None, :, None, :]])
        )
        inside = h[np.ix_(own, own)]
        energies.append(_of_strings(inside, strings))
        beyond.append(_of_strings(G[np.ix_(own, own)] - inside @ inside, strings))
    C = np.einsum("d,id,jd->ij", np.array([row[0] for row in rows]), minors[0], minors[1])
    C /= np.linalg.norm(C)
    HC = energies[0] @ C + C @ energies[1].T
    energy = float((C * HC).sum())
    outside = float((C * (beyond[0] @ C + C @ beyond[1].T)).sum())
    return energy, float((HC * HC).sum()) + outside - energy**2
