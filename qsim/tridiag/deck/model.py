"""The deck of ``qsim tridiag``: one of its tasks, each with its own blocks.

``task: atom`` and ``task: plane`` have decks of their own, in `deck.atom` and `deck.plane`.

=========== ==============================================================================
task        blocks
=========== ==============================================================================
propagate   grid, potential, initial, laser, absorber, time, observe, spectra, scan, solver
solve       system, solver
scaling     scaling, system, solver
=========== ==============================================================================
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, ComplexNumber, Count, Deck, DeckPath, Finding, Integer, PositiveCount
from qsim.core.deck.units import Energy, Length, Time
from qsim.tridiag.deck.atom import AtomDeck
from qsim.tridiag.deck.electron import (
    Absorber,
    EigenstateInitial,
    Grid,
    Initial,
    NoAbsorber,
    SuperpositionInitial,
    TimeGrid,
)
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.observe import (
    Gabor,
    Hhg,
    LineResonance,
    MotionObservable,
    check_items,
    entries,
    resonance_form,
    word_form,
)
from qsim.tridiag.deck.photoelectrons import LineSpectrum, check_spectra
from qsim.tridiag.deck.plane import PlaneDeck
from qsim.tridiag.deck.potentials import Potential
from qsim.tridiag.deck.potentials.cores import SoftCore
from qsim.tridiag.deck.scan import LineScan

# eigenstates that `populations` projects on
MAX_LEVELS = 200
# nested partitions
MAX_NESTED = 12

Positive = Annotated[float, Field(gt=0.0, lt=1e12)]

# ------------------------------------------------------------------------------------- task: solve


Corners = Annotated[list[ComplexNumber], Field(min_length=2, max_length=2)]
# text of the key, which four sources share
CORNERS = "corner elements [T(0, n-1), T(n-1, 0)] of a cyclic system; none by default"


class RandomSystem(Block):
    """Normal entries off the diagonal; on it ``|a| = dominance (|b| + |c|)`` with a random phase or sign."""

    source: Literal["random"]
    n: PositiveCount = Field(description="number of rows", json_schema_extra={"example": 300000})
    seed: Count | None = Field(default=None, description="seed of this system; by default run.seed")
    dominance: Annotated[float, Field(ge=0.0, le=1e6)] = Field(
        default=1.5, description="|a| / (|b| + |c|); above 1 the matrix is diagonally dominant"
    )
    dtype: Literal["complex", "real"] = Field(
        default="complex", description="numbers of matrix and right side"
    )
    batch: PositiveCount = Field(default=1, description="number of independent systems")
    rhs: PositiveCount = Field(default=1, description="right-hand sides of each system")
    corners: Corners | None = Field(default=None, description=CORNERS)


class LaplaceSystem(Block):
    """``(-1, 2, -1)``: the second difference, condition number about ``0.4 n^2``."""

    source: Literal["laplace"]
    n: PositiveCount = Field(description="number of rows", json_schema_extra={"example": 10000})
    seed: Count | None = Field(default=None, description="seed of the right-hand side; by default run.seed")
    corners: Corners | None = Field(default=None, description=CORNERS)


class CrankNicolsonSystem(Block):
    """``1 + i dt/2 H`` on a grid around zero, ``H = p^2/2 + V`` by three points: one step of the propagator."""

    source: Literal["crank_nicolson"]
    n: PositiveCount = Field(description="number of rows", json_schema_extra={"example": 300000})
    dx: Annotated[Length, Field(gt=1e-9, lt=1e9)] = Field(default=0.1, description="grid spacing")
    dt: Annotated[Time, Field(gt=1e-12, lt=1e12)] = Field(default=0.05, description="time step")
    potential: Potential = Field(
        default=SoftCore(type="softcore"), description="potential energy", validate_default=True
    )
    seed: Count | None = Field(default=None, description="seed of the right-hand side; by default run.seed")
    corners: Corners | None = Field(default=None, description=CORNERS)


class FileSystem(Block):
    """``a`` (diagonal), ``b`` (lower), ``c`` (upper), ``d`` (right-hand side) from .npz, .h5 or .mtx."""

    source: Literal["file"]
    file: DeckPath = Field(description=".npz, .h5, .hdf5 or .mtx file, relative to the deck")
    rhs: DeckPath | None = Field(
        default=None,
        description="right-hand side: .npy, .npz, .h5, .mtx, .txt or .csv; d of the file if missing",
    )
    corners: Literal["file"] | Corners | None = Field(
        default=None,
        description=f"{CORNERS}; file: the first entry of b and the last of c, which do not count otherwise",
    )


SystemSource = Annotated[
    RandomSystem | LaplaceSystem | CrankNicolsonSystem | FileSystem, Field(discriminator="source")
]

_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def _memory(value: object) -> object:
    """Read ``"2 GB"`` as a number of bytes."""
    # numbers and auto are judged by the type of the key
    if not isinstance(value, str) or value == "auto":
        return value
    # number, decimal exponent, unit
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)(?:[eE]\+?(\d+))?\s*([kKMGT]?i?B)\s*", value)
    units = {unit.lower(): factor for unit, factor in _BYTES.items()}
    if match is None or match[3].lower() not in units:
        raise ValueError(f"expected bytes such as 2e9 or '2 GB' ({', '.join(_BYTES)}), found {value!r}")
    return int(float(f"{match[1]}e{match[2] or 0}") * units[match[3].lower()])


Bytes = Annotated[Integer, Field(ge=2**16), BeforeValidator(_memory, json_schema_input_type=int | str)]


class Solver(Block):
    """Solver of tridiagonal systems."""

    type: Literal["nshape", "thomas", "lapack", "woodbury"] = Field(
        default="nshape",
        description="nshape: the paper's partition, Table 1; thomas: serial, no pivoting; lapack: pivoted gtsv; "
        "woodbury: the paper's Appendix II",
    )
    blocks: (
        Literal["auto"]
        | PositiveCount
        | Annotated[list[PositiveCount], Field(min_length=1, max_length=1_000_000)]
    ) = Field(default="auto", description="number of blocks, or the rows of each block")
    iterations: Literal["auto"] | Annotated[PositiveCount, Field(le=MAX_NESTED)] = Field(
        default="auto",
        description="nested partitions; 1 is one partition whose reduced system is solved serially",
    )
    mode: Literal["auto", "exact", "local", "literal"] = Field(
        default="auto",
        description="propagate: exact couples all blocks, local stops where the coupling is below rounding, literal "
        "runs Table 1 stage by stage",
    )
    on_unstable: Literal["ladder", "error"] = Field(
        default="ladder",
        description="solve: small pivots lead to refinement, moved joints and pivoting, or to an error at once",
    )
    on_singular: Literal["refuse", "solve"] = Field(
        default="refuse",
        description="solve: a matrix that is singular to working precision is refused, or solved with a note of its condition "
        "number, as inverse iterations need it",
    )
    tolerance: Annotated[float, Field(gt=0.0, lt=1.0)] | None = Field(
        default=None, description="solve: largest backward error; by default 1e-14 (single precision: 1e-6)"
    )
    memory: Literal["auto"] | Bytes = Field(
        default="auto",
        description="solve: most bytes to use, as '2 GB'; a larger system is read, reduced and solved block by block",
    )


class Scaling(Block):
    """Time against the number of blocks, as in the paper's Fig. 2."""

    n: Annotated[list[PositiveCount], Field(min_length=1, max_length=32)] = Field(
        default=[300_000],
        description="sizes; the first is the one of the figure, all together give the optimum",
    )
    blocks: Literal["auto"] | Annotated[list[PositiveCount], Field(min_length=2, max_length=200)] = Field(
        default="auto", description="numbers of blocks; auto: powers of two around the expected optimum"
    )
    iterations: Annotated[
        list[Annotated[PositiveCount, Field(le=MAX_NESTED)]], Field(min_length=1, max_length=MAX_NESTED)
    ] = Field(default=[1, 2, 3], description="numbers of nested partitions")
    repeats: Annotated[PositiveCount, Field(le=1000)] = Field(
        default=3, description="repetitions; the fastest counts"
    )
    compare: list[Literal["thomas", "lapack", "woodbury"]] = Field(
        default=["thomas", "lapack"], description="other solvers, timed on the same systems"
    )


