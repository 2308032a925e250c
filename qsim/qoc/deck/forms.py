"""Short forms of a deck in levels, and which molecules on a grid need one."""

from collections.abc import Mapping
from typing import Any

# Keys by block that a molecule has in its levels alone.
BEYOND: Mapping[str, tuple[str, ...]] = {
    "system": ("jumps", "dipoles", "polarisability", "states", "mass_scale", "potential_scale"),
    "time": ("slots",),
    "objective": ("measure", "leakage_weight", "running", "max_fluence"),
    "ensemble": ("members", "weights", "measure", "width"),
    "verify": ("levels",),
    "control": ("name", "area", "slew", "modulus", "parameters", "alpha", "fixed"),
}
BLOCKS = ("front", "dissipation", "observe", "states_at")
# Of a start or goal that is more than a level, a list or a superposition.
STATES = ("state", "psi", "rho", "level", "thermal", "file", "observable", "formula", "density", "gate")
# First values that the field of the paper has not.
GUESSES = ("gaussian", "drag", "values", "noise")
# Short forms of an ensemble, the last one fastest, and what they vary.
FACTORS = {
    "mass_scale": ("set", "mass_scale"),
    "potential_scale": ("set", "potential_scale"),
    "field_scale": ("scale", "control"),
}


def asks_for_levels(data: Mapping[str, Any]) -> bool:
    """Return True if a deck with a molecule on a grid asks for what it has in its levels alone.

    Parameters
    ----------
    data
        The deck as plain data, not validated yet.
    """
    if any(key in data for key in BLOCKS) or isinstance(data.get("control"), list):
        return True
    blocks = {name: data.get(name) for name in BEYOND}
    if any(isinstance(block, dict) and set(BEYOND[name]) & set(block) for name, block in blocks.items()):
        return True
    if _inside(data.get("optimizer"), "restarts"):
        return True
    system, guess = blocks["system"], _inside(blocks["control"], "guess")
    if (
        isinstance(guess, list)
        or _kind(guess) in GUESSES
        or _inside(blocks["objective"], "threshold") == "auto"
    ):
        return True
    pairs = _inside(system, "pairs")
    several = [pair for pair in pairs if isinstance(pair, dict)] if isinstance(pairs, list) else []
    states = [_inside(block, key) for block in (system, *several) for key in ("initial", "target")]
    return any("weight" in pair for pair in several) or any(map(_is_more, states))


def _inside(block: object, key: str) -> Any:
    return block.get(key) if isinstance(block, dict) else None


def _is_more(state: object) -> bool:
    """Return True for a state that is no level, list of levels or superposition of them."""
    if isinstance(state, dict):
        return bool(set(STATES) & set(state))
    return isinstance(state, str) or (isinstance(state, list) and any(isinstance(v, str) for v in state))


def written_out(data: dict[str, Any]) -> dict[str, Any]:
    """Return a deck with its short forms written out, as plain data."""
    system = data.get("system")
    if not isinstance(system, dict):
        return data
    kind = system.get("type", "grid")
    made = {**data, "system": {**system, "type": kind}}
    states = _inside(data.get("propagator"), "states")
    if states is not None and kind in ("grid", "grid2d"):
        made["system"].setdefault("states", states)
    if kind == "grid":
        # A molecule with one dipole may leave the control out, or give it as a block.
        control = data.get("control", {})
        made["control"] = [{"name": "field", **control}] if isinstance(control, dict) else control
        if isinstance(made["control"], list):
            made["control"] = [
                {"guess": "ladder", **one} if isinstance(one, dict) else one for one in made["control"]
            ]
    elif isinstance(data.get("control"), dict):
        made["control"] = [data["control"]]
    if isinstance(made.get("control"), list):
        made["control"] = [_with_array(one) for one in made["control"]]
    aimless = made["system"].get("target") is None and made["system"].get("pairs") is None
    if aimless and _kind(data.get("optimizer")) == "none":
        # a propagation without a goal: what is left of the norm
        made["system"]["target"] = {"observable": "1"}
    ensemble = data.get("ensemble")
    if isinstance(ensemble, dict):
        made["ensemble"] = _members(ensemble)
    return made


def _kind(block: object) -> object:
    """Return the type of a block, or of its short form."""
    return block.get("type") if isinstance(block, dict) else block


def _with_array(control: object) -> object:
    """Read an array as the first values of a control."""
    guess = _inside(control, "guess")
    if not isinstance(control, dict) or not isinstance(guess, list):
        return control
    return {**control, "guess": {"type": "values", "values": guess}}


def _members(ensemble: dict[str, Any]) -> dict[str, Any]:
    """Return an ensemble whose factors are entries of `members`."""
    rest = {key: value for key, value in ensemble.items() if key not in FACTORS}
    given = [
        {kind: {path: ensemble[name]}}
        for name, (kind, path) in FACTORS.items()
        if ensemble.get(name) is not None
    ]
    members = rest.get("members", [])
    return {**rest, "members": [*given, *members]} if given and isinstance(members, list) else rest
