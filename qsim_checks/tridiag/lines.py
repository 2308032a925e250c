"""Random resonances and photoelectron spectra of ``task: propagate``.

Resonances are held against the Hamiltonian on a complex axis in oscillator functions, in two bases.  Spectra by t-SURFF are held
against plane waves in a box that holds the electron, carried by extrapolated Strang steps, whose state leaves through the ends of
the box in ``(H - E - i 0)^-1 psi``: outgoing waves with neither a surface nor an absorber.  Those by a window belong to the
levels of the box between its walls, which sines give.  No oracle shares grid or steps with the program; their own errors are the
differences of two settings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.tridiag.curves import Line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

    # of real or complex x, or of times
    Function = Callable[[Any], Any]

__all__ = ["line_resonances", "line_spectra"]

# functions, angle and frequency of a basis of oscillator functions
BASES = ((110, 0.42, 1.0), (96, 0.36, 1.15))
# widths of the resonances that a deck may name by their energy, hartree
NARROWEST, WIDEST = 1e-9, 0.05
WITHDRAWN = (
    r"uncertain|no resonance|of the norm was absorbed|which the wall turns back|lies within the excursion"
)
# points per bohr and steps per a.u. of the oracle of spectra
FINER = ((11.0, 50.0), (9.0, 40.0))
# bohr about the nucleus that holds the initial state, and beyond what the fastest electron covers
NEAR, MARGIN = 32.0, 40.0
SINES = (380, 340)


def _well(rng: np.random.Generator, long_range: bool) -> tuple[dict[str, Any], Function]:
    """Return the block of an analytic potential that binds, and its formula."""
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    x0 = u(-1.0, 1.0)
    kind = str(
        rng.choice(["gaussian_well", "poschl_teller", *(["softcore", "yukawa"] if long_range else [])])
    )
    if kind == "gaussian_well":
        depth, width = u(0.6, 1.4), u(0.8, 1.8)
        block = {"type": kind, "depth": depth, "width": width, "x0": x0}
        return block, lambda x: -depth * np.exp(-((x - x0) ** 2) / (2.0 * width**2))
    if kind == "poschl_teller":
        depth, a = u(0.6, 1.4), u(0.9, 1.8)
        return {"type": kind, "depth": depth, "a": a, "x0": x0}, lambda x: -depth / np.cosh((x - x0) / a) ** 2
    z, a2, reach = u(0.7, 1.5), u(0.7, 2.5), u(3.0, 8.0)
    root = lambda x: np.sqrt((x - x0) ** 2 + a2)  # noqa: E731
    if kind == "softcore":
        return {"type": kind, "Z": z, "a2": a2, "x0": x0}, lambda x: -z / root(x)
    block = {"type": kind, "Z": z, "range": reach, "a2": a2, "x0": x0}
    return block, lambda x: -z * np.exp(-root(x) / reach) / root(x)


# ---------------------------------------------------------------------------------------------- resonances


def expanded(
    potential: Function, field: float, size: int, angle: float, omega: float, x0: float = 0.0
) -> NDArray[np.complex128]:
    """Return the energies of ``-e^(-2 i theta) D/2 + V(x) + F x``, ``x = x0 + y e^(i theta)``, (size,)."""
    from scipy.linalg import eigvals

    nodes, weights = np.polynomial.hermite.hermgauss(size + 70)
    y, turn = nodes / math.sqrt(omega), np.exp(1j * angle)
    # normalised functions without their Gaussian, which the weights hold
    f = np.zeros((size, nodes.size))
    f[0], f[1] = np.pi**-0.25, math.sqrt(2.0) * nodes * np.pi**-0.25
    for n in range(2, size):
        f[n] = math.sqrt(2.0 / n) * nodes * f[n - 1] - math.sqrt((n - 1.0) / n) * f[n - 2]
    number = np.arange(size)
    kinetic = np.diag(0.5 * omega * (number + 0.5))
    off = -0.25 * omega * np.sqrt((number[:-2] + 1.0) * (number[:-2] + 2.0))
    kinetic = kinetic + np.diag(off, 2) + np.diag(off, -2)
    x = x0 + y * turn
    return np.asarray(eigvals(kinetic / turn**2 + (f * (weights * (potential(x) + field * x))) @ f.T))


def line_resonances(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck that asks for a resonance of a line: behind barriers by its energy, or a level in a static field."""
    return _barriers(rng) if rng.random() < 0.5 else _in_a_field(rng)


