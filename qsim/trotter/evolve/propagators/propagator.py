"""The propagator of a state: the one of the path of its problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.trotter.evolve.propagators.bonds import BondPropagator
from qsim.trotter.evolve.propagators.chebyshev import ChebyshevPropagator
from qsim.trotter.evolve.propagators.krylov import KrylovPropagator
from qsim.trotter.evolve.propagators.orbits import OrbitPropagator

if TYPE_CHECKING:
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.model.hamiltonian import Hamiltonian

__all__ = ["Propagator", "propagator"]

Propagator = LayerPropagator | ChebyshevPropagator | BondPropagator | KrylovPropagator | OrbitPropagator


def propagator(
    problem: Problem, hamiltonian: Hamiltonian, psi: Any, how: Choice, own: bool = False
) -> Propagator:
    """Return what carries a state: in the sector of the problem, or in the whole space.

    Parameters
    ----------
    own : bool
        Whether psi may be overwritten.
    """
    if how.method == "krylov":
        return KrylovPropagator(problem, hamiltonian, psi if own else psi.copy(), how)
    if problem.sector is None:
        return LayerPropagator(problem, hamiltonian, psi, how, own)
    if problem.by_bonds:
        return BondPropagator(problem, hamiltonian, psi if own else psi.copy(), how)
    return ChebyshevPropagator(problem, hamiltonian, psi if own else psi.copy(), how)


