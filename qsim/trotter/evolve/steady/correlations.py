"""Correlations of a steady state in time by regression, and spectra by the resolvent in a Krylov space."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve

from qsim.trotter.evolve.open.arnoldi import Arnoldi
from qsim.trotter.evolve.open.density import VECTORS
from qsim.trotter.model.open.channels import jump_model
from qsim.trotter.sectors.digits.liouville import Doubled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolve.steady.problem import SteadyProblem
    from qsim.trotter.observables.steady import Emission, TwoTime

COMPONENTS = {
    "sx": (1.0, 0.0, 0.0),
    "sy": (0.0, 1.0, 0.0),
    "sz": (0.0, 0.0, 1.0),
    "sp": (1.0, 1.0j, 0.0),
    "sm": (1.0, -1.0j, 0.0),
}
CHARGE = {"sz": 0, "sp": 1, "sm": -1}
# of a correlation
TOLERANCE = 1e-11
# vectors of a resolvent: as many as 1 GB holds
MOST_VECTORS, MOST_BYTES = 800, 1 << 30
LOOK = 25


def _of_site(problem: SteadyProblem, name: str, site: int) -> Any:
    w = np.zeros((len(problem.doubled.twos), 3), complex)
    w[site] = COMPONENTS[name]
    return jump_model(w, problem.doubled.twos)


def _orders(problem: SteadyProblem, name: str) -> list[int | None]:
    """Return the orders of coherence that an operator leads to."""
    if problem.order is None:
        return [None]
    # the ket has one quantum less after S^+
    return [-CHARGE[name]] if name in CHARGE else [1, -1]


def two_time(problem: SteadyProblem, asked: TwoTime, v: NDArray[np.complex128]) -> dict[str, Any]:
    """Return ``<A_j(t) B_j(0)>`` (times, sites) and the times."""
    block = asked.given
    times = np.linspace(0.0, block.t_final, block.count)
    found = np.zeros((times.size, len(asked.sites)), complex)
    for order in _orders(problem, block.with_):
        other = problem.doubled if order == problem.order else problem.doubled.at(order)
        G = other.parts[0][1]
        exponential = Arnoldi(other.space.dimension, VECTORS)

        def apply(y: NDArray[Any], G: Any = G) -> NDArray[Any]:
            return np.asarray(G @ y)

        for column, site in enumerate(asked.sites):
            x = other.applied(_of_site(problem, block.with_, site), problem.doubled, v)
            later = _of_site(problem, block.of, site)
            key = (block.of, site)
            for k in range(times.size):
                if k:
                    x = exponential.advance(apply, x, float(times[k] - times[k - 1]), TOLERANCE)
                found[k, column] += other.mean(key, later, x)
    return {"two_time": found.real, "two_time_imag": found.imag, "two_time_t": times}


def emission(
    problem: SteadyProblem, asked: Emission, v: NDArray[np.complex128], gap: float, monitor: Monitor
) -> dict[str, Any]:
    """Return the spectrum of the emission of sites and its frequencies; see `EmissionBlock`."""
    omega = np.array(asked.given.omega.values())
    order = _orders(problem, "sm")[0]
    other: Doubled = problem.doubled if order == problem.order else problem.doubled.at(order)
    G, total, worst = other.parts[0][1], np.zeros(omega.size), 0.0
    for site in asked.sites:
        lowering, raising = _of_site(problem, "sm", site), _of_site(problem, "sp", site)
        x = other.applied(lowering, problem.doubled, v)
        if order is None:
            # without the elastic line, the part of the mean
            x = x - other.trace(x) * v
        values, error = _resolvent(G, x, omega, other.functional(("sp", site), raising))
        total += values.real / math.pi
        worst += error / math.pi
    if worst > 1e-6 * max(1.0, float(total.max(initial=0.0))):
        monitor.warn(
            f"the emission spectrum is off by up to {worst:.2g}: the Krylov space of its resolvent is full"
        )
    return {"emission": total, "emission_omega": omega, "emission_error": worst}


def _resolvent(
    G: Any, x: NDArray[np.complex128], omega: NDArray[np.float64], row: tuple[Any, Any]
) -> tuple[NDArray[np.complex128], float]:
    """Return ``a . (i w - G)^-1 x`` at frequencies, and the largest change of it by the last vectors of the Krylov space."""
    size = x.size
    most = int(min(size, MOST_VECTORS, max(50, MOST_BYTES // (16 * size))))
    V = np.zeros((most + 1, size), complex)
    H = np.zeros((most + 1, most), complex)
    norm = float(np.linalg.norm(x))
    if norm == 0.0:
        return np.zeros(omega.size, complex), 0.0
    V[0] = x / norm
    places, numbers = row
    along = [numbers @ V[0][places]]
    before, change = np.full(omega.size, np.inf + 0j), math.inf
    for k in range(most):
        y = G @ V[k]
        for _ in range(2):
            part = V[: k + 1].conj() @ y
            y -= part @ V[: k + 1]
            H[: k + 1, k] += part
        H[k + 1, k] = np.linalg.norm(y)
        full = k + 1 == most or abs(H[k + 1, k]) < 1e-13
        if not full:
            V[k + 1] = y / H[k + 1, k]
        if full or (k + 1) % LOOK == 0:
            small, a = H[: k + 1, : k + 1], np.array(along)
            start = np.zeros(k + 1)
            start[0] = norm
            one = np.eye(k + 1)
            now = np.array([a @ solve(1j * w * one - small, start) for w in omega])
            change = float(np.abs(now - before).max())
            before = now
            if change < TOLERANCE or k + 1 == size or abs(H[k + 1, k]) < 1e-13:
                return now, 0.0 if k + 1 == size else change
        if full:
            break
        along.append(numbers @ V[k + 1][places])
    return before, change
