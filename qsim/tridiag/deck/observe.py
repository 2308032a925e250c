"""Blocks of observables that ``task: propagate`` and ``task: atom`` share."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Finding
from qsim.core.deck.units import Energy, Frequency, Length, Time
from qsim.tridiag.deck.central import CentralBlock
from qsim.tridiag.deck.pulses import CarrierPulse, PulseBlock

__all__ = [
    "Gabor",
    "Hhg",
    "LineResonance",
    "MotionObservable",
    "StarkState",
    "check_items",
    "entries",
    "resonance_form",
    "without_fundamental",
    "word_form",
]

# principal quantum number of a Stark state
MOST_N = 30


class Hhg(Block):
    """Harmonic spectrum ``|int s(t) w(t) exp(-i h omega t) dt|^2`` over the whole run."""

    form: Literal["dipole", "velocity", "acceleration"] = Field(default="acceleration", description="s(t)")
    window: Literal["none", "hann", "sin2", "blackman", "gauss"] = Field(default="sin2", description="w(t)")
    max_order: Annotated[float, Field(gt=0, le=10_000)] | Literal["auto"] = Field(
        default="auto",
        description="highest harmonic order; auto: 1.6 times the classical cutoff, at least 30",
    )
    omega: Annotated[Frequency, Field(gt=0)] | None = Field(
        default=None, description="fundamental; by default the first pulse's that has a carrier"
    )


class Gabor(Block):
    """Time-frequency map of the acceleration."""

    width: Annotated[Time, Field(gt=0)] | None = Field(
        default=None, description="standard deviation of the window; by default a tenth of a cycle"
    )
    max_order: Annotated[float, Field(gt=0, le=10_000)] | Literal["auto"] = Field(
        default="auto", description="highest harmonic order"
    )
    omega: Annotated[Frequency, Field(gt=0)] | None = Field(
        default=None, description="fundamental; by default the first pulse's that has a carrier"
    )


_Flag = Annotated[bool, Field(description="always written")]


class MotionObservable(Block):
    """What an entry of ``observe`` may be, of a line and of an atom."""

    norm: _Flag = False
    energy: _Flag = False
    dipole: _Flag = False
    acceleration: _Flag = False
    velocity: _Flag = False
    field: _Flag = False
    norm_within: (
        Annotated[list[Annotated[Length, Field(gt=0, lt=1e12)]], Field(min_length=1, max_length=100)] | None
    ) = Field(default=None, description="norm within |x| of each radius; of an atom, within spheres")
    hhg: Hhg | None = Field(default=None, description="harmonic spectrum")
    gabor: Gabor | None = Field(default=None, description="time-frequency map")


def word_form(value: object, flags: Sequence[str]) -> object:
    """Read ``hhg`` as ``{hhg: {}}`` and a flag as ``{norm: true}``."""
    if not isinstance(value, str):
        return value
    return {value: True} if value in flags else {value: {}}


def entries(items: Sequence[MotionObservable], names: Sequence[str]) -> dict[str, object]:
    """Return the first settings that the entries of a list give by their names; lists as tuples."""
    found: dict[str, object] = {}
    for item in items:
        for name in names:
            value = getattr(item, name)
            if value is not None:
                found.setdefault(name, tuple(value) if isinstance(value, list) else value)
    return found


def check_items(items: Sequence[MotionObservable]) -> Iterator[Finding]:
    """Yield items that name no observable, several, or one that is there already."""
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        # a list item such as {norm: true, hhg: {}} is probably two, of which a dash is missing
        names = sorted(type(item).model_fields, key=lambda name: name in MotionObservable.model_fields)
        named = [name for name in names if getattr(item, name) not in (None, False)]
        if not named:
            yield Finding(f"observe.{index}", "no observable is named here")
        if len(named) > 1:
            yield Finding(
                f"observe.{index}",
                f"one observable an item, found {', '.join(named)}; begin each with a dash",
            )
        for name in named:
            if seen.setdefault(name, index) != index:
                yield Finding(f"observe.{index}.{name}", f"duplicate of observe.{seen[name]}")


class LineResonance(Block):
    """Position and rate of a resonance, in a static field or without one: of the initial level, unless an energy is given."""

    energy: Annotated[Energy, Field(gt=-1e4, lt=1e4)] | None = Field(
        default=None, description="the resonance nearest to this energy, in place of the initial level's"
    )

    def check(
        self, key: str, pulses: Sequence[PulseBlock], *, single: bool, analytic: bool
    ) -> Iterator[Finding]:
        """Yield what stands against a resonance: a field that changes, no level to follow, a potential without complex x."""
        # the field must be constant for all times: a resonance has no other meaning
        if any(not pulse.constant or math.isfinite(pulse.length) for pulse in pulses):
            yield Finding(
                key, "a resonance needs a static field, or none: pulses of shape static, without a duration"
            )
        if self.energy is None and not single:
            yield Finding(key, "the initial state is no single level: name the resonance by its energy")
        if not analytic:
            yield Finding(
                key,
                "complex x needs a potential that is an analytic function: no table, no square well, no abs, sign, min, max",
            )


def resonance_form(value: object) -> object:
    """Read ``resonance: true`` as the resonance of the initial level, and false as none."""
    if isinstance(value, bool):
        return {} if value else None
    return value


class StarkState(Block):
    """Position and rate of a resonance in a static field: of the initial level, unless another is named here."""

    n1: Annotated[Count, Field(lt=MOST_N)] | None = Field(
        default=None,
        description="parabolic quantum number of hydrogen: nodes uphill; of one n the state of largest n1 lies highest",
    )
    n2: Annotated[Count, Field(lt=MOST_N)] | None = Field(
        default=None, description="nodes downhill, with n = n1 + n2 + |m| + 1"
    )
    m: Annotated[int, Field(gt=-MOST_N, lt=MOST_N)] | None = Field(
        default=None, description="magnetic quantum number; by default the initial level's"
    )
    energy: Annotated[Energy, Field(gt=-1e4, lt=1.0)] | None = Field(
        default=None, description="instead of n1 and n2: the resonance nearest to this energy"
    )

    @property
    def named(self) -> bool:
        """True if the state is named, so that the initial level does not matter."""
        return self.n1 is not None or self.energy is not None

    def check(self, key: str, atom: CentralBlock) -> Iterator[Finding]:
        """Yield quantum numbers that do not go together, or not with the potential of an atom."""
        # one reason at a time: later conditions assume what earlier ones found
        if (self.n1 is None) != (self.n2 is None):
            yield Finding(key, "a Stark state has two parabolic quantum numbers: give both n1 and n2")
        elif self.n1 is not None and self.n2 is not None:
            n = self.n1 + self.n2 + abs(self.m or 0) + 1
            if self.energy is not None:
                yield Finding(key, "the state is named twice: give n1 and n2, or energy")
            elif not atom.coulomb:
                yield Finding(
                    f"{key}.n1",
                    f"only hydrogen has parabolic quantum numbers, found {atom.label}: name the resonance by energy",
                )
            elif n > MOST_N:
                yield Finding(f"{key}.n1", f"n = n1 + n2 + |m| + 1 is {n}, at most {MOST_N} is possible")
        elif self.m is not None and self.energy is None:
            yield Finding(f"{key}.m", "m belongs to n1 and n2, or to energy; the initial level has its own")


def without_fundamental(pulses: Sequence[Block], observe: Sequence[MotionObservable]) -> Iterator[Finding]:
    """Yield harmonics that have no fundamental frequency."""
    # a carrier is the fundamental of all harmonics, unless a block names its own
    if any(isinstance(pulse, CarrierPulse) for pulse in pulses):
        return
    for index, item in enumerate(observe):
        for name, block in (("hhg", item.hhg), ("gabor", item.gabor)):
            if block is not None and block.omega is None:
                yield Finding(
                    f"observe.{index}.{name}",
                    "harmonics of what? No pulse has a carrier frequency; add a laser, or give omega here",
                )
