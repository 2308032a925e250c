"""All levels of one sector, and their statistics, for every realisation of the disorder."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.aside import aside
from qsim.core.run.loop import Progress, drive
from qsim.trotter.deck.tasks import LEAST_LEVELS
from qsim.trotter.levels.result import LevelsResult
from qsim.trotter.measurement.total_spin import TotalSpin
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.lowest import grouped
from qsim.trotter.sectors.matrix import matrix_of
from qsim.trotter.sectors.schmidt import sector_schmidt
from qsim.trotter.sectors.selection import obstacle
from qsim.trotter.sectors.symmetric import SymmetricSector, broken, reflected, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.levels.problem import LevelsProblem
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.symmetric import AnySector

__all__ = ["gap_ratios", "run", "warn_of_degenerate"]

# of the size of the spectrum: spacings below are degeneracies
SAME = 1e-12


class Computation:
    """The spectra of all realisations; complete ones are kept in a checkpoint."""

    def __init__(self, problem: LevelsProblem, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        size = problem.sectors[0].dimension
        shape = (problem.models.disorder, size)
        requested = problem.block.statistics
        self.kept = {"levels": np.zeros(shape)}
        if "participation" in requested:
            self.kept["participation"] = np.zeros(shape)
        if "entropy" in requested:
            self.kept["entropies"] = np.zeros(shape)
        if "total_spin" in requested:
            self.kept["spins"] = np.full(shape, math.nan)
        self.done = 0
        if restored is not None:
            self.done = int(restored["done"])
            self.kept = {name: np.array(values) for name, values in restored["kept"].items()}

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"done": self.done, "kept": dict(self.kept)}

    def advance(self, report: Report) -> None:
        """Diagonalise the realisations that are left."""
        problem, device = self.problem, self.problem.place
        # a realisation is the unit of a checkpoint
        for member in range(self.done, problem.models.disorder):
            sector, model = problem.sectors[0], problem.of_realisation(member).at(0.0)

            def look() -> None:
                report(Progress())

            matrix = matrix_of(problem.operator(sector, model), look)
            solve = device.xp.linalg
            # on a GPU in this thread, whose device is chosen
            call = aside if device.kind == "cpu" else _here
            with device.use():
                # levels alone take a third of the time of levels with states
                if len(self.kept) == 1:
                    values = call(partial(solve.eigvalsh, matrix), look)
                    self.kept["levels"][member] = device.to_host(values)
                else:
                    values, vectors = call(partial(solve.eigh, matrix), look)
                    self.kept["levels"][member] = device.to_host(values)
                    self._states(member, vectors, look)
                    if "spins" in self.kept:
                        self._spins(member, vectors)
            self.done = member + 1
            report(Progress(self.done))

    def _states(self, member: int, vectors: NDArray[Any], look: Callable[[], None]) -> None:
        device, sector = self.problem.place, self.problem.sectors[0]
        host = device.to_host(vectors)
        if "participation" in self.kept:
            # participation entropy -sum p ln p in the Ising basis; 0 ln 0 = 0
            p = np.abs(self._whole(host)) ** 2
            logs = np.log(np.where(p > 0.0, p, 1.0))
            self.kept["participation"][member] = -(p * logs).sum(axis=0)
        if "entropies" in self.kept:
            half = range(sector.spins // 2)
            base = sector.base if isinstance(sector, SymmetricSector) else sector
            # state by state: unfolded vectors of all of them would not fit into memory
            for k in range(sector.dimension):
                vector = np.ascontiguousarray(self._whole(host[:, [k]])[:, 0])
                schmidt = sector_schmidt(base, device, device.asarray(vector), half)
                self.kept["entropies"][member, k] = schmidt.entropy
                look()

    def _spins(self, member: int, vectors: Array) -> None:
        """Find the total spins of all states; levels that rounding does not tell apart are one."""
        device, sector, energies = self.problem.place, self.problem.sectors[0], self.kept["levels"][member]
        near = SAME * scale_of(self.problem.of_realisation(member).at(0.0))
        total, xp = TotalSpin(device, sector), device.xp
        for group in grouped(energies, near):
            with device.use():
                states = [xp.ascontiguousarray(vectors[:, k]) for k in range(group.start, group.stop)]
            found, known = total.of(states)
            self.kept["spins"][member, group] = found if known else math.nan

    def _whole(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Return vectors (columns) in the Ising basis of a sector of Sz."""
        sector = self.problem.sectors[0]
        if not isinstance(sector, SymmetricSector):
            return vectors
        return np.array([sector.whole(column) for column in vectors.T]).T


