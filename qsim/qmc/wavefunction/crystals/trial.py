"""From a deck's blocks to the trial function of a crystal: cells, bands, Jastrow factor, Coulomb potential."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.wavefunction import Eshdf, Pyscf
from qsim.qmc.system.breakup import break_up
from qsim.qmc.system.cell import Cell
from qsim.qmc.system.ions import System, build_system
from qsim.qmc.system.quadrature import rule
from qsim.qmc.system.twists import twists_of
from qsim.qmc.wavefunction.crystals.bloch import (
    BlochOrbitals,
    is_real_twist,
    mesh_for,
    occupied_bands,
    occupied_waves,
)
from qsim.qmc.wavefunction.crystals.bsplines import sampled
from qsim.qmc.wavefunction.crystals.muffin_tins import MuffinTins, half_distance, make_tins
from qsim.qmc.wavefunction.crystals.pyscf import pyscf_bands
from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction
from qsim.qmc.wavefunction.expansion import one_determinant
from qsim.qmc.wavefunction.formats.eshdf import read_eshdf
from qsim.qmc.wavefunction.jastrow import build_jastrow

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.qmc.deck import wavefunction as blocks
    from qsim.qmc.deck.jastrow import Jastrow as JastrowBlock
    from qsim.qmc.system.pseudopotentials import Pseudopotential
    from qsim.qmc.wavefunction.crystals.bloch import Crystal
    from qsim.qmc.wavefunction.crystals.bsplines import Function
    from qsim.qmc.wavefunction.jastrow import Jastrow
    from qsim.qmc.wavefunction.notes import Notes

__all__ = ["build_crystal", "tiled"]

SAMPLES = 20  # points along each axis where a mixed basis is compared with plane waves
SAME_RANGE = 1e-6  # bohr: a range that is the Wigner-Seitz radius
SAME_PLACE = 1e-3  # bohr: a geometry of a deck that is the one of the file
COARSE = 1e-3  # hartree per electron: error of the splines that is told
WRONG = 0.05  # hartree per electron: and that is refused


def tiled(
    cell: Cell, tile: NDArray[np.int64], positions: NDArray[np.float64]
) -> tuple[Cell, NDArray[np.float64], NDArray[np.int64]]:
    """Return the supercell ``T A``, the positions of all its ions, and which ion of the primitive cell each of them is."""
    # All primitive cells whose origin lies in the supercell; a margin keeps rounding from
    # counting one twice.
    supercell = Cell.of(tile @ cell.lattice, "system.tilematrix")
    reach = int(np.abs(tile).sum(0).max())
    steps = np.arange(-reach, reach + 1)
    m = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(-1, 3)
    u = m @ np.linalg.inv(tile)
    inside = np.all((u > -1e-9) & (u < 1.0 - 1e-9), axis=1)
    shifts = m[inside] @ cell.lattice
    places = (shifts[:, None] + positions).reshape(-1, 3)
    return supercell, places, np.tile(np.arange(len(positions)), len(shifts))


def build_crystal(
    block: blocks.System,
    wavefunction: blocks.Wavefunction,
    coulomb: blocks.Coulomb,
    *,
    potentials: Mapping[str, Pseudopotential],
    folder: Path,
    notes: Notes,
    number: int = 0,
) -> CrystalWavefunction:
    """Build the trial function of a deck in a periodic cell.

    Parameters
    ----------
    block, wavefunction, coulomb
        Blocks of the deck.
    potentials
        Pseudopotentials by symbol.
    folder
        Where relative file names start.
    notes
        Collects what was settled here.
    number
        Of the twist, from 0.

    Raises
    ------
    InvalidInput
        With the key of the deck.
    FileError, NumericsError
        From files, and from a division of the Coulomb potential that is not good.
    """
    # From the file or the mean field: bands of a primitive cell. The deck: which supercell of
    # it, at which twist.
    tile = np.array(block.tilematrix, np.int64)
    if round(float(np.linalg.det(tile))) == 0:
        raise InvalidInput("system.tilematrix", f"the determinant of the supercell is zero: {tile.tolist()}")
    twist = twists_of(block)[number].vector
    source = wavefunction.orbitals
    if isinstance(source, Eshdf | Pyscf):
        if isinstance(source, Eshdf):
            crystal = read_eshdf(folder / source.file)
            _check_geometry(block, crystal)
        else:
            Cell.of(block.lattice or np.eye(3))
            crystal = pyscf_bands(block, source, potentials, folder, notes)
        primitive = Cell.of(crystal.lattice, "wavefunction.orbitals.file")
        system, supercell = _ions(block, crystal, primitive, tile, potentials)
        counts = (system.n_up, system.n_dn)
        functions = occupied_bands(crystal, tile, twist, counts, notes.warnings)
        # With tins the splines between them can be coarser.
        tins = source.muffin_tins
        orbitals = BlochOrbitals(
            primitive,
            supercell,
            system.positions,
            functions,
            is_real_twist(twist),
            waves=False,
            mesh=mesh_for(functions, tins.meshfactor if tins else source.meshfactor),
            tins=_tins(tins, primitive, crystal.positions, functions),
        )
        _check_basis(orbitals, counts, source, notes)
    else:
        # Plane waves need no table and no primitive cell.
        system, supercell = _electron_gas(block, tile)
        functions = occupied_waves(supercell, twist, (system.n_up, system.n_dn), notes.warnings)
        orbitals = BlochOrbitals(
            supercell, supercell, system.positions, functions, is_real_twist(twist), waves=True
        )
    # Short-ranged part by pairs, long-ranged part by waves, optimised for this cell.
    divided = break_up(supercell, coulomb.kc_rc, coulomb.tolerance)
    notes.add(
        f"supercell of {supercell.volume:.6g} bohr^3, Wigner-Seitz radius {supercell.radius:.5g} bohr; Coulomb potential divided "
        f"into a range of {divided.rc:.5g} bohr and {2 * len(divided.waves)} waves, within {divided.error:.1e} hartree of "
        "Ewald sums"
    )
    kind = "real" if orbitals.real else "complex"
    size = "plane waves" if orbitals.waves else f"splines of {' x '.join(map(str, orbitals.mesh))} points"
    notes.add(
        f"{kind} determinants of {size}, {orbitals.channels} real functions, {orbitals.table_bytes / 1e6:.3g} MB"
    )
    jastrow = _jastrow(wavefunction.jastrow, system, supercell)
    expansion = one_determinant(system.n_up, system.n_dn)
    return CrystalWavefunction(system, orbitals, jastrow, rule(block.quadrature), expansion, divided)


def _tins(
    block: blocks.MuffinTins | None,
    primitive: Cell,
    positions: NDArray[np.float64],
    functions: list[list[Function]],
) -> MuffinTins | None:
    """Return the muffin tins of a deck, which must not overlap."""
    if block is None:
        return None
    most = half_distance(primitive, positions)
    radius = most if block.radius is None else block.radius
    # A point must lie in one tin at most.
    if radius > most + SAME_RANGE:
        raise InvalidInput(
            "wavefunction.orbitals.muffin_tins.radius",
            f"tins of {radius:g} bohr overlap: half the shortest distance of ions is {most:.6g} bohr; give less, or leave it out",
        )
    return make_tins(primitive, positions, functions, min(radius, most), block.l_max)


def _jastrow(block: JastrowBlock, system: System, cell: Cell) -> Jastrow:
    """Return the Jastrow factor, its ranges within the Wigner-Seitz radius."""
    from dataclasses import replace

    changes: dict[str, Any] = {}
    for name in ("J1", "J2"):
        part = getattr(block, name)
        if part is None:
            continue
        key = f"wavefunction.jastrow.{name}"
        # Distances are those of nearest images, which have a kink at the Wigner-Seitz radius:
        # functions must end there.
        if part.type != "bspline":
            raise InvalidInput(
                f"{key}.type",
                f"{part.type} does not end within the cell; in a crystal, Jastrow functions are of type: bspline",
            )
        rcut = cell.radius if part.rcut is None else part.rcut
        if rcut > cell.radius + SAME_RANGE:
            raise InvalidInput(
                f"{key}.rcut",
                f"rcut = {rcut:g} bohr is beyond the Wigner-Seitz radius of the supercell, {cell.radius:.6g} bohr (half its "
                "shortest lattice vector); give less, or ws",
            )
        changes[name] = part.model_copy(update={"rcut": min(rcut, cell.radius)})
    # Bloch functions on splines have no cusp: the Jastrow factor brings all of it.
    slopes = {symbol: 0.0 for symbol in system.species if system.is_bare(symbol)}
    made = build_jastrow(block.model_copy(update=changes), system, slopes)
    return replace(made, cell=cell)


# -------------------------------------------------------------------------------------------- systems


def _ions(
    block: blocks.System,
    crystal: Crystal,
    primitive: Cell,
    tile: NDArray[np.int64],
    potentials: Mapping[str, Pseudopotential],
) -> tuple[System, Cell]:
    """Return ions and electrons of a supercell."""
    # A potential for an element that is not there is a misspelt symbol.
    for symbol in potentials:
        if symbol not in crystal.symbols:
            raise InvalidInput(
                f"system.pseudopotentials.{symbol}",
                f"there is no atom '{symbol}' in {crystal.origin}; its species: {', '.join(dict.fromkeys(crystal.symbols))}",
            )
    # Orbitals of another number of valence electrons would be occupied wrongly.
    for symbol, charge in crystal.charges.items():
        mine = potentials[symbol].charge if symbol in potentials else None
        if charge is not None and mine is not None and abs(mine - charge) > 1e-6:
            raise InvalidInput(
                f"system.pseudopotentials.{symbol}",
                f"the pseudopotential leaves {mine:g} electrons, but the orbitals in {crystal.origin} were made with {charge:g}",
            )
    supercell, places, which = tiled(primitive, tile, crystal.positions)
    symbols = [crystal.symbols[k] for k in which]
    _check_valence(crystal, potentials)
    atoms = [(symbol, *map(float, place)) for symbol, place in zip(symbols, places, strict=True)]
    # A charged cell has no finite energy per cell.
    if block.charge or block.electrons is not None:
        key = "charge" if block.charge else "electrons"
        raise InvalidInput(
            f"system.{key}",
            "the cell of a crystal must be neutral: the number of electrons follows from the ions; leave it out",
        )
    made = build_system(block.model_copy(update={"atoms": atoms}), potentials)
    return made, supercell


def _check_valence(crystal: Crystal, potentials: Mapping[str, Pseudopotential]) -> None:
    """Refuse bare nuclei where the orbitals are of valence electrons alone."""
    from qsim.qmc.deck.elements import atomic_number
    from qsim.qmc.system.library import likely

    for symbol, charge in crystal.charges.items():
        if symbol not in potentials and charge is not None and charge < atomic_number(symbol) - 1e-6:
            raise InvalidInput(
                "system.pseudopotentials",
                f"the orbitals in {crystal.origin} were made with a pseudopotential of {symbol} that leaves {charge:g} of "
                f"{atomic_number(symbol)} electrons; give one, such as pseudopotentials: {{{symbol}: {likely(symbol, charge)}}}",
            )


def _electron_gas(block: blocks.System, tile: NDArray[np.int64]) -> tuple[System, Cell]:
    """Return electrons in a uniform background."""
    system = build_system(block)
    N = system.n_electrons
    if block.rs is not None:
        # N electrons in a cube with the density 3 / (4 pi rs^3).
        edge = (4.0 * math.pi * N / 3.0) ** (1.0 / 3.0) * block.rs
        lattice = edge * np.eye(3)
    else:
        assert block.lattice is not None  # the rules of the deck ask for it
        lattice = tile @ np.array(block.lattice, np.float64)
    return system, Cell.of(lattice)


def _check_geometry(block: blocks.System, crystal: Crystal) -> None:
    """Refuse a deck whose cell or ions are not those of the file."""
    # The file decides; what the deck says besides must agree with it.
    if block.lattice is not None and np.abs(np.array(block.lattice) - crystal.lattice).max() > SAME_PLACE:
        raise InvalidInput(
            "system.lattice",
            f"{crystal.origin} has the lattice {np.round(crystal.lattice, 6).tolist()} bohr; leave this key out or correct it",
        )
    if not block.atoms:
        return
    cell = Cell(crystal.lattice)
    ions = list(zip(crystal.symbols, crystal.positions, strict=True))
    # Modulo lattice vectors, in any order.
    good = len(block.atoms) == len(ions) and all(
        any(symbol == s and np.linalg.norm(cell.nearest(np.array(place) - p)) < SAME_PLACE for s, p in ions)
        for symbol, *place in block.atoms
    )
    if not good:
        there = "; ".join(f"{s} {np.round(p, 6).tolist()}" for s, p in ions)
        raise InvalidInput("system.atoms", f"{crystal.origin} has the atoms {there} bohr; leave this key out")


def _check_basis(
    orbitals: BlochOrbitals, counts: tuple[int, int], source: Eshdf | Pyscf, notes: Notes
) -> None:
    """Tell what plane waves and splines cost in energy, and refuse those that are useless."""
    N = max(sum(counts), 1)
    if any(f.kinetic is not None for spin in orbitals.functions for f in spin):
        k2 = max(
            float((((f.gvectors + f.kappa) @ orbitals.primitive.reciprocal) ** 2).sum(1).max())
            for spin in orbitals.functions
            for f in spin
        )
        text = f"the orbitals' plane waves, up to {0.5 * k2:.5g} hartree,"
        remedy = "a larger cutoff (auto finds it)"
        if isinstance(source, Pyscf) and source.cache is not None:
            remedy += f" and no file {source.cache} from before"
        error = orbitals.cutoff_error(counts) / N
        _tell(error, text, remedy, "wavefunction.orbitals", notes)
    elif isinstance(source, Pyscf):
        notes.add(f"{source.cache} does not say the kinetic energy that its orbitals had in the mean field")
    mesh = " x ".join(map(str, orbitals.mesh))
    text, remedy = f"splines on {mesh} points", "a larger meshfactor"
    key = "wavefunction.orbitals.meshfactor"
    # Splines alone have an error in closed form, by Fourier components; with tins it is
    # sampled.
    if orbitals.tins is None:
        error = orbitals.spline_error(counts) / N
    else:
        error = mixed_error(orbitals, counts) / N
        text = f"muffin tins of {orbitals.tins.outer:.4g} bohr with l up to {orbitals.tins.lmax} and {text}"
        remedy, key = "a larger lmax or meshfactor", "wavefunction.orbitals.muffin_tins"
    _tell(error, text, remedy, key, notes)


def _tell(error: float, text: str, remedy: str, key: str, notes: Notes) -> None:
    """Tell or refuse a change of the kinetic energy per electron."""
    text = f"{text} change the kinetic energy by {error:.2g} hartree per electron"
    if not abs(error) <= WRONG:
        raise InvalidInput(key, f"{text}; {remedy} is needed")
    if abs(error) > COARSE:
        notes.warnings.append(f"{text}; {remedy} makes that smaller")
    else:
        notes.add(text)


def mixed_error(orbitals: BlochOrbitals, counts: tuple[int, int]) -> float:
    r"""Return by how much a mixed basis changes the kinetic energy of the determinant, hartree.

    The difference of :math:`\frac12|\nabla\phi|^2/|\phi|^2` from the same with plane waves, averaged over `SAMPLES`^3 points of
    the primitive cell.  They are the same points, so that it is known within about a fifth.
    """
    mesh = (SAMPLES, SAMPLES, SAMPLES)
    error = 0.0
    for spin in range(len(orbitals.functions)):
        # Plane waves by FFT on a mesh, against the basis at the same points: their difference
        # fluctuates less than either.
        exact, points = sampled(orbitals.functions[spin], mesh, orbitals.primitive)
        found = orbitals.by_function(points, spin)[:, :4]
        squares = [(np.abs(values) ** 2).mean(0) for values in (found, exact)]
        energies = [0.5 * square[1:].sum(0) / square[0] for square in squares]
        change = energies[0] - energies[1]
        error += sum(n * float(change[p]) for s, p, n in orbitals.occupied(counts) if s == spin)
    return error
