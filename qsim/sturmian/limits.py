"""What the numbers of a deck do to the physics, and what a result says about its box and basis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qsim.core.deck import Finding
from qsim.core.errors import NumericsError
from qsim.sturmian.blocks import AUTO
from qsim.sturmian.checks import UNDERFLOW
from qsim.sturmian.known import term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.sturmian.bound_task import BoundResult, State
    from qsim.sturmian.deck import SturmianDeck
    from qsim.sturmian.grid import RadialGrid
    from qsim.sturmian.parameters import Values

BOX_DENSITY = 1e-8  # 1/bohr: largest density at R of a state that is contained in the box
POINTS_PER_WAVE = 5.0
POOR = 1e-3  # hartree: estimated error of the radial basis that is worth a warning
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
    from qsim.sturmian.parameters import bounds_of

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


def outer_density(R: float, ionisation: float, charge: float) -> float:
    """Return the density at R of an electron that leaves a charge behind, 1/bohr: ``u ~ r^nu exp(-kappa r)``, normalised.

    ``kappa = sqrt(2 I)`` and ``nu = charge / kappa``; in hydrogen nu is the principal quantum number.
    """
    kappa = math.sqrt(2.0 * ionisation)
    x, power = 2.0 * kappa * R, 2.0 * charge / kappa
    return 2.0 * kappa * math.exp(min(power * math.log(x) - x - math.lgamma(power + 1.0), 0.0))


def box_density(grid: RadialGrid, state: State) -> float:
    """Return the density that a bound state would have at R if there were no wall, 1/bohr.

    The wall makes ``exp(-kappa r)`` a difference of two exponentials, whose slope at R is twice as steep; ``kappa = sqrt(2 I)``.
    """
    kappa = math.sqrt(2.0 * max(state.threshold - state.energy, 1e-6))
    return float(state.density[-1]) / (2.0 * kappa * (grid.R - float(grid.r[-1]))) ** 2


def require_contained(result: BoundResult) -> list[str]:
    """Refuse a result whose lowest states the box cuts off; return what is to be said about higher ones.

    Raises
    ------
    NumericsError
        With the radius that would do.
    """
    from qsim.sturmian.parameters import core_charge

    grid, doubts = result.problem.grid, []
    seen: set[tuple[int, int, str]] = set()
    for k, state in enumerate(result.states):
        symmetry = (state.L, state.S, state.parity)
        first = symmetry not in seen
        seen.add(symmetry)
        name = term(state.L, state.S, state.parity, state.root)
        if state.error_radial > POOR:
            text = f"the basis is poor for it, its energy may lie {state.error_radial:.1g} hartree lower; give more functions"
            doubts.append(f"state {k} ({name}): {text}, or a basis.energy and alpha closer to its own (auto)")
        if not state.bound:
            text = f"{state.energy:.6f} hartree lies above the threshold {state.threshold:.6f}"
            doubts.append(f"state {k} ({name}): {text}: not a bound state, but one of box and basis")
            continue
        density = box_density(grid, state)
        if density <= BOX_DENSITY:
            continue
        charge = max(core_charge(result.problem.deck) - 1.0, 0.0)
        if outer_density(grid.R, state.threshold - state.energy, charge) < 0.01 * BOX_DENSITY:
            continue  # the box is large enough; what is out there is the error of a small basis
        kappa = math.sqrt(2.0 * (state.threshold - state.energy))
        needed = math.ceil(grid.R + 0.5 * math.log(density / (0.1 * BOX_DENSITY)) / kappa)
        text = f"state {k} ({name}) is not contained in the box: its density at R = {grid.R:.4g} is {density:.1e} per bohr"
        hint = f"grid.R of about {needed} bohr holds it"
        if first:
            raise NumericsError(f"{text}, but at most {BOX_DENSITY:g} is allowed", hint=hint)
        doubts.append(f"{text}; {hint}")
    return doubts
