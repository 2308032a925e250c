"""Random systems whose levels do not suffice: couplings that skip levels, hot baths, products of cut parts, rotors.

The truth has as many levels as it needs: matrices by Kronecker products of parts, enlarged until the value stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import FACTOR, Claim, Trial
from qsim_checks.qoc.quantum import oracle
from qsim_checks.qoc.quantum.oracle import Goal, World

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.qoc.quantum.oracle import Matrix

__all__ = ["few_levels"]

# Rows of the truth's matrices.
MOST_ROWS = 500
# Change of the value that counts as settled, and as good enough to judge at all.
SETTLED = 1e-10
GOOD = 1e-3
# What withdraws a claim.
UNCLAIMED = r"no error is claimed"


@dataclass(frozen=True)
class Part:
    """A part of a deck, whose levels may be cut.

    Attributes
    ----------
    block : dict
        Its entry in the deck.
    levels : int
        Of the deck.
    cut : bool
    """

    block: dict[str, Any]
    levels: int
    cut: bool

    def operators(self, size: int) -> dict[str, Matrix]:
        """Return the own Hamiltonian, ``H``, and the operators by name for some levels."""
        block = self.block
        if block["type"] == "rotor":
            j = np.arange(float(size))
            above = (j[:-1] + 1.0) / np.sqrt((2.0 * j[:-1] + 1.0) * (2.0 * j[:-1] + 3.0))
            cos = np.diag(above, 1) + np.diag(above, -1)
            wide = Part(block, size + 1, True).operators(size + 1)["cos"] if size < 200 else cos
            return {
                "H": np.diag(block["B"] * j * (j + 1.0)).astype(complex),
                "cos": cos.astype(complex),
                "cos2": np.asarray((wide @ wide)[:size, :size], complex),
            }
        if block["type"] == "spin":
            s = block["s"]
            m = np.arange(-s, s + 0.5)
            up = np.diag(np.sqrt(s * (s + 1.0) - m[:-1] * (m[:-1] + 1.0)), -1).astype(complex)
            return {"H": np.diag(block["frequency"] * (m + s)).astype(complex), "Sx": 0.5 * (up + up.T)}
        b = np.diag(np.sqrt(np.arange(1.0, size)), 1).astype(complex)
        n = np.arange(float(size))
        bent = block.get("anharmonicity", 0.0)
        energy = block.get("frequency", 0.0) * n + 0.5 * bent * n * (n - 1.0)
        return {
            "H": np.diag(energy).astype(complex),
            "b": b,
            "bd": b.T.copy(),
            "n": np.diag(n).astype(complex),
        }


def few_levels(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a system with few levels and return it with its judge."""
    parts = _parts(rng)
    control, terms = _couplings(rng, parts)
    duration = float(rng.uniform(0.5, 4.0))
    slots = int(rng.integers(2, 30))
    size, turn = float(10.0 ** rng.uniform(-1.0, 0.3)), float(rng.uniform(0.0, 6.0))
    block: dict[str, Any] = {
        "type": "model",
        "parts": [part.block for part in parts],
        "terms": [{"operator": text, "value": value} for text, value in terms],
        "controls": {"f": control},
    }
    first = "0" * len(parts)
    block["initial"] = first
    observed = rng.random() < 0.4 and "levels" in parts[0].block and parts[0].block["type"] == "ladder"
    name = parts[0].block["name"]
    block["target"] = {"observable": f"{name}.n"} if observed else first
    deck = {
        "system": block,
        "time": {"T": duration, "slots": slots},
        "control": [{"name": "f", "guess": {"type": "expression", "value": f"{size:.5g}*cos({turn:.5g}*t)"}}],
        "optimizer": "none",
        "verify": {"levels": int(rng.integers(1, 4)), "tolerance": 1.0},
    }
    return Trial(deck, lambda results: _judge(parts, deck, results))


def _parts(rng: np.random.Generator) -> list[Part]:
    """Draw one or two parts, one of them cut at few levels."""
    kind = str(rng.choice(["ladder", "hot", "rotor", "two", "spin"]))
    frequency, bent = float(np.round(rng.uniform(0.0, 4.0), 3)), float(np.round(rng.uniform(-0.5, 0.5), 3))
    levels = int(rng.integers(3, 12))
    ladder: dict[str, Any] = {"name": "o", "type": "ladder", "levels": levels, "frequency": frequency}
    if kind == "rotor":
        return [Part({"name": "r", "type": "rotor", "levels": levels, "B": 1.0}, levels, True)]
    if kind == "hot":
        frequency = float(np.round(rng.uniform(0.5, 2.0), 3))
        bath = {"T1": float(10.0 ** rng.uniform(-0.5, 1.0)), "temperature": frequency * rng.uniform(0.3, 2.0)}
        return [Part(ladder | {"frequency": frequency} | bath, levels, True)]
    parts = [Part(ladder | {"anharmonicity": bent}, levels, True)]
    if kind == "two":
        levels = int(rng.integers(2, 6))
        parts.append(Part({"name": "p", "type": "ladder", "levels": levels, "frequency": 1.3}, levels, True))
    if kind == "spin":
        s = float(rng.choice([0.5, 1.0, 1.5]))
        parts.append(Part({"name": "s", "type": "spin", "s": s, "frequency": 1.1}, int(2 * s + 1), False))
    return parts


