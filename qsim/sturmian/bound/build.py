"""Plan of `task: bound`: sizes and memory of every solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan, Size
from qsim.sturmian import memory
from qsim.sturmian.bound.points import satellites
from qsim.sturmian.deck.blocks import LESS, FeDvr
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.deck.symmetry import sectors as symmetries
from qsim.sturmian.problem import Sector, sectors_of
from qsim.sturmian.radial import parameters
from qsim.sturmian.radial.parameters import Radial
from qsim.sturmian.trials import Settled, build, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Memory
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["build", "plan", "unknowns"]

# Unknowns from which a GPU is faster than its host (docs/howto/devices.md): he_limit with 1.1e5 takes 0.6 of the time.
GPU_UNKNOWNS = 1e5


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of bound states, and check their physics."""
    deck = loaded.deck
    try:
        settled = settle(loaded)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    sizes = [unknowns(settled.values, sector, settled.points) for sector in settled.sectors]
    return Plan(
        memory=_memory(deck, settled),
        sizes=_sizes(deck, settled),
        findings=settled.findings,
        size=Size(float(max(sizes, default=0)), "unknowns", GPU_UNKNOWNS),
        operations=_operations(deck, settled),
        reduce="channels.l_max",
        ranks=_ranks(deck, settled.sectors),
        shared="pairs of momenta and scanned values",
    )


def _points(deck: SturmianDeck) -> int:
    """Return the number of solutions beside the states themselves, which ranks can share."""
    waves = 0 if deck.extrapolate is None else len(deck.extrapolate.l_max)
    return waves + (0 if deck.scan is None else sum(map(len, deck.scan.given().values())))


def _ranks(deck: SturmianDeck, sectors: list[Sector]) -> int:
    """Return the number of processes that can share a deck: pairs, blocks of a matrix, or solutions beside the states."""
    pairs = max((len(sector.pairs) for sector in sectors), default=1)
    shared = pairs * (pairs + 1) // 2 if deck.solver.type == "dense" else pairs
    return max(1, shared, _points(deck))


def _operations(deck: SturmianDeck, settled: Settled) -> float:
    """Return the least operations of bound states: a product of H for each root, or the eigenvalues of a dense matrix."""
    values, points, sectors, _ = settled
    flops = 0.0
    for sector in sectors:
        # Reduction to tridiagonal form: 4/3 N^3 operations.
        if deck.solver.type == "dense":
            flops += 4.0 / 3.0 * float(unknowns(values, sector, points)) ** 3
            continue
        # H x goes to the grid and back for each pair, one electron after the other: N points (points + N) twice.
        functions = min((values.size(l, points) for pair in sector.pairs for l in pair), default=0)
        flops += (
            len(sector.roots) * 2.0 * len(sector.pairs) * float(points) * functions * (points + functions)
        )
    return flops


def unknowns(values: parameters.Values, sector: Sector, points: int) -> int:
    """Return the number of coefficients of a state that exchange symmetry leaves free."""
    total = 0
    for la, lb in sector.pairs:
        Na, Nb = values.size(la, points), values.size(lb, points)
        # Of equal momenta, c_ij = +-c_ji: N (N + 1)/2 are free in symmetric states, N (N - 1)/2 in others.
        same = Na * (Na + exchange_sign(la, lb, sector.L, sector.S)) // 2
        total += same if la == lb else Na * Nb
    return total


def _sizes(deck: SturmianDeck, settled: Settled) -> dict[str, int | float | str]:
    """Return the sizes of the largest symmetry."""
    values, points, sectors, _ = settled
    pairs = max((len(sector.pairs) for sector in sectors), default=0)
    sizes = values.sizes_on(points) | {
        "pairs": pairs,
        "unknowns": max((unknowns(values, sector, points) for sector in sectors), default=0),
        "states": sum(len(sector.roots) for sector in sectors),
    }
    if deck.solver.type != "dense":
        functions = values.size(0, points)
        product = pairs * 4.0 * points * functions * (points + functions)
        sizes["flop of H x"] = product + 4.0 * pairs**2 * float(points) ** 2
    return sizes


def _memory(deck: SturmianDeck, settled: Settled) -> Memory:
    """Return the memory of the largest solution, and the key that reduces it."""
    values, points, sectors, _ = settled
    pairs, functions = max((len(sector.pairs) for sector in sectors), default=0), values.size(0, points)
    # The key with the largest share: the grid where its points outnumber the functions, or pairs against functions.
    if deck.solver.type == "dense":
        reduce = LESS
    elif isinstance(deck.basis, FeDvr) or points > 20 * max(functions, 1):
        reduce = "grid.R"
    else:
        reduce = "channels.l_max" if pairs > functions else "basis.N"
    parts, on_gpu = memory.largest(_stages(deck, values, sectors))
    return memory.as_memory(parts, reduce, on_gpu=on_gpu)


def _stages(deck: SturmianDeck, values: parameters.Values, own: list[Sector]) -> Iterator[dict[str, int]]:
    """Yield the memory of every solution: the deck's own states, their relaxation, partial waves, scans."""
    top = None if deck.extrapolate is None else max(deck.extrapolate.l_max)
    has = {sector.symmetry: set(sector.pairs) for sector in own}
    for changed, kind in _solutions(deck, values, own):
        points = parameters.grid_size(Radial.of(deck), changed)
        elements = parameters.bounds_of(Radial.of(deck), changed).size - 1
        for sector in own if kind == "states" else sectors_of(symmetries(deck), deck.channels, changed.l_max):
            if not sector.pairs:
                continue
            functions = max(changed.size(l, points) for pair in sector.pairs for l in pair)
            size = memory.Size.of(sector.pairs, points, functions, max(sector.roots) + 1)
            count = unknowns(changed, sector, points)
            # Partial waves beyond the pairs of the deck only tell its error: a rough solution does, whatever the
            # solver. Those within are the deck's own problem, made smaller.
            more = not has[sector.symmetry] >= set(sector.pairs)
            rough = kind == "partial" and more
            if deck.solver.type == "dense" and not rough:
                yield memory.dense(size, count)
            else:
                yield memory.davidson(size, memory.ROUGH_VECTORS * size.roots if rough else max(count, 1))
            # The finer grid of the error estimate holds the states of the deck, and the largest partial waves.
            if kind == "states" or (more and changed.l_max == top):
                yield memory.relaxation(size, elements, values.order)


def _solutions(
    deck: SturmianDeck, values: parameters.Values, sectors: list[Sector]
) -> Iterator[tuple[parameters.Values, str]]:
    """Yield the values of all solutions of a run and what they are: states, partial waves, or a scan."""
    yield values, "states"
    # Partial waves as the deck lists them, or those that estimate the error of a deck with pairs up to a largest l;
    # with pairs of its own there is no next partial wave.
    partial: set[int] = set()
    if deck.extrapolate is not None:
        partial = set(deck.extrapolate.l_max)
    elif deck.channels.pairs is None:
        partial = {l for sector in sectors if sector.pairs for l in satellites(sector.pairs)}
    kind = "partial" if deck.extrapolate is None else "scan"
    for l_max in sorted(partial):
        yield values.changed(l_max=l_max), kind
    for key, scanned in ({} if deck.scan is None else deck.scan.given()).items():
        for value in scanned:
            yield values.changed(**{key: value}), "scan"
