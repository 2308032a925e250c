"""Open systems in dense matrices: Liouvillians and trajectory states, with nothing of the program."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

Matrix = NDArray[np.complex128]


def spin(two: int) -> list[Matrix]:
    """Return Sx, Sy, Sz of a spin two / 2, m = S first."""
    S = two / 2
    m = S - np.arange(two + 1)
    up = np.diag(np.sqrt(S * (S + 1) - m[1:] * (m[1:] + 1)), 1).astype(complex)
    return [(up + up.T) / 2, (up - up.T) / 2j, np.diag(m).astype(complex)]


def site(operator: Matrix, j: int, twos: tuple[int, ...]) -> Matrix:
    """Return an operator of site j; site 0 is the fastest index."""
    parts = [operator if k == j else np.eye(two + 1) for k, two in enumerate(twos)]
    return np.asarray(reduce(np.kron, parts[::-1]))


def spins(twos: tuple[int, ...]) -> list[list[Matrix]]:
    """Return S^a_j as [j][a]."""
    return [[site(part, j, twos) for part in spin(two)] for j, two in enumerate(twos)]


def liouvillian(H: Matrix, jumps: list[Matrix]) -> Matrix:
    """Return the superoperator on row-major vectors of rho."""
    one = np.eye(len(H))
    G = -1j * (np.kron(H, one) - np.kron(one, H.T))
    for L in jumps:
        n = L.conj().T @ L
        G = G + np.kron(L, L.conj()) - 0.5 * (np.kron(n, one) + np.kron(one, n.T))
    return np.asarray(G)


def evolved(H: Matrix, jumps: list[Matrix], rho: Matrix, t: float) -> Matrix:
    """Return rho at a time."""
    return np.asarray((expm(liouvillian(H, jumps) * t) @ rho.ravel()).reshape(rho.shape))


def steady(H: Matrix, jumps: list[Matrix]) -> Matrix:
    """Return the steady state, the null vector."""
    _, _, v = np.linalg.svd(liouvillian(H, jumps))
    rho = v[-1].conj().reshape(H.shape)
    return np.asarray(rho / rho.trace())
