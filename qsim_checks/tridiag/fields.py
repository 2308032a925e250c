"""Potentials, pulses and absorbers of the random decks, written down a second time for the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erf

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

__all__ = ["absorber", "absorption", "potential", "pulse", "walled"]

POTENTIALS = (
    "softcore", "morse", "harmonic", "square_well", "gaussian_well", "poschl_teller", "eckart", "double_well", "yukawa",
    "polynomial", "table", "expression", "free",
)  # fmt: skip
SPEED_OF_LIGHT = 137.035999177
WIDTH = 2.622057554292119  # of the absorber of Manolopoulos, in units of 1 / (2 delta kmin)
STEP = 1e-3  # of the numerical derivative of A


def _three(rng: np.random.Generator, low: float, high: float) -> float:
    return float(f"{rng.uniform(low, high):.4g}")


# -------------------------------------------------------------------------------------------- potentials


def potential(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], Curve, tuple[float, float]]:
    """Return the block of a random potential, its formula, and a box that suits it."""
    u = lambda low, high: _three(rng, low, high)  # noqa: E731
    wide = (-u(12, 35), u(12, 35))
    x0 = u(-1, 1)
    kind = str(rng.choice(POTENTIALS))
    block: dict[str, Any] = {"type": kind}
    if kind == "softcore":
        z, a2 = u(0.5, 2), u(0.5, 3)
        return block | {"Z": z, "a2": a2, "x0": x0}, lambda x: -z / np.sqrt((x - x0) ** 2 + a2), wide
    if kind == "morse":
        depth, beta = u(0.5, 5), u(0.4, 1.2)
        curve = lambda x: depth * (np.exp(-beta * (x - x0)) - 1) ** 2 - depth  # noqa: E731
        return block | {"D": depth, "beta": beta, "r0": x0}, curve, (-u(3, 4), u(12, 25))
    if kind == "harmonic":
        omega = u(0.1, 1)
        return (
            block | {"omega": omega, "x0": x0},
            lambda x: 0.5 * omega**2 * (x - x0) ** 2,
            (-u(7, 14), u(7, 14)),
        )
    if kind == "square_well":
        depth, width, edge = u(-1, 2), u(1, 5), float(rng.choice([0.3, 0.8, 0.0]))
        found = block | {"depth": depth, "width": width, "x0": x0, "edge": edge}
        return found, lambda x: _well(x - x0, depth, width, edge), wide
    if kind == "gaussian_well":
        depth, width = u(-1, 3), u(0.5, 2)
        curve = lambda x: -depth * np.exp(-((x - x0) ** 2) / (2 * width**2))  # noqa: E731
        return block | {"depth": depth, "width": width, "x0": x0}, curve, wide
    if kind in ("poschl_teller", "eckart"):
        height, a = u(0.3, 2), u(0.6, 2)
        sign, name = (-1, "depth") if kind == "poschl_teller" else (1, "V0")
        return (
            block | {name: height, "a": a, "x0": x0},
            lambda x: sign * height / np.cosh((x - x0) / a) ** 2,
            wide,
        )
    if kind == "double_well":
        strength, a = u(0.01, 0.05), u(1.5, 4.5)
        curve = lambda x: strength * ((x - x0) ** 2 - a * a) ** 2  # noqa: E731
        return block | {"lambda": strength, "a": a, "x0": x0}, curve, (-u(9, 12), u(9, 12))
    if kind == "yukawa":
        z, reach, a2 = u(0.5, 3), u(2, 8), u(0.5, 3)
        r = lambda x: np.sqrt((x - x0) ** 2 + a2)  # noqa: E731
        found = block | {"Z": z, "range": reach, "a2": a2, "x0": x0}
        return found, lambda x: -z * np.exp(-r(x) / reach) / r(x), wide
    if kind == "polynomial":
        c = [u(-0.2, 0.2), u(-0.1, 0.1), u(-0.1, 0.4), u(-0.02, 0.02), u(0.01, 0.05)]
        return (
            block | {"coefficients": c},
            lambda x: sum(v * x**k for k, v in enumerate(c)),
            (-u(7, 9), u(7, 9)),
        )
    if kind == "table":
        return _tabled(block, folder, u(0.5, 2), wide)
    if kind == "expression":
        depth, k = u(0.2, 1), u(0.3, 2)
        text = f"-{depth} * exp(-x^2 / 8) * cos({k} * x)"
        return block | {"value": text}, lambda x: -depth * np.exp(-x * x / 8) * np.cos(k * x), wide
    return block, np.zeros_like, wide


def walled(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], Curve, tuple[float, float]]:
    """Return a random potential that walls cut where it is not small, its formula, and the box between the walls."""
    u = lambda low, high: _three(rng, low, high)  # noqa: E731
    left = u(-6, -1)
    right = round(left + u(3, 9), 4)
    kind = str(rng.choice(["free", "harmonic", "square_well", "softcore", "table", "expression"]))
    block: dict[str, Any] = {"type": kind}
    if kind == "harmonic":
        omega, x0 = u(0.1, 1), u(left, right)
        return block | {"omega": omega, "x0": x0}, lambda x: 0.5 * omega**2 * (x - x0) ** 2, (left, right)
    if kind == "square_well":  # it ends at the walls, or beyond one of them
        depth, width = u(-2, 2), 2.0 * (right - left)
        x0, edge = round(float(rng.choice([left, 0.5 * (left + right)])), 4), u(0.3, 0.8)
        found = block | {"depth": depth, "width": width, "x0": x0, "edge": edge}
        return found, lambda x: _well(x - x0, depth, width, edge), (left, right)
    if kind == "softcore":
        z, x0 = u(-2, 2), u(left, right)
        return (
            block | {"Z": z, "a2": 0.5, "x0": x0},
            lambda x: -z / np.sqrt((x - x0) ** 2 + 0.5),
            (left, right),
        )
    if kind == "table":  # it ends at the walls
        from scipy.interpolate import CubicSpline

        x = np.linspace(left, right, 41)
        v = u(0.2, 2) * np.cos(u(0.3, 1.5) * x + u(0, 3))
        np.savetxt(folder / "potential.txt", np.column_stack([x, v]), fmt="%.17g")
        return block | {"file": str(folder / "potential.txt")}, CubicSpline(x, v), (left, right)
    if kind == "expression":
        slope, k = u(-1, 1), u(0.3, 2)
        return (
            block | {"value": f"{slope} * x + cos({k} * x)"},
            lambda x: slope * x + np.cos(k * x),
            (left, right),
        )
    return block, np.zeros_like, (left, right)


def _tabled(
    block: dict[str, Any], folder: Path, depth: float, wide: tuple[float, float]
) -> tuple[dict[str, Any], Curve, tuple[float, float]]:
    from scipy.interpolate import CubicSpline

    x = np.linspace(-50, 50, 401)
    v = -depth / np.cosh(0.7 * x)
    np.savetxt(folder / "potential.txt", np.column_stack([x, v]), fmt="%.17g")
    return block | {"file": str(folder / "potential.txt")}, CubicSpline(x, v), wide


def _well(x: NDArray[np.float64], depth: float, width: float, edge: float) -> NDArray[np.float64]:
    if edge == 0.0:
        inside = np.abs(np.abs(x) - 0.5 * width) < 1e-9
        return -depth * np.where(inside, 0.5, (np.abs(x) < 0.5 * width).astype(float))
    return -0.5 * depth * (erf((x + 0.5 * width) / edge) - erf((x - 0.5 * width) / edge))


# ------------------------------------------------------------------------------------------------ pulses


def pulse(
    rng: np.random.Generator, folder: Path, horizon: float
) -> tuple[dict[str, Any], Curve, list[float]]:
    """Return the block of a random pulse that is over before `horizon`, its E(t), and where that is not smooth."""
    block, curve = _pulse(rng, folder, horizon)
    ramp = block.get("ramp", 0.0)
    length = block.pop("length")
    inside = (0.0, ramp, length - ramp if block["shape"] == "flat_top" else length, length)
    return block, curve, [block["delay"] + t for t in inside]


def _pulse(rng: np.random.Generator, folder: Path, horizon: float) -> tuple[dict[str, Any], Curve]:
    kind = str(rng.choice(["sin2", "cosn", "gaussian", "flat_top", "cw", "static", "expression", "table"]))
    delay = float(rng.choice([0.0, _three(rng, 0, 0.2) * horizon]))
    sign = int(rng.choice([1, -1]))
    block: dict[str, Any] = {"shape": kind, "delay": delay, "polarity": sign}
    length = _three(rng, 0.5, 1.0) * (horizon - delay)
    size = _three(rng, 0.003, 0.08)
    block["length"] = length
    if kind == "table":
        return _tabled_pulse(block, folder, length, size, delay, sign)
    if kind in ("static", "expression"):
        more, field = _without_carrier(kind, length, size)
        reach = math.inf if kind == "static" else length
        return block | more, _shifted(field, delay, sign, reach)
    more, field = _with_carrier(rng, kind, length, size)
    return block | more, _shifted(field, delay, sign, length)


def _without_carrier(kind: str, length: float, size: float) -> tuple[dict[str, Any], Curve]:
    """Return keys and E(s) of a static field or a formula, s counted from its start."""
    if kind == "static":
        ramp = 0.2 * length
        return {"E0": size, "ramp": ramp}, lambda s: size * _rise(s / ramp)
    block = {"value": f"{size} * sin(pi * t / T)^2 * cos(0.4 * t)", "duration": length}
    return block, lambda s: size * np.sin(np.pi * s / length) ** 2 * np.cos(0.4 * s)


def _with_carrier(
    rng: np.random.Generator, kind: str, length: float, size: float
) -> tuple[dict[str, Any], Curve]:
    """Return keys and E(s) of an oscillating pulse, s counted from its start."""
    omega = _three(rng, 1.5, 6) * 2 * math.pi / length
    cep = _three(rng, -3, 3)
    block: dict[str, Any] = {"cep": cep, "duration": length}
    block |= {"omega": omega} if rng.random() < 0.5 else {"wavelength": 2 * math.pi * SPEED_OF_LIGHT / omega}
    block |= {"E0": size} if rng.random() < 0.5 else {"intensity": size**2}
    if kind == "cw":
        ramp = _three(rng, 0.05, 0.3) * length
        return block | {"ramp": ramp}, lambda s: size * _rise(s / ramp) * np.cos(omega * s + cep)
    if kind == "flat_top":
        ramp = 0.3 * length
        shape = str(rng.choice(["linear", "sin2"]))

        def plateau(s: NDArray[np.float64]) -> NDArray[np.float64]:
            y = np.clip(np.minimum(s, length - s) / ramp, 0, 1)
            return size * (y if shape == "linear" else _rise(y)) * np.sin(omega * s + cep)

        return block | {"ramp": ramp, "ramp_shape": shape, "envelope_on": "E"}, plateau
    chirp = float(rng.choice([0.0, _three(rng, -0.2, 0.2) * omega / length]))
    on = str(rng.choice(["A", "E"]))
    power = {"sin2": 2.0, "cosn": _three(rng, 3, 8)}.get(kind, 0.0)
    block |= {"chirp": chirp, "envelope_on": on}
    block |= {"power": power} if kind == "cosn" else {}

    def wave(s: NDArray[np.float64]) -> NDArray[np.float64]:
        return omega * s + cep + 0.5 * chirp * s * s

    def electric(s: NDArray[np.float64]) -> NDArray[np.float64]:
        s = s - length / 2
        return -size * _envelope(s, length, power) * np.cos(wave(s))

    def vector(s: NDArray[np.float64]) -> NDArray[np.float64]:
        s = np.clip(s, 0.0, length) - length / 2
        return size / omega * _envelope(s, length, power) * np.sin(wave(s))

    return block, electric if on == "E" else _minus_slope(vector)


def _rise(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``sin^2(pi y / 2)``, which stays at 1 for y above 1."""
    return np.asarray(np.sin(0.5 * np.pi * np.minimum(y, 1)) ** 2)


