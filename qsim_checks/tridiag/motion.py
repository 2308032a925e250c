"""Random decks of ``task: propagate``.

The oracle expands the wavefunction in the sines between the walls (collocation, spectral accuracy) and takes Strang steps,
extrapolated in the step; where the walls are felt all the time, the Hamiltonian without the field is diagonalised.  Its own error
is the difference of the last two extrapolants and the largest of three numbers of sines: the edges of absorbers and the points of
tables, where potentials are not smooth, lie differently between the collocation points of each, and of two of them the errors may
agree by chance.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.tridiag import fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.tridiag.fields import Curve

__all__ = ["motion"]

WALLED = 0.2  # share of the decks whose electron feels the walls of its box all the time
LARGEST = 5e6  # points times steps
FOURTH, SEARCHED = (
    0.15,
    0.06,
)  # shares of the decks with steps of order 4, and of those that state an accuracy
SCANNED = 0.1  # share of the decks that scan a number
IONISED = 0.3  # share of the decks with a threshold that ask for the ionisation
THRESHOLD = ("softcore", "morse", "square_well", "gaussian_well", "poschl_teller", "yukawa")  # at zero
FEW_POINTS = 300  # up to which a deck finds its steps
LONG = 4.2e6  # of the decks whose companions are coarser
FEWEST = 255  # sines
RESOLVED = 0.14  # distance of the points of the oracle, bohr; those of tables are 0.25 bohr apart
FEWER = (0.71, 0.87)  # shares of the sines with which the oracle is repeated


@dataclass
class _World:
    """What the oracle knows of a deck."""

    xmin: float
    xmax: float
    points: int
    times: list[float]
    dt: float
    potential: Curve
    electric: Curve
    cap: Curve
    mask: Curve
    initial: dict[str, Any]
    levels: int
    radii: list[float]
    places: list[float]
    walled: bool
    free: bool


def motion(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: propagate``."""
    walled = bool(rng.random() < WALLED)
    block, potential, (xmin, xmax) = (fields.walled if walled else fields.potential)(rng, folder)
    duration = float(f"{10 ** rng.uniform(0.2, 1.35):.4g}")
    points, steps = _sizes(rng, xmax - xmin, duration)
    confined = walled or block["type"] in ("harmonic", "double_well", "polynomial")
    strip, cap, mask = (
        ({"type": "none"}, np.zeros_like, np.ones_like) if confined else fields.absorber(rng, xmin, xmax)
    )
    deck: dict[str, Any] = {
        "task": "propagate",
        "grid": {"xmin": xmin, "xmax": xmax, "points": points},
        "potential": block,
        "initial": _between_walls(rng, xmin, xmax) if walled else _initial(rng, block["type"], folder),
        "absorber": strip,
        "time": {
            "steps": steps,
            "t_final": duration,
            "outputs": int(rng.choice([1, 5, 20])),
            "coarse": "warn",
        },
    }
    deck["grid"]["stencil"] = str(rng.choice(["numerov", "numerov", "three_point"]))
    electric: Curve = np.zeros_like
    breaks: list[float] = []
    pulses: list[Any] = []
    if rng.random() < 0.6:
        pulses = [fields.pulse(rng, folder, duration) for _ in range(int(rng.choice([1, 1, 2])))]
        deck["laser"] = {
            "gauge": str(rng.choice(["length", "velocity"])),
            "pulses": [found[0] for found in pulses],
        }
        curves = [found[1] for found in pulses]
        breaks = sorted({t for found in pulses for t in found[2] if 0.0 < t < duration})

        def electric(t: NDArray[np.float64]) -> NDArray[np.float64]:
            return sum((curve(t) for curve in curves), start=np.zeros_like(t))

    levels = int(rng.integers(1, 5)) if walled or block["type"] != "free" or rng.random() < 0.3 else 0
    radii = [round(float(rng.uniform(1, 6)), 2)] if rng.random() < 0.5 else []
    places = [round(float(rng.uniform(max(-3, xmin), min(3, xmax))), 2)] if rng.random() < 0.5 else []
    deck["observe"] = [{"populations": {"levels": levels}}] if levels else []
    deck["observe"] += [{"norm_within": radii}] if radii else []
    deck["observe"] += [{"norm_right": places}] if places else []
    single = bool(rng.random() < 0.1)
    deck["run"] = {"precision": "single" if single else "double"}
    deck["solver"] = _solver(rng, points)
    ionised = block["type"] in THRESHOLD and bool(rng.random() < IONISED)
    deck["observe"] += ["ionisation"] if ionised else []
    world = _World(
        xmin, xmax, points, [0.0, *breaks, duration], duration / steps, potential, electric, cap, mask, deck["initial"], levels,
        radii, places, walled, block["type"] in THRESHOLD,
    )  # fmt: skip
    if strip["type"] != "mask":
        deck["time"] |= {"order": 4} if rng.random() < FOURTH else {}
        if rng.random() < SEARCHED and points < FEW_POINTS:
            del deck["time"]["steps"]
            deck["time"]["accuracy"] = float(f"{10 ** rng.uniform(-6, -3):.1e}")
            return Trial(deck, lambda results: _judge(world, results))
    if rng.random() < SCANNED:
        worlds = _scan(rng, deck, world, pulses)
        return Trial(deck, lambda results: _judge_scan(worlds, results))
    return Trial(deck, lambda results: _judge(world, results))


