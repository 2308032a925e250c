"""How long a run takes, before it: counts of what it does, at speeds measured on one core.

Counted are layers of product formulas, products H psi, measurements and matrices.  Where a run finds its step or its number of
products itself, both are guessed from H: the half width of the spectrum is `WIDTH` of its bound by the couplings, and a step is
as long as its order, the accuracy and the strength of the couplings allow for most chains.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.trotter.deck.tasks import Dynamics, Floquet, Levels, Spectrum, Thermal
from qsim.trotter.evolution.accuracy import ROUGH, layers_per_step
from qsim.trotter.evolution.chebyshev import LANCZOS_STEPS, coupling_bounds
from qsim.trotter.evolution.error_pilot import strength
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.evolution.krylov import LONGEST, ORDER, VECTORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.problem import TaskProblem

__all__ = ["Counted", "evolution", "krylov_products", "products", "task"]

# measured on a core of a server of 2024, double precision
# s, of a run that hardly computes
START = 0.08
# s, to find a step
PILOT = 0.1
# s, to look at the profiles of a driven H
DRIVE = 0.2
# s per amplitude, of a diagonal layer with its change of frame
LAYER = 8e-9
# the same up to `SMALL` spins, whose state stays in the cache
SMALL_LAYER = 4e-9
SMALL = 12
# s per amplitude and pair with a transverse coupling, of a product H psi in the whole space
PAIR = 0.5e-9
# the same of a site with a transverse field
FIELD = 0.8e-9
# s per amplitude beside H psi, of a term of Chebyshev or Lanczos
RECURRENCE = 4e-9
# as PAIR, in a sector of Sz
SECTOR_PAIR = 0.7e-9
# s per amplitude, of a bond that a product formula turns in a sector
BOND = 1e-9
# s of it, however small
BOND_CALL = 4e-6
# s per entry of a stored matrix
STORED = 3e-9
# s per amplitude, of the moments along one axis
MEASURE = 15e-9
# s of a product and a matrix of a Krylov space, however small
SMALL_PRODUCT = 6e-5
# s per amplitude, of a vector of a recurrence that is added to one of a temperature
ADDED = 0.3e-9
# error of a step of Magnus, of (s h)^5
MAGNUS = 5e-4
# s of a product in a sector, however small
CALL = 7e-5
# flops per second of small dense matrices
DENSE = 2e10
# operations of a real symmetric eigenproblem, of the cube of its size; a complex one takes `COMPLEX` times as many
EIGEN = 9.0
COMPLEX = 4.0
# half width of a spectrum, of its bound by the couplings
WIDTH = 0.7
# of a random vector at temperatures of a tenth of the couplings
THERMAL_STEPS = 70.0
# products of a recurrence that finds a level, twice: its vector is summed in a second one
LOWEST = 60.0
# launches on a GPU that wait for each other
# of a product with the recurrence beside it
TERM = 3.0
# of one that is made orthogonal to all before it
KRYLOV = 10.0
# of the measurements at one time, and of an entropy
SEEN = 10.0


class Counted(NamedTuple):
    """Work of a run.

    Attributes
    ----------
    seconds
        On one core, s.
    launches
        Of a GPU, one after the other.
    host
        Part of `seconds` for which no GPU is used, s.
    """

    seconds: float
    launches: float
    host: float


def products(reach: float, accuracy: float = 1e-8) -> float:
    """Return about how many products H psi an expansion of exp(-iHt) takes; `reach` is t times the half width of the spectrum."""
    if reach <= 0.0:
        return 1.0
    digits = max(-math.log10(accuracy), 1.0)
    return reach + 1.3 * digits ** (2.0 / 3.0) * reach ** (1.0 / 3.0) + 0.5 * digits


def half_width(model: Model) -> float:
    """Return about half the width of the spectrum of H."""
    low, high = coupling_bounds(model)
    return WIDTH * 0.5 * (high - low)


def _bonds(model: Model) -> tuple[int, int]:
    """Return how many pairs and how many fields turn spins over."""
    J, h = np.asarray(model.J), np.asarray(model.h)
    return int(np.count_nonzero(np.triu(np.abs(J[0]) + np.abs(J[1]), 1))), int(
        np.count_nonzero(h[0] ** 2 + h[1] ** 2)
    )


def _product(model: Model, *, sector: bool) -> float:
    """Return the seconds per amplitude of a product H psi with the recurrence beside it."""
    pairs, fields = _bonds(model)
    if sector:
        return RECURRENCE + SECTOR_PAIR * pairs
    # beyond it, frames take the place of pairs
    most = 2 * int(np.asarray(model.J).shape[1])
    return RECURRENCE + min(PAIR * pairs + FIELD * fields, 2.0 * FIELD * most)


# -------------------------------------------------------------------------------------------- evolution


def evolution(problem: Problem) -> Counted:
    """Return about what an evolution takes; kernels compiled, figures left out."""
    hamiltonian = problem.hamiltonian()
    model = hamiltonian.envelope
    intervals = np.diff(problem.times)
    once, launches = _carried(problem, hamiltonian, model, intervals)
    back = 0.0
    if problem.echo is not None and problem.times[-1] > 0.0:
        # a second state goes on beside the first, or one goes back from each of the times
        beside = problem.echo.overlap
        back = 1.0 if beside else sum(problem.times[k] for k in problem.echo_at) / problem.times[-1]
    total = once * (1.0 + back) + _observed(problem)
    total *= problem.members
    # members go together
    launches *= 1.0 + back
    launches += SEEN * len(problem.output_times) * (1.0 + len(problem.observables.needs.cuts))
    if problem.evolution.verify:
        total += 2.0 * once * (1.0 + back)
        launches *= 3.0
    # its profiles are looked at for kinks and along the evolution
    if not hamiltonian.is_static:
        total += DRIVE * problem.models.disorder
    pilot = PILOT if problem.evolution.accuracy is not None and problem.path != "krylov" else 0.0
    return Counted(START + pilot + total, launches, START)


def _carried(problem: Problem, hamiltonian: Hamiltonian, model: Model, intervals: Any) -> tuple[float, float]:
    """Return the seconds in which one state is carried to the end, and the launches."""
    D, evolve = float(problem.dimension), problem.evolution
    each = SMALL_LAYER if problem.spins <= SMALL else LAYER
    accuracy = evolve.accuracy or 1e-8
    product = D * _product(model, sector=problem.sector is not None)
    if problem.path == "krylov":
        count = krylov_products(hamiltonian, problem.times, accuracy)
        return count * (product + SMALL_PRODUCT), KRYLOV * count
    found = []
    if problem.path == "chebyshev" or evolve.integrator in _CHEBYSHEV[hamiltonian.is_static]:
        width = half_width(model)
        count = sum(products(width * float(length), accuracy) for length in intervals) + LANCZOS_STEPS
        found.append((count * product, TERM * count))
    if problem.path == "bonds":
        from qsim.trotter.evolution.bonds import Bonds

        _, bonds = Bonds(model).per_step(evolve.integrator) if problem.spins > 1 else (1, 1)
        dt = evolve.dt or step(hamiltonian, evolve.integrator, float(intervals.sum()), accuracy)
        steps = float(np.ceil(intervals / dt * (1.0 - 1e-12)).sum())
        found.append((steps * bonds * (D * BOND + BOND_CALL), steps * bonds))
    elif problem.path == "layers" and evolve.integrator != "chebyshev":
        for name in _formulas(evolve.integrator, accuracy):
            dt = evolve.dt or step(hamiltonian, name, float(intervals.sum()), accuracy)
            steps = float(np.ceil(intervals / dt * (1.0 - 1e-12)).sum())
            layers = steps * layers_per_step(hamiltonian, name)
            found.append((layers * D * each, layers))
    return min(found, default=(0.0, 0.0))


def krylov_products(hamiltonian: Hamiltonian, times: Sequence[float], accuracy: float) -> float:
    """Return about how many products H psi the Krylov steps of an evolution take.

    A constant H takes spaces of `VECTORS` vectors one after the other.  A driven one takes steps of Magnus, tried whole and in
    halves: six exponentials, each of a space of its own.

    Parameters
    ----------
    hamiltonian : Hamiltonian
    times : sequence of float
        Outputs, the first at the start.
    accuracy : float
        Error asked for.
    """
    width, end = half_width(hamiltonian.envelope), float(times[-1])
    if end <= 0.0:
        return 0.0
    if hamiltonian.is_static:
        reach = next(
            k / 4.0 for k in range(4 * VECTORS, -1, -1) if k == 0 or products(k / 4.0, accuracy) <= VECTORS
        )
        return sum(
            max(products(width * length, accuracy), VECTORS * width * length / max(reach, 0.25))
            for length in np.diff(times)
        )
    size = strength(hamiltonian)
    length = (accuracy / (MAGNUS * max(size, 1e-300) * end)) ** (1.0 / ORDER) / max(size, 1e-300)
    steps = max(len(times) - 1.0, end / min(length, end * LONGEST))
    return steps * sum(
        2.0 * products(width * end / steps * share, 0.05 * accuracy / steps) for share in (1.0, 0.5, 0.5)
    )


_CHEBYSHEV = {True: ("chebyshev", "auto"), False: ("chebyshev",)}


def _formulas(integrator: str, accuracy: float) -> list[str]:
    """Return the product formulas that a deck leaves to choose from."""
    if integrator != "auto":
        return [integrator]
    return ["bm4", "bm6", "kl8", *(["ts2"] if accuracy >= ROUGH else [])]


CONSTANT = {"ts1": 1.0, "ts2": 0.1, "ts4": 0.05, "bm4": 0.0005, "bm6": 0.0001, "kl8": 0.0001}


def step(hamiltonian: Hamiltonian, name: str, duration: float, accuracy: float) -> float:
    """Return about the step of a product formula: its error is a constant of it times (s dt)^p s t, s the strength of H."""
    s = strength(hamiltonian)
    if s <= 0.0 or duration <= 0.0:
        return max(duration, 1.0)
    order = METHODS[name].order
    error = CONSTANT[name] * s * duration * math.sqrt(hamiltonian.spins)
    return min(1.2, (accuracy / error) ** (1.0 / order)) / s


def _observed(problem: Problem) -> float:
    """Return the seconds of all measurements of one state."""
    D, needs = float(problem.dimension), problem.observables.needs
    across = problem.sector is None and bool(needs.axes & {"x", "y"})
    axes = 3 if across else 1
    moments = MEASURE * D * axes
    entropies = sum(schmidt(problem.spins, len(cut), D) for cut in needs.cuts)
    return len(problem.output_times) * (moments + entropies)


def schmidt(spins: int, sites: int, dimension: float) -> float:
    """Return the seconds of an entropy: the density matrix of the smaller part, by block in a sector, and its eigenvalues."""
    part = min(sites, spins - sites)
    small, cubes = 2.0**part, 8.0**part
    # a block for each number of spins up in the part
    if dimension < 2.0**spins:
        blocks = [float(math.comb(part, k)) for k in range(part + 1)]
        small, cubes = sum(size**2 for size in blocks) / small, sum(size**3 for size in blocks)
    return (8.0 * small * dimension + COMPLEX * EIGEN * cubes) / DENSE + 1e-8 * dimension


# -------------------------------------------------------------------------------------------------- tasks


def task(problem: TaskProblem[Any], sizes: Sequence[int]) -> Counted:
    """Return about what a task beside an evolution takes.

    Parameters
    ----------
    problem : TaskProblem
    sizes : sequence of int
        States of each sector.
    """
    found = _task(problem, sizes)
    seconds = START + found.seconds
    return Counted(seconds, found.launches, seconds if problem.stored else START + found.host)


def _task(problem: TaskProblem[Any], sizes: Sequence[int]) -> Counted:
    """Return the work of a task without its start."""
    block = problem.block
    if isinstance(block, Floquet):
        return _floquet(problem, block, float(sizes[0]))
    if isinstance(block, Levels):
        each = [_levels(problem, block, float(size)) for size in sizes]
        seen = sum(sizes) if "entropy" in block.statistics else 0
        return Counted(problem.models.disorder * sum(each), problem.models.disorder * SEEN * seen, 0.0)
    product = _product(problem.model, sector=True)
    if problem.stored:
        product = RECURRENCE + STORED * _bonds(problem.model)[0]
    if isinstance(block, Spectrum):
        count = 2.0 * LOWEST * (block.levels + block.gap)
        seconds = count * (product * sum(sizes) + CALL * len(sizes))
        if block.vectors:
            seconds += sum(
                schmidt(problem.spins, len(cut), float(max(sizes))) for cut in problem.observables.needs.cuts
            )
        return Counted(seconds, TERM * count * len(sizes), 0.0)
    if isinstance(block, Dynamics):
        count = float(block.rows(problem.spins) * block.steps)
        seconds = product * (2.0 * LOWEST * sum(sizes) + count * max(sizes))
        return Counted(seconds, TERM * (2.0 * LOWEST * len(sizes) + count), 0.0)
    counted = _thermal(block, sizes, product)
    # a second run, and what is observed
    if problem.observables.needs.pairs:
        large = sum(size for size in sizes if size > block.exact)
        rows = float(block.vectors * len(block.grid()))
        measured = rows * large * (MEASURE + thermal_steps(block) * ADDED)
        # eigenvectors, too
        host = 3.0 * counted.host
        return Counted(
            2.0 * (counted.seconds - counted.host) + host + measured,
            2.0 * counted.launches + SEEN * rows,
            host,
        )
    return counted


def thermal_steps(block: Thermal) -> float:
    """Return about how many products a random vector takes."""
    return THERMAL_STEPS if block.steps == "auto" else float(block.steps)


def _thermal(block: Thermal, sizes: Sequence[int], product: float) -> Counted:
    """Return the work of all levels of small sectors, on the host, and of the recurrences in the others."""
    large = [size for size in sizes if size > block.exact]
    exact = sum(float(size) ** 3 for size in sizes if size <= block.exact)
    host, count = EIGEN / 3.0 * exact / DENSE, float(block.vectors) * thermal_steps(block)
    return Counted(host + product * count * sum(large), TERM * count * len(large), host)


def _levels(problem: TaskProblem[Any], block: Levels, size: float) -> float:
    """Return the seconds of all levels of a sector, and of what is taken from their states."""
    vectors = set(block.statistics) != {"gap_ratio"}
    seconds = (EIGEN if vectors else EIGEN / 3.0) * (COMPLEX if problem.stored else 1.0) * size**3 / DENSE
    if "entropy" in block.statistics:
        seconds += size * schmidt(problem.spins, problem.spins // 2, size)
    return seconds


def _floquet(problem: TaskProblem[Any], block: Floquet, size: float) -> Counted:
    """Return the work of all cycles, and of the dense matrix of one on the host."""
    cycle = launches = 0.0
    for part in block.cycle:
        model = problem.models.part(part.terms)
        if not np.asarray(model.J)[:2].any():
            cycle, launches = cycle + RECURRENCE * size, launches + 1.0
            continue
        count = products(half_width(model) * part.time, block.accuracy)
        cycle, launches = cycle + count * size * _product(model, sector=True), launches + TERM * count
    rows, cuts = block.cycles // block.every + 1, problem.observables.needs.cuts
    seen = MEASURE * size + sum(schmidt(problem.spins, len(cut), size) for cut in cuts)
    dense = (len(block.cycle) + 3.0 * COMPLEX) * EIGEN * size**3 / DENSE if block.quasienergies else 0.0
    launches = block.cycles * launches + SEEN * rows * (1.0 + len(cuts))
    return Counted(block.cycles * cycle + rows * seen + dense, launches, dense)
