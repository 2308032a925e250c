"""Energies of two-electron atoms that are known to many figures, nonrelativistic, with a nucleus of infinite mass.

Drake, Springer Handbook of Atomic, Molecular, and Optical Physics (2006), ch. 11; Nakashima and Nakatsuji, J. Chem. Phys. 127,
224104 (2007), for the ground states.
"""

from __future__ import annotations

LETTERS = "SPDFGHIKLMNOQRTUV"

#: Energy in hartree of (Z, L, S, natural parity, root), with all partial waves.
ENERGIES: dict[tuple[int, int, int, bool, int], float] = {
    (1, 0, 0, True, 0): -0.527751016544377,
    (2, 0, 0, True, 0): -2.903724377034120,
    (3, 0, 0, True, 0): -7.279913412669306,
    (4, 0, 0, True, 0): -13.655566238423587,
    (2, 0, 0, True, 1): -2.145974046054417,
    (2, 0, 0, True, 2): -2.061271989740911,
    (2, 0, 1, True, 0): -2.175229378236791,
    (2, 0, 1, True, 1): -2.068689067472457,
    (2, 1, 0, True, 0): -2.123843086498101,
    (2, 1, 0, True, 1): -2.055146362091944,
    (2, 1, 1, True, 0): -2.133164190779283,
    (2, 1, 1, True, 1): -2.058081084274275,
    (2, 2, 0, True, 0): -2.055620732852246,
    (2, 2, 1, True, 0): -2.055636309453261,
    (3, 0, 1, True, 0): -5.110727372,
    (3, 1, 0, True, 0): -4.99335108,
    (2, 1, 1, False, 0): -0.710500155678,
    (2, 1, 0, False, 0): -0.580246472594,
}
# Uncertainty of a tabulated energy, hartree: all are given to 12 figures or more but these.
PRECISION = 2e-12
COARSE = {-5.110727372: 1e-9, -4.99335108: 1e-8}
# A run is compared with the levels n <= 2 of natural parity that are known to 12 figures.
HIGHEST = 2


def is_natural(L: int, parity: str) -> bool:
    """Return True for states of parity ``(-1)^L``, which have an electron in 1s."""
    return parity in ("natural", "odd" if L % 2 else "even")


def outer(L: int, S: int, root: int) -> int:
    """Return the principal quantum number of the outer electron of a state of natural parity."""
    # of two electrons in 1s the spins are opposite: triplets begin with 2s
    return root + L + 1 + (1 if L == 0 and S else 0)


def limit(Z: float, L: int, S: int, natural: bool, root: int) -> tuple[float, float] | None:
    """Return the energy of a state in the field of a bare nucleus and its error, hartree; None if it is not in the table."""
    energy = ENERGIES.get((round(Z), L, S, natural, root)) if float(Z).is_integer() else None
    return None if energy is None else (energy, COARSE.get(energy, PRECISION))


def energy(Z: float, L: int, S: int, parity: str, root: int) -> float | None:
    """Return the known energy that a run states beside its own; None if there is none."""
    if not is_natural(L, parity) or outer(L, S, root) > HIGHEST:
        return None
    # A coarse literature value would be a worse oracle than the run itself.
    known = limit(Z, L, S, True, root)
    return known[0] if known is not None and known[1] <= PRECISION else None


def term(L: int, S: int, parity: str, root: int) -> str:
    """Return the name of a state: ``2^3P``, with the outer electron's n where the inner one is in 1s.

    States of the other parity have no electron in 1s and are numbered from 1: ``P^e(1)``.
    """
    letter = (*LETTERS, *(f"[L={k}]" for k in range(len(LETTERS), L + 1)))[L]
    if is_natural(L, parity):
        return f"{outer(L, S, root)}^{2 * S + 1}{letter}"
    return f"{2 * S + 1}{letter}^{parity[0]}({root + 1})"


def label(L: int, S: int, parity: str, root: int) -> str:
    """Return a state as a part of the name of a number: ``2p_3P`` for 1s2p, ``3Pe_1`` without an electron in 1s."""
    if is_natural(L, parity):
        return f"{outer(L, S, root)}{letter(L).lower()}_{2 * S + 1}{letter(L)}"
    return f"{2 * S + 1}{letter(L)}{parity[0]}_{root + 1}"


def letter(L: int) -> str:
    """Return the letter of an orbital momentum in names, ``L16`` beyond the alphabet."""
    return LETTERS[L] if len(LETTERS) > L else f"L{L}"


def in_math(name: str) -> str:
    """Write the name of a state in the mathematical font of figures, ``2^3P`` as a term, and leave ``3P^e(1)`` as it is."""
    head, hat, tail = name.partition("^")
    if hat and tail[:1].isdigit():
        return rf"${head}\,^{{{tail[0]}}}\mathrm{{{tail[1:]}}}$"
    return name
