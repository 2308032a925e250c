"""Blocks of the tridiag deck that describe the laser; :mod:`qsim.tridiag.tdse.pulses` evaluates them."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, DeckPath, Finding
from qsim.core.deck.expression import Expression, ExpressionText
from qsim.core.deck.units import Angle, ElectricField, Frequency, Intensity, Time, Wavelength

# A number in atomic units outside of these ranges is a slip, and products of several such numbers overflow.
SIZE = Field(gt=1e-12, lt=1e12)
SIGNED = Field(gt=-1e12, lt=1e12)
NOT_NEGATIVE = Field(ge=0, lt=1e12)

SPEED_OF_LIGHT = 137.035999177  # CODATA 2022, atomic units
GAUSSIAN = 1.8  # extent from which a lowered Gaussian is one within 1 %

Cycles = Annotated[float, Field(gt=1e-3, lt=1e7)]


class PulseBlock(Block):
    """What all pulses share."""

    delay: Annotated[Time, NOT_NEGATIVE] = Field(default=0.0, description="time at which the pulse starts")
    polarity: Literal[1, -1] = Field(default=1, description="-1 reverses the sign of the field")

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what contradicts itself in the pulse under `key`."""
        yield from ()


class CarrierPulse(PulseBlock):
    """A pulse with a carrier frequency and a peak field, each given in one of two ways."""

    wavelength: Annotated[Wavelength, SIZE] | None = Field(
        default=None,
        description="vacuum wavelength, instead of omega",
        json_schema_extra={"example": "800 nm"},
    )
    omega: Annotated[Frequency, SIZE] | None = Field(
        default=None, description="carrier frequency, instead of wavelength"
    )
    intensity: Annotated[Intensity, SIZE] | None = Field(
        default=None,
        description="peak intensity, the square of E0, instead of E0",
        json_schema_extra={"example": "1e14 W/cm2"},
    )
    E0: Annotated[ElectricField, SIZE] | None = Field(
        default=None, description="peak field of the envelope, instead of intensity"
    )
    cep: Annotated[Angle, SIGNED] = Field(default=0.0, description="carrier-envelope phase")
    chirp: Annotated[float, SIGNED] = Field(
        default=0.0, description="rate of change of the frequency, d omega/dt, atomic units"
    )

    @property
    def frequency(self) -> float:
        """Carrier frequency, atomic units."""
        if self.omega is not None:
            return self.omega
        assert self.wavelength is not None  # check() has seen to it
        return 2.0 * math.pi * SPEED_OF_LIGHT / self.wavelength

    @property
    def amplitude(self) -> float:
        """Peak of the envelope of the field, atomic units, not negative."""
        if self.E0 is not None:
            return self.E0
        assert self.intensity is not None  # check() has seen to it
        return math.sqrt(self.intensity)

    @property
    def cycle(self) -> float:
        """Period of the carrier, atomic units."""
        return 2.0 * math.pi / self.frequency

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice."""
        yield from exactly_one(self, key, "wavelength", "omega")
        yield from exactly_one(self, key, "intensity", "E0")


class LobePulse(CarrierPulse):
    """A pulse with an envelope of one maximum in its middle."""

    cycles: Cycles | None = Field(
        default=None,
        description="length in optical cycles",
        json_schema_extra={"example": 6},
    )
    duration: Annotated[Time, SIZE] | None = Field(default=None, description="length, instead of cycles")
    fwhm: Annotated[Time, SIZE] | None = Field(
        default=None, description="full width at half maximum of the intensity envelope, instead of cycles"
    )
    envelope_on: Literal["A", "E"] = Field(
        default="A",
        description="A: A(t) = (E0/omega) f sin(omega (t - tc) + cep), E = -dA/dt; "
        "E: E(t) = -E0 f cos(omega (t - tc) + cep); tc is the middle of the pulse",
    )

    def forgotten(self, name: str) -> tuple[tuple[float, float, str], ...] | None:
        """Return a cycle of the carrier as the shortest usual length of a pulse."""
        if name not in ("duration", "fwhm") or self.wavelength is self.omega is None:
            return None
        return ((0.0, self.cycle, "fs"),)


class Sin2Pulse(LobePulse):
    """Envelope ``f = sin^2(pi t / T)``."""

    shape: Literal["sin2"]

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice."""
        yield from super().check(key)
        yield from exactly_one(self, key, "cycles", "duration", "fwhm")


