"""Blocks of what couples a system to its surroundings: jump operators and their rates."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, DeckPath, Finding, PositiveCount
from qsim.trotter.deck.couplings import Number, SiteFormula
from qsim.trotter.deck.profiles import Profile, check_profile
from qsim.trotter.deck.sites import Sites, check_sites

__all__ = [
    "Collective",
    "Correlated",
    "Counting",
    "Dissipation",
    "Jump",
    "Local",
    "Open",
    "Thermal",
    "are_driven",
    "check_dissipation",
]

MOST_RATE = 1e9
Rate = Annotated[float, Field(ge=0.0, lt=MOST_RATE)]
Rates = Rate | Annotated[list[Rate], Field(min_length=1)] | SiteFormula
# by which an error of a mean falls with the root of the number of trajectories
LEAST_ERROR = 1e-5

#: Operators of one spin by their names in a deck, as components along x, y, z.
OPERATORS: dict[str, tuple[complex, complex, complex]] = {
    "minus": (1.0, -1.0j, 0.0),
    "plus": (1.0, 1.0j, 0.0),
    "x": (1.0, 0.0, 0.0),
    "y": (0.0, 1.0, 0.0),
    "z": (0.0, 0.0, 1.0),
}

_Part = Number | Annotated[str, Field(pattern=r"^\s*[-+0-9.eEij ]+\s*$", max_length=60)]
Vector = Annotated[list[_Part], Field(min_length=3, max_length=3)]


def complex_of(value: float | str) -> complex:
    """Return a component such as ``1``, ``"1i"`` or ``"0.5-0.2i"`` as a number.

    Raises
    ------
    ValueError
        If the text is no number.
    """
    if not isinstance(value, str):
        return complex(value)
    text = value.replace(" ", "").replace("i", "j")
    # a bare i is the unit
    for sign in ("", "+", "-"):
        if text.endswith(f"{sign}j") and (len(text) == 1 + len(sign) or not text[-2].isdigit()):
            text = text[:-1] + "1j"
            break
    return complex(text)


def vector_of(operator: str | list[float | str]) -> tuple[complex, complex, complex]:
    """Return the components along x, y, z of an operator ``v . S`` of a deck."""
    if isinstance(operator, str):
        return OPERATORS[operator]
    x, y, z = (complex_of(part) for part in operator)
    return x, y, z


class _Dissipator(Block):
    """Base of all entries."""

    profile: Profile | None = Field(
        default=None,
        description="factor f(t) >= 0 of the rates: ramp, cosine, table, expression",
    )


class _OfSites(_Dissipator):
    rate: Rates | None = Field(
        default=None,
        description="rate of every site: a number, a list, or a formula of the site j",
        json_schema_extra={"example": 0.3},
    )
    file: DeckPath | None = Field(default=None, description="one rate for every site, instead of rate")
    sites: Sites | None = Field(
        default=None, description="only these sites; a list of rates then has their number"
    )


class Local(_OfSites):
    """Loss ``sqrt(g) S^-``, pump ``sqrt(p) S^+``, dephasing ``sqrt(2 f) S^z``: the coherence of a spin decays as exp(-f t)."""

    type: Literal["loss", "pump", "dephasing"]


class Thermal(_OfSites):
    """A bath of a temperature: loss of rate g (n + 1), pump of rate g n."""

    type: Literal["thermal"]
    occupation: Annotated[float, Field(ge=0.0, lt=1e6)] = Field(
        description="quanta n of the bath at the frequency of a spin, 1 / (exp(w / kT) - 1)",
        json_schema_extra={"example": 0.5},
    )


class Jump(_OfSites):
    """``sqrt(rate) v . S`` of single sites."""

    type: Literal["jump"]
    operator: Vector | Literal["minus", "plus", "x", "y", "z"] = Field(
        description='components of v along x, y, z, such as [1, "1i", 0]; or minus, plus, x, y, z',
        json_schema_extra={"example": [1, "1i", 0]},
    )


class Collective(_Dissipator):
    """``sqrt(rate) sum_j v . S_j`` of all sites, or of some."""

    type: Literal["collective"]
    operator: Vector | Literal["minus", "plus", "x", "y", "z"] = Field(
        default="minus", description="as of jump"
    )
    rate: Rate = Field(description="rate", json_schema_extra={"example": 1.0})
    sites: Sites | None = Field(default=None, description="only these sites")


class Correlated(_Dissipator):
    """Decay with a matrix of rates: ``sum_jk G_jk (S_j rho S_k^+ - ...)``; jumps are those of the eigenvectors of G."""

    type: Literal["correlated"]
    operator: Vector | Literal["minus", "plus", "x", "y", "z"] = Field(
        default="minus", description="as of jump"
    )
    matrix: Annotated[list[list[Number]], Field(min_length=1)] | None = Field(
        default=None, description="G, symmetric and not negative", json_schema_extra={"example": [[1.0]]}
    )
    file: DeckPath | None = Field(default=None, description="text or NumPy file of G, instead of matrix")


Dissipation = Annotated[
    Local | Thermal | Jump | Collective | Correlated,
    Field(discriminator="type"),
]


class Counting(Block):
    """Counting statistics of jumps in windows of time, one after the other."""

    window: Annotated[float, Field(gt=0.0)] = Field(
        description="length of a window, 1/J; long against the slowest decay the Fano factor is that of long times",
        json_schema_extra={"example": 10.0},
    )
    after: Annotated[float, Field(ge=0.0)] = Field(
        default=0.0, description="time at which the first window begins"
    )
    jumps: Literal["all"] | Annotated[list[Count], Field(min_length=1)] = Field(
        default="all",
        description="entries of dissipation whose jumps are counted, the first is 0",
        json_schema_extra={"example": [0]},
    )


class Open(Block):
    """How an open system is carried: by trajectories, or as a density matrix."""

    method: Literal["auto", "trajectories", "density_matrix"] = Field(
        default="auto",
        description="trajectories: pure states with random jumps, whose means have statistical errors; density_matrix: exact, of "
        "small systems; auto: the cheaper one",
    )
    trajectories: Annotated[PositiveCount, Field(le=10_000_000)] = Field(
        default=1000, description="number of trajectories"
    )
    target_error: Annotated[float, Field(gt=0.0, lt=1.0)] | None = Field(
        default=None,
        description="largest standard error of what is observed at any time, at which no more trajectories are made",
        json_schema_extra={"example": 0.01},
    )
    at_most: Annotated[PositiveCount, Field(le=10_000_000)] = Field(
        default=100_000, description="with target_error: trajectories at most"
    )
    records: bool = Field(
        default=False, description="whether the file holds time, site and type of every jump"
    )
    counting: Counting | None = Field(
        default=None,
        description="counting statistics of the jumps in windows of time: their rate, Fano factor and a histogram",
    )

    @property
    def members(self) -> int:
        """Trajectories that are made at most."""
        return self.trajectories if self.target_error is None else self.at_most


def are_driven(entries: "list[Dissipation]") -> bool:
    """Return True if a rate depends on time."""
    return any(entry.profile is not None and entry.profile.type != "constant" for entry in entries)


def check_dissipation(entries: "list[Dissipation]", block: Open, spins: int) -> Iterator[Finding]:
    """Yield contradictions within the entries, and errors that trajectories do not reach."""
    for number, entry in enumerate(entries):
        key = f"dissipation.{number}"
        yield from check_profile(entry.profile, f"{key}.profile")
        if isinstance(entry, Correlated):
            yield from _check_matrix(entry, spins, key)
        else:
            yield from check_sites(entry.sites, spins, f"{key}.sites")
        if isinstance(entry, _OfSites):
            yield from _check_rates(entry, spins, key)
        operator = getattr(entry, "operator", "minus")
        if isinstance(operator, list):
            try:
                zero = not any(vector_of(operator))
            except ValueError:
                yield Finding(
                    f"{key}.operator", f'expected three numbers such as [1, "1i", 0], found {operator}'
                )
                continue
            if zero:
                yield Finding(f"{key}.operator", "the operator is zero")
    if block.target_error is not None and block.target_error < LEAST_ERROR:
        yield Finding(
            "open.target_error",
            f"{block.target_error:g} takes some {0.25 / block.target_error**2:.0e} trajectories, at least {LEAST_ERROR:g} is "
            "allowed; method: density_matrix has no statistical error",
        )


def _check_rates(entry: _OfSites, spins: int, key: str) -> Iterator[Finding]:
    if (entry.rate is None) == (entry.file is None):
        yield Finding(key, "give either rate or file")
    expected, what = (len(entry.sites), "sites lists") if entry.sites else (spins, "system.spins =")
    if isinstance(entry.rate, list) and len(entry.rate) != expected:
        yield Finding(f"{key}.rate", f"{len(entry.rate)} rates, but {what} {expected}")


def _check_matrix(entry: Correlated, spins: int, key: str) -> Iterator[Finding]:
    """Yield what is wrong with the matrix of rates of correlated jumps."""
    if (entry.matrix is None) == (entry.file is None):
        yield Finding(key, "give either matrix or file")
        return
    if entry.matrix is None:
        return
    if len(entry.matrix) != spins or any(len(row) != spins for row in entry.matrix):
        yield Finding(f"{key}.matrix", f"expected {spins} rows of {spins} rates")
        return
    for j, row in enumerate(entry.matrix):
        for k, value in enumerate(row[:j]):
            if not math.isclose(value, entry.matrix[k][j], rel_tol=1e-12, abs_tol=1e-300):
                yield Finding(
                    f"{key}.matrix.{j}.{k}",
                    f"the rates of sites {j} and {k} are {value:g} and {entry.matrix[k][j]:g}; the matrix must be symmetric",
                )
                return
