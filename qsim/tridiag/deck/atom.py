"""The deck of ``task: atom``: one electron in a central potential and a laser field, in three dimensions."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Deck, Finding, PositiveCount
from qsim.core.deck.fields import Annotation, tags
from qsim.core.deck.units import Length
from qsim.tridiag.deck.central import Central
from qsim.tridiag.deck.electron import Absorber, NoAbsorber, TimeGrid
from qsim.tridiag.deck.initial import AnyInitial, FormulaState, Level, StoredState
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.numbers import SIZE
from qsim.tridiag.deck.observe import (
    Gabor,
    Hhg,
    MotionObservable,
    StarkState,
    check_items,
    entries,
    resonance_form,
    word_form,
)
from qsim.tridiag.deck.photoelectrons import Spectrum, check_spectra
from qsim.tridiag.deck.pulses import CarrierPulse, Pulse
from qsim.tridiag.deck.scan import AtomScan

__all__ = ["AtomDeck", "AtomGrid", "AtomObserved", "Level", "Spectrum", "StoredState"]

# ------------------------------------------------------------------------------------------------ grid


class RadialMap(Block):
    """``r = dr x - (dr - dr0) width tanh(x / width)``, x = 1, 2, ...: dense at the nucleus, equidistant far away."""

    dr0: Annotated[Length, SIZE] = Field(
        description="spacing at the nucleus", json_schema_extra={"example": 0.0125}
    )
    width: Annotated[float, Field(gt=1.0, lt=1e6)] = Field(
        default=60.0, description="number of points over which the spacing grows"
    )


class AtomGrid(Block):
    """Radial points and angular momenta."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"lmax": "l_max"}

    rmax: Literal["auto"] | Annotated[Length, Field(gt=1.0, lt=1e6)] = Field(
        default="auto",
        description="radius of the wall, where the wave function vanishes; auto: from the excursion of the electron; "
        "without an absorber the box grows with the wave function",
        json_schema_extra={"example": 150},
    )
    dr: Annotated[Length, Field(gt=1e-3, lt=10.0)] = Field(
        default=0.2,
        description="spacing far from the nucleus, at most: it is shortened so that whole cells end at rmax",
    )
    l_max: Literal["auto"] | Annotated[Count, Field(le=1000)] = Field(
        default="auto",
        validation_alias=AliasChoices("l_max", "lmax"),
        description="largest angular momentum; auto: grows with the wave function",
    )
    map: Literal["auto", "none"] | RadialMap = Field(
        default="auto",
        description="dense points at the nucleus; auto: from its charge; none: equidistant points",
        json_schema_extra={"example": "auto"},
    )

    def check(self, key: str = "grid") -> Iterator[Finding]:
        """Yield what contradicts itself."""
        if isinstance(self.map, RadialMap) and self.map.dr0 > self.dr:
            yield Finding(
                f"{key}.map.dr0",
                f"dr0 = {self.map.dr0:g} must not exceed dr = {self.dr:g} bohr: the map puts points closer near the nucleus",
            )
        if not isinstance(self.rmax, str) and self.rmax < 16.0 * self.dr:
            yield Finding(
                f"{key}.rmax", f"a box of {self.rmax:g} bohr has fewer than 16 points of {self.dr:g} bohr"
            )


# ----------------------------------------------------------------------------------------------- laser

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
Vector = Annotated[list[Annotated[float, Field(gt=-1e6, lt=1e6)]], Field(min_length=3, max_length=3)]


def _axis_form(value: object) -> object:
    """Read ``x`` as ``[1, 0, 0]``."""
    return list(AXES[value]) if isinstance(value, str) and value in AXES else value


Direction = Annotated[
    Vector, BeforeValidator(_axis_form, json_schema_input_type=Literal["x", "y", "z"] | Vector)
]


