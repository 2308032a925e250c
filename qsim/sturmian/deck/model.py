"""The deck of ``qsim sturmian``: bound states, their response, collisions, repulsion integrals, or the basis alone.

=========== ==============================================================================
task        result
=========== ==============================================================================
bound       energies and states, with convergence scans and the partial-wave limit
scatter     cross sections of electrons, photons and fast charges; resonances
response    transitions, lifetimes, polarisabilities, dispersion coefficients, sum rules
integrals   repulsion integrals by both routes: rates, ranks, accuracy
basis       Sturmian functions, bound or outgoing, and their eigenvalues
=========== ==============================================================================
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Deck, PositiveCount, short_form
from qsim.core.deck.units import Angle, Energy, InverseLength, Length
from qsim.sturmian.deck.blocks import (
    AUTO,
    MAX_L,
    MAX_N,
    MAX_ORDER,
    Basis,
    Channels,
    Grid,
    GridBlock,
    Gsf,
    Momentum,
    State,
    System,
)
from qsim.sturmian.deck.collision import Initial, Scatter
from qsim.sturmian.deck.response import Response

ROUTES = ("poisson_gemm", "simpson")
MAX_ROOTS = 50

# ----------------------------------------------------------------------------------------------- tasks


class Bound(Block):
    """Bound states of the two electrons."""

    type: Literal["bound"]
    n_roots: Annotated[PositiveCount, Field(le=MAX_ROOTS)] = Field(
        default=1, description="number of states of each L and S, from the lowest; not with states"
    )


class Integrals(Block):
    """The repulsion integrals between all pairs of functions, by the paper's quadrature and by matrix products."""

    type: Literal["integrals"]
    route: (
        Literal["poisson_gemm", "simpson"]
        | Annotated[list[Literal["poisson_gemm", "simpson"]], Field(min_length=1, max_length=2)]
    ) = Field(
        default=["poisson_gemm", "simpson"],
        description="poisson_gemm: Poisson kernel and matrix products; simpson: the nested quadrature of the paper",
    )
    rank_report: bool = Field(
        default=False, description="numerical rank of the integrals as a matrix of pairs"
    )
    l: Momentum | Annotated[list[Momentum], Field(min_length=1, max_length=2 * MAX_L)] = Field(
        default=[0], description="multipole orders"
    )
    N: (
        Annotated[list[Annotated[PositiveCount, Field(le=1000)]], Field(min_length=1, max_length=20)] | None
    ) = Field(default=None, description="numbers of functions to time; by default basis.N alone")
    points: (
        Annotated[Count, Field(ge=4, le=4096)]
        | Annotated[list[Annotated[Count, Field(ge=4, le=4096)]], Field(min_length=1, max_length=10)]
    ) = Field(default=128, description="Gauss-Legendre points Nq of the paper's quadrature, or a list")
    inner: Annotated[Count, Field(ge=3, le=99)] = Field(
        default=9, description="Simpson points Ns between two of them, odd"
    )
    dtype: Literal["auto", "real", "complex"] = Field(
        default="auto", description="numbers of the integrals; auto: as in the basis"
    )

    @property
    def routes(self) -> list[str]:
        """Names of the routes, in the order of the deck."""
        return [self.route] if isinstance(self.route, str) else list(dict.fromkeys(self.route))


class BasisTask(Block):
    """Nothing but the basis: functions, eigenvalues, orthogonality, rank."""

    type: Literal["basis"]
    l: Momentum | Annotated[list[Momentum], Field(min_length=1, max_length=MAX_L)] | None = Field(
        default=None, description="orbital momenta; by default as in the channels"
    )


Task = Annotated[Bound | Response | Integrals | BasisTask | Scatter, Field(discriminator="type"), short_form]

# ---------------------------------------------------------------------------------------- other blocks


