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

from qsim.trotter.sectors.lanczos import chain, ritz
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.spectrum.run import structure_factor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.trotter.observables.requested import Asked
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.operator import SectorOperator

__all__ = ["MOST_NUMBERS", "Correlators"]

TOGETHER = 16  # vectors of the recurrence that are added to those of all temperatures at once
MOST_NUMBERS = (
    1 << 27
)  # of vectors of temperatures that are kept at once; with more the recurrence runs again


def _coefficients(
    made: chain, T: NDArray[np.float64], steps: int, low: float | None = None
) -> NDArray[np.float64]:
    """Return the coefficients (T, steps) of phi in the basis of the first steps of a recurrence, energies from `low`."""
    values, Y = ritz(made.alpha[:steps], made.beta[:steps])
    low = float(values[0]) if low is None else low
    return np.asarray((Y * np.exp(-(values - low) / (2.0 * T[:, None]))[:, None, :]) @ Y[0], np.float64)


@dataclass(frozen=True)
class Correlators:
    """The pairs whose correlators are averaged.

    Attributes
    ----------
    asked : Asked
    spins : int
    """

    asked: Asked
    spins: int

    @cached_property
    def factors(self) -> list[str]:
        """Axes of the structure factors."""
        given = self.asked.block("structure_factor")
        if given is None:
            return []
        return [given] if isinstance(given, str) else list(given)

    @cached_property
    def along(self) -> list[tuple[int, int]]:
        """Pairs of ``<S^z S^z>`` that are needed."""
        return self._needed("zz")

    @cached_property
    def across(self) -> list[tuple[int, int]]:
        """Pairs of ``<S^x S^x>`` that are needed."""
        return self._needed("xx", "yy")

    def _needed(self, *axes: str) -> list[tuple[int, int]]:
        found = {pair for name in axes for pair in self.asked.pairs.get(name, ())}
        if set(axes) & set(self.factors):
            found |= {(j, k) for j in range(self.spins) for k in range(j + 1, self.spins)}
        return sorted(found)

    @property
    def count(self) -> int:
        """Numbers that are averaged."""
        return len(self.along) + len(self.across)

    # ------------------------------------------------------------------------------- sums of a sector

    def exact(
        self, sector: Sector, values: NDArray[np.float64], vectors: NDArray[Any], T: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return ``sum_n exp(-(E_n - E_0) / T) <n| A |n>`` of all eigenstates (columns), (T, count)."""
        boltzmann = np.exp(-(values - values[0]) / T[:, None])
        strings = sector.strings()
        spin = 0.5 - (strings[:, None] >> np.arange(self.spins) & 1)
        weight = (np.abs(vectors) ** 2) @ boltzmann.T  # (D, T)
        found = [(spin[:, j] * spin[:, k]) @ weight for j, k in self.along]
        for j, k in self.across:
            differ = np.flatnonzero((strings >> j ^ strings >> k) & 1)
            other = sector.index(strings[differ] ^ (1 << j | 1 << k))
            overlap = np.einsum("sn,sn->n", vectors[differ].conj(), vectors[other]).real
            found.append(0.25 * (boltzmann @ overlap))
        return np.array(found).reshape(self.count, T.size).T

    @staticmethod
    def change(made: chain, T: NDArray[np.float64], counts: Sequence[int]) -> NDArray[np.float64]:
        """Return how far ``D |phi|^2`` may be off (T,), if the recurrence had ended after one of some smaller numbers of steps.

        An operator A has ``|<phi|A|phi> - <phi'|A|phi'>|`` of at most ``|A| |phi - phi'| (|phi| + |phi'|)``.
        """
        low = float(ritz(made.alpha, made.beta)[0][0])
        whole = _coefficients(made, T, len(made.alpha), low)
        found = np.zeros(T.size)
        for count in counts:
            fewer = np.zeros_like(whole)
            fewer[:, :count] = _coefficients(made, T, count, low)
            sizes = np.linalg.norm(whole, axis=1) + np.linalg.norm(fewer, axis=1)
            found = np.maximum(found, np.linalg.norm(whole - fewer, axis=1) * sizes)
        return found * made.linear.size

    def sampled(
        self,
        operator: SectorOperator,
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
        step = max(1, MOST_NUMBERS // start.size)
        parts = [
            self._of_temperatures(operator, start, c[k : k + step], scale, poll)
            for k in range(0, T.size, step)
        ]
        return float(start.size) * np.concatenate(parts)

    def _of_temperatures(
        self,
        operator: SectorOperator,
        start: NDArray[Any],
        c: NDArray[np.float64],
        scale: float,
        poll: Callable[[], None],
    ) -> NDArray[np.float64]:
        """Return ``<phi| A |phi>`` for coefficients c (temperatures, steps) of phi in the basis of the recurrence."""
        device, xp = operator.device, operator.device.xp
        steps = c.shape[1]
        with device.use():
            phi = xp.zeros((len(c), start.size), start.dtype)
            together = max(1, min(TOGETHER, steps, MOST_NUMBERS // start.size))
            block = xp.empty((together, start.size), start.dtype)
            again = chain(device, operator, start.copy())
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

    def _observed(self, operator: SectorOperator, vector: NDArray[Any]) -> NDArray[np.float64]:
        moments = sector_moments(operator, vector, self.across)
        return np.array(
            [moments.ss["z"][pair] for pair in self.along] + [moments.ss["x"][pair] for pair in self.across]
        )

    # ----------------------------------------------------------------------------------- what is given

    def named(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of the results file from means (T, count): correlators (T, pairs) and structure factors (T, N)."""
        place = {("z", *pair): number for number, pair in enumerate(self.along)}
        place |= {("x", *pair): len(self.along) + number for number, pair in enumerate(self.across)}
        found = {}
        for axes, pairs in self.asked.pairs.items():
            kind = "z" if axes == "zz" else "x"
            found[f"correlator_{axes}_T"] = means[:, [place[kind, j, k] for j, k in pairs]]
        for axes in self.factors:
            kind, rows = "z" if axes == "zz" else "x", []
            for row in means:
                ss = 0.25 * np.eye(self.spins)
                for j in range(self.spins):
                    for k in range(j + 1, self.spins):
                        ss[j, k] = ss[k, j] = row[place[kind, j, k]]
                rows.append(structure_factor(ss))
            found[f"structure_factor_{axes}_T"] = np.array(rows)
        return found
