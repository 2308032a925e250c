"""Random open systems against dense Liouvillians: density matrices, means over trajectories, steady states.

Rates differ from site to site, in time, or are those of collective, correlated and general jumps; spins are 1/2, 1 and 3/2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import eig, expm

from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["OPEN"]

Generator = np.random.Generator
Complex = NDArray[np.complex128]
Block = dict[str, Any]

MOST_STATES = 18
ODE = 1e-11
NAMED = {"minus": (1, -1j, 0), "plus": (1, 1j, 0), "x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}
WARNING = r"not unique"


def _round(values: Any) -> Any:
    return np.round(values, 4).tolist()


# ------------------------------------------------------------------------------------------------ decks


def _system(rng: Generator, charged: bool) -> Block:
    """Draw spins and terms, which conserve Sz if they are `charged`."""
    while True:
        spins = int(rng.integers(1, 5))
        sizes = (
            [float(s) for s in rng.choice([0.5, 0.5, 0.5, 1.0, 1.5], spins)] if rng.random() < 0.25 else 0.5
        )
        each = [sizes] * spins if isinstance(sizes, float) else sizes
        if math.prod(round(2 * s) + 1 for s in each) <= MOST_STATES:
            break
    rows = []
    for j, k in itertools.combinations(range(spins), 2):
        x, y, z = _round(rng.normal(size=3))
        rows.append([j, k, x, x if charged else y, z])
    terms: list[Block] = [{"type": "pairs", "list": rows}] if rows else []
    terms.append({"type": "field", "axis": "z", "values": _round(rng.normal(size=spins))})
    if not charged:
        terms.append({"type": "field", "axis": "x", "values": _round(rng.normal(size=spins))})
        if rng.random() < 0.5:
            terms.append({"type": "field", "axis": "y", "values": _round(rng.normal(size=spins))})
    if rows and rng.random() < 0.3:
        D = _round(rng.normal(size=3) * ([0, 0, 1] if charged else [1, 1, 1]))
        terms.append({"type": "dm", "list": [[0, 1, *D]]})
    return {"spins": spins, "spin": sizes, "terms": terms}


def _entries(rng: Generator, spins: int, charged: bool, driven: bool) -> list[Block]:
    """Draw some entries of dissipation."""
    made = []
    for _ in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(["loss", "pump", "dephasing", "thermal", "jump", "collective", "correlated"]))
        entry: Block = {"type": kind}
        if kind == "correlated":
            a = rng.normal(size=(spins, spins))
            entry["matrix"] = _round(a @ a.T * 0.3 + 0.05 * np.eye(spins))
        elif kind == "collective":
            entry |= {"rate": round(float(rng.uniform(0.05, 0.6)), 4)}
        elif rng.random() < 0.3:
            some = sorted(rng.permutation(spins)[: int(rng.integers(1, spins + 1))].tolist())
            entry |= {"sites": some, "rate": _round(rng.uniform(0.05, 0.8, len(some)))}
        else:
            entry["rate"] = f"{round(float(rng.uniform(0.05, 0.5)), 4)} + 0.1*j"
        if kind == "thermal":
            entry["occupation"] = round(float(rng.uniform(0, 1)), 3)
        if kind in ("jump", "collective", "correlated"):
            entry["operator"] = str(rng.choice(["minus", "plus", "z"] if charged else list(NAMED)))
            if kind == "jump" and not charged:
                x, y = _round(rng.normal(size=2))
                entry["operator"] = [x, f"{y}i", round(float(rng.normal()), 3)]
        if driven and rng.random() < 0.6:
            entry["profile"] = {"type": "cosine", "omega": 1.7, "amplitude": 0.6, "offset": 1.0}
        made.append(entry)
    return made


def _drawn(rng: Generator, method: str, task: str) -> Block:
    charged = bool(rng.random() < 0.5)
    driven = task == "evolve" and bool(rng.random() < 0.25)
    system = _system(rng, charged)
    spins = system["spins"]
    if driven and rng.random() < 0.5:
        system["terms"][-1]["profile"] = {"type": "cosine", "omega": 2.3, "amplitude": 1.0, "offset": 0.5}
    observe: list[Block] = [{"sz": "all"}]
    if not charged:
        observe += [{"sx": "all"}, {"sy": "all"}]
    if spins > 1:
        observe.append({"correlator": ["zz", "xx"] if charged else ["zz", "xy"], "pairs": [[0, spins - 1]]})
    deck: Block = {
        "method": "trotter",
        "task": task,
        "system": system,
        "dissipation": _entries(rng, spins, charged, driven),
        "observe": observe,
        "run": {"device": "cpu", "seed": int(rng.integers(1 << 30))},
        "output": {"figures": "none"},
    }
    if rng.random() < 0.2:
        deck["sector"] = "full"
    if task == "steady":
        deck["steady"] = {"modes": int(rng.integers(1, 6)), "counting": bool(rng.random() < 0.7)}
        if rng.random() < 0.4:
            # the search of large systems
            deck["steady"]["tau"] = 1.5
        return deck
    deck["initial"] = (
        {"type": "neel"}
        if rng.random() < 0.7 or system["spin"] != 0.5
        else {"type": "product", "theta": 1.1, "phi": 0.4}
    )
    if isinstance(system["spin"], list) or system["spin"] != 0.5:
        deck["initial"] = {"type": "basis", "m": each_up(system)}
    exact = method == "density_matrix"
    end = round(float(rng.uniform(1.0, 4.0 if exact else 2.0)), 3)
    deck["evolve"] = {"t_final": end, "outputs": 4} | ({} if exact else {"accuracy": 1e-5})
    deck["open"] = {"method": method, "trajectories": int(rng.choice([40, 100]))}
    if not exact and rng.random() < 0.4:
        block: Block = {"window": round(0.9 * end / int(rng.integers(1, 5)), 4), "after": round(0.1 * end, 4)}
        if rng.random() < 0.5:
            block["jumps"] = [int(rng.integers(len(deck["dissipation"])))]
        deck["open"]["counting"] = block
    return deck


def each_up(system: Block) -> list[float]:
    """Return m = S of all sites but the last, which is down."""
    sizes = system["spin"] if isinstance(system["spin"], list) else [system["spin"]] * system["spins"]
    return [*sizes[:-1], -sizes[-1]]


# ---------------------------------------------------------------------------------------------- oracle


def _spins(system: Block) -> list[list[Complex]]:
    """Return S^a_j as [j][a]; site 0 is the slowest."""
    sizes = system["spin"] if isinstance(system["spin"], list) else [system["spin"]] * system["spins"]
    made = []
    for site, S in enumerate(sizes):
        m = S - np.arange(round(2 * S) + 1)
        up = np.diag(np.sqrt(S * (S + 1) - m[1:] * (m[1:] + 1)), 1)
        own = [(up + up.T) / 2, (up - up.T) / 2j, np.diag(m)]
        parts = [
            [part if k == site else np.eye(round(2 * o) + 1) for k, o in enumerate(sizes)] for part in own
        ]
        made.append([np.asarray(reduce(np.kron, one), complex) for one in parts])
    return made


def _cosine(profile: Mapping[str, Any] | None, t: float) -> float:
    if profile is None:
        return 1.0
    return float(profile["offset"] + profile["amplitude"] * math.cos(profile["omega"] * t))


def _terms(deck: Block, S: list[list[Complex]]) -> list[tuple[Any, Complex]]:
    """Return (profile, matrix) of the terms of H."""
    made = []
    for term in deck["system"]["terms"]:
        H = np.zeros_like(S[0][0])
        if term["type"] == "field":
            for j, value in enumerate(term["values"]):
                H = H + value * S[j]["xyz".index(term["axis"])]
        elif term["type"] == "pairs":
            for j, k, *J in term["list"]:
                H = H + sum(J[a] * S[j][a] @ S[k][a] for a in range(3))
        else:
            for j, k, *D in term["list"]:
                cross = [
                    S[j][(a + 1) % 3] @ S[k][(a + 2) % 3] - S[j][(a + 2) % 3] @ S[k][(a + 1) % 3]
                    for a in range(3)
                ]
                H = H + sum(D[a] * cross[a] for a in range(3))
        made.append((term.get("profile"), H))
    return made


def _jumps(deck: Block, S: list[list[Complex]]) -> list[tuple[int, Any, Complex]]:
    """Return (entry, profile, L) of all jumps."""
    n = len(S)
    made: list[tuple[int, Any, Complex]] = []

    def operator(given: Any, j: int) -> Complex:
        v = NAMED[given] if isinstance(given, str) else [complex(str(x).replace("i", "j")) for x in given]
        return np.asarray(sum(v[a] * S[j][a] for a in range(3)))

    for number, entry in enumerate(deck["dissipation"]):
        profile, kind = entry.get("profile"), entry["type"]
        if kind == "collective":
            L = sum((operator(entry["operator"], j) for j in range(n)), np.zeros_like(S[0][0]))
            made.append((number, profile, math.sqrt(entry["rate"]) * L))
            continue
        if kind == "correlated":
            values, vectors = np.linalg.eigh(np.array(entry["matrix"]))
            for value, vector in zip(values, vectors.T, strict=True):
                parts = (vector[j] * operator(entry["operator"], j) for j in range(n))
                made.append(
                    (number, profile, math.sqrt(max(value, 0.0)) * sum(parts, np.zeros_like(S[0][0])))
                )
            continue
        sites = entry.get("sites", list(range(n)))
        for place, j in enumerate(sites):
            rate = entry["rate"]
            rate = rate[place] if isinstance(rate, list) else float(rate.split()[0]) + 0.1 * j
            if kind == "thermal":
                made.append(
                    (number, profile, math.sqrt(rate * (1 + entry["occupation"])) * operator("minus", j))
                )
                made.append((number, profile, math.sqrt(rate * entry["occupation"]) * operator("plus", j)))
            elif kind == "jump":
                made.append((number, profile, math.sqrt(rate) * operator(entry["operator"], j)))
            else:
                name, share = {"loss": ("minus", 1), "pump": ("plus", 1), "dephasing": ("z", 2)}[kind]
                made.append((number, profile, math.sqrt(share * rate) * operator(name, j)))
    return made


class Truth:
    """The master equation of a deck, dense."""

    def __init__(self, deck: Block) -> None:
        self.S = _spins(deck["system"])
        self.terms, self.jumps = _terms(deck, self.S), _jumps(deck, self.S)
        self.size = len(self.S[0][0])
        self.deck = deck

    def rate(self, t: float, rho: Complex) -> float:
        """Return the rate of all jumps."""
        return float(sum(_cosine(f, t) * np.trace(L @ rho @ L.conj().T).real for _, f, L in self.jumps))

    def slope(self, t: float, rho: Complex) -> Complex:
        """Return d rho / dt."""
        H = sum(_cosine(f, t) * M for f, M in self.terms)
        out = -1j * (H @ rho - rho @ H)
        for _, f, L in self.jumps:
            n = L.conj().T @ L
            out = out + _cosine(f, t) * (L @ rho @ L.conj().T - 0.5 * (n @ rho + rho @ n))
        return np.asarray(out)

    def matrix(self) -> Complex:
        """Return the Liouvillian of a constant generator."""
        D = self.size
        unit = np.eye(D * D, dtype=complex).reshape(D * D, D, D)
        return np.array([self.slope(0.0, one).ravel() for one in unit]).T

    def start(self) -> Complex:
        """Return rho at t = 0."""
        system, block = self.deck["system"], self.deck["initial"]
        sizes = system["spin"] if isinstance(system["spin"], list) else [system["spin"]] * system["spins"]
        if block["type"] == "product":
            one = np.array([math.cos(0.55), np.exp(0.4j) * math.sin(0.55)])
            psi = reduce(np.kron, [one] * len(sizes))
        else:
            m = block.get("m", [0.5 * (-1) ** j for j in range(len(sizes))])
            psi = reduce(
                np.kron, [np.eye(round(2 * S) + 1)[round(S - x)] for S, x in zip(sizes, m, strict=True)]
            )
        return np.outer(psi, psi.conj())

    def at(self, times: Sequence[float]) -> tuple[list[Complex], list[float]]:
        """Return rho at times, and the mean number of jumps until then."""
        D = self.size

        def f(t: float, y: Complex) -> Complex:
            rho = y[:-1].reshape(D, D)
            return np.append(self.slope(t, rho).ravel(), self.rate(t, rho))

        y = np.append(self.start().ravel().astype(complex), 0.0)
        end = max(times[-1], 1e-9)
        made = solve_ivp(f, (0.0, end), y, "DOP853", t_eval=list(times), rtol=ODE, atol=ODE)
        return [col[:-1].reshape(D, D) for col in made.y.T], [float(col[-1].real) for col in made.y.T]

    def fano(self, end: float, entries: Sequence[int]) -> float:
        """Return the Fano factor of the jumps of some entries until a time; not a number where there are none."""
        return self.windows([0.0, end], entries)[1]

    def windows(self, edges: Sequence[float], entries: Sequence[int]) -> tuple[float, float]:
        """Return mean and Fano factor of the jumps of some entries in windows, all together; no Fano factor without jumps."""
        D = self.size
        own = [(f, L) for number, f, L in self.jumps if number in entries]

        def jumped(t: float, rho: Complex) -> Complex:
            return np.asarray(
                sum((_cosine(f, t) * L @ rho @ L.conj().T for f, L in own), np.zeros((D, D), complex))
            )

        def slope(t: float, y: Complex) -> Complex:
            # rho with n, and n (n - 1), jumps as factors
            a, b, c = y.reshape(3, D, D)
            return np.array(
                [
                    self.slope(t, a),
                    self.slope(t, b) + jumped(t, a),
                    self.slope(t, c) + 2.0 * jumped(t, b),
                ]
            ).ravel()

        y = np.zeros((3, D, D), complex)
        y[0] = self.start()
        firsts, seconds = [], []
        for number, (start, end) in enumerate(itertools.pairwise([0.0, *edges])):
            if end > start:
                made = solve_ivp(slope, (start, end), y.ravel(), "DOP853", rtol=ODE, atol=ODE)
                y = made.y[:, -1].reshape(3, D, D)
            if number:
                _, mean, pairs = np.einsum("kii->k", y).real
                firsts.append(mean)
                seconds.append(pairs + mean)
            # a window counts its own
            y = np.array([y[0], np.zeros((D, D)), np.zeros((D, D))])
        mean = float(np.mean(firsts))
        return mean, float((np.mean(seconds) - mean**2) / mean) if mean > 1e-9 else math.nan

    def steady(self) -> Complex:
        """Return the limit of the state in which all states are as likely."""
        rho = np.diag(np.full(self.size, 1.0 / self.size, complex))
        U = expm(self.matrix())
        for _ in range(40):
            U = U @ U
            if not np.isfinite(U).all() or np.abs(U).max() < 1e-6:
                break
            rho = (U @ rho.ravel()).reshape(rho.shape)
            rho = 0.5 * (rho + rho.conj().T) / np.trace(rho).real
            if np.abs(self.slope(0.0, rho)).max() < 1e-14:
                break
        return rho

    def means(self, rho: Complex) -> dict[str, NDArray[np.float64]]:
        """Return what decks observe."""
        n = len(self.S)
        out = {
            f"s{a}": np.array([np.trace(rho @ self.S[j][k]).real for j in range(n)])
            for k, a in enumerate("xyz")
        }
        for a, b in itertools.product(range(3), repeat=2):
            value = np.trace(rho @ self.S[0][a] @ self.S[n - 1][b]).real
            out[f"correlator_{'xyz'[a]}{'xyz'[b]}"] = np.array([value])
        return out


# ---------------------------------------------------------------------------------------------- judges


def _largest(deck: Block) -> float:
    spin = deck["system"]["spin"]
    return max(spin) if isinstance(spin, list) else float(spin)


def _judge_density(deck: Block, results: Results) -> list[Claim]:
    truth, e = Truth(deck), float(str(results.scalars["error_estimate"].value))
    S = _largest(deck)
    states, _ = truth.at([float(t) for t in results["time"]])
    claims = []
    for number, rho in enumerate(states):
        for name, expected in truth.means(rho).items():
            if name not in results:
                continue
            worst = float(np.abs(results[name][number] - expected).max())
            size = S if len(name) == 2 else S * S
            claims.append(Claim(name, worst, size * e, oracle=1e-9))
    purity = float(np.trace(states[-1] @ states[-1]).real)
    claims.append(Claim("purity", float(results["purity"][-1]) - purity, 2.0 * e, oracle=1e-9))
    return claims


def _judge_trajectories(deck: Block, pick: int, results: Results) -> list[Claim]:
    truth = Truth(deck)
    states, jumps = truth.at([float(t) for t in results["time"]])
    number = 1 + pick % (len(states) - 1)
    means = truth.means(states[number])
    block = deck["open"].get("counting")
    names = [name for name in means if name in results] + ["jumps_mean", "fano"]
    names += ["window_rate", "window_fano"] * (2 if block else 0)
    name = names[pick // 7 % len(names)]
    if name.startswith("window"):
        return _judge_windows(truth, deck, name, results)
    if name == "fano":
        entry = pick // 101 % results["fano_entries"].size
        true = truth.fano(float(results["time"][-1]), [entry])
        found, error = (float(results[f"fano_entries{end}"][entry]) for end in ("", "_error"))
        if not (math.isfinite(found) and math.isfinite(true)):
            return []
        return [Claim(name, found - true, error, oracle=1e-9, statistical=True)]
    if name == "jumps_mean":
        scalar = results.scalars[name]
        difference = float(str(scalar.value)) - jumps[-1]
        return [Claim(name, difference, float(str(scalar.error)), oracle=1e-9, statistical=True)]
    place = pick // 101 % means[name].size
    difference = float(results[name][number][place] - means[name][place])
    error = float(results[f"{name}_error"][number][place])
    return [Claim(name, difference, error, oracle=1e-9, statistical=True)]


def _judge_windows(truth: Truth, deck: Block, name: str, results: Results) -> list[Claim]:
    """Judge the counting statistics in windows."""
    block, end = deck["open"]["counting"], float(results["time"][-1])
    count = int((end - block["after"]) / block["window"] * (1.0 + 1e-12))
    edges = [block["after"] + block["window"] * k for k in range(count + 1)]
    entries = block.get("jumps", list(range(len(deck["dissipation"]))))
    mean, fano = truth.windows(edges, entries)
    true = mean / block["window"] if name == "window_rate" else fano
    scalar = results.scalars[name]
    if scalar.value is None or not math.isfinite(true):
        return []
    difference = float(str(scalar.value)) - true
    return [Claim(name, difference, float(str(scalar.error)), oracle=1e-9, statistical=True)]


def _judge_steady(deck: Block, results: Results) -> list[Claim]:
    truth = Truth(deck)
    rho, stated = truth.steady(), results.scalars["error_estimate"].value
    e, S = (math.nan if stated is None else float(str(stated))), _largest(deck)
    claims = [
        Claim(
            name,
            float(np.abs(results[name] - expected).max()),
            (S if len(name) == 2 else S * S) * e,
            oracle=1e-8,
            warning=WARNING,
        )
        for name, expected in truth.means(rho).items()
        if name in results
    ]
    scalar = results.scalars["jump_rate"]
    claims.append(
        Claim(
            "jump_rate",
            float(str(scalar.value)) - truth.rate(0.0, rho),
            math.nan if scalar.error is None else float(str(scalar.error)),
            oracle=1e-8,
            warning=WARNING,
        )
    )
    claims += _judge_modes(truth, results)
    if "fano_entries" in results:
        claims += _judge_fano(truth, rho, results)
    return claims


def _judge_fano(truth: Truth, rho: Complex, results: Results) -> list[Claim]:
    """Return the claims of the Fano factors: 1 + (2 / r) int_0^inf (Tr[J exp(G t) J rho] - r^2) dt, by a pseudo-inverse."""
    one, G = np.eye(truth.size).ravel(), truth.matrix()
    G = G - np.outer(rho.ravel(), one)
    entries = sorted({number for number, _, _ in truth.jumps})
    claims = []
    for chosen in [[entry] for entry in entries] + [entries]:
        own = [L for number, _, L in truth.jumps if number in chosen]
        J = np.sum([np.kron(L, L.conj()) for L in own], axis=0)
        x = J @ rho.ravel()
        r = (one @ x).real
        if len(chosen) == 1 and chosen != entries:
            found, error = (float(results[f"fano_entries{end}"][chosen[0]]) for end in ("", "_error"))
        else:
            scalar = results.scalars.get("fano")
            if scalar is None or scalar.value is None:
                continue
            found, error = float(str(scalar.value)), float(str(scalar.error))
        if not math.isfinite(found):
            continue
        F = 1.0 - 2.0 / r * (one @ J @ np.linalg.solve(G, x - r * rho.ravel())).real
        own_error = (
            1e-9 * (1.0 + abs(F)) * max(1.0, 1.0 / r) * max(1.0, float(np.linalg.norm(np.linalg.inv(G))))
        )
        claims.append(Claim("fano", found - F, error, oracle=own_error, warning=WARNING))
    return claims


def _judge_modes(truth: Truth, results: Results) -> list[Claim]:
    """Return the claims of the slowest rates: they are the slowest ones, and each mode is an eigenvalue."""
    values, own = _values_of(truth, int(str(results.scalars["elements"].value)))
    rates, frequencies, errors = (results[f"mode_{name}"] for name in ("rate", "frequency", "error"))
    claims = []
    for number, (rate, frequency, error) in enumerate(zip(rates, frequencies, errors, strict=True)):
        # 0 first, of the steady state
        slowest = abs(rate + values[number + 1].real)
        near = int(np.argmin(np.abs(values + rate - 1j * frequency)))
        claims.append(Claim("mode_rate", slowest, error, oracle=own[number + 1], warning=WARNING))
        claims.append(
            Claim("mode", abs(values[near] + rate - 1j * frequency), error, oracle=own[near], warning=WARNING)
        )
    return claims


def _values_of(truth: Truth, elements: int) -> tuple[Complex, NDArray[np.float64]]:
    """Return the eigenvalues, slowest first, and their rounding: of all elements, or of those without coherence between Sz."""
    G = truth.matrix()
    if elements < len(G):
        total = np.round(2.0 * np.sum([axes[2] for axes in truth.S], axis=0).diagonal().real)
        kept = (total[:, None] == total[None, :]).ravel()
        G = G[np.ix_(kept, kept)]
    values, left, right = eig(G, left=True)
    overlaps = np.abs(np.einsum("ij,ij->j", left.conj(), right))
    rounding = 1e-14 * float(np.linalg.norm(G))
    order = np.argsort(-values.real)
    return values[order], np.minimum(rounding / np.maximum(overlaps, 1e-300), rounding**0.5)[order]


def _trial(rng: Generator, folder: Path, *, method: str, task: str) -> Trial:
    deck, pick = _drawn(rng, method, task), int(rng.integers(1 << 30))
    judge: Callable[[Results], Sequence[Claim]]
    if task == "steady":
        judge = partial(_judge_steady, deck)
    elif method == "density_matrix":
        judge = partial(_judge_density, deck)
    else:
        judge = partial(_judge_trajectories, deck, pick)
    return Trial(deck, judge)


OPEN = {
    "density_matrix": partial(_trial, method="density_matrix", task="evolve"),
    "trajectories": partial(_trial, method="trajectories", task="evolve"),
    "steady": partial(_trial, method="auto", task="steady"),
}
"""Kinds of open systems."""
