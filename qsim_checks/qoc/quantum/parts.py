"""Random systems of named parts: qubits, transmons, ladders and spins with couplings, baths and frames, by Kronecker products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.qoc.quantum.oracle import Goal, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim_checks.qoc.quantum.oracle import Matrix

__all__ = ["part_system"]

# Levels of the truth beyond those of the deck.
MORE = 5
# Product of levels up to which density matrices are judged, the levels of the truth included.
MOST_OPEN = 12
TWO_PI = 2.0 * np.pi
GATES: dict[int, dict[str, Any]] = {
    2: {
        "x": [[0, 1], [1, 0]],
        "h": np.array([[1, 1], [1, -1]]) / np.sqrt(2.0),
        "s": np.diag([1, 1j]),
        "sqrt_x": np.array([[1 + 1j, 1 - 1j], [1 - 1j, 1 + 1j]]) / 2.0,
    },
    4: {
        "cnot": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]],
        "cz": np.diag([1, 1, 1, -1]),
        "iswap": [[1, 0, 0, 0], [0, 0, 1j, 0], [0, 1j, 0, 0], [0, 0, 0, 1]],
    },
}


@dataclass(frozen=True)
class Drawn:
    """One part of the deck, and its matrices for any number of levels.

    Attributes
    ----------
    block : dict
        Its entry of the deck.
    levels : int
        As the deck says; 2 where it says none.
    cut : bool
        True where there are more levels than those kept.
    frequency, anharmonicity : float
        GHz.
    """

    block: dict[str, Any]
    levels: int
    cut: bool
    frequency: float
    anharmonicity: float

    def lowering(self, levels: int) -> Matrix:
        """Return b."""
        return np.diag(np.sqrt(np.arange(1.0, levels)), 1).astype(complex)


def part_system(rng: np.random.Generator, open_system: bool) -> tuple[dict[str, Any], World]:
    """Draw a system with `unit: GHz`, and return its block with what it means, per nanosecond."""
    parts = _parts(rng, open_system)
    block: dict[str, Any] = {"type": "model", "unit": "GHz", "parts": [part.block for part in parts]}
    sizes = [part.levels + (MORE if part.cut else 0) for part in parts]
    embed = _embedding(sizes)
    b = [embed(k, part.lowering(sizes[k])) for k, part in enumerate(parts)]
    n = [m.conj().T @ m for m in b]
    drift = np.zeros_like(n[0])
    for part, q in zip(parts, n, strict=True):
        drift += TWO_PI * (part.frequency * q + 0.5 * part.anharmonicity * (q @ q - q))
    names = [part.block["name"] for part in parts]
    if rng.random() < 0.5:
        frame = float(rng.uniform(3.0, 6.0))
        block["frame"] = frame
        drift -= TWO_PI * frame * np.sum(n, axis=0)
    if len(parts) > 1:
        g = float(rng.uniform(-0.05, 0.05))
        first, second = names[:2]
        block["terms"] = [{"operator": f"{first}.bd*{second}.b + {first}.b*{second}.bd", "value": g}]
        exchange = b[0].conj().T @ b[1]
        drift += TWO_PI * g * (exchange + exchange.conj().T)
    formulas: dict[str, str] = {}
    controls = []
    for name, low, q in zip(names, b, n, strict=True):
        raised = low.conj().T
        for label, text, matrix in (
            ("x", f"{name}.x/2", 0.5 * (low + raised)),
            ("y", f"i*({name}.bd - {name}.b)/2", 0.5j * (raised - low)),
            ("z", f"{name}.n - 1", q - np.eye(len(q))),
        ):
            if label == "x" or rng.random() < 0.4:
                formulas[f"{name}{label}"] = text
                controls.append(TWO_PI * matrix)
    block["controls"] = formulas
    jumps = [jump for k, part in enumerate(parts) for jump in _jumps(part, b[k], n[k])]
    start, goal = _task(rng, block, parts, sizes)
    duration = float(rng.uniform(2.0, 30.0))
    return block, World(np.asarray(drift), controls, [1] * len(controls), jumps, start, goal, duration)


def _parts(rng: np.random.Generator, open_system: bool) -> list[Drawn]:
    """Draw one or two parts; with jumps fewer levels, as the truth has density matrices."""
    parts: list[Drawn] = []
    room = MOST_OPEN if open_system else 80
    for name in "ab"[: int(rng.integers(1, 3))]:
        kind = str(rng.choice(["qubit", "transmon", "ladder"]))
        levels = 2 if kind == "qubit" else int(rng.integers(4, 6))
        truth = levels + (MORE if kind != "qubit" else 0)
        if truth > room:
            kind, levels, truth = "qubit", 2, 2
        room //= truth
        frequency = float(np.round(rng.uniform(3.0, 6.0), 4))
        block: dict[str, Any] = {"name": name, "type": kind, "frequency": frequency}
        anharmonicity = 0.0
        if kind != "qubit":
            anharmonicity = float(np.round(-rng.uniform(0.15, 0.35), 4))
            block |= {"levels": levels, "anharmonicity": anharmonicity}
        if open_system:
            block |= _lifetimes(rng)
        parts.append(Drawn(block, levels, kind != "qubit", frequency, anharmonicity))
    return parts


def _lifetimes(rng: np.random.Generator) -> dict[str, Any]:
    """Draw T1 with T2, with Tphi, or in a warm bath; ns."""
    t1 = float(np.round(10.0 ** rng.uniform(1.0, 4.5), 3))
    kind = rng.choice(["T1", "T2", "Tphi", "warm"])
    if kind == "T2":
        return {"T1": t1, "T2": float(t1 * rng.uniform(0.2, 2.0))}
    if kind == "Tphi":
        return {"T1": t1, "Tphi": f"{t1 * 1e-3:.6f} us"}
    return {"T1": t1, "temperature": "40 mK"} if kind == "warm" else {"T1": t1}


def _jumps(part: Drawn, b: Matrix, n: Matrix) -> list[Matrix]:
    """Return the jumps of the lifetimes of a part."""
    block = part.block
    if "T1" not in block:
        return []
    quanta = 0.0
    if "temperature" in block:
        # h f / k T with the constants of 2019
        quanta = 1.0 / np.expm1(6.62607015e-34 * part.frequency * 1e9 / (1.380649e-23 * 0.04))
    jumps = [np.sqrt((quanta + 1.0) / block["T1"]) * b]
    if quanta:
        jumps.append(np.sqrt(quanta / block["T1"]) * b.conj().T)
    dephasing = 0.0
    if "T2" in block:
        dephasing = 1.0 / block["T2"] - 0.5 / block["T1"]
    if "Tphi" in block:
        dephasing = 1.0 / (float(block["Tphi"].split()[0]) * 1e3)
    return [*jumps, np.sqrt(2.0 * max(dephasing, 0.0)) * n]


def _embedding(sizes: list[int]) -> Callable[[int, Matrix], Matrix]:
    """Return the function that writes a matrix of one part in the product, the first part slowest."""

    def embed(place: int, matrix: Matrix) -> Matrix:
        factors = [np.eye(size, dtype=complex) for size in sizes]
        factors[place] = matrix
        return reduce(np.kron, factors)

    return embed


def _task(
    rng: np.random.Generator, block: dict[str, Any], parts: list[Drawn], sizes: list[int]
) -> tuple[Matrix | None, Goal]:
    """Draw a gate, a transfer, or an observable."""
    total = int(np.prod(sizes))
    count = len(parts)
    labels = [format(k, f"0{count}b") for k in range(2**count)]
    columns = np.zeros((total, len(labels)), dtype=complex)
    for number, label in enumerate(labels):
        columns[int(np.ravel_multi_index([int(c) for c in label], sizes)), number] = 1.0
    kind = rng.choice(["gate", "transfer", "observable"], p=[0.5, 0.3, 0.2])
    if kind == "gate":
        name = str(rng.choice(list(GATES[2**count])))
        block["target"] = {"gate": name, "on": [part.block["name"] for part in parts]}
        return None, Goal(unitary=np.array(GATES[2**count][name], dtype=complex), logical=columns)
    first, last = (int(k) for k in rng.permutation(2**count)[:2])
    block["initial"] = labels[first]
    psi = columns[:, first]
    start = np.outer(psi, psi.conj())
    if kind == "transfer":
        block["target"] = labels[last]
        return start, Goal(operator=np.outer(columns[:, last], columns[:, last]))
    name = parts[0].block["name"]
    block["target"] = {"observable": f"{name}.p1 - {name}.p0"}
    signs = np.zeros(sizes[0])
    signs[:2] = -1.0, 1.0
    return start, Goal(operator=_embedding(sizes)(0, np.diag(signs).astype(complex)))
