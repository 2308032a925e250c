"""Random photoelectron spectra of hydrogen, by all methods.

The oracle propagates as that of :mod:`qsim_checks.tridiag.atoms` does, in a box that holds the electron whatever the deck
absorbs, and projects on Coulomb functions that are normalised at the nucleus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.tridiag.atoms import Basis, pulse_of
from qsim_checks.tridiag.atoms_planar import coulomb

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["photoelectron"]

MORE_L = 2  # l beyond those of the deck
MARGIN = 34.0  # bohr of the oracle's box beyond what the fastest electrons cover
WITHDRAWN = r"uncertain|last l|of the norm was absorbed|which the wall turns back"


@dataclass(frozen=True)
class _World:
    """What the oracle knows of a deck."""

    field: Callable[[float], float]
    duration: float
    start: tuple[int, int, int]
    lmax: int
    box: float


def _truth(
    world: _World, energy: NDArray[np.float64], order: int, highest: float, finer: float
) -> NDArray[np.float64]:
    """Return dP/dE."""
    from scipy.interpolate import CubicSpline

    n, l, m = world.start
    basis = Basis(lambda r: -1.0 / r, world.box, world.lmax + MORE_L, m, order, highest)
    v = np.zeros(basis.diagonal.size, dtype=complex)
    basis.part(v, l - m)[n - l - 1] = 1.0
    v = basis.run(v, world.field, world.duration, max(16, math.ceil(finer * world.duration / 0.25)))
    k, found = np.sqrt(2.0 * energy), np.zeros(energy.size)
    for index, states in enumerate(basis.states):
        values = states @ basis.part(v, index)
        if np.any(np.abs(values) > 1e-9):
            mesh, waves = coulomb(m + index, k, float(basis.r[-1]))
            found += np.abs((basis.root[:, None] * CubicSpline(mesh, waves)(basis.r)).T @ values) ** 2
    return found


def photoelectron(rng: np.random.Generator) -> Trial:
    """Draw a deck of ``task: atom`` with spectra: window and scattering states in one box, or flux before an absorber."""
    n, l, m = [(1, 0, 0), (1, 0, 0), (2, 0, 0), (2, 1, 0), (2, 1, 1)][int(rng.integers(5))]
    omega = round(float(rng.uniform(0.45, 1.2)), 3)
    peak, cycles = round(float(10 ** rng.uniform(-2.5, -1.0)), 4), int(rng.integers(1, 4))
    cep = round(float(rng.uniform(0, 3)), 2)
    duration, field = pulse_of(omega, peak, cycles, cep)
    flux = bool(rng.random() < 0.35)
    fastest = math.sqrt(2.0 * (2.0 * omega + 0.3))
    box = MARGIN + 8.0 * n * n + fastest * duration
    lmax = l + int(rng.integers(2, 5))
    top = round(float(rng.uniform(0.5, 1.6)) * omega, 3)
    energies = {"energy": [round(float(rng.uniform(0.02, 0.2)), 3), top], "points": int(rng.integers(20, 60))}
    spectra: list[dict[str, Any]] = [{"method": "scattering", **energies, "angles": 2}]
    window: dict[str, Any] = {"method": "window", **energies, "order": int(rng.integers(1, 5))}
    if rng.random() < 0.5:
        window["gamma"] = float(f"{10 ** rng.uniform(-3.5, -1.5):.3g}")
    spectra.insert(int(rng.integers(0, 2)), window)
    rmax = round(box * float(rng.uniform(1.0, 1.15)), 1)
    absorber: dict[str, object] = {"type": "none"}
    if flux:
        radius = round(8.0 * n * n + float(rng.uniform(15.0, 30.0)), 1)
        spectra = [{"method": "tsurff", "radius": radius, **energies, "angles": 2}]
        rmax = round(radius + 50.0, 1)
        absorber = {"type": "manolopoulos", "kmin": 0.2, "delta": 0.2}
    deck: dict[str, Any] = {
        "task": "atom",
        "atom": "hydrogen",
        "grid": {
            "rmax": rmax,
            "dr": round(float(rng.uniform(0.15, 0.35)), 3),
            "l_max": lmax,
            "map": {
                "dr0": round(0.05 * float(10 ** rng.uniform(-0.3, 0.3)), 4),
                "width": round(float(rng.uniform(25, 60)), 1),
            },
        },
        "initial": {"n": n, "l": l, "m": m},
        "laser": {
            "gauge": str(rng.choice(["length", "velocity"])),
            "pulses": [{"shape": "sin2", "omega": omega, "E0": peak, "cycles": cycles, "cep": cep}],
        },
        "absorber": absorber,
        "time": {
            "dt": round(float(10 ** rng.uniform(-1.7, -0.9)), 4),
            "outputs": 2,
            "order": int(rng.choice([2, 4])),
            "coarse": "warn",
        },
        "spectra": spectra,
    }
    world = _World(field, duration, (n, l, m), lmax, box)
    return Trial(deck, lambda results: _judge(world, results, [one["method"] for one in spectra]))


def _judge(world: _World, results: Results, methods: list[str]) -> list[Claim]:
    """Return the claims of the spectra, each at the energy where it is furthest from being kept, and of their integral."""
    energy = np.asarray(results["energy"])
    best, other = _truth(world, energy, 13, 25.0, 1.5), _truth(world, energy, 11, 18.0, 1.0)
    oracle = 2.0 * np.abs(best - other) + 1e-10
    claims = []
    for index, method in enumerate(methods):
        value, error = ("pes", "pes_error") if index == 0 else (f"{method}_pes", f"{method}_error")
        away, claimed = np.asarray(results[value]) - best, np.asarray(results[error])
        worst = int(np.argmax(np.abs(away) / (10.0 * claimed + oracle)))
        claims.append(
            Claim(
                f"{value} ({method})",
                float(away[worst]),
                float(claimed[worst]),
                oracle=float(oracle[worst]),
                warning=WITHDRAWN,
            )
        )
    total = results.scalars["pes_total"]
    difference = float(total.value or 0.0) - float(np.trapezoid(best, energy))
    stated = math.nan if total.error is None else total.error
    claims.append(
        Claim("pes_total", difference, stated, oracle=float(np.trapezoid(oracle, energy)), warning=WITHDRAWN)
    )
    return claims + _peak(world, results, float(energy[1] - energy[0]))


def _peak(world: _World, results: Results, step: float) -> list[Claim]:
    """Return the claim of the energy of the highest peak, where there is one between two energies of the spectrum."""
    if "peak_energy_0" not in results.scalars:
        return []
    from scipy.interpolate import CubicSpline

    scalar = results.scalars["peak_energy_0"]
    found, stated = float(scalar), math.nan if scalar.error is None else scalar.error
    # every energy is a solution of the oracle: few of them, of a smooth line
    near = found + step * np.linspace(-1.0, 1.0, 7)
    near = near[near > 1e-3]
    tops = []
    for setting in ((13, 25.0, 1.5), (11, 18.0, 1.0)):
        slope = CubicSpline(near, np.log(_truth(world, near, *setting))).derivative()
        roots = [root for root in slope.roots(extrapolate=False) if slope(root, 1) < 0.0]
        # no peak within the energies beside it: the claim is off by them at least
        tops.append(min(roots, key=lambda root: abs(root - found), default=found + step))
    oracle = 2.0 * abs(tops[0] - tops[1]) + 1e-8
    return [Claim("peak_energy_0", found - tops[0], stated, oracle=oracle, warning=WITHDRAWN)]
