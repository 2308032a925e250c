r"""Molecular orbitals and determinants in TREXIO files, HDF5 back end, read without the library.

A group such as ``ao`` has numbers as attributes (``ao_num``) and arrays as datasets (``ao_shell``).  A basis function is

.. math:: \chi_i = N'_iP_i(\mathbf r)\,N_s\sum_ka_kf_k\exp(-\gamma_kr^2),

with monomials in alphabetical order, or solid harmonics :math:`\sqrt{4\pi/(2l+1)}\,r^lY_{lm}` in the order of m 0, 1, -1, 2, ...
Programs that fill in other factors mean functions of norm 1, which the overlaps of the orbitals tell.

Specification: https://trex-coe.github.io/trexio/trex.html.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.reading import reading
from qsim.qmc.deck.elements import ELEMENTS
from qsim.qmc.wavefunction.formats.expansions import Stored, strings_of_bits
from qsim.qmc.wavefunction.formats.hdf import HdfFile
from qsim.qmc.wavefunction.formats.molecule import (
    ORTHONORMAL,
    GaussianShell,
    Molecule,
    ions_first,
    monomials,
    normalised,
    occupied,
)
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.wavefunction.formats.molecule import Components

__all__ = ["read_trexio"]

EXPECTED = "a TREXIO file (HDF5 back end)"
NEEDED = ("nucleus/nucleus_coord", "basis/basis_exponent", "ao/ao_shell", "mo/mo_coefficient")


def read_trexio(path: Path, *, expansion: bool = False) -> Molecule:
    """Read the molecule and the occupied orbitals of a file.

    Parameters
    ----------
    path
        The file.
    expansion
        Read its determinants, too.

    Raises
    ------
    FileError
        If it is no such file, of a crystal, complex, or its radial functions are no Gaussians.
    """
    if path.is_dir():
        raise FileError(
            f"{path} is a folder, TREXIO's text back end; {EXPECTED} is read",
            hint=f"trexio convert-backend -i {path} -o {path}.h5 -b hdf5 makes one",
        )
    with HdfFile(path, EXPECTED) as file, reading(path, EXPECTED):
        for name in NEEDED:
            if name not in file:
                raise FileError(f"{path} is not {EXPECTED} of molecular orbitals: it lacks '{name}'")
        if "pbc" in file and file.attribute("pbc", "pbc_periodic"):
            raise FileError(
                f"{path} is of a crystal", hint="crystals come with source: pyscf or source: eshdf"
            )
        _check_basis(path, file)
        found = _read(path, file, natural=expansion)
        if found.off_orthonormal > ORTHONORMAL:
            other = replace(
                found, shells=tuple(map(_of_norm_1, found.shells)), conventions="functions of norm 1"
            )
            found = other if other.off_orthonormal <= ORTHONORMAL else found
        return replace(found, expansion=_determinants(path, file, found)) if expansion else found


def _check_basis(path: Path, file: HdfFile) -> None:
    """Refuse functions other than Gaussians, and complex orbitals."""
    kind = str(file.attribute("basis", "basis_type") or "Gaussian")
    if kind.lower() != "gaussian":
        hint = (
            "Slater functions are written into the deck, with source: sto" if kind.lower() == "slater" else ""
        )
        raise FileError(f"{path}: basis_type is '{kind}'; Gaussian functions are supported", hint=hint)
    for name, text in (
        ("basis/basis_r_power", "powers of r beside those of the angular functions"),
        ("basis/basis_oscillation_arg", "oscillating functions"),
        ("basis/basis_exponent_im", "complex exponents"),
        ("mo/mo_coefficient_im", "complex orbitals; those of molecules must be real"),
    ):
        if name in file and np.abs(file.numbers(name)).max(initial=0.0) > 0.0:
            raise FileError(f"{path}: {name} has {text}, which is not supported")


def _of_norm_1(shell: GaussianShell) -> GaussianShell:
    """Return a shell each of whose functions has the norm 1; its primitives keep their weights."""
    return normalised(
        shell.atom, shell.l, shell.exponent, shell.coefficient, shell.components, of_primitives=False
    )


def _read(path: Path, file: HdfFile, *, natural: bool) -> Molecule:
    """Put together what the groups of the file say; occupations need not be whole where determinants follow (`natural`)."""
    positions = file.numbers("nucleus/nucleus_coord").astype(np.float64).reshape(-1, 3)
    symbols, charges = _nuclei(path, file, len(positions))
    shells = _shells(path, file, len(positions))
    size = sum(len(shell.components) for shell in shells)
    C = file.numbers("mo/mo_coefficient").astype(np.float64)
    if C.ndim != 2 or C.shape[1] != size:
        raise FileError(f"{path}: mo_coefficient has the shape {C.shape}, the basis {size} functions")
    spin = np.zeros(len(C), np.int64)
    if "mo/mo_spin" in file:
        spin = file.numbers("mo/mo_spin").astype(np.int64).ravel()
    unrestricted = bool(spin.any())
    sets = [C[spin == s].T for s in ((0, 1) if unrestricted else (0,))]
    ghosts = [charge == 0.0 for charge in charges]
    counts = [file.attribute("electron", f"electron_{name}_num") for name in ("up", "dn")]
    if not natural and "mo/mo_occupation" in file:
        n = file.numbers("mo/mo_occupation").astype(np.float64).ravel()
        orbitals = occupied(path, sets, [n[spin == s] for s in range(len(sets))])
        for word, found, count in zip(("up", "down"), orbitals, counts, strict=True):
            if count is not None and found.shape[1] != int(float(count)):
                raise FileError(
                    f"{path}: {found.shape[1]} orbitals with spin {word} are occupied, but there are {count} such electrons"
                )
    else:
        if None in counts:
            raise FileError(f"{path} lacks electron_up_num or electron_dn_num in the group 'electron'")
        up, dn = (int(float(str(count))) for count in counts)
        if not (0 <= up <= sets[0].shape[1] and 0 <= dn <= sets[-1].shape[1]):
            raise FileError(
                f"{path}: {up} and {dn} electrons, but {' and '.join(str(one.shape[1]) for one in sets)} orbitals"
            )
        orbitals = sets[0][:, :up], sets[-1][:, :dn]
    places, in_order = ions_first(ghosts, positions, shells)
    kept = [k for k, ghost in enumerate(ghosts) if not ghost]
    return Molecule(
        path=path,
        symbols=tuple(symbols[k] for k in kept),
        positions=places,
        charges=tuple(charges[k] for k in kept),
        shells=in_order,
        orbitals=orbitals,
        all_orbitals=tuple(sets),
    )


def _nuclei(path: Path, file: HdfFile, count: int) -> tuple[list[str], list[float]]:
    """Return elements and charges; with a pseudopotential those that it leaves."""
    charges = file.numbers("nucleus/nucleus_charge").astype(np.float64).ravel()
    cores = np.zeros(count)
    if "ecp/ecp_z_core" in file:
        cores = file.numbers("ecp/ecp_z_core").astype(np.float64).ravel()
    if len(charges) != count or len(cores) != count:
        raise FileError(f"{path}: {len(charges)} charges and {len(cores)} cores of {count} nuclei")
    labels = file.texts("nucleus/nucleus_label") if "nucleus/nucleus_label" in file else [""] * count
    symbols, left = [], []
    for label, charge, core in zip(labels, charges, cores, strict=False):
        letters = "".join(c for c in label if c.isalpha())[:2].capitalize()
        symbol = next((s for s in (letters, letters[:1]) if s in ELEMENTS), "")
        whole = round(charge + core)
        if not symbol and charge and 0 < whole <= len(ELEMENTS):
            symbol = ELEMENTS[whole - 1]
        if charge and not symbol:
            raise FileError(f"{path}: nucleus '{label}' with the charge {charge:g} is no element")
        # Most programs write the charge that is left; some that of the nucleus.
        full = core > 0 and symbol and abs(charge - 1 - ELEMENTS.index(symbol)) < 1e-6
        symbols.append(symbol)
        left.append(float(charge - core if full else charge))
    return symbols, left


def _shells(path: Path, file: HdfFile, nuclei: int) -> list[GaussianShell]:
    """Return the shells in the order of the file's functions, each with the factors of these."""
    atom, l, factor = (
        file.numbers(f"basis/basis_{name}").ravel()
        for name in ("nucleus_index", "shell_ang_mom", "shell_factor")
    )
    of, exponent, coefficient, own = (
        file.numbers(f"basis/basis_{name}").ravel()
        for name in ("shell_index", "exponent", "coefficient", "prim_factor")
    )
    ao = file.numbers("ao/ao_shell").astype(np.int64).ravel()
    scale = np.ones(len(ao))
    if "ao/ao_normalization" in file:
        scale = file.numbers("ao/ao_normalization").astype(np.float64).ravel()
    cartesian = bool(int(str(file.attribute("ao", "ao_cartesian") or 0)))
    good = len(atom) == len(l) == len(factor) and len(of) == len(exponent) == len(coefficient) == len(own)
    if not good or len(scale) != len(ao) or not len(l) or not (l >= 0).all():
        raise FileError(f"{path}: the arrays of the groups 'basis' and 'ao' do not have the same lengths")
    if l.max() > L_MAX:
        raise FileError(
            f"{path}: basis_shell_ang_mom is {l.max()}; functions up to l = {L_MAX} (g) are supported"
        )
    if not ((atom >= 0) & (atom < nuclei)).all() or not ((ao >= 0) & (ao < len(l))).all():
        raise FileError(f"{path}: indices of nuclei or shells are out of range; TREXIO counts from 0")
    shells, at = [], 0
    while at < len(ao):
        s = int(ao[at])
        components = _components(int(l[s]), cartesian)
        end = at + len(components)
        if not (ao[at:end] == s).all() or end > len(ao):
            raise FileError(f"{path}: shell {s} of ao_shell does not have its {len(components)} functions")
        mine = of == s
        racah = 1.0 if cartesian else math.sqrt(4.0 * math.pi / (2 * l[s] + 1))
        a = exponent[mine].astype(np.float64)
        c = (factor[s] * coefficient[mine] * own[mine]).astype(np.float64)
        if not (a.size and np.all(np.isfinite(a) & (a > 0.0)) and np.all(np.isfinite(c)) and c.any()):
            raise FileError(f"{path}: shell {s} has impossible exponents or coefficients")
        shells.append(GaussianShell(int(atom[s]), int(l[s]), a, c, components, racah * scale[at:end]))
        at = end
    return shells


