"""Random molecules: decays against exponentials of dense matrices, moments of lines against traces."""

from __future__ import annotations

import itertools
import math
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.results.results import Results

__all__ = ["fid"]

Generator = np.random.Generator

# spin and frequency over that of protons: independent of the table of the program
NUCLEI = {
    "1H": (0.5, 1.0),
    "13C": (0.5, 0.2514502),
    "19F": (0.5, 0.94094011),
    "2H": (1.0, 0.15350609),
    "31P": (0.5, 0.40480742),
    "15N": (0.5, 0.10136767),
}
# of a negative magnetic moment
NEGATIVE = ("15N",)
MOST_STATES, MOST_RELAXED, MOST_DIPOLAR = 128, 16, 8
SAMPLES = (0, 1, 5, 17, 40)


def fid(rng: Generator, folder: Path) -> Trial:
    """Return a molecule with its judge: groups of equivalent nuclei, unlike nuclei, strong and weak couplings."""
    names: list[str] = []
    shifts: list[float] = []
    group: list[int] = []
    while True:
        name = str(rng.choice(["1H", "1H", "1H", "13C", "19F", "2H", "31P", "15N"]))
        # a methyl group now and then
        count = int(rng.choice([1, 1, 2, 3])) if NUCLEI[name][0] == 0.5 else 1
        states = math.prod(round(2 * NUCLEI[one][0]) + 1 for one in [*names, *[name] * count])
        if states > MOST_STATES:
            break
        names += [name] * count
        # sometimes equal shifts of nuclei that are not equivalent
        shift = (
            shifts[int(rng.integers(len(shifts)))]
            if shifts and rng.random() < 0.15
            else round(rng.uniform(0, 8), 3)
        )
        shifts += [shift] * count
        group += [group[-1] + 1 if group else 0] * count
        if rng.random() < 0.25:
            break
    order = rng.permutation(len(names)) if rng.random() < 0.3 else np.arange(len(names))
    names, shifts, group = ([values[k] for k in order] for values in (names, shifts, group))
    between = {
        pair: round(float(rng.normal() * rng.choice([1.0, 10.0])), 3)
        for pair in itertools.product(range(20), repeat=2)
    }
    rows = []
    for j, k in itertools.combinations(range(len(names)), 2):
        J = between[min(group[j], group[k]), max(group[j], group[k])]
        if rng.random() < 0.03:
            # two nuclei that were equivalent
            J = round(J + 1.0, 3)
        if group[j] == group[k] or J:
            rows.append([j, k, J])
    field = float(rng.choice([20.0, 60.0, 400.0]))
    terms: list[dict[str, Any]] = [{"type": "shifts", "ppm": shifts}]
    if rows:
        weak = bool(rng.random() < 0.2)
        terms.append({"type": "scalar", "list": rows, **({"weak": True} if weak else {})})
    deck: dict[str, Any] = {
        "method": "trotter",
        "task": "fid",
        "system": {"spins": len(names), "nuclei": names, "spectrometer": field, "terms": terms},
        "relaxation": {"T2": round(float(rng.uniform(0.1, 2.0)), 3)},
        "fid": {
            "points": int(rng.choice([64, 300])),
            "width": f"{round(rng.uniform(9, 20), 2)} ppm",
            "carrier": round(float(rng.uniform(2, 6)), 2),
            "detect": names[int(rng.integers(len(names)))],
        },
        "run": {"device": "cpu", "seed": 1},
        "output": {"figures": "none"},
    }
    seen = deck["fid"]["detect"]
    others = sorted({name for name in names if name != seen})
    if others and rng.random() < 0.25:
        deck["fid"]["decouple"] = [str(rng.choice(others))]
    states = math.prod(round(2 * NUCLEI[one][0]) + 1 for one in names)
    if states <= MOST_RELAXED and rng.random() < 0.5:
        deck["relaxation"] = _relaxation(rng, len(names), states)
    return Trial(deck, lambda results: judge(deck, results))


