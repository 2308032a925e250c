"""Pilots: small systems that stand for a large one, and show the error of a step of an integrator.

The error of a product formula comes from terms that do not commute, so a pilot of 12 spins at most is taken where these are
strongest: from the spin with the largest ``n_j s_j^(p-1)`` on, its neighbours by strength of coupling.  Here
``f^a_j = [(h^a_j)^2 + sum_k (J^a_jk / 2)^2]^(1/2)`` is the rms field of a spin along an axis, ``s_j`` the root of the sum of its
squares over the axes, and ``n_j^2 = sum_{a<b} (f^a_j f^b_j)^2`` the size of the commutators there.  Missing parts of the pilot
are put back:

- its couplings are scaled so that the field of neighbours at its first spin is as large as in the whole (long-range couplings);
- errors of distant parts add like random numbers: its error is multiplied by the root of the sum of ``(n_j s_j^(p-1))^2`` over
  all spins to that over its own;
- a margin of 1.4 stands for boundaries;
- `Pilot.compare` puts the ratio in place of this guess that one step of the whole system shows, where memory allows it.

A pilot starts from two states, and the larger error counts: a part of the real initial state, which may be a special one, and a
random state, which stands for later times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from qsim.core.device.device import cpu, namespace
from qsim.trotter.evolution import integrators as schedule
from qsim.trotter.evolution.driven_error import Drive
from qsim.trotter.model.hamiltonian import Hamiltonian, Model
from qsim.trotter.states.vectors import axpy, norm2

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.evolution.layers import Evolver
    from qsim.trotter.states.vectors import Amplitudes

PILOT_SPINS = 12
# of a pilot that is looked at all along a driven evolution
DRIVEN_SPINS = 6
# order of the integrator for which weights are taken
POWER = 4
# of a pilot run, in units of the inverse strength
DURATION = 4.0
# amplitudes looked at in one piece
PIECE = 1 << 22
# relative difference of probabilities that single precision may make
SAME = 1e-5
# of a pilot run
MOST_STEPS = 128
# error of a pilot that may be rounding
FLOOR = 1e-11
# error of a step that may be rounding
LOCAL_FLOOR = 1e-12
# of the step
SAFETY = 0.95
# for boundaries, which only the small system has
MARGIN = 1.4
# where one step of the large system was compared
MEASURED_MARGIN = 1.2
TRIES = 10
# weight of a coupling for every site between it and the first one
FARTHER = 0.5
# longest step in units of the inverse strength; beyond it nothing is a product formula
WIDEST = 1.2


class Advances(Protocol):
    """An object that makes steps of an integrator with a state."""

    @property
    def psi(self) -> Amplitudes:
        """State (2^N,), evolved in place."""
        ...

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make some steps."""


# ------------------------------------------------------------------------------------ where errors arise


