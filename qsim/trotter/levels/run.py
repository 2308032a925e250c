"""All levels of one sector, and their statistics, for every realisation of the disorder."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.core.run.stops.aside import aside, here
from qsim.trotter.deck.tasks import LEAST_LEVELS
from qsim.trotter.levels.result import LevelsResult
from qsim.trotter.measurement.spaces import plain, schmidt_in, strings_of_deck
from qsim.trotter.measurement.total_spin import TotalSpin
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.linear import matrix_of
from qsim.trotter.sectors.lowest import grouped
from qsim.trotter.sectors.parity import parity_obstacle
from qsim.trotter.sectors.selection import mixing
from qsim.trotter.sectors.symmetric import broken, reflected, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.levels.problem import LevelsProblem
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.model.hamiltonian import Model

# of the size of the spectrum: spacings below are degeneracies
SAME = 1e-12


class Computation:
    """The spectra of all realisations; complete ones are kept in a checkpoint."""

    def __init__(self, problem: LevelsProblem, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        shape = (problem.models.disorder, sum(sector.dimension for sector in problem.sectors))
        names = {"participation": "participation", "entropy": "entropies", "total_spin": "spins"}
        requested = [name for key, name in names.items() if key in problem.block.statistics]
        # of each level its sector, beside what the deck asks for
        self.kept = {name: np.full(shape, math.nan) for name in ("levels", "sectors", *requested)}
        self.done = 0
        if restored is not None:
            self.done = int(restored["done"])
            self.kept = {name: np.array(values) for name, values in restored["kept"].items()}

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"done": self.done, "kept": dict(self.kept)}

    def advance(self, report: Report) -> None:
        """Diagonalise the realisations that are left."""
        # a realisation is the unit of a checkpoint
        for member in range(self.done, self.problem.models.disorder):
            model = self.problem.of_realisation(member)
            made = [
                self._diagonalised(number, model, lambda: report(Progress()))
                for number in range(len(self.problem.sectors))
            ]
            # the levels of all sectors together, ascending; stable, so that equal ones keep the order of the sectors
            order = np.argsort(np.concatenate([one["levels"] for one in made]), kind="stable")
            for name, values in self.kept.items():
                values[member] = np.concatenate([one[name] for one in made])[order]
            self.done = member + 1
            report(Progress(self.done))

    def _diagonalised(
        self, number: int, model: Model, look: Callable[[], None]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the levels of a sector, and the numbers of each state that are asked for."""
        problem, device = self.problem, self.problem.place
        sector = problem.sectors[number]
        matrix = matrix_of(problem.operator(sector, model), look)
        xp, made = device.xp, {"sectors": np.full(sector.dimension, float(number))}
        # on a GPU in this thread, whose device is chosen
        call = aside if device.kind == "cpu" else here
        with device.use():
            # levels alone take a third of the time of levels with states
            if len(self.kept) == len(made) + 1:
                return made | {
                    "levels": np.asarray(device.to_host(call(partial(xp.linalg.eigvalsh, matrix), look)))
                }
            values, vectors = call(partial(xp.linalg.eigh, matrix), look)
            made["levels"] = np.asarray(device.to_host(values))
            if "participation" in self.kept or "entropies" in self.kept:
                made |= self._states(sector, device.to_host(vectors), look)
            if "spins" in self.kept:
                made["spins"] = self._spins(sector, made["levels"], vectors, scale_of(model))
        return made

    def _states(
        self, sector: Space, vectors: NDArray[Any], look: Callable[[], None]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the participation entropies and the entropies of half of the chain of eigenstates (columns)."""
        device, axis = self.problem.place, self.problem.frame.axis
        made: dict[str, NDArray[np.float64]] = {
            name: np.empty(sector.dimension) for name in ("participation", "entropies") if name in self.kept
        }
        half = range(sector.spins // 2)
        # state by state: unfolded vectors of all of them would not fit into memory
        for k in range(sector.dimension):
            space, vector = plain(sector, device.asarray(np.ascontiguousarray(vectors[:, k])))
            if "entropies" in made:
                made["entropies"][k] = schmidt_in(space, device, vector, half).entropy
            if "participation" in made:
                # of the strings along z of the deck, whatever the axis of the sector is
                if axis != "z":
                    vector = strings_of_deck(space, device, vector, axis)
                p = np.abs(device.to_host(vector)) ** 2
                # participation entropy -sum p ln p; 0 ln 0 = 0
                made["participation"][k] = -(p * np.log(np.where(p > 0.0, p, 1.0))).sum()
            look()
        return made

    def _spins(
        self, sector: Space, energies: NDArray[np.float64], vectors: Array, scale: float
    ) -> NDArray[np.float64]:
        """Return the total spins of all states; levels that rounding does not tell apart are one."""
        device, spins = self.problem.place, np.full(sector.dimension, math.nan)
        total, xp = TotalSpin(device, sector), device.xp
        for group in grouped(energies, SAME * scale):
            states = [
                xp.ascontiguousarray(vectors[:, k]).astype(total.operator.dtype, copy=False)
                for k in range(group.start, group.stop)
            ]
            found, known = total.of(states)
            spins[group] = found if known else math.nan
        return spins


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


def left_over(model: Model, sector: Space) -> str:
    """Return a symmetry that the sector leaves unresolved, ``""`` if none of the usual ones is there."""
    n, momentum = model.spins, getattr(sector, "momentum", None)
    # without a definite Sz the parity, and with it or at Sz = 0 the product of all S^x, may be open
    if (
        sector.sz != sector.sz
        and sector.dimension == model.dimension
        and not parity_obstacle(model)
        and n > 1
    ):
        return "the parity of the number of spins down (give sector.parity)"
    if not sector.inversion:
        if sector.sz == 0.0 and not mixing(model, 1):
            return "the inversion of all spins (give sector.inversion)"
        if sector.sz != sector.sz and not parity_obstacle(model, 0) and n > 1:
            return "the parity along another axis"
    # reflections and shifts are tried on H itself; the reflection leads to another momentum
    turns = momentum is not None and any(2 * symmetry.phase % 1 for symmetry in sector.symmetries)
    if not getattr(sector, "reflection", 0) and not turns and not broken(model, reflected(n)):
        return "the reflection of the chain (give sector.reflection)"
    if momentum is None and not broken(model, shifted(n)):
        return "translations (give sector.momentum)"
    return ""


def run(problem: LevelsProblem, monitor: Monitor) -> LevelsResult:
    """Diagonalise all realisations and return their level statistics."""
    sectors, model = problem.sectors, problem.model
    for sector in sectors:
        monitor.note(f"sector {sector}: {sector.dimension} of {problem.model.dimension} states")
    windows = [problem.block.within(sector.dimension) for sector in sectors]
    # each sector has ratios of its own
    inside = [window.stop - window.start for window in windows]
    enough = min(inside) >= LEAST_LEVELS
    symmetry = monitor.judged("the symmetries that are left over", lambda: left_over(model, sectors[0]), "")
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
            f"{min(inside)} levels in the window of {min(s.dimension for s in sectors)} are too few for a gap ratio; it is left "
            "out"
        )
    else:
        # spacings that are rounding of a degenerate level
        least = SAME * scale_of(model)
        owners = made.kept["sectors"]
        ratios_of = monitor.judged(
            "gap_ratio",
            lambda: [
                np.concatenate(
                    [gap_ratios(row[owner == k][window], least) for k, window in enumerate(windows)]
                )
                for row, owner in zip(levels, owners, strict=True)
            ],
            [],
        )
        if ratios_of:
            of = members * sum(count - 2 for count in inside)
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
        made.kept["sectors"].astype(np.int64),
    )
