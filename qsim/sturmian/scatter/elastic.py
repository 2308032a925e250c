"""Elastic scattering below the first excitation: phases with their branch and errors, and scattering lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.sturmian.driven.checks import LITTLE, decay_length
from qsim.sturmian.scatter.cross_sections import breit_wigner, phases

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.driven.setup import Setup
    from qsim.sturmian.scatter.cross_sections.kinematics import Kinematics
    from qsim.sturmian.scatter.cross_sections.observed import Measured, Observed
    from qsim.sturmian.scatter.cross_sections.summed import Solutions, Summed
    from qsim.sturmian.scatter.problem import Collision

__all__ = ["Elastic", "Phase", "elastic", "remedy"]

# A wave number times a box that shows the wave.
SEEN = 6.0
# What a decay like 1/R leaves beyond the box, over 1.5 times the change by the coarser one.
DEGENERATE = 2.0
# Factor of box or contour where neither looks too small.
LARGER = 1.5


class Phase(NamedTuple):
    """A phase modulo pi, radian, its error, and how many times pi its branch adds."""

    modulo: float
    error: float
    branch: int

    @property
    def value(self) -> float:
        """The continuous phase, radian."""
        return self.modulo + math.pi * self.branch


@dataclass
class Elastic:
    """Phases and scattering lengths of a collision.

    Attributes
    ----------
    phases : dict of (int, str, int) to Phase
        By number of the energy, spin and L; only where elastic scattering is all there is.
    lengths : dict of str to (float, float)
        Scattering length of every spin with its error, bohr.
    resonances : dict of (str, int) to list of ((float, float), (float, float))
        Of every spin and L, impact energy and width of what the phases pass, with their errors, hartree.
    eigenphases : dict of (int, str, int) to Phase
        Sums of all eigenphases, by the same keys, where the deck asks for them.
    polarisability : float or None
        Of the target, bohr^3; None for an ion, whose own field is far stronger.
    """

    phases: dict[tuple[int, str, int], Phase] = field(default_factory=dict)
    lengths: dict[str, Measured] = field(default_factory=dict)
    resonances: dict[tuple[str, int], list[tuple[Measured, Measured]]] = field(default_factory=dict)
    eigenphases: dict[tuple[int, str, int], Phase] = field(default_factory=dict)
    polarisability: float | None = None


class _Box(NamedTuple):
    """End of a set of solutions: R in bohr, and the polarisability that its pairs give each L, bohr^3."""

    R: float
    alpha: float

    def polarised(self, pairs: Sequence[tuple[int, int]], L: int) -> float:
        """Return the part of the polarisability that some pairs hold: the electron outside goes to L - 1 or L + 1."""
        weights = {L - 1: L / (2.0 * L + 1.0), L + 1: (L + 1.0) / (2.0 * L + 1.0)}
        held = (weight for l, weight in weights.items() if (min(1, l), max(1, l)) in pairs)
        return self.alpha * sum(held)

    def phase(self, part: Observed, k: float) -> tuple[float, float]:
        """Return a phase modulo pi with what the target beyond R adds, and that part, radian."""
        inside = 0.5 * float(np.angle(part.matrix))
        added = phases.beyond(self.polarised(part.pairs, part.L), part.L, k, inside, self.R)
        return (inside + added) % math.pi, added


def elastic(
    problem: Collision,
    setup: Setup,
    kinematics: Sequence[Kinematics],
    observed: Sequence[Mapping[str, Summed]],
    solutions: Mapping[str, Sequence[Solutions]],
) -> Elastic:
    """Return phases and scattering lengths.

    Parameters
    ----------
    problem : Collision
    setup : Setup
    kinematics : list of Kinematics
    observed : list of dict of Summed
        Of every energy by spin.
    solutions : dict of list of Solutions
        By spin, of every energy.
    """
    neutral = setup.potential.charge == 1.0
    made = Elastic(polarisability=setup.continuum.polarisability() if neutral else None)
    box = _Box(problem.numbers.R, made.polarisability or 0.0)
    k = np.array([kin.k for kin in kinematics])
    for label, of in solutions.items():
        for L in sorted({part.L for one in of for part in one.parts}):
            _add_phases(made, label, L, box, (k, kinematics, observed, of))
            if "eigenphases" in problem.wants:
                _add_eigenphases(made, label, L, k, of)
            passed = [i for i in np.argsort(k) if (int(i), label, L) in made.phases]
            found = _resonances(problem, box, L, k, [(int(i), of[i]) for i in passed])
            if found:
                made.resonances[label, L] = found
        if "scattering_length" in problem.wants:
            made.lengths[label] = _length(problem, box, k, of)
    return made


def _add_phases(
    made: Elastic,
    label: str,
    L: int,
    box: _Box,
    runs: tuple[
        NDArray[np.float64], Sequence[Kinematics], Sequence[Mapping[str, Summed]], Sequence[Solutions]
    ],
) -> None:
    """Add the phases of one spin and L at all energies where they exist."""
    k, kinematics, observed, solutions = runs
    modulo, errors = np.full(k.size, np.nan), np.full(k.size, np.nan)
    for i, (kin, of) in enumerate(zip(kinematics, solutions, strict=True)):
        sums = observed[i][label]
        # S is unitary by itself where one channel is open.
        if len(sums.levels) != 1 or kin.E >= 0.0 or L not in sums.matrix:
            continue
        part = next(part for part in of.parts if part.L == L)
        modulo[i], added = box.phase(part, kin.k)
        errors[i] = 0.5 * sums.matrix[L][1] + phases.FIRST_ORDER * abs(added)
        _polarise(sums, part, kin, added)
    # Levinson: S waves on a neutral target begin at pi, of the bound state or of the one that is excluded; other waves at 0. For
    # ions this is the branch with the smallest quantum defect.
    first = (0.0, math.pi) if L == 0 and made.polarisability is not None else (-0.5 * math.pi, 0.5 * math.pi)
    branches = phases.continuous(modulo, k, first)
    for known in np.flatnonzero(np.isfinite(modulo)):
        phase = Phase(float(modulo[known]), float(errors[known]), int(branches[known]))
        made.phases[int(known), label, L] = phase


def _add_eigenphases(
    made: Elastic, label: str, L: int, k: NDArray[np.float64], solutions: Sequence[Solutions]
) -> None:
    """Add the sums of eigenphases of one spin and L: below the first excitation the phase itself, above from the determinant."""
    modulo, errors = np.full(k.size, np.nan), np.full(k.size, np.nan)
    for i, of in enumerate(solutions):
        known = made.phases.get((i, label, L))
        if known is not None:
            modulo[i], errors[i] = known.modulo, known.error
            continue
        own = next(part for part in of.parts if part.L == L)
        if own.determinant is None:
            continue
        modulo[i] = (0.5 * float(np.angle(own.determinant))) % math.pi
        # The dipole coupling of degenerate levels beyond R, which dies out like 1/R, is in the change with the box.
        factor = DEGENERATE if made.polarisability is not None else 1.0
        change = of.error(_determinant_of(L))
        errors[i] = 0.5 * (factor * change + own.determinant_error)
    first = (0.0, math.pi) if L == 0 and made.polarisability is not None else (-0.5 * math.pi, 0.5 * math.pi)
    branches = phases.continuous(modulo, k, first)
    for found in np.flatnonzero(np.isfinite(modulo)):
        phase = Phase(float(modulo[found]), float(errors[found]), int(branches[found]))
        made.eigenphases[int(found), label, L] = phase


def _determinant_of(L: int) -> Callable[[Sequence[Observed]], complex]:
    """Return a function that gives det S of an L; NaN where a smaller box does not hold all levels."""

    def value(parts: Sequence[Observed]) -> complex:
        found = next(part.determinant for part in parts if part.L == L)
        return complex(math.nan) if found is None else found

    return value


def _polarise(sums: Summed, part: Observed, kin: Kinematics, added: float) -> None:
    """Add to the cross sections of one L what the target beyond the box adds to its phase, radian."""
    if added == 0.0:
        return
    L, element = part.L, part.matrix
    turned = element * np.exp(2j * added)
    # sigma = K |S - 1|^2 / (4 k), with the K of the total over its flux
    scale = kin.weight(L, part.S) / (4.0 * kin.k)
    change = float(scale * (abs(turned - 1.0) ** 2 - abs(element - 1.0) ** 2))
    unsure = phases.FIRST_ORDER * abs(change)
    value, error = sums.matrix[L]
    sums.matrix[L] = complex(value * np.exp(2j * added)), error + 2.0 * phases.FIRST_ORDER * abs(added)
    sums.total = sums.total[0] + change, sums.total[1] + unsure
    sums.by_L[L] = sums.by_L[L][0] + change, sums.by_L[L][1]
    value_of_level, error_of_level = sums.levels[1, 0]
    sums.levels[1, 0] = value_of_level + change, error_of_level + unsure


def _resonances(
    problem: Collision, box: _Box, L: int, k: NDArray[np.float64], solutions: Sequence[tuple[int, Solutions]]
) -> list[tuple[Measured, Measured]]:
    """Return the resonances that the phases of one spin and L pass, with errors: energy and width, hartree."""
    energies = np.array([0.5 * k[i] ** 2 for i, _ in solutions])

    def found(of: Sequence[Sequence[Observed]], box: _Box) -> list[breit_wigner.Fitted]:
        parts = [next(part for part in one if part.L == L) for one in of]
        phase = [box.phase(part, float(k[i]))[0] for part, (i, _) in zip(parts, solutions, strict=True)]
        return breit_wigner.resonances(energies, np.array(phase))

    own = found([one.parts for _, one in solutions], box)
    if not own:
        return []
    errors = np.array([(one.energy_error, one.width_error) for one in own])
    if not problem.errors or any(one.coarse is None for _, one in solutions):
        known = not any(one.lost for _, one in solutions)
        return _measured(own, errors if known else np.full_like(errors, np.nan))
    numbers = problem.numbers.coarser(float(problem.settings.system.Z))
    coarse = found([one.coarse or [] for _, one in solutions], _Box(numbers.R, box.alpha))
    errors += solutions[0][1].safety * _changes(own, coarse)
    if all(one.fewer is not None for _, one in solutions):
        fewer = found([one.fewer or [] for _, one in solutions], _Box(numbers.R, box.alpha))
        # from what the coarser grid finds near each of its own
        errors += solutions[0][1].beyond * _changes([_nearest(one, coarse) for one in own], fewer)
    return _measured(own, errors)


def _nearest(
    one: breit_wigner.Fitted | None, others: Sequence[breit_wigner.Fitted]
) -> breit_wigner.Fitted | None:
    """Return the resonance of others that is nearest to one; None where there is none."""
    if one is None or not others:
        return None
    return min(others, key=lambda other: abs(other.energy - one.energy))


def _changes(
    own: Sequence[breit_wigner.Fitted | None], others: Sequence[breit_wigner.Fitted]
) -> NDArray[np.float64]:
    """Return how far energies and widths differ from the nearest of others, (p, 2); NaN where there is none."""
    out = np.full((len(own), 2), np.nan)
    for row, one in zip(out, own, strict=True):
        other = _nearest(one, others)
        if one is not None and other is not None:
            row[:] = abs(one.energy - other.energy), abs(one.width - other.width)
    return out


def _measured(
    found: Sequence[breit_wigner.Fitted], errors: NDArray[np.float64]
) -> list[tuple[Measured, Measured]]:
    """Return energies and widths with their errors."""
    return [
        ((one.energy, float(row[0])), (one.width, float(row[1])))
        for one, row in zip(found, errors, strict=True)
    ]


def _length(
    problem: Collision, box: _Box, k: NDArray[np.float64], solutions: Sequence[Solutions]
) -> Measured:
    """Return the scattering length of one spin with its error, bohr."""
    chosen = [i for i in range(k.size) if k[i] <= phases.LARGEST]
    numbers = problem.numbers.coarser(float(problem.settings.system.Z))
    coarse = _Box(numbers.R, box.alpha)

    def found(of: Sequence[Sequence[Observed]], box: _Box, changed: NDArray[np.float64]) -> phases.Length:
        parts = [next(part for part in of[i] if part.L == 0) for i in chosen]
        known = [box.phase(part, float(k[i])) for i, part in zip(chosen, parts, strict=True)]
        delta = np.array([phase for phase, _ in known]) + changed
        return phases.scattering_length(k[chosen], delta, box.polarised(parts[0].pairs, 0))

    none = np.zeros(len(chosen))
    own = [one.parts for one in solutions]
    best = found(own, box, none)
    error = best.spread
    # What the phases show of themselves: the part beyond the box together, what the contour returns one by one.
    parts = [next(part for part in own[i] if part.L == 0) for i in chosen]
    added = np.array([box.phase(part, float(k[i]))[1] for i, part in zip(chosen, parts, strict=True)])
    error += abs(found(own, box, phases.FIRST_ORDER * added).value - best.value)
    singles = [
        found(own, box, 0.5 * part.matrix_error * row).value - best.value
        for part, row in zip(parts, np.eye(len(chosen)), strict=True)
    ]
    error += float(np.sqrt(np.sum(np.square(singles))))
    if any(one.coarse is None for one in solutions):
        return best.value, error if not solutions[0].lost else math.nan
    there = found([one.coarse or [] for one in solutions], coarse, none).value
    error += solutions[0].safety * abs(best.value - there)
    if all(one.fewer is not None for one in solutions):
        fewer = found([one.fewer or [] for one in solutions], coarse, none).value
        error += solutions[0].beyond * abs(there - fewer)
    return best.value, error


def remedy(problem: Collision, k: float) -> str:
    """Return which box and contour are needed where a cross section of an incident wave of k, 1/bohr, is not resolved."""
    numbers = problem.numbers
    R, length = SEEN / k, decay_length(k, numbers.angle, LITTLE)
    if R <= numbers.R and length <= numbers.length:
        R, length = LARGER * numbers.R, LARGER * numbers.length
    R, length = max(R, numbers.R), max(length, numbers.length)
    return f"not resolved; R >= {math.ceil(R)}, length >= {math.ceil(length)}"
