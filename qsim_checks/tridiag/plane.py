"""Random decks of ``task: plane``.

The oracle expands the wave function of both coordinates in the sines between the walls and takes Strang steps with exact kinetic
phases, extrapolated in the step.  Norms by regions are integrals of products of sines in closed form.  Its own error is the
difference of two numbers of sines, and of two extrapolants.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.tridiag import fields

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.tridiag.fields import Curve

__all__ = ["plane"]

SINES = (80, 95)
# longest steps of the oracle, a.u.; the finest are half of it
STEP = 0.02
# of the two factors that the levels of one symmetry are told apart by, hartree
PENALTY = 50.0
LEVELS = 2
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass
class _World:
    """What the oracle knows of a deck."""

    low: float
    high: float
    duration: float
    dt: float
    charge: float
    a2: float
    repulsion: float
    b2: float
    exchange: int
    radius: float
    electric: Curve
    breaks: list[float]
    cap: Curve
    mask: Curve
    initial: dict[str, Any]


def plane(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: plane``."""
    half = round(float(rng.uniform(7.0, 10.0)), 2)
    duration = float(f"{rng.uniform(2.0, 8.0):.4g}")
    points, steps = int(rng.integers(48, 90)), int(rng.integers(40, 160))
    exchange = str(rng.choice(["even", "even", "odd", "none"]))
    charge, a2 = round(float(rng.uniform(1.0, 2.2)), 3), round(float(rng.uniform(0.8, 2.0)), 3)
    repulsion, b2 = round(float(rng.uniform(0.3, 1.0)), 3), round(float(rng.uniform(0.8, 2.0)), 3)
    if rng.random() < 0.15:
        repulsion = 0.0
    strip, cap, mask = fields.absorber(rng, -half, half)
    deck: dict[str, Any] = {
        "task": "plane",
        "system": {
            "type": "electrons",
            "potential": {"type": "softcore", "Z": charge, "a2": a2},
            "repulsion": {"type": "softcore", "Z": -repulsion, "a2": b2} if repulsion else "none",
            "exchange": exchange,
        },
        "grid": {
            "x": {
                "xmin": -half,
                "xmax": half,
                "points": points,
                "stencil": str(rng.choice(["numerov", "numerov", "three_point"])),
            }
        },
        "initial": _initial(rng),
        "absorber": strip,
        "time": {"steps": steps, "t_final": duration, "outputs": int(rng.choice([1, 4])), "coarse": "warn"},
    }
    if strip["type"] != "mask" and rng.random() < 0.3:
        deck["time"]["order"] = 4
    radius = round(float(rng.uniform(2.0, 0.55 * half)), 2)
    deck["observe"] = [{"regions": {"radius": radius}}, "entanglement", {"populations": {"levels": LEVELS}}]
    electric: Curve = np.zeros_like
    breaks: list[float] = []
    if rng.random() < 0.7:
        block, electric, breaks = fields.pulse(rng, folder, duration)
        deck["laser"] = {"pulses": [block]}
    world = _World(
        -half,
        half,
        duration,
        duration / steps,
        charge,
        a2,
        repulsion,
        b2,
        {"even": 1, "odd": -1, "none": 0}[exchange],
        radius,
        electric,
        breaks,
        cap,
        mask,
        deck["initial"],
    )
    return Trial(deck, lambda results: _judge(world, results))


