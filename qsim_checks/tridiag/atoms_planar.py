r"""Random decks of ``task: atom`` in fields that turn, with attoclock angles of hydrogen.

The oracle of :mod:`qsim_checks.tridiag.atoms` with all m of one parity of l + m, in axes that do not turn.  The coupling is

    r sin(theta) (E_x cos(phi) + E_y sin(phi)) = r/2 sin(theta) (e^{i phi} (E_x - i E_y) + e^{-i phi} (E_x + i E_y)),
    <l + 1, m + 1| sin(theta) e^{i phi} |l m> = -sqrt((l + m + 1) (l + m + 2) / ((2 l + 1) (2 l + 3))),
    <l + 1, m - 1| sin(theta) e^{-i phi} |l m> = sqrt((l - m + 1) (l - m + 2) / ((2 l + 1) (2 l + 3))).

Angles are found from Coulomb functions that are normalised at the nucleus, ``F_l ~ C_l (k r)^(l + 1)``, with
``C_l = 2^l e^(pi / 2 k) |Gamma(l + 1 - i / k)| / (2 l + 1)!``, so that nothing is matched far out, and a dense search for the
maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.tridiag.atoms import Basis, central, claims_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["PlaneBasis", "World", "truth", "turning"]

MORE_L = 3  # l beyond those of the deck
MESH = 0.004  # bohr, of the Coulomb functions
ENERGIES = 301  # of the integral over momenta
AZIMUTHS = 7200
WITHDRAWN = r"uncertain|last l|contrast|at its highest energy"


class PlaneBasis(Basis):
    """Radial eigenfunctions of each l, with all m that a field in the plane reaches."""

    def __init__(
        self, potential: Callable[[Any], Any], box: float, lmax: int, parity: int, order: int, highest: float
    ) -> None:
        super().__init__(potential, box, lmax, 0, order, highest)
        self.dipole = []
        for l, matrix in enumerate(self.coupling):
            self.dipole.append(matrix * math.sqrt((2 * l + 1) * (2 * l + 3)) / (l + 1))
        self.ms = [np.arange(-l + parity, l - parity + 1, 2) for l in range(lmax + 1)]
        sizes = [e.size * m.size for e, m in zip(self.energies, self.ms, strict=True)]
        self.ends = np.cumsum([0, *sizes])
        self.diagonal = np.concatenate(
            [np.repeat(e, m.size) for e, m in zip(self.energies, self.ms, strict=True)]
        )

    def block(self, v: Any, l: int) -> Any:
        """Return the amplitudes of one l, (levels, m)."""
        return self.part(v, l).reshape(self.energies[l].size, self.ms[l].size)

    def apply(self, v: Any, energy: float, field: Any) -> Any:
        """Return ``(energy H0 + field.r) v``, field (2,)."""
        out = energy * self.diagonal * v
        up, down = 0.5 * (field[0] - 1j * field[1]), 0.5 * (field[0] + 1j * field[1])
        for l, matrix in enumerate(self.dipole):
            m, above = self.ms[l], self.ms[l + 1]
            scale = 1.0 / math.sqrt((2 * l + 1) * (2 * l + 3))
            raised = -scale * np.sqrt((l + m + 1.0) * (l + m + 2.0)) * up
            lowered = scale * np.sqrt((l - m + 1.0) * (l - m + 2.0)) * down
            right, left = np.searchsorted(above, m + 1), np.searchsorted(above, m - 1)
            here, there = self.block(v, l), self.block(v, l + 1)
            risen = matrix @ here
            upper = self.block(out, l + 1)
            upper[:, right] += raised * risen
            upper[:, left] += lowered * risen
            sunk = matrix.T @ there
            lower = self.block(out, l)
            lower += raised.conj() * sunk[:, right] + lowered.conj() * sunk[:, left]
        return out


@dataclass(frozen=True)
class World:
    """What the oracle knows of a deck.

    Attributes
    ----------
    potential : function
    field : function
        E(t), (2,).
    duration : float
    start : (n, l, m)
    lmax : int
    parity : int
        Of l + m.
    reference : float or None
        Azimuth from which the attoclock angle counts, radian; None without one.
    sense : int
    energy : (first, last)
        Of the attoclock angle, hartree.
    """

    potential: Callable[[Any], Any]
    field: Callable[[float], NDArray[np.float64]]
    duration: float
    start: tuple[int, int, int]
    lmax: int
    parity: int
    reference: float | None
    sense: int
    energy: tuple[float, float]


def coulomb(l: int, k: NDArray[np.float64], box: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a mesh, and energy-normalised Coulomb functions of a proton on it, (mesh, k), by Numerov's method."""
    from scipy.special import loggamma

    n = math.ceil(box / MESH) + 1
    r = np.asarray(MESH * np.arange(n + 1), dtype=float)
    r[0] = 1.0  # not used
    eta = -1.0 / k
    log_c = l * math.log(2.0) - 0.5 * math.pi * eta + loggamma(l + 1 + 1j * eta).real - math.lgamma(2 * l + 2)
    slope = np.sqrt(2.0 / (math.pi * k)) * np.exp(log_c) * k ** (l + 1)
    u = np.zeros((n + 1, k.size))
    for j in (1, 2):  # the power series of the equation
        terms = [1.0 + 0.0 * k, -np.ones_like(k) / (l + 1)]
        for p in range(2, 30):
            terms.append((-2.0 * terms[-1] - k**2 * terms[-2]) / (p * (p + 2 * l + 1)))
        u[j] = slope * r[j] ** (l + 1) * sum(term * r[j] ** p for p, term in enumerate(terms))
    g = 2.0 / r[:, None] + k**2 - l * (l + 1) / r[:, None] ** 2
    f = 1.0 + MESH**2 / 12.0 * g
    for j in range(2, n):
        u[j + 1] = ((12.0 - 10.0 * f[j]) * u[j] - f[j - 1] * u[j - 1]) / f[j + 1]
    r[0] = 0.0
    return r, u