def _components(l: int, cartesian: bool) -> Components:
    """Return the functions of a shell in the order of the format."""
    if cartesian:
        return monomials(l)
    return (0, *(sign * m for m in range(1, l + 1) for sign in (1, -1)))


def _determinants(path: Path, file: HdfFile, molecule: Molecule) -> Stored:
    """Return the group ``determinant``: bit o % 64 of word o // 64 is orbital o, words of spin up before those of spin down."""
    for name in ("determinant_list", "determinant_coefficient"):
        if f"determinant/{name}" not in file:
            more = "; its CSFs alone are not read" if "csf/csf_coefficient" in file else ""
            raise FileError(f"{path} holds no expansion in determinants: it lacks 'determinant/{name}'{more}")
    c = file.numbers("determinant/determinant_coefficient").astype(np.float64).ravel()
    words = file.numbers("determinant/determinant_list").astype(np.int64).ravel().view(np.uint64)
    if not c.size or words.size % (2 * c.size):
        raise FileError(f"{path}: determinant_list has {words.size} words for {c.size} determinants")
    norm = float(np.linalg.norm(c))
    if not (math.isfinite(norm) and norm > 0.0):
        raise FileError(f"{path}: determinant_coefficient is not finite or all zero")
    table = words.reshape(c.size, 2, -1)
    strings, index = strings_of_bits((table[:, 0], table[:, 1]))
    shared = len(molecule.all_orbitals) == 1
    if not shared:  # orbitals of spin down are counted behind those of spin up
        spin = file.numbers("mo/mo_spin").astype(np.int64).ravel()
        strings = _own(path, strings[0], spin, 0), _own(path, strings[1], spin, 1)
    counts = tuple(C.shape[1] for C in molecule.orbitals)
    if tuple(one.shape[1] for one in strings) != counts:
        raise FileError(
            f"{path}: determinants of {strings[0].shape[1]} and {strings[1].shape[1]} electrons, but electron_up_num and "
            f"electron_dn_num are {counts[0]} and {counts[1]}; strings must have the orbitals of a core, too"
        )
    return Stored(path.name, strings, index, c[None] / norm, _energy(file), shared=shared)


def _own(path: Path, strings: NDArray[np.int64], spin: NDArray[np.int64], which: int) -> NDArray[np.int64]:
    """Return strings (K, n) by the places of their orbitals among those of their spin."""
    mine = np.flatnonzero(spin == which)
    if strings.size and (strings.max() >= len(spin) or not np.isin(strings, mine).all()):
        word = ("up", "down")[which]
        raise FileError(
            f"{path}: a determinant has an orbital with spin {word} that mo_spin gives to the other spin"
        )
    return np.searchsorted(mine, strings)


def _energy(file: HdfFile) -> NDArray[np.float64] | None:
    """Return the energy of the state of the file, (1,), if it is known."""
    if "state/state_energy" not in file:
        return None
    energies, state = (
        file.numbers("state/state_energy").astype(np.float64).ravel(),
        file.attribute("state", "state_id"),
    )
    k = int(float(str(state or 0)))
    return energies[k : k + 1] if k < len(energies) else None
