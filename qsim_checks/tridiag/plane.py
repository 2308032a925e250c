"""Random decks of ``task: plane``.

The oracle expands the wave function of both coordinates in the sines between the walls and takes Strang steps with exact kinetic
phases, extrapolated in the step.  Norms by regions are integrals of products of sines in closed form.  Its own error is the
difference of two numbers of sines, and of two extrapolants.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.tridiag import fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.tridiag.fields import Curve

__all__ = ["condensate", "ion", "particle", "plane"]

SINES = (80, 95)
# longest steps of the oracle, a.u.; the finest are half of it
STEP = 0.02
# of the two factors that the levels of one symmetry are told apart by, hartree
PENALTY = 50.0
LEVELS = 2
# of a coordinate that is not bounded
EVERYWHERE = [-math.inf, math.inf]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass
class _World:
    """What the oracle knows of a deck.

    Attributes
    ----------
    ends : pair of (float, float)
        Walls of both coordinates.
    duration, dt : float
        Of the run, and of its steps.
    potential : function
        V(x, y) on arrays.
    push : pair of functions
        Energy per length that the field gives either coordinate, of time.
    breaks : list of float
        Times at which these are not smooth.
    caps, masks : pair of functions
        Absorbers of either coordinate.
    initial : dict
        Block of the deck.
    dipoles : (1 or 2, 2)
        Factors of both coordinates in the dipole.
    masses : pair of float
    exchange : int
    radius : float or None
        Of the regions of two particles.
    g : float
        Factor of ``|psi|^2`` in the potential.
    boxes : dict
        Lowest and highest value of both coordinates in parts of the grid, by the scalars of their norms.
    """

    ends: tuple[tuple[float, float], tuple[float, float]]
    duration: float
    dt: float
    potential: Callable[[Any, Any], Any]
    push: tuple[Curve, Curve]
    breaks: list[float]
    caps: tuple[Curve, Curve]
    masks: tuple[Curve, Curve]
    initial: dict[str, Any]
    dipoles: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    masses: tuple[float, float] = (1.0, 1.0)
    exchange: int = 0
    radius: float | None = None
    g: float = 0.0
    boxes: dict[str, tuple[tuple[float, float], tuple[float, float]]] = dataclasses.field(
        default_factory=dict
    )


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
    world = _World(
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
    return Trial(deck, lambda results: _judge(world, results))


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
    world = _World(
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
    return Trial(deck, lambda results: _judge(world, results))


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
    world = _World(
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
    return Trial(deck, lambda results: _judge(world, results))


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
    world = _World(
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
    return Trial(deck, lambda results: _judge(world, results))


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


class _Sines:
    """The two coordinates in sine waves between the walls."""

    def __init__(self, world: _World, count: int) -> None:
        self.world = world
        lengths = [high - low for low, high in world.ends]
        self.k = [np.pi * np.arange(1, count + 1) / length for length in lengths]
        self.h = [length / (count + 1) for length in lengths]
        self.cell = self.h[0] * self.h[1]
        self.x, self.y = (
            np.asarray(low + h * np.arange(1, count + 1), dtype=float)
            for (low, _), h in zip(world.ends, self.h, strict=True)
        )
        self.v = world.potential(self.x[:, None], self.y)
        first, second = (0.5 * k * k / mass for k, mass in zip(self.k, world.masses, strict=True))
        self.kinetic = first[:, None] + second
        with np.errstate(divide="ignore"):
            gammas = [
                np.asarray(cap(at)) - np.asarray(np.log(mask(at))) / world.dt
                for cap, mask, at in zip(world.caps, world.masks, (self.x, self.y), strict=True)
            ]
        self.gamma = gammas[0][:, None] + gammas[1]

    def transformed(self, psi: NDArray[Any]) -> NDArray[Any]:
        """Return the other representation, points or waves: the transform is its own inverse."""
        from scipy.fft import dstn

        if np.iscomplexobj(psi):
            return dstn(psi.real, type=1, norm="ortho") + 1j * dstn(psi.imag, type=1, norm="ortho")
        return np.asarray(dstn(psi, type=1, norm="ortho"))

    def levels(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest levels of the symmetry and their energies."""
        from scipy.sparse.linalg import LinearOperator, eigsh

        if self.world.g:
            return self._ground()
        n, exchange = self.x.size, self.world.exchange

        def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            psi = vector.reshape(n, n)
            out = self.transformed(self.kinetic * self.transformed(psi)) + self.v * psi
            if exchange:
                out = out + 0.5 * PENALTY * (psi - exchange * psi.T)
            return out.ravel()

        x, y = self.x[:, None], self.y
        start = np.exp(-0.3 * (x * x + y * y)) * (1.0 + 0.3 * x - 0.2 * y)
        energies, states = eigsh(
            LinearOperator((n * n, n * n), matvec=product, dtype=float),
            k=LEVELS + 1,
            which="SA",
            v0=start.ravel(),
            ncv=60,
            tol=1e-12,
        )
        return energies, states.T.reshape(-1, n, n) / math.sqrt(self.cell)

    def _ground(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ground state of a condensate, the lowest energy of all functions of norm 1, and two values about mu."""
        from scipy.optimize import minimize

        g, n = self.world.g, self.x.size
        scale = 1.0 / np.sqrt(self.kinetic + 1.0)

        def energy(vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            # waves scaled so that all matter alike, of any norm
            waves = scale * vector.reshape(n, n)
            size = math.sqrt((waves**2).sum() * self.cell)
            waves = waves / size
            psi = self.transformed(waves)
            total = (waves**2 * self.kinetic).sum() + (psi**2 * (self.v + 0.5 * g * psi**2)).sum()
            slope = self.kinetic * waves + self.transformed((self.v + g * psi**2) * psi)
            slope = slope - (slope * waves).sum() * self.cell * waves
            return float(total * self.cell), (2.0 * self.cell / size * scale * slope).ravel()

        bell = np.exp(-0.3 * (self.x[:, None] ** 2 + self.y**2))
        start = self.transformed(bell) / scale
        options = {"maxiter": 3000, "maxfun": 4000, "ftol": 1e-16, "gtol": 1e-10}
        found = minimize(energy, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        psi = self.transformed(scale * found.x.reshape(n, n))
        psi = psi / math.sqrt((psi**2).sum() * self.cell)
        mu = self.chemical_potential(psi.astype(complex))
        return np.array([mu, mu + 1.0]), psi[None]

    def chemical_potential(self, psi: NDArray[np.complex128]) -> float:
        """Return the energy with all of ``g |psi|^2``."""
        return self.energy(psi) + 0.5 * self.world.g * float((np.abs(psi) ** 4).sum()) * self.cell

    def start(self, states: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Return the state at t = 0."""
        block = self.world.initial
        if block["type"] == "eigenstate":
            return states[block["level"]].astype(complex)
        if block["type"] == "superposition":
            psi = states[0] + 0.5j * states[1]
        else:
            packet = [
                np.exp(-(((at - block[f"{c}0"]) / (2 * block[f"w{c}"])) ** 2) + 1j * block[f"k{c}"] * at)
                for c, at in (("x", self.x), ("y", self.y))
            ]
            psi = packet[0][:, None] * packet[1]
            if self.world.exchange:
                psi = psi + self.world.exchange * psi.T
        return np.asarray(psi / np.sqrt((np.abs(psi) ** 2).sum() * self.cell))

    def between(self, number: int, low: float, high: float) -> NDArray[np.float64]:
        """Return the integrals of products of two waves of a coordinate from one value to another."""
        first, last = self.world.ends[number]
        k, length = self.k[number], last - first

        def integral(at: float) -> NDArray[np.float64]:
            # of sin(k s) sin(l s) from 0 to s
            s, minus, plus = min(max(at, first), last) - first, k[:, None] - k, k[:, None] + k
            safe = np.where(minus == 0.0, 1.0, minus)
            own = np.where(minus == 0.0, s, np.sin(safe * s) / safe)
            return np.asarray(0.5 * (own - np.sin(plus * s) / plus))

        return np.asarray(2.0 / length * (integral(high) - integral(low)))

    def motion(
        self, psi: NDArray[np.complex128], steps: int
    ) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Return the state at the end, and what was absorbed with the other electron inside, and beyond."""
        world = self.world
        edges = sorted({0.0, world.duration, *(t for t in world.breaks if 0.0 < t < world.duration)})
        lost = np.zeros(2)
        radius = 0.0 if world.radius is None else world.radius
        shares = [
            np.clip((radius - np.abs(at)) / h + 0.5, 0.0, 1.0)
            for at, h in zip((self.x, self.y), self.h, strict=True)
        ]
        beyond = (1.0 - shares[0][:, None]) * (1.0 - shares[1])
        for begin, end in itertools.pairwise(edges):
            count = max(1, round(steps * (end - begin) / world.duration))
            dt = (end - begin) / count
            turn, fixed = np.exp(-1j * dt * self.kinetic), np.exp(-0.5j * dt * self.v)
            kept = np.exp(-0.5 * dt * self.gamma)
            for step in range(count):
                # the mean over a step: a fast field turns within it
                times = begin + (step + 0.5 + 0.5 * NODES) * dt
                push = [
                    np.exp(-0.5j * dt * float(one(times) @ (0.5 * WEIGHTS)) * at)
                    for one, at in zip(world.push, (self.x, self.y), strict=True)
                ]
                half = fixed * push[0][:, None] * push[1]
                for first in (True, False):
                    taken = np.abs(psi) ** 2 * (1.0 - kept**2) * self.cell
                    lost += [(taken * (1.0 - beyond)).sum(), (taken * beyond).sum()]
                    psi = psi * half * kept * np.exp(-0.5j * dt * world.g * np.abs(psi) ** 2)
                    if first:
                        psi = self.transformed(turn * self.transformed(psi))
        return psi, lost

    def energy(self, psi: NDArray[np.complex128]) -> float:
        """Return the energy of a state without the field."""
        waves = self.transformed(psi)
        density = np.abs(psi) ** 2
        potential = density * (self.v + 0.5 * self.world.g * density)
        return float(((np.abs(waves) ** 2 * self.kinetic).sum() + potential.sum()) * self.cell)

    def numbers(
        self, psi: NDArray[np.complex128], lost: NDArray[np.float64], states: NDArray[np.float64]
    ) -> dict[str, float]:
        """Return what a run claims of a state."""
        world = self.world
        waves = self.transformed(psi) * math.sqrt(self.cell)
        density = np.abs(psi) ** 2 * self.cell
        norm = float(np.vdot(waves, waves).real)
        means = [float((density * at).sum()) for at in (self.x[:, None], self.y)]
        out = {"norm_final": norm, "energy_final": self.energy(psi), "norm_absorbed": float(lost.sum())}
        for name, factors in zip(("dipole_final", "dipole_y_final"), world.dipoles, strict=False):
            out[name] = factors[0] * means[0] + factors[1] * means[1]
        if world.radius is not None:
            out |= self._pair(waves, norm)
            out |= {"absorbed_single": float(lost[0]), "absorbed_double": float(lost[1])}
        for name, ends in world.boxes.items():
            g, f = (self.between(number, *pair) for number, pair in enumerate(ends))
            out[name] = float(np.vdot(waves, g @ waves @ f).real)
        for k in range(min(LEVELS, len(states))):
            out[f"population_{k}"] = float(np.abs((states[k] * psi).sum() * self.cell) ** 2)
        return out

    def _pair(self, waves: NDArray[Any], norm: float) -> dict[str, float]:
        """Return norms by regions and entanglement of two particles."""
        radius = self.world.radius
        assert radius is not None
        g, f = (self.between(number, -radius, radius) for number in (0, 1))
        both = float(np.vdot(waves, g @ waves @ f).real)
        first, second = (float(np.vdot(waves, one).real) for one in (g @ waves, waves @ f))
        p = np.linalg.svd(waves, compute_uv=False) ** 2 / norm
        p = p[p > 1e-15]
        return {
            "inner": both,
            "single": first + second - 2.0 * both,
            "double": norm - first - second + both,
            "purity": float((p**2).sum()),
            "entropy": float(-(p * np.log(p)).sum()),
        }


def _truth(world: _World, sines: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the numbers of a deck by the oracle, extrapolated in the step, and their change by that."""
    basis = _Sines(world, sines)
    energies, states = basis.levels()
    psi = basis.start(states)
    coarse = int(np.ceil(world.duration / STEP))
    runs = [basis.numbers(*basis.motion(psi, steps), states) for steps in (coarse, 2 * coarse)]
    found = {name: (4.0 * runs[1][name] - runs[0][name]) / 3.0 for name in runs[0]}
    apart = {name: abs(found[name] - runs[1][name]) for name in found}
    gap = float(np.min(np.diff(energies)))
    first = {"energy_initial": basis.energy(psi), "mu": basis.chemical_potential(psi)}
    return found | first | {"gap": gap}, apart | dict.fromkeys(first, 0.0)


def _judge(world: _World, results: Results) -> list[Claim]:
    """Return the claims of a run with their true values."""
    (rough, _), (found, apart) = (_truth(world, sines) for sines in SINES)
    claims = []
    for name, value in found.items():
        if name == "gap" or name not in results.scalars:
            continue
        # levels that nearly agree are any combination of the two
        if found["gap"] < 1e-3 and (name.startswith("population") or world.initial["type"] != "gaussian"):
            continue
        scalar = results.scalars[name]
        assert isinstance(scalar.value, float)
        # the extrapolant is better than half of the change that it makes
        oracle = abs(value - rough[name]) + 0.1 * apart[name] + 1e-10
        claimed = np.nan if scalar.error is None else scalar.error
        claims.append(Claim(name, scalar.value - value, claimed, oracle=oracle))
    return claims
