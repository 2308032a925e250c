"""Random decks of ``task: atom``.

The oracle expands the wave function in eigenfunctions of each l, found with finite elements (discrete variables on
Gauss-Lobatto points), and takes Lanczos exponentials of the commutator-free Magnus scheme of fourth order, always in
length gauge.
It shares neither the grid nor the splitting of the program.  Its own error is the difference of two steps and of two bases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["Basis", "atom", "central", "claims_of", "pulse_of", "walled"]

HELIUM = (1.231, 0.662, -1.325, 1.236, -0.231, 0.480)  # Tong and Lin
LANCZOS, TOLERANCE = 40, 1e-12
MORE_L = 4  # l beyond those of the deck


def gauss_lobatto(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return points, weights and derivative matrix on [-1, 1]."""
    from numpy.polynomial import legendre

    c = np.zeros(n)
    c[-1] = 1.0
    x = np.concatenate([[-1.0], np.sort(legendre.legroots(legendre.legder(c)).real), [1.0]])
    for _ in range(3):
        x[1:-1] -= legendre.legval(x[1:-1], legendre.legder(c)) / legendre.legval(
            x[1:-1], legendre.legder(c, 2)
        )
    w = 2.0 / (n * (n - 1) * legendre.legval(x, c) ** 2)
    distance = x[:, None] - x[None, :] + np.eye(n)
    b = 1.0 / distance.prod(axis=1)
    d = b[None, :] / b[:, None] / distance
    np.fill_diagonal(d, 0.0)
    np.fill_diagonal(d, -d.sum(axis=1))
    return x, w, d


class Basis:
    """Radial eigenfunctions of each l in a box."""

    def __init__(
        self, potential: Callable[[Any], Any], box: float, lmax: int, m: int, order: int, highest: float
    ) -> None:
        import scipy.linalg

        first = np.array([0.0, 0.4, 1.2, 2.5, 4.5])
        count = math.ceil((box - first[-1]) / 3.0)
        breaks = np.concatenate([first, first[-1] + (box - first[-1]) * np.arange(1, count + 1) / count])
        x, w, d = gauss_lobatto(order)
        n = (breaks.size - 1) * (order - 1) + 1
        r, weight, kinetic = np.zeros(n), np.zeros(n), np.zeros((n, n))
        for e in range(breaks.size - 1):
            half = 0.5 * (breaks[e + 1] - breaks[e])
            part = slice(e * (order - 1), e * (order - 1) + order)
            r[part] = breaks[e] + half * (x + 1.0)
            weight[part] += w * half
            kinetic[part, part] += (d.T * w) @ d / half
        root = 1.0 / np.sqrt(weight[1:-1])
        self.r, self.root = r[1:-1], 1.0 / root
        t = 0.5 * kinetic[1:-1, 1:-1] * root[:, None] * root
        self.energies, self.states = [], []
        for l in range(m, lmax + 1):
            e, u = scipy.linalg.eigh(
                t + np.diag(potential(self.r) + l * (l + 1) / (2 * self.r**2)),
                subset_by_value=(-np.inf, highest),
            )
            self.energies.append(e)
            self.states.append(u)
        self.coupling = []
        for k in range(lmax - m):
            l = m + k
            c = math.sqrt(((l + 1) ** 2 - m * m) / ((2 * l + 1) * (2 * l + 3)))
            self.coupling.append(c * self.states[k + 1].T @ (self.r[:, None] * self.states[k]))
        self.ends = np.cumsum([0, *(e.size for e in self.energies)])
        self.diagonal = np.concatenate(self.energies)

    def part(self, v: Any, k: int) -> Any:
        """Return the amplitudes of the k-th l."""
        return v[self.ends[k] : self.ends[k + 1]]

    def apply(self, v: Any, energy: float, field: Any) -> Any:
        """Return ``(energy H0 + field z) v``."""
        out = energy * self.diagonal * v
        for k, matrix in enumerate(self.coupling):
            self.part(out, k + 1)[...] += field * (matrix @ self.part(v, k))
            self.part(out, k)[...] += field * (matrix.T @ self.part(v, k + 1))
        return out

    def exponential(self, v: Any, energy: float, field: Any, dt: float) -> Any:
        """Return ``exp(-i dt (energy H0 + field z)) v`` by Lanczos' method."""
        from scipy.linalg import eigh_tridiagonal

        size = float(np.linalg.norm(v))
        vectors: list[Any] = [v / size]
        diagonal: list[float] = []
        beside: list[float] = []
        for k in range(LANCZOS):
            w = self.apply(vectors[k], energy, field)
            diagonal.append(float(np.vdot(vectors[k], w).real))
            w = w - diagonal[-1] * vectors[k] - (beside[-1] * vectors[k - 1] if k else 0.0)
            b = float(np.linalg.norm(w))
            if k >= 2:
                e, s = eigh_tridiagonal(np.array(diagonal), np.array(beside))
                c = s @ (np.exp(-1j * dt * e) * s[0])
                if abs(c[-1]) * b * abs(dt) < TOLERANCE or b < 1e-13 or k == LANCZOS - 1:
                    break
            beside.append(b)
            vectors.append(w / b)
        return size * sum(c[i] * vectors[i] for i in range(len(c)))

    def run(self, v: Any, field: Callable[[float], Any], duration: float, steps: int) -> Any:
        """Return the state at the end: two exponentials per step."""
        dt, third = duration / steps, math.sqrt(3.0)
        for j in range(steps):
            t = j * dt
            early, late = field(t + dt * (0.5 - third / 6.0)), field(t + dt * (0.5 + third / 6.0))
            one, two = 0.25 + third / 6.0, 0.25 - third / 6.0
            v = self.exponential(v, 0.5, one * early + two * late, dt)
            v = self.exponential(v, 0.5, two * early + one * late, dt)
        return v


