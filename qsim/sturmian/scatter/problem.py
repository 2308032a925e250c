"""A collision: its columns, scans, initial state and kinematics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.deck.symmetry import pairs as pairs_up_to
from qsim.sturmian.driven.automatic import numbers_of
from qsim.sturmian.driven.krylov import RESTART
from qsim.sturmian.driven.operator import BATCH
from qsim.sturmian.driven.problem import Problem
from qsim.sturmian.driven.recycled import TOGETHER
from qsim.sturmian.scatter.cross_sections import kinematics
from qsim.sturmian.scatter.initial import Recorded, require_same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.deck.collision_symmetry import Sector
    from qsim.sturmian.driven.setup import Bound, Setup
    from qsim.sturmian.scatter.cross_sections.kinematics import Kinematics

SPINS = ("singlet", "triplet")
# Energies from which those of electrons start from each other, and most of them in one job.
MANY, CHUNK = 24, 128


@dataclass
class Collision(Problem):
    """A collision, settled.

    Attributes
    ----------
    recorded : Recorded or None
        State of another deck that the initial state has to be.
    """

    recorded: Recorded | None = None

    @property
    def wants(self) -> Sequence[str]:
        """Requested observables."""
        return self.task.observables

    @property
    def krylov(self) -> str:
        """Name of the iterative solver."""
        return self.settings.solver.krylov

    @property
    def angles(self) -> NDArray[np.float64]:
        """Angles of fdcs, degrees."""
        return np.linspace(-180.0, 180.0, self.task.angles)

    @property
    def labels(self) -> list[str]:
        """Gauges, spins or the one name of a run's columns."""
        if self.process == "photo":
            return list(dict.fromkeys(self.task.gauges))
        return list(dict.fromkeys(self.label(sector.S) for sector in self.sectors))

    def labels_of(self, sector: Sector) -> list[str]:
        """Return the columns that a sector contributes to: all gauges, or its spin."""
        return self.labels if self.process == "photo" else [self.label(sector.S)]

    def label(self, S: int) -> str:
        """Return the name of a spin."""
        return SPINS[S] if self.process == "e_h" else "born"

    @property
    def scan(self) -> dict[str, list[float]]:
        """Keys and values of the convergence scans, without the scan of energies."""
        return self.settings.scan

    def changed(self, key: str, value: float) -> Collision:
        """Return the problem with another R, order, angle, length, N or l_max."""
        if key == "l_max":
            channels = self.settings.channels.model_copy(update={"l_max": int(value)})
            return replace(self, settings=replace(self.settings, channels=channels))
        if key in ("R", "order"):
            kind = float if key == "R" else int
            settings = replace(self.settings, grid=self.settings.grid.model_copy(update={key: kind(value)}))
            return replace(self, settings=settings, numbers=numbers_of(settings)[0])
        if key == "angle":
            return replace(self, numbers=replace(self.numbers, angle=float(value)))
        if key == "length":
            return replace(self, numbers=replace(self.numbers, length=float(value)))
        return replace(self, numbers=replace(self.numbers, sizes=(int(value),)))

    def initial(
        self, setup: Setup, poll: Callable[[], None], tolerance: float, *, other: bool = False
    ) -> Bound:
        """Return the bound state that the collision begins with, on the grid of a setup.

        Parameters
        ----------
        setup : Setup
        poll : callable
            Called after every step.
        tolerance : float
            Largest residual, hartree.
        other : bool
            With other pairs as in `other_pairs`.
        """
        block = self.settings.initial
        l_max = block.l_max if block.l_max is not None else max(self.l_max, block.L)
        # One partial wave less in the initial state, too; one more where L itself needs the
        # last one.
        if other:
            l_max = l_max - 1 if l_max > block.L else l_max + 1
        pairs = pairs_up_to(block.L, l_max, S=block.S)
        state = setup.bound(block.L, block.S, block.root, pairs, max(tolerance, 1e-12), poll)
        if self.recorded is not None:
            require_same(self.recorded, state, setup.grid)
        return state

    def energies(self) -> list[float]:
        """Return the energies of the deck, hartree: of the impact, the excess, or of both electrons."""
        return list(self.settings.energies)

    def kinematics(self, setup: Setup, initial: Bound | None) -> list[Kinematics]:
        """Return the kinematics of every energy."""
        task = self.task
        if self.process == "e_h":
            level, _ = setup.target()
            return [kinematics.electron(energy, level) for energy in self.energies()]
        assert initial is not None
        if self.process == "photo":
            return [kinematics.photon(excess, initial.energy) for excess in self.energies()]
        assert task.incident is not None
        assert task.q is not None
        # A momentum transfer depends on the energy of the initial state, which the deck does
        # not know.
        try:
            return [kinematics.fast(task.incident, task.q, E, initial.energy) for E in self.energies()]
        except ValueError as error:
            raise NumericsError(f"task.q: {error}", hint="another task.q or task.incident") from error

    def ejected(self, kin: Kinematics) -> tuple[float, float] | None:
        """Return the energies of the two electrons of fdcs, hartree; None if it is not requested."""
        if "fdcs" not in self.wants:
            return None
        if self.task.ejected is None:
            return 0.5 * kin.E, 0.5 * kin.E
        first, second = self.task.ejected
        return first, second

    def group(self, point: int) -> int:
        """Return the number of the set of functions of an energy: all energies share one, or each has its own."""
        return 0 if self.numbers.whole or self.numbers.energy is not None else point

    def many(self, count: int) -> bool:
        """Tell whether so many energies of one set of functions start from each other."""
        iterates = self.settings.solver.type == "matrix_free"
        return count > MANY and self.process == "e_h" and self.numbers.whole and iterates

    def together(self, pairs: int, points: int) -> int:
        """Return how many equations of some pairs on a radial grid of so many points are iterated together."""
        return min(TOGETHER, max(1, int(BATCH / (RESTART * 16.0 * pairs * points**2))))

    def batches(self, pairs: int, *, coarser: bool = False) -> list[tuple[int, ...]]:
        """Return the energies of every job, by number: those that share functions and fit into memory.

        More than `MANY` of them are not solved together, but one after the other from what the first ones span.
        """
        numbers = self.numbers.coarser(float(self.settings.system.Z)) if coarser else self.numbers
        # 16 bytes per complex number; RESTART directions of each right-hand side must fit into
        # BATCH bytes.
        vector = 16.0 * pairs * numbers.points(float(self.settings.system.Z)) ** 2
        most = max(1, int(BATCH / (RESTART * vector)))
        count = len(self.settings.energies)
        out: list[tuple[int, ...]] = []
        for group in dict.fromkeys(self.group(i) for i in range(count)):
            own = [i for i in range(count) if self.group(i) == group]
            # few enough that a stop loses little
            size = CHUNK if self.many(len(own)) else most
            out += [tuple(own[start : start + size]) for start in range(0, len(own), size)]
        return out
