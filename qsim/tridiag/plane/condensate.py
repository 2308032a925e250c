r"""Ground state of a condensate: conjugate gradients of the energy under a fixed norm, preconditioned.

The gradient ``H psi - mu psi`` with ``H = T + V + g |psi|^2`` is preconditioned by ``(T_3 + V + g n - shift)^-1``, the kinetic
energy of three points and the density n of Thomas and Fermi, whose matrix is factorised once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.tridiag.plane.levels import RESIDUAL, Levels, Operator, lowest, part_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.plane.lattice import PlaneLattice

__all__ = ["ground"]

# bohr: half width of the part of the lattice that is searched; a trap gives the walls
REACH = 1e6
ITERATIONS = 500
# residual up to which a search without progress has reached rounding, relative to the chemical potential
ROUNDED = 1e-8
# of the chemical potential: what is added to the preconditioner
SHIFT = 0.5


def ground(lattice: PlaneLattice) -> Levels:
    """Return the ground state, its energy being the chemical potential.

    Raises
    ------
    NumericsError
        If the search does not converge.
    """
    g, v = lattice.nonlinear, lattice.potential()
    density = _thomas_fermi(v, g, lattice.cell) if g > 0.0 else np.zeros_like(v)
    # the lowest level in the trap that the others widen
    first = lowest(
        replace(lattice, table=v - lattice.first[:, None] - lattice.second + g * density, nonlinear=0.0), 1
    )
    part = part_of(lattice, (v.shape[0] // 2, v.shape[1] // 2), REACH)
    h = Operator(lattice, part, (v + g * density)[part])
    own, g = v[part], g / lattice.cell
    psi = first.whole(0, v.shape)[part] * np.sqrt(lattice.cell)
    psi /= np.linalg.norm(psi)

    def product(x: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(h.kinetic[0] @ x + x @ h.kinetic[1] + (own + weight) * x)

    shift = (
        float(first.energies[0]) * (1.0 - SHIFT)
        if first.energies[0] > 0.0
        else float(first.energies[0]) - SHIFT
    )
    direction, before, residual = np.zeros_like(psi), 0.0, np.inf
    old = np.zeros_like(psi)
    for _ in range(ITERATIONS):
        applied = product(psi, g * psi**2)
        mu = float((psi * applied).sum())
        gradient = applied - mu * psi
        residual = float(np.linalg.norm(gradient))
        if residual <= RESIDUAL * max(1.0, abs(mu)):
            break
        step = h.coupled_correction(gradient[None], shift)[0]
        step -= (step * psi).sum() * psi
        slope = float((gradient * step).sum())
        # Polak and Ribiere, beginning anew where it points uphill
        turn = max(0.0, (slope - float((old * step).sum())) / before) if before > 0.0 else 0.0
        direction = turn * direction - step
        direction -= (direction * psi).sum() * psi
        if (direction * gradient).sum() >= 0.0:
            direction = -step
        before, old = slope, gradient
        size = float((direction * direction).sum())
        curvature = float((direction * product(direction, 3.0 * g * psi**2)).sum()) - mu * size
        length = -float((direction * gradient).sum()) / curvature if curvature > 0.0 else 1.0
        psi = psi + length * direction
        psi /= np.linalg.norm(psi)
    if residual > ROUNDED * max(1.0, abs(mu)):
        raise NumericsError(
            f"the search for the ground state stopped at a residual of {residual:.1e} hartree",
            hint="the grid may be too coarse or the trap too shallow",
        )
    state = np.abs(psi)[None] / np.sqrt(lattice.cell)
    return Levels(np.array([mu]), np.array([residual]), state, part)


def _thomas_fermi(v: NDArray[np.float64], g: float, cell: float) -> NDArray[np.float64]:
    """Return ``max(mu - V, 0) / g`` of the norm 1."""
    low, high = float(v.min()), float(v.min()) + g / cell
    for _ in range(200):
        middle = 0.5 * (low + high)
        full = np.maximum(middle - v, 0.0).sum() * cell > g
        low, high = (low, middle) if full else (middle, high)
    return np.asarray(np.maximum(high - v, 0.0) / g)
