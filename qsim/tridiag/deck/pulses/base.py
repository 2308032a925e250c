"""The base of pulses: when a pulse starts, its sign, and its field as a function of its own time."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Finding
from qsim.core.deck.units import Angle, ElectricField, Frequency, Intensity, Time, Wavelength
from qsim.tridiag.deck.numbers import NOT_NEGATIVE, SIGNED, SIZE, Times, exactly_one

__all__ = ["CarrierPulse", "Cycles", "PulseBlock"]

# CODATA 2022, atomic units
SPEED_OF_LIGHT = 137.035999177
# of the integral of E, with 12 points each
PANELS_PER_CYCLE = 8
# of a field without a carrier, over its duration
PANELS = 4000

Cycles = Annotated[float, Field(gt=1e-3, lt=1e7)]


class PulseBlock(Block):
    """A pulse in its own time, which starts with the pulse.

    A pulse defines its field E, or its vector potential A with ``E = -dA/dt``; the other one follows by integration.

    Attributes
    ----------
    place : int
        Position in lists of the documentation; new pulses come last.
    constant : bool
        Whether the field keeps its value after the last of its `kinks`.
    """

    place: ClassVar[int] = 100
    constant: ClassVar[bool] = False

    delay: Annotated[Time, NOT_NEGATIVE] = Field(default=0.0, description="time at which the pulse starts")
    polarity: Literal[1, -1] = Field(default=1, description="-1 reverses the sign of the field")

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what contradicts itself in the pulse under `key`."""
        yield from ()

    @property
    def label(self) -> str:
        """Name of the shape, as the deck gives it."""
        return str(getattr(self, "shape", type(self).__name__))

    @property
    def length(self) -> float:
        """Duration, atomic units; infinite for an endless pulse."""
        raise NotImplementedError

    @property
    def carrier(self) -> float | None:
        """Carrier frequency, atomic units; None without one."""
        return None

    @property
    def fastest(self) -> float:
        """Highest frequency of the carrier, atomic units; 0 without one."""
        return 0.0

    @property
    def peak(self) -> float:
        """Peak of the envelope of the field, atomic units, not negative; 0 where no key names it."""
        return 0.0

    @property
    def defines(self) -> Literal["E", "A"]:
        """The function that defines the pulse: the field, or the vector potential."""
        return "E"

    def E(self, tau: Times) -> Times:
        """Return the field (n,) at times after the start of the pulse, atomic units, before `polarity`.

        Raises
        ------
        InvalidInput
            With the key within the block, if a formula has no value there.
        """
        raise NotImplementedError

    def A(self, tau: Times) -> Times:
        """Return the vector potential (n,) of a pulse that it defines, up to a constant."""
        raise NotImplementedError

    def integral(self, tau: Times) -> "Times | None":
        """Return the integral of E from 0 to `tau` where it is known exactly; None: by quadrature."""
        return None

    def kinks(self) -> list[float]:
        """Return the times after the start at which the field is not smooth."""
        return []

    def places(self, whole: float) -> Sequence[float]:
        """Return times after the start up to `whole` between which the pulse is smooth, where it may be narrower than a step."""
        return []

    def panel(self, whole: float) -> float:
        """Return the interval over which 12 Gauss points integrate the field to rounding, for a pulse of length `whole`."""
        # a pulse without a carrier may have structure anywhere
        return max(whole, 1e-300) / PANELS


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

    # Part of the pulse over which the frequency moves away from `omega`: it is that of the middle of a lobe.
    chirped_part: ClassVar[float] = 0.5

    @property
    def frequency(self) -> float:
        """Carrier frequency, atomic units."""
        if self.omega is not None:
            return self.omega
        # check() has seen to it
        assert self.wavelength is not None
        # omega = 2 pi c / lambda
        return 2.0 * math.pi * SPEED_OF_LIGHT / self.wavelength

    @property
    def amplitude(self) -> float:
        """Peak of the envelope of the field, atomic units, not negative."""
        if self.E0 is not None:
            return self.E0
        # check() has seen to it
        assert self.intensity is not None
        # in atomic units the intensity is the square of the field, of linear light at its peak
        return math.sqrt(self.intensity)

    @property
    def cycle(self) -> float:
        """Period of the carrier, atomic units."""
        return 2.0 * math.pi / self.frequency

    @property
    def carrier(self) -> float:
        """Carrier frequency, atomic units."""
        return self.frequency

    @property
    def fastest(self) -> float:
        """Highest frequency, atomic units: a chirp moves it by its rate times the time since the zero of its phase."""
        return self.frequency + abs(self.chirp) * min(self.length, 1e300) * self.chirped_part

    @property
    def peak(self) -> float:
        """Peak of the envelope of the field, atomic units, not negative."""
        return self.amplitude

    def phase(self, s: Times) -> tuple[Times, Times]:
        """Return theta (Eq. T16) and its derivative at times from where the phase is `cep`."""
        return self.frequency * s + self.cep + 0.5 * self.chirp * s * s, self.frequency + self.chirp * s

    def panel(self, whole: float) -> float:
        """Return an eighth of the shortest cycle; a chirp raises the frequency until the end."""
        # 12 Gauss points in an eighth of a cycle are exact to rounding
        fastest = self.frequency + abs(self.chirp) * whole
        return 2.0 * math.pi / fastest / PANELS_PER_CYCLE

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice."""
        yield from exactly_one(self, key, "wavelength", "omega")
        yield from exactly_one(self, key, "intensity", "E0")
