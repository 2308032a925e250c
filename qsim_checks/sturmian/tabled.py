"""Random decks in the field of a table of few rows, whose truth is a run with the formula that the rows are of."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from qsim.core.results.results import Results
    from qsim.core.results.tables import Scalar

__all__ = ["field", "trial"]

# Relative error of the truth from which it tells nothing; of resonances against their distance from the threshold.
UNSURE = 0.02
# What withdraws a claim: what the run says of a number that it does not know.
WITHDRAWS = "the error of .* could not be found|may be no resonance|no nearer state was found"
# Numbers that are held against the truth.
COMPARED = ("sigma_photo", "sigma_total", "sigma_elastic", "resonance_energy", "resonance_width")


def field(
    rng: np.random.Generator, folder: Path, Z: float, rate: tuple[float, float], most: int = 40
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a nucleus that closed shells screen at a rate, 1/bohr; return its table of less than `most` rows, and its formula."""
    decay = round(float(rng.uniform(*rate)), 3)
    outer = round(float(rng.uniform(1.3, 2.0)), 3)
    r = np.geomspace(0.01, 12.0 / decay, int(rng.integers(10, most)))
    # a formula from the first row to the last one, the tangent within and the charge beyond, as tables go on
    inside = f"({outer} + {Z - outer}*exp(-{decay}*min(max(r, {float(r[0])!r}), {float(r[-1])!r})))"
    tangent = f"{decay * (Z - outer) * math.exp(-decay * r[0])!r}*min(r - {float(r[0])!r}, 0)"
    file = folder / "screened.csv"
    V = -(outer + (Z - outer) * np.exp(-decay * r)) / r
    np.savetxt(file, np.stack([r, V], axis=1), delimiter=",", header="r,V", fmt="%.15e")
    written = {"type": "expression", "value": f"-({inside} - {tangent})/r", "charge": float(-V[-1] * r[-1])}
    return {"type": "table", "file": file.name}, written


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw photoionisation, slow or fast electrons, or resonances, and say how to judge them."""
    Z = float(rng.choice([2.0, 3.0, round(float(rng.uniform(1.8, 3.5)), 2)]))
    table, written = field(rng, folder, Z, (0.8, 3.0), 160)
    process = str(rng.choice(["photo", "e_h", "resonances"]))
    # r V has settled at the last row, from which the contour may begin
    R = float(f"{max(22.0, 1.02 * 12.0 / 0.8) * rng.uniform(1.0, 1.2):.4g}")
    deck: dict[str, Any] = {
        "system": {"Z": Z, "potential": table},
        "grid": {"R": R, "order": int(rng.integers(7, 10)), "ecs": {"angle": 0.3, "length": 40.0}},
        "basis": "fedvr",
        "channels": {"L": 0, "S": int(rng.integers(0, 2)), "pairs": [[0, 0]]},
        "task": {"type": "scatter", "process": process},
    }
    if process == "photo":
        deck["channels"] = {"pairs": [[0, 1]]}
        deck["task"] |= {"excess": round(float(rng.uniform(0.3, 1.5)), 4), "gauges": ["length", "velocity"]}
    elif process == "e_h":
        deck["task"]["energy"] = round(float(rng.uniform(0.4, 2.5)), 4)
    else:
        deck["channels"]["S"] = 0
        # 2s^2 outside of the screened nucleus
        charge = float(written["charge"]) + 0.3 * (Z - float(written["charge"]))
        deck["task"]["near"] = [round(-0.25 * charge**2 + 0.139 * charge, 4)]
    truth = {**deck, "method": "sturmian", "system": {"Z": Z, "potential": written}}
    truth["grid"] = {**deck["grid"], "order": 12}
    return Trial(deck, lambda results: _judge(results, truth))


def _judge(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claims against a run with the formula on a finer grid."""
    from qsim.core.results.results import open_results
    from qsim.core.run.pipeline import Options, execute

    if deck["task"]["process"] == "resonances":
        near = [_number(results.scalars[name]) for name in results.scalars if "resonance_energy" in name]
        deck["task"] = {**deck["task"], "near": near}
    with tempfile.TemporaryDirectory(prefix="qsim-coverage-") as name:
        path = Path(name) / "deck.yaml"
        path.write_text(yaml.safe_dump(deck), encoding="utf-8")
        options = Options(output=Path(name) / "run.h5", figures=False, verbosity=-1)
        outcome = execute("sturmian", path, options)
        with open_results(outcome.results) as other:
            true = {
                name: (_number(scalar), scalar.error)
                for name, scalar in other.scalars.items()
                if name.startswith(COMPARED)
            }
    claims = []
    for name, scalar in results.scalars.items():
        if not name.startswith(COMPARED) or name not in true:
            continue
        (value, oracle), found = true[name], _number(scalar)
        if oracle is None or not oracle < UNSURE * abs(value):
            continue
        claimed = math.nan if scalar.error is None else float(scalar.error)
        claims.append(Claim(name, found - value, claimed, 0.0, float(oracle), WITHDRAWS))
    return claims


def _number(scalar: Scalar) -> float:
    assert isinstance(scalar.value, float | int)
    return float(scalar.value)
