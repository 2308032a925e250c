"""The deck of ``task: plane``: two coordinates."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, ComplexNumber, Count, Deck, Finding, PositiveCount, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.units import InverseLength, Length
from qsim.tridiag.deck.electron import Absorber, Grid, NoAbsorber, SuperpositionInitial, TimeGrid
from qsim.tridiag.deck.numbers import SIGNED, SIZE
from qsim.tridiag.deck.observe import Gabor, Hhg, MotionObservable, check_items, entries, word_form
from qsim.tridiag.deck.potentials import Potential
from qsim.tridiag.deck.potentials.cores import SoftCore
from qsim.tridiag.deck.pulses import Pulse

__all__ = ["Electrons", "PlaneDeck", "PlaneGrid", "PlaneObserved"]

# levels of two coordinates: each is a search in the space of all points
MOST_LEVELS = 40

# ---------------------------------------------------------------------------------------------- system

EXCHANGE = {"even": 1, "odd": -1, "none": 0}


class Electrons(Block):
    """Two electrons on a line: ``V(x) + V(y) + W(x - y)``."""

    type: Literal["electrons"]
    potential: Potential = Field(
        description="potential energy of either electron, as of task: propagate",
        json_schema_extra={"example": {"type": "softcore", "Z": 2.0, "a2": 1.0}},
    )
    repulsion: Literal["none"] | Potential = Field(
        default=SoftCore(type="softcore", Z=-1.0, a2=1.0),
        description="potential energy as a function of their distance x - y; none: independent electrons",
        validate_default=True,
        json_schema_extra={"example": {"type": "softcore", "Z": -1.0, "a2": 1.0}},
    )
    exchange: Literal["even", "odd", "none"] = Field(
        default="even",
        description="even: psi(x, y) = psi(y, x), a singlet; odd: a triplet; none: electrons that can be told apart",
    )

    @property
    def symmetry(self) -> int:
        """1 for even, -1 for odd, 0 for none."""
        return EXCHANGE[self.exchange]


# ------------------------------------------------------------------------------------------------ grid


class PlaneGrid(Block):
    """Points of both coordinates; hard walls stand at the ends, where the wave function is zero."""

    x: Grid = Field(
        description="first coordinate",
        json_schema_extra={"example": {"xmin": -64, "xmax": 64, "points": 513}},
    )
    y: Literal["same"] | Grid = Field(default="same", description="second coordinate; same: as the first one")

    @property
    def axes(self) -> tuple[Grid, Grid]:
        """Blocks of both coordinates."""
        return self.x, self.x if isinstance(self.y, str) else self.y

    def check(self, key: str = "grid") -> Iterator[Finding]:
        """Yield what contradicts itself."""
        yield from self.x.check(f"{key}.x")
        if not isinstance(self.y, str):
            yield from self.y.check(f"{key}.y")


# --------------------------------------------------------------------------------------------- initial


class PlaneLevel(Block):
    """A level of the field-free Hamiltonian on this very lattice, of the exchange symmetry of the system."""

    type: Literal["eigenstate"]
    level: Annotated[Count, Field(lt=MOST_LEVELS)] = Field(default=0, description="0: ground state")


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
    """Real and imaginary part as formulas of x and y; normalised and symmetrised."""

    type: Literal["expression"]
    real: Annotated[str, ExpressionText("x", "y")] = Field(description="real part, formula of x and y")
    imag: Annotated[str, ExpressionText("x", "y")] = Field(
        default="0", description="imaginary part, formula of x and y"
    )


def _initial_form(value: object) -> object:
    """Read ``initial: 2`` as that level, and ``initial: {0: 1, 1: 1i}`` as a superposition."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"type": "eigenstate", "level": value}
    if isinstance(value, dict) and value and all(str(key).isascii() and str(key).isdigit() for key in value):
        return {"type": "superposition", "levels": value}
    return value


_Initial = Annotated[
    PlaneLevel | SuperpositionInitial | PlaneGaussian | PlaneFormula, Field(discriminator="type"), short_form
]
PlaneInitial = Annotated[
    PlaneLevel | SuperpositionInitial | PlaneGaussian | PlaneFormula,
    Field(discriminator="type"),
    short_form,
    BeforeValidator(_initial_form, json_schema_input_type=_Initial | Count | dict[str, ComplexNumber]),
]


# ----------------------------------------------------------------------------------------------- laser


