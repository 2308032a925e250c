r"""Bands of crystals in ESHDF files, as pw2qmcpack writes them from Quantum ESPRESSO: read with checks, and written.

Hartree atomic units, C order; orbitals are :math:`V^{-1/2}\sum_Gc_Ge^{i(k+G)r}` with :math:`\sum|c_G|^2=1`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.reading import reading, require_file
from qsim.qmc.deck.elements import ELEMENTS
from qsim.qmc.wavefunction.bloch import Crystal, KPoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.pseudopotentials import Ecp

__all__ = ["StoredEcp", "read_eshdf", "stored_ecp", "write_eshdf"]

NORM = 1e-4  # how closely bands must be normalised
ECP = "qsim/ecp"  # where effective core potentials are kept
ORTHOGONAL = 1e-3  # and how small their overlaps must be
EXPECTED = "a file of orbitals in the ESHDF format (pw2qmcpack.x writes it from Quantum ESPRESSO)"


def read_eshdf(path: Path) -> Crystal:
    """Read the ions and bands of a file.

    Raises
    ------
    FileError
        If the file cannot be read, is cut short, or its bands are not orthonormal.
    """
    require_file(path, EXPECTED)
    with reading(path, EXPECTED), h5py.File(path, "r") as file:
        return _read(path, file)


def _read(path: Path, file: h5py.File) -> Crystal:
    kind = _text(file["format"]) if "format" in file else ""
    if kind != "ES-HDF":
        raise FileError(f"{path} is not {EXPECTED}: its format is '{kind}'")
    if "electrons/has_spinors" in file and int(np.ravel(file["electrons/has_spinors"][()])[0]):
        raise FileError(f"{path} holds spinors, which are not supported")
    lattice = np.array(file["supercell/primitive_vectors"][()], np.float64)
    if lattice.shape != (3, 3) or not np.isfinite(lattice).all():
        raise FileError(f"{path}: supercell/primitive_vectors must be 3 x 3 numbers, found {lattice.shape}")
    positions = np.array(file["atoms/positions"][()], np.float64).reshape(-1, 3)
    ids = np.ravel(file["atoms/species_ids"][()]).astype(int)
    if len(ids) != len(positions):
        raise FileError(f"{path}: {len(positions)} positions of atoms, but species of {len(ids)}")
    names, charges = {}, {}
    for k in sorted(set(ids.tolist())):
        group = file[f"atoms/species_{k}"]
        names[k] = _symbol(path, group)
        charges[names[k]] = (
            float(np.ravel(group["valence_charge"][()])[0]) if "valence_charge" in group else None
        )
    spins = int(np.ravel(file["electrons/number_of_spins"][()])[0])
    count = int(np.ravel(file["electrons/number_of_kpoints"][()])[0])
    points = tuple(_point(path, file, k, spins) for k in range(count))
    symbols = tuple(names[int(k)] for k in ids)
    return Crystal(lattice, symbols, positions, charges, points, str(path))


def _text(item: Any) -> str:
    value = np.ravel(item[()])[0]
    return value.decode() if isinstance(value, bytes) else str(value)


def _symbol(path: Path, group: h5py.Group) -> str:
    name = _text(group["name"]).strip()
    letters = "".join(c for c in name if c.isalpha()).capitalize()
    if letters in ELEMENTS:
        return name
    number = int(np.ravel(group["atomic_number"][()])[0])
    if not 0 < number <= len(ELEMENTS):
        raise FileError(f"{path}: '{name}' with atomic number {number} is no element")
    return ELEMENTS[number - 1]


def _point(path: Path, file: h5py.File, k: int, spins: int) -> KPoint:
    group = file[f"electrons/kpoint_{k}"]
    shared = "gvectors" if "gvectors" in group else "/electrons/kpoint_0/gvectors"
    gvectors = np.array(group[shared][()], np.int64)
    kappa = np.array(np.ravel(group["reduced_k"][()]), np.float64)
    if kappa.shape != (3,) or gvectors.ndim != 2 or gvectors.shape[1] != 3:
        raise FileError(f"{path}: k point {k} needs reduced_k (3) and gvectors (n, 3), found {gvectors.shape}")
    energies, coefficients = [], []
    for s in range(spins):
        part = group[f"spin_{s}"]
        bands = int(np.ravel(part["number_of_states"][()])[0])
        energies.append(np.ravel(part["eigenvalues"][()]).astype(np.float64)[:bands])
        if len(energies[-1]) < bands:
            raise FileError(f"{path}: k point {k} has {len(energies[-1])} eigenvalues for {bands} bands")
        c = np.empty((bands, len(gvectors)), np.complex128)
        for b in range(bands):
            values = part[f"state_{b}/psi_g"][()]
            if values.shape != (len(gvectors), 2):
                raise FileError(
                    f"{path}: band {b} of k point {k} must have {len(gvectors)} x 2 numbers, found {values.shape}"
                )
            c[b] = values[:, 0] + 1j * values[:, 1]
        _check_bands(path, k, s, c)
        coefficients.append(c / np.linalg.norm(c, axis=1, keepdims=True))
    fewest = min(len(e) for e in energies)
    return KPoint(
        kappa, gvectors, np.array([e[:fewest] for e in energies]), np.array([c[:fewest] for c in coefficients])
    )


def _check_bands(path: Path, k: int, spin: int, c: NDArray[np.complex128]) -> None:
    """Refuse bands that are not orthonormal."""
    overlap = c.conj() @ c.T
    norms = overlap.diagonal().real
    if not np.isfinite(overlap).all():
        raise FileError(f"{path}: bands of k point {k} are not finite")
    wrong = np.flatnonzero(np.abs(norms - 1.0) > NORM)
    if wrong.size:
        raise FileError(
            f"{path}: band {wrong[0]} of k point {k}, spin {spin}, has the norm {norms[wrong[0]]:.6g}; 1 is needed within {NORM:g}"
        )
    rest = np.abs(overlap - np.diag(overlap.diagonal()))
    a, b = np.unravel_index(int(np.argmax(rest)), rest.shape)
    if rest[a, b] > ORTHOGONAL:
        raise FileError(
            f"{path}: bands {a} and {b} of k point {k}, spin {spin}, overlap by {rest[a, b]:.3g}; at most {ORTHOGONAL:g} is accepted"
        )


@dataclass(frozen=True)
class StoredEcp:
    """Effective core potentials that a file of qsim keeps beside its bands, as `gaussian.library_ecp` looks for them.

    Attributes
    ----------
    identity
        Their names by symbol, under ``"ecp"``.
    ecp
        Core electrons and terms by symbol.
    """

    identity: dict[str, Any]
    ecp: dict[str, list[Any]]


def stored_ecp(path: Path) -> StoredEcp | None:
    """Return the effective core potentials of a file; None if there are none."""
    if not path.exists():
        return None
    with reading(path, EXPECTED), h5py.File(path, "r") as file:
        if ECP not in file:
            return None
        found = json.loads(_text(file[ECP]))
        return StoredEcp({"ecp": {s: name for s, (name, _) in found.items()}}, {s: e for s, (_, e) in found.items()})


def write_eshdf(
    path: Path,
    crystal: Crystal,
    electrons: tuple[int, int],
    ecp: Mapping[str, tuple[str, Ecp]] | None = None,
) -> None:
    """Write ions and bands.

    Parameters
    ----------
    path
        The new file.
    crystal
        What to write; species without a charge get that of the nucleus.
    electrons
        Of the primitive cell, spin up and down.
    ecp
        By symbol: name and content of effective core potentials to keep.
    """

    def text(value: str) -> NDArray[np.bytes_]:
        return np.array([value.encode()])

    def whole(*values: int) -> NDArray[np.int32]:
        return np.array(values, np.int32)

    species = list(dict.fromkeys(crystal.symbols))
    with h5py.File(path, "w") as file:
        file["format"] = text("ES-HDF")
        file["version"] = whole(2, 1, 0)
        file["application/code"] = text("qsim")
        file["supercell/primitive_vectors"] = crystal.lattice
        file["atoms/number_of_atoms"] = whole(len(crystal.symbols))
        file["atoms/number_of_species"] = whole(len(species))
        file["atoms/positions"] = crystal.positions
        file["atoms/species_ids"] = whole(*(species.index(s) for s in crystal.symbols))
        for k, symbol in enumerate(species):
            letters = "".join(c for c in symbol if c.isalpha()).capitalize()
            number = ELEMENTS.index(letters) + 1
            charge = crystal.charges.get(symbol)
            group = file.create_group(f"atoms/species_{k}")
            group["name"] = text(symbol)
            group["atomic_number"] = whole(number)
            group["valence_charge"] = whole(number if charge is None else round(charge))
        file["electrons/number_of_electrons"] = whole(*electrons)
        file["electrons/number_of_kpoints"] = whole(len(crystal.kpoints))
        file["electrons/number_of_spins"] = whole(crystal.spins)
        for k, point in enumerate(crystal.kpoints):
            group = file.create_group(f"electrons/kpoint_{k}")
            group["reduced_k"] = point.kappa
            whole_g = point.gvectors.astype(np.int32)
            group.create_dataset("gvectors", data=whole_g, compression="gzip", shuffle=True)
            group["number_of_gvectors"] = whole(len(point.gvectors))
            group["weight"] = np.array([1.0 / len(crystal.kpoints)])
            for s in range(crystal.spins):
                part = group.create_group(f"spin_{s}")
                part["number_of_states"] = whole(point.energies.shape[1])
                part["eigenvalues"] = point.energies[s]
                for b, c in enumerate(point.coefficients[s]):
                    values = np.stack([c.real, c.imag], -1)
                    part.create_dataset(f"state_{b}/psi_g", data=values, compression="gzip", shuffle=True)
        if ecp:
            file[ECP] = text(json.dumps(ecp))
