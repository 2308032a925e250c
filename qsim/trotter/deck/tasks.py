"""Blocks of the tasks beside the evolution of a state."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, PositiveCount
from qsim.trotter.deck.axes import Axis

__all__ = [
    "LEAST_LEVELS",
    "MOST_THERMAL_STEPS",
    "TASKS",
    "CycleStep",
    "Dynamics",
    "Floquet",
    "Frequencies",
    "Levels",
    "Spectrum",
    "Temperatures",
    "Thermal",
]

TASKS = Literal["evolve", "spectrum", "dynamics", "thermal", "levels", "floquet", "fid", "steady"]
# of a random vector
MOST_THERMAL_STEPS = 1000
# of a gap ratio: two spacings
LEAST_LEVELS = 3


class Spectrum(Block):
    """Lowest or highest levels of each sector."""

    levels: Annotated[PositiveCount, Field(le=200)] = Field(
        default=1, description="how many of each sector", json_schema_extra={"example": 4}
    )
    vectors: bool = Field(default=True, description="whether the lowest (highest) state is observed")
    gap: bool = Field(
        default=True,
        description="whether sectors with the lowest (highest) level are searched for all its states and the level beyond, for "
        "gap, degeneracy and what is observed; about twice the work of one level",
    )
    which: Literal["lowest", "highest"] = Field(default="lowest", description="end of the spectrum")
    tolerance: Annotated[float, Field(gt=0.0, le=1e-2)] | None = Field(
        default=None,
        description="largest residual ||H psi - E psi||: an energy lies within it; what rounding leaves is accepted; by default "
        "1e-10, of smaller couplings 1e-10 of their sum",
    )


_Frequency = Annotated[float, Field(gt=-1e9, lt=1e9)]


class Frequencies(Block):
    """An even grid of frequencies."""

    first: _Frequency = Field(default=0.0, alias="from", description="first")
    to: _Frequency = Field(default=4.0, description="last")
    count: Annotated[PositiveCount, Field(ge=2, le=100_000)] = Field(default=401, description="how many")

    def values(self) -> list[float]:
        """Return the frequencies."""
        import numpy as np

        return [float(value) for value in np.linspace(self.first, self.to, self.count)]


_Wave = Annotated[float, Field(ge=-100.0, le=100.0)]


class Dynamics(Block):
    """Spectral functions of the ground state: S(q, w) of S_q = N^(-1/2) sum_j exp(iqj) S_j, local ones, of the current."""

    method: Literal["lanczos", "kpm"] = Field(
        default="lanczos",
        description="lanczos: continued fraction, poles; kpm: kernel polynomials, one resolution for the whole band",
    )
    operator: Literal["sx", "sy", "sz", "sp", "sm", "xy", "yx", "yz", "zy", "zx", "xz", "current"] = Field(
        default="sz",
        description="S: Sx, Sy, Sz, S+ or S-; two letters ab: the function of Sa_q^dagger and Sb_q, with real and imaginary "
        "part; or the current of Sz along a chain or ring, i[H, sum_j j Sz_j] / sqrt(N), at q = 0",
    )
    sites: Annotated[list[Count], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="S of single sites, local spectral functions, instead of wave numbers"
    )
    q: Literal["all"] | Annotated[list[_Wave], Field(min_length=1, max_length=1000)] = Field(
        default="all", description="wave numbers in units of pi, or all: 2 m / N, m = 0 ... N - 1"
    )
    omega: Frequencies = Field(default=Frequencies(), description="frequencies", validate_default=True)
    broadening: Annotated[float, Field(ge=1e-6, le=1e3)] = Field(
        default=0.05, description="half width at half maximum of the Lorentzians, J; not of kpm"
    )
    steps: Annotated[PositiveCount, Field(le=5000)] = Field(
        default=150, description="products H psi for each q; of kpm M = 2 steps + 1 moments"
    )

    def wave_numbers(self, spins: int) -> list[float]:
        """Return the wave numbers of a chain of `spins` spins, in units of pi."""
        if self.operator == "current":
            return [0.0]
        return [2.0 * m / spins for m in range(spins)] if self.q == "all" else list(self.q)

    @property
    def unlike(self) -> bool:
        """True if the function has two different components."""
        return len(self.operator) == 2 and self.operator[0] != "s"

    def rows(self, spins: int) -> int:
        """Return the number of spectral functions."""
        return len(self.wave_numbers(spins)) if self.sites is None else len(self.sites)


_Temperature = Annotated[float, Field(gt=1e-6, lt=1e9)]


class Temperatures(Block):
    """A grid of temperatures, k_B = 1."""

    first: _Temperature = Field(default=0.1, alias="from", description="first, J")
    to: _Temperature = Field(default=10.0, description="last, J")
    count: Annotated[PositiveCount, Field(ge=2, le=10_000)] = Field(default=60, description="how many")
    spacing: Literal["log", "linear"] = Field(default="log", description="even in log T, or in T")

    def values(self) -> list[float]:
        """Return the temperatures."""
        import numpy as np

        make = np.geomspace if self.spacing == "log" else np.linspace
        return [float(value) for value in make(self.first, self.to, self.count)]


class Thermal(Block):
    """Thermal averages of all states by random vectors."""

    temperatures: Temperatures | Annotated[list[_Temperature], Field(min_length=1, max_length=10_000)] = (
        Field(default=Temperatures(), description="temperatures, J: a grid or a list", validate_default=True)
    )
    sectors: Literal["all"] = Field(
        default="all",
        description="the trace is over all sectors, or those of the key sector",
    )
    vectors: Annotated[PositiveCount, Field(ge=2, le=1000)] = Field(
        default=10, description="random vectors of each sector; errors fall like the root of their number"
    )
    steps: Literal["auto"] | Annotated[PositiveCount, Field(ge=2, le=MOST_THERMAL_STEPS)] = Field(
        default="auto",
        description="products H psi of each vector; auto: until none of the temperatures needs more",
        json_schema_extra={"example": 100},
    )

    response: Literal["auto"] | Annotated[list[Axis], Field(min_length=1, max_length=3)] = Field(
        default="auto",
        description="axes along which magnetisation and susceptibility, the response to a field, are given, such as [x, z]: "
        "from random vectors where a sector is too large to be diagonalised; auto: all where H conserves no total spin and every "
        "sector is diagonalised",
        json_schema_extra={"example": ["x"]},
    )
    exact: Annotated[Count, Field(le=4096)] = Field(
        default=1024,
        description="states of a sector up to which it is diagonalised instead, without statistical error",
    )

    def grid(self) -> list[float]:
        """Return all temperatures."""
        given = self.temperatures
        return list(given) if isinstance(given, list) else given.values()


class Levels(Block):
    """Full diagonalisation of a sector and its level statistics."""

    window: Literal["middle_third", "all"] = Field(
        default="middle_third", description="levels whose statistics are taken"
    )
    statistics: Annotated[
        list[Literal["gap_ratio", "participation", "entropy", "total_spin"]], Field(min_length=1)
    ] = Field(
        default=["gap_ratio"],
        description="gap_ratio; of every state participation: -sum p ln p in the Ising basis, entropy: of half of the chain, "
        "total_spin: S of <S^2> = S (S + 1), where H conserves it",
    )

    def within(self, size: int) -> slice:
        """Return the levels of the window, of `size` in ascending order."""
        third = size // 3
        return slice(third, 2 * third) if self.window == "middle_third" else slice(0, size)

    def lacks(self, size: int) -> bool:
        """Return True if the deck itself names a gap ratio, and the window of `size` levels holds too few for one."""
        named = "statistics" in self.model_fields_set and "gap_ratio" in self.statistics
        inside = self.within(size)
        return named and inside.stop - inside.start < LEAST_LEVELS


class CycleStep(Block):
    """A step of a cycle: some terms of the system for some time."""

    terms: Annotated[list[Count], Field(min_length=1)] = Field(
        description="numbers of the terms of system.terms that act together, from 0",
        json_schema_extra={"example": [0]},
    )
    time: Annotated[float, Field(gt=1e-12, lt=1e6)] = Field(
        description="how long, 1/J", json_schema_extra={"example": 0.8}
    )


class Floquet(Block):
    """A cycle of constant Hamiltonians, repeated; the state is observed between cycles."""

    cycle: Annotated[list[CycleStep], Field(max_length=64)] = Field(
        default=[],
        description="steps of the cycle, the first acts first; must be given",
        json_schema_extra={"example": [{"terms": [0], "time": 0.8}]},
    )
    cycles: Annotated[PositiveCount, Field(le=1_000_000)] = Field(default=100, description="how many cycles")
    every: PositiveCount = Field(default=1, description="cycles from one observation to the next")
    accuracy: Annotated[float, Field(gt=1e-15, lt=1.0)] = Field(
        default=1e-10, description="error of the state after the last cycle"
    )
    quasienergies: bool = Field(
        default=False, description="whether to diagonalise the cycle, of at most 4000 states"
    )
