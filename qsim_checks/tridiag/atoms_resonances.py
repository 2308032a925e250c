r"""Random resonances of ``task: atom`` in static fields.

The oracle of hydrogen separates the equation in parabolic coordinates ``xi = r + z``, ``eta = r - z``,

    (xi f')' + (E xi / 2 - m^2 / (4 xi) - F xi^2 / 4 + b1) f = 0,   the same for eta with -F and b2,   b1 + b2 = Z,

in Laguerre functions on complex xi and eta: b1 and b2 are eigenvalues for each E, and E is found by Newton's method.  That of
screened atoms expands each l in ``r^(l + 1) exp(-k r) L_n^(2 l + 1)(2 k r)`` on complex r.  Neither shares a grid with the
program; their own errors are the differences of two bases.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["resonant", "separated", "spherical"]

STAGES = 24  # fields from 0 to F
NEWTON = 12
INVERSE = 8  # steps of an inverse iteration, the last half with a moving shift
WITHDRAWN = r"no resonance|resonance_rate .* is uncertain"


def laguerre(size: int, alpha: int, points: int) -> tuple[NDArray[np.float64], ...]:
    """Return nodes, weights, and normalised ``x^(alpha/2) L_n^alpha(x)`` and the slope of it times exp(-x/2), (n, points)."""
    from scipy.special import eval_genlaguerre, gammaln, roots_laguerre

    x, w = roots_laguerre(points)
    n = np.arange(size)[:, None]
    scale = np.exp(0.5 * (gammaln(n + 1) - gammaln(n + alpha + 1))) * x ** (0.5 * alpha)
    value = scale * eval_genlaguerre(n, alpha, x)
    lower = scale * np.where(n > 0, eval_genlaguerre(np.maximum(n - 1, 0), alpha + 1, x), 0.0)
    return x, w, value, (0.5 * alpha / x - 0.5) * value - lower


class _Half:
    """One parabolic coordinate, scaled to ``x = k rho``."""

    def __init__(self, m: int, k: float, size: int, angle: float) -> None:
        x, w, f, slope = laguerre(size, m, size + m + 8)
        turn, rho = np.exp(1j * angle), x / k
        self.free = ((slope * w * x) @ slope.T * k + (f * w / x) @ f.T * k * 0.25 * m * m) / turn
        self.energy = (f * w * rho) @ f.T * 0.5 * turn
        self.field = (f * w * rho**2) @ f.T * 0.25 * turn**2
        self.one = (1.0 + 1e-13) * np.eye(size)  # never quite singular

    def nearest(self, energy: complex, field: float, to: complex) -> tuple[complex, complex]:
        """Return the b nearest to a number, and its derivative with respect to E."""
        h = self.free - energy * self.energy + field * self.field
        v, value = np.ones(len(h), complex), to
        for shifted in range(INVERSE):
            y = np.linalg.solve(h - (to if shifted < INVERSE // 2 else value) * self.one, v)
            v = y / np.linalg.norm(y)
            value = complex((v @ h @ v) / (v @ v))
        return value, -complex((v @ self.energy @ v) / (v @ v))


def separated(
    charge: float,
    n1: int,
    n2: int,
    m: int,
    field: float,
    *,
    size: int = 56,
    stretch: float = 1.0,
    angle: float = 0.5,
) -> complex:
    """Return ``E - i Gamma / 2`` of hydrogen in a static field, hartree."""
    n = n1 + n2 + m + 1
    k = charge / n * stretch
    half = _Half(m, k, size, angle)
    energy: complex = -0.5 * (charge / n) ** 2
    b = [complex(charge / n * (nodes + 0.5 * (m + 1))) for nodes in (n1, n2)]
    old = [list(b), list(b)]
    energies = [energy, energy]
    for stage in range(1, STAGES + 1):
        f = field * stage / STAGES
        # straight on from the two fields before
        guess = [2.0 * one - other for one, other in zip(old[-1], old[-2], strict=True)]
        energy = 2.0 * energies[-1] - energies[-2]
        for _ in range(NEWTON):
            (first, rise), (second, fall) = (
                half.nearest(energy, sign * f, near) for sign, near in zip((1.0, -1.0), guess, strict=True)
            )
            change = (charge - first - second) / (rise + fall)
            guess, energy = [first + rise * change, second + fall * change], energy + change
            if abs(change) < (1e-15 if stage == STAGES else 1e-6) * abs(energy):
                break
        old.append(guess)
        energies.append(energy)
    return energy


def spherical(
    potential: Callable[[Any], Any],
    field: float,
    m: int,
    near: complex,
    *,
    lmax: int,
    size: int,
    k: float,
    angle: float,
) -> complex:
    """Return ``E - i Gamma / 2`` nearest to a number, of any potential, hartree."""
    from scipy.linalg import lu_factor, lu_solve

    turn = np.exp(1j * angle)
    momenta = range(m, lmax + 1)
    points = size + 2 * lmax + 30
    h = np.zeros((len(momenta) * size,) * 2, complex)
    b = np.zeros_like(h)
    before: NDArray[np.float64] | None = None
    for j, l in enumerate(momenta):
        # u = sqrt(x) times the function of weight x^(2 l + 1)
        x, w, f, slope = laguerre(size, 2 * l + 1, points)
        r = x / (2.0 * k)
        root = np.sqrt(x)
        u, du = f * root, slope * root + 0.5 * f / root
        here = slice(j * size, (j + 1) * size)
        v = potential(r * turn) + l * (l + 1.0) / (2.0 * (r * turn) ** 2)
        h[here, here] = 2.0 * k * k * (du * w) @ du.T / turn**2 + (u * w * v) @ u.T
        b[here, here] = (u * w) @ u.T
        if before is not None:
            last = slice((j - 1) * size, j * size)
            c = math.sqrt((l * l - m * m) / (4.0 * l * l - 1.0))
            h[here, last] = field * c * turn * (u * w * r) @ before.T
            h[last, here] = h[here, last].T
        before = u
    v, energy = np.ones(len(h), complex), near
    for _ in range(3):
        factors = lu_factor(h - (energy + 1e-9) * b)
        shift = energy + 1e-9
        for _ in range(30):
            y = lu_solve(factors, b @ v)
            energy, v = shift + (v @ b @ v) / (v @ b @ y), y / np.linalg.norm(y)
    return complex(energy)


def resonant(rng: np.random.Generator) -> Trial:
    """Draw a deck that asks for a resonance: Stark states of hydrogen by their numbers or energies, levels of screened atoms."""
    return _hydrogen(rng) if rng.random() < 0.7 else _screened(rng)


def _deck(atom: dict[str, Any], initial: Any, field: float, resonance: Any) -> dict[str, Any]:
    """Return a deck whose propagation is as short as can be."""
    return {
        "task": "atom",
        "atom": atom,
        "grid": {"rmax": 30, "dr": 0.3, "l_max": 2, "map": {"dr0": 0.05, "width": 30}},
        "initial": initial,
        "laser": {"gauge": "length", "pulses": [{"shape": "static", "E0": field}]},
        "time": {"dt": 0.1, "t_final": 0.1, "outputs": 1, "verify": False},
        "observe": [{"resonance": resonance}],
    }


def _hydrogen(rng: np.random.Generator) -> Trial:
    """Draw a Stark state of a hydrogen-like ion, in fields about that at which the barrier vanishes."""
    charge = float(rng.choice([1.0, 1.0, 2.0, round(float(rng.uniform(0.7, 4.0)), 2)]))
    n = int(rng.integers(1, 5))
    m = int(rng.integers(0, n))
    n1 = int(rng.integers(0, n - m))
    n2 = n - m - 1 - n1
    # 1 / (9 n^4) for states downhill, more for those uphill
    barrier = charge**3 / (9.0 * n**4) * (1.0 + 0.6 * max(n1 - n2, 0) / n)
    field = float(f"{barrier * 10 ** rng.uniform(-0.3, 0.3):.4g}")
    exact, other = (
        separated(charge, n1, n2, m, field, size=size, stretch=stretch, angle=angle)
        for size, stretch, angle in ((56, 1.0, 0.5), (50, 1.15, 0.56))
    )
    how: dict[str, Any] = {"n1": n1, "n2": n2, "m": m}
    if rng.random() < 0.3:  # by an energy, much nearer to this state than to the next of its n
        away = 0.2 * 1.5 * n * field / charge
        how = {"m": m, "energy": round(exact.real + float(rng.uniform(-away, away)), 7)}
    deck = _deck({"type": "hydrogenic", "Z": charge}, "1s", field, how)
    return Trial(deck, lambda results: _claims(results, exact, abs(exact - other)))


def _screened(rng: np.random.Generator) -> Trial:
    """Draw the ground state of a screened potential, named by its level."""
    if rng.random() < 0.5:
        reach = round(float(rng.uniform(3.0, 20.0)), 2)
        atom: dict[str, Any] = {"type": "yukawa", "range": reach}
        potential, field = lambda r: -np.exp(-r / reach) / r, float(rng.uniform(0.02, 0.08))
    else:
        a = [round(float(rng.uniform(low, high)), 3) for low, high in ((0.3, 1.5), (0.6, 2.0))]
        atom = {"type": "tong_lin", "a": [a[0], a[1], 0.0, 1.0, 0.0, 1.0]}
        potential, field = lambda r: -(1.0 + a[0] * np.exp(-a[1] * r)) / r, float(rng.uniform(0.06, 0.2))
    field = round(field, 4)

    def judge(results: Results) -> list[Claim]:
        energy, rate = (results.scalars[f"resonance_{name}"].value for name in ("energy", "rate"))
        near = complex(float(energy or 0.0), -0.5 * float(rate or 0.0))
        exact, other = (
            spherical(potential, field, 0, near, lmax=lmax, size=size, k=k, angle=angle)
            for lmax, size, k, angle in ((19, 34, 0.9, 0.45), (17, 31, 1.05, 0.5))
        )
        return _claims(results, exact, abs(exact - other))

    return Trial(_deck(atom, "1s", field, True), judge)


def _claims(results: Results, exact: complex, oracle: float) -> list[Claim]:
    """Return the claims of position and rate."""
    claims = []
    for name, value in (("resonance_energy", exact.real), ("resonance_rate", -2.0 * exact.imag)):
        if name in results.scalars:
            scalar = results.scalars[name]
            claimed = math.nan if scalar.error is None else scalar.error
            away = float(scalar.value or 0.0) - value
            claims.append(Claim(name, away, claimed, oracle=4.0 * oracle + 1e-13, warning=WITHDRAWN))
    return claims
