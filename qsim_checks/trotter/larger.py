"""Spins above 1/2, equal and mixed: systems drawn from all that a deck can say of them, H by Kronecker products, and sectors.

A spin S is the symmetric part of 2S spins 1/2, so that its matrices come from Pauli matrices alone.  Site 0 is the fastest index,
and of each site m = S comes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from qsim_checks.coverage import Claim
from qsim_checks.trotter.oracle import cells, distances, entropy_bound, places, spin, ways
from qsim_checks.trotter.planes import (
    lattice_of_system,
    planar,
    point_moves,
    sector_of_planes,
    shifts_of,
    waves_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from qsim.core.results.results import Results

__all__ = [
    "bases_of",
    "component",
    "dense_larger",
    "entropy_of",
    "factor_of",
    "larger",
    "part_bound",
    "sector_of",
    "states_of",
]

Generator = np.random.Generator
Block = dict[str, Any]
Complex = NDArray[np.complex128]
Real = NDArray[np.float64]

SMALL = 1e-10
UNLIKE = ("xy", "yz", "zx")
MOST = 200
"""States of a drawn system."""


def _one(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _strength(rng: Generator) -> float:
    simple = _one(rng, 1.0, -1.0, 0.5, 2.0, -0.4)
    return float(simple if rng.random() < 0.6 else round(float(rng.normal()), 4) or 1.0)


# ------------------------------------------------------------------------------------------- systems


def spins_of(system: Mapping[str, Any]) -> list[float]:
    """Return S of every site."""
    given = system.get("spin", 0.5)
    return list(given) if isinstance(given, list) else [given] * system["spins"]


def states_of(system: Mapping[str, Any]) -> int:
    """Return the number of all states."""
    return math.prod(round(2.0 * S) + 1 for S in spins_of(system))


def _sites(rng: Generator) -> tuple[int, Any, bool]:
    """Return number and sizes of the spins, and whether all are equal."""
    while True:
        n = int(rng.integers(2, 6))
        S: Any = _one(rng, 1, 1, 1, 1.5, 2, 2.5)
        even = bool(rng.random() < 0.6)
        if not even:
            S = [_one(rng, 0.5, 1, 1, 1.5) for _ in range(n)]
            if max(S) == 0.5:
                continue
        if states_of({"spins": n, "spin": S}) <= MOST:
            return n, S, even


def larger(rng: Generator, *, charged: bool | None = None, uniform: bool = False) -> Block:
    """Return a system of spins above 1/2, with a total Sz or not; a ring of equal spins and couplings if it is uniform."""
    n, S, even = _sites(rng)
    while uniform and not even:
        n, S, even = _sites(rng)
    charged = rng.random() < 0.6 if charged is None else charged
    kind = "ring" if uniform or rng.random() < 0.5 else _one(rng, "chain", "all")
    # of two sites a ring is a bond there and back
    lattice: Block = {"type": "chain" if n == 2 and kind == "ring" else kind}
    if uniform and n == 2:
        lattice = {"type": "ring", "images": "all"}
    terms: list[Block] = [_bilinear(rng, lattice, charged)]
    large = [j for j, s in enumerate(spins_of({"spins": n, "spin": S})) if s > 0.5]
    if rng.random() < 0.6:
        terms.append(_single(rng, large, charged, uniform))
    if rng.random() < 0.4:
        terms.append({"type": "biquadratic", "lattice": lattice, "B": _strength(rng)})
    if rng.random() < 0.4:
        axis = "z" if charged else _one(rng, "x", "y", "z")
        values: Any = (
            _strength(rng) if uniform or rng.random() < 0.5 else np.round(rng.normal(size=n), 4).tolist()
        )
        terms.append({"type": "field", "axis": axis, "values": values})
    if not uniform and rng.random() < 0.3:
        terms.append(_matrix(rng, n, S))
    return {"spins": n, "spin": S, "terms": terms}


def _bilinear(rng: Generator, lattice: Block, charged: bool) -> Block:
    directed = lattice["type"] != "all" and lattice.get("images") != "all"
    kind = (
        _one(rng, "heisenberg", "heisenberg", "xxz", "ising")
        if charged
        else _one(rng, "xyz", "xyz", "tensor")
    )
    if kind == "tensor" and not directed:
        kind = "xyz"
    names = {
        "heisenberg": ["J"],
        "ising": ["J"],
        "xxz": ["Jxy", "Jz"],
        "xyz": ["Jx", "Jy", "Jz"],
        "tensor": [],
    }
    found: Block = {"type": kind, "lattice": lattice} | {name: _strength(rng) for name in names[kind]}
    if kind == "tensor":
        K = np.round(rng.normal(size=(3, 3)), 3)
        # across a ring of two neighbours both ways are equal: no direction
        found["J"] = (K + K.T if rng.random() < 0.5 else K).tolist()
    return found


def _single(rng: Generator, large: list[int], charged: bool, uniform: bool) -> Block:
    """Return an anisotropy of single sites."""
    found: Block = {"type": _one(rng, "anisotropy", "single_ion")}
    if not charged and rng.random() < 0.3:
        A = np.round(rng.normal(size=(3, 3)), 3)
        return found | {"A": (A + A.T).tolist()}
    found["D"] = _strength(rng)
    if not charged and rng.random() < 0.7:
        found["E"] = _strength(rng)
    if not uniform and rng.random() < 0.3:
        sites = sorted({int(_one(rng, *large)) for _ in range(2)})
        found |= {"sites": sites, "D": [_strength(rng) for _ in sites]}
    return found


def _matrix(rng: Generator, n: int, S: Any) -> Block:
    """Return any symmetric matrix of some pairs with equally many states."""
    sizes = [round(2.0 * s) + 1 for s in spins_of({"spins": n, "spin": S})]
    pairs = list(combinations(range(n), 2))
    j, k = pairs[int(rng.integers(len(pairs)))]
    if rng.random() < 0.5:
        j, k = k, j
    size = sizes[j] * sizes[k]
    M = np.round(rng.normal(size=(size, size)), 2)
    return {"type": "bond_matrix", "list": [[j, k]], "matrix": (M + M.T).tolist()}


# ------------------------------------------------------------------------------------------------- H


@lru_cache(maxsize=16)
def _alone(two: int) -> dict[str, Complex]:
    """Return the components of a spin of 2 S = two, among the symmetric states of as many spins 1/2."""
    index = np.arange(1 << two)
    down = np.bitwise_count(index)
    # states of k spins down, each string alike
    dicke = np.array([(down == k) / math.sqrt(math.comb(two, k)) for k in range(two + 1)]).T
    return {a: dicke.T @ sum(spin(a, j, two) @ dicke for j in range(two)) for a in "xyz"}


def _product(matrices: Mapping[int, Complex], sizes: Sequence[int]) -> Complex:
    """Return the product of matrices of some sites."""
    found: Complex = np.eye(1, dtype=complex)
    for j, size in enumerate(sizes):
        found = np.asarray(np.kron(matrices.get(j, np.eye(size)), found), complex)
    return found


def component(system: Mapping[str, Any], axis: str, site: int) -> Any:
    """Return ``S^a_j`` among all states of a system, of spins of any size."""
    if "spin" not in system:
        return spin(axis, site, system["spins"])
    twos = [round(2.0 * S) for S in spins_of(system)]
    return _product({site: _alone(twos[site])[axis]}, [two + 1 for two in twos])


def _bonds(term: Mapping[str, Any], system: Mapping[str, Any]) -> list[tuple[int, int]]:
    n = system["spins"]
    if "list" in term:
        return [(int(row[0]), int(row[1])) for row in term["list"]]
    if (torus := lattice_of_system(system)) is not None and "lattice" not in term:
        r = distances(torus, n)
        near, times = r[r > 0.0].min(), ways(torus, n)
        pairs = combinations(range(n), 2)
        return [(j, k) for j, k in pairs if r[j, k] < near + 1e-6 for _ in range(round(times[j, k]))]
    if term["lattice"]["type"] == "all":
        return list(combinations(range(n), 2))
    return [(j, (j + 1) % n) for j in range(n - (term["lattice"]["type"] == "chain"))]


def dense_larger(system: Mapping[str, Any]) -> Complex:
    """Return H among all states."""
    n, sizes = system["spins"], [round(2.0 * S) + 1 for S in spins_of(system)]
    S = [{a: component(system, a, j) for a in "xyz"} for j in range(n)]
    H = np.zeros((states_of(system),) * 2, complex)
    for term in system["terms"]:
        kind = term["type"]
        if kind == "field":
            values = np.broadcast_to(term["values"], n)
            H += sum(v * one[term["axis"]] for v, one in zip(values, S, strict=True))
        elif kind in ("anisotropy", "single_ion"):
            sites = term.get("sites", [j for j in range(n) if sizes[j] > 2])
            D, E = (np.broadcast_to(term.get(name, 0.0), len(sites)) for name in "DE")
            A = np.array(term.get("A", np.zeros((3, 3))))
            for j, d, e in zip(sites, D, E, strict=True):
                x, y, z = (S[j][a] for a in "xyz")
                H += d * z @ z + e * (x @ x - y @ y)
                H += sum(A[a, b] * S[j]["xyz"[a]] @ S[j]["xyz"[b]] for a in range(3) for b in range(3))
        else:
            for number, (j, k) in enumerate(_bonds(term, system)):
                H += _bond(_row(term, number), (S[j], S[k]), (j, k), sizes)
    return H


def _row(term: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Return a term with the strengths of one of its rows, where it has a list."""
    values = term["list"][number][2:] if "list" in term else []
    if term["type"] == "tensor" and values:
        return {**term, "J": np.reshape(values, (3, 3))}
    return {**term, "B": values[0]} if term["type"] == "biquadratic" and values else term


