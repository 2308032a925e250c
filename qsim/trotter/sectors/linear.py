"""What all Hamiltonians have in common as they act on the vectors of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = ["SpaceOperator"]


class SpaceOperator:
    """H on the vectors of a space.

    Parameters
    ----------
    device : Device
    sector : space
    model : Model

    Attributes
    ----------
    products : int
        Products so far.
    """

    # whether a product needs a vector as work space
    needs_work = False

    def __init__(self, device: Device, sector: Any, model: Any) -> None:
        self.device, self.sector, self.model = device, sector, model
        self.products = 0

    @property
    def size(self) -> int:
        """Length of a vector."""
        return int(self.sector.dimension)

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of vectors that are enough for the levels: real where H is."""
        return np.dtype(np.float64 if self.is_real else np.complex128)

    def apply(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out``.

        Parameters
        ----------
        psi : (D,)
        out : (D,), in/out
            Another array; with ``gamma = 0`` it is not read.
        work : (D,), optional
            Work space, where `needs_work` asks for it.
        """
        self.products += 1
        self.product(psi, out, (float(alpha), float(beta), float(gamma)), work)

    def product(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        factors: tuple[float, float, float],
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute what `apply` does, without counting."""
        raise NotImplementedError
