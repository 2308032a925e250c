"""Errors of the numbers of a propagation, found by repeating it with other time steps and grid spacings.

A number Q of a run depends on step and spacing as ``Q(h, k) = Q + e_t h^2 + e_x k^p``, with h and k in units of the run's own
(the Crank-Nicolson step is of second order, the stencils of order p = 2 or 4).  Two companions A and B with the steps h_A and
h_B and one spacing k give

    e_t = (Q_B - Q_A) / (h_B^2 - h_A^2),    e_x = (Q_A - Q - (h_A^2 - 1) e_t) / (k^2 - 1),

where order 2 is assumed for both stencils: potentials with edges spoil order 4.  Long runs have coarser companions, which
take half of their time, short runs finer ones.  The claimed error is ``|e_t| + |e_x|``, and what rounding and the walls
add.

A Crank-Nicolson step turns the phase of no component by more than pi, so that steps which are too long for the fast components
of a packet change hardly anything when they are halved: Q is no power of h yet.  Short runs have a third companion C, with
half the step of A, that sees it: of the slopes ``dQ / d(h^2)`` from B to A and from A to C, each is taken where it was found, and
one that grows is taken to grow on below C (:func:`_of_slopes`).

Losses to an absorber, and norms in parts of the box, need one more companion.  The lattice and the Crank-Nicolson step both slow
fast components down, so that the first of them arrive too late in every companion: a loss that should be 1e-6 is 1e-15, and all
differences are as small.  In a spectral companion (`propagate/sine_waves`) free motion is exact; the error of a norm
is at least its difference from the run.

Where the grid does not resolve the potential (an edge between two points), each grid sees another part of it, and the
difference of two may vanish by accident.  All companions then have the potential as a density between the points feels it
(:func:`qsim.tridiag.tdse.potentials.averaged`), and one more has the step and the spacing of the run itself: what
changes from the run to it is a part of the error, and its number takes the place of Q above.

Where tables give the potential or the field, one more companion has other curves that their rows allow
(:mod:`qsim.core.physics.curves`): what changes from the companion of the same size to it is a part of the error, of populations
at least what the largest turn of one of them allows.  A pulse
narrower than a step acts at once in length gauge, as a kick whose Cayley form is wrong by the same amount for all steps: one
more companion has the velocity gauge, where A is exact.

All companions have the walls and the absorber of the run: the claim is about the problem that the deck states.  A bound
level of the initial state that the walls change a little is found in a box twice as wide, too, and the difference is claimed for
the energies.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from qsim.tridiag.deck.electron import levels_of
from qsim.tridiag.deck.model import DensityMap, Solver
from qsim.tridiag.propagate import initial, sine_waves
from qsim.tridiag.propagate.eigenstates import RESIDUAL, levels_of_box, mirror, squeezed
from qsim.tridiag.propagate.lattice import Lattice, equidistant
from qsim.tridiag.propagate.observer import Observer
from qsim.tridiag.propagate.surface import ends_of
from qsim.tridiag.tdse import absorbers, potentials
from qsim.tridiag.tdse.judge import KICK, MARGIN, TABLE, Companions
from qsim.tridiag.tdse.photoelectrons import error_of, flux_interval, spread
from qsim.tridiag.tdse.quantities import turned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.tridiag.propagate.problem import Propagation
    from qsim.tridiag.propagate.result import Propagated

    Evolve = Callable[[Propagation, Comm, Report, int], Propagated]

__all__ = ["AUTO", "CUTOFF", "FINE", "LineCompanions", "companions", "cuts", "numbers", "repeated"]

T = TypeVar("T", "float", "NDArray[np.float64]")

# points times steps up to which `verify: auto` means true
AUTO = {"cpu": 2e10, "cuda": 5e12}
# points times steps up to which companions are finer: all of them take some tenths of a second
FINE = 4e6
# a number of the harmonics, which companions sample as the run does
CUTOFF = "hhg_cutoff_order"
# of the slope in h^2 where h is halved, at most: then every halving changes a number by the same amount
GROWTH = 4.0
# hartree: change of V by what lies between the points, up to which it is left out
UNSEEN = 1e-9
# density, in units of its maximum, from which V counts in a long run
PRESENT = 1e-8
STEP, SPACING, ROUNDED = "the time step", "the grid spacing", "rounding"
WALLS, LEVELS = "the walls", "the mixing of close levels"
SQUEEZED = "walls that squeeze a level"
# change of a level in a larger box, of itself and of its distance from the threshold, from which the walls make the level
MEANT = 0.2
BETWEEN = "the potential between the points"
THRESHOLD = "levels at the threshold"
# |psi'|^2 at a wall, in units of its mean, from which a state is one of the box
SHAPED = 1e-2
# deviation of <phi|P|phi> from +1 or -1 up to which a level counts as even or odd
PURE = 1e-8
# ratio of two spacings that share hardly any points: nested grids alias a table of V alike
APART = math.sqrt(3.0)
# points of a coarse companion
SMALLEST = 8
# relative error that rounding leaves in a number
ROUNDING = {"double": 1e-13, "single": 3e-6}


def numbers(problem: Propagation, rows: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return the scalars of a run whose errors are claimed, by name, from the rows of its first and last output time."""
    out = {
        "norm_final": float(rows["norm"][-1]),
        "energy_initial": float(rows["energy"][0]),
        "energy_final": float(rows["energy"][-1]),
        "dipole_final": float(rows["dipole"][-1]),
    }
    if "populations" in rows:
        # of the output time at the end
        last = rows["populations"][-1]
        out |= {f"population_{level}": float(value) for level, value in enumerate(last)}
        out["population_sum"] = float(last.sum())
    if "bound" in rows:
        out["bound_population"] = float(rows["bound"][-1])
    for name, places in (
        ("norm_within", problem.observed.norm_within),
        ("norm_right", problem.observed.norm_right),
    ):
        for index, place in enumerate(places):
            out[f"{name}_{place:g}"] = float(rows[name][-1, index])
    return out


