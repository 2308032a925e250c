"""The deck of ``task: plane``: two coordinates."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from qsim.core.deck.blocks import (
    Block,
    ComplexNumber,
    Count,
    Deck,
    DeckPath,
    Finding,
    PositiveCount,
    short_form,
)
from qsim.core.deck.expression import Expression, ExpressionText
from qsim.core.deck.units import Angle, Energy, InverseLength, Length
from qsim.tridiag.deck.electron import Absorber, Grid, NoAbsorber, SuperpositionInitial, TimeGrid
from qsim.tridiag.deck.numbers import NOT_NEGATIVE, SIGNED, SIZE
from qsim.tridiag.deck.observe import Gabor, Hhg, MotionObservable, check_items, entries, word_form
from qsim.tridiag.deck.planes import System
from qsim.tridiag.deck.pulses import CarrierPulse, Pulse
from qsim.tridiag.deck.scan import PlaneScan
from qsim.tridiag.deck.surfaces import Surface, SurfaceBlock

__all__ = ["PlaneDeck", "PlaneGrid", "PlaneObserved"]

# levels of two coordinates: each is a search in the space of all points
MOST_LEVELS = 40
# of all coordinates
NAMES = ("x", "y", "R", "rho", "z")

# ------------------------------------------------------------------------------------------------ grid


class PlaneGrid(Block):
    """Points of both coordinates; hard walls stand at the ends, where the wave function is zero."""

    x: Grid | None = Field(
        default=None,
        description="first coordinate",
        json_schema_extra={"example": {"xmin": -64, "xmax": 64, "points": 513}},
    )
    y: Literal["same"] | Grid | None = Field(
        default=None, description="second coordinate; same: as x, which is the default"
    )
    R: Grid | None = Field(
        default=None, description="distance of the nuclei, the first coordinate of a vibrating ion"
    )
    rho: Grid | None = Field(
        default=None, description="distance from the axis, the first coordinate of a cylinder; begins at 0"
    )
    z: Grid | None = Field(default=None, description="second coordinate of a cylinder")

    def of(self, names: tuple[str, str]) -> tuple[Grid, Grid]:
        """Return the blocks of the coordinates of some names; `missing` has seen to it that they are there."""
        first, second = (getattr(self, name) for name in names)
        return first, first if second in (None, "same") else second

    def missing(self, names: tuple[str, str], key: str = "grid") -> Iterator[Finding]:
        """Yield coordinates that a system has and the grid has not, and the other way round."""
        for name in names:
            if getattr(self, name) is None and name != "y":
                yield Finding(f"{key}.{name}", f"missing key; the coordinates are {' and '.join(names)}")
        for name in type(self).model_fields:
            if getattr(self, name) is not None and name not in names:
                yield Finding(f"{key}.{name}", f"the coordinates are {' and '.join(names)}")

    def check(self, key: str = "grid") -> Iterator[Finding]:
        """Yield what contradicts itself."""
        for name in type(self).model_fields:
            if isinstance(one := getattr(self, name), Grid):
                yield from one.check(f"{key}.{name}")


# --------------------------------------------------------------------------------------------- initial


class PlaneLevel(Block):
    """A level of the field-free Hamiltonian on this very lattice, of the exchange symmetry of the system."""

    type: Literal["eigenstate"]
    level: Annotated[Count, Field(lt=MOST_LEVELS)] = Field(default=0, description="0: ground state")
    potential: Surface | None = Field(
        default=None,
        description="potential energy in which it is a level, in place of the system's: it moves from t = 0 on",
    )


class PlaneGaussian(Block):
    """A packet ``exp(-(x - x0)^2 / (4 wx^2) + i kx x)`` times the like of y, normalised and symmetrised."""

    type: Literal["gaussian"]
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="mean of x")
    y0: Annotated[Length, SIGNED] = Field(default=0.0, description="mean of y")
    kx: Annotated[InverseLength, SIGNED] = Field(default=0.0, description="mean momentum along x")
    ky: Annotated[InverseLength, SIGNED] = Field(default=0.0, description="mean momentum along y")
    wx: Annotated[Length, SIZE] = Field(
        description="standard deviation of |psi|^2 along x", json_schema_extra={"example": 2.0}
    )
    wy: Annotated[Length, SIZE] = Field(
        description="standard deviation of |psi|^2 along y", json_schema_extra={"example": 2.0}
    )


class PlaneFormula(Block):
    """Real and imaginary part as formulas of both coordinates; normalised and symmetrised."""

    type: Literal["expression"]
    real: Annotated[str, ExpressionText(*NAMES)] = Field(description="real part, formula of both coordinates")
    imag: Annotated[str, ExpressionText(*NAMES)] = Field(
        default="0", description="imaginary part, formula of both coordinates"
    )


class ProductTerm(Block):
    """A product of one state of each coordinate: a level, or a formula of it.

    The levels of either electron are those in `potential` alone; of other systems those in the potential at rest of the other
    coordinate, where that of both is lowest.
    """

    weight: ComplexNumber = Field(default=1.0 + 0.0j, description="factor of the product")
    x: Count | str | None = Field(default=None, description="level, 0 being the lowest, or formula of x")
    y: Count | str | None = Field(default=None, description="level or formula of y")
    R: Count | str | None = Field(default=None, description="level or formula of R")
    rho: Count | str | None = Field(default=None, description="level or formula of rho")
    z: Count | str | None = Field(default=None, description="level or formula of z")


class PlaneProduct(Block):
    """A sum of products of states of either coordinate; normalised and symmetrised."""

    type: Literal["product"]
    terms: Annotated[list[ProductTerm], Field(min_length=1, max_length=100)] = Field(
        description="products, added up", json_schema_extra={"example": [{"x": 0, "y": 1}]}
    )

    def check(self, key: str, names: tuple[str, str]) -> Iterator[Finding]:
        """Yield coordinates that are missing, those that there are not, and formulas of others."""
        for index, term in enumerate(self.terms):
            for name in NAMES:
                value, at = getattr(term, name), f"{key}.terms.{index}.{name}"
                if (value is None) == (name in names):
                    text = "missing key; " if value is None else ""
                    yield Finding(at, f"{text}the coordinates are {' and '.join(names)}")
                elif isinstance(value, str):
                    try:
                        Expression(value, (name,))
                    except ValueError as error:
                        yield Finding(at, str(error))


class PlaneFile(Block):
    """The wave function of another run on its own points, from its results file; interpolated, normalised and symmetrised."""

    type: Literal["file"]
    file: DeckPath = Field(
        description="results of an earlier run with psi_xy_final, x and y, relative to the deck",
        json_schema_extra={"example": "pump.h5"},
    )


def _initial_form(value: object) -> object:
    """Read ``initial: 2`` as that level, and ``initial: {0: 1, 1: 1i}`` as a superposition."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"type": "eigenstate", "level": value}
    if isinstance(value, dict) and value and all(str(key).isascii() and str(key).isdigit() for key in value):
        return {"type": "superposition", "levels": value}
    return value