def _scan(
    rng: np.random.Generator,
    deck: dict[str, Any],
    world: _World,
    pulses: Sequence[tuple[dict[str, Any], Curve, list[float]]],
) -> list[_World]:
    """Add a scan of two values to a deck, and return the world of each run: of functions that move, or grow."""
    block = deck["potential"]
    if pulses and rng.random() < 0.6:
        number = int(rng.integers(len(pulses)))
        pulse = pulses[number][0]
        key = "E0" if "E0" in pulse and rng.random() < 0.5 else "delay"
        before = pulse.get(key, 0.0)
        after = round(
            before * float(rng.uniform(0.3, 1.2)) if key == "E0" else before + float(rng.uniform(0.1, 2.0)), 4
        )
        deck["scan"] = {"pulse": number, key: [before, after]}
        grown, late = (after / before, 0.0) if key == "E0" else (1.0, after - before)

        def electric(t: NDArray[np.float64]) -> NDArray[np.float64]:
            curves = [one[1] for one in pulses]
            own = grown * curves.pop(number)(t - late)
            return sum((curve(t) for curve in curves), start=own)

        end = world.times[-1]
        breaks = {t + late * (k == number) for k, one in enumerate(pulses) for t in one[2]}
        times = [0.0, *sorted(t for t in breaks if 0.0 < t < end), end]
        return [world, replace(world, electric=electric, times=times)]
    if "x0" not in block:
        return [world]
    curve, apart = world.potential, round(float(rng.uniform(-1.0, 1.0)), 3)
    deck["scan"] = {"potential": {"x0": [block["x0"], block["x0"] + apart]}}
    return [world, replace(world, potential=lambda x: curve(x - apart))]


def _between_walls(rng: np.random.Generator, xmin: float, xmax: float) -> dict[str, Any]:
    """Return levels of the box, or a packet in it whose tails the walls hardly cut."""
    if rng.random() < 0.7:
        first, second = (int(level) for level in rng.choice(5, 2, replace=False))
        return {
            "type": "superposition",
            "levels": {str(first): 1.0, str(second): round(float(rng.uniform(0, 1)), 2)},
        }
    width = round(0.07 * (xmax - xmin), 3)
    k0 = round(float(rng.uniform(-2, 2)), 3)
    return {"type": "gaussian", "x0": round(0.5 * (xmin + xmax), 3), "k0": k0, "width": width}


