"""Random decks of `task: response`, and their claims beside states with all partial waves."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from qsim_checks.coverage import Claim, Trial
from qsim_checks.sturmian import tabled
from qsim_checks.sturmian.perimetric import response

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["excited_trial", "judge", "judge_by_larger", "trial"]

# Orders of the functions of the oracle; the change between them, enlarged, is its error.
ORDERS, ENLARGED = (5, 4), 2.0
# Points of each of its coordinates.
POINTS = 20
# Relative error of the oracle from which it tells nothing.
UNSURE = 1e-3
# What a larger run has more: functions, partial waves, radius.
MORE, WAVES, ROOMIER = 14, 3, 1.25
# Arrays that are held against those of the larger run, with their errors.
COMPARED = ("f", "A", "moment", "alpha", "alpha_tensor", "c6", "lifetime", "sums/closure")
# What withdraws a claim.
WITHDRAWS = "are uncertain by up to"


def trial(rng: np.random.Generator) -> Trial:
    """Draw a deck whose numbers are those of states with all partial waves, and say how to judge it."""
    deck = draw(rng)
    return Trial(deck, lambda results: judge(results, deck))


def excited_trial(rng: np.random.Generator) -> Trial:
    """Draw a deck with states of any L and quadrupoles, which the oracle does not have: a far larger run is the truth."""
    deck = wider(rng)
    return Trial(deck, lambda results: judge_by_larger(results, deck))


def tabled_trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with a table of few rows of a screened nucleus; a larger run with the formula is the truth."""
    deck = wider(rng)
    Z = float(deck["system"]["Z"])
    deck["system"]["potential"], written = tabled.field(rng, folder, Z, (0.4, 2.0))
    truth = {**deck, "system": {"Z": Z, "potential": written}}
    return Trial(deck, lambda results: judge_by_larger(results, truth))


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a deck: a charge, S states and the lowest P state of one spin, and a basis that is sometimes poor."""
    Z = float(rng.choice([1.0, 2.0, 2.0, 3.0, 4.0, 5.0, round(float(rng.uniform(1.7, 5.0)), 2)]))
    S = int(rng.integers(0, 2)) if Z > 1.5 else 0
    excited = bool(S or (Z > 1.5 and rng.random() < 0.4))
    states = [{"L": 0, "S": S, "root": 0}]
    if excited and not S:
        states.append({"L": 0, "S": 0, "root": 1})
    if Z > 1.5 and excited:
        states.append({"L": 1, "S": S, "root": 0})
    top = int(rng.integers(2, 6))
    deck: dict[str, Any] = {
        "system": {"Z": Z},
        "grid": {"R": "auto", "order": int(rng.integers(8, 13))},
        "basis": {"type": "gsf", "generating": "yukawa", "energy": "auto", "N": int(rng.integers(16, 36))},
        "states": states,
        "channels": {"l_max": top},
        "task": {
            "type": "response",
            "observables": ["polarisability", "c6", "sum_rules"],
            "gauges": ["length", "velocity"],
        },
    }
    if Z < 1.5:
        deck["grid"]["R"] = round(float(rng.uniform(50.0, 80.0)), 1)
    if excited:
        deck["task"]["observables"].append("oscillator_strengths")
    if rng.random() < 0.25:
        low = int(rng.integers(0, 3))
        deck["extrapolate"] = {"l_max": [low, low + 1, low + 2 + int(rng.integers(0, 2))]}
    if not excited and rng.random() < 0.5:
        scale = 0.3 * (Z - 0.6) ** 2 if Z > 1.5 else 0.02
        deck["task"]["omega"] = [0.0, float(f"{rng.uniform(0.1, 0.9) * scale:.4g}")]
    if not excited and Z > 1.5 and rng.random() < 0.25:
        deck["basis"] = "fedvr"
        deck["grid"] = {
            "R": round(float(rng.uniform(10.0, 18.0)) / Z * 1.6, 3),
            "order": int(rng.integers(8, 12)),
            "elements": 5,
        }
        deck["channels"]["l_max"] = min(top, 3)
    return deck


def wider(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a deck with states of L = 0, 1 and 2 of one spin, dipoles and quadrupoles, and a basis that is sometimes poor."""
    Z, S = float(rng.choice([2.0, 3.0, round(float(rng.uniform(1.8, 5.0)), 2)])), int(rng.integers(0, 2))
    levels = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)]
    chosen = sorted(rng.choice(len(levels), size=int(rng.integers(1, 4)), replace=False).tolist())
    states = [{"L": levels[k][0], "S": S, "root": levels[k][1]} for k in chosen]
    observables = ["polarisability", "sum_rules"]
    if len(states) > 1:
        observables.append("oscillator_strengths")
    if any(state["L"] for state in states):
        observables.append("lifetimes")
    return {
        "system": {"Z": Z},
        "grid": {"R": "auto", "order": int(rng.integers(9, 13))},
        "basis": {"type": "gsf", "generating": "yukawa", "energy": "auto", "N": int(rng.integers(14, 28))},
        "states": states,
        "channels": {"l_max": int(rng.integers(2, 4))},
        "task": {
            "type": "response",
            "observables": observables,
            "multipoles": [[1], [2], [1, 2]][int(rng.integers(0, 3))],
            "gauges": ["length", "velocity"],
        },
    }


