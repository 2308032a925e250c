"""Random molecules that start warm, relax, see several fields, become gates or mean values, held against dense matrices.

The truth has its levels from a sinc basis on a wider line, as many as an energy allows; density matrices move by a Taylor series
of the Lindbladian in short steps, kets by dense exponentials. Potential and functions of x are those of the drawn deck, written
once more in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import FACTOR, Claim, Trial
from qsim_checks.qoc.decks import draw_deck

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.qoc.decks import Drawn

    Matrix = NDArray[np.complex128]

__all__ = ["molecules"]

# What withdraws a claim.
UNCLAIMED = r"no error is claimed"
# Accuracy of the truth from which it is no judge.
GOOD = 1e-3
# Levels of the truth of kets and of density matrices.
MOST_KETS, MOST_OPEN = 70, 26
# Norm of a step of the Taylor series, and its terms.
STEP, TERMS = 4.0, 34
# Observables, and the same in Python of the points x and the matrix of the momentum.
OBSERVABLES: dict[str, Callable[[NDArray[np.float64], Matrix, Matrix], Matrix]] = {
    "x": lambda x, p, h: np.diag(x).astype(complex),
    "x^2": lambda x, p, h: np.diag(x**2).astype(complex),
    "H0": lambda x, p, h: h,
    "p": lambda x, p, h: p,
    "0.3*exp(-x^2)": lambda x, p, h: np.diag(0.3 * np.exp(-(x**2))).astype(complex),
    "0.5*(x*p + p*x)": lambda x, p, h: 0.5 * (np.diag(x) @ p + p @ np.diag(x)),
    "p^2": lambda x, p, h: p @ p,
}
GATES = {
    "x": np.array([[0, 1], [1, 0]]),
    "cnot": np.eye(4)[[0, 1, 3, 2]],
    "permutation": np.eye(3)[[2, 0, 1]],
}


@dataclass(frozen=True)
class Truth:
    """Levels in a sinc basis: energies (K,), states (K, L) of unit norm, points (L,), momentum and H0 (L, L)."""

    x: NDArray[np.float64]
    energies: NDArray[np.float64]
    states: NDArray[np.float64]
    p: Matrix
    h: Matrix

    def between(self, on_points: Matrix) -> Matrix:
        """Return an operator (L, L) between the levels, (K, K)."""
        return np.asarray(self.states @ (on_points @ self.states.T), complex)

    def of(self, values: NDArray[np.float64]) -> Matrix:
        """Return a function of x (L,) between the levels."""
        return np.asarray((self.states * values) @ self.states.T, complex)


def molecules(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a molecule with what its levels alone can do, and return it with its judge."""
    drawn = draw_deck(rng, folder)
    deck = drawn.deck
    for key in ("propagator", "ensemble", "verify", "control", "optimizer"):
        deck.pop(key, None)
    system = deck["system"]
    for key in ("pairs", "initial", "target"):
        system.pop(key, None)
    duration = float(rng.uniform(1.0, 6.0)) * 2.0 * np.pi / drawn.gap
    opened = bool(rng.random() < 0.45)
    top = int(rng.integers(1, 4))
    room = system["grid"]["points"] // 2
    states = int(min(top + 1 + rng.integers(5, 9 if opened else 14), room))
    deck["time"] = {"T": duration, "slots": int(rng.integers(6, 30 if opened else 60))}
    system |= {"type": "grid", "states": states, **_ends(rng, top, states, drawn.gap)}
    if opened:
        system["jumps"] = _jumps(rng, duration, drawn.gap, top)
        deck["dissipation"] = "lindblad"
    deck["control"] = _controls(rng, system, drawn, duration, deck["time"]["slots"])
    deck["optimizer"] = "none"
    if rng.random() < 0.25 and not opened:
        deck["optimizer"] = {"type": "lbfgs", "max_sweeps": int(rng.integers(2, 6))}
    elif any("parameters" in one or one["guess"]["type"] == "expression" for one in deck["control"]):
        # Functions of time without a search are what the claim is of; the truth here has the values of slots.
        deck["optimizer"] = {"type": "lbfgs", "max_sweeps": 2}
    if rng.random() < 0.2:
        key = str(rng.choice(["field_scale", "mass_scale", "potential_scale"]))
        deck["ensemble"] = {key: [1.0, 1.0 + float(rng.uniform(-0.05, 0.05))]}
    deck["verify"] = {"tolerance": 1.0}
    return Trial(deck, lambda results: _judge(drawn, deck, results), refusable=True)


