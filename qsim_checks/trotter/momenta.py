"""Momenta of random decks, and the waves of their structure factors, from textbooks and the geometry of the oracle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qsim_checks.coverage import Claim
from qsim_checks.trotter.oracle import cells, places

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["POINTS", "crystal", "lattice_of", "momenta", "waves"]

Generator = np.random.Generator
Block = dict[str, Any]
Complex = NDArray[np.complex128]
Real = NDArray[np.float64]

ROWS = ("chain", "ring", "all")
_THIRD = 1.0 / math.sqrt(3.0)
_HEXAGON = {"M": (1.0, _THIRD, 0.0), "K": (4.0 / 3.0, 0.0, 0.0)}
_SQUARE = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "M": (1.0, 1.0, 0.0)}
_FCC = {"X": (0.0, 0.0, 2.0), "L": (1.0, 1.0, 1.0), "W": (1.0, 2.0, 0.0), "K": (1.5, 1.5, 0.0)}
POINTS: Mapping[str, tuple[float, Mapping[str, tuple[float, ...]]]] = {
    "square": (1.0, _SQUARE),
    "ladder": (1.0, _SQUARE),
    "triangular": (1.0, _HEXAGON),
    "honeycomb": (math.sqrt(3.0), _HEXAGON),
    "kagome": (2.0, _HEXAGON),
    "cubic": (1.0, {"X": (1.0, 0.0, 0.0), "M": (1.0, 1.0, 0.0), "R": (1.0, 1.0, 1.0)}),
    "bcc": (2.0 * _THIRD, {"H": (0.0, 2.0, 0.0), "N": (1.0, 1.0, 0.0), "P": (1.0, 1.0, 1.0)}),
    "fcc": (math.sqrt(2.0), _FCC),
    "pyrochlore": (2.0 * math.sqrt(2.0), _FCC),
}
"""Named points of the zones in units of pi / a, and the edge a of the cell or cube in distances of neighbours."""


def crystal(rng: Generator, spins: int) -> Block | None:
    """Return a plane, ladder or crystal of `spins` sites, or None where the draw does not fit."""
    kind = str(rng.choice(list(POINTS)))
    sites = {"honeycomb": 2, "kagome": 3, "pyrochlore": 4}.get(kind, 1)
    number, rest = divmod(spins, sites)
    if rest:
        return None
    lengths = [int(n) for n in range(1, number + 1) if number % n == 0]
    first = int(rng.choice(lengths))
    if kind == "ladder":
        legs = int(rng.choice([n for n in lengths if n > 1] or [0]))
        return {"type": kind, "legs": legs, "periodic": bool(rng.random() < 0.5)} if legs else None
    lattice: Block = {"type": kind, "Lx": first, "Ly": number // first}
    if kind in ("cubic", "bcc", "fcc", "pyrochlore"):
        second = int(rng.choice([n for n in lengths if number // first % n == 0]))
        lattice |= {"Ly": second, "Lz": number // first // second}
    each = [bool(rng.random() < 0.5) for _ in range(len(lattice) - 1)]
    return lattice | {"periodic": each[0] if rng.random() < 0.5 else each}


def momenta(rng: Generator, system: Block) -> Block:
    """Return the key ``q`` of a structure factor, mostly none: names of points, numbers and texts."""
    if rng.random() < 0.6:
        return {}
    lattice = lattice_of(system)
    if lattice is None or lattice["type"] in ROWS:
        return {"q": [round(float(rng.uniform(-2.0, 2.0)), 3), "pi/2", 1.0]}
    names = ["Gamma", *POINTS[lattice["type"]][1]]
    vector = [round(float(x), 3) for x in rng.uniform(-2.0, 2.0, len(cells(lattice, system["spins"])[0]))]
    return {"q": [str(rng.choice(names)), vector, str(rng.choice(names))]}


def lattice_of(system: Mapping[str, Any]) -> Block | None:
    """Return the lattice that momenta belong to: of the system, else of the first term in space, else of any term."""
    if "lattice" in system:
        return dict(system["lattice"])
    named = [term["lattice"] for term in system["terms"] if "lattice" in term]
    return next((one for one in named if one["type"] not in ROWS), next(iter(named), None))


def waves(deck: Mapping[str, Any], results: Results) -> tuple[Complex, list[Claim]]:
    """Return ``exp(i q r_j)`` (momenta, sites) of a results file, and the claims that the momenta are those of the deck."""
    system, spins = deck["system"], deck["system"]["spins"]
    lattice = lattice_of(system)
    item = next(one for one in deck["observe"] if "structure_factor" in one)
    if lattice is None or lattice["type"] in ROWS:
        q = np.asarray(results["wave_number"])
        given = [0.5 if one == "pi/2" else one for one in item.get("q", 2.0 * np.arange(spins) / spins)]
        wrong = np.inf if q.shape != np.shape(given) else np.abs(q - given).max()
        return np.exp(1j * np.pi * np.outer(q, np.arange(spins))), [
            Claim("wave_number", float(wrong), 0.0, oracle=1e-12)
        ]
    q = np.asarray(results["wave_vector"])
    wrong = _misplaced(q, item["q"], lattice) if "q" in item else _missing(q, lattice, spins)
    phases = np.pi * q @ places(lattice, spins)[0].T
    return np.exp(1j * phases), [Claim("wave_vector", wrong, 0.0, oracle=1e-9)]


def _misplaced(q: Real, given: list[Any], lattice: Block) -> float:
    """Return the largest distance of momenta from those that the deck names."""
    edge, named = POINTS[lattice["type"]]
    table = {name: np.array(place) / edge for name, place in named.items()} | {"Gamma": np.zeros(3)}
    wanted = [table[one] if isinstance(one, str) else np.array([*one, 0.0, 0.0])[:3] for one in given]
    return float(np.abs(q - wanted).max()) if len(q) == len(wanted) else math.inf


def _missing(q: Real, lattice: Block, spins: int) -> float:
    """Return how far momenta are from a whole set: periodic over the cluster, all different, in the first zone."""
    vectors, _, size = cells(lattice, spins)
    # full turns over the length of the cluster
    turns = 0.5 * q @ (np.array(size)[:, None] * vectors).T
    whole = np.abs(turns - np.round(turns)).max()
    classes = {tuple(row) for row in np.round(turns).astype(int) % size}
    reciprocal = 2.0 * np.linalg.pinv(vectors).T
    for numbers in itertools.product((-1, 0, 1), repeat=len(size)):
        others = np.linalg.norm(q - np.array(numbers) @ reciprocal, axis=1)
        whole = max(whole, float((np.linalg.norm(q, axis=1) - others).max()))
    return float(whole) if len(classes) == len(q) == math.prod(size) else math.inf