def _plane_form(value: object) -> object:
    """Read ``xy`` as ``[x, y]``."""
    if isinstance(value, str) and len(value) == 2 and set(value) <= set(AXES):
        return [value[0], value[1]]
    return value


Plane = Annotated[
    list[Direction],
    Field(min_length=2, max_length=2),
    BeforeValidator(_plane_form, json_schema_input_type=str | list[Direction]),
]


class LinearPolarization(Block):
    """A field of constant direction."""

    type: Literal["linear"]
    direction: Direction = Field(default=[0.0, 0.0, 1.0], description="x, y, z, or a vector of any length")

    def check(self, key: str) -> Iterator[Finding]:
        """Yield a direction of no length."""
        if not any(self.direction):
            yield Finding(
                f"{key}.direction", "the direction [0, 0, 0] has no length; for instance z or [1, 0, 1]"
            )


class TurningPolarization(Block):
    """A field that turns in a plane."""

    handedness: Literal["left", "right"] = Field(
        default="left",
        description="left: from the first axis of the plane to the second (positive helicity); right: the other way round",
    )
    plane: Plane = Field(
        default=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        description="xy, yz, zx or two vectors; the first one is the direction of the field at the peak for cep = 0",
    )

    @property
    def sense(self) -> int:
        """1 from the first axis to the second, -1 the other way round."""
        return 1 if self.handedness == "left" else -1

    def check(self, key: str) -> Iterator[Finding]:
        """Yield axes that span no plane."""
        # cross product of the axes without NumPy, which a deck is read without
        (a, b, c), (d, e, f) = self.plane
        normal = (b * f - c * e, c * d - a * f, a * e - b * d)
        size = math.hypot(a, b, c) * math.hypot(d, e, f)
        if math.hypot(*normal) <= 1e-6 * size or size == 0.0:
            yield Finding(
                f"{key}.plane",
                f"{self.plane[0]} and {self.plane[1]} span no plane; for instance xy or [[1, 0, 0], [0, 1, 1]]",
            )


class CircularPolarization(TurningPolarization):
    """A field that turns, with the same peak in both directions of its plane: E0 / sqrt(2) each."""

    type: Literal["circular"]

    @property
    def ratio(self) -> float:
        """Field along the second axis over that along the first."""
        return 1.0


class EllipticalPolarization(TurningPolarization):
    """A field on an ellipse: E0 / sqrt(1 + e^2) along the first axis of its plane, e times that along the second."""

    type: Literal["elliptical"]
    ellipticity: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        description="minor over major axis of the field, 0 to 1", json_schema_extra={"example": 0.87}
    )

    @property
    def ratio(self) -> float:
        """Field along the second axis over that along the first."""
        return self.ellipticity


def _polarization_form(value: object) -> object:
    """Read ``circular`` as ``{type: circular}``, and x, y or z as a direction."""
    if isinstance(value, str) and value in AXES:
        return {"type": "linear", "direction": value}
    return {"type": value} if isinstance(value, str) else value


AnyPolarization = Annotated[
    LinearPolarization | CircularPolarization | EllipticalPolarization,
    Field(discriminator="type"),
    BeforeValidator(
        _polarization_form,
        json_schema_input_type=Literal["linear", "circular", "x", "y", "z"]
        | LinearPolarization
        | CircularPolarization
        | EllipticalPolarization,
    ),
]