def _deck(potential: dict[str, Any], resonance: Any) -> dict[str, Any]:
    """Return a deck whose propagation is as short as can be."""
    return {
        "task": "propagate",
        "grid": {"xmin": -30, "xmax": 30, "points": 301},
        "potential": potential,
        "time": {"dt": 0.1, "t_final": 0.5, "outputs": 1, "verify": False},
        "observe": [{"resonance": resonance}],
    }


def _barriers(rng: np.random.Generator) -> Trial:
    """Draw a well between two barriers, not always alike, and one of its resonances that two bases agree on."""
    while True:
        rise, low, fall, tilt = (
            round(float(rng.uniform(*span)), 3)
            for span in ((0.3, 0.8), (-1.0, 0.2), (0.08, 0.2), (-0.06, 0.06))
        )
        curve = lambda x: (rise * x**2 + tilt * x + low) * np.exp(-fall * x**2)  # noqa: B023, E731
        first, second = (expanded(curve, 0.0, size, angle, 0.3 * stretch) for size, angle, stretch in BASES)
        apart = np.abs(first[:, None] - second).min(axis=1)
        width = -2.0 * first.imag
        good = (apart < 1e-6 * width) & (width > NARROWEST) & (width < WIDEST) & (first.real > 0.0)
        if np.any(good):
            break
    place = int(rng.choice(np.flatnonzero(good)))
    # nearer to this resonance than to any other, and to the turned continuum
    reach = min(0.2 * float(np.sort(np.abs(first - first[place]))[1]), 0.05)
    near = round(float(first[place].real + rng.uniform(-reach, reach)), 6)
    value = f"({rise} * x^2 + {tilt} * x + {low}) * exp(-{fall} * x^2)"
    deck = _deck({"type": "expression", "value": value}, {"energy": near})
    return Trial(deck, lambda results: _resonance_claims(results, complex(first[place]), float(apart[place])))


def _in_a_field(rng: np.random.Generator) -> Trial:
    """Draw a bound level in a static field of either direction."""
    block, curve = _well(rng, long_range=True)
    field = round(float(rng.choice([-1.0, 1.0]) * rng.uniform(0.03, 0.15)), 4)
    level = int(rng.choice([0, 0, 1]))
    deck = _deck(block, True)
    deck["initial"] = {"type": "eigenstate", "level": level}
    deck["laser"] = {"pulses": [{"shape": "static", "E0": field}]}

    def judge(results: Results) -> list[Claim]:
        if "resonance_energy" not in results.scalars:
            return []
        # in small steps of the field from the level, which no basis confuses with another one
        found = []
        for size, angle, stretch in BASES:
            known: list[complex] = []
            for f in np.linspace(0.0, field, 61):
                energies = expanded(curve, float(f), size, angle, 0.3 * stretch, block["x0"])
                if not known:
                    known.append(complex(np.sort_complex(energies[energies.real < 0.0])[level]))
                    continue
                ahead = known[-1] if len(known) == 1 else 2.0 * known[-1] - known[-2]
                known.append(complex(energies[np.argmin(np.abs(energies - ahead))]))
            found.append(known[-1])
        return _resonance_claims(results, found[0], abs(found[0] - found[1]))

    return Trial(deck, judge)


def _resonance_claims(results: Results, exact: complex, oracle: float) -> list[Claim]:
    """Return the claims of position and rate."""
    claims = []
    for name, value in (("resonance_energy", exact.real), ("resonance_rate", -2.0 * exact.imag)):
        if name in results.scalars:
            scalar = results.scalars[name]
            claimed = math.nan if scalar.error is None else scalar.error
            away = float(scalar.value or 0.0) - value
            claims.append(Claim(name, away, claimed, oracle=4.0 * oracle + 1e-12, warning=WITHDRAWN))
    return claims


# ------------------------------------------------------------------------------------------------- spectra


