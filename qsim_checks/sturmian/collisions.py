"""Random collision decks, and the claims of their results files beside their true values.

Electrons on one-electron ions in the model of s waves (all discrete channels, total, break-up, S-matrix), photoabsorption in the
three gauges, and doubly excited resonances; see :mod:`qsim_checks.sturmian.scaled` for the truth.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from qsim_checks.coverage import Claim, Trial
from qsim_checks.sturmian.boxed import beyond_the_wall, phases
from qsim_checks.sturmian.oracle import Functions, Symmetry, _three_j_zero
from qsim_checks.sturmian.perimetric import response
from qsim_checks.sturmian.scaled import Electrons, photoabsorption, resonance

if TYPE_CHECKING:
    from qsim.core.results.results import Results
    from qsim.core.results.tables import Scalar

__all__ = ["collision"]

UNSURE = 0.02  # relative error of the oracle from which it tells nothing
LEFT = 3e-4  # of elastic scattering, that a difference of total and levels may be off
SETS = ((0.5, 4.0, 28, 0.30), (0.55, 3.5, 24, 0.26))  # exponent and middle in units of Z, functions, angle
PHOTO_SETS = ((0.4, 3.0, 18, 0.30), (0.5, 2.0, 17, 0.25), (0.5, 1.0, 16, 0.30))
# Of photon energies: wide enough for Rydberg resonances, and for P states; with more pairs.
WIDE_SETS = ((0.2, 3.0, 24, 0.30), (0.18, 2.6, 23, 0.28), (0.22, 3.0, 22, 0.30))
PAIR_SETS = ((0.22, 3.0, 16, 0.30), (0.2, 2.6, 15, 0.28), (0.25, 3.0, 15, 0.30))
LIMIT_SETS = ((0.5, 2.0, 12, 0.30), (0.55, 2.0, 11, 0.28), (0.45, 1.5, 12, 0.25))  # with more pairs
RESONANCE_SETS = ((0.4, 3.0, 18, 0.30), (0.35, 2.5, 18, 0.28))  # wide enough for the electron that leaves
# Half of an error over what the sets differ by, of the acceleration, whose 1/r^2 they hold badly: 8.7 times the
# spread of LIMIT_SETS at Z = 1.85 with pairs up to d.
SLOW = 6.0
BEYOND = 2  # orbital momenta that the truth has more than a deck with l_max
# 2s^2 1S, 2s2p 1P and 3P of He, as -Z^2/4 + c Z, hartree; of s waves alone the first lies higher
RESONANCES = {(0, 0): 0.111, (1, 0): 0.1535, (1, 1): 0.12}
S_WAVES = 0.139
# Pairs of slow electrons by L: without and with the polarisation of the target; functions of the spheres that tell the truth.
SPHERE_PAIRS = ((((0, 0),), ((0, 0), (1, 1))), (((0, 1),), ((0, 1), (1, 2))))
SPHERE, SMALLER_SPHERE = (12, 17), (10, 15)
# Effective quantum numbers from which the functions of the oracle hold no resonance below the second threshold.
RYDBERG, FAR_RYDBERG = 2.7, 3.6
# 2p^2 3P^e and 2p3p 1P^e, 3P^e (bound below the first threshold of this parity), 3p^2 3P^e, likewise, and n n' of their estimate
UNNATURAL = ((1, 2, 2, 0.1448), (0, 2, 3, 0.071), (1, 2, 3, 0.077), (1, 3, 3, 0.062))
HARTREE_EV = 27.211386245981
POORLY = "the cross section is known to worse than"
NO_RESONANCE = "may be no resonance|the error of a resonance could not be found"


def collision(
    rng: np.random.Generator,
    process: Literal["electron", "photo", "photons", "resonances", "slow"] | None = None,
) -> Trial:
    """Draw a collision deck, of one process if it is named, and return it with its judge."""
    if process is None:
        drawn = rng.random()
        process = "electron"
        if drawn >= 0.6:
            process = "photo" if drawn < 0.75 else "resonances"
        if 0.6 <= drawn < 0.65:
            process = "photons"
        if drawn < 0.12:
            process = "slow"
    draw, judge = PROCESSES[process]
    deck = draw(rng)
    return Trial(deck, lambda results: judge(results, deck))


# ---------------------------------------------------------------------------------------------- decks


def _coin(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.4g}")


def _grid(rng: np.random.Generator, R: float, most: int = 12) -> dict[str, Any]:
    grid: dict[str, Any] = {"R": float(f"{R:.4g}"), "order": int(rng.integers(7, most + 1))}
    if _coin(rng, 0.4):
        grid["ecs"] = {
            "angle": float(f"{rng.uniform(0.2, 0.4):.3g}"),
            "length": float(f"{R * rng.uniform(0.6, 1.2):.3g}"),
        }
    return grid


def _electron(rng: np.random.Generator) -> dict[str, Any]:
    Z = float(rng.choice([1.0, 1.0, 1.0, 2.0, float(f"{rng.uniform(1.0, 3.0):.3g}")]))
    R = _log(rng, 16.5, 45.0) / Z
    above = _coin(rng, 0.5)
    # below 3/8 Z^2 only elastic scattering is possible, above 1/2 Z^2 ionisation
    energy = Z * Z * (_log(rng, 0.6, 2.5) if above else _log(rng, 0.03, 0.49))
    deck: dict[str, Any] = {
        "system": {"Z": Z},
        "grid": _grid(rng, R),
        "basis": "fedvr",
        "channels": {"L": 0, "S": int(rng.integers(0, 2)), "pairs": [[0, 0]]},
        "task": {"type": "scatter", "process": "e_h", "energy": float(f"{energy:.5g}")},
    }
    if above and R * Z < 30.0 and _coin(rng, 0.4):
        most = math.sqrt(2.0 * energy) * R / math.pi
        deck["basis"] = {
            "type": "gsf",
            "generating": {"type": "square_well", "tail": float(f"{4.0 / Z:.3g}")},
            "energy": "total",
            "N": math.ceil(1.3 * most + 10.0) + int(rng.integers(1, 25)),
        }
        deck["grid"]["order"] = max(10, deck["grid"]["order"])
    return deck


def _photon(rng: np.random.Generator) -> dict[str, Any]:
    Z = float(rng.choice([2.0, 2.0, 3.0, float(f"{rng.uniform(1.7, 4.0):.3g}")]))
    S = int(rng.random() < 0.2)
    excess = Z * Z * _log(rng, 0.3, 1.5)
    R = max(13.0 / math.sqrt(excess), (30.0 if not S else 50.0) / Z) * rng.uniform(1.0, 1.2)
    gauges = ["length", "velocity", "acceleration"]
    deck: dict[str, Any] = {
        "system": {"Z": Z},
        "grid": _grid(rng, R, 9),
        "basis": "fedvr",
        "channels": {"l_max": int(rng.integers(1, 3))},
        "task": {
            "type": "scatter",
            "process": "photo",
            "excess": float(f"{excess:.5g}"),
            "gauges": [gauges[k] for k in sorted(rng.choice(3, int(rng.integers(1, 4)), replace=False))],
        },
        "initial": {"S": S},
    }
    if _coin(rng, 0.6):
        deck["channels"] = {"pairs": [[0, 1]]}
    return deck


def _resonance(rng: np.random.Generator) -> dict[str, Any]:
    Z = float(rng.choice([2.0, 2.0, 3.0, float(f"{rng.uniform(1.7, 4.0):.3g}")]))
    if _coin(rng, 0.3):
        return _unnatural(rng, Z)
    (L, S), shift = list(RESONANCES.items())[int(rng.integers(0, 3))]
    channels: dict[str, Any] = {"L": L, "S": S, "l_max": L + int(rng.integers(0, 2))}
    if _coin(rng, 0.5):
        pairs = [[0, 0], [1, 1]] if L == 0 else [[0, 1]]
        channels = {"L": L, "S": S, "pairs": pairs[: int(rng.integers(1, len(pairs) + 1))]}
    alone = channels.get("l_max", 1) == 0 or channels.get("pairs") == [[0, 0]]
    near = -0.25 * Z * Z + (S_WAVES if alone else shift) * Z
    return {
        "system": {"Z": Z},
        "grid": _grid(rng, _log(rng, 20.0, 36.0) / Z, 9),
        "basis": "fedvr",
        "channels": channels,
        "task": {
            "type": "scatter",
            "process": "resonances",
            "near": [float(f"{near * rng.uniform(0.99, 1.01):.5g}")],
        },
    }


def _unnatural(rng: np.random.Generator, Z: float) -> dict[str, Any]:
    """Draw a doubly excited state of P^e symmetry, which has no electron in 1s."""
    S, n, m, shift = UNNATURAL[int(rng.integers(0, len(UNNATURAL)))]
    near = -0.5 * Z * Z * (1.0 / n**2 + 1.0 / m**2) + shift * Z
    channels: dict[str, Any] = {"L": 1, "S": S, "parity": "unnatural"}
    if _coin(rng, 0.5):
        channels["pairs"] = [[1, 1], [2, 2]][: int(rng.integers(1, 3))]
    else:
        channels["l_max"] = int(rng.integers(1, 3))
    return {
        "system": {"Z": Z},
        "grid": _grid(rng, _log(rng, 24.0, 40.0) * (1.6 if m > 2 else 1.0) / Z, 9),
        "basis": "fedvr",
        "channels": channels,
        "task": {"type": "scatter", "process": "resonances", "near": [float(f"{near:.5g}")]},
    }


# --------------------------------------------------------------------------------------------- claims

# told of a number that has no error
UNKNOWN = "the error of .* could not be found"


def _claim(name: str, scalar: Scalar, true: float, spread: float, warning: str = UNKNOWN) -> Claim:
    assert isinstance(scalar.value, float | int)
    claimed = math.nan if scalar.error is None else float(scalar.error)
    return Claim(name, float(scalar.value) - true, claimed, 0.0, 2.0 * spread + 1e-9 * abs(true), warning)


def _pairs(L: int, l_max: int, odd: int = 0) -> tuple[tuple[int, int], ...]:
    """Return all pairs of natural parity, or of the other one if odd is 1."""
    return tuple(
        (a, b)
        for b in range(l_max + 1)
        for a in range(b + 1)
        if abs(a - b) <= L <= a + b and (a + b - L) % 2 == odd
    )


def _slow(rng: np.random.Generator) -> dict[str, Any]:
    """Draw slow electrons on hydrogen at energies that a sphere chooses, of one model of pairs."""
    L = int(rng.random() < 0.3)
    lists = SPHERE_PAIRS[L]
    pairs, S = lists[int(rng.integers(0, len(lists)))], int(rng.integers(0, 2))
    wall = float(f"{rng.uniform(36.0, 60.0):.4g}")
    energies, _ = phases(L, S, pairs, wall, *SPHERE)
    count = int(rng.integers(1, 5))
    grid: dict[str, Any] = {"R": _log(rng, 18.0, 34.0), "order": int(rng.integers(7, 10))}
    if _coin(rng, 0.3):
        grid["ecs"] = {"angle": float(f"{rng.uniform(0.25, 0.32):.3g}"), "length": _log(rng, 60.0, 200.0)}
    return {
        "system": {"Z": 1.0},
        "grid": grid,
        "basis": "fedvr",
        "channels": {"L": L, "S": S, "pairs": [list(pair) for pair in pairs]},
        "task": {
            "type": "scatter",
            "process": "e_h",
            "energy": list(energies[:count]),
            "observables": ["sigma"],
        },
        "solver": {"tolerance": 1e-6},
        # of the truth, not of the deck
        "title": f"wall {wall}",
    }


def _slow_claims(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of phases and totals."""
    channels, energies = deck["channels"], deck["task"]["energy"]
    L, S = int(channels["L"]), int(channels["S"])
    pairs = tuple((int(a), int(b)) for a, b in channels["pairs"])
    wall = float(deck["title"].split()[1])
    _, delta = phases(L, S, pairs, wall, *SPHERE)
    others, _ = phases(L, S, pairs, wall, *SMALLER_SPHERE)
    claims = []
    for i, energy in enumerate(energies):
        k = math.sqrt(2.0 * energy)
        # a level of the sphere that is off by dk puts the phase off by W dk
        spread = wall * abs(k - math.sqrt(2.0 * others[i]))
        outside = beyond_the_wall(L, pairs, k, delta[i], wall)
        true, spread = delta[i] + outside, spread + 0.3 * outside
        label = ("singlet", "triplet")[S]
        scalar = results.scalars.get(f"phase_shift_L{L}_{label}_{i}")
        if scalar is None:
            continue
        found = float(scalar.value)
        nearest = found - ((found - true + 0.5 * math.pi) % math.pi - 0.5 * math.pi)
        claims.append(_claim(f"phase_shift_{i}", scalar, nearest, spread, POORLY))
        # both spins with their weights: (2S + 1)(2L + 1) sin^2(delta) / k^2, in pi a0^2
        weight = (2 * S + 1) * (2 * L + 1) / k**2
        total = results.scalars[f"sigma_total_{label}_{i}"]
        # what the target beyond the box adds is not in the cross section, and small
        if not isinstance(total.value, str):
            change = weight * (abs(math.sin(2.0 * true)) * spread + spread**2)
            claims.append(_claim(f"sigma_total_{i}", total, weight * math.sin(true) ** 2, change, POORLY))
    return claims