def _angle(basis: PlaneBasis, v: Any, world: World) -> float:
    """Return the attoclock angle, degrees."""
    from scipy.interpolate import CubicSpline
    from scipy.special import loggamma, sph_harm_y

    k = np.linspace(math.sqrt(2.0 * world.energy[0]), math.sqrt(2.0 * world.energy[1]), ENERGIES)
    azimuth = -math.pi + 2.0 * math.pi * np.arange(180) / 180
    amplitude = np.zeros((k.size, azimuth.size), dtype=complex)
    for l, states in enumerate(basis.states):
        values = states @ basis.block(v, l)
        if not np.any(np.abs(values) > 1e-9):
            continue
        mesh, waves = coulomb(l, k, float(basis.r[-1]))
        at = CubicSpline(mesh, waves)(basis.r)
        # quadrature: sum of weight F u, with u = value / sqrt(weight)
        found = (basis.root[:, None] * at).T @ values
        sigma = loggamma(l + 1 - 1j / k).imag
        y = sph_harm_y(l, basis.ms[l][:, None], 0.5 * math.pi, azimuth[None, :])
        amplitude += ((-1j) ** l * np.exp(1j * sigma))[:, None] * (found @ y)
    # d2P/dE dOmega; uniform in k
    over = np.trapezoid(np.abs(amplitude) ** 2, k, axis=0)
    weights = np.fft.rfft(over)
    fine = np.fft.irfft(weights, AZIMUTHS)
    top = int(np.argmax(fine))
    near = np.arange(top - 3, top + 4)
    peak = CubicSpline(near, fine[near % AZIMUTHS]).derivative().roots(extrapolate=False)
    best = -math.pi + 2.0 * math.pi * float(peak[np.argmin(np.abs(peak - top))]) / AZIMUTHS
    assert world.reference is not None
    return math.degrees(math.remainder(world.sense * (best - world.reference), 2.0 * math.pi))


def truth(world: World, box: float, order: int, highest: float, finer: float) -> dict[str, float]:
    """Return norm, populations and attoclock angle of a deck.

    Parameters
    ----------
    world
    box
        Radius of the wall, bohr.
    order, highest
        Points of an element, and highest energy of the basis, hartree.
    finer
        Steps per 0.25 a.u.
    """
    basis = PlaneBasis(world.potential, box, world.lmax + MORE_L, world.parity, order, highest)
    v = np.zeros(basis.diagonal.size, dtype=complex)
    n, l, m = world.start
    basis.block(v, l)[n - l - 1, int(np.searchsorted(basis.ms[l], m))] = 1.0
    v = basis.run(v, world.field, world.duration, max(16, math.ceil(finer * world.duration / 0.25)))
    found = {"norm_final": float(np.sum(np.abs(v) ** 2))}
    for name, (level, momentum) in {"1s": (0, 0), "2s": (1, 0), "2p": (0, 1)}.items():
        if basis.ms[momentum].size:
            found[f"population_{name}"] = float(np.sum(np.abs(basis.block(v, momentum)[level]) ** 2))
    bound = sum(float(np.sum(np.abs(basis.block(v, k)[e < 0.0]) ** 2)) for k, e in enumerate(basis.energies))
    found |= {"bound_population": bound, "continuum_population": 1.0 - bound}
    if world.reference is not None:
        found["attoclock_angle"] = _angle(basis, v, world)
    return found


