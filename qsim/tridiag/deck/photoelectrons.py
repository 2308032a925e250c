"""Blocks of decks that describe photoelectron spectra, of a line and of an atom."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Finding, PositiveCount
from qsim.core.deck.units import CollisionEnergy, Energy, Length
from qsim.tridiag.deck.electron import Absorber
from qsim.tridiag.deck.numbers import SIZE

__all__ = [
    "LineSpectrum",
    "LineTsurff",
    "LineWindow",
    "ScatteringSpectrum",
    "Spectrum",
    "TsurffSpectrum",
    "WindowSpectrum",
    "check_spectra",
]

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


class LineWindow(Block):
    """Window operator ``gamma^(2^order) / ((H - E)^(2^order) + gamma^(2^order))``: bound states and continuum."""

    method: Literal["window"]
    energy: Energies = Field(default=[-0.6, 1.0], description="first and last energy")
    points: Annotated[Count, Field(ge=2, le=20_000)] = Field(default=400, description="number of energies")
    gamma: Annotated[Energy, SIZE] | None = Field(
        default=None,
        description="half width of the window; by default the distance of the energies; below the distance of the levels of the "
        "box these show",
    )
    order: Annotated[PositiveCount, Field(le=4)] = Field(
        default=2, description="exponent of the window, 1 to 4"
    )


class WindowSpectrum(LineWindow):
    """Window operator ``gamma^(2^order) / ((H - E)^(2^order) + gamma^(2^order))``: bound states and continuum."""

    gamma: Annotated[Energy, SIZE] | None = Field(
        default=None,
        description="half width of the window; by default the distance of the energies: levels of the box are not seen",
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


class LineTsurff(Block):
    """Flux through x = +-radius, projected on free electrons in the field (t-SURFF): the box need not hold the electron."""

    method: Literal["tsurff"]
    radius: Annotated[Length, Field(gt=1.0, lt=1e6)] = Field(
        description="distance of the surface: beyond the quiver, before the absorber",
        json_schema_extra={"example": 60},
    )
    energy: Energies = Field(default=[0.01, 1.0], description="first and last energy, above 0")
    points: Annotated[Count, Field(ge=4, le=20_000)] = Field(default=200, description="number of energies")
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


class TsurffSpectrum(LineTsurff):
    """Flux through a sphere, projected on free electrons in the field (t-SURFF): the box need not hold the electron."""

    angles: Angles = 91
    polar: Polar = None


def check_projection(key: str, absorber: Absorber) -> Iterator[Finding]:
    """Yield a warning where electrons are absorbed that a spectrum of the final state should hold."""
    if absorber.type != "none":
        yield Finding(
            f"{key}.method",
            f"electrons that the absorber ({absorber.type}) takes are missing in a spectrum of the final state; raise grid.rmax "
            "and leave the absorber out, or take method: tsurff",
            "warning",
        )


AnySpectrum = LineWindow | LineTsurff | ScatteringSpectrum


def check_energies(key: str, one: AnySpectrum) -> Iterator[Finding]:
    """Yield energies that a method does not take."""
    low, high = one.energy
    if low >= high:
        yield Finding(f"{key}.energy", f"the first energy {low:g} must lie below the last, {high:g} hartree")
    # near the threshold the Coulomb phase ln(2 k r) / k and the wave length diverge
    if one.method != "window" and low < 1e-4:
        what = "scattering states have" if one.method == "scattering" else "tsurff finds"
        yield Finding(f"{key}.energy", f"{what} energies above 1e-4 hartree, found {low:g}")


def check_spectra(spectra: Sequence[AnySpectrum], absorber: Absorber) -> Iterator[Finding]:
    """Yield spectra that are given twice, or do not go with the absorber or their energies."""
    methods = [one.method for one in spectra]
    for index, one in enumerate(spectra):
        key = f"spectra.{index}"
        if one.method in methods[:index]:
            yield Finding(f"{key}.method", f"duplicate of spectra.{methods.index(one.method)}")
        yield from (
            one.check(key, absorber) if isinstance(one, LineTsurff) else check_projection(key, absorber)
        )
        yield from check_energies(key, one)


LineSpectrum = Annotated[LineWindow | LineTsurff, Field(discriminator="method")]
Spectrum = Annotated[WindowSpectrum | ScatteringSpectrum | TsurffSpectrum, Field(discriminator="method")]
