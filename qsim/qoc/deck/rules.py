"""Keys of a qoc deck against each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qsim.core.deck.blocks import Finding
from qsim.qoc.deck.controls import FileGuess, ZeroGuess
from qsim.qoc.deck.ensemble import Range, values_of
from qsim.qoc.deck.model import EigenbasisPropagator
from qsim.qoc.deck.system import levels_of, parse_weight

if TYPE_CHECKING:
    from qsim.qoc.deck.model import QocDeck


def rules(deck: QocDeck) -> Iterator[Finding]:
    """Yield contradictions that need no calculation."""
    yield from _states(deck)
    yield from _time_and_grid(deck)
    yield from _control(deck)
    yield from _optimizer(deck)
    yield from _ensemble(deck)
    if deck.run.precision == "mixed":
        yield Finding("run.precision", "qoc runs in double or single precision, not mixed")


def _states(deck: QocDeck) -> Iterator[Finding]:
    system = deck.system
    if system.pairs is not None and (system.initial is not None or system.target is not None):
        yield Finding("system.pairs", "give either pairs, or initial and target, not both")
        return
    if system.pairs is None:
        for key in ("initial", "target"):
            if getattr(system, key) is None:
                yield Finding(f"system.{key}", "missing key; give a level such as 0, or {level: weight}")
                return
    states = deck.propagator.states if isinstance(deck.propagator, EigenbasisPropagator) else "auto"
    room = system.grid.points if states == "auto" else states
    # one of several pairs may ask to keep a state
    pairs = system.state_pairs()
    # of several pairs together, the phases between them count, which the free motion changes as well
    phases = deck.objective.combine == "coherent" and len(pairs) > 1
    nothing_to_do = deck.optimizer.type != "none" and not phases and all(_same(a, b) for a, b in pairs)
    for i, (initial, target) in enumerate(pairs):
        where = f"system.pairs.{i}." if system.pairs is not None else "system."
        if nothing_to_do:
            same = f"the initial state lies within the target levels {target}"
            if not isinstance(target, list):
                same = f"initial and target are the same state ({target})"
            yield Finding(f"{where}target", f"{same}; nothing to control")
        for key, state in (("initial", initial), ("target", target)):
            if max(levels_of(state)) >= room:
                yield Finding(
                    f"{where}{key}",
                    f"level {max(levels_of(state))} is not among the {room} "
                    + ("grid states" if states == "auto" else "states of propagator.states"),
                )
    if not isinstance(states, str) and states > system.grid.points // 2:
        yield Finding(
            "propagator.states",
            f"{states} states on {system.grid.points} grid points; at most {system.grid.points // 2} of them are accurate",
        )


def _time_and_grid(deck: QocDeck) -> Iterator[Finding]:
    grid, time = deck.system.grid, deck.time
    if grid.xmin >= grid.xmax:
        yield Finding("system.grid.xmin", f"xmin = {grid.xmin:g} must lie below xmax = {grid.xmax:g} bohr")
    elif grid.xmax - grid.xmin < 1e-9 * (1.0 + abs(grid.xmin)):
        yield Finding("system.grid.xmax", f"the grid is only {grid.xmax - grid.xmin:.3g} bohr wide")
    if time.steps is None and time.dt is None:
        yield Finding("time.steps", "missing key; give steps (a number or auto), or dt")
    elif time.dt is not None and isinstance(time.steps, int) and abs(time.T / time.dt - time.steps) > 0.5:
        yield Finding(
            "time.dt",
            f"dt = {time.dt:g} a.u. and T = {time.T:g} a.u. make {time.T / time.dt:.6g} steps, but steps = {time.steps}; "
            "leave one of them out",
        )
    elif time.dt is not None and time.dt > time.T:
        yield Finding("time.dt", f"dt = {time.dt:g} a.u. is longer than T = {time.T:g} a.u.")


def _control(deck: QocDeck) -> Iterator[Finding]:
    control = deck.control
    if control.bounds is not None:
        yield from _bounds(deck, *control.bounds)
    if control.band is not None and control.band[0] >= control.band[1]:
        yield Finding(
            "control.band", f"the lowest frequency {control.band[0]:g} must be below {control.band[1]:g}"
        )
    tried = isinstance(control.guess, FileGuess) and control.guess.file.suffix not in (".h5", ".hdf5")
    if tried and deck.optimizer.type == "none" and control.shape is not None:
        text = "the field of the file is multiplied by this shape; leave it out to try the field as it is"
        yield Finding("control.shape", text, "warning")
    noisy = isinstance(control.guess, ZeroGuess) and bool(control.guess.noise)
    if noisy and deck.optimizer.type not in ("travolta", "none"):
        yield Finding("control.guess.noise", "noise is only used by optimizer travolta", "warning")


def _bounds(deck: QocDeck, low: float, high: float) -> Iterator[Finding]:
    if low >= high:
        yield Finding("control.bounds", f"lower bound {low:g} must lie below the upper bound {high:g} a.u.")
    elif not low <= 0 <= high:
        yield Finding("control.bounds", f"the bounds [{low:g}, {high:g}] must include zero field")
    elif deck.control.zero_area and 0 in (low, high):
        yield Finding("control.bounds", "a field of one sign cannot have zero area")


def _optimizer(deck: QocDeck) -> Iterator[Finding]:
    """Yield constraints and goals that the optimiser cannot keep."""
    kind = deck.optimizer.type
    unknown = {
        "travolta": (
            ("bounds", "band", "zero_area", "shape"),
            "the paper's line search cannot keep constraints; use optimizer lbfgs or gauss_newton",
        ),
        "krotov": (
            ("band", "zero_area"),
            "Krotov's sequential update cannot keep this; use optimizer lbfgs or gauss_newton",
        ),
    }
    keys, message = unknown.get(kind, ((), ""))
    for key in keys:
        if getattr(deck.control, key):
            yield Finding(f"control.{key}", message)
    if kind == "krotov" and not isinstance(deck.propagator, EigenbasisPropagator):
        yield Finding(
            "propagator", "Krotov's method runs in the eigenbasis; set propagator: {type: eigenbasis}"
        )
    coherent = deck.objective.combine == "coherent"
    if coherent and kind == "gauss_newton":
        yield Finding(
            "objective.combine", "Gauss-Newton treats pairs incoherently; use optimizer lbfgs or krotov"
        )
    if coherent and any(isinstance(target, list) for _, target in deck.system.state_pairs()):
        yield Finding("objective.combine", "a list of target levels has no phase; use incoherent")


def _ensemble(deck: QocDeck) -> Iterator[Finding]:
    if deck.ensemble is None:
        return
    count = 1
    for values in (deck.ensemble.field_scale, deck.ensemble.mass_scale, deck.ensemble.potential_scale):
        count *= values.count if isinstance(values, Range) else len(values_of(values))
    if count > 1_000_000:
        yield Finding("ensemble", f"{count} members; at most 1000000 are allowed")


def _same(a: Any, b: Any) -> bool:
    """Return True if the first state of a deck is the second one (the same ray), or lies within its list of levels."""
    if isinstance(b, list):
        return set(levels_of(a)) <= set(b)
    va = {int(k): parse_weight(w) for k, w in a.items()} if isinstance(a, dict) else {int(a): 1 + 0j}
    vb = {int(k): parse_weight(w) for k, w in b.items()} if isinstance(b, dict) else {int(b): 1 + 0j}
    na = math.sqrt(sum(abs(w) ** 2 for w in va.values()))
    nb = math.sqrt(sum(abs(w) ** 2 for w in vb.values()))
    overlap = abs(sum(va[k].conjugate() * vb[k] for k in va if k in vb)) / (na * nb)
    return overlap > 1 - 1e-12
