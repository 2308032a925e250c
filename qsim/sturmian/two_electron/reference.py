"""Errors of functions and grid: the same states on a finer grid that integrates the potential exactly.

The states of a run are put on a grid with more points per element, whose one-body potential is integrated by a quadrature far
denser than the nodes, and relaxed there by a few steps of Davidson's method.  The energies that they reach tell what all radial
approximations of the run come to: too few or unfit Sturmian functions, a coarse grid, and its quadrature of the potential and of
the repulsion.

The difference has two parts: the same states with better integrals, and what more functions gain.  They have opposite
signs, and as the order of a coarse grid grows its energy may pass through the energy of the finer one while both are off.
On grids of 4 elements and 10 to 18 points (helium, R = 57) the difference is 0.2 to 2 of the larger part, but 0.0007 of it at
12 points, where the energy is off by 0.15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm, in_shares
from qsim.core.errors import NumericsError
from qsim.sturmian.radial import sturmians as gsf
from qsim.sturmian.radial.grid import RadialGrid
from qsim.sturmian.two_electron import davidson
from qsim.sturmian.two_electron.hamiltonian import TwoElectron
from qsim.sturmian.two_electron.sizes import STEP_WORK, WORK, finer_order, finer_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.core.device.parallel import Comm
    from qsim.sturmian.radial.potentials import OneBody

__all__ = ["Reference", "dense_potential", "finer", "interpolation", "relax"]

# Least number of panels of an element, for the quadrature of the potential.
PANELS = 24
# Largest width of a panel, bohr, as long as MOST_PANELS suffice for it.
PANEL_WIDTH = 0.05
MOST_PANELS = 400
# Points of a panel.
GAUSS = 8
# Share of an estimated error by which it may itself be wrong.
SETTLED = 0.1
MAX_STEPS = 40
# Of the larger part of a difference: what it may be off by where its parts cancel.
CANCELLED = 0.2


@dataclass(frozen=True)
class Reference:
    """Energies on the finer grid.

    Attributes
    ----------
    energies : (k,) float64
        Of the lowest states, hartree.
    errors : (k,) float64
        What the relaxation leaves of them, hartree.
    parts : (k,) float64
        The larger of what better integrals change and what more functions gain, hartree: the two have opposite signs.
    levels : dict of int to float
        Lowest one-electron level of each l, hartree.
    operator : TwoElectron
        The Hamiltonian on the finer grid.
    vectors : (count, P, M, M)
        The states there.
    """

    energies: NDArray[np.float64]
    errors: NDArray[np.float64]
    parts: NDArray[np.float64]
    levels: dict[int, float]
    operator: TwoElectron
    vectors: FloatArray

    def off(self, energy: float, root: int) -> float:
        """Return how far an energy of the run may be off, hartree; NaN if its state was not found.

        It is the distance to the energy on the finer grid, which two parts may make small by chance while the energies of both
        grids are off: hence a share of the larger part at least.
        """
        distance = abs(energy - float(self.energies[root]))
        return max(distance, CANCELLED * float(self.parts[root])) + float(self.errors[root])


def finer(grid: RadialGrid) -> RadialGrid:
    """Return a real grid with the same elements and more points in each."""
    return RadialGrid(grid.bounds, finer_order(grid.order))


def interpolation(coarse: RadialGrid, fine: RadialGrid) -> NDArray[np.float64]:
    """Return the matrix (n_fine, n_coarse) that takes coefficients of one grid to the other; exact for `finer` grids."""
    matrix: NDArray[np.float64] = np.sqrt(fine.w)[:, None] * coarse.basis(fine.r)
    return matrix


def dense_potential(potential: OneBody, grid: RadialGrid) -> NDArray[np.float64]:
    """Return the matrix elements ``int chi_i V chi_j dr`` by a quadrature far denser than the nodes.

    An element has `PANELS` panels at least, none wider than `PANEL_WIDTH` as long as `MOST_PANELS` do, of `GAUSS` points each;
    for ``-Z / r`` one panel is exact.

    Parameters
    ----------
    potential : OneBody
        V, hartree; its ``breaks`` become bounds of panels.
    grid : RadialGrid
        A real grid without its last point.

    Returns
    -------
    (n, n) float64
        Hartree; functions of different elements only meet at the nodes between them.
    """
    simple = potential.type == "coulomb"
    # Of -Z/r the integrand is a polynomial of degree 2 order - 3 in the first element, where
    # the functions vanish at r = 0, and 1/r is smooth in all others: order + 2 Gauss points
    # suffice.
    x, w = np.polynomial.legendre.leggauss(grid.order + 2 if simple else GAUSS)
    V = np.zeros((grid.size, grid.size))
    points = grid.order
    for e, (a, b) in enumerate(zip(grid.bounds[:-1], grid.bounds[1:], strict=True)):
        inner = [r for r in potential.breaks if a < r < b]
        panels = 1 if simple else min(max(PANELS, math.ceil((b - a) / PANEL_WIDTH)), MOST_PANELS)
        # steps and kinks of the potential are bounds of panels: Gauss converges on either side
        ends = np.unique(np.concatenate((np.linspace(a, b, panels + 1), inner)))
        half = 0.5 * np.diff(ends)[:, None]
        r = (ends[:-1, None] + half * (x + 1.0)).ravel()
        weight = (half * w).ravel()
        # functions that do not vanish in this element: its own and the bridges at both ends
        here = np.arange(max(e * (points - 1) - 1, 0), min((e + 1) * (points - 1), grid.size))
        chi = grid.basis(r)[:, here]
        # A formula may diverge at a point of the quadrature, where no node of the run is: such
        # a point is left out.
        with np.errstate(all="ignore"):
            values = np.asarray(potential(r), float)
        V[np.ix_(here, here)] += chi.T @ (
            (weight * np.where(np.isfinite(values), values, 0.0))[:, None] * chi
        )
    return V


def relax(
    operator: TwoElectron,
    states: davidson.Eigenpairs,
    potential: OneBody,
    *,
    planes: dict[int, NDArray[Any]] | None = None,
    fine: Callable[[], RadialGrid] | None = None,
    comm: Comm | None = None,
) -> Reference | None:
    """Return the energies of states on the finer grid, None where that would be too much work.

    Parameters
    ----------
    operator
        Hamiltonian of the run.
    states
        Its lowest states, from the first one on.
    potential : OneBody
        V.
    planes
        Cache of the finer grid's Poisson kernels.
    fine : callable, optional
        Returns the finer grid, as made before.
    comm : Comm, optional
        Processes that share the orbitals, kernels and products.
    """
    device, grid = operator.device, operator.grid
    P, roots = len(operator.pairs), len(states.values)
    # About 8 P n^3 operations per product: four matrix products with n x n factors, n of the
    # finer grid.
    product = 8.0 * P * float(finer_size(grid.bounds.size - 1, grid.order)) ** 3
    if roots * product > STEP_WORK:
        return None
    made = finer(grid) if fine is None else fine()
    # The one-body potential as a full matrix: no longer diagonal, since it is integrated and
    # not sampled at the nodes.
    V = dense_potential(potential, made)
    comm = SerialComm() if comm is None else comm
    whole = in_shares(comm, sorted(operator.sizes), lambda l: _orbitals(made, l, V))
    full = TwoElectron(device, made, whole, operator.L, operator.S, operator.pairs, planes, comm)
    B = device.asarray(interpolation(grid, made))
    xp = device.xp
    stored = operator.on_grid(states.vectors)[:, :P]
    # the states of the run on the finer grid, exactly: its elements are the same and its functions more
    start = full.symmetrise(full.project(xp.matmul(xp.matmul(B, stored), B.T)))
    # Gaps of the run's Ritz values, within limits. Near degeneracies must not make an error look
    # infinite, and a lonely state has no neighbour.
    gaps = np.minimum(np.maximum(states.gaps, 1e-3), 1.0)
    # A dozen steps are reckoned with; where these would be too much, second-order perturbation
    # theory must do.
    steps = 0 if 12.0 * roots * product > WORK else MAX_STEPS
    relaxed = davidson.relax(full, start, states.values, gaps, settled=SETTLED, max_steps=steps)
    # better integrals, and then more functions: the two changes that make up the difference
    energies, before = relaxed.energies, relaxed.before
    parts = np.maximum(np.abs(before - states.values), np.abs(energies - before))
    levels = {l: float(orbitals.e[0]) for l, orbitals in whole.items()}
    return Reference(energies, relaxed.errors, parts, levels, full, relaxed.vectors)


def _orbitals(grid: RadialGrid, l: int, V: NDArray[np.float64]) -> gsf.Orbitals:
    from scipy.linalg import LinAlgError, eigh

    try:
        e, C = eigh(grid.kinetic(l) + V, overwrite_a=True, check_finite=False, driver="evd")
    except LinAlgError as error:
        raise NumericsError(f"the orbitals of l = {l} on the finer grid cannot be found: {error}") from error
    return gsf.Orbitals(l, e, np.ascontiguousarray(C))