def _fields(hamiltonian: Hamiltonian | Model) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sizes of the couplings (3, N, N) and fields (3, N)."""
    model = hamiltonian.envelope
    return np.abs(np.asarray(model.J)), np.abs(np.asarray(model.h))


def _rms(hamiltonian: Hamiltonian | Model) -> NDArray[np.float64]:
    """Return (3, N): the rms field of every spin along every axis."""
    J, h = _fields(hamiltonian)
    # of neighbours in random directions: <S^2> = 1/4 of each component; h acts as it is
    return np.sqrt(0.25 * (J**2).sum(axis=2) + h**2)


def strength(hamiltonian: Hamiltonian | Model) -> float:
    """Return the largest rms field of a spin, over sites: the root of ``sum (J/2)^2 + h^2`` over axes and neighbours."""
    return math.sqrt(float((_rms(hamiltonian) ** 2).sum(axis=0).max(initial=0.0)))


def commutes(hamiltonian: Hamiltonian | Model) -> bool:
    """Return True if all terms commute because every spin feels one axis alone."""
    # with one axis at each site every term commutes with every other
    return bool(np.all(np.count_nonzero(_rms(hamiltonian), axis=0) <= 1))


def weights(hamiltonian: Hamiltonian | Model, power: int = POWER) -> NDArray[np.float64]:
    """Return (N,): how much every spin adds to the error of an integrator of some order, in arbitrary units."""
    f = _rms(hamiltonian)
    largest = float(f.max(initial=0.0))
    if largest == 0.0:
        return np.zeros(f.shape[1])
    # only ratios of the weights count, and powers of large numbers must not overflow
    f = f / largest
    # a commutator needs two different axes at one spin; one of order p + 1 has p - 1 further factors,
    # each as large as the whole field of the spin
    mixed = np.sqrt((f[0] * f[1]) ** 2 + (f[1] * f[2]) ** 2 + (f[0] * f[2]) ** 2)
    return np.asarray(mixed * np.sqrt((f**2).sum(axis=0)) ** (power - 1))


def neighbourhood(hamiltonian: Hamiltonian | Model, size: int) -> list[int]:
    """Return `size` sites, ascending, around the one where the error of a step is largest."""
    J, _ = _fields(hamiltonian)
    total = (J**2).sum(axis=0)
    # errors of distant sites are independent: their squares add up, over all sites against the sites of the pilot
    weight = weights(hamiltonian)
    spins = len(weight)
    if size >= spins:
        return list(range(spins))
    total = total / max(float(total.max(initial=0.0)), 1e-300)
    # begin where the error per spin is largest
    chosen = [int(np.argmax(weight))]
    # towards the spin that couples most strongly, the nearest first; where none is left, to the next one that matters
    reach = total[chosen[0]].copy()
    while len(chosen) < size:
        # coupling to the chosen sites times the error of the spin itself; 1e-3 keeps spins without an
        # error of their own in the running, since they may link others
        score = reach * (1e-3 * weight.max() + weight)
        score[chosen] = -1.0
        best = int(np.argmax(score))
        closeness = reach[best]
        if score[best] <= 0.0:
            rest = weight.copy()
            rest[chosen] = -1.0
            best, closeness = int(np.argmax(rest)), 1.0
        chosen.append(best)
        # a path through several couplings counts less, so that
        # near neighbours of the first site come before far ones
        reach = np.maximum(reach, FARTHER * closeness * total[best])
    return sorted(chosen)


def part_of(psi: Amplitudes, sites: Sequence[int]) -> NDArray[np.complex128]:
    """Return the normalised amplitudes (2^n,) of some sites, ascending, for the likeliest configuration of all spins.

    Of configurations that rounding alone tells apart it is the first, so that every device finds the same.
    """
    xp = namespace(psi)
    # in pieces: one array of probabilities of a large state would double the memory
    best, place = 0.0, 0
    for start in range(0, psi.shape[0], PIECE):
        probability = xp.abs(psi[start : start + PIECE]) ** 2
        k = int((probability >= float(probability.max()) * (1.0 - SAME)).argmax())
        if float(probability[k]) > best * (1.0 + SAME):
            best, place = float(probability[k]), start + k
    # all configurations of the chosen sites, the other spins as in the likeliest string
    index = np.zeros(1, np.int64)
    for site in sites:
        place &= ~(1 << site)
        index = np.concatenate([index, index | (1 << site)])
    amplitudes = psi[xp.asarray(index | place)]
    state = np.array(amplitudes.get() if hasattr(amplitudes, "get") else amplitudes, np.complex128)
    return state / math.sqrt(norm2(state))


def random_state(spins: int, seed: int = 1) -> NDArray[np.complex128]:
    """Return a random state (2^N,) of equal weights."""
    generator = np.random.default_rng(seed)
    return np.asarray(np.exp(2j * np.pi * generator.random(1 << spins)) * 2.0 ** (-spins / 2))


# -------------------------------------------------------------------------------------------- pilots


@dataclass
class Pilot:
    """A small system that stands for a large one, and the errors of its runs.

    Attributes
    ----------
    hamiltonian : Hamiltonian or Model
        Of ``min(N, 12)`` spins, scaled.
    states : list of (2^n,) complex128
        Its states at t = 0.
    growth : float
        Factor from its error to the error of the whole system.
    make : callable
        ``make(hamiltonian, psi)`` returns an evolver on the CPU.
    strength : float
        Largest rms field of a spin at any time.
    duration : float
        Of the evolution in question; a pilot is not longer, since part of the error is there from the beginning.
    sites : list of int
        Its spins in the whole system.
    exact : bool
        True if all terms of the whole system commute and do not depend on time.
    direct : dict of (float, float)
        By integrator, a step of the whole system and its error in one unit of time, where the pilot itself shows none.
    """

    hamiltonian: Hamiltonian | Model
    states: list[NDArray[np.complex128]]
    growth: float
    make: Callable[[Hamiltonian | Model, Amplitudes], Evolver]
    strength: float = 0.0
    duration: float = math.inf
    sites: list[int] = field(default_factory=list)
    exact: bool = False
    drive: Drive | None = None
    known: dict[tuple[str, float, float], float] = field(default_factory=dict)
    direct: dict[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        hamiltonian: Hamiltonian | Model,
        psi: Amplitudes | None = None,
        *,
        spins: int = PILOT_SPINS,
        make: Callable[[Hamiltonian | Model, Amplitudes], Evolver] | None = None,
        end: float | None = None,
    ) -> Pilot:
        """Return the pilot of a system.

        Parameters
        ----------
        hamiltonian : Hamiltonian or Model
        psi : (2^N,) complex, optional
            State at t = 0, on any device; a random state counts beside it.
        end : float, optional
            End of the evolution, all along which a driven Hamiltonian is looked at.
        """
        static = hamiltonian.is_static
        whole = int(hamiltonian.spins)
        # a driven pilot follows every step with many states; it has fewer spins
        size = min(spins if static else min(spins, DRIVEN_SPINS), whole)
        peak = hamiltonian if static or end is None else hamiltonian.peak(end)
        # the sites whose commutators are largest, where they are strongest in time
        sites = neighbourhood(peak, size)
        small, growth = hamiltonian, 1.0
        if size < whole:
            # couplings to the sites that are left out are made good by a common factor of those that are kept
            missing = _missing(peak, sites)
            small, peak = (_scaled(h.restricted(sites), missing) for h in (hamiltonian, peak))
            # errors of distant sites add up in squares: from the sites of the pilot to all, with a margin
            weight = weights(hamiltonian)
            own = float((weight[sites] ** 2).sum())
            growth = MARGIN * math.sqrt(float((weight**2).sum()) / own) if own > 0.0 else MARGIN
        # a random state has the mean error of all; the part of the initial one may have more
        states = [random_state(size)]
        if psi is not None:
            states.insert(0, part_of(psi, sites))
        drive = None if isinstance(small, Model) or small.is_static or end is None else Drive.of(small, end)
        exact = static and commutes(hamiltonian)
        return cls(
            small,
            states,
            # terms that commute at all times make a single layer, exact for any step
            growth,
            make or _evolver,
            strength=strength(peak),
            sites=sites,
            exact=exact,
            drive=drive,
        )

    @property
    def idle(self) -> bool:
        """True if there are no couplings and fields at any time, in narrow pulses either."""
        return self.strength == 0.0 and (self.drive is None or not np.any(self.drive.size))

    @property
    def span(self) -> float:
        """Time of a pilot run."""
        return min(DURATION / max(self.pace, 1e-300), self.duration)

    @property
    def pace(self) -> float:
        """The strength that limits steps, without the parts of the evolution that are cut into short ones anyway."""
        return self.strength if self.drive is None else self.drive.pace(WIDEST)

    @property
    def longest(self) -> float:
        """Longest step that is tried."""
        return min(WIDEST / max(self.pace, 1e-300), self.span)

    def rate(self, method: str, dt: float) -> float:
        """Return the error of the whole system per unit of time with steps of dt, on average over the evolution.

        Measured where a run of at most 128 steps shows more than rounding, continued by the power law elsewhere.
        """
        if self.exact or self.idle or self.span <= 0.0:
            return 0.0
        # the error of a formula of order p falls like dt^p once it is small
        order = schedule.METHODS[method].order
        error_rate = (
            self._driven_rate(method, dt) if self.drive is not None else self._static_rate(method, dt)
        )
        # one step of the whole system showed an error where the pilot shows none: the larger one counts
        if method in self.direct:
            step, error = self.direct[method]
            error_rate = max(error_rate, error * min(dt / step, 1e30) ** order)
        return error_rate

    def total(self, method: str, intervals: NDArray[np.float64], dt: float) -> float:
        """Return the error of the whole system with steps of at most dt, shortened to end where intervals end.

        Parameters
        ----------
        intervals : (m,) float64
            Between the times at which the evolution stops; their sum is its duration.
        """
        if self.exact or self.idle or self.span <= 0.0:
            return 0.0
        # output times shorten steps: an interval has a whole number of equal ones; 1e-12 is for intervals
        # that are multiples of dt but for rounding
        lengths = intervals / np.ceil(intervals / dt * (1.0 - 1e-12))
        longest = float(lengths.max())
        # every interval at the rate of its own step: the power law of the longest one scales the others
        order = schedule.METHODS[method].order
        part = float((intervals * (lengths / longest) ** order).sum())
        walked = None
        if self.drive is not None:
            walked = self.drive.walk(method, intervals, dt)
        if walked is None:
            return self.rate(method, longest) * part
        whole = self.growth * walked
        if method in self.direct:
            step, error = self.direct[method]
            whole = max(whole, error * min(longest / step, 1e30) ** order * part)
        return whole

    def _static_rate(self, method: str, dt: float) -> float:
        span = self.span
        # a run of at most MOST_STEPS; longer steps are measured and continued downwards
        measured = min(max(dt, span / MOST_STEPS), self.longest)
        # errors near rounding follow no power law: longer steps until the error is well above it
        while (error := self._measure(method, measured)) < FLOOR and measured < self.longest:
            measured = min(2.0 * measured, self.longest)
        # below the floor it may be rounding, however long the step: no reason for a longer one
        error = max(error, FLOOR)
        # beyond 1e30 the states are opposite in any case
        longer = min(dt / measured, 1e30)
        return self.growth * error / span * longer ** schedule.METHODS[method].order

    def _driven_rate(self, method: str, dt: float) -> float:
        assert self.drive is not None
        error = self.drive.error(method, dt)
        return self.growth * error / self.drive.end

    def _measure(self, method: str, dt: float) -> float:
        """Return the larger error of the states of the pilot with steps of dt after its time span."""
        span = self.span
        key = (method, dt, span)
        if key not in self.known:
            steps = max(1, round(span / dt))
            order = schedule.METHODS[method].order
            distance = 0.0
            # steps of dt against steps of dt / 2: their distance is the
            # error of the first less the error of the second, 2^-p of it
            for psi in self.states:
                one, two = self._run(psi, method, dt, steps), self._run(psi, method, dt / 2, 2 * steps)
                distance = max(distance, math.sqrt(norm2(one - two)))
            # a run of whole steps may be longer or shorter than the span
            self.known[key] = distance / (1.0 - 0.5**order) * span / (steps * dt)
        return self.known[key]

    def _run(self, psi: NDArray[np.complex128], method: str, dt: float, steps: int) -> Any:
        evolver = self.make(self.hamiltonian, psi.copy())
        evolver.advance(method, dt, steps)
        return np.array(evolver.psi)

    def compare(
        self, method: str, dt: float, local: Callable[[str, float], float], time: float = 0.0
    ) -> None:
        """Take the growth from one step of the whole system.

        Parameters
        ----------
        local : callable
            ``local(method, dt)`` returns the error of one step of the whole system, of the worse of its states.
        time : float
            At which the step begins.
        """
        step = min(dt, self.longest)
        # as in `_static_rate`: a step with an error above rounding
        while (error := local(method, step)) < LOCAL_FLOOR and step < self.longest:
            step = min(2.0 * step, self.longest)
        if error < LOCAL_FLOOR:
            # exact, or nothing but rounding: the estimate of the pilot stays
            return
        own = self._local(method, step) if self.drive is None else self.drive.step(method, step, time)
        # the ratio of the two errors replaces the estimate from weights; if the pilot shows none
        # (symmetric sites), the error of the whole system is kept by itself
        if own >= LOCAL_FLOOR:
            self.growth = MEASURED_MARGIN * error / own
        else:
            self.direct[method] = step, MEASURED_MARGIN * error / step

    def _local(self, method: str, dt: float) -> float:
        """Return the error of one step of the pilot, of the worse of its states."""
        return max(
            local_error(self.make(self.hamiltonian, psi.copy()), psi, method, dt) for psi in self.states
        )

    def step(self, method: str, intervals: NDArray[np.float64], error: float) -> float:
        """Return a step, within 20 % of the longest one, whose error after some intervals is at most the given one."""
        self.duration = duration = float(intervals.sum())

        def rate(name: str, dt: float) -> float:
            # few steps are all made, kinks included; more of them are sampled
            if self.drive is None or self.drive.walk(name, intervals, dt) is None:
                return self.rate(name, dt)
            return self.total(name, intervals, dt) / duration

        return find_step(rate, self.longest, schedule.METHODS[method].order, method, duration, error)


@dataclass
class Panel:
    """Pilots of all that a run evolves, such as H and the H + Sigma of an echo: the worst of them counts."""

    pilots: list[Pilot]

    @property
    def hamiltonian(self) -> Any:
        """Return the Hamiltonian of the strongest pilot."""
        return max(self.pilots, key=lambda pilot: pilot.strength).hamiltonian

    @property
    def duration(self) -> float:
        """Duration of the evolution in question."""
        return self.pilots[0].duration

    @duration.setter
    def duration(self, value: float) -> None:
        for pilot in self.pilots:
            pilot.duration = value

    @property
    def longest(self) -> float:
        """Longest step that is tried."""
        return min(pilot.longest for pilot in self.pilots)

    def rate(self, method: str, dt: float) -> float:
        """Return the error per unit of time of the worst."""
        return max(pilot.rate(method, dt) for pilot in self.pilots)

    def total(self, method: str, intervals: NDArray[np.float64], dt: float) -> float:
        """Return the error of the worst after some intervals with steps of at most dt."""
        return max(pilot.total(method, intervals, dt) for pilot in self.pilots)

    def step(self, method: str, intervals: NDArray[np.float64], error: float) -> float:
        """Return a step that is short enough for all."""
        return min(pilot.step(method, intervals, error) for pilot in self.pilots)


def find_step(
    rate: Callable[[str, float], float],
    longest: float,
    order: int,
    method: str,
    duration: float,
    error: float,
) -> float:
    """Return a step, within 20 % of the longest one, with ``rate(method, dt) duration <= error``."""
    # between the longest step known to be good and the shortest
    # known to be too long; the power law proposes the next one
    dt, good, bad = 0.2 * longest, 0.0, math.inf
    for _ in range(TRIES):
        estimate = rate(method, dt) * duration
        if estimate == 0.0:
            return duration
        if estimate <= error:
            good = max(good, dt)
        else:
            bad = min(bad, dt)
        # SAFETY: the power law misses a little, and a step just above the error would cost another try
        wanted = min(SAFETY * dt * (error / estimate) ** (1.0 / order), longest)
        # the proposal is hardly longer, the bracket is closed to 20 %, or the longest step is good
        if good > 0.0 and (wanted <= 1.1 * good or bad <= 1.2 * good or good >= longest):
            break
        # a proposal beyond a step that failed: the middle of the bracket instead
        dt = math.sqrt(good * bad) if good > 0.0 and wanted >= bad else wanted
    # no step was good in ten tries: half of the last proposal
    return good if good > 0.0 else 0.5 * dt


def local_error(evolver: Advances, psi: Amplitudes, method: str, dt: float) -> float:
    """Return the error of one step: the state goes forward by dt and back by two halves, and should be psi again.

    Parameters
    ----------
    evolver
        An :class:`~qsim.trotter.evolution.layers.Evolver`, say, with a copy of psi, which it evolves.
    """
    # forward and back by the adjoint leaves the local error of the
    # whole step less two of half: 1 - 2 (1/2)^(p+1) = 1 - 2^-p of it
    evolver.advance(method, dt, 1)
    evolver.advance(method, -0.5 * dt, 2)
    axpy(-1.0, psi, evolver.psi)
    order = schedule.METHODS[method].order
    error = math.sqrt(norm2(evolver.psi)) / (1.0 - 0.5**order)
    # whose steps back do not undo those forward, but add to them
    return error / 3.0 if order == 1 else error


def _missing(hamiltonian: Hamiltonian | Model, sites: Sequence[int]) -> float:
    """Return the factor by which the couplings of a part are too weak, at the site that is coupled most strongly in it."""
    J, _ = _fields(hamiltonian)
    square = (J**2).sum(axis=0)
    inside = square[np.ix_(sites, sites)].sum(axis=1)
    # where the part is most complete: its own couplings against all of that site
    k = int(np.argmax(inside))
    return math.sqrt(square[sites[k]].sum() / inside[k]) if inside[k] > 0.0 else 1.0


def _scaled(hamiltonian: Hamiltonian | Model, factor: float) -> Hamiltonian | Model:
    """Multiply all couplings; fields stay."""
    if isinstance(hamiltonian, Model):
        return replace(hamiltonian, J=factor * hamiltonian.J)
    static = replace(hamiltonian.static, J=factor * hamiltonian.static.J)
    return Hamiltonian(static, tuple((f, replace(part, J=factor * part.J)) for f, part in hamiltonian.driven))


def _evolver(hamiltonian: Hamiltonian | Model, psi: Amplitudes) -> Evolver:
    """Return an evolver on the CPU."""
    from qsim.trotter.evolution.layers import Evolver

    # a driven one is followed by its Drive
    assert hamiltonian.is_static
    return Evolver(cpu(1), hamiltonian.static, psi)
