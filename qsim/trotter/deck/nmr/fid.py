"""Block of ``task: fid``: how a free induction decay is sampled and transformed."""

import math
from typing import Annotated

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, PositiveCount
from qsim.trotter.deck.nmr.isotopes import Correlation, Hertz, Ppm, Seconds

__all__ = ["Apodise", "Dipolar", "Fid", "Relaxation"]

PPM = r"^\s*[0-9]+\.?[0-9]*\s*ppm\s*$"
Width = Annotated[Hertz, Field(gt=0.0)]
Broadening = Annotated[Hertz, Field(ge=0.0)]


class Apodise(Block):
    """Weights of the samples before the transform."""

    exponential: Broadening = Field(default=0.0, description="width that exp(-pi b t) adds to every line")
    gaussian: Broadening = Field(
        default=0.0, description="width of the line of a Gaussian weight, at half of its height"
    )


Times = Seconds | Annotated[list[Seconds], Field(min_length=1)]


Coordinate = Annotated[float, Field(gt=-1e4, lt=1e4)]
Position = Annotated[list[Coordinate], Field(min_length=3, max_length=3)]


class Dipolar(Block):
    """Dipolar couplings of a rigid molecule that tumbles isotropically."""

    positions: Annotated[list[Position], Field(min_length=2)] = Field(
        description="place of every nucleus, angstrom",
        json_schema_extra={"example": [[0.0, 0.0, 0.0], [0.0, 0.0, 1.78]]},
    )
    tau_c: Correlation = Field(
        description="correlation time of the tumbling, of functions of second rank",
        json_schema_extra={"example": "4 ns"},
    )


class Relaxation(Block):
    """Decay of the magnetisation: one T2 of all coherences, fields that fluctuate at every nucleus, or dipolar couplings."""

    T2: Times | None = Field(
        default=None,
        description="time of the decay exp(-t / T2) of all coherences alike; a list, or a number beside T1: of every nucleus, by "
        "fields that fluctuate at each of them",
        json_schema_extra={"example": "0.8 s"},
    )
    linewidth: Width | None = Field(default=None, description="1 / (pi T2), instead of T2")
    T1: Times | None = Field(
        default=None,
        description="time in which the magnetisation of every nucleus along the field comes back: a number or a list",
        json_schema_extra={"example": "1.5 s"},
    )

    dipolar: Dipolar | None = Field(
        default=None,
        description="relaxation by dipolar couplings between the nuclei, beside that by T1 and T2",
    )

    @property
    def own(self) -> bool:
        """True if coherences relax each in its way: by fields at every nucleus, or by dipolar couplings."""
        return self.T1 is not None or isinstance(self.T2, list) or self.dipolar is not None

    @property
    def rate(self) -> float:
        """Rate of the decay of all coherences, 1/s."""
        if self.T2 is not None and not isinstance(self.T2, list):
            return 1.0 / self.T2
        return 0.0 if self.linewidth is None else math.pi * self.linewidth

    def rates(self, spins: int) -> list[tuple[float, float]]:
        """Return rates of loss, which are those of pump, and of dephasing of every nucleus, 1/s; these may be negative."""
        along = self.T1 if isinstance(self.T1, list) else [self.T1] * spins
        flips = [0.0 if T1 is None else 0.5 / T1 for T1 in along]
        # without T2 no field fluctuates along z
        alike = [self.rate] * spins if self.rate else flips
        across = [1.0 / T2 for T2 in self.T2] if isinstance(self.T2, list) else alike
        return [(k, r - k) for k, r in zip(flips, across, strict=True)]


class Fid(Block):
    """A free induction decay after a pulse of 90 degrees, its lines and its spectrum."""

    detect: Annotated[str, Field(max_length=8)] | None = Field(
        default=None, description="isotope that is observed; by default that of the first site"
    )
    carrier: Ppm | None = Field(
        default=None,
        description="shift in the middle of the spectrum, ppm; by default the middle of all lines",
    )
    width: Width | Annotated[str, Field(pattern=PPM)] | None = Field(
        default=None,
        description="width of the spectrum, Hz or a text such as 12 ppm; by default 1.5 times what the lines span",
    )
    points: Annotated[PositiveCount, Field(ge=8, le=1 << 22)] = Field(
        default=16384, description="samples of the decay"
    )
    zero_fill: Annotated[PositiveCount, Field(le=16)] = Field(
        default=2, description="points of the spectrum over samples of the decay"
    )
    decouple: Annotated[list[Annotated[str, Field(max_length=8)] | Count], Field(min_length=1)] | None = (
        Field(
            default=None,
            description="isotopes, or numbers of single nuclei, that are decoupled: they split no line, and are not seen",
            json_schema_extra={"example": [2]},
        )
    )
    phase: Annotated[float, Field(ge=-360.0, le=360.0)] = Field(
        default=0.0, description="phase of the receiver, degrees: 90 turns absorption into dispersion"
    )
    apodise: Apodise = Field(default=Apodise(), description="weights of the samples")
    least: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=1e-6,
        description="lines are listed from this share of the strongest one on; the decay has all of them",
    )

    def span(self, larmor: float) -> float | None:
        """Return the width in Hz, with the frequency of the reference in MHz; None where the lines decide."""
        if isinstance(self.width, str):
            return float(self.width.replace("ppm", "")) * larmor
        return self.width
