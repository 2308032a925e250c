r"""Orbitals of the harmonic oscillator in three dimensions: trapped fermions and Hooke's atom.

``R_kl = N L_k^(l+1/2)(2 alpha r^2) exp(-alpha r^2)`` with ``alpha = m omega / 2`` are the eigenfunctions of energy
``omega (2k + l + 3/2)``; any other alpha makes trial functions.  Hooke's atom is exact at omega = 1/2 hartree:
``(1 + r12 / 2) exp(-(r1^2 + r2^2) / 4)``, Taut, Phys. Rev. A 48, 3561 (1993).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.system.radial import Terms
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX, OrbitalSet, Shell, chosen_orbitals, orbital_set

if TYPE_CHECKING:
    from qsim.qmc.deck.wavefunction import Harmonic, Hooke
    from qsim.qmc.system.ions import System
    from qsim.qmc.wavefunction.expansion import Orders

__all__ = ["oscillator", "oscillator_function"]


def oscillator_function(k: int, l: int, alpha: float) -> Terms:
    """Return R_kl (without r^l), normalised."""
    a = l + 0.5
    # L_k^a(x) = sum_i (-1)^i binom(k + a, k - i) x^i / i!
    c = [
        (-1.0) ** i
        * math.gamma(k + a + 1)
        / (math.gamma(k - i + 1) * math.gamma(a + i + 1) * math.factorial(i))
        * (2 * alpha) ** i
        for i in range(k + 1)
    ]
    norm = math.sqrt(2 * (2 * alpha) ** (l + 1.5) * math.factorial(k) / math.gamma(k + l + 1.5))
    return Terms.of(norm * np.array(c), 2 * np.arange(k + 1), 0.0, alpha)


def oscillator(
    block: Hooke | Harmonic, system: System, orders: Orders, virtual: int | None = None
) -> OrbitalSet:
    """Build oscillator orbitals, counted by energy, then by ascending l.

    Parameters
    ----------
    block
        Its exponent is alpha, 1/bohr^2; None: ``mass omega / 2``, that of the eigenfunctions.
    system
        Its ``omega`` and ``mass`` are those of the block already.
    orders, virtual
        Which orbitals determinants have, and how many more there shall be.

    Raises
    ------
    InvalidInput
        For more electrons than shells up to l = `L_MAX` hold.
    """
    alpha = 0.5 * system.mass * system.omega if block.exponent is None else block.exponent
    need = 1 + max((o for order in orders for o in order), default=0) + (virtual or 0)
    shells: list[Shell] = []
    for quanta in range(L_MAX + 1):
        for l in range(quanta % 2, quanta + 1, 2):
            if sum(shell.size for shell in shells) < need:
                shells.append(Shell(0, l, oscillator_function((quanta - l) // 2, l, alpha)))
    size = sum(shell.size for shell in shells)
    if size < max(system.n_up, system.n_dn):
        raise InvalidInput(
            "system.electrons",
            f"oscillator shells up to l = {L_MAX} hold {size} electrons of one spin, found {max(system.n_up, system.n_dn)}",
        )
    every = np.eye(size)
    chosen, columns = chosen_orbitals((every, every), orders, "wavefunction.determinants", virtual)
    return orbital_set(system.positions, shells, chosen, columns=columns)