@dataclass
class _World:
    """What the oracle knows of a deck."""

    potential: Callable[[Any], Any]
    field: Callable[[float], float]
    duration: float
    start: tuple[int, int]
    m: int
    lmax: int
    levels: list[str]


def central(rng: np.random.Generator) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """Draw a potential: its block, and V(r)."""
    kind = str(rng.choice(["hydrogen", "yukawa", "tong_lin", "expression"]))
    if kind == "hydrogen":
        return {"type": kind}, lambda r: -1.0 / r
    if kind == "yukawa":
        reach = round(float(rng.uniform(12, 20)), 2)
        return {"type": kind, "range": reach}, lambda r: -np.exp(-r / reach) / r
    if kind == "tong_lin":
        a = HELIUM
        return (
            {"type": kind, "element": "He"},
            lambda r: (
                -(1 + a[0] * np.exp(-a[1] * r) + a[2] * r * np.exp(-a[3] * r) + a[4] * np.exp(-a[5] * r)) / r
            ),
        )
    c = round(float(rng.uniform(0.2, 1.0)), 2)
    return {"type": kind, "value": f"-(1 + {c}*exp(-2*r))/r"}, lambda r: -(1 + c * np.exp(-2 * r)) / r


def pulse_of(omega: float, peak: float, cycles: int, cep: float) -> tuple[float, Callable[[float], float]]:
    """Return the duration and the field of a pulse with a vector potential of the shape sin^2."""
    duration = 2.0 * math.pi * cycles / omega

    def field(t: float) -> float:
        p, angle = math.pi / duration, omega * (t - 0.5 * duration) + cep
        return (
            -peak
            / omega
            * (p * math.sin(2 * p * t) * math.sin(angle) + omega * math.sin(p * t) ** 2 * math.cos(angle))
        )

    return duration, field


def atom(rng: np.random.Generator) -> Trial:
    """Draw a deck with ``task: atom``."""
    block, potential = central(rng)
    rmax = round(float(rng.uniform(26, 34)), 1)
    n, l, m = [(1, 0, 0), (1, 0, 0), (2, 0, 0), (2, 1, 0), (2, 1, 1)][int(rng.integers(5))]
    omega, peak = round(float(rng.uniform(0.3, 1.2)), 3), round(float(10 ** rng.uniform(-2.5, -0.9)), 4)
    cycles = int(rng.integers(1, 4))
    cep = round(float(rng.uniform(0, 3)), 2)
    duration, field = pulse_of(omega, peak, cycles, cep)
    lmax = l + int(rng.integers(1, 6))
    nuclear = {"hydrogen": 0.05, "yukawa": 0.05, "tong_lin": 0.025, "expression": 0.025}[block["type"]]
    dr0 = round(nuclear * float(10 ** rng.uniform(-0.3, 0.4)), 4)
    deck: dict[str, Any] = {
        "task": "atom",
        "atom": block,
        "grid": {
            "rmax": rmax,
            "dr": round(float(rng.uniform(0.15, 0.5)), 3),
            "l_max": lmax,
            "map": {"dr0": dr0, "width": round(float(rng.uniform(25, 60)), 1)},
        },
        "initial": {"n": n, "l": l, "m": m},
        "laser": {
            "gauge": str(rng.choice(["length", "velocity"])),
            "pulses": [{"shape": "sin2", "omega": omega, "E0": peak, "cycles": cycles, "cep": cep}],
        },
        "time": {
            "dt": round(float(10 ** rng.uniform(-1.8, -0.7)), 4),
            "outputs": 2,
            "order": int(rng.choice([2, 2, 4])),
            "coarse": "warn",
        },
        "observe": [{"populations": {"nmax": 2}}],
    }

    levels = [name for name, level_m in (("1s", 0), ("2s", 0), ("2p", 1)) if m <= level_m]
    world = _World(potential, field, duration, (n, l), m, lmax, levels)
    return Trial(deck, lambda results: _judge(world, results))