class AtomLaser(Block):
    """The field that drives the electron: the sum of all pulses, of one polarisation."""

    gauge: Literal["length", "velocity", "auto"] = Field(
        default="auto",
        description="length: + z E(t); velocity: + A(t) p_z, A = -integral of E; auto: which costs less, "
        "by points, l and the parts of its steps",
    )
    polarization: AnyPolarization = Field(
        default=LinearPolarization(type="linear"),
        description="linear (along z unless a direction is given), circular or elliptical",
        json_schema_extra={"example": "linear"},
    )
    pulses: Annotated[list[Pulse], Field(min_length=1, max_length=1000)] = Field(
        description="pulses, added up",
        json_schema_extra={
            "example": [{"shape": "sin2", "wavelength": "800 nm", "intensity": "1e14 W/cm2", "cycles": 4}]
        },
    )

    def check(self, key: str = "laser") -> Iterator[Finding]:
        """Yield what contradicts itself in the pulses."""
        # pulses are checked as in one dimension; polarisation is added
        yield from Laser(pulses=self.pulses).check(key)
        yield from self.polarization.check(f"{key}.polarization")
        # a constant direction takes any pulse
        if isinstance(self.polarization, LinearPolarization):
            return
        for index, pulse in enumerate(self.pulses):
            if not isinstance(pulse, CarrierPulse):
                yield Finding(
                    f"{key}.pulses.{index}.shape",
                    f"{self.polarization.type} polarisation delays a carrier by a quarter of a cycle, and "
                    f"{pulse.label} has none; take sin2, cosn, gaussian, flat_top or cw, or linear polarisation",
                )


# --------------------------------------------------------------------------------------------- observe


class AtomPopulations(Block):
    """Populations of bound levels."""

    nmax: Annotated[PositiveCount, Field(le=50)] = Field(
        default=3, description="largest principal quantum number"
    )


class RadialMapStored(Block):
    """The radial density, stored at the output times."""

    points: Annotated[Count, Field(ge=2, le=100_000)] = Field(default=400, description="columns at most")


FLAGS = ("norm", "energy", "dipole", "velocity", "acceleration", "field", "population_l")


class AtomObservable(MotionObservable):
    """One thing to observe: a word, or a word with settings as in ``populations: {nmax: 5}``."""

    population_l: Annotated[bool, Field(description="always written")] = False
    resonance: Annotated[
        StarkState | None, BeforeValidator(resonance_form, json_schema_input_type=StarkState | bool | None)
    ] = Field(default=None, description="position and rate of a level in a static field, by complex scaling")
    populations: AtomPopulations | None = Field(default=None, description="level populations")
    density: RadialMapStored | None = Field(default=None, description="map of the radial density")


_WORDS = Literal[
    "norm", "energy", "dipole", "velocity", "acceleration", "field", "population_l", "resonance",
    "populations", "hhg", "gabor", "density",
]  # fmt: skip


def _observable_form(value: object) -> object:
    """Read ``hhg`` as ``{hhg: {}}`` and ``norm`` as ``{norm: true}``."""
    from pydantic_core import PydanticCustomError

    if value == "photoelectron" or (isinstance(value, dict) and "photoelectron" in value):
        text = (
            "photoelectron belongs to task: propagate; an atom has the block "
            "spectra: [{method: tsurff, radius: 60, energy: [0.05, 1]}]"
        )
        raise PydanticCustomError(
            "quantity", "{text}", {"text": text, "expected": "an observable", "specific": True}
        )
    return word_form(value, FLAGS)


AtomItem = Annotated[
    AtomObservable, BeforeValidator(_observable_form, json_schema_input_type=_WORDS | AtomObservable)
]


@dataclass(frozen=True)
class AtomObserved:
    """Records of a run besides norm, energy, dipole, velocity and acceleration."""

    populations: AtomPopulations
    norm_within: tuple[float, ...] = ()
    hhg: Hhg | None = None
    gabor: Gabor | None = None
    resonance: StarkState | None = None
    density: RadialMapStored = field(default_factory=RadialMapStored)


# ---------------------------------------------------------------------------------------------- the deck

# numbers of a spectrum in all directions
LARGEST_SPHERE = 3e7