class Solver(Block):
    """Solver of the eigenproblem or of the driven equations."""

    type: Literal["matrix_free", "dense"] = Field(
        default="matrix_free",
        description="matrix_free: Davidson, H times a vector in factorised form; dense: the paper's route, integrals, Kronecker "
        "products, LAPACK or cuSOLVER",
    )
    tolerance: Annotated[float, Field(ge=1e-14, le=1e-2)] = Field(
        default=1e-10,
        description="largest residual norm of a state, hartree; of a collision: largest residual relative to the source, by "
        "default 1e-8",
    )
    max_iterations: Annotated[PositiveCount, Field(le=100_000)] = Field(
        default=500, description="steps after which an unconverged state is an error"
    )
    krylov: Literal["gmres", "cocg"] = Field(
        default="gmres",
        description="of a collision: gmres has the smallest residual, cocg needs four vectors only",
    )


SolverBlock = Annotated[
    Solver,
    BeforeValidator(short_form, json_schema_input_type=Solver | Literal["matrix_free", "dense"]),
]


class Extrapolate(Block):
    """The limit of l_max to infinity from runs at several l_max."""

    l_max: Annotated[list[Momentum], Field(min_length=3, max_length=20)] = Field(
        default=[6, 8, 10], description="values of l_max, ascending; at least three"
    )


Scan = Annotated[list[Any], Field(min_length=1, max_length=50)]


class Scans(Block):
    """Convergence: the states again, with one key at each of its values and all others as they are."""

    N: (
        Annotated[list[Annotated[PositiveCount, Field(le=MAX_N)]], Field(min_length=1, max_length=50)] | None
    ) = Field(default=None, description="functions of each l", json_schema_extra={"example": [8, 12, 16, 24]})
    l_max: Annotated[list[Momentum], Field(min_length=1, max_length=50)] | None = Field(
        default=None, description="largest orbital momentum"
    )
    R: (
        Annotated[list[Annotated[Length, Field(gt=1e-3, lt=1e6)]], Field(min_length=1, max_length=50)] | None
    ) = Field(default=None, description="radius of the box")
    alpha: (
        Annotated[list[Annotated[InverseLength, Field(gt=1e-6, lt=1e4)]], Field(min_length=1, max_length=50)]
        | None
    ) = Field(default=None, description="inverse range of the generating potential")
    energy: (
        Annotated[list[Annotated[Energy, Field(gt=-1e7, lt=1e5)]], Field(min_length=1, max_length=50)] | None
    ) = Field(default=None, description="energy of the functions")
    order: (
        Annotated[
            list[Annotated[PositiveCount, Field(ge=3, le=MAX_ORDER)]], Field(min_length=1, max_length=50)
        ]
        | None
    ) = Field(default=None, description="points of an element of the grid")
    angle: (
        Annotated[list[Annotated[Angle, Field(gt=0.0, lt=0.785)]], Field(min_length=1, max_length=50)] | None
    ) = Field(default=None, description="angle of the contour (scatter)")
    length: (
        Annotated[list[Annotated[Length, Field(gt=1e-3, lt=1e6)]], Field(min_length=1, max_length=50)] | None
    ) = Field(default=None, description="length of the contour (scatter)")

    def given(self) -> dict[str, list[Any]]:
        """Return the values of the keys that are given."""
        return {key: list(value) for key in type(self).model_fields if (value := getattr(self, key))}


# -------------------------------------------------------------------------------------------- the deck


