"""Random searches that begin with no control at all: what they reach is held against dense exponentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.qoc.quantum import judge
from qsim_checks.qoc.quantum.files import file_system
from qsim_checks.qoc.quantum.parts import part_system

if TYPE_CHECKING:
    from pathlib import Path

    from qsim.core.results.results import Results

__all__ = ["from_zero"]


def from_zero(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a system and a search whose controls are all zero at first, some of them within bounds."""
    if rng.random() < 0.6:
        block, world = file_system(rng, folder)
    else:
        block, world = part_system(rng, bool(rng.random() < 0.5))
    size = 6.0 / world.duration
    controls = []
    for name in block["controls"]:
        control: dict[str, Any] = {"name": name, "guess": "zero", "parameters": {"type": "slots"}}
        if rng.random() < 0.5:
            control["bounds"] = [-size * float(rng.uniform(0.3, 2.0)), size * float(rng.uniform(0.3, 2.0))]
        controls.append(control)
    deck: dict[str, Any] = {
        "run": {"seed": int(rng.integers(1, 10**6))},
        "system": block,
        "time": {"T": world.duration, "slots": int(rng.integers(2, 16))},
        "control": controls,
        "objective": {"alpha": 0.0},
        "optimizer": {"type": "lbfgs", "max_sweeps": int(rng.integers(4, 20))},
    }

    def claims(results: Results) -> list[Claim]:
        # Where zero has no gradient, the first evaluation is that of a seed.
        found = [claim for claim in judge(world, deck, results) if claim.quantity != "history/gradient_norm"]
        for control in controls:
            low, high = control.get("bounds", (-np.inf, np.inf))
            u = np.asarray(results[f"control/{control['name']}"])
            beyond = max(0.0, float((u - high).max()), float((low - u).max()))
            found.append(Claim("bounds", beyond, np.nan, requested=1e-12 * size))
        return found

    return Trial(deck, claims, refusable=True)
