"""Blocks of a deck for collisions: the task and the state that the collision begins with."""

from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, DeckPath, PositiveCount
from qsim.core.deck.units import CollisionEnergy, InverseLength
from qsim.sturmian.deck.blocks import as_list
from qsim.sturmian.deck.photon import MOST_PHOTONS, Excess, ExcessRange, Photon, PhotonRange, values_of

# Energies of one run.
MOST = 2000
# Largest principal quantum number of the ion that photon energies show by default.
PHOTON_LEVELS = 3

Positive = Annotated[CollisionEnergy, Field(gt=0.0, lt=1e5)]
Energies = Positive | Annotated[list[Positive], Field(min_length=1, max_length=MOST)]


class EnergyRange(Block):
    """An even grid of impact energies."""

    first: Positive = Field(alias="from", description="first")
    to: Positive = Field(description="last")
    count: Annotated[PositiveCount, Field(ge=2, le=MOST)] = Field(
        default=100, description="how many", validation_alias=AliasChoices("count", "points")
    )

    def values(self) -> list[float]:
        """Return the energies, hartree, ascending."""
        step = (self.to - self.first) / (self.count - 1)
        return [self.first + k * step for k in range(self.count - 1)] + [self.to]


Total = Annotated[CollisionEnergy, Field(gt=-1e6, lt=1e5)]


class NearRange(EnergyRange):
    """An even grid of total energies, from each of which the nearest resonance is sought."""

    first: Total = Field(alias="from", description="first")
    to: Total = Field(description="last; resonances beyond the range are not shown")
    count: Annotated[PositiveCount, Field(ge=2, le=MOST)] = Field(
        default=10, description="how many", validation_alias=AliasChoices("count", "points")
    )


Gauge = Literal["length", "velocity", "acceleration"]


def _observable(value: object) -> object:
    """Read the name that fully differential cross sections of three bodies have in the literature."""
    return "fdcs" if value == "tdcs" else value


Observable = Annotated[
    Literal[
        "sigma",
        "excitation",
        "unitarity",
        "sdcs",
        "fdcs",
        "scattering_length",
        "eigenphases",
        "partial",
        "beta",
        "phases",
        "fano",
        "sum_rules",
    ],
    BeforeValidator(
        _observable,
        json_schema_input_type=Literal[
            "sigma",
            "excitation",
            "unitarity",
            "sdcs",
            "fdcs",
            "tdcs",
            "scattering_length",
            "eigenphases",
            "partial",
            "beta",
            "phases",
            "fano",
            "sum_rules",
        ],
    ),
]


class Scatter(Block):
    """Collisions: electrons on a one-electron target, photons or fast charges on two electrons; or resonances."""

    type: Literal["scatter"]
    process: Literal["e_h", "photo", "born", "resonances"] = Field(
        default="e_h",
        description="e_h: an electron hits a one-electron target in 1s; photo: photoionisation; born: a fast charge ionises two "
        "electrons in first Born approximation, (e,2e) and (e,3e); resonances: complex energies of the scaled Hamiltonian",
    )
    energy: Energies | EnergyRange | None = Field(
        default=None,
        description="impact energy, a list or a range (e_h)",
        json_schema_extra={"example": ["27.2 eV", "54.4 eV"]},
    )
    excess: Excess | Annotated[list[Excess], Field(min_length=1, max_length=MOST)] | ExcessRange | None = (
        Field(
            default=None,
            description="energy of the two electrons far away, a list or a range (photo): photon energy minus double ionisation "
            "energy; where one is negative, all are treated as photon energies",
            json_schema_extra={"example": "20 eV"},
        )
    )
    photon: (
        Photon | Annotated[list[Photon], Field(min_length=1, max_length=MOST_PHOTONS)] | PhotonRange | None
    ) = Field(
        default=None,
        description="photon energy, a list or a range, instead of excess: single photoionisation at any energy (photo)",
    )
    threshold: Literal["extrapolated", "grid"] = Field(
        default="extrapolated",
        description="energy of the initial state from which photon energies count: of all partial waves, or of the grid",
    )
    compare: DeckPath | None = Field(
        default=None,
        description="columns: photon energy in eV, cross section in Mb and its error, drawn beside the curve (photon)",
    )
    gauges: Annotated[list[Gauge], Field(min_length=1, max_length=3)] = Field(
        default=["length", "velocity"], description="forms of the dipole operator (photo)"
    )
    incident: Positive | None = Field(default=None, description="energy of the fast charge (born)")
    q: Annotated[InverseLength, Field(gt=1e-4, lt=50.0)] | None = Field(
        default=None, description="momentum transfer, along z (born)"
    )
    ejected: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="energies of the two electrons: required for born; elsewhere for fdcs, equal by default",
    )
    observables: Annotated[list[Observable], Field(min_length=1, max_length=8)] = Field(
        default=["sigma", "excitation", "unitarity", "sdcs"],
        description="sigma: totals; excitation: levels of the target or ion; sdcs: energy sharing; fdcs (or tdcs): angles, "
        "coplanar; scattering_length: from four energies or more up to 0.85 eV, of a neutral target (e_h); eigenphases: sums "
        "over all open channels (e_h); photon: all of partial (levels and channels), beta, phases, fano and sum_rules, unless "
        "some are named",
    )
    levels: Annotated[PositiveCount, Field(le=10)] = Field(
        default=4,
        description="largest principal quantum number of excitation; of photon energies 3 by default",
    )
    angles: Annotated[Count, Field(ge=9, le=361)] = Field(
        default=73, description="angles of each electron from -180 to 180 degrees (fdcs)"
    )
    near: Total | Annotated[list[Total], Field(min_length=1, max_length=20)] | NearRange | None = Field(
        default=None,
        description="total energies near which resonances are sought, one of each; of a range all that are found in it "
        "(resonances)",
        json_schema_extra={"example": -0.778},
    )
    errors: bool = Field(
        default=True,
        description="repeat the run on a coarser grid with a smaller box and angle, and with fewer partial waves, for the errors",
    )

    @property
    def sought(self) -> list[float]:
        """Total energies near which resonances are sought, hartree."""
        if isinstance(self.near, NearRange):
            return self.near.values()
        return [] if self.near is None else as_list(self.near)

    @property
    def by_photons(self) -> bool:
        """True if photon energies share one space: the deck gives them, or an excess below double ionisation."""
        if self.process != "photo":
            return False
        return self.photon is not None or any(value < 0.0 for value in values_of(self.excess))

    @property
    def highest(self) -> int:
        """Largest principal quantum number of the levels that are shown."""
        if self.by_photons and "levels" not in self.model_fields_set:
            return PHOTON_LEVELS
        return self.levels


class Initial(Block):
    """The bound state that a photon or a fast charge meets, found in the same grid."""

    S: Annotated[Count, Field(le=1)] = Field(default=0, description="total spin: 0 singlet, 1 triplet")
    root: Annotated[Count, Field(le=9)] = Field(default=0, description="0: the lowest state of this spin")
    L: Annotated[Count, Field(le=4)] = Field(default=0, description="total orbital momentum")
    l_max: Annotated[Count, Field(le=20)] | None = Field(
        default=None, description="pairs up to this orbital momentum; by default as in the channels"
    )
    file: DeckPath | None = Field(
        default=None,
        description="results of task: bound; the initial state is refused if it is not the one of this file",
    )
