"""Memory of a run, array by array: what the search holds at its peak, and then the analysis of the final field.

One trajectory is the state of one pair of levels of one ensemble member after every step, in K levels or on L points.  The
search holds trajectories and rows of derivatives (one number per step); the analysis one trajectory and the populations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from qsim.core.device.device import Memory
from qsim.qoc.deck.model import CrankNicolsonPropagator

if TYPE_CHECKING:
    from qsim.qoc.deck.model import QocDeck

REAL = 8
# Real arrays with one number per step besides trajectories: field, guess, shape, times, bounds, gradients, spectrum.
ARRAYS = 15
# The same, besides, of the grid propagator.
GRID_ARRAYS = 8
# Real numbers per step and amplitude of Gauss-Newton: derivatives, their pull-back, scaled rows.
GAUSS_NEWTON_COPIES = 14
# Share of these rows that a run on a GPU does not hold on the host; measured (H100).
GAUSS_NEWTON_SPARED = 0.7
# Trajectories that the sequential method copies to the host of a GPU; measured (H100).
TRAVOLTA_HOST = 3.4
# Times that the memory pool of a GPU holds the trajectories at its peak, under the methods that copy them.
COPIES = 3
# Bytes up to which all members are counted together; more of them go in portions.
MEMBERS_TOGETHER = 8 << 30
# Bytes of a trajectory that the analysis on the grid keeps: SEGMENT_BYTES of the propagators.
SEGMENT = 64_000_000
# Bytes above which `memory: auto` recovers states by time reversal.
TRAJECTORY_LIMIT = 2e9


class Sizes(NamedTuple):
    """Sizes of a run: levels K, steps N, modes of the band, ensemble members."""

    levels: int
    steps: int
    modes: int
    members: int


@dataclass(frozen=True)
class _Trajectory:
    """Bytes of one trajectory, and of what is kept of it.

    Attributes
    ----------
    whole : int
        All steps.
    kept : int
        What the gradient keeps: all steps, or one state where time reversal recovers them.
    seen : int
        What the analysis keeps: all steps, or a segment of them on the grid.
    """

    whole: int
    kept: int
    seen: int

    @classmethod
    def of(cls, deck: QocDeck, sizes: Sizes) -> _Trajectory:
        """Return the sizes of a deck's trajectory."""
        item = _complex_bytes(deck)
        if not _on_grid(deck):
            whole = sizes.steps * sizes.levels * item
            return cls(whole, whole, whole)
        state = deck.system.grid.points * item
        whole = sizes.steps * state
        return cls(whole, whole if stores(deck, whole) else state, min(whole, SEGMENT))


@dataclass(frozen=True)
class _Search:
    """Bytes that an optimiser holds at its peak.

    Attributes
    ----------
    trajectories, rows : int
        Trajectories, and rows of derivatives.
    copies : int
        Times that a GPU holds the trajectories.
    more_on_host : float
        What a run on a GPU holds on the host beyond a run on the CPU; negative if it is less.
    """

    trajectories: int
    rows: int
    copies: int = 1
    more_on_host: float = 0.0

    @classmethod
    def of(cls, deck: QocDeck, sizes: Sizes, one: int) -> _Search:
        """Return what the optimiser of a deck holds, with `one` byte count per trajectory."""
        kind, count = deck.optimizer.type, sizes.members * len(deck.system.state_pairs())
        if kind == "none":
            return cls(0, 0)
        if kind == "krotov":
            # its update needs no row: each value of the field follows from costate and state at that step
            return cls(one * count, 0)
        if kind == "gauss_newton":
            # one row for each amplitude outside of the target
            rows = (sizes.levels - 1) * count * sizes.steps * REAL * GAUSS_NEWTON_COPIES
            return cls(one * count, rows, COPIES, -GAUSS_NEWTON_SPARED * rows)
        # one complex row per trajectory; more members than fit go in portions, at least one trajectory at a time
        row = sizes.steps * _complex_bytes(deck)
        trajectories = max(one, min(one * count, MEMBERS_TOGETHER))
        rows = min(row * count, max(row, MEMBERS_TOGETHER))
        if kind == "travolta":
            return cls(trajectories, rows, COPIES, TRAVOLTA_HOST * trajectories)
        return cls(trajectories, rows)


def memory(deck: QocDeck, sizes: Sizes) -> Memory:
    """Estimate the memory of a run: the larger of what the optimiser holds and of what the analysis holds, per step."""
    grid = _on_grid(deck)
    one = _Trajectory.of(deck, sizes)
    search = _Search.of(deck, sizes, one.kept)
    populations = sizes.steps * sizes.levels * REAL
    fields = (ARRAYS + GRID_ARRAYS * grid + sizes.modes) * sizes.steps * REAL
    system = 3 * sizes.levels * deck.system.grid.points * REAL
    analysis = one.seen + populations
    # the analysis begins when the search has freed its arrays: what it needs beyond them counts
    beyond = max(0, analysis - search.trajectories - search.rows)
    # a GPU keeps the trajectory of the analysis, on the grid two segments where states are recovered by time reversal
    segments = 2 if grid and one.kept < one.whole else 1
    on_gpu = max(segments * one.seen, search.copies * search.trajectories) - search.trajectories
    # in the eigenbasis it is the GPU, not the host, that holds it
    spared = 0 if grid else min(one.seen, beyond)
    return Memory(
        host=system + fields + search.rows + beyond,
        device=search.trajectories + system,
        parts={
            "trajectory": search.trajectories,
            "populations": analysis,
            "eigenstates": 2 * system,
            "costate derivatives": search.rows,
            "arrays of one number per step": fields,
        },
        reduce=_reduce(deck),
        on_gpu=on_gpu,
        on_gpu_host=int(search.more_on_host - spared),
        library="" if deck.optimizer.type in ("none", "gauss_newton") else "cublas",
    )


def stores(deck: QocDeck, trajectory: int) -> bool:
    """Return True if the grid propagator keeps trajectories of this size (bytes) for the gradient."""
    assert isinstance(deck.propagator, CrankNicolsonPropagator)
    choice = deck.propagator.memory
    if deck.optimizer.type == "gauss_newton":
        # all costates go back along one stored trajectory
        return choice != "reverse"
    return choice == "store" or (choice == "auto" and trajectory <= TRAJECTORY_LIMIT)


def _on_grid(deck: QocDeck) -> bool:
    return isinstance(deck.propagator, CrankNicolsonPropagator)


def _complex_bytes(deck: QocDeck) -> int:
    """Return the bytes of a complex number in the precision of the run."""
    return 8 if deck.run.precision == "single" else 16


def _reduce(deck: QocDeck) -> str:
    """Return the keys to lower when memory does not suffice."""
    if deck.optimizer.type == "gauss_newton" and deck.ensemble is not None:
        return "ensemble"
    return "time.steps, or set propagator.memory to reverse" if _on_grid(deck) else "time.steps"