def _envelope(s: NDArray[np.float64], length: float, power: float) -> NDArray[np.float64]:
    """Return the envelope about its centre: a power of the cosine, or a Gaussian cut at three of its FWHM."""
    if power:
        return np.asarray(np.maximum(np.cos(np.pi * s / length), 0.0) ** power)
    fwhm, extent = length / 6.0, 3.0

    def lowered(u: Any, k: float) -> Any:
        edge = np.exp(-4 * k * extent**2)
        return (np.exp(-4 * k * u * u) - edge) / (1 - edge)

    k = brentq(
        lambda k: lowered(0.5, k) - 2**-0.5, 0.1, 1.0, xtol=1e-15
    )  # half of the intensity at half of the fwhm
    return np.asarray(lowered(s / fwhm, k))


def _minus_slope(vector: Curve) -> Curve:
    """Return ``E = -dA/dt`` by differences of fourth order."""

    def electric(s: NDArray[np.float64]) -> NDArray[np.float64]:
        h = STEP
        return -(8 * (vector(s + h) - vector(s - h)) - (vector(s + 2 * h) - vector(s - 2 * h))) / (12 * h)

    return electric


def _shifted(field: Curve, delay: float, sign: int, length: float = math.inf) -> Curve:
    def curve(t: NDArray[np.float64]) -> NDArray[np.float64]:
        s = np.asarray(t, float) - delay
        return sign * np.where((s >= 0) & (s <= length), field(np.clip(s, 0.0, min(length, 1e6))), 0.0)

    return curve


