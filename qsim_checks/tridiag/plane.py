"""Random decks of ``task: plane``: two electrons, a particle, an ion that vibrates, a condensate, an electron about an axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Trial
from qsim_checks.tridiag import fields
from qsim_checks.tridiag.plane_oracle import LEVELS, World, judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim_checks.tridiag.fields import Curve

__all__ = ["condensate", "cylinder", "ion", "particle", "plane", "rotation"]

# of a coordinate that is not bounded
EVERYWHERE = [-math.inf, math.inf]


def _soft(r2: Any, a2: float) -> Any:
    return 1.0 / np.sqrt(r2 + a2)


def plane(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: plane`` and two electrons."""
    half = round(float(rng.uniform(7.0, 10.0)), 2)
    duration, steps, deck = _deck(rng)
    points = int(rng.integers(48, 90))
    exchange = str(rng.choice(["even", "singlet", "odd", "none"]))
    charge, a2 = round(float(rng.uniform(1.0, 2.2)), 3), round(float(rng.uniform(0.8, 2.0)), 3)
    repulsion, b2 = round(float(rng.uniform(0.3, 1.0)), 3), round(float(rng.uniform(0.8, 2.0)), 3)
    if rng.random() < 0.15:
        repulsion = 0.0
    strip, cap, mask = fields.absorber(rng, -half, half)
    deck["system"] = {
        "type": "electrons",
        "potential": {"type": "softcore", "Z": charge, "a2": a2},
        "repulsion": {"type": "softcore", "Z": -repulsion, "a2": b2} if repulsion else "none",
        "exchange": exchange,
    }
    deck["grid"] = {"x": {"xmin": -half, "xmax": half, "points": points, "stencil": _stencil(rng)}}
    deck["initial"], deck["absorber"] = _initial(rng), strip
    _order(rng, deck)
    radius = round(float(rng.uniform(2.0, 0.55 * half)), 2)
    deck["observe"] = [{"regions": {"radius": radius}}, "entanglement", {"populations": {"levels": LEVELS}}]
    electric: Curve = np.zeros_like
    breaks: list[float] = []
    if rng.random() < 0.7:
        block, electric, breaks = fields.pulse(rng, folder, duration)
        deck["laser"] = {"pulses": [block]}
    world = World(
        ((-half, half),) * 2,
        duration,
        duration / steps,
        lambda x, y: -charge * (_soft(x * x, a2) + _soft(y * y, a2)) + repulsion * _soft((x - y) ** 2, b2),
        (electric, electric),
        breaks,
        (cap, cap),
        (mask, mask),
        deck["initial"],
        exchange={"even": 1, "singlet": 1, "odd": -1, "none": 0}[exchange],
        radius=radius,
    )
    return Trial(deck, lambda results: judge(world, results))


