"""Energy sharing of the Temkin-Poet model that another program finds, to draw beside ours.

The program solves the same equation in boxes of 70, 105 and 150 bohr and takes amplitudes from surfaces; its numbers are good to
3 per cent of the larger of the value and 2 per cent of the largest one.  They are also in
``tests/reference_data/sturmian_collisions.json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SOURCE = "another program, boxes of 70 to 150 bohr, good to 3 per cent"
SHARES = np.array([0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
# Impact energy, eV: spin: pi a0^2 / hartree, convention full.
SHARING = {
    54.4: {
        "singlet": (0.01339, 0.01201, 0.01097, 0.01022, 0.009574, 0.008876, 0.008119, 0.007407, 0.006892, 0.006704),
        "triplet": (0.00595, 0.004044, 0.002709, 0.001768, 0.001098, 0.0006288, 0.000317, 0.0001277, 2.973e-05, 0.0),
    },
}  # fmt: skip
# Difference of energies that are the same, eV.
SAME = 1e-3


def sharing(energies: Sequence[float], labels: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the density of energy sharing of the model at `SHARES`, NaN where it is not known; None if it never is.

    Parameters
    ----------
    energies : sequence of float
        Impact energies, eV.
    labels : sequence of str
        ``singlet``, ``triplet``.

    Returns
    -------
    (energies, labels, shares) float64 or None
        pi a0^2 per hartree.
    """
    out = np.full((len(energies), len(labels), SHARES.size), np.nan)
    for i, energy in enumerate(energies):
        for there, by_label in SHARING.items():
            if abs(energy - there) < SAME:
                for j, label in enumerate(labels):
                    out[i, j] = by_label.get(label, np.nan)
    return None if np.isnan(out).all() else out
