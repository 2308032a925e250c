"""The members of an ensemble: blocks `system` with other parameters, and factors of the controls."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from qsim.core.deck.blocks import Block
from qsim.core.device import rng
from qsim.core.errors import InvalidInput
from qsim.core.text import shorten
from qsim.qoc.deck.ensemble import number_and_unit, settings_of, widened
from qsim.qoc.models.builders import System, model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.qoc.deck.ensemble import QuantumEnsemble
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.ensemble import EnsembleObjective

# First part of the path of a control.
CONTROL = "control"
# Stream of random numbers of the first parameter that varies; one more per parameter.
STREAM = 200
# Values of one parameter that are all tried before a run.
MOST_TRIED = 5
# Systems that are kept for their verification.
MOST_KEPT = 300
# As the blocks of a deck are.
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Parameter:
    """One parameter that differs from member to member.

    Attributes
    ----------
    kind : {"set", "scale"}
        New values, or factors of the value in the deck.
    path : str
        ``control.NAME``, ``control`` for all controls, or a path in the block `system`.
    key : str
        Key of the deck.
    values : list of float or str
    """

    kind: Literal["set", "scale"]
    path: str
    key: str
    values: list[float | str]

    @property
    def is_control(self) -> bool:
        """True for a factor of one control, or of all."""
        return self.kind == "scale" and self.path.partition(".")[0] == CONTROL

    @property
    def control(self) -> str:
        """Name of the control; "" for all of them."""
        return self.path.partition(".")[2]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """Values without their unit, for arrays and figures; their places where they are no numbers."""
        try:
            found = [number_and_unit(v) for v in self.values]
        except ValueError:
            found = []
        # Values of several units have no common axis: then their places must do.
        if len({unit for _, unit in found}) == 1:
            return np.array([number for number, _ in found])
        return np.arange(len(self.values), dtype=float)


class Members:
    """All combinations of the entries of a block `ensemble`, the last entry fastest.

    Parameters
    ----------
    block : QuantumEnsemble
    system : block of the deck
    controls : sequence of str
        Names of the controls of the system, in its order.
    context : mapping
        With the folder of the deck, for files.
    seed : int
        Of values that are drawn.
    """

    def __init__(
        self,
        block: QuantumEnsemble,
        system: System,
        controls: Sequence[str],
        context: Mapping[str, Any],
        seed: int,
    ) -> None:
        self.system, self.controls, self.context = system, tuple(controls), context
        # Every parameter takes a stream of its own, so that draws do not depend on each other.
        streams = count(STREAM)
        self.axes = [
            [
                Parameter(
                    kind,
                    path,
                    f"ensemble.members.{number}.{kind}.{path}",
                    widened(settings_of(values, _normal(seed, next(streams))), block.width),
                )
                for (kind, path), values in entry.lists().items()
            ]
            for number, entry in enumerate(block.members)
        ]
        self.shape = block.lengths()
        self._made: dict[int, QuantumModel] = {}
        for parameter in self.parameters:
            if parameter.is_control and parameter.control not in ("", *controls):
                told = f"the system has no control {parameter.control!r}; it has {', '.join(controls)}"
                raise InvalidInput(parameter.key, told)

    @property
    def parameters(self) -> list[Parameter]:
        """All parameters that differ."""
        return [p for axis in self.axes for p in axis]

    @property
    def count(self) -> int:
        """Number M of members."""
        return math.prod(self.shape)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Place of each member on each axis, (M, axes)."""
        return np.stack(np.unravel_index(np.arange(self.count), self.shape), axis=1).astype(np.int64)

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places on the axes that change the system, once each, and the number of these of each member."""
        own = [any(not p.is_control for p in axis) for axis in self.axes]
        # Axes of controls alone are set to place 0, so members that differ in them fall together.
        return np.unique(self.places * own, axis=0, return_inverse=True)

    @property
    def system_of(self) -> NDArray[np.int64]:
        """Number of the system of each member (M,): members with other factors of the controls alone share theirs."""
        return self._kinds[1].reshape(-1).astype(np.int64)

    def scale(self, members: slice) -> NDArray[np.float64]:
        """Return the factors of the controls, (m, C)."""
        places = self.places[members]
        factors = np.ones((places.shape[0], len(self.controls)))
        for number, axis in enumerate(self.axes):
            for parameter in axis:
                if parameter.is_control:
                    own = slice(None) if parameter.control == "" else [self.controls.index(parameter.control)]
                    # A factor of all controls and one of a single control multiply each other.
                    factors[:, own] *= parameter.numbers[places[:, number], None]
        return factors

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Return the value of every parameter for each member, by path."""
        return {
            p.path: p.numbers[self.places[:, number]] for number, axis in enumerate(self.axes) for p in axis
        }

    def block(self, number: int) -> System:
        """Return the block of a system by its number.

        Raises
        ------
        InvalidInput
            If a path leads nowhere, or a value is not allowed there.
        """
        made, places = self.system, self._kinds[0][number]
        for place, axis in zip(places, self.axes, strict=True):
            for p in axis:
                if not p.is_control:
                    made = changed(made, p, p.values[place], self.context)
        return made

    def model(self, number: int) -> QuantumModel:
        """Return the matrices of a system by its number.

        Raises
        ------
        InvalidInput
            If the parameters make no system; with the keys of the ensemble that differ.
        """
        # Search and verification ask for the same systems; matrices are dear, so a number is kept.
        if number in self._made:
            return self._made[number]
        block = self.block(number)
        try:
            made = model(block)
        except InvalidInput as problem:
            # Several keys may be at fault together; the message names the first that varies.
            keys = [p.key for p in self.parameters if not p.is_control]
            raise InvalidInput(keys[0], f"{problem.key}: {problem}") from None
        if len(self._made) < MOST_KEPT:
            self._made[number] = made
        return made

    def ends(self) -> list[int]:
        """Return systems that show every value of short lists, and both ends of long ones, at the first values of the others."""
        own = [any(not p.is_control for p in axis) for axis in self.axes]
        kinds = {tuple(k): i for i, k in enumerate(self._kinds[0].tolist())}
        chosen = {0}
        for number, length in enumerate(self.shape):
            # Long lists mostly rise or fall, so their ends and middle show a value that is not allowed.
            tried = range(length) if length <= MOST_TRIED else (0, length // 2, length - 1)
            for place in tried if own[number] else ():
                chosen.add(kinds[tuple(place if k == number else 0 for k in range(len(self.shape)))])
        return sorted(chosen)


@dataclass
class Ensemble:
    """The ensemble of a run: its members, and the objectives of search and result.

    Attributes
    ----------
    members : Members
    objective : EnsembleObjective
        Of the members of this rank.
    measure : {"mean", "worst"}
    finish : EnsembleObjective or None
        Density matrices of the same members, where the search is without jumps: the values have them.
    closed : EnsembleObjective or None
        The same members without any jump, where there are some.
    """

    members: Members
    objective: EnsembleObjective
    measure: str
    finish: EnsembleObjective | None = None
    closed: EnsembleObjective | None = None

    @property
    def valued(self) -> EnsembleObjective:
        """Return the objective that gives the values of the result."""
        return self.objective if self.finish is None else self.finish


def _normal(seed: int, stream: int) -> Callable[[int], NDArray[np.float64]]:
    """Return what draws normal numbers for one parameter."""
    return lambda size: rng.normal(rng.key_from_seed(seed), stream, 0, size)


def changed(block: Any, parameter: Parameter, value: float | str, context: Mapping[str, Any]) -> Any:
    """Return a block of the deck with another value at a path.

    Raises
    ------
    InvalidInput
        If there is no such path, or the value is not allowed there.
    """
    return _inside(block, parameter.path.split("."), parameter, value, context)


def _inside(
    block: Block, path: list[str], parameter: Parameter, value: float | str, context: Mapping[str, Any]
) -> Block:
    """Return a block with another value at a path in it."""
    name, *rest = path
    fields = type(block).model_fields
    if name not in fields:
        _refuse(parameter, name, [f for f in fields if f not in ("type", "name")])
    here = getattr(block, name)
    if not rest:
        there = _valid(fields[name], _value(here, parameter, value), parameter, context)
    else:
        there = _through(here, rest, fields[name], parameter, value, context)
    # Blocks are not changed in place: the nominal system and other members share them.
    return block.model_copy(update={name: there})


def _through(
    here: Any,
    path: list[str],
    field: Any,
    parameter: Parameter,
    value: float | str,
    context: Mapping[str, Any],
) -> Any:
    """Return the value of a field with a change inside it."""
    if isinstance(here, Block):
        return _inside(here, path, parameter, value, context)
    name, *rest = path
    names = _names(here)
    if name not in names:
        # items that have names are not called by their numbers
        _refuse(parameter, name, [n for n in names if not n.isdigit()] or list(names))
    # A copy of the list or mapping, as other members still read the old one.
    made, place = here.copy() if isinstance(here, dict) else list(here), names[name]
    item = here[place]
    if rest:
        if not isinstance(item, Block):
            _refuse(parameter, rest[0], [])
        made[place] = _inside(item, rest, parameter, value, context)
        return made
    made[place] = _value(item, parameter, value)
    return _valid(field, made, parameter, context)


def _names(here: Any) -> dict[str, Any]:
    """Return how a path names the items of a list or of a mapping."""
    if isinstance(here, dict):
        return {str(k): k for k in here}
    if not isinstance(here, list | tuple):
        return {}
    named = {item.name: i for i, item in enumerate(here) if isinstance(getattr(item, "name", None), str)}
    return {**{str(i): i for i in range(len(here))}, **named}


def _refuse(parameter: Parameter, name: str, known: list[str]) -> None:
    """Refuse a path that leads nowhere.

    Raises
    ------
    InvalidInput
        Always.
    """
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    told = f"there is: {', '.join(known)}" if known else "there is nothing inside"
    raise InvalidInput(parameter.key, f"no {shorten(repr(name))} in the system; {hint}{told}")


def _value(here: Any, parameter: Parameter, value: float | str) -> Any:
    """Return the new value: the one of the ensemble, or the one of the deck times a factor."""
    if parameter.kind == "set":
        # whole numbers are written without a point in decks
        return (
            int(value) if isinstance(here, int) and isinstance(value, float) and value.is_integer() else value
        )
    try:
        number, unit = number_and_unit(here)
    except ValueError:
        told = "nothing" if here is None else shorten(repr(here))
        raise InvalidInput(parameter.key, f"only numbers can be scaled; the system has {told} here") from None
    # repr keeps all digits of the product, so that reading it back changes nothing.
    scaled = number * float(value)
    return f"{scaled!r} {unit}" if unit else scaled


def _valid(field: Any, value: Any, parameter: Parameter, context: Mapping[str, Any]) -> Any:
    """Return a value as the field keeps it.

    Raises
    ------
    InvalidInput
        If it is not allowed there.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field], config=STRICT)
    try:
        return adapter.validate_python(value, context=dict(context))
    except ValidationError as error:
        told = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidInput(parameter.key, f"{shorten(repr(value))}: {told}") from None
