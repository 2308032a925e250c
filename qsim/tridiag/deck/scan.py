"""Block `scan`: many runs that differ in the numbers of one pulse, or of the potential."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from qsim.core.deck.blocks import Block, Count, Finding
from qsim.core.deck.fields import field_named
from qsim.core.deck.units import Angle, ElectricField, Frequency, Intensity, Time, Wavelength
from qsim.tridiag.deck.electron import TimeGrid
from qsim.tridiag.deck.numbers import NOT_NEGATIVE, SIGNED, SIZE
from qsim.tridiag.deck.pulses import CarrierPulse, Pulse
from qsim.tridiag.deck.pulses.base import Cycles, PulseBlock

__all__ = ["AtomScan", "FocalAverage", "LineScan", "PlaneScan", "Scan", "Scanned", "changed", "runs_of"]

# runs
MOST = 1000
# keys of a pulse of which it has one
INSTEAD = (
    {"intensity", "E0"},
    {"wavelength", "omega"},
    {"cycles", "duration", "fwhm", "flat_cycles", "flat"},
)

T = TypeVar("T")
D = TypeVar("D", bound="Scannable")
P = TypeVar("P", bound=PulseBlock)
Listed = Annotated[list[T], Field(min_length=1, max_length=MOST)]
Numbers = dict[str, Listed[float | str]]


class FocalAverage(Block):
    """Average of yields over the intensities in the focus of a Gaussian beam."""

    dimensions: Literal[2, 3] = Field(
        default=3, description="3: the target is longer than the focus; 2: it is thin, and lies in the focus"
    )


class Scanned(NamedTuple):
    """A number that changes from run to run.

    Attributes
    ----------
    key : str
        Below `scan`.
    field : str
        Of the block that it changes.
    values : list of float
        Atomic units.
    """

    key: str
    field: str
    values: list[float]


class Scan(Block):
    """Runs that differ in one pulse or in the potential: all combinations of what is listed."""

    #: Block of the deck with the potential, whose numbers have a key of that name here.
    BLOCK: ClassVar[str]

    pulse: Count = Field(
        default=0, description="number of the pulse that changes, from 0 in the order of the deck"
    )
    intensity: Listed[Annotated[Intensity, SIZE]] | None = Field(
        default=None,
        description="peak intensities",
        json_schema_extra={"example": ["5e13 W/cm2", "1e14 W/cm2"]},
    )
    cep: Listed[Annotated[Angle, SIGNED]] | None = Field(default=None, description="carrier-envelope phases")
    delay: Listed[Annotated[Time, NOT_NEGATIVE]] | None = Field(
        default=None, description="times at which the pulse starts"
    )
    E0: Listed[Annotated[ElectricField, SIZE]] | None = Field(default=None, description="peak fields")
    wavelength: Listed[Annotated[Wavelength, SIZE]] | None = Field(
        default=None, description="vacuum wavelengths"
    )
    omega: Listed[Annotated[Frequency, SIZE]] | None = Field(default=None, description="carrier frequencies")
    chirp: Listed[Annotated[float, SIGNED]] | None = Field(
        default=None, description="rates of change of the frequency, atomic units"
    )
    cycles: Listed[Cycles] | None = Field(default=None, description="lengths in optical cycles")
    duration: Listed[Annotated[Time, SIZE]] | None = Field(default=None, description="lengths of the pulse")
    fwhm: Listed[Annotated[Time, SIZE]] | None = Field(
        default=None, description="full widths at half maximum of the intensity envelope"
    )
    focal_average: FocalAverage | None = Field(
        default=None, description="averages over a focus, for every intensity of the list as its peak"
    )

    @property
    def of_pulse(self) -> list[Scanned]:
        """Numbers of the pulse that change."""
        others = {"pulse", "focal_average", self.BLOCK}
        given = {name: getattr(self, name) for name in type(self).model_fields if name not in others}
        return [Scanned(name, name, list(values)) for name, values in given.items() if values is not None]

    @property
    def numbers(self) -> Numbers:
        """Numbers of the potential that change, as the deck has them."""
        return getattr(self, self.BLOCK) or {}

    def of_potential(self, block: Block) -> Iterator[Scanned | Finding]:
        """Yield the numbers of the potential that change, and what is wrong with them; keys below `scan`."""
        fields = type(block).model_fields.items()
        known = {name: info for name, info in fields if isinstance(getattr(block, name), int | float)}
        for name, values in self.numbers.items():
            key, info = f"{self.BLOCK}.{name}", field_named(type(block), name)
            field = next((one for one, other in known.items() if other is info), None)
            if info is None or field is None:
                names = ", ".join(other.alias or one for one, other in known.items())
                what = f"its numbers are {names}" if known else "it has none"
                yield Finding(key, f"{name} is no number of the {self.BLOCK}; {what}")
                continue
            whole: Any = Annotated[info.annotation, *info.metadata]
            adapter = TypeAdapter[float](whole)
            found = []
            for index, value in enumerate(values):
                try:
                    found.append(float(adapter.validate_python(value, strict=True)))
                except ValidationError as error:
                    yield Finding(f"{key}.{index}", f"{error.errors()[0]['msg']}, found {value!r}")
            if len(found) == len(values):
                yield Scanned(key, field, found)

    def check(self, key: str, pulses: list[Pulse], block: Block, time: TimeGrid | None) -> Iterator[Finding]:
        """Yield what contradicts itself, the pulses of the laser, the potential in `block`, or the steps."""
        if time is not None and time.accuracy is not None:
            yield Finding(
                "time.accuracy",
                "the runs of a scan take the same steps: state time.dt, found by one run with accuracy",
            )
        sizes = [len(one.values) for one in self.of_pulse] + [len(one) for one in self.numbers.values()]
        if not sizes:
            yield Finding(
                key, f"nothing is scanned; give intensity, cep or delay, or numbers of the {self.BLOCK}"
            )
        # all combinations are run
        if math.prod(sizes) > MOST:
            yield Finding(key, f"the scan has {math.prod(sizes)} runs, at most {MOST} are possible")
        for one in self.of_potential(block):
            if isinstance(one, Finding):
                yield Finding(f"{key}.{one.key}", one.message)
        if self.of_pulse and not pulses:
            yield Finding(key, "a scan changes a pulse, but there is no laser")
        elif self.of_pulse and self.pulse >= len(pulses):
            yield Finding(
                f"{key}.pulse",
                f"found {self.pulse}, but the laser has {len(pulses)} pulses: 0 to {len(pulses) - 1}",
            )
        elif self.of_pulse:
            yield from self._check_pulse(key, pulses[self.pulse])
        yield from self._check_focus(key)

    def _check_pulse(self, key: str, pulse: Pulse) -> Iterator[Finding]:
        """Yield numbers that the pulse does not have, or that it cannot take."""
        for name, field, values in self.of_pulse:
            if field not in type(pulse).model_fields:
                why = (
                    "has no carrier; scan its delay"
                    if field in CarrierPulse.model_fields
                    else f"has no {name}"
                )
                yield Finding(f"{key}.{name}", f"pulse {self.pulse} ({pulse.label}) {why}")
                continue
            for value in values:
                for one in changed(pulse, {field: value}).check(""):
                    if one.severity == "error":
                        yield Finding(f"{key}.{name}", f"with {name} = {value:g} a.u.: {one.message}")
        instead = [len([one for one in self.of_pulse if one.field in names]) for names in INSTEAD]
        if max(instead) > 1:
            yield Finding(key, f"give one of {', '.join(sorted(INSTEAD[instead.index(max(instead))]))}")

    def _check_focus(self, key: str) -> Iterator[Finding]:
        """Yield what an average over the focus lacks."""
        if self.focal_average is None:
            return
        # three intensities are the fewest from which the change of a power law can be seen
        alone = len(self.of_pulse) == 1 and not self.numbers
        if self.intensity is None or len(self.intensity) < 3 or not alone:
            yield Finding(
                f"{key}.focal_average",
                "an average over the focus needs a scan of the intensity alone, of at least 3 values",
            )
        elif any(b <= a for a, b in itertools.pairwise(self.intensity)):
            yield Finding(f"{key}.intensity", "intensities of a focal average must rise")


class Scannable(Protocol):
    """A deck whose numbers can be scanned."""

    @property
    def scan(self) -> Scan | None:
        """What is scanned."""

    @property
    def laser(self) -> Any:
        """The laser, or None."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values."""