class AtomDeck(Deck):
    """One electron in a central potential and a laser field, in three dimensions."""

    meant: ClassVar[Mapping[str, str]] = {
        "atom=[Aa]r": "argon is muller_ar, or {type: tong_lin, element: Ar}",
        "atom=[Aa]rgon": "argon is muller_ar, or {type: tong_lin, element: Ar}",
        "atom=[Hh]e*": "helium with one active electron is {type: tong_lin, element: He}",
        "atom=[A-Z]*": "an atom with one active electron is {type: tong_lin, element: ...}",
        "atom.type=[A-Z]*": "an atom with one active electron is {type: tong_lin, element: ...}",
    }

    method: Literal["tridiag"]
    task: Literal["atom"] = Field(
        description="atom: one electron in three dimensions", json_schema_extra={"example": "atom"}
    )
    atom: Central = Field(
        description="potential of the nucleus and of the other electrons",
        json_schema_extra={"example": {"type": "hydrogen"}},
    )
    grid: AtomGrid = Field(
        default=AtomGrid(),
        description="radial points and angular momenta",
        json_schema_extra={"example": {"rmax": 150, "l_max": "auto"}},
    )
    initial: AnyInitial = Field(
        default=[Level(n=1)],
        description="state at t = 0: a level such as 1s, {n: 1, l: 0, m: 0}, a list with weights, a file or a formula of r",
        json_schema_extra={"example": "1s"},
        validate_default=False,
    )
    laser: AtomLaser | None = Field(
        default=None,
        description="gauge and pulses",
        json_schema_extra={
            "example": {
                "gauge": "auto",
                "pulses": [{"shape": "sin2", "wavelength": "800 nm", "intensity": "1e14 W/cm2", "cycles": 4}],
            }
        },
    )
    absorber: Absorber = Field(
        default=NoAbsorber(type="none"),
        description="what happens to an electron that reaches the end of the grid",
        json_schema_extra={"example": {"type": "manolopoulos", "kmin": 0.2}},
    )
    time: TimeGrid = Field(
        description="time step, duration, output times",
        json_schema_extra={"example": {"dt": 0.05, "outputs": 200}},
    )
    observe: list[AtomItem] = Field(
        default=[],
        description="what to compute besides norm, energy, dipole, velocity and acceleration",
        json_schema_extra={
            "example": ["norm", {"populations": {"nmax": 4}}, {"hhg": {"form": "acceleration"}}]
        },
    )
    scan: AtomScan | None = Field(
        default=None,
        description="runs that differ in one pulse or in the atom, and their average over a focus",
        json_schema_extra={"example": {"intensity": ["5e13 W/cm2", "1e14 W/cm2"]}},
    )
    spectra: list[Spectrum] = Field(
        default=[], description="photoelectron spectra of the final state", max_length=8
    )

    @property
    def observed(self) -> AtomObserved:
        """Entries of the list `observe`."""
        found = entries(self.observe, list(AtomObserved.__dataclass_fields__))
        # recorded even if the deck does not list them: the first numbers of a summary are among them
        found.setdefault("populations", AtomPopulations())
        return AtomObserved(**found)  # type: ignore[arg-type]

    @property
    def levels(self) -> list[Level]:
        """Levels that the initial state is made of; none of a state from a file."""
        return [] if isinstance(self.initial, StoredState | FormulaState) else self.initial

    @property
    def stored(self) -> StoredState | FormulaState | None:
        """The file or the formulas of the initial state, if it is given by them."""
        return self.initial if isinstance(self.initial, StoredState | FormulaState) else None

    @property
    def polarization(self) -> LinearPolarization | CircularPolarization | EllipticalPolarization:
        """Polarisation of the field; linear along z without one."""
        return LinearPolarization(type="linear") if self.laser is None else self.laser.polarization

    @property
    def along(self) -> bool:
        """True if the field has a constant direction that conserves the m of the initial state, as far as the deck tells."""
        one = self.polarization
        # an s level has m = 0 about every direction
        return isinstance(one, LinearPolarization) and (
            not any(one.direction[:2]) or (self.stored is None and all(level.l == 0 for level in self.levels))
        )

    @property
    def along_z(self) -> bool:
        """True if the field conserves m."""
        one = self.polarization
        return isinstance(one, LinearPolarization) and not any(one.direction[:2])

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        if self.run.precision != "double":
            yield Finding("run.precision", "task: atom runs in double precision")
        yield from self.grid.check()
        yield from self.time.check("time", self.absorber)
        if self.laser is not None:
            yield from self.laser.check()
        yield from self._check_initial()
        yield from self._check_observe()
        yield from self._check_spectra()
        if self.scan is not None:
            yield from self.scan.check(
                "scan", [] if self.laser is None else self.laser.pulses, self.atom, self.time
            )

    def _check_initial(self) -> Iterator[Finding]:
        """Yield levels that do not exist, do not fit lmax, are given twice, or have no weight."""
        if isinstance(self.stored, FormulaState):
            yield from self.stored.check("initial")
        if self.stored is not None:
            return
        for index, level in enumerate(self.levels):
            yield from level.check("initial" if len(self.levels) == 1 else f"initial.{index}")
            if not isinstance(self.grid.l_max, str) and level.l > self.grid.l_max:
                yield Finding(
                    "grid.l_max",
                    f"the initial state {level.name} needs lmax of at least {level.l}, found {self.grid.l_max}",
                )
        if all(level.weight == 0 for level in self.levels):
            yield Finding("initial", "all weights of the superposition are zero")
        # equal levels would be added up, which is never meant
        names = [(level.n, level.l, level.m) for level in self.levels]
        if len(set(names)) < len(names):
            yield Finding("initial", "a level is given twice")

    def _check_observe(self) -> Iterator[Finding]:
        yield from check_items(self.observe)
        for index, item in enumerate(self.observe):
            if item.resonance is not None:
                yield from self._check_resonance(f"observe.{index}.resonance", item.resonance)

    def _check_resonance(self, key: str, block: StarkState) -> Iterator[Finding]:
        """Yield what stands against a resonance in a static field."""
        pulses = [] if self.laser is None else self.laser.pulses
        # the field must be constant for all times: a resonance has no other meaning
        if not pulses or any(not pulse.constant or math.isfinite(pulse.length) for pulse in pulses):
            yield Finding(key, "a resonance needs a static field: pulses of shape static, without a duration")
        elif not self.along or self.scan is not None or not (block.named or len(self.levels) == 1):
            yield Finding(
                key,
                "a resonance starts from one level unless it is named by n1 and n2 or energy, in a field along z, without a scan",
            )
        yield from block.check(key, self.atom)
        if not self.atom.analytic:
            # names of the potentials whose formulas take complex radii, for the message
            kinds = tags(Annotation.of(Central))
            allowed = ", ".join(name for name, kind in kinds.items() if getattr(kind, "analytic", False))
            yield Finding(
                key, f"complex radii need a potential that is analytic: {allowed}; found {self.atom.label}"
            )

    def _check_spectra(self) -> Iterator[Finding]:
        """Yield what is wrong with spectra and their directions."""
        yield from check_spectra(self.spectra, self.absorber)
        for index, one in enumerate(self.spectra):
            yield from self._check_polar(f"spectra.{index}.polar", one)

    def _check_polar(self, key: str, one: Spectrum) -> Iterator[Finding]:
        """Yield what stands against a spectrum that is resolved out of the plane of the field."""
        if one.polar is None:
            return
        if self.along:
            yield Finding(
                key, "a field along z is resolved by its polar angles alone: leave polar out, and set angles"
            )
        if one.angles is None:
            yield Finding(key, "polar angles are those beside azimuths: set angles, too")
        elif one.points * one.angles * one.polar > LARGEST_SPHERE:
            yield Finding(
                key,
                f"{one.points} energies, {one.polar} polar angles and {one.angles} azimuths make "
                f"{one.points * one.angles * one.polar:.2g} numbers, at most {LARGEST_SPHERE:.0e} are possible",
            )
