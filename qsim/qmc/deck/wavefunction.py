"""Blocks of the qmc deck: ions and electrons, orbitals, Jastrow factor.

Everything is in Hartree atomic units.  The functions behind the blocks are in :mod:`qsim.qmc.system.ions`,
:mod:`qsim.qmc.wavefunction.molecules` (its modules ``sto``, ``trap`` and ``gaussian``) and :mod:`qsim.qmc.wavefunction.jastrow`.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from qsim.core.deck.blocks import Block, Count, DeckPath, Integer, PositiveCount
from qsim.core.deck.units import Energy, Length, Mass
from qsim.qmc.deck.determinants import Determinants
from qsim.qmc.deck.jastrow import Coefficient, Jastrow, Symbol, no_jastrow

__all__ = [
    "PERIODIC",
    "Coulomb",
    "Eshdf",
    "Imported",
    "Orbitals",
    "Shell",
    "System",
    "Wavefunction",
    "for_each",
]

MAX_ATOMS = 1000
MAX_ELECTRONS = 2000
MAX_L = 4  # g shells, the largest that the kernels know
MAX_N = 7
PERIODIC = ("periodic", "crystal", "bulk")  # words for a cell that belongs to crystals

Coordinate = Annotated[Length, Field(gt=-1e4, lt=1e4)]
# not strict: after the validator of its block, which works on Python objects, an atom is a list
Atom = Annotated[tuple[Symbol, Coordinate, Coordinate, Coordinate], Field(strict=False)]
# an element, a label, or all
Ions = Annotated[str, Field(pattern=r"^([A-Za-z]{1,2}[0-9]*|all)$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=40)]
Exponent = Annotated[float, Field(gt=1e-3, lt=1e4)]
Spin = Annotated[Integer, Field(ge=-MAX_ELECTRONS, le=MAX_ELECTRONS)]
Three = Annotated[list[Annotated[Integer, Field(ge=-1000, le=1000)]], Field(min_length=3, max_length=3)]

# ---------------------------------------------------------------------------------------------- system


Vector = Annotated[list[Annotated[float, Field(gt=-100.0, lt=100.0)]], Field(min_length=3, max_length=3)]


class TwistPoint(Block):
    """One of several twists."""

    twist: Vector = Field(
        description="in reciprocal vectors of the supercell", json_schema_extra={"example": [0.5, 0.0, 0.0]}
    )
    weight: Annotated[float, Field(gt=0.0, lt=1e9)] = Field(
        default=1.0, description="share of the average, in any unit"
    )


def _twist_form(value: object) -> object:
    return {"twist": value} if isinstance(value, list) else value


def _potentials_form(value: object) -> object:
    """Read ``pseudopotentials: ccecp``, the same library for all elements."""
    return {"all": value} if isinstance(value, str) else value


def _tile_form(value: object) -> object:
    """Read ``[2, 2, 2]``, multiples of the three vectors."""
    if isinstance(value, list) and len(value) == 3 and all(type(n) is int for n in value):
        a, b, c = value
        return [[a, 0, 0], [0, b, 0], [0, 0, c]]
    return value


Potentials = Annotated[
    dict[Ions, Name | DeckPath],
    BeforeValidator(_potentials_form, json_schema_input_type=dict[Ions, Name | DeckPath] | Name),
]


class System(Block):
    """Ions at their places and electrons around them."""

    cell: Literal["open", "periodic"] = Field(
        default="open",
        description="open: no boundary; periodic: a crystal or the electron gas, as a lattice and eshdf or planewave orbitals "
        "say, too",
    )
    atoms: Annotated[list[Atom], Field(max_length=MAX_ATOMS)] = Field(
        default=[],
        description="element (or a label such as H1) and position of each atom; none for electrons in a trap",
        json_schema_extra={"example": [["He", 0, 0, 0]]},
    )
    units: Literal["bohr", "angstrom"] = Field(
        default="bohr", description="unit of positions that are bare numbers"
    )
    spin: Spin = Field(default=0, description="n_up - n_down")
    charge: Annotated[Integer, Field(ge=-100, le=1000)] = Field(default=0, description="total charge")
    electrons: Annotated[PositiveCount, Field(le=MAX_ELECTRONS)] | None = Field(
        default=None, description="number of electrons; by default from the ions and the charge"
    )
    pseudopotentials: Potentials = Field(
        default={},
        description="by element: an FSATOM XML file (as of QMCPACK), or a name of PySCF's library such as ccecp; the name alone "
        "is for all elements",
    )
    quadrature: Literal[6, 12, 18, 26, 32, 50] = Field(
        default=12, description="points of the spherical rule for nonlocal pseudopotentials, randomly rotated"
    )
    lattice: (
        Annotated[
            list[Annotated[list[Length], Field(min_length=3, max_length=3)]],
            Field(min_length=3, max_length=3),
        ]
        | None
    ) = Field(default=None, description="rows: lattice vectors of a crystal; eshdf orbitals bring their own")
    rs: Annotated[Length, Field(gt=0.01, lt=1e4)] | None = Field(
        default=None,
        description="electron gas: radius of a sphere with one electron, which sets the edge of a cubic cell",
    )
    tilematrix: Annotated[
        list[Three],
        Field(min_length=3, max_length=3),
        BeforeValidator(_tile_form, json_schema_input_type=list[Three] | Three),
    ] = Field(
        default=[[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        description="supercell of a crystal: its lattice vectors in units of the primitive ones; [2, 2, 2] is twice each",
    )
    twist: Vector = Field(
        default=[0.0, 0.0, 0.0], description="twist of a crystal in reciprocal vectors of the supercell"
    )
    twists: (
        Annotated[
            list[
                Annotated[
                    TwistPoint, BeforeValidator(_twist_form, json_schema_input_type=TwistPoint | Vector)
                ]
            ],
            Field(min_length=1, max_length=1000),
        ]
        | None
    ) = Field(
        default=None,
        description="several twists to average over: vectors, or each with its weight as {twist: [0.5, 0, 0], weight: 3}",
    )
    twist_grid: (
        Annotated[list[Annotated[PositiveCount, Field(le=30)]], Field(min_length=3, max_length=3)] | None
    ) = Field(default=None, description="regular grid of twists to average over, reduced by time reversal")
    twist_shift: Vector = Field(
        default=[0.0, 0.0, 0.0],
        description="of that grid, in its spacings; 0.5: the grid of Monkhorst and Pack",
    )

    @model_validator(mode="before")
    @classmethod
    def _to_bohr(cls, data: Any) -> Any:
        """Give bare positions their unit, so that the resolved deck is in bohr, and a cell its word."""
        if isinstance(data, dict) and "cell" in data:
            data = _with_cell(data)
        if (
            isinstance(data, dict)
            and "cell" not in data
            and (data.get("lattice") or data.get("rs")) is not None
        ):
            data = {**data, "cell": "periodic"}
        if isinstance(data, dict) and isinstance(data.get("atoms"), list):
            data = _with_potentials(data)
        if (
            not isinstance(data, dict)
            or data.get("units") != "angstrom"
            or not isinstance(data.get("atoms"), list)
        ):
            return data
        atoms = [_with_unit(atom) if isinstance(atom, list | tuple) else atom for atom in data["atoms"]]
        made = {**data, "units": "bohr", "atoms": atoms}
        if isinstance(data.get("lattice"), list):
            made["lattice"] = [
                _with_unit(["", *row])[1:] if isinstance(row, list) else row for row in data["lattice"]
            ]
        return made


def _with_cell(data: dict[str, Any]) -> dict[str, Any]:
    """Read ``cell: crystal`` and ``cell: [[...]]``, a lattice."""
    cell = data["cell"]
    if isinstance(cell, list) and "lattice" not in data:
        return {**data, "cell": "periodic", "lattice": cell}
    return {**data, "cell": "periodic"} if isinstance(cell, str) and cell in PERIODIC else data


def _with_potentials(data: dict[str, Any]) -> dict[str, Any]:
    """Give each species of the deck the pseudopotential that is for all, so that the resolved deck has it."""
    given = _potentials_form(data.get("pseudopotentials"))
    if not isinstance(given, dict) or "all" not in given:
        return data
    species = [atom[0] for atom in data["atoms"] if isinstance(atom, list | tuple) and atom]
    return {**data, "pseudopotentials": for_each(given, [s for s in species if isinstance(s, str)])}


def for_each(potentials: Mapping[str, Any], symbols: Iterable[str]) -> dict[str, Any]:
    """Return the pseudopotential of each species, where one is for ``all``.

    Parameters
    ----------
    potentials
        By symbol; those of single species go first.
    symbols
        Of the atoms; without any, ``all`` stays as it is.
    """
    species = list(dict.fromkeys(symbols))
    if "all" not in potentials or not species:
        return dict(potentials)
    own = {symbol: value for symbol, value in potentials.items() if symbol != "all"}
    return {**dict.fromkeys(species, potentials["all"]), **own}


def _with_unit(atom: Any) -> list[Any]:
    symbol, *place = [*atom] or [None]
    return [symbol, *(f"{x!r} angstrom" if _is_number(x) else x for x in place)]


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


# -------------------------------------------------------------------------------------------- orbitals


class Shell(Block):
    """A shell of Slater-type orbitals; lists of n, zeta and coefficients contract several of them."""

    atom: Symbol | Annotated[Count, Field(lt=MAX_ATOMS)] | None = Field(
        default=None, description="element (all its atoms) or number of the atom, from 0"
    )
    n: (
        Annotated[PositiveCount, Field(le=MAX_N)]
        | Annotated[list[Annotated[PositiveCount, Field(le=MAX_N)]], Field(min_length=1, max_length=40)]
    ) = Field(description="principal quantum number", json_schema_extra={"example": 1})
    l: Annotated[Count, Field(le=MAX_L)] = Field(default=0, description="orbital momentum")
    zeta: Exponent | Annotated[list[Exponent], Field(min_length=1, max_length=40)] = Field(
        description="exponent, 1/bohr", json_schema_extra={"example": 1.6875}
    )
    coefficients: Annotated[list[Coefficient], Field(min_length=1, max_length=40)] | None = Field(
        default=None, description="of the contraction"
    )


class HydrogenShell(Block):
    """Quantum numbers of an eigenfunction of a hydrogen-like ion."""

    n: Annotated[PositiveCount, Field(le=MAX_N)] = Field(description="principal quantum number")
    l: Annotated[Count, Field(le=MAX_L)] = Field(default=0, description="orbital momentum")


Rows = Annotated[
    list[Annotated[list[Coefficient], Field(min_length=1, max_length=10_000)]],
    Field(min_length=1, max_length=MAX_ELECTRONS),
]


class RowsBySpin(Block):
    """Orbitals of the two spins."""

    up: Rows = Field(description="rows of spin-up orbitals")
    down: Rows = Field(description="rows of spin-down orbitals")


class Sto(Block):
    """Slater-type orbitals."""

    source: Literal["sto"]
    shells: Annotated[list[Shell], Field(min_length=1, max_length=1000)] = Field(
        description="shells, each an orbital (three for p) unless molecular_orbitals combines them",
        json_schema_extra={"example": [{"atom": "He", "n": 1, "l": 0, "zeta": 1.6875}]},
    )
    molecular_orbitals: Rows | RowsBySpin | None = Field(
        default=None,
        description="rows of coefficients over all shells, atom by atom; or such rows for up and down",
    )


class Hydrogen(Block):
    """Eigenfunctions of one nucleus."""

    source: Literal["hydrogen"]
    shells: Annotated[list[HydrogenShell], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="which, instead of the lowest in energy"
    )


class Hooke(Block):
    """Two electrons in a harmonic trap; at the default frequency the trial function can be exact."""

    source: Literal["hooke"]
    omega: Annotated[Energy, Field(gt=1e-3, lt=1e3)] = Field(default=0.5, description="frequency of the trap")
    exponent: Annotated[float, Field(gt=1e-4, lt=1e4)] | None = Field(
        default=None, description="alpha of exp(-alpha r^2), 1/bohr^2; by default the eigenfunctions'"
    )


class Harmonic(Block):
    """Particles in a harmonic trap."""

    source: Literal["harmonic"]
    omega: Annotated[Energy, Field(gt=1e-3, lt=1e3)] = Field(default=1.0, description="frequency of the trap")
    mass: Annotated[Mass, Field(gt=1e-3, lt=1e5)] = Field(default=1.0, description="mass of the particles")
    exponent: Annotated[float, Field(gt=1e-4, lt=1e6)] | None = Field(
        default=None, description="alpha of exp(-alpha r^2), 1/bohr^2; by default the eigenfunctions'"
    )
    interacting: bool = Field(default=False, description="whether the particles repel each other")


MeshFactor = Annotated[float, Field(ge=0.6, le=8.0)]
CUSP = (
    "correct the electron-nucleus cusps at bare nuclei (Ma, Towler, Drummond, Needs); without a Jastrow factor, the energy is "
    "then below the mean field's, which false gives"
)
MESHFACTOR = "points of the splines for each axis over four times the largest plane wave"
Occupied = Annotated[list[Annotated[Count, Field(le=100)]], Field(min_length=2, max_length=2)]


class MuffinTins(Block):
    """Spheres around the ions of a crystal in which orbitals are spherical harmonics with radial splines."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"lmax": "l_max"}

    radius: Annotated[Length, Field(gt=0.1, lt=20.0)] | None = Field(
        default=None, description="of all tins; by default, and at most, half the shortest distance of ions"
    )
    l_max: Annotated[Count, Field(ge=1, le=10)] = Field(
        default=6, validation_alias=AliasChoices("l_max", "lmax"), description="largest angular momentum"
    )
    meshfactor: Annotated[float, Field(ge=0.2, le=8.0)] = Field(
        default=0.5, description=f"between the tins: {MESHFACTOR}"
    )


