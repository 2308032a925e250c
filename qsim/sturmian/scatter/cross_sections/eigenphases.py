r"""The whole S-matrix of one total energy, and with its determinant the sum of all eigenphases.

One solution for every open channel (n, l, l') as the incident one, target in a level of the box and wave outside, makes a column

    S_cc0 = delta_cc0 + 2 i sqrt(2 k_c k_c0) A_c,      det S = exp(2 i sum of eigenphases),

with the amplitudes A of the outgoing waves.  Channels are those of ordered pairs as they are stored, with the electron of the
lower momentum first and, of equal momenta, electron 1 outside.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.scatter.cross_sections import amplitudes
from qsim.sturmian.two_electron.angular import multipoles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.driven.operator import Driven
    from qsim.sturmian.driven.setup import Setup

__all__ = ["Entrance", "determinant", "entrances", "holds_all", "matrix", "source"]

# Largest principal quantum number of a target.
HIGHEST = 6


class Entrance(NamedTuple):
    """An open channel as the incident one: level of the target, its energy and function, and the wave outside.

    Attributes
    ----------
    n, l : int
    leaves : int
        Orbital momentum of the wave.
    k : float
        Its wave number, 1/bohr.
    target : (n,) float64
        Radial function of the level at the nodes, zero beyond R0.
    """

    n: int
    l: int
    leaves: int
    k: float
    target: NDArray[np.float64]


def entrances(setup: Setup, pairs: Sequence[tuple[int, int]], E: float) -> list[Entrance]:
    """Return the channels of some pairs that are open at a total energy, hartree."""
    found = []
    for a, b in pairs:
        for leaves, stays in dict.fromkeys(((a, b), (b, a))):
            levels, P = setup.continuum.levels(stays, HIGHEST - stays)
            for j in range(int(np.count_nonzero(levels < E))):
                k = math.sqrt(2.0 * (E - float(levels[j])))
                found.append(Entrance(j + 1 + stays, stays, leaves, k, setup.embedded(P[j])))
    return found


def holds_all(setup: Setup, pairs: Sequence[tuple[int, int]], E: float) -> bool:
    """Return whether a box holds every level of the target that is open at a total energy, hartree; of a Coulomb field alone.

    Where one is missing, so are rows and columns of the S-matrix.
    """
    if setup.potential.type != "coulomb":
        return True
    # -Z^2/(2 n^2) < E
    highest = math.ceil(setup.Z / math.sqrt(-2.0 * E)) - 1
    if highest > HIGHEST:
        return False
    momenta = {l for pair in pairs for l in pair if l < highest}
    return all(setup.continuum.levels(l, highest - l)[0].size == highest - l for l in momenta)


def source(setup: Setup, operator: Driven, entrance: Entrance) -> NDArray[np.complex128]:
    """Return the source (P, n, n) of a channel: ``(1/r12 - 1/r) Psi_0`` with r that of the wave."""
    grid, L, (l, leaves) = setup.grid, operator.L, (entrance.l, entrance.leaves)
    sign = exchange_sign(l, leaves, L, operator.S)
    root = np.sqrt(grid.w)
    product = np.outer(entrance.target * root, setup.incident(leaves, entrance.k) * root)
    out = np.zeros((len(operator.pairs), *product.shape), complex)
    # both assignments of the electrons; the target screens the nucleus from the wave
    for ket, part, wave in (
        ((l, leaves), product, 1.0 / grid.r[None, :]),
        ((leaves, l), sign * product.T, 1.0 / grid.r[:, None]),
    ):
        for total, pair in zip(out, operator.pairs, strict=True):
            for order, factor in multipoles(L, pair, ket):
                if order not in setup.planes:
                    setup.planes[order] = np.asarray(grid.poisson(order), complex)
                total += factor * setup.planes[order] * part
            if pair == ket:
                total -= wave * part
    # The component that is stored has the channel itself with the factor 1/sqrt(2).
    out *= math.sqrt(0.5) * (1.0 if l < leaves else sign)
    for total, (a, b) in zip(out, operator.pairs, strict=True):
        total *= 1.0 if a == b else math.sqrt(2.0)
    return out


def matrix(
    setup: Setup, operator: Driven, E: float, solve: Callable[[Any, list[float]], Any]
) -> NDArray[np.complex128]:
    """Return the S-matrix (c, c) of the open channels of `entrances`.

    Parameters
    ----------
    setup : Setup
    operator : Driven
        E - H of one symmetry.
    E : float
        Total energy, hartree, below break-up.
    solve : callable
        Solutions (m, P, n, n) of sources and energies.
    """
    channels = entrances(setup, operator.pairs, E)
    device = operator.device
    s = device.asarray(np.stack([source(setup, operator, channel) for channel in channels]))
    u = solve(s, [E] * len(channels))
    place = {(one.n, one.l, one.leaves): i for i, one in enumerate(channels)}
    S = np.eye(len(channels), dtype=complex)
    for column, solution in enumerate(amplitudes.inside(operator, setup.grid, u, s)):
        found = amplitudes.channels(solution, setup.continuum, setup.outside, E, highest=HIGHEST)
        for one in found:
            row = place[one.n, one.l, one.leaves]
            S[row, column] += 2j * math.sqrt(2.0 * one.k * channels[column].k) * one.amplitude
    return S


def determinant(S: NDArray[np.complex128]) -> tuple[complex, float]:
    """Return det S and how much it is off for sure: what S lacks of symmetry and of a unitary matrix."""
    defect = float(np.abs(S.conj().T @ S - np.eye(len(S))).max())
    return complex(np.linalg.det(S)), defect + float(np.abs(S - S.T).max())
