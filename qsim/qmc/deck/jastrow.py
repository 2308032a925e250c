"""Blocks of the qmc deck: the Jastrow factor."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, PositiveCount
from qsim.core.deck.units import Length

__all__ = ["Bspline1", "Coefficient", "Jastrow", "OneBody", "PairBody", "Symbol", "no_jastrow"]

MAX_COEFFICIENTS = 200

Symbol = Annotated[str, Field(pattern=r"^[A-Za-z]{1,2}[0-9]*$")]
Coefficient = Annotated[float, Field(gt=-1e6, lt=1e6)]
Range = Annotated[Length, Field(gt=0.05, lt=1e3)]
Values = Annotated[list[Coefficient], Field(min_length=1, max_length=MAX_COEFFICIENTS)]


def _wigner_seitz(value: object) -> object:
    return None if value == "ws" else value


class Bspline1(Block):
    """Base of the functions of electron pairs and of electrons and ions."""

    rcut: Annotated[
        Range | None, BeforeValidator(_wigner_seitz, json_schema_input_type=Range | Literal["ws"] | None)
    ] = Field(
        default=None,
        description="radius from which the function is zero; bspline needs it; in a crystal by default (ws) and at most the "
        "Wigner-Seitz radius",
        json_schema_extra={"example": 8.0},
    )
    size: Annotated[PositiveCount, Field(ge=2, le=MAX_COEFFICIENTS)] = Field(
        default=8, description="number of coefficients of a B-spline"
    )
    b: Annotated[float, Field(ge=0.0, lt=1e4)] | None = Field(
        default=None, description="pade: b of a r / (1 + b r), 1/bohr; by default 1"
    )


class OneBody(Bspline1):
    """Functions of the distance of electron and ion, one for each species."""

    type: Literal["bspline", "pade"] = Field(default="bspline", description="form of the functions")
    coefficients: dict[Symbol, Values] = Field(
        default={},
        description="by species; bspline: as in QMCPACK, pade: b.  By default zero",
    )
    cusp: (
        Literal["auto"]
        | Annotated[float, Field(gt=-1e3, lt=1e3)]
        | dict[Symbol, Annotated[float, Field(gt=-1e3, lt=1e3)]]
    ) = Field(
        default="auto", description="slope at the ion; auto: what the orbitals leave of Kato's condition"
    )


class PairBody(Bspline1):
    """Functions of the distance of two electrons, of equal (uu) and of opposite spins (ud)."""

    type: Literal["bspline", "pade", "log1p"] = Field(
        default="bspline", description="form of the functions; log1p: -log(1 + a r), exact for Hooke's atom"
    )
    coefficients: dict[Literal["uu", "ud"], Values] = Field(
        default={},
        description="by pair; bspline: as in QMCPACK, pade: b.  By default near a / (1 + r)",
    )


def _body_form(value: object) -> object:
    """Read ``J2: pade`` as ``J2: {type: pade}``."""
    return {"type": value} if isinstance(value, str) else value


class Jastrow(Block):
    """The Jastrow factor ``exp(-J)``."""

    J1: (
        Annotated[
            OneBody, BeforeValidator(_body_form, json_schema_input_type=OneBody | Literal["bspline", "pade"])
        ]
        | None
    ) = Field(
        default=None, description="electron and ion", json_schema_extra={"example": {"rcut": 8.0, "size": 8}}
    )
    J2: (
        Annotated[
            PairBody,
            BeforeValidator(
                _body_form, json_schema_input_type=PairBody | Literal["bspline", "pade", "log1p"]
            ),
        ]
        | None
    ) = Field(
        default=None, description="two electrons", json_schema_extra={"example": {"rcut": 8.0, "size": 8}}
    )


def no_jastrow(value: object) -> object:
    """Read ``jastrow: none``."""
    return {} if value is None or value == "none" else value
