"""Blocks of the sections that a qmc run goes through, and of what it measures on the way."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AliasChoices, BeforeValidator, Field, create_model

from qsim.core.deck.blocks import Block, Count, PositiveCount
from qsim.core.deck.units import Energy, Time
from qsim.qmc.estimators.collection import blocks
from qsim.qmc.estimators.histograms import EstimatorBlock

__all__ = [
    "MAX_VIRTUAL",
    "Dmc",
    "Estimator",
    "EstimatorChoice",
    "EstimatorItem",
    "Optimize",
    "Section",
    "SectionItem",
    "Vmc",
]

MAX_WALKERS = 10_000_000
MAX_BLOCKS = 1_000_000
MAX_VIRTUAL = 100_000
MAX_TIMESTEPS = 32  # of one section: its random numbers are counted apart for each
LONGEST = 100.0  # 1/hartree: a time step beyond which nothing is accepted

WalkerCount = Annotated[PositiveCount, Field(ge=2, le=MAX_WALKERS)]
BlockCount = Annotated[PositiveCount, Field(le=MAX_BLOCKS)]
Steps = Annotated[PositiveCount, Field(le=1_000_000)]
TimeStep = Annotated[Time, Field(gt=0.0, le=LONGEST)]
WALKERS = "number of walkers; by default as in the section before, or 2048"

# --------------------------------------------------------------------------------------- sections


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


Varied = Literal["jastrow", "coefficients", "orbitals"]


class Optimize(Block):
    """Optimise parameters of the trial function: Jastrow factor, coefficients of determinants, their orbitals."""

    walkers: WalkerCount | None = Field(default=None, description=WALKERS)
    iterations: Annotated[PositiveCount, Field(le=10_000)] = Field(
        default=10, description="changes of the parameters"
    )
    parameters: Annotated[
        list[Varied],
        Field(min_length=1, max_length=3),
        BeforeValidator(_as_list, json_schema_input_type=list[Varied] | Varied),
    ] = Field(
        default=["jastrow"],
        description="what is optimised, together: jastrow, coefficients (of determinants; with csf: true of whole occupations), "
        "orbitals (which mix with each other and with unoccupied ones; in open boundaries)",
    )
    virtual: Annotated[Count, Field(le=MAX_VIRTUAL)] | None = Field(
        default=None,
        description="orbitals that no determinant has and that orbitals may mix with, the first ones of their source; by default "
        "all that it has",
    )
    symmetry: bool = Field(
        default=True,
        description="orbitals that reflections or half turns along the axes tell apart do not mix",
    )
    target: Literal["energy", "variance", "mixed"] = Field(
        default="energy", description="what is made small; mixed: energy and a share of the variance"
    )
    method: Literal["linear", "sr"] = Field(
        default="linear", description="linear method, or stochastic reconfiguration"
    )
    steps: Steps = Field(default=10, description="samples of each walker for one change of the parameters")
    sweeps: Steps = Field(default=2, description="moves of all electrons between two samples")
    warmup: Annotated[Count, Field(le=1_000_000)] = Field(
        default=50, description="moves of all electrons before the samples of an iteration"
    )
    timestep: TimeStep | Literal["auto"] = Field(
        default="auto",
        validation_alias=AliasChoices("timestep", "dt", "tau"),
        description="time step of the moves, 1/hartree; auto: the warm-up finds it, and moves are shorter near nuclei",
    )
    move: Literal["drift", "metropolis"] = Field(
        default="drift", description="proposals with drift, or plain Metropolis"
    )
    weight: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.05, description="target: mixed: weight of the variance; the energy has the rest"
    )
    shift: Annotated[Energy, Field(gt=0.0, lt=1e4)] | None = Field(
        default=None,
        description="stabilising shift of the first iteration; it adapts itself; by default the method chooses",
    )


class Vmc(Block):
    """Variational Monte Carlo: expectation values of the trial function."""

    walkers: WalkerCount | None = Field(default=None, description=WALKERS)
    blocks: BlockCount = Field(default=100, description="blocks; a finished run may be resumed with more")
    steps: Steps = Field(default=50, description="generations of a block: measurements of each walker")
    sweeps: Steps = Field(default=1, description="moves of all electrons before each measurement")
    warmup: Annotated[Count, Field(le=10_000_000)] = Field(
        default=200, description="moves of all electrons before the first block"
    )
    timestep: TimeStep | Literal["auto"] = Field(
        default="auto",
        validation_alias=AliasChoices("timestep", "dt", "tau"),
        description="time step of the moves, 1/hartree; auto: the warm-up finds it, and moves are shorter near nuclei",
    )
    move: Literal["drift", "metropolis"] = Field(
        default="drift", description="proposals with drift, or plain Metropolis"
    )


_NONLOCAL = {"tmove_v1": "tmove", "tmoves": "tmove", "la": "locality", "LA": "locality"}


def _nonlocal_form(value: object) -> object:
    return _NONLOCAL.get(value, value) if isinstance(value, str) else value


class Dmc(Block):
    """Diffusion Monte Carlo: the lowest energy with the nodes of the trial function."""

    walkers: WalkerCount | None = Field(
        default=None, validation_alias=AliasChoices("walkers", "target"), description=WALKERS
    )
    timesteps: Annotated[
        list[TimeStep],
        Field(min_length=1, max_length=MAX_TIMESTEPS),
        BeforeValidator(_as_list, json_schema_input_type=list[TimeStep] | TimeStep),
    ] = Field(
        default=[0.02, 0.01, 0.005],
        validation_alias=AliasChoices("timesteps", "timestep", "dt", "tau"),
        description="time steps, 1/hartree, each continuing from the walkers of the one before",
    )
    blocks: BlockCount = Field(
        default=200, description="blocks at each time step; a finished run may be resumed with more"
    )
    steps: Steps = Field(default=50, description="generations of a block")
    warmup: Annotated[Time, Field(ge=0.0, le=1e5)] = Field(
        default=10.0, description="imaginary time before the first block, 1/hartree"
    )
    extrapolate: Literal["linear", "quadratic", "none"] = Field(
        default="linear", description="fit to the energies of all time steps that gives the one at zero"
    )
    nonlocal_: Annotated[
        Literal["tmove", "locality"],
        BeforeValidator(
            _nonlocal_form,
            json_schema_input_type=Literal["tmove", "locality", "tmove_v1", "tmoves", "la", "LA"],
        ),
    ] = Field(
        default="tmove",
        alias="nonlocal",
        description="nonlocal pseudopotentials: size-consistent T-moves (tmove_v1), or the locality approximation (la)",
    )
    population: Literal["comb", "birth_death"] = Field(
        default="comb",
        description="comb: fixed number of walkers; birth_death: it fluctuates within 0.5 to 2 times the target",
    )
    branch_every: Annotated[PositiveCount, Field(le=1000)] = Field(
        default=5, description="generations between two branchings"
    )
    feedback: Annotated[Energy, Field(gt=0.0, le=100.0)] = Field(
        default=1.0, description="how strongly the trial energy pulls the population to its target"
    )


Section = Optimize | Vmc | Dmc


class SectionItem(Block):
    """One section of the run; sections follow each other, with the walkers of the one before."""

    optimize: Optimize | None = Field(
        default=None,
        validation_alias=AliasChoices("optimize", "optimise", "opt"),
        description="optimise Jastrow factor, coefficients of determinants and orbitals",
    )
    vmc: Vmc | None = Field(default=None, description="variational Monte Carlo")
    dmc: Dmc | None = Field(default=None, description="diffusion Monte Carlo")

    def named(self) -> list[str]:
        """Return the kinds of section that this item has; one in a valid deck."""
        return [kind for kind in ("optimize", "vmc", "dmc") if getattr(self, kind) is not None]

    @property
    def kind(self) -> str:
        """``optimize``, ``vmc`` or ``dmc``."""
        return self.named()[0]

    @property
    def block(self) -> Section:
        """The settings of the section; a valid deck gives one."""
        return next(block for block in (self.optimize, self.vmc, self.dmc) if block is not None)


def _item_form(value: object) -> object:
    """Read ``- vmc`` and ``- vmc:`` as ``- vmc: {}``."""
    if isinstance(value, str):
        return {value: {}}
    if isinstance(value, dict):
        return {key: {} if block is None else block for key, block in value.items()}
    return value


Series = Annotated[
    list[
        Annotated[
            SectionItem,
            BeforeValidator(
                _item_form, json_schema_input_type=SectionItem | Literal["optimize", "vmc", "dmc"]
            ),
        ]
    ],
    Field(min_length=1, max_length=200),
]

# -------------------------------------------------------------------------------------- estimators


class Energies(Block):
    """Energies are always measured."""


class EstimatorChoice(Block):
    """One thing to measure."""

    energy: Energies | None = Field(default=None, description="always measured")

    def named(self) -> list[str]:
        """Return the names of the estimators in this item; one in a valid deck."""
        return [name for name in type(self).model_fields if getattr(self, name) is not None]

    def measured(self) -> EstimatorBlock | None:
        """Return the block of an estimator; None for the energy."""
        found = (getattr(self, block.key) for block in blocks())
        return next((block for block in found if block is not None), None)


if TYPE_CHECKING:
    Estimator: TypeAlias = EstimatorChoice
else:  # an item has one key for each estimator in the folder qsim.qmc.estimators
    Estimator = create_model(
        "Estimator",
        __base__=EstimatorChoice,
        __doc__=EstimatorChoice.__doc__,
        __module__=__name__,
        **{b.key: (b | None, Field(default=None, description=b.summary)) for b in blocks()},
    )
_NAMES: Any = Literal[tuple(Estimator.model_fields)]  # an estimator without keys is written as its name

EstimatorItem = Annotated[
    Estimator,
    BeforeValidator(_item_form, json_schema_input_type=Estimator | _NAMES),
]
