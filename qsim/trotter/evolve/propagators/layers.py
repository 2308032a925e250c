"""A state of the whole space and the layers of a product formula, or the Chebyshev expansion, that carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.trotter.evolution import driven_steps
from qsim.trotter.evolution.accuracy import Choice
from qsim.trotter.evolution.chebyshev import Chebyshev
from qsim.trotter.evolution.distributed import SharedEvolver
from qsim.trotter.evolution.layers import Evolver, Tile
from qsim.trotter.evolution.shared_product import SharedOperator
from qsim.trotter.measurement.expectations import energy_and_variance

if TYPE_CHECKING:
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.states.vectors import Amplitudes


class LayerPropagator:
    """A state and its propagator: an evolver, or a Chebyshev expansion.

    Attributes
    ----------
    evolver : Evolver
        Holds the state, also where another expansion carries it.
    products : int
        Products ``H psi`` of a Chebyshev expansion so far.
    """

    def __init__(
        self, problem: Problem, hamiltonian: Hamiltonian, psi: Amplitudes, how: Choice, own: bool = False
    ) -> None:
        self.hamiltonian, self.how, self.products = hamiltonian, how, 0
        precision = problem.precision
        # a checkpoint may be continued on a device of another kind
        tiling = how.tiling[1] if how.tiling is not None and how.tiling[0] == problem.device.kind else ()
        self.evolver: Evolver | SharedEvolver
        # ranks share the state
        if (links := problem.links) is not None:
            initial = hamiltonian.at(0.0)
            self.evolver = SharedEvolver(problem.device, initial, psi, links, precision=precision, own=own)
            self.expansion = None
            if how.method == "chebyshev":
                linear = SharedOperator(problem.device, initial, links)
                self.expansion = Chebyshev(problem.device, hamiltonian, linear=linear)
            return
        self.evolver = Evolver(
            problem.device,
            hamiltonian.at(0.0),
            psi,
            precision=precision,
            own=own,
            tiling=[Tile(*tile) for tile in tiling],
        )
        # the evolver still holds and measures the state that an expansion carries
        self.expansion = Chebyshev(problem.device, hamiltonian) if how.method == "chebyshev" else None

    @property
    def psi(self) -> Any:
        """State (2^N,) on the device."""
        return self.evolver.psi

    @property
    def passes(self) -> int:
        """Passes over the state so far."""
        return self.evolver.passes

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state along some axes."""
        moments = self.evolver.measure(axes, pairs=pairs)
        if pairs and self.expansion is not None and self.expansion.model.cross is not None:
            # couplings of different components have no moments
            moments.energy, moments.variance = energy_and_variance(
                self.expansion.device, self.expansion.model, self.psi, linear=self.expansion.linear
            )
        return moments

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some steps from a time on; dt may be negative."""
        # one expansion over all steps; layers with constant couplings; stages with their own H
        if self.expansion is not None:
            self.products += self.expansion.advance(self.psi, steps * dt, self.how.tolerance).products
        elif self.hamiltonian.is_static:
            self.evolver.advance(self.how.method, dt, steps)
        else:
            how = self.how
            driven_steps.advance(self.evolver, self.hamiltonian, how.method, dt, steps, start, how.kinks)
