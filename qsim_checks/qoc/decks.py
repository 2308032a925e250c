"""Random qoc decks over everything the deck language allows, the hard cases on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.qoc.oracle import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim_checks.qoc.oracle import Function


@dataclass(frozen=True)
class Drawn:
    """A deck, the world it describes, and the energy scale of its lowest transition (hartree)."""

    deck: dict[str, Any]
    world: World
    gap: float


def draw_deck(rng: np.random.Generator, folder: Path) -> Drawn:
    """Draw a deck; tables and fields that it names are written into the folder."""
    mass, potential, well, extent = _potential(rng)
    low, high = extent
    top = int(rng.integers(1, 5))
    gap, turning, wave = _scales(mass, well, extent, top)
    a, b = turning
    wide = rng.choice([0.25, 0.5, 0.8, 1.3], p=[0.15, 0.25, 0.4, 0.2]) * (b - a)
    xmin = max(a - wide * rng.uniform(0.5, 1.0), low)
    xmax = min(b + wide * rng.uniform(0.8, 1.4), high)
    fineness = rng.choice([rng.uniform(0.5, 1.2), rng.uniform(0.15, 0.5)], p=[0.35, 0.65])
    points = int(np.clip((xmax - xmin) / (fineness * wave), 20, 400))
    dipole, moment = _dipole(rng, (xmin, xmax), mass, gap)
    system: dict[str, Any] = {
        "mass": mass,
        "potential": potential,
        "dipole": dipole,
        "grid": {"xmin": xmin, "xmax": xmax, "points": points},
        **_states(rng, top),
    }
    if rng.random() < 0.2:
        system["potential"], well = _table(rng, folder, "potential.csv", well, (xmin, xmax))
    if rng.random() < 0.15:
        system["dipole"], moment = _table(rng, folder, "dipole.csv", moment, (xmin, xmax))
    periods = rng.uniform(2.0, 12.0)
    duration = periods * 2.0 * np.pi / gap
    per_period = rng.choice([rng.uniform(4.0, 10.0), rng.uniform(10.0, 60.0)], p=[0.2, 0.8])
    steps = int(np.clip(periods * per_period * rng.uniform(1.0, top), 12, 600))
    deck: dict[str, Any] = {
        "run": {"seed": int(rng.integers(1, 10**6))},
        "system": system,
        "time": _time(rng, duration, steps),
    }
    deck |= _propagator(rng, points, top)
    if deck["propagator"]["type"] == "crank_nicolson" and deck["time"].get("steps") == "auto":
        deck["time"]["steps"] = steps  # its automatic steps are too many for a small deck
    kind = rng.choice(["none", "lbfgs", "gauss_newton", "krotov", "travolta"], p=[0.6, 0.14, 0.08, 0.08, 0.1])
    if kind == "krotov" and deck["propagator"].get("type") != "eigenbasis":
        kind = "lbfgs"
    strength = _strength(rng, well, moment, (xmin, xmax), duration)
    deck["control"] = _control(rng, folder, kind, duration, steps, gap, strength)
    deck["objective"] = {"threshold": 0.999, "alpha": float(rng.choice([0.0, 1e-3]))}
    deck["optimizer"] = {"type": str(kind)}
    if kind != "none":
        deck["optimizer"]["max_sweeps"] = int(rng.integers(2, 14))
    if rng.random() < 0.2:
        deck["ensemble"] = _ensemble(rng)
    deck["verify"] = _verify(rng, steps)
    return Drawn(_plain(deck), World(mass, well, moment, (xmin, xmax)), gap)


def _plain(value: Any) -> Any:
    """Return data without NumPy numbers, which YAML does not know."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


# ---------------------------------------------------------------------------------------- the molecule


def _potential(rng: np.random.Generator) -> tuple[float, dict[str, Any], Function, tuple[float, float]]:
    """Return mass, block of the deck, the function, and the interval in which it makes sense."""
    kinds: list[Callable[[np.random.Generator], Any]] = [
        _morse,
        _harmonic,
        _double_well,
        _symmetric_well,
        _expression,
    ]
    return kinds[int(rng.choice(5, p=[0.35, 0.1, 0.2, 0.1, 0.25]))](rng)


