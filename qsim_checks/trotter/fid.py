"""Random molecules: decays against exponentials of dense matrices, moments of lines against traces."""

from __future__ import annotations

import itertools
import math
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
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
}
MOST_STATES = 128
SAMPLES = (0, 1, 5, 17, 40)


def fid(rng: Generator, folder: Path) -> Trial:
    """Return a molecule with its judge: groups of equivalent nuclei, unlike nuclei, strong and weak couplings."""
    names: list[str] = []
    shifts: list[float] = []
    group: list[int] = []
    while True:
        name = str(rng.choice(["1H", "1H", "1H", "13C", "19F", "2H", "31P"]))
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
    deck = {
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
    return Trial(deck, lambda results: judge(deck, results))


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
    for term in system["terms"][1:]:
        for j, k, J in term["list"]:
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
