"""What all costs of final columns X (D, S) have: ``dJ = 2 Re sum conj(dJ/dX*) dX``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray as Columns


class Cost(ABC):
    """A real function of the final columns."""

    @abstractmethod
    def value(self, x: Columns) -> float:
        """Return J."""

    @abstractmethod
    def derivative(self, x: Columns) -> Columns:
        """Return dJ/dX* (D, S)."""

    def values(self, stack: Columns) -> NDArray[np.float64]:
        """Return J (n,) of columns (n, D, S)."""
        return np.array([self.value(x) for x in stack])

    @property
    def free(self) -> int:
        """Number k of phases that do not count."""
        return 0

    def phases(self, x: Columns) -> NDArray[np.float64]:
        """Return the best phases (k,) of final columns."""
        return np.zeros(0)

    def at(self, phases: NDArray[np.float64]) -> Cost:
        """Return the cost with given phases: a quadratic form; itself where none are free."""
        return self

    def frozen(self, x: Columns) -> Cost:
        """Return the cost with the phases that are best for columns."""
        return self.at(self.phases(x))