def _morse(rng: np.random.Generator) -> Any:
    mass, beta = 10 ** rng.uniform(2.0, 3.7), rng.uniform(0.7, 2.0)
    bound = rng.uniform(7.0, 25.0)
    depth, r0 = (bound * beta) ** 2 / (2.0 * mass), rng.uniform(1.5, 4.0)

    def well(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(depth * (np.exp(-beta * (x - r0)) - 1.0) ** 2 - depth)

    return mass, {"type": "morse", "D": depth, "beta": beta, "r0": r0}, well, (-np.inf, np.inf)


def _harmonic(rng: np.random.Generator) -> Any:
    mass, omega, x0 = 10 ** rng.uniform(0.0, 3.7), rng.uniform(0.005, 1.0), rng.uniform(-1.0, 1.0)

    def well(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(0.5 * mass * omega**2 * (x - x0) ** 2)

    return mass, {"type": "harmonic", "omega": omega, "x0": x0}, well, (-np.inf, np.inf)


def _double_well(rng: np.random.Generator) -> Any:
    mass = rng.uniform(0.8, 3.0)
    c = [
        0.0,
        rng.uniform(-0.05, 0.05),
        -rng.uniform(0.05, 0.35),
        rng.uniform(-0.01, 0.01),
        rng.uniform(0.01, 0.04),
    ]
    return _polynomial(mass, c)


def _symmetric_well(rng: np.random.Generator) -> Any:
    mass = rng.uniform(0.8, 4.0)
    return _polynomial(mass, [0.0, 0.0, -rng.uniform(0.05, 0.5), 0.0, rng.uniform(0.01, 0.04)])


def _polynomial(mass: float, c: list[float]) -> Any:
    def well(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(sum(value * x**n for n, value in enumerate(c)))

    return mass, {"type": "polynomial", "coefficients": c}, well, (-np.inf, np.inf)


def _expression(rng: np.random.Generator) -> Any:
    mass = rng.uniform(1.0, 10.0)
    a, b, c = rng.uniform(0.5, 3.0), rng.uniform(0.1, 0.6), rng.uniform(-2.0, 2.0)
    forms: list[tuple[str, Function]] = [
        (f"{a}*abs(x)", lambda x: a * np.abs(x)),  # a kink between the points of every grid
        (f"-{4 * a}*exp(-{b * b}*x^2)", lambda x: -4 * a * np.exp(-b * b * x**2)),
        (f"{b}*x^2 + {a}*exp(-40*(x - {c})^2)", lambda x: b * x**2 + a * np.exp(-40 * (x - c) ** 2)),
        (f"{b}*x^2 + 0.1*cos(5*x + {c})", lambda x: b * x**2 + 0.1 * np.cos(5 * x + c)),
        (f"0.02*x^6 + {b}*x^2 + 0.1*x^3", lambda x: 0.02 * x**6 + b * x**2 + 0.1 * x**3),
    ]
    text, well = forms[int(rng.integers(len(forms)))]
    return mass, {"type": "expression", "value": text}, well, (-np.inf, np.inf)


def _scales(
    mass: float, well: Function, extent: tuple[float, float], top: int
) -> tuple[float, tuple[float, float], float]:
    """Return the lowest gap, the turning points of the level ``top``, and its shortest wave over 2 pi."""
    x = np.linspace(-12.0, 14.0, 2001)
    v = np.minimum(well(x), well(x).min() + 5.0 * max(1.0, abs(float(well(x).min()))))
    h = float(x[1] - x[0])
    from scipy.linalg import eigh_tridiagonal

    found = eigh_tridiagonal(
        1.0 / (mass * h * h) + v,
        np.full(x.size - 1, -0.5 / (mass * h * h)),
        select="i",
        select_range=(0, top + 2),
        eigvals_only=True,
    )
    inside = x[v < found[top]]
    gaps = np.diff(found[: top + 1])
    gap = float(np.median(gaps))
    wave = 1.0 / np.sqrt(2.0 * mass * (found[top + 1] - float(v.min())))
    return gap, (float(inside[0]), float(inside[-1])), float(wave)


def _dipole(
    rng: np.random.Generator, span: tuple[float, float], mass: float, gap: float
) -> tuple[Any, Function]:
    kind = rng.choice(["linear", "mecke", "polynomial", "expression"], p=[0.4, 0.2, 0.2, 0.2])
    slope, c = float(rng.uniform(0.3, 2.0)), float(rng.uniform(-0.1, 0.1))
    if kind == "mecke" and span[0] > 0:
        r = float(rng.uniform(0.5, 2.0))
        return {"type": "mecke", "mu0": slope, "rstar": r}, lambda x: slope * x * np.exp(-x / r)
    if kind == "polynomial":
        return {"type": "polynomial", "coefficients": [0.1, slope, c]}, lambda x: 0.1 + slope * x + c * x**2
    if kind == "expression":
        return {
            "type": "expression",
            "value": f"{slope}*sin(0.3*x) + {c}",
        }, lambda x: slope * np.sin(0.3 * x) + c
    return {"type": "linear", "slope": slope}, lambda x: slope * x


def _table(
    rng: np.random.Generator, folder: Path, name: str, function: Function, span: tuple[float, float]
) -> tuple[dict[str, Any], Function]:
    """Sample a function into a file; the truth is the spline through it, constant beyond its ends."""
    from scipy.interpolate import CubicSpline

    margin = (span[1] - span[0]) * float(rng.choice([0.0, 0.2, 0.5]))
    x = np.linspace(span[0] - margin, span[1] + margin, int(rng.integers(30, 120)))
    y = function(x)
    np.savetxt(folder / name, np.stack([x, y], axis=1), fmt="%.17g")
    spline = CubicSpline(x, y)
    return {"type": "table", "file": name}, lambda q: np.asarray(spline(np.clip(q, x[0], x[-1])))


def _states(rng: np.random.Generator, top: int) -> dict[str, Any]:
    kind = rng.choice(["levels", "superposition", "list", "pairs"], p=[0.55, 0.2, 0.1, 0.15])
    lower = int(rng.integers(0, top))
    if kind == "levels":
        return {"initial": lower, "target": top} if rng.random() < 0.8 else {"initial": top, "target": lower}
    if kind == "superposition":
        return {
            "initial": {0: 1.0, top: float(rng.uniform(0.1, 1.0))},
            "target": {top: "0.6i", max(top - 1, 0): -0.8},
        }
    if kind == "list":
        return {"initial": 0, "target": sorted({top, max(top - 1, 1)})}
    return {"pairs": [{"initial": 0, "target": top}, {"initial": top, "target": 0}]}


# ----------------------------------------------------------------------------------- time and control


def _time(rng: np.random.Generator, duration: float, steps: int) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.15:
        return {"T": f"{duration * 0.02418884326585747} fs", "steps": steps}
    if kind < 0.3:
        return {"T": duration, "tau": duration / steps}
    if kind < 0.4:
        return {"T": duration, "steps": "auto"}
    return {"T": duration, "steps": steps}


def _propagator(rng: np.random.Generator, points: int, top: int) -> dict[str, Any]:
    if rng.random() < 0.35:
        block: dict[str, Any] = {"type": "crank_nicolson"}
        if rng.random() < 0.2:
            block["energy_shift"] = 0.0
        if rng.random() < 0.3:
            block["memory"] = str(rng.choice(["store", "reverse"]))
        return {"propagator": block}
    block = {"type": "eigenbasis"}
    if rng.random() < 0.5:
        block["states"] = int(np.clip(top + 1 + rng.integers(2, 14), 3, points // 2))
    return {"propagator": block}


def _strength(
    rng: np.random.Generator, well: Function, moment: Function, span: tuple[float, float], duration: float
) -> float:
    """Amplitude of a pulse of some area for the steepest dipole across a tenth of the box."""
    x = np.linspace(*span, 101)
    typical = 0.15 * float(np.ptp(moment(x))) + 1e-3
    return float(rng.choice([0.2, 1.0, 3.0]) * np.pi / (typical * duration))


def _control(
    rng: np.random.Generator,
    folder: Path,
    optimizer: str,
    duration: float,
    steps: int,
    gap: float,
    strength: float,
) -> dict[str, Any]:
    guess = _guess(rng, folder, optimizer, duration, gap, strength)
    control: dict[str, Any] = {"guess": guess}
    if optimizer == "travolta":
        return control
    shape = rng.random()
    if shape < 0.2:
        control["shape"] = {"type": "sin2"}
    elif shape < 0.35:
        control["shape"] = {"type": "sin2_edges", "rise": float(rng.uniform(0.02, 0.4))}
    elif shape < 0.45:
        control["shape"] = {"type": "gaussian", "fwhm": duration * float(rng.uniform(0.15, 0.6))}
    elif shape < 0.5:
        control["shape"] = {"type": "expression", "value": "t/T"}
    if rng.random() < 0.25:
        control["bounds"] = [-strength * float(rng.uniform(0.3, 2)), strength * float(rng.uniform(0.3, 2))]
    if optimizer != "krotov" and rng.random() < 0.15:
        control["zero_area"] = True
    if optimizer != "krotov" and rng.random() < 0.1:
        control["band"] = [0.0, 4.0 * gap]
    # A stream of its own: bounds that act, together with the area.
    own = rng.spawn(1)[0]
    if optimizer != "krotov" and own.random() < 0.15:
        control["zero_area"] = True
        control["bounds"] = [
            -strength * float(own.uniform(0.05, 0.6)),
            strength * float(own.uniform(0.05, 0.6)),
        ]
    return control


def _guess(
    rng: np.random.Generator, folder: Path, optimizer: str, duration: float, gap: float, strength: float
) -> dict[str, Any]:
    kind = rng.choice(
        ["ladder", "resonant", "random", "expression", "rough", "file", "zero"],
        p=[0.25, 0.1, 0.15, 0.2, 0.1, 0.15, 0.05],
    )
    if kind == "ladder":
        return {"type": "ladder", "area": float(rng.uniform(0.2, 2.0))}
    if kind == "resonant":
        return {"type": "resonant", "area": float(rng.uniform(0.2, 2.0))}
    if kind == "random":
        return {"type": "random", "amplitude": strength, "cutoff": gap * float(rng.uniform(1.0, 3.0))}
    if kind == "expression":
        return {"type": "expression", "value": f"{strength}*sin(pi*t/T)^2*cos({gap}*t)"}
    if kind == "rough":  # jumps from value to value
        return {"type": "expression", "value": f"{strength}*sin(1e5*t^2/T^2 + 13*t*{gap})"}
    if kind == "file":
        t = np.linspace(0.0, duration, int(rng.integers(20, 400)))
        np.savetxt(folder / "field.csv", np.stack([t, strength * np.cos(gap * t)], axis=1), delimiter=",")
        return {"type": "file", "file": "field.csv"}
    return {"type": "zero", "noise": 1e-9} if optimizer in ("travolta", "none") else {"type": "zero"}


def _ensemble(rng: np.random.Generator) -> dict[str, Any]:
    key = rng.choice(["field_scale", "mass_scale", "potential_scale", "both"])
    if key == "both":
        return {"field_scale": [0.9, 1.1], "potential_scale": [0.98, 1.0]}
    return {str(key): [1.0, 1.0 + float(rng.uniform(-0.1, 0.1))]}


def _verify(rng: np.random.Generator, steps: int) -> dict[str, Any]:
    block: dict[str, Any] = {"tolerance": float(10 ** rng.uniform(-3.5, -2))}
    block["propagator"] = str(rng.choice(["auto", "eigenbasis", "crank_nicolson"], p=[0.35, 0.55, 0.1]))
    block["interpolation"] = str(rng.choice(["auto", "hold", "cubic"], p=[0.6, 0.2, 0.2]))
    if rng.random() < 0.2:
        block["steps"] = int(steps * rng.integers(1, 6))
    if rng.random() < 0.15:
        block["states"] = int(rng.integers(8, 40))
    return block