def turning(rng: np.random.Generator) -> Trial:
    """Draw a deck of ``task: atom`` with a field that turns."""
    clock = bool(rng.random() < 0.5)
    block, potential = central(rng)
    if clock:
        block, potential = {"type": "hydrogen"}, lambda r: -1.0 / r
    rmax = round(float(rng.uniform(26, 32)), 1)
    start = (
        (1, 0, 0) if clock else [(1, 0, 0), (2, 0, 0), (2, 1, 1), (2, 1, -1), (2, 1, 0)][int(rng.integers(5))]
    )
    omega, peak = round(float(rng.uniform(0.3, 0.9)), 3), round(float(10 ** rng.uniform(-1.8, -0.8)), 4)
    cycles, cep = int(rng.integers(1, 3)), round(float(rng.uniform(0, 3)), 2)
    ratio, left = round(float(rng.uniform(0.2, 1.0)), 2), bool(rng.random() < 0.5)
    if clock:
        cycles, peak = 1, max(peak, 0.05)
    lmax = start[1] + int(rng.integers(2, 5))
    dr0 = round(
        0.05 * float(10 ** rng.uniform(-0.3, 0.3)) / (1 if block["type"] in ("hydrogen", "yukawa") else 2), 4
    )
    duration, size = 2.0 * math.pi * cycles / omega, peak / math.hypot(1.0, ratio)
    late = -0.5 * math.pi if left else 0.5 * math.pi
    energy = (0.05, 0.9)
    deck: dict[str, Any] = {
        "task": "atom",
        "atom": block,
        "grid": {
            "rmax": rmax,
            "dr": round(float(rng.uniform(0.15, 0.4)), 3),
            "l_max": lmax,
            "map": {"dr0": dr0, "width": round(float(rng.uniform(25, 60)), 1)},
        },
        "initial": dict(zip("nlm", start, strict=True)),
        "laser": {
            "gauge": str(rng.choice(["length", "velocity"])),
            "polarization": {
                "type": "elliptical",
                "ellipticity": ratio,
                "handedness": "left" if left else "right",
            },
            "pulses": [{"shape": "sin2", "omega": omega, "E0": peak, "cycles": cycles, "cep": cep}],
        },
        "time": {
            "dt": round(float(10 ** rng.uniform(-1.7, -0.8)), 4),
            "outputs": 2,
            "order": int(rng.choice([2, 2, 4])),
            "coarse": "warn",
        },
        "observe": [{"populations": {"nmax": 2}}],
    }
    if clock:
        deck["spectra"] = [{"method": "scattering", "energy": list(energy), "points": 120, "angles": 72}]

    def one(t: Any, phase: float) -> Any:
        p, angle = math.pi / duration, omega * (t - 0.5 * duration) + cep + phase
        slope = p * np.sin(2 * p * t) * np.sin(angle) + omega * np.sin(p * t) ** 2 * np.cos(angle)
        return -size / omega * slope

    def potential_of(t: float, phase: float) -> float:
        angle = omega * (t - 0.5 * duration) + cep + phase
        return size / omega * math.sin(math.pi * t / duration) ** 2 * math.sin(angle)

    t = np.linspace(0.0, duration, 2001)
    for _ in range(2):
        best = int(np.argmax(np.hypot(one(t, 0.0), ratio * one(t, late))))
        t = np.linspace(t[max(best - 1, 0)], t[min(best + 1, 2000)], 2001)
    top = float(t[int(np.argmax(np.hypot(one(t, 0.0), ratio * one(t, late))))])
    reference = math.atan2(-ratio * potential_of(top, late), -potential_of(top, 0.0))
    world = World(
        potential,
        lambda t: np.array([one(t, 0.0), ratio * one(t, late)]),
        duration,
        start,
        lmax,
        (start[1] + start[2]) % 2,
        reference if clock else None,
        1 if left else -1,
        energy,
    )
    return Trial(deck, lambda results: _judge(world, results))


def _judge(world: World, results: Results) -> list[Claim]:
    box = float(results.scalars["rmax"].value or 0.0)
    best = truth(world, box, 13, 30.0, 1.5)
    other = truth(world, box, 11, 20.0, 1.0)
    return claims_of(results, best, other, WITHDRAWN)