def _tins_form(value: object) -> object:
    """Read ``muffin_tins: auto``."""
    return {} if value == "auto" else value


Tins = Annotated[
    MuffinTins | None, BeforeValidator(_tins_form, json_schema_input_type=MuffinTins | Literal["auto"] | None)
]
TINS = "mixed basis: spherical harmonics around the ions, coarse splines between; auto: with their defaults"


class Pyscf(Block):
    """Gaussian orbitals of a self-consistent field, which PySCF finds once; later runs read them from a file."""

    source: Literal["pyscf"]
    method: Literal["rhf", "uhf", "rohf", "rks", "uks", "roks"] = Field(
        default="rhf",
        description="Hartree-Fock or Kohn-Sham; spin-restricted, unrestricted, restricted open-shell",
    )
    basis: Annotated[str, Field(min_length=1, max_length=100)] | dict[Symbol, str] = Field(
        default="cc-pvtz", description="name of a basis of PySCF's library, or one by element"
    )
    xc: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="functional of rks, uks and roks, such as pbe"
    )
    ecp: dict[Symbol, Name] = Field(
        default={},
        description="names in PySCF's library for the self-consistent field, where pseudopotentials are files",
    )
    guess: Literal["minao", "atom", "1e", "huckel", "vsap"] | None = Field(
        default=None, description="initial guess of the self-consistent field; by default PySCF's"
    )
    occupation: dict[Literal["s", "p", "d", "f", "g"], Occupied] | None = Field(
        default=None,
        description="of one atom: electrons with spin up and down by orbital momentum, without a pseudopotential's core",
        json_schema_extra={"example": {"s": [2, 2], "p": [3, 3], "d": [5, 1]}},
    )
    stability: bool = Field(
        default=False,
        description="look for instabilities of the self-consistent field and follow them to a lower one",
    )
    energy: Annotated[Energy, Field(gt=-1e7, lt=1e7)] | None = Field(
        default=None, description="energy that the self-consistent field must give"
    )
    energy_tolerance: Annotated[Energy, Field(gt=0.0, lt=1e3)] = Field(
        default=1e-4, description="how closely it must do so"
    )
    cusp: bool = Field(
        default=True,
        description=CUSP,
    )
    cache: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        validation_alias=AliasChoices("cache", "file"),
        description="HDF5 file beside the deck that keeps the orbitals: written if missing, else read without PySCF; of a "
        "crystal in the ESHDF format",
    )
    cutoff: Annotated[Energy, Field(gt=1.0, lt=1e4)] | Literal["auto"] = Field(
        default="auto",
        description="of a crystal: kinetic energy of the plane waves that orbitals are expanded in; auto: the least that leaves "
        "0.1 millihartree per electron of the kinetic energy",
    )
    discard: Annotated[float, Field(ge=0.0, lt=10.0)] = Field(
        default=0.2, description="of a crystal: exponents of the basis below this one are left out, 1/bohr^2"
    )
    meshfactor: MeshFactor = Field(default=1.0, description=f"of a crystal: {MESHFACTOR}")
    muffin_tins: Tins = Field(default=None, description=f"of a crystal: {TINS}")