def _couplings(rng: np.random.Generator, parts: list[Part]) -> tuple[str, list[tuple[str, float]]]:
    """Draw the control and the terms of H0."""
    if parts[0].block["type"] == "rotor":
        return str(rng.choice(["r.cos", "r.cos2", "r.cos + 0.5*r.cos2"])), []
    power = min(int(rng.choice([1, 1, 2, 3, 4])), parts[0].levels - 1)
    control = f"0.3*(o.b^{power} + o.bd^{power})"
    strength = float(np.round(rng.uniform(0.05, 0.4), 3))
    if len(parts) == 1:
        return control, []
    if parts[1].block["type"] == "spin":
        return control, [("(o.b + o.bd)*s.Sx", strength)]
    # Two quanta of one part for one of the other, or a pair of both, which has to be added to both at once.
    term = str(rng.choice(["o.bd*p.b + o.b*p.bd", "o.bd^2*p.b + o.b^2*p.bd"]))
    if rng.random() < 0.4:
        return "0.3*(o.b*p.b + o.bd*p.bd)", [("o.n*p.n", strength)]
    return control, [(term, strength)]


def _matrix(text: str, named: dict[str, Matrix]) -> Matrix:
    """Return the matrix of one of the formulas above, with Python's own arithmetic of numbers and ``@`` for products."""
    words = text.replace("^", "**").replace(".", "_").replace("0_", "0.")
    names = {name.replace(".", "_"): _Operator(matrix) for name, matrix in named.items()}
    return eval(words, {"__builtins__": {}}, names).matrix


class _Operator:
    """A matrix whose ``*`` is the product of operators."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix

    def __add__(self, other: _Operator) -> _Operator:
        return _Operator(self.matrix + other.matrix)

    def __mul__(self, other: _Operator) -> _Operator:
        return _Operator(self.matrix @ other.matrix)

    def __rmul__(self, factor: float) -> _Operator:
        return _Operator(factor * self.matrix)

    def __pow__(self, power: int) -> _Operator:
        return _Operator(np.linalg.matrix_power(self.matrix, power))


def _world(parts: list[Part], deck: dict[str, Any], sizes: list[int]) -> World:
    """Return the system with some levels of each part."""

    def embed(place: int, matrix: Matrix) -> Matrix:
        factors = [np.eye(size, dtype=complex) for size in sizes]
        factors[place] = matrix
        return np.asarray(reduce(np.kron, factors))

    named: dict[str, Matrix] = {}
    drift = np.zeros((int(np.prod(sizes)),) * 2, complex)
    jumps: list[Matrix] = []
    for place, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        own = part.operators(size)
        drift += embed(place, own.pop("H"))
        named |= {f"{part.block['name']}.{name}": embed(place, matrix) for name, matrix in own.items()}
        if "T1" in part.block:
            quanta = 1.0 / np.expm1(part.block["frequency"] / part.block["temperature"])
            b = named["o.b"]
            jumps += [
                np.sqrt((quanta + 1.0) / part.block["T1"]) * b,
                np.sqrt(quanta / part.block["T1"]) * b.T,
            ]
    system = deck["system"]
    for term in system["terms"]:
        drift += term["value"] * _matrix(term["operator"], named)
    psi = np.zeros(len(drift), complex)
    psi[0] = 1.0
    goal = np.outer(psi, psi)
    if isinstance(system["target"], dict):
        goal = named[system["target"]["observable"]]
    control = _matrix(system["controls"]["f"], named)
    return World(drift, [control], [1], jumps, np.outer(psi, psi), Goal(operator=goal), deck["time"]["T"])


def _truth(parts: list[Part], deck: dict[str, Any], fields: NDArray[np.float64]) -> tuple[float, float]:
    """Return the value in a basis that suffices, and how far it may be off."""
    open_system = any("T1" in part.block for part in parts)
    more, before, change = 8, np.nan, np.inf
    while True:
        sizes = [part.levels + (more if part.cut else 0) for part in parts]
        if int(np.prod(sizes)) ** (2 if open_system else 1) > MOST_ROWS:
            return before, change
        world = _world(parts, deck, sizes)
        value = oracle.value(world, oracle.final(world, fields))
        change = abs(value - before) if np.isfinite(before) else np.inf
        before = value
        if change < SETTLED:
            return value, change + 1e-11
        more += 8


def _judge(parts: list[Part], deck: dict[str, Any], results: Results) -> list[Claim]:
    """Hold the claim itself, without the usual factor, against the truth."""
    exact, error = _truth(parts, deck, np.array([results["control/f"]]))
    if error > GOOD:
        return []
    claims = []
    for name in ("probability", "observable"):
        if name not in results.scalars:
            continue
        scalar = results.scalars[name]
        claimed = np.nan if scalar.error is None else float(scalar.error) / FACTOR
        difference = float(str(scalar.value)) - exact
        claims.append(Claim(name, difference, claimed, oracle=error, warning=UNCLAIMED))
    return claims
