"""Errors of the numbers of `task: atom`, found by repeating the run with other steps, spacings and angular momenta.

Companion A has other steps, B the steps of A and other spacings, C is B with more l.  A number Q depends on the step
as ``Q + e_t h^p``
and on the spacing as ``Q + e_r k^q``, h and k in units of the run's own: p is the order of the steps (2 in velocity
gauge, where a
dense core spoils order 4), and q = 3, the order of the first derivative at the nucleus, is taken in either gauge.  The claim is

    |Q_A - Q| / |h^p - 1| + |Q_B - Q_A| / |k^q - 1| + |Q_C - Q_B|

and rounding.  Where tables give the atom or the field, a fourth one is A with other curves that their rows allow; what
changes is claimed whole, of populations at least what the largest turn of one of them allows.  A pulse narrower than a step
acts at once in length gauge, with the same error for all steps: the run is repeated in velocity gauge, where A is exact.  Where
the wall shapes a level of the run, or has turned electrons back without an absorber, a last one is A in a box twice as wide.
Long runs have coarser companions, short runs finer ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import scalars
from qsim.core.run.loop import Progress
from qsim.tridiag.atom.photoelectrons.flux import spheres
from qsim.tridiag.atom.result import QUANTITIES
from qsim.tridiag.atom.states.observables import level_states
from qsim.tridiag.deck.atom import AtomObserved, AtomPopulations
from qsim.tridiag.tdse.judge import KICK, TABLE, Companions
from qsim.tridiag.tdse.photoelectrons import error_of, flux_interval, same_peaks, spread
from qsim.tridiag.tdse.quantities import turned

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.run.loop import Report, State
    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.deck.photoelectrons import Spectrum

    Evolve = Callable[[AtomProblem, Report], AtomResult]

__all__ = ["AUTO", "AtomCompanions", "numbers"]

# points times l times steps up to which `verify: auto` means true
AUTO = 3e9
# up to which companions are finer
SHORT = 2e7
# ratios of the companions
STEP, SPACING = 2.0, 1.25
# of the spacing
ORDER = 3
ROUNDING = 1e-12
STEP_CAUSE, SPACING_CAUSE = "the time step (time.dt)", "the spacing (grid.dr, grid.map)"
MOMENTA = "the angular momenta (grid.l_max)"
BOX = "the wall (grid.rmax)"
# norm of the last points without an absorber that the wall turns back
AT_WALL = 1e-8
# change of the energy of a level in a larger box that is more than rounding, hartree
SHAPED = 1e-10
# what a box twice as wide leaves open of numbers that count levels near threshold: their share falls off as 1 / rmax
TAIL = {"bound_population": 2.0, "continuum_population": 2.0}
# of the trace of a companion
SAMPLES = 400
# the powers of h and k hold for small h and k
SAFETY = 1.5


class AtomCompanions(Companions):
    """The repeated runs.

    Parameters
    ----------
    result, state
        As for all companions.
    evolve
        Runs a companion.
    work
        Points times l times steps of all runs that are repeated.
    """

    unit, total = "companions", 3

    def __init__(self, result: AtomResult, state: Callable[[], State], evolve: Evolve, work: float) -> None:
        super().__init__(result, state)
        self.evolve, self.fine = evolve, work < SHORT

    def remedy(self, cause: str) -> str:
        """Return what the author of a deck can do about a part of an error."""
        return {
            STEP_CAUSE: "lower time.dt",
            SPACING_CAUSE: "lower grid.dr, and grid.map.dr0",
            MOMENTA: "raise grid.l_max",
            TABLE: "give rows of the table that lie closer",
            KICK: "take laser.gauge: velocity",
            BOX: "raise grid.rmax",
        }[cause]

    def advance(self, report: Report) -> None:
        """Run the companions and compare.

        Raises
        ------
        NumericsError
            If a level is missing on another grid.
        """
        base = self.result.problem
        # short runs get finer companions, long ones coarser and cheaper ones
        h, k = (1.0 / STEP, 1.0 / SPACING) if self.fine else (STEP, SPACING)
        # the same map with other spacings, and the wall at the same radius
        other = base.make(base.setting.grid(k))
        # up to a whole number of cells
        k = other.grid.step / base.lattice.grid.step
        # one change after another: the step, then the spacing, then more l; each difference has one cause
        runs = [self.result, self._run(base, h, base.lattice, 0, report)]
        report(Progress(1))
        runs.append(self._run(base, h, other, 0, report))
        report(Progress(2))
        # a quarter more l, at least two: one l alone would add half a pair
        more = max(2, self.result.lanes.used // 4)
        runs.append(self._run(base, h, other, more, report) if base.pulse.pulses else runs[-1])
        report(Progress(3))
        doubted = base.doubted()
        table = runs[1] if doubted is None else self._run(doubted, h, doubted.lattice, 0, report)
        kicked = base.kicked
        gauge = self._run(base.in_velocity_gauge(), 1.0, base.lattice, 0, report) if kicked else self.result
        # errors of Suzuki's composition are of order 4 in length gauge; second order is assumed in velocity gauge
        larger = _larger_box(self.result)
        wide = runs[1] if larger is None else self._run(larger, h, larger.lattice, 0, report)
        order = base.step_order
        # Richardson: from the change between two steps (spacings) to the error of the run itself
        shares = 1.0 / abs(h**order - 1.0), 1.0 / abs(k**ORDER - 1.0), 1.0
        own = numbers(self.result)
        a, b, c, t, g, w = (same_peaks(own, numbers(one)) for one in (*runs[1:], table, gauge, wide))
        least = turned(a, t)
        for name, value in own.items():
            # found beside the propagation, with an error of its own, or with no value in a companion
            if not all(name in one for one in (a, b, c, t, g)):
                continue
            parts = {
                STEP_CAUSE: shares[0] * _apart(name, a[name], value),
                SPACING_CAUSE: shares[1] * _apart(name, b[name], a[name]),
                MOMENTA: _apart(name, c[name], b[name]),
            }
            if doubted is not None:
                parts[TABLE] = max(_apart(name, t[name], a[name]), least.get(name, 0.0))
            if kicked:
                parts[KICK] = _apart(name, g[name], value)
            if larger is not None:
                parts[BOX] = TAIL.get(name, 1.0) * _apart(name, w.get(name, a[name]), a[name])
            self.parts[name] = parts
            known = self.result.errors.get(name, 0.0) + SAFETY * self.result.own.get(name, 0.0)
            self.errors[name] = SAFETY * sum(parts.values()) + ROUNDING * (1.0 + abs(value)) + known
        # spectra: energy by energy, with the same shares, spread over neighbours because differences cross zero
        for name, unsure in self.result.unsure.items() if self.with_spectra else ():
            seen = [one.spectra[name] for one in runs]
            apart: Any = sum(
                share * np.abs(after - before)
                for share, before, after in zip(shares, seen[:-1], seen[1:], strict=True)
            )
            apart = apart + np.abs(table.spectra[name] - seen[1]) + np.abs(gauge.spectra[name] - seen[0])
            self.spectra[error_of(name)] = (
                SAFETY * (spread(np.where(np.isnan(unsure), 0.0, apart)) + unsure) + ROUNDING
            )

    def _run(
        self, base: AtomProblem, h: float, lattice: AtomLattice, more: int, report: Report
    ) -> AtomResult:
        """Return the result of a companion: steps and l of its own, on a lattice."""
        steps = max(round(base.setting.steps / h), 1)
        # what grows in the run by itself is fixed in a companion: it begins with all that the run had in the end
        changed = replace(
            base.setting,
            steps=steps,
            dt=base.t_final / steps,
            lmax=self.result.lanes.lmax + more,
            grows=False,
        )
        # levels are found anew on another grid: they belong to its own Hamiltonian
        wanted = [(one.n, one.l) for one in base.levels]
        harmonics = base.observed.hhg if self.with_spectra else None
        observed = AtomObserved(AtomPopulations(), base.observed.norm_within, hhg=harmonics)
        given = base.spectra if self.with_spectra else []
        blocks = [_without_directions(self.result, block) for block in given]
        every = max(1, steps // SAMPLES)
        if harmonics is not None:
            # harmonics need the samples of the run
            every = max(1, round(base.every * steps / base.setting.steps))
        problem = replace(
            base,
            setting=changed,
            lattice=lattice,
            start=base.start if lattice is base.lattice else base.start_on(lattice),
            levels=base.levels if lattice is base.lattice else level_states(lattice, wanted),
            observed=observed,
            spectra=blocks,
            spheres=spheres(lattice, blocks),
            outputs=1,
            every=flux_interval(blocks, steps, changed.dt, every),
        )
        return self.evolve(problem, lambda progress: report(Progress()))


def _larger_box(result: AtomResult) -> AtomProblem | None:
    """Return the problem in a box twice as wide, if the wall shapes a level or has turned electrons back; None otherwise."""
    problem, grid = result.problem, result.problem.lattice.grid
    lattice = problem.make(grid.resized(grid.points + math.ceil(grid.wall / grid.widest)))
    larger = replace(
        problem,
        lattice=lattice,
        start=problem.start_on(lattice),
        levels=level_states(lattice, [(one.n, one.l) for one in problem.levels]),
    )
    shaped = any(
        abs(one.energy - there.energy) > SHAPED
        for one, there in zip([*problem.start, *problem.levels], [*larger.start, *larger.levels], strict=True)
    )
    turned_back = problem.absorber.type == "none" and float(result.frames["wall"].max()) > AT_WALL
    return larger if shaped or turned_back else None


def _without_directions(result: AtomResult, block: Spectrum) -> Spectrum:
    """Return a spectrum as companions need it: azimuths for an attoclock angle alone."""
    # directions cost the most time of a spectrum, and only the attoclock angle has an error that needs them
    few: dict[str, int | None] = {"polar": None}
    if "attoclock_angle" not in result.numbers or block is not result.problem.spectra[0]:
        few["angles"] = None if block.method == "window" else 2
    return block.model_copy(update=few)


def _apart(name: str, one: float, other: float) -> float:
    """Return the distance of two numbers, of angles that around the circle, degrees."""
    return abs(math.remainder(one - other, 360.0) if name == "attoclock_angle" else one - other)


def numbers(result: AtomResult) -> dict[str, float]:
    """Return the numbers that errors are claimed for, by the name of the scalar."""
    values = scalars((one for one in QUANTITIES if one.error is not None), result)
    return {name: float(scalar.value) for name, scalar in values.items() if isinstance(scalar.value, float)}
