"""``system: {type: grid}`` by its levels: a molecule that starts warm, relaxes, sees several fields, or becomes a gate."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Count
from qsim.qoc.deck.functions import DipoleFunction
from qsim.qoc.deck.numbers import SIZE
from qsim.qoc.deck.system import System
from qsim.qoc.deck.systems.jumps import LevelJumps
from qsim.qoc.deck.systems.states import Initial, StatePair, Target

Factor = Annotated[float, SIZE]


class GridSystem(System):
    """The molecule in its lowest levels, -mu E for each field, -(alpha/4) E0^2 for an envelope."""

    type: Literal["grid"] = "grid"
    dipole: DipoleFunction | None = Field(  # type: ignore[assignment]
        default=None,
        description="dipole function: control field, -mu E",
        json_schema_extra={"example": {"type": "mecke", "mu0": 3.088, "rstar": 0.6}},
    )
    dipoles: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,31}$")], DipoleFunction] = Field(
        default={}, description="further dipole functions: a control by each name"
    )
    polarisability: DipoleFunction | None = Field(
        default=None,
        description="polarisability, bohr^3: control envelope, -(alpha/4) E0^2 for the peak field E0(t) of a fast carrier",
    )
    states: Annotated[Count, Field(ge=2, le=400)] | Literal["auto"] = Field(
        default="auto",
        description="levels kept; auto: 12 above the highest level of start and goal, at least 16",
    )
    mass_scale: Factor = Field(
        default=1.0, description="factor of the mass in the kinetic energy: isotopes in one potential"
    )
    potential_scale: Factor = Field(default=1.0, description="factor of the potential")
    jumps: LevelJumps = Field(default=[], description="relaxation and dephasing of the levels")
    initial: Initial | None = Field(default=None, description="start: level, superposition, thermal, file")
    target: Target | None = Field(
        default=None,
        description="goal: level, superposition, list of levels, density, gate on levels, or observable, a formula of H0, x, p, "
        "mu, V and the projectors p0, p1, ...",
    )
    pairs: Annotated[list[StatePair], Field(min_length=1)] | None = Field(  # type: ignore[assignment]
        default=None,
        description="several goals for the same fields, of any kinds and with weights, instead of initial and target",
    )
