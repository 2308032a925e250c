"""States of a sector by dense linear algebra, in the form of the matrix-free search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.parallel import SerialComm, first
from qsim.sturmian.radial import parameters
from qsim.sturmian.two_electron.davidson import Eigenpairs
from qsim.sturmian.two_electron.dense import Symmetry, assemble, eigenpairs, one_electron, orthonormalised

if TYPE_CHECKING:
    from qsim.core.device.parallel import Comm
    from qsim.sturmian.problem import Problem, Sector
    from qsim.sturmian.two_electron.hamiltonian import TwoElectron


def solve_sector(
    problem: Problem, sector: Sector, roots: int, operator: TwoElectron, comm: Comm | None = None
) -> Eigenpairs:
    """Return the lowest states of a sector as the matrix-free solver would: vectors in the orbitals of its operator.

    Residuals are taken with the operator, so that a dense run checks the matrix-free products and the other way round.
    """
    U, _ = parameters.auxiliary(problem.radial, problem.grid)
    v = parameters.generating_values(problem.radial, problem.values, problem.grid)
    ls = sorted({l for pair in sector.pairs for l in pair})
    basis = {
        l: orthonormalised(one_electron(problem.grid, problem.V, problem.functions(l), v, U))[0] for l in ls
    }
    device, xp = problem.device, problem.device.xp
    comm = SerialComm() if comm is None else comm
    made = assemble(device, problem.grid, basis, Symmetry(sector.L, sector.S, sector.pairs), comm)
    # one root more than requested gives the last of them a gap
    wanted = min(roots + 1, made.bounds[-1])
    energies, x = first(comm, lambda: eigenpairs(device, made, max(wanted, roots)))
    # from the orthonormal functions of the matrices to the orbitals of the operator
    rotation = {l: operator.orbitals[l].C.T @ basis[l].c for l in ls}
    vectors = np.zeros((roots, *operator.shape))
    for k in range(roots):
        for p, ((la, lb), X) in enumerate(zip(sector.pairs, made.components(x[:, k]), strict=True)):
            part = rotation[la] @ X @ rotation[lb].T
            vectors[k, p, : part.shape[0], : part.shape[1]] = part
    with device.use():
        states = device.asarray(vectors)
        defect = operator.apply(states) - device.asarray(energies[:roots])[:, None, None, None] * states
        residuals = device.to_host(xp.sqrt((defect**2).sum(axis=(1, 2, 3))))
    # Distances to the nearest other root, including the one beyond those requested.
    gaps = np.full(roots, np.inf)
    for k in range(roots):
        others = np.delete(energies, k)
        if others.size:
            gaps[k] = np.abs(others - energies[k]).min()
    return Eigenpairs(energies[:roots], states, residuals, gaps, 1, roots, residuals[None, :])