class PlaneLaser(Block):
    """The field, which drives both electrons: the sum of all pulses, in length gauge."""

    pulses: Annotated[list[Pulse], Field(min_length=1, max_length=1000)] = Field(
        description="pulses, added up",
        json_schema_extra={
            "example": [{"shape": "sin2", "wavelength": "30 nm", "intensity": "1e15 W/cm2", "cycles": 4}]
        },
    )
    gauge: Literal["length"] = Field(
        default="length", description="length: the field is a phase of the wave function, which is exact"
    )

    def check(self, key: str = "laser") -> Iterator[Finding]:
        """Yield what contradicts itself in the pulses."""
        for index, pulse in enumerate(self.pulses):
            yield from pulse.check(f"{key}.pulses.{index}")


# --------------------------------------------------------------------------------------------- observe


class PlanePopulations(Block):
    """Populations of the lowest levels of the field-free Hamiltonian."""

    levels: Annotated[PositiveCount, Field(le=MOST_LEVELS)] = Field(default=1, description="number of levels")


class Regions(Block):
    """Norms where both, one and none of the coordinates lie within a radius."""

    radius: Annotated[Length, Field(gt=0, lt=1e6)] | Literal["auto"] = Field(
        default="auto", description="radius; auto: 10 bohr, or what the absorber leaves"
    )


class PlaneDensity(Block):
    """Maps of |psi(x, y)|^2 that are stored."""

    maps: Annotated[PositiveCount, Field(le=200)] = Field(
        default=5, description="number of times, the first and the last of the run among them"
    )
    points: Annotated[Count, Field(ge=2, le=4000)] = Field(
        default=200, description="points of a map along an axis, at most"
    )


FLAGS = ("norm", "energy", "dipole", "velocity", "acceleration", "field", "entanglement")


class PlaneObservable(MotionObservable):
    """One thing to observe: a word, or a word with settings as in ``populations: {levels: 4}``."""

    entanglement: bool = Field(
        default=False, description="purity and entropy of one electron, occupations of its natural orbitals"
    )
    populations: PlanePopulations | None = Field(default=None, description="populations of levels")
    regions: Regions | None = Field(default=None, description="norms by regions")
    density: PlaneDensity | None = Field(default=None, description="maps of the density")


_WORDS = Literal[
    "norm", "energy", "dipole", "velocity", "acceleration", "field", "entanglement", "populations", "regions", "hhg", "gabor",
    "density",
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
    # of a motion, and not of this one
    resonance: None = None


# -------------------------------------------------------------------------------------------- the deck


class PlaneDeck(Deck):
    """Two coordinates: two electrons on a line."""

    method: Literal["tridiag"]
    task: Literal["plane"] = Field(
        description="plane: two coordinates, such as two electrons on a line",
        json_schema_extra={"example": "plane"},
    )
    system: Electrons = Field(
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
        json_schema_extra={"example": ["norm", {"populations": {"levels": 4}}, {"regions": {"radius": 8}}]},
    )

    @property
    def observed(self) -> PlaneObserved:
        """Entries of the list `observe`."""
        found = entries(self.observe, ("populations", "regions", "norm_within", "hhg", "gabor", "density"))
        found["entanglement"] = any(item.entanglement for item in self.observe)
        blocks = {"populations": PlanePopulations(), "regions": Regions(), "density": PlaneDensity()}
        return PlaneObserved(**(blocks | found))  # type: ignore[arg-type]

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        if self.run.precision != "double":
            yield Finding("run.precision", "task: plane runs in double precision")
        yield from self.grid.check()
        yield from self.time.check("time", self.absorber)
        if self.laser is not None:
            yield from self.laser.check()
        if isinstance(self.initial, SuperpositionInitial):
            yield from self.initial.check("initial")
        yield from self._check_exchange()
        yield from check_items(self.observe)

    def _check_exchange(self) -> Iterator[Finding]:
        """Yield what treats the two electrons differently."""
        system, (x, y) = self.system, self.grid.axes
        # the repulsion is a function of x - y: one table of both axes
        if abs(x.dx - y.dx) > 1e-9 * x.dx and system.repulsion != "none":
            yield Finding("grid.y", f"x and y need one spacing, found {x.dx:.6g} and {y.dx:.6g} bohr")
        if system.symmetry and (x.xmin, x.xmax, x.points, x.stencil) != (y.xmin, y.xmax, y.points, y.stencil):
            yield Finding(
                "grid.y",
                f"exchange: {system.exchange} needs x and y alike; leave y out, or set exchange: none",
            )
