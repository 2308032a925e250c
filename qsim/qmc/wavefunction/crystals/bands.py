"""Bands of a primitive cell as a file or a mean field brings them: plane waves by k point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Crystal", "KPoint"]


@dataclass(frozen=True)
class KPoint:
    """Bands at one k point.

    Attributes
    ----------
    kappa : (3,) float64
        In reciprocal vectors of the primitive cell.
    gvectors : (n, 3) int64
    energies : (spins, bands) float64
        Hartree.
    coefficients : (spins, bands, n) complex128
    kinetic : (spins, bands) float64
        Kinetic energies of the bands that the plane waves were cut from, hartree; None where nothing was cut.
    """

    kappa: NDArray[np.float64]
    gvectors: NDArray[np.int64]
    energies: NDArray[np.float64]
    coefficients: NDArray[np.complex128]
    kinetic: NDArray[np.float64] | None = None

    @property
    def reversed(self) -> KPoint:
        """The k point of the opposite sign, by time reversal."""
        return KPoint(-self.kappa, -self.gvectors, self.energies, self.coefficients.conj(), self.kinetic)

    def kinetic_of(self, spin: int, bands: int | NDArray[np.int64]) -> float | None:
        """Return the mean kinetic energy of the bands of a level, None where it is not known."""
        return None if self.kinetic is None else float(self.kinetic[spin, bands].mean())


@dataclass(frozen=True)
class Crystal:
    """A primitive cell with its ions and bands.

    Attributes
    ----------
    lattice : (3, 3) float64
        Rows, bohr.
    symbols
        Of the ions.
    positions : (n, 3) float64
        Bohr.
    charges
        Valence charge by symbol; None: not known.
    kpoints
        Bands.
    origin
        Where they come from, for messages.
    """

    lattice: NDArray[np.float64]
    symbols: tuple[str, ...]
    positions: NDArray[np.float64]
    charges: dict[str, float | None]
    kpoints: tuple[KPoint, ...]
    origin: str = ""

    @property
    def spins(self) -> int:
        """1 if both spins have the same orbitals."""
        return 1 if not self.kpoints else len(self.kpoints[0].energies)
