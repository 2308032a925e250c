"""Blocks of the tridiag deck that describe the electron, its grid and time steps, and the absorber.

Everything is one-dimensional and in atomic units; the electron has mass 1 and charge -1.  The functions behind the blocks
are in :mod:`qsim.tridiag.propagate.initial` and :mod:`qsim.tridiag.tdse.absorbers`; potentials hold their own.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, ComplexNumber, Count, DeckPath, Finding, PositiveCount, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import UNITS_KEY, Column, LengthUnits, Tabulated
from qsim.core.deck.units import Energy, InverseLength, Length, Time
from qsim.tridiag.deck.numbers import SIGNED, SIZE, exactly_one

__all__ = [
    "Absorber",
    "Grid",
    "Initial",
    "TimeGrid",
    "levels_of",
]

# two walls, and enough points for differences of fourth order between them
MIN_POINTS = 8

# ------------------------------------------------------------------------------------------------ grid


class Grid(Block):
    """Equidistant points, both ends included; hard walls stand at xmin and xmax, where the wavefunction is zero."""

    xmin: Annotated[Length, SIGNED] = Field(
        description="left wall, the first point", json_schema_extra={"example": -200.0}
    )
    xmax: Annotated[Length, SIGNED] = Field(
        description="right wall, the last point", json_schema_extra={"example": 200.0}
    )
    points: Annotated[Count, Field(ge=MIN_POINTS, le=20_000_000_000)] = Field(
        description="number of points", json_schema_extra={"example": 2001}
    )
    stencil: Literal["numerov", "three_point"] = Field(
        default="numerov",
        description="numerov: compact stencil of fourth order at the same cost; three_point: second order",
    )

    @property
    def dx(self) -> float:
        """Spacing, bohr."""
        return (self.xmax - self.xmin) / (self.points - 1)

    @property
    def inner(self) -> int:
        """Number of points between the walls, where the wavefunction is not zero."""
        return self.points - 2

    def check(self, key: str = "grid") -> Iterator[Finding]:
        """Yield what contradicts itself."""
        if self.xmin >= self.xmax:
            yield Finding(f"{key}.xmin", f"xmin = {self.xmin:g} must lie below xmax = {self.xmax:g} bohr")
        # narrower than the rounding of the coordinates: the spacing would be noise
        elif self.xmax - self.xmin < 1e-9 * (1.0 + max(abs(self.xmin), abs(self.xmax))):
            yield Finding(f"{key}.xmax", f"the grid is only {self.xmax - self.xmin:.3g} bohr wide")


# --------------------------------------------------------------------------------------------- initial


class EigenstateInitial(Block):
    """An eigenstate of the field-free Hamiltonian on this very lattice."""

    type: Literal["eigenstate"]
    level: Annotated[Count, Field(le=10_000)] = Field(default=0, description="0: ground state")
    method: Literal["eigensolver", "imaginary_time"] = Field(
        default="eigensolver",
        description="inverse iteration, or relaxation in imaginary time (level 0 only); both give the same state",
    )


class SuperpositionInitial(Block):
    """A superposition of eigenstates, normalised."""

    type: Literal["superposition"]
    levels: Annotated[dict[str, ComplexNumber], Field(min_length=1)] = Field(
        description="{level: weight, ...}; weights may be complex: {0: 1, 1: 0.5i}",
        json_schema_extra={"example": {"0": 1.0, "1": "1i"}},
    )

    def check(self, key: str = "initial") -> Iterator[Finding]:
        """Yield what is wrong with the levels and weights."""
        for name in self.levels:
            if not (name.isascii() and name.isdigit() and int(name) <= 10_000):
                yield Finding(f"{key}.levels", f"levels are 0, 1, 2, ... (at most 10000), found {name!r}")
                return
        if len({int(name) for name in self.levels}) != len(self.levels):
            yield Finding(f"{key}.levels", "duplicate level")
        sizes = [abs(w) for w in self.levels.values()]
        if max(sizes) == 0:
            yield Finding(f"{key}.levels", "all weights of the superposition are zero")
        # squares of extreme weights would overflow or underflow in the norm
        elif not all(s == 0 or 1e-12 < s < 1e12 for s in sizes):
            yield Finding(
                f"{key}.levels", "weights of ordinary size are expected (they are normalised anyway)"
            )

    def weights(self) -> dict[int, complex]:
        """Return the weights by level, lowest level first, not normalised."""
        return {int(name): self.levels[name] for name in sorted(self.levels, key=int)}


class GaussianInitial(Block):
    """A packet ``exp(-(x - x0)^2 / (4 width^2) + i k0 x)``, normalised."""

    type: Literal["gaussian"]
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="mean position")
    k0: Annotated[InverseLength, SIGNED] = Field(default=0.0, description="mean momentum")
    width: Annotated[Length, SIZE] = Field(
        validation_alias=AliasChoices("width", "sigma"),
        description="standard deviation of |psi|^2 (also: sigma)",
        json_schema_extra={"example": 2.0},
    )


class FormulaInitial(Block):
    """Real and imaginary part as formulas of x; normalised."""

    type: Literal["expression"]
    real: Annotated[str, ExpressionText("x")] = Field(description="real part, formula of x")
    imag: Annotated[str, ExpressionText("x")] = Field(default="0", description="imaginary part, formula of x")


class FileInitial(Tabulated):
    """A wavefunction from a file: columns x, re, im; or psi_final of a results file; interpolated and normalised."""

    type: Literal["file"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    units: LengthUnits | None = Field(default=None, description=UNITS_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return x and the two parts of psi, whose unit does not matter: it is normalised."""
        return Column("x", "length"), Column("Re psi", ignored=True), Column("Im psi", ignored=True)

    def table_file(self) -> Path | None:
        """Return the path of a table; None for results of an earlier run, which are in atomic units."""
        return None if self.file.suffix in (".h5", ".hdf5") else self.file