def particle(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: plane`` and a particle in a plane: formulas, charges and tables; fields of any polarisation."""
    duration, steps, deck = _deck(rng)
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    ends = ((-u(6, 9), u(6, 9)), (-u(6, 9), u(6, 9)))
    masses = (u(0.7, 1.5), u(0.7, 1.5)) if rng.random() < 0.4 else (1.0, 1.0)
    charges = (u(-1.5, 1.5), -1.0) if rng.random() < 0.3 else (-1.0, -1.0)
    block, potential = _surface(rng, folder, ends)
    deck["system"] = {
        "type": "particle",
        "potential": block,
        "masses": list(masses),
        "charges": list(charges),
    }
    deck["grid"] = {
        name: {"xmin": low, "xmax": high, "points": int(rng.integers(50, 90)), "stencil": _stencil(rng)}
        for name, (low, high) in zip("xy", ends, strict=True)
    }
    # one block of both coordinates: strips of one width
    strip, cap, mask = fields.absorber(rng, *ends[0])
    other = fields.absorption(strip, *ends[1])
    deck["initial"], deck["absorber"] = _initial(rng), strip
    _order(rng, deck)
    box = {"x": sorted((u(-5, 5), u(-5, 5)))} if rng.random() < 0.5 else {"y": sorted((u(-5, 5), u(-5, 5)))}
    box = {name: [low, high + 0.5] for name, (low, high) in box.items()}
    deck["observe"] = [{"boxes": {"part": box}}, {"populations": {"levels": LEVELS}}]
    push, breaks, angle = _in_plane(rng, folder, deck, duration)
    first, second = box.get("x", EVERYWHERE), box.get("y", EVERYWHERE)
    world = World(
        ends,
        duration,
        duration / steps,
        potential,
        (lambda t: -charges[0] * push[0](t), lambda t: -charges[1] * push[1](t)),
        breaks,
        (cap, other[0]),
        (mask, other[1]),
        deck["initial"],
        dipoles=(
            (-charges[0] * math.cos(angle), -charges[1] * math.sin(angle)),
            (charges[0] * math.sin(angle), -charges[1] * math.cos(angle)),
        ),
        masses=masses,
        boxes={"norm_in_part": ((first[0], first[1]), (second[0], second[1]))},
    )
    return Trial(deck, lambda results: judge(world, results))


def ion(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: plane`` and an ion with light nuclei that vibrates and dissociates."""
    duration, steps, deck = _deck(rng)
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    ends = ((u(0.4, 0.7), u(6, 9)), (-u(7, 9), u(7, 9)))
    first = u(5, 40)
    second = first if rng.random() < 0.5 else u(5, 40)
    whole, a2 = first + second, u(0.7, 1.5)
    deck["system"] = {"type": "vibrating_ion", "masses": [first, second], "softening": a2}
    deck["grid"] = {
        name: {"xmin": low, "xmax": high, "points": int(rng.integers(50, 90)), "stencil": _stencil(rng)}
        for name, (low, high) in zip("Rx", ends, strict=True)
    }
    while (initial := _initial(rng))["type"] == "gaussian":
        pass
    strip, cap, mask = fields.absorber(rng, *ends[1])
    other = fields.absorption(strip, *ends[0])
    deck["initial"], deck["absorber"] = initial, strip
    _order(rng, deck)
    distance = u(2.5, 4.0)
    deck["observe"] = [{"ker": {"R": distance}}, {"populations": {"levels": LEVELS}}]
    electric: Curve = np.zeros_like
    breaks: list[float] = []
    if rng.random() < 0.8:
        block, electric, breaks = fields.pulse(rng, folder, duration)
        deck["laser"] = {"pulses": [block]}
    charges = ((second - first) / whole, 1.0 + 1.0 / (whole + 1.0))
    world = World(
        ends,
        duration,
        duration / steps,
        lambda r, x: (
            1.0 / r - _soft((x + second / whole * r) ** 2, a2) - _soft((x - first / whole * r) ** 2, a2)
        ),
        (lambda t: charges[0] * electric(t), lambda t: charges[1] * electric(t)),
        breaks,
        (other[0], cap),
        (other[1], mask),
        initial,
        dipoles=(charges,),
        masses=(first * second / whole, whole / (whole + 1.0)),
        boxes={"dissociation": ((distance, math.inf), (-math.inf, math.inf))},
    )
    return Trial(deck, lambda results: judge(world, results))


def condensate(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: plane`` and a condensate that moves in a trap, or rests."""
    duration, steps, deck = _deck(rng)
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    half, a, b = u(6.0, 7.5), u(0.8, 1.4), u(0.8, 1.4)
    # weak, strong, or attractive
    g = float(rng.choice([u(0.1, 5.0), u(5.0, 40.0), u(-3.0, -0.1)]))
    quartic = u(0.0, 0.02)
    text = f"0.5*({a}^2*x^2 + {b}^2*y^2) + {quartic}*x^2*y^2"
    deck["system"] = {"type": "condensate", "potential": {"type": "expression", "value": text}, "g": g}
    deck["grid"] = {
        name: {"xmin": -half, "xmax": half, "points": int(rng.integers(50, 90)), "stencil": _stencil(rng)}
        for name in "xy"
    }
    deck["initial"] = {"type": "eigenstate", "level": 0}
    if rng.random() < 0.6:
        deck["initial"] = _packet(rng)
    deck["absorber"] = {"type": "none"}
    _order(rng, deck)
    deck["observe"] = [{"boxes": {"part": {"x": [0.0, u(0.5, 2.0)]}}}, {"populations": {"levels": 1}}]
    world = World(
        ((-half, half),) * 2,
        duration,
        duration / steps,
        lambda x, y: 0.5 * (a * a * x * x + b * b * y * y) + quartic * x * x * y * y,
        (np.zeros_like, np.zeros_like),
        [],
        (np.zeros_like, np.zeros_like),
        (np.ones_like, np.ones_like),
        deck["initial"],
        dipoles=((1.0, 0.0), (0.0, 1.0)),
        g=g,
        boxes={"norm_in_part": ((0.0, deck["observe"][0]["boxes"]["part"]["x"][1]), (-math.inf, math.inf))},
    )
    return Trial(deck, lambda results: judge(world, results))


def rotation(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: plane`` and a condensate in a frame that rotates, or a particle in a magnetic field."""
    duration, steps, deck = _deck(rng)
    duration = round(0.5 * duration, 3)
    deck["time"] |= {"t_final": duration}
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    half, a, b = u(5.0, 6.0), u(0.9, 1.3), u(0.9, 1.3)
    trap = f"0.5*({a}^2*x^2 + {b}^2*y^2)"
    rest = rng.random() < 0.5
    deck["grid"] = {
        name: {"xmin": -half, "xmax": half, "points": int(rng.integers(44, 70)), "stencil": _stencil(rng)}
        for name in "xy"
    }
    deck["initial"] = {"type": "eigenstate", "level": 0} if rest else _packet(rng)
    deck["absorber"] = {"type": "none"}
    _order(rng, deck)
    masses, charges, g, field = (1.0, 1.0), (-1.0, -1.0), 0.0, 0.0
    # below the frequency at which the first vortex enters
    spin = u(-0.4, 0.4) if rest else u(-1.2, 1.2)
    if rng.random() < 0.6:
        g = u(0.1, 8.0)
        deck["system"] = {"type": "condensate", "g": g, "rotation": spin}
    else:
        field = u(-1.0, 1.0)
        spin = spin if rng.random() < 0.5 else 0.0
        if rng.random() < 0.5:
            masses, charges = (u(0.8, 1.5), u(0.8, 1.5)), (u(-1.5, 1.5), -1.0)
        block = {"masses": list(masses), "charges": list(charges), "rotation": spin, "magnetic_field": field}
        deck["system"] = {"type": "particle"} | block
    deck["system"]["potential"] = {"type": "expression", "value": trap}
    deck["observe"] = [{"boxes": {"part": {"x": [0.0, u(0.5, 2.0)]}}}]
    if rest:
        deck["observe"] += [{"populations": {"levels": 1 if g else LEVELS}}]
    square = [(q * field) ** 2 / (8.0 * m) for q, m in zip(charges, masses, strict=True)]
    factors = tuple(spin + 0.5 * q * field / m for q, m in zip(charges, masses, strict=True))
    world = World(
        ((-half, half),) * 2,
        duration,
        duration / steps,
        lambda x, y: 0.5 * (a * a * x * x + b * b * y * y) + square[0] * y * y + square[1] * x * x,
        (np.zeros_like, np.zeros_like),
        [],
        (np.zeros_like, np.zeros_like),
        (np.ones_like, np.ones_like),
        deck["initial"],
        dipoles=((-charges[0], 0.0), (0.0, -charges[1])),
        masses=masses,
        g=g,
        turn=(factors[0], factors[1]),
        sines=(44, 52),
        boxes={"norm_in_part": ((0.0, deck["observe"][0]["boxes"]["part"]["x"][1]), (-math.inf, math.inf))},
    )
    return Trial(deck, lambda results: judge(world, results))


def cylinder(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: plane`` and an electron about an axis with one nucleus or two, softened a little or much."""
    duration, steps, deck = _deck(rng)
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    wall, half = u(5, 7), u(6, 8)
    places = [u(-0.5, 0.5)] if rng.random() < 0.4 else [-u(0.5, 1.5), u(0.5, 1.5)]
    nuclei = [(u(0.6, 1.6), at, u(0.5, 2.0) if rng.random() < 0.7 else u(0.1, 0.4)) for at in places]
    deck["system"] = {"type": "cylinder", "centers": [{"Z": q, "z": at, "a2": a2} for q, at, a2 in nuclei]}
    stencil = _stencil(rng)
    ends = ((0.0, wall), (-half, half))
    deck["grid"] = {
        name: {"xmin": low, "xmax": high, "points": int(points), "stencil": stencil}
        for name, (low, high), points in zip(
            ("rho", "z"), ends, (rng.integers(24, 45), rng.integers(50, 90)), strict=True
        )
    }
    strip, cap, mask = fields.absorber(rng, -half, half)
    other = fields.absorption(strip, -wall, wall)
    initial = {"type": "eigenstate", "level": int(rng.choice([0, 0, 1]))}
    deck["initial"], deck["absorber"] = initial, strip
    if rng.random() < 0.4:
        z0, width, wave = u(-1.5, 1.5), u(0.8, 1.5), u(-1.5, 1.5)
        bell = f"exp(-(rho^2 + (z - {z0})^2)/(2*{width}^2))"
        deck["initial"] = {
            "type": "expression",
            "real": f"{bell}*cos({wave}*z)",
            "imag": f"{bell}*sin({wave}*z)",
        }
        initial = {"type": "gaussian", "z0": z0, "width": width, "wave": wave}
    _order(rng, deck)
    low = u(-3, 1)
    part = {"z": [low, low + u(1, 3)]} if rng.random() < 0.5 else {"rho": [0.0, u(1, 3)]}
    deck["observe"] = [{"boxes": {"part": part}}, {"populations": {"levels": LEVELS}}]
    electric: Curve = np.zeros_like
    breaks: list[float] = []
    if rng.random() < 0.8:
        block, electric, breaks = fields.pulse(rng, folder, duration)
        deck["laser"] = {"pulses": [block]}
    first, second = part.get("rho", EVERYWHERE), part.get("z", EVERYWHERE)
    world = World(
        ends,
        duration,
        duration / steps,
        lambda r, z: -sum(q * _soft(r * r + (z - at) ** 2, a2) for q, at, a2 in nuclei),
        (np.zeros_like, electric),
        breaks,
        (other[0], cap),
        (other[1], mask),
        initial,
        dipoles=((0.0, 1.0),),
        radial=True,
        boxes={"norm_in_part": ((first[0], first[1]), (second[0], second[1]))},
    )
    return Trial(deck, lambda results: judge(world, results))


def _deck(rng: np.random.Generator) -> tuple[float, int, dict[str, Any]]:
    """Return duration and steps of a random run, and the deck with its block of times."""
    duration, steps = float(f"{rng.uniform(2.0, 8.0):.4g}"), int(rng.integers(40, 160))
    time = {"steps": steps, "t_final": duration, "outputs": int(rng.choice([1, 4])), "coarse": "warn"}
    return duration, steps, {"task": "plane", "time": time}


def _stencil(rng: np.random.Generator) -> str:
    return str(rng.choice(["numerov", "numerov", "three_point"]))


def _order(rng: np.random.Generator, deck: dict[str, Any]) -> None:
    """Let some decks take steps of order 4."""
    if deck["absorber"]["type"] != "mask" and rng.random() < 0.3:
        deck["time"]["order"] = 4


def _surface(
    rng: np.random.Generator, folder: Path, ends: tuple[tuple[float, float], tuple[float, float]]
) -> tuple[dict[str, Any], Callable[[Any, Any], Any]]:
    """Return the block of a random potential of two coordinates, and its formula."""
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    kind = str(rng.choice(["softcore", "molecule", "harmonic", "expression", "table"]))
    if kind == "harmonic":
        a, b = u(0.3, 1.2), u(0.3, 1.2)
        return {"type": kind, "omega": [a, b]}, lambda x, y: 0.5 * (a * a * x * x + b * b * y * y)
    if kind == "softcore":
        z, a2, x0, y0 = u(0.8, 2), u(0.6, 2), u(-1, 1), u(-1, 1)
        block = {"type": kind, "Z": z, "a2": a2, "x": x0, "y": y0}
        return block, lambda x, y: -z * _soft((x - x0) ** 2 + (y - y0) ** 2, a2)
    if kind == "molecule":
        r, a2, z = u(0.5, 1.5), u(0.6, 2), u(0.5, 1.2)
        centers = [{"Z": 1.0, "x": -r, "a2": a2}, {"Z": z, "x": r, "a2": a2}]
        return {
            "type": "softcore",
            "centers": centers,
        }, lambda x, y: -_soft((x + r) ** 2 + y * y, a2) - z * _soft((x - r) ** 2 + y * y, a2)
    depth, c = u(0.8, 2.0), u(-0.4, 0.4)
    curve = lambda x, y: -depth * np.exp(-(x * x + y * y + c * x * y) / 6.0)  # noqa: E731
    if kind == "expression":
        return {"type": kind, "value": f"-{depth}*exp(-(x^2 + y^2 + {c}*x*y)/6)"}, curve
    # rows dense enough for a cubic spline, or not; what they leave open is part of the claim
    counts = [int(rng.integers(16, 60)) for _ in ends]
    x, y = (np.linspace(low - 0.1, high + 0.1, n) for (low, high), n in zip(ends, counts, strict=True))
    rows = np.array(np.meshgrid(x, y, indexing="ij")).reshape(2, -1).T
    scale = {"bohr": 1.0, "angstrom": 0.529177210544}[unit := str(rng.choice(["bohr", "angstrom"]))]
    path = folder / "surface.txt"
    np.savetxt(path, np.column_stack([rows * scale, curve(rows[:, 0], rows[:, 1])]), fmt="%.17g")
    return {"type": kind, "file": str(path), "units": {"x": unit, "y": unit}}, curve


def _in_plane(
    rng: np.random.Generator, folder: Path, deck: dict[str, Any], duration: float
) -> tuple[tuple[Curve, Curve], list[float], float]:
    """Give a deck a laser of any polarisation or none; return E_x and E_y, where they are not smooth, and the angle."""
    kind = rng.random()
    angle = round(float(rng.uniform(-3.0, 3.0)), 3) if rng.random() < 0.6 else 0.0
    cos, sin = math.cos(angle), math.sin(angle)
    if kind < 0.25:
        return (np.zeros_like, np.zeros_like), [], 0.0
    if kind < 0.6:
        block, electric, breaks = fields.pulse(rng, folder, duration)
        deck["laser"] = {"pulses": [block], "polarization": {"type": "linear", "angle": angle}}
        return (lambda t: cos * electric(t), lambda t: sin * electric(t)), breaks, angle
    ratio = 1.0 if rng.random() < 0.5 else round(float(rng.uniform(0.1, 0.9)), 2)
    sense = int(rng.choice([1, -1]))
    size, cep = round(float(rng.uniform(0.02, 0.15)), 3), round(float(rng.uniform(-3, 3)), 2)
    omega = float(f"{rng.uniform(2.0, 5.0) * 2.0 * math.pi / duration:.4g}")
    turning = {"type": "elliptical", "ellipticity": ratio, "handedness": "left" if sense > 0 else "right"}
    block = {"shape": "sin2", "omega": omega, "E0": size, "cep": cep, "duration": duration}
    deck["laser"] = {"pulses": [block], "polarization": turning | {"angle": angle}}

    def component(peak: float, phase: float) -> Curve:
        """E = -dA/dt of ``A = peak / omega sin^2(pi t / T) sin(omega (t - T/2) + phase)``."""

        def electric(t: NDArray[np.float64]) -> NDArray[np.float64]:
            t = np.asarray(t, float)
            wave, turn = omega * (t - 0.5 * duration) + phase, np.pi / duration
            slope = turn * np.sin(2.0 * turn * t) * np.sin(wave) + omega * np.sin(turn * t) ** 2 * np.cos(
                wave
            )
            return np.where((t >= 0) & (t <= duration), -peak / omega * slope, 0.0)

        return electric

    peak = size / math.hypot(1.0, ratio)
    one, two = component(peak, cep), component(ratio * peak, cep - 0.5 * math.pi * sense)
    return (lambda t: cos * one(t) - sin * two(t), lambda t: sin * one(t) + cos * two(t)), [], angle


def _initial(rng: np.random.Generator) -> dict[str, Any]:
    """Return the block of a random initial state."""
    kind = rng.random()
    if kind < 0.5:
        return {"type": "eigenstate", "level": int(rng.choice([0, 0, 1]))}
    if kind < 0.65:
        return {"type": "superposition", "levels": {"0": 1.0, "1": "0.5i"}}
    return _packet(rng)


def _packet(rng: np.random.Generator) -> dict[str, Any]:
    """Return the block of a random Gaussian packet."""
    place = lambda: round(float(rng.uniform(-2.0, 2.0)), 2)  # noqa: E731
    return {
        "type": "gaussian",
        "x0": place(),
        "y0": place(),
        "kx": place(),
        "ky": place(),
        "wx": round(float(rng.uniform(0.6, 1.2)), 2),
        "wy": round(float(rng.uniform(0.6, 1.2)), 2),
    }