_Initial = Annotated[
    PlaneLevel | SuperpositionInitial | PlaneGaussian | PlaneFormula | PlaneProduct | PlaneFile,
    Field(discriminator="type"),
    short_form,
]
PlaneInitial = Annotated[
    PlaneLevel | SuperpositionInitial | PlaneGaussian | PlaneFormula | PlaneProduct | PlaneFile,
    Field(discriminator="type"),
    short_form,
    BeforeValidator(_initial_form, json_schema_input_type=_Initial | Count | dict[str, ComplexNumber]),
]


# ----------------------------------------------------------------------------------------------- laser


class LinearInPlane(Block):
    """A field of constant direction."""

    type: Literal["linear"]
    angle: Annotated[Angle, SIGNED] = Field(default=0.0, description="of the field with x, towards y")

    ratio: ClassVar[float] = 0.0
    sense: ClassVar[int] = 0


class EllipseInPlane(LinearInPlane):
    """A field on an ellipse: E0 / sqrt(1 + e^2) along its major axis, e times that along the minor one."""

    type: Literal["circular", "elliptical"]  # type: ignore[assignment]
    ellipticity: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=1.0, description="minor over major axis of the field; circular: 1"
    )
    handedness: Literal["left", "right"] = Field(
        default="left", description="left: from x to y; right: the other way round"
    )

    @property
    def ratio(self) -> float:  # type: ignore[override]
        """Field along the minor axis over that along the major one."""
        return self.ellipticity

    @property
    def sense(self) -> int:  # type: ignore[override]
        """1 from x to y, -1 the other way round."""
        return 1 if self.handedness == "left" else -1


def _polarization_form(value: object) -> object:
    """Read ``circular`` as ``{type: circular}``, and x or y as a direction."""
    if isinstance(value, str) and value in ("x", "y"):
        return {"type": "linear", "angle": 0.0 if value == "x" else 0.5 * math.pi}
    return {"type": value} if isinstance(value, str) else value


