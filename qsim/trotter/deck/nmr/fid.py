"""Block of ``task: fid``: how a free induction decay is sampled and transformed."""

import math
from typing import Annotated

from pydantic import Field

from qsim.core.deck.blocks import Block, PositiveCount
from qsim.trotter.deck.nmr.isotopes import Hertz, Ppm, Seconds

__all__ = ["Apodise", "Fid", "Relaxation"]

PPM = r"^\s*[0-9]+\.?[0-9]*\s*ppm\s*$"
Width = Annotated[Hertz, Field(gt=0.0)]
Broadening = Annotated[Hertz, Field(ge=0.0)]


class Apodise(Block):
    """Weights of the samples before the transform."""

    exponential: Broadening = Field(default=0.0, description="width that exp(-pi b t) adds to every line")
    gaussian: Broadening = Field(
        default=0.0, description="width of the line of a Gaussian weight, at half of its height"
    )


class Relaxation(Block):
    """Decay of the transverse magnetisation of all nuclei."""

    T2: Seconds | None = Field(
        default=None, description="time of the decay exp(-t / T2)", json_schema_extra={"example": "0.8 s"}
    )
    linewidth: Width | None = Field(default=None, description="1 / (pi T2), instead of T2")

    @property
    def rate(self) -> float:
        """1 / T2, 1/s."""
        if self.T2 is not None:
            return 1.0 / self.T2
        return 0.0 if self.linewidth is None else math.pi * self.linewidth


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
