"""Blocks of the qmc deck: expansions in Slater determinants."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from qsim.core.deck.blocks import Block, Count, Integer, PositiveCount
from qsim.core.deck.units import Energy

__all__ = ["Determinant", "Determinants", "States"]

MOST = 1_000_000
MAX_ORBITALS = 2000
CALCULATED = ("casscf", "casci", "fci")

MOST_STATES = 100

Coefficient = Annotated[float, Field(gt=-1e6, lt=1e6)]
Occupied = Annotated[list[Annotated[Count, Field(lt=MAX_ORBITALS)]], Field(max_length=MAX_ORBITALS)]


class Determinant(Block):
    """One determinant: a coefficient and the orbitals of both spins, counted from 0."""

    c: Coefficient | Annotated[list[Coefficient], Field(min_length=1, max_length=MOST_STATES)] = Field(
        description="coefficient, that of orbitals in ascending order, all with spin up first; of several states one for each",
        json_schema_extra={"example": 0.95},
    )
    up: Occupied = Field(
        default=[], description="orbitals with spin up", json_schema_extra={"example": [0, 1]}
    )
    down: Occupied = Field(
        default=[], description="orbitals with spin down", json_schema_extra={"example": [0, 1]}
    )


Listing = Annotated[list[Determinant], Field(min_length=1, max_length=MOST)]
Space = Annotated[list[Annotated[Integer, Field(ge=0, le=MAX_ORBITALS)]], Field(min_length=2, max_length=2)]
Weights = Annotated[list[Annotated[float, Field(ge=0.0, lt=1e6)]], Field(min_length=1, max_length=100)]


class Determinants(Block):
    """An expansion in Slater determinants: listed, of the orbitals' file, or of a calculation by PySCF."""

    source: Literal["list", "file", "casscf", "casci", "fci"] = Field(
        default="file",
        description="list: as listed here, the default where there is a list; file: what the orbitals' file holds (chkfile, "
        "qmcpack, trexio); casscf, casci, fci: complete active space or full configuration interaction of source: pyscf",
    )
    list: Listing | None = Field(default=None, description="the determinants; their norm does not matter")
    active: Space | None = Field(
        default=None,
        description="casscf, casci: numbers of active electrons and orbitals",
        json_schema_extra={"example": [8, 8]},
    )
    average: Weights | None = Field(
        default=None, description="casscf: weights of the states whose mean energy the orbitals minimise"
    )
    state: Annotated[Count, Field(lt=1000)] = Field(
        default=0,
        description="state of the list, the calculation or the file, 0 the lowest; for several of them there is states",
    )
    cutoff: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=1e-3,
        description="least modulus of a coefficient that is kept; a list is taken as it is",
    )
    csf: bool = Field(
        default=True,
        description="keep whole configurations: all determinants of one spatial occupation, if one of them passes the cutoff; an "
        "optimisation leaves the ratios of their coefficients",
    )
    most: Annotated[PositiveCount, Field(le=MOST)] = Field(
        default=20_000, description="determinants that are accepted"
    )
    energy: Annotated[Energy, Field(gt=-1e7, lt=1e7)] | None = Field(
        default=None, description="energy that the calculation or the file must give for the state"
    )
    energy_tolerance: Annotated[Energy, Field(gt=0.0, lt=1e3)] = Field(
        default=1e-5, description="how closely it must do so"
    )

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, data: Any) -> Any:
        """Read a list alone as ``source: list``, so that the resolved deck has it."""
        if isinstance(data, dict) and "list" in data and "source" not in data:
            return {**data, "source": "list"}
        return data

    @property
    def is_calculated(self) -> bool:
        """Return True if PySCF finds the expansion."""
        return self.source in CALCULATED

    def of(self, root: int, roots: Sequence[int]) -> "Determinants":
        """Return the block of one of several states, for each of which the same calculation is wanted."""
        average = self.average
        if self.is_calculated and average is None:
            average = [1.0] * (1 + max(roots))
        return self.model_copy(update={"state": root, "average": average})


class States(Block):
    """Several states of one expansion: all sections are run for each of them, and energies compared."""

    roots: Annotated[list[Annotated[Count, Field(lt=1000)]], Field(min_length=2, max_length=MOST_STATES)] = (
        Field(
            default=[0, 1],
            description="states of the expansion, counted from 0; gaps are from the first one",
        )
    )
    penalty: Annotated[Energy, Field(ge=0.0, lt=1e6)] | Literal["auto"] = Field(
        default="auto",
        description="energy for each unit of squared overlap with the states listed before, in optimisations; auto: twice the "
        "gap and the standard deviation of the local energy at the start; 0: none, steps follow the nearest state",
    )
