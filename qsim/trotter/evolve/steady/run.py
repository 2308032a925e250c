r"""The steady state of an open system, its slowest rates, and what follows from it.

Correlations follow by regression, ``<A(t) B> = Tr[A exp(G t) (B rho)]``, and spectra by the resolvent in a Krylov space.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import drive
from qsim.trotter.evolve.open.density import DensityView
from qsim.trotter.evolve.steady.correlations import emission, two_time
from qsim.trotter.evolve.steady.counting import counting, rates_of
from qsim.trotter.evolve.steady.result import SteadyResult
from qsim.trotter.evolve.steady.search import Search, zeros_of
from qsim.trotter.model.larger import SpinModel, spin_matrices
from qsim.trotter.model.open.channels import digits_of
from qsim.trotter.observables.steady import Emission, TwoTime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolve.steady.problem import SteadyProblem


def run(problem: SteadyProblem, monitor: Monitor) -> SteadyResult:
    """Find the steady state, observe it, and follow its correlations."""
    doubled = problem.doubled
    monitor.note(f"{doubled.space.dimension} elements of the density matrix")
    search = Search(problem, monitor.restored)
    with monitor.stage("steady"):
        drive(search, monitor, total=None, unit="products", what="steady")
    v, values = search.v, search.values
    assert v is not None
    assert values is not None
    assert search.errors is not None
    residual = float(np.linalg.norm(doubled.real_parts[0][1] @ doubled.real_of(v)))
    slowest = np.sort(-values.real)
    several = zeros_of(values)
    unique = several == 1
    if not unique:
        monitor.warn(
            f"the steady state is not unique: {several} rates or more are 0; what is told is the limit of the state in which all "
            "states are as likely"
        )
    if len(values) <= min(problem.block.modes, doubled.space.dimension - 1):
        monitor.warn(
            f"{len(values) - 1} of {problem.block.modes} slowest rates are found: the others are too close to each other"
        )
    states = math.sqrt(float(np.prod([two + 1.0 for two in doubled.twos])))
    gap = float(slowest[several]) if several < len(slowest) else math.nan
    # what is left of a deviation decays with the gap at least
    error = states * residual / gap if gap > 0.0 else math.nan
    model = problem.hamiltonian.at(0.0)
    view = DensityView(doubled, v, None, model)
    view.complete = True
    found: dict[str, Any] = {"total_sz": math.fsum(view.spins("z")), "current": _currents(problem, v)}
    for observable in problem.observables:
        found |= observable.values(view)
    if (asked := problem.observables.get(TwoTime)) is not None:
        with monitor.stage("two_time"):
            found |= two_time(problem, asked, v)
    if (light := problem.observables.get(Emission)) is not None:
        with monitor.stage("emission"):
            found |= emission(problem, light, v, gap, monitor)
    rates = rates_of(problem, v)
    if problem.block.counting and unique:
        with monitor.stage("counting"):
            found |= counting(problem, search.inverse, v, rates, error, gap)
    return SteadyResult(
        problem=problem,
        values=found,
        modes=values,
        mode_errors=search.errors,
        residual=residual,
        gap=gap,
        unique=unique,
        error=error,
        energy=view.energy(),
        purity=doubled.purity(v),
        jumps=rates,
    )


def _currents(problem: SteadyProblem, v: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return the flow of Sz by the couplings from sites 0 ... j to the others, of every j, (N - 1,)."""
    doubled, twos = problem.doubled, problem.doubled.twos
    model = digits_of(problem.hamiltonian.at(0.0), twos)
    found = []
    for cut in range(len(twos) - 1):
        bonds = {}
        for term in model.terms:
            if len(term.sites) == 2 and term.sites[0] <= cut < term.sites[1]:
                j, k = term.sites
                z = np.kron(spin_matrices(twos[j])[2], np.eye(twos[k] + 1))
                # d Sz / dt = i [H, Sz] of the left side
                bonds[j, k] = -1j * (term.matrix @ z - z @ term.matrix)
        empty = SpinModel.empty(twos)
        flow = SpinModel(empty.spins, empty.J, empty.h, None, twos, {}, bonds)
        found.append(doubled.mean(("flow", cut), flow, v).real)
    return np.array(found)
