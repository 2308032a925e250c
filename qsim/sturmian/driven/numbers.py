"""Contour, grid and functions of the driven equations as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.radial.grid import element_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Ratio of neighbouring elements of the contour.
TAIL_GROWTH = 1.2


@dataclass(frozen=True)
class Numbers:
    """Grid and basis of a run as numbers.

    Attributes
    ----------
    R : float
        Where the contour begins, bohr.
    order : int
        Points of an element.
    angle, length : float
        Of the contour, radian and bohr.
    elements : int or tuple of float, optional
        Number of elements or their bounds.
    sizes : tuple of int
        Sturmian functions of l = 0, 1, ...; empty for the whole grid.
    r0, tail : float
        Edge of the square well and its tail, bohr.
    energy : float, optional
        Energy of the functions; None: the total energy of the collision.
    """

    R: float
    order: int
    angle: float = 0.3
    length: float = 25.0
    elements: int | tuple[float, ...] | None = None
    sizes: tuple[int, ...] = ()
    r0: float | None = None
    tail: float = 4.0
    energy: float | None = None

    @property
    def whole(self) -> bool:
        """True if the basis is the whole grid."""
        return not self.sizes

    def coarser(self, Z: float) -> Numbers:
        """Return a cheaper set of numbers whose results differ by about what box, grid, angle and functions still do.

        The elements are the same without the last ones, so that with one point less in each the grid is coarser everywhere.
        """
        # Fractions of the box that remain. Sturmian functions are fewer in a smaller box, which
        # changes results by itself: less is taken away.
        share = 0.85 if self.whole else 0.92
        real = self._real_bounds(Z)
        last = max(1, int(np.argmin(np.abs(real[:-1] - share * self.R)))) if real.size > 2 else 1
        R = float(real[last])
        return replace(
            self,
            R=R,
            order=max(6, self.order - 1),
            angle=0.8 * self.angle,
            elements=tuple(float(bound) for bound in real[: last + 1]),
            r0=None if self.r0 is None else min(self.r0, R),
            sizes=tuple(max(10, round(0.8 * R / self.R * size)) for size in self.sizes),
        )

    def _real_bounds(self, Z: float) -> NDArray[np.float64]:
        elements = list(self.elements) if isinstance(self.elements, tuple) else self.elements
        breaks = [self.r0] if self.r0 is not None and self.r0 < self.R else []
        return element_bounds(self.R, Z, elements=elements, breaks=breaks)

    def bounds(self, Z: float) -> NDArray[np.complex128]:
        """Return the bounds of all elements, bohr."""
        real = self._real_bounds(Z)
        # The tail starts with the width of the last real element, so that the resolution does
        # not jump at the corner, and is scaled to end at the wanted length.
        widths = [float(real[-1] - real[-2])]
        while sum(widths) < self.length * (1.0 - 1e-9):
            # waves have decayed by then
            widths.append(TAIL_GROWTH * widths[-1])
        tail = np.cumsum(widths) * (self.length / sum(widths))
        return np.concatenate((real.astype(complex), real[-1] + tail * np.exp(1j * self.angle)))

    def reflection(self, k: float, charge: float) -> float:
        """Return the relative amplitude of a wave that comes back from the end of the contour, ``exp(-2 K l sin(angle))``.

        K is the wave number at the end of a contour of length l, ``K^2 = k^2 + 2 (charge - 1) / (R + l)`` outside of one bound
        electron.  There the functions are zero, which reflects whatever is left of an outgoing wave.  Two solutions with contours
        of nearly the same length may agree by accident in what returns to them, so that their difference does not tell it.

        Parameters
        ----------
        k : float
            Wave number far outside, 1/bohr.
        charge : float
            Of nucleus or core.
        """
        pull = 2.0 * max(charge - 1.0, 0.0) / (self.R + self.length)
        return math.exp(-2.0 * math.sqrt(k * k + pull) * self.length * math.sin(self.angle))

    def points(self, Z: float) -> int:
        """Return the number of functions of the radial grid."""
        return (self.bounds(Z).size - 1) * (self.order - 1) - 1