# ---------------------------------------------------------------------------------------- companions


def companions(problem: Propagation) -> tuple[tuple[int, int], ...]:
    """Return steps and points of the companions A and B, and of C where there is one.

    The walls, one spacing beyond either end, stay where they are: points + 1 times the spacing is the width of the box, so
    that no companion has a point outside of it, where a table of V may know nothing.
    """
    steps, points = problem.steps, problem.lattice.points
    # Edges of a well may lie on points of the run, where their errors are small: they must lie on points of the companions, too.
    ratio = 2.0 if problem.potential.edges else APART
    if steps * points <= FINE:
        # short runs can afford finer companions: A and B then have smaller errors than the run
        finer = round(ratio * (points + 1)) - 1
        # A and B differ in their steps alone, so e_t comes from their difference; C tells how e_t grows
        return (2 * steps, finer), (steps, finer), (4 * steps, finer)
    # long runs get coarser ones, with half and a third of the steps: together less than the run itself
    coarser = max(SMALLEST, round((points + 1) / ratio) - 1)
    # half and a third of them would be the same number
    if steps < 5:
        return (2 * steps, coarser), (3 * steps, coarser)
    return (math.ceil(steps / 2), coarser), (math.ceil(steps / 3), coarser)


def companion(problem: Propagation, steps: int, points: int, average: bool = False) -> Propagation:
    """Return the same problem with other steps and points, or with the average of V about each point."""
    old, box = problem.lattice, problem.box
    dx = (box.xmax - box.xmin) / (points + 1)
    xmin = box.xmin + dx
    threads = problem.device.threads
    x = equidistant(xmin, dx, points, threads)
    if average:
        potential = potentials.averaged(problem.potential, x)
    else:
        potential = potentials.evaluate(problem.potential, x, threads=threads)
    cap, mask = absorbers.evaluate(problem.absorber, x, (box.xmin, box.xmax, 0.0))
    # the same duration as the run
    dt = problem.steps * problem.dt / steps
    # it acts like -log(mask) / dt, which must stay the same
    if mask is not None:
        mask = mask ** (dt / problem.dt)
    slope = None if old.slope is None else potentials.slope(problem.potential, x, threads=threads)
    lattice = Lattice(xmin, dx, points, old.stencil, potential, slope=slope, cap=cap, mask=mask)
    # each companion has its own initial state, since an eigenstate has the errors of its grid
    psi0 = initial.initial_state(problem.initial, x, dx, potential, old.stencil, threads=threads)
    levels = levels_of_box(dx, potential, old.stencil, problem.levels, problem.free)
    return replace(
        problem,
        lattice=lattice,
        psi0=psi0,
        dt=dt,
        steps=steps,
        **levels._asdict(),
        # samples of the trace at the times of the run
        every=max(1, round(problem.every * steps / problem.steps)),
    )