def _ends(rng: np.random.Generator, top: int, states: int, gap: float) -> dict[str, Any]:
    """Draw start and goal."""
    names = [str(k) for k in range(4)]
    if rng.random() < 0.25 and states > 6:
        name = str(rng.choice(list(GATES)))
        size = len(GATES[name])
        gate: Any = [1, 2, 0] if name == "permutation" else name
        return {"target": {"gate": gate, "on": names[:size], "free": ["global"]}}
    initial: Any = int(rng.integers(0, top))
    if (kind := rng.random()) < 0.45:
        initial = {"thermal": f"{gap * rng.uniform(0.15, 0.6)} hartree", "below": 1e-4}
    elif kind < 0.6:
        initial = {0: 1.0, top: "0.5i"}
    target: Any = top
    if (kind := rng.random()) < 0.5:
        target = {"observable": str(rng.choice(list(OBSERVABLES)))}
    elif kind < 0.6:
        target = [0, top]
    return {"initial": initial, "target": target}


def _jumps(rng: np.random.Generator, duration: float, gap: float, top: int) -> list[dict[str, Any]]:
    """Draw one or two processes."""
    hot = f"{gap * rng.uniform(0.2, 1.0)} hartree"
    rate = float(rng.uniform(0.05, 0.8)) / duration
    some: list[dict[str, Any]] = [
        {"lifetimes": {"1": 1.0 / rate, str(top + 1): 0.5 / rate}, "temperature": hot},
        {"rates": {str(top): {"0": rate}, "0": {str(top + 1): 0.2 * rate}}},
        {"rates": {"1": {"0": rate}}, "temperature": hot},
        {"bath": "x", "rate": rate, "temperature": hot},
        {"bath": "x", "rate": rate},
        {"dephasing": 1.0 / rate},
        {"dephasing": 1.0 / rate, "operator": "H0"},
    ]
    chosen = rng.choice(len(some), int(rng.integers(1, 3)), replace=False)
    return [some[int(k)] for k in chosen]


