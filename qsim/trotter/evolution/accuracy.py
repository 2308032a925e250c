"""The time step from the accuracy: error estimates, and the choice of the integrator.

The error of a product formula in the state grows linearly in time, ``||psi - psi_exact|| = K t dt^p``, to a few percent over
decades of dt.  K is measured by pilots (:mod:`qsim.trotter.evolution.error_pilot`): two runs, dt and dt/2, whose distance is
``1 - 2^-p`` of the error.  An evolution has one pilot for its Hamiltonian, and another for the way back of an echo.

Rounding, in units of the last place (1.1e-16 and 6e-8), measured against exact exponentials with 4 to 15 spins, up to 2e5 layers:

- double precision: the phases of a layer are the same in every step, and so are their rounding errors, which add up
  *linearly*: at most 0.05 N per layer, a third of it after thousands of steps;
- single precision: every pass over the state rounds all its numbers, which adds up like a random walk: 0.42 times the root of the
  number of passes; on a CPU all layers of a call are one pass up to 12 spins;
- single precision on a GPU: the phases themselves are single, the same in every step, and so are their rounding errors: 0.6 times
  the root of the layers of a step times the number of steps (0.16 to 0.75 with 4 and 8 spins and 121 to 12001 layers);
- chebyshev: 2.4 per product in double precision, 0.17 in single;
- angles are rounded, too: the energy times the time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.device import cpu
from qsim.core.errors import NumericsError
from qsim.trotter.evolution import integrators as schedule
from qsim.trotter.evolution.chebyshev import LANCZOS_STEPS, Chebyshev, coefficients, constant, coupling_bounds
from qsim.trotter.evolution.error_pilot import Panel, Pilot, strength
from qsim.trotter.kernels.product.operators import operator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["SPLITTINGS", "Choice", "Machine", "choose", "estimate", "layers_per_step"]

# ts4, the paper's, is never the cheapest
SPLITTINGS = ("ts2", "bm4", "bm6", "kl8")
# accuracy below which ts2 is not even tried
ROUGH = 1e-3
CHEBYSHEV_VECTORS = 4
# times the cost of chebyshev, roughly: product formulas are not looked at more closely
HOPELESS = 2.0
# of a layer on one CPU thread, ns per amplitude
LAYER_COST = 6.3
# of a term beside H psi, likewise
RECURRENCE_COST = 3.0
# layers that a term costs on a GPU, by its passes over memory
CUDA_PRODUCT = 8.5
# spins up to which all layers of a call are one pass over the state
TOGETHER = 12
# of a chebyshev expansion, whose coefficients are arrays
MOST_TERMS = 1e8
# of an evolution: days
MOST_LAYERS = 1e11
ROUNDING = {"double": 1.1e-16, "single": 6e-8}
# of a layer and spin, in units of the last place of a double
LAYER_ROUNDING = 0.05
# of steps times the root of their layers, in units of the last place of a single: CUDA
PHASE_ROUNDING = 0.6
# of the root of the passes, in units of the last place of a single
PASS_ROUNDING = 0.42
# of a product of a chebyshev expansion, likewise
PRODUCT_ROUNDING = {"double": 2.4, "single": 0.17}


@dataclass(frozen=True)
class Machine:
    """The machine that an evolution runs on.

    Attributes
    ----------
    precision : {"double", "single"}
        Of the amplitudes.
    kind : {"cpu", "cuda"}
        Of the device.
    vectors : int
        State vectors that fit into memory; chebyshev needs four.
    """

    precision: str = "double"
    kind: str = "cpu"
    vectors: int = CHEBYSHEV_VECTORS


CPU = Machine()


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
    kinks : tuple of float
        Times at which steps are cut, since a profile is not smooth there.
    """

    method: str
    dt: float | None
    error: float
    layers: int
    cost: float
    tolerance: float = 1e-12
    costs: Mapping[str, float] = field(default_factory=dict)
    tiling: tuple[str, tuple[tuple[int, int, int], ...]] | None = None
    kinks: tuple[float, ...] = ()


def _axes(hamiltonian: Hamiltonian | Model) -> tuple[int, ...]:
    """Return the axes on which there is anything."""
    model = hamiltonian.envelope
    return tuple(a for a in range(3) if np.any(model.J[a]) or np.any(model.h[a]))