def resolved(problem: Propagation, psi: NDArray[Any]) -> bool:
    """Tell whether what lies between the points of the potential changes nothing.

    In a long run, whose time it would double, it counts only where the electron is at the start or at the end.

    Parameters
    ----------
    problem
        The run.
    psi : (points,) complex
        State at the end.
    """
    lattice = problem.lattice
    if problem.potential.zero:
        return True
    # the average of V about each point, as the density feels it; equal to V where the grid resolves it
    average = potentials.averaged(problem.potential, np.asarray(lattice.x, dtype=float))
    change = np.abs(average - lattice.potential)
    if problem.steps * lattice.points > FINE:
        # V counts where the electron is, at the beginning or at the end; everywhere in a short run, whose companions are cheap
        density = np.maximum(np.abs(problem.psi0) ** 2, np.abs(psi) ** 2)
        change = change[density > PRESENT * float(np.max(density))]
    return float(np.max(change, initial=0.0)) < UNSEEN


class LineCompanions(Companions):
    """The companions of a run, one after another.

    Parameters
    ----------
    result, state
        As for all companions.
    comm
        Processes that share each companion.
    evolve
        Runs a companion.

    Attributes
    ----------
    problems : list of Propagation
    numbers, found : list of dict
        The numbers of the companions, and their spectra, by name.
    between : dict
        The numbers of the run with the potential between its points; empty if the grid resolves the potential.
    changes : dict of dict
        By how much other curves of the tables, or the other gauge, change the numbers, by the cause.
    """

    unit = "points times steps"

    def __init__(self, result: Propagated, state: Callable[[], State], comm: Comm, evolve: Evolve) -> None:
        super().__init__(result, state)
        self.psi, self.comm, self.evolve = result.psi, comm, evolve
        self.problem: Propagation = result.problem
        self.sizes = companions(self.problem)
        self.problems: list[Propagation] = []
        self.numbers: list[dict[str, float]] = []
        self.found: list[dict[str, NDArray[np.float64]]] = []
        self.between: dict[str, float] = {}
        self.changes: dict[str, dict[str, float]] = {}

    @property
    def total(self) -> int:
        """Points times steps of all of them, at most."""
        # progress counts points times steps, to which time is proportional
        own = self.problem.steps * self.problem.lattice.points
        # one of them again for every cause of a change
        sizes = (*self.sizes, *[self.sizes[1]] * len(self.changed))
        return own + sum(steps * points for steps, points in sizes)

    @cached_property
    def changed(self) -> dict[str, Propagation]:
        """The problem with other tables, or in the other gauge, where these matter."""
        problem = self.problem
        out: dict[str, Propagation] = {}
        if (doubted := problem.doubted()) is not None:
            out[TABLE] = doubted
        if problem.kicked:
            out[KICK] = problem.in_velocity_gauge()
        return out

    def advance(self, report: Report) -> None:
        """Run all companions, and compare."""
        # where V has structure between the points, companions get its average: each grid would see another part of V
        average = not resolved(self.problem, self.psi)
        self.problems = [companion(self.problem, *size, average=average) for size in self.sizes]
        done = 0

        def run(one: Propagation) -> dict[str, float]:
            nonlocal done
            spectra = [block for block in one.spectra if block.method != "photoelectron"]
            made = repeated(replace(one, spectra=spectra if self.with_spectra else []))
            result = self.evolve(made, self.comm, report, done)
            done += one.steps * one.lattice.points
            self.found.append(result.spectra)
            numbers_of = numbers(one, result.frames)
            cutoff = result.numbers.get(CUTOFF)
            return numbers_of | ({} if cutoff is None else {CUTOFF: float(cutoff)})

        self.numbers = [run(one) for one in self.problems]
        if average:
            sizes = self.problem.steps, self.problem.lattice.points
            self.between = run(companion(self.problem, *sizes, average=True))
        for cause, problem in self.changed.items():
            # of the companions the one with the longest steps
            other = run(companion(problem, *self.sizes[1], average=average))
            known = self.numbers[1]
            least = turned(known, other) if cause == TABLE else {}
            self.changes[cause] = {
                k: MARGIN * max(abs(other[k] - known[k]), least.get(k, 0.0)) for k in known if k in other
            }
        self._compare(_spectral_norms(self.problem, self.problems[0]))

    def _compare(self, spectral: Mapping[str, float]) -> None:
        """Find the parts of the errors; `spectral`: norms by the spectral companion."""
        problem, result = self.problem, self.result
        found = numbers(problem, result.frames)
        if (cutoff := result.numbers.get(CUTOFF)) is not None:
            found[CUTOFF] = float(cutoff)
        # harmonics may have a cutoff in the run and none in a companion
        runs = [*self.numbers, *([self.between] if self.between else []), *self.changes.values()]
        found = {name: value for name, value in found.items() if all(name in one for one in runs)}
        time_step, grid = _differences(problem, self.between or found, self)
        for name, norm in spectral.items():
            # a part of the error that all lattices share shows in no difference of them
            grid[name] = max(grid[name], abs(norm - found[name]) - time_step[name])
        for name, cut in cuts(problem, self.psi).items():
            grid[name] += cut
        rest = _rest(problem, found, float(result.numbers.get("turned_back") or 0.0))
        for name, value in self.between.items():
            rest[name][BETWEEN] = abs(value - found[name])
        if "bound_population" in rest:
            rest["bound_population"][THRESHOLD] = _crossing(problem, self)
        beyond = _squeezed(problem)
        for name in found if beyond else ():
            if name.startswith("energy"):
                rest[name][SQUEEZED] = beyond
        for cause, changes in self.changes.items():
            for name in found:
                rest[name][cause] = changes[name]
        self.errors = {name: time_step[name] + grid[name] + sum(rest[name].values()) for name in found}
        self.parts = {name: {STEP: time_step[name], SPACING: grid[name], **rest[name]} for name in found}
        self._compare_spectra()

    def _compare_spectra(self) -> None:
        """Find the errors of spectra, energy by energy, spread over neighbours because differences cross zero."""
        a, b = self.found[:2]
        others = self.found[len(self.problems) :]
        # the run with the potential between its points comes first, and has its own step and spacing
        bases = [self.result.spectra if self.between and not k else b for k in range(len(others))]
        for name, unsure in self.result.unsure.items() if self.with_spectra else ():
            own: NDArray[np.float64] = self.result.spectra[name]
            step, grid = _parts(self.problem, self.problems, own, a[name], b[name])
            changed = sum(
                (np.abs(one[name] - base[name]) for one, base in zip(others, bases, strict=True)),
                start=np.zeros(own.size),
            )
            found = spread(MARGIN * (step + grid) + changed)
            self.spectra[error_of(name)] = found + unsure
            if name == "pes" and "pes_total" in self.result.numbers:
                # beside the errors of method and sum
                energy, known = self.result.spectra["energy"], self.result.errors | self.result.own
                total = np.trapezoid(found * (energy > 0.0), energy)
                self.errors["pes_total"] = known["pes_total"] + float(total)

    def remedy(self, cause: str) -> str:
        """Return what the author of a deck can do about a part of an error."""
        key = self.problem.step_key
        fewer = "take fewer steps or a larger grid spacing"
        return {
            STEP: f"{'raise' if key == 'time.steps' else 'lower'} {key}",
            SPACING: "raise grid.points",
            TABLE: "give rows of the table that lie closer",
            KICK: "take laser.gauge: velocity",
            BETWEEN: "raise grid.points, so that dx resolves the potential",
            ROUNDED: "set run.precision: double" if self.problem.precision == "single" else fewer,
            WALLS: "widen grid, or add an absorber",
            SQUEEZED: "widen grid",
            THRESHOLD: "lower time.dt and raise grid.points, or take populations of lower levels",
            LEVELS: "take the sum of the populations of the close levels, which does not depend on how they mix",
        }[cause]