class Eshdf(Block):
    """Bands of a crystal, from a file that ``pw2qmcpack.x`` of Quantum ESPRESSO writes, as tricubic B-splines."""

    source: Literal["eshdf"]
    file: DeckPath = Field(
        validation_alias=AliasChoices("file", "orbitals"),
        description="the ESHDF file; it brings the primitive cell and its ions",
        json_schema_extra={"example": "diamond.h5"},
    )
    meshfactor: MeshFactor = Field(default=1.0, description=MESHFACTOR)
    muffin_tins: Tins = Field(default=None, description=TINS)


class Imported(Block):
    """Molecular orbitals of Gaussians that another program has found, in a file of its own."""

    source: Literal["chkfile", "molden", "qmcpack", "trexio"]
    file: DeckPath = Field(
        validation_alias=AliasChoices("file", "orbitals"),
        description="chkfile: checkpoint file of a mean field of PySCF (mf.chkfile); molden: a text file as most programs write; "
        "qmcpack: HDF5 of QMCPACK's converters; trexio: HDF5 of TREXIO.  It brings ions, electrons and occupied orbitals; "
        "centres without charge are no ions",
        json_schema_extra={"example": "h2o.chk"},
    )
    cusp: bool = Field(
        default=True,
        description=CUSP,
    )