class LineScan(Scan):
    """Runs that differ in one pulse or in the potential: all combinations of what is listed."""

    BLOCK = "potential"

    potential: Numbers | None = Field(
        default=None,
        description="numbers of the potential by their keys",
        json_schema_extra={"example": {"Z": [1.0, 1.1]}},
    )


class AtomScan(Scan):
    """Runs that differ in one pulse or in the atom: all combinations of what is listed."""

    BLOCK = "atom"

    atom: Numbers | None = Field(
        default=None,
        description="numbers of the atom by their keys",
        json_schema_extra={"example": {"Z": [1.0, 1.1]}},
    )


class PlaneScan(Scan):
    """Runs that differ in one pulse or in the system: all combinations of what is listed."""

    BLOCK = "system"

    system: Numbers | None = Field(
        default=None,
        description="numbers of the system by their keys",
    )

    def _check_focus(self, key: str) -> Iterator[Finding]:
        """Yield that yields of two coordinates have no average."""
        if self.focal_average is not None:
            yield Finding(
                f"{key}.focal_average", "two coordinates have several yields, and no average over a focus"
            )


def changed(pulse: P, numbers: Mapping[str, float]) -> P:
    """Return a pulse with other numbers, in place of those that it then must not have."""
    update: dict[str, float | None] = dict(numbers)
    for names in INSTEAD:
        for name in names & numbers.keys():
            update |= dict.fromkeys((names - {name}) & type(pulse).model_fields.keys())
    return pulse.model_copy(update=update | dict(numbers))


