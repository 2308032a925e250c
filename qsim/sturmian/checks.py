"""The deck against physics: box, grid and basis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.physics.functions import remark_on
from qsim.sturmian.deck.blocks import AUTO, PotentialTable
from qsim.sturmian.deck.shared_rules import UNDERFLOW, underflow
from qsim.sturmian.radial.potentials import OneBody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.radial.parameters import Values

POINTS_PER_WAVE = 5.0
# Decay lengths after which nothing is left of a bound function.
REACH = 12.0


def physics(deck: SturmianDeck, values: Values, points: int) -> Iterator[Finding]:
    """Yield the mistakes in box, grid and basis, from numbers alone."""
    if values.alpha is not None:
        yield from underflow(values.alpha, values.R)
    sizes = [*values.sizes, *(deck.scan.N if deck.scan is not None and deck.scan.N else [])]
    if max(sizes, default=0) > points:
        key = "basis.N" if max(values.sizes) > points else "scan.N"
        text = f"{max(sizes)} functions, but the radial grid has {points}; give a smaller N, or grid.elements or order"
        yield Finding(key, text)
    yield from _resolution(deck, values)
    potential = deck.system.potential
    if isinstance(potential, PotentialTable):
        curve = OneBody(potential, deck.system.Z).curve
        assert curve is not None
        yield from remark_on(potential, curve, "system.potential")
    if deck.task.type == "bound" and deck.scan is not None:
        yield from _scanned(deck, values)
    if values.energy is not None and values.energy < 0.0:
        # Decay lengths within the box: at six a function has fallen to 0.25 % and the wall
        # begins to matter.
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
    from qsim.sturmian.radial.parameters import Radial, bounds_of

    bounds = bounds_of(Radial.of(deck), values)
    energy = values.energy if values.energy is not None else 0.0
    ends = abs(bounds)
    gone = REACH / math.sqrt(-2.0 * energy) if energy < 0.0 else math.inf
    # From the nucleus outwards: the first element at fault is the one to report.
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
