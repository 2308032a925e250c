"""Evolution by exponentials in Krylov spaces, with steps found on the way: of a constant H, and of one that depends on time.

**One exponential.** m steps of Lanczos from psi give ``exp(-i H h) psi = V exp(-i T h) e_1``, up to an error of at most

    beta_m int_0^h |[exp(-i T s)]_(m,1)| ds,

since the evolution is unitary (Saad, SIAM J. Numer. Anal. 29, 209 (1992)).  m grows until that is below the tolerance; if it
does not with the most vectors, the step is shortened, for which T needs no more products.

**H(t).** A step of the commutator-free Magnus integrator of order 4 is two exponentials of weighted means of H at the two points
of Gauss (Blanes and Moan, Appl. Numer. Math. 56, 1519 (2006)).  Each is made once and again as two halves; the distance over 15
is the error of the halves, which are kept, and decides about the step.  The errors of unitary steps add up at most.  Steps end at
the kinks of the profiles.

A share of the accuracy that is less than what rounding makes of a step, ``eps (1 + ||H|| h)``, is not asked for: in narrow pulses
there are few such steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from qsim.core.errors import NumericsError
from qsim.trotter.evolution.accuracy import PRODUCT_ROUNDING, ROUNDING, Choice, rounded_angles
from qsim.trotter.evolution.carried import linear_in, measured
from qsim.trotter.evolution.driven import pieces
from qsim.trotter.model.structure import CELLS, survey
from qsim.trotter.states.vectors import axpy, norm2, overlap, scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.kernels.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.problem import Problem
    from qsim.trotter.sectors.lanczos import Linear

__all__ = ["VECTORS", "Exponential", "KrylovCarrier", "krylov_choice"]

VECTORS = 20  # of a Krylov space at most
POINTS = 24  # of the integral in the bound of an error
NODE = math.sqrt(3.0) / 6.0  # distance of the points of Gauss from the middle of a step
HEAVY, LIGHT = (
    0.25 + NODE,
    0.25 - NODE,
)  # weights of the nearer and the farther point in either half of a step
ORDER = 4
LONGEST = (
    1.0 / 64.0
)  # of the evolution: steps of H(t), so that none passes over what the profiles do in between
SHORTEST = 1e-9  # of a time in which the profiles are smooth
PULSE = 5  # places close to each other: a pulse, whose tails go on beyond them
STEP_ROUNDING = 4.0  # of a step that is tried, in units of the last place: it is the difference of two states
SAFETY, GROWTH, SHRINK = 0.9, 3.0, 0.2
SHARE = 0.8  # of the accuracy for the steps, of which a fifth for the exponentials of a driven one


@dataclass
class Combined:
    """A weighted sum of Hamiltonians."""

    parts: Sequence[tuple[float, Linear]]

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.parts[0][1].size

    @property
    def needs_work(self) -> bool:
        """Whether `apply` needs a vector as work space."""
        return any(linear.needs_work for _, linear in self.parts)

    def apply(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out``."""
        for number, (weight, linear) in enumerate(self.parts):
            first = number == 0
            linear.apply(psi, out, alpha * weight, beta if first else 0.0, gamma if first else 1.0, work)


class Exponential:
    """Exponentials in Krylov spaces of one size; the vectors are kept from one to the next."""

    def __init__(self, device: Device, size: int, dtype: Any) -> None:
        self.device, self.most = device, min(VECTORS, size)
        self.ulp = 0.5 * float(np.finfo(dtype).eps)
        with device.use():
            self.space = [device.xp.empty(size, dtype) for _ in range(self.most + 1)]
            self.work = device.xp.empty(size, dtype)
        self.products = 0

    def advance(self, linear: Linear, psi: NDArray[Any], t: float, tolerance: float) -> None:
        """Replace psi by ``exp(-i H t) psi``; t may be negative.

        Parameters
        ----------
        tolerance : float
            Error, relative to the norm.
        """
        left = t
        while left != 0.0:
            left -= self._step(linear, psi, left, tolerance / abs(t))

    def _step(self, linear: Linear, psi: NDArray[Any], t: float, rate: float) -> float:
        """Advance psi by at most t with an error of at most `rate` per time; return by how much."""
        norm = math.sqrt(norm2(psi))
        if norm == 0.0:
            return t
        alpha: list[float] = []
        beta: list[float] = []
        v = self.space
        scale(1.0 / norm, psi, out=v[0])
        done = t
        for k in range(self.most):
            linear.apply(v[k], v[k + 1], work=self.work)
            self.products += 1
            if k:
                axpy(-beta[-1], v[k - 1], v[k + 1])
            alpha.append(overlap(v[k], v[k + 1]).real)
            axpy(-alpha[-1], v[k], v[k + 1])
            beta.append(math.sqrt(norm2(v[k + 1])))
            size = max(map(abs, alpha)) + max(beta)
            if beta[-1] <= 1e-14 * size or k + 1 == linear.size:  # the space is invariant
                done = t
                break
            if _bound(alpha, beta, t) <= max(rate, self.ulp * size) * abs(t):
                break
            scale(1.0 / beta[-1], v[k + 1])
        else:
            done = _longest(alpha, beta, t, max(rate, self.ulp * size))
        values, vectors = _levels(alpha, beta)
        numbers = vectors @ (np.exp(-1j * done * values) * vectors[0])
        scale(norm * complex(numbers[0]), v[0], out=psi)
        for k in range(1, len(alpha)):
            axpy(norm * complex(numbers[k]), v[k], psi)
        return done


