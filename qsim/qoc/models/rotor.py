"""``system: {type: rotor}``: a linear rotor, ``H = B J(J+1) - mu E cos(theta) - (dalpha/4) E0^2 cos^2(theta)``.

Atomic units. The second field is the envelope E0 of a carrier that is fast against the rotation; what does not depend on theta is
left out. M is conserved: the matrices are blocks, one for each |M| of the start, J = |M|, ..., J_max. States of M and -M do the
same, so that a mixture holds |M| once with the weight of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.quantities import Units
from qsim.qoc.deck.systems.states import Gate, Thermal
from qsim.qoc.models.basis import Basis, Start, kept
from qsim.qoc.models.faults import Faults
from qsim.qoc.models.goals import aim, named_states
from qsim.qoc.models.line.jumps import Levels, between, of_entry, rates_of
from qsim.qoc.models.operators import evaluate, sparse_matrix
from qsim.qoc.models.parts import cos_matrix, square_of_cos
from qsim.qoc.models.quantum import ControlTerm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scipy.sparse import csr_array

    from qsim.core.device.arrays import FloatArray
    from qsim.qoc.deck.systems.rotor import RotorSystem
    from qsim.qoc.models.quantum import Jump, QuantumModel

# Levels above those of the start, below which no field can do anything but reflect at J_max.
ROOM = 4
# J_max where the deck leaves it open: least, above the levels of start and goal, and most.
LEAST = 40
SPARE = 30
MOST = 1000


@dataclass(frozen=True)
class Populations:
    """Levels (J, |M|) of a thermal start.

    Attributes
    ----------
    places : list of (J, |M|)
    weights : (n,) float64
        Of both signs of M together.
    dropped : float
        Weight of all others.
    """

    places: list[tuple[int, int]]
    weights: FloatArray
    dropped: float


def rotor_model(system: RotorSystem, extra: int = 0) -> QuantumModel:
    """Return the matrices of a linear rotor.

    Parameters
    ----------
    system
        Block of the deck.
    extra : int
        How often all levels J that the fields reach are added to those of the deck.

    Raises
    ------
    InvalidSystem
        With every mistake: no coupling to a field, starts too close to J_max, unknown states, goals without a meaning here.
    """
    faults = Faults()
    units = Units("hartree", fields=True)
    populations: Populations | None = None
    numbers = [0]
    with faults.catch():
        system = _settled(system, units)
        _require_sense(system)
        initial: Any = system.initial
        if isinstance(initial, Thermal):
            populations = _thermal(system, initial, units)
            # Both signs of M move alike, so
            # M
            #  is enough; its weights are doubled.
            numbers = list(range(1 + max(m for _, m in populations.places)))
        else:
            numbers = sorted({m for _, m in _named(system)}) or [0]
        # collisions fill all M of the levels that they reach
        numbers = sorted({*numbers, *range(_mixed_up_to(system) + 1)})
    faults.stop()
    # An envelope changes J by 2.
    size = _highest(system) + (2 if system.dalpha else 1) * extra + 1
    labels = tuple(f"{j},{m}" for m in numbers for j in range(m, size))
    # A field along z keeps M: one block for each, from J =
    # M
    #  on.
    blocks = [(m, size - m) for m in numbers]
    cos = sparse_matrix(sparse.block_diag([sparse_matrix(cos_matrix(m, count)) for m, count in blocks]))
    # The square is made in a larger basis, block by block: products of the cut cosines lack the last level.
    cos2 = sparse_matrix(sparse.block_diag([sparse_matrix(square_of_cos(m, count)) for m, count in blocks]))
    j = np.concatenate([np.arange(m, float(size)) for m in numbers])
    square = sparse_matrix(sparse.diags_array(j * (j + 1.0)))
    drift = sparse_matrix(system.B * square)
    named = {"cos": cos, "cos2": cos2, "J2": square}

    def observable(text: str, key: str) -> csr_array:
        return evaluate(text, tuple(named), named.__getitem__, key, len(labels))

    basis = Basis(labels, drift, drift, units, observable, inside=j <= _highest(system))
    jumps = _collisions(system, labels, units, observable, faults)
    with faults.catch():
        goal = aim(
            _by_label(system, populations),
            basis,
            lambda gate, start: named_states(_plain_gate(gate), start, basis),
        )
    faults.stop()
    if populations is not None:
        goal = replace(goal, start=_columns(populations, basis))
    # Every phase exp(-i B J(J+1) t) is 1 after pi/B.
    # J(J+1) is even, so one revival is half as long as 2 pi/B.
    return replace(goal.model(basis, _controls(system, cos, cos2), jumps), revival=np.pi / system.B)


def _settled(system: RotorSystem, units: Units) -> RotorSystem:
    """Return the block with its temperature as a thermal start, and J_max as a number.

    Raises
    ------
    InvalidInput
        If a start is given beside the temperature.
    """
    if system.temperature is not None:
        if system.initial is not None or system.pairs is not None:
            raise InvalidInput("system.temperature", "give either temperature, or initial (or pairs)")
        thermal = Thermal.model_validate({"thermal": system.temperature})
        system = system.model_copy(update={"initial": thermal, "temperature": None})
    if system.J_max != "auto":
        return system
    top = max([j for j, _ in _named(system)], default=0)
    if isinstance(system.initial, Thermal):
        # levels whose weight is above 1e-16 of that of the lowest
        kt = units.temperature(system.initial.thermal, "system.initial.thermal")
        top = max(top, int(np.sqrt(37.0 * kt / system.B)))
    return system.model_copy(update={"J_max": min(MOST, max(LEAST, top + SPARE))})


def _highest(system: RotorSystem) -> int:
    """Return J_max of a block that is settled."""
    assert system.J_max != "auto"
    return system.J_max


def _require_sense(system: RotorSystem) -> None:
    """Refuse a rotor that nothing turns, goals of other systems, and starts next to J_max.

    Raises
    ------
    InvalidInput
        Naming the key.
    """
    if not system.dipole and not system.dalpha:
        raise InvalidInput(
            "system.dipole", "no field acts on this rotor; give dipole, dalpha or both, not zero"
        )
    if not any(system.spin_weights):
        raise InvalidInput("system.spin_weights", "at least one of the two weights must be above 0")
    for number, pair in enumerate(system.pairs or []):
        key = f"system.pairs.{number}"
        if isinstance(pair.initial, Thermal):
            raise InvalidInput(f"{key}.initial", "one of several goals of a rotor has no thermal start")
    for j, _ in _named(system):
        if j > _highest(system) - ROOM:
            text = f"J_max = {_highest(system)} leaves no room above J = {j}; at least {j + ROOM} is needed"
            raise InvalidInput("system.J_max", text)


def _states_of(system: RotorSystem) -> list[tuple[str, Any]]:
    """Return keys and values of all starts and goals."""
    found = [("system.initial", system.initial), ("system.target", system.target)]
    for number, pair in enumerate(system.pairs or []):
        found += [
            (f"system.pairs.{number}.initial", pair.initial),
            (f"system.pairs.{number}.target", pair.target),
        ]
    return found


def _named(system: RotorSystem) -> list[tuple[int, int]]:
    """Return the (J, |M|) that starts and goals name.

    Raises
    ------
    InvalidInput
        If a label is no ``"J,M"`` with 0 <= M <= J.
    """
    places = []
    for key, state in _states_of(system):
        if isinstance(state, int | str):
            places.append(_place(state, key))
        elif isinstance(state, dict | list):
            places += [_place(one, key) for one in state]
        elif isinstance(state, Gate):
            places += [_place(one, f"{key}.on") for one in state.on or []]
    return places


def _place(state: int | str, key: str) -> tuple[int, int]:
    """Return (J, M) of a label ``"J,M"`` or of a number J.

    Raises
    ------
    InvalidInput
        If it is neither.
    """
    # A number alone is J with M = 0.
    words = str(state).split(",")
    if len(words) <= 2 and all(word.strip().isascii() and word.strip().isdigit() for word in words):
        j, m = int(words[0]), int(words[1]) if len(words) == 2 else 0
        if m <= j:
            return j, m
    raise InvalidInput(
        key, f'expected "J,M" with 0 <= M <= J, or J alone for M = 0, found {str(state)[:60]!r}'
    )


def _label(state: int | str, key: str) -> str:
    """Return the label ``"J,M"`` as the basis has it."""
    j, m = _place(state, key)
    return f"{j},{m}"


def _plain(state: Any, key: str) -> Any:
    """Return a state of the deck with labels in place of numbers."""
    if isinstance(state, int | str):
        return _label(state, key)
    if isinstance(state, list):
        return [_label(one, key) for one in state]
    if isinstance(state, dict):
        return {_label(one, key): weight for one, weight in state.items()}
    return state


def _by_label(system: RotorSystem, populations: Populations | None) -> RotorSystem:
    """Return the block with labels in place of numbers; a thermal start has its columns made apart."""
    # The start that `aim` sees is replaced by the thermal columns afterwards.
    initial = "0,0" if populations is not None else _plain(system.initial, "system.initial")
    pairs = system.pairs
    if pairs is not None:
        pairs = [
            pair.model_copy(
                update={
                    key: _plain(getattr(pair, key), f"system.pairs.{number}.{key}")
                    for key in ("initial", "target")
                }
            )
            for number, pair in enumerate(pairs)
        ]
    target = _plain(system.target, "system.target")
    return system.model_copy(update={"initial": initial, "target": target, "pairs": pairs})


def _plain_gate(gate: Gate) -> Gate:
    """Return a gate with labels in place of numbers."""
    names = None if gate.on is None else [_label(name, "system.target.on") for name in gate.on]
    return gate.model_copy(update={"on": names})


def _mixed_up_to(system: RotorSystem) -> int:
    """Return the highest |M| that collisions fill; -1 if there are none that change M."""
    top = -1
    for entry in system.jumps:
        named = {
            *(entry.lifetimes or {}),
            *(entry.rates or {}),
            *(j for ends in (entry.rates or {}).values() for j in ends),
        }
        if entry.M != "kept":
            top = max([top, *(int(j) for j in named if j.isdecimal())])
    if top > _highest(system):
        raise InvalidInput("system.jumps", f"J = {top} is above J_max = {_highest(system)}")
    return top


def _collisions(
    system: RotorSystem,
    labels: tuple[str, ...],
    units: Units,
    observable: Callable[[str, str], csr_array],
    faults: Faults,
) -> tuple[Jump, ...]:
    """Return the jumps between states of J and |M|; what is mistaken is kept in `faults`."""
    j, m = np.array([[int(n) for n in label.split(",")] for label in labels]).T
    energies = system.B * np.arange(j.max() + 1) * (np.arange(j.max() + 1) + 1.0)
    places = {str(n): n for n in range(energies.size)}
    weights = {name: 2.0 * n + 1.0 for name, n in places.items()}
    of_j = Levels(energies, places, units, observable, weights)
    of_states = Levels(system.B * j * (j + 1.0), {}, units, observable, numbers=j.astype(float))
    found: list[Jump] = []
    for number, entry in enumerate(system.jumps):
        key = f"system.jumps.{number}"
        with faults.catch():
            if entry.bath is not None:
                raise InvalidInput(f"{key}.bath", "a rotor relaxes by rates or lifetimes of J")
            if entry.lifetimes is None and entry.rates is None:
                found += of_entry(entry, of_states, key)
                continue
            spread: dict[tuple[int, int], float] = {}
            for (start, end), rate in rates_of(entry, of_j, key).items():
                for a in np.flatnonzero(j == start):
                    for b in np.flatnonzero(j == end):
                        # of 2 J + 1 states, |M| > 0 stands for two
                        mixed = (1.0 + (m[b] > 0)) / (2.0 * end + 1.0)
                        share = float(m[a] == m[b]) if entry.M == "kept" else mixed
                        if share > 0.0:
                            spread[int(a), int(b)] = rate * share
            found += between(spread, key.removeprefix("system."), len(labels))
    return tuple(found)


def _thermal(system: RotorSystem, start: Thermal, units: Units) -> Populations:
    """Return the thermal populations, ``g_J exp(-B J(J+1)/kT)/Z`` for each J, M.

    Raises
    ------
    InvalidInput
        If the levels up to J_max do not hold the mixture.
    """
    temperature = units.temperature(start.thermal, "system.initial.thermal")
    # What lies above J_max belongs to the partition function, but has no column.
    above = _weight_above(system, temperature)
    places = [(j, m) for j in range(_highest(system) + 1) for m in range(j + 1)]
    j = np.array([place[0] for place in places], dtype=float)
    signs = np.array([1.0 if m == 0 else 2.0 for _, m in places])
    weights = signs * _relative_weights(system, j, temperature)
    # Then the weights add up to 1 less what is above, which counts as dropped.
    weights *= (1.0 - above) / weights.sum()
    chosen, dropped = kept(weights, start.below)
    top = int(j[chosen].max())
    if top > _highest(system) - ROOM:
        text = f"J_max = {_highest(system)} leaves no room above J = {top}, which the thermal start fills; raise J_max"
        raise InvalidInput("system.J_max", text)
    return Populations([places[k] for k in chosen], weights[chosen], dropped)


def _relative_weights(system: RotorSystem, j: FloatArray, temperature: float) -> FloatArray:
    """Return ``g_J exp(-E_J/kT)`` (n,) of levels J, relative to the lowest level that the nuclear spins allow."""
    # Even J have the first of the two nuclear weights, odd ones the second.
    # Without even levels the lowest one is J = 1, of J(J + 1) = 2.
    spins = np.asarray(system.spin_weights)[(j % 2).astype(int)]
    lowest = 0.0 if system.spin_weights[0] > 0 else 2.0
    with np.errstate(over="ignore"):
        exponent = np.maximum(j * (j + 1.0) - lowest, 0.0) * system.B / temperature
    return np.asarray(spins * np.exp(-exponent))


def _weight_above(system: RotorSystem, temperature: float) -> float:
    """Return the thermal weight of the levels above J_max.

    Raises
    ------
    InvalidInput
        If the mixture fills levels far above: the sum would not end.
    """
    if temperature > system.B * (_highest(system) + 1.0) ** 2:
        text = f"J_max = {_highest(system)} lies below the levels that the thermal start fills; raise J_max"
        bare = getattr(system.initial, "thermal", None)
        if isinstance(bare, float):
            text += f".  thermal: {bare:g} without a unit is kT in hartree; a temperature is '{bare:g} K'"
        raise InvalidInput("system.J_max", text)
    # exp(-60) beyond the last one.
    count = _highest(system) + 2 + int(np.sqrt(60.0 * temperature / system.B))
    j = np.arange(float(count))
    weights = (2.0 * j + 1.0) * _relative_weights(system, j, temperature)
    return float(weights[_highest(system) + 1 :].sum() / weights.sum())


def _columns(populations: Populations, basis: Basis) -> Start:
    """Return the columns of a thermal start."""
    places = [basis.index[f"{j},{m}"] for j, m in populations.places]
    columns = np.zeros((basis.dimension, len(places)), dtype=np.complex128)
    columns[places, np.arange(len(places))] = 1.0
    return Start(columns, populations.weights, populations.dropped)


def _controls(system: RotorSystem, cos: csr_array, cos2: csr_array) -> tuple[ControlTerm, ...]:
    """Return the controls field and envelope, whose values are electric fields in atomic units."""
    controls: Sequence[ControlTerm] = []
    if system.dipole:
        controls = [ControlTerm("field", sparse_matrix(-system.dipole * cos))]
    if system.dalpha:
        # E^2/2 with the mean 1/2 of cos^2 of the carrier: -dalpha E0^2/4; the part without an angle is a phase.
        controls = [*controls, ControlTerm("envelope", sparse_matrix(-0.25 * system.dalpha * cos2), 2)]
    return tuple(controls)