def judge_by_larger(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of the worst element of every array, against a run with more functions, partial waves and space."""
    from qsim.core.results.results import open_results
    from qsim.core.run.pipeline import Options, execute

    radius = results.scalars["R"].value
    assert isinstance(radius, float)
    top = int(deck["channels"]["l_max"])
    larger = {
        **deck,
        "method": "sturmian",
        "grid": {"R": round(ROOMIER * radius, 2), "order": 13},
        "basis": {**deck["basis"], "N": deck["basis"]["N"] + MORE},
        "extrapolate": {"l_max": list(range(top, top + WAVES + 1))},
    }
    with tempfile.TemporaryDirectory(prefix="qsim-coverage-") as name:
        path = Path(name) / "deck.yaml"
        path.write_text(yaml.safe_dump(larger), encoding="utf-8")
        outcome = execute(
            "sturmian", path, Options(output=Path(name) / "run.h5", figures=False, verbosity=-1)
        )
        with open_results(outcome.results) as other:
            return [claim for array in COMPARED for claim in _worst(array, results, other)]


def _worst(name: str, results: Results, other: Results) -> list[Claim]:
    """Return the claim of the element of an array that is furthest off relative to its errors, if the run has the array."""
    if name not in results:
        return []
    found, true = (np.asarray(one[name][...]) for one in (results, other))
    error, oracle = (np.asarray(one[f"{name}_error"][...]) for one in (results, other))
    sure = np.isfinite(found) & (oracle < UNSURE * np.abs(true))
    if not sure.any():
        return []
    ratio = np.where(sure, np.abs(found - true) / np.where(sure, error + oracle, 1.0), -1.0)
    place = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    difference, claimed, allowed = (float(part[place]) for part in (found - true, error, oracle))
    return [Claim(f"{name} at {tuple(map(int, place))}", difference, claimed, 0.0, allowed, WITHDRAWS)]


def _truth(of: Any, Z: float, S: int, excited: bool) -> tuple[float, float]:
    """Return a number of the oracle and its error."""
    values = [float(of(response(Z, S, excited, order, POINTS))) for order in ORDERS]
    return values[0], ENLARGED * abs(values[0] - values[1])


def judge(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims of all numbers that the oracle has."""
    Z, states = float(deck["system"]["Z"]), deck["states"]
    S, excited = int(states[0]["S"]), len(states) > 1
    claims: list[Claim] = []

    def claim(name: str, found: float, error: float, of: Any) -> None:
        true, oracle = _truth(of, Z, S, excited)
        if oracle < UNSURE * abs(true):
            claims.append(Claim(name, found - true, error, 0.0, oracle, WITHDRAWS))

    roots = [int(state["root"]) for state in states if state["L"] == 0]
    omega = np.asarray(results["omega"][...])
    alpha, errors = (np.asarray(results[name][...]) for name in ("alpha", "alpha_error"))
    closure, closure_error = (
        np.asarray(results[name][...]) for name in ("sums/closure", "sums/closure_error")
    )
    for k, root in enumerate(roots):
        for w, frequency in enumerate(omega):
            for g, gauge in enumerate(("length", "velocity")):
                claim(
                    f"alpha of {k} at {frequency:g}, {gauge}",
                    alpha[k, 0, w, g],
                    errors[k, 0, w, g],
                    lambda r, root=root, frequency=frequency: r.alpha(root, frequency),
                )
        for place, part in ((1, 0), (3, 1)):
            claim(
                f"S({place - 2}) of {k}",
                closure[k, place],
                closure_error[k, place],
                lambda r, root=root, part=part: r.closure(root)[part],
            )
    c6, c6_error = (np.asarray(results[name][...]) for name in ("c6", "c6_error"))
    for k, (a, b) in enumerate(np.asarray(results["partners"][...])):
        claim(f"c6 of {a} and {b}", c6[k], c6_error[k], lambda r, a=a, b=b: r.c6(int(a), int(b)))
    if excited:
        _strengths(results, roots, claim)
    return claims


def _strengths(results: Results, roots: list[int], claim: Any) -> None:
    """Claim the oscillator strengths from all S states to the P state, which is the last of the deck."""
    f, errors = (np.asarray(results[name][...]) for name in ("f", "f_error"))
    final = len(roots)
    for k, root in enumerate(roots):
        for g in (0, 1):
            value, error = float(f[k, final, g]), float(errors[k, final, g])
            if math.isfinite(value):
                claim(f"f_{k}_{final} in gauge {g}", value, error, lambda r, root=root: r.f(root, 0))
