r"""Expansions in determinants as programs and files keep them, and their energy by the integrals of the active orbitals.

With the operators :math:`E_{pq}=\sum_\sigma a^\dagger_{p\sigma}a_{q\sigma}` and integrals (pq|rs) in the chemists' order,

.. math:: H = E_0 + \sum_{pq}\Big(h_{pq}-\tfrac12\sum_r(pr|rq)\Big)E_{pq} + \tfrac12\sum_{pqrs}(pq|rs)E_{pq}E_{rs}.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from qsim.qmc.wavefunction.expansion import Strings

__all__ = ["ActiveHamiltonian", "Stored", "active_strings", "of_matrices", "strings_of_bits"]


@dataclass(frozen=True)
class Stored:
    """States as sums of determinants.

    Attributes
    ----------
    origin
        Where they are from, in words.
    strings : pair of (K, n) int64
        Orbitals of each string of a spin, ascending.
    index : (D, 2) int64
        Strings of each determinant.
    coefficients : (states, D) float64
        Of normalised states.
    energies : (states,) float64, optional
        Hartree.
    shared
        Whether both spins have the same orbitals.
    hamiltonian
        Integrals, if they are known.
    """

    origin: str
    strings: tuple[Strings, Strings]
    index: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    energies: NDArray[np.float64] | None = None
    shared: bool = True
    hamiltonian: ActiveHamiltonian | None = None


@dataclass(frozen=True)
class ActiveHamiltonian:
    """Integrals over the active orbitals; what lies below is a core that all determinants occupy.

    Attributes
    ----------
    core
        Number of orbitals of the core.
    energy
        Of the core and of the ions, hartree.
    one : (M, M) float64
        One-electron integrals with the field of the core, hartree.
    two : (M, M, M, M) float64
        (pq|rs), hartree.
    """

    core: int
    energy: float
    one: NDArray[np.float64]
    two: NDArray[np.float64]

    def expectation(self, stored: Stored, coefficients: NDArray[np.float64]) -> float:
        """Return <H> of determinants with other coefficients (D,) in hartree, whatever their norm."""
        M = len(self.one)
        up, dn = (self._excitations(table) for table in stored.strings)
        C = np.zeros((len(stored.strings[0]), len(stored.strings[1])))
        np.add.at(C, (stored.index[:, 0], stored.index[:, 1]), coefficients)
        # E_rs C for all pairs, then C^T E_pq of what they give.
        excited = np.stack([up[k] @ C + (dn[k] @ C.T).T for k in range(M * M)])
        one = (self.one - 0.5 * np.einsum("prrq->pq", self.two)).reshape(-1)
        products = np.einsum("kij,ij->k", excited, C)
        # <C| E_pq E_rs |C> = (E_qp C) . (E_rs C)
        turned = excited.reshape(M, M, *C.shape).swapaxes(0, 1).reshape(excited.shape)
        two = self.two.reshape(M * M, M * M)
        pairs = np.einsum("kij,kij->", turned, np.tensordot(two, excited, 1))
        return self.energy + float(one @ products + 0.5 * pairs) / float(coefficients @ coefficients)

    def _excitations(self, table: Strings) -> list[sparse.csr_array]:
        """Return ``a+_p a_q`` between the strings (K, n) of a spin, for all pairs p, q of active orbitals."""
        from scipy import sparse  # few decks need it

        M = len(self.one)
        number = {tuple(row): k for k, row in enumerate(table.tolist())}
        entries: list[list[tuple[int, int, float]]] = [[] for _ in range(M * M)]
        for column, row in enumerate(table.tolist()):
            for place, q in enumerate(row):
                if q < self.core:
                    continue
                left = row[:place] + row[place + 1 :]
                for p in range(self.core, self.core + M):
                    if p in left:
                        continue
                    before = sum(o < p for o in left)
                    target = number.get((*left[:before], p, *left[before:]))
                    if target is not None:
                        sign = (-1.0) ** (place + before)
                        entries[(p - self.core) * M + q - self.core].append((target, column, sign))
        K = len(table)
        found = []
        for cells in entries:
            i, j, v = (np.array(x) for x in zip(*cells, strict=True)) if cells else (np.zeros(0, int),) * 3
            found.append(sparse.csr_array((np.asarray(v, float), (i, j)), shape=(K, K)))
        return found


def active_strings(core: int, orbitals: int, electrons: int) -> Strings:
    """Return all strings of a spin in a complete active space above a core, in PySCF's order of ``cistring.make_strings``."""
    rows = sorted(combinations(range(orbitals), electrons), key=lambda row: sum(1 << o for o in row))
    table = np.array([[*range(core), *(core + o for o in row)] for row in rows], np.int64)
    return table.reshape(len(rows), core + electrons)


def of_matrices(matrices: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the strings of each determinant and the coefficients of states, from (states, K_up, K_dn)."""
    index = np.indices(matrices.shape[1:]).reshape(2, -1).T
    return index.astype(np.int64), matrices.reshape(len(matrices), -1)


def strings_of_bits(
    bits: tuple[NDArray[np.uint64], NDArray[np.uint64]],
) -> tuple[tuple[Strings, Strings], NDArray[np.int64]]:
    """Return the strings of both spins and those of each determinant, from bit o % 64 of word o // 64 of each, (D, words).

    Raises
    ------
    ValueError
        If the strings of a spin differ in their electrons.
    """
    strings, numbers = [], []
    for words in bits:
        unique, which = np.unique(words, axis=0, return_inverse=True)
        rows = [
            [64 * w + b for w, word in enumerate(row) for b in range(64) if word >> b & 1]
            for row in unique.tolist()
        ]
        if len({len(row) for row in rows}) != 1:
            raise ValueError("determinants differ in their numbers of electrons")
        strings.append(np.array(rows, np.int64).reshape(len(rows), -1))
        numbers.append(which.ravel())
    return (strings[0], strings[1]), np.stack(numbers, -1).astype(np.int64)
