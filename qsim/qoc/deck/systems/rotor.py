"""``system: {type: rotor}``: a linear molecule that a field orients or aligns."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count
from qsim.core.deck.units import CODATA, Dipole, Quantity
from qsim.core.text import shorten
from qsim.qoc.deck.numbers import SIGNED, SIZE
from qsim.qoc.deck.systems.jumps import LevelJumps
from qsim.qoc.deck.systems.quantities import TemperatureValue
from qsim.qoc.deck.systems.states import Initial, StatePair, Target

_BOHR_PER_ANGSTROM = 1e-10 / CODATA["atomic unit of length"]
_VOLUME = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?:angstrom|A)\^?3\s*")


def _volume(value: object) -> object:
    """Return a polarisability volume in bohr^3; text in cubic angstrom."""
    if not isinstance(value, str):
        return value
    match = _VOLUME.fullmatch(value)
    if match is None:
        raise ValueError(
            f"expected a number (bohr^3) or text such as '0.69 angstrom^3', found {shorten(repr(value))}"
        )
    return float(match[1]) * _BOHR_PER_ANGSTROM**3


Polarisability = Annotated[float, SIGNED, BeforeValidator(_volume, json_schema_input_type=float | str)]


# The lightest molecule, H2, has 2.8e-4 hartree.
ROTATION = Quantity("frequency", ((1e-3, 1e4, "cm-1"),))


class RotorSystem(Block):
    """Linear rotor in a linearly polarised field; M is conserved, each M of the start is a block of the matrices."""

    # Bare numbers are in atomic units, and so are the fields.
    unit: ClassVar[str] = "hartree"
    fields: ClassVar[bool] = True

    type: Literal["rotor"]
    B: Annotated[float, ROTATION, SIZE] = Field(description="rotational constant, H0 = B J(J+1)")
    dipole: Annotated[Dipole, SIGNED] | None = Field(
        default=None, description="permanent dipole: control field, -dipole E cos"
    )
    dalpha: Polarisability | None = Field(
        default=None,
        description="anisotropy of the polarisability, bohr^3: control envelope, -(dalpha/4) E0^2 cos^2 for the peak field E0(t) "
        "of a fast carrier",
    )
    J_max: Annotated[Count, Field(ge=2, le=1000)] | Literal["auto"] = Field(
        default=40,
        description="highest J kept; above 2 P + 10 for kicks of strength P; auto: 30 above the start and the goal, at least 40",
    )
    spin_weights: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=2)] = Field(
        default=[1.0, 1.0], description="nuclear weights of even and odd J in thermal starts"
    )
    jumps: LevelJumps = Field(
        default=[],
        description="collisions, rates: {J: {J': rate}} from any M to all M' alike or with M kept; lifetimes of J, dephasing",
    )
    temperature: TemperatureValue | None = Field(
        default=None, description="thermal start, instead of initial: {thermal: ...}"
    )
    initial: Initial | None = Field(
        default=None, description='start: "J,M", J (M = 0), superposition, thermal'
    )
    target: Target | None = Field(
        default=None,
        description='goal: "J,M", J (M = 0), list, gate on labels, or observable, a formula of cos, cos2, J2',
    )
    pairs: Annotated[list[StatePair], Field(min_length=1)] | None = Field(
        default=None,
        description="several goals for the same field, of any kinds and with weights, instead of initial and target",
    )
