"""Random goals that are a formula of a mean value or of an overlap, held against dense exponentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.qoc.quantum import oracle
from qsim_checks.qoc.quantum.families import control_of
from qsim_checks.qoc.quantum.parts import part_system

if TYPE_CHECKING:
    from pathlib import Path

    from qsim.core.results.results import Results
    from qsim_checks.qoc.quantum.oracle import World

__all__ = ["functionals"]

UNCLAIMED = r"no error is claimed|leaves out the jumps"
# Rounding of the oracle's exponentials, times the slope of the formulas.
ROUNDING = 1e-10


def functionals(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw coupled parts, controls, and a formula of the mean value or of the overlap that they have as their goal."""
    while True:
        block, world = part_system(rng, bool(rng.random() < 0.5))
        if world.start is not None:
            break
    a, b, c = (float(np.round(v, 3)) for v in rng.normal(size=3))
    target = block["target"]
    if isinstance(target, dict):
        formula = f"{a}*x + {b}*x^2 + {c}*sin(2*x)"
        values: dict[str, Any] = {"x": target["observable"]}
    else:
        world.jumps.clear()
        for part in block["parts"]:
            for key in ("T1", "T2", "Tphi", "temperature"):
                part.pop(key, None)
        block.pop("jumps", None)
        formula = f"{a}*f_re + {b}*f_re*f_im + {c}*f_im^2"
        values = {"f": {"overlap": target}}
    block["target"] = {"formula": formula, "values": values}
    deck: dict[str, Any] = {
        "run": {"seed": int(rng.integers(1, 10**6))},
        "system": block,
        "time": {"T": world.duration, "slots": int(rng.integers(2, 20))},
        "control": [control_of(rng, name, world) for name in block["controls"]],
        "optimizer": "none",
    }
    if rng.random() < 0.5:
        deck["optimizer"] = {
            "type": str(rng.choice(["lbfgs", "krotov"])),
            "max_sweeps": int(rng.integers(2, 8)),
        }
    if world.jumps:
        deck["dissipation"] = "lindblad"
    return Trial(
        deck, lambda results: _judge(world, (a, b, c), results), refusable=deck["optimizer"] != "none"
    )


def _judge(world: World, numbers: tuple[float, float, float], results: Results) -> list[Claim]:
    """Compare a results file with the truth."""
    claims = []
    a, b, c = numbers
    assert world.goal.operator is not None
    for name, path in (
        ("functional", "control"),
        ("functional_verified", "control"),
        ("functional_guess", "control_guess"),
    ):
        fields = np.array([results[f"{path}/{one}"] for one in results.deck["system"]["controls"]])
        total = oracle.final(world, fields)
        if "x" in results.deck["system"]["target"]["values"]:
            x = float(np.trace(world.goal.operator @ oracle.mean_state(world, total)).real)
            exact = a * x + b * x**2 + c * np.sin(2.0 * x)
        else:
            assert world.start is not None
            # Of a basis state, which the projectors on start and goal have on their diagonals.
            first, last = (int(np.argmax(np.diag(one).real)) for one in (world.start, world.goal.operator))
            f = complex(total[last, first])
            exact = a * f.real + b * f.real * f.imag + c * f.imag**2
        scalar = results.scalars[name]
        claimed = np.nan if scalar.error is None else float(scalar.error)
        claims.append(
            Claim(name, float(str(scalar.value)) - exact, claimed, oracle=ROUNDING, warning=UNCLAIMED)
        )
    return claims