class Planewave(Block):
    """Plane waves: the electron gas."""

    source: Literal["planewave"]


def _source_form(value: object) -> object:
    return {"source": value} if isinstance(value, str) else value


_Orbitals = Annotated[
    Sto | Hydrogen | Hooke | Harmonic | Pyscf | Imported | Eshdf | Planewave, Field(discriminator="source")
]
# what needs nothing but its source may be the word alone
_Sources = Literal["hydrogen", "hooke", "harmonic", "pyscf", "planewave"]
Orbitals = Annotated[
    Sto | Hydrogen | Hooke | Harmonic | Pyscf | Imported | Eshdf | Planewave,
    Field(discriminator="source"),
    BeforeValidator(_source_form, json_schema_input_type=_Orbitals | _Sources),
]


class Coulomb(Block):
    """Division of the periodic Coulomb potential of a crystal into near and far."""

    method: Literal["optimized_breakup"] = Field(
        default="optimized_breakup", description="the division of Natoli and Ceperley"
    )
    kc_rc: Annotated[float, Field(ge=4.0, le=30.0)] = Field(
        default=12.0, description="product of the cutoffs of both parts"
    )
    check: Literal["ewald"] = Field(default="ewald", description="what the division is compared with")
    tolerance: Annotated[Energy, Field(gt=0.0, lt=1.0)] = Field(
        default=1e-4, description="largest deviation of the potential of two unit charges that is accepted"
    )