def _controls(
    rng: np.random.Generator, system: dict[str, Any], drawn: Drawn, duration: float, slots: int
) -> list[dict[str, Any]]:
    """Draw the fields, and put a second dipole or a polarisability into the system."""
    typical = 0.15 * float(np.ptp(drawn.world.dipole(np.linspace(*drawn.world.span, 101)))) + 1e-3
    size = float(rng.choice([0.2, 1.0, 2.0])) * np.pi / (typical * duration)
    carrier = f"{size:.6g}*sin(pi*t/T)^2*cos({drawn.gap * rng.uniform(0.8, 1.2):.6g}*t)"
    block: dict[str, Any] = {"name": "field", "guess": {"type": "expression", "value": carrier}}
    if rng.random() < 0.3:
        block["guess"] = {"type": "ladder", "area": float(rng.uniform(0.3, 1.5))}
    if rng.random() < 0.3 and slots > 8:
        block["parameters"] = {"type": "bspline", "count": int(rng.integers(4, slots // 2 + 1))}
    blocks = [block]
    other = {"type": "expression", "value": "0.2*cos(0.5*x)"}
    if rng.random() < 0.2:
        system["dipoles"] = {"second": other}
        blocks.append(
            {"name": "second", "guess": {"type": "expression", "value": f"{2 * size:.6g}*sin(pi*t/T)"}}
        )
    if rng.random() < 0.25:
        system["polarisability"] = other
        strong = float(np.sqrt(4.0 * drawn.gap * rng.uniform(0.05, 0.5)))
        blocks.append(
            {"name": "envelope", "guess": {"type": "expression", "value": f"{strong:.6g}*sin(pi*t/T)"}}
        )
    return blocks


# ------------------------------------------------------------------------------------------------ truth


def _levels(drawn: Drawn, count: int, mass: float, depth: float, fine: bool) -> Truth:
    """Return the lowest levels in a sinc basis of a wide line."""
    from scipy.linalg import eigh

    a, b = drawn.world.span
    m, reach = drawn.world.mass * mass, (1.0 if fine else 0.7) * (b - a)
    x = np.linspace(a - reach, b + reach, 521 if fine else 421)
    dx, i = float(x[1] - x[0]), np.arange(x.size)
    distance = i[:, None] - i
    with np.errstate(divide="ignore", invalid="ignore"):
        signs = (-1.0) ** distance
        kinetic = np.where(distance == 0, np.pi**2 / 3.0, 2.0 * signs / distance.astype(float) ** 2)
        slope = np.where(distance == 0, 0.0, signs / distance)
    v = depth * drawn.world.potential(x)
    # What is far above all levels in use only spoils the numbers.
    low = float(v.min())
    v = np.minimum(v, low + 400.0 * abs(drawn.gap) * (count + 2))
    h = kinetic / (2.0 * m * dx**2) + np.diag(v)
    energies, states = eigh(h, subset_by_index=(0, count - 1))
    states = states.T
    large = np.abs(states) > 1e-2 * np.abs(states).max(axis=1, keepdims=True)
    lobes = states[np.arange(count), np.argmax(large, axis=1)]
    return Truth(x, energies, states * np.sign(lobes)[:, None], -1j * slope / dx, h.astype(complex))


def _operators(drawn: Drawn, system: dict[str, Any], truth: Truth) -> list[tuple[Matrix, int]]:
    """Return operator and power of each control, in the order of the deck."""
    found = [(-truth.of(drawn.world.dipole(truth.x)), 1)]
    other = truth.of(0.2 * np.cos(0.5 * truth.x))
    if "dipoles" in system:
        found.append((-other, 1))
    if "polarisability" in system:
        found.append((-0.25 * other, 2))
    return found


def _of_jumps(system: dict[str, Any], truth: Truth) -> list[Matrix]:
    """Return the jumps of a deck."""
    size, energies = truth.energies.size, truth.energies
    found: list[Matrix] = []

    def jump(start: int, end: int, rate: float) -> None:
        matrix = np.zeros((size, size), complex)
        matrix[end, start] = np.sqrt(rate)
        found.append(matrix)

    for entry in system.get("jumps", []):
        hot = float(str(entry["temperature"]).split()[0]) if "temperature" in entry else 0.0
        pairs = {(int(n), int(n) - 1): 1.0 / t for n, t in entry.get("lifetimes", {}).items()}
        for start, ends in entry.get("rates", {}).items():
            pairs |= {(int(start), int(end)): rate for end, rate in ends.items()}
        for (start, end), rate in pairs.items():
            jump(start, end, rate)
            if hot:
                jump(end, start, rate * np.exp(-(energies[start] - energies[end]) / hot))
        if "bath" in entry:
            f = np.abs(truth.of(truth.x)) ** 2
            for low, high in combinations(range(size), 2):
                quanta = 1.0 / np.expm1((energies[high] - energies[low]) / hot) if hot else 0.0
                cold = entry["rate"] * f[high, low] / f[1, 0]
                jump(int(high), int(low), cold * (1.0 + quanta))
                jump(int(low), int(high), cold * quanta)
        if "dephasing" in entry:
            means = energies if "operator" in entry else np.arange(float(size))
            found.append(
                np.diag(np.sqrt(2.0 / entry["dephasing"]) * means / (means[1] - means[0])).astype(complex)
            )
    return found


def _start(system: dict[str, Any], truth: Truth) -> Matrix:
    """Return the density matrix at t = 0."""
    initial, size = system["initial"], truth.energies.size
    if isinstance(initial, dict) and "thermal" in initial:
        hot = float(initial["thermal"].split()[0])
        weights = np.exp(-(truth.energies - truth.energies[0]) / hot)
        return np.diag(weights / weights.sum()).astype(complex)
    psi = np.zeros(size, complex)
    for level, weight in initial.items() if isinstance(initial, dict) else [(initial, 1.0)]:
        psi[int(level)] = complex(str(weight).replace("i", "j"))
    psi /= np.linalg.norm(psi)
    return np.outer(psi, psi.conj())


def _wanted(system: dict[str, Any], truth: Truth) -> Matrix:
    """Return the operator whose mean value counts."""
    target, size = system["target"], truth.energies.size
    if isinstance(target, dict):
        return truth.between(OBSERVABLES[target["observable"]](truth.x, truth.p, truth.h))
    goal = np.zeros((size, size), complex)
    for level in target if isinstance(target, list) else [target]:
        goal[level, level] = 1.0
    return goal


def _moved(
    drift: Matrix,
    controls: list[tuple[Matrix, int]],
    jumps: list[Matrix],
    rho: Matrix,
    fields: NDArray[np.float64],
    T: float,
) -> Matrix:
    """Return matrices (n, K, K) at T that move as density matrices."""
    from scipy.linalg import expm

    tau = T / fields.shape[1]
    loss = sum((j.conj().T @ j for j in jumps), np.zeros_like(drift))
    # From one level to another populations jump, diagonal ones act on each element.
    rates = sum((np.abs(j - np.diag(np.diag(j))) ** 2 for j in jumps), np.zeros(drift.shape))
    phases = sum((np.outer(np.diag(j), np.diag(j).conj()) for j in jumps), np.zeros(drift.shape))
    k = np.arange(len(drift))
    # no energy zero counts, but far from it the steps are short
    centred = drift - 0.5 * (drift[0, 0] + drift[-1, -1]) * np.eye(len(drift))
    for values in fields.T:
        h = centred + sum(u**p * c for u, (c, p) in zip(values, controls, strict=True))
        if not jumps:
            step = expm(-1j * tau * h)
            rho = step @ rho @ step.conj().T
            continue
        g = -1j * h - 0.5 * loss

        def motion(r: Matrix, g: Matrix = g) -> Matrix:
            out = g @ r + r @ g.conj().T + phases * r
            out[..., k, k] += r[..., k, k] @ rates.T
            return np.asarray(out)

        parts = int(np.ceil(2.0 * float(np.linalg.norm(g, 2)) * tau / STEP)) or 1
        for _ in range(parts):
            term = rho
            for n in range(1, TERMS):
                term = (tau / parts / n) * motion(term)
                rho = rho + term
    return rho


def _value(drawn: Drawn, deck: dict[str, Any], fields: NDArray[np.float64], truth: Truth) -> float:
    """Return the value of the goal."""
    system, T = deck["system"], float(deck["time"]["T"])
    drift = np.diag(truth.energies - truth.energies[0]).astype(complex)
    parts = (drift, _operators(drawn, system, truth), _of_jumps(system, truth))
    target = system["target"]
    if not (isinstance(target, dict) and "gate" in target):
        rho = _moved(*parts, _start(system, truth)[None], fields, T)[0]
        return float(np.trace(_wanted(system, truth) @ rho).real)
    name = target["gate"] if isinstance(target["gate"], str) else "permutation"
    wanted = np.zeros((len(drift), len(GATES[name])), complex)
    d = len(GATES[name])
    wanted[:d] = GATES[name]
    units = np.zeros((d * d, *drift.shape), complex)
    for n, (i, j) in enumerate(product(range(d), repeat=2)):
        units[n, i, j] = 1.0
    out = _moved(*parts, units, fields, T)
    fidelity = sum(
        float((wanted[:, i].conj() @ out[i * d + j] @ wanted[:, j]).real)
        for i, j in product(range(d), repeat=2)
    )
    kept = sum(float(np.trace(out[i * d + i][:d, :d]).real) for i in range(d))
    # phases of the levels are those of energies above the lowest one: a global phase
    return (fidelity / d + kept / d) / (d + 1.0)


def _judge(drawn: Drawn, deck: dict[str, Any], results: Results) -> list[Claim]:
    """Hold the claim itself, without the usual factor, against the truth."""
    kind = next(name for name in ("probability", "fidelity", "observable") if name in results.scalars)
    fields = np.array([results[f"control/{c['name']}"] for c in deck["control"]])
    opened = bool(deck["system"].get("jumps"))
    kept, most = deck["system"]["states"], MOST_OPEN if opened else MOST_KETS
    block = deck.get("ensemble", {})
    members = list(
        product(
            block.get("mass_scale", [1.0]),
            block.get("potential_scale", [1.0]),
            block.get("field_scale", [1.0]),
        )
    )
    counts = [min(2 * kept + 14, most), min(2 * kept + 6, most)]
    values = [
        float(
            np.mean(
                [
                    _value(
                        drawn,
                        deck,
                        scale * fields if scale != 1.0 else fields,
                        _levels(drawn, count, mass, depth, fine),
                    )
                    for mass, depth, scale in members
                ]
            )
        )
        for count, fine in ((counts[0], True), (counts[1], False))
    ]
    error = abs(values[0] - values[1]) + 1e-10
    if error > GOOD * max(1.0, abs(values[0])):
        return []
    scalar = results.scalars[kind]
    claimed = np.nan if scalar.error is None else float(scalar.error) / FACTOR
    return [Claim(kind, float(str(scalar.value)) - values[0], claimed, oracle=error, warning=UNCLAIMED)]