def _tabled_pulse(
    block: dict[str, Any], folder: Path, length: float, size: float, delay: float, sign: int
) -> tuple[dict[str, Any], Curve]:
    from scipy.interpolate import CubicSpline

    t = np.linspace(0.0, length, 61)
    values = size * np.sin(np.pi * t / length) ** 2 * np.sin(9 * t / length)
    path = folder / f"pulse{len(list(folder.glob('pulse*')))}.txt"
    np.savetxt(path, np.column_stack([t, values]), fmt="%.17g")
    return block | {"file": str(path)}, _shifted(CubicSpline(t, values), delay, sign, length)


# -------------------------------------------------------------------------------------------- absorbers


def absorber(rng: np.random.Generator, xmin: float, xmax: float) -> tuple[dict[str, Any], Curve, Curve]:
    """Return the block of a random absorber, W(x), and the mask of one step."""
    u = lambda low, high: _three(rng, low, high)  # noqa: E731
    kind = str(rng.choice(["none", "none", "none", "cap", "manolopoulos", "mask"]))
    block: dict[str, Any] = {"type": kind}
    if kind != "none":
        width = round(float(rng.uniform(0.1, 0.2)) * (xmax - xmin), 3)
        if kind == "cap":
            block |= {"width": width, "strength": u(0.01, 0.5), "power": float(rng.choice([2, 3, 4]))}
        elif kind == "mask":
            block |= {"width": width, "power": float(rng.choice([0.125, 0.25, 1.0]))}
        else:
            block |= {"kmin": float(f"{WIDTH / (0.4 * width):.4g}"), "delta": 0.2}
    return block, *absorption(block, xmin, xmax)