# --------------------------------------------------------------------------------- task: propagate


class Populations(Block):
    """Populations of the lowest eigenstates of the field-free Hamiltonian, on the same grid."""

    levels: Annotated[PositiveCount, Field(le=MAX_LEVELS)] = Field(default=6, description="number of levels")


class DensityMap(Block):
    """The map of |psi(x, t)|^2 that is stored at the output times."""

    points: Annotated[Count, Field(ge=2, le=1_000_000)] = Field(default=400, description="columns at most")
    range: Annotated[list[Length], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="part of the grid to store; by default all of it"
    )


class Photoelectron(Block):
    """Energy spectrum of the final state by the window operator ``gamma^(2^n) / ((H - E)^(2^n) + gamma^(2^n))``."""

    method: ClassVar[str] = "photoelectron"

    energies: Annotated[list[Energy], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="first and last energy; by default from below the ground state to 10 Up"
    )
    points: Annotated[Count, Field(ge=2, le=20_000)] = Field(default=200, description="number of energies")
    gamma: Annotated[Energy, Field(gt=0)] | None = Field(
        default=None, description="half width of the window; by default the distance of the energies"
    )
    order: Annotated[PositiveCount, Field(le=5)] = Field(default=3, description="n of the window, 1 to 5")


FLAGS = ("norm", "energy", "dipole", "acceleration", "velocity", "field")


