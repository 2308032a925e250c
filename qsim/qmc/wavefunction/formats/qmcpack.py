"""Molecular orbitals in the HDF5 files that QMCPACK reads, from its converters ``convert4qmc`` and ``PyscfToQmcpack``.

One basis per species; contractions refer to normalised Gaussians, and every function, each Cartesian one too, has the norm 1.
Cartesian functions are in the order of GAMESS, spherical ones in that of PySCF.  Rows of ``Super_Twist/eigenset_0`` are orbitals,
of which each spin occupies the first.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.reading import reading
from qsim.qmc.deck.elements import ELEMENTS
from qsim.qmc.wavefunction.formats.expansions import Stored, strings_of_bits
from qsim.qmc.wavefunction.formats.hdf import HdfFile
from qsim.qmc.wavefunction.formats.molecule import (
    GAMESS,
    GaussianShell,
    Molecule,
    ions_first,
    normalised,
    powers,
)
from qsim.qmc.wavefunction.harmonics import order
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX

__all__ = ["read_qmcpack"]

EXPECTED = "molecular orbitals as QMCPACK's converters (convert4qmc, PyscfToQmcpack) write them"
MOST = 10_000  # atoms, species, shells, Gaussians of a shell


def read_qmcpack(path: Path, *, expansion: bool = False) -> Molecule:
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
    with HdfFile(path, EXPECTED) as file, reading(path, EXPECTED):
        for name in ("basisset/NbElements", "atoms/positions", "Super_Twist/eigenset_0"):
            if name not in file:
                raise FileError(f"{path} is not {EXPECTED}: it lacks '{name}'")
        # Refused with the remedy: these cases have other sources.
        if _flag(file, "PBC/PBC"):
            raise FileError(
                f"{path} is of a crystal", hint="crystals come with source: pyscf or source: eshdf"
            )
        if _flag(file, "parameters/IsComplex"):
            raise FileError(f"{path}: its orbitals are complex; orbitals of molecules must be real")
        found = _read(path, file)
        if not expansion:
            return found
        return replace(found, expansion=_determinants(path, file, found), doubts=())


def _determinants(path: Path, file: HdfFile, molecule: Molecule) -> Stored:
    """Return the group ``MultiDet``: bit o % 64 of word o // 64 is orbital o of a string; ``Coeff``, ``Coeff_1`` ... states."""
    names = ("CI_Alpha", "CI_Beta") if "MultiDet/CI_Alpha" in file else ("CI_0", "CI_1")
    for name in (*names, "Coeff"):
        if f"MultiDet/{name}" not in file:
            raise FileError(f"{path} holds no expansion in determinants: it lacks 'MultiDet/{name}'")
    up, dn = (np.atleast_2d(file.numbers(f"MultiDet/{name}")).astype(np.uint64) for name in names)
    every = ["Coeff"]
    while f"MultiDet/Coeff_{len(every)}" in file:
        every.append(f"Coeff_{len(every)}")
    c = np.stack([file.numbers(f"MultiDet/{name}").astype(np.float64).ravel() for name in every])
    up, dn = up.reshape(c.shape[1], -1), dn.reshape(c.shape[1], -1)
    strings, index = strings_of_bits((up, dn))
    counts = tuple(C.shape[1] for C in molecule.orbitals)
    if tuple(table.shape[1] for table in strings) != counts:
        raise FileError(
            f"{path}: determinants of {strings[0].shape[1]} and {strings[1].shape[1]} electrons, but parameters of "
            f"{counts[0]} and {counts[1]}; strings must have the orbitals of a core, too"
        )
    norms = np.linalg.norm(c, axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and norms.min() > 0.0):
        raise FileError(f"{path}: MultiDet has coefficients that are not finite or all zero")
    shared = "Super_Twist/eigenset_1" not in file
    return Stored(path.name, strings, index, c / norms, shared=shared)


def _flag(file: HdfFile, name: str) -> bool:
    return name in file and bool(file.numbers(name).ravel()[0])


def _count(file: HdfFile, name: str) -> int:
    """Return a number of things, which must be reasonable."""
    found = file.whole(name)
    if not 0 < found <= MOST:
        raise FileError(f"{file.path}: {name} is {found}; expected 1 to {MOST}")
    return found