@dataclass(frozen=True)
class _World:
    """What the oracles know of a deck."""

    potential: Function
    field: Function
    duration: float
    level: int
    # half of a box that holds the electron until the end, bohr
    half: float


def _lobe(omega: float, peak: float, cycles: int, cep: float) -> tuple[float, Function]:
    """Return the duration of a pulse with a sin^2 envelope on A, and its electric field."""
    length = 2.0 * math.pi * cycles / omega

    def electric(t: Any) -> Any:
        s = np.asarray(t, float)
        phase, turn = omega * (s - 0.5 * length) + cep, math.pi * s / length
        rise = math.pi / length * np.sin(2.0 * turn) * np.sin(phase)
        inside = (s > 0.0) & (s < length)
        return np.where(inside, -peak * (np.sin(turn) ** 2 * np.cos(phase) + rise / omega), 0.0)

    return length, electric


def line_spectra(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with a photoelectron spectrum of a line, by t-SURFF or by a window."""
    omega, peak = round(float(rng.uniform(0.6, 1.2)), 3), round(float(10 ** rng.uniform(-2.0, -1.0)), 4)
    cycles, cep = int(rng.integers(1, 4)), round(float(rng.uniform(0, 3)), 2)
    duration, field = _lobe(omega, peak, cycles, cep)
    surface = bool(rng.random() < 0.75)
    block, curve = _well(rng, long_range=True)
    top = round(float(rng.uniform(0.6, 1.4)) * omega, 3)
    spectrum: dict[str, Any] = {
        "method": "tsurff" if surface else "window",
        "energy": [round(float(rng.uniform(0.06, 0.25)), 3), top],
        "points": int(rng.integers(12, 40)),
    }
    half = NEAR + MARGIN + math.sqrt(2.0 * (2.0 * omega + 0.5)) * duration
    absorber: dict[str, Any] = {"type": "none"}
    if surface:
        radius = round(float(rng.uniform(20.0, 45.0)), 1)
        spectrum["radius"] = radius
        edge = round(radius + float(rng.uniform(36.0, 45.0)), 1)
        absorber = {"type": "manolopoulos", "kmin": 0.2, "delta": 0.2}
    else:
        edge = 60.0
        spectrum |= {"order": int(rng.integers(1, 5)), "gamma": round(float(rng.uniform(0.01, 0.08)), 4)}
    spacing = float(rng.uniform(0.12, 0.4))
    deck: dict[str, Any] = {
        "task": "propagate",
        "grid": {
            "xmin": -edge,
            "xmax": edge,
            "points": round(2.0 * edge / spacing),
            "stencil": str(rng.choice(["numerov", "numerov", "three_point"])),
        },
        "potential": block,
        "laser": {
            "gauge": str(rng.choice(["length", "velocity"])),
            "pulses": [{"shape": "sin2", "omega": omega, "E0": peak, "cycles": cycles, "cep": cep}],
        },
        "absorber": absorber,
        "time": {
            "dt": round(float(10 ** rng.uniform(-1.7, -0.8)), 4),
            "outputs": 2,
            "order": int(rng.choice([2, 4])),
            "coarse": "warn",
        },
        "spectra": [spectrum],
    }
    world = _World(curve, field, duration, 0, half)

    def judge(results: Results) -> list[Claim]:
        energy = np.asarray(results["pes_energy"])
        if surface:
            best, other = (_outgoing(world, energy, *finer) for finer in FINER)
        else:
            best, other = (_window(world, energy, edge, spectrum, count) for count in SINES)
        return _spectrum_claims(results, energy, best, other)

    return Trial(deck, judge)


def _outgoing(
    world: _World, energy: NDArray[np.float64], density: float, steps: float
) -> NDArray[np.float64]:
    """Return dP/dE from the waves that leave a box in ``(H - E - i 0)^-1 psi``."""
    from scipy.linalg import solve_banded

    start = Line(world.potential, (-NEAR, NEAR), [], round(density * 0.45 * 2.0 * NEAR))
    points = 1 << math.ceil(math.log2(2.0 * world.half * density))
    dx = 2.0 * world.half / points
    x = -world.half + dx * (0.5 + np.arange(points))
    inside = np.abs(x) < NEAR
    k = np.pi * np.arange(1, start.energies.size + 1) / (2.0 * NEAR)
    psi = np.zeros(points, complex)
    psi[inside] = (
        math.sqrt(1.0 / NEAR) * np.sin(np.outer(x[inside] + NEAR, k)) @ start.vectors[:, world.level]
    )
    v, half_square = world.potential(x), 0.5 * (2.0 * np.pi * np.fft.fftfreq(points, dx)) ** 2
    count = math.ceil(steps * world.duration)

    def carried(number: int) -> NDArray[np.complex128]:
        dt, out = world.duration / number, psi
        move = np.exp(-1j * dt * half_square)
        for f in world.field(dt * (np.arange(number) + 0.5)):
            kick = np.exp(-0.5j * dt * (v + f * x))
            out = kick * np.fft.ifft(move * np.fft.fft(kick * out))
        return np.asarray(out)

    end = (4.0 * carried(2 * count) - carried(count)) / 3.0
    found = np.empty(energy.size)
    # the compact stencil, with outgoing waves beyond both ends
    right = (10.0 * end + np.append(end[1:], 0.0) + np.append(0.0, end[:-1])) / 12.0
    for i, one in enumerate(energy):
        q = v - one
        bands = np.zeros((3, points), complex)
        bands[0, 1:], bands[2, :-1] = -0.5 / dx**2 + q[1:] / 12.0, -0.5 / dx**2 + q[:-1] / 12.0
        bands[1] = 1.0 / dx**2 + q * (10.0 / 12.0)
        turns = []
        for edge in (0, -1):
            # momentum of the stencil at the end, where the potential hardly changes
            s = q[edge] * dx**2
            angle = math.acos((1.0 + 5.0 * s / 6.0) / (1.0 - s / 6.0))
            turns.append(angle)
            bands[1, edge] += np.exp(1j * angle) * (-0.5 / dx**2 + q[edge] / 12.0)
        w = solve_banded((1, 1), bands, right)
        # the current of both waves that leave
        found[i] = sum(abs(w[edge]) ** 2 * math.sin(t) / dx for edge, t in zip((0, -1), turns, strict=True))
    return found / (2.0 * math.pi)


def _window(
    world: _World, energy: NDArray[np.float64], edge: float, spectrum: dict[str, Any], count: int
) -> NDArray[np.float64]:
    """Return the density of energies that a window sees, in the box between the walls."""
    box = Line(world.potential, (-edge, edge), [], count)
    v = np.zeros(count, complex)
    v[world.level] = 1.0
    ends = [
        box.run(v, world.field, np.linspace(0.0, world.duration, n * math.ceil(world.duration / 0.06) + 1))
        for n in (1, 2)
    ]
    weight = np.abs((4.0 * ends[1] - ends[0]) / 3.0) ** 2
    power, gamma = 2 ** spectrum["order"], spectrum["gamma"]
    area = gamma * (2.0 * np.pi / power) / math.sin(np.pi / power)
    return np.asarray(1.0 / (1.0 + ((box.energies - energy[:, None]) / gamma) ** power) @ weight / area)


def _spectrum_claims(
    results: Results, energy: NDArray[np.float64], best: NDArray[np.float64], other: NDArray[np.float64]
) -> list[Claim]:
    """Return the claims of a spectrum, where it is furthest from being kept, and of its integral."""
    oracle = 2.0 * np.abs(best - other) + 1e-9 + 1e-5 * best.max()
    away, claimed = np.asarray(results["pes"]) - best, np.asarray(results["pes_error"])
    worst = int(np.argmax(np.abs(away) / (10.0 * claimed + oracle)))
    total = results.scalars["pes_total"]
    stated = math.nan if total.error is None else total.error
    difference = float(total.value or 0.0) - float(np.trapezoid(best, energy))
    return [
        Claim(
            "pes", float(away[worst]), float(claimed[worst]), oracle=float(oracle[worst]), warning=WITHDRAWN
        ),
        Claim("pes_total", difference, stated, oracle=float(np.trapezoid(oracle, energy)), warning=WITHDRAWN),
    ]