def repeated(problem: Propagation) -> Propagation:
    """Return the problem as a companion runs it: from its begin to its end, with the solver chosen for it.

    Samples of the trace are for harmonics and the flux alone; without harmonics no acceleration is claimed, so V' is left out.
    """
    block, lattice = problem.observed.hhg, problem.lattice
    spheres = ends_of(lattice, problem.spectra)
    every = problem.every if block is not None or spheres else problem.steps
    every = flux_interval(problem.spectra, problem.steps, problem.dt, every)
    slope = None if block is None else lattice.slope
    observed = replace(problem.observed, density=DensityMap(points=2), gabor=None)
    return replace(
        problem,
        lattice=replace(lattice, slope=slope),
        solver=Solver(),
        observed=observed,
        outputs=1,
        every=every,
        spheres=spheres,
    )


def _spectral_norms(problem: Propagation, other: Propagation) -> dict[str, float]:
    """Return norms, whole and in parts, by the spectral companion on the finer of two grids; none where all must be 1."""
    lattice = problem.lattice
    if (
        lattice.cap is None
        and lattice.mask is None
        and not problem.observed.norm_within
        and not problem.observed.norm_right
    ):
        return {}
    # sine waves have no error of dispersion, but kinks of V between points remain: the finer grid has less of
    # it
    finest = min(problem, other, key=lambda one: one.lattice.dx)
    # free motion is exact there, which no lattice and no Crank-Nicolson step gives: fast electrons arrive in time
    psi = sine_waves.final(finest.lattice, finest.psi0, finest.dt, finest.steps, finest.pulse)
    if psi is None:
        return {}
    observer, last = Observer(finest), finest.device.asarray(psi)
    row = observer.row(finest.steps, last, observer.sums(last))
    values = numbers(finest, {name: np.array([value]) for name, value in row.items()})
    return {name: value for name, value in values.items() if name.startswith("norm")}