def walled(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw an atom whose wall shapes its levels or turns electrons back; the truth is the atom in a box three times as wide."""
    block, potential = central(rng)
    n, l, m, least = [(1, 0, 0, 7.0), (2, 0, 0, 16.0), (2, 1, 0, 15.0), (2, 1, 1, 15.0)][int(rng.integers(4))]
    rmax = round(least * float(rng.uniform(1.0, 2.0)), 1)
    omega, peak = round(float(rng.uniform(0.1, 0.9)), 3), round(float(10 ** rng.uniform(-3.0, -1.7)), 5)
    cycles, lmax = int(rng.integers(1, 4)), l + int(rng.integers(2, 5))
    duration, field = pulse_of(omega, peak, cycles, 0.0)
    deck: dict[str, Any] = {
        "task": "atom",
        "atom": block,
        "grid": {"rmax": rmax, "dr": 0.15, "l_max": lmax, "map": {"dr0": 0.03, "width": 30.0}},
        "initial": {"n": n, "l": l, "m": m},
        "laser": {
            "gauge": "length",
            "pulses": [{"shape": "sin2", "omega": omega, "E0": peak, "cycles": cycles}],
        },
        "time": {"dt": 0.05, "outputs": 2, "coarse": "warn"},
        "observe": [{"populations": {"nmax": 3}}],
    }
    levels = ["1s", "2s", "2p", "3s", "3p", "3d"] if m == 0 else ["2p", "3p", "3d"]
    world = _World(potential, field, duration, (n, l), m, lmax, levels)

    def judge(results: Results) -> list[Claim]:
        best, other = (_truth(world, part * rmax, 14, 30.0, 1.0) for part in (3.0, 2.5))
        return claims_of(results, best, other, "(?!)")

    return Trial(deck, judge)


def _truth(world: _World, box: float, order: int, highest: float, finer: float) -> dict[str, float]:
    lmax = world.lmax + MORE_L
    basis = Basis(world.potential, box, lmax, world.m, order, highest)
    v = np.zeros(basis.diagonal.size, dtype=complex)
    n, l = world.start
    basis.part(v, l - world.m)[n - l - 1] = 1.0
    v = basis.run(v, world.field, world.duration, max(16, math.ceil(finer * world.duration / 0.25)))
    found = {"norm_final": float(np.sum(np.abs(v) ** 2))}
    found["energy_initial"] = float(basis.energies[l - world.m][n - l - 1])
    for name in world.levels:
        l = "spd".index(name[1])
        found[f"population_{name}"] = float(abs(basis.part(v, l - world.m)[int(name[0]) - l - 1]) ** 2)
    bound = sum(float(np.sum(np.abs(basis.part(v, k)[e < 0.0]) ** 2)) for k, e in enumerate(basis.energies))
    return {**found, "bound_population": bound, "continuum_population": 1.0 - bound}


def _judge(world: _World, results: Results) -> list[Claim]:
    box = float(results.scalars["rmax"].value or 0.0)
    best = _truth(world, box, 14, 40.0, 1.5)
    other = _truth(world, box, 12, 25.0, 1.0)
    return claims_of(results, best, other, r"uncertain|last l")


def claims_of(
    results: Results, best: Mapping[str, float], other: Mapping[str, float], warning: str
) -> list[Claim]:
    """Return the claims of a run about numbers that two bases tell; twice their difference is the error of the better one."""
    claims = []
    for name, value in best.items():
        if name not in results.scalars:
            continue
        scalar = results.scalars[name]
        claimed = float("nan") if scalar.error is None else scalar.error
        away = float(scalar.value or 0.0) - value
        rounding = 1e-10
        if name == "attoclock_angle":  # in degrees
            away, rounding = math.remainder(away, 360.0), 1e-3
        oracle = 2.0 * abs(value - other[name]) + rounding
        claims.append(Claim(name, away, claimed, oracle=oracle, warning=warning))
    return claims
