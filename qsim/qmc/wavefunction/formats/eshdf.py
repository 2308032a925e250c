r"""Bands of crystals in ESHDF files, as pw2qmcpack writes them from Quantum ESPRESSO: read with checks, and written.

Hartree atomic units, C order; orbitals are :math:`V^{-1/2}\sum_Gc_Ge^{i(k+G)r}` with :math:`\sum|c_G|^2=1`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.hdf5 import save_datasets
from qsim.core.results.reading import reading
from qsim.qmc.deck.elements import ELEMENTS
from qsim.qmc.system.cell import Cell
from qsim.qmc.wavefunction.crystals.bloch import Crystal, KPoint
from qsim.qmc.wavefunction.formats.hdf import HdfFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.pseudopotentials import Ecp

__all__ = ["StoredEcp", "read_eshdf", "stored_ecp", "write_eshdf"]

NORM = 1e-4  # how closely bands must be normalised
ECP = "qsim/ecp"  # where effective core potentials are kept
ROUNDED = 1e-6  # what a norm may lack by the single precision of a file
KINETIC = "qsim_kinetic"  # and, beside the eigenvalues, kinetic energies of the bands that plane waves were cut from
COMPRESSED = 64  # numbers from which an array is compressed
ORTHOGONAL = 1e-3  # and how small their overlaps must be
EXPECTED = "a file of orbitals in the ESHDF format (pw2qmcpack.x writes it from Quantum ESPRESSO)"


def read_eshdf(path: Path) -> Crystal:
    """Read the ions and bands of a file.

    Raises
    ------
    FileError
        If the file cannot be read, is cut short, or its bands are not orthonormal.
    """
    with HdfFile(path, EXPECTED) as file, reading(path, EXPECTED):
        return _read(path, file)


def _read(path: Path, file: HdfFile) -> Crystal:
    kind = file.text("format") if "format" in file else ""
    if kind != "ES-HDF":
        raise FileError(f"{path} is not {EXPECTED}: its format is '{kind}'")
    # Noncollinear spins would need another determinant.
    if "electrons/has_spinors" in file and file.whole("electrons/has_spinors"):
        raise FileError(f"{path} holds spinors, which are not supported")
    lattice = file.numbers("supercell/primitive_vectors").astype(np.float64)
    if lattice.shape != (3, 3) or not np.isfinite(lattice).all():
        raise FileError(f"{path}: supercell/primitive_vectors must be 3 x 3 numbers, found {lattice.shape}")
    positions = file.numbers("atoms/positions").astype(np.float64).reshape(-1, 3)
    ids = file.numbers("atoms/species_ids").ravel().astype(int)
    if len(ids) != len(positions):
        raise FileError(f"{path}: {len(positions)} positions of atoms, but species of {len(ids)}")
    names, charges = {}, {}
    for k in sorted(set(ids.tolist())):
        group = f"atoms/species_{k}"
        names[k] = _symbol(path, file, group)
        # Which charge the orbitals were made with: compared with the deck's pseudopotential
        # later.
        valence = f"{group}/valence_charge"
        charges[names[k]] = float(file.numbers(valence).ravel()[0]) if valence in file else None
    spins = file.whole("electrons/number_of_spins")
    count = file.whole("electrons/number_of_kpoints")
    points = tuple(_point(path, file, k, spins, Cell(lattice).reciprocal) for k in range(count))
    symbols = tuple(names[int(k)] for k in ids)
    return Crystal(lattice, symbols, positions, charges, points, str(path))


def _symbol(path: Path, file: HdfFile, group: str) -> str:
    name = file.text(f"{group}/name").strip()
    letters = "".join(c for c in name if c.isalpha()).capitalize()
    # Names may be labels of a program; the atomic number decides then.
    if letters in ELEMENTS:
        return name
    number = file.whole(f"{group}/atomic_number")
    if not 0 < number <= len(ELEMENTS):
        raise FileError(f"{path}: '{name}' with atomic number {number} is no element")
    return ELEMENTS[number - 1]


def _point(path: Path, file: HdfFile, k: int, spins: int, reciprocal: NDArray[np.float64]) -> KPoint:
    group = f"electrons/kpoint_{k}"
    # Newer files have a list of waves for each k point, older ones a list for all.
    own = f"{group}/gvectors"
    gvectors = file.numbers(own if own in file else "electrons/kpoint_0/gvectors").astype(np.int64)
    kappa = file.numbers(f"{group}/reduced_k").ravel().astype(np.float64)
    if kappa.shape != (3,) or gvectors.ndim != 2 or gvectors.shape[1] != 3:
        raise FileError(
            f"{path}: k point {k} needs reduced_k (3) and gvectors (n, 3), found {gvectors.shape}"
        )
    k2 = (((gvectors + kappa) @ reciprocal) ** 2).sum(1)
    energies, coefficients, kinetic, least = [], [], [], []
    for s in range(spins):
        part = f"{group}/spin_{s}"
        bands = file.whole(f"{part}/number_of_states")
        energies.append(file.numbers(f"{part}/eigenvalues").ravel().astype(np.float64)[:bands])
        if len(energies[-1]) < bands:
            raise FileError(f"{path}: k point {k} has {len(energies[-1])} eigenvalues for {bands} bands")
        c = np.empty((bands, len(gvectors)), np.complex128)
        for b in range(bands):
            values = file.numbers(f"{part}/state_{b}/psi_g")
            if values.shape != (len(gvectors), 2):
                raise FileError(
                    f"{path}: band {b} of k point {k} must have {len(gvectors)} x 2 numbers, found {values.shape}"
                )
            # Real and imaginary part side by side.
            c[b] = values[:, 0] + 1j * values[:, 1]
        _check_bands(path, k, s, c)
        coefficients.append(c / np.linalg.norm(c, axis=1, keepdims=True))
        if f"{part}/{KINETIC}" in file:
            kinetic.append(file.numbers(f"{part}/{KINETIC}").ravel().astype(np.float64)[:bands])
            if len(kinetic[-1]) < bands or not np.all(np.isfinite(kinetic[-1]) & (kinetic[-1] >= 0.0)):
                raise FileError(f"{path}: {part}/{KINETIC} must be {bands} energies of at least 0")
        least.append(_least_kinetic(c, k2))
    if not kinetic and any(lacks for _, lacks in least):
        kinetic = [T for T, _ in least]
    # Spins may have different numbers of bands.
    fewest = min(len(e) for e in energies)
    return KPoint(
        kappa,
        gvectors,
        np.array([e[:fewest] for e in energies]),
        np.array([c[:fewest] for c in coefficients]),
        np.array([t[:fewest] for t in kinetic]) if len(kinetic) == spins else None,
    )


def _least_kinetic(c: NDArray[np.complex128], k2: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """Return the least kinetic energies of bands (bands, waves), hartree, and whether a norm lacks something.

    What it lacks was beyond the waves of the file, and had their largest energy at least.
    """
    weight = np.abs(c) ** 2
    norms = weight.sum(1)
    lacking = np.where(1.0 - norms > ROUNDED, 1.0 - norms, 0.0)
    inside = 0.5 * weight @ k2 / norms
    return (1.0 - lacking) * inside + lacking * 0.5 * float(k2.max(initial=0.0)), bool(lacking.any())


def _check_bands(path: Path, k: int, spin: int, c: NDArray[np.complex128]) -> None:
    """Refuse bands that are not orthonormal."""
    # Bands that are not orthonormal mean a damaged file, or other conventions.
    overlap = c.conj() @ c.T
    norms = overlap.diagonal().real
    where = f"{path}: k point {k}, spin {spin}"
    if not np.isfinite(overlap).all():
        raise FileError(f"{where}: the bands are not finite")
    wrong = np.flatnonzero(np.abs(norms - 1.0) > NORM)
    if wrong.size:
        raise FileError(
            f"{where}: band {wrong[0]} has the norm {norms[wrong[0]]:.6g}; 1 is needed within {NORM:g}"
        )
    rest = np.abs(overlap - np.diag(overlap.diagonal()))
    a, b = np.unravel_index(int(np.argmax(rest)), rest.shape)
    if rest[a, b] > ORTHOGONAL:
        raise FileError(
            f"{where}: bands {a} and {b} overlap by {rest[a, b]:.3g}; at most {ORTHOGONAL:g} is accepted"
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
    with HdfFile(path, EXPECTED) as file, reading(path, EXPECTED):
        if ECP not in file:
            return None
        found = json.loads(file.text(ECP))
        names = {symbol: name for symbol, (name, _) in found.items()}
        return StoredEcp({"ecp": names}, {symbol: ecp for symbol, (_, ecp) in found.items()})


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

    # The groups and names that pw2qmcpack writes, so that QMCPACK reads the file, too.
    species = list(dict.fromkeys(crystal.symbols))
    out: dict[str, NDArray[Any]] = {
        "format": text("ES-HDF"),
        "version": whole(2, 1, 0),
        "application/code": text("qsim"),
        "supercell/primitive_vectors": crystal.lattice,
        "atoms/number_of_atoms": whole(len(crystal.symbols)),
        "atoms/number_of_species": whole(len(species)),
        "atoms/positions": crystal.positions,
        "atoms/species_ids": whole(*(species.index(s) for s in crystal.symbols)),
        "electrons/number_of_electrons": whole(*electrons),
        "electrons/number_of_kpoints": whole(len(crystal.kpoints)),
        "electrons/number_of_spins": whole(crystal.spins),
    }
    for k, symbol in enumerate(species):
        letters = "".join(c for c in symbol if c.isalpha()).capitalize()
        number = ELEMENTS.index(letters) + 1
        charge = crystal.charges.get(symbol)
        group = f"atoms/species_{k}"
        out[f"{group}/name"] = text(symbol)
        out[f"{group}/atomic_number"] = whole(number)
        out[f"{group}/valence_charge"] = whole(number if charge is None else round(charge))
    for k, point in enumerate(crystal.kpoints):
        group = f"electrons/kpoint_{k}"
        out[f"{group}/reduced_k"] = point.kappa
        out[f"{group}/gvectors"] = point.gvectors.astype(np.int32)
        out[f"{group}/number_of_gvectors"] = whole(len(point.gvectors))
        out[f"{group}/weight"] = np.array([1.0 / len(crystal.kpoints)])
        for s in range(crystal.spins):
            part = f"{group}/spin_{s}"
            out[f"{part}/number_of_states"] = whole(point.energies.shape[1])
            out[f"{part}/eigenvalues"] = point.energies[s]
            if point.kinetic is not None:
                out[f"{part}/{KINETIC}"] = point.kinetic[s]
            for b, c in enumerate(point.coefficients[s]):
                out[f"{part}/state_{b}/psi_g"] = np.stack([c.real, c.imag], -1)
    if ecp:
        out[ECP] = text(json.dumps(ecp))
    save_datasets(path, out, compress=COMPRESSED)