def _initial(rng: np.random.Generator) -> dict[str, Any]:
    """Return the block of a random initial state."""
    kind = rng.random()
    if kind < 0.5:
        return {"type": "eigenstate", "level": int(rng.choice([0, 0, 1]))}
    if kind < 0.65:
        return {"type": "superposition", "levels": {"0": 1.0, "1": "0.5i"}}
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
        length = world.high - world.low
        self.k = np.pi * np.arange(1, count + 1) / length
        self.h = length / (count + 1)
        self.x: NDArray[np.float64] = np.asarray(world.low + self.h * np.arange(1, count + 1), dtype=float)
        x, y = self.x[:, None], self.x
        soft = lambda r, a2: 1.0 / np.sqrt(r * r + a2)  # noqa: E731
        self.v = -world.charge * (soft(x, world.a2) + soft(y, world.a2)) + world.repulsion * soft(
            x - y, world.b2
        )
        self.kinetic = 0.5 * (self.k[:, None] ** 2 + self.k**2)
        with np.errstate(divide="ignore"):
            gamma = world.cap(self.x) - np.log(world.mask(self.x)) / world.dt
        self.gamma = gamma[:, None] + gamma

    def transformed(self, psi: NDArray[Any]) -> NDArray[Any]:
        """Return the other representation, points or waves: the transform is its own inverse."""
        from scipy.fft import dstn

        if np.iscomplexobj(psi):
            return dstn(psi.real, type=1, norm="ortho") + 1j * dstn(psi.imag, type=1, norm="ortho")
        return np.asarray(dstn(psi, type=1, norm="ortho"))

    def levels(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest levels of the symmetry and their energies."""
        from scipy.sparse.linalg import LinearOperator, eigsh

        n, exchange = self.x.size, self.world.exchange

        def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            psi = vector.reshape(n, n)
            out = self.transformed(self.kinetic * self.transformed(psi)) + self.v * psi
            if exchange:
                out = out + 0.5 * PENALTY * (psi - exchange * psi.T)
            return out.ravel()

        start = np.exp(-0.3 * (self.x[:, None] ** 2 + self.x**2)) * (
            1.0 + 0.3 * self.x[:, None] - 0.2 * self.x
        )
        energies, states = eigsh(
            LinearOperator((n * n, n * n), matvec=product, dtype=float),
            k=LEVELS + 1,
            which="SA",
            v0=start.ravel(),
            ncv=60,
            tol=1e-12,
        )
        return energies, states.T.reshape(-1, n, n) / self.h

    def start(self, states: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Return the state at t = 0."""
        block = self.world.initial
        if block["type"] == "eigenstate":
            return states[block["level"]].astype(complex)
        if block["type"] == "superposition":
            psi = states[0] + 0.5j * states[1]
        else:
            packet = [
                np.exp(
                    -(((self.x - block[f"{c}0"]) / (2 * block[f"w{c}"])) ** 2) + 1j * block[f"k{c}"] * self.x
                )
                for c in "xy"
            ]
            psi = packet[0][:, None] * packet[1]
            if self.world.exchange:
                psi = psi + self.world.exchange * psi.T
        return np.asarray(psi / np.sqrt((np.abs(psi) ** 2).sum()) / self.h)

    def inside(self) -> NDArray[np.float64]:
        """Return the integrals of products of two waves over ``|x| < radius``."""
        a, low = self.world.radius, self.world.low
        k, length = self.k, self.world.high - self.world.low

        def integral(at: float) -> NDArray[np.float64]:
            # of sin(k s) sin(l s) from 0 to s
            s, minus, plus = at - low, k[:, None] - k, k[:, None] + k
            safe = np.where(minus == 0.0, 1.0, minus)
            first = np.where(minus == 0.0, s, np.sin(safe * s) / safe)
            return np.asarray(0.5 * (first - np.sin(plus * s) / plus))

        return np.asarray(2.0 / length * (integral(a) - integral(-a)))

    def motion(
        self, psi: NDArray[np.complex128], steps: int
    ) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Return the state at the end, and what was absorbed with the other electron inside, and beyond."""
        world = self.world
        edges = sorted({0.0, world.duration, *(t for t in world.breaks if 0.0 < t < world.duration)})
        lost = np.zeros(2)
        share = np.clip((world.radius - np.abs(self.x)) / self.h + 0.5, 0.0, 1.0)
        beyond = (1.0 - share[:, None]) * (1.0 - share)
        for begin, end in itertools.pairwise(edges):
            count = max(1, round(steps * (end - begin) / world.duration))
            dt = (end - begin) / count
            turn, fixed = np.exp(-1j * dt * self.kinetic), np.exp(-0.5j * dt * self.v)
            kept = np.exp(-0.5 * dt * self.gamma)
            for step in range(count):
                # the mean over a step: a fast field turns within it
                field = float(world.electric(begin + (step + 0.5 + 0.5 * NODES) * dt) @ (0.5 * WEIGHTS))
                push = np.exp(-0.5j * dt * field * self.x)
                half = fixed * push[:, None] * push
                for first in (True, False):
                    taken = np.abs(psi) ** 2 * (1.0 - kept**2) * self.h**2
                    lost += [(taken * (1.0 - beyond)).sum(), (taken * beyond).sum()]
                    psi = psi * half * kept
                    if first:
                        psi = self.transformed(turn * self.transformed(psi))
        return psi, lost

    def numbers(
        self, psi: NDArray[np.complex128], lost: NDArray[np.float64], states: NDArray[np.float64]
    ) -> dict[str, float]:
        """Return what a run claims of a state."""
        waves = self.transformed(psi) * self.h
        g = self.inside()
        both = float(np.vdot(waves, g @ waves @ g).real)
        first, second = (float(np.vdot(waves, one).real) for one in (g @ waves, waves @ g))
        norm = float(np.vdot(waves, waves).real)
        p = np.linalg.svd(waves, compute_uv=False) ** 2 / norm
        p = p[p > 1e-15]
        out = {
            "norm_final": norm,
            "energy_final": float(
                (np.abs(waves) ** 2 * self.kinetic).sum() + (np.abs(psi) ** 2 * self.v).sum() * self.h**2
            ),
            "inner": both,
            "single": first + second - 2.0 * both,
            "double": norm - first - second + both,
            "dipole_final": float((np.abs(psi) ** 2 * (self.x[:, None] + self.x)).sum() * self.h**2),
            "purity": float((p**2).sum()),
            "entropy": float(-(p * np.log(p)).sum()),
            "absorbed_single": float(lost[0]),
            "absorbed_double": float(lost[1]),
        }
        for k in range(LEVELS):
            out[f"population_{k}"] = float(np.abs((states[k] * psi).sum() * self.h**2) ** 2)
        return out


def _truth(world: _World, sines: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the numbers of a deck by the oracle, extrapolated in the step, and their change by that."""
    basis = _Sines(world, sines)
    energies, states = basis.levels()
    psi = basis.start(states)
    waves = basis.transformed(psi) * basis.h
    energy = float(
        (np.abs(waves) ** 2 * basis.kinetic).sum() + (np.abs(psi) ** 2 * basis.v).sum() * basis.h**2
    )
    coarse = int(np.ceil(world.duration / STEP))
    runs = [basis.numbers(*basis.motion(psi, steps), states) for steps in (coarse, 2 * coarse)]
    found = {name: (4.0 * runs[1][name] - runs[0][name]) / 3.0 for name in runs[0]}
    apart = {name: abs(found[name] - runs[1][name]) for name in found}
    gap = float(np.min(np.diff(energies)))
    return (
        found | {"energy_initial": energy, "gap": gap},
        apart | {"energy_initial": 0.0},
    )


def _judge(world: _World, results: Results) -> list[Claim]:
    """Return the claims of a run with their true values."""
    (rough, _), (found, apart) = (_truth(world, sines) for sines in SINES)
    claims = []
    for name, value in found.items():
        if name == "gap" or name not in results.scalars:
            continue
        # levels that nearly agree are any combination of the two
        if name.startswith("population") and found["gap"] < 1e-3:
            continue
        scalar = results.scalars[name]
        assert isinstance(scalar.value, float)
        # the extrapolant is better than half of the change that it makes
        oracle = abs(value - rough[name]) + 0.1 * apart[name] + 1e-10
        claimed = np.nan if scalar.error is None else scalar.error
        claims.append(Claim(name, scalar.value - value, claimed, oracle=oracle))
    return claims
