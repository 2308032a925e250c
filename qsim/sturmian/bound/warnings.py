"""Warn when box, basis or grid limits a bound state."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.bound.states import box_density
from qsim.sturmian.judging import Judged, unguarded
from qsim.sturmian.radial.box import BOX_DENSITY, outer_density
from qsim.sturmian.two_electron.known import term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.sturmian.bound.result import BoundResult
    from qsim.sturmian.bound.states import State
    from qsim.sturmian.problem import Problem

__all__ = ["confining", "radius_needed", "require_contained", "virial_gain", "wall_shift"]

# Hartree: estimated error of functions and grid that is worth a warning.
POOR = 1e-3
# Times the estimated error that the virial ratio may show.
DISAGREEMENT = 10.0
SCAN = "scan grid.order and basis.N"
# Times the estimated radial error by which a state may still fall below its threshold.
UNSURE = 2.0


def wall_shift(wall: float, binding: float, R: float) -> float:
    """Return the shift of the energy of two electrons by the wall at R, hartree.

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
    density = box_density(state)
    if density <= BOX_DENSITY or not state.bound:
        return None
    R, binding = float(problem.grid.R), state.threshold - state.energy
    charge = max(problem.radial.core_charge - 1.0, 0.0)
    if outer_density(R, binding, charge) < 0.01 * BOX_DENSITY:
        # the box is large enough; what is out there is the error of a small basis
        return None
    # The density falls like exp(-2 kappa R): to a tenth of what is allowed, by half of the
    # logarithm over kappa.
    return math.ceil(R + 0.5 * math.log(density / (0.1 * BOX_DENSITY)) / math.sqrt(2.0 * binding))


def virial_gain(state: State) -> float:
    """Return by how much scaling its lengths would lower the energy of charges at rest, ``T (2 - q)^2 / 4``, hartree.

    With the virial ratio ``q = -V/T`` the energy ``s^2 T + s V`` is lowest at ``s = q / 2``.
    """
    return 0.25 * state.moments["kinetic"] * (2.0 - state.moments["virial_ratio"]) ** 2


def _above_threshold(state: State, confined: bool) -> str | None:
    """Return the warning of a state above its threshold, None for others.

    Better functions lower the state, and the threshold with it: a state that may fall below has a meaning, if a poor energy.
    """
    if state.bound:
        return None
    text = f"{state.energy:.6f} hartree lies above the threshold {state.threshold:.6f}"
    if confined:
        return f"{text}, which is the potential at R: the wall confines it, too; give a larger grid.R"
    # NaN where they were not computed
    fall = UNSURE * state.error_radial - state.error_threshold
    if state.energy - fall < state.threshold:
        return f"{text}, but functions and grid are too poor to tell whether it is bound"
    return f"{text}: not a bound state, but one of box and basis"


def confining(r: NDArray[np.float64], V: NDArray[np.float64]) -> bool:
    """Return True if a potential still rises at the end of the box: positive there, and at least about linear in r.

    Electrons in it are bound at any energy, and a threshold found from its value at R is one of the box.
    """
    # V ~ r^p has slope r / V = p: at least about 1.
    slope = (V[-1] - V[-2]) / (r[-1] - r[-2])
    return bool(V[-1] > 0.0 and slope * r[-1] > 0.9 * V[-1])


def _warnings(result: BoundResult, state: State) -> Iterator[str]:
    """Yield the warnings of a state: threshold, functions and grid, partial waves, virial theorem."""
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
        yield f"{text}, for it is too much work, and the extrapolated energy states the error at the deck's; {SCAN}"
    if not result.problem.lists_pairs and not math.isfinite(state.error_angular):
        yield "what the missing partial waves add was not estimated; give a larger channels.l_max, or extrapolate"
    # Only charges at rest scale like 1/r under all lengths: any other potential has its own
    # virial theorem.
    if result.problem.is_bare:
        gain = virial_gain(state)
        if gain > DISAGREEMENT * (state.error_in_pairs + 1e-13 * state.moments["kinetic"]):
            ratio = state.moments["virial_ratio"]
            text = f"the virial ratio {ratio:.8g} says that its energy is off by {gain:.1g} hartree at least"
            yield f"{text}, more than the {state.error_in_pairs:.1g} estimated; give {remedy}"


def _warnings_of(result: BoundResult, state: State) -> list[str]:
    return list(_warnings(result, state))


def require_contained(result: BoundResult, judged: Judged = unguarded) -> list[str]:
    """Refuse a result whose lowest states the box cuts off; return the warnings of all states.

    Parameters
    ----------
    result : BoundResult
    judged : callable
        `Monitor.judged`: lets what only judges the states fail.

    Raises
    ------
    NumericsError
        With the radius that would do.
    """
    warnings = []
    seen: set[tuple[int, int, str]] = set()
    for k, state in enumerate(result.states):
        symmetry = (state.L, state.S, state.parity)
        first = symmetry not in seen
        seen.add(symmetry)
        name = f"state {k} ({term(state.L, state.S, state.parity, state.root)})"
        texts: list[str] = judged("warnings about the states", partial(_warnings_of, result, state), [])
        warnings += [f"{name}: {text}" for text in texts]
        needed = judged(
            "whether the box holds the states", partial(radius_needed, result.problem, state), None
        )
        if needed is None:
            continue
        density, R = box_density(state), result.problem.grid.R
        text = f"{name} is not contained in the box: its density at R = {R:.4g} is {density:.1e} per bohr"
        hint = f"grid.R of about {needed:g} bohr holds it"
        # A lowest state that the box cuts off is wrong. An excited one may be a state of the
        # box beside right ones: a warning.
        if first:
            raise NumericsError(f"{text}, but at most {BOX_DENSITY:g} is allowed", hint=hint)
        warnings.append(f"{text}; {hint}")
    return warnings
