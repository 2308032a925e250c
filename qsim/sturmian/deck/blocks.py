"""Blocks of the sturmian deck: nucleus, radial grid, basis, angular channels and states.

Everything is in Hartree atomic units.  The functions behind the blocks are in :mod:`qsim.sturmian.radial.potentials`,
:mod:`qsim.sturmian.radial.grid`, :mod:`qsim.sturmian.radial.sturmians` and :mod:`qsim.sturmian.two_electron.angular`.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, DeckPath, Finding, PositiveCount, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import (
    INTERPOLATION_KEY,
    UNITS_KEY,
    Column,
    Interpolation,
    RadialUnits,
    Tabulated,
)
from qsim.core.deck.units import Angle, Energy, InverseLength, Length

__all__ = [
    "Auxiliary",
    "Basis",
    "Channels",
    "Generating",
    "Grid",
    "Potential",
    "State",
    "System",
    "as_list",
]

# Orbital momentum of an electron; beyond, r^l spans more than the exponent of a double.
MAX_L = 60
MAX_N = 10_000
MAX_ORDER = 60

Charge = Annotated[float, Field(gt=0.0, le=1000.0)]
Radius = Annotated[Length, Field(gt=1e-3, lt=1e6)]
Range = Annotated[InverseLength, Field(gt=1e-6, lt=1e4)]
Momentum = Annotated[Count, Field(le=MAX_L)]
Spin = Annotated[Count, Field(le=1)]
AUTO = "auto"
# Rad and bohr, of a contour, where nothing speaks against them.
ANGLE, LENGTH = 0.3, 25.0
LESS = "basis.N, or take solver.type: matrix_free (Davidson; Krylov in collisions), which needs no matrix"
"""Remedy for a dense matrix that does not fit; follows "lower"."""


def as_list(value: Any) -> list[Any]:
    """Return a list: the value itself, or the only entry."""
    return list(value) if isinstance(value, list | tuple) else [value]


# ----------------------------------------------------------------------------------- one-body potentials


class CoulombPotential(Block):
    """``-Z / r``."""

    type: Literal["coulomb"]


class PotentialTable(Tabulated):
    """Two columns, r and V; a curve of ``r V`` keeps to the rows; beyond them ``-charge / r``."""

    type: Literal["table"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    units: RadialUnits | None = Field(default=None, description=UNITS_KEY)
    interpolation: Interpolation = Field(default="auto", description=INTERPOLATION_KEY)
    charge: Annotated[float, Field(ge=-1000.0, le=1000.0)] | Literal["auto"] = Field(
        default="auto", description="charge that an electron sees far away; auto: from the last row"
    )

    def columns(self) -> tuple[Column, ...]:
        """Return r and V."""
        return Column("r", "length"), Column("V", "energy")


class PotentialFormula(Block):
    """A formula of r in atomic units, as in ``-2/r - 0.1*exp(-r)/r``; the charge of the nucleus may be written Z."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("r", "Z")] = Field(
        description="formula of r and Z", json_schema_extra={"example": "-(1 + (Z - 1)*exp(-2*r))/r"}
    )
    charge: Annotated[float, Field(ge=-1000.0, le=1000.0)] | Literal["auto"] = Field(
        default="auto",
        description="charge that an electron sees far away; auto: -r V far outside",
    )


Potential = Annotated[
    CoulombPotential | PotentialTable | PotentialFormula, Field(discriminator="type"), short_form
]


class System(Block):
    """A nucleus, or a core, and its two electrons."""

    Z: Charge = Field(description="charge of the nucleus", json_schema_extra={"example": 2.0})
    potential: Potential = Field(
        default=CoulombPotential(type="coulomb"),
        description="potential energy of one electron",
        validate_default=True,
    )


# ------------------------------------------------------------------------------------------------ grid


class Ecs(Block):
    """Exterior complex scaling: beyond R the radius turns into the complex plane, ``r = R + exp(i angle) s``."""

    angle: Literal["auto"] | Annotated[Angle, Field(gt=0.0, lt=0.785)] = Field(
        default="auto",
        description="angle; auto: 0.3 rad, in collisions less where the grid has so many points that the eigenvectors of one "
        "electron would become nearly dependent",
    )
    length: Literal["auto"] | Radius = Field(
        default="auto",
        description="length of the contour, bohr; auto: 25, in collisions more where the electron outside is slow",
    )

    @property
    def usual(self) -> float:
        """Angle, rad, with the usual one in place of ``auto``."""
        return ANGLE if isinstance(self.angle, str) else float(self.angle)

    @property
    def reach(self) -> float:
        """Length, bohr, with the usual one in place of ``auto``."""
        return LENGTH if isinstance(self.length, str) else float(self.length)


