"""Pulses with ramps: flat tops, endless waves, constant fields."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.core.deck.units import ElectricField, Time
from qsim.tridiag.deck.numbers import NOT_NEGATIVE, SIGNED, SIZE, Times, exactly_one
from qsim.tridiag.deck.pulses.base import CarrierPulse, Cycles, PulseBlock

__all__ = ["CwPulse", "FlatTopPulse", "StaticPulse"]


def ramped(y: Times, dy: Times, form: str) -> tuple[Times, Times]:
    """Return a ramp of the given form and its derivative, from the linear ramp and its derivative."""
    import numpy as np

    # sin^2 of the linear ramp: no kink at its ends
    if form == "linear":
        return y, dy
    return np.sin(0.5 * np.pi * y) ** 2, 0.5 * np.pi * np.sin(np.pi * y) * dy


def switched_on(tau: Times, ramp: float) -> Times:
    """Return an envelope that rises by a squared sine over `ramp` and stays 1."""
    import numpy as np

    if ramp == 0.0:
        return np.ones_like(tau)
    # 1 after the ramp
    rising = np.minimum(tau / ramp, 1.0)
    return np.asarray(np.sin(0.5 * np.pi * rising) ** 2)


class FlatTopPulse(CarrierPulse):
    """A ramp up, a plateau, and a ramp down; by default ``E = E0 f sin(omega t + cep)`` from the start of the pulse."""

    place = 4
    # the phase counts from the start of the ramp
    chirped_part = 1.0

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
        # the plateau by itself, or the whole length less two ramps
        ramp = self.ramp if self.ramp is not None else (self.ramp_cycles or 0.0) * self.cycle
        if self.flat is not None:
            return ramp, self.flat
        if self.flat_cycles is not None:
            return ramp, self.flat_cycles * self.cycle
        whole = self.duration if self.duration is not None else (self.cycles or 0.0) * self.cycle
        return ramp, whole - 2.0 * ramp

    @property
    def length(self) -> float:
        """Duration, atomic units."""
        ramp, flat = self.lengths
        return 2.0 * ramp + max(flat, 0.0)

    @property
    def defines(self) -> Literal["E", "A"]:
        """The function that has the envelope."""
        return self.envelope_on

    def E(self, tau: Times) -> Times:
        """Return ``E0 f sin(theta)``, or ``-dA/dt`` (Eq. T18)."""
        import numpy as np

        f, df = self.envelope(tau)
        # the phase counts from the start of the pulse
        phase, omega = self.phase(tau)
        if self.envelope_on == "E":
            return self.amplitude * f * np.sin(phase)
        peak = self.amplitude / self.frequency
        return peak * (df * np.cos(phase) - f * omega * np.sin(phase))

    def A(self, tau: Times) -> Times:
        """Return ``-(E0/omega) f cos(theta)`` (Eq. T18)."""
        import numpy as np

        f, _ = self.envelope(tau)
        phase, _ = self.phase(tau)
        peak = self.amplitude / self.frequency
        return -peak * f * np.cos(phase)

    def envelope(self, tau: Times) -> tuple[Times, Times]:
        """Return f and df/dt at times from the start of the pulse."""
        import numpy as np

        length, (ramp, _) = self.length, self.lengths
        if ramp == 0.0:
            return np.ones_like(tau), np.zeros_like(tau)
        rising, falling = tau < ramp, tau > length - ramp
        # linear ramp from 0 to 1, and its slope; the form of the ramp is applied to both
        y = np.where(rising, tau / ramp, np.where(falling, (length - tau) / ramp, 1.0))
        sign = np.where(rising, 1.0, np.where(falling, -1.0, 0.0)) / ramp
        return ramped(y, sign, self.ramp_shape)

    def kinks(self) -> list[float]:
        """Return the ends of the ramps."""
        ramp, _ = self.lengths
        return [ramp, self.length - ramp]

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing, given twice, or too short."""
        findings = list(super().check(key))
        findings += exactly_one(self, key, "ramp_cycles", "ramp")
        findings += exactly_one(self, key, "flat_cycles", "flat", "cycles", "duration")
        yield from findings
        if not findings:
            ramp, flat = self.lengths
            # less than nothing, beyond the rounding of a difference
            if flat < -1e-9 * ramp:
                yield Finding(
                    key,
                    f"two ramps of {ramp:.6g} a.u. are longer than the whole pulse of {flat + 2 * ramp:.6g} a.u.",
                )
            elif 2.0 * ramp + flat <= 0.0:
                yield Finding(key, "the pulse has no length")


class CwPulse(CarrierPulse):
    """``E = E0 cos(omega t + cep)`` from the start of the pulse, switched on at once or by a ramp."""

    place = 5
    # the phase counts from the start
    chirped_part = 1.0

    shape: Literal["cw"]
    duration: Annotated[Time, SIZE] | None = Field(default=None, description="length; without it, endless")
    cycles: Cycles | None = Field(default=None, description="length in optical cycles, instead of duration")
    ramp: Annotated[Time, NOT_NEGATIVE] = Field(
        default=0.0, description="length of a sin^2 ramp at the start"
    )

    @property
    def length(self) -> float:
        """Duration, atomic units; infinite for an endless pulse."""
        if self.cycles is not None:
            return self.cycles * self.cycle
        return math.inf if self.duration is None else self.duration

    def E(self, tau: Times) -> Times:
        """Return ``E0 f cos(theta)`` (Eq. T19)."""
        import numpy as np

        phase, _ = self.phase(tau)
        return self.amplitude * switched_on(tau, self.ramp) * np.cos(phase)

    def kinks(self) -> list[float]:
        """Return the end of the ramp."""
        return [self.ramp]

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice."""
        yield from super().check(key)
        if self.duration is not None and self.cycles is not None:
            yield Finding(f"{key}.cycles", "give either duration or cycles, not both")


class StaticPulse(PulseBlock):
    """A constant field, switched on at once or by a ramp."""

    place = 6
    constant = True

    shape: Literal["static", "constant"]
    E0: Annotated[ElectricField, SIGNED] = Field(description="field")
    duration: Annotated[Time, SIZE] | None = Field(default=None, description="length; without it, endless")
    ramp: Annotated[Time, NOT_NEGATIVE] = Field(
        default=0.0, description="length of a sin^2 ramp at the start"
    )

    @property
    def length(self) -> float:
        """Duration, atomic units; infinite for an endless pulse."""
        return math.inf if self.duration is None else self.duration

    @property
    def peak(self) -> float:
        """Size of the field, atomic units."""
        return abs(self.E0)

    def E(self, tau: Times) -> Times:
        """Return the field, which rises over the ramp."""
        return self.E0 * switched_on(tau, self.ramp)

    def kinks(self) -> list[float]:
        """Return the end of the ramp."""
        return [self.ramp]
