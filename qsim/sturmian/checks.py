"""What the numbers of a deck do to the physics, and what a result says about its box and basis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck.blocks import AUTO
from qsim.sturmian.deck.rules import UNDERFLOW
from qsim.sturmian.radial.box import BOX_DENSITY, outer_density
from qsim.sturmian.tasks.bound import POOR, box_density

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.problem import Problem
    from qsim.sturmian.radial.parameters import Values
    from qsim.sturmian.tasks.bound import BoundResult, State

POINTS_PER_WAVE = 5.0
DISAGREEMENT = 10.0  # times the estimated error that the virial ratio may show
SCAN = "scan grid.order and basis.N"
UNSURE = 2.0  # times an estimated radial error of a state whose threshold is in doubt
REACH = 12.0  # decay lengths after which nothing is left of a bound function


def of_numbers(deck: SturmianDeck, values: Values, points: int) -> Iterator[Finding]:
    """Yield what box, grid and basis do to each other, from numbers alone."""
    if values.alpha is not None and values.alpha * values.R > UNDERFLOW:
        yield Finding(
            "basis.generating.alpha",
            f"exp(-alpha R) underflows: alpha R = {values.alpha * values.R:.4g}; give alpha below {UNDERFLOW / values.R:.3g} or "
            "a smaller R",
        )
    sizes = [*values.sizes, *(deck.scan.N if deck.scan is not None and deck.scan.N else [])]
    if max(sizes, default=0) > points:
        key = "basis.N" if max(values.sizes) > points else "scan.N"
        text = f"{max(sizes)} functions, but the radial grid has {points}; give a smaller N, or grid.elements or order"
        yield Finding(key, text)
    yield from _resolution(deck, values)
    if deck.task.type == "bound" and deck.scan is not None:
        yield from _scanned(deck, values)
    if values.energy is not None and values.energy < 0.0:
        reach = math.sqrt(-2.0 * values.energy) * values.R
        if reach < 6.0:
            text = f"functions of energy {values.energy:.4g} do not end within R = {values.R:.4g} bohr; the box changes them"
            yield Finding("grid.R", f"{text}; {12.0 * values.R / reach:.3g} bohr holds them", "warning")


def _scanned(deck: SturmianDeck, values: Values) -> Iterator[Finding]:
    assert deck.scan is not None
    largest = max([values.R, *(deck.scan.R or [])])
    steepest = max([values.alpha or 0.0, *(deck.scan.alpha or [])])
    if steepest * largest > UNDERFLOW and (values.alpha or 0.0) * values.R <= UNDERFLOW:
        key = "scan.alpha" if steepest * values.R > UNDERFLOW else "scan.R"
        yield Finding(
            key,
            f"exp(-alpha R) underflows: alpha R = {steepest * largest:.4g}, but at most {UNDERFLOW:g} works",
        )


def _resolution(deck: SturmianDeck, values: Values) -> Iterator[Finding]:
    """Yield the first element with too few points for what a function of the energy does there in a potential -Z/r.

    That is a wave of ``2 pi / k`` or a decay over ``1 / k``, with ``k = sqrt(2 |energy + Z/r|)``, at least ``sqrt(2 |energy|)``;
    where a bound function has decayed, nothing is left to resolve.
    """
    from qsim.sturmian.radial.parameters import bounds_of

    bounds = bounds_of(deck, values)
    energy = values.energy if values.energy is not None else 0.0
    ends = abs(bounds)
    gone = REACH / math.sqrt(-2.0 * energy) if energy < 0.0 else math.inf
    for k in range(len(ends) - 1):
        if ends[k] > gone:
            return
        width = abs(bounds[k + 1] - bounds[k])
        middle = max(0.5 * (ends[k] + ends[k + 1]), 1e-300)
        local = max(abs(energy), abs(energy + deck.system.Z / middle), 1e-300)
        wave = 2.0 * math.pi / math.sqrt(2.0 * local)
        points = wave * (values.order - 1) / width
        if points < POINTS_PER_WAVE:
            text = f"{points:.2g} points per wavelength at r = {middle:.3g} bohr, where waves are {wave:.3g} bohr long"
            fix = "give more elements" if deck.grid.elements != AUTO else "give a higher order"
            key = "grid.elements" if deck.grid.elements != AUTO else "grid.order"
            yield Finding(key, f"{text}, but {POINTS_PER_WAVE:g} are needed; {fix}")
            return


# ---------------------------------------------------------------------------------------- of the result


def wall_shift(wall: float, binding: float, R: float) -> float:
    """Return how much the wall at R raises the energy of two electrons, hartree.

    By the Hellmann-Feynman theorem ``dE/dR = -wall`` for two electrons with ``wall = int |du/dr1|^2 dr2`` each.  Of a state bound
    by ``binding = kappa^2 / 2``, wall falls like ``exp(-2 kappa R)``, so that ``wall / (2 kappa)`` is left; of a free one like
    ``R^-3``, which leaves ``wall R / 2``.  The smaller one is returned.

    Parameters
    ----------
    wall : float
        1/bohr^3.
    binding : float
        Energy below the threshold, hartree; not positive if the state is not bound.
    R : float
        Bohr.
    """
    free = 0.5 * wall * R
    return free if binding <= 0.0 else min(free, wall / (2.0 * math.sqrt(2.0 * binding)))


def radius_needed(problem: Problem, state: State) -> float | None:
    """Return the radius of a box that holds a bound state, bohr; None if its own does."""
    from qsim.sturmian.radial.parameters import core_charge

    density = box_density(state)
    if density <= BOX_DENSITY or not state.bound:
        return None
    R, binding = float(problem.grid.R), state.threshold - state.energy
    charge = max(core_charge(problem.deck) - 1.0, 0.0)
    if outer_density(R, binding, charge) < 0.01 * BOX_DENSITY:
        return None  # the box is large enough; what is out there is the error of a small basis
    return math.ceil(R + 0.5 * math.log(density / (0.1 * BOX_DENSITY)) / math.sqrt(2.0 * binding))


def virial_gain(state: State) -> float:
    """Return by how much scaling its lengths would lower the energy of charges at rest, ``T (2 - q)^2 / 4``, hartree.

    With the virial ratio ``q = -V/T`` the energy ``s^2 T + s V`` is lowest at ``s = q / 2``.
    """
    return 0.25 * state.moments["kinetic"] * (2.0 - state.moments["virial_ratio"]) ** 2


def _above_threshold(state: State, confined: bool) -> str | None:
    """Return what is to be said about a state above its threshold, None about others.

    Better functions lower the state, and the threshold with it: a state that may fall below has a meaning, if a poor energy.
    """
    if state.bound:
        return None
    text = f"{state.energy:.6f} hartree lies above the threshold {state.threshold:.6f}"
    if confined:
        return f"{text}, which is that of the potential at R: the wall confines it, too; give a larger grid.R"
    fall = UNSURE * state.error_radial - state.error_threshold  # NaN where they were not computed
    if state.energy - fall < state.threshold:
        return f"{text}, but functions and grid are too poor to tell whether it is bound"
    return f"{text}: not a bound state, but one of box and basis"


def confining(r: NDArray[np.float64], V: NDArray[np.float64]) -> bool:
    """Tell whether a potential goes on to rise at the end of the box: positive there, and at least about linear in r.

    Electrons in it are bound at any energy, and a threshold found from its value at R is one of the box.
    """
    slope = (V[-1] - V[-2]) / (r[-1] - r[-2])
    return bool(V[-1] > 0.0 and slope * r[-1] > 0.9 * V[-1])


def _doubts(result: BoundResult, state: State) -> Iterator[str]:
    """Yield what makes a state or its error doubtful."""
    grid = result.problem.grid
    if (text := _above_threshold(state, confining(np.real(grid.r), np.real(result.problem.V)))) is not None:
        yield text
    remedy = "more functions, a basis.energy and alpha closer to its own (auto), or a finer grid"
    remedy = remedy if result.problem.is_gsf else "a higher grid.order, or more elements"
    if not math.isfinite(state.error_radial):
        yield "what functions and grid leave out was not estimated, for it is too much work; " + SCAN
    elif state.error_radial > POOR:
        text = (
            f"functions and grid are poor for it, its energy may be off by {state.error_radial:.1g} hartree"
        )
        yield f"{text}; give {remedy}"
    elif result.problem.extrapolate and not math.isfinite(state.error_radial_limit):
        text = f"what functions and grid leave out at l_max = {max(result.problem.extrapolate)} was not estimated"
        yield f"{text}, for it is too much work, and the extrapolated energy states the error at that of the deck; {SCAN}"
    if result.problem.deck.channels.pairs is None and not math.isfinite(state.error_angular):
        yield "what the missing partial waves add was not estimated; give a larger channels.l_max, or extrapolate"
    if result.problem.deck.system.potential.type == "coulomb":
        gain = virial_gain(state)
        if gain > DISAGREEMENT * (state.error_in_pairs + 1e-13 * state.moments["kinetic"]):
            ratio = state.moments["virial_ratio"]
            text = f"the virial ratio {ratio:.8g} says that its energy is off by {gain:.1g} hartree at least"
            yield f"{text}, more than the {state.error_in_pairs:.1g} estimated; give {remedy}"
