"""A field with two components, of any polarisation: the cycle average of its intensity is that of a linear field of peak E0."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.pulses import CarrierPulse
from qsim.tridiag.tdse.pulses import LaserField

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    from qsim.tridiag.deck.pulses import Pulse

__all__ = ["PlaneField"]


class PlaneField(LaserField):
    """A field in the xy plane of a run: its own numbers are those of the linear field of the same intensity.

    Parameters
    ----------
    pulses
        Of the deck; there may be none.
    ratio : float
        Peak along y over that along x.
    sense : int
        1 where the field turns from x to y, -1 the other way round, 0 for a constant direction.

    Attributes
    ----------
    sense : int
    """

    def __init__(self, pulses: list[Pulse], ratio: float, sense: int) -> None:
        super().__init__(Laser(pulses=pulses) if pulses else None)
        self.sense, late = sense, -0.5 * math.pi * sense
        # both components together have the intensity of the deck: E0^2 is shared out by the ratio
        size = 1.0 / math.hypot(1.0, ratio)
        self._parts = (_component(pulses, size, 0.0), _component(pulses, ratio * size, late))

    @property
    def components(self) -> tuple[LaserField, ...]:
        """Along x and y."""
        return self._parts

    def doubted(self) -> Self | None:
        """Return the field with other curves that the rows of its tables allow; None without such tables."""
        other = super().doubted()
        if other is not None:
            one, two = (part.doubted() or part for part in self.components)
            other._parts = one, two
        return other

    def electric(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return E along x."""
        return self.components[0].electric(t)

    def vector_potential(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return A along x."""
        return self.components[0].vector_potential(t)

    def peak(self, t_final: float) -> float:
        """Return the largest |E(t)|."""
        t = self.samples(t_final)
        return float(np.max(np.hypot(*(one.electric(t) for one in self.components))))

    def peak_vector_potential(self, t_final: float) -> float:
        """Return the largest |A(t)|."""
        t = self.samples(t_final)
        return float(np.max(np.hypot(*(one.vector_potential(t) for one in self.components))))

    def residual(self, t_final: float) -> float:
        """Return |A(t_final)|."""
        return math.hypot(*(one.residual(t_final) for one in self.components))


def _component(given: list[Pulse], size: float, late: float) -> LaserField:
    """Return one component: every pulse with a part of its peak and another phase."""
    if size == 0.0 or not given:
        return LaserField(None)
    pulses: list[Any] = []
    for pulse in given:
        if not isinstance(pulse, CarrierPulse):
            # of a constant direction, the deck has seen to it
            pulses.append(pulse)
            continue
        changed: dict[str, Any] = {}
        if size != 1.0:
            changed = {"E0": pulse.amplitude * size, "intensity": None}
        # a quarter of a cycle before or after x, by the phase of the carrier; the envelope stays
        if late:
            changed["cep"] = pulse.cep + late
        pulses.append(pulse.model_copy(update=changed))
    return LaserField(Laser.model_construct(gauge="length", pulses=pulses))
