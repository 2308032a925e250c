"""Random tables of potentials and fields, random pulses narrower than a step, and levels that walls squeeze.

The oracle of a line expands in sines between the walls of the deck, with matrix elements by Gauss-Legendre sums between the
corners of the potential, and takes Strang steps on a mesh that follows the pulses; that of an atom is
:class:`qsim_checks.tridiag.atoms.Basis` on such a mesh.  A table samples a function that is straight between its rows, or a
smooth one that the oracle knows.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Trial
from qsim_checks.tridiag.atoms import Basis, claims_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.coverage import Claim

    Curve = Callable[[Any], Any]

__all__ = ["Line", "narrow", "squeezed", "tables"]

SINES = (130, 100)
LEVELS = 3
# of an atom with too few l, which says so; walls are the oracle's, too
SAID = r"last l"


class Line:
    """Sines between two walls, and the levels of a potential in them."""

    def __init__(self, potential: Curve, box: tuple[float, float], corners: Any, count: int) -> None:
        low, high = box
        length = high - low
        edges = np.unique([*np.linspace(low, high, count), *(c for c in corners if low < c < high)])
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half = 0.5 * np.diff(edges)
        x = (edges[:-1, None] + half[:, None] * (1.0 + nodes)).ravel()
        w = (half[:, None] * weights).ravel()
        k = np.pi * np.arange(1, count + 1) / length
        waves = math.sqrt(2.0 / length) * np.sin(np.outer(x - low, k))
        h = (waves.T * (w * potential(x))) @ waves + np.diag(0.5 * k * k)
        self.energies, turn = np.linalg.eigh(h)
        # the first lobe of a level is positive, as in the program
        for level in range(LEVELS):
            psi = waves @ turn[:, level]
            turn[:, level] *= np.sign(psi[np.argmax(np.abs(psi) > 1e-2 * np.max(np.abs(psi)))])
        self.vectors = turn
        self.x = turn.T @ ((waves.T * (w * x)) @ waves) @ turn
        self.places, self.turn = np.linalg.eigh(self.x)

    def run(self, v: NDArray[Any], field: Curve, mesh: NDArray[np.float64]) -> NDArray[Any]:
        """Return the state at the end: Strang steps, with the mean of the field over each."""
        nodes, weights = np.polynomial.legendre.leggauss(4)
        for start, end in itertools.pairwise(mesh):
            dt = end - start
            mean = 0.5 * float(weights @ field(start + 0.5 * dt * (1.0 + nodes)))
            half = np.exp(-0.5j * dt * self.energies)
            v = half * (self.turn @ (np.exp(-1j * dt * mean * self.places) * (self.turn.T @ (half * v))))
        return v

    def numbers(self, start: NDArray[Any], field: Curve, mesh: NDArray[np.float64]) -> dict[str, float]:
        """Return the numbers of a run from amplitudes of the lowest levels, extrapolated in the step."""
        v = np.zeros(self.energies.size, dtype=complex)
        v[: start.size] = start / np.linalg.norm(start)
        finer = np.sort(np.concatenate([mesh, 0.5 * (mesh[1:] + mesh[:-1])]))
        ends = [self.run(v, field, one) for one in (mesh, finer)]
        v = (4.0 * ends[1] - ends[0]) / 3.0
        found = {f"population_{k}": float(abs(v[k]) ** 2) for k in range(LEVELS)}
        found["energy_initial"] = float(
            np.abs(start / np.linalg.norm(start)) ** 2 @ self.energies[: start.size]
        )
        found["energy_final"] = float(np.abs(v) ** 2 @ self.energies)
        found["dipole_final"] = float((v.conj() @ self.x @ v).real)
        return found


def _mesh(duration: float, places: Any, widths: Any) -> NDArray[np.float64]:
    """Return times that resolve a quiet run, and pulses of some widths about some places."""
    parts = [np.linspace(0.0, duration, math.ceil(duration / 0.04) + 1)]
    parts += [np.linspace(p - 6.0 * w, p + 6.0 * w, 97) for p, w in zip(places, widths, strict=True)]
    found = np.unique(np.clip(np.concatenate(parts), 0.0, duration))
    return found[np.append(True, np.diff(found) > 1e-12)]


def _well(rng: np.random.Generator) -> tuple[dict[str, Any], Curve]:
    depth, width = round(float(rng.uniform(0.8, 2.0)), 3), round(float(rng.uniform(0.8, 1.6)), 3)
    block = {"type": "gaussian_well", "depth": depth, "width": width}
    return block, lambda x: -depth * np.exp(-(x**2) / (2.0 * width**2))


def _judged(
    curve: Curve,
    field: Curve,
    box: tuple[float, float],
    corners: Any,
    mesh: NDArray[np.float64],
    start: NDArray[Any],
) -> Callable[[Results], list[Claim]]:
    def judge(results: Results) -> list[Claim]:
        best, other = (Line(curve, box, corners, n).numbers(start, field, mesh) for n in SINES)
        return claims_of(results, best, other, "(?!)")

    return judge


# ------------------------------------------------------------------------------------------------- tables


def _straight(
    rng: np.random.Generator, low: float, high: float, size: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows of a trapezoid or of some, flat at both ends, that ramps of any length join."""
    count = int(rng.integers(1, 4))
    knots = np.sort(rng.uniform(low + 0.1 * (high - low), high - 0.1 * (high - low), 4 * count))
    # no ramp is a jump
    gaps = np.cumsum(np.diff(knots, prepend=low) + 0.02 * (high - low))
    knots = low + (high - low) * (0.1 + 0.8 * gaps / (gaps[-1] + gaps[0]))
    levels = np.zeros(4 * count)
    for k in range(count):
        levels[4 * k + 1 : 4 * k + 3] = size * rng.uniform(-1.0, 1.0)
    return np.array([low, *knots, high]), np.array([0.0, *levels, 0.0])