def _levels(alpha: list[float], beta: list[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if len(alpha) == 1:
        return np.array(alpha), np.ones((1, 1))
    values, vectors = eigh_tridiagonal(np.array(alpha), np.array(beta[: len(alpha) - 1]))
    return np.asarray(values), np.asarray(vectors)


def _bound(alpha: list[float], beta: list[float], t: float) -> float:
    """Return the bound of the error of a step t, the integral from above by the larger end of each part."""
    values, vectors = _levels(alpha, beta)
    times = np.linspace(0.0, t, POINTS + 1)
    last = np.abs(np.exp(-1j * np.outer(times, values)) @ (vectors[0] * vectors[-1]))
    return float(beta[-1] * abs(t) / POINTS * np.maximum(last[1:], last[:-1]).sum())


def _longest(alpha: list[float], beta: list[float], t: float, rate: float) -> float:
    """Return the longest step (a fraction of t) whose error is below its share.

    Raises
    ------
    NumericsError
        If even a tiny one is not.
    """
    fraction = 1.0
    while _bound(alpha, beta, fraction * t) > rate * fraction * abs(t):
        fraction *= 0.8
        if fraction < SHORTEST:
            raise NumericsError(
                f"no Krylov step reaches an error of {rate:.2g} per time",
                hint="ask for a larger evolve.accuracy",
            )
    return fraction * t


class KrylovCarrier:
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

    passes = 0  # of layers
    expansion = None

    def __init__(self, problem: Problem, hamiltonian: Hamiltonian, psi: NDArray[Any], how: Choice) -> None:
        self.problem, self.hamiltonian, self.how, self.psi = problem, hamiltonian, how, psi
        self.time = 0.0
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
        found = [
            (math.fsum(w * f(t) for t, w in zip(times, weights, strict=True)), linear)
            for f, linear in self.parts
        ]
        return Combined([entry for entry in found if entry[0] != 0.0] or found[:1])

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state, and its energy with the variance."""
        model, linear = self.hamiltonian.at(self.time), self._mean((self.time,), (1.0,))
        return measured(self.problem, model, linear, self.psi, axes, pairs)

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some intervals of dt from a time on; dt may be negative."""
        for number in range(steps):
            begin = start + number * dt
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
        end, shortest = self.problem.times[-1], SHORTEST * abs(length)
        sign, done = math.copysign(1.0, length), 0.0
        # within the part: at its ends a profile may jump
        strength = max(self._size(start + x * length) for x in (1e-3, 0.5, 0.999))
        h = min(abs(length), LONGEST * end, 1.0 / max(strength, 1e-300))
        rate = self._rate(abs(length))
        while done < abs(length):
            h = min(h, abs(length) - done, LONGEST * end)
            if abs(length) - done - h < 1e-12 * abs(length):
                h = abs(length) - done
            error = self._tried(start + sign * done, sign * h, rate)
            allowed = max(rate * h, self._rounding(strength * h))
            if error <= allowed or h <= shortest:
                if error > allowed:
                    raise NumericsError(
                        f"no step is accurate enough at t = {start + sign * done:g}: one of {h:.2g} has an error of {error:.2g}",
                        hint="ask for a larger evolve.accuracy",
                    )
                done += h
                self.psi[...] = self.spare
            ratio = (allowed / error) ** (1.0 / ORDER) if error > 0.0 else GROWTH
            h = max(h * min(GROWTH, max(SHRINK, SAFETY * ratio)), shortest)

    def _rate(self, length: float) -> float:
        """Return the error per time in a part of the evolution: half of all by time, the other half the same for every part.

        By time alone narrow pulses would have none.
        """
        parts = len(self.how.kinks) + max(1, len(self.problem.times) - 1)
        return 0.5 * self.how.tolerance * (1.0 + self.problem.times[-1] / (parts * length))

    def _rounding(self, angle: float) -> float:
        """Return what rounding makes of a step in which every spin turns by an angle at most."""
        return self.exponential.ulp * (STEP_ROUNDING + self.hamiltonian.spins * angle)

    def _size(self, time: float) -> float:
        """Return the largest field that a spin feels at a time."""
        model = self.hamiltonian.at(time)
        return float((0.5 * np.abs(model.J).sum(axis=2) + np.abs(model.h)).max(initial=0.0))

    def _tried(self, start: float, h: float, rate: float) -> float:
        """Make a step of H(t) in two halves, whose state is left in `spare`; return its error."""
        tolerance = 0.05 * rate * abs(h)  # of four exponentials
        whole = self.psi.copy()
        self._magnus(whole, start, h, tolerance)
        self.spare = self.psi.copy()
        self._magnus(self.spare, start, 0.5 * h, tolerance)
        self._magnus(self.spare, start + 0.5 * h, 0.5 * h, tolerance)
        axpy(-1.0, self.spare, whole)
        return math.sqrt(norm2(whole) / norm2(self.spare)) / (2.0**ORDER - 1.0) + 4.0 * tolerance

    def _magnus(self, psi: NDArray[Any], start: float, h: float, tolerance: float) -> None:
        times = (start + (0.5 - NODE) * h, start + (0.5 + NODE) * h)
        for weights in ((HEAVY, LIGHT), (LIGHT, HEAVY)):
            self.exponential.advance(self._mean(times, weights), psi, h, tolerance)


def _one(t: float) -> float:
    return 1.0


def _graded(places: Sequence[float], end: float) -> set[float]:
    """Return the places of kinks, and more at growing distances around narrow pulses: steps end within their tails."""
    found = set(places)
    times = np.array(places)
    for run in np.split(times, np.flatnonzero(np.diff(times) > 2.0 * end / CELLS) + 1):
        if len(run) >= PULSE:
            width = run[-1] - run[0]
            away = width * 2.0 ** np.arange(-5.0, max(-4.0, math.log2(LONGEST * end / width)))
            found |= {float(t) for t in (*(run[0] - away), *(run[-1] + away)) if 0.0 < t < end}
    return found


def krylov_choice(problem: Problem, hamiltonians: Sequence[Hamiltonian]) -> Choice:
    """Return the accuracy per time that steps are held to, and the kinks at which they end.

    Raises
    ------
    NumericsError
        If the accuracy is below what rounding leaves.
    """
    accuracy, end = problem.evolution.accuracy, problem.times[-1]
    assert accuracy is not None  # the deck has seen to it
    places: set[float] = set()
    rounding = 0.0
    for hamiltonian in hamiltonians:
        found, _ = survey([f for f, _ in hamiltonian.driven], end) if end > 0.0 else ([], 0)
        places |= _graded(sorted(t for t, _ in found), end)
        model = hamiltonian.average(end, sorted(places))
        low, high = model.bounds
        products = (high - low) * end + VECTORS * len(problem.times)
        ulp = ROUNDING[problem.precision]
        angles = rounded_angles(model, end)
        rounding = max(rounding, ulp * (8.0 + PRODUCT_ROUNDING[problem.precision] * products) + angles)
    if rounding > (1.0 - SHARE) * accuracy:
        raise NumericsError(
            f"an error of {accuracy:.2g} after t = {end:g} is out of reach in {problem.precision} precision: rounding "
            f"alone makes {rounding:.2g}",
            hint="ask for a larger evolve.accuracy",
        )
    rate = SHARE * accuracy / end if end > 0.0 else accuracy
    return Choice("krylov", None, SHARE * accuracy + rounding, 1, 0.0, rate, kinks=tuple(sorted(places)))
