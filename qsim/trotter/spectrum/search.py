"""The lowest level of H in all sectors of a task: its states, and the levels above it.

Without a sector in the deck these are the levels of H, each as often as H has it: a sector of Sz > 0 stands for -Sz too
(without fields), and Sz = 0 or 1/2 for all members of the multiplets of an isotropic H, whose spin S is read from the
states, ``S^2 = 3N/4 + 2 sum_(j<k) S_j . S_k``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.trotter.measurement.total_spin import TotalSpin
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.lanczos import diagonal_among, judged
from qsim.trotter.sectors.lowest import COARSE, RESOLUTION, grouped, lowest_levels, same

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.problem import TaskProblem
    from qsim.trotter.sectors.linear import SpaceOperator
    from qsim.trotter.sectors.lowest import LowLevels

MOST_LISTED = 200


class Member(NamedTuple):
    """A state of the lowest level.

    Attributes
    ----------
    sector : int
        Number of its sector.
    vector : (D,)
    states : int
        How many states of H it stands for.
    """

    sector: int
    vector: Any
    states: int


class LowestLevels:
    """Levels of the sectors visited so far.

    Parameters
    ----------
    problem : TaskProblem
    count : int
        Levels of each sector, at least.
    tolerance : float
        Largest residual.
    passing : bool
        Whether each sector is searched until it has passed the lowest level of all.
    highest : bool
        The highest levels instead.
    spins : bool
        Whether the total spin of every level is found, of an H that conserves it.
    restored : optional
        State of a checkpoint.

    Attributes
    ----------
    entries : list of (energy, claim, error, states, spin)
        All levels found; how many states of H each stands for, and their total spin, not a number where it is not known.
    ends : list of float
        Energy (times the sign) up to which each sector is known.
    members : list of Member
        States of the lowest level.
    known : bool
        Whether they are all of it.
    """

    def __init__(
        self,
        problem: TaskProblem[Any],
        count: int,
        tolerance: float,
        *,
        passing: bool = True,
        highest: bool = False,
        spins: bool = False,
        restored: Mapping[str, Any] | None = None,
    ) -> None:
        self.problem, self.count, self.tolerance = problem, count, tolerance
        self.passing, self.highest, self.sign = passing, highest, -1.0 if highest else 1.0
        self.scale, self.spins = scale_of(problem.model), spins
        self.entries: list[tuple[float, float, float, int, float]] = []
        self.ends: list[float] = []
        self.members: list[Member] = []
        # energy, claim and error
        self.lowest: tuple[float, float, float] | None = None
        # largest sum of claims of two states that these do not tell apart
        self.within = RESOLUTION * self.scale
        self.known = passing
        if restored is not None:
            self.entries = [
                (float(e), float(r), float(d), int(n), float(s)) for e, r, d, n, s in restored["entries"]
            ]
            self.ends, self.known = [float(end) for end in restored["ends"]], bool(restored["known"])
            if restored["lowest"] is not None:
                self.lowest = (*map(float, restored["lowest"]),)  # type: ignore[assignment]
            self.members = [
                Member(int(number), problem.place.asarray(vector), int(states))
                for number, vector, states in restored["members"]
            ]

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "entries": [list(entry) for entry in self.entries],
            "ends": list(self.ends),
            "lowest": None if self.lowest is None else list(self.lowest),
            "members": [list(member) for member in self.members],
            "known": self.known,
        }

    @property
    def order(self) -> list[int]:
        """Numbers of the sectors as they are visited, the largest first: the lowest level is soon known."""
        sectors = self.problem.sectors
        return sorted(range(len(sectors)), key=lambda number: -sectors[number].dimension)

    def visit(
        self, number: int, poll: Callable[[], None] | None = None
    ) -> tuple[LowLevels, NDArray[np.float64]]:
        """Find the levels of a sector and add them; return them and their total spins."""
        problem = self.problem
        sector = problem.sectors[number]
        # lowest: a sector is searched beyond `count` until
        # it has passed the lowest level so far (`passing`)
        linear = problem.operator(sector, problem.model)
        levels = lowest_levels(
            linear,
            self.count,
            self.tolerance,
            self.scale,
            lowest=None if self.lowest is None else self.lowest[0],
            passing=self.passing,
            highest=self.highest,
            poll=poll,
        )
        # each level counts as many states of H as its sector stands for: -Sz, and multiplets
        states, spins = self._states(sector, levels, linear)
        self.entries += zip(
            levels.energies.tolist(),
            levels.claims.tolist(),
            levels.errors.tolist(),
            states,
            spins.tolist(),
            strict=True,
        )
        # beyond the last level of a sector nothing is known; the list of all levels ends at the lowest of these
        self.ends.append(math.inf if levels.every else self.sign * float(levels.energies[-1]))
        self._add(number, levels, states)
        return levels, spins

    def _add(self, number: int, levels: LowLevels, states: list[int]) -> None:
        """Take the states of a sector that belong to the lowest level."""
        # levels are the same if their errors overlap; if they may or may not be (None), the degeneracy is not known
        rows = list(
            zip(levels.energies.tolist(), levels.claims.tolist(), levels.errors.tolist(), strict=True)
        )
        first = rows[0]
        equal = self._lowest_too(first)
        # a lower level than all before: its states replace the members
        if self.lowest is None or (equal is False and self.sign * first[0] < self.sign * self.lowest[0]):
            self.lowest, self.members, self.known, equal = first, [], self.passing, True
        # a sector whose first level lies higher has no state of the lowest one
        if equal is False:
            return
        self.known = self.known and levels.known and equal is not None
        # further levels of the sector that are the same within errors
        for k, vector in enumerate(levels.vectors):
            one = self._lowest_too(rows[k])
            self.known = self.known and one is not None
            if one is False:
                break
            self.members.append(Member(number, vector, states[k]))

    @property
    def degeneracy(self) -> int | None:
        """States of H at the lowest level; None where they are not all known."""
        return sum(member.states for member in self.members) if self.known else None

    @property
    def listed(self) -> NDArray[np.float64]:
        """Energies, bounds of their errors and total spins (n, 3) of all levels, the lowest first, each as often as it occurs.

        They end where a sector may have a level that was not found, or after `MOST_LISTED`.  Levels that their errors do not
        separate from the last one are listed with it: rounding does not choose among equal ones.
        """
        # the sector that is known least far ends the list
        end = min(self.ends)
        last = max((entry[1] for entry in self.entries if self.sign * entry[0] == end), default=0.0)
        rows = [entry for entry in self.entries if self.sign * entry[0] <= end + entry[1] + last]
        rows.sort(key=lambda entry: self.sign * entry[0])
        most = max(MOST_LISTED, self.count * len(self.problem.sectors))
        return np.array([(*entry[:2], entry[4]) for entry in rows for _ in range(entry[3])])[:most]

    @property
    def splitting(self) -> float:
        """Largest distance of the states of the lowest level, of which rounding is a part."""
        if self.lowest is None:
            return 0.0
        return float(np.ptp([e[0] for e in self.entries if self._lowest_too(e[:3]) is not False]))

    def _lowest_too(self, level: tuple[float, float, float]) -> bool | None:
        """Return True if a level (energy, claim, error) is the lowest one, False if not, None if errors are too large to tell.

        Two levels that the bounds of their errors, or the tolerance, do not separate are one: their distance is no gap.
        """
        if self.lowest is None:
            return None
        one = same((level[0], level[2]), (self.lowest[0], self.lowest[2]), self.scale)
        within = max(level[1] + self.lowest[1], self.tolerance)
        if one is False and abs(level[0] - self.lowest[0]) <= within <= COARSE * self.scale:
            self.within = max(self.within, within)
            return True
        return one

    @property
    def second(self) -> tuple[float, float] | None:
        """Energy and bound of its error of the level above the lowest one; None where it is not known, or where there is none."""
        if not self.known or self.lowest is None:
            return None
        above = [entry for entry in self.entries if self._lowest_too(entry[:3]) is False]
        return min((entry[:2] for entry in above), key=lambda entry: self.sign * entry[0], default=None)

    def _states(
        self, sector: Space, levels: LowLevels, linear: SpaceOperator
    ) -> tuple[list[int], NDArray[np.float64]]:
        """Return the number of states of H for each level of a sector, and its total spin."""
        problem = self.problem
        spins, states = np.full(len(levels.energies), math.nan), [1] * len(levels.energies)
        # levels that errors do not separate are one group, in which S is read from the states
        groups = grouped(levels.energies, levels.errors[:-1] + levels.errors[1:] + RESOLUTION * self.scale)
        # states of one S replace those of a level wherever they stand for multiplets
        turned = problem.multiplets
        total = TotalSpin(problem.place, sector) if self.spins or turned else None
        # of some the members may not be complete; S is then known only if those found are states of one S
        for group in groups:
            whole = group.stop <= levels.whole
            if total is None or not (self.spins or whole):
                continue
            vectors = levels.vectors[group]
            found, known = total.of(vectors, turned=turned and whole)
            if turned and whole and len(vectors) > 1:
                found = self._settle(levels, group, vectors, found, linear)
            levels.vectors[group] = vectors
            if turned and whole:
                states[group] = [round(2.0 * spin + 1.0) for spin in found]
            spins[group] = found if known else math.nan
        if not turned:
            # without multiplets a sector of Sz > 0 stands for -Sz too
            return [2 if problem.mirrored and sector.sz else 1] * spins.size, spins
        return states, spins

    def _settle(
        self,
        levels: LowLevels,
        group: slice,
        vectors: list[Any],
        spins: NDArray[np.float64],
        linear: SpaceOperator,
    ) -> NDArray[np.float64]:
        """Diagonalise H among the states of each S of a group of levels; return S in the new order."""
        device = self.problem.place
        for some in grouped(spins, 0.25):
            states = vectors[some]
            if len(states) > 1:
                diagonal_among(device, linear, states)
                vectors[some] = states
        found = [judged(device, linear, vector) for vector in vectors]
        order = sorted(range(len(found)), key=lambda k: self.sign * found[k][0])
        levels.energies[group] = [found[k][0] for k in order]
        levels.residuals[group] = [found[k][1] for k in order]
        vectors[:] = [vectors[k] for k in order]
        return spins[order]
