"""Consistency rules of the sturmian deck: key against key."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck import collision_rules, response_rules
from qsim.sturmian.deck.blocks import AUTO, FeDvr, Gsf, SquareWell, as_list
from qsim.sturmian.deck.collision import Scatter
from qsim.sturmian.deck.shared_rules import numbers_and_grid, scanned, symmetries, underflow
from qsim.sturmian.deck.symmetry import allowed, exchange_sign, pairs_of, parity_of, sectors, triangle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.sturmian.deck.model import SturmianDeck

# Hartree: a function of a smaller one is wider than any box.
SMALLEST_ENERGY = 1e-8


# ---------------------------------------------------------------------------------- keys of the deck


def rules(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield contradictions that need no calculation."""
    if isinstance(deck.task, Scatter):
        yield from collision_rules.of_deck(deck)
        return
    yield from numbers_and_grid(deck)
    if isinstance(deck.basis, Gsf):
        yield from _basis(deck, deck.basis)
    if deck.task.type == "response":
        yield from symmetries(deck)
        if deck.states is not None:
            yield from _states(deck)
        yield from response_rules.rules(deck)
        yield from _ascending(deck)
        return
    yield from _sectors(deck)
    yield from _task(deck)
    yield from _extrapolation(deck)
    yield from _scan(deck)


def _basis(deck: SturmianDeck, basis: Gsf) -> Iterator[Finding]:
    """Yield energies and boundary conditions of the functions that contradict each other or the task."""
    energy, task, ecs = basis.energy, deck.task.type, deck.grid.ecs
    # The energy by itself first, then against the boundary condition, then against task and
    # contour: one mistake is reported once.
    if energy == "total":
        text = "total is the energy of a collision; give a number, or auto"
        yield Finding("basis.energy", text)
    elif not isinstance(energy, str):
        if abs(energy) < SMALLEST_ENERGY:
            text = (
                f"|energy| = {abs(energy):.3g} hartree is too small: the functions would not end in any box"
            )
            yield Finding("basis.energy", text)
        elif task != "basis" and energy > 0.0:
            text = f"bound states need functions of a negative energy, found {energy:g}; auto chooses one"
            yield Finding("basis.energy", text)
        elif basis.boundary == "bound" and energy > 0.0:
            text = f"functions of energy {energy:g} > 0 do not decay; give boundary: outgoing, or a negative energy"
            yield Finding("basis.boundary", text)
    if basis.boundary == "outgoing" and not (not isinstance(energy, str) and energy > 0.0):
        given = "auto chooses a negative one" if isinstance(energy, str) else f"found {energy:g}"
        yield Finding("basis.boundary", f"outgoing functions need a positive energy; {given}")
    elif basis.boundary == "outgoing" and task != "basis":
        yield Finding("basis.boundary", f"task: {task} takes functions that decay; give boundary: bound")
    if ecs is not None and task != "basis":
        text = f"task: {task} needs functions on the real axis; a complex contour is for outgoing ones (task: basis)"
        yield Finding("grid.ecs", text)
    yield from _generating(deck, basis)


def _generating(deck: SturmianDeck, basis: Gsf) -> Iterator[Finding]:
    """Yield generating potentials that do not fit into the box, or have no values on a contour."""
    generating, R = basis.generating, deck.grid.R
    bounds = deck.grid.bounds
    end = bounds[-1] if bounds else R
    edge = generating.r0 if isinstance(generating, SquareWell) else AUTO
    if not isinstance(edge, str) and not isinstance(end, str) and edge > end * (1.0 + 1e-12):
        text = f"the well ends at r0 = {edge:g}, outside of the box, R = {end:g} bohr"
        yield Finding("basis.generating.r0", text)
    if isinstance(generating, SquareWell) and 0.0 < generating.tail < 1e-3:
        yield Finding(
            "basis.generating.tail", f"a tail of {generating.tail:g} bohr is a wall; give 0 or 4 bohr"
        )
    alpha = deck.alpha
    if isinstance(alpha, float) and isinstance(end, float):
        yield from underflow(alpha, end)
    if generating.type == "table" and deck.grid.ecs is not None:
        yield Finding(
            "basis.generating.type",
            "a table knows no complex radius; on a contour take one of the formulas",
        )