class CosPulse(LobePulse):
    """Envelope ``f = cos^power(pi (t - tc) / T)``, narrower than sin2 for powers above 2."""

    shape: Literal["cosn"]
    power: Annotated[float, Field(ge=1, le=1000)] = Field(default=4.0, description="power of the cosine")

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice."""
        yield from super().check(key)
        yield from exactly_one(self, key, "cycles", "duration", "fwhm")


class GaussianPulse(LobePulse):
    """Envelope ``f = (g - g_end) / (1 - g_end)`` with a Gaussian g: lowered to vanish at its ends, with fwhm that of ``f^2``.

    With an extent of 2 or more it is a Gaussian within 4e-3 of its peak.
    """

    shape: Literal["gaussian"]
    extent: Annotated[float, Field(ge=1, le=20)] = Field(
        default=3.0,
        description="distance from the middle to either end, in fwhm; the pulse is 2 extent fwhm long",
    )

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice, and a pulse that is no Gaussian."""
        yield from super().check(key)
        yield from exactly_one(self, key, "cycles", "duration", "fwhm")
        if self.extent < GAUSSIAN:
            yield Finding(
                f"{key}.extent",
                f"found {self.extent:g}: a Gaussian that ends so near to its middle is lowered by more than 1 % of its"
                f" peak to vanish there; it has its fwhm, but another shape. From {GAUSSIAN:g} on it is a Gaussian within 1 %",
                "warning",
            )


class FlatTopPulse(CarrierPulse):
    """A ramp up, a plateau, and a ramp down; by default ``E = E0 f sin(omega t + cep)`` from the start of the pulse."""

    shape: Literal["flat_top", "trapezoid"]
    cycles: Cycles | None = Field(
        default=None,
        description="whole length in optical cycles (with ramp_cycles)",
    )
    ramp_cycles: Annotated[float, Field(ge=0, lt=1e7)] | None = Field(
        default=None, description="length of either ramp in optical cycles"
    )
    flat_cycles: Annotated[float, Field(ge=0, lt=1e7)] | None = Field(
        default=None, description="length of the plateau in optical cycles"
    )
    duration: Annotated[Time, SIZE] | None = Field(default=None, description="whole length (with ramp)")
    ramp: Annotated[Time, NOT_NEGATIVE] | None = Field(
        default=None, description="length of either ramp, instead of ramp_cycles"
    )
    flat: Annotated[Time, NOT_NEGATIVE] | None = Field(
        default=None, description="length of the plateau, instead of flat_cycles"
    )
    ramp_shape: Literal["linear", "sin2"] = Field(default="linear", description="form of the ramps")
    envelope_on: Literal["A", "E"] = Field(
        default="E",
        description="E: E(t) = E0 f sin(omega t + cep); A: A(t) = -(E0/omega) f cos(omega t + cep), E = -dA/dt "
        "(cos at the start is 1: choose cep so that A starts from 0, or ramp it)",
    )

    @property
    def lengths(self) -> tuple[float, float]:
        """Length of a ramp and of the plateau, atomic units."""
        ramp = self.ramp if self.ramp is not None else (self.ramp_cycles or 0.0) * self.cycle
        if self.flat is not None:
            return ramp, self.flat
        if self.flat_cycles is not None:
            return ramp, self.flat_cycles * self.cycle
        whole = self.duration if self.duration is not None else (self.cycles or 0.0) * self.cycle
        return ramp, whole - 2.0 * ramp

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing, given twice, or too short."""
        found = list(super().check(key))
        found += exactly_one(self, key, "ramp_cycles", "ramp")
        found += exactly_one(self, key, "flat_cycles", "flat", "cycles", "duration")
        yield from found
        if not found:
            ramp, flat = self.lengths
            if flat < -1e-9 * ramp:
                yield Finding(
                    key,
                    f"two ramps of {ramp:.6g} a.u. are longer than the whole pulse of {flat + 2 * ramp:.6g} a.u.",
                )
            elif 2.0 * ramp + flat <= 0.0:
                yield Finding(key, "the pulse has no length")


class CwPulse(CarrierPulse):
    """``E = E0 cos(omega t + cep)`` from the start of the pulse, switched on at once or by a ramp."""

    shape: Literal["cw"]
    duration: Annotated[Time, SIZE] | None = Field(default=None, description="length; without it, endless")
    cycles: Cycles | None = Field(default=None, description="length in optical cycles, instead of duration")
    ramp: Annotated[Time, NOT_NEGATIVE] = Field(
        default=0.0, description="length of a sin^2 ramp at the start"
    )

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice."""
        yield from super().check(key)
        if self.duration is not None and self.cycles is not None:
            yield Finding(f"{key}.cycles", "give either duration or cycles, not both")


