"""From a deck's blocks to a `Wavefunction`: pseudopotentials, system, orbitals and their cusps, Jastrow factor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.elements import atomic_number
from qsim.qmc.deck.wavefunction import (
    Coulomb,
    Harmonic,
    Hooke,
    Hydrogen,
    Imported,
    Pyscf,
    RowsBySpin,
    Sto,
    for_each,
)
from qsim.qmc.system.ions import System, build_system
from qsim.qmc.system.pseudopotentials import Pseudopotential, from_ecp, read_xml
from qsim.qmc.system.quadrature import rule
from qsim.qmc.system.radial import KNOTS, LARGEST
from qsim.qmc.wavefunction.crystals.trial import COARSE, WRONG, build_crystal
from qsim.qmc.wavefunction.formats.eshdf import StoredEcp, stored_ecp
from qsim.qmc.wavefunction.formats.imported import read_molecule, system_of
from qsim.qmc.wavefunction.formats.molecule import orbitals_of
from qsim.qmc.wavefunction.jastrow import NONE, build_jastrow
from qsim.qmc.wavefunction.mixing import mixing_of, uneven_cusps
from qsim.qmc.wavefunction.molecules import gaussian, sto, trap
from qsim.qmc.wavefunction.molecules.cache import Cache, open_cache
from qsim.qmc.wavefunction.molecules.cusp import correct_cusps
from qsim.qmc.wavefunction.molecules.kept import kinetic_loss
from qsim.qmc.wavefunction.notes import Notes
from qsim.qmc.wavefunction.selection import lowest, of_list, of_states
from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

if TYPE_CHECKING:
    from qsim.qmc.deck import wavefunction as blocks
    from qsim.qmc.deck.determinants import Determinants
    from qsim.qmc.wavefunction.expansion import Expansion, Orders
    from qsim.qmc.wavefunction.formats.expansions import Stored
    from qsim.qmc.wavefunction.molecules.orbitals import OrbitalSet

__all__ = ["Notes", "build_wavefunction", "pseudopotentials_of"]


def build_wavefunction(
    system_block: blocks.System,
    block: blocks.Wavefunction,
    *,
    folder: Path | None = None,
    notes: Notes | None = None,
    coulomb: Coulomb | None = None,
    twist: int = 0,
    virtual: int | None = None,
) -> Wavefunction:
    """Build the trial function of a deck.

    Parameters
    ----------
    system_block
        The deck's ``system``; its pseudopotentials are XML files (``.xml``) or names in PySCF's library (``ccecp``).
    block
        The deck's ``wavefunction``.
    folder
        Where relative file names start.
    notes
        Collects what was settled here.
    coulomb
        The deck's ``coulomb``, of a crystal.
    twist
        Number of the twist, of a crystal.
    virtual
        Number of orbitals beyond those of determinants, if orbitals are optimised; None: they are not.

    Raises
    ------
    InvalidInput
        With the key of the deck.
    FileError, NumericsError
        From files and self-consistent fields.
    """
    notes = notes if notes is not None else Notes()
    folder = folder or Path()
    periodic = system_block.cell == "periodic"
    # The file decides what the system is.
    if isinstance(block.orbitals, Imported):
        return _imported_wavefunction(system_block, block, block.orbitals, folder, notes, virtual)
    cache = None
    if isinstance(block.orbitals, Pyscf) and not periodic:
        # Pseudopotentials come from the cache where it has them, so that it is opened first.
        cache = open_cache(block.orbitals, folder)
    kept: Cache | StoredEcp | None = cache
    if periodic and isinstance(block.orbitals, Pyscf) and block.orbitals.cache is not None:
        kept = stored_ecp(folder / Path(block.orbitals.cache).expanduser())
    potentials = pseudopotentials_of(system_block, folder, kept)
    if periodic:
        return build_crystal(
            system_block,
            block,
            coulomb or Coulomb(),
            potentials=potentials,
            folder=folder,
            notes=notes,
            number=twist,
        )
    # System, orbitals, cusps, Jastrow factor: each needs those before it.
    system = _system(system_block, block.orbitals, potentials)
    orbitals, expansion = _orbitals(block, system, folder, cache, notes, virtual)
    return _with_jastrow(system_block, block, system, orbitals, expansion, notes, virtual)


def _imported_wavefunction(
    system_block: blocks.System,
    block: blocks.Wavefunction,
    source: Imported,
    folder: Path,
    notes: Notes,
    virtual: int | None,
) -> Wavefunction:
    """Build the trial function of a deck whose orbitals another program has found."""
    wanted = block.determinants
    molecule = read_molecule(source, folder, expansion=wanted is not None and wanted.source == "file")
    # A name for all elements is that of each ion of the file.
    each = for_each(system_block.pseudopotentials, molecule.symbols)
    system_block = system_block.model_copy(update={"pseudopotentials": each})
    potentials = pseudopotentials_of(system_block, folder, molecule.ecp)
    system = system_of(system_block, molecule, potentials, notes)
    expansion, orders = _determinants(
        block.determinants, system, notes, molecule.expansion, shared=len(molecule.all_orbitals) == 1
    )
    found = orbitals_of(molecule, None if block.determinants is None else orders, virtual)
    orbitals = _with_cusps(found, system, expansion, source.cusp, notes)
    return _with_jastrow(system_block, block, system, orbitals, expansion, notes, virtual)


def _determinants(
    block: Determinants | None, system: System, notes: Notes, stored: Stored | None = None, *, shared: bool
) -> tuple[Expansion, Orders]:
    """Return the determinants that a deck wants, and the orbitals that occur in them.

    Parameters
    ----------
    block
        The deck's ``determinants``; None: one.
    system
        Whose electrons.
    notes
        Collects what is to be told.
    stored
        States of the file or of PySCF's calculation.
    shared
        Whether both spins have the same orbitals.
    """
    counts = (system.n_up, system.n_dn)
    if block is None:
        return lowest(*counts)
    if block.source == "list":
        return of_list(block, counts, notes, shared=shared)
    if stored is None:
        text = "these orbitals bring no expansion; give determinants.list"
        raise InvalidInput("wavefunction.determinants.source", text)
    return of_states(stored, block, notes)


def _check_tables(orbitals: OrbitalSet, expansion: Expansion, system: System, notes: Notes) -> None:
    """Tell or refuse what tables of radial functions lose of the kinetic energy."""
    found = kinetic_loss(orbitals, expansion.orbitals, system.mass)
    lost = found.lost / system.n_electrons
    # What is little for an atom is much for a wide trap or a Rydberg state.
    scale = min(1.0, found.kinetic / system.n_electrons)
    text = (
        f"radial functions are tabulated up to {LARGEST:g} bohr in intervals of {KNOTS[1]:.1g} bohr and more, which changes the "
        f"kinetic energy by {lost:.2g} hartree per electron"
    )
    if not lost <= WRONG * scale:
        raise InvalidInput(
            "wavefunction.orbitals", f"{text}; functions that are less diffuse or less sharp are needed"
        )
    if lost > COARSE * scale:
        notes.warnings.append(f"{text}; functions that are less diffuse or less sharp lose less")


def _with_jastrow(
    system_block: blocks.System,
    block: blocks.Wavefunction,
    system: System,
    orbitals: OrbitalSet,
    expansion: Expansion,
    notes: Notes,
    virtual: int | None,
) -> Wavefunction:
    """Return the trial function of orbitals in open boundaries."""
    occupied = (system.n_up, system.n_dn)
    if expansion.orbitals != occupied or virtual is not None:
        orbitals = orbitals.equally_far()
    mixing = None if virtual is None else mixing_of(orbitals, expansion, system)
    _check_tables(orbitals, expansion, system, notes)
    # What the orbitals bring to the cusp at each bare nucleus, mean over the atoms of a
    # species: the Jastrow factor makes up for the rest.
    slopes = {
        symbol: float(
            np.mean([orbitals.cusp(a, occupied) for a, other in enumerate(system.symbols) if other == symbol])
        )
        for symbol in system.species
        if system.is_bare(symbol)
    }
    jastrow = build_jastrow(block.jastrow, system, slopes)
    if len(orbitals.centres) > len(
        system.symbols
    ):  # kernels take centres without charge for ions, whose function is zero
        jastrow = replace(jastrow, functions=(*jastrow.functions, NONE))
    if mixing is not None:
        if uneven := uneven_cusps(orbitals, system):
            notes.warnings.append(
                f"orbitals differ in their cusps at {', '.join(uneven)}: mixing them changes the cusp, which the Jastrow factor "
                "makes up for as it is at the start; functions that share one (of Gaussians, with cusp: true) avoid that"
            )
        orbitals = mixing.orbitals()
    return Wavefunction(system, orbitals, jastrow, rule(system_block.quadrature), expansion, mixing=mixing)


def _system(
    block: blocks.System, orbitals: blocks.Orbitals, potentials: dict[str, Pseudopotential]
) -> System:
    """Return the particles; the source of the orbitals says what a trap is like."""
    # Traps have no ions, and say themselves what is trapped.
    if isinstance(orbitals, Hooke):
        return build_system(block, omega=orbitals.omega, electrons=2)
    if isinstance(orbitals, Harmonic):
        return build_system(
            block,
            omega=orbitals.omega,
            mass=orbitals.mass,
            interacting=orbitals.interacting,
            electrons=1,
        )
    return build_system(block, potentials)


def _orbitals(
    wavefunction: blocks.Wavefunction,
    system: System,
    folder: Path,
    cache: Cache | None,
    notes: Notes,
    virtual: int | None,
) -> tuple[OrbitalSet, Expansion]:
    """Return the orbitals of a source in open boundaries, and the determinants that they are in."""
    block, wanted = wavefunction.orbitals, wavefunction.determinants
    if isinstance(block, Pyscf):
        found = gaussian.gaussian_orbitals(block, system, folder, cache, wanted, virtual)
        expansion, orders = _determinants(wanted, system, notes, found.stored(), shared=found.shared)
        orbitals = found.orbital_set(system.positions, orders, virtual)
        return _with_cusps(orbitals, system, expansion, block.cusp, notes), expansion
    own = isinstance(block, Sto) and isinstance(block.molecular_orbitals, RowsBySpin)
    expansion, orders = _determinants(wanted, system, notes, shared=not own)
    if isinstance(block, Sto):
        return sto.slater(block, system, orders, virtual), expansion
    if isinstance(block, Hydrogen):
        return sto.hydrogen(block, system, orders, virtual), expansion
    assert isinstance(block, Hooke | Harmonic)  # others do not come here
    return trap.oscillator(block, system, orders, virtual), expansion


def _with_cusps(
    orbitals: OrbitalSet, system: System, expansion: Expansion, cusp: bool, notes: Notes
) -> OrbitalSet:
    """Return Gaussian orbitals with the cusps of bare nuclei, and tell where they are from."""
    notes.add(orbitals.about["summary"])
    notes.warnings += orbitals.about["doubts"]
    if cusp and any(system.is_bare(symbol) for symbol in system.species):
        orbitals = correct_cusps(orbitals, system, expansion.orbitals)
        notes.add(orbitals.about["cusp_summary"])
        raised = orbitals.about.get("cusp_change", 0.0) / system.n_electrons
        if raised > COARSE:
            notes.warnings.append(
                f"corrected cusps raise the energy of the determinant by about {raised:.2g} hartree per electron: the Gaussians "
                "next to a nucleus do not suit them; a basis with more s functions there, or cusp: false and a J1, does"
            )
    return orbitals


def pseudopotentials_of(
    block: blocks.System, folder: Path, cache: Cache | StoredEcp | None
) -> dict[str, Pseudopotential]:
    """Return the pseudopotentials of a system by symbol, from files, from the cache of the orbitals or from PySCF."""
    found = {}
    for symbol, name in block.pseudopotentials.items():
        if isinstance(name, Path):
            found[symbol] = read_xml(folder / name, symbol)
        else:
            ecp = gaussian.library_ecp(name, symbol, cache, f"system.pseudopotentials.{symbol}")
            found[symbol] = from_ecp(symbol, atomic_number(symbol), ecp, name)
    return found
