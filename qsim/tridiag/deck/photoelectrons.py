"""Blocks of the deck of ``task: atom`` that describe photoelectron spectra."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Finding, PositiveCount
from qsim.core.deck.units import CollisionEnergy, Energy, Length
from qsim.tridiag.deck.electron import Absorber
from qsim.tridiag.deck.numbers import SIZE

__all__ = ["ScatteringSpectrum", "Spectrum", "TsurffSpectrum", "WindowSpectrum"]

Energies = Annotated[list[CollisionEnergy], Field(min_length=2, max_length=2)]

Angles = Annotated[
    Count,
    Field(
        ge=2,
        le=2000,
        description="number of polar angles, 0 to 180 degrees; in a field that turns, of azimuths in its plane",
    ),
]
Polar = Annotated[
    Annotated[Count, Field(ge=3, le=721)] | None,
    Field(
        description="in a field that turns: number of polar angles, 0 to 180 degrees, of a spectrum that is resolved out of its "
        "plane, too; by default none"
    ),
]


class WindowSpectrum(Block):
    """Window operator ``gamma^(2^order) / ((H - E)^(2^order) + gamma^(2^order))``: bound states and continuum."""

    method: Literal["window"]
    energy: Energies = Field(default=[-0.6, 1.0], description="first and last energy")
    points: Annotated[Count, Field(ge=2, le=20_000)] = Field(default=400, description="number of energies")
    gamma: Annotated[Energy, SIZE] | None = Field(
        default=None,
        description="half width of the window; by default the distance of the energies: levels of the box are not seen",
    )
    order: Annotated[PositiveCount, Field(le=4)] = Field(
        default=2, description="exponent of the window, 1 to 4"
    )
    angles: Annotated[Count, Field(ge=2, le=2000)] | None = Field(
        default=None,
        description="number of polar angles (in a field that turns, of azimuths in its plane) of an angle-resolved spectrum; by "
        "default none",
    )
    polar: Polar = None


class ScatteringSpectrum(Block):
    """Projection on scattering states of the atom: exact for an electron that is still in the box."""

    method: Literal["scattering"]
    energy: Energies = Field(default=[0.01, 1.0], description="first and last energy, above 0")
    points: Annotated[Count, Field(ge=2, le=20_000)] = Field(default=300, description="number of energies")
    angles: Angles = 91
    polar: Polar = None


class TsurffSpectrum(Block):
    """Flux through a sphere, projected on free electrons in the field (t-SURFF): the box need not hold the electron."""

    method: Literal["tsurff"]
    radius: Annotated[Length, Field(gt=1.0, lt=1e6)] = Field(
        description="radius of the sphere: beyond the quiver, before the absorber",
        json_schema_extra={"example": 60},
    )
    energy: Energies = Field(default=[0.01, 1.0], description="first and last energy, above 0")
    points: Annotated[Count, Field(ge=4, le=20_000)] = Field(default=200, description="number of energies")
    angles: Angles = 91
    polar: Polar = None
    tail: Literal["isurfv", "none"] = Field(
        default="isurfv",
        description="what passes after the end of the run: isurfv, exactly, by resolvents; none: nothing",
    )

    def check(self, key: str, absorber: Absorber) -> Iterator[Finding]:
        """Yield what does not go with the absorber."""
        # without an absorber in H the resolvent at a real energy has the poles of the box
        if self.tail == "isurfv" and absorber.type not in ("cap", "manolopoulos"):
            yield Finding(
                f"{key}.tail",
                f"isurfv sums all times after the end of the run, which needs a complex absorber, found {absorber.type}; take "
                "absorber: {type: manolopoulos, kmin: 0.2}, or tail: none and a longer time.t_final",
            )


def check_projection(key: str, absorber: Absorber) -> Iterator[Finding]:
    """Yield a warning where electrons are absorbed that a spectrum of the final state should hold."""
    if absorber.type != "none":
        yield Finding(
            f"{key}.method",
            f"electrons that the absorber ({absorber.type}) takes are missing in a spectrum of the final state; raise grid.rmax "
            "and leave the absorber out, or take method: tsurff",
            "warning",
        )


Spectrum = Annotated[WindowSpectrum | ScatteringSpectrum | TsurffSpectrum, Field(discriminator="method")]