def _bond(
    term: Mapping[str, Any],
    S: tuple[Mapping[str, Complex], Mapping[str, Complex]],
    pair: tuple[int, int],
    sizes: list[int],
) -> Complex:
    first, second = S
    if term["type"] == "biquadratic":
        both = sum(first[a] @ second[a] for a in "xyz")
        return np.asarray(term["B"] * both @ both)
    if term["type"] == "bond_matrix":
        M, found = np.array(term["matrix"]), np.zeros_like(first["x"])
        d = sizes[pair[1]]
        for row, column in np.argwhere(M):
            one, other = np.zeros((sizes[pair[0]],) * 2, complex), np.zeros((d, d), complex)
            one[row // d, column // d] = M[row, column]
            other[row % d, column % d] = 1.0
            found += _product({pair[0]: one, pair[1]: other}, sizes)
        return found
    J = term.get("J", 1.0)
    K = {
        "heisenberg": lambda: J * np.eye(3),
        "ising": lambda: np.diag([0.0, 0.0, J]),
        "xxz": lambda: np.diag([term["Jxy"], term["Jxy"], term["Jz"]]),
        "xyz": lambda: np.diag([term["Jx"], term["Jy"], term["Jz"]]),
        "tensor": lambda: np.array(J),
    }[term["type"]]()
    return np.asarray(sum(K[a, b] * first["xyz"[a]] @ second["xyz"[b]] for a in range(3) for b in range(3)))


def entropy_of(system: Mapping[str, Any], psi: Complex, count: int) -> float:
    """Return the entropy of the first sites of a state."""
    sizes = [round(2.0 * S) + 1 for S in spins_of(system)]
    p = np.linalg.svd(psi.reshape(-1, math.prod(sizes[:count])), compute_uv=False) ** 2
    p = p[p > 1e-300]
    return float(-(p * np.log(p)).sum())


def part_bound(system: Mapping[str, Any], error: float, count: int) -> float:
    """Return the bound of the error of that entropy."""
    sizes = [round(2.0 * S) + 1 for S in spins_of(system)]
    return entropy_bound(error, math.ceil(math.log2(min(math.prod(sizes[:count]), math.prod(sizes[count:])))))


def factor_of(system: Mapping[str, Any]) -> float:
    """Return 4 S^2 of the largest spin, by which a correlator is larger than that of spins 1/2."""
    return (2.0 * max(spins_of(system))) ** 2


# --------------------------------------------------------------------------------------- states in time


def start(rng: Generator, system: Mapping[str, Any], *, alike: bool = False) -> tuple[Block, Complex]:
    """Return an initial state of a deck, and its amplitudes; the same of all sites, and often along an axis, if `alike`."""
    n, twos = system["spins"], [round(2.0 * S) for S in spins_of(system)]
    if rng.random() < 0.6:
        digits = [int(rng.integers(two + 1)) for two in twos]
        digits = digits[:1] * n if alike else digits
        one = [np.eye(two + 1)[digit] for two, digit in zip(twos, digits, strict=True)]
        block: Block = {
            "type": "basis",
            "m": [0.5 * two - digit for two, digit in zip(twos, digits, strict=True)],
        }
    else:
        theta, phi = (np.round(rng.uniform(0.0, math.pi, n), 3) for _ in range(2))
        if alike:
            theta, phi = (
                np.full(n, _one(rng, 0.0, 0.5 * math.pi, 0.5 * math.pi, a[0])) for a in (theta, phi)
            )
        # a turn of the state m = S: about y, then about z
        one = []
        for two, t, f in zip(twos, theta, phi, strict=True):
            S = _alone(two)
            up = np.eye(two + 1)[0]
            # exp(i S phi) makes the amplitude of m = S real
            one.append(np.exp(0.5j * two * f) * expm(-1j * f * S["z"]) @ expm(-1j * t * S["y"]) @ up)
        block = {"type": "product", "theta": theta.tolist(), "phi": phi.tolist()}
    psi: Complex = np.ones(1, complex)
    for state in one:
        psi = np.kron(state, psi)
    return block, psi


def evolution(rng: Generator, folder: Path) -> tuple[Block, Complex]:
    """Return a deck of an evolution of larger spins, under a constant H or a driven field, and its start."""
    alike = bool(rng.random() < 0.5)
    torus = bool(rng.random() < 0.3)
    system = planar(rng) if torus else larger(rng, uniform=alike)
    while torus and states_of(system) > MOST:
        system = planar(rng)
    initial, psi = start(rng, system, alike=alike and not torus)
    sector = (
        ((_character(rng, system, psi) if alike and not torus else {}) or _one(rng, "auto", "full"))
        if not torus
        else {}
    )
    if torus or rng.random() < 0.2:
        # any state of a character, from a file
        made = _inside(rng, system) if torus else None
        sector, psi = made or (
            _one(rng, "auto", "full"),
            np.asarray(rng.normal(size=(2, states_of(system))).T @ [1.0, 1.0j], np.complex128),
        )
        psi = psi / np.linalg.norm(psi)
        np.save(folder / "start.npy", psi)
        initial = {"type": "file", "file": "start.npy"}
    other = rng.normal(size=len(psi)) + psi
    np.save(folder / "other.npy", other)
    end = round(float(rng.uniform(0.5, 4.0)), 2)
    count = int(rng.integers(2, 5))
    # many short steps of the oracle: few states
    driven = rng.random() < 0.4 and states_of(system) <= 60 and not torus
    if driven:
        field: Block = {"type": "field", "axis": _one(rng, "x", "z"), "values": _strength(rng)}
        system["terms"].append(
            field | {"profile": {"type": "cosine", "omega": round(float(rng.uniform(0.2, 3.0)), 2)}}
        )
    n = system["spins"]
    evolve: Block = {
        "t_final": end,
        "outputs": {"count": count},
        "integrator": _one(rng, "auto", "krylov"),
        "accuracy": float(10.0 ** -int(rng.integers(4, 10))),
    }
    plain = isinstance(sector, str) or set(sector) <= {"parity", "sz"}
    if plain and not driven and rng.random() < 0.6:
        # a product formula
        order, name = _one(rng, (1, "ts1"), (2, "ts2"), (4, "ts4"), (4, "bm4"), (6, "bm6"))
        evolve |= {"integrator": name, "accuracy": float(10.0 ** -rng.uniform(1.5, 1.5 + 1.2 * order))}
        if rng.random() < 0.3:
            evolve |= {"dt": round(float(rng.uniform(0.004, 0.05)), 4)}
            del evolve["accuracy"]
    deck: Block = {
        "system": system,
        "initial": initial,
        "sector": sector,
        "evolve": evolve,
        "observe": [
            {"sz": "all"},
            {"sx": "all"},
            {"sy": "all"},
            {"correlator": ["xx", "yy", "zz", *UNLIKE], "pairs": [[0, n - 1]]},
            {"entropy": {"sites": [0]}},
            "return_probability",
            {"structure_factor": ["zz", "xx"], "q": _momenta(system)},
            {"fidelity": "other.npy"},
            "state",
        ],
        "run": {"seed": 1},
    }
    if "inversion" in deck["sector"]:
        # it turns <Sz> over, which is no observable there
        del deck["observe"][0]
    if (
        isinstance(deck["sector"], str)
        and not any("profile" in t for t in system["terms"])
        and rng.random() < 0.5
    ):
        sigma = {"type": "field", "axis": _one(rng, "x", "z"), "values": _strength(rng)}
        scheme = _one(rng, "overlap", "return") if evolve["integrator"] != "ts1" else "overlap"
        deck["observe"] += [
            {"echo": {"sigma": [sigma], "scheme": scheme}},
            {"time_correlation": int(rng.integers(n))},
        ]
    return deck, psi


def _character(rng: Generator, system: Mapping[str, Any], psi: Complex) -> Block:
    """Return a sector by symmetries that all terms have, in which a state of equal sites lies."""
    n = system["spins"]
    found: Block = {}
    parts = [dense_larger({**system, "terms": [term]}) for term in system["terms"]]

    def sign(P: Complex) -> int:
        """Return the sign of the start under a symmetry of all terms, 0 where either has it not."""
        mean = float(np.vdot(psi, P @ psi).real)
        return round(mean) if abs(abs(mean) - 1.0) < 1e-12 and all(_keeps(H, P) for H in parts) else 0

    if rng.random() < 0.7 and sign(_moved(system, [(j + 1) % n for j in range(n)])) == 1:
        found["momentum"] = 0
    if rng.random() < 0.5 and sign(_moved(system, list(range(n))[::-1])) == 1:
        found["reflection"] = 1
    if rng.random() < 0.5 and (inversion := sign(np.eye(len(psi), dtype=complex)[::-1])):
        found["inversion"] = inversion
    axes = "z" if "inversion" in found else "zxy"
    kept = [a for a in axes if all(_keeps(H, _turn(system, a)) for H in parts)]
    # of spins with an odd number of quanta in all the inversion turns a parity over
    usable = "inversion" not in found or round(2.0 * sum(spins_of(system))) % 2 == 0
    if kept and usable and rng.random() < 0.5 and (parity := sign(_turn(system, kept[0]))):
        found["parity"] = "even" if parity > 0 else "odd"
    return found


def _momenta(system: Mapping[str, Any]) -> list[Any]:
    """Return momenta of a structure factor, in units of pi."""
    lattice = lattice_of_system(system)
    if lattice is None:
        return [0.0, 0.7, 1.0]
    size = len(cells(lattice, system["spins"])[0])
    return [[0.3, -0.8, 0.5][:size], "Gamma"]


def _inside(rng: Generator, system: Block, draw: Any = sector_of_planes) -> tuple[Block, Complex] | None:
    """Return a sector of a torus by symmetries that all terms have, and a random state there; None if none is found soon."""
    parts = [dense_larger({**system, "terms": [term]}) for term in system["terms"]]
    # what commutes with a generic sum commutes with every term
    H = sum(rng.uniform(0.5, 1.5) * part for part in parts)
    for _ in range(12):
        sector = draw(rng, system, False)
        # Sz is understood in other tasks alone
        named = sector if "parity" in sector else {"sz": None, **sector}
        bases = bases_of(system, np.asarray(H), named)
        if bases is not None:
            count = bases[0].shape[1]
            return sector, bases[0] @ (rng.normal(size=count) + 1j * rng.normal(size=count))
    return None


def judge_evolution(deck: Mapping[str, Any], psi: Complex, other: Complex, results: Results) -> list[Claim]:
    """Hold the observables at all times against exponentials of the dense H, of a driven one in short steps of order four."""
    system, n = deck["system"], deck["system"]["spins"]
    driven = [term for term in system["terms"] if "profile" in term]
    H = dense_larger({**system, "terms": [term for term in system["terms"] if "profile" not in term]})
    V = dense_larger({**system, "terms": driven}) if driven else None
    omega = driven[0]["profile"]["omega"] if driven else 0.0
    error = float(results.scalars["error_estimate"].value or 0.0)
    stated = deck["evolve"].get("accuracy", 0.0)
    warning = "the error of the state is"
    lattice, q = lattice_of_system(system), _momenta(system)
    where = np.arange(n)[:, None] * np.eye(3)[0] if lattice is None else places(lattice, n)[0]
    full = np.array(
        [
            [x, 0.0, 0.0] if not isinstance(x, list) else [*x, 0.0][:3]
            for x in (0.0 if x == "Gamma" else x for x in q)
        ]
    )
    waves = np.exp(1j * np.pi * full @ where.T)
    S = {(a, j): component(system, a, j) for a in "xyz" for j in range(n)}
    largest, now, time = max(spins_of(system)), psi, 0.0
    claims = []
    for k, t in enumerate(np.asarray(results["time"])):
        now = _carried(H, V, omega, now, time, float(t))
        time = float(t)
        floor = 1e-10 if V is None else 1e-8
        for a in "xyz":
            true = [np.vdot(now, S[a, j] @ now).real for j in range(n)]
            if f"s{a}" in results:
                off = float(np.abs(results[f"s{a}"][k] - true).max())
                claims.append(Claim(f"s{a}", off, 2.0 * largest * error, 2.0 * largest * stated, floor))
        for a, b in map(tuple, ("xx", "yy", "zz", *UNLIKE)):
            both = float(np.vdot(S[a, 0] @ now, S[b, n - 1] @ now).real)
            off = float(results[f"correlator_{a}{b}"][k][0]) - both
            claims.append(Claim(f"{a}{b}", off, 2.0 * largest**2 * error, 2.0 * largest**2 * stated, floor))
        off = float(np.ravel(results["entropy"])[k]) - entropy_of(system, now, 1)
        claims.append(
            Claim("entropy", off, part_bound(system, error, 1), part_bound(system, stated, 1), 1e-7)
        )
        off = float(results["return_probability"][k]) - float(abs(np.vdot(psi, now)) ** 2)
        claims.append(Claim("return", off, 2.0 * error, 2.0 * stated, floor))
        off = float(results["fidelity"][k]) - float(
            abs(np.vdot(other, now)) ** 2 / np.vdot(other, other).real
        )
        claims.append(Claim("fidelity", off, 2.0 * error, 2.0 * stated, floor))
        for a in "zx":
            applied = np.array([S[a, j] @ now for j in range(n)])
            true = (
                np.einsum("qj,ji,ki,qk->q", waves, applied.conj(), applied, waves.conj(), optimize=True).real
                / n
            )
            off = float(np.abs(results[f"structure_factor_{a}{a}"][k] - true).max())
            size = 2.0 * n * largest**2
            claims.append(Claim(f"S{a}{a}", off, size * error, size * stated, n * floor))
        if "echo" in results:
            asked = {
                name: value
                for item in deck["observe"]
                if isinstance(item, dict)
                for name, value in item.items()
            }
            backward = H + dense_larger({**system, "terms": asked["echo"]["sigma"]})
            echo = abs(np.vdot(psi, expm(1j * time * backward) @ now)) ** 2
            # there may be the error of both states
            claims.append(Claim("echo", float(results["echo"][k]) - echo, 4.0 * error, 4.0 * stated, floor))
            phi = expm(-1j * time * H) @ S["z", asked["time_correlation"]] @ psi
            true = [np.vdot(now, S["z", j] @ phi).real for j in range(n)]
            off = float(np.abs(results["time_correlation"][k] - true).max())
            size = 2.0 * largest**2
            claims.append(Claim("time_correlation", off, size * error, size * stated, floor))
    found = np.asarray(results["state"])
    # equal up to no phase
    claims.append(
        Claim("state", float(np.linalg.norm(found - now)), error, stated, 1e-10 if V is None else 1e-8)
    )
    return [replace(claim, warning=warning) for claim in claims]


def cycle(rng: Generator, folder: Path) -> tuple[Block, Complex]:
    """Return a deck of a cycle of spins of any size, in a space of characters or in all states, and its start."""
    system = planar(rng) if rng.random() < 0.5 else larger(rng, uniform=True)
    while states_of(system) > MOST:
        system = planar(rng)
    axis = _one(rng, "x", "z")
    system["terms"].append({"type": "field", "axis": axis, "values": _strength(rng)})
    torus = lattice_of_system(system) is not None
    made = _inside(rng, system, sector_of_planes if torus else sector_of) if rng.random() < 0.8 else None
    sector, psi = made or ("full", rng.normal(size=(2, states_of(system))).T @ [1.0, 1.0j])
    psi = np.asarray(psi / np.linalg.norm(psi), np.complex128)
    np.save(folder / "start.npy", psi)
    count, n = len(system["terms"]), system["spins"]
    observe: list[Any] = [
        {"sz": "all"},
        {"sx": "all"},
        {"correlator": ["xx", "zz", "xy"], "pairs": [[0, n - 1]]},
    ]
    deck: Block = {
        "task": "floquet",
        "system": system,
        "sector": sector,
        "initial": {"type": "file", "file": "start.npy"},
        "floquet": {
            "cycle": [
                {"terms": list(range(count - 1)), "time": round(float(10.0 ** rng.uniform(-1.0, 0.5)), 4)},
                {"terms": [count - 1], "time": round(float(10.0 ** rng.uniform(-1.0, 0.5)), 4)},
            ],
            "cycles": int(rng.integers(1, 12)),
            "every": int(rng.integers(1, 4)),
            "accuracy": float(10.0 ** -int(rng.integers(4, 12))),
            "quasienergies": True,
        },
        "observe": [*observe, "return_probability", {"entropy": {"sites": [0]}}],
        "run": {"seed": 1},
    }
    return deck, psi


def judge_cycle(deck: Mapping[str, Any], psi: Complex, results: Results) -> list[Claim]:
    """Hold observables after cycles and the quasi-energies of the space against exponentials of dense matrices."""
    system, block, n = deck["system"], deck["floquet"], deck["system"]["spins"]
    parts = [
        dense_larger({**system, "terms": [system["terms"][k] for k in step["terms"]]})
        for step in block["cycle"]
    ]
    U = np.eye(len(psi), dtype=complex)
    for H, step in zip(parts, block["cycle"], strict=True):
        U = expm(-1j * step["time"] * H) @ U
    error, stated, largest = (
        float(results.scalars["error_estimate"].value or 0.0),
        block["accuracy"],
        max(spins_of(system)),
    )
    floor, claims = 1e-10 * (1.0 + block["cycles"]), []
    S = {(a, j): component(system, a, j) for a in "xyz" for j in range(n)}
    for k, c in enumerate(results["cycle"]):
        now = np.linalg.matrix_power(U, int(c)) @ psi
        found: dict[str, tuple[Any, Any, float]] = {
            f"s{a}": (
                results[f"s{a}"][k],
                [np.vdot(now, S[a, j] @ now).real for j in range(n)],
                2.0 * largest,
            )
            for a in "xz"
        }
        for a, b in map(tuple, ("xx", "zz", "xy")):
            true = float(np.vdot(S[a, 0] @ now, S[b, n - 1] @ now).real)
            found[a + b] = np.ravel(results[f"correlator_{a}{b}"][k])[0], true, 2.0 * largest**2
        found["return"] = results["return_probability"][k], abs(np.vdot(psi, now)) ** 2, 2.0
        for name, (value, true, size) in found.items():
            off = float(np.abs(np.asarray(value) - true).max())
            claims.append(Claim(name, off, size * error, size * stated, floor, "out of reach"))
        off = float(np.ravel(results["entropy"])[k]) - entropy_of(system, now, 1)
        bounds = part_bound(system, error, 1), part_bound(system, stated, 1)
        claims.append(Claim("entropy", off, *bounds, 1e-7, "out of reach"))
    basis = np.eye(len(psi), dtype=complex)
    if isinstance(deck["sector"], dict):
        named = {"sz": None, **deck["sector"]}
        bases = bases_of(system, np.asarray(parts[0] + math.sqrt(2.0) * parts[1]), named)
        assert bases is not None
        basis = bases[0]
    angles, given = (
        np.linalg.eigvals(basis.conj().T @ U @ basis),
        np.exp(1j * np.asarray(results["quasienergies"])),
    )
    off = math.nan
    if angles.shape == given.shape:
        apart = np.abs(angles[:, None] - given)
        off = float(max(apart.min(axis=0).max(), apart.min(axis=1).max()))
    return [*claims, Claim("quasienergies", off, 0.0, oracle=1e-9)]


def _carried(H: Complex, V: Complex | None, omega: float, psi: Complex, start: float, end: float) -> Complex:
    """Return a state at a later time; H + cos(omega t) V in steps of Magnus of order four."""
    if V is None or end == start:
        return np.asarray(expm(-1j * (end - start) * H) @ psi)
    steps = max(1, math.ceil(200.0 * (end - start)))
    h = (end - start) / steps
    for step in range(steps):
        first, second = (
            H + math.cos(omega * (start + (step + 0.5 + s * math.sqrt(3.0) / 6.0) * h)) * V for s in (-1, 1)
        )
        M = 0.5 * h * (first + second) - 1j * math.sqrt(3.0) / 12.0 * h**2 * (second @ first - first @ second)
        psi = np.asarray(expm(-1j * M) @ psi)
    return psi


# ------------------------------------------------------------------------------------------- sectors


def sector_of(rng: Generator, system: Block, several: bool) -> Block:
    """Return a sector: a total Sz, a parity, momenta and signs, which H may not have."""
    n, top = system["spins"], sum(spins_of(system))
    sz = [top - k for k in range(round(2.0 * top) + 1)]
    kind = _one(rng, "sz", "sz", "parity", "momentum", "momentum", "both", "signs")
    if kind == "parity":
        return {"parity": _one(rng, "even", "odd")}
    found: Block = {"sz": _one(rng, *sz)}
    if kind == "sz":
        return (
            {"sz": [found["sz"], -found["sz"]]} if several and found["sz"] and rng.random() < 0.3 else found
        )
    k = int(rng.integers(0, n))
    if kind in ("momentum", "both"):
        found["momentum"] = _one(rng, "all", k, k) if several else k
    if kind in ("both", "signs"):
        if rng.random() < 0.5 and found.get("momentum", 0) in (0, n / 2):
            found["reflection"] = _one(rng, 1, -1)
        if 0.0 in sz:
            found |= {"sz": 0, "inversion": _one(rng, 1, -1)}
        if rng.random() < 0.3 and "inversion" in found:
            del found["sz"]
    return found


def _turn(system: Mapping[str, Any], axis: str) -> Complex:
    """Return ``exp(-i pi (S^a - S))`` of all spins, which is 1 for an even number of quanta."""
    top, total = sum(spins_of(system)), sum(component(system, axis, j) for j in range(system["spins"]))
    values, vectors = np.linalg.eigh(total)
    return np.asarray(
        (vectors * np.exp(-1j * np.pi * (np.round(2.0 * values) / 2.0 - top))) @ vectors.conj().T
    )


def _moved(system: Mapping[str, Any], sites: Sequence[int]) -> Complex:
    """Return the matrix that takes the spin of site j to ``sites[j]``, which is as large."""
    sizes = [round(2.0 * S) + 1 for S in spins_of(system)]
    index = np.arange(states_of(system)).reshape(sizes[::-1])
    n = len(sizes)
    # axis n - 1 - j of the array is site j; the image has at sites[j] the digit of j
    images = index.transpose([n - 1 - sites[n - 1 - axis] for axis in range(n)])
    found = np.zeros((index.size, index.size), complex)
    found[images.ravel(), np.arange(index.size)] = 1.0
    return found


def _stays(system: Mapping[str, Any], sites: Sequence[int]) -> bool:
    """Return True if a permutation takes every spin to one as large."""
    S = spins_of(system)
    return all(S[j] == S[to] for j, to in enumerate(sites))


def _keeps(H: Complex, P: Complex) -> bool:
    return bool(np.abs(P @ H - H @ P).max() < SMALL * (np.abs(H).max() or 1.0))


def _signs(
    system: Mapping[str, Any], H: Complex, sector: Mapping[str, Any]
) -> list[tuple[Complex, int]] | None:
    """Return parity, reflection and inversion of a sector with their signs; None where H has them not."""
    n, one = system["spins"], np.eye(len(H), dtype=complex)
    found: list[tuple[Complex, int]] = []
    moves: list[Sequence[int] | None] = []
    if "reflection" in sector:
        moves.append(list(range(n))[::-1])
    if "momentum" in sector:
        moves += [sites for sites, _ in shifts_of(system)]
    turns = list(point_moves(system, sector["point_group"])) if "point_group" in sector else []
    moves += [sites for sites, _ in turns]
    if any(sites is None or not _stays(system, sites) for sites in moves):
        return None
    if "parity" in sector:
        axes = "z" if "inversion" in sector else "zxy"
        axis = next((a for a in axes if _keeps(H, _turn(system, a))), None)
        if axis is None:
            return None
        found.append((_turn(system, axis), 1 if sector["parity"] == "even" else -1))
    if "reflection" in sector:
        found.append((_moved(system, list(range(n))[::-1]), sector["reflection"]))
    if "inversion" in sector:
        found.append((one[::-1].copy(), sector["inversion"]))
    needed = [operator for operator, _ in found]
    needed += [_moved(system, sites) for sites in moves if sites is not None]
    return found if all(_keeps(H, operator) for operator in needed) else None


def bases_of(system: Mapping[str, Any], H: Complex, sector: Mapping[str, Any]) -> list[Complex] | None:
    """Return the states of each sector that a deck names; None where H has not these symmetries, or no sector has a state."""
    n, top, one = system["spins"], sum(spins_of(system)), np.eye(len(H), dtype=complex)
    totals = sum(component(system, "z", j) for j in range(n)).diagonal().real
    charged = _keeps(H, np.diag(totals).astype(complex))
    signs = _signs(system, H, sector)
    # Sz = 0 is understood where H conserves it
    given = sector.get("sz", 0 if charged and "parity" not in sector else None)
    wanted = given if isinstance(given, list) else [given]
    if signs is None or any(m is not None and (not charged or round(2.0 * (top - m)) % 2) for m in wanted):
        return None
    P = one
    for operator, sign in signs:
        P = P @ (0.5 * (one + sign * operator))
    for sites, sign in point_moves(system, sector["point_group"]) if "point_group" in sector else ():
        assert sites is not None
        P = _of_order(_moved(system, sites), 0.0 if sign > 0 else 0.5) @ P
    waves = waves_of(system, sector["momentum"]) if "momentum" in sector else [[]]
    if waves is None:
        return None
    found = []
    for m in wanted:
        inside = P if m is None else P * (np.abs(totals - m) < 0.1)
        for parts in waves:
            made = inside
            for f, (sites, _) in zip(parts, shifts_of(system), strict=bool(parts)):
                made = _of_order(_moved(system, sites), f) @ made
            if not _keeps(H, made) or np.abs(made @ made - made).max() > 1e-9:
                return None
            values, vectors = np.linalg.eigh(0.5 * (made + made.conj().T))
            found.append(vectors[:, values > 0.5])
    return [basis for basis in found if basis.size] or None


def _of_order(operator: Complex, f: float) -> Complex:
    """Return the projector on the eigenvalue ``exp(-2 pi i f)`` of a permutation."""
    one = np.eye(len(operator), dtype=complex)
    total, power, order = one.copy(), operator, 1
    while np.abs(power - one).max() > 0.5:
        total = total + np.exp(2j * np.pi * f * order) * power
        power, order = operator @ power, order + 1
    # an eigenvalue that it does not have
    own = abs(np.exp(2j * np.pi * f * order) - 1.0) < 1e-9
    return np.asarray(total / order if own else 0.0 * one, np.complex128)