# ------------------------------------------------------------------------------------------- errors


def _crossing(problem: Propagation, others: LineCompanions) -> float:
    """Return the population of the levels next to the threshold that a finer grid may have on its other side."""
    near = others.result.frames["near"][-1]
    energies, bound = problem.energies, problem.bound
    assert energies is not None
    assert problem.free is not None
    held = 0.0
    for level, population in zip(range(bound - 1, bound + 1), near, strict=False):
        there = [
            float(one.energies[level])
            for one in others.problems
            if one.energies is not None and level < one.energies.size
        ]
        apart = max((abs(energy - energies[level]) for energy in there), default=math.inf)
        if abs(energies[level] - problem.free) < MARGIN * apart:
            held += float(population)
    return held


def _differences(
    problem: Propagation, found: Mapping[str, float], others: LineCompanions
) -> tuple[dict[str, float], dict[str, float]]:
    """Return ``|e_t|`` (Eq. T24), or the estimate from three steps, and ``|e_x|`` (Eq. T25) of every number."""
    a, b, *third = others.numbers
    time_step, grid = {}, {}
    for name, value in found.items():
        step, spacing = _parts(problem, others.problems, value, a[name], b[name])
        time_step[name] = _of_slopes(b[name], a[name], third[0][name]) if third else float(step)
        grid[name] = float(spacing)
    return time_step, grid


