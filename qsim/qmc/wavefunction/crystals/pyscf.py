r"""Bands of crystals from PySCF's periodic self-consistent fields, kept as ESHDF files.

Plane waves of crystal orbitals are Fourier transforms of Gaussians in closed form; those up to a cutoff are kept.  The kinetic
energies that the bands have in the field, from integrals over Gaussians, go with them: what is beyond the cutoff is known in
hartree.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from qsim.core.errors import FileError, InvalidInput, NumericsError
from qsim.qmc.system.cell import points_within
from qsim.qmc.system.twists import twists_of
from qsim.qmc.wavefunction.crystals.bloch import Crystal, KPoint
from qsim.qmc.wavefunction.formats.eshdf import read_eshdf, write_eshdf
from qsim.qmc.wavefunction.molecules.gaussian import PyscfMissing, library_ecp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.qmc.deck import wavefunction as blocks
    from qsim.qmc.system.pseudopotentials import Pseudopotential
    from qsim.qmc.wavefunction.notes import Notes

PyscfCell: TypeAlias = Any  # pyscf.pbc.gto.Cell, of a library without types

__all__ = ["kpoints_of", "pyscf_bands"]

KEY = "wavefunction.orbitals"
EMPTY_BANDS = 2  # that are kept beside the occupied ones
LOST = 1e-2  # of the norm of a band: more must not be beyond the cutoff
KEPT = 1e-4  # hartree per electron: what cutoff: auto may leave of the kinetic energy
FIRST, LAST = 25.0, 3200.0  # hartree: between which it looks
AT_ONCE = 20_000  # plane waves of all Gaussians in memory
CONVERGED = 1e-7  # hartree


def kpoints_of(tile: NDArray[np.int64], twist: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the k points (n, 3) of a supercell T with a twist: ``T kappa - twist`` whole, within -1/2 < kappa <= 1/2."""
    reach = int(np.abs(tile).sum(1).max()) + 1
    steps = np.arange(-reach, reach + 1)
    m = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(-1, 3)
    kappa = np.linalg.solve(tile.astype(np.float64), (m + twist).T).T
    # Into (-1/2, 1/2], and each once.
    return _distinct(kappa - np.ceil(kappa - 0.5 - 1e-9))