def absorption(block: dict[str, Any], xmin: float, xmax: float) -> tuple[Curve, Curve]:
    """Return W(x) of an absorber between two walls, and its mask of one step."""

    def depth(x: NDArray[np.float64], strip: float) -> NDArray[np.float64]:
        return np.clip(np.maximum(x - (xmax - strip), (xmin + strip) - x), 0.0, None)

    kind, width, power = block["type"], block.get("width", 0.0), block.get("power", 0.0)
    if kind == "none":
        return np.zeros_like, np.ones_like
    if kind == "cap":
        strength = block["strength"]
        return lambda x: strength * (depth(x, width) / width) ** power, np.ones_like
    if kind == "mask":

        def mask(x: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.maximum(np.cos(0.5 * np.pi * depth(x, width) / width), 0.0) ** power

        return np.zeros_like, mask
    c, delta, kmin = WIDTH, block["delta"], block["kmin"]
    strip = c / (2 * delta * kmin)

    def cap(x: NDArray[np.float64]) -> NDArray[np.float64]:
        y = np.minimum(2 * delta * kmin * depth(x, strip), c * (1 - 1e-6))
        a, b = 1 - 16 / c**3, (1 - 17 / c**3) / c**2
        return 0.5 * kmin**2 * np.maximum(a * y - b * y**3 + 4 / (c - y) ** 2 - 4 / (c + y) ** 2, 0.0)

    return cap, np.ones_like
