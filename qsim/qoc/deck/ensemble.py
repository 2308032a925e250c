"""Ensembles of molecules and fields, and of quantum systems with their controls."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Finding

# Of the field, mass or potential of a member.
Factor = Annotated[float, Field(ge=1e-3, le=1e3)]


class Range(Block):
    """Equidistant values."""

    start: Factor = Field(description="first value")
    stop: Factor = Field(description="last value")
    count: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(description="number of values")


Values = Annotated[list[Factor], Field(min_length=1, max_length=1_000_000)] | Range


class Ensemble(Block):
    """One field for many systems: all combinations, equal weights."""

    field_scale: Values | None = Field(default=None, description="factors of the field")
    mass_scale: Values | None = Field(default=None, description="factors of the mass")
    potential_scale: Values | None = Field(default=None, description="factors of the potential")


def values_of(values: Values | None) -> list[float]:
    """Return the numbers of a list, a range, or nothing ([1.0])."""
    if values is None:
        return [1.0]
    if isinstance(values, Range):
        n = values.count
        return [values.start + (values.stop - values.start) * i / max(n - 1, 1) for i in range(n)]
    return list(values)


# Members of an ensemble.
MOST_MEMBERS = 1_000_000
# A number and what follows it: a unit, or nothing.
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(.*)", re.DOTALL)


class Several(Block):
    """Equal steps from start to stop, or normal random values of mean and sigma, independent of those of other parameters.

    All are numbers, or all have the same unit.
    """

    start: float | str | None = Field(default=None, description="first of equal steps")
    stop: float | str | None = Field(default=None, description="last of equal steps")
    mean: float | str | None = Field(default=None, description="mean of random values")
    sigma: float | str | None = Field(default=None, description="standard deviation of random values")
    count: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(description="number of values")


# Of one parameter.
Settings = Annotated[list[float | str], Field(min_length=1, max_length=1_000_000)] | Several


class Variation(Block):
    """Differences between members: all lists of one entry go together, and have the same length."""

    set: dict[str, Settings] = Field(
        default={},
        description="values of parameters of the system by their paths, parts.a.frequency",
        json_schema_extra={"example": {"parts.a.frequency": [-0.001, 0.0, 0.001]}},
    )
    scale: dict[str, Settings] = Field(
        default={},
        description="factors of a control, control.NAME, of all (control), or of parameters of the system",
        json_schema_extra={"example": {"control.x": [0.98, 1.0, 1.02]}},
    )

    def lists(self) -> dict[tuple[Literal["set", "scale"], str], Settings]:
        """Return values by what is done with them and by path."""
        found: dict[tuple[Literal["set", "scale"], str], Settings] = {}
        found |= {("set", path): values for path, values in self.set.items()}
        found |= {("scale", path): values for path, values in self.scale.items()}
        return found


class QuantumEnsemble(Block):
    """Robust control: the same controls for many systems, all combinations of the entries of `members`."""

    members: Annotated[list[Variation], Field(min_length=1)] = Field(
        description="what differs; entries are combined with each other; field_scale: [...] beside them is short for an entry "
        "{scale: {control: [...]}}, mass_scale and potential_scale of a molecule on a grid for {set: ...}",
        json_schema_extra={"example": [{"scale": {"control.x": [0.98, 1.0, 1.02]}}]},
    )
    weights: Literal["equal"] | list[Annotated[float, Field(ge=0)]] = Field(
        default="equal", description="weights of the members, the last entry fastest"
    )
    measure: Literal["mean", "worst"] = Field(
        default="mean", description="what is maximised: the mean, or the smallest value by a smooth function"
    )
    width: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=1.0,
        description="factor of the distances of all values from the mean of their list; front: {over: ensemble.width}",
    )

    def lengths(self) -> tuple[int, ...]:
        """Return the number of values of each entry."""
        return tuple(max((count_of(v) for v in entry.lists().values()), default=0) for entry in self.members)

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        seen: set[tuple[str, str]] = set()
        for number, entry in enumerate(self.members):
            key = f"ensemble.members.{number}"
            if not entry.lists():
                yield Finding(key, "nothing varies; give set: {PATH: [...]} or scale: {control.NAME: [...]}")
            for name in entry.lists():
                if name in seen:
                    yield Finding(
                        f"{key}.{name[0]}.{name[1]}", "this parameter varies already in another entry"
                    )
                seen.add(name)
            yield from _lengths(entry, key)
            yield from _numbers(entry, key, self.width)
        if math.prod(self.lengths()) > MOST_MEMBERS:
            text = f"{math.prod(self.lengths())} members, at most {MOST_MEMBERS}; lower the counts"
            yield Finding("ensemble.members", text)
            return
        yield from self._weights()

    def _weights(self) -> Iterator[Finding]:
        """Yield what is wrong with the weights."""
        if self.weights == "equal":
            return
        count, found = math.prod(self.lengths()), len(self.weights)
        if self.measure == "worst":
            yield Finding("ensemble.weights", "the worst member has no weight; leave weights out")
        elif found != count:
            yield Finding("ensemble.weights", f"{found} weights for {count} members")
        elif not sum(self.weights) > 0:
            yield Finding("ensemble.weights", "all weights are 0")


def _lengths(entry: Variation, key: str) -> Iterator[Finding]:
    """Yield lists of one entry that cannot go together."""
    lengths = {f"{kind}.{path}": count_of(values) for (kind, path), values in entry.lists().items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        text = f"lists of one entry go together and need the same length: {told}; use an entry each for combinations"
        yield Finding(key, text)


def _numbers(entry: Variation, key: str, width: float) -> Iterator[Finding]:
    """Yield values that are no numbers where numbers are needed."""
    for (kind, path), values in entry.lists().items():
        try:
            listed = widened(settings_of(values, lambda count: [0.0] * count), width)
        except ValueError as problem:
            yield Finding(f"{key}.{kind}.{path}", str(problem))
            continue
        if kind == "scale" and any(isinstance(v, str) for v in listed):
            yield Finding(f"{key}.{kind}.{path}", f"factors are numbers, found {listed[0]!r}")


def count_of(values: Settings) -> int:
    """Return the number of values."""
    return len(values) if isinstance(values, list) else values.count


def settings_of(values: Settings, normal: Callable[[int], Iterable[float]]) -> list[float | str]:
    """Return the values of a list, of equal steps, or of draws.

    Parameters
    ----------
    values
        As the deck has them.
    normal
        Returns so many normal random numbers of mean 0 and variance 1.

    Raises
    ------
    ValueError
        If the two numbers of a block have different units, or one of them is missing.
    """
    if isinstance(values, list):
        return list(values)
    stepped, drawn = (values.start, values.stop), (values.mean, values.sigma)
    if None not in stepped and drawn == (None, None):
        first, last, unit = _of_one_unit("start", values.start, "stop", values.stop)
        steps = max(values.count - 1, 1)
        made = [first + (last - first) * i / steps for i in range(values.count)]
    elif None not in drawn and stepped == (None, None):
        mean, sigma, unit = _of_one_unit("mean", values.mean, "sigma", values.sigma)
        made = [mean + sigma * float(z) for z in normal(values.count)]
    else:
        raise ValueError("give start and stop, or mean and sigma, with count")
    return [f"{v!r} {unit}" if unit else v for v in made]


def widened(values: list[float | str], width: float) -> list[float | str]:
    """Return values whose distances from their mean are larger by a factor.

    Raises
    ------
    ValueError
        If they are no numbers of one unit.
    """
    if width == 1.0:
        return values
    numbers, units = zip(*map(number_and_unit, values), strict=True)
    if len(set(units)) > 1:
        raise ValueError(f"ensemble.width needs values of one unit, found {', '.join(sorted(set(units)))}")
    mean = sum(numbers) / len(numbers)
    made = [mean + width * (number - mean) for number in numbers]
    return [f"{v!r} {units[0]}" if units[0] else v for v in made]


def _of_one_unit(name: str, first: object, other: str, second: object) -> tuple[float, float, str]:
    """Return two numbers and their unit; zero needs none.

    Raises
    ------
    ValueError
        If they have different units.
    """
    (a, unit_a), (b, unit_b) = number_and_unit(first), number_and_unit(second)
    units = {unit for number, unit in ((a, unit_a), (b, unit_b)) if number or unit}
    if len(units) > 1:
        raise ValueError(f"{name} and {other} need the same unit, found {first!r} and {second!r}")
    return a, b, units.pop() if units else ""


def number_and_unit(value: Any) -> tuple[float, str]:
    """Return the number of a value, and its unit as a text ("" without).

    Raises
    ------
    ValueError
        If it begins with no number.
    """
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if match is None:
            raise ValueError(f"expected a number, or text with a unit, found {value!r}")
        return float(match[1]), match[2].strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, found {value!r}")
    return float(value), ""
