"""Methods of a search and their options."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, short_form
from qsim.qoc.deck.numbers import SIZE
from qsim.qoc.deck.systems.quantities import TimeValue

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
# the scale of the paper's steps is arbitrary
Gamma = Annotated[float, Field(gt=1e-30, lt=1e30)]


# Further starts have other random values.
Restarts = Annotated[
    Count,
    Field(
        le=10_000,
        description="further starts from other random values, each with max_sweeps, while P is below the threshold",
    ),
]


class Lbfgs(Block):
    """Quasi-Newton with exact gradients (SciPy's L-BFGS-B)."""

    type: Literal["lbfgs"]
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(
        default=500, description="limit of forward plus backward propagations"
    )
    memory: Annotated[Count, Field(ge=1, le=100)] = Field(default=10, description="stored corrections")
    finish: Literal["none", "gauss_newton"] = Field(
        default="none", description="method that takes over once P is high"
    )
    finish_at: Fraction = Field(default=0.9, description="P at which that method takes over")
    restarts: Restarts = 0


class Krotov(Block):
    """Krotov's sequential update with automatic step."""

    type: Literal["krotov"]
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(
        default=500, description="limit of forward plus backward propagations"
    )
    step: Annotated[float, SIZE] | Literal["auto"] = Field(
        default="auto", description="Krotov's lambda; auto doubles it until J rises"
    )
    restarts: Restarts = 0


class GaussNewton(Block):
    """Gauss-Newton on the amplitudes outside the target states, or on the distance from a gate."""

    type: Literal["gauss_newton"]
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(
        default=500, description="limit of forward plus backward propagations"
    )
    restarts: Restarts = 0


class Travolta(Block):
    """The paper's line search, Eqs. (7), (9), (10), every empirical constant open."""

    type: Literal["travolta"]
    amplified: bool = Field(default=True, description="amplified gradient, Eq. (10)")
    amplify_below: Fraction = Field(default=0.1, description="P below which Eq. (10) amplifies")
    amplify_factor: Annotated[float, SIZE] = Field(
        default=0.1, description="numerator of beta = factor / sqrt(P)"
    )
    gamma_start: Gamma = Field(default=0.1, description="second gamma of the sequence (the first is 0)")
    gamma_add: Annotated[float, Field(ge=0, lt=1e30)] = Field(
        default=0.3, description="Eq. (9): gamma <- (gamma + add) * mul"
    )
    gamma_mul: Annotated[float, Field(gt=1, lt=1e6)] = Field(default=1.4, description="Eq. (9)")
    gamma_max: Gamma = Field(default=1e8, description="threshold that ends the sequence")
    bisection_tolerance: Annotated[float, Field(gt=1e-15, lt=1)] = Field(
        default=0.01, description="interval / midpoint at the end"
    )
    derivative: Literal["difference", "exact"] = Field(
        default="difference", description="dJ/dgamma by the paper's central difference, or by the adjoint"
    )
    derivative_step: Gamma = Field(default=1e-4, description="absolute step of the central difference")
    gradient_tau: TimeValue | None = Field(
        default=None, description="time step whose discrete gradient gamma multiplies; default the run's own"
    )
    max_iterations: Annotated[Count, Field(ge=0)] = Field(default=50, description="limit of iterations")
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(default=1_000_000, description="limit of propagations")
    restarts: Restarts = 0


class NoOptimizer(Block):
    """Propagate the guess."""

    type: Literal["none"]


Optimizer = Annotated[
    Lbfgs | Krotov | GaussNewton | Travolta | NoOptimizer, Field(discriminator="type"), short_form
]