class Wavefunction(Block):
    """The trial function: Slater determinants of both spins, or a sum of them, times a Jastrow factor."""

    orbitals: Orbitals = Field(
        description="orbitals of the determinants",
        json_schema_extra={
            "example": {"source": "sto", "shells": [{"atom": "He", "n": 1, "l": 0, "zeta": 1.6875}]}
        },
    )
    determinants: Determinants | None = Field(
        default=None, description="expansion in several determinants; by default one, of the first orbitals"
    )
    jastrow: Annotated[
        Jastrow, BeforeValidator(no_jastrow, json_schema_input_type=Jastrow | Literal["none"] | None)
    ] = Field(
        default=Jastrow(),
        description="Jastrow factor; none: determinants alone, with the mean field's energy, but for corrected cusps "
        "of bare nuclei.  By default none, for source: hooke J2 of type log1p",
        validate_default=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _exact_pair(cls, data: Any) -> Any:
        """Give Hooke's atom its Jastrow factor if the deck says nothing, so that the resolved deck has it."""
        if not isinstance(data, dict) or "jastrow" in data:
            return data
        orbitals = data.get("orbitals")
        source = orbitals.get("source") if isinstance(orbitals, dict) else orbitals
        return {**data, "jastrow": {"J2": {"type": "log1p"}}} if source == "hooke" else data
