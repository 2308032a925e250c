"""Correlators against temperature: sums over all states of a sector, exact or from random vectors.

With a random unit vector r, ``phi = exp(-H / 2 T) r`` has ``D <phi| A |phi> = Tr exp(-H / T) A`` in the mean (Sugiura and Shimizu
2012); it becomes the lowest state of the sector at T = 0, so that errors vanish there, too.  In the basis of the recurrence
``phi = sum_k c_k v_k`` with ``c(T) = Y exp(-theta / 2 T) Y^T e_0``; a second run of the recurrence adds up the vectors of all
temperatures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.measurement.spaces import columns_in, moments_in, pairs_in, unlike_in
from qsim.trotter.observables.base import View, all_pairs
from qsim.trotter.sectors.lanczos import chain, ritz

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.observables.base import Pair
    from qsim.trotter.sectors.linear import SpaceOperator
    from qsim.trotter.thermal.problem import ThermalProblem

# vectors of the recurrence that are added to the vectors of all temperatures at once
TOGETHER = 16
# of vectors of temperatures that are kept at once; with more the recurrence runs again
MOST_NUMBERS = 1 << 27


def _coefficients(
    made: chain, T: NDArray[np.float64], steps: int, low: float | None = None
) -> NDArray[np.float64]:
    """Return the coefficients (T, steps) of phi in the basis of the first steps of a recurrence, energies from `low`."""
    values, Y = ritz(made.alpha[:steps], made.beta[:steps])
    low = float(values[0]) if low is None else low
    # phi = exp(-(H - low) / 2T) r in the basis of the recurrence: Y exp(-(values - low) / 2T) Y^T e_1
    return np.asarray((Y * np.exp(-(values - low) / (2.0 * T[:, None]))[:, None, :]) @ Y[0], np.float64)


@dataclass(frozen=True)
class Correlators:
    """The pairs whose correlators are averaged.

    Attributes
    ----------
    problem : ThermalProblem
    """

    problem: ThermalProblem

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.problem.spins

    @cached_property
    def keys(self) -> list[tuple[str, int, int]]:
        """Axis of the strings and sites of each pair that is averaged, those along z first."""
        pairs = self.problem.observables.needs.pairs
        keys = {(self.kind(axis), *pair) for axis, some in pairs.items() for pair in some}
        # (S^a)^2 of a larger spin is no number
        if not self.problem.halves:
            alike = {key[0] for key in keys if len(key[0]) == 1}
            keys |= {(axis, j, j) for axis in alike for j in range(self.spins)}
        return sorted(keys, key=lambda key: (len(key[0]), key[0] != "z", *key))

    @cached_property
    def like(self) -> list[tuple[str, int, int]]:
        """Keys of equal components."""
        return [key for key in self.keys if len(key[0]) == 1]

    @cached_property
    def unlike(self) -> list[tuple[str, int, int]]:
        """Keys of unlike components, which are the last ones."""
        return [key for key in self.keys if len(key[0]) == 2]

    def kind(self, axis: str) -> str:
        """Return the axis of the strings whose pairs serve an axis of the deck; x and y are equal in a sector of Sz."""
        place = self.problem.frame.places(axis)[0]
        return "x" if self.problem.charged and place == "y" else place

    @cached_property
    def place(self) -> dict[tuple[str, int, int], int]:
        """Place of each pair among the numbers that are averaged, by its axis."""
        return {key: number for number, key in enumerate(self.keys)}

    @property
    def count(self) -> int:
        """Numbers that are averaged."""
        return len(self.keys)

    # ------------------------------------------------------------------------------- sums of a sector

    def exact(
        self,
        sector: Space,
        values: NDArray[np.float64],
        vectors: NDArray[Any],
        T: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return ``sum_n exp(-(E_n - E_0) / T) <n| A |n>`` of all eigenstates (columns), (T, count)."""
        # energies from the lowest of the sector, against overflow; the caller puts the factor back
        boltzmann = np.exp(-(values - values[0]) / T[:, None])
        space, vectors = columns_in(sector, vectors)
        device = self.problem.place
        rows = pairs_in(space, device, vectors, boltzmann, self.like)
        if self.unlike:
            means = [unlike_in(space, device, device.asarray(v), self.unlike) for v in vectors.T.copy()]
            rows.extend((boltzmann @ np.array(means)).T)
        return np.array(rows).reshape(self.count, T.size).T

    @staticmethod
    def change(made: chain, T: NDArray[np.float64], counts: Sequence[int]) -> NDArray[np.float64]:
        """Return the largest change of ``D |phi|^2``, (T,), had the recurrence ended after a smaller number of steps.

        An operator A has ``|<phi|A|phi> - <phi'|A|phi'>|`` of at most ``|A| |phi - phi'| (|phi| + |phi'|)``.
        """
        # one common zero of energy: the shorter recurrences have higher lowest values
        low = float(ritz(made.alpha, made.beta)[0][0])
        whole = _coefficients(made, T, len(made.alpha), low)
        largest = np.zeros(T.size)
        for count in counts:
            fewer = np.zeros_like(whole)
            fewer[:, :count] = _coefficients(made, T, count, low)
            sizes = np.linalg.norm(whole, axis=1) + np.linalg.norm(fewer, axis=1)
            largest = np.maximum(largest, np.linalg.norm(whole - fewer, axis=1) * sizes)
        return largest * made.linear.size

    def sampled(
        self,
        operator: SpaceOperator,
        start: NDArray[Any],
        made: chain,
        T: NDArray[np.float64],
        scale: float,
        poll: Callable[[], None],
    ) -> NDArray[np.float64]:
        """Return ``D <phi| A |phi>`` of one random vector, with energies from its lowest Ritz value, (T, count).

        Parameters
        ----------
        start : (D,)
            The random vector, which is kept.
        made : chain
            The recurrence from it, done.
        scale : float
            Size of the spectrum, as in the first run.
        """
        c = _coefficients(made, T, len(made.alpha))
        # vectors of all temperatures at once, if they fit; else the recurrence runs again for each part
        step = max(1, MOST_NUMBERS // start.size)
        parts = [
            self._of_temperatures(operator, start, made, c[k : k + step], scale, poll)
            for k in range(0, T.size, step)
        ]
        return float(start.size) * np.concatenate(parts)

    def _of_temperatures(
        self,
        operator: SpaceOperator,
        start: NDArray[Any],
        made: chain,
        c: NDArray[np.float64],
        scale: float,
        poll: Callable[[], None],
    ) -> NDArray[np.float64]:
        """Return ``<phi| A |phi>`` for coefficients c (temperatures, steps) of phi in the basis of the recurrence."""
        device, xp = operator.device, operator.device.xp
        steps = c.shape[1]
        with device.use():
            # vectors of the recurrence are made anew, and added to every temperature
            phi = xp.zeros((len(c), start.size), start.dtype)
            # several together: a matrix product instead of a vector after the other
            together = max(1, min(TOGETHER, steps, MOST_NUMBERS // start.size))
            block = xp.empty((together, start.size), start.dtype)
            again = chain(device, operator, start.copy(), script=made.script)
            for k in range(steps):
                row = k % together
                block[row] = again.vector
                if row == together - 1 or k == steps - 1:
                    factors = device.asarray(np.ascontiguousarray(c[:, k - row : k + 1]))
                    phi += factors @ block[: row + 1]
                if k < steps - 1:
                    again.step(scale)
                    poll()
            return np.array([self._observed(operator, vector) for vector in phi])

    def _observed(self, operator: SpaceOperator, vector: NDArray[Any]) -> NDArray[np.float64]:
        across = [(j, k) for axis, j, k in self.like if axis != "z"]
        moments = moments_in(operator.sector, operator.device, vector, across)
        means = [moments.ss[axis][j, k] for axis, j, k in self.like]
        return np.array([*means, *unlike_in(operator.sector, operator.device, vector, self.unlike)])

    # -------------------------------------------------------------------------------------------- results

    def named(self, means: FloatArray) -> dict[str, FloatArray]:
        """Return the arrays of the results file from means (T, count): correlators (T, pairs) and structure factors (T, N)."""
        views = [Temperature(self, row) for row in means]
        arrays: dict[str, FloatArray] = {}
        for observable in self.problem.observables:
            rows = [observable.values(view) for view in views]
            arrays |= {f"{name}_T": np.array([row[name] for row in rows]) for name in rows[0]}
        return arrays


class Temperature(View):
    """Means at one temperature as observables see them.

    Parameters
    ----------
    correlators : Correlators
    means : (count,) float64
    """

    def __init__(self, correlators: Correlators, means: FloatArray) -> None:
        self.source, self.means = correlators, means

    def correlators(self, axis: str, pairs: Sequence[Pair]) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of pairs."""
        kind, place = self.source.kind(axis), self.source.place
        sign = self.source.problem.frame.places(axis)[1] if len(axis) == 2 else 1.0
        return sign * self.means[[place[kind, j, k] for j, k in pairs]]

    def correlator_matrix(self, axis: str) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of all sites."""
        ss, pairs = 0.25 * np.eye(self.source.spins), all_pairs(self.source.spins)
        if not self.source.problem.halves:
            np.fill_diagonal(ss, self.correlators(axis, [(j, j) for j in range(self.source.spins)]))
        if pairs:
            j, k = np.array(pairs).T
            ss[j, k] = ss[k, j] = self.correlators(axis, pairs)
        return ss
