"""A state and the Krylov exponentials that carry it: of a constant H, and Magnus steps of one that depends on time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.physics.structure import CELLS, survey
from qsim.trotter.evolution.accuracy import PRODUCT_ROUNDING, ROUNDING, Choice, rounded_angles
from qsim.trotter.evolution.driven_steps import pieces
from qsim.trotter.evolution.krylov import LONGEST, ORDER, SHORTEST, VECTORS, Combined, Exponential
from qsim.trotter.evolve.propagators.chebyshev import linear_in, measured
from qsim.trotter.states.vectors import axpy, norm2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian

# distance of the points of Gauss from the middle of a step
NODE = math.sqrt(3.0) / 6.0
# weights of the nearer and the farther point in either half of a step
HEAVY, LIGHT = (
    0.25 + NODE,
    0.25 - NODE,
)
# places close to each other: a pulse, whose tails go on beyond them
PULSE = 5
# of a step that is tried, in units of the last place: it is the difference of two states
STEP_ROUNDING = 4.0
SAFETY, GROWTH, SHRINK = 0.9, 3.0, 0.2
# of the accuracy for the steps, of which a fifth for the exponentials of a driven one
SHARE = 0.8


class KrylovPropagator:
    """A state, in a sector or in the whole space, and the steps that carry it.

    Attributes
    ----------
    psi : (D,) complex
        On the device.
    products : int
        Products ``H psi`` so far.
    time : float
        At which the state is.
    """

    # of layers
    passes = 0
    expansion = None

    def __init__(self, problem: Problem, hamiltonian: Hamiltonian, psi: NDArray[Any], how: Choice) -> None:
        self.problem, self.hamiltonian, self.how, self.psi = problem, hamiltonian, how, psi
        self.time = 0.0
        # parts of H with their profiles; the constant one has profile 1
        parts = [(_one, hamiltonian.static), *hamiltonian.driven]
        self.parts = [(f, linear_in(problem, model)) for f, model in parts]
        self.exponential = Exponential(problem.device, psi.shape[0], psi.dtype)
        self.spare: Any = None

    @property
    def products(self) -> int:
        """Products with all parts of H so far."""
        return self.exponential.products * len(self.parts)

    @products.setter
    def products(self, count: int) -> None:
        self.exponential.products = count // len(self.parts)

    def _mean(self, times: Sequence[float], weights: Sequence[float]) -> Combined:
        """Return ``sum_i w_i H(t_i)``; parts that do nothing are left out."""
        entries = [
            (math.fsum(w * f(t) for t, w in zip(times, weights, strict=True)), linear)
            for f, linear in self.parts
        ]
        # at least one part, since the sum must have a size
        return Combined([entry for entry in entries if entry[0] != 0.0] or entries[:1])

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state, and its energy with the variance."""
        model, linear = self.hamiltonian.at(self.time), self._mean((self.time,), (1.0,))
        return measured(self.problem, model, linear, self.psi, axes, pairs)

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some intervals of dt from a time on; dt may be negative."""
        for number in range(steps):
            begin = start + number * dt
            # a constant H needs no quadrature: one exponential of the interval
            if self.hamiltonian.is_static:
                self.exponential.advance(
                    self._mean((0.0,), (1.0,)), self.psi, dt, self.how.tolerance * abs(dt)
                )
            else:
                for time, length in pieces(begin, dt, self.how.kinks):
                    self._driven(time, length)
            self.time = begin + dt

    def _driven(self, start: float, length: float) -> None:
        """Carry the state over a time in which the profiles are smooth."""
        # steps between kinks; h is carried on from one to the next
        end, shortest = self.problem.times[-1], SHORTEST * abs(length)
        sign, done = math.copysign(1.0, length), 0.0
        # within the part: at its ends a profile may jump
        strength = max(self._size(start + x * length) for x in (1e-3, 0.5, 0.999))
        # the first try: within the inverse field the order of the formula shows
        h = min(abs(length), LONGEST * end, 1.0 / max(strength, 1e-300))
        rate = self._rate(abs(length))
        while done < abs(length):
            h = min(h, abs(length) - done, LONGEST * end)
            # no tiny last step from rounding
            if abs(length) - done - h < 1e-12 * abs(length):
                h = abs(length) - done
            error = self._tried(start + sign * done, sign * h, rate)
            # below rounding no step can be, however short
            allowed = max(rate * h, self._rounding(strength * h))
            # a step whose error is allowed is kept; else it is tried again, shorter
            if error <= allowed or h <= shortest:
                if error > allowed:
                    raise NumericsError(
                        f"no step is accurate enough at t = {start + sign * done:g}: one of {h:.2g} has an error of {error:.2g}",
                        hint="ask for a larger evolve.accuracy",
                    )
                done += h
                self.psi[...] = self.spare
            # h^4 per time: the error of a step over h, relative to the allowed one
            ratio = (allowed / error) ** (1.0 / ORDER) if error > 0.0 else GROWTH
            h = max(h * min(GROWTH, max(SHRINK, SAFETY * ratio)), shortest)

    def _rate(self, length: float) -> float:
        """Return the error per time in a part of the evolution: half of all by time, the other half the same for every part.

        By time alone narrow pulses would have none.
        """
        parts = len(self.how.kinks) + max(1, len(self.problem.times) - 1)
        return 0.5 * self.how.tolerance * (1.0 + self.problem.times[-1] / (parts * length))

    def _rounding(self, angle: float) -> float:
        """Return the rounding error of a step in which every spin turns by at most an angle."""
        return self.exponential.ulp * (STEP_ROUNDING + self.hamiltonian.spins * angle)

    def _size(self, time: float) -> float:
        """Return the largest field that a spin feels at a time."""
        return self.hamiltonian.at(time).strongest

    def _tried(self, start: float, h: float, rate: float) -> float:
        """Make a step of H(t) in two halves, whose state is left in `spare`; return its error."""
        # of four exponentials
        tolerance = 0.05 * rate * abs(h)
        # the step as a whole and in two halves: their distance,
        # over 2^4 - 1, is the error of the halves, which are kept
        whole = self.psi.copy()
        self._magnus(whole, start, h, tolerance)
        self.spare = self.psi.copy()
        self._magnus(self.spare, start, 0.5 * h, tolerance)
        self._magnus(self.spare, start + 0.5 * h, 0.5 * h, tolerance)
        axpy(-1.0, self.spare, whole)
        # 4: exponentials of the halves
        links = self.problem.links
        return (
            math.sqrt(norm2(whole, links) / norm2(self.spare, links)) / (2.0**ORDER - 1.0) + 4.0 * tolerance
        )

    def _magnus(self, psi: NDArray[Any], start: float, h: float, tolerance: float) -> None:
        # Gauss nodes of the step (1/2 -+ sqrt(3)/6), with weights a and b of the theory page
        times = (start + (0.5 - NODE) * h, start + (0.5 + NODE) * h)
        for weights in ((HEAVY, LIGHT), (LIGHT, HEAVY)):
            self.exponential.advance(self._mean(times, weights), psi, h, tolerance)


def _one(t: float) -> float:
    return 1.0


def _graded(places: Sequence[float], end: float) -> set[float]:
    """Return the places of kinks, and more at growing distances around narrow pulses: steps end within their tails."""
    # steps may be long beyond a pulse, but its tails still bend: ends at distances that double
    ends = set(places)
    times = np.array(places)
    for run in np.split(times, np.flatnonzero(np.diff(times) > 2.0 * end / CELLS) + 1):
        if len(run) >= PULSE:
            width = run[-1] - run[0]
            away = width * 2.0 ** np.arange(-5.0, max(-4.0, math.log2(LONGEST * end / width)))
            ends |= {float(t) for t in (*(run[0] - away), *(run[-1] + away)) if 0.0 < t < end}
    return ends


def krylov_choice(problem: Problem, hamiltonians: Sequence[Hamiltonian]) -> Choice:
    """Return the accuracy per time that steps are held to, and the kinks at which they end.

    Raises
    ------
    NumericsError
        If the accuracy is below the rounding errors.
    """
    accuracy, end = problem.evolution.accuracy, problem.times[-1]
    # the deck has seen to it
    assert accuracy is not None
    places: set[float] = set()
    rounding = 0.0
    for hamiltonian in hamiltonians:
        kinks, _ = survey([f for f, _ in hamiltonian.driven], end) if end > 0.0 else ([], 0)
        places |= _graded(sorted(t for t, _ in kinks), end)
        model = hamiltonian.average(end, sorted(places))
        low, high = model.bounds
        # products of the whole evolution, roughly: its phase, and a full space for each output time
        products = (high - low) * end + VECTORS * len(problem.times)
        ulp = ROUNDING[problem.precision]
        angles = rounded_angles(model, end)
        rounding = max(rounding, ulp * (8.0 + PRODUCT_ROUNDING[problem.precision] * products) + angles)
    # rounding has the part of the accuracy that the steps leave
    if rounding > (1.0 - SHARE) * accuracy:
        raise NumericsError(
            f"an error of {accuracy:.2g} after t = {end:g} is out of reach in {problem.precision} precision: rounding "
            f"alone makes {rounding:.2g}",
            hint="ask for a larger evolve.accuracy",
        )
    rate = SHARE * accuracy / end if end > 0.0 else accuracy
    return Choice("krylov", None, SHARE * accuracy + rounding, 1, 0.0, rate, kinks=tuple(sorted(places)))