class SturmianDeck(Deck):
    """Two electrons and a nucleus in generalised Sturmian functions."""

    meant: ClassVar[Mapping[str, str]] = {
        "system.Z=*": "Z is the charge of the nucleus, 2 for helium",
        "task.type=photo*": "photoionisation is {type: scatter, process: photo}",
        "channels.S=singlet": "a singlet is S: 0",
        "channels.S=triplet": "a triplet is S: 1",
        "task=photo*": "photoionisation is {type: scatter, process: photo}",
        "task=dpi": "double photoionisation is {type: scatter, process: photo}",
        "task=e2e": "(e,2e) is {type: scatter, process: born}, or e_h on hydrogen",
        "task=polari*": "polarisabilities are {type: response, observables: [polarisability]}",
        "task=lifetime*": "lifetimes are {type: response, observables: [lifetimes]}",
        "task=oscillator*": "oscillator strengths are task: response",
        "task.process=*tdcs*": "triply differential cross sections are process: photo or e_h with observables: [tdcs]",
        "task.states": "the number of states is n_roots",
        "system.mass": "the nucleus has infinite mass: helium ionises at 24.5916 eV here, at 24.5874 eV in the laboratory",
        "task.refine": "refine belongs to a range of photon energies: photon: {from: 58 eV, to: 64 eV, refine: resonances}",
        "channels.term": "the term 1S is L: 0, S: 0",
        "states=[0-9]*": "a number of states is task: {type: bound, n_roots: ...}",
    }

    FIRST_DECKS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # The model of Temkin and Poet, which takes seconds.
        "scatter": {
            "system": {"Z": 1},
            "grid": {"R": 60, "order": 12},
            "basis": {"type": "fedvr"},
            "channels": {"L": 0, "S": [0, 1], "l_max": None, "pairs": [[0, 0]]},
            "scan": None,
        },
        # Two states, which have an oscillator strength.
        "response": {
            "task": {"type": "response", "n_roots": None},
            "grid": {"R": 40, "order": 12},
            "basis": {
                "type": "gsf",
                "generating": {"type": "yukawa", "alpha": "auto"},
                "energy": "auto",
                "N": 40,
            },
            "channels": {"L": None, "S": None, "l_max": 4},
            "states": [{"L": 0, "S": 0}, {"L": 1, "S": 0}],
            "initial": None,
            "extrapolate": {"l_max": [3, 4, 5, 6]},
            "scan": None,
        },
    }
    method: Literal["sturmian"]
    system: System = Field(
        description="nucleus and one-body potential", json_schema_extra={"example": {"Z": 2}}
    )
    grid: GridBlock = Field(
        default=Grid(),
        description="radial grid; auto: R from the weakest bound state",
        validate_default=True,
        json_schema_extra={"example": {"R": 24.0, "order": 12}},
    )
    basis: Basis = Field(
        default=Gsf(type="gsf"),
        description="radial functions",
        validate_default=True,
        json_schema_extra={
            "example": {
                "type": "gsf",
                "generating": {"type": "yukawa", "alpha": 0.6},
                "energy": -0.9,
                "N": 35,
            }
        },
    )
    channels: Channels = Field(
        default=Channels(),
        description="L, S and pairs of orbital momenta",
        validate_default=True,
        json_schema_extra={"example": {"L": 0, "S": 0, "l_max": 4}},
    )
    states: Annotated[list[State], Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="states to find, one by one, instead of channels.L, S and task.n_roots"
    )
    initial: Initial = Field(
        default=Initial(),
        description="bound state that a photon or a fast charge meets",
        json_schema_extra={"example": {"S": 0, "l_max": 3}},
    )
    task: Task = Field(
        default=Bound(type="bound"),
        description="what to compute",
        validate_default=True,
        json_schema_extra={"example": {"type": "bound", "n_roots": 1}},
    )
    solver: SolverBlock = Field(default=Solver(), description="eigensolver", validate_default=True)
    extrapolate: Extrapolate | None = Field(
        default=None, description="partial-wave limit", json_schema_extra={"example": {"l_max": [6, 8, 10]}}
    )
    scan: Scans | None = Field(
        default=None, description="convergence", json_schema_extra={"example": {"N": [8, 12, 16, 24, 35]}}
    )

    @property
    def alpha(self) -> float | str | None:
        """Inverse range of the generating potential; None if it has none."""
        return getattr(self.basis.generating, "alpha", None) if isinstance(self.basis, Gsf) else None

    @property
    def wants_auto(self) -> bool:
        """True if a parameter of basis or grid follows from the states."""
        gsf = isinstance(self.basis, Gsf) and AUTO in (self.basis.energy, self.alpha)
        return gsf or (self.grid.R == AUTO and not isinstance(self.grid.elements, list))


def references(deck: SturmianDeck) -> tuple[str, ...]:
    """Return the BibTeX keys of what a deck uses."""
    keys = ["qsim", "Colavecchia2014"]
    if deck.task.type == "bound" and deck.solver.type == "matrix_free":
        keys.append("Davidson1975")
    if deck.basis.type == "fedvr" or deck.grid.order:
        keys.append("RescignoMcCurdy2000")
    if deck.extrapolate is not None:
        keys.append("KutzelniggMorgan1992")
    return tuple(keys)