def _relaxation(rng: Generator, count: int, states: int) -> dict[str, Any]:
    """Draw fields that fluctuate at every nucleus, and dipolar couplings of small molecules."""
    T1 = np.round(rng.uniform(0.02, 2.0, count), 4)
    share = rng.choice([0.1, 0.7, 2.0], count)
    made: dict[str, Any] = {"T1": T1.tolist(), "T2": np.round(T1 * share, 6).tolist()}
    if count == 1 or states > MOST_DIPOLAR:
        return made
    while True:
        places = np.round(rng.normal(size=(count, 3)) * 2.0, 3)
        apart = np.linalg.norm(places[:, None] - places, axis=2) + 9.0 * np.eye(count)
        if apart.min() > 0.9:
            break
    tau = float(f"{10.0 ** rng.uniform(-11, -7.5):.3g}")
    made["dipolar"] = {"positions": places.tolist(), "tau_c": tau}
    return made


def _spins(names: list[str]) -> tuple[list[NDArray[Any]], ...]:
    """Return I^x, I^y, I^z of all nuclei, the first one slowest."""
    made: tuple[list[NDArray[Any]], ...] = ([], [], [])
    sizes = [round(2 * NUCLEI[name][0]) + 1 for name in names]
    for site, size in enumerate(sizes):
        I = (size - 1) / 2
        m = I - np.arange(size)
        up = np.diag(np.sqrt(I * (I + 1) - m[1:] * m[:-1]), 1)
        for out, own in zip(made, ((up + up.T) / 2, (up - up.T) / 2j, np.diag(m)), strict=True):
            out.append(
                reduce(np.kron, [own if k == site else np.eye(other) for k, other in enumerate(sizes)])
            )
    return made


def judge(deck: dict[str, Any], results: Results) -> list[Claim]:
    """Return the claims of a decay and of its lines."""
    system, names = deck["system"], deck["system"]["nuclei"]
    x, y, z = _spins(names)
    larmor = [system["spectrometer"] * NUCLEI[name][1] for name in names]
    seen = deck["fid"]["detect"]
    own = system["spectrometer"] * NUCLEI[seen][1]
    H = sum(
        ppm * nu * z[j] for j, (ppm, nu) in enumerate(zip(system["terms"][0]["ppm"], larmor, strict=True))
    )
    off = deck["fid"].get("decouple", [])
    for term in system["terms"][1:]:
        for j, k, J in term["list"]:
            if names[j] in off or names[k] in off:
                continue
            H = H + J * z[j] @ z[k]
            if names[j] == names[k] and not term.get("weak"):
                H = H + J * (x[j] @ x[k] + y[j] @ y[k])
    raised = np.sum([x[j] + 1j * y[j] for j, name in enumerate(names) if name == seen], axis=0)
    transverse = np.sum([x[j] for j, name in enumerate(names) if name == seen], axis=0)
    norm = np.trace(transverse @ transverse).real
    energies, states = np.linalg.eigh(H)
    # frequencies of H, cycles per second: oracle's rounding of a phase
    width = float(deck["fid"]["width"].removesuffix(" ppm")) * own
    carrier = deck["fid"]["carrier"] * own
    rho, seen_in = states.conj().T @ transverse @ states, states.conj().T @ raised @ states
    claims = []
    error, line_error = (float(str(results.scalars[name].value)) for name in ("fid_error", "line_error"))
    if "T1" in deck["relaxation"]:
        turning = H - carrier * np.sum([z[j] for j, name in enumerate(names) if name == seen], axis=0)
        signed = [f * (-1.0 if name in NEGATIVE else 1.0) for f, name in zip(larmor, names, strict=True)]
        field = (signed, float(system["spectrometer"]))
        return _relaxed(deck["relaxation"], turning, (x, y, z), raised, field, error, results, width)
    for n in SAMPLES:
        t = n / width
        phase = np.exp(2j * np.pi * energies * t)
        # Tr rho U^+ I^+ U
        s = np.trace(rho @ (phase[:, None] * seen_in * phase.conj())) / norm
        s *= np.exp(-2j * np.pi * carrier * t - t / deck["relaxation"]["T2"])
        own_error = 1e-13 * (1.0 + 1e-2 * np.abs(energies).max() * t)
        claims.append(Claim(f"fid {n}", abs(complex(results["fid"][n]) - s), error, oracle=own_error))
    # moments of the lines: traces of nested commutators
    nu, w = results["line_frequency"], results["line_intensity"]
    missing = 1.0 - float(w.sum())
    total = np.trace(raised @ raised.conj().T).real
    one = H @ raised - raised @ H
    two = H @ one - one @ H
    for power, operator in ((1, one), (2, two)):
        true = np.trace(raised.conj().T @ operator).real / total
        largest = float(np.abs(energies).max() * 2.0) ** power
        claims.append(
            Claim(
                f"moment {power}",
                float((w * nu**power).sum() - true),
                power * line_error * largest / max(largest ** (1.0 / power), 1e-300),
                oracle=(1e-12 + abs(missing)) * largest,
            )
        )
    count = float(results["multiplet_nuclei"].sum())
    claims.append(Claim("nuclei", count - names.count(seen), 0.01 * names.count(seen), oracle=0.02))
    return claims


