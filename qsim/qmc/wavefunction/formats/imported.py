"""Decks whose orbitals come from files of other programs: which reader, and the file's molecule as the deck's system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.elements import atomic_number
from qsim.qmc.system.ions import System, build_system
from qsim.qmc.system.library import likely
from qsim.qmc.wavefunction.formats.chkfile import read_chkfile
from qsim.qmc.wavefunction.formats.molden import read_molden
from qsim.qmc.wavefunction.formats.qmcpack import read_qmcpack
from qsim.qmc.wavefunction.formats.trexio import read_trexio

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from qsim.qmc.deck import wavefunction as blocks
    from qsim.qmc.system.pseudopotentials import Pseudopotential
    from qsim.qmc.wavefunction.formats.molecule import Molecule
    from qsim.qmc.wavefunction.notes import Notes

__all__ = ["read_molecule", "system_of"]

WITH_EXPANSIONS = {"chkfile": read_chkfile, "qmcpack": read_qmcpack, "trexio": read_trexio}
READERS = {**WITH_EXPANSIONS, "molden": read_molden}
SAME_PLACE = 1e-3  # bohr: geometries in angstrom with four digits count as equal


def read_molecule(block: blocks.Imported, folder: Path, *, expansion: bool = False) -> Molecule:
    """Read the file of a deck.

    Parameters
    ----------
    block
        The deck's ``wavefunction.orbitals``.
    folder
        Where relative names start.
    expansion
        Read the determinants of the file, too, and the orbitals that they are of.

    Raises
    ------
    FileError
        If it cannot be used.
    """
    if expansion:
        return WITH_EXPANSIONS[block.source](folder / block.file, expansion=True)
    return READERS[block.source](folder / block.file)


def system_of(
    block: blocks.System, molecule: Molecule, potentials: Mapping[str, Pseudopotential], notes: Notes
) -> System:
    """Return ions and electrons of a file; what the deck says of them must agree.

    Centres of basis functions without charge are no ions.

    Parameters
    ----------
    block
        The deck's ``system``; its atoms may be left out, and their labels are kept.
    molecule
        Content of the file.
    potentials
        By symbol.
    notes
        Collects warnings.

    Raises
    ------
    InvalidInput
        If geometry, electrons or ions of the deck are others.
    """
    symbols = _symbols(block, molecule)
    atoms = [(symbol, *map(float, p)) for symbol, p in zip(symbols, molecule.positions, strict=False)]
    _check_ions(molecule, symbols, potentials)
    n_up, n_dn = (C.shape[1] for C in molecule.orbitals)
    stated = block.model_fields_set
    found = {"spin": n_up - n_dn, "electrons": n_up + n_dn}
    for key, value in found.items():
        mine = getattr(block, key)
        if key in stated and mine is not None and mine != value:
            raise InvalidInput(
                f"system.{key}",
                f"{molecule.path} occupies {n_up} orbitals with spin up and {n_dn} with spin down: {key} {value}, found {mine}; "
                "leave this key out",
            )
    made = build_system(
        block.model_copy(update={"atoms": atoms, "charge": 0, **found}),
        {s: p for s, p in potentials.items() if s in symbols},
    )
    charge = float(made.charges.sum()) - (n_up + n_dn)
    if "charge" in stated and abs(charge - block.charge) > 1e-6:
        raise InvalidInput(
            "system.charge",
            f"the ions have {made.charges.sum():g} and {molecule.path} {n_up + n_dn} electrons, a charge of {charge:g}, found "
            f"{block.charge}; leave this key out, or give the pseudopotentials that the orbitals were made with",
        )
    # Cores that the deck does not know of would leave electrons missing, and only where the file is silent about its ions.
    silent = any(
        one is None and made.is_bare(symbol) for symbol, one in zip(symbols, molecule.charges, strict=True)
    )
    if charge > 1e-6 and silent and not stated & {"charge", "electrons"}:
        notes.warnings.append(
            f"{molecule.path} has {n_up + n_dn} electrons and the ions {made.charges.sum():g}, so the charge is {charge:+g}; if "
            "the orbitals were made with pseudopotentials, give them"
        )
    return made


def _symbols(block: blocks.System, molecule: Molecule) -> list[str]:
    """Return the deck's label of each atom of the file."""
    if not block.atoms:
        return list(molecule.symbols)
    labels: list[str] = []
    for symbol, place in zip(molecule.symbols, molecule.positions, strict=False):  # without ghosts
        near = [a for a in block.atoms if np.linalg.norm(np.array(a[1:4]) - place) < SAME_PLACE]
        if len(near) == 1 and atomic_number(near[0][0]) == atomic_number(symbol):
            labels.append(near[0][0])
    if len(labels) != len(molecule.symbols) or len(block.atoms) != len(labels):
        pairs = zip(molecule.symbols, molecule.positions, strict=False)
        there = "; ".join(f"{s} {np.round(p, 6).tolist()}" for s, p in pairs)
        raise InvalidInput(
            "system.atoms", f"{molecule.path} has the atoms {there} bohr; leave this key out or correct it"
        )
    return labels


def _check_ions(molecule: Molecule, symbols: list[str], potentials: Mapping[str, Pseudopotential]) -> None:
    """Refuse pseudopotentials that leave other charges than the file has, and bare nuclei where it has none."""
    for symbol, charge in dict.fromkeys(zip(symbols, molecule.charges, strict=True)):
        number = atomic_number(symbol)
        if symbol in potentials and charge is not None and abs(potentials[symbol].charge - charge) > 1e-6:
            raise InvalidInput(
                f"system.pseudopotentials.{symbol}",
                f"the pseudopotential leaves {potentials[symbol].charge:g} electrons, but the orbitals in {molecule.path} were "
                f"made with {charge:g}",
            )
        kept = molecule.ecp.identity["ecp"].get(symbol) if molecule.ecp is not None else None
        smaller = charge is not None and abs(charge - number) > 1e-6
        if symbol not in potentials and (smaller or kept):
            raise InvalidInput(
                "system.pseudopotentials",
                f"the orbitals in {molecule.path} were made with a pseudopotential of {symbol} that leaves "
                f"{charge or number:g} of {number} electrons; give one, such as pseudopotentials: "
                f"{{{symbol}: {kept or likely(symbol, charge)}}}",
            )
