"""Photons that meet excited states: random decks of few pairs, and their cross sections beside those of turned radii."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.sturmian.oracle import Symmetry, _three_j_zero
from qsim_checks.sturmian.turned import Turned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["trial"]

# L, S, root, principal quantum number and quantum defect in helium: 2 1S, 2 3S, 3 3S, 2 1P, 2 3P.
STATES = ((0, 0, 1, 2, 0.15), (0, 1, 0, 2, 0.31), (0, 1, 1, 3, 0.31), (1, 0, 0, 2, -0.01), (1, 1, 0, 2, 0.07))
# Pairs of initial and final states.
PAIRS: dict[tuple[int, int], tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]] = {
    (0, 1): (((0, 0),), ((0, 1),)),
    (1, 0): (((0, 1),), ((0, 0), (1, 1))),
    (1, 2): (((0, 1),), ((0, 2), (1, 1))),
}
UNSURE = 1e-3  # relative error of the truth from which it tells nothing
RYDBERG = 4.5  # effective quantum number of resonances that the box of the truth still holds
POORLY = "the cross section is known to worse than"
HARTREE_EV = 27.211386245981


def trial(rng: np.random.Generator) -> Trial:
    """Draw a deck and say how to judge it."""
    L, S, root, n, defect = STATES[int(rng.integers(len(STATES)))]
    to = 1 if L == 0 else int(rng.choice([0, 2]))
    Z = float(rng.choice([2.0, 2.0, 3.0, float(f"{rng.uniform(1.8, 3.2):.3g}")]))
    kappa = (Z - 1.0) / (n - defect * min(1.0, 2.0 / Z))
    first, second = 0.5 * kappa**2, 0.5 * kappa**2 + 0.375 * Z * Z
    last = second - 0.5 * ((Z - 1.0) / RYDBERG) ** 2
    energies = rng.uniform(1.2 * first, last, int(rng.integers(1, 4)))
    gauges = ["length", "velocity"]
    # From boxes that hardly hold the state to some that hold all of it.
    R = (12.0 / kappa + 8.0 / Z) * rng.uniform(1.02, 2.0)
    lower, upper = PAIRS[L, to]
    deck = {
        "method": "sturmian",
        "system": {"Z": Z},
        "grid": {
            "R": float(f"{R:.4g}"),
            "order": int(rng.choice([9, 10, 11])),
            "ecs": {
                "angle": float(f"{rng.uniform(0.25, 0.35):.3g}"),
                "length": float(f"{100.0 / Z * rng.uniform(0.8, 1.2):.4g}"),
            },
        },
        "basis": "fedvr",
        "channels": {"L": to, "pairs": [list(pair) for pair in upper]},
        "initial": {"L": L, "S": S, "root": root, "l_max": lower[-1][1]},
        "task": {
            "type": "scatter",
            "process": "photo",
            "photon": sorted(float(f"{value:.5g}") for value in energies),
            "gauges": [gauges[k] for k in sorted(rng.choice(2, int(rng.integers(1, 3)), replace=False))],
            "levels": 1,
            "threshold": "grid",
        },
    }
    return Trial(deck, lambda results: _claims(results, deck, kappa))


def _claims(results: Results, deck: dict[str, Any], kappa: float) -> list[Claim]:
    """Return the claims of the totals in all gauges."""
    Z = float(deck["system"]["Z"])
    shapes = ((32.0 / kappa, 9, 8.0 / kappa / Z, 0.3), (28.0 / kappa, 8, 7.0 / kappa / Z, 0.26))
    found = np.array([_truth(deck, kappa, Turned(Z, *shape)) for shape in shapes])
    claims = []
    for i in range(found.shape[1]):
        for k, gauge in enumerate(deck["task"]["gauges"]):
            true, spread = float(found[0, i, k]), float(np.ptp(found[:, i, k]))
            if spread > UNSURE * true:
                continue
            name = f"sigma_photo_{gauge}_{i}"
            scalar = results.scalars[name]
            error = math.nan if scalar.error is None else float(scalar.error)
            claims.append(Claim(name, float(scalar.value) - true, error, 0.0, spread, POORLY))  # type: ignore[arg-type]
    return claims


def _truth(deck: dict[str, Any], kappa: float, grid: Turned) -> NDArray[np.float64]:
    """Return the photoabsorption (energies, gauges), Mb, the mean of all M."""
    L, S, to = (
        int(deck[block][key]) for block, key in (("initial", "L"), ("initial", "S"), ("channels", "L"))
    )
    lower, upper = (Symmetry(*of, pairs) for of, pairs in zip(((L, S), (to, S)), PAIRS[L, to], strict=True))
    state = grid.bound(lower, -0.5 * grid.Z**2 - 0.5 * kappa**2)
    task = deck["task"]
    one = grid.photoabsorption(lower, upper, state, task["photon"], task["gauges"])
    # the mean of the three directions of light and all M, from M = 0 along z
    return np.asarray(1e-3 * one / (3.0 * (2 * L + 1) * _three_j_zero(to, 1, L) ** 2))
