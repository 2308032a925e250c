"""Blocks of the trotter deck that describe the spins: lattices, disorder, terms of the Hamiltonian.

Couplings and fields are plain numbers in the unit of J, times in units of 1/J.  The functions behind the blocks are in
:mod:`qsim.trotter.lattices.bonds`, :mod:`qsim.trotter.model.disorder` and :mod:`qsim.trotter.model.hamiltonian`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, model_validator

from qsim.core.deck.blocks import Block, Count, DeckPath, PositiveCount
from qsim.core.deck.expression import ExpressionText
from qsim.trotter.deck.lattices import Lattice, sites_of
from qsim.trotter.deck.nmr.isotopes import ISOTOPES, Hertz, Ppm, Spectrometer, spin_of
from qsim.trotter.deck.profiles import Profile

__all__ = [
    "BondTerm",
    "LatticeTerm",
    "LocalTerm",
    "NuclearTerm",
    "OrientedTerm",
    "PlacedTerm",
    "Random",
    "System",
    "Term",
    "are_driven",
]

# beyond, no machine holds the vector; memory decides below
MAX_SPINS = 40

# largest S of a site, of four bits
MOST_SPIN = 7.5


def _ratio(value: object) -> object:
    """Read ``3/2`` as 1.5."""
    top, slash, below = value.partition("/") if isinstance(value, str) else ("", "", "")
    return int(top) / 2 if slash and below.strip() == "2" and top.strip().isdigit() else value


SIGNED = Field(gt=-1e12, lt=1e12)
SIZE = Field(gt=1e-12, lt=1e12)
Number = Annotated[float, SIGNED]
Axis = Literal["x", "y", "z"]
Sites = Annotated[list[Count], Field(min_length=1)]
PairRows = Annotated[
    list[Annotated[list[Number], Field(min_length=3, max_length=5)]], Field(min_length=1, max_length=100_000)
]
Vector = Annotated[list[Number], Field(min_length=3, max_length=3)]
Matrix = Annotated[list[Vector], Field(min_length=3, max_length=3)]
TensorRows = Annotated[
    list[Annotated[list[Number], Field(min_length=11, max_length=11)]],
    Field(min_length=1, max_length=100_000),
]
BondRows = Annotated[list[list[Number]], Field(min_length=4)]
SitePairs = Annotated[
    list[Annotated[list[Count], Field(min_length=2, max_length=2)]], Field(min_length=1, max_length=100_000)
]
ScalarRows = Annotated[
    list[Annotated[list[Hertz], Field(min_length=3, max_length=3)]], Field(min_length=1, max_length=100_000)
]
SiteFormula = Annotated[str, ExpressionText("j", numbers=False)]
Spin = Annotated[
    float, Field(ge=0.5, le=MOST_SPIN), BeforeValidator(_ratio, json_schema_input_type=float | str)
]
SEED = "seed of these numbers alone; by default run.seed"

# --------------------------------------------------------------------------------------------- disorder


class RandomBox(Block):
    """Uniform numbers of mean 0, of a full width or up to a strength W: ``[-width/2, width/2]`` or ``[-W, W]``."""

    kind: Literal["box", "uniform"]
    width: Annotated[float, Field(ge=0, lt=1e12)] | None = Field(
        default=None, description="full width, instead of W", json_schema_extra={"example": 0.5}
    )
    W: Annotated[float, Field(ge=0, lt=1e12)] | None = Field(
        default=None, description="half width, the disorder strength of the literature, instead of width"
    )
    seed: Count | None = Field(default=None, description=SEED)


class RandomNormal(Block):
    """Normal numbers of mean 0."""

    kind: Literal["normal", "gauss"]
    sigma: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        validation_alias=AliasChoices("sigma", "width"),
        description="standard deviation (also: width)",
        json_schema_extra={"example": 0.5},
    )
    seed: Count | None = Field(default=None, description=SEED)


class RandomBinary(Block):
    """``+strength`` or ``-strength`` with equal probability."""

    kind: Literal["binary"]
    strength: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        description="size of either value", json_schema_extra={"example": 1.0}
    )
    seed: Count | None = Field(default=None, description=SEED)


Random = Annotated[RandomBox | RandomNormal | RandomBinary, Field(discriminator="kind")]

# ------------------------------------------------------------------------------------------------ terms


class _Term(Block):
    """Base of all terms."""

    profile: Profile | None = Field(
        default=None, description="factor f(t) of the whole term: ramp, cosine, table, expression"
    )


class _Coupling(_Term):
    """Base of the couplings on a lattice."""

    lattice: Lattice | None = Field(
        default=None,
        description="chain, ring, ladder, square, triangular, honeycomb, kagome, cubic, bcc, fcc, pyrochlore or all; "
        "by default system.lattice",
        json_schema_extra={"example": "ring"},
    )
    shells: Annotated[list[PositiveCount], Field(min_length=1)] | None = Field(
        default=None,
        description="neighbour shells by distance; by default [1], and every pair with alpha",
    )
    alpha: Annotated[float, Field(ge=0, le=100)] | None = Field(
        default=None, description="power law: every coupling is divided by distance^alpha"
    )
    random: Random | None = Field(
        default=None,
        description="disorder: a random number added to the strength of every pair (xxz, xyz: to a factor 1 of it)",
    )


class _Isotropic(_Coupling):
    """Couplings with one strength."""

    J: Number | Annotated[list[Number], Field(min_length=1)] = Field(
        default=1.0, description="strength, or a list of one for each of the shells"
    )


class Heisenberg(_Isotropic):
    """``J (Sx Sx + Sy Sy + Sz Sz)`` on every bond."""

    type: Literal["heisenberg", "xxx"]


class XX(_Isotropic):
    """``J (Sx Sx + Sy Sy)`` on every bond."""

    type: Literal["xx"]


class Ising(_Isotropic):
    """``J Sa Sa`` on every bond; a transverse field is a term of its own."""

    type: Literal["ising"]
    axis: Axis = Field(default="z", description="axis a")


class DoubleQuantum(_Isotropic):
    """``J (Sx Sx - Sy Sy)`` on every bond."""

    type: Literal["double_quantum", "dq"]


class PowerLaw(_Isotropic):
    """``J / r^alpha`` times heisenberg, xx, ising or double_quantum; r is the distance on the lattice or of the positions."""

    type: Literal["power_law", "long_range"]
    alpha: Annotated[float, Field(ge=0, le=100)] = Field(
        description="exponent", json_schema_extra={"example": 3.0}
    )
    model: Literal["heisenberg", "xxx", "xx", "ising", "double_quantum", "dq"] = Field(
        default="ising", description="which components are coupled"
    )
    axis: Axis = Field(default="z", description="axis of the model ising")
    positions: DeckPath | Annotated[list[Vector], Field(min_length=1)] | None = Field(
        default=None, description="[x, y, z] of every site, or a CSV file of them, instead of a lattice"
    )


class XXZ(_Coupling):
    """``Jxy (Sx Sx + Sy Sy) + Jz Sz Sz`` on every bond."""

    type: Literal["xxz"]
    Jxy: Number = Field(
        default=1.0,
        validation_alias=AliasChoices("Jxy", "J"),
        description="strength of the x and y components (also: J)",
    )
    Jz: Number | None = Field(
        default=None,
        description="strength of the z component, instead of delta",
        json_schema_extra={"example": 0.5},
    )
    delta: Number | None = Field(default=None, description="anisotropy Jz / Jxy, instead of Jz")


class XYZ(_Coupling):
    """``Jx Sx Sx + Jy Sy Sy + Jz Sz Sz`` on every bond."""

    type: Literal["xyz"]
    Jx: Number = Field(default=0.0, description="strength of the x component")
    Jy: Number = Field(default=0.0, description="strength of the y component")
    Jz: Number = Field(default=0.0, description="strength of the z component")


class Dipolar(_Term):
    """The secular dipolar coupling of nuclear spins, ``d (Sz Sz - (Sx Sx + Sy Sy) / 2)`` on every pair.

    ``d = coupling / r^3 (1 - 3 cos^2 theta)`` with theta the angle between the axis and the line that joins the pair.
    """

    type: Literal["dipolar"]
    coupling: Number = Field(
        default=1.0,
        validation_alias=AliasChoices("coupling", "J"),
        description="d of a pair at distance 1 across the axis (also: J)",
    )
    positions: DeckPath | Annotated[list[Vector], Field(min_length=1)] | None = Field(
        default=None,
        description="[x, y, z] of every site, or a CSV file of them; by default those of the lattice, in the xy plane",
    )
    lattice: Lattice | None = Field(
        default=None, description="lattice that gives the positions, instead of positions"
    )
    axis: Axis | Vector = Field(default="z", description="direction of the static field: x, y, z or a vector")
    shells: Annotated[list[PositiveCount], Field(min_length=1)] | None = Field(
        default=None, description="neighbour shells of the lattice; by default every pair"
    )
    cutoff: Annotated[float, SIZE] | None = Field(
        default=None, description="pairs farther apart are not coupled"
    )


class Pairs(_Term):
    """Couplings of single pairs, from a list or from a file."""

    type: Literal["pairs"]
    list: PairRows | None = Field(
        default=None,
        description="[j, k, Jx, Jy, Jz], or [j, k, J] for equal components",
        json_schema_extra={"example": [[0, 3, 0.1, 0.2, 0.3]]},
    )
    file: DeckPath | None = Field(
        default=None,
        description="CSV with the columns j, k, Jx, Jy, Jz (or j, k, J), or .npz with symmetric matrices Jx, Jy, Jz or J",
    )
    matrix: DeckPath | None = Field(
        default=None, description="CSV or .npy with one symmetric N x N matrix J, instead of list or file"
    )
    model: Literal["heisenberg", "xxx", "xx", "ising", "double_quantum", "dq"] = Field(
        default="heisenberg", description="which components the matrix couples"
    )


class _Oriented(_Term):
    """Base of couplings in which the two sites of a pair are not alike: the first one is j, the other k."""

    lattice: Lattice | None = Field(
        default=None,
        description="as in other terms; by default system.lattice; j comes before k, across a "
        "periodic boundary the last site before the first",
        json_schema_extra={"example": "chain"},
    )
    shells: Annotated[list[PositiveCount], Field(min_length=1)] | None = Field(
        default=None, description="neighbour shells by distance; by default [1]"
    )


class DM(_Oriented):
    """Dzyaloshinskii-Moriya coupling ``D . (S_j x S_k)`` on every bond."""

    type: Literal["dm", "dzyaloshinskii_moriya"]
    D: Number | Vector | None = Field(
        default=None,
        description="vector [Dx, Dy, Dz], or Dz alone, instead of list",
        json_schema_extra={"example": [0.0, 0.0, 0.2]},
    )
    list: PairRows | None = Field(
        default=None, description="[j, k, Dx, Dy, Dz], or [j, k, Dz], instead of D and a lattice"
    )


class Tensor(_Oriented):
    """``sum_ab J_ab S^a_j S^b_k`` on every bond, with any 3 x 3 matrix J."""

    type: Literal["tensor", "exchange_tensor"]
    J: Matrix | None = Field(
        default=None,
        description="rows [Jxx, Jxy, Jxz], [Jyx, Jyy, Jyz], [Jzx, Jzy, Jzz], instead of list",
        json_schema_extra={"example": [[1.0, 0.2, 0.0], [-0.2, 1.0, 0.0], [0.0, 0.0, 0.5]]},
    )
    list: TensorRows | None = Field(
        default=None, description="[j, k, Jxx, Jxy, Jxz, Jyx, ..., Jzz], instead of J and a lattice"
    )


class RandomValues(Block):
    """Random numbers as the values of a field."""

    random: Random = Field(description="distribution of the values")


class FieldTerm(_Term):
    """``h_j S^a_j`` on every site, or on some."""

    type: Literal["field"]
    axis: Axis = Field(default="z", description="component a")
    values: Number | Annotated[list[Number], Field(min_length=1)] | RandomValues | SiteFormula | None = Field(
        default=None,
        validation_alias=AliasChoices("values", "h"),
        description="a number, one for every site, or a formula of the site j (also: h)",
        json_schema_extra={"example": 0.3},
    )
    random: Random | None = Field(
        default=None, description="disorder: a random number added to the value of every site"
    )
    file: DeckPath | None = Field(default=None, description="one number for every site, instead of values")
    sites: Sites | None = Field(
        default=None, description="only these sites; a list of values then has their number"
    )


# ------------------------------------------------------------------- terms of spins above 1/2 alone


class Anisotropy(_Term):
    """``D (Sz)^2 + E ((Sx)^2 - (Sy)^2)``, or ``S . A . S`` with a symmetric 3 x 3 matrix, on sites with a spin above 1/2."""

    type: Literal["anisotropy", "single_ion"]
    D: Number | Annotated[list[Number], Field(min_length=1)] | None = Field(
        default=None,
        description="strength of (Sz)^2, or a list of one for each of the sites",
        json_schema_extra={"example": 0.5},
    )
    E: Number | Annotated[list[Number], Field(min_length=1)] | None = Field(
        default=None, description="strength of (Sx)^2 - (Sy)^2, or a list of one for each of the sites"
    )
    A: Matrix | None = Field(
        default=None,
        description="symmetric matrix of S . A . S, instead of D and E; rows [Axx, Axy, Axz], ...",
    )
    sites: Sites | None = Field(
        default=None, description="only these sites; by default all with a spin above 1/2"
    )


class Biquadratic(_Oriented):
    """``B (S_j . S_k)^2`` on every bond."""

    type: Literal["biquadratic"]
    B: Number = Field(default=1.0, description="strength")
    list: PairRows | None = Field(default=None, description="[j, k, B], instead of B and a lattice")


class BondMatrix(_Oriented):
    """Any Hermitian operator on every bond, as a matrix between the states of its two sites.

    Row and column number the states ``|m_j, m_k>`` with m_j = S, S - 1, ..., -S slowest, then m_k.
    """

    type: Literal["bond_matrix"]
    matrix: BondRows | None = Field(
        default=None, description="rows of a real symmetric matrix, instead of file"
    )
    file: DeckPath | None = Field(
        default=None, description=".npy with a Hermitian matrix, real or complex, instead of matrix"
    )
    list: SitePairs | None = Field(default=None, description="pairs [j, k] instead of a lattice")


# ------------------------------------------------------------------------------------ terms of nuclei


class Shifts(_Term):
    """``nu_j I^z_j`` of every nucleus, its chemical shift times the frequency of its isotope."""

    type: Literal["shifts"]
    ppm: Annotated[list[Ppm], Field(min_length=1)] | None = Field(
        default=None,
        description="chemical shift of every nucleus; needs system.spectrometer",
        json_schema_extra={"example": [7.27, 4.88, 4.57]},
    )
    Hz: Annotated[list[Hertz], Field(min_length=1)] | None = Field(
        default=None, description="frequency of every nucleus beside its reference, instead of ppm"
    )
    file: DeckPath | None = Field(
        default=None, description="one shift in ppm for every nucleus, instead of ppm"
    )


class Scalar(_Term):
    """``J_jk I_j . I_k`` of pairs of nuclei; between unlike ones, and with `weak`, ``J_jk I^z_j I^z_k``."""

    type: Literal["scalar"]
    list: ScalarRows | None = Field(
        default=None,
        description="[j, k, J] with J in Hz",
        json_schema_extra={"example": [[0, 1, "13.97 Hz"]]},
    )
    file: DeckPath | None = Field(default=None, description="CSV with the columns j, k, J, instead of list")
    weak: bool = Field(
        default=False, description="I^z I^z alone between like nuclei, too: first-order spectra"
    )


class Quadrupole(_Term):
    """``Cq / (4 I (2 I - 1)) (3 (I^z)^2 - I (I + 1) + eta ((I^x)^2 - (I^y)^2))``, the axes along those of the field."""

    type: Literal["quadrupole"]
    Cq: Hertz = Field(description="coupling constant", json_schema_extra={"example": "200 kHz"})
    eta: Annotated[float, Field(ge=0.0, le=1.0)] = Field(default=0.0, description="asymmetry")
    sites: Sites | None = Field(
        default=None, description="only these sites; by default all with a spin above 1/2"
    )


# whose sites may have positions of their own
PlacedTerm = Dipolar | PowerLaw
# one strength by shell or distance
BondTerm = Heisenberg | XX | XXZ | XYZ | Ising | DoubleQuantum | PowerLaw
LatticeTerm = BondTerm | Dipolar
OrientedTerm = DM | Tensor
LocalTerm = Anisotropy | Biquadratic | BondMatrix
NuclearTerm = Shifts | Scalar | Quadrupole
Term = Annotated[
    Heisenberg
    | XX
    | XXZ
    | XYZ
    | Ising
    | Dipolar
    | DoubleQuantum
    | PowerLaw
    | Pairs
    | DM
    | Tensor
    | FieldTerm
    | Anisotropy
    | Biquadratic
    | BondMatrix
    | Shifts
    | Scalar
    | Quadrupole,
    Field(discriminator="type"),
]


# ----------------------------------------------------------------------------------------------- system


def _optional_spins(schema: dict[str, Any]) -> None:
    """Leave `spins` out of the required keys of the schema."""
    schema["required"] = [name for name in schema["required"] if name != "spins"]


class System(Block):
    """The spins and the terms of their Hamiltonian; terms add up."""

    model_config = ConfigDict(json_schema_extra=_optional_spins)

    spins: Annotated[PositiveCount, Field(le=MAX_SPINS)] = Field(
        validation_alias=AliasChoices("spins", "N"),
        description="number of spins (also: N); may be left out where a lattice has Lx and Ly (Lz)",
        json_schema_extra={"example": 12},
    )
    spin: Spin | Annotated[list[Spin], Field(min_length=1)] = Field(
        default=0.5,
        description="S of every spin, 0.5, 1, 1.5, ... (also: 3/2), or a list of one for each site",
    )
    nuclei: Annotated[str, Field(max_length=8)] | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="isotope of all sites, such as 1H or 13C, or a list; spins follow from them, and couplings are in Hz",
    )
    spectrometer: Spectrometer | None = Field(
        default=None, description="frequency of protons, MHz, or the field: 400 MHz, 9.4 T"
    )
    operators: Literal["spin", "pauli"] = Field(
        default="spin",
        description="spin: S = sigma/2; pauli: couplings and fields multiply Pauli matrices, so J counts 4 and h 2 times",
    )
    sum: Literal["pairs", "full"] = Field(
        default="pairs",
        description="pairs: every pair j < k once; full: the double sum of the paper's Eq. (1), every pair twice",
    )
    lattice: Lattice | None = Field(default=None, description="lattice of all terms that name none")
    terms: Annotated[list[Term], Field(min_length=1)] = Field(
        description="terms of the Hamiltonian",
        json_schema_extra={"example": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
    )

    @property
    def twos(self) -> tuple[int, ...]:
        """2 S of every site."""
        spins = self.spin if isinstance(self.spin, list) else [self.spin] * self.spins
        return tuple(round(2.0 * spin) for spin in spins)

    @property
    def isotopes(self) -> list[str]:
        """The isotope of every site; empty without nuclei."""
        if self.nuclei is None:
            return []
        return self.nuclei if isinstance(self.nuclei, list) else [self.nuclei] * self.spins

    @property
    def larmor(self) -> list[float]:
        """Frequency of the reference of every nucleus, MHz; 0 without a spectrometer."""
        return [(self.spectrometer or 0.0) * ISOTOPES[name].share for name in self.isotopes]

    @property
    def quanta(self) -> int:
        """Twice the largest total Sz: the number of spins 1/2, or the sum of 2 S."""
        return sum(self.twos)

    @property
    def states(self) -> int:
        """Number of all states."""
        return math.prod(two + 1 for two in self.twos)

    @property
    def halves(self) -> bool:
        """True if all spins are 1/2 and no term is a matrix of their states, so that couplings and fields say all of H."""
        return set(self.twos) == {1} and not any(isinstance(term, LocalTerm) for term in self.terms)

    @model_validator(mode="before")
    @classmethod
    def _spins_of_lattice(cls, data: Any) -> Any:
        """Count the sites of the lattice or the nuclei, where the deck does not, and take the spins of nuclei."""
        if not isinstance(data, Mapping):
            return data
        if "spin" not in data and (spin := spin_of(data.get("nuclei"))) is not None:
            data = {**data, "spin": spin}
        if isinstance(data.get("nuclei"), list) and "spins" not in data and "N" not in data:
            data = {**data, "spins": len(data["nuclei"])}
        if "spins" in data or "N" in data:
            return data
        terms = data.get("terms")
        named = (
            [term.get("lattice") for term in terms or [] if isinstance(term, Mapping)]
            if isinstance(terms, list)
            else []
        )
        found = next(filter(None, map(sites_of, [data.get("lattice"), *named])), None)
        return data if found is None else {**data, "spins": found}


def are_driven(terms: Sequence[Term]) -> bool:
    """Return True if a term depends on time."""
    return any(term.profile is not None and term.profile.type != "constant" for term in terms)