def _initial_form(value: object) -> object:
    """Read ``initial: 2`` as that level, and ``initial: {0: 1, 1: 1i}`` as a superposition."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"type": "eigenstate", "level": value}
    if isinstance(value, dict) and value and all(str(key).isascii() and str(key).isdigit() for key in value):
        return {"type": "superposition", "levels": value}
    return value


_Initial = Annotated[
    EigenstateInitial | SuperpositionInitial | GaussianInitial | FormulaInitial | FileInitial,
    Field(discriminator="type"),
    short_form,
]
Initial = Annotated[
    EigenstateInitial | SuperpositionInitial | GaussianInitial | FormulaInitial | FileInitial,
    Field(discriminator="type"),
    short_form,
    BeforeValidator(_initial_form, json_schema_input_type=_Initial | Count | dict[str, ComplexNumber]),
]


# -------------------------------------------------------------------------------------------- absorber


class CapAbsorber(Block):
    """``-i strength (d / width)^power`` on a strip of that width at either wall, d the depth in the strip."""

    type: Literal["cap"]
    width: Annotated[Length, SIZE] = Field(
        description="width of either strip", json_schema_extra={"example": 50.0}
    )
    strength: Annotated[Energy, SIZE] = Field(
        description="value at the wall, xmin or xmax", json_schema_extra={"example": 5.0e-4}
    )
    power: Annotated[float, Field(ge=1, le=20)] = Field(default=2.0, description="power of the depth")


class ManolopoulosAbsorber(Block):
    """The transmission-free potential of Manolopoulos, J. Chem. Phys. 117, 9552 (2002); its width follows from kmin."""

    type: Literal["manolopoulos"]
    kmin: Annotated[InverseLength, SIZE] = Field(
        default=0.2, description="lowest momentum to absorb; reflection below 1 % above it (delta = 0.2)"
    )
    delta: Annotated[float, Field(ge=1e-3, le=1)] = Field(
        default=0.2, description="accuracy; width = 2.622 / (2 delta kmin)"
    )


class MaskAbsorber(Block):
    """A factor ``cos(pi/2 d / width)^power`` after every step, 0 at the walls; its strength depends on dt."""

    type: Literal["mask"]
    width: Annotated[Length, SIZE] = Field(
        description="width of either strip", json_schema_extra={"example": 50.0}
    )
    power: Annotated[float, Field(gt=0, le=100)] = Field(default=0.125, description="power of the cosine")


class NoAbsorber(Block):
    """Hard walls."""

    type: Literal["none"]


Absorber = Annotated[
    CapAbsorber | ManolopoulosAbsorber | MaskAbsorber | NoAbsorber,
    Field(discriminator="type"),
    short_form,
]


# ------------------------------------------------------------------------------------------------ time


# a.u., of the first trial, by order
FIRST_STEP = {2: 0.1, 4: 0.2}


class TimeGrid(Block):
    """Duration and steps; the field of a step is taken at its midpoint."""

    dt: Annotated[Time, SIZE] | None = Field(
        default=None,
        description="time step, instead of steps; shortened if it does not divide t_final",
        json_schema_extra={"example": 0.05},
    )
    steps: Annotated[PositiveCount, Field(le=10**12)] | None = Field(
        default=None, description="number of steps, instead of dt"
    )
    t_final: Literal["auto"] | Annotated[Time, SIZE] = Field(
        default="auto", description="duration; auto: the end of the last pulse"
    )
    outputs: Annotated[PositiveCount, Field(le=1_000_000)] = Field(
        default=200, description="equidistant output times after t = 0"
    )
    verify: Literal["auto"] | bool = Field(
        default="auto",
        description="repeat the run with other steps and spacings to find the errors of its numbers, which takes half as "
        "long again; auto: if points times steps are at most 2e10 (CPU) or 5e12 (GPU)",
    )
    coarse: Literal["refuse", "warn"] = Field(
        default="refuse",
        description="what to do if dt times an energy exceeds 2, or if fewer than 8 steps make an optical cycle",
    )

    order: Literal[2, 4] = Field(
        default=2,
        description="order of the steps in dt; 4 takes five stages per step and pays above dt of about 0.1",
    )
    accuracy: Annotated[float, Field(ge=1e-10, le=0.01)] | None = Field(
        default=None,
        description="error that the steps may leave in norms and populations, instead of dt and steps: trial runs find the step",
    )

    def check(self, key: str = "time", absorber: Block | None = None) -> Iterator[Finding]:
        """Yield what is missing or given twice, or does not go with the absorber."""
        names = ("dt", "steps") if self.accuracy is None else ("dt", "steps", "accuracy")
        yield from exactly_one(self, key, *names)
        if self.order == 4 and isinstance(absorber, MaskAbsorber):
            yield Finding(
                f"{key}.order", "a mask depends on the step and spoils order 4; take a cap or manolopoulos"
            )
        if self.dt is not None and not isinstance(self.t_final, str) and self.dt > self.t_final:
            yield Finding(
                f"{key}.dt", f"dt = {self.dt:g} a.u. is longer than t_final = {self.t_final:g} a.u."
            )

    def resolve(self, t_final: float) -> tuple[int, float]:
        """Return the number of steps and their length for a duration: dt as given if it divides it, else shorter.

        With `accuracy` they are those of the first trial.
        """
        # a number of steps divides the duration exactly
        if self.steps is not None:
            return self.steps, t_final / self.steps
        if self.accuracy is not None:
            steps = max(1, math.ceil(t_final / FIRST_STEP[self.order]))
            return steps, t_final / steps
        # check() has seen to it
        assert self.dt is not None
        ratio = t_final / self.dt
        # a dt that divides the duration up to rounding of its decimal digits is taken as it is
        nearest = round(ratio)
        steps = nearest if nearest >= 1 and abs(ratio - nearest) <= 1e-6 * nearest else math.ceil(ratio)
        return max(steps, 1), t_final / max(steps, 1)

    def notices(self, steps: int, dt: float) -> Iterator[str]:
        """Yield a note if the steps of a run are shorter than the step of the deck."""
        if self.dt is not None and abs(dt - self.dt) > 1e-5 * dt:
            yield f"time.dt: {self.dt:.6g} does not divide the duration; {steps} steps of {dt:.8g} a.u."


def levels_of(initial: Initial) -> tuple[int, ...]:
    """Return the eigenstates that an initial state is made of; none for a packet, formula or file."""
    if isinstance(initial, EigenstateInitial):
        return (initial.level,)
    return tuple(initial.weights()) if isinstance(initial, SuperpositionInitial) else ()
