"""The oracle of ``task: plane``: both coordinates in the sines between the walls, Strang steps with exact kinetic phases.

A distance from an axis has the Bessel functions up to its wall in place of sines.

Norms by regions are integrals of products of sines in closed form.  Its own error is the difference of two numbers of sines, and
of two extrapolants in the step.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.tridiag.fields import Curve

__all__ = ["LEVELS", "Sines", "World", "judge"]

SINES = (80, 95)
# longest steps of the oracle, a.u.; the finest are half of it
STEP = 0.02
# of the two factors that the levels of one symmetry are told apart by, hartree
PENALTY = 50.0
LEVELS = 2
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass
class World:
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
    radial : bool
        Whether the first coordinate is a distance from an axis.
    turn : (float, float)
        u and v of ``u y p_x - v x p_y`` in the energy: a magnetic field, or a frame that rotates.
    sines : (int, int)
        Numbers of sine waves of either coordinate, of the two runs.
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
    radial: bool = False
    turn: tuple[float, float] = (0.0, 0.0)
    sines: tuple[int, int] = SINES
    boxes: dict[str, tuple[tuple[float, float], tuple[float, float]]] = dataclasses.field(
        default_factory=dict
    )


class Sines:
    """The two coordinates in sine waves between the walls."""

    def __init__(self, world: World, count: int) -> None:
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
        if not world.radial:
            self.momenta = [self._momentum(k, length) for k, length in zip(self.k, lengths, strict=True)]

    def _momentum(self, k: NDArray[np.floating[Any]], length: float) -> NDArray[np.complex128]:
        """Return -i d/dx between points, by its integrals between sine waves in closed form."""
        count = k.size
        number = np.arange(1, count + 1)
        apart = number[:, None] ** 2 - number**2
        odd = (number[:, None] + number) % 2 == 1
        slopes = np.where(odd, 4.0 * np.outer(number, number) / np.where(odd, apart, 1), 0.0) / length
        waves = np.sqrt(2.0 / (count + 1)) * np.sin(np.outer(number, number) * np.pi / (count + 1))
        return np.asarray(-1j * waves @ slopes @ waves)

    def turned(self, psi: NDArray[Any]) -> NDArray[np.complex128]:
        """Return ``(u y p_x - v x p_y) psi`` at the points."""
        (u, v), (first, second) = self.world.turn, self.momenta
        return np.asarray(u * self.y * (first @ psi) - v * self.x[:, None] * (psi @ second.T))

    def _steps(self, dt: float) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the exact motion along x in half a step at each y, and along y in a step at each x: (points, n, n)."""
        found = []
        rows = zip((0.5 * dt, dt), self.k, self.world.masses, self.world.turn, self.momenta, strict=True)
        for (length, k, mass, rate, p), other, sign in zip(rows, (self.y, self.x), (1.0, -1.0), strict=True):
            waves = np.sqrt(2.0 / (k.size + 1)) * np.sin(
                np.outer(np.arange(1, k.size + 1), np.arange(1, k.size + 1)) * np.pi / (k.size + 1)
            )
            rest = (waves * (0.5 * k * k / mass)) @ waves
            values, states = np.linalg.eigh(rest + sign * rate * other[:, None, None] * p)
            found.append((states * np.exp(-1j * length * values)[:, None]) @ states.conj().transpose(0, 2, 1))
        return found[0], found[1]

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
            if any(self.world.turn):
                out = out + self.turned(psi)
            if exchange:
                out = out + 0.5 * PENALTY * (psi - exchange * psi.T)
            return out.ravel()

        x, y = self.x[:, None], self.y
        start = np.exp(-0.3 * (x * x + y * y)) * (1.0 + 0.3 * x - 0.2 * y)
        energies, states = eigsh(
            LinearOperator((n * n, n * n), matvec=product, dtype=complex if any(self.world.turn) else float),
            k=LEVELS + 1,
            which="SA",
            v0=start.ravel(),
            ncv=60,
            tol=1e-12,
        )
        # the sign of the run, which tells superpositions apart: the largest amplitude is positive
        largest = states[np.abs(states).argmax(axis=0), np.arange(states.shape[1])]
        states = states * (np.abs(largest) / largest)
        return energies, states.T.reshape(-1, n, n) / math.sqrt(self.cell)

    def _ground(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ground state of a condensate, the lowest energy of all functions of norm 1, and two values about mu."""
        from scipy.optimize import minimize

        g, n = self.world.g, self.x.size
        scale = 1.0 / np.sqrt(self.kinetic + 1.0)

        def split(waves: NDArray[np.complex128]) -> NDArray[np.float64]:
            return np.concatenate([waves.real.ravel(), waves.imag.ravel()])

        def energy(vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            # waves scaled so that all matter alike, of any norm
            waves = scale * (vector[: n * n] + 1j * vector[n * n :]).reshape(n, n)
            size = math.sqrt(np.vdot(waves, waves).real * self.cell)
            waves = waves / size
            psi = self.transformed(waves)
            density = np.abs(psi) ** 2
            flow = self.turned(psi)
            total = (np.abs(waves) ** 2 * self.kinetic).sum() + (density * (self.v + 0.5 * g * density)).sum()
            total += np.vdot(psi, flow).real
            slope = self.kinetic * waves + self.transformed((self.v + g * density) * psi + flow)
            slope = slope - np.vdot(waves, slope).real * self.cell * waves
            return float(total * self.cell), split(2.0 * self.cell / size * scale * slope)

        bell = np.exp(-0.3 * (self.x[:, None] ** 2 + self.y**2))
        start = split(np.asarray(self.transformed(bell + 0j) / scale, complex))
        options = {"maxiter": 3000, "maxfun": 4000, "ftol": 1e-16, "gtol": 1e-10}
        found = minimize(energy, start, jac=True, method="L-BFGS-B", options=options)
        psi = self.transformed(scale * (found.x[: n * n] + 1j * found.x[n * n :]).reshape(n, n))
        psi = np.asarray(psi / math.sqrt(np.vdot(psi, psi).real * self.cell), complex)
        mu = self.chemical_potential(psi)
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
            both = self._steps(dt) if any(world.turn) else None
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
                    if first and both is not None:
                        along = (both[0] @ psi.T[:, :, None])[:, :, 0].T
                        across = (both[1] @ along[:, :, None])[:, :, 0]
                        psi = (both[0] @ across.T[:, :, None])[:, :, 0].T
                    elif first:
                        psi = self.transformed(turn * self.transformed(psi))
        return psi, lost

    def energy(self, psi: NDArray[np.complex128]) -> float:
        """Return the energy of a state without the field."""
        waves = self.transformed(psi)
        density = np.abs(psi) ** 2
        potential = density * (self.v + 0.5 * self.world.g * density)
        turned = np.vdot(psi, self.turned(psi)).real if any(self.world.turn) else 0.0
        return float(((np.abs(waves) ** 2 * self.kinetic).sum() + potential.sum() + turned) * self.cell)

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
        if len(world.dipoles) > 1:
            first, second = self.momenta
            mean = self.x[:, None] * (psi @ second.T) - self.y * (first @ psi)
            out["angular_momentum_final"] = float(np.vdot(psi, mean).real) * self.cell
        if world.radius is not None:
            out |= self._pair(waves, norm)
            out |= {"absorbed_single": float(lost[0]), "absorbed_double": float(lost[1])}
        for name, ends in world.boxes.items():
            g, f = (self.between(number, *pair) for number, pair in enumerate(ends))
            out[name] = float(np.vdot(waves, g @ waves @ f).real)
        for k in range(min(LEVELS, len(states))):
            out[f"population_{k}"] = float(np.abs(np.vdot(states[k], psi) * self.cell) ** 2)
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


class Bessels(Sines):
    """A distance from an axis in Bessel functions J0, and sine waves; points are zeros of J0 (quasi-discrete Hankel transform).

    L. Yu et al., Opt. Lett. 23, 409 (1998); the matrix is made exactly orthogonal.
    """

    def __init__(self, world: World, count: int) -> None:
        from scipy.linalg import polar
        from scipy.special import j0, j1, jn_zeros

        super().__init__(world, count)
        wall, zeros = world.ends[0][1], jn_zeros(0, count + 1)
        zeros, last = zeros[:-1], zeros[-1]
        self.k[0] = zeros / wall
        # of functions J0 with the norm 1
        self.scale = np.sqrt(2.0) / (wall * np.abs(j1(zeros)))
        self.x = zeros * wall / last
        self.h[0], self.cell = 1.0, self.h[1]
        self.matrix = polar(2.0 / last * j0(np.outer(zeros, zeros) / last) / np.outer(j1(zeros), j1(zeros)))[
            0
        ]
        sign = np.sign(j1(zeros))
        self.matrix *= sign[:, None] * sign
        self.v = world.potential(self.x[:, None], self.y)
        self.kinetic = (
            0.5 * self.k[0][:, None] ** 2 / world.masses[0] + 0.5 * self.k[1] ** 2 / world.masses[1]
        )
        with np.errstate(divide="ignore"):
            gammas = [
                np.asarray(cap(at)) - np.asarray(np.log(mask(at))) / world.dt
                for cap, mask, at in zip(world.caps, world.masks, (self.x, self.y), strict=True)
            ]
        self.gamma = gammas[0][:, None] + gammas[1]

    def transformed(self, psi: NDArray[Any]) -> NDArray[Any]:
        """Return the other representation, points or waves."""
        from scipy.fft import dst

        if np.iscomplexobj(psi):
            return self.transformed(psi.real) + 1j * self.transformed(psi.imag)
        return np.asarray(self.matrix @ dst(psi, type=1, norm="ortho", axis=1))

    def start(self, states: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Return the state at t = 0."""
        block = self.world.initial
        if block["type"] != "gaussian":
            return super().start(states)
        bell = np.exp(-(self.x[:, None] ** 2 + (self.y - block["z0"]) ** 2) / (2.0 * block["width"] ** 2))
        # points have the weights of the transform
        psi = self.scale[:, None] * bell * np.exp(1j * block["wave"] * self.y)
        return np.asarray(psi / np.sqrt((np.abs(psi) ** 2).sum() * self.cell))

    def between(self, number: int, low: float, high: float) -> NDArray[np.float64]:
        """Return the integrals of products of two waves of a coordinate from one value to another."""
        from scipy.special import j0, j1

        if number:
            return super().between(number, low, high)
        k = self.k[0]

        def integral(at: float) -> NDArray[np.float64]:
            # of rho J0(k rho) J0(l rho) from 0 on
            s = min(max(at, 0.0), self.world.ends[0][1])
            first, second = j0(k * s), j1(k * s)
            apart = k[:, None] ** 2 - k**2
            own = np.diag(0.5 * s * s * (first**2 + second**2))
            mixed = s * (np.outer(k * second, first) - np.outer(first, k * second))
            return np.asarray(np.where(apart == 0.0, own, mixed / np.where(apart == 0.0, 1.0, apart)))

        return np.asarray((integral(high) - integral(low)) * np.outer(self.scale, self.scale))


def _truth(world: World, sines: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the numbers of a deck by the oracle, extrapolated in the step, and their change by that."""
    basis = (Bessels if world.radial else Sines)(world, sines)
    # a packet in a frame that rotates faster than its trap holds has no levels
    packet = any(world.turn) and world.initial["type"] == "gaussian"
    energies, states = (np.arange(2.0), np.zeros((0, 1, 1))) if packet else basis.levels()
    psi = basis.start(states)
    coarse = int(np.ceil(world.duration / STEP))
    runs = [basis.numbers(*basis.motion(psi, steps), states) for steps in (coarse, 2 * coarse)]
    found = {name: (4.0 * runs[1][name] - runs[0][name]) / 3.0 for name in runs[0]}
    apart = {name: abs(found[name] - runs[1][name]) for name in found}
    gap = float(np.min(np.diff(energies)))
    first = {"energy_initial": basis.energy(psi), "mu": basis.chemical_potential(psi)}
    return found | first | {"gap": gap}, apart | dict.fromkeys(first, 0.0)


def judge(world: World, results: Results) -> list[Claim]:
    """Return the claims of a run with their true values."""
    (rough, _), (found, apart) = (_truth(world, sines) for sines in world.sines)
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
