"""Random goals that are families of gates: the value is that of a gate of the family, and no gate near or far is better."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import unitary_group

from qsim_checks.coverage import Claim, Trial
from qsim_checks.qoc.quantum import oracle
from qsim_checks.qoc.quantum.parts import part_system

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.qoc.quantum.oracle import World

    Matrix = NDArray[np.complex128]

__all__ = ["control_of", "families"]

UNCLAIMED = r"no error is claimed|leaves out the jumps"
# Rounding of the oracle's exponentials, and of what has no claimed error.
ROUNDING, TABLES = 1e-11, 1e-9
# Gates of the family that are tried, and how far they are turned.
TRIED = 12
# Columns: Bell states with the phases that make products of gates real (Makhlin, Quantum Inf. Process. 1, 243 (2002)).
BELL = np.array([[1, 1j, 0, 0], [0, 0, 1j, 1], [0, 0, 1j, -1], [1, -1j, 0, 0]]) / np.sqrt(2.0)


def families(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw two coupled parts, controls, and a perfect entangler or a gate up to local gates as the goal."""
    while True:
        block, world = part_system(rng, bool(rng.random() < 0.5))
        if world.goal.unitary is not None and len(world.goal.unitary) == 4:
            break
    if rng.random() < 0.5:
        block["target"]["free"] = ["local"]
    else:
        block["target"]["gate"] = "perfect_entangler"
    slots = int(rng.integers(2, 16))
    deck: dict[str, Any] = {
        "run": {"seed": int(rng.integers(1, 10**6))},
        "system": block,
        "time": {"T": world.duration, "slots": slots},
        "control": [control_of(rng, name, world) for name in block["controls"]],
        "optimizer": "none",
    }
    if rng.random() < 0.5:
        deck["optimizer"] = {
            "type": str(rng.choice(["lbfgs", "krotov"])),
            "max_sweeps": int(rng.integers(2, 8)),
        }
    if world.jumps and rng.random() < 0.6:
        deck["dissipation"] = "lindblad"
    if deck.get("dissipation") != "lindblad" and world.jumps and deck["optimizer"] != "none":
        deck["optimizer"] = "none"
    turned = [_local(rng, size) for size in np.geomspace(1e-4, 3.0, TRIED)]
    return Trial(deck, lambda results: _judge(world, turned, results), refusable=deck["optimizer"] != "none")


def control_of(rng: np.random.Generator, name: str, world: World) -> dict[str, Any]:
    """Draw the first values of a control of parts whose frequencies are in GHz."""
    size = 3.0 / world.duration / 2.0 / np.pi
    w, phase = rng.uniform(0.0, 8.0) / world.duration, rng.uniform(0.0, 6.0)
    text = f"{size:.6g}*cos({w:.6g}*t + {phase:.6g})"
    return {"name": name, "guess": {"type": "expression", "value": text}, "parameters": {"type": "slots"}}


def _local(rng: np.random.Generator, size: float) -> tuple[Matrix, Matrix]:
    """Return local gates before and after that turn by about an angle."""
    from scipy.linalg import expm, logm

    made = []
    for _ in range(2):
        pair = [expm(min(1.0, size) * logm(unitary_group.rvs(2, random_state=rng))) for _ in range(2)]
        made.append(np.kron(*pair))
    return made[0], made[1]


def _square(gate: Matrix) -> Matrix:
    """Return Makhlin's symmetric matrix of a gate, of determinant 1."""
    turned = BELL.conj().T @ gate @ BELL
    return np.asarray(turned.T @ turned / np.sqrt(np.linalg.det(gate) + 0j))


def _distance(gate: Matrix, asked: Matrix | None) -> float:
    """Return how far a gate is from the class of another one, or from the perfect entanglers."""
    own = _square(gate)
    if asked is None:
        angles = np.sort(np.angle(np.linalg.eigvals(own)))
        return max(0.0, float(np.diff(angles, append=angles[0] + 2.0 * np.pi).max()) - np.pi)
    # The spectra are equal up to a sign: so are their characteristic polynomials, of t and of -t.
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    first, second = np.poly(own), np.poly(_square(asked))
    return float(min(np.abs(first - second).max(), np.abs(first - signs * second).max()))


def _judge(world: World, turned: list[tuple[Matrix, Matrix]], results: Results) -> list[Claim]:
    """Compare a results file with the truth."""
    fields = np.array([results[f"control/{name}"] for name in results.deck["system"]["controls"]])
    found = np.asarray(results["gate_nearest"])
    asked = None if results.deck["system"]["target"]["gate"] == "perfect_entangler" else world.goal.unitary

    def of(gate: Matrix) -> World:
        return replace(world, goal=replace(world.goal, unitary=gate))

    total = oracle.final(world, fields)
    exact = oracle.value(of(found), total)
    process, leak = oracle.process(of(found), total)
    truths = {"fidelity": exact, "fidelity_verified": exact, "fidelity_process": process, "leakage": leak}
    claims = [
        _claim(name, results, truth)
        for name, truth in truths.items()
        if results.scalars[name].error is not None
    ]
    own = np.abs(found.conj().T @ found - np.eye(4)).max()
    claims.append(Claim("unitary", float(own), np.nan, TABLES))
    claims.append(Claim("family", _distance(found, asked), np.nan, 100.0 * TABLES))
    if not any(name.endswith("_no_jump") for name in results.scalars):
        others = [oracle.value(of(after @ found @ before), total) for before, after in turned]
        best = max(0.0, max(others) - exact)
        claims.append(Claim("nearest", best, np.nan, max(TABLES, results.scalars["fidelity"].error or 0.0)))
    return claims


def _claim(name: str, results: Results, exact: float) -> Claim:
    scalar = results.scalars[name]
    claimed = np.nan if scalar.error is None else float(scalar.error)
    return Claim(name, float(str(scalar.value)) - exact, claimed, oracle=ROUNDING, warning=UNCLAIMED)
