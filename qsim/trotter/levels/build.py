"""From the deck of ``task: levels`` to its problem, and its memory before that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.deck.load import LoadedDeck
from qsim.core.run.stages import Plan
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.tasks import LEAST_LEVELS
from qsim.trotter.levels.problem import LevelsProblem
from qsim.trotter.sector_plan import plan_in_sectors

if TYPE_CHECKING:
    from qsim.core.device.device import Device

# states of a sector that is diagonalised: 10 GB
MOST_LEVELS = 20_000
# states from which a GPU diagonalises faster than the host's LAPACK, its start included: mbl_ensemble with 924 takes twice as
# long on it, with 3432 less than half
GPU_MATRIX = 2000.0


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return sectors and memory; nothing large is allocated."""
    deck = loaded.deck
    problem = LevelsProblem.of(deck, deck.levels, None)
    return plan_in_sectors(
        deck,
        problem,
        lambda states: memory(problem, states),
        lambda states: _findings(problem, states),
        gpu=GPU_MATRIX,
    )


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> LevelsProblem:
    """Return the problem of a deck."""
    return LevelsProblem.of(loaded.deck, loaded.deck.levels, device)


def _findings(problem: LevelsProblem, states: int) -> Iterator[Finding]:
    """Yield why a sector is too large to diagonalise or too small for the statistics, or H unfit for them."""
    block = problem.block
    if "total_spin" in block.statistics and not problem.spin_conserved:
        yield Finding(
            "levels.statistics",
            "total_spin: H does not conserve the total spin, which takes equal couplings along x, y and z, and along z at most "
            "one field for all sites; leave total_spin out",
        )
    if states > MOST_LEVELS:
        yield Finding(
            "sector",
            f"{states} states are too many to diagonalise, at most {MOST_LEVELS}; take fewer spins, or task: spectrum",
        )
    elif block.lacks(states):
        more = "window: all, or a larger sector" if block.window != "all" else "a larger sector"
        yield Finding(
            "levels.window",
            f"a gap ratio needs {LEAST_LEVELS} levels in the window; found a sector of {states}; use {more}, or leave "
            "gap_ratio out of statistics",
        )


def memory(problem: LevelsProblem, states: int) -> dict[str, int]:
    """Return the bytes of a diagonalisation, by part."""
    # the matrix and its copy in LAPACK; with eigenvectors also two of work space, and those that are returned
    matrices = 2 if problem.block.statistics == ["gap_ratio"] else 5
    # a complex matrix with Dzyaloshinskii-Moriya couplings or momenta
    size = problem.amplitude_bytes
    return {"matrix": matrices * size * states**2, "tables": problem.table_bytes(states)}
