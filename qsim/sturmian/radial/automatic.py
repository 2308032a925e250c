r"""Values of ``auto``: energy and range of the Sturmian functions, and radius of the box.

All follow from one number, the ionisation energy I of the state that is bound most weakly: far from the nucleus an electron's
function decays like ``exp(-sqrt(2 I) r)``.  The rules are measured ones: with ``E = -I`` (anything from 0.9 I to 2 I does) and
``alpha = 0.42 sqrt(2 I)`` the Yukawa basis reaches 1e-6 hartree with 16 functions and 1e-8 with 35.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

# E = -Z^2 + 5/8 Z - 0.1577 + ... of the ground state, in powers of 1/Z from Z^2 on (perturbation theory in 1/Z)
GROUND = (-1.0, 0.625, -0.157666429, 0.008699032, -0.000888707, -0.001036372, -0.000612940)
# Quantum defects of helium; defects of other charges are smaller by 2/Z.
DEFECTS = {(0, 0): 0.15, (0, 1): 0.31, (1, 0): -0.01, (1, 1): 0.07}
# Quantum defects of 2p np and 2p nd in helium, both spins.
UNNATURAL_DEFECTS = {1: 0.35, 2: 0.15}
# Least ionisation energy, hartree: a box for a weaker state would be too large.
WEAKEST = 0.01
RANGE = {"yukawa": 0.42, "hulthen": 0.6, "exponential": 0.82, "exp": 0.82}
# a Coulomb basis has one length only, and has to reach the inner electron, too.
COULOMB_ENERGY = 5.5


def ionisation(charge: float, L: int, S: int, root: int = 0, parity: str = "natural") -> float:
    """Return an estimate of the energy that removes one electron.

    Parameters
    ----------
    charge : float
        Charge of the nucleus, or of a core far outside.
    L, S : int
        Total orbital angular momentum and spin.
    root : int
        Number of the state in its symmetry, from 0.
    parity : {"natural", "even", "odd"}
        Parity of la + lb; states that are not of natural parity, (-1)^L, lie below the second threshold of the ion.

    Returns
    -------
    float
        Hartree, positive.  Good to some percent where the state is bound; states that are not (of H-, for instance) get a small
        number.
    """
    natural = parity == "natural" or (L % 2 == 0) == (parity == "even")
    if not natural:
        # 2p^2: two equal electrons, which screen each other weakly
        if (L, S, root) == (1, 1, 0):
            return max(WEAKEST, 0.5 * (max(charge - 0.7, 0.0) / 2.0) ** 2)
        # 2p n'l' with l' = L, the only pair with an electron in 2p that has this parity
        outer = root + (3 - S if L == 1 else L + 1)
        defect = UNNATURAL_DEFECTS.get(L, 0.0) * min(1.0, 2.0 / max(charge, 1.0))
        return max(WEAKEST, 0.5 * (max(charge - 1.0, 0.0) / (outer - defect)) ** 2)
    # 1s^2: the energy of the ion, -Z^2/2, minus the energy of the atom.
    if L == 0 and S == 0 and root == 0:
        energy = sum(term * charge ** (2 - k) for k, term in enumerate(GROUND))
        return max(WEAKEST, -0.5 * charge**2 - energy)
    # 1s nl: one electron in 1s screens one charge, and the other one is hydrogenic with a
    # quantum defect.
    n = L + 1 + root + (1 if L == 0 and S == 1 else 0)
    defect = DEFECTS.get((L, S), 0.0) * min(1.0, 2.0 / max(charge, 1.0))
    return max(WEAKEST, 0.5 * (max(charge - 1.0, 0.0) / (n - defect)) ** 2)


def weakest(charge: float, states: Iterable[tuple[int, int, int, str]]) -> float:
    """Return the smallest ionisation energy of some states (L, S, root, parity), hartree."""
    return min(ionisation(charge, *state) for state in states)


def radius(ionisation_energy: float, Z: float) -> float:
    """Return the radius of the box, ``12 / sqrt(2 I) + 8 / Z``, bohr: there the density has fallen below 1e-10."""
    return 12.0 / math.sqrt(2.0 * ionisation_energy) + 8.0 / max(Z, 1.0)


def energy(ionisation_energy: float, kind: str = "yukawa") -> float:
    """Return the energy of the Sturmian functions of a generating potential, hartree."""
    return -ionisation_energy * (COULOMB_ENERGY if kind == "coulomb" else 1.0)


def alpha(energy: float, kind: str = "yukawa") -> float:
    """Return the inverse range of a generating potential for functions of an energy, 1/bohr."""
    return RANGE[kind] * math.sqrt(2.0 * abs(energy))
