"""Memory of a run, stage by stage as its arrays are made; the largest stage counts, with what lives through all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.core.device.device import Memory
from qsim.sturmian.deck.blocks import as_list
from qsim.sturmian.radial import parameters
from qsim.sturmian.radial.box import BEYOND
from qsim.sturmian.radial.parameters import Radial
from qsim.sturmian.two_electron.sizes import MODEL_SIZE, STEP_WORK, WORK, finer_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["Size", "basis", "davidson", "dense", "finer", "integrals", "relaxation"]

REAL, COMPLEX = 8, 16
# Roots that the search follows beyond those wanted: davidson.GUARDS.
GUARDS = 2
# Matrices of the grid that live while Sturmian functions are found.
EIGENVECTORS = 8
# Vectors per root of states that only tell how far the partial waves have converged.
ROUGH_VECTORS = 6
# Share of the vectors that a search frees as it grows and that the pool of a GPU keeps, since the next ones do not fit there.
FREED = 0.78
# Name of this part of the memory, which a CPU gives back.
POOL = "outgrown vectors"
# Usual number of steps of a relaxation on the finer grid.
STEPS = 2


@dataclass(frozen=True)
class Size:
    """Sizes of one symmetry on one grid: points, functions of an l at most, pairs, components, multipoles, roots, momenta."""

    n: int
    M: int
    P: int
    C: int
    multipoles: int
    roots: int
    ls: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]], n: int, M: int, roots: int) -> Size:
        """Return the sizes of some pairs."""
        ls = {l for pair in pairs for l in pair}
        spread = 2 * max(ls) + 1
        mixed = sum(a != b for a, b in pairs)
        even = spread if mixed else max(ls) + 1 + (len(pairs) > 1) * max(ls)
        return cls(n, M, len(pairs), len(pairs) + mixed, even, roots, len(ls))


def _operator(size: Size) -> dict[str, int]:
    """Return bytes of a Hamiltonian: functions of both electrons with their transposes, kernels twice, one-body energies."""
    n, M, P = size.n, size.M, size.P
    model = size.ls**2 * n * max(1, MODEL_SIZE // max(P, 1))
    return {
        "one-electron matrices": (4 * P * n * M + size.ls * n * M + 2 * P * M * M + model) * REAL,
        "repulsion kernels": 2 * size.multipoles * n * n * REAL,
    }


def davidson(size: Size, most: int) -> dict[str, int]:
    """Return bytes of a search: vectors and their products, once more while they grow, and a block of them on the grid."""
    block = size.roots + GUARDS
    vector = size.P * size.M * size.M
    kept = min(max(10 * block, 24), most)
    # V and H V of every size below the last one
    outgrown = FREED * kept * max(kept / block - 1.0, 0.0)
    return _operator(size) | {
        "subspace": (3 * kept + 6 * block) * vector * REAL,
        "functions on the product grid": block * (size.C + 2 * size.P) * size.n * size.n * REAL,
        POOL: int(outgrown * vector) * REAL,
    }


def dense(size: Size, unknowns: int) -> dict[str, int]:
    """Return bytes of the dense route: H and its copy in LAPACK, or H and the integrals of a block while it is made."""
    block = 5 * size.M**4 * REAL
    matrix = unknowns * unknowns * REAL
    return _operator(size) | {
        "H, S and the eigenvectors": matrix + max(matrix - block, 0),
        "repulsion integrals": min(block, max(block, matrix)),
    }


def relaxation(size: Size, elements: int, order: int) -> dict[str, int]:
    """Return bytes of the states on the finer grid, beside the states of the run; nothing where there is too much work."""
    n = finer_size(elements, order)
    work = 8.0 * size.P * float(n) ** 3
    if size.roots * work > STEP_WORK:
        return {}
    steps = 0 if 12.0 * size.roots * work > WORK else STEPS
    fine = Size(n, n, size.P, size.C, size.multipoles, size.roots, size.ls)
    made = sum(_operator(fine).values()) + 4 * n * n * REAL
    # V, H V and their copies while they grow, for the start and after every step, and the
    # residuals.
    vectors = size.roots * (3 * (1 + steps) + 4) * size.P * n * n * REAL
    fields = size.roots * (2 if size.roots > 1 else 1) * (size.C + 2 * size.P) * n * n * REAL
    return _operator(size) | {
        "subspace": size.roots * size.P * size.M**2 * REAL,
        "finer grid": made + vectors + fields,
    }


def integrals(deck: SturmianDeck, values: parameters.Values, n: int, largest: int) -> dict[str, int]:
    """Return bytes of the integrals: of both routes while they are compared, or of one with its packed pairs; and errors."""
    task = deck.task
    assert task.type == "integrals"
    item = COMPLEX if task.dtype == "complex" else REAL
    N = sorted({largest} if task.N is None else set(task.N))
    most, before = N[-1], N[-2] if len(N) > 1 else 0
    routes = (
        len(task.routes)
        if isinstance(task.points, int)
        else len(task.routes) * max(len(as_list(task.points)), 1)
    )
    whole = most**4
    compared = 3 * whole * item + (whole * REAL if item == COMPLEX else 0)
    alone = whole * item + (most * (most + 1) // 2) ** 2 * item
    return {
        "integrals": (compared if routes > 1 else alone) + before**4 * item,
        "pair densities": 2 * most * most * n * item,
        "repulsion kernel": 3 * n * n * REAL,
        "finer grid": EIGENVECTORS * finer(deck, values) ** 2 * REAL,
    }


def finer(deck: SturmianDeck, values: parameters.Values) -> int:
    """Return the size of the finer grid in its larger box, on which functions are made again for their errors."""
    bounds = parameters.bounds_of(Radial.of(deck), values)
    elements = bounds.size - 1
    if deck.grid.ecs is None and values.energy is not None and values.energy < 0.0:
        width = float(bounds[-1] - bounds[-2])
        elements += math.ceil(BEYOND / (math.sqrt(-2.0 * values.energy) * width))
    return finer_size(elements, values.order)


def basis(deck: SturmianDeck, values: parameters.Values, ls: Sequence[int]) -> dict[str, int]:
    """Return bytes of the functions alone: functions of all l, and matrices of the finer grid in its larger box."""
    item = COMPLEX if deck.grid.ecs is not None else REAL
    n, fine = parameters.grid_size(Radial.of(deck), values), finer(deck, values)
    functions = sum(2 * n * values.size(l, n) for l in ls)
    return {
        "one-electron matrices": (functions + n * n) * item,
        "finer grid": EIGENVECTORS * fine * fine * item,
    }


def largest(stages: Iterable[dict[str, int]]) -> tuple[dict[str, int], int]:
    """Return the stage that needs most, and the bytes that the memory pool of a GPU takes beyond it."""
    every = list(stages)
    own = [{key: size for key, size in parts.items() if key != POOL} for parts in every]
    most = max(own, key=lambda parts: sum(parts.values()), default={})
    on_gpu = max((sum(parts.values()) for parts in every), default=0)
    return most, max(on_gpu - sum(most.values()), 0)


def as_memory(parts: dict[str, int], reduce: str, *, kernels: bool = True, on_gpu: int = 0) -> Memory:
    """Return the estimate of a run; what is on the host whatever the device are the one-electron matrices."""
    host = parts.get("one-electron matrices", 0)
    return Memory(
        host=host,
        device=sum(parts.values()) - host,
        parts=parts,
        reduce=reduce,
        on_gpu=on_gpu,
        kernels=kernels,
        # eigenvalues of small and dense matrices
        library="cusolver" if kernels else "",
    )
