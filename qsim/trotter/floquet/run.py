"""Kicked and driven cycles: a state in a space that every step conserves, observed once in a cycle of constant Hamiltonians.

    U = exp(-i H_m t_m) ... exp(-i H_1 t_1),   H_k: the terms of step k.

Steps without spin flips are phases; the others are expansions of Chebyshev polynomials, so that there is no error of a splitting.
The quasi-energies theta of U = exp(i theta) come from the dense matrix.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.core.run.stops.aside import aside
from qsim.core.statistics import error_of_mean
from qsim.trotter.evolution.accuracy import PRODUCT_ROUNDING, ROUNDING
from qsim.trotter.evolution.chebyshev import Chebyshev
from qsim.trotter.floquet.result import FloquetResult
from qsim.trotter.levels.run import gap_ratios, warn_of_degenerate
from qsim.trotter.measurement.spaces import moments_in, upright
from qsim.trotter.measurement.views import StateView
from qsim.trotter.observables.memory import Imbalance
from qsim.trotter.observables.spins import Sz
from qsim.trotter.sectors.lanczos import dot
from qsim.trotter.sectors.linear import matrix_of
from qsim.trotter.sectors.states import initial_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import StateVector
    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.floquet.problem import FloquetProblem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Model

__all__ = ["run"]

# spacing of two angles below which they are degenerate
SAME = 1e-12
# sum of <Sz>^2 at the start, below which there is no pattern to compare with
NO_PATTERN = 1e-20


class Step:
    """One step of the cycle.

    Parameters
    ----------
    problem : FloquetProblem
    model : Model
        H of the step.
    time : float
    """

    def __init__(self, problem: FloquetProblem, model: Model, time: float) -> None:
        device, sector = problem.place, problem.space
        self.time = time
        self.operator = problem.operator(sector, model)
        self.phases: Any = None
        self.expansion: Chebyshev | None = None
        # a step without flips is diagonal: phases, made once
        if not model.diagonal:
            self.expansion = Chebyshev(device, model, linear=self.operator)
            return
        # H of a diagonal step times a vector of ones is its diagonal
        with device.use():
            ones = device.xp.ones(sector.dimension, self.operator.dtype)
            diagonal = device.xp.empty_like(ones)
            self.operator.apply(ones, diagonal)
            self.phases = device.xp.exp(-1j * time * diagonal.real)

    def advance(self, psi: NDArray[Any], tolerance: float, poll: Callable[[], None]) -> int:
        """Apply the step to a state in place; return how many products H psi that took."""
        if self.expansion is None:
            psi *= self.phases
            return 1
        return self.expansion.advance(psi, self.time, tolerance, poll).products

    def matrix(self, look: Callable[[], None]) -> NDArray[np.complex128]:
        """Return the propagator as a dense matrix on the host; look for a stop meanwhile."""
        if self.expansion is None:
            return np.diag(self.operator.device.to_host(self.phases))
        made = self.operator.device.to_host(matrix_of(self.operator, look))
        # exp(-i H t) from the eigenstates of the step
        energies, vectors = aside(partial(np.linalg.eigh, made), look)
        turned = vectors * np.exp(-1j * self.time * energies)
        return np.asarray(aside(lambda: turned @ vectors.conj().T, look), np.complex128)


class Computation:
    """The state after `done` cycles and its observations."""

    def __init__(self, problem: FloquetProblem, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        device, sector, block = problem.place, problem.space, problem.block
        self.steps = [
            Step(problem, problem.frame.turned(problem.step_model(k)), step.time)
            for k, step in enumerate(block.cycle)
        ]
        seed = problem.models.seed

        def start() -> StateVector:
            # the deck has seen to it
            assert problem.start is not None
            return initial_state(problem.start, sector, device, np.complex128, seed=seed)

        self.first = start() if problem.observables.needs.start else None
        self.rows: dict[str, list[Any]] = {}
        self.done = self.products = 0
        if restored is None:
            self.psi = start()
        else:
            self.psi = device.asarray(restored["psi"])
            self.done, self.products = int(restored["done"]), int(restored["products"])
            self.rows = {name: list(values) for name, values in restored["rows"].items()}

    @property
    def tolerance(self) -> float:
        """Error of one step: its share of the accuracy."""
        block = self.problem.block
        # half of the accuracy for the series, shared by all steps; the other half is left for rounding
        return max(0.5 * block.accuracy / (block.cycles * len(block.cycle)), ROUNDING["double"])

    @property
    def error(self) -> float:
        """Claimed error of the state at the end: the tails of all series, and rounding of all products."""
        block = self.problem.block
        rounding = ROUNDING["double"] * (8.0 + PRODUCT_ROUNDING["double"] * self.products)
        return self.tolerance * block.cycles * len(block.cycle) + rounding

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        rows = {name: np.array(values) for name, values in self.rows.items()}
        return {"psi": self.psi, "done": self.done, "products": self.products, "rows": rows}

    def advance(self, report: Report) -> None:
        """Make the cycles that are left."""
        block = self.problem.block
        # the start is the first row
        if not self.rows:
            self._observe()
        while self.done < block.cycles:
            for step in self.steps:
                self.products += step.advance(
                    # within a cycle nothing can be saved: a checkpoint holds whole cycles
                    self.psi,
                    self.tolerance,
                    lambda: report(Progress(savable=False)),
                )
            self.done += 1
            if self.done % block.every == 0 or self.done == block.cycles:
                self._observe()
            report(Progress(self.done))

    def _observe(self) -> None:
        problem = self.problem
        space, psi = upright(problem.space, problem.place, self.psi)
        moments = moments_in(space, problem.place, psi, problem.observables.needs.across)
        view = Stroboscopic(self, moments)
        row: dict[str, Any] = {"cycle": self.done, "norm": moments.norm, "sz": view.spins("z")}
        for observable in problem.observables:
            # sz is stored in any case, and the imbalance follows from its rows after the last cycle
            if not isinstance(observable, Sz | Imbalance):
                row |= observable.values(view)
        for name, value in row.items():
            self.rows.setdefault(name, []).append(value)


class Stroboscopic(StateView):
    """The state between two cycles as observables see it."""

    def __init__(self, computation: Computation, moments: Moments) -> None:
        problem = computation.problem
        super().__init__(problem.space, problem.place, computation.psi, moments)
        self.computation = computation

    def fidelity(self, state: str) -> float:
        """Return the overlap with the initial state."""
        first = self.computation.first
        # the observable needs it
        assert first is not None
        return abs(dot(first, self.computation.psi)) ** 2 / self.moments.norm


def run(problem: FloquetProblem, monitor: Monitor) -> FloquetResult:
    """Carry the state through all cycles, and find the quasi-energies if the deck names them."""
    sector, block = problem.space, problem.block
    monitor.note(f"sector {sector}: {sector.dimension} of {problem.model.dimension} states")
    made = Computation(problem, monitor.restored)
    with monitor.stage("cycles"):
        drive(made, monitor, total=block.cycles, unit="cycles", what="floquet", done=made.done)
    rows = {name: np.array(values) for name, values in made.rows.items()}
    if made.error > block.accuracy:
        monitor.warn(
            f"floquet.accuracy: {block.accuracy:.2g} is out of reach; rounding of {made.products} products makes {made.error:.2g}"
        )
    # the pattern <S^z_j> of the start, against which later ones are projected
    if Imbalance in problem.observables:
        pattern = rows["sz"][0]
        square = float(pattern @ pattern)
        if square > NO_PATTERN:
            rows["imbalance"] = rows["sz"] @ pattern / square
        else:
            monitor.warn("imbalance: there is no pattern <Sz> at the start; it is left out")
    angles = ratios = None
    if block.quasienergies:
        with monitor.stage("quasi-energies"):
            # What is saved at a stop are all cycles.
            angles = quasienergies(made.steps, sector.dimension, lambda: monitor.poll(made.state))
        # on a circle n angles have n spacings and n ratios of neighbouring ones
        if angles.size > 2:
            # on a circle the last angle is a neighbour of the first
            around = np.concatenate([angles, angles[:2] + 2.0 * np.pi])
            ratios = monitor.judged("gap_ratio", lambda: gap_ratios(around, SAME), None)
            if ratios is not None:
                warn_of_degenerate(monitor, ratios.size, angles.size, "quasi-energies")
                ratios = ratios if ratios.size else None
    return FloquetResult(
        problem,
        sector,
        rows,
        made.error,
        made.products,
        angles,
        None if ratios is None else float(ratios.mean()),
        None if ratios is None else error_of_mean(ratios),
    )


def quasienergies(
    steps: list[Step], size: int, look: Callable[[], None] = lambda: None
) -> NDArray[np.float64]:
    """Return the angles theta of the eigenvalues exp(i theta) of a cycle, ascending in (-pi, pi]; look for a stop meanwhile."""
    cycle = np.eye(size, dtype=np.complex128)
    for step in steps:
        # the first step acts first
        made = step.matrix(look)
        cycle = aside(partial(np.matmul, made, cycle), look)
    return np.asarray(np.sort(np.angle(aside(partial(np.linalg.eigvals, cycle), look))), np.float64)
