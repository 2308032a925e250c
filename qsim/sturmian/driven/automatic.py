"""Numbers for what a deck of driven equations leaves open: box, elements and contour."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.sturmian.deck.blocks import ANGLE, AUTO, LENGTH, Ecs, SquareWell, as_list
from qsim.sturmian.driven.checks import contour_length, fastest, safe_angle
from qsim.sturmian.driven.numbers import Numbers
from qsim.sturmian.radial import automatic, potentials
from qsim.sturmian.radial.grid import element_bounds

if TYPE_CHECKING:
    from qsim.sturmian.deck.collision_symmetry import Settings

# Points per shortest wave, where the elements are left to the program.
POINTS = 7.0
MOST_ELEMENTS = 2000


def numbers_of(settings: Settings) -> tuple[Numbers, list[str]]:
    """Return grid and basis as numbers, and what was settled.

    Raises
    ------
    InvalidInput
        If something cannot be settled.
    """
    notices: list[str] = []
    block, basis = settings.grid, settings.basis
    bounds = block.bounds
    R = bounds[-1] if bounds else block.R
    if isinstance(R, str):
        R = _radius(settings)
        notices.append(f"grid.R: auto is {R:g} bohr")
    # the contour after the box, the angle before the length: each needs the one before it
    ecs = Ecs() if block.ecs is None else block.ecs
    elements: int | tuple[float, ...] | None = None
    if bounds is not None:
        elements = tuple(bounds)
    elif isinstance(block.elements, int):
        elements = block.elements
    else:
        elements, text = _elements(settings, float(R))
        notices += [text] if text else []
    numbers = Numbers(float(R), block.order, ecs.usual, ecs.reach, elements)
    # few functions of many points have eigenvectors of a small condition: only the whole grid limits the angle
    if ecs.angle == AUTO and basis is None:
        numbers = replace(numbers, angle=min(ANGLE, safe_angle(numbers.points(float(settings.system.Z)))))
    if ecs.length == AUTO:
        numbers = replace(numbers, length=max(LENGTH, contour_length(settings, numbers.angle, float(R))))
    if AUTO in (ecs.angle, ecs.length):
        notices.append(f"grid.ecs: a contour of {numbers.length:g} bohr at {numbers.angle:g} rad")
    if basis is None:
        return numbers, notices + ([] if settings.settled else ["basis: the whole grid (fedvr)"])
    well = basis.generating
    if not isinstance(well, SquareWell):
        raise InvalidInput(
            "basis.generating.type",
            f"functions of the generating potential {well.type} do not hold outgoing waves of other energies, and converge to "
            "wrong cross sections; give square_well with a tail, or basis: fedvr",
        )
    energy = None if basis.energy in ("total", "auto") else float(basis.energy)
    numbers = replace(
        numbers,
        sizes=tuple(as_list(basis.N)),
        r0=None if isinstance(well.r0, str) else float(well.r0),
        tail=float(well.tail),
        energy=energy,
    )
    return numbers, notices


def _elements(settings: Settings, R: float) -> tuple[int | None, str]:
    """Return the number of elements that resolves the fastest wave, None where the usual widths do, and what was settled."""
    k_max = fastest(settings)
    if k_max is None:
        return None, ""
    # An element of order n has n - 1 intervals: the width with POINTS of them in the shortest
    # wave.
    widest = (settings.grid.order - 1) * 2.0 * np.pi / (k_max * POINTS)
    usual = element_bounds(R, float(settings.system.Z))
    count = usual.size - 1
    if np.diff(usual).max() <= widest:
        return None, ""
    # The number of elements that gives this width has no closed form, as widths grow from the
    # nucleus: it is counted up.
    while (
        count < MOST_ELEMENTS
        and np.diff(element_bounds(R, float(settings.system.Z), elements=count)).max() > widest
    ):
        count += 1
    return count, f"grid.elements: {count}, {POINTS:g} points for the shortest wave"


def _radius(settings: Settings) -> float:
    """Return a box that holds the n = 3 level of the charge that stays, and several waves of a slow electron."""
    # Radii of levels scale like n^2 / charge; 30 / k is five wavelengths of the slowest
    # electron.
    charge = max(potentials.OneBody(settings.system.potential, settings.system.Z).charge, 1.0)
    if settings.task.by_photons:
        # Cross sections by channel need the levels of the ion, and no waves of two slow electrons.
        radius = max(36.0, (2.0 * settings.task.highest**2 + 8.0) / charge)
    else:
        slowest = min([*(settings.energies if settings.task.process == "photo" else ()), 1.0])
        radius = max(40.0, 60.0 / charge, 30.0 / np.sqrt(2.0 * slowest))
    need = automatic.radius(automatic.ionisation(charge, 0, 0), settings.system.Z)
    return float(np.ceil(max(radius, need)))
