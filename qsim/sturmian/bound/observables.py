"""Moments, densities and wall slope of a two-electron state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.radial.grid import lobatto
from qsim.sturmian.two_electron.hamiltonian import TwoElectron

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.sturmian.radial.grid import RadialGrid

__all__ = ["MOMENTS", "Observed", "observe", "wall_derivative"]


# Names of the expectation values.
MOMENTS = (
    "r",
    "r2",
    "inv_r",
    "inv_r2",
    "inv_r12",
    "r12_squared",
    "r1_dot_r2",
    "cos_theta12",
    "kinetic",
    "nuclear",
    "repulsion",
    "virial_ratio",
)


@dataclass(frozen=True)
class Observed:
    """Expectation values of one state.

    Attributes
    ----------
    moments : dict of float
        ``r``, ``r2``, ``inv_r``, ``inv_r2``: of one electron; ``inv_r12``, ``r12_squared``, ``r1_dot_r2``, ``cos_theta12``: of
        both; ``kinetic``, ``nuclear`` (both electrons), ``repulsion``, hartree; ``virial_ratio`` = -V/T; ``norm``;
        ``symmetry_error``, part of the wrong exchange symmetry;
        ``edge_density``, largest radial density of an electron in the last element, 1/bohr.
    density : (n,) float64
        Radial density of one electron at the nodes, ``int density dr = 1``.
    map : (n, n) float64
        ``sum over pairs of |u_p(r1, r2)|^2`` at the nodes, symmetric, integral 1.
    weights : (P,) float64
        Weight of each pair, both orders together.
    wall : float
        ``int |du/dr1|^2 dr2`` at r1 = R, mean of both electrons, 1/bohr^3.
    """

    moments: dict[str, float]
    density: NDArray[np.float64]
    map: NDArray[np.float64]
    weights: NDArray[np.float64]
    wall: float


def observe(operator: TwoElectron, x: FloatArray, V: NDArray[np.float64]) -> Observed:
    """Return the expectation values of a state.

    Parameters
    ----------
    operator
        Hamiltonian of its symmetry.
    x : (P, M, M)
        The state, of norm 1, on the device.
    V : (n,)
        One-body potential at the nodes, hartree.
    """
    host, grid = operator.device.to_host, operator.grid
    r, w, P = grid.r, grid.w, len(operator.pairs)
    x = x[None]
    components = operator.on_grid(x)
    F = np.asarray(host(components[0]))
    stored = F[:P]
    # at the nodes the coefficients are u sqrt(w w): squares are probabilities, and sums over nodes are integrals
    squared = (stored**2).sum(axis=0)
    # both orders of la != lb
    probability = 0.5 * (squared + squared.T)
    electron = probability.sum(axis=1)
    # energies from the operator itself, so that they add up to the eigenvalue; the kinetic energy is what is left
    repulsion = float(host(operator.device.xp.sum(x * operator.repulsion(x))))
    one_body = float(host(operator.device.xp.sum(operator.one_body * x * x)))
    nuclear = 2.0 * float(electron @ V)
    kinetic = one_body - nuclear
    dot = _dipole(operator, F, None)
    products = _dipole(operator, F, r)
    r2 = float(electron @ r**2)
    # the last element, where a bound state should have ended
    edge = r > grid.bounds[-2]
    projected = operator.symmetrise(x.copy()) - x
    moments = {
        "r": float(electron @ r),
        "r2": r2,
        "inv_r": float(electron @ (1.0 / r)),
        "inv_r2": float(electron @ (1.0 / r**2)),
        "inv_r12": repulsion,
        "r12_squared": 2.0 * r2 - 2.0 * products,
        "r1_dot_r2": products,
        "cos_theta12": dot,
        "kinetic": kinetic,
        "nuclear": nuclear,
        "repulsion": repulsion,
        "virial_ratio": -(nuclear + repulsion) / kinetic,
        "norm": float(electron.sum()),
        "symmetry_error": float(np.sqrt(host(operator.device.xp.sum(projected**2)))),
        "edge_density": float((electron / w)[edge].max()) if edge.any() else 0.0,
    }
    weights = np.asarray(host(operator.device.xp.sum(x[0] ** 2, axis=(1, 2))))
    slope = wall_derivative(grid)
    wall = 0.5 * float(np.sum((stored @ slope) ** 2) + np.sum((stored.transpose(0, 2, 1) @ slope) ** 2))
    return Observed(moments, electron / w, probability / np.outer(w, w), weights, wall)


def wall_derivative(grid: RadialGrid) -> NDArray[np.float64]:
    """Return ``chi_j'(R)`` of the functions of a real grid, (n,), bohr^(-3/2)."""
    _, _, D = lobatto(grid.order)
    half = 0.5 * (grid.bounds[-1] - grid.bounds[-2])
    # nodes of the last element without the wall
    inside = min(grid.order - 1, grid.size)
    slope = np.zeros(grid.size)
    slope[-inside:] = D[-1, -1 - inside : -1] / half
    result: NDArray[np.float64] = slope / np.sqrt(grid.w)
    return result


def _dipole(operator: TwoElectron, F: NDArray[np.float64], r: NDArray[np.float64] | None) -> float:
    """Return the mean of cos theta12, or of r1 r2 cos theta12: the coefficient of P_1 without its radial kernel."""
    if 1 not in operator.multipoles:
        return 0.0
    # cos theta_12 = P_1, and the repulsion's expansion is sum_l P_l r<^l / r>^(l+1): the
    # angular coefficients of l = 1 are the matrix of cos theta_12.
    A = operator.dense[operator.multipoles.index(1)]
    weighted = F if r is None else F * np.outer(r, r)
    return float(
        sum(
            A[p, c] * np.vdot(F[p], weighted[c]) for p, c in np.argwhere(A)
        )  # swapped components are transposes
    )