def _grid_form(value: object) -> object:
    return {} if value == AUTO else value


class Grid(Block):
    """Radial FE-DVR: Gauss-Lobatto points in elements that grow from the nucleus outwards; ``grid: auto`` sets all keys."""

    R: Literal["auto"] | Radius = Field(
        default="auto",
        description="radius of the box, start of the contour; auto: holds the weakest bound state, 12/sqrt(2 I) + 8/Z at least",
        json_schema_extra={"example": 24.0},
    )
    order: Annotated[PositiveCount, Field(ge=3, le=MAX_ORDER)] = Field(
        default=12, description="Gauss-Lobatto points of an element, ends included"
    )
    elements: (
        Literal["auto"]
        | Annotated[PositiveCount, Field(le=100_000)]
        | Annotated[list[Annotated[Length, Field(ge=0.0, lt=1e6)]], Field(min_length=1, max_length=100_000)]
    ) = Field(
        default="auto",
        description="auto: 0.2/Z wide at the nucleus, each 1.4 times the one before, 5 at most; a number of such elements; or "
        "a list of their bounds up to R",
    )
    ecs: Ecs | None = Field(default=None, description="complex contour beyond R, for outgoing functions")

    def check(self, key: str = "grid") -> Iterator[Finding]:
        """Yield what contradicts itself."""
        bounds = self.elements
        if not isinstance(bounds, list):
            return
        for k, (a, b) in enumerate(pairwise(bounds)):
            if b - a < 1e-6 * b:
                text = f"bounds of elements must ascend, but {b:g} follows {a:g}"
                yield Finding(f"{key}.elements.{k + 1}", text)
                return
        if bounds[-1] <= 1e-3:
            yield Finding(f"{key}.elements", f"the last element ends at {bounds[-1]:g} bohr")
        elif not isinstance(self.R, str) and abs(bounds[-1] - self.R) > 1e-9 * self.R:
            text = f"the last element ends at {bounds[-1]:g}, but R = {self.R:g} bohr"
            yield Finding(f"{key}.elements", text)

    @property
    def bounds(self) -> list[float] | None:
        """Bounds of the elements from 0 to R, where the deck lists them."""
        if not isinstance(self.elements, list):
            return None
        return [0.0, *(value for value in self.elements if value > 0.0)]


GridBlock = Annotated[Grid, BeforeValidator(_grid_form, json_schema_input_type=Grid | Literal["auto"])]

# -------------------------------------------------------------------------------------- generating potentials


class Yukawa(Block):
    """``exp(-alpha r) / r``: the best choice for bound states."""

    type: Literal["yukawa"]
    alpha: Literal["auto"] | Range = Field(
        default="auto", description="inverse range; auto: 0.42 sqrt(2 |energy|)"
    )


class CoulombGenerating(Block):
    """``1 / r``: Coulomb-Sturmians, ``kappa = sqrt(-2 energy)``."""

    type: Literal["coulomb"]


class Hulthen(Block):
    """``1 / (exp(alpha r) - 1)``."""

    type: Literal["hulthen"]
    alpha: Literal["auto"] | Range = Field(
        default="auto", description="inverse range; auto: 0.6 sqrt(2 |energy|)"
    )


class Exponential(Block):
    """``exp(-alpha r)``."""

    type: Literal["exponential", "exp"]
    alpha: Literal["auto"] | Range = Field(
        default="auto", description="inverse range; auto: 0.82 sqrt(2 |energy|)"
    )


class SquareWell(Block):
    """1 up to r0; beyond it 0, or ``exp(-(r - r0) / tail)``, on a complex contour too."""

    type: Literal["square_well"]
    r0: Literal["auto"] | Radius = Field(default="auto", description="edge of the well; auto: R")
    tail: Annotated[Length, Field(ge=0.0, lt=1e6)] = Field(
        default=0.0,
        description="decay length beyond r0; outgoing functions need one (4 bohr) to let other channels pass",
    )