Polarization = Annotated[
    LinearInPlane | EllipseInPlane,
    Field(discriminator="type"),
    BeforeValidator(
        _polarization_form,
        json_schema_input_type=Literal["linear", "circular", "x", "y"] | LinearInPlane | EllipseInPlane,
    ),
]


class PlaneLaser(Block):
    """The field: the sum of all pulses, in length gauge; of two electrons it drives both."""

    pulses: Annotated[list[Pulse], Field(min_length=1, max_length=1000)] = Field(
        description="pulses, added up",
        json_schema_extra={
            "example": [{"shape": "sin2", "wavelength": "30 nm", "intensity": "1e15 W/cm2", "cycles": 4}]
        },
    )
    polarization: Polarization = Field(
        default=LinearInPlane(type="linear"),
        description="of a particle in a plane: linear (along x unless an angle is given), circular or elliptical",
        json_schema_extra={"example": "x"},
    )
    gauge: Literal["length"] = Field(
        default="length", description="length: the field is a phase of the wave function, which is exact"
    )

    def check(self, key: str = "laser") -> Iterator[Finding]:
        """Yield what contradicts itself in the pulses."""
        for index, pulse in enumerate(self.pulses):
            yield from pulse.check(f"{key}.pulses.{index}")
            if self.polarization.sense and not isinstance(pulse, CarrierPulse):
                yield Finding(
                    f"{key}.pulses.{index}.shape",
                    f"{self.polarization.type} polarisation delays a carrier by a quarter of a cycle, and {pulse.label} "
                    "has none; take sin2, cosn, gaussian, flat_top or cw, or linear polarisation",
                )


# --------------------------------------------------------------------------------------------- observe


class PlanePopulations(Block):
    """Populations of the lowest levels of the field-free Hamiltonian."""

    levels: Annotated[PositiveCount, Field(le=MOST_LEVELS)] = Field(default=1, description="number of levels")


class Regions(Block):
    """Norms where both, one and none of the coordinates lie within a radius."""

    radius: Annotated[Length, Field(gt=0, lt=1e6)] | Literal["auto"] = Field(
        default="auto", description="radius; auto: 10 bohr, or what the absorber leaves"
    )


Interval = Annotated[list[Annotated[Length, SIGNED]], Field(min_length=2, max_length=2)]


