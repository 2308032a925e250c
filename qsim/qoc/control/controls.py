"""Several controls side by side: one parametrisation each, their parameters in one vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.control.parametrisation import Parametrisation

__all__ = ["Controls", "constant_mode", "spline_modes"]


@dataclass(frozen=True)
class Controls:
    """Map from the free parameters of all controls to their values (C, N).

    Attributes
    ----------
    maps : list of Parametrisation
        Of each control.
    fixed : list of (N,) float64 or None
        Values of a control that is not optimised.
    """

    maps: list[Parametrisation]
    fixed: list[NDArray[np.float64] | None]

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower bounds (C, N)."""
        return np.array([m.low for m in self.maps])

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper bounds (C, N)."""
        return np.array([m.high for m in self.maps])

    @property
    def sizes(self) -> list[int]:
        """Number of free parameters of each control."""
        return [m.size if f is None else 0 for m, f in zip(self.maps, self.fixed, strict=True)]

    def _parts(self, u: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        return np.split(u, np.cumsum(self.sizes)[:-1])

    def box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return bounds on all parameters, infinite where there are none; None if there are none at all."""
        boxes = [m.box() for m in self.maps]
        if all(box is None for box in boxes):
            return None
        sides: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
        for box, size in zip(boxes, self.sizes, strict=True):
            if size == 0:
                continue
            for side, free, end in zip(sides, (-np.inf, np.inf), box or (None, None), strict=True):
                side.append(np.full(size, free) if end is None else end)
        return np.concatenate(sides[0]), np.concatenate(sides[1])

    def field(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values (C, N) of the parameters."""
        rows = zip(self.maps, self.fixed, self._parts(u), strict=True)
        return np.array([m.field(part) if given is None else given for m, given, part in rows])

    def pull_back(self, u: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient (size,) with respect to the parameters from the one (C, N) by the values."""
        rows = zip(self.maps, self.fixed, self._parts(u), gradient, strict=True)
        return np.concatenate([m.pull_back(part, row) for m, given, part, row in rows if given is None])

    def parameters(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the parameters (size,) whose values come closest to (C, N)."""
        rows = zip(self.maps, self.fixed, field, strict=True)
        return np.concatenate([m.parameters(row) for m, given, row in rows if given is None] or [np.zeros(0)])


def spline_modes(count: int, slots: int) -> NDArray[np.float64]:
    """Return an orthonormal basis (count, N) of the cubic splines on `count - 3` equal intervals, at the middles of slots."""
    from scipy.interpolate import BSpline

    inner = np.linspace(0.0, 1.0, count - 2)
    knots = np.concatenate([np.zeros(3), inner, np.ones(3)])
    middles = (np.arange(slots) + 0.5) / slots
    design = BSpline.design_matrix(middles, knots, 3).toarray()
    return np.ascontiguousarray(np.linalg.qr(design)[0].T)


def constant_mode(slots: int) -> NDArray[np.float64]:
    """Return the only mode (1, N) of a constant control."""
    return np.full((1, slots), slots**-0.5)
