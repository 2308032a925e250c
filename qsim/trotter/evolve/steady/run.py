r"""The steady state: the eigenvector of ``exp(G tau)`` to the eigenvalue 1, with the next ones, and what follows from it.

G is not Hermitian and its spectrum a region; in exp(G tau) the steady state is the eigenvalue of the largest modulus, and
Arnoldi's method finds it without an inverse (Nation and others, PRE 91, 013307 (2015) compare others).  With eigenvalues
``lambda = exp((-rate + i frequency) tau)``.  Correlations follow by regression, ``<A(t) B> = Tr[A exp(G t) (B rho)]``, and
spectra by the resolvent in a Krylov space.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress, drive
from qsim.trotter.evolve.open.arnoldi import Arnoldi
from qsim.trotter.evolve.open.density import VECTORS, DensityView
from qsim.trotter.evolve.steady.correlations import emission, two_time
from qsim.trotter.evolve.steady.result import SteadyResult
from qsim.trotter.model.larger import SpinModel, spin_matrices
from qsim.trotter.model.open.channels import digits_of
from qsim.trotter.observables.steady import Emission, TwoTime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolve.steady.problem import SteadyProblem

__all__ = ["run"]

# elements up to which G is diagonalised
DENSE = 60
# of an eigenvalue 1 that is degenerate, times tau
UNIQUE = 1e-8
# over the largest field of a spin: time of a propagation
TAU = 2.0
# inverse rates after which only steady parts are left
LONG = 40.0
RESTARTS = 300
# of the random part of the start
SEED = 1
# vectors of the search: more take fewer propagations
BASIS = 40


class Search:
    """The eigenvectors of the largest eigenvalues."""

    def __init__(self, problem: SteadyProblem, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        self.values: NDArray[np.complex128] | None = None
        self.v: NDArray[np.complex128] | None = None
        self.products = 0
        if restored is not None and restored.get("v") is not None:
            self.values, self.v = np.array(restored["values"]), np.array(restored["v"])

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: a search that was interrupted begins anew."""
        return {"values": self.values, "v": self.v}

    def advance(self, report: Report) -> None:
        """Find the steady state and the slowest rates."""
        if self.v is not None:
            return
        doubled, block = self.problem.doubled, self.problem.block
        G = doubled.real_parts[0][1]
        size = G.shape[0]
        if size <= DENSE:
            values, vectors = np.linalg.eig(G.toarray())
            order = np.argsort(-values.real)[: block.modes + 1]
            self._take(values[order], vectors[:, order[0]], report)
            return
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

        strength = max(self.problem.hamiltonian.static.strongest, 1e-6)
        tau = TAU / strength if block.tau == "auto" else block.tau
        exponential = Arnoldi(size, VECTORS, np.float64)
        # a tenth of the tolerance of d rho / dt for each propagation
        tolerance = max(0.01 * block.tolerance * tau, 1e-15)

        def propagated(x: NDArray[np.float64]) -> NDArray[np.float64]:
            report(Progress(exponential.products))
            return exponential.advance(lambda y: G @ y, np.ravel(x), tau, tolerance)

        count = block.modes + 1
        operator = LinearOperator((size, size), matvec=propagated, dtype=np.float64)
        try:
            values, vectors = eigs(
                operator,
                k=count,
                v0=_start(doubled.real_of(doubled.mixed())),
                ncv=BASIS,
                tol=0.1 * block.tolerance,
                maxiter=RESTARTS,
            )
        except ArpackNoConvergence as error:
            raise NumericsError(
                f"the steady state is not found after {exponential.products} products",
                hint="raise steady.tau, or ask for fewer steady.modes",
            ) from error
        self.products = exponential.products
        order = np.argsort(-np.abs(values))
        self._take(np.log(values[order]) / tau, vectors[:, order[0]], report)

    def _take(self, values: NDArray[Any], vector: NDArray[Any], report: Report) -> None:
        doubled = self.problem.doubled
        self.values = values
        rates = -values.real
        several = int(np.count_nonzero(rates <= UNIQUE * max(1.0, float(np.abs(values).max()))))
        if several > 1:
            vector = self._limit(report)
        # an eigenvector of a real matrix to a real eigenvalue is real but for its phase
        vector = (vector / vector[np.argmax(np.abs(vector))]).real
        v = doubled.of_real(vector)
        self.v = v / doubled.trace(v)
        report(Progress())

    def _limit(self, report: Report) -> NDArray[np.float64]:
        """Return what the state in which all states are as likely becomes: the start decides where several states are steady."""
        doubled = self.problem.doubled
        v, G = doubled.real_of(doubled.mixed()), doubled.real_parts[0][1]
        exponential = Arnoldi(v.size, VECTORS, np.float64)
        t = 1.0
        for _ in range(200):
            if np.linalg.norm(G @ v) <= self.problem.block.tolerance:
                break
            v = exponential.advance(lambda y: G @ y, v, t, 1e-3 * self.problem.block.tolerance)
            t = min(2.0 * t, LONG)
            report(Progress())
        return v


def _start(mixed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a start of the search: a symmetric one alone would not reach modes that change under a symmetry of G."""
    noise = np.random.default_rng(SEED).normal(size=mixed.size)
    return mixed + noise * float(np.linalg.norm(mixed) / np.linalg.norm(noise))


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
    residual = float(np.linalg.norm(doubled.real_parts[0][1] @ doubled.real_of(v)))
    rates = np.sort(-values.real)
    several = int(np.count_nonzero(rates <= UNIQUE * max(1.0, float(np.abs(values).max()))))
    unique = several == 1
    if not unique:
        monitor.warn(
            f"the steady state is not unique: {several} rates or more are 0; what is told is the limit of the state in which all "
            "states are as likely"
        )
    states = math.sqrt(float(np.prod([two + 1.0 for two in doubled.twos])))
    gap = float(rates[several]) if several < len(rates) else math.nan
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
    return SteadyResult(
        problem=problem,
        values=found,
        modes=values,
        residual=residual,
        gap=gap,
        unique=unique,
        error=error,
        energy=view.energy(),
        purity=doubled.purity(v),
        jumps=_rates(problem, v),
    )


def _rates(problem: SteadyProblem, v: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return the rate of the jumps of every entry of the deck."""
    from qsim.trotter.model.open.channels import decays_of

    doubled = problem.doubled
    entries = sorted({channel.entry for channel in problem.channels})
    found = np.zeros(entries[-1] + 1)
    for entry in entries:
        own = [channel for channel in problem.channels if channel.entry == entry]
        for number, decay in enumerate(decays_of(own, doubled.twos)):
            model = digits_of(decay.model, doubled.twos)
            found[entry] += decay.constant + doubled.mean(("rate", entry, number), model, v).real
    return found


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
