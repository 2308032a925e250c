"""Random wells of two coordinates in tables of few rows, held against the same run with their formulas."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from qsim.core.deck.expression import Expression
from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["surfaces"]

WITHDRAWS = "no error is claimed|no error known|the verified probability could not be found"


def surfaces(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a potential and a dipole of x and y on a rectangular grid, a field, and the judge by their formulas."""
    k, a, b, c = (
        round(float(value), 3) for value in rng.uniform((0.6, 0.0, -0.8, 0.5), (2.5, 1.0, 0.8, 1.5))
    )
    V = f"0.5*(x^2 + {k}*y^2) + {a}*exp(-{c}*((x - {b})^2 + y^2))"
    mu = f"x*exp(-x^2/{round(float(rng.uniform(6.0, 20.0)), 2)}) + {b}*y"
    walls = {"x": 5.0, "y": round(5.0 / k**0.25, 3)}
    counts = rng.integers(5, 40, 2)
    x, y = (np.linspace(-wall, wall, int(n)) for wall, n in zip(walls.values(), counts, strict=True))
    corner = rng.random() < 0.3
    if corner:
        V = f"0.5*(x^2 + {k}*y^2) + {a}*max(x - {b}, 0)"
    tables = {}
    for name, text in (("V", V), ("mu", mu)):
        points = np.meshgrid(x, y, indexing="ij")
        values = Expression(text, ("x", "y"))(x=points[0], y=points[1])
        rows = np.array([points[0].ravel(), points[1].ravel(), values.ravel()])
        np.savetxt(folder / f"{name}.txt", rows.T, fmt="%.16e")
        tables[name] = {"type": "table", "file": f"{name}.txt"}
    time = round(float(rng.uniform(2.0, 8.0)), 2)
    system: dict[str, Any] = {
        "type": "grid2d",
        "mass": [1.0, 1.0],
        "grid": {
            name: {"min": -wall, "max": wall, "points": int(rng.integers(18, 26))}
            for name, wall in walls.items()
        },
        "states": int(rng.integers(8, 16)),
        "initial": 0,
        "target": int(rng.integers(0, 3)),
    }
    guess = f"{rng.uniform(0.05, 0.4):.3f}*cos({rng.uniform(0.8, 1.6):.3f}*t)*sin(pi*t/{time})^2"
    deck: dict[str, Any] = {
        "time": {"T": time, "slots": int(rng.integers(20, 80))},
        "optimizer": "none",
        "control": {"name": "x", "guess": {"type": "expression", "value": guess}},
    }
    written = {"potential": {"type": "expression", "value": V}, "dipole": {"x": mu}}
    read = {"potential": tables["V"], "dipole": {"x": tables["mu"]}}
    if rng.random() < 0.3:
        read["dipole"] = written["dipole"]
    truth = {**deck, "method": "qoc", "system": {**system, **written}}
    return Trial({**deck, "system": {**system, **read}}, lambda results: _judge(results, truth))


def _judge(results: Results, deck: dict[str, Any]) -> list[Claim]:
    """Return the claim of P against the run with the formulas."""
    from qsim.core.results.results import open_results
    from qsim.core.run.pipeline import Options, execute

    with tempfile.TemporaryDirectory(prefix="qsim-coverage-") as name:
        path = Path(name) / "deck.yaml"
        path.write_text(yaml.safe_dump(deck), encoding="utf-8")
        outcome = execute("qoc", path, Options(output=Path(name) / "run.h5", figures=False, verbosity=-1))
        with open_results(outcome.results) as other:
            true = other.scalars["probability"]
    found = results.scalars["probability"]
    if true.error is None:
        return []
    assert isinstance(found.value, float)
    assert isinstance(true.value, float)
    claimed = np.nan if found.error is None else float(found.error)
    difference = found.value - true.value
    return [Claim("probability", difference, claimed, 0.0, float(true.error), WITHDRAWS)]