def _levels_form(value: object) -> object:
    # `populations: 6` stands for six levels; true and false are integers to Python, and refused
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    return {"levels": value} if whole else value


class Observable(MotionObservable):
    """One thing to observe: a word, or a word with settings as in ``populations: {levels: 6}``."""

    populations: (
        Annotated[Populations, BeforeValidator(_levels_form, json_schema_input_type=Populations | int)] | None
    ) = Field(default=None, description="level populations")
    ionisation: bool = Field(
        default=False,
        description="population of all levels below the threshold, and what is left of 1; a scan with a laser has it anyway",
    )
    norm_right: (
        Annotated[list[Annotated[Length, Field(gt=-1e12, lt=1e12)]], Field(min_length=1, max_length=100)]
        | None
    ) = Field(
        default=None, description="norm right of each place x; right of a barrier, what was transmitted"
    )
    density: DensityMap | None = Field(default=None, description="map of the density")
    photoelectron: Photoelectron | None = Field(default=None, description="photoelectron spectrum")
    resonance: Annotated[
        LineResonance | None,
        BeforeValidator(resonance_form, json_schema_input_type=LineResonance | bool | None),
    ] = Field(
        default=None,
        description="position and rate of a level that decays, by complex scaling of the potential",
    )


_WORDS = Literal[
    "norm", "energy", "dipole", "acceleration", "velocity", "field", "populations", "ionisation", "hhg", "gabor", "density",
    "photoelectron", "resonance",
]  # fmt: skip


def _observable_form(value: object) -> object:
    return word_form(value, (*FLAGS, "ionisation"))


ObservableItem = Annotated[
    Observable, BeforeValidator(_observable_form, json_schema_input_type=_WORDS | Observable)
]


Precision = Literal["double", "single"]


