"""How long a run takes, before it: counts of its matrix products, at speeds measured on one core.

Bound states: searches of `PRODUCTS` products H x per vector, one for the states, one for every partial wave and every scanned
value, and the relaxation of the states on the finer grid.  Collisions: some 20 steps for each energy, symmetry and right-hand
side, twice where errors are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qsim.sturmian.deck.blocks import Gsf, as_list
from qsim.sturmian.radial import parameters
from qsim.sturmian.radial.parameters import Radial
from qsim.sturmian.two_electron import reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.problem import Sector

__all__ = ["START", "Seconds", "basis_seconds", "bound_seconds", "collision_seconds", "integrals_seconds"]

# Measured on a core of a server of 2024
# s, of a run that hardly computes.
START = 0.15
# Per second, of matrix products of a few hundred rows.
FLOPS = 1e10
# H x of a search, per vector that it follows.
PRODUCTS = 12.0
# Vectors that it follows beyond those wanted.
GUARDS = 2
# Products on the finer grid per state.
RELAXED = 12.0
# s of the cube of the grid points: Sturmian functions of one l, and the same on the finer grid.
EIGEN = 1.5e-9
# The same of complex ones.
ECS = 1.2e-8
# Operations of a dense symmetric eigenproblem, of the cube of its size.
DENSE = 10.0
# s of pairs times the cube of the points, of a driven equation with all its steps.
DRIVEN = 2.2e-8
# Times as many steps, to find an eigenvalue inside the continuum.
RESONANCE = 5.0
# s per integral, and per integral and point.
GEMM, SIMPSON = 1.2e-9, 8e-11
# Times that a route of less than a second is run.
TIMED = 3.0


class Seconds(NamedTuple):
    """Time on one core, s, and what of it no GPU takes over: functions of one electron, set-up."""

    all: float
    host: float


def bound_seconds(
    deck: SturmianDeck,
    solutions: Iterable[tuple[parameters.Values, Sequence[Sector], bool]],
    sizes: Sequence[int],
) -> Seconds:
    """Return about how long bound states take on one core.

    Parameters
    ----------
    deck : SturmianDeck
    solutions : iterable of (Values, sectors, own)
        Every solution of the run; own: of the states themselves, not of a partial wave or a scan.
    sizes : sequence of int
        Coefficients of a state of each symmetry, for the dense route.
    """
    seconds, host = 0.0, START
    for values, sectors, own in solutions:
        points = parameters.grid_size(Radial.of(deck), values)
        ls = {l for sector in sectors for pair in sector.pairs for l in pair}
        if isinstance(deck.basis, Gsf):
            host += EIGEN * len(ls) * float(points) ** 3
        for sector in sectors:
            functions = max((values.size(l, points) for pair in sector.pairs for l in pair), default=0)
            product = len(sector.pairs) * 4.0 * float(points) * functions * (points + functions)
            product += 4.0 * len(sector.pairs) ** 2 * float(points) ** 2
            seconds += PRODUCTS * (len(sector.roots) + GUARDS) * product / FLOPS
        if own:
            elements = parameters.bounds_of(Radial.of(deck), values).size - 1
            seconds += sum(
                _relaxation(sector, reference.finer_size(elements, values.order)) for sector in sectors
            )
    if deck.solver.type == "dense":
        seconds += sum(DENSE * float(size) ** 3 for size in sizes) / (2.0 * FLOPS)
    return Seconds(host + seconds, host)


def _relaxation(sector: Sector, points: int) -> float:
    """Return the seconds of the states of a symmetry on the finer grid; nothing where there is too much work."""
    work = 8.0 * len(sector.pairs) * float(points) ** 3
    if len(sector.roots) * work > reference.STEP_WORK:
        return 0.0
    return RELAXED * len(sector.roots) * work / FLOPS


def basis_seconds(deck: SturmianDeck, points: int, finer: int, ls: int) -> float:
    """Return about how long the functions alone take on one core, s, on the grid and on the finer one of their errors."""
    each = EIGEN if deck.grid.ecs is None else ECS / 3.0
    return START / 2.0 + each * ls * (float(points) ** 3 + float(finer) ** 3)


def integrals_seconds(deck: SturmianDeck, points: int, finer: int, largest: int) -> Seconds:
    """Return about how long the integrals take on one core: every route for every number of functions, timed some times."""
    task = deck.task
    assert task.type == "integrals"
    counts = [largest] if task.N is None else list(task.N)
    quadratures = as_list(task.points)
    factor = 4.0 if deck.grid.ecs is not None else 1.0
    seconds = 0.0
    for N in counts:
        for route in task.routes:
            each = (
                [GEMM + 2.0 * points / N / N / FLOPS * points]
                if route == "poisson_gemm"
                else [SIMPSON * Nq for Nq in quadratures]
            )
            for cost in each:
                once = factor * cost * float(N) ** 4
                seconds += once * (TIMED if once < 1.0 else 1.0)
    ranks = DENSE * sum((N * (N + 1) / 2.0) ** 3 for N in counts if N <= 64) / (2.0 * FLOPS)
    host = basis_seconds(deck, points, finer, 1) + (ranks * len(as_list(task.l)) if task.rank_report else 0.0)
    return Seconds(host + seconds * len(as_list(task.l)), host)


def collision_seconds(
    equations: float, points: int, functions: int, *, rounds: int, ls: int, resonances: bool, dense: float
) -> Seconds:
    """Return about how long a collision takes on one core.

    Parameters
    ----------
    equations : float
        Pairs of all symmetries, times energies and right-hand sides.
    points, functions : int
        Of the grid, and of each l in the basis.
    rounds : int
        Solutions with all of this: the deck's own, those of the errors, and those of the scans.
    ls : int
        Orbital momenta.
    resonances : bool
        Eigenvalues instead of driven equations.
    dense : float
        Unknowns of a dense solution, 0 of a matrix-free one.
    """
    share = float(functions) * (functions + points) / (2.0 * float(points) ** 2)
    once = DRIVEN * equations * share * float(points) ** 3 * (RESONANCE if resonances else 1.0)
    basis = EIGEN * 4.0 if functions == points else ECS
    host = START + rounds * basis * ls * float(points) ** 3
    return Seconds(host + rounds * (once + 8.0 / 3.0 * dense**3 / FLOPS), host)