class Box(Block):
    """A part of the grid, from the lowest to the highest value of its coordinates; those that are not given have all."""

    x: Interval | None = Field(default=None, description="of x")
    y: Interval | None = Field(default=None, description="of y")
    R: Interval | None = Field(default=None, description="of R")
    rho: Interval | None = Field(default=None, description="of rho")
    z: Interval | None = Field(default=None, description="of z")

    def ends(self, names: tuple[str, str]) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the lowest and highest values of the coordinates of some names."""
        found = [getattr(self, name) or (-math.inf, math.inf) for name in names]
        return (found[0][0], found[0][1]), (found[1][0], found[1][1])

    def check(self, key: str, names: tuple[str, str]) -> Iterator[Finding]:
        """Yield ends in the wrong order, and coordinates that there are not."""
        for name in type(self).model_fields:
            if (pair := getattr(self, name)) is None:
                continue
            if name not in names:
                yield Finding(f"{key}.{name}", f"the coordinates are {' and '.join(names)}")
            elif pair[0] >= pair[1]:
                yield Finding(f"{key}.{name}", f"{pair[0]:g} must lie below {pair[1]:g} bohr")


Boxes = Annotated[
    dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")], Box],
    Field(min_length=1, max_length=50),
]


class Release(Block):
    """Kinetic energy of the fragments of a vibrating ion, and the norm beyond a distance of the nuclei."""

    R: Annotated[Length, SIZE] = Field(
        description="distance beyond which the ion has dissociated", json_schema_extra={"example": 10.0}
    )
    energy: Annotated[list[Annotated[Energy, NOT_NEGATIVE]], Field(min_length=2, max_length=2)] = Field(
        default=[0.0, 1.0], description="lowest and highest energy"
    )
    points: Annotated[Count, Field(ge=2, le=100_000)] = Field(default=400, description="number of energies")


class Momenta(Block):
    """Momenta of both coordinates at the end, beyond the region where particles are bound."""

    radius: Annotated[Length, SIZE] | Literal["auto"] = Field(
        default="auto", description="where a particle is free; auto: the radius of the regions"
    )
    edge: Annotated[Length, SIZE] = Field(
        default=5.0, description="distance over which the wave function rises from nothing beyond it"
    )
    kmax: Annotated[InverseLength, SIZE] = Field(default=3.0, description="largest momentum")
    points: Annotated[Count, Field(ge=2, le=2000)] = Field(
        default=151, description="momenta of either coordinate"
    )


class PlaneDensity(Block):
    """Maps of |psi(x, y)|^2 that are stored."""

    maps: Annotated[PositiveCount, Field(le=200)] = Field(
        default=5, description="number of times, the first and the last of the run among them"
    )
    points: Annotated[Count, Field(ge=2, le=4000)] = Field(
        default=200, description="points of a map along an axis, at most"
    )
    currents: bool = Field(default=False, description="maps of the current density, too")


FLAGS = ("norm", "energy", "dipole", "velocity", "acceleration", "field", "entanglement")


class PlaneObservable(MotionObservable):
    """One thing to observe: a word, or a word with settings as in ``populations: {levels: 4}``."""

    entanglement: bool = Field(
        default=False, description="purity and entropy of one electron, occupations of its natural orbitals"
    )
    populations: PlanePopulations | None = Field(default=None, description="populations of levels")
    regions: Regions | None = Field(default=None, description="norms by regions")
    boxes: Boxes | None = Field(
        default=None,
        description="norms in parts of the grid, by their names",
    )
    ker: Release | None = Field(default=None, description="kinetic-energy release")
    momenta: Momenta | None = Field(default=None, description="map of the momenta of both coordinates")
    density: PlaneDensity | None = Field(default=None, description="maps of the density")


_WORDS = Literal[
    "norm", "energy", "dipole", "velocity", "acceleration", "field", "entanglement", "populations", "regions", "hhg", "gabor",
    "density", "momenta",
]  # fmt: skip


PlaneItem = Annotated[
    PlaneObservable,
    BeforeValidator(partial(word_form, flags=FLAGS), json_schema_input_type=_WORDS | PlaneObservable),
]


@dataclass(frozen=True)
class PlaneObserved:
    """Records of a run besides norm, energy, dipole, velocity and acceleration."""

    populations: PlanePopulations
    regions: Regions
    density: PlaneDensity
    hhg: Hhg | None = None
    gabor: Gabor | None = None
    entanglement: bool = False
    norm_within: tuple[float, ...] = ()
    boxes: Mapping[str, Box] = field(default_factory=dict)
    ker: Release | None = None
    momenta: Momenta | None = None
    # of a motion, and not of this one
    resonance: None = None


# -------------------------------------------------------------------------------------------- the deck


class PlaneDeck(Deck):
    """Two coordinates: two electrons on a line, a particle in a plane, an ion that vibrates, a condensate, rho and z."""

    method: Literal["tridiag"]
    task: Literal["plane"] = Field(
        description="plane: two coordinates, such as two electrons on a line or a particle in a plane",
        json_schema_extra={"example": "plane"},
    )
    system: System = Field(
        description="what the two coordinates are, and their potential energy",
        json_schema_extra={
            "example": {"type": "electrons", "potential": {"type": "softcore", "Z": 2.0, "a2": 1.0}}
        },
    )
    grid: PlaneGrid = Field(
        description="points of both coordinates",
        json_schema_extra={"example": {"x": {"xmin": -64, "xmax": 64, "points": 513}}},
    )
    initial: PlaneInitial = Field(
        default=PlaneLevel(type="eigenstate"), description="state at t = 0", validate_default=True
    )
    laser: PlaneLaser | None = Field(
        default=None,
        description="pulses",
        json_schema_extra={
            "example": {
                "pulses": [{"shape": "sin2", "wavelength": "30 nm", "intensity": "1e15 W/cm2", "cycles": 4}]
            }
        },
    )
    absorber: Absorber = Field(
        default=NoAbsorber(type="none"),
        description="what happens to what reaches the ends of the grid, along both coordinates",
        validate_default=True,
        json_schema_extra={"example": {"type": "cap", "width": 20, "strength": 0.25}},
    )
    time: TimeGrid = Field(
        description="time step, duration, output times",
        json_schema_extra={"example": {"dt": 0.05, "outputs": 100}},
    )
    observe: list[PlaneItem] = Field(
        default=[],
        description="what to compute besides norm, energy, dipole, velocity, acceleration and norms by regions",
        json_schema_extra={
            "example": [
                "norm",
                {"populations": {"levels": 4}},
                {"regions": {"radius": 8}},
                {"boxes": {"behind": {"x": [5.0, 60.0]}}},
            ]
        },
    )

    scan: PlaneScan | None = Field(
        default=None,
        description="many runs that differ in one pulse or in the system",
        json_schema_extra={"example": {"intensity": ["2e14 W/cm2", "1e15 W/cm2"]}},
    )

    @property
    def grids(self) -> tuple[Grid, Grid]:
        """Blocks of both coordinates."""
        return self.grid.of(self.system.coordinates)

    @property
    def observed(self) -> PlaneObserved:
        """Entries of the list `observe`."""
        found = entries(
            self.observe,
            ("populations", "regions", "norm_within", "boxes", "ker", "momenta", "hhg", "gabor", "density"),
        )
        found["entanglement"] = any(item.entanglement for item in self.observe)
        blocks = {"populations": PlanePopulations(), "regions": Regions(), "density": PlaneDensity()}
        return PlaneObserved(**(blocks | found))  # type: ignore[arg-type]

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        if self.run.precision != "double":
            yield Finding("run.precision", "task: plane runs in double precision")
        yield from self.grid.check()
        missing = list(self.grid.missing(self.system.coordinates))
        yield from missing
        if not missing:
            yield from self.system.check("system", self.grids)
        yield from self.time.check("time", self.absorber)
        if self.laser is not None:
            yield from self.laser.check()
        if isinstance(self.initial, SuperpositionInitial):
            yield from self.initial.check("initial")
        yield from check_items(self.observe)
        if self.scan is not None:
            yield from self.scan.check(
                "scan", [] if self.laser is None else self.laser.pulses, self.system, self.time
            )
        yield from self._check_system()

    def _check_system(self) -> Iterator[Finding]:
        """Yield what the system has no meaning for."""
        kind = self.system.type  # type: ignore[attr-defined]
        if self.laser is not None and not self.system.charged:
            yield Finding("laser", f"a laser does not act on system {kind}")
        elif (
            self.laser is not None
            and not self.system.planar
            and self.laser.polarization != LinearInPlane(type="linear")
        ):
            yield Finding("laser.polarization", f"the field of system {kind} has one direction")
        yield from self._check_initial(kind)
        names = self.system.coordinates
        for index, item in enumerate(self.observe):
            key = f"observe.{index}"
            if item.regions is not None and not self.system.pair:
                text = "regions count two particles, inside and outside; take boxes or norm_within"
                yield Finding(f"{key}.regions", text)
            if item.ker is not None and self.system.nuclei is None:
                yield Finding(f"{key}.ker", f"system {kind} has no two nuclei")
            elif item.ker is not None and item.ker.energy[0] >= item.ker.energy[1]:
                yield Finding(f"{key}.ker.energy", "the lowest energy must lie below the highest")
            if self.system.nonlinearity and item.populations is not None and item.populations.levels > 1:
                yield Finding(
                    f"{key}.populations.levels", "of a condensate the ground state alone is found; take 1"
                )
            for name, box in (item.boxes or {}).items():
                yield from box.check(f"{key}.boxes.{name}", names)

    def _check_initial(self, kind: str) -> Iterator[Finding]:
        """Yield initial states that the system does not have."""
        initial, names = self.initial, self.system.coordinates
        listed = " and ".join(names)
        if isinstance(initial, PlaneGaussian) and names != ("x", "y"):
            yield Finding(
                "initial.type", f"a gaussian is a packet of x and y; take an expression of {listed}"
            )
        if isinstance(initial, PlaneFormula):
            used = Expression(f"{initial.real} + 0 * ({initial.imag})", NAMES).names
            for name in sorted(used - set(names)):
                yield Finding("initial.real", f"{name} is no coordinate; they are {listed}")
        if isinstance(initial, PlaneProduct):
            yield from initial.check("initial", names)
        surface = isinstance(getattr(self.system, "potential", None), SurfaceBlock)
        if isinstance(initial, PlaneLevel) and initial.potential is not None and not surface:
            yield Finding("initial.potential", f"system {kind} has no potential of both coordinates")
        if not self.system.nonlinearity:
            return
        if isinstance(initial, SuperpositionInitial):
            text = "states of a condensate do not add up; take a gaussian or an expression"
            yield Finding("initial.type", text)
        elif isinstance(initial, PlaneLevel) and initial.level:
            yield Finding("initial.level", "of a condensate the ground state alone is found; take 0")