@dataclass(frozen=True)
class Observed:
    """Records of a propagation beside norm, energy, dipole and acceleration; None or empty where the deck has none.

    Attributes
    ----------
    norm_within, norm_right
        Radii and places, bohr.
    """

    populations: Populations | None = None
    norm_within: tuple[float, ...] = ()
    norm_right: tuple[float, ...] = ()
    hhg: Hhg | None = None
    gabor: Gabor | None = None
    density: DensityMap | None = None
    photoelectron: Photoelectron | None = None
    ionisation: bool = False
    resonance: LineResonance | None = None


@dataclass(frozen=True)
class PropagationBlocks:
    """The blocks of a deck with ``task: propagate``."""

    grid: Grid
    potential: Potential
    initial: Initial
    laser: Laser | None
    absorber: Absorber
    time: TimeGrid
    solver: Solver
    observed: Observed
    precision: Precision
    spectra: list[LineSpectrum]


# ---------------------------------------------------------------------------------------- the deck

OF_TASK = {
    "propagate": ("grid", "potential", "initial", "laser", "absorber", "time", "observe", "scan", "spectra"),
    "solve": ("system",),
    "scaling": ("scaling", "system"),
    "atom": (),
    "plane": (),
}
REQUIRED = {
    "propagate": {
        "grid": "{xmin: -400, xmax: 400, points: 8001}",
        "potential": "{type: softcore} or free",
        "time": "{dt: 0.05, t_final: auto}",
    },
    "solve": {"system": "{source: random, n: 3.0e5} or {source: file, file: system.npz}"},
    "scaling": {},
    "atom": {},
    "plane": {},
}