def _parts(problem: Propagation, others: Sequence[Propagation], value: T, a: T, b: T) -> tuple[T, T]:
    """Return ``|e_t|`` (Eq. T24) and ``|e_x|`` (Eq. T25) of a number, or of each number of an array, from companions A and B."""
    # h and k in units of the run's own
    step_a, step_b = (one.dt / problem.dt for one in others[:2])
    spacing = others[0].lattice.dx / problem.lattice.dx
    # an absorber is split off steps of order 4, in second order
    powers = {2, problem.order} if problem.lattice.cap is not None else {problem.order}
    # Eq. T24: both companions have the same grid, so they differ by their steps alone
    parts = [(b - a) / (step_b**p - step_a**p) for p in powers]
    # Eq. T25: what is left of the difference between A and the run after its part by the steps
    left = [a - value - (step_a**p - 1.0) * e_t for p, e_t in zip(powers, parts, strict=True)]
    step, rest = (np.max(np.abs(one), axis=0) for one in (parts, left))
    return step, rest / abs(spacing**2 - 1.0)


def _of_slopes(whole: float, half: float, quarter: float) -> float:
    """Return the error of a number by the time step from three runs with the steps h = 1, 1/2 and 1/4.

    It is the integral of the size of the slope in ``h^2`` from 0 to 1.  Where the number is a quadratic function of h, this is
    ``|e_t|``.
    """
    # slopes in h^2 from 1 to 1/2 and from 1/2 to 1/4; below 1/4 the slope may grow once more by the same factor
    longer = abs(whole - half) / (1.0 - 0.25)
    shorter = abs(half - quarter) / (0.25 - 0.0625)
    growth = min(max(shorter / longer, 1.0), GROWTH) if longer > 0.0 else GROWTH
    return 0.75 * longer + shorter * (0.1875 + 0.0625 * growth)


def _rest(
    problem: Propagation, found: Mapping[str, float], turned_back: float
) -> dict[str, dict[str, float]]:
    """Return by its cause what rounding, the eigensolver and the walls add to the errors."""
    lattice = problem.lattice
    # rounding adds up like a random walk over the steps; a norm that should be 1 shows what it did
    relative = ROUNDING[problem.precision] * (1.0 + 0.01 * math.sqrt(problem.steps))
    absorbs = lattice.cap is not None or lattice.mask is not None
    # a norm that must be 1 shows how far rounding has gone
    relative += 0.0 if absorbs else abs(found["norm_final"] - 1.0)
    # largest energy of the lattice: residuals of the eigensolver are rounding errors of numbers of that size
    top = 3.0 / lattice.dx**2 + float(np.max(np.abs(lattice.potential)))
    reach = max(abs(problem.box.xmin), abs(problem.box.xmax))
    # what the walls turned back would be elsewhere in an endless box; states of the box itself are meant to feel them
    walls = 0.0 if absorbs or _between_walls(problem.psi0) else turned_back
    # first-order perturbation theory: residual over distance of the levels
    mixed = min(1.0, RESIDUAL * top / max(_gap(problem), 1e-300))
    out = {}
    for name, value in found.items():
        if name.startswith("energy"):
            out[name] = {ROUNDED: relative * abs(value) + 1e-15 * top}
        elif name == "dipole_final":
            out[name] = {ROUNDED: relative * reach, WALLS: walls * problem.steps * problem.dt}
        elif name in ("norm_final", CUTOFF):
            out[name] = {ROUNDED: relative}
        else:
            levels = mixed if name.startswith("population_") and name != "population_sum" else 0.0
            out[name] = {ROUNDED: relative, WALLS: walls, LEVELS: levels}
    return out


def _between_walls(psi: NDArray[np.complex128]) -> bool:
    """Tell whether walls shape a state: then they belong to what the deck states, and are no error of it.

    The force ``|psi'|^2 / 2`` on a wall is ``2 <p^2/2> / L`` for every level of a box of length L, however large; `SHAPED` of the
    half of that is more than the tail of a packet or an atom.
    """
    # |psi'|^2 dx^2 between all points, walls included, where psi is zero
    steps = np.abs(np.diff(np.pad(psi, 1))) ** 2
    return float(max(steps[0], steps[-1])) > SHAPED * float(np.mean(steps))


