"""Numbers of a block `system` whose unit the block itself names: ``unit: GHz`` makes every bare frequency 2 pi per nanosecond.

Inside, time counts in the unit's own scale (GHz: ns) and angular frequencies in its inverse, so that numbers stay near one.
Without a unit all are numbers with hbar = 1, and text with a unit is refused.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from qsim.core.deck.units import CODATA, UNITS, UnitError, parse_quantity
from qsim.core.errors import InvalidInput
from qsim.core.text import shorten

if TYPE_CHECKING:
    from qsim.core.deck.blocks import Block

    Value: TypeAlias = float | str

UnitName = Literal[
    "Hz", "kHz", "MHz", "GHz", "THz", "rad/s", "rad/ns", "rad/ps", "rad/fs", "cm-1", "meV", "eV", "hartree"
]

#: Seconds of one unit of time inside, by the unit of the block; a.u. of time for hartree.
SCALES: dict[str, float] = {
    "Hz": 1.0,
    "kHz": 1e-3,
    "MHz": 1e-6,
    "GHz": 1e-9,
    "THz": 1e-12,
    "rad/s": 1.0,
    "rad/ns": 1e-9,
    "rad/ps": 1e-12,
    "rad/fs": 1e-15,
    "cm-1": 1e-12,
    "meV": 1e-12,
    "eV": 1e-15,
    "hartree": CODATA["atomic unit of time"],
}

_AU_TIME = CODATA["atomic unit of time"]
# Number, then 1/unit, /unit or unit-1.
_RATE = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?:1?/\s*(\w+)|(\w+)(?:\^?-1))\s*")
_KELVIN = {"K": 1.0, "mK": 1e-3, "uK": 1e-6, "nK": 1e-9}
_TEMPERATURE = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(K|mK|uK|nK)\s*")


def atomic(text: str, kind: str) -> float:
    """Return a text with a unit in atomic units: a frequency (Eh/hbar), a time, a rate (1/time) or a temperature (kT/hbar).

    Raises
    ------
    UnitError
        If the text is no such quantity.
    """
    if kind == "rate":
        match = _RATE.fullmatch(text)
        if match is None or (match[2] or match[3]) not in UNITS["time"]:
            raise UnitError(
                f"expected a rate such as '0.03 /us', found {shorten(repr(text))}", "a rate", specific=True
            )
        return float(match[1]) / UNITS["time"][match[2] or match[3]]
    if kind == "temperature":
        match = _TEMPERATURE.fullmatch(text)
        if match is not None:
            return float(match[1]) * _KELVIN[match[2]] * UNITS["energy"]["K"]
        return parse_quantity(text, "frequency")
    return parse_quantity(text, kind)


@dataclass(frozen=True)
class Units:
    """The unit of a block, and numbers of the block in internal units.

    Attributes
    ----------
    name : str or None
        The key `unit` of the block; None: numbers with hbar = 1.
    fields : bool
        True where the controls are electric fields in atomic units, not multiples of the unit.
    """

    name: str | None
    fields: bool = False

    @property
    def seconds(self) -> float | None:
        """One internal unit of time in seconds; None for plain numbers."""
        return None if self.name is None else SCALES[self.name]

    @property
    def factor(self) -> float:
        """Angular frequency, per internal unit of time, of the bare number 1: 2 pi for ``GHz``."""
        if self.name is None:
            return 1.0
        return UNITS["frequency"][self.name] * SCALES[self.name] / _AU_TIME

    def frequency(self, value: Value, key: str) -> float:
        """Return an angular frequency, per internal unit of time; bare numbers are in the unit of the block."""
        if isinstance(value, str):
            return self._atomic(value, "frequency", key) * self._atomic_times
        return value * self.factor

    def control(self, value: Value, key: str) -> float:
        """Return the value of a control: in the unit of the block, or an electric field, a.u."""
        if not self.fields:
            return self.frequency(value, key) / self.factor
        try:
            return parse_quantity(value, "electric field")
        except UnitError as error:
            raise InvalidInput(key, str(error)) from None

    def time(self, value: Value, key: str) -> float:
        """Return a time; bare numbers are in internal units already (ns for ``GHz``)."""
        if isinstance(value, str):
            return self._atomic(value, "time", key) / self._atomic_times
        return value

    def rate(self, value: Value, key: str) -> float:
        """Return a rate per internal unit of time, never multiplied by 2 pi."""
        if isinstance(value, str):
            return self._atomic(value, "rate", key) * self._atomic_times
        return value

    def temperature(self, value: Value, key: str) -> float:
        """Return ``kT/hbar`` as an angular frequency; bare numbers are energies in the unit of the block."""
        if isinstance(value, str):
            return self._atomic(value, "temperature", key) * self._atomic_times
        return value * self.factor

    @property
    def of_controls(self) -> str:
        """The unit of the values of controls in results; empty for plain numbers."""
        return "a.u." if self.fields else self.name or ""

    @property
    def of_times(self) -> str:
        """The unit of bare times, for messages: `` ns`` for ``GHz``; empty for plain numbers."""
        names = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns", 1e-12: "ps", 1e-15: "fs"}
        return "" if self.name is None else f" {names.get(SCALES[self.name], 'a.u.')}"

    def text(self, frequency: float) -> str:
        """Return an angular frequency as a text in the unit of the block."""
        return f"{frequency / self.factor:.6g}" + (f" {self.name}" if self.name else "")

    @property
    def _atomic_times(self) -> float:
        """Atomic units of time in one internal unit."""
        return SCALES[self.name or "hartree"] / _AU_TIME

    def _atomic(self, value: str, kind: str, key: str) -> float:
        """Return a text in atomic units.

        Raises
        ------
        InvalidInput
            If the block has no unit: then all its numbers are plain.
        """
        if self.name is None:
            text = f"{shorten(repr(value))} has a unit, but the block has none; add unit: GHz, or write plain numbers"
            raise InvalidInput(key, text)
        try:
            return atomic(value, kind)
        except UnitError as error:
            raise InvalidInput(key, str(error)) from None


def units_of(system: Block) -> Units:
    """Return the unit of a block `system`, and whether its controls are electric fields."""
    return Units(getattr(system, "unit", None), bool(getattr(system, "fields", False)))


class _Measure:
    """The validator of a number, or of a text with a unit; what is kept is what the deck has."""

    def __init__(self, kind: str, *, positive: bool = False, zero: bool = False) -> None:
        self.kind, self.positive, self.zero = kind, positive, zero

    def __call__(self, value: object) -> object:
        """Refuse text that is no such quantity, and numbers out of range."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"expected a number, or text with a unit, found {value!r}")
        try:
            number = atomic(value, self.kind) if isinstance(value, str) else float(value)
        except UnitError as error:
            raise ValueError(str(error)) from None
        if self.positive and not (number > 0 or (self.zero and number == 0)):
            raise ValueError(f"a {self.kind} must be {'at least' if self.zero else 'above'} 0, found {value}")
        if not abs(number) < 1e30:
            raise ValueError(f"expected a number below 1e30 in size, found {value}")
        return value if isinstance(value, str) else number


def _control(value: object) -> object:
    """Refuse text that is neither a frequency nor an electric field; which of them the type of system says."""
    try:
        return _Measure("frequency")(value)
    except ValueError as error:
        with suppress(UnitError):
            if isinstance(value, str):
                parse_quantity(value, "electric field")
                return value
        raise error from None


_EITHER = Field(union_mode="left_to_right")
FrequencyValue = Annotated[float | str, _EITHER, BeforeValidator(_Measure("frequency"))]
TimeValue = Annotated[float | str, _EITHER, BeforeValidator(_Measure("time", positive=True))]
MomentValue = Annotated[float | str, _EITHER, BeforeValidator(_Measure("time", positive=True, zero=True))]
ControlValue = Annotated[float | str, _EITHER, BeforeValidator(_control)]
RateValue = Annotated[float | str, _EITHER, BeforeValidator(_Measure("rate", positive=True, zero=True))]
TemperatureValue = Annotated[float | str, _EITHER, BeforeValidator(_Measure("temperature", positive=True))]
