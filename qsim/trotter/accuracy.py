"""The time step from the accuracy: pilot runs on a few spins, error estimates, and the choice of the integrator.

The error of a product formula in the state grows linearly in time, ``||psi - psi_exact|| = K t dt^p``, to a few percent over
decades of dt.  K is measured by a pilot on the first 12 spins at most: two runs, dt and dt/2, whose distance is ``1 - 2^-p`` of
the error.  Its state is a part of the real one: the amplitudes of the first spins for the likeliest configuration of the others,
which for product states is the product of the first spins, and for random states a random state.  What the pilot lacks is put
back:

- couplings and fields are scaled so that the largest rms field of a spin is that of the whole system (long-range couplings);
- errors of distant parts add like random numbers: the error grows like the square root of the number of spins;
- a margin of 1.4 stands for boundaries and for couplings that the pilot does not know.

Heisenberg, XXZ, XY, dipolar and random all-to-all models of 14 and 17 spins, from random and Neel states, had 0.4 to 1.0 times
the estimated error (1.3 for one of them with the longest steps of kl8).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import cpu, namespace
from qsim.core.errors import NumericsError
from qsim.trotter import schedule
from qsim.trotter.chebyshev import LANCZOS_STEPS, Chebyshev, coefficients, constant, coupling_bounds
from qsim.trotter.kernels.apply import operator
from qsim.trotter.vectors import norm2

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "SPLITTINGS",
    "Choice",
    "Pilot",
    "choose",
    "estimate",
    "layers_per_step",
    "replay_error",
    "strength",
]

PILOT_SPINS = 12
SPLITTINGS = ("ts2", "bm4", "bm6", "kl8")  # ts4, the paper's, is never the cheapest
ROUGH = 1e-3  # accuracy below which ts2 is not even tried
DURATION = 4.0  # of a pilot run, in units of the inverse strength
PIECE = 1 << 22  # amplitudes looked at in one piece
SAME = 1e-5  # relative difference of probabilities that single precision may make
MOST_STEPS = 128  # of a pilot run
FLOOR = 1e-11  # error of a pilot that may be rounding
SAFETY = 0.95  # of the step
MARGIN = 1.4  # for what a small system does not know of a large one
TRIES = 10
WIDEST = 1.2  # longest step in units of the inverse strength; beyond it nothing is a product formula
CHEBYSHEV_VECTORS = 4
HOPELESS = 2.0  # times the cost of chebyshev, roughly: product formulas are not looked at more closely
LAYER_COST = 6.3  # of a layer on one CPU thread, ns an amplitude
RECURRENCE_COST = 3.0  # of a term beside H psi, likewise
CUDA_PRODUCT = 8.5  # layers that a term costs on a GPU, by its passes over memory
MOST_TERMS = 1e8  # of a chebyshev expansion, whose coefficients are arrays
MOST_LAYERS = 1e11  # of an evolution: days
ROUNDING = {"double": 1.1e-16, "single": 6e-8}


@dataclass(frozen=True)
class Choice:
    """An integrator with its step.

    Attributes
    ----------
    method : str
        ``ts1`` ... ``kl8`` or ``chebyshev``.
    dt : float or None
        Longest step; None for chebyshev.
    error : float
        Estimated error of the state at the end, rounding included.
    layers : int
        Diagonal layers of a step (chebyshev: of a product).
    cost : float
        Layers of the whole evolution.
    tolerance : float
        Of chebyshev, for one interval.
    costs : dict of str to float
        Of everything that was compared.
    tiling : (str, tuple of (int, int, int)) or None
        Kind of device and the tiles of passes there (`evolve.Tile`), if they are not the usual ones.
    """

    method: str
    dt: float | None
    error: float
    layers: int
    cost: float
    tolerance: float = 1e-12
    costs: Mapping[str, float] = field(default_factory=dict)
    tiling: tuple[str, tuple[tuple[int, int, int], ...]] | None = None


@dataclass
class Pilot:
    """A small system that stands for a large one, and what its runs have shown.

    Attributes
    ----------
    hamiltonian : Hamiltonian or Model
        Of ``min(N, 12)`` spins, scaled.
    psi : (2^n,) complex128
        Its state at t = 0.
    growth : float
        Factor from its error to that of the whole system.
    make : callable
        ``make(hamiltonian, psi)`` returns an evolver on the CPU.
    duration : float
        Of the evolution in question; a pilot is not longer, since part of the error is there from the beginning.
    """

    hamiltonian: Any
    psi: NDArray[np.complex128]
    growth: float
    make: Callable[[Any, Any], Any]
    duration: float = math.inf
    known: dict[tuple[str, float, float], float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        hamiltonian: Any,
        psi: Any = None,
        *,
        spins: int = PILOT_SPINS,
        make: Callable[[Any, Any], Any] | None = None,
    ) -> Pilot:
        """Return the pilot of a system.

        Parameters
        ----------
        hamiltonian : Hamiltonian or Model
        psi : (2^N,) complex, optional
            State at t = 0, on any device.  A random state stands in.
        """
        whole = int(hamiltonian.spins)
        size = min(spins, whole)
        small = hamiltonian if size == whole else hamiltonian.truncated(size)
        factor = 1.0
        if size < whole and strength(small) > 0.0:
            factor = max(1.0, strength(hamiltonian) / strength(small))
            small = _scaled(small, factor)
        if psi is None:
            generator = np.random.default_rng(1)
            state = np.exp(2j * np.pi * generator.random(1 << size)) * 2.0 ** (-size / 2)
        else:
            state = first_spins(psi, size)
        growth = MARGIN * math.sqrt(whole / size) if size < whole else 1.0
        return cls(small, state, growth, make or _evolver)

    @property
    def strength(self) -> float:
        """Largest rms field of a spin."""
        return strength(self.hamiltonian)

    @property
    def exact(self) -> bool:
        """Whether all terms commute, because they have one axis, and do not depend on time."""
        return bool(getattr(self.hamiltonian, "is_static", True)) and len(_axes(self.hamiltonian)) < 2

    @property
    def span(self) -> float:
        """Time of a pilot run."""
        return min(DURATION / max(self.strength, 1e-300), self.duration)

    @property
    def longest(self) -> float:
        """Longest step that is tried."""
        return min(WIDEST / max(self.strength, 1e-300), self.span)

    def rate(self, method: str, dt: float) -> float:
        """Return the error of the whole system per unit of time with steps of dt.

        Measured where a run of at most 128 steps shows more than rounding, continued by the power law elsewhere.
        """
        span = self.span
        if self.exact or self.strength == 0.0 or span <= 0.0:
            return 0.0
        measured = min(max(dt, span / MOST_STEPS), self.longest)
        while (error := self._measure(method, measured)) < FLOOR and measured < self.longest:
            measured = min(2.0 * measured, self.longest)
        # below the floor it may be rounding, however long the step: no reason for a longer one
        error = max(error, FLOOR)
        longer = min(dt / measured, 1e30)  # whatever it is, the error is that of opposite states
        return self.growth * error / span * longer ** schedule.METHODS[method].order

    def _measure(self, method: str, dt: float) -> float:
        """Return the error of the pilot with steps of dt after its time span."""
        span = self.span
        key = (method, dt, span)
        if key not in self.known:
            steps = max(1, round(span / dt))
            order = schedule.METHODS[method].order
            one, two = self._run(method, dt, steps), self._run(method, dt / 2, 2 * steps)
            distance = math.sqrt(norm2(one - two)) / (1.0 - 0.5**order)
            self.known[key] = distance * span / (steps * dt)
        return self.known[key]

    def _run(self, method: str, dt: float, steps: int) -> Any:
        evolver = self.make(self.hamiltonian, self.psi.copy())
        evolver.advance(method, dt, steps)
        return np.array(evolver.psi)

    def step(self, method: str, duration: float, error: float) -> float:
        """Return a step, within 20 % of the longest one, whose error after some time is at most the given one."""
        self.duration = duration
        order = schedule.METHODS[method].order
        dt, good, bad = 0.2 * self.longest, 0.0, math.inf
        for _ in range(TRIES):
            found = self.rate(method, dt) * duration
            if found == 0.0:
                return duration
            if found <= error:
                good = max(good, dt)
            else:
                bad = min(bad, dt)
            wanted = min(SAFETY * dt * (error / found) ** (1.0 / order), self.longest)
            if good > 0.0 and (wanted <= 1.1 * good or bad <= 1.2 * good or good >= self.longest):
                break
            dt = math.sqrt(good * bad) if good > 0.0 and wanted >= bad else wanted
        return good if good > 0.0 else 0.5 * dt


def first_spins(psi: Any, spins: int) -> NDArray[np.complex128]:
    """Return the normalised amplitudes (2^spins,) of the first spins for the likeliest configuration of the others.

    Of configurations that rounding alone tells apart it is the first, so that every device finds the same.
    """
    rows = psi.reshape(-1, 1 << spins)
    xp = namespace(psi)
    piece = max(1, PIECE >> spins)
    best, row = 0.0, 0
    for start in range(0, rows.shape[0], piece):
        weights = (xp.abs(rows[start : start + piece]) ** 2).sum(axis=1, dtype=np.float64)
        k = int((weights >= float(weights.max()) * (1.0 - SAME)).argmax())
        if float(weights[k]) > best * (1.0 + SAME):
            best, row = float(weights[k]), start + k
    found = rows[row]
    state = np.array(found.get() if hasattr(found, "get") else found, np.complex128)
    return state / math.sqrt(norm2(state))


def strength(hamiltonian: Any) -> float:
    """Return the largest rms field of a spin, over sites: the root of ``sum (J/2)^2 + h^2`` over axes and neighbours."""
    model = hamiltonian.envelope if hasattr(hamiltonian, "envelope") else hamiltonian
    square = 0.25 * (np.asarray(model.J) ** 2).sum(axis=(0, 2)) + (np.asarray(model.h) ** 2).sum(axis=0)
    return math.sqrt(float(square.max(initial=0.0)))


def _axes(hamiltonian: Any) -> tuple[int, ...]:
    """Return the axes on which there is anything."""
    model = hamiltonian.envelope if hasattr(hamiltonian, "envelope") else hamiltonian
    return tuple(a for a in range(3) if np.any(model.J[a]) or np.any(model.h[a]))


def layers_per_step(hamiltonian: Any, method: str) -> int:
    """Return the diagonal layers of a step among others, neighbours merged."""
    axes = _axes(hamiltonian)
    many = [len(schedule.layers(axes, method, 1.0, steps)) for steps in (1, 2)]
    return max(1, many[1] - many[0])


def estimate(
    hamiltonian: Any,
    method: str,
    dt: float,
    duration: float,
    psi: Any = None,
    *,
    precision: str = "double",
    pilot: Pilot | None = None,
) -> float:
    """Return the estimated error of the state after some time with a given step; at most 2, the distance of opposite states."""
    pilot = pilot or Pilot.of(hamiltonian, psi)
    if duration <= 0.0:
        return 0.0
    pilot.duration = duration
    layers = layers_per_step(hamiltonian, method) * duration / dt
    return min(2.0, pilot.rate(method, dt) * duration + _rounding(layers, precision))


def choose(
    hamiltonian: Any,
    times: Sequence[float],
    accuracy: float,
    method: str = "auto",
    psi: Any = None,
    *,
    precision: str = "double",
    vectors: int = CHEBYSHEV_VECTORS,
    kind: str = "cpu",
    pilot: Pilot | None = None,
) -> Choice:
    """Return integrator and step for an accuracy of the state at the last time.

    Parameters
    ----------
    times : ascending
        All times at which the evolution stops, 0 first.
    accuracy : float
        Wanted ``||psi - psi_exact||`` at the end.
    method : str
        ``"auto"`` compares :data:`SPLITTINGS` and, for a constant Hamiltonian, chebyshev by their layers.
    vectors : int
        State vectors that fit into memory; chebyshev needs four.
    kind : {"cpu", "cuda"}
        Of the device, for the cost of chebyshev.
    pilot : Pilot, optional
        With what is known already, such as that of another member of an ensemble.

    Raises
    ------
    NumericsError
        If rounding alone exceeds the accuracy, or the evolution takes days.
    """
    duration = float(times[-1]) - float(times[0])
    intervals = np.diff(np.asarray(times, float))
    static = bool(getattr(hamiltonian, "is_static", True))
    pilot = pilot or Pilot.of(hamiltonian, psi)
    found = []
    if method == "chebyshev":
        found.append(_expanded(pilot, hamiltonian, intervals, accuracy, precision, kind))
    elif method == "auto" and static and vectors >= CHEBYSHEV_VECTORS:
        with contextlib.suppress(NumericsError):  # too long
            found.append(_expanded(pilot, hamiltonian, intervals, accuracy, precision, kind))
    beaten = min((HOPELESS * c.cost for c in found if c.error <= accuracy), default=math.inf)
    for name in SPLITTINGS if method == "auto" else (method,):
        if name == "chebyshev" or (name == "ts2" and method == "auto" and accuracy < ROUGH):
            continue
        if _least_cost(pilot, layers_per_step(hamiltonian, name), name, intervals, accuracy) < beaten:
            found.append(_split(pilot, hamiltonian, name, intervals, duration, accuracy, precision))
    if not any(c.error <= accuracy for c in found):
        least = min(c.error for c in found)
        raise NumericsError(
            f"an error of {accuracy:.2g} after t = {duration:g} is out of reach in {precision} precision: rounding alone makes "
            f"{least:.2g}",
            hint="ask for a larger evolve.accuracy",
        )
    found = [c for c in found if c.error <= accuracy]
    costs = {c.method: c.cost for c in found}
    best = min(found, key=lambda c: c.cost)
    if best.cost > MOST_LAYERS:
        raise NumericsError(
            f"{best.method} takes {best.cost:.2g} layers for t = {duration:g} with couplings and fields up to "
            f"{strength(hamiltonian):.2g}; at most {MOST_LAYERS:.0g}",
            hint="a shorter evolution, or a frame in which the largest term does not occur",
        )
    return replace(best, costs=costs)


def _least_cost(
    pilot: Pilot, layers: int, name: str, intervals: NDArray[np.float64], accuracy: float
) -> float:
    """Return roughly the layers that a product formula takes, from the error of the longest steps and its order."""
    duration = pilot.duration = float(intervals.sum())
    error = pilot.rate(name, pilot.longest) * duration
    if error == 0.0:
        return layers * len(intervals)
    dt = pilot.longest * min(1.0, (accuracy / error) ** (1.0 / schedule.METHODS[name].order))
    return layers * duration / dt


def _split(
    pilot: Pilot,
    hamiltonian: Any,
    name: str,
    intervals: NDArray[np.float64],
    duration: float,
    accuracy: float,
    precision: str,
) -> Choice:
    layers = layers_per_step(hamiltonian, name)
    if duration <= 0.0:
        return Choice(name, 1.0, 0.0, layers, 0.0)
    dt = pilot.step(name, duration, 0.95 * accuracy)
    counts = np.ceil(intervals / dt * (1.0 - 1e-12))
    steps = float(counts.sum())
    longest = float((intervals / counts).max())  # steps are shortened to end at the output times
    error = pilot.rate(name, longest) * duration + _rounding(layers * steps, precision)
    return Choice(name, dt, error, layers, layers * steps)


def _expanded(
    pilot: Pilot, hamiltonian: Any, intervals: NDArray[np.float64], accuracy: float, precision: str, kind: str
) -> Choice:
    """Return the cost of chebyshev; the width of the spectrum grows with the number of spins."""
    low, high = Chebyshev(cpu(1), pilot.hamiltonian).bounds()
    least, most = coupling_bounds(constant(hamiltonian))
    radius = 0.5 * min((high - low) * hamiltonian.spins / pilot.hamiltonian.spins, most - least)
    count = max(1, len(intervals))
    tolerance = max(0.5 * accuracy / count, ROUNDING[precision])
    longest = float(max(intervals, default=0.0))
    if not radius * longest < MOST_TERMS:
        raise NumericsError(
            f"chebyshev takes {radius * longest:.2g} terms for an interval of {longest:g}; at most {MOST_TERMS:.0g}",
            hint="output times closer together, or a frame in which the largest term does not occur",
        )
    terms = {length: len(coefficients(radius * length, tolerance)[0]) for length in set(intervals.tolist())}
    products = sum(terms[length] for length in intervals.tolist())
    layers = CUDA_PRODUCT
    if kind != "cuda":
        layers = (operator(cpu(1), constant(hamiltonian)).cost + RECURRENCE_COST) / LAYER_COST
    error = tolerance * count + _rounding(products, precision)
    return Choice(
        "chebyshev", None, error, max(1, round(layers)), layers * (products + LANCZOS_STEPS), tolerance
    )


def _rounding(layers: float, precision: str) -> float:
    """Error that rounding leaves: of the order of an ulp a layer, like a random walk."""
    return ROUNDING[precision] * (8.0 + 4.0 * math.sqrt(layers))


def replay_error(
    evolver: Any, before: Any, legs: Sequence[tuple[float, float, int]], carry: Any, make: Any
) -> float:
    """Return the distance between a state and that of half the step, from an earlier state on.

    Parameters
    ----------
    evolver : Evolver
        At the later time.
    before : (2^N,) complex
        State at the earlier time.
    legs : of (start, dt, steps)
        Calls that led from one to the other.
    carry : callable
        ``carry(evolver, start, dt, steps)``.
    make : callable
        ``make(psi)`` returns an evolver with the same Hamiltonian.
    """
    other = make(before)
    for start, dt, steps in legs:
        carry(other, start, dt / 2, 2 * steps)
    difference = other.psi - evolver.psi
    return math.sqrt(norm2(difference) / norm2(evolver.psi))


def _scaled(hamiltonian: Any, factor: float) -> Any:
    """Multiply all couplings and fields."""
    if hasattr(hamiltonian, "static"):
        driven = tuple((f, factor * part) for f, part in hamiltonian.driven)
        return replace(hamiltonian, static=factor * hamiltonian.static, driven=driven)
    return factor * hamiltonian


def _evolver(hamiltonian: Any, psi: Any) -> Any:
    from qsim.trotter.evolve import Evolver

    static = getattr(hamiltonian, "static", hamiltonian)
    return Evolver(cpu(1), static if getattr(hamiltonian, "is_static", True) else hamiltonian, psi)