def _electron_claims(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of total, levels, break-up, S-matrix and unitarity."""
    Z, S, energy = float(deck["system"]["Z"]), int(deck["channels"]["S"]), float(deck["task"]["energy"])
    label = ("singlet", "triplet")[S]
    both = [_electron_truth(Z, S, energy, *shape) for shape in SETS]
    # what the S-matrix of the oracle is uncertain by, whichever of its parts and cross sections shows it
    change = abs(complex(*(both[0][key] - both[1][key] for key in ("s_matrix_re_L0", "s_matrix_im_L0"))))
    uncertain = {"s_matrix_re_L0": change, "s_matrix_im_L0": change, "phase_shift_L0": 0.5 * change}
    uncertain |= {key: (2 * S + 1) * change / (4.0 * energy) for key in ("sigma_total", "sigma_elastic")}
    claims = []
    for name, scalar in results.scalars.items():
        if name == "unitarity_defect_0":
            claims.append(_claim(name, scalar, 0.0, 0.0))
            continue
        key = name.removesuffix(f"_{label}_0")
        if key == name or key not in both[0]:
            continue
        true, other = both[0][key], both[1][key]
        spread = abs(true - other)
        if key == "phase_shift_L0":  # modulo pi
            found = float(scalar.value)  # type: ignore[arg-type]
            true = found - ((found - true + 0.5 * math.pi) % math.pi - 0.5 * math.pi)
            spread = abs((spread + 0.5 * math.pi) % math.pi - 0.5 * math.pi)
        spread = max(spread, uncertain.get(key, 0.0))
        if key == "sigma_ionisation":  # what the levels leave of the total
            spread += LEFT * both[0]["sigma_elastic"]
        scale = 1.0 if key.startswith(("s_matrix", "phase")) else abs(true)
        if spread <= UNSURE * scale:
            claims.append(_claim(name, scalar, true, spread))
    return claims


@lru_cache(maxsize=16)
def _electron_truth(
    Z: float, S: int, energy: float, exponent: float, middle: float, count: int, theta: float
) -> dict[str, float]:
    """Return the true numbers by the names of their scalars, cross sections in pi a0^2."""
    functions = Functions(exponent * Z, middle / Z, count, lambda r: -Z / r)
    (found,) = Electrons(Z, functions, theta).solve(S, [energy])
    k = math.sqrt(2.0 * energy)
    weight = (2 * S + 1) / k
    element = found["S"]
    out = {
        "sigma_total": weight * found["total"].real,
        "sigma_elastic": weight * abs(element - 1.0) ** 2 / (4.0 * k),
        "s_matrix_re_L0": element.real,
        "s_matrix_im_L0": element.imag,
        "phase_shift_L0": 0.5 * float(np.angle(element)) % math.pi,
    }
    out |= {f"sigma_{n}s": weight * found[f"{n}s"].real for n in range(2, 5) if f"{n}s" in found}
    if energy > 0.5 * Z * Z:
        levels = [weight * found[f"{n}s"].real for n in range(2, 6)]
        # n^3 sigma_n = a + b / n^2 beyond the last two
        a, b = np.linalg.solve([[1.0, 1.0 / 16.0], [1.0, 1.0 / 25.0]], [levels[2] * 64.0, levels[3] * 125.0])
        n = np.arange(6.0, 2000.0)
        rest = float(((a + b / n**2) / n**3).sum())
        out["sigma_ionisation"] = out["sigma_total"] - out["sigma_elastic"] - sum(levels) - rest
    return out


def _symmetry(deck: dict[str, Any], L: int, S: int, more: int) -> Symmetry:
    channels = deck["channels"]
    if "pairs" in channels:
        return Symmetry(L, S, tuple((min(p), max(p)) for p in channels["pairs"]))
    return Symmetry(L, S, _pairs(L, channels["l_max"] + more, int("parity" in channels)))


def _photon_claims(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of the photoabsorption: of the model where pairs are listed, else of all pairs."""
    Z, S = float(deck["system"]["Z"]), int(deck["initial"]["S"])
    listed = "pairs" in deck["channels"]
    upper = _symmetry(deck, 1, S, BEYOND)
    top = max(b for _, b in upper.pairs)
    lower = Symmetry(0, S, _pairs(0, top))
    gauges, excess = deck["task"]["gauges"], float(deck["task"]["excess"])
    found = [
        photoabsorption(_turned(Z, *shape), lower, upper, 0, [excess], gauges, Z)[0]
        for shape in (PHOTO_SETS if listed and len(upper.pairs) == 1 else LIMIT_SETS)
    ]
    claims = []
    for gauge, values in zip(gauges, np.array(found).T, strict=True):
        true, spread = float(values[0]), float(np.ptp(values)) * (SLOW if gauge == "acceleration" else 1.0)
        if spread <= UNSURE * true:
            name = f"sigma_photo_{gauge}_0"
            claims.append(_claim(name, results.scalars[name], true, spread))
    return claims


def _photons(rng: np.random.Generator) -> dict[str, Any]:
    """Draw photon energies from the first threshold to double ionisation, of one model of pairs."""
    drawn = rng.random()
    if drawn < 0.25:
        return _photons_of_p(rng)
    if drawn < 0.35:
        return _photons_of_all_waves(rng)
    Z = float(rng.choice([2.0, 2.0, 3.0, float(f"{rng.uniform(1.7, 3.0):.3g}")]))
    S = int(rng.random() < 0.2)
    first = _first_threshold(Z, S)
    R = (24.0 if not S else 40.0) / Z * rng.uniform(1.6, 2.2)
    # slow electrons need a longer contour than others
    grid = _grid(rng, R, 9)
    grid["ecs"] = {
        "angle": float(f"{rng.uniform(0.25, 0.35):.3g}"),
        "length": float(f"{60.0 / Z * rng.uniform(0.8, 1.4):.4g}"),
    }
    last = first + 0.37 * Z * Z
    energies = rng.uniform(1.04 * first, last, int(rng.integers(2, 7)))
    gauges = ["length", "velocity", "acceleration"]
    return {
        "system": {"Z": Z},
        "grid": grid,
        "basis": "fedvr",
        "channels": {"pairs": [[0, 1]] if _coin(rng, 0.7) else [[0, 1], [1, 2]]},
        "task": {
            "type": "scatter",
            "process": "photo",
            "photon": sorted(float(f"{value:.5g}") for value in energies),
            "gauges": [gauges[k] for k in sorted(rng.choice(3, int(rng.integers(1, 4)), replace=False))],
            "levels": 1,
        },
        "initial": {"S": S},
    }


def _photons_of_p(rng: np.random.Generator) -> dict[str, Any]:
    """Draw photon energies between the first two thresholds of 2 1P or 2 3P, into S states, or S and D states."""
    Z = float(rng.choice([2.0, 3.0, float(f"{rng.uniform(2.0, 3.5):.3g}")]))
    # 2p outside of a screened nucleus
    first = 0.5 * ((Z - 1.0) / 2.0) ** 2
    energies = rng.uniform(1.3 * first, first + 0.33 * Z * Z, int(rng.integers(1, 4)))
    gauges = ["length", "velocity"]
    both = _coin(rng, 0.5)
    R = (12.0 / math.sqrt(2.0 * first) + 8.0 / Z) * rng.uniform(1.05, 1.2)
    return {
        "system": {"Z": Z},
        "grid": {**_grid(rng, R, 8), "ecs": {"angle": 0.3, "length": float(f"{50.0 / Z:.4g}")}},
        "basis": "fedvr",
        "channels": {
            "L": [0, 2] if both else 0,
            "pairs": [[0, 0], [1, 1], [0, 2]] if both else [[0, 0], [1, 1]],
        },
        "task": {
            "type": "scatter",
            "process": "photo",
            "photon": sorted(float(f"{value:.5g}") for value in energies),
            "gauges": gauges[: int(rng.integers(1, 3))],
            "levels": 1,
        },
        "initial": {"L": 1, "S": int(rng.integers(0, 2))},
    }


def _photons_of_all_waves(rng: np.random.Generator) -> dict[str, Any]:
    """Draw photon energies below the resonances of 1 1S, 2 1S or 2 3S, with pairs up to an orbital momentum."""
    Z, S = float(rng.choice([2.0, 3.0])), int(rng.integers(0, 2))
    root = 0 if S else int(rng.integers(0, 2))
    # 2s outside of a screened nucleus
    first = 0.5 * ((Z - 1.0) / 1.7) ** 2 if S or root else _first_threshold(Z, 0)
    energies = rng.uniform(1.15 * first, first + 0.2 * Z * Z, int(rng.integers(1, 4)))
    R = (45.0 if S or root else 22.0) * (1.0 if Z < 2.5 else 0.55) * rng.uniform(1.0, 1.2)
    return {
        "system": {"Z": Z},
        "grid": {**_grid(rng, R, 8), "ecs": {"angle": 0.3, "length": float(f"{60.0 / Z:.4g}")}},
        "basis": "fedvr",
        "channels": {"l_max": int(rng.integers(1, 4))},
        "task": {
            "type": "scatter",
            "process": "photo",
            "photon": sorted(float(f"{value:.5g}") for value in energies),
            "gauges": ["length", "velocity"][: int(rng.integers(1, 3))],
            "levels": 1,
        },
        "initial": {"S": S, "root": root},
    }


def _first_threshold(Z: float, S: int) -> float:
    """Return an upper estimate of the ionisation energy of 1 1S or 2 3S, hartree."""
    if S:
        return 0.5 * ((Z - 1.0) / 1.6) ** 2
    return 0.5 * Z * Z - 0.625 * Z + 0.16


def _photons_claims(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of totals in all gauges, and of 1s below the second threshold, where it is the only channel."""
    if "l_max" in deck["channels"]:
        return _with_all_waves(results, deck)
    claims = []
    for k, gauge in enumerate(results["gauge"]):
        claims += _in_gauge(results, deck, k, str(gauge))
    return claims


def _with_all_waves(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of totals, whose truth has every partial wave."""
    Z, S, root = float(deck["system"]["Z"]), int(deck["initial"]["S"]), int(deck["initial"]["root"])
    found = np.array(
        [
            response(Z, S, bool(S or root), order, 22).photoabsorption(0, root, deck["task"]["photon"], theta)
            for order, theta in ((7, 0.35), (7, 0.3), (6, 0.35))
        ]
    )
    claims = []
    for i, (true, spread) in enumerate(zip(found[0], np.ptp(found, axis=0), strict=True)):
        if spread > UNSURE * true:
            continue
        for gauge in results["gauge"]:
            name = f"sigma_photo_{gauge}_{i}"
            claims.append(_claim(name, results.scalars[name], float(true), float(spread), POORLY))
    return claims


def _in_gauge(results: Results, deck: dict[str, Any], k: int, gauge: str) -> list[Claim]:
    """Return the claims of one gauge, by its number and name."""
    Z, alone = float(deck["system"]["Z"]), len(deck["channels"]["pairs"]) == 1
    shapes, rydberg, factor = (WIDE_SETS, FAR_RYDBERG, 1.0) if alone else (PAIR_SETS, RYDBERG, 1.0)
    if gauge == "acceleration":
        # its 1/r^2 needs compact functions
        shapes, rydberg, factor = (PHOTO_SETS if alone else LIMIT_SETS), RYDBERG, SLOW
    found = 1e-3 * np.array([_absorbed(deck, _turned(Z, *shape), gauge) for shape in shapes])
    claims = []
    for i, omega in enumerate(deck["task"]["photon"]):
        at = int(np.argmin(np.abs(results["photon_energy"] / HARTREE_EV - omega)))
        E, second = float(results["total_energy"][at]), -0.125 * Z * Z
        if second - 0.5 * ((Z - 1.0) / rydberg) ** 2 < E < second:
            continue
        true, spread = float(found[0, i]), factor * float(np.ptp(found[:, i]))
        if spread > UNSURE * true:
            continue
        scalar = results.scalars[f"sigma_photo_{gauge}_{i}"]
        claims.append(_claim(f"sigma_photo_{gauge}_{i}", scalar, true, spread, POORLY))
        # of several total momenta one level has the whole flux, too
        if second > E:
            value, error, position = (
                float(results[f"sigma_level{part}"][at, k, 0]) for part in ("", "_error", "_position_error")
            )
            error += position
            claims.append(Claim(f"sigma_1s_{gauge}_{i}", value - true, error, 0.0, 2.0 * spread, POORLY))
    return claims


def _absorbed(deck: dict[str, Any], f: Functions, gauge: str) -> NDArray[np.float64]:
    """Return the photoabsorption of the model of a deck (e,), kb, the mean of all M of the initial state."""
    Z, initial, photons = float(deck["system"]["Z"]), deck["initial"], deck["task"]["photon"]
    L, S = int(initial.get("L", 0)), int(initial["S"])
    given = [tuple(pair) for pair in deck["channels"]["pairs"]]
    lower = Symmetry(L, S, _pairs(L, max(L, max(b for _, b in given))))
    reached = deck["channels"].get("L", 1)
    total = np.zeros(len(photons))
    for other in reached if isinstance(reached, list) else [reached]:
        upper = Symmetry(other, S, tuple(pair for pair in given if pair in _pairs(other, pair[1])))
        found = photoabsorption(f, lower, upper, 0, photons, [gauge], Z, photons=True)[:, 0]
        # the oracle has M = 0 alone: its share of the three directions of light
        total += found / (3.0 * (2 * L + 1) * _three_j_zero(other, 1, L) ** 2)
    return total


def _turned(Z: float, exponent: float, middle: float, count: int, theta: float) -> Functions:
    return Functions(
        exponent * Z, middle / Z, count, lambda r: -Z / r, (), complex(math.cos(theta), math.sin(theta))
    )


def _resonance_claims(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of position and width."""
    Z, channels = float(deck["system"]["Z"]), deck["channels"]
    symmetry = _symmetry(deck, channels["L"], channels["S"], BEYOND)
    position, width = (results.scalars[f"resonance_{name}_0"] for name in ("energy", "width"))
    found = complex(float(position.value), -0.5 * float(width.value))  # type: ignore[arg-type]
    shapes = PHOTO_SETS if len(symmetry.pairs) == 1 else RESONANCE_SETS
    true, *others = (resonance(_turned(Z, *shape), symmetry, found) for shape in shapes)
    spread = max(abs(true - other) for other in others)
    return [
        _claim("resonance_energy_0", position, true.real, spread, NO_RESONANCE),
        _claim("resonance_width_0", width, -2.0 * true.imag, 2.0 * spread, NO_RESONANCE),
    ]


PROCESSES = {
    "electron": (_electron, _electron_claims),
    "photo": (_photon, _photon_claims),
    "photons": (_photons, _photons_claims),
    "resonances": (_resonance, _resonance_claims),
    "slow": (_slow, _slow_claims),
}
"""How a deck of each process is drawn, and how its results are judged."""