def _read(path: Path, file: HdfFile) -> Molecule:
    """Put together what the groups of the file say."""
    positions = file.numbers("atoms/positions").astype(np.float64).reshape(-1, 3)
    ids = file.numbers("atoms/species_ids").ravel().astype(int)
    if len(ids) != len(positions):
        raise FileError(f"{path}: {len(positions)} positions of atoms, but species of {len(ids)}")
    symbols, charges = {}, {}
    for k in sorted(set(ids.tolist())):
        group = f"atoms/species_{k}"
        number = file.whole(f"{group}/atomic_number")
        if not 0 < number <= len(ELEMENTS):
            raise FileError(f"{path}: {group}/atomic_number is {number}, no element")
        symbols[k] = ELEMENTS[number - 1]
        charges[k] = float(file.numbers(f"{group}/charge").ravel()[0])
    # A basis for each species, which every atom of it gets.
    bases = [_basis(path, file, k) for k in range(_count(file, "basisset/NbElements"))]
    if max(symbols) >= len(bases) or min(symbols) < 0:
        raise FileError(f"{path}: there is no basis for species {max(symbols)}")
    shells = [
        GaussianShell(atom, s.l, s.exponent, s.coefficient, s.components, s.scale)
        for atom, k in enumerate(ids)
        for s in bases[k]
    ]
    # The lowest orbitals are occupied; restricted files have one set.
    counts = (file.whole("parameters/NbAlpha"), file.whole("parameters/NbBeta"))
    up = file.numbers("Super_Twist/eigenset_0").astype(np.float64)
    dn = up
    if "Super_Twist/eigenset_1" in file:
        dn = file.numbers("Super_Twist/eigenset_1").astype(np.float64)
    for n, C in zip(counts, (up, dn), strict=True):
        if C.ndim != 2 or not 0 <= n <= len(C):
            raise FileError(f"{path}: {n} electrons of a spin, but orbitals of shape {C.shape}")
    doubts: tuple[str, ...] = ()
    if "MultiDet" in file:
        doubts = (
            f"{path} holds an expansion in determinants; determinants: {{source: file}} takes it; without it there is "
            "one of the first orbitals",
        )
    # Ions first, as everywhere; coefficients stay in the order of the file.
    ghosts = [charges[k] == 0.0 for k in ids]
    ions = [k for k, ghost in zip(ids, ghosts, strict=True) if not ghost]
    positions, in_order = ions_first(ghosts, positions, shells)
    return Molecule(
        path=path,
        symbols=tuple(symbols[k] for k in ions),
        positions=positions,
        charges=tuple(charges[k] for k in ions),
        shells=in_order,
        orbitals=(up[: counts[0]].T, dn[: counts[1]].T),
        all_orbitals=(up.T, dn.T),
        doubts=doubts,
    )


def _basis(path: Path, file: HdfFile, species: int) -> list[GaussianShell]:
    """Return the shells of a species, on atom 0."""
    group = f"basisset/atomicBasisSet{species}"
    angular = file.text(f"{group}/angular").strip().lower()
    if angular not in ("spherical", "cartesian"):
        raise FileError(f"{path}: {group}/angular is '{angular}'; expected spherical or cartesian")
    # "yes": coefficients contain the norms of the primitives already.
    is_normalised = file.text(f"{group}/normalized").strip().lower() == "yes"
    shells = []
    for k in range(_count(file, f"{group}/NbBasisGroups")):
        part = f"{group}/basisGroup{k}"
        kind = file.text(f"{part}/type").strip() if f"{part}/type" in file else "Gaussian"
        if kind.lower() not in ("gaussian", "gto"):
            raise FileError(f"{path}: {part}/type is '{kind}'; Gaussian functions are supported")
        l = file.whole(f"{part}/l")
        if not 0 <= l <= L_MAX:
            raise FileError(f"{path}: {part}/l is {l}; functions up to l = {L_MAX} (g) are supported")
        names = [f"{part}/radfunctions/DataRad{i}" for i in range(_count(file, f"{part}/NbRadFunc"))]
        a = np.array([float(file.numbers(f"{name}/exponent").ravel()[0]) for name in names])
        c = np.array([float(file.numbers(f"{name}/contraction").ravel()[0]) for name in names])
        if not (np.all(np.isfinite(a) & (a > 0.0)) and np.all(np.isfinite(c)) and c.any()):
            raise FileError(f"{path}: {part} has impossible exponents or contractions")
        components = tuple(order(l)) if angular == "spherical" else tuple(powers(name) for name in GAMESS[l])
        shells.append(normalised(0, l, a, c, components, of_primitives=not is_normalised))
    return shells
