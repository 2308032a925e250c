"""Random decks of ``task: thermal``, ``floquet`` and ``dynamics`` against dense matrices, and driven evolutions in sectors.

Temperatures reach far below the couplings, where the end of a recurrence is felt; vectors and steps are few as often as not.
Tables and formulas of driven fields have pulses much narrower than the evolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from qsim_checks.coverage import Claim, Trial
from qsim_checks.trotter.anywhere import anywhere, dense, symmetric_bases, uniform
from qsim_checks.trotter.larger import component, larger
from qsim_checks.trotter.momenta import crystal, momenta, waves
from qsim_checks.trotter.oracle import Truth, entropy_bound

if TYPE_CHECKING:
    from pathlib import Path

    from qsim.core.results.results import Results

__all__ = ["TASKS", "beside", "pulses"]

Generator = np.random.Generator
Block = dict[str, Any]
Complex = NDArray[np.complex128]
Real = NDArray[np.float64]
Draw = Callable[[Generator, bool], Block]
Judge = Callable[[Mapping[str, Any], "Results", int], list[Claim]]

THERMAL = ("energy_T", "specific_heat", "susceptibility", "entropy_T")
FEW = r"not known from"
"""Warnings that withdraw statistical claims."""
ROUNDING = 1e-12  # of a dense matrix of order 1


def beside(
    rng: Generator,
    folder: Path | None = None,
    task: str | None = None,
    free: bool | None = None,
    large: bool = False,
) -> Trial:
    """Draw a deck of a task beside an evolution, of one task or of any H (`free`) if that is named; return it with its judge.

    Of spins above 1/2 if they are `large`.
    """
    draw, judge = TASKS[task] if task else _one(rng, *TASKS.values())
    free = rng.random() < 0.4 if free is None else free
    deck = draw(rng, free)
    if large:
        deck["system"] = system = larger(rng, charged=not free)
        if "dynamics" in deck:
            deck["sector"] = "auto"
        # a few ground states of more than one state are drawn, too, and products enough for these spaces
        for _ in range(4):
            if _may_be_refused(deck):
                deck["system"] = system = larger(rng, charged=not free)
        if "dynamics" in deck:
            deck["dynamics"]["steps"] *= 4
        for item in deck.get("observe", []):
            item |= {"pairs": [[0, system["spins"] - 1]]} if "pairs" in item else {}
            item |= {"q": [0.0, 1.0]} if "structure_factor" in item else {}
        if "sites" in deck.get("dynamics", {}):
            deck["dynamics"]["sites"] = [system["spins"] - 1]
    pick = int(rng.integers(1 << 30))  # of what a statistical claim is taken of
    return Trial(deck, lambda results: judge(deck, results, pick), refusable=_may_be_refused(deck))


def _may_be_refused(deck: Mapping[str, Any]) -> bool:
    """Return True where the ground state is degenerate, which leaves no response of one state."""
    if deck["task"] != "dynamics":
        return False
    lowest, _, second = _ground(deck, *np.linalg.eigh(dense(deck["system"])))
    return bool(second - lowest < 1e-6 * (1.0 + abs(lowest)))


def _one(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _strength(rng: Generator) -> float:
    return float(_one(rng, 1.0, 1.0, -1.0, 0.5, 2.0, round(float(rng.normal()), 4)) or 1.0)


def _coupling(rng: Generator, spins: int) -> Block:
    """Return a coupling that conserves Sz."""
    lattice = {"type": _one(rng, "chain", "ring" if spins > 2 else "chain", "all")}
    kind = _one(rng, "heisenberg", "xx", "xxz")
    if kind == "xxz":
        return {"type": kind, "lattice": lattice, "Jxy": _strength(rng), "Jz": _strength(rng)}
    return {"type": kind, "lattice": lattice, "J": _strength(rng)}


def _field(rng: Generator, spins: int, size: float = 1.0) -> Block:
    values = [round(float(x), 4) for x in size * rng.normal(size=spins)]
    return {"type": "field", "axis": "z", "values": values}


# ------------------------------------------------------------------------------------------ temperature


def _thermal(rng: Generator, free: bool) -> Block:
    """Draw a deck of averages at temperatures, some of few vectors and few steps; of any H if it is free."""
    spins = int(rng.integers(4, 10))
    terms = [_coupling(rng, spins)]
    if rng.random() < 0.5:
        terms.append(_field(rng, spins, _one(rng, 0.1, 1.0, 3.0)))
    block = {
        "temperatures": sorted(
            round(float(10.0**x), 6)
            for x in rng.uniform(-4.0, 6.0, 2).tolist() + rng.uniform(-2.0, 1.0, 3).tolist()
        ),
        "vectors": _one(rng, 3, 5, 10, 20),
        "steps": _one(rng, "auto", "auto", "auto", 2, 3, 5, 8, 12, 20, 40),
        "exact": _one(rng, 0, 3, 40, 1024),
    }
    last = int(rng.integers(1, spins))
    system: Block = anywhere(rng, spins) if free else {"spins": spins, "terms": terms}
    if not free and rng.random() < 0.4 and (lattice := crystal(rng, spins)) is not None:
        terms[0]["lattice"] = lattice
    axes = ["zz", "xx", "yy"][: 2 + free]
    unlike = [_one(rng, "xy", "zy", "xz")] if free and rng.random() < 0.5 else []
    observe: list[Block] = [{"correlator": [*axes, *unlike], "pairs": [[0, last]]}]
    if rng.random() < 0.5:
        observe.append({"structure_factor": axes, **momenta(rng, system)})
    if rng.random() < 0.4:
        block["response"] = [a for a in "xyz" if rng.random() < 0.6] or ["x"]
    sector: Any = "full" if free and rng.random() < 0.3 else "auto"
    if "response" not in block and rng.random() < 0.4:
        # the states of some sectors alone, of which all have the same temperature
        if rng.random() < 0.7:
            system = uniform(rng, spins) if free else {"spins": spins, "terms": [_uniform(rng)]}
            sector = _characters(rng, system, crossed=False)
            observe = observe[:1]
        elif not free:
            sector = {"up": [int(spins // 2), spins]}
    return {
        "task": "thermal",
        "sector": sector,
        "system": system,
        "thermal": block,
        "observe": observe,
        "run": {"seed": int(rng.integers(1 << 20))},
    }


def _judge_thermal(deck: Mapping[str, Any], results: Results, pick: int) -> list[Claim]:
    """Hold one average and one correlator at one temperature: the others of a run are not independent of them."""
    spins = deck["system"]["spins"]
    energies, vectors = _states(deck, charged=True)
    number = pick % len(deck["thermal"]["temperatures"])
    T = float(results["temperature"][number])
    p = np.exp(-(energies - energies[0]) / T)
    log_Z = math.log(p.sum())
    p /= p.sum()
    size = np.abs(vectors) ** 2
    sz = sum(component(deck["system"], "z", j) for j in range(spins)).diagonal().real
    m, m2 = p @ (size.T @ sz), p @ (size.T @ sz**2)
    e = p @ (energies - energies[0])
    heat = (p @ (energies - energies[0]) ** 2 - e**2) / T**2
    expected = np.array([energies[0] + e, heat, (m2 - m**2) / T, log_Z + e / T]) / spins
    width = float(np.ptp(energies)) + 1.0
    row = pick // 8 % len(THERMAL)
    answers = [a for a in "xyz" if f"susceptibility_{a}" in results]
    if THERMAL[row] not in results or ("response" in deck["thermal"] and answers and pick // 1024 % 2):
        # without a total Sz: the response to a field, from all states or from random vectors
        axis = answers[pick // 64 % len(answers)] if answers else ""
        return _response(deck["system"], results, (energies, vectors), number, axis, pick // 256 % 2)
    # levels of one energy differ by rounding
    e2 = float(p @ (energies - energies[0]) ** 2) + (1e-14 * width) ** 2
    of_rows = [
        width,
        (width * math.sqrt(e2) + e2) / T**2,
        (m2 + 1e-12) * (1.0 + width / T) / T,
        1.0 + width / T,
    ]
    claims = [_statistical(results, THERMAL[row], number, expected[row], ROUNDING * float(of_rows[row]))]
    named = deck["observe"][0]["correlator"]
    axes = named[pick // 64 % len(named)]
    applied = [component(deck["system"], axes[0], site) @ vectors for site in range(spins)]
    other = [component(deck["system"], axes[1], site) @ vectors for site in range(spins)]
    means = np.array([[p @ np.einsum("sn,sn->n", a.conj(), b).real for b in other] for a in applied])
    rounding = ROUNDING * width * (1.0 + 1.0 / T)
    if len(deck["observe"]) == 1 or pick // 4096 % 2 or axes[0] != axes[1]:
        j, k = deck["observe"][0]["pairs"][0]
        name, mean = f"correlator_{axes}_T", float(means[j, k])
        return [*claims, _statistical(results, name, (number, 0), mean, rounding)]
    wave, of_momenta = waves(deck, results)
    q = pick // 128 % len(wave)
    factor = float((wave[q] @ means @ wave[q].conj()).real) / spins
    name = f"structure_factor_{axes}_T"
    return [*claims, *of_momenta, _statistical(results, name, (number, q), factor, spins * rounding)]


def _response(
    system: Mapping[str, Any],
    results: Results,
    states: tuple[Real, Complex],
    number: int,
    axis: str,
    which: int,
) -> list[Claim]:
    """Hold magnetisation and susceptibility along an axis against the integral over imaginary time; one if both have errors."""
    if f"susceptibility_{axis}" not in results:
        return []
    energies, vectors = states
    spins, T = system["spins"], float(results["temperature"][number])
    M = vectors.conj().T @ (sum(component(system, axis, j) for j in range(spins)) @ vectors)
    up = energies - energies[0]
    p = np.exp(-up / T)
    Z = p.sum()
    # int_0^(1/T) dtau <m| M(tau) |n> in closed form, by the mean of both energies: sinh(x) / x
    half = 0.5 * np.abs(up[:, None] - up) / T
    weight = np.exp(-np.minimum(up[:, None], up) / T) * np.where(
        half > 1e-9, -np.expm1(-2.0 * half) / np.maximum(2.0 * half, 1e-300), 1.0
    )
    mean = float((p @ M.diagonal().real) / Z)
    chi = float((np.abs(M) ** 2 * weight).sum() / (T * Z)) - mean**2 / T
    floor = 1e-10 * (1.0 + spins / T) * (1.0 + float(np.ptp(energies)) / T)
    if f"susceptibility_{axis}_error" in results:
        # of a conserved total spin there is the fluctuation alone
        which = which or int(f"magnetisation_{axis}" not in results)
        name, value = (("magnetisation", mean), ("susceptibility", chi))[which]
        return [_statistical(results, f"{name}_{axis}", number, value / spins, floor)]
    found = float(results[f"susceptibility_{axis}"][number])
    claims = [Claim("susceptibility", found - chi / spins, 0.0, oracle=floor)]
    if f"magnetisation_{axis}" in results:
        off = float(results[f"magnetisation_{axis}"][number]) - mean / spins
        claims.append(Claim("magnetisation", off, 0.0, oracle=floor))
    return claims


def _statistical(results: Results, name: str, place: Any, expected: float, oracle: float) -> Claim:
    """Return the claim of a number with its standard error; a deterministic one if it has none."""
    found = float(results[name][place])
    if f"{name}_error" not in results:
        return Claim(name, found - expected, 0.0, oracle=10.0 * oracle, warning=FEW)
    error = float(results[f"{name}_error"][place])
    return Claim(name, found - expected, error, oracle=oracle, warning=FEW, statistical=True)


# ----------------------------------------------------------------------------------------------- cycles


def _floquet(rng: Generator, free: bool) -> Block:
    """Draw a deck of the angles of a cycle."""
    spins = int(rng.integers(2, 8))
    terms = [_coupling(rng, spins), _field(rng, spins), _coupling(rng, spins)]
    if free:
        # kicks across the couplings, or along them
        terms[_one(rng, 0, 2)] = {
            "type": "xyz",
            "lattice": {"type": "chain"},
            **{f"J{a}": _strength(rng) for a in "xyz"},
        }
        terms[1]["axis"] = _one(rng, "x", "y", "z")
    swaps = not free and spins > 3 and rng.random() < 0.15
    # bonds of a brickwork that are turned by pi are swaps of spins, of which most angles are alike
    if swaps:
        terms = [
            {"type": "pairs", "list": [[j, j + 1, 1.0] for j in range(first, spins - 1, 2)]}
            for first in (0, 1)
        ]
    steps = 2 if swaps else int(rng.integers(1, 4))
    acting = [list(range(step, len(terms), steps)) for step in range(steps)]  # each term at least once
    cycle = [
        {
            "terms": terms_of_step if swaps else sorted({*terms_of_step, int(rng.integers(3))}),
            "time": math.pi if swaps else round(float(10.0 ** rng.uniform(-1.0, 0.7)), 4),
        }
        for terms_of_step in acting
    ]
    return {
        "task": "floquet",
        "system": {"spins": spins, "terms": terms},
        **({"sector": "full"} if free and rng.random() < 0.3 else {}),
        "initial": {"type": "basis", "bits": "".join(str(b) for b in rng.integers(0, 2, spins))},
        "floquet": {
            "cycle": cycle,
            "cycles": int(rng.integers(1, 30)),
            "every": int(rng.integers(1, 5)),
            "accuracy": float(10.0 ** -int(rng.integers(4, 13))),
            "quasienergies": True,
        },
        "observe": ["return_probability", {"entropy": {"sites": [0]}}],
    }


def _judge_floquet(deck: Mapping[str, Any], results: Results, pick: int) -> list[Claim]:
    """Hold observables after every observed cycle, the quasi-energies and their gap ratio."""
    spins, block = deck["system"]["spins"], deck["floquet"]
    U = np.eye(1 << spins, dtype=complex)
    for step in block["cycle"]:
        U = expm(-1j * step["time"] * dense(deck["system"], step["terms"])) @ U
    psi = np.zeros(1 << spins, complex)
    bits = deck["initial"]["bits"]
    psi[sum(1 << j for j, bit in enumerate(bits) if bit == "1")] = 1.0
    now = [Truth(np.linalg.matrix_power(U, int(c)) @ psi, spins) for c in results["cycle"]]
    error, accuracy = float(results.scalars["error_estimate"].value or 0.0), block["accuracy"]
    floor = 1e-11 * (1.0 + block["cycles"])
    claims = []
    for name, expected, size in (
        ("sz", np.array([t.spin("z") for t in now]), 1.0),
        ("return_probability", np.array([t.fidelity(psi) for t in now]), 2.0),
    ):
        difference = float(np.abs(results[name] - expected).max())
        claims.append(Claim(name, difference, size * error, size * accuracy, floor, "out of reach"))
    difference = float(np.abs(np.ravel(results["entropy"]) - [t.entropy([0]) for t in now]).max())
    stated = [entropy_bound(e, 1) for e in (error, accuracy)]
    claims.append(Claim("entropy", difference, stated[0], stated[1], 1e-9, "out of reach"))
    inside = _inside(deck, bits.count("1"))
    angles = np.sort(np.angle(np.linalg.eigvals(U[np.ix_(inside, inside)])))
    found = np.asarray(results["quasienergies"])
    # of either the nearest of the other, around the circle
    apart = np.abs(np.exp(1j * angles)[:, None] - np.exp(1j * found))
    claims.append(
        Claim(
            "quasienergies", float(max(apart.min(axis=0).max(), apart.min(axis=1).max())), 0.0, oracle=1e-10
        )
    )
    spacing = np.diff(angles, append=angles[:1] + 2.0 * np.pi)
    # a ratio of equal angles is rounding, and left out: none is given where all are
    if len(angles) > 2 and spacing.max() > 1e-6 and np.minimum(spacing, np.roll(spacing, -1)).max() < 1e-12:
        given = "gap_ratio" in results.scalars and results.scalars["gap_ratio"].value is not None
        claims.append(Claim("gap_ratio", math.nan if given else 0.0, 0.0))
    if len(angles) > 2 and spacing.min() > 1e-6:
        after = np.roll(spacing, -1)
        ratio = float(np.mean(np.minimum(spacing, after) / np.maximum(spacing, after)))
        claims.append(
            Claim(
                "gap_ratio",
                float(results.scalars["gap_ratio"].value or 0.0) - ratio,
                0.0,
                oracle=1e-11 / spacing.min(),
            )
        )
    return claims


def _inside(deck: Mapping[str, Any], down: int) -> NDArray[np.int64]:
    """Return the strings of the smallest space of a start that every step of a cycle conserves: of one Sz, one parity, or all."""
    spins = deck["system"]["spins"]
    count = np.bitwise_count(np.arange(1 << spins)).astype(int)
    steps = [dense(deck["system"], step["terms"]) for step in deck["floquet"]["cycle"]]
    for label, own in ((count, down), (count % 2, down % 2)):
        apart = label[:, None] != label
        if deck.get("sector") != "full" and not any(H[apart].any() for H in steps):
            return np.flatnonzero(label == own)
    return np.arange(1 << spins)


# --------------------------------------------------------------------------------------------- spectral


def _spectral(rng: Generator, free: bool) -> Block:
    spins = int(rng.integers(2, 9))
    terms = [_coupling(rng, spins)]
    if rng.random() < 0.6:
        terms.append(_field(rng, spins, _one(rng, 0.1, 1.0)))
    block: Block = {
        "operator": _one(rng, "sz", "sp", "sm", *(("sx", "sy", "xy", "zx", "yz") if free else ())),
        "omega": {"from": -1.0, "to": 6.0, "count": 61},
        "broadening": float(_one(rng, 0.05, 0.2, 1.0)),
        "steps": _one(rng, 4, 8, 12, 20, 30, 150),
    }
    if rng.random() < 0.3:
        block["sites"] = [int(rng.integers(spins))]
    system = anywhere(rng, spins) if free else {"spins": spins, "terms": terms}
    sector: Any = _one(rng, "full", "auto") if free else "auto"
    if spins > 2 and rng.random() < 0.4:
        # of a ring: momenta and signs, those that H has more often than not
        system = uniform(rng, spins) if free else {"spins": spins, "terms": [_uniform(rng)]}
        sector = _characters(rng, system, crossed=block["operator"] not in ("sz", "sp", "sm"))
    return {"task": "dynamics", "system": system, "sector": sector, "dynamics": block}


def _uniform(rng: Generator) -> Block:
    """Return a coupling of a ring that conserves Sz."""
    return {"type": "xxz", "lattice": {"type": "ring"}, "Jxy": _strength(rng), "Jz": _strength(rng)}


def _characters(rng: Generator, system: Block, *, crossed: bool) -> Any:
    """Return momentum and signs that H has, of one Sz where it conserves it and the operator allows; auto if none were drawn."""
    spins = system["spins"]
    H = dense(system)
    for _ in range(8):
        sector: Block = {}
        if rng.random() < 0.8:
            sector["momentum"] = _one(rng, int(rng.integers(spins)), int(rng.integers(spins)), "all")
        if rng.random() < 0.3:
            sector["reflection"] = _one(rng, 1, -1)
        if rng.random() < 0.25:
            sector["inversion"] = _one(rng, 1, -1)
        if crossed and rng.random() < 0.4:
            sector["parity"] = _one(rng, "even", "odd")
        if sector and symmetric_bases(H, sector, charged=not crossed) is not None:
            return sector
    return "auto"


def _states(deck: Mapping[str, Any], *, charged: bool) -> tuple[Real, Complex]:
    """Return levels and states (2^N, n) of H in the sectors of a deck, or all."""
    H, sector = dense(deck["system"]), deck.get("sector", "auto")
    if isinstance(sector, str):
        energies, vectors = np.linalg.eigh(H)
        return energies, vectors
    if "up" in sector:
        up = deck["system"]["spins"] - np.bitwise_count(np.arange(len(H)))
        basis = np.eye(len(H), dtype=complex)[:, np.isin(up, sector["up"])]
    else:
        bases = symmetric_bases(H, sector, charged=charged)
        assert bases is not None
        basis = np.hstack(bases)
    energies, turned = np.linalg.eigh(basis.conj().T @ H @ basis)
    return energies, basis @ turned


def _ground(deck: Mapping[str, Any], energies: Real, vectors: Complex) -> tuple[float, Complex, float]:
    """Return energy and state of the lowest level in the sector of a deck, and the next level there."""
    if not isinstance(deck.get("sector", "auto"), str):
        energies, vectors = _states(deck, charged=deck["dynamics"]["operator"] in ("sz", "sp", "sm"))
    second = float(energies[1]) if energies.size > 1 else math.inf
    return float(energies[0]), vectors[:, 0], second


def _complex(results: Results, name: str) -> Complex:
    """Return an array with its imaginary part, where it has one."""
    real = np.asarray(results[name])
    return real + 1j * np.asarray(results[f"{name}_imag"]) if f"{name}_imag" in results else real + 0j


def _judge_spectral(deck: Mapping[str, Any], results: Results, pick: int) -> list[Claim]:
    """Hold the ground state and every spectral function against sums over all eigenstates."""
    spins, block = deck["system"]["spins"], deck["dynamics"]
    energies, vectors = np.linalg.eigh(dense(deck["system"]))
    lowest, ground, second = _ground(deck, energies, vectors)
    scalar = results.scalars["energy_0"]
    # how much of the next state the oracle's own ground state holds, by rounding; beyond a part in 1e3 the deck is refused
    mixed = 1e-15 * len(energies) * float(np.abs(energies).max()) / max(second - lowest, 1e-300)
    if mixed > 1e-3:
        return [Claim("degenerate ground state", math.nan, 0.0)]
    claims = [
        Claim("energy_0", float(scalar.value or 0.0) - lowest, float(scalar.error or 0.0), oracle=1e-11)
    ]
    operators = {f"s{a}": [component(deck["system"], a, j) for j in range(spins)] for a in "xyz"}
    for ladder, sign in (("sp", 1.0), ("sm", -1.0)):
        operators[ladder] = [x + 1j * sign * y for x, y in zip(operators["sx"], operators["sy"], strict=True)]
    # of unlike components the first is on the left
    name = block["operator"]
    sides = [operators[side] for side in ((name, name) if name in operators else [f"s{a}" for a in name])]
    omega, eta = np.asarray(results["omega"]), block["broadening"]
    if "sites" in block:
        factors = [np.arange(spins) == j for j in block["sites"]]
    else:
        factors = [np.exp(1j * np.pi * q * np.arange(spins)) / math.sqrt(spins) for q in results["q"]]
    for row, factor in enumerate(factors):
        left, right = (
            vectors.conj().T @ sum(c * (S @ ground) for c, S in zip(factor, side, strict=True))
            for side in sides
        )
        weight = left.conj() * right
        lines = (eta / np.pi) / ((omega[:, None] - (energies - lowest)) ** 2 + eta**2)
        found, expected = _complex(results, "structure")[row], lines @ weight
        claimed = float(results["change"][row]) * float(np.abs(found).max())
        difference = float(np.abs(found - expected).max())
        off = 2.0 * mixed * spins
        oracle = 1e-9 / eta + off / eta
        claims.append(Claim("structure", difference, claimed, oracle=oracle, warning="still changes"))
        static = float(abs(_complex(results, "static")[row] - weight.sum()))
        claims.append(Claim("static", static, 0.0, oracle=1e-10 + off))
    return claims


# --------------------------------------------------------------------------------------- driven in a sector


def pulses(rng: Generator) -> Block:
    """Draw an evolution in a sector of Sz under fields with pulses, mostly much narrower than it.

    Keys that begin with an underscore are for the oracle.
    """
    spins = int(rng.integers(2, 6))
    end = round(float(10.0 ** rng.uniform(0.0, 2.0)), 2)
    field = _field(rng, spins) | {"profile": _profile(rng, end)}
    terms = [_coupling(rng, spins), field]
    if rng.random() < 0.3:
        terms.append(_coupling(rng, spins) | {"profile": _profile(rng, end)})
    up = int(rng.integers(1, spins))
    bits = "".join("0" if j < up else "1" for j in rng.permutation(spins))
    where: Block = _one(rng, {"sector": {"up": up}}, {"sector": {"up": up}}, {"sector": "full"}, {})
    evolve: Block = {"t_final": end, "outputs": {"count": int(rng.integers(2, 5))}}
    evolve["accuracy"] = float(10.0 ** -int(rng.integers(3, 10)))
    if "sector" not in where or where["sector"] == "full":
        evolve["integrator"] = _one(rng, "auto", "krylov", "kl8")
    return {
        "system": {"spins": spins, "operators": "spin", "sum": "pairs", "terms": terms},
        **where,
        "initial": {"type": "basis", "bits": bits},
        "evolve": evolve,
        "observe": [{"sz": "all"}, "state", "return_probability"],
        "run": {"seed": int(rng.integers(1000))},
    }


def _profile(rng: Generator, end: float) -> Block:
    """Return a pulse: a trapezoid, a jump up and down or a table of many points, or a formula with its kinks."""
    middle = round(end * float(rng.uniform(0.05, 0.95)), 5)
    width = float(f"{end * 10.0 ** rng.uniform(-5.0, -1.0):.4g}")
    height = float(f"{rng.uniform(0.3, 3.0) / width:.4g}") if rng.random() < 0.7 else 1.0
    edge = float(f"{width * 10.0 ** rng.uniform(-3.0, 0.0):.3g}")
    kind = _one(rng, "trapezoid", "trapezoid", "rough", "gauss", "box")
    if kind == "rough":
        times = np.unique(np.round(rng.uniform(0.0, end, int(rng.integers(2, 40))), 6))
        return {"type": "table", "points": [[float(t), round(float(rng.uniform(-1, 1)), 3)] for t in times]}
    if kind == "trapezoid":
        times = np.array([middle, middle + edge, middle + edge + width, middle + 2.0 * edge + width])
        points = [[float(t), v] for t, v in zip(times, (0.0, height, height, 0.0), strict=True)]
        return {"type": "table", "points": points}
    if kind == "gauss":
        kinks = [middle + x * width for x in (-6.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 6.0)]
        text = f"{height}*exp(-((t-{middle})/{width})^2)"
    else:
        kinks = [middle, middle + width]
        text = f"{height}*heaviside(t-{middle})*heaviside({middle + width}-t)"
    return {"type": "expression", "value": text, "_kinks": kinks}


TASKS: Mapping[str, tuple[Draw, Judge]] = {
    "thermal": (_thermal, _judge_thermal),
    "floquet": (_floquet, _judge_floquet),
    "dynamics": (_spectral, _judge_spectral),
}
"""Tasks beside an evolution: how a deck is drawn, and how its results are judged."""