def _distinct(kappas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each k point (n, 3) once, by ascending length; those that differ by rounding are one."""
    rounded, first = np.unique(np.round(kappas, 9) + 0.0, axis=0, return_index=True)
    return np.asarray(kappas[first[np.argsort((rounded**2).sum(1), kind="stable")]])


def pyscf_bands(
    system: blocks.System,
    block: blocks.Pyscf,
    potentials: Mapping[str, Pseudopotential],
    folder: Path,
    notes: Notes,
) -> Crystal:
    """Return the bands that a deck's supercell and twist need, from the cache or calculated (and then kept).

    Parameters
    ----------
    system, block
        Blocks of the deck: primitive cell and ions, and the self-consistent field.
    potentials
        By symbol.
    folder
        Where relative names start.
    notes
        Collects what was settled here.

    Raises
    ------
    InvalidInput, FileError, NumericsError
        Keys that do not fit, a cache of another crystal, no convergence.
    """
    path = None if block.cache is None else folder / Path(block.cache).expanduser()
    # A file that is there must be of this crystal.
    if path is not None and path.exists():
        crystal = read_eshdf(path)
        _check_cache(path, crystal, system)
        return crystal
    crystal, text = _calculate(system, block, potentials)
    notes.add(text)
    if path is not None:
        # Potentials from the library are kept in the file, so that the next run needs no
        # PySCF.
        electrons = round(sum(charge or 0.0 for s in crystal.symbols for charge in [crystal.charges[s]]))
        names = {s: v for s, v in system.pseudopotentials.items() if not isinstance(v, Path)}
        ecp = {s: (v, library_ecp(v, s, None, f"system.pseudopotentials.{s}")) for s, v in names.items()}
        write_eshdf(path, crystal, (electrons - electrons // 2, electrons // 2), ecp)
    return crystal


def _check_cache(path: Path, crystal: Crystal, system: blocks.System) -> None:
    lattice = np.array(system.lattice)
    places = np.array([atom[1:4] for atom in system.atoms], np.float64)
    same = (
        np.allclose(crystal.lattice, lattice, atol=1e-6)
        and crystal.symbols == tuple(atom[0] for atom in system.atoms)
        and np.allclose(crystal.positions, places, atol=1e-6)
    )
    if not same:
        raise FileError(
            f"{path} holds the orbitals of another crystal: {', '.join(crystal.symbols)} in the lattice "
            f"{np.round(crystal.lattice, 6).tolist()} bohr",
            hint="remove the file to make it anew, or name another one",
        )


def _calculate(
    system: blocks.System, block: blocks.Pyscf, potentials: Mapping[str, Pseudopotential]
) -> tuple[Crystal, str]:
    """Run the self-consistent field and transform its orbitals; return them and a line about them."""
    if block.method not in ("rhf", "rks") or system.spin != 0:
        raise InvalidInput(
            f"{KEY}.method",
            f"orbitals of crystals are made by rhf or rks for spin 0; found {block.method}, spin {system.spin}",
        )
    if block.method == "rks" and not block.xc:
        raise InvalidInput(f"{KEY}.xc", "rks needs a functional, for example xc: lda,vwn")
    tile = np.array(system.tilematrix, np.int64)
    # One self-consistent field with the k points of all twists: its density is theirs
    # together.
    kappas = _distinct(np.concatenate([kpoints_of(tile, twist.vector) for twist in twists_of(system)]))
    try:
        from pyscf.pbc import dft, gto, scf
    except ImportError as error:
        raise PyscfMissing(
            f"orbitals of crystals by name need PySCF, which cannot be imported: {error}",
            hint="pip install pyscf, or give a file with source: eshdf",
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cell = _cell(gto, system, block)
        k = cell.get_abs_kpts(kappas)
        field = (dft.KRKS if block.method == "rks" else scf.KRHF)(cell, k).density_fit()
        if block.method == "rks":
            field.xc = block.xc
        field.conv_tol = CONVERGED
        field.kernel()
    if not field.converged:
        raise NumericsError(
            f"the self-consistent field ({block.method}) of the crystal did not converge; its last energy is "
            f"{field.e_tot:.6f} hartree",
            hint="another basis, or a larger discard",
        )
    # Some empty bands, since other twists and supercells fill bands in another order.
    occupied = cell.nelectron // 2
    bands = min(occupied + EMPTY_BANDS, field.mo_coeff[0].shape[1])
    each = [
        Bands(cell, kappa, C[:, :bands], np.einsum("pb,pq,qb->b", C.conj(), T, C).real[:bands])
        for kappa, C, T in zip(
            kappas, field.mo_coeff, cell.pbc_intor("int1e_kin", hermi=1, kpts=k), strict=True
        )
    ]
    cutoff = best_cutoff(each, occupied) if block.cutoff == "auto" else block.cutoff
    points = []
    for one, kappa, energies in zip(each, kappas, field.mo_energy, strict=True):
        g, c = one.waves(cutoff)
        if (lost := float(1.0 - (np.abs(c) ** 2).sum(1).min())) > LOST:
            raise InvalidInput(
                f"{KEY}.cutoff",
                f"plane waves up to {cutoff:g} hartree lose {100 * lost:.2g} % of an orbital's norm; a larger cutoff, or auto, "
                "is needed",
            )
        # the cut leaves small overlaps
        q, r = np.linalg.qr(c.T)
        c = np.ascontiguousarray((q * np.sign(np.real(r.diagonal()))).T)
        points.append(KPoint(kappa, g, np.array([energies[:bands]]), c[None], one.kinetic[None]))
    symbols = tuple(atom[0] for atom in system.atoms)
    charges: dict[str, float | None] = {
        symbol: float(cell.atom_charge(symbols.index(symbol))) for symbol in dict.fromkeys(symbols)
    }
    for symbol, potential in potentials.items():
        # The same core in both programs, or the occupation is wrong.
        if abs((charges[symbol] or 0.0) - potential.charge) > 1e-6:
            raise InvalidInput(
                f"system.pseudopotentials.{symbol}",
                f"PySCF has {charges[symbol]:g} valence electrons of {symbol}, the pseudopotential {potential.charge:g}; give "
                f"{KEY}.ecp: {{{symbol}: ...}} the potential of that name",
            )
    places = np.array([atom[1:4] for atom in system.atoms], np.float64)
    crystal = Crystal(np.array(system.lattice), symbols, places, charges, tuple(points), "PySCF")
    return crystal, (
        f"{block.method} {block.xc or ''} at {len(k)} k points: {field.e_tot:.6f} hartree per primitive cell; plane waves up to "
        f"{cutoff:g} hartree"
    )


def _cell(gto: ModuleType, system: blocks.System, block: blocks.Pyscf) -> Any:
    names = {
        symbol: value for symbol, value in system.pseudopotentials.items() if not isinstance(value, Path)
    }
    for symbol in system.pseudopotentials:
        if symbol not in names and symbol not in block.ecp:
            raise InvalidInput(
                f"{KEY}.ecp",
                f"the pseudopotential of {symbol} is a file; give its counterpart in PySCF, ecp: {{{symbol}: ...}}",
            )
    cell = gto.Cell()
    cell.a = np.array(system.lattice)
    cell.atom = [(atom[0], atom[1:4]) for atom in system.atoms]
    cell.unit = "B"
    cell.basis = block.basis
    cell.ecp = {**names, **block.ecp}
    cell.exp_to_discard = block.discard
    cell.verbose = 0
    try:
        cell.build()
    except Exception as error:  # its exceptions differ from version to version
        raise InvalidInput(
            f"{KEY}.basis", f"PySCF refuses the basis {block.basis}: {str(error).splitlines()[0]}"
        ) from error
    return cell


@dataclass(frozen=True)
class Bands:
    """Bands of Gaussians at one k point.

    Attributes
    ----------
    cell
        Of PySCF.
    kappa : (3,) float64
        In reciprocal vectors.
    coefficients : (B, bands) complex128
        Over the Gaussians.
    kinetic : (bands,) float64
        Kinetic energies from integrals over Gaussians, hartree.
    """

    cell: PyscfCell
    kappa: NDArray[np.float64]
    coefficients: NDArray[np.complex128]
    kinetic: NDArray[np.float64]

    def waves(self, cutoff: float) -> tuple[NDArray[np.int64], NDArray[np.complex128]]:
        """Return the G vectors (n, 3) of a sphere in k + G, as plane wave programs have it, and coefficients (bands, n)."""
        from pyscf.pbc.df.ft_ao import ft_ao

        lattice = np.array(self.cell.lattice_vectors())
        B = 2.0 * np.pi * np.linalg.inv(lattice).T
        radius = float(np.sqrt(2.0 * cutoff))
        g = points_within(B, radius + float(np.linalg.norm(self.kappa @ B)))
        g = g[(((g + self.kappa) @ B) ** 2).sum(1) <= radius**2]
        c = np.empty((self.coefficients.shape[1], len(g)), np.complex128)
        for first in range(0, len(g), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            c[:, some] = (ft_ao(self.cell, (g[some] + self.kappa) @ B) @ self.coefficients).T
        return g, c / np.sqrt(abs(np.linalg.det(lattice)))

    def lost(self, cutoff: float, occupied: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return kinetic energies of plane waves, ascending, and the mean of an occupied band beyond each of them, hartree."""
        g, c = self.waves(cutoff)
        energy = 0.5 * (
            ((g + self.kappa) @ (2.0 * np.pi * np.linalg.inv(self.cell.lattice_vectors()).T)) ** 2
        ).sum(1)
        order = np.argsort(energy, kind="stable")
        energy, weight = energy[order], np.abs(c[:occupied, order]) ** 2
        norm = np.maximum(weight.cumsum(1), 1e-300)
        return energy, np.abs(self.kinetic[:occupied, None] - (weight * energy).cumsum(1) / norm).mean(0)


def best_cutoff(bands: Sequence[Bands], occupied: int) -> float:
    """Return the smallest cutoff that leaves `KEPT` of the kinetic energy at every k point, hartree; `LAST` if none does."""
    cutoff = FIRST
    while cutoff < LAST:
        cutoff *= 2.0
        needed = 0.0
        for one in bands:
            energy, lost = one.lost(cutoff, occupied)
            # Up to and with the wave behind the last one that leaves more.
            first = int(np.flatnonzero(lost > KEPT).max(initial=-1)) + 1
            needed = max(needed, float(energy[first]) if first < len(energy) else np.inf)
        if needed < cutoff:
            return max(float(np.ceil(needed)), 2.0)
    return LAST
