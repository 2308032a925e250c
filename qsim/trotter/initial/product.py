"""Products of the states of single spins."""

from collections.abc import Iterator
from math import pi
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.core.deck.units import Angle
from qsim.trotter.initial.base import InitialState

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

AngleField = Annotated[Angle, Field(gt=-1e6, lt=1e6)]
Angles = AngleField | Annotated[list[AngleField], Field(min_length=1)]
Direction = Literal["x", "y", "z", "-x", "-y", "-z"]
# theta, phi in units of pi
DIRECTIONS: dict[Direction, tuple[float, float]] = {
    "x": (0.5, 0.0),
    "-x": (0.5, 1.0),
    "y": (0.5, 0.5),
    "-y": (0.5, 1.5),
    "z": (0.0, 0.0),
    "-z": (1.0, 0.0),
}


class _Product(InitialState):
    """A product of spinors."""

    has_parts = True

    def angles(self, spins: int) -> "tuple[NDArray, NDArray]":
        """Return theta and phi (N,) of every spin, rad."""
        raise NotImplementedError

    def vector(
        self, spins: int, device: "Device", dtype: "DTypeLike", *, seed: int, member: int = 0
    ) -> "Amplitudes":
        """Return the amplitudes (2^N,); parameters as of :meth:`InitialState.vector`."""
        from qsim.trotter.states.products import product_state

        return product_state(*self.angles(spins), device, dtype)

    def part(
        self, spins: int, device: "Device", dtype: "DTypeLike", part: slice, *, seed: int = 0
    ) -> "Amplitudes":
        """Return 2^n neighbouring amplitudes; parameters as of :meth:`InitialState.part`."""
        from qsim.trotter.states.products import part_of_product

        return part_of_product(*self.angles(spins), device, dtype, part)


class ProductState(_Product):
    """``cos(theta/2) |up> + exp(i phi) sin(theta/2) |down>`` on every site."""

    example = {"theta": [0.3, 2.0, 1.0, 0.1, 3.0, 1.5], "phi": 0.4}

    type: Literal["product"]
    theta: Angles = Field(
        default=0.0, description="polar angle of every site, or one for all; 0 is up, pi is down"
    )
    phi: Angles = Field(default=0.0, description="azimuth of every site, or one for all")

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield lists of another length."""
        for name in ("theta", "phi"):
            value = getattr(self, name)
            # One angle serves all sites.
            if isinstance(value, list) and len(value) != spins:
                yield Finding(f"{key}.{name}", f"{len(value)} angles, but system.spins = {spins}")

    def angles(self, spins: int) -> "tuple[NDArray, NDArray]":
        """Return theta and phi (N,) of every spin, rad."""
        import numpy as np

        theta, phi = np.array(self.theta, float), np.array(self.phi, float)
        return np.broadcast_to(theta, (spins,)), np.broadcast_to(phi, (spins,))


class PolarisedState(_Product):
    """All spins along one axis."""

    example = {"axis": "-z"}

    type: Literal["polarised", "polarized"]
    axis: Direction = Field(default="z", description="direction")

    def angles(self, spins: int) -> "tuple[NDArray, NDArray]":
        """Return theta and phi (N,) of every spin, rad."""
        import numpy as np

        theta, phi = DIRECTIONS[self.axis]
        return np.full(spins, pi * theta), np.full(spins, pi * phi)

    def string(self, spins: int) -> int | None:
        """Return the index, None for states that are not along z."""
        # Along z the state is one Ising string: all bits 0, or all 1.
        if self.axis == "z":
            return 0
        return (1 << spins) - 1 if self.axis == "-z" else None
