"""Molecular orbitals in molden files, a text format that most programs of quantum chemistry write.

Contractions refer to normalised Gaussians, and every function, each Cartesian one too, has the norm 1; spherical functions are in
the order m = 0, 1, -1, 2, -2, ... (p: x, y, z).  Without [5D], [7F], [9G] functions are Cartesian.

Some programs follow other conventions (`CONVENTIONS`), as is known from the test files that the library IODATA collects
(Verstraelen et al., J. Comput. Chem. 42, 458 (2021)).  Of conventions in which the orbitals of a file, occupied or not, are
orthonormal, those of the format come first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qsim.core.deck.columns import text_lines
from qsim.core.errors import FileError
from qsim.core.results.reading import reading
from qsim.core.text import shorten
from qsim.qmc.deck.elements import ELEMENTS, atomic_number
from qsim.qmc.wavefunction.formats.molecule import (
    GAMESS,
    ORTHONORMAL,
    Components,
    Molecule,
    double_factorial,
    ions_first,
    normalised,
    occupied,
    powers,
)
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX

__all__ = ["read_molden"]

EXPECTED = "a molden file of Gaussian orbitals, with [Atoms], [GTO] and [MO]"
BOHR = 0.529177210903  # angstrom, CODATA 2018; programs differ in the ninth digit
LETTERS = "spdfghi"
F_ORDER = ("xxx", "yyy", "zzz", "xyy", "xxy", "xxz", "xzz", "yzz", "yyz", "xyz")  # molden's own, of f alone
SPHERICAL = {"5D": (2, 3), "5D7F": (2, 3), "5D10F": (2,), "7F": (3,), "9G": (4,)}


@dataclass(frozen=True)
class Convention:
    """Norms and signs of basis functions in the files of a program.

    Parameters
    ----------
    program
        Its name, for messages; empty for the format itself.
    of_primitives
        Contraction coefficients are those of normalised Gaussians, else of ``x^i y^j z^k exp(-a r^2)``.
    negative
        Spherical functions of m = 3, -3, 4 and -4 have the opposite sign.
    cartesian
        Norms of the Cartesian functions of a shell: ``one`` each; ``large``, ``sqrt((2l - 1)!!)`` each; or those of one factor,
        with which the ``first`` (xx, xxx) or the ``last`` (xy, xyz) is normalised.
    """

    program: str
    of_primitives: bool = True
    negative: bool = False
    cartesian: Literal["one", "large", "first", "last"] = "one"


CONVENTIONS = (
    Convention(""),
    Convention("PSI4 before 1.0", of_primitives=False),
    Convention("ORCA", of_primitives=False, negative=True),
    Convention("CFOUR", cartesian="last"),
    Convention("PSI4 before 1.4", cartesian="first"),
    Convention("Turbomole", cartesian="large"),
)


@dataclass
class _Orbital:
    spin: int = 0
    occupation: float = math.nan
    coefficients: dict[int, float] = field(default_factory=dict)


@dataclass
class _Content:
    """Content of the sections of a file."""

    path: Path
    units: float = 1.0
    program: str = ""
    symbols: list[str] = field(default_factory=list)
    charges: list[float] = field(default_factory=list)
    places: list[list[float]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    core: dict[int, int] = field(default_factory=dict)
    basis: list[tuple[int, int, list[tuple[float, float]]]] = field(default_factory=list)
    spherical: set[int] = field(default_factory=set)
    orbitals: list[_Orbital] = field(default_factory=list)
    atom: int | None = None  # of [GTO], whose shells follow
    left: int = 0  # primitives that the last shell still waits for
    shared: int = 1  # shells that read them: two of an sp shell


def read_molden(path: Path) -> Molecule:
    """Read the molecule and the occupied orbitals of a file.

    Raises
    ------
    FileError
        If it is no such file, with the line; for Slater functions and occupations that are not whole.
    """
    if _is_hdf5(path):
        raise FileError(
            f"{path} is an HDF5 file, which source: chkfile or qmcpack reads; expected {EXPECTED}"
        )
    content = _Content(path)
    # A section is read line by line; those that are not named here are skipped.
    readers = {
        "ATOMS": _atom,
        "GTO": _shell,
        "MO": _orbital,
        "CORE": _core,
        "PSEUDO": _pseudo,
        "N_CORE": _core,
    }
    section = ""
    for number, line in text_lines(path, EXPECTED):
        text = line.strip()
        if text.startswith("["):
            section = _section(content, text, number)
            continue
        # The title is the only trace of the program in many files.
        if section == "TITLE" and "orca" in text.lower():
            content.program = "ORCA"
        if not text or section not in readers:
            continue
        with reading(path, EXPECTED, place=f"line {number}, {shorten(repr(text))}"):
            readers[section](content, text.replace("D+", "E+").replace("D-", "E-"))
    if content.left:
        raise FileError(f"{path}: the last shell of [GTO] lacks {content.left} of its Gaussians")
    for name, found in (("Atoms", content.symbols), ("GTO", content.basis), ("MO", content.orbitals)):
        if not found:
            raise FileError(f"{path}: section [{name}] is missing or empty; expected {EXPECTED}")
    return _understood(content)


def _is_hdf5(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x89HDF"


def _understood(content: _Content) -> Molecule:
    """Return the molecule in the first conventions in which its orbitals are orthonormal; in those of the format if in none.

    Of an atom, whose functions of different m never overlap, all conventions may be right: then the title decides.
    """
    # Programs write the same section with different norms and signs. Orthonormal orbitals
    # prove which ones are meant.
    for convention in sorted(CONVENTIONS, key=lambda one: one.program != content.program):
        molecule = _molecule(content, convention)
        if molecule.off_orthonormal <= ORTHONORMAL:
            return molecule
    return _molecule(content, CONVENTIONS[0])


def _section(content: _Content, text: str, number: int) -> str:
    """Return the name of a section and note what its head says."""
    name, _, rest = text[1:].partition("]")
    name = name.strip().upper()
    if name == "STO":
        raise FileError(
            f"{content.path}:{number}: Slater functions of molden files are not supported; expected [GTO]"
        )
    # [Atoms] AU or Angs: positions are the one number of a file that has a unit.
    if name == "ATOMS" and "ANG" in rest.upper():
        content.units = 1.0 / BOHR
    content.spherical.update(SPHERICAL.get(name, ()))
    if content.left:
        raise FileError(
            f"{content.path}:{number}: a shell of [GTO] lacks {content.left} of its Gaussians before this section"
        )
    return name


def _atom(content: _Content, text: str) -> None:
    """Read a line of [Atoms]: label, number, charge, place."""
    # Labels may carry numbers, as C1.
    label, _, charge, x, y, z = text.split()[:6]
    element = "".join(c for c in label if c.isalpha()).capitalize()
    if element not in ELEMENTS and float(charge) != 0.0:  # a centre without charge may be called as one likes
        raise ValueError(f"'{label}' is no element")
    content.symbols.append(element)
    content.charges.append(float(charge))
    content.places.append([float(v) * content.units for v in (x, y, z)])


def _shell(content: _Content, text: str) -> None:
    """Read a line of [GTO]: an atom, the head of a shell, or one of its Gaussians."""
    words = text.split()
    # The head of a shell says how many Gaussians follow.
    if content.left:
        # Of an sp shell the third column is the coefficient of p.
        shells = content.basis[-content.shared :]
        if len(words) <= content.shared:
            raise ValueError(f"an exponent and {content.shared} coefficient(s) are expected")
        for shell, c in zip(shells, words[1 : 1 + content.shared], strict=True):
            shell[2].append((float(words[0]), float(c)))
        content.left -= 1
    elif words[0].isdigit():
        content.atom = int(words[0]) - 1
        if not 0 <= content.atom < len(content.symbols):
            raise ValueError(f"there is no atom {words[0]}")
    elif content.atom is None:
        raise ValueError("a shell before the number of its atom")
    else:
        letters = words[0].lower()
        # An sp shell is one of s and one of p with the same exponents.
        momenta = [0, 1] if letters == "sp" else [LETTERS.find(letters)]
        if len(letters) > len(momenta) or not 0 <= momenta[-1] <= L_MAX:
            raise ValueError(f"shells of type {words[0]} are not supported; s, p, sp, d, f and g are")
        content.left = int(words[1])
        if content.left < 1:
            raise ValueError("a shell needs at least one Gaussian")
        content.shared = len(momenta)
        content.basis += [(content.atom, l, []) for l in momenta]


def _orbital(content: _Content, text: str) -> None:
    """Read a line of [MO]: a property of an orbital, or one of its coefficients."""
    key, found, value = text.partition("=")
    if found:
        name = key.strip().lower()
        # The first property after coefficients begins the next orbital; coefficients that are
        # zero may be missing.
        if not content.orbitals or content.orbitals[-1].coefficients:
            content.orbitals.append(_Orbital())
        if name == "spin":
            content.orbitals[-1].spin = int(value.strip().lower().startswith("b"))
        elif name == "occup":
            content.orbitals[-1].occupation = float(value)
        return
    if not content.orbitals:
        raise ValueError("coefficients before the first orbital")
    index, number = text.split()[:2]
    if int(index) < 1:
        raise ValueError("basis functions count from 1")
    content.orbitals[-1].coefficients[int(index) - 1] = float(number)


def _core(content: _Content, text: str) -> None:
    atom, _, count = text.replace(":", " ").partition(" ")
    content.core[int(atom) - 1] = int(count)


def _pseudo(content: _Content, text: str) -> None:
    """Read a line of [Pseudo]: label, number of the atom, charge of the ion."""
    _, atom, charge = text.split()[:3]
    k = int(atom) - 1
    content.core[k] = atomic_number(content.symbols[k]) - round(float(charge))


def _molecule(content: _Content, convention: Convention) -> Molecule:
    """Put together what the sections say."""
    path = content.path
    # Centres without charge have functions and no ion.
    ghosts = [charge == 0.0 for charge in content.charges]
    charges: list[float | None] = []
    for k, (symbol, charge) in enumerate(zip(content.symbols, content.charges, strict=True)):
        if ghosts[k]:
            continue
        number = atomic_number(symbol)
        # a third column below the atomic number is the charge of an ion; equal to it, nothing is known of a core
        known = charge if 0 < charge < number else None
        charges.append(float(number - content.core[k]) if k in content.core else known)
    shells = []
    for atom, l, primitives in content.basis:
        # Exponents and coefficients as the file has them; norms by the conventions that are
        # being tried.
        a, c = np.array(primitives, np.float64).T
        if not (np.all(np.isfinite(a) & (a > 0.0)) and np.all(np.isfinite(c)) and c.any()):
            raise FileError(f"{path}: a shell of atom {atom + 1} has impossible exponents or coefficients")
        components = _components(l, l in content.spherical)
        shell = normalised(atom, l, a, c, components, of_primitives=convention.of_primitives)
        shells.append(replace(shell, scale=shell.scale * _factors(components, convention)))
    size = sum(len(shell.components) for shell in shells)
    # A file with Cartesian functions read as spherical ones shows here.
    most = max(max(o.coefficients, default=0) for o in content.orbitals) + 1
    if most > size:
        raise FileError(f"{path}: orbitals have {most} coefficients, [GTO] gives {size} functions")
    C, n = [], []
    # Alpha orbitals alone are those of both spins.
    for spin in (0, 1):
        mine = [o for o in content.orbitals if o.spin == spin]
        if any(math.isnan(o.occupation) for o in mine):
            raise FileError(f"{path}: an orbital of [MO] has no Occup=")
        matrix: NDArray[np.float64] = np.zeros((size, len(mine)))
        for k, orbital in enumerate(mine):
            matrix[list(orbital.coefficients), k] = list(orbital.coefficients.values())
        C.append(matrix)
        n.append(np.array([o.occupation for o in mine], np.float64))
    both = 2 if n[1].size else 1
    positions, in_order = ions_first(ghosts, np.array(content.places, np.float64), shells)
    return Molecule(
        path=path,
        symbols=tuple(symbol for symbol, ghost in zip(content.symbols, ghosts, strict=True) if not ghost),
        positions=positions,
        charges=tuple(charges),
        shells=in_order,
        orbitals=occupied(path, C[:both], n[:both]),
        all_orbitals=tuple(C[:both]),
        conventions=convention.program,
    )


def _factors(components: Components, convention: Convention) -> NDArray[np.float64]:
    """Return the norm of each function of a shell in the conventions of a program, with its sign, (components,)."""
    found: list[float] = []
    for component in components:
        # Spherical functions differ by signs alone.
        if isinstance(component, int):
            found.append(-1.0 if convention.negative and abs(component) >= 3 else 1.0)
            continue
        # with one factor for all, the norm of x^i y^j z^k goes as sqrt((2i-1)!! (2j-1)!! (2k-1)!!), largest for the power of x
        own = math.prod(double_factorial(2 * power - 1) for power in component)
        largest = double_factorial(2 * sum(component) - 1)
        norms = {"one": 1.0, "large": largest, "first": own / largest, "last": own}
        found.append(math.sqrt(norms[convention.cartesian]))
    return np.array(found)


def _components(l: int, spherical: bool) -> Components:
    """Return the functions of a shell in molden's order."""
    if l == 1:
        return (1, -1, 0)  # x, y, z
    # m = 0, 1, -1, 2, -2, ...
    if spherical or l == 0:
        return (0, *(m for k in range(1, l + 1) for m in (k, -k)))
    return tuple(powers(name) for name in (F_ORDER if l == 3 else GAMESS[l]))