def layers_per_step(hamiltonian: Hamiltonian | Model, method: str) -> int:
    """Return the diagonal layers of a step among others, neighbours merged."""
    axes = _axes(hamiltonian)
    # one step and two: the difference is a step among others,
    # whose first layer merges with the last one before
    many = [len(schedule.layers(axes, method, 1.0, steps)) for steps in (1, 2)]
    return max(1, many[1] - many[0])


def estimate(
    hamiltonian: Hamiltonian | Model,
    method: str,
    dt: float,
    duration: float,
    psi: Amplitudes | None = None,
    *,
    machine: Machine = CPU,
    pilot: Pilot | Panel | None = None,
    intervals: Sequence[float] | None = None,
) -> float:
    """Return the estimated error of the state after some time with a given step; at most 2, the distance of opposite states.

    Parameters
    ----------
    intervals : sequence of float, optional
        Between the times at which the evolution stops, whose steps are shortened to end there; by default one.
    """
    pilot = pilot or Pilot.of(hamiltonian, psi, end=duration)
    if duration <= 0.0:
        return 0.0
    lengths = np.array([duration] if intervals is None else intervals, float)
    return min(2.0, _split(pilot, hamiltonian, method, lengths, dt, machine).error)


def choose(
    hamiltonian: Hamiltonian | Model,
    times: Sequence[float],
    accuracy: float,
    method: str = "auto",
    psi: Amplitudes | None = None,
    *,
    machine: Machine = CPU,
    pilot: Pilot | Panel | None = None,
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
    machine : Machine
        Of the evolution.
    pilot : Pilot, optional
        With measured errors, such as the pilot of another member of an ensemble.

    Raises
    ------
    NumericsError
        If rounding alone exceeds the accuracy, or the evolution takes days.
    """
    duration = float(times[-1]) - float(times[0])
    intervals = np.diff(np.asarray(times, float))
    static = hamiltonian.is_static
    pilot = pilot or Pilot.of(hamiltonian, psi, end=float(times[-1]))
    # a Chebyshev expansion first: its cost is known without pilots, and formulas that cannot beat it are not tried
    choices = []
    if method == "chebyshev":
        choices.append(_expanded(pilot, hamiltonian, intervals, accuracy, machine))
    elif method == "auto" and static and machine.vectors >= CHEBYSHEV_VECTORS:
        # too long
        with contextlib.suppress(NumericsError):
            choices.append(_expanded(pilot, hamiltonian, intervals, accuracy, machine))
    # a formula may turn out cheaper than its rough estimate by this factor
    beaten = min((HOPELESS * c.cost for c in choices if c.error <= accuracy), default=math.inf)
    for name in SPLITTINGS if method == "auto" else (method,):
        if name == "chebyshev" or (name == "ts2" and method == "auto" and accuracy < ROUGH):
            continue
        # the step is searched only if the order of the formula promises enough; 5 % of the accuracy are left for rounding
        if _least_cost(pilot, layers_per_step(hamiltonian, name), name, intervals, accuracy) < beaten:
            # without any evolution the step does not matter
            dt = pilot.step(name, intervals, 0.95 * accuracy) if duration > 0.0 else 1.0
            choices.append(_split(pilot, hamiltonian, name, intervals, dt, machine))
    if not any(c.error <= accuracy for c in choices):
        least = min(c.error for c in choices)
        raise NumericsError(
            f"an error of {accuracy:.2g} after t = {duration:g} is out of reach in {machine.precision} precision: rounding "
            f"alone makes {least:.2g}",
            hint="ask for a larger evolve.accuracy",
        )
    choices = [c for c in choices if c.error <= accuracy]
    costs = {c.method: c.cost for c in choices}
    # among those that reach the accuracy the cheapest in layers; days of work are refused rather than begun
    best = min(choices, key=lambda c: c.cost)
    if best.cost > MOST_LAYERS:
        raise NumericsError(
            f"{best.method} takes {best.cost:.2g} layers for t = {duration:g} with couplings and fields up to "
            f"{strength(hamiltonian):.2g}; at most {MOST_LAYERS:.0g}",
            hint="a shorter evolution, or a frame in which the largest term does not occur",
        )
    return replace(best, costs=costs)


def _least_cost(
    pilot: Pilot | Panel, layers: int, name: str, intervals: NDArray[np.float64], accuracy: float
) -> float:
    """Return roughly the layers that a product formula takes, from the error of the longest steps and its order."""
    duration = pilot.duration = float(intervals.sum())
    # one run of the pilot, at its longest step; from there the error falls with the order
    error = pilot.rate(name, pilot.longest) * duration
    if error == 0.0:
        # exact formulas still end a step at every output time
        return layers * len(intervals)
    dt = pilot.longest * min(1.0, (accuracy / error) ** (1.0 / schedule.METHODS[name].order))
    return layers * duration / dt


def _split(
    pilot: Pilot | Panel,
    hamiltonian: Hamiltonian | Model,
    name: str,
    intervals: NDArray[np.float64],
    dt: float,
    machine: Machine,
) -> Choice:
    """Return a product formula with steps of at most dt, shortened to end at the output times, with its error."""
    layers = layers_per_step(hamiltonian, name)
    duration = float(intervals.sum())
    if duration <= 0.0:
        return Choice(name, dt, 0.0, layers, 0.0)
    counts = np.ceil(intervals / dt * (1.0 - 1e-12))
    steps = float(counts.sum())
    pilot.duration = duration
    error = pilot.total(name, intervals, dt)
    error += rounded_angles(hamiltonian, duration) + _double_rounding(layers * steps, hamiltonian.spins)
    if machine.precision == "single":
        # small static systems on a CPU keep their numbers in
        # double precision within a call, and round once for each
        at_once = hamiltonian.spins <= TOGETHER and hamiltonian.is_static
        passes = float(len(intervals)) if at_once and machine.kind == "cpu" else layers * steps
        error += _single_rounding(passes)
        # a GPU also rounds the phases of single precision, once a layer
        if machine.kind == "cuda":
            error += ROUNDING["single"] * PHASE_ROUNDING * steps * math.sqrt(layers)
    return Choice(name, dt, error, layers, layers * steps)


def _expanded(
    pilot: Pilot | Panel,
    hamiltonian: Hamiltonian | Model,
    intervals: NDArray[np.float64],
    accuracy: float,
    machine: Machine,
) -> Choice:
    """Return the cost of chebyshev; the width of the spectrum grows with the number of spins."""
    # the width of a small system per spin, times the number
    # of spins; never more than the sum of all couplings
    low, high = Chebyshev(cpu(1), pilot.hamiltonian).bounds()
    least, most = coupling_bounds(constant(hamiltonian))
    radius = 0.5 * min((high - low) * hamiltonian.spins / pilot.hamiltonian.spins, most - least)
    count = max(1, len(intervals))
    # half of the accuracy for the rest of the series, shared
    # by the intervals; less than rounding is not asked of it
    tolerance = max(0.5 * accuracy / count, ROUNDING[machine.precision])
    longest = float(max(intervals, default=0.0))
    if not radius * longest < MOST_TERMS:
        raise NumericsError(
            f"chebyshev takes {radius * longest:.2g} terms for an interval of {longest:g}; at most {MOST_TERMS:.0g}",
            hint="output times closer together, or a frame in which the largest term does not occur",
        )
    # intervals of the same length have the same series
    terms = {length: len(coefficients(radius * length, tolerance)[0]) for length in set(intervals.tolist())}
    products = sum(terms[length] for length in intervals.tolist())
    # costs are compared in layers: a term costs as much as
    # a product H psi and the recurrence, against a layer
    layers = CUDA_PRODUCT
    if machine.kind != "cuda":
        layers = (operator(cpu(1), constant(hamiltonian)).cost + RECURRENCE_COST) / LAYER_COST
    ulp = ROUNDING[machine.precision]
    rounding = ulp * (8.0 + PRODUCT_ROUNDING[machine.precision] * products)
    error = tolerance * count + rounding + rounded_angles(hamiltonian, float(intervals.sum()))
    return Choice(
        # the ends of the spectrum take LANCZOS_STEPS products before the first term
        "chebyshev",
        None,
        error,
        max(1, round(layers)),
        layers * (products + LANCZOS_STEPS),
        tolerance,
    )


def _double_rounding(layers: float, spins: int) -> float:
    """Return the error that rounding makes in the layers of a product formula in double precision."""
    return ROUNDING["double"] * (8.0 + LAYER_ROUNDING * spins * layers)


def _single_rounding(passes: float) -> float:
    """Return the error that rounding the amplitudes to single precision makes in some passes over the state."""
    return ROUNDING["single"] * (8.0 + PASS_ROUNDING * math.sqrt(passes))


def rounded_angles(hamiltonian: Hamiltonian | Model, duration: float) -> float:
    """Return the error that the rounding of angles makes: the rms energy times the time."""
    model = hamiltonian.average(duration)
    return ROUNDING["double"] * duration * math.sqrt(model.mean_square)
