"""Block `scan` of `task: atom`: many runs that differ in one pulse."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Finding
from qsim.core.deck.units import Angle, Intensity, Time
from qsim.tridiag.deck.numbers import NOT_NEGATIVE, SIGNED, SIZE
from qsim.tridiag.deck.pulses import CarrierPulse, Pulse

__all__ = ["FocalAverage", "Scan"]

# runs
MOST = 1000


class FocalAverage(Block):
    """Average of yields over the intensities in the focus of a Gaussian beam."""

    dimensions: Literal[2, 3] = Field(
        default=3, description="3: the target is longer than the focus; 2: it is thin, and lies in the focus"
    )


class Scan(Block):
    """Runs that differ in one pulse: all combinations of what is listed."""

    pulse: Count = Field(
        default=0, description="number of the pulse that changes, from 0 in the order of the deck"
    )
    intensity: Annotated[list[Annotated[Intensity, SIZE]], Field(min_length=1, max_length=MOST)] | None = (
        Field(
            default=None,
            description="peak intensities",
            json_schema_extra={"example": ["5e13 W/cm2", "1e14 W/cm2"]},
        )
    )
    cep: Annotated[list[Annotated[Angle, SIGNED]], Field(min_length=1, max_length=MOST)] | None = Field(
        default=None, description="carrier-envelope phases"
    )
    delay: Annotated[list[Annotated[Time, NOT_NEGATIVE]], Field(min_length=1, max_length=MOST)] | None = (
        Field(default=None, description="times at which the pulse starts")
    )
    focal_average: FocalAverage | None = Field(
        default=None, description="averages over a focus, for every intensity of the list as its peak"
    )

    def check(self, key: str, pulses: list[Pulse]) -> Iterator[Finding]:
        """Yield what contradicts itself, or the pulses of the laser."""
        lists = [one for one in (self.intensity, self.cep, self.delay) if one is not None]
        if not lists:
            yield Finding(key, "nothing is scanned; give intensity, cep or delay")
        count = 1
        for one in lists:
            # all combinations are run
            count *= len(one)
        if count > MOST:
            yield Finding(key, f"the scan has {count} runs, at most {MOST} are possible")
        if self.pulse >= len(pulses):
            yield Finding(
                f"{key}.pulse",
                f"found {self.pulse}, but the laser has {len(pulses)} pulses: 0 to {len(pulses) - 1}",
            )
        # only a carrier has an intensity and a phase; every pulse has a delay
        elif not isinstance(pulses[self.pulse], CarrierPulse):
            for name in ("intensity", "cep"):
                if getattr(self, name) is not None:
                    yield Finding(
                        f"{key}.{name}",
                        f"pulse {self.pulse} ({pulses[self.pulse].label}) has no carrier; scan its delay",
                    )
        yield from self._check_focus(key)

    def _check_focus(self, key: str) -> Iterator[Finding]:
        """Yield what an average over the focus lacks."""
        if self.focal_average is None:
            return
        if (
            # three intensities are the fewest from which the change of a power law can be seen
            self.intensity is None
            or len(self.intensity) < 3
            or self.cep is not None
            or self.delay is not None
        ):
            yield Finding(
                f"{key}.focal_average",
                "an average over the focus needs a scan of the intensity alone, of at least 3 values",
            )
        elif any(b <= a for a, b in itertools.pairwise(self.intensity)):
            yield Finding(f"{key}.intensity", "intensities of a focal average must rise")
