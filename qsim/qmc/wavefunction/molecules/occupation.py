"""Electron configurations of self-consistent fields of atoms: found, requested, usual.

An open d or f shell has many self-consistent fields; the one that extrapolation finds from a guess need not be the lowest, and
may be stable nevertheless.  Iron in UHF often ends as 3d7 4s1, tens of millihartree above 3d6 4s2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray

__all__ = ["MOMENTA", "MeanField", "Mole", "configuration", "momenta", "occupy", "unusual", "words"]

# PySCF need not be installed, and has no types that a checker reads.
Mole: TypeAlias = Any
"""``pyscf.gto.Mole``: a molecule with its basis."""
MeanField: TypeAlias = Any
"""``pyscf.scf.hf.SCF``: a self-consistent field and its orbitals."""

MOMENTA = "spdfg"
CLOSED = {  # electrons by l of the cores that effective core potentials stand for
    0: (0, 0, 0, 0),
    2: (2, 0, 0, 0),
    10: (4, 6, 0, 0),
    18: (6, 12, 0, 0),
    28: (6, 12, 10, 0),
    36: (8, 18, 10, 0),
    46: (8, 18, 20, 0),
    54: (10, 24, 20, 0),
    60: (8, 18, 20, 14),
    68: (10, 24, 20, 14),
    78: (10, 24, 30, 14),
}
DIFFERENT = 0.5  # electrons of a shell by which a configuration counts as another one


def momenta(mol: Mole) -> NDArray[np.int64]:
    """Return l of each atomic orbital of a PySCF molecule (spherical), (B,)."""
    found = [
        l
        for shell in range(mol.nbas)
        for l in [int(mol.bas_angular(shell))]
        * ((2 * int(mol.bas_angular(shell)) + 1) * int(mol.bas_nctr(shell)))
    ]
    return np.array(found, np.int64)


def configuration(
    up: NDArray[np.float64], down: NDArray[np.float64], overlap: NDArray[np.float64], l: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the electrons (2, l + 1) by spin and momentum: Mulliken populations of occupied orbitals (B, n)."""
    largest = int(l.max(initial=0))
    found = np.zeros((2, largest + 1))
    for spin, C in enumerate((up, down)):
        population = (C * (overlap @ C)).sum(axis=1)
        found[spin] = np.bincount(l, population, minlength=largest + 1)
    return found


def words(found: NDArray[np.float64]) -> str:
    """Return a configuration as a text, such as ``s 2+2, p 3+3, d 5+1`` (spin up + down)."""
    return ", ".join(
        f"{MOMENTA[k] if k < len(MOMENTA) else f'l={k}'} {_short(found[0, k])}+{_short(found[1, k])}"
        for k in range(found.shape[1])
        if found[:, k].sum() > 0.05
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.02 else f"{value:.2f}"


def unusual(found: NDArray[np.float64], usual: list[int], core: int) -> str:
    """Describe the difference of a configuration from the usual one of a neutral atom; empty if it does not or nothing is known.

    Parameters
    ----------
    found : (2, l + 1) float64
        What :func:`configuration` returned.
    usual
        Electrons of the ground state by l, core included.
    core
        Electrons that an effective core potential stands for.
    """
    if core not in CLOSED:
        return ""
    expected = np.array(usual[:4], float) - CLOSED[core]
    total = np.zeros(max(4, found.shape[1]))
    total[: found.shape[1]] = found.sum(axis=0)
    if np.abs(total[:4] - expected).max() < DIFFERENT:
        return ""
    named = " ".join(f"{MOMENTA[k]}{expected[k]:.0f}" for k in range(4) if expected[k] > 0)
    return f"the ground state of this atom has {named}"


def occupy(field: MeanField, mol: Mole, wanted: Mapping[str, list[int]]) -> None:
    """Make a PySCF field of one atom fill given numbers of orbitals of each momentum and spin, those of lowest energy.

    Parameters
    ----------
    field
        Self-consistent field before it is run; its ``get_occ`` is replaced.
    mol
        The atom.
    wanted
        Electrons with spin up and down by s, p, d, f, g.
    """
    overlap, l = mol.intor("int1e_ovlp"), momenta(mol)
    counts = np.zeros((2, int(l.max(initial=0)) + 1), np.int64)
    for name, pair in wanted.items():
        counts[:, MOMENTA.index(name)] = pair

    def chosen(
        energy: NDArray[np.float64], C: NDArray[np.float64], many: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        weights = C * (overlap @ C)
        by_l = np.array([weights[l == k].sum(axis=0) for k in range(many.size)])
        kind = np.argmax(by_l, axis=0)
        occupation = np.zeros(energy.size)
        for k, number in enumerate(many):
            mine = np.flatnonzero(kind == k)
            occupation[mine[np.argsort(energy[mine], kind="stable")][:number]] = 1.0
        return occupation

    def get_occ(mo_energy: FloatArray | None = None, mo_coeff: FloatArray | None = None) -> FloatArray:
        energy = np.asarray(field.mo_energy if mo_energy is None else mo_energy)
        C = np.asarray(field.mo_coeff if mo_coeff is None else mo_coeff)
        if C.ndim == 3:
            return np.array([chosen(energy[s], C[s], counts[s]) for s in range(2)])
        return chosen(energy, C, counts[0]) + chosen(energy, C, counts[1])

    field.get_occ = get_occ
