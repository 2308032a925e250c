r"""Means and error bars of large arrays, such as a density on a mesh, without keeping every block.

A block hands over sums :math:`H_b` (an array) and its weight :math:`W_b`.  The mean is :math:`m = \sum H_b/\sum
W_b`, its error from the residuals :math:`y_b = H_b - m W_b`, whose squares follow from running sums of
:math:`H^2`, :math:`HW` and :math:`W^2`.  The same sums are kept for pairs of blocks, pairs of pairs, and so on
(Flyvbjerg and Petersen, see :mod:`qsim.qmc.statistics.blocking`).  A single entry is too noisy to find its plateau; the
correlation is taken from all entries together: its time is the largest :math:`\sum\epsilon_k^2/\sum\epsilon_0^2` of the
levels with enough blocks, or :math:`(1+\rho)/(1-\rho)` with the correlation :math:`\rho` of neighbours, that of level 1 less one.
Errors have Student's factor (:mod:`qsim.qmc.statistics.correlation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.statistics import student
from qsim.qmc.statistics import MINIMUM_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["BlockMeans", "BlockSums"]

SMALLEST_LEVEL = 8  # blocks of a level that says how neighbours correlate
LARGEST_CORRELATION = 0.95  # of neighbours, which few blocks can tell from 1
SUMS = ("H", "HH", "HW")


class BlockSums:
    """Running sums over blocks, on levels of 1, 2, 4, ... blocks.

    Parameters
    ----------
    shape
        Shape of the arrays.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._levels: list[dict[str, Any]] = []

    @property
    def blocks(self) -> int:
        """Number of blocks so far."""
        return int(self._levels[0]["n"]) if self._levels else 0

    def add(self, sums: NDArray[np.float64], weight: float) -> None:
        """Add a block: sums of the shape, and its weight, which must be positive."""
        if sums.shape != self.shape or not weight > 0:
            raise ValueError(
                f"a block of shape {sums.shape} and weight {weight}; expected {self.shape}, positive"
            )
        h, w, k = sums, float(weight), 0
        while True:
            if k == len(self._levels):
                zeros = {name: np.zeros(self.shape) for name in SUMS}
                empty = np.zeros(self.shape)
                self._levels.append({"n": 0, "W": 0.0, "WW": 0.0, **zeros, "held": empty, "held_weight": 0.0})
            level = self._levels[k]
            level["n"] += 1
            level["W"] += w
            level["WW"] += w * w
            level["H"] += h
            level["HH"] += h * h
            level["HW"] += h * w
            if level["n"] % 2:
                level["held"], level["held_weight"] = h.copy(), w
                return
            h, w, k = level["held"] + h, level["held_weight"] + w, k + 1

    def mean(self) -> NDArray[np.float64]:
        """Return the weighted mean; NaN without blocks."""
        if not self._levels:
            return np.full(self.shape, np.nan)
        return np.asarray(self._levels[0]["H"] / self._levels[0]["W"])

    def error(self) -> NDArray[np.float64]:
        """Return the errors of the mean; NaN below `MINIMUM_BLOCKS` blocks."""
        if self.blocks < MINIMUM_BLOCKS:
            return np.full(self.shape, np.nan)
        mean = self.mean()
        squares = [self._squared(level, mean) for level in self._levels if level["n"] >= SMALLEST_LEVEL]
        sums = [float(np.sum(square)) for square in squares]
        if not sums[0] > 0.0:
            return np.asarray(np.sqrt(squares[0]))
        time = self._time([one / sums[0] for one in sums])
        n = self.blocks
        factor = student(n / (2.0 * time)) ** 2 * time * (1.0 + 2.0 * time / n)
        return np.asarray(np.sqrt(squares[0] * factor))

    def _time(self, ratios: list[float]) -> float:
        """Return the correlation time, in blocks, from squared errors by level over those of level 0."""
        trusted = [
            one for one, level in zip(ratios, self._levels, strict=False) if level["n"] >= MINIMUM_BLOCKS
        ]
        neighbours = min(max(ratios[1] - 1.0, 0.0), LARGEST_CORRELATION) if len(ratios) > 1 else 0.0
        return max(*trusted, 1.0, (1.0 + neighbours) / (1.0 - neighbours))

    @staticmethod
    def _squared(level: Mapping[str, Any], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        n = level["n"]
        spread = level["HH"] - 2.0 * mean * level["HW"] + mean * mean * level["WW"]
        return np.asarray(np.maximum(spread, 0.0) * (n / (n - 1.0) / level["W"] ** 2))

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything as arrays, for a checkpoint."""
        names = ("n", "W", "WW", "held_weight", *SUMS, "held")
        tails = [() if name in names[:4] else self.shape for name in names]
        return {
            name: np.array([level[name] for level in self._levels], np.float64).reshape(-1, *tail)
            for name, tail in zip(names, tails, strict=True)
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`; an empty one starts anew."""
        if not state:
            self._levels = []
            return
        arrays = {name: np.asarray(values, np.float64) for name, values in state.items()}
        self._levels = []
        for k in range(arrays["n"].shape[0]):
            level: dict[str, Any] = {name: arrays[name][k].copy() for name in (*SUMS, "held")}
            level |= {name: float(arrays[name][k]) for name in ("W", "WW", "held_weight")}
            self._levels.append({**level, "n": int(arrays["n"][k])})


class BlockMeans:
    """Means of all blocks, for functions of several of them."""

    def __init__(self) -> None:
        self.rows: NDArray[np.float64] = np.zeros((0, 0))
        self.weights: NDArray[np.float64] = np.zeros(0)

    def add(self, sums: NDArray[Any], weight: float) -> None:
        """Add the sums of a block whose samples have this weight."""
        row = np.asarray(sums, np.float64)[None] / weight
        self.rows = np.concatenate([self.rows, row]) if len(self.rows) else row
        self.weights = np.append(self.weights, weight)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything, for a checkpoint."""
        return {"rows": self.rows, "weights": self.weights}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`."""
        if "rows" in state:
            self.rows, self.weights = (np.array(state[name], np.float64) for name in ("rows", "weights"))
