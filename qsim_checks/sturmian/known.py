"""Energies of two electrons with all partial waves, from the literature."""

from __future__ import annotations

import math

__all__ = ["LIMITS", "limit", "oscillator"]

#: (Z, L, S, natural parity, root): energy, hartree.  Drake, Springer Handbook of Atomic, Molecular, and Optical Physics (2006),
#: ch. 11; Nakashima and Nakatsuji, J. Chem. Phys. 127, 224104 (2007), for ground states.
LIMITS: dict[tuple[int, int, int, bool, int], float] = {
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
DIGITS = {-5.110727372: 1e-9, -4.99335108: 1e-8}


def limit(Z: float, L: int, S: int, natural: bool, root: int) -> tuple[float, float] | None:
    """Return the energy of a state in the field of a bare nucleus and its error, hartree; None if it is not in the table."""
    found = LIMITS.get((round(Z), L, S, natural, root)) if float(Z).is_integer() else None
    return None if found is None else (found, DIGITS.get(found, 2e-12))


def oscillator(omega: float) -> float | None:
    """Return the ground-state energy of two electrons in ``omega^2 r^2 / 2`` where it is a simple number, hartree.

    Taut, Phys. Rev. A 48, 3561 (1993).
    """
    exact = {0.5: 2.0, 0.1: 0.5}
    return next((E for w, E in exact.items() if math.isclose(w, omega)), None)