class GeneratingTable(Tabulated):
    """Two columns, r and v > 0, joined by a curve that keeps to its rows; beyond them 0. Only the shape of v matters."""

    type: Literal["table"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    units: RadialUnits | None = Field(default=None, description=UNITS_KEY)
    interpolation: Interpolation = Field(default="auto", description=INTERPOLATION_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return r and v."""
        return Column("r", "length"), Column("V", "energy")


Generating = Annotated[
    Yukawa | CoulombGenerating | Hulthen | Exponential | SquareWell | GeneratingTable,
    Field(discriminator="type"),
    short_form,
]


class Auxiliary(Block):
    """``-charge / r``: another auxiliary potential U of the basis than the one-body potential of the system."""

    charge: Annotated[float, Field(ge=-1000.0, le=1000.0)] = Field(description="charge of U")


class Gsf(Block):
    """Generalised Sturmian functions, ``(T_l + U - energy) S_n = beta_n v S_n`` with v the generating potential."""

    type: Literal["gsf", "sturmian"]
    generating: Generating = Field(
        default=Yukawa(type="yukawa"),
        description="generating potential v",
        validate_default=True,
        json_schema_extra={"example": {"type": "yukawa", "alpha": "auto"}},
    )
    energy: Literal["auto", "total"] | Annotated[Energy, Field(gt=-1e7, lt=1e5)] = Field(
        default="auto",
        description="energy of the functions; auto: minus the ionisation energy of the weakest bound state; total: that of a "
        "collision",
    )
    N: (
        Annotated[PositiveCount, Field(le=MAX_N)]
        | Annotated[
            list[Annotated[PositiveCount, Field(le=MAX_N)]], Field(min_length=1, max_length=MAX_L + 1)
        ]
    ) = Field(
        default=35,
        description="functions of each l; a list gives them for l = 0, 1, ..., its last for the rest",
    )
    boundary: Literal["auto", "bound", "outgoing"] = Field(
        default="auto",
        description="behaviour at R; auto: bound for a negative energy, outgoing for a positive one",
    )
    auxiliary: Auxiliary | None = Field(
        default=None,
        validation_alias=AliasChoices("auxiliary", "U"),
        description="auxiliary potential U; by default the potential of the system (also: U)",
    )

    def size(self, l: int) -> int:
        """Return the number of functions of an l."""
        sizes = as_list(self.N)
        return int(sizes[min(l, len(sizes) - 1)])


class FeDvr(Block):
    """The whole FE-DVR grid as the basis: exact in the box, the reference of every other basis."""

    type: Literal["fedvr"]


Basis = Annotated[Gsf | FeDvr, Field(discriminator="type"), short_form]

# ------------------------------------------------------------------------------------- channels and states

PairList = Annotated[
    list[Annotated[list[Momentum], Field(min_length=2, max_length=2)]],
    Field(min_length=1, max_length=2000),
]


class Channels(Block):
    """Total angular momentum and spin, and the pairs (la, lb) of orbital momenta."""

    L: (
        Annotated[Count, Field(le=20)]
        | Annotated[list[Annotated[Count, Field(le=20)]], Field(min_length=1, max_length=21)]
        | None
    ) = Field(
        default=None,
        description="total orbital momentum, or a list; 0 by default",
        json_schema_extra={"example": 0},
    )
    S: Spin | Annotated[list[Spin], Field(min_length=1, max_length=2)] | None = Field(
        default=None,
        description="total spin: 0 singlet, 1 triplet, or a list; 0 by default",
        json_schema_extra={"example": 0},
    )
    parity: Literal["natural", "unnatural", "even", "odd"] = Field(
        default="natural", description="parity of la + lb; natural: that of L, unnatural: the other one"
    )
    l_max: Momentum | None = Field(
        default=None,
        description="all pairs up to this orbital momentum; by default 4, or L + 2 if that is more",
        json_schema_extra={"example": 4},
    )
    pairs: PairList | None = Field(
        default=None, description="list of [la, lb] instead of l_max; the exchanged pair is implied"
    )


class State(Block):
    """One state: its symmetry and its number in it."""

    L: Annotated[Count, Field(le=20)] = Field(default=0, description="total orbital momentum")
    S: Spin = Field(default=0, description="total spin: 0 singlet, 1 triplet")
    root: Annotated[Count, Field(le=99)] = Field(default=0, description="0: lowest of this symmetry")
    parity: Literal["natural", "unnatural", "even", "odd"] = Field(
        default="natural", description="parity of la + lb; natural: that of L, unnatural: the other one"
    )