class TridiagDeck(Deck):
    """Tridiagonal systems, and the Schrödinger equation in one dimension that leads to them."""

    FIRST_DECKS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "solve": {"system": {"source": "random", "n": 300000, "dominance": 1.5}},
    }
    method: Literal["tridiag"]
    task: Literal["propagate", "solve", "scaling", "atom", "plane"] = Field(
        description="propagate: an atom in a laser pulse, in one dimension; atom: in three, plane: two coordinates, both with "
        "keys of their own; solve: one system; scaling: time against blocks",
        json_schema_extra={"example": "propagate"},
    )
    grid: Grid | None = Field(
        default=None,
        description="propagate: spatial grid",
        json_schema_extra={"example": {"xmin": -400, "xmax": 400, "points": 8001, "stencil": "numerov"}},
    )
    potential: Potential | None = Field(
        default=None,
        description="propagate: potential energy",
        json_schema_extra={"example": {"type": "softcore", "Z": 1.0, "a2": 2.0}},
    )
    initial: Initial = Field(
        default=EigenstateInitial(type="eigenstate"),
        description="propagate: state at t = 0",
        validate_default=True,
        json_schema_extra={"example": {"type": "eigenstate", "level": 0}},
    )
    laser: Laser | None = Field(
        default=None,
        description="propagate: gauge and pulses",
        json_schema_extra={
            "example": {
                "gauge": "length",
                "pulses": [
                    {
                        "shape": "sin2",
                        "wavelength": "800 nm",
                        "intensity": "1e14 W/cm2",
                        "cycles": 6,
                        "cep": 0.0,
                    }
                ],
            }
        },
    )
    absorber: Absorber = Field(
        default=NoAbsorber(type="none"),
        description="propagate: what happens to electrons that reach the ends of the grid",
        validate_default=True,
        json_schema_extra={"example": {"type": "cap", "width": 50, "strength": 0.1}},
    )
    time: TimeGrid | None = Field(
        default=None,
        description="propagate: time step, duration, output times",
        json_schema_extra={"example": {"dt": 0.05, "t_final": "auto", "outputs": 400}},
    )
    solver: Solver = Field(
        default=Solver(), description="how tridiagonal systems are solved", validate_default=True
    )
    observe: list[ObservableItem] = Field(
        default=[],
        description="propagate: what to compute beside norm, energy, dipole and acceleration",
        json_schema_extra={
            "example": [
                "norm",
                {"populations": {"levels": 6}},
                {"norm_within": [20, 50, 100]},
                {"hhg": {"form": "acceleration", "window": "sin2"}},
            ]
        },
    )
    scan: LineScan | None = Field(
        default=None,
        description="propagate: runs that differ in one pulse or in the potential, and their average over a focus",
        json_schema_extra={"example": {"intensity": ["5e13 W/cm2", "1e14 W/cm2"]}},
    )
    spectra: list[LineSpectrum] = Field(
        default=[],
        description="propagate: photoelectron spectra, by the window operator on the final state or by t-SURFF",
        max_length=2,
        json_schema_extra={"example": [{"method": "tsurff", "radius": 60, "energy": [0.02, 1.0]}]},
    )
    system: SystemSource | None = Field(default=None, description="solve and scaling: the tridiagonal system")
    scaling: Scaling | None = Field(default=None, description="scaling: sizes, blocks, repetitions")

    @classmethod
    def model_for(cls, data: Mapping[str, Any]) -> type[Deck]:
        """Return the deck of ``task: atom`` and ``task: plane`` for these tasks."""
        own: dict[object, type[Deck]] = {"atom": AtomDeck, "plane": PlaneDeck}
        return own.get(data.get("task"), cls)

    @classmethod
    def variants(cls) -> tuple[type[Deck], ...]:
        """Return the decks of the tasks."""
        return (cls, AtomDeck, PlaneDeck)

    @property
    def observed(self) -> "Observed":
        """Entries of the list `observe`."""
        names = [name for name in Observed.__dataclass_fields__ if name in Observable.model_fields]
        found = entries(self.observe, [name for name in names if name != "ionisation"])
        # every run of a scan tells what its pulses have ionised
        scanned = self.scan is not None and self.laser is not None
        ionisation = scanned or any(item.ionisation for item in self.observe)
        return Observed(ionisation=ionisation, **found)  # type: ignore[arg-type]

    @property
    def propagation(self) -> "PropagationBlocks":
        """The blocks of ``task: propagate``; `check` has seen to it that they are given."""
        assert self.grid is not None
        assert self.potential is not None
        assert self.time is not None
        return PropagationBlocks(
            self.grid,
            self.potential,
            self.initial,
            self.laser,
            self.absorber,
            self.time,
            self.solver,
            self.observed,
            self.precision,
            self.spectra,
        )

    @property
    def precision(self) -> "Precision":
        """Precision of the run; `check` refuses a mixed one."""
        return "single" if self.run.precision == "single" else "double"

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        # blocks that only another task knows: they would be read and then ignored
        given = self.model_fields_set
        for task, keys in OF_TASK.items():
            for key in keys:
                if key in given and key not in OF_TASK[self.task] and task != self.task:
                    tasks = " or ".join(name for name, own in OF_TASK.items() if key in own)
                    yield Finding(
                        key, f"this block belongs to task: {tasks}, but the deck has task: {self.task}"
                    )
        for key, example in REQUIRED[self.task].items():
            if getattr(self, key) is None:
                yield Finding(key, f"missing key; task: {self.task} needs it, for instance {key}: {example}")
        if self.run.precision == "mixed":
            yield Finding("run.precision", "tridiag runs in double or single precision, not mixed")
        yield from self._check_solver()
        if self.task == "propagate":
            yield from self._check_blocks()
            yield from self._check_observe()
            yield from check_spectra(self.spectra, self.absorber)
        elif self.task == "scaling" and isinstance(self.system, FileSystem):
            yield Finding(
                "system.source", "a scaling run makes systems of several sizes; give a generator, not a file"
            )

    def _check_solver(self) -> Iterator[Finding]:
        """Yield keys of the solver that its type or the task does not know."""
        solver = self.solver
        # a key that repeats its default says nothing
        given = {key for key in solver.model_fields_set if getattr(solver, key) != getattr(Solver(), key)}
        if solver.type in ("thomas", "lapack"):
            for key in ("blocks", "iterations"):
                if getattr(solver, key) != "auto":
                    yield Finding(
                        f"solver.{key}", f"{solver.type} knows no blocks; use type nshape, or leave {key} out"
                    )
        if solver.type == "woodbury" and solver.iterations not in ("auto", 1):
            yield Finding("solver.iterations", "Appendix II has no nested partitions; use type nshape")
        if isinstance(solver.blocks, list) and solver.iterations not in ("auto", 1):
            yield Finding(
                "solver.iterations",
                "unequal blocks are one partition; give a number of blocks for nested ones",
            )
        if self.task == "propagate":
            for key in ("on_unstable", "on_singular", "tolerance", "memory"):
                if key in given:
                    yield Finding(f"solver.{key}", "only used by task: solve", "warning")
            if solver.mode != "auto" and solver.type != "nshape":
                yield Finding("solver.mode", f"{solver.mode} is a mode of type nshape, not of {solver.type}")
        elif "mode" in given:
            yield Finding("solver.mode", "only used by task: propagate", "warning")

    def _check_blocks(self) -> Iterator[Finding]:
        """Yield contradictions within the blocks of a propagation."""
        if self.time is not None:
            yield from self.time.check("time", self.absorber)
            if self.time.accuracy is not None and self.absorber.type == "mask":
                yield Finding(
                    "time.accuracy",
                    "a mask depends on the step: take a cap or manolopoulos, or state time.dt",
                )
        for key in ("grid", "laser"):
            block = getattr(self, key)
            if block is not None:
                yield from block.check(key)
        if isinstance(self.initial, SuperpositionInitial):
            yield from self.initial.check("initial")
        if self.scan is not None and self.potential is not None:
            yield from self.scan.check(
                "scan", [] if self.laser is None else self.laser.pulses, self.potential, self.time
            )

    def _check_observe(self) -> Iterator[Finding]:
        """Yield what is wrong with the list of observables, and ranges the wrong way round."""
        yield from check_items(self.observe)
        seen = {name: k for k, one in enumerate(self.observe) for name in one.model_fields_set}
        if (wanted := self.observed.resonance) is not None:
            pulses = [] if self.laser is None else self.laser.pulses
            single = isinstance(self.initial, EigenstateInitial) and self.scan is None
            analytic = self.potential is None or self.potential.analytic
            key = f"observe.{seen['resonance']}.resonance"
            yield from wanted.check(key, pulses, single=single, analytic=analytic)
        if (spectrum := self.observed.photoelectron) is not None and spectrum.energies is not None:
            low, high = spectrum.energies
            if low >= high:
                where = f"observe.{seen['photoelectron']}.photoelectron.energies"
                yield Finding(where, f"the first energy {low:g} must lie below the last, {high:g} hartree")
        if (density := self.observed.density) is not None and density.range is not None:
            low, high = density.range
            if low >= high:
                where = f"observe.{seen['density']}.density.range"
                yield Finding(where, f"the first end {low:g} must lie below the second, {high:g} bohr")


DECK = TridiagDeck


def references(deck: TridiagDeck | AtomDeck | PlaneDeck) -> tuple[str, ...]:
    """Return the BibTeX keys of the algorithms that a deck uses."""
    keys = ["qsim"]
    if isinstance(deck, AtomDeck | PlaneDeck):
        return (
            *keys,
            "CrankNicolson1947",
            "Muller1999",
            *(["Manolopoulos2002"] if deck.absorber.type == "manolopoulos" else []),
        )
    if deck.solver.type in ("nshape", "woodbury") or deck.task == "scaling":
        keys.append("Lutsyshyn")
    if deck.task == "propagate":
        keys.append("CrankNicolson1947")
        if deck.grid is not None and deck.grid.stencil == "numerov":
            keys.append("Muller1999")
        if deck.absorber.type == "manolopoulos":
            keys.append("Manolopoulos2002")
    return tuple(keys)