def _here(call: Callable[[], Any], look: Callable[[], None]) -> Any:
    return call()


def gap_ratios(levels: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Return ``min(s_n, s_(n+1)) / max(s_n, s_(n+1))`` of neighbouring spacings s, those of degenerate levels left out.

    A spacing below `least` is rounding, and so is a ratio with it.
    """
    # ratios of neighbouring spacings need no unfolding of the spectrum
    spacing = np.diff(levels)
    small, large = np.minimum(spacing[1:], spacing[:-1]), np.maximum(spacing[1:], spacing[:-1])
    return np.asarray(small[small > least] / large[small > least])


def warn_of_degenerate(monitor: Monitor, left: int, of: int, what: str) -> None:
    """Warn of gap ratios that degenerate levels have not."""
    if left < of:
        monitor.warn(
            f"gap_ratio: {of - left} of {of} ratios hold a spacing that is rounding: {what} are degenerate; these ratios are "
            f"left out{'' if left else ', and there is no other'}"
        )


def left_over(model: Model, sector: AnySector, inversion: bool) -> str:
    """Return a symmetry that the sector leaves unresolved, ``""`` if none of the usual ones is there."""
    n = model.spins
    resolved = sector if isinstance(sector, SymmetricSector) else None
    momentum = resolved.momentum if resolved else None
    # reflections and shifts are tried on H itself, the inversion follows from the sector
    if inversion and not model.h[2].any():
        return "the inversion of all spins (give sector.inversion)"
    # the reflection leads to another momentum
    turns = momentum is not None and 2 * momentum % n
    if not (resolved and resolved.reflection) and not turns and not broken(model, reflected(n)):
        return "the reflection of the chain (give sector.reflection)"
    if momentum is None and not broken(model, shifted(n)):
        return "translations (give sector.momentum)"
    return ""


def run(problem: LevelsProblem, monitor: Monitor) -> LevelsResult:
    """Diagonalise all realisations and return their level statistics."""
    sector, model = problem.sectors[0], problem.model
    monitor.note(f"sector {sector}: {sector.dimension} of {2**problem.spins} states")
    # the inversion is a symmetry at Sz = 0 without fields, and unresolved unless the deck names it
    open_inversion = sector.sz == 0.0 and not sector.inversion and not obstacle(problem.hamiltonian, 1)
    inside = problem.block.within(sector.dimension)
    enough = inside.stop - inside.start >= LEAST_LEVELS
    symmetry = monitor.judged(
        "the symmetries that are left over", lambda: left_over(model, sector, open_inversion), ""
    )
    if symmetry and enough:
        monitor.warn(
            f"levels of different symmetry under {symmetry} are mixed: they do not repel each other, and the gap ratio looks "
            "like the Poisson ratio of random levels"
        )
    made = Computation(problem, monitor.restored)
    members = problem.models.disorder
    with monitor.stage("levels"):
        drive(made, monitor, total=members, unit="realisations", what="levels", done=made.done)
    levels = made.kept["levels"]
    ratios_of: list[NDArray[np.float64]] = []
    # where the deck itself asks for the ratio, it was refused
    if not enough:
        monitor.warn(
            f"{inside.stop - inside.start} levels in the window of {levels.shape[1]} are too few for a gap ratio; it is left out"
        )
    else:
        # spacings that are rounding of a degenerate level
        least = SAME * scale_of(model)
        ratios_of = monitor.judged(
            "gap_ratio", lambda: [gap_ratios(row[inside], least) for row in levels], []
        )
        if ratios_of:
            of = members * (inside.stop - inside.start - 2)
            warn_of_degenerate(monitor, sum(row.size for row in ratios_of), of, "levels")
            ratios_of = [row for row in ratios_of if row.size]
    return LevelsResult(
        problem,
        levels,
        np.array([ratios.mean() for ratios in ratios_of]),
        np.concatenate(ratios_of) if ratios_of else None,
        made.kept.get("participation"),
        made.kept.get("entropies"),
        made.kept.get("spins"),
    )