def runs_of(deck: D) -> tuple[list[D], dict[str, list[float]]]:
    """Return a deck for each run of the scan of a deck, and what changes: a number of each run by its key, atomic units.

    All combinations of what is scanned, the first key slowest; the deck itself if it has no scan.
    """
    scan: Scan | None = deck.scan
    if scan is None:
        return [deck], {}
    of_pulse, block = scan.of_pulse, getattr(deck, scan.BLOCK)
    of_block = [one for one in scan.of_potential(block) if isinstance(one, Scanned)]
    given, decks = [*of_pulse, *of_block], []
    # runs of one potential share its block, by which a build knows that they share levels
    blocks: dict[tuple[float, ...], Block] = {}
    combinations = list(itertools.product(*(one.values for one in given)))
    for combination in combinations:
        update: dict[str, object] = {"scan": None}
        if of_pulse:
            numbers = dict(zip((one.field for one in of_pulse), combination, strict=False))
            if "intensity" in numbers:
                # in atomic units the intensity is E0^2
                numbers["E0"] = math.sqrt(numbers.pop("intensity"))
            pulses = list(deck.laser.pulses)
            pulses[scan.pulse] = changed(pulses[scan.pulse], numbers)
            update["laser"] = deck.laser.model_copy(update={"pulses": pulses})
        if of_block:
            own = combination[len(of_pulse) :]
            other = dict(zip((one.field for one in of_block), own, strict=True))
            update[scan.BLOCK] = blocks.setdefault(own, block.model_copy(update=other))
        decks.append(deck.model_copy(update=update))
    columns = zip(*combinations, strict=True)
    return decks, {one.key: list(column) for one, column in zip(given, columns, strict=True)}
