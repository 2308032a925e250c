"""Lattices of cells with spins of any size in them, and their momenta and point groups, from places in space.

A translation or rotation takes a site to the one whose place differs from its image by whole turns around the torus.
"""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qsim_checks.trotter.momenta import POINTS
from qsim_checks.trotter.oracle import cells, places

__all__ = ["lattice_of_system", "planar", "point_moves", "sector_of_planes", "shifts_of", "waves_of"]

Generator = np.random.Generator
Block = dict[str, Any]
Sites = list[int]

MOST = 520
"""States of a drawn system."""
ROWS = ("chain", "ring", "all")
ORDERS = {"square": 4, "triangular": 6, "honeycomb": 6, "kagome": 6}
CELL = {"honeycomb": 2, "kagome": 3, "pyrochlore": 4}


def _one(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _strength(rng: Generator) -> float:
    simple = _one(rng, 1.0, -1.0, 0.5, 2.0, -0.4)
    return float(simple if rng.random() < 0.6 else round(float(rng.normal()), 4) or 1.0)


# ------------------------------------------------------------------------------------------- systems


def planar(rng: Generator) -> Block:
    """Return a torus of equal cells: spins of every site of a cell, couplings and single-site terms that all cells have."""
    while True:
        kind = _one(rng, *ORDERS, *ORDERS, "cubic", "fcc", "pyrochlore")
        size = [int(n) for n in rng.integers(1, 4, 2 if kind in ORDERS else 3)]
        inner = CELL.get(kind, 1)
        spins = inner * math.prod(size)
        own = [_one(rng, 0.5, 1, 1, 1.5) for _ in range(inner)]
        if rng.random() < 0.5:
            own = own[:1] * inner
        S = own * math.prod(size)
        if spins > 2 and math.prod(round(2.0 * s) + 1 for s in S) <= MOST:
            break
    lattice: Block = dict(zip(("Lx", "Ly", "Lz"), size, strict=False)) | {"type": kind}
    lattice |= {"periodic": True, "images": _one(rng, "one", "all")}
    charged = rng.random() < 0.6
    bond = _one(rng, "heisenberg", "heisenberg", "xxz") if charged else "xyz"
    names = {"heisenberg": ["J"], "xxz": ["Jxy", "Jz"], "xyz": ["Jx", "Jy", "Jz"]}[bond]
    terms: list[Block] = [{"type": bond} | {name: _strength(rng) for name in names}]
    large = [j for j, s in enumerate(S) if s > 0.5]
    if large and rng.random() < 0.4:
        terms.append({"type": "anisotropy", "D": _strength(rng)} | ({} if charged else {"E": _strength(rng)}))
    if large and rng.random() < 0.3:
        terms.append({"type": "biquadratic", "B": _strength(rng)})
    if rng.random() < 0.3:
        axis = "z" if charged else _one(rng, *"xyz")
        each = [_strength(rng) for _ in range(inner)]
        # of every site of a cell, or of all sites
        values: Any = each * math.prod(size) if inner > 1 and rng.random() < 0.5 else each[0]
        terms.append({"type": "field", "axis": axis, "values": values})
    return {"spins": spins, "spin": S[0] if len(set(S)) == 1 else S, "lattice": lattice, "terms": terms}


def sector_of_planes(rng: Generator, system: Block, several: bool) -> Block:
    """Return a sector with a momentum, a character of a point group or both, of one Sz, a parity or neither."""
    lattice, S = system["lattice"], system["spin"]
    top = sum(S) if isinstance(S, list) else S * system["spins"]
    found: Block = {}
    base = _one(rng, "sz", "sz", "parity", "none")
    if base == "sz":
        found["sz"] = top - int(rng.integers(round(2.0 * top) + 1))
    elif base == "parity":
        found["parity"] = _one(rng, "even", "odd")
    if top % 1.0 == 0.0 and base != "parity" and rng.random() < 0.25:
        found |= {"inversion": _one(rng, 1, -1)} | ({"sz": 0} if base == "sz" else {})
    count = math.prod(length for _, length in shifts_of(system))
    planar = lattice["type"] in ORDERS
    if rng.random() < 0.8 or not planar:
        named = ["Gamma", *POINTS[lattice["type"]][1]]
        k = int(rng.integers(count))
        found["momentum"] = _one(rng, 0, k, k, _one(rng, *named), *(("all",) if several else ()))
    if planar and (rng.random() < 0.6 or "momentum" not in found):
        order = ORDERS[lattice["type"]]
        name = f"C{_one(rng, *(n for n in (2, 3, 4, 6) if order % n == 0))}{_one(rng, '', 'v')}"
        letters = _one(rng, *("AB" if name[1] in "246" else "A"))
        found["point_group"] = {"name": name, "irrep": letters + (_one(rng, "1", "2") if "v" in name else "")}
    return found


def lattice_of_system(system: Mapping[str, Any]) -> Block | None:
    """Return the lattice of cells of a system, None for rows of sites."""
    lattice = system.get("lattice")
    return None if lattice is None or lattice["type"] in ROWS else lattice


# ------------------------------------------------------------------------------------------- geometry


def _torus(lattice: Block, spins: int) -> tuple[NDArray[np.float64], Callable[[Any], list[int] | None]]:
    """Return the places of the sites, and where sites at other places are; None if one is between the sites."""
    where, turns = places(lattice, spins)
    images = [
        sum((n * turn for n, turn in zip(ns, turns, strict=True)), np.zeros(3))
        for ns in itertools.product(range(-3, 4), repeat=len(turns))
    ]

    def found(points: Any) -> list[int] | None:
        apart = np.min([np.linalg.norm(points[:, None] - where - image, axis=2) for image in images], axis=0)
        return np.argmin(apart, axis=1).tolist() if apart.min(axis=1).max() < 1e-6 else None

    return where, found


def shifts_of(system: Mapping[str, Any]) -> list[tuple[Sites, int]]:
    """Return where the sites go under the shift by a cell along each direction of more than one, and its order."""
    n, lattice = system["spins"], lattice_of_system(system)
    if lattice is None:
        return [([(j + 1) % n for j in range(n)], n)]
    vectors, _, size = cells(lattice, n)
    where, found = _torus(lattice, n)
    moved = [(found(where + vector), length) for vector, length in zip(vectors, size, strict=True)]
    return [(sites, length) for sites, length in moved if sites is not None and length > 1]


def waves_of(system: Mapping[str, Any], asked: Any) -> list[list[float]] | None:
    """Return the parts of 2 pi along each shift of the momenta that a deck names; None where there is no such momentum."""
    lattice, moves = lattice_of_system(system), shifts_of(system)
    every = [list(reversed(m)) for m in itertools.product(*(range(length) for _, length in reversed(moves)))]
    fractions = [[m / length for m, (_, length) in zip(each, moves, strict=True)] for each in every]
    if asked == "all":
        return fractions
    found = []
    for one in asked if isinstance(asked, list) else [asked]:
        if isinstance(one, int):
            found.append(fractions[one])
            continue
        if lattice is None:
            return None
        vectors, _, size = cells(lattice, system["spins"])
        edge, named = POINTS[lattice["type"]]
        q = np.array(named.get(one, (0.0, 0.0, 0.0))) / edge
        parts = [
            float(0.5 * q @ vector) % 1.0 for vector, length in zip(vectors, size, strict=True) if length > 1
        ]
        # along a direction of one cell the wave must be the same everywhere
        whole = [0.5 * float(q @ vector) * length for vector, length in zip(vectors, size, strict=True)]
        if any(abs(x - round(x)) > 1e-9 for x in whole):
            return None
        found.append(parts)
    return found


def point_moves(system: Mapping[str, Any], group: Mapping[str, str]) -> Iterator[tuple[Sites | None, int]]:
    """Yield rotation and mirror of a point group with their signs in a character; None for one that the torus does not have.

    The centre is a site, of honeycomb and kagome the middle of a hexagon, which has six sites at distance 1.
    """
    lattice, n, name, irrep = system["lattice"], system["spins"], group["name"], group["irrep"]
    vectors, basis, _ = cells(lattice, n)
    where, found = _torus(lattice, n)
    centre = np.zeros(3)
    if len(basis) > 1:
        corners = np.array(
            [a * vectors[0] + b * vectors[1] + c for a in (-1, 0, 1, 2) for b in (-1, 0, 1, 2) for c in basis]
        )
        middles = [
            0.5 * (p + q)
            for p, q in itertools.combinations(corners, 2)
            if abs(np.linalg.norm(p - q) - 2.0) < 1e-9
        ]
        six = [m for m in middles if (np.abs(np.linalg.norm(corners - m, axis=1) - 1.0) < 1e-9).sum() == 6]
        # the first one along the sum of the vectors
        along = vectors[0] + vectors[1]
        centre = min(
            (m for m in six if m @ along > 0.0 and np.linalg.norm(np.cross(m, along)) < 1e-9),
            key=lambda m: float(np.linalg.norm(m)),
        )
    turn = cmath.exp(2j * math.pi / int(name[1]))

    def moved(operation: Callable[[Any], Any]) -> Sites | None:
        flat = np.array([1.0, 1.0j, 0.0])
        # the torus must go into itself, too
        sides = operation(np.array(places(lattice, n)[1]) @ flat)
        z = np.concatenate([operation((where - centre) @ flat), sides])
        points = np.stack([z.real, z.imag, 0.0 * z.real], axis=1)
        points[:n] += centre
        points[n:] += where[0]
        to = found(points)
        return to[:n] if to is not None and not any(to[n:]) and len(set(to[:n])) == n else None

    yield moved(lambda z: turn * z), 1 if irrep[0] == "A" else -1
    if name.endswith("v"):
        yield moved(np.conj), 1 if irrep[1] == "1" else -1
