"""The decks of a front: the same deck with one key at each of its values."""

from __future__ import annotations

import dataclasses
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.quantities import units_of
from qsim.qoc.quantum.problem import Points

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.run.stages import Plan
    from qsim.qoc.deck.quantum import QuantumDeck
    from qsim.qoc.deck.systems.quantities import Units
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.quantum.problem import QuantumProblem

    Nominal = Callable[[QuantumDeck], QuantumModel]

_LEADING = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


def plans_of(
    loaded: LoadedDeck[QuantumDeck], nominal: Nominal, plan: Callable[[LoadedDeck[QuantumDeck]], Plan]
) -> tuple[list[Plan], list[Finding]]:
    """Return the plans of all points, and what is wrong with any of them."""
    plans, findings = [], []
    front = loaded.deck.front
    assert front is not None
    for number, value in enumerate(front.values):
        place = f"front.values.{number}"
        try:
            changed = _at(loaded, number, nominal)
        except InvalidInput as problem:
            key = "front.over" if problem.key == front.key else place
            return [], [Finding(key, str(problem))]
        made = plan(changed)
        wrong = [f for f in made.findings if f.severity == "error"]
        findings += [Finding(place, f"{front.over} = {value}: {f.key}: {f.message}") for f in wrong[:1]]
        plans.append(made)
    if not findings:
        try:
            _numbers(loaded.deck)
        except InvalidInput as problem:
            findings.append(Finding(problem.key, str(problem)))
    return plans, findings


def points_of(
    loaded: LoadedDeck[QuantumDeck],
    nominal: Nominal,
    build: Callable[[LoadedDeck[QuantumDeck]], QuantumProblem],
) -> Points:
    """Return the problems of all points."""
    front = loaded.deck.front
    assert front is not None
    problems = [build(_at(loaded, number, nominal)) for number in range(len(front.values))]
    both = front.both_ways and front.warm_start
    return Points(problems, _numbers(loaded.deck), front.over, front.warm_start, both)


def _at(loaded: LoadedDeck[QuantumDeck], number: int, nominal: Nominal) -> LoadedDeck[QuantumDeck]:
    """Return the deck at one value of its front.

    Raises
    ------
    InvalidInput
        If the key cannot have this value.
    """
    front = loaded.deck.front
    assert front is not None
    key, value = front.key, front.values[number]
    data = loaded.data
    # A point is a deck without a front and without the settings of the run, except for the seed.
    del data["front"]
    data["run"] = {"seed": loaded.deck.run.seed}
    _put(data, key, value)
    model = type(loaded.deck)
    try:
        # The deck is read once more as text, so that units and defaults apply to the new value.
        deck = model.model_validate_json(json.dumps(data), context={"base": loaded.path.parent})
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput("front.values", f"{front.over} = {value}: {first['msg']}") from None
    wrong = [f for f in deck.check() if f.severity == "error"]
    if wrong:
        raise InvalidInput("front.values", f"{front.over} = {value}: {wrong[0].message}")
    # the matrices are those of the deck itself, unless the key belongs to them
    made: dict[Any, Any] = {} if key.startswith("system") else {nominal: loaded.once(nominal)}
    return dataclasses.replace(loaded, deck=deck, _made=made, warnings=[], _warnings={})


def _put(data: dict[str, Any], key: str, value: float | str) -> None:
    """Put a value at a dotted key of a deck; parts of lists are named by `name` or number.

    Raises
    ------
    InvalidInput
        If there is no such place.
    """
    # Blocks that the deck leaves out are made on the way; entries of lists must be there.
    *way, last = key.split(".")
    block: Any = data
    for part in way:
        block = block[_place(block, part, key)] if isinstance(block, list) else block.setdefault(part, {})
        if not isinstance(block, dict | list):
            text = f"no key '{key}': {part} is the short form {block!r} here; write it as a block"
            raise InvalidInput(key, text)
    if isinstance(block, list):
        block[_place(block, last, key)] = value
    else:
        block[last] = value


def _place(items: list[Any], part: str, key: str) -> int:
    """Return the place of an item of a list, by its name or number."""
    for place, item in enumerate(items):
        if str(place) == part or (isinstance(item, dict) and item.get("name") == part):
            return place
    raise InvalidInput(key, f"no key '{key}': there is no '{part}' in the list")


def _numbers(deck: QuantumDeck) -> NDArray[np.float64]:
    """Return the values of a front (n,) as numbers: durations in the unit of the system, others as they are written.

    Texts of several units of time or frequency are in the unit of the system.

    Raises
    ------
    InvalidInput
        If they are no distinct numbers.
    """
    front, units = deck.front, units_of(deck.system)
    assert front is not None
    if front.key == "time.T":
        numbers = [units.time(value, "front.values") for value in front.values]
    else:
        texts = [str(value) for value in front.values]
        matches = [m for m in map(_LEADING.match, texts) if m is not None]
        # One common unit: the numbers may stay as written. Several: they must be converted.
        rests = {m.string[m.end() :].strip() for m in matches}
        if len(matches) < len(texts):
            raise InvalidInput("front.values", "expected numbers, or numbers with units")
        numbers = [float(m[1]) for m in matches] if len(rests) == 1 else _of_units(front.values, units)
    if len(set(numbers)) < len(numbers):
        raise InvalidInput("front.values", "a value appears twice")
    return np.array(numbers, dtype=float)


def _of_units(values: list[float | str], units: Units) -> list[float]:
    """Return times or frequencies of several units in that of the system."""
    for read in (units.time, units.frequency):
        with suppress(InvalidInput):
            return [read(value, "front.values") for value in values]
    raise InvalidInput("front.values", "expected numbers, or texts of one unit")
