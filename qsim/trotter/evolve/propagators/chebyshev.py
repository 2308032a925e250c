"""A state in a sector of conserved Sz and the Chebyshev expansion that carries it, and the cost of such an evolution."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.evolution.accuracy import (
    MOST_TERMS,
    PRODUCT_ROUNDING,
    ROUNDING,
    Choice,
    rounded_angles,
)
from qsim.trotter.evolution.chebyshev import LANCZOS_STEPS, Chebyshev, coefficients
from qsim.trotter.evolution.distributed import SharedEvolver
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.evolution.shared_product import SharedOperator
from qsim.trotter.measurement.expectations import energy_and_variance
from qsim.trotter.measurement.spaces import moments_in, operator_in, upright

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.sectors.lanczos import Linear


def linear_in(problem: Problem, model: Model) -> Linear:
    """Return a model as it acts on the vectors of a problem: of a sector, or of the whole space."""
    if problem.links is not None:
        return SharedOperator(problem.device, model, problem.links)
    return operator_in(problem.space, problem.device, problem.frame.turned(model))


def expansion_in(problem: Problem, hamiltonian: Hamiltonian) -> Chebyshev:
    """Return the expansion of the propagator in the sector of a problem, or in the whole space."""
    model = hamiltonian.at(0.0)
    return Chebyshev(problem.device, model, linear=linear_in(problem, model))


def measured(
    problem: Problem, model: Model, linear: Linear, psi: NDArray[Any], axes: str, pairs: bool
) -> Moments:
    """Return the moments of a vector of a problem, and its energy with the variance.

    In a sector of Sz, and of larger spins, only pairs that observables need are taken; elsewhere a copy of the state of all
    spins is measured.

    Parameters
    ----------
    model, linear : Model, Linear
        H at that time, and how it acts on the vector.
    """
    device = problem.device
    # in a sector of Sz moments come from probabilities and flips
    if problem.charged or not problem.models.system.halves:
        space, vector = upright(problem.space, device, psi)
        moments = moments_in(space, device, vector, problem.observables.needs.across if pairs else [])
    elif problem.links is not None:
        shared = SharedEvolver(device, model, psi, problem.links, precision=problem.precision)
        moments = shared.measure(axes, pairs=pairs)
    else:
        # other vectors are unfolded to all spins and measured in all frames, in a copy since these round
        state = psi.copy() if problem.sector is None else problem.whole(psi)
        whole = Evolver(device, replace(model, cross=None), state, precision=problem.precision, own=True)
        moments = whole.measure(axes, pairs=pairs)
    if pairs:
        # once for an output time; the variance shows how far the state is from an eigenstate
        moments.energy, moments.variance = energy_and_variance(device, model, psi, linear=linear)
    return moments


class ChebyshevPropagator:
    """A state in a sector.

    Attributes
    ----------
    psi : (D,) complex
        On the device.
    products : int
        Products ``H psi`` so far.
    """

    # over the whole space
    passes = 0

    def __init__(self, problem: Problem, hamiltonian: Hamiltonian, psi: NDArray[Any], how: Choice) -> None:
        self.problem, self.how, self.psi = problem, how, psi
        self.expansion: Chebyshev | None = expansion_in(problem, hamiltonian)
        self.products = 0

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some steps; dt may be negative."""
        assert self.expansion is not None
        # steps of a constant H are one expansion
        self.products += self.expansion.advance(self.psi, steps * dt, self.how.tolerance).products

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state, and its energy with the variance; in a sector of the pairs that observables need."""
        assert self.expansion is not None
        return measured(self.problem, self.expansion.model, self.expansion.linear, self.psi, axes, pairs)


def chebyshev_choice(
    problem: Problem, hamiltonians: Sequence[Hamiltonian], fixed: object | None = None
) -> Choice:
    """Return the expansion and its error for an evolution without product formula; the dearest of some Hamiltonians counts.

    Each interval between output times is one expansion (several, where it is long), cut off where the rest of the series is below
    its share of the accuracy; the rounding of all products is added.

    Parameters
    ----------
    fixed : optional
        If given, the expansions take the bounds of the couplings for the spectrum.

    Raises
    ------
    NumericsError
        If the accuracy is out of reach, or the evolution too long.
    """
    accuracy = problem.evolution.accuracy
    # the deck has seen to it
    assert accuracy is not None
    precision = problem.precision
    ulp, intervals = ROUNDING[precision], np.diff(problem.times)
    count = max(1, len(intervals))
    # half of the accuracy for the tails of the series,
    # shared by the intervals; the rest is left for rounding
    tolerance = max(0.5 * accuracy / count, ulp)
    products, angles = 0, 0.0
    for hamiltonian in hamiltonians:
        # the rigorous ends
        if fixed is not None:
            low, high = hamiltonian.at(0.0).bounds
        else:
            low, high = expansion_in(problem, hamiltonian).bounds(problem.dtype)
        radius = 0.5 * (high - low)
        longest = float(max(intervals, default=0.0))
        if not radius * longest < MOST_TERMS:
            raise NumericsError(
                f"chebyshev takes {radius * longest:.2g} terms for an interval of {longest:g}; at most {MOST_TERMS:.0g}",
                hint="output times closer together",
            )
        # a grid of output times has few different lengths
        terms = {
            length: len(coefficients(radius * length, tolerance)[0]) for length in set(intervals.tolist())
        }
        products = max(products, sum(terms[length] for length in intervals.tolist()))
        angles = max(angles, rounded_angles(hamiltonian, problem.times[-1]))
    rounding = ulp * (8.0 + PRODUCT_ROUNDING[precision] * products)
    error = tolerance * count + rounding + angles
    # isclose: an accuracy that is exactly the sum passes
    if not (error <= accuracy or math.isclose(error, accuracy)):
        raise NumericsError(
            f"an error of {accuracy:.2g} after t = {problem.times[-1]:g} is out of reach in {precision} precision: rounding "
            f"alone makes {error - tolerance * count:.2g}",
            hint="ask for a larger evolve.accuracy",
        )
    return Choice("chebyshev", None, error, 1, products + LANCZOS_STEPS, tolerance)