class StaticPulse(PulseBlock):
    """A constant field, switched on at once or by a ramp."""

    shape: Literal["static", "constant"]
    E0: Annotated[ElectricField, SIGNED] = Field(description="field")
    duration: Annotated[Time, SIZE] | None = Field(default=None, description="length; without it, endless")
    ramp: Annotated[Time, NOT_NEGATIVE] = Field(
        default=0.0, description="length of a sin^2 ramp at the start"
    )


class ExpressionPulse(PulseBlock):
    """A formula of the time since the start of the pulse, in atomic units."""

    shape: Literal["expression"]
    value: Annotated[str, ExpressionText("t", "T")] = Field(description="formula of t (and T, the duration)")
    of: Literal["E", "A"] = Field(
        default="E", description="what the formula is: the field, or the vector potential (E = -dA/dt)"
    )
    duration: Annotated[Time, SIZE] | None = Field(
        default=None,
        description="length T, zero field afterwards; without it, endless and no T in the formula",
    )

    def check(self, key: str) -> Iterator[Finding]:
        """Yield a use of T without a duration."""
        if self.duration is None and "T" in Expression(self.value, ("t", "T")).names:
            yield Finding(f"{key}.duration", "missing key; the formula uses T, the duration of the pulse")


class TablePulse(PulseBlock):
    """Two columns, t and the field in atomic units, interpolated by a cubic spline; zero outside of the table."""

    shape: Literal["table", "file"]
    file: DeckPath = Field(description="CSV or white-space file, relative to the deck")
    of: Literal["E", "A"] = Field(
        default="E", description="second column: the field, or the vector potential (E = -dA/dt)"
    )


Pulse = Annotated[
    Sin2Pulse
    | CosPulse
    | GaussianPulse
    | FlatTopPulse
    | CwPulse
    | StaticPulse
    | ExpressionPulse
    | TablePulse,
    Field(discriminator="shape"),
]


class Laser(Block):
    """The field that drives the electron: the sum of all pulses."""

    gauge: Literal["length", "velocity"] = Field(
        default="length", description="length: + x E(t); velocity: p + A(t), A = -integral of E"
    )
    pulses: Annotated[list[Pulse], Field(min_length=1, max_length=1000)] = Field(
        description="pulses, added up",
        json_schema_extra={
            "example": [{"shape": "sin2", "wavelength": "800 nm", "intensity": "1e14 W/cm2", "cycles": 6}]
        },
    )

    def check(self, key: str = "laser") -> Iterator[Finding]:
        """Yield what contradicts itself in the pulses."""
        for index, pulse in enumerate(self.pulses):
            yield from pulse.check(f"{key}.pulses.{index}")


def exactly_one(block: Block, key: str, *names: str) -> Iterator[Finding]:
    """Yield a finding unless exactly one of the named keys is given."""
    given = [name for name in names if getattr(block, name) is not None]
    if not given:
        yield Finding(f"{key}.{names[0]}", f"missing key; give one of {', '.join(names)}")
    elif len(given) > 1:
        yield Finding(
            f"{key}.{given[1]}", f"give one of {', '.join(names)}, not both {given[0]} and {given[1]}"
        )
