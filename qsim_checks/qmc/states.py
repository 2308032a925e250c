r"""Several states of free particles in a trap: sums of the same determinants of oscillator functions with other coefficients.

Orbitals are orthonormal, so that overlaps are products of coefficients; energies are those of `mixtures`.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.qmc.mixtures import Row, mixture

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["states"]

WORK = 25_000  # electron moves of a section of a state
TABLES = 1e-6
WARNING = r"correlation times|still drifts|warm-up is too short|hardly left their places"


def states(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of two or three states, and judge a gap and an overlap."""
    up, down = [(1, 0), (1, 1), (2, 1), (2, 2), (3, 1)][int(rng.integers(5))]
    omega = float(np.exp(rng.uniform(np.log(0.2), np.log(4.0))))
    mass = [1.0, float(rng.uniform(0.3, 3.0))][int(rng.integers(2))]
    alpha = 0.5 * mass * omega * float(rng.uniform(0.8, 1.25))
    size, roots = max(int(rng.integers(3, 7)), up, down), int(rng.integers(2, 4))
    keys: list[tuple[tuple[int, ...], ...]] = []
    while len(keys) < 2:
        for _ in range(int(rng.integers(2, 10))):
            key = tuple(tuple(sorted(rng.permutation(size)[:n].tolist())) for n in (up, down))
            if key not in keys:
                keys.append(key)
        size += 1
    C = rng.normal(size=(roots, len(keys)))
    if rng.random() < 0.5:  # orthogonal as far as there are as many
        C = np.linalg.qr(C.T, mode="complete")[0].T[np.arange(roots) % len(keys)]
        C[len(keys) :] += 0.3
    listed = [
        {"c": c.tolist(), "up": list(key[0]), "down": list(key[1])} for c, key in zip(C.T, keys, strict=True)
    ]
    walkers, blocks = int(np.exp(rng.uniform(np.log(10), np.log(300)))), int(rng.integers(20, 80))
    steps = max(1, round(WORK / (walkers * blocks * (up + down))))
    vmc = {
        "walkers": walkers,
        "blocks": blocks,
        "steps": steps,
        "timestep": float(rng.uniform(0.2, 1.0)) / omega,
    }
    series: list[dict[str, Any]] = [{"vmc": vmc}]
    if rng.random() < 0.4:
        optimize = {
            "walkers": int(rng.integers(60, 200)),
            "iterations": int(rng.integers(1, 4)),
            "steps": 5,
            "parameters": "coefficients",
            "timestep": 0.6 / omega,
        }
        series.insert(0, {"optimize": optimize})
    deck = {
        "run": {"seed": int(rng.integers(2**31))},
        "system": {"electrons": up + down, "spin": up - down},
        "wavefunction": {
            "orbitals": {"source": "harmonic", "omega": omega, "mass": mass, "exponent": alpha},
            "determinants": {"list": listed, "csf": bool(rng.random() < 0.5)},
            "jastrow": "none",
        },
        "states": {"roots": list(range(roots))},
        "series": series,
    }
    other = int(rng.integers(1, roots))
    return Trial(deck, functools.partial(_judge, trap=(alpha, omega, mass), keys=keys, start=C, other=other))


def _judge(
    results: Results,
    *,
    trap: tuple[float, float, float],
    keys: list[tuple[tuple[int, ...], ...]],
    start: np.ndarray,
    other: int,
) -> list[Claim]:
    """Compare the gap of a state, and its overlap with the first."""
    C, energies = [], []
    for k in range(len(start)):
        name = "determinants/coefficients" if not k else f"state_{k}/determinants/coefficients"
        c = np.asarray(results[name])
        rows: list[Row] = [(float(x), key[0], key[1]) for x, key in zip(c, keys, strict=True)]
        every = [sorted({o for key in keys for o in key[spin]}) for spin in range(2)]
        energies.append(mixture(trap, rows, every, [np.eye(len(one)) for one in every])[0])
        C.append(c / np.linalg.norm(c))
    claims = []
    for name, at, value in (
        ("gap", (other,), energies[other] - energies[0]),
        ("overlap", (0, other), float(C[0] @ C[other])),
    ):
        full = "states/vmc_gap" if name == "gap" else "states/overlap"
        found, error = (float(np.asarray(results[full + end])[at]) for end in ("", "_error"))
        if math.isfinite(error):
            oracle = TABLES * max(1.0, abs(value), trap[1])
            claims.append(Claim(name, found - value, error, oracle=oracle, warning=WARNING, statistical=True))
    return claims
