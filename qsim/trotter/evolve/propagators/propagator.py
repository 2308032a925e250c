"""The propagator of a state: the one of the path of its problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.trotter.evolve.propagators.bonds import BondPropagator
from qsim.trotter.evolve.propagators.chebyshev import ChebyshevPropagator
from qsim.trotter.evolve.propagators.krylov import KrylovPropagator
from qsim.trotter.evolve.propagators.layers import LayerPropagator
from qsim.trotter.evolve.propagators.orbits import OrbitPropagator

if TYPE_CHECKING:
    from qsim.core.device.arrays import StateVector
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Path, Problem
    from qsim.trotter.model.hamiltonian import Hamiltonian

Propagator = LayerPropagator | ChebyshevPropagator | BondPropagator | KrylovPropagator | OrbitPropagator

PROPAGATORS: dict[Path, type[BondPropagator | ChebyshevPropagator | KrylovPropagator]] = {
    "bonds": BondPropagator,
    "chebyshev": ChebyshevPropagator,
    "krylov": KrylovPropagator,
}


def propagator(
    problem: Problem, hamiltonian: Hamiltonian, psi: StateVector, how: Choice, own: bool = False
) -> Propagator:
    """Return the propagator of a state in the sector of the problem, or in the whole space.

    Parameters
    ----------
    own : bool
        Whether psi may be overwritten.
    """
    path = problem.path
    # the evolver of the whole space copies the state itself, and serves expansions there as well
    if path == "layers" or (path == "chebyshev" and problem.sector is None):
        return LayerPropagator(problem, hamiltonian, psi, how, own)
    return PROPAGATORS[path](problem, hamiltonian, psi if own else psi.copy(), how)