def _smooth(
    rng: np.random.Generator, low: float, high: float, size: float
) -> tuple[NDArray[np.float64], Curve]:
    """Return the points of a table, even or not, dense or not, and a function that is zero at both ends."""
    middle, width = 0.5 * (low + high), float(rng.uniform(0.08, 0.16)) * (high - low)
    k, phase = float(rng.uniform(0.0, 1.5)) / width, float(rng.uniform(-1, 1))

    def curve(x: Any) -> Any:
        return size * np.exp(-((x - middle) ** 2) / (2.0 * width**2)) * np.cos(k * (x - middle) + phase)

    count = int(10 ** rng.uniform(1.3, 2.7))
    x = np.linspace(low, high, count)
    if rng.random() < 0.5:
        x[1:-1] += rng.uniform(-0.4, 0.4, count - 2) * (x[1] - x[0])
    return x, curve


def _table(
    rng: np.random.Generator, path: Path, low: float, high: float, size: float
) -> tuple[dict[str, Any], Curve, NDArray[np.float64]]:
    """Write a random table; return its keys, the function that it samples, and where that has corners."""
    block: dict[str, Any] = {"file": str(path)}
    if rng.random() < 0.5:
        x, y = _straight(rng, low, high, size)
        if rng.random() < 0.4:
            # more rows on the same lines
            more = np.unique([*x, *np.linspace(low, high, 40)])
            x, y, corners = more, np.interp(more, x, y), x
        else:
            corners = x
        if rng.random() < 0.3:
            block["interpolation"] = "linear"
        knots, values = x, y
        curve: Curve = lambda t: np.interp(t, knots, values)  # noqa: E731
    else:
        x, curve = _smooth(rng, low, high, size)
        y, corners = curve(x), np.zeros(0)
    np.savetxt(path, np.column_stack([x, y]), fmt="%.17g")
    return block, curve, corners


