"""Controls that are formulas of time, with kinks and pulses narrower than any slot, and the truth for them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim
from qsim_checks.qoc.quantum import oracle

if TYPE_CHECKING:
    from qsim.core.results.results import Results
    from qsim_checks.qoc.quantum.oracle import Matrix, World

__all__ = ["draw_functions", "of_functions"]

# Rows of the oracle's generator up to which it is integrated.
MOST_ROWS = 40
# Tolerance of the integration, and what it leaves of the value.
TOLERANCE = 1e-11
LEFT = 2e-9
UNCLAIMED = r"no error is claimed"


def draw_functions(rng: np.random.Generator, deck: dict[str, Any], duration: float) -> bool:
    """Give the controls of a deck formulas of other kinds; return whether the truth for them is known."""
    plain = all(
        c["parameters"] == {"type": "slots"} and not {"slew", "area", "modulus", "shape"} & set(c)
        for c in deck["control"]
    )
    if deck["optimizer"] != "none" or not plain:
        return False
    for control in deck["control"]:
        control.pop("bounds", None)
        control["guess"] = {"type": "expression", "value": _formula(rng, duration)}
    return True


def _formula(rng: np.random.Generator, duration: float) -> str:
    """Return a wave, a ramp, a window, an arc with kinks, or a wave with narrow pulses."""
    size, centre = float(10.0 ** rng.uniform(-1.0, 0.0)) / duration, float(rng.uniform(0.02, 0.98)) * duration
    wave = f"{size:.6g}*cos({rng.uniform(0.0, 20.0) / duration:.6g}*t + {rng.uniform(0.0, 6.0):.6g})"
    kind = str(rng.choice(["wave", "window", "arc", "ramp", "pulse", "pulse", "pulses"]))
    if kind == "window":
        return f"{wave}*heaviside(t - {0.5 * centre:.9g})*heaviside({centre:.9g} - t)"
    if kind == "arc":
        return f"{size:.6g}*abs(sin({rng.uniform(3.0, 30.0) / duration:.6g}*t + 0.3))"
    if kind == "ramp":
        return f"{size:.6g}*max(0, min(1, (t - {0.5 * centre:.9g})/{0.1 * centre:.6g}))"
    terms = [wave] if kind != "wave" and rng.random() < 0.7 else []
    count = {"wave": 0, "pulse": 1}.get(kind, int(rng.integers(2, 5)))
    for _ in range(count):
        # of an area that turns the system, whatever the width
        width = float(10.0 ** rng.uniform(-6.0, -1.0)) * duration
        height = float(rng.uniform(0.2, 1.0)) / width
        terms.append(f"{height:.6g}*exp(-((t - {rng.uniform(0.1, 0.9) * duration:.9g})/{width:.6g})^2)")
    return " + ".join(terms) or wave


def of_functions(world: World, deck: dict[str, Any], kind: str, results: Results) -> list[Claim]:
    """Return the claims of the value under the formulas themselves."""
    dense = bool(world.jumps)
    if world.dimension ** (2 if dense else 1) > MOST_ROWS:
        return []
    texts = [c["guess"]["value"] for c in _in_order(deck)]
    total = _integrated(world, texts, dense)
    exact = oracle.value(world, total)
    size = 1.0 if world.goal.operator is None else max(1.0, float(np.linalg.norm(world.goal.operator, 2)))
    claims = []
    for name in (kind, f"{kind}_continuous"):
        # controls that are numbers have no value of functions
        scalar = results.scalars.get(name)
        if scalar is not None:
            claimed = np.nan if scalar.error is None else float(scalar.error)
            off = float(str(scalar.value)) - exact
            claims.append(Claim(f"{name}, formulas", off, claimed, oracle=LEFT * size, warning=UNCLAIMED))
    return claims


def _in_order(deck: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the controls in the order of the system."""
    named = {c["name"]: c for c in deck["control"]}
    return [named[name] for name in deck["system"]["controls"]]


def _integrated(world: World, texts: list[str], dense: bool) -> Matrix:
    """Return the propagator at T by Runge-Kutta steps of order 8 between the kinks and pulses that the texts name."""
    from scipy.integrate import solve_ivp

    functions = [compile(text.replace("^", "**"), "formula", "eval") for text in texts]
    names = {
        **{name: getattr(np, name) for name in ("cos", "sin", "exp", "abs")},
        "min": min,
        "max": max,
        "heaviside": lambda x: float(x > 0.0),
    }
    first, *others = oracle._generators(world, dense)
    edges = sorted({0.0, world.duration, *(t for text in texts for t in _breaks(text, world.duration))})
    size = len(first)
    y = np.eye(size, dtype=complex).ravel()

    def slope(t: float, y: Matrix) -> Matrix:
        a = first.copy()
        for code, power, b in zip(functions, world.powers, others, strict=True):
            a += float(eval(code, names, {"t": t})) ** power * b
        return np.asarray((a @ y.reshape(size, size)).ravel())

    for start, end in pairwise(edges):
        # no stage lies on a jump
        span = (float(np.nextafter(start, end)), float(np.nextafter(end, start)))
        found = solve_ivp(slope, span, y, method="DOP853", rtol=TOLERANCE, atol=TOLERANCE)
        y = found.y[:, -1]
    return np.asarray(y.reshape(size, size))


def _breaks(text: str, duration: float) -> list[float]:
    """Return the times at which a formula of `_formula` is not smooth, and some around its pulses."""
    import re

    number = r"([-+.\de]+)"
    found = [float(m[1] or m[2]) for m in re.finditer(rf"heaviside\((?:t - {number}|{number} - t)\)", text)]
    for m in re.finditer(rf"\(t - {number}\)/{number}\)\^2", text):
        centre, width = float(m[1]), float(m[2])
        found += [centre + k * width for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]
    for m in re.finditer(rf"\(t - {number}\)/{number}\)\)", text):
        found += [float(m[1]), float(m[1]) + float(m[2])]
    for m in re.finditer(rf"abs\(sin\({number}\*t \+ 0.3\)\)", text):
        w = float(m[1])
        found += [(k * np.pi - 0.3) / w for k in range(1, int((w * duration + 0.3) / np.pi) + 1)]
    return [t for t in found if 0.0 < t < duration]
