"""Random decks of ``task: spectrum`` and ``task: levels``, held against dense diagonalisation of the whole space.

Couplings are often equal or simple numbers, so that levels are degenerate by symmetries of all kinds.  Symmetric sectors are made
from the permutations of the 2^N strings: their states are those that a projector on the eigenvalues leaves as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from qsim_checks.coverage import Claim, Trial
from qsim_checks.trotter.anywhere import anywhere, dense, spaces, symmetric_bases, uniform
from qsim_checks.trotter.larger import (
    bases_of,
    component,
    entropy_of,
    factor_of,
    larger,
    part_bound,
    sector_of,
)
from qsim_checks.trotter.momenta import crystal, momenta, waves
from qsim_checks.trotter.planes import planar, sector_of_planes

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["spectrum"]

Generator = np.random.Generator
Block = dict[str, Any]
Complex = NDArray[np.complex128]
Real = NDArray[np.float64]

MOST = 8  # spins
EQUAL = 1e-9  # of the size of the spectrum: true levels closer than that are one
UNKNOWN = "has more states than were found"
"""Warning that withdraws what is said of the lowest level."""


def spectrum(
    rng: Generator,
    task: Literal["spectrum", "levels"] | None = None,
    *,
    free: bool | None = None,
    large: bool = False,
) -> Trial:
    """Draw a deck, of one task if it is named, with or without a total Sz (`free`), and return it with its judge.

    Of spins above 1/2 if they are `large`.
    """
    if task is None:
        task = "levels" if rng.random() < 0.2 else "spectrum"
    free = rng.random() < 0.4 if free is None else free
    drawn = (
        _large(rng, several=task == "spectrum") if large else _free(rng, task == "spectrum") if free else None
    )
    deck = _levels(rng, drawn) if task == "levels" else _spectrum(rng, drawn)
    return Trial(deck, lambda results: _judge(deck, results), refusable=_may_be_refused(deck))


def _may_be_refused(deck: Mapping[str, Any]) -> bool:
    """Return True where a sector may have no state, or a window too few levels for a gap ratio; without a total Sz by its H."""
    sector = deck["sector"]
    if deck["task"] == "levels" or not isinstance(sector, dict):
        return bool(deck["task"] == "levels")
    if "spin" in deck["system"]:
        return bases_of(deck["system"], dense(deck["system"]), sector) is None
    return "up" in sector or symmetric_bases(dense(deck["system"]), sector) is None


# --------------------------------------------------------------------------------------------- decks


def _one(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _strength(rng: Generator) -> float:
    """Return a coupling: a simple number more often than not."""
    simple = _one(rng, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0)
    return simple if rng.random() < 0.7 else round(float(rng.normal()), 5) or 1.0


def _system(rng: Generator) -> Block:
    """Return a ring, a torus, a crystal, other lattices or single pairs, in a field or not."""
    spins = int(rng.integers(2, MOST + 1))
    kind = _one(rng, "ring", "ring", "lattice", "lattice", "chiral", "torus", "crystal", "crystal")
    system: Block = {"spins": spins, "operators": _one(rng, "spin", "spin", "pauli"), "sum": "pairs"}
    if kind == "lattice":
        system["terms"] = [_term(rng, spins) for _ in range(int(rng.integers(1, 4)))]
    elif kind == "crystal":
        while (lattice := crystal(rng, spins)) is None:
            pass
        # the momenta are of the system, or of the first term in space
        system["lattice"] = lattice
        system["terms"] = [_bond(rng, None), *([_term(rng, spins)] if rng.random() < 0.3 else [])]
        if rng.random() < 0.4:
            del system["lattice"]
            system["terms"][0]["lattice"] = lattice
    elif kind == "torus":
        spins = system["spins"] = _one(rng, 4, 6, 6, 8, 8, 9)
        Lx = {4: 2, 6: _one(rng, 2, 3), 8: _one(rng, 2, 4), 9: 3}[spins]
        lattice = {"type": _one(rng, "square", "square", "triangular"), "Lx": Lx, "periodic": True}
        lattice["images"] = _one(rng, "one", "all")
        system["terms"] = [_bond(rng, lattice)]
        if lattice["type"] == "square" and (lattice["images"] == "all" or spins == 9):
            system["terms"].append({"type": "dm", "lattice": lattice, "D": _strength(rng)})
    else:
        lattice = {"type": "ring", "images": _one(rng, "one", "one", "all")}
        system["terms"] = [_bond(rng, lattice)]
        if kind == "chiral" and (spins > 2 or lattice["images"] == "all"):
            system["terms"].append({"type": "dm", "lattice": lattice, "D": _strength(rng)})
        elif spins >= 4 and rng.random() < 0.6:  # next neighbours: Majumdar and Ghosh at half of the coupling
            J = _one(rng, 1.0, 2.0)
            term = {
                "type": "heisenberg",
                "lattice": lattice,
                "shells": [1, 2],
                "J": [J, _one(rng, 0.5, 0.5, 1.0) * J],
            }
            system["terms"] = [term]
    if rng.random() < 0.35:
        system["terms"].append({"type": "field", "axis": "z", "values": _field(rng, spins)})
    return system


def _scaled(rng: Generator, system: Block) -> bool:
    """Give all couplings and fields another size, now and then; return whether they have."""
    if rng.random() > 0.15:
        return False
    factor = _one(rng, 1e-9, 1e-6, 1e6)
    for term in system["terms"]:
        for name in {"J", "Jx", "Jy", "Jxy", "Jz", "D", "values"} & set(term):
            value = term[name]
            term[name] = (factor * np.array(value)).tolist()
        for row in term.get("list", ()):
            row[2:] = [factor * x for x in row[2:]]
    return True


def _field(rng: Generator, spins: int) -> float | list[float]:
    if rng.random() < 0.5:
        return _strength(rng)
    return [round(float(x), 4) for x in rng.normal(size=spins)]


def _bond(rng: Generator, lattice: Block | None) -> Block:
    """Return a coupling along the bonds of a lattice, of that of the system by default."""
    kind = _one(rng, "heisenberg", "heisenberg", "xxz", "xx", "ising")
    strengths = ("Jxy", "Jz") if kind == "xxz" else ("J",)
    found = {"type": kind} if lattice is None else {"type": kind, "lattice": lattice}
    return found | {name: _strength(rng) for name in strengths}


def _term(rng: Generator, spins: int) -> Block:
    """Return a coupling of a lattice, or of some pairs."""
    u = rng.random()
    if u < 0.2 or spins < 3:
        pairs = [(j, k) for j in range(spins) for k in range(j + 1, spins)]
        chosen = rng.permutation(len(pairs))[: int(rng.integers(1, len(pairs) + 1))]
        return {"type": "pairs", "list": [[*pairs[int(c)], _strength(rng)] for c in chosen]}
    lattice: Block = {"type": _one(rng, "chain", "all", "ring")}
    if spins % 2 == 0 and u < 0.5:
        lattice = {"type": "ladder", "periodic": bool(rng.random() < 0.4)}
    return _bond(rng, lattice)


def _sector(rng: Generator, system: Block, several: bool) -> Block:
    """Return a sector of Sz, often with further symmetries, mostly such as H has."""
    spins, terms = system["spins"], system["terms"]
    up = int(rng.integers(0, spins + 1))
    kinds = ["plain"]
    chiral = any(term["type"] == "dm" for term in terms)
    even = all(isinstance(term.get("values", 0.0), float) for term in terms)
    coupled = [term for term in terms if term["type"] not in ("pairs", "field")]
    shapes = {term.get("lattice", system.get("lattice"))["type"] for term in coupled}
    listed = any(term["type"] == "pairs" for term in terms)
    if even and not listed and shapes <= {"ring", "all"}:
        kinds += ["momentum"] * 3
    if even and not listed and not chiral:
        kinds += ["reflection"]
    if spins % 2 == 0 and not chiral and all(term["type"] != "field" for term in terms):
        kinds += ["inversion", "both"]
    kind = _one(rng, *kinds) if rng.random() < 0.95 else _one(rng, "momentum", "reflection", "both")
    found: Block = {"up": up}
    if several and kind in ("plain", "momentum") and rng.random() < 0.6:
        found["up"] = sorted({up, spins - up, int(rng.integers(0, spins + 1))})
    if kind in ("inversion", "both") and spins % 2 == 0:
        found |= {"up": spins // 2, "inversion": _one(rng, 1, -1)}
    if kind == "momentum" or (kind == "both" and "momentum" in kinds):
        k = int(rng.integers(0, spins))
        found["momentum"] = _one(rng, "all", k, [k, (k + 1) % spins]) if several else k
    if kind == "reflection":
        found["reflection"] = _one(rng, 1, -1)
    return found


def _free(rng: Generator, several: bool) -> tuple[Block, Any]:
    """Return a system that conserves no total Sz, and its sector: all, a parity, or a momentum and signs of a ring."""
    spins = int(rng.integers(2, MOST + 1))
    if rng.random() < 0.5:
        system = anywhere(rng, spins)
        return system, _one(rng, "auto", "auto", "auto", "full", {"parity": "even"}, {"parity": "odd"})
    sector: Block = {}
    k = int(rng.integers(0, spins))
    if rng.random() < 0.8:
        sector["momentum"] = _one(rng, "all", k, k, [k, (k + 1) % spins]) if several else k
    if rng.random() < 0.3 and (sector.get("momentum", 0) == 0 or [sector["momentum"]] == [spins / 2]):
        sector["reflection"] = _one(rng, 1, -1)
    if rng.random() < 0.3:
        sector["parity"] = _one(rng, "even", "odd")
    if rng.random() < 0.2 or not sector:
        sector["inversion"] = _one(rng, 1, -1)
    return uniform(rng, spins), sector


def _large(rng: Generator, several: bool) -> tuple[Block, Any]:
    """Return a system of spins of any size, and its sector: rows of sites, or tori of cells with their point groups."""
    torus = bool(rng.random() < 0.45)
    system = planar(rng) if torus else larger(rng, uniform=bool(rng.random() < 0.5))
    H, drawn = dense(system), sector_of_planes if torus else sector_of
    choice: Any = drawn(rng, system, several)
    # mostly one that H has
    for _ in range(8):
        if bases_of(system, H, choice) is None:
            choice = drawn(rng, system, several)
    if bases_of(system, H, choice) is None and rng.random() < 0.9:
        choice = "full"
    if not several:
        return system, choice
    return system, _one(rng, "auto", "auto", "full", choice, choice, choice)


def _spectrum(rng: Generator, drawn: tuple[Block, Any] | None) -> Block:
    """Return a deck of ``task: spectrum``, of a system and sector that are drawn before or of one that conserves Sz."""
    system, sector = drawn or (_system(rng), None)
    free = drawn is not None
    scaled = "spin" not in system and _scaled(rng, system)
    spins = system["spins"]
    deck: Block = {"task": "spectrum", "system": system, "run": {"seed": 1}}
    deck["sector"] = sector or ("auto" if rng.random() < 0.6 else _sector(rng, system, several=True))
    block: Block = {"levels": int(rng.integers(1, 5)), "which": _one(rng, "lowest", "lowest", "highest")}
    # a residual is absolute
    if rng.random() < 0.3 and not scaled:
        block["tolerance"] = _one(rng, 1e-13, 1e-8, 1e-6, 1e-3)
    deck["spectrum"] = block
    if rng.random() < 0.7:
        deck["observe"] = [
            {"sz": "all"},
            {"correlator": ["xx", "zz", "yy"][: 2 + free], "pairs": "all"},
            {"structure_factor": ["zz", "xx", "yy"][: 2 + free], **momenta(rng, system)},
            {"entropy": {"sites": list(range(max(1, spins // 2)))}},
            *([{"sx": "all"}, {"sy": "all"}] if free else []),
        ]
    return deck


def _levels(rng: Generator, drawn: tuple[Block, Any] | None) -> Block:
    system, sector = drawn or (_system(rng), None)
    if "spin" not in system:
        _scaled(rng, system)
    sector = sector or _sector(rng, system, several=False)
    block: Block = {"window": "all"}
    if rng.random() < 0.5:
        block["statistics"] = ["participation"]
    return {"task": "levels", "system": system, "sector": sector, "levels": block, "run": {"seed": 1}}


# -------------------------------------------------------------------------------------------- oracle


def _moved(spins: int, sites: list[int]) -> Real:
    """Return the matrix (2^N, 2^N) that takes the spin of site j to ``sites[j]``."""
    strings = np.arange(1 << spins)
    images = sum((strings >> j & 1) << sites[j] for j in range(spins))
    found = np.zeros((1 << spins, 1 << spins))
    found[images, strings] = 1.0
    return found


def _bases(sector: Block, spins: int) -> list[Complex]:
    """Return the states (2^N, D) of every sector that a deck names."""
    strings = np.arange(1 << spins)
    ups = spins - np.bitwise_count(strings)
    asked = list(range(spins)) if sector.get("momentum") == "all" else sector.get("momentum")
    given, momenta = (value if isinstance(value, list) else [value] for value in (sector["up"], asked))
    found = []
    for k in momenta:
        projector = np.eye(1 << spins, dtype=complex)
        if k is not None:
            shift, power = _moved(spins, [(j + 1) % spins for j in range(spins)]), np.eye(1 << spins)
            total = np.zeros_like(projector)
            for n in range(spins):  # T = exp(-2 pi i k / N)
                total += np.exp(2j * np.pi * k * n / spins) * power / spins
                power = shift @ power
            projector = total @ projector
        if "reflection" in sector:
            mirror = _moved(spins, list(range(spins))[::-1])
            projector = 0.5 * (np.eye(1 << spins) + sector["reflection"] * mirror) @ projector
        if "inversion" in sector:
            projector = 0.5 * (projector + sector["inversion"] * projector[strings[::-1]])
        for up in given:
            inside = np.flatnonzero(ups == up)
            values, vectors = np.linalg.eigh(projector[np.ix_(inside, inside)])
            basis = np.zeros((1 << spins, int((values > 0.5).sum())), complex)
            basis[inside] = vectors[:, values > 0.5]
            found.append(basis)
    return found


def _solved(H: Complex, bases: list[Complex]) -> tuple[Real, Complex]:
    """Return the levels of H in some spaces together, ascending, and their states (2^N, n)."""
    values, states = [np.zeros(0)], [np.zeros((len(H), 0), complex)]
    for basis in bases:
        found, vectors = np.linalg.eigh(basis.conj().T @ H @ basis)
        values.append(found)
        states.append(basis @ vectors)
    order = np.argsort(np.concatenate(values), kind="stable")
    return np.concatenate(values)[order], np.hstack(states)[:, order]


# -------------------------------------------------------------------------------------------- judges


def _judge(deck: Mapping[str, Any], results: Results) -> list[Claim]:
    """Hold all numbers of a results file against the truth."""
    system, sector = deck["system"], deck["sector"]
    H = dense(system)
    if isinstance(sector, str):
        bases = [np.eye(len(H), dtype=complex)]
        if sector == "auto" and deck["task"] == "levels":
            # of several Sz the largest sector alone
            bases = spaces(H)
            bases = [bases[(system["spins"] + 1) // 2]] if len(bases) > 2 else bases
    elif "up" not in sector:
        found = bases_of(system, H, sector) if "spin" in system else symmetric_bases(H, sector)
        if found is None:
            return [Claim("symmetries that H does not have", math.nan, 0.0)]
        bases = found
    else:
        bases = _bases(sector, system["spins"])
    energies, states = _solved(H, bases)
    every: Real = energies if isinstance(sector, str) else np.asarray(np.linalg.eigvalsh(H), np.float64)
    # the size of H, not of a sector that may hold zeros alone
    scale = float(np.abs(np.linalg.eigvalsh(H)).max()) or 1.0
    if deck["task"] == "levels":
        parts = [_solved(H, [basis])[0] for basis in bases]
        # parities that the deck does not name have ratios of their own
        return _of_levels(results, energies, [np.zeros(2)] if "spin" in system else parts, scale)
    if deck["spectrum"]["which"] == "highest":
        energies, states, every = energies[::-1], states[:, ::-1], every[::-1]
    claims = _of_energies(deck, results, energies, every, scale)
    ground = states[:, np.abs(energies - energies[0]) <= EQUAL * scale]
    second = _second(energies, scale)
    residual = _number(results, "residual_max")
    error = 2.0 * residual / abs(second - energies[0]) if second is not None else 0.0
    return claims + _observed(deck, results, ground, error)


def _second(energies: Real, scale: float) -> float | None:
    """Return the level next to the first one."""
    others = energies[np.abs(energies - energies[0]) > EQUAL * scale]
    return float(others[0]) if others.size else None


def _number(results: Results, name: str) -> float:
    """Return a scalar, not a number where it is missing."""
    value = results.scalars[name].value if name in results.scalars else None
    return float(value) if isinstance(value, int | float) else math.nan


def _of_energies(
    deck: Mapping[str, Any], results: Results, energies: Real, every: Real, scale: float
) -> list[Claim]:
    """Hold energies, degeneracy and gaps against the levels of the sectors, and of H."""
    scalars = results.scalars
    oracle = 1e-13 * scale
    listed = sorted(int(name[7:]) for name in scalars if name.startswith("energy_") and name[7:].isdigit())
    enough = len(listed) >= min(deck["spectrum"]["levels"], energies.size)
    claims = [Claim("energies", 0.0 if enough else math.nan, 0.0)]
    for k in listed:
        difference = _number(results, f"energy_{k}") - energies[k]
        claims.append(Claim(f"energy_{k}", difference, _number(results, f"energy_error_{k}"), 0.0, oracle))
    count = int((np.abs(energies - energies[0]) <= EQUAL * scale).sum())
    claims.append(Claim("degeneracy", _number(results, "degeneracy") - count, 0.0, warning=UNKNOWN))
    for name, levels in (("gap", every), ("sector_gap", energies)):
        second = _second(levels, scale)
        if name in scalars:
            true = math.nan if second is None else abs(second - levels[0])
            claimed = scalars[name].error or 0.0
            claims.append(Claim(name, _number(results, name) - true, claimed, 0.0, oracle))
    if "gap" not in scalars and "sector_gap" not in scalars:  # there must be no second level
        alone = _second(energies, scale) is None
        claims.append(Claim("gap", 0.0 if alone else math.nan, 0.0, warning=UNKNOWN))
    return claims


def _observed(deck: Mapping[str, Any], results: Results, ground: Complex, error: float) -> list[Claim]:
    """Hold what is observed against the mean over the level; a warning must say where it is not observed."""
    if "sz" not in results:
        return []
    system = deck["system"]
    count, spins, error = ground.shape[1], system["spins"], factor_of(system) * error
    applied = {a: [component(system, a, j) @ ground for j in range(spins)] for a in "xyz"}
    pairs = {
        a: np.array([[np.vdot(one, other).real / count for other in applied[a]] for one in applied[a]])
        for a in "xyz"
    }
    wave, claims = waves(deck, results)
    for a in "xyz":
        if f"s{a}" in results:
            means = [float(np.vdot(ground, x).real) / count for x in applied[a]]
            claims.append(Claim(f"s{a}", float(np.abs(results[f"s{a}"] - means).max()), error, 0.0, 1e-10))
    for a, ss in pairs.items():
        if f"correlator_{a}{a}" in results:
            j, k = np.asarray(results[f"pairs_{a}{a}"]).T
            difference = np.abs(results[f"correlator_{a}{a}"] - ss[j, k]).max(initial=0.0)
            claims.append(Claim(f"correlator_{a}{a}", float(difference), error, 0.0, 1e-10))
        if f"structure_factor_{a}{a}" in results:
            factor = np.einsum("qj,jk,qk->q", wave, ss, wave.conj()).real / spins
            difference = np.abs(results[f"structure_factor_{a}{a}"] - factor).max()
            claims.append(Claim(f"structure_factor_{a}{a}", float(difference), spins * error, 0.0, 1e-9))
    if "entropy" in results:  # of a single state alone
        half = list(range(max(1, spins // 2)))
        true = entropy_of(system, ground[:, 0], len(half)) if count == 1 else math.nan
        bound = part_bound(system, error, len(half))
        claims.append(Claim("entropy", float(results["entropy"][0]) - true, bound, 0.0, 1e-9))
    return claims


def _of_levels(results: Results, energies: Real, parts: list[Real], scale: float) -> list[Claim]:
    found = np.asarray(results["levels"])[0]
    difference = np.abs(found - energies).max() if found.shape == energies.shape else math.nan
    claims = [Claim("levels", float(difference), 0.0, 0.0, 1e-13 * scale * energies.size)]
    claims.append(Claim("energy_0", _number(results, "energy_0") - energies[0], 0.0, 0.0, 1e-12 * scale))
    # each space has ratios of its own
    apart = [np.diff(part) for part in parts]
    if "gap_ratio" in results.scalars and min(d.min(initial=math.inf) for d in apart) > 1e-6 * scale:
        ratios = np.concatenate([np.minimum(d[1:], d[:-1]) / np.maximum(d[1:], d[:-1]) for d in apart])
        claims.append(Claim("gap_ratio", _number(results, "gap_ratio") - ratios.mean(), 0.0, 0.0, 1e-6))
    return claims