def _relaxed(
    relaxation: dict[str, Any],
    H: NDArray[Any],
    spins: tuple[list[NDArray[Any]], ...],
    raised: NDArray[Any],
    field: tuple[list[float], float],
    error: float,
    results: Results,
    width: float,
) -> list[Claim]:
    """Return the claims of a decay with fluctuating fields: double commutators in a dense superoperator, H in Hz."""
    one = np.eye(len(H))

    def commuted(A: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.kron(A, one) - np.kron(one, A.T))

    G = -2j * np.pi * commuted(H)
    for j, (T1, T2) in enumerate(zip(relaxation["T1"], relaxation["T2"], strict=True)):
        for axis, rate in zip(spins, (0.5 / T1, 0.5 / T1, 1 / T2 - 0.5 / T1), strict=True):
            C = commuted(axis[j])
            G = G - rate * C @ C
    if "dipolar" in relaxation:
        G = G - _dipolar(relaxation["dipolar"], spins, field, commuted)
    start, row = raised.conj().T.ravel(), raised.T.ravel()
    claims, scale = [], float(np.linalg.norm(G, 2))
    for n in SAMPLES:
        t = n / width
        s = row @ expm(G * t) @ start / (row @ start)
        own_error = 1e-14 * (10.0 + scale * t)
        claims.append(Claim(f"fid {n}", abs(complex(results["fid"][n]) - s), error, oracle=own_error))
    return claims


def _dipolar(
    block: dict[str, Any],
    spins: tuple[list[NDArray[Any]], ...],
    field: tuple[list[float], float],
    commuted: Callable[[NDArray[Any]], NDArray[Any]],
) -> NDArray[Any]:
    """Return the Redfield superoperator of dipolar couplings, 1/s, component by component along x, y, z.

    Parts of an operator that turn at one frequency of the nuclei are its elements between states of that difference of energies.
    """
    places, tau = np.array(block["positions"]), float(block["tau_c"])
    frequencies, protons = field
    gammas = 2.6752218708e8 * np.array(frequencies) / protons
    levels = np.sum([f * np.diag(spins[2][j]).real for j, f in enumerate(frequencies)], axis=0)
    apart = np.round(levels[:, None] - levels, 6)
    steps = [(w, apart == w) for w in np.unique(apart)]
    pairs = list(itertools.combinations(range(len(places)), 2))
    ways = [(places[k] - places[j]) / np.linalg.norm(places[k] - places[j]) for j, k in pairs]
    b = [
        1.00000000013e-7
        * 1.054571817e-34
        * gammas[j]
        * gammas[k]
        / (np.linalg.norm(places[k] - places[j]) * 1e-10) ** 3
        for j, k in pairs
    ]
    one = np.eye(3)
    mean = np.einsum("ac,bd->abcd", one, one) + np.einsum("ad,bc->abcd", one, one)
    mean = 0.6 * (mean - 2.0 / 3.0 * np.einsum("ab,cd->abcd", one, one))
    P = 1.5 * (np.array(ways) @ np.array(ways).T) ** 2 - 0.5
    total: Any = 0.0
    for w, inside in steps:
        density = tau / (1.0 + (2e6 * np.pi * w * tau) ** 2)
        V = {
            (p, a, c): np.where(inside, spins[a][j] @ spins[c][k], 0.0)
            for p, (j, k) in enumerate(pairs)
            for a in range(3)
            for c in range(3)
        }
        right = {key: commuted(matrix) for key, matrix in V.items()}
        for p, a, c in V:
            inner = sum(
                b[q] * P[p, q] * mean[a, c, d, e] * matrix
                for (q, d, e), matrix in right.items()
                if mean[a, c, d, e] != 0.0
            )
            total = total + b[p] * density * commuted(V[p, a, c].conj().T) @ inner
    return np.asarray(total)
