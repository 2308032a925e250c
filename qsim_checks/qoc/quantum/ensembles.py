"""Random ensembles of quantum systems: weights, mean and worst member, held against dense exponentials of every member."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.qoc.quantum import oracle
from qsim_checks.qoc.quantum.files import file_system
from qsim_checks.qoc.quantum.parts import part_system

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.qoc.quantum.oracle import World

__all__ = ["ensemble"]

KINDS = ("probability", "fidelity", "observable")
UNCLAIMED = r"no error is claimed|leaves out the jumps"
# Rounding of the oracle's exponentials.
ROUNDING = 1e-11


def ensemble(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a system, controls, and an ensemble of their amplitudes."""
    if rng.random() < 0.6:
        block, world = file_system(rng, folder)
    else:
        block, world = part_system(rng, bool(rng.random() < 0.5))
    names = list(block["controls"])
    # Entries are combined with each other: the last varies fastest.
    factors: list[NDArray[np.float64]] = []
    members: list[dict[str, Any]] = []
    for _ in range(int(rng.integers(1, 3))):
        chosen = sorted(set(names) - {name for entry in members for name in _scaled(entry)})
        if not chosen:
            break
        own = [str(name) for name in rng.permutation(chosen)[: int(rng.integers(1, len(chosen) + 1))]]
        values = np.round(1.0 + 0.2 * rng.standard_normal(int(rng.integers(2, 4))), 4)
        members.append({"scale": {f"control.{name}": [float(v) for v in values] for name in own}})
        factors.append(values)
    count = int(np.prod([values.size for values in factors]))
    block_of_all: dict[str, Any] = {"members": members, "measure": str(rng.choice(["mean", "worst"]))}
    weights = np.full(count, 1.0 / count)
    if block_of_all["measure"] == "mean" and rng.random() < 0.6:
        given = np.round(rng.uniform(0.0, 3.0, count), 3) + 0.001
        block_of_all["weights"] = [float(w) for w in given]
        weights = given / given.sum()
    search = {"type": "lbfgs", "max_sweeps": int(rng.integers(2, 8))}
    deck: dict[str, Any] = {
        "run": {"seed": int(rng.integers(1, 10**6))},
        "system": block,
        "time": {"T": world.duration, "slots": int(rng.integers(2, 13))},
        "control": [_control(rng, name, world) for name in names],
        "objective": {"alpha": 0.0},
        "optimizer": "none" if rng.random() < 0.6 else search,
        "ensemble": block_of_all,
    }
    scales = [
        {
            name: float(values[i])
            for entry, values, i in zip(members, factors, index, strict=True)
            for name in _scaled(entry)
        }
        for index in np.ndindex(*(values.size for values in factors))
    ]
    return Trial(
        deck,
        lambda results: _judge(world, names, scales, weights, results),
        refusable=deck["optimizer"] != "none",
    )


def _scaled(entry: dict[str, Any]) -> list[str]:
    """Return the names of the controls that an entry scales."""
    return [path.removeprefix("control.") for path in entry["scale"]]


def _control(rng: np.random.Generator, name: str, world: World) -> dict[str, Any]:
    """Draw the first values of a control."""
    unit = 2.0 * np.pi if name[0] in "ab" else 1.0
    size = float(10.0 ** rng.uniform(-0.7, 0.3)) * (3.0 / world.duration / unit if unit > 1.0 else 1.0)
    frequency = rng.uniform(0.0, 8.0) / world.duration
    value = f"{size:.6g}*cos({frequency:.6g}*t + {rng.uniform(0.0, 6.0):.6g})"
    return {"name": name, "guess": {"type": "expression", "value": value}, "parameters": {"type": "slots"}}


def _judge(
    world: World,
    names: list[str],
    scales: list[dict[str, float]],
    weights: NDArray[np.float64],
    results: Results,
) -> list[Claim]:
    """Compare value, worst and nominal member, spread and the values of all members with the truth."""
    fields = np.array([results[f"control/{name}"] for name in names])

    def value(scale: dict[str, float], system: World = world) -> float:
        scaled = fields * np.array([scale.get(name, 1.0) for name in names])[:, None]
        return oracle.value(system, oracle.final(system, scaled))

    kind = next(name for name in KINDS if name in results.scalars)
    found = np.array([value(scale) for scale in scales])
    mean = float(weights @ found)
    worst = results.deck["ensemble"]["measure"] == "worst"
    spread = float(np.sqrt(weights @ (found - mean) ** 2))
    size = 1.0 if world.goal.operator is None else max(1.0, float(np.linalg.norm(world.goal.operator, 2)))
    truths = {
        kind: float(found.min()) if worst else mean,
        f"{kind}_worst": float(found.min()),
        f"{kind}_spread": spread,
        f"{kind}_nominal": value({}),
    }
    if "coherent_value" in results.scalars:
        closed = replace(world, jumps=[])
        alone = np.array([value(scale, closed) for scale in scales])
        truths["coherent_value"] = float(alone.min()) if worst else float(weights @ alone)
    claims = []
    for name, exact in truths.items():
        scalar = results.scalars[name]
        # a number that claims no error is held to the largest error of the others
        claimed = max((s.error or 0.0) for n, s in results.scalars.items() if n in truths)
        own = claimed if scalar.error is None else scalar.error
        away = float(scalar.value or 0.0) - exact
        claims.append(Claim(name, away, own, oracle=ROUNDING * size, warning=UNCLAIMED))
    table = np.asarray(results[f"member_{kind}"])
    away = float(np.abs(table - found).max())
    largest = max((s.error or 0.0) for n, s in results.scalars.items() if n in truths)
    return [*claims, Claim(f"member_{kind}", away, largest, oracle=ROUNDING * size, warning=UNCLAIMED)]
