"""Pulses with an envelope of one maximum: powers of a cosine, and Gaussians."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.core.deck.units import Time
from qsim.tridiag.deck.numbers import SIZE, Times, exactly_one
from qsim.tridiag.deck.pulses.base import CarrierPulse, Cycles

__all__ = ["CosPulse", "GaussianPulse", "LobePulse", "Sin2Pulse", "fwhm_factor", "gaussian_exponent"]

# extent from which a lowered Gaussian is one within 1 %
GAUSSIAN = 1.8


def fwhm_factor(power: float) -> float:
    """Return fwhm / length of an envelope ``cos^power``; fwhm refers to the intensity, ``cos^(2 power)``."""
    # cos^(2 power)(pi fwhm / (2 length)) = 1/2
    return 2.0 / math.pi * math.acos(2.0 ** (-1.0 / (2.0 * power)))


def gaussian_exponent(extent: float) -> float:
    """Return k of the lowered Gaussian ``(g(u) - g(extent)) / (1 - g(extent))``, ``g(u) = exp(-4 k u^2)``.

    Its square is 1/2 at u = 1/2 (Eq. T17a): its full width at half maximum is 1 then; without the lowering k is ``log(2) / 2``.

    Parameters
    ----------
    extent
        Distance of the ends from the middle, at least 1.
    """
    # bisection: without lowering k is log(2) / 2, and lowering narrows the pulse, so k is smaller
    low, high = 0.0, 0.5 * math.log(2.0)
    whole = 4.0 * extent * extent
    for _halving in range(60):
        k = 0.5 * (low + high)
        # (g(1/2) - g(extent)) / (1 - g(extent)) by expm1, which keeps its digits for small k
        height = math.exp(-k) * math.expm1(-k * (whole - 1.0)) / math.expm1(-k * whole)
        low, high = (k, high) if height > math.sqrt(0.5) else (low, k)
    return 0.5 * (low + high)


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

    def fwhm_length(self, fwhm: float) -> float:
        """Return the length of a pulse with a full width at half maximum of the intensity."""
        raise NotImplementedError

    def envelope(self, s: Times) -> tuple[Times, Times]:
        """Return f and df/dt at times from the middle of the pulse."""
        raise NotImplementedError

    @property
    def length(self) -> float:
        """Duration, atomic units."""
        if self.duration is not None:
            return self.duration
        if self.cycles is not None:
            return self.cycles * self.cycle
        # check() has seen to it
        assert self.fwhm is not None
        return self.fwhm_length(self.fwhm)

    @property
    def defines(self) -> Literal["E", "A"]:
        """The function that has the envelope."""
        return self.envelope_on

    def E(self, tau: Times) -> Times:
        """Return ``-E0 f cos(theta)``, or ``-dA/dt`` (Eq. T17)."""
        import numpy as np

        # time from the middle, where the envelope has its maximum and the phase is `cep`
        s = tau - 0.5 * self.length
        f, df = self.envelope(s)
        phase, omega = self.phase(s)
        if self.envelope_on == "E":
            return -self.amplitude * f * np.cos(phase)
        # E = -d/dt (E0/omega) f sin(theta): the derivative of the envelope keeps the integral of E zero
        peak = self.amplitude / self.frequency
        return -peak * (df * np.sin(phase) + f * omega * np.cos(phase))

    def A(self, tau: Times) -> Times:
        """Return ``(E0/omega) f sin(theta)`` (Eq. T17)."""
        import numpy as np

        s = tau - 0.5 * self.length
        f, _ = self.envelope(s)
        phase, _ = self.phase(s)
        return self.amplitude / self.frequency * f * np.sin(phase)

    def panel(self, whole: float) -> float:
        """Return an eighth of the shortest cycle; the envelope alone needs 64 panels."""
        # short pulses have fewer cycles than their envelope needs panels
        return min(super().panel(whole), whole / 64.0)

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice."""
        yield from super().check(key)
        yield from exactly_one(self, key, "cycles", "duration", "fwhm")

    def forgotten(self, name: str) -> tuple[tuple[float, float, str], ...] | None:
        """Return a cycle of the carrier as the shortest usual length of a pulse."""
        if name not in ("duration", "fwhm") or self.wavelength is self.omega is None:
            return None
        return ((0.0, self.cycle, "fs"),)


class CosineLobe(LobePulse):
    """A lobe whose envelope is a power of a cosine."""

    @property
    def exponent(self) -> float:
        """Power of the cosine."""
        raise NotImplementedError

    def fwhm_length(self, fwhm: float) -> float:
        """Return the length of a pulse with a full width at half maximum of the intensity."""
        return fwhm / fwhm_factor(self.exponent)

    def envelope(self, s: Times) -> tuple[Times, Times]:
        """Return ``cos^n(k s)`` with ``k = pi / length``, and its derivative."""
        import numpy as np

        n, k = self.exponent, math.pi / self.length
        # rounding may leave it below zero at the ends
        cos = np.maximum(np.cos(k * s), 0.0)
        return cos**n, -n * k * cos ** (n - 1.0) * np.sin(k * s)


class Sin2Pulse(CosineLobe):
    """Envelope ``f = sin^2(pi t / T)``."""

    place = 1

    shape: Literal["sin2"]

    @property
    def exponent(self) -> float:
        """Power of the cosine about the middle."""
        return 2.0


class CosPulse(CosineLobe):
    """Envelope ``f = cos^power(pi (t - tc) / T)``, narrower than sin2 for powers above 2."""

    place = 2

    shape: Literal["cosn"]
    power: Annotated[float, Field(ge=1, le=1000)] = Field(default=4.0, description="power of the cosine")

    @property
    def exponent(self) -> float:
        """Power of the cosine."""
        return float(self.power)


class GaussianPulse(LobePulse):
    """Envelope ``f = (g - g_end) / (1 - g_end)`` with a Gaussian g: lowered to vanish at its ends; fwhm refers to ``f^2``.

    With an extent of 2 or more it is a Gaussian within 4e-3 of its peak.
    """

    place = 3

    shape: Literal["gaussian"]
    extent: Annotated[float, Field(ge=1, le=20)] = Field(
        default=3.0,
        description="distance from the middle to either end, in fwhm; the pulse is 2 extent fwhm long",
    )

    def fwhm_length(self, fwhm: float) -> float:
        """Return the length of a pulse with a full width at half maximum of the intensity."""
        return 2.0 * self.extent * fwhm

    def envelope(self, s: Times) -> tuple[Times, Times]:
        """Return the Gaussian, lowered to vanish at the ends and stretched to 1 in the middle (Eq. T17a), and its derivative."""
        import numpy as np

        # exponent k of exp(-4 k u^2), u = s / fwhm, such that the lowered pulse has the fwhm of the deck
        exponent = gaussian_exponent(self.extent)
        # in units of the length: fwhm = length / (2 extent)
        rate = 8.0 * exponent * (2.0 * self.extent / self.length) ** 2
        edge = math.exp(-4.0 * exponent * self.extent**2)
        g = np.exp(-0.5 * rate * s * s)
        return (g - edge) / (1.0 - edge), -rate * s * g / (1.0 - edge)

    def check(self, key: str) -> Iterator[Finding]:
        """Yield what is missing or given twice, and a pulse that is no Gaussian."""
        yield from super().check(key)
        if self.extent < GAUSSIAN:
            yield Finding(
                f"{key}.extent",
                f"found {self.extent:g}: a Gaussian that ends so near to its middle is lowered by more than 1 % of its"
                f" peak to vanish there; it has its fwhm, but another shape. From {GAUSSIAN:g} on it is a Gaussian within 1 %",
                "warning",
            )
