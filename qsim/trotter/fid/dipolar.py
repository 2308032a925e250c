r"""Relaxation by dipolar couplings of a rigid molecule that tumbles isotropically.

The coupling ``-sum_p b_p sum_ab Q^p_ab I_ja I_kb`` of pairs p = (j, k), ``b = mu_0 gamma_j gamma_k hbar / (4 pi r^3)``, turns
with the molecule: ``Q = 3 n n - 1`` has five components, whose correlations are

    <q^p_m(0)^* q^r_m(t)> = (6/5) P_2(n_p . n_r) exp(-t / tau_c)

in the frame of the field: pairs of one molecule are not independent.  Parts of a coupling that turn at different frequencies w of
the nuclei do not interfere, and each relaxes with tau_c / (1 + (w tau_c)^2) (Redfield, Adv. Magn. Reson. 1, 1 (1965)); at high
temperature all of them together are jump operators.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.deck.nmr.isotopes import ISOTOPES
from qsim.trotter.model.larger import spin_matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.trotter.deck.nmr.fid import Dipolar
    from qsim.trotter.sectors.digits.liouville import Doubled

__all__ = ["constants", "dipolar_jumps", "relaxation_matrix"]

# mu_0 / 4 pi, hbar and gamma of a proton (CODATA 2022), angstrom
MU, HBAR, PROTON, ANGSTROM = 1.00000000013e-7, 1.054571817e-34, 2.6752218708e8, 1e-10
# components of the coupling along I_j^mu I_k^nu, mu, nu = -1, 0, 1: symmetric, without trace, and of norm 1
ROOT = math.sqrt(6.0)
COMPONENTS: dict[int, tuple[tuple[int, int, float], ...]] = {
    0: ((0, 0, 2.0 / ROOT), (1, -1, -0.5 / ROOT), (-1, 1, -0.5 / ROOT)),
    1: ((0, 1, 0.5), (1, 0, 0.5)),
    -1: ((0, -1, 0.5), (-1, 0, 0.5)),
    2: ((1, 1, 0.5),),
    -2: ((-1, -1, 0.5),),
}


def constants(isotopes: Sequence[str], positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return b_jk (N, N), rad/s, of nuclei at positions (N, 3), angstrom."""
    gammas = np.array([PROTON * ISOTOPES[one].share * ISOTOPES[one].sign for one in isotopes])
    apart = np.linalg.norm(positions[:, None] - positions, axis=2) * ANGSTROM
    np.fill_diagonal(apart, np.inf)
    return np.asarray(MU * HBAR * np.outer(gammas, gammas) / apart**3)


def dipolar_jumps(
    twos: tuple[int, ...], isotopes: Sequence[str], block: Dipolar, spectrometer: float
) -> list[NDArray[np.complex128]]:
    """Return the jump operators (D, D), 1/s^(1/2), site 0 the fastest digit.

    Parameters
    ----------
    twos : tuple of int
        2 I of all nuclei.
    isotopes : sequence of str
    block : Dipolar
        Positions, angstrom, and correlation time, s.
    spectrometer : float
        Frequency of protons, MHz.
    """
    positions = np.array(block.positions)
    b, shapes = constants(isotopes, positions), _shapes()
    one: list[dict[int, NDArray[np.complex128]]] = []
    for site, two in enumerate(twos):
        x, y, z = (_of_site(matrix, site, twos) for matrix in spin_matrices(two))
        one.append({-1: x - 1j * y, 0: z, 1: x + 1j * y})
    # of every isotope, as operators that turn alike belong together
    kinds = sorted(set(isotopes))
    turning = np.array([2e6 * math.pi * spectrometer * ISOTOPES[k].share * ISOTOPES[k].sign for k in kinds])
    made: dict[tuple[int, int, tuple[int, ...]], NDArray[np.complex128]] = {}
    for j in range(len(twos)):
        for k in range(j + 1, len(twos)):
            n = positions[k] - positions[j]
            n = n / np.linalg.norm(n)
            along = np.einsum("sab,ab->s", shapes, 3.0 * np.outer(n, n) - np.eye(3)) / ROOT
            for m, parts in COMPONENTS.items():
                for mu, nu, size in parts:
                    turns = np.zeros(len(kinds), int)
                    turns[kinds.index(isotopes[j])] += mu
                    turns[kinds.index(isotopes[k])] += nu
                    product = b[j, k] * size * one[j][mu] @ one[k][nu]
                    for s, share in enumerate(along):
                        key = (s, m, tuple(turns.tolist()))
                        made[key] = made.get(key, 0.0) + share * product
    found = []
    for (_, _, label), operator in made.items():
        w = float(turning @ np.array(label)) * block.tau_c
        rate = 2.0 * 1.2 * block.tau_c / (1.0 + w * w)
        if np.abs(operator).max() > 0.0:
            found.append(math.sqrt(rate) * operator)
    return found


def _shapes() -> NDArray[np.float64]:
    """Return an orthonormal basis (5, 3, 3) of the symmetric matrices without trace."""
    e = np.eye(3)
    made = [
        (np.outer(e[a], e[b]) + np.outer(e[b], e[a])) / math.sqrt(2.0) for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    made.append((np.outer(e[0], e[0]) - np.outer(e[1], e[1])) / math.sqrt(2.0))
    made.append((3.0 * np.outer(e[2], e[2]) - e) / ROOT)
    return np.array(made)


def _of_site(matrix: NDArray[np.complex128], site: int, twos: tuple[int, ...]) -> NDArray[np.complex128]:
    """Return an operator of one site among all, site 0 the fastest digit."""
    low, high = (math.prod(two + 1 for two in part) for part in (twos[:site], twos[site + 1 :]))
    return np.asarray(np.kron(np.kron(np.eye(high), matrix), np.eye(low)))


def relaxation_matrix(doubled: Doubled, jumps: Sequence[NDArray[np.complex128]]) -> NDArray[np.complex128]:
    """Return ``sum_k L_k rho L_k^+ - {L_k^+ L_k, rho} / 2`` as a matrix of the elements of a space."""
    strings = doubled.space.strings()
    kets = _numbers(doubled, strings & ((1 << doubled.shift) - 1))
    bras = _numbers(doubled, doubled.turned(strings >> doubled.shift))
    total = np.sum([L.conj().T @ L for L in jumps], axis=0)
    left, right = np.ix_(kets, kets), np.ix_(bras, bras)
    same_ket, same_bra = kets[:, None] == kets, bras[:, None] == bras
    found = np.asarray(
        -0.5 * (np.where(same_bra, total[left], 0.0) + np.where(same_ket, total.T[right], 0.0)), complex
    )
    for L in jumps:
        found += L[left] * L.conj()[right]
    return np.asarray(found)


def _numbers(doubled: Doubled, strings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of states of all nuclei, site 0 the fastest digit."""
    number, size = np.zeros(strings.size, np.int64), 1
    for site, two in enumerate(doubled.twos):
        number += size * doubled.space.digit(strings, site)
        size *= two + 1
    return number
