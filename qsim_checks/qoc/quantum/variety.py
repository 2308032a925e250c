"""More kinds of parameters, constraints and optimisers for a random deck of a quantum system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["vary"]

# Share of the decks that are changed.
SHARE = 0.5


def vary(rng: np.random.Generator, deck: dict[str, Any], *, kets: bool) -> None:
    """Change some controls and the optimiser of a deck, within what they can keep; kets: without jumps."""
    if rng.random() > SHARE:
        return
    slots = deck["time"]["slots"]
    for control in deck["control"]:
        _constrain(rng, control, slots)
    free = [c for c in deck["control"] if not c.get("fixed")]
    plain = [c for c in free if not {"area", "slew"} & set(c)]
    if len(plain) > 1 and rng.random() < 0.5:
        plain[0]["modulus"] = {"with": plain[1]["name"], "bound": float(10.0 ** rng.uniform(-0.5, 0.5))}
    if deck["optimizer"] == "none":
        return
    if rng.random() < 0.3:
        deck["objective"]["max_fluence"] = float(10.0 ** rng.uniform(-1.0, 1.0))
    deck["optimizer"] = _optimizer(rng, deck, free, kets=kets)


def _constrain(rng: np.random.Generator, control: dict[str, Any], slots: int) -> None:
    """Give a control other parameters, and an area or a largest change."""
    kind = str(rng.choice(["same", "blocks", "fourier", "carriers", "slew"]))
    if kind == "blocks":
        counts = [n for n in range(1, slots + 1) if slots % n == 0]
        control["parameters"] = {"type": "slots", "count": int(rng.choice(counts))}
    elif kind == "fourier" and slots >= 2:
        count = int(rng.integers(1, 1 + slots // 2))
        control["parameters"] = {"type": "fourier", "count": count, "redraws": int(rng.integers(3))}
    elif kind == "carriers" and slots >= 12:
        control["parameters"] = {"type": "bspline", "count": 4, "carriers": [0.0, 0.1]}
    elif kind == "slew" and "shape" not in control and not control.get("fixed"):
        control["parameters"] = {"type": "slots"}
        control["slew"] = float(10.0 ** rng.uniform(-1.0, 1.5))
        return
    if rng.random() < 0.2:
        control["area"] = 0.0


def _optimizer(
    rng: np.random.Generator, deck: dict[str, Any], free: list[dict[str, Any]], *, kets: bool
) -> dict[str, Any]:
    """Return a search that can keep the constraints of the deck."""
    sweeps = int(rng.integers(6, 20))
    kinds = ["lbfgs", "travolta"]
    coupled = {"modulus", "area", "slew"}
    paired = {c["modulus"]["with"] for c in free if "modulus" in c}
    sequential = all(
        c["parameters"] == {"type": "slots"} and not coupled & set(c) and c["name"] not in paired
        for c in free
    )
    if sequential and "max_fluence" not in deck["objective"]:
        kinds += 3 * ["krotov"]
    observed = isinstance(deck["system"]["target"], dict) and "observable" in deck["system"]["target"]
    if kets and not observed:
        kinds.append("gauss_newton")
    kind = str(rng.choice(kinds))
    return {"type": kind, "max_sweeps": sweeps}
