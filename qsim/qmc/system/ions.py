"""Ions and electrons: what a deck's system block means, with effective charges and electron counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.elements import atomic_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.qmc.deck import wavefunction as blocks
    from qsim.qmc.system.pseudopotentials import Pseudopotential

__all__ = ["System", "build_system"]

SAME_PLACE = 1e-6  # bohr


@dataclass(frozen=True)
class System:
    """Ions at their places, electrons by spin, and what else acts on them.

    Attributes
    ----------
    symbols
        Of each atom, as written in the deck; atoms with one symbol are one species.
    positions : (A, 3) float64
        Bohr.
    charges : (A,) float64
        Effective charges: those of the nuclei, or of the pseudopotentials.
    n_up, n_dn
        Numbers of electrons.
    omega, mass
        External potential ``mass omega^2 r^2 / 2`` (0: none), hartree; mass of the particles.
    interacting
        True if the electrons repel each other.
    pseudopotentials
        By symbol; symbols without one have bare nuclei.
    """

    symbols: tuple[str, ...]
    positions: NDArray[np.float64]
    charges: NDArray[np.float64]
    n_up: int
    n_dn: int
    omega: float = 0.0
    mass: float = 1.0
    interacting: bool = True
    pseudopotentials: Mapping[str, Pseudopotential] = field(default_factory=dict)

    @property
    def n_electrons(self) -> int:
        """Number of electrons."""
        return self.n_up + self.n_dn

    @cached_property
    def species(self) -> tuple[str, ...]:
        """The symbols that occur, in the order of their first atoms."""
        return tuple(dict.fromkeys(self.symbols))

    @cached_property
    def species_of_atom(self) -> NDArray[np.int64]:
        """Number of each atom's species, (A,)."""
        return np.array([self.species.index(symbol) for symbol in self.symbols], np.int64)

    @cached_property
    def ion_ion(self) -> float:
        """Repulsion of the ions, hartree."""
        total = 0.0
        # Pairs once; few ions.
        for i in range(len(self.charges)):
            for j in range(i):
                r = float(np.linalg.norm(self.positions[i] - self.positions[j]))
                total += float(self.charges[i] * self.charges[j]) / r
        return total

    @cached_property
    def highest_energy(self) -> float:
        """Energy that sets the shortest time, hartree: Z^2 of bare nuclei, (Z/2)^2 of pseudopotentials, the quantum of a trap."""
        # Energies of core electrons, which set the time step error and the memory of walkers.
        energies = [self.omega]
        for symbol, charge in zip(self.symbols, self.charges, strict=True):
            energies.append(float(charge) ** 2 * (1.0 if self.is_bare(symbol) else 0.25))
        return max(energies)

    def is_bare(self, symbol: str) -> bool:
        """Return True if atoms of this species are bare nuclei, at which wavefunctions have cusps."""
        return symbol not in self.pseudopotentials and bool(self.charges[self.symbols.index(symbol)] > 0.0)


def build_system(
    block: blocks.System,
    pseudopotentials: Mapping[str, Pseudopotential] | None = None,
    *,
    omega: float = 0.0,
    mass: float = 1.0,
    interacting: bool = True,
    electrons: int | None = None,
) -> System:
    """Build the system of a deck.

    Parameters
    ----------
    block
        The deck's ``system``.
    pseudopotentials
        By symbol.
    omega, mass, interacting, electrons
        What the source of the orbitals says of a model without atoms; the block's ``electrons`` goes first.

    Raises
    ------
    InvalidInput
        Unknown elements, atoms in the same place, electrons that do not fit charge and spin.
    """
    pseudopotentials = dict(pseudopotentials or {})
    symbols = tuple(atom[0] for atom in block.atoms)
    numbers = [atomic_number(symbol) for symbol in symbols]
    charges = [
        float(pseudopotentials[symbol].charge) if symbol in pseudopotentials else float(number)
        for symbol, number in zip(symbols, numbers, strict=True)
    ]
    positions = np.array([atom[1:4] for atom in block.atoms], np.float64).reshape(-1, 3)
    _refuse_coinciding(symbols, positions)
    # Atoms decide the number of electrons, unless a model without atoms gives one.
    wanted = block.electrons or electrons
    count = sum(charges) - block.charge if wanted is None else float(wanted)
    n_up, n_dn = _by_spin(count, block.spin, charges, block.charge, given=wanted is not None)
    if not block.atoms:  # a centre without charge, on which the orbitals of a model stand
        symbols, positions, charges = ("",), np.zeros((1, 3)), [0.0]
    return System(
        symbols,
        positions,
        np.array(charges, np.float64),
        n_up,
        n_dn,
        omega,
        mass,
        interacting,
        pseudopotentials,
    )


def _refuse_coinciding(symbols: tuple[str, ...], positions: NDArray[np.float64]) -> None:
    for i in range(len(symbols)):
        for j in range(i):
            if np.linalg.norm(positions[i] - positions[j]) < SAME_PLACE:
                raise InvalidInput(
                    "system.atoms",
                    f"atoms {j + 1} ({symbols[j]}) and {i + 1} ({symbols[i]}) are in the same place",
                )


def _by_spin(count: float, spin: int, charges: list[float], charge: float, *, given: bool) -> tuple[int, int]:
    origin = "" if given else f" (ions of charge {sum(charges):g}, total charge {charge:g})"
    if not math.isclose(count, round(count), abs_tol=1e-9):
        raise InvalidInput("system.charge", f"the number of electrons must be whole, found {count:g}{origin}")
    electrons = round(count)
    if electrons < 1:
        raise InvalidInput("system.charge", f"there is no electron in the system{origin}")
    # n_up + n_dn and n_up - n_dn have the same parity.
    if abs(spin) > electrons or (electrons + spin) % 2:
        kind = "odd" if electrons % 2 else "even"
        raise InvalidInput(
            "system.spin",
            f"{electrons} electrons{origin} need {kind} spin (n_up - n_down) "
            f"between {-electrons} and {electrons}, found {spin}",
        )
    return (electrons + spin) // 2, (electrons - spin) // 2