def _squeezed(problem: Propagation) -> float:
    """Return the change of the energies of the initial levels in a larger box, hartree, unless walls shape them by intent."""
    levels, lattice = levels_of(problem.initial), problem.lattice
    if not levels or problem.potential.zero:
        return 0.0
    free = potentials.threshold(problem.potential, problem.box.potential)
    found = squeezed(
        lambda x: potentials.evaluate(problem.potential, x),
        lattice.x,
        lattice.stencil,
        levels,
        math.inf if free is None else free,
    )
    changes = [
        abs(own - there)
        for own, there in found.values()
        # walls that change a level by more are meant
        if abs(own - there) < MEANT * min(abs(there), math.inf if free is None else abs(there - free))
    ]
    return MARGIN * max(changes, default=0.0)


def _gap(problem: Propagation) -> float:
    """Return the least distance of two levels that the eigensolver can mix, hartree; inf if there is one level or none.

    Levels that are even and odd in turn do not mix with their neighbours.
    """
    if problem.energies is None or problem.states is None or problem.levels < 2:
        return math.inf
    energies, states = problem.energies[: problem.levels], problem.states[: problem.levels]
    distances = np.abs(np.diff(energies))
    centre = mirror(problem.lattice.potential[problem.window : problem.window + states.shape[1]])
    if centre is not None:
        low, high = max(0, centre - states.shape[1] + 1), min(states.shape[1] - 1, centre)
        # parity of each level about the centre of symmetry
        part = states[:, low : high + 1]
        parity = np.sum(part * part[:, ::-1], axis=1) * problem.lattice.dx
        if np.max(np.abs(parity - (-1.0) ** np.arange(len(energies)))) < PURE:
            # levels of the same parity are every second one
            distances = np.abs(energies[2:] - energies[:-2])
    return float(np.min(distances, initial=math.inf))


def cuts(problem: Propagation, psi: NDArray[Any]) -> dict[str, float]:
    """Return the errors of norms in parts of the box by the cells that their edges cut (Eq. T27).

    A cell is taken to have one density.  An edge at the distance ``u dx`` from its point leaves out ``rho' dx^2 ((1/4 - u^2)/2 -
    1/24)``; the second term is that of the midpoint rule beyond it.  Spacings of companions cut other cells, so that this part of
    the error does not show there.
    """
    lattice = problem.lattice
    edges: dict[str, tuple[float, ...]] = {
        f"norm_within_{r:g}": (-r, r) for r in problem.observed.norm_within
    }
    edges |= {f"norm_right_{place:g}": (place,) for place in problem.observed.norm_right}
    out = {}
    # points are counted from the left wall, which is point 0
    xmin = problem.box.xmin
    for name, places in edges.items():
        out[name] = 0.0
        for place in places:
            i = round((place - xmin) / lattice.dx)
            if not 0 <= i <= lattice.points + 1:
                continue
            u = (place - xmin) / lattice.dx - i
            # the density about the edge as a parabola: slope and curvature give the error of the cell that is cut (Eq. T27)
            before, here, after = (_density(psi, k) for k in (i - 1, i, i + 1))
            slope, bend = 0.5 * abs(after - before), abs(after - 2.0 * here + before)
            size = abs(0.5 * (0.25 - u * u) - 1.0 / 24.0) + 0.01
            out[name] += lattice.dx * (slope * size + bend / 24.0)
    return out


def _density(psi: NDArray[Any], point: int) -> float:
    """Return |psi|^2 at a point counted from the left wall, where psi is odd: the density beyond a wall is its mirror image."""
    walls = len(psi) + 1
    inside = walls - abs(walls - abs(point))
    return float(abs(psi[inside - 1])) ** 2 if 0 < inside < walls else 0.0
