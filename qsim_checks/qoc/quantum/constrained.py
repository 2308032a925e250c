"""Searches whose controls keep area, bounds and fluence together; and systems whose matrices are huge or tiny.

H and T may be measured in any unit: with matrices ``s H0``, ``s c H_c``, jumps ``s^(1/2) L``, controls u/c, temperatures s k_B T
and the time T/s, every number of the result is that of the plain system.  A deck is refused where double precision has no such
numbers; a result is never another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.qoc.quantum import judge
from qsim_checks.qoc.quantum.files import file_system

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["constrained", "unusual"]

# What is said where an area cannot be kept beside the fluence.
LOST = r"area"
ROUNDING = 1e-9
# Powers of ten of matrices: beyond both ends of what a double holds when they are multiplied.
LARGEST_POWER = 200.0


def constrained(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a system and a search whose controls have no area, bounds that act, and a largest fluence."""
    block, world = file_system(rng, folder)
    size, slots = 3.0 / world.duration, int(rng.integers(4, 24))
    controls: list[dict[str, Any]] = []
    for name in block["controls"]:
        w = float(rng.uniform(0.0, 8.0)) / world.duration
        control: dict[str, Any] = {"name": name, "parameters": {"type": "slots"}}
        control["guess"] = {"type": "expression", "value": f"{size:.6g}*cos({w:.6g}*t + 0.3)"}
        if rng.random() < 0.8:
            control["bounds"] = [-size * float(rng.uniform(0.2, 1.5)), size * float(rng.uniform(0.2, 1.5))]
        if rng.random() < 0.7:
            control["area"] = 0.0
        controls.append(control)
    deck: dict[str, Any] = {
        "run": {"seed": int(rng.integers(1, 10**6))},
        "system": block,
        "time": {"T": world.duration, "slots": slots},
        "control": controls,
        "objective": {"alpha": 0.0},
        "optimizer": {
            "type": str(rng.choice(["lbfgs", "lbfgs", "travolta", "none"])),
            "max_sweeps": int(rng.integers(4, 16)),
        },
    }
    if deck["optimizer"]["type"] == "none":
        deck["optimizer"] = "none"
    elif rng.random() < 0.7:
        deck["objective"]["max_fluence"] = float(10.0 ** rng.uniform(-1.0, 1.0)) * size**2 * world.duration

    def claims(results: Results) -> list[Claim]:
        found = [claim for claim in judge(world, deck, results) if claim.quantity != "history/gradient_norm"]
        found = [_told(claim) if claim.quantity == "area" else claim for claim in found]
        fields = np.array([results[f"control/{control['name']}"] for control in controls])
        for control, u in zip(controls, fields, strict=True):
            low, high = control.get("bounds", (-np.inf, np.inf))
            beyond = max(0.0, float((u - high).max()), float((low - u).max()))
            found.append(Claim("bounds", beyond, np.nan, requested=1e-12 * size))
        if (most := deck["objective"].get("max_fluence")) is not None:
            fluence = float((fields**2).sum()) * world.duration / slots
            found.append(Claim("fluence", max(0.0, fluence / most - 1.0), np.nan, requested=ROUNDING))
        return found

    return Trial(deck, claims)


def _told(claim: Claim) -> Claim:
    """Return a claim of an area, which the run may take back."""
    return Claim("area", claim.difference, claim.claimed, claim.requested, claim.oracle, LOST)


class _Plain:
    """The results of a scaled system in the numbers of the plain one."""

    def __init__(self, results: Results, factor: float) -> None:
        self._results, self._factor = results, factor
        self.scalars, self.deck = results.scalars, results.deck

    def __getitem__(self, name: str) -> NDArray[Any]:
        values = np.asarray(self._results[name])
        return values * self._factor if name.startswith(("control/", "control_guess/")) else values


def unusual(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a system in units in which its matrices are huge or tiny."""
    block, world = file_system(rng, folder)
    # a factor each, most of them within what double precision can square
    spread = float(rng.choice([8.0, 20.0, 50.0, LARGEST_POWER], p=[0.4, 0.3, 0.2, 0.1]))
    scale, more = (float(10.0 ** rng.uniform(-spread, spread)) for _ in range(2))
    with np.load(folder / "system.npz") as file:
        arrays = {name: file[name] for name in file.files}
    powers = dict(zip(block["controls"], world.powers, strict=True))
    if isinstance(start := block.get("initial"), dict) and "thermal" in start:
        start["thermal"] *= scale
    for jump in block.get("jumps", []):
        jump["rate"] *= scale
    # what overflows is infinite in the file, and refused
    with np.errstate(over="ignore", invalid="ignore"):
        for name, array in arrays.items():
            if name.startswith("controls/"):
                # u^p c^p is what the plain system sees
                power = powers[name.removeprefix("controls/")]
                arrays[name] = array * scale * np.float_power(more, power)
            elif name.startswith("jumps/"):
                arrays[name] = array * np.sqrt(scale)
            elif name == "H0":
                arrays[name] = array * scale
    np.savez(folder / "system.npz", **arrays)
    size = 2.0 / world.duration
    controls = [
        {
            "name": name,
            "parameters": {"type": "slots"},
            "guess": {"type": "expression", "value": f"{rng.uniform(-size, size) / more:.17g}"},
        }
        for name in block["controls"]
    ]
    deck: dict[str, Any] = {
        "system": block,
        "time": {"T": world.duration / scale, "slots": int(rng.integers(1, 12))},
        "control": controls,
        "objective": {"alpha": 0.0},
        "optimizer": "none",
    }
    if world.jumps:
        deck["dissipation"] = "lindblad"
    plain: Any = _Plain

    def claims(results: Results) -> list[Claim]:
        return judge(world, deck, plain(results, more))

    return Trial(deck, claims)