def _sectors(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield duplicate or impossible states and pairs, and symmetries without pairs."""
    channels = deck.channels
    yield from symmetries(deck)
    if deck.states is not None:
        yield from _states(deck)
    # (la, lb) and (lb, la) are one pair: exchange is built in.
    seen: dict[tuple[int, int], int] = {}
    for k, pair in enumerate(channels.pairs or []):
        ordered = (min(pair), max(pair))
        if seen.setdefault(ordered, k) != k:
            text = f"the pair {list(pair)} is a duplicate; the exchanged pair is implied"
            yield Finding(f"channels.pairs.{k}", text)
    for L, S, parity in sectors(deck):
        if channels.pairs is not None:
            yield from _given_pairs(deck, L, S, parity)
        elif not pairs_of(deck.channels, L, S, parity):
            needed = next((l for l in range(L + 2) if pairs_of(deck.channels, L, S, parity, l)), None)
            text = f"no pair (la, lb) couples to L = {L} of {parity} parity"
            key = "states" if deck.states is not None else "channels.parity"
            if needed is not None:
                key, text = "channels.l_max", f"{text} up to l_max = {channels.l_max}; give {needed} at least"
            yield Finding(key, text)
        else:
            yield from _empty(deck, L, S, parity)


def _states(deck: SturmianDeck) -> Iterator[Finding]:
    for name in ("L", "S"):
        if getattr(deck.channels, name) is not None:
            yield Finding(f"channels.{name}", f"every entry of states has its own {name}; leave it out here")
    if deck.channels.parity != "natural":
        yield Finding("channels.parity", "every entry of states has its own parity; leave it out here")
    if deck.task.type not in ("bound", "response"):
        text = f"states belong to task: bound or response, but the deck has task: {deck.task.type}"
        yield Finding("states", text)
    elif "n_roots" in deck.task.model_fields_set:
        yield Finding("task.n_roots", "the states are listed one by one; leave n_roots out, or the list")
    seen: dict[tuple[Any, ...], int] = {}
    for k, state in enumerate(deck.states or []):
        key = (state.L, state.S, parity_of(state.L, state.parity), state.root)
        if seen.setdefault(key, k) != k:
            yield Finding(f"states.{k}", f"duplicate of states.{seen[key]}")


def _given_pairs(deck: SturmianDeck, L: int, S: int, parity: str) -> Iterator[Finding]:
    for k, (la, lb) in enumerate(deck.channels.pairs or []):
        key = f"channels.pairs.{k}"
        if not triangle(la, lb, L):
            yield Finding(
                key, f"({la}, {lb}) cannot couple to L = {L}: |la - lb| <= L <= la + lb is violated"
            )
        elif not allowed(L, la, lb, parity):
            own = "odd" if (la + lb) % 2 else "even"
            text = f"({la}, {lb}) has {own} parity, but the states of L = {L} have {parity} parity"
            yield Finding(key, f"{text}; parity: {own} takes the others")
    yield from _empty(deck, L, S, parity)


def _empty(deck: SturmianDeck, L: int, S: int, parity: str) -> Iterator[Finding]:
    """Yield pairs la = lb whose only function is forbidden by exchange, and symmetries without any function."""
    if not isinstance(deck.basis, Gsf):
        return
    key = "states" if deck.states is not None else "channels.S"
    alone = [
        la
        for la, lb in pairs_of(deck.channels, L, S, parity)
        if la == lb and deck.basis.size(la) == 1 and exchange_sign(la, lb, L, S) < 0
    ]
    if alone:
        text = f"with S = {S} and L = {L} the pair ({alone[0]}, {alone[0]}) is antisymmetric, and N = 1 function makes none"
        yield Finding(key, f"{text}; give N = 2 at least, or leave the pair out")


def _task(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield keys and blocks that the task of the deck does not have."""
    task = deck.task
    if task.type == "basis":
        if isinstance(deck.basis, FeDvr):
            yield Finding("basis.type", "task: basis shows Sturmian functions; give type: gsf")
        if task.l is not None and len(set(as_list(task.l))) != len(as_list(task.l)):
            yield Finding("task.l", "an l is a duplicate")
    if task.type == "integrals":
        if isinstance(deck.basis, FeDvr):
            yield Finding(
                "basis.type", "the integrals are of Sturmian functions; give type: gsf (on the grid "
                "itself the repulsion is diagonal)"
            )  # fmt: skip
        if task.inner % 2 == 0:
            yield Finding("task.inner", f"Simpson's rule needs an odd number of points, found {task.inner}")
    if task.type != "bound":
        for key in ("extrapolate", "scan"):
            if getattr(deck, key) is not None:
                yield Finding(key, f"this block belongs to task: bound, but the deck has task: {task.type}")
    if deck.solver.type == "dense" and isinstance(deck.basis, FeDvr) and task.type == "bound":
        yield Finding(
            "solver.type",
            "dense assembles the blocks of Sturmian functions; with basis: fedvr take matrix_free",
        )


def _extrapolation(deck: SturmianDeck) -> Iterator[Finding]:
    if deck.extrapolate is None or deck.task.type != "bound":
        return
    key = "extrapolate.l_max"
    values = deck.extrapolate.l_max
    if deck.channels.pairs is not None:
        yield Finding(key, "needs all pairs up to each l_max, but channels lists pairs; give channels.l_max")
        return
    disorder = list(_ascending(deck))
    yield from disorder
    if not disorder:
        yield from islice(_without_pairs(deck, f"{key}.0", values[0]), 1)


def _ascending(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield the first value of l_max that does not exceed the one before."""
    values = [] if deck.extrapolate is None else deck.extrapolate.l_max
    for k in range(1, len(values)):
        if values[k] <= values[k - 1]:
            text = f"values must ascend, but {values[k]} follows {values[k - 1]}"
            yield Finding(f"extrapolate.l_max.{k}", text)
            return


def _scan(deck: SturmianDeck) -> Iterator[Finding]:
    if deck.scan is None or deck.task.type != "bound":
        return
    given = deck.scan.given()
    if not given:
        yield Finding(
            "scan", "nothing to scan; give N, l_max, R, alpha, energy or order with a list of values"
        )
    yield from scanned(deck, given)
    for key in ("angle", "length"):
        if key in given:
            yield Finding(f"scan.{key}", f"the {key} of a contour belongs to task: scatter")
    yield from _scanned_functions(deck, given)
    if "l_max" in given and deck.channels.pairs is None:
        # Only the smallest l_max can leave a symmetry without pairs.
        yield from _without_pairs(deck, "scan.l_max", min(given["l_max"]))


def _scanned_functions(deck: SturmianDeck, given: dict[str, list[Any]]) -> Iterator[Finding]:
    """Yield scanned keys of Sturmian functions that the basis does not have, and energies that bound states do not."""
    if isinstance(deck.basis, FeDvr):
        for key in ("N", "alpha", "energy"):
            if key in given:
                yield Finding(f"scan.{key}", f"{key} belongs to basis: gsf, but the deck has basis: fedvr")
    elif "alpha" in given and deck.alpha is None:
        yield Finding("scan.alpha", f"the generating potential {deck.basis.generating.type} has no alpha")
    for k, value in enumerate(given.get("energy", [])):
        if value > -SMALLEST_ENERGY:
            yield Finding(
                f"scan.energy.{k}", f"bound states need functions of a negative energy, found {value:g}"
            )


def _without_pairs(deck: SturmianDeck, key: str, low: int) -> Iterator[Finding]:
    """Yield the symmetries that have no pairs up to an l_max."""
    for L, S, parity in sectors(deck):
        if not pairs_of(deck.channels, L, S, parity, low):
            yield Finding(key, f"no pair (la, lb) up to l_max = {low} couples to L = {L}")