def _sizes(rng: np.random.Generator, width: float, duration: float) -> tuple[int, int]:
    """Return points and steps, from coarse to fine."""
    dx, dt = 10 ** rng.uniform(-1.3, -0.1), 10 ** rng.uniform(-2.3, -0.3)
    points, steps = max(int(width / dx), 12), max(int(duration / dt), 1)
    if rng.random() < 0.12:  # long enough for coarser companions
        grow = (LONG / (points * steps)) ** 0.5
        points, steps = max(int(points * grow), 12), max(int(steps * grow), 4)
        steps = max(steps, int(LONG / points))
    while points * steps > LARGEST:
        points, steps = max(points * 3 // 4, 12), max(steps * 3 // 4, 1)
    return points, steps


def _initial(rng: np.random.Generator, potential: str, folder: Path) -> dict[str, Any]:
    kind = str(
        rng.choice(
            ["eigenstate", "superposition", "gaussian", "expression", "file"], p=[0.35, 0.2, 0.25, 0.1, 0.1]
        )
    )
    if potential in ("free", "eckart") and kind in ("eigenstate", "superposition"):
        kind = "gaussian"
    x0, k0, width = (
        round(float(v), 3) for v in (rng.uniform(-2, 2), rng.uniform(-2, 2), rng.uniform(0.6, 1.6))
    )
    if kind == "eigenstate":
        if rng.random() < 0.2:
            return {"type": kind, "level": 0, "method": "imaginary_time"}
        return {"type": kind, "level": int(rng.integers(0, 3))}
    if kind == "superposition":
        return {
            "type": kind,
            "levels": {"0": 1.0, str(int(rng.integers(1, 3))): float(round(rng.uniform(0.2, 1), 2))},
        }
    if kind == "gaussian":
        return {"type": kind, "x0": x0, "k0": k0, "width": width}
    if kind == "expression":
        return {
            "type": kind,
            "real": f"exp(-(x - {x0})^2 / 4) * cos({k0} * x)",
            "imag": f"exp(-(x - {x0})^2 / 4) * sin({k0} * x)",
        }
    x = np.linspace(-14, 14, 1401)
    psi = np.exp(-((x - x0) ** 2) / (4 * width**2) + 1j * k0 * x)
    np.savetxt(folder / "state.txt", np.column_stack([x, psi.real, psi.imag]), fmt="%.17g")
    return {"type": kind, "file": str(folder / "state.txt")}


def _solver(rng: np.random.Generator, points: int) -> dict[str, Any]:
    if rng.random() < 0.8 or points > 300:
        return {"mode": str(rng.choice(["auto", "auto", "exact"]))}
    if rng.random() < 0.3:
        return {"blocks": int(rng.integers(2, points // 3))}
    return {"type": str(rng.choice(["thomas", "lapack"]))}


# ---------------------------------------------------------------------------------------------- the truth


def _judge(world: _World, results: Results) -> Sequence[Claim]:
    truth, errors = _truth(world)
    claims = []
    for name, value in truth.items():
        if name == "bound_population" and name not in results.scalars:
            continue
        scalar: Any = results.scalars[name]
        found, claimed = float(scalar.value), scalar.error
        claims.append(
            Claim(
                name,
                found - value,
                float("nan") if claimed is None else claimed,
                0.0,
                errors[name],
                "no errors are claimed",
            )
        )
    return claims


def _judge_scan(worlds: Sequence[_World], results: Results) -> Sequence[Claim]:
    """Return the claims of a scan, or of a deck that has nothing to scan."""
    if len(worlds) == 1:
        return _judge(worlds[0], results)
    claims = []
    for run, world in enumerate(worlds):
        truth, errors = _truth(world)
        for name in sorted(name for name in truth if f"run_{name}" in results):
            claimed = results[f"run_{name}_error"][run] if f"run_{name}_error" in results else float("nan")
            off = float(results[f"run_{name}"][run]) - truth[name]
            claims.append(
                Claim(f"{name} of run {run}", off, float(claimed), 0.0, errors[name], "no errors are claimed")
            )
    return claims


def _truth(world: _World) -> tuple[dict[str, float], dict[str, float]]:
    """Return the true numbers and their errors."""
    base = max(60, int(world.times[-1] * 10))
    most = max(FEWEST, int((world.xmax - world.xmin) / RESOLVED))
    many = _Box(world, _fast(most))
    first = many.numbers(base, 1)
    rough = [_Box(world, _fast(int(share * most))).numbers(base, 1) for share in FEWER]
    second, third = many.numbers(base, 2), many.numbers(base, 4)
    out, errors = {}, {}
    for name in first:
        one, two = ((4 * b - a) / 3 for a, b in ((first[name], second[name]), (second[name], third[name])))
        out[name] = (16 * two - one) / 15
        apart = max(abs(numbers[name] - first[name]) for numbers in rough)
        errors[name] = 3.0 * (abs(out[name] - two) + apart) + 1e-11 * (1.0 + abs(out[name]))
    return out, errors


def _fast(sines: int) -> int:
    """Return the next number of sines whose transforms are fast."""
    from scipy.fft import next_fast_len

    return int(next_fast_len(sines + 1, real=True)) - 1


class _Box:
    """The box with a number of sines; psi at the collocation points."""

    def __init__(self, world: _World, sines: int) -> None:
        from scipy.fft import dst

        self.world, self.sines = world, sines
        width = world.xmax - world.xmin
        self.step = width / (sines + 1)
        self.x: NDArray[np.float64] = np.asarray(world.xmin + self.step * np.arange(1, sines + 1), float)
        self.k = np.pi * np.arange(1, sines + 1) / width
        self.v = world.potential(self.x)
        sine = dst(np.eye(sines), type=1, axis=0, norm="ortho")
        self.h = sine @ (0.5 * self.k[:, None] ** 2 * sine) + np.diag(self.v)
        self.h = 0.5 * (self.h + self.h.T)
        needed = (
            world.levels
            or world.walled
            or world.free
            or world.initial["type"] in ("eigenstate", "superposition")
        )
        self.energies: Any = None
        self.states: Any = None
        if needed:
            self.energies, self.states = np.linalg.eigh(self.h)

    def level(self, number: int) -> NDArray[np.float64]:
        """Return an eigenstate; its first lobe is positive."""
        psi = self.states[:, number]
        fine = self._fine(psi)[1].real
        lobe = int(np.argmax(np.abs(fine) > 1e-2 * np.abs(fine).max()))
        return psi if fine[lobe] > 0 else -psi

    def start(self) -> NDArray[np.complex128]:
        """Return the initial state, normalised."""
        block, x = self.world.initial, self.x
        kind = block["type"]
        if kind == "eigenstate":
            psi = self.level(block["level"]) + 0j
        elif kind == "superposition":
            psi = sum(weight * self.level(int(level)) for level, weight in block["levels"].items()) + 0j
        elif kind == "gaussian":
            psi = np.exp(-((x - block["x0"]) ** 2) / (4 * block["width"] ** 2) + 1j * block["k0"] * x)
        elif kind == "expression":
            x0, k0 = (
                float(v) for v in re.findall(r"- (-?[\d.]+)\)|cos\((-?[\d.]+)", block["real"]) for v in v if v
            )
            psi = np.exp(-((x - x0) ** 2) / 4 + 1j * k0 * x)
        else:
            from scipy.interpolate import CubicSpline

            table = np.loadtxt(block["file"])
            psi = CubicSpline(table[:, 0], table[:, 1] + 1j * table[:, 2])(x)
            psi = np.where(np.abs(x) <= 14, psi, 0.0)
        return np.asarray(psi / np.linalg.norm(psi), complex)

    def numbers(self, base: int, factor: int) -> dict[str, float]:
        """Return the scalars of the run by about ``base factor`` Strang steps."""
        world = self.world
        psi = self.start()
        out = {"energy_initial": float((psi.conj() @ self.h @ psi).real)}
        for first, last in itertools.pairwise(world.times):  # the field is smooth between them
            if last - first < 1e-12:
                continue
            part = factor * max(1, round(base * (last - first) / world.times[-1]))
            psi = self._propagate(psi, first, last, part)
        density = np.abs(psi) ** 2
        out["norm_final"] = float(density.sum())
        out["energy_final"] = float((psi.conj() @ self.h @ psi).real)
        out["dipole_final"] = float(density @ self.x)
        for level in range(world.levels):
            out[f"population_{level}"] = float(abs(self.states[:, level] @ psi) ** 2)
        if world.free and self.states is not None:
            out["bound_population"] = float(np.sum(np.abs(self.states[:, self.energies < 0.0].T @ psi) ** 2))
        if world.radii or world.places:
            self._parts(psi, out)
        return out

    def _propagate(self, psi: NDArray[Any], first: float, last: float, steps: int) -> NDArray[Any]:
        from scipy.fft import dst

        world, h = self.world, (last - first) / steps
        if world.walled:
            return self._between_walls(psi, first, h, steps)
        absorbed = np.exp(-0.5 * h * world.cap(self.x)) * world.mask(self.x) ** (0.5 * h / world.dt)
        half = np.exp(-0.5j * h * self.v) * absorbed
        whole = np.exp(-0.5j * h * self.k**2)
        field = world.electric(np.asarray(first + (np.arange(steps) + 0.5) * h, float))
        moving = bool(np.any(field))
        for e in field:
            kick = half * np.exp(-0.5j * h * e * self.x) if moving else half
            psi = kick * dst(whole * dst(kick * psi, type=1, norm="ortho"), type=1, norm="ortho")
        return psi

    def _between_walls(self, psi: NDArray[Any], first: float, h: float, steps: int) -> NDArray[Any]:
        """Take Strang steps of the field alone: V that does not vanish at the walls takes splitting its order."""
        field = self.world.electric(np.asarray(first + (np.arange(steps) + 0.5) * h, float))
        moving = bool(np.any(field))
        whole = np.exp(-1j * (h if moving else h * steps) * self.energies)
        for e in field if moving else field[:1]:
            kick = np.exp(-0.5j * h * e * self.x)
            psi = kick * (self.states @ (whole * (kick * psi @ self.states)))
        return psi

    def _fine(self, psi: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
        """Return the wavefunction on a grid sixteen times finer, for an integral over x."""
        from scipy.fft import dst

        sines = 16 * (self.sines + 1) - 1
        coefficients = np.zeros(sines, complex)
        coefficients[: self.sines] = dst(psi + 0j, type=1, norm="ortho")
        fine = dst(coefficients, type=1, norm="ortho") * np.sqrt(16.0 / self.step)
        first = self.x[0] - self.step
        return first + self.step / 16 * np.arange(1, sines + 1), fine

    def _parts(self, psi: NDArray[Any], out: dict[str, float]) -> None:
        from scipy.interpolate import CubicSpline

        x, fine = self._fine(psi)
        density = CubicSpline(x, np.abs(fine) ** 2)
        for radius in self.world.radii:
            low, high = max(-radius, x[0]), min(radius, x[-1])
            out[f"norm_within_{radius:g}"] = float(density.integrate(low, high))
        for place in self.world.places:
            out[f"norm_right_{place:g}"] = float(density.integrate(place, x[-1]))
