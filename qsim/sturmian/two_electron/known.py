"""Energies of two-electron atoms that are known to many figures, nonrelativistic, with a nucleus of infinite mass.

Drake, Springer Handbook of Atomic, Molecular, and Optical Physics (2006), ch. 11; Nakashima and Nakatsuji, J. Chem. Phys. 127,
224104 (2007), for the ground states.
"""

from __future__ import annotations

LETTERS = "SPDFGHIKLMNOQRTUV"

#: Energy in hartree of (Z, L, S, root) for states of natural parity.
ENERGIES: dict[tuple[int, int, int, int], float] = {
    (1, 0, 0, 0): -0.527751016544377,
    (2, 0, 0, 0): -2.903724377034120,
    (3, 0, 0, 0): -7.279913412669306,
    (4, 0, 0, 0): -13.655566238423587,
    (2, 0, 0, 1): -2.145974046054417,
    (2, 0, 1, 0): -2.175229378236791,
    (2, 1, 0, 0): -2.123843086498101,
    (2, 1, 1, 0): -2.133164190779283,
}


def energy(Z: float, L: int, S: int, parity: str, root: int) -> float | None:
    """Return the known energy of a state in the field of a bare nucleus, None if it is not in the table."""
    natural = parity in ("natural", "odd" if L % 2 else "even")
    return ENERGIES.get((round(Z), L, S, root)) if natural and float(Z).is_integer() else None


def term(L: int, S: int, parity: str, root: int) -> str:
    """Return the name of a state: ``2^3P``, with the outer electron's n where the inner one is in 1s.

    States of the other parity have no electron in 1s and are numbered from 1: ``P^e(1)``.
    """
    letter = (*LETTERS, *(f"[L={k}]" for k in range(len(LETTERS), L + 1)))[L]
    if parity in ("natural", "odd" if L % 2 else "even"):
        first = L + 1 + (1 if L == 0 and S else 0)
        return f"{root + first}^{2 * S + 1}{letter}"
    return f"{2 * S + 1}{letter}^{parity[0]}({root + 1})"
