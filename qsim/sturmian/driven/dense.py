"""The paper's route for a collision: the dense complex symmetric matrix between Sturmian functions, and its LDL^T."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.driven.krylov import norms_of
from qsim.sturmian.driven.operator import Driven, Solution
from qsim.sturmian.linalg import ldlt
from qsim.sturmian.two_electron.dense import OneElectron, Symmetry, assemble

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["solve_dense"]


def solve_dense(operator: Driven, s: NDArray[np.complex128], E: NDArray[np.float64]) -> Solution:
    """Solve (E - H) u = s with the matrix of H, one factorisation per energy.

    Parameters
    ----------
    operator : Driven
        Among Sturmian functions.
    s : (m, P, n, n) complex128
        Sources on the product grid, on the device.
    E : (m,)
        Total energies, hartree.
    """
    device = operator.device
    xp, N = device.xp, operator.functions
    # in eigenfunctions of h_l the overlap is the identity and the one-body part diagonal
    basis = {
        l: OneElectron(orbital.C, np.eye(N, dtype=complex), np.diag(orbital.e))
        for l, orbital in operator.orbitals.items()
    }
    made = assemble(device, operator.grid, basis, Symmetry(operator.L, operator.S, operator.pairs))
    b = device.to_host(operator.source(s))
    right = np.stack([made.vector(components) for components in b])
    x = np.zeros_like(b)
    for k, energy in enumerate(E):
        # E - H; one matrix and its factors at a time, as they are the largest arrays of the run
        A = -made.H
        A[xp.arange(A.shape[0]), xp.arange(A.shape[0])] += complex(energy)
        solution, _ = ldlt.solve(A, device.asarray(right[k]))
        for p, component in enumerate(made.components(device.to_host(solution))):
            x[k, p] = component
    u = operator.on_grid(device.asarray(x))
    scale = norms_of(device.asarray(b))
    # the residual of the matrix-free operator, which checks the matrix as well
    r = operator.residual(u, s, device.asarray(np.asarray(E, complex)))
    residuals = norms_of(r) / np.where(scale > 0.0, scale, 1.0)
    return Solution(u, residuals, np.ones(len(E), np.int64), [np.array([value]) for value in residuals])