def tables(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: propagate`` whose potential, or field, or both are tables."""
    wall = round(float(rng.uniform(11, 15)), 2)
    box, duration = (-wall, wall), round(float(rng.uniform(3, 9)), 2)
    which = int(rng.integers(3))
    block, curve = _well(rng)
    corners: NDArray[np.float64] = np.zeros(0)
    if which != 1:
        keys, lines, corners = _table(rng, folder / "potential.txt", -wall, wall, 1.5)
        block, curve = {"type": "table", **keys}, lines
    times: NDArray[np.float64] = np.zeros(0)
    pulse: dict[str, Any] = {"shape": "static", "E0": 0.03}
    field: Curve = lambda t: 0.03 + 0.0 * t  # noqa: E731
    if which != 0:
        keys, inner, times = _table(rng, folder / "pulse.txt", 0.0, duration, 0.2)
        pulse, field = {"shape": "table", **keys}, inner
    start = np.array([1.0]) if rng.random() < 0.5 else np.array([1.0, 0.5j])
    deck = _deck(rng, box, duration, block, [pulse], start)
    mesh = np.unique([*_mesh(duration, [], []), *times])
    return Trial(deck, _judged(curve, field, box, corners, mesh, start))


def _deck(
    rng: np.random.Generator,
    box: tuple[float, float],
    duration: float,
    block: Any,
    pulses: list[Any],
    start: Any,
) -> dict[str, Any]:
    superposed = {"type": "superposition", "levels": {"0": 1.0, "1": "0.5i"}}
    return {
        "task": "propagate",
        "grid": {"xmin": box[0], "xmax": box[1], "points": int(rng.integers(250, 500))},
        "potential": block,
        "initial": {"type": "eigenstate", "level": 0} if start.size == 1 else superposed,
        "laser": {"gauge": str(rng.choice(["length", "velocity"])), "pulses": pulses},
        "time": {"dt": round(float(10 ** rng.uniform(-2.0, -1.0)), 4), "t_final": duration, "coarse": "warn"},
        "observe": [{"populations": {"levels": LEVELS}}],
    }


# ------------------------------------------------------------------------------------------------- narrow


def _kick(
    rng: np.random.Generator, folder: Path, duration: float, dt: float, number: int
) -> tuple[dict[str, Any], Curve, float, float]:
    """Draw a pulse that may be narrower than a step; return its keys, its field, its place and its width."""
    width = float(f"{dt * 10 ** rng.uniform(-1.7, 0.7):.4g}")
    place = round(float(rng.uniform(0.15, 0.85)) * duration, 4)
    kick = float(rng.uniform(0.05, 0.3)) * float(rng.choice([-1, 1]))
    kind = str(rng.choice(["expression", "sech", "sin2", "static", "table"]))
    block: dict[str, Any]
    if kind == "expression":
        peak = float(f"{kick / (width * math.sqrt(math.pi)):.6g}")
        block = {"shape": kind, "value": f"{peak!r}*exp(-((t-{place!r})/{width!r})^2)"}
        return block, lambda t: peak * np.exp(-(((t - place) / width) ** 2)), place, width
    if kind == "sech":
        peak = float(f"{kick / (2.0 * width):.6g}")
        block = {"shape": "expression", "value": f"{peak!r}*sech((t-{place!r})/{width!r})^2"}
        return block, lambda t: peak / np.cosh(np.clip((t - place) / width, -300, 300)) ** 2, place, width
    if kind == "static":
        peak = float(f"{kick / width:.6g}")
        constant: dict[str, Any] = {
            "shape": kind,
            "E0": abs(peak),
            "delay": place,
            "duration": width,
            "polarity": int(np.sign(peak)),
        }
        return constant, lambda t: np.where((t >= place) & (t <= place + width), peak, 0.0), place, width
    rows = place + width * np.array([-2.0, -1.0, -0.4, 0.4, 1.0, 2.0])
    values = kick / (1.4 * width) * np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    path = folder / f"kick{number}.txt"
    t, e = np.array([0.0, *rows, duration]), np.array([0.0, *values, 0.0])
    np.savetxt(path, np.column_stack([t, e]), fmt="%.17g")
    return (
        {"shape": "table", "file": str(path), "interpolation": "linear"},
        lambda s: np.interp(s, t, e),
        place,
        width,
    )


def _kicks(
    rng: np.random.Generator, folder: Path, duration: float, dt: float
) -> tuple[list[Any], Curve, NDArray[np.float64]]:
    """Draw one narrow pulse or two; return the pulses, their field, and a mesh for the oracle."""
    found = [_kick(rng, folder, duration, dt, k) for k in range(int(rng.integers(1, 3)))]
    curves = [one[1] for one in found]
    mesh = _mesh(duration, [one[2] for one in found], [one[3] for one in found])
    edges = [place + far * width for _, _, place, width in found for far in (-1.0, -0.4, 0.0, 0.4, 1.0)]
    return [one[0] for one in found], lambda t: sum(curve(t) for curve in curves), np.unique([*mesh, *edges])


def narrow(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of a line or an atom in pulses that may be narrower than a step, at any times, in any gauge."""
    dt, duration = round(float(10 ** rng.uniform(-1.7, -1.0)), 4), round(float(rng.uniform(2, 5)), 2)
    pulses, field, mesh = _kicks(rng, folder, duration, dt)
    if rng.random() < 0.3:
        return _kicked_atom(rng, pulses, field, mesh, dt)
    wall = round(float(rng.uniform(11, 15)), 2)
    block, curve = _well(rng)
    start = np.array([1.0]) if rng.random() < 0.5 else np.array([1.0, 0.5j])
    deck = _deck(rng, (-wall, wall), duration, block, pulses, start)
    deck["time"]["dt"] = dt
    return Trial(deck, _judged(curve, field, (-wall, wall), np.zeros(0), mesh, start))


def _kicked_atom(
    rng: np.random.Generator, pulses: list[Any], field: Curve, mesh: NDArray[np.float64], dt: float
) -> Trial:
    lmax, duration = 5, float(mesh[-1])
    deck: dict[str, Any] = {
        "task": "atom",
        "atom": {"type": "hydrogen"},
        "grid": {"rmax": 30.0, "dr": 0.25, "l_max": lmax},
        "initial": {"n": 1, "l": 0},
        "laser": {"gauge": str(rng.choice(["length", "velocity"])), "pulses": pulses},
        "time": {
            "dt": dt,
            "t_final": duration,
            "order": int(rng.choice([2, 2, 4])),
            "coarse": "warn",
            "outputs": 2,
        },
        "observe": [{"populations": {"nmax": 2}}],
    }

    def truth(order: int, highest: float) -> dict[str, float]:
        basis = Basis(lambda r: -1.0 / r, 30.0, lmax + 3, 0, order, highest)
        v = np.zeros(basis.diagonal.size, dtype=complex)
        v[0] = 1.0
        for start, end in itertools.pairwise(mesh):
            mean = float(
                np.mean(field(start + (end - start) * np.array([0.2113248654051871, 0.7886751345948129])))
            )
            quiet = np.exp(-1j * (end - start) * basis.diagonal)
            v = basis.exponential(v, 1.0, mean, end - start) if abs(mean) > 1e-9 else quiet * v
        names = {"1s": (0, 0), "2s": (0, 1), "2p": (1, 0)}
        return {f"population_{name}": float(abs(basis.part(v, l)[k]) ** 2) for name, (l, k) in names.items()}

    return Trial(deck, lambda results: claims_of(results, truth(13, 25.0), truth(11, 18.0), SAID))


# ----------------------------------------------------------------------------------------------- squeezed


def squeezed(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a well whose level the walls squeeze; the truth is the level of the endless line."""
    del folder
    # Poschl-Teller: -s (s + 1) / (2 a^2 cosh^2(x / a)) has the levels -(s - n)^2 / (2 a^2)
    a, level = round(float(rng.uniform(0.7, 1.6)), 2), int(rng.integers(0, 3))
    s = level + float(rng.uniform(0.1, 0.6))
    depth = float(f"{s * (s + 1.0) / (2.0 * a * a):.8g}")
    s = -0.5 + math.sqrt(0.25 + 2.0 * depth * a * a)
    energy, tail = -((s - level) ** 2) / (2.0 * a * a), a / (s - level)
    far = float(rng.uniform(1.5, 6.0))
    wall = round(far * tail, 1)
    deck = {
        "task": "propagate",
        "grid": {"xmin": -wall, "xmax": wall, "points": int(max(400, wall / 0.05))},
        "potential": {"type": "poschl_teller", "depth": depth, "a": a},
        "initial": {"type": "eigenstate", "level": level},
        "time": {"dt": 0.05, "t_final": 0.5},
        "observe": [{"populations": {"levels": level + 1}}],
    }
    # nearer walls may be meant: the run says what they do, and claims the level between them
    said = r"walls shape|state of the box" if far < 3.0 else "(?!)"
    known = {"energy_initial": energy, "energy_final": energy}
    return Trial(deck, lambda results: claims_of(results, known, known, said))
