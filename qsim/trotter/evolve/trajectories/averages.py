"""Means and errors over an ensemble, one trajectory at a time, in numbers that a checkpoint can hold.

The sample whose spread gives the error is a realisation of the disorder, averaged over its random states; where there is one
realisation only, it is a random state.  Trajectories come in a fixed order, so that the sums do not depend on interruptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass
class Averages:
    """Running means by the method of Welford.

    Attributes
    ----------
    group : int
        Trajectories in one sample.
    count : int
        Complete samples.
    mean, m2 : dict of float64 arrays
        Mean of the samples, and sum of squared deviations from it.
    pending : dict of float64 arrays
        Sum over the trajectories of the sample that is not complete yet.
    waiting : int
        Their number.
    """

    group: int = 1
    count: int = 0
    mean: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    m2: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    pending: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    waiting: int = 0

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the arrays of one trajectory; names and shapes are the same for all trajectories."""
        # states of one realisation are summed first; their mean is one sample
        for name, array in arrays.items():
            values = np.asarray(array, dtype=float)
            self.pending[name] = self.pending[name] + values if self.waiting else values
        self.waiting += 1
        if self.waiting < self.group:
            return
        self.count += 1
        for name, total in self.pending.items():
            sample = total / self.waiting
            if self.count == 1:
                self.mean[name], self.m2[name] = sample, np.zeros_like(sample)
                continue
            # Welford's update: no squares of large numbers cancel
            before = sample - self.mean[name]
            self.mean[name] = self.mean[name] + before / self.count
            self.m2[name] = self.m2[name] + before * (sample - self.mean[name])
        self.pending, self.waiting = {}, 0

    def errors(
        self, ranges: Mapping[str, tuple[float, float]] | None = None, *, begins: bool = False
    ) -> dict[str, NDArray[np.float64]]:
        """Return the standard errors of the means; empty for a single sample, whose error nothing tells.

        Parameters
        ----------
        ranges : mapping of name to (a, b), optional
            Where a sample lies between a and b, its error is at least so large that two of them reach as far as those of the
            samples with a and b added twice each: also where the samples have missed a rare event (Agresti and Coull,
            Am. Stat. 52, 119 (1998)).
        begins : bool
            True if the first row of the means is that of t = 0, before which nothing can have happened.
        """
        if self.count < 2:
            return {}
        n = self.count
        # variance of the mean: m2 / (n - 1) / n
        scale = 1.0 / (n * (n - 1.0))
        errors = {name: np.sqrt(np.maximum(m2, 0.0) * scale) for name, m2 in self.m2.items()}
        for name, (a, b) in (ranges or {}).items():
            if name not in errors:
                continue
            mean = self.mean[name]
            wide = (n * mean + 2.0 * (a + b)) / (n + 4.0)
            m2 = self.m2[name] + n * (mean - wide) ** 2 + 2.0 * (a - wide) ** 2 + 2.0 * (b - wide) ** 2
            spread = np.sqrt(m2 / ((n + 3.0) * (n + 4.0)))
            larger = np.maximum(errors[name], spread + 0.5 * np.abs(wide - mean))
            first = int(begins)
            errors[name] = np.concatenate([errors[name][:first], larger[first:]])
        return errors

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "group": self.group,
            "count": self.count,
            "mean": dict(self.mean),
            "m2": dict(self.m2),
            "pending": dict(self.pending),
            "waiting": self.waiting,
        }
