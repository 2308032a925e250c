"""What is observed of a state of two coordinates: at output times what costs little, and maps at a few times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.plane.lattice import vortices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.tridiag.plane.problem import PlaneProblem
    from qsim.tridiag.plane.propagator import PlanePropagator

__all__ = ["map_row", "occupations", "row", "sums"]

# points along an axis up to which natural orbitals are found on all of them
MOST_ORBITALS = 2048
# smallest occupation that counts in the entropy
LEAST_OCCUPATION = 1e-14


def sums(problem: PlaneProblem, propagator: PlanePropagator) -> NDArray[np.float64]:
    """Return norm, the components of the dipole and of the mean force, and the norms of the three regions, (4 + 2 d,).

    Regions: both coordinates inside, one of them, none.
    """
    along, across, weighted = propagator.marginals(problem.force_tables)
    x, y = (one.x for one in problem.lattice.axes)
    rows = along[:, 0]
    dipole = problem.couplings @ [rows @ x, across @ y]
    force = np.array([rows @ one.first + across @ one.second for one in problem.forces])
    if problem.force_tables.size:
        force = force + weighted
    if problem.lattice.turns:
        # the forces that go with the velocity: Lorentz's, or Coriolis's
        speeds = problem.lattice.velocities(propagator.psi) * sum(problem.lattice.gauge)
        force = force - problem.couplings / problem.system.weights @ [speeds[1], -speeds[0]]
    within = problem.inside[0] @ along[:, 1]
    outside = (1.0 - problem.inside[0]) @ (rows - along[:, 1])
    norm = rows.sum()
    return np.array([norm, *dipole, *force, within, norm - within - outside, outside])


def row(
    problem: PlaneProblem, propagator: PlanePropagator, step: int, found: NDArray[np.float64]
) -> dict[str, Any]:
    """Observe the state at an output time.

    Parameters
    ----------
    found : (4 + 2 d,) float64
        As `sums` returns them.
    """
    d = len(problem.couplings)
    norm, dipole, force = float(found[0]), found[1 : 1 + d], found[1 + d : 1 + 2 * d]
    field = problem.electric(step * problem.dt)
    psi, lattice = propagator.field, problem.lattice
    out: dict[str, Any] = {
        "norm": norm,
        "dipole": dipole.copy(),
        # Ehrenfest, with what is left of the norm: the field acts on the part that is still there
        "acceleration": -force - problem.response @ field * norm,
        "absorbed": propagator.lost.copy(),
        "wall_density": _at_walls(psi, axis=lattice.radial) * lattice.cell,
    }
    if problem.system.pair:
        out["regions"] = found[1 + 2 * d :].copy()
    if (levels := problem.levels) is not None:
        states = propagator.resident(levels.states)
        out["populations"] = np.array(levels.populations(psi, states, lattice.cell))
    if problem.part_shares:
        density = abs(psi) ** 2
        shares = [[propagator.resident(one) for one in both] for both in problem.part_shares]
        out["parts"] = np.array([float(e @ density @ f) * lattice.cell for e, f in shares])
        out["norm_within"] = out["parts"][: len(problem.observed.norm_within)]
    return out


def map_row(problem: PlaneProblem, propagator: PlanePropagator) -> dict[str, Any]:
    """Observe the state at a time of the maps: density, energy, velocity, exchange, entanglement, currents."""
    lattice, psi = problem.lattice, propagator.psi
    first, second = problem.strides
    out: dict[str, Any] = {
        "step": propagator.step,
        "density": np.abs(psi[::first, ::second]) ** 2 / lattice.measure[::first],
        "energy": lattice.energy(psi),
        "velocity": problem.couplings @ lattice.velocities(psi),
    }
    if problem.system.planar:
        out["angular_momentum"] = lattice.angular_momentum(psi)
        out["vortices"] = vortices(psi)
    if lattice.nonlinear:
        out["mu"] = lattice.chemical_potential(psi)
    if problem.observed.density.currents:
        for name, current in zip(("current_1", "current_2"), lattice.currents(psi), strict=True):
            out[name] = current[::first, ::second] / lattice.measure[::first]
    if lattice.exchange:
        out["exchange_defect"] = float(np.abs(psi - lattice.exchange * psi.T).max() / np.abs(psi).max())
    if problem.observed.entanglement:
        kept = occupations(psi)
        out["purity"] = float((kept**2).sum())
        out["entropy"] = float(-(kept[kept > LEAST_OCCUPATION] * np.log(kept[kept > LEAST_OCCUPATION])).sum())
        out["occupations"] = np.pad(kept[:SHOWN], (0, max(0, SHOWN - kept.size)))
    return out


# natural orbitals whose occupations are stored
SHOWN = 20


def occupations(psi: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return the occupations of the natural orbitals of one coordinate, largest first, with the sum 1.

    They are the squares of the singular values of the state (n1, n2), which the smaller one of its two density matrices gives.
    """
    rows = psi if psi.shape[0] <= psi.shape[1] else psi.T
    matrix = rows @ rows.conj().T
    found = np.clip(np.linalg.eigvalsh(matrix)[::-1], 0.0, None)
    return np.asarray(found / found.sum())


def _at_walls(psi: Array, *, axis: bool) -> float:
    """Return the sum of ``|psi|^2`` beside the four walls; with an axis in place of the first of them beside three."""
    rows = psi[-1:] if axis else psi[[0, -1]]
    return float((abs(rows) ** 2).sum() + (abs(psi[:, [0, -1]]) ** 2).sum())
