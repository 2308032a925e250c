"""Total spin of states: S from ``S^2 = sum_j S_j (S_j + 1) + 2 sum_(j<k) S_j . S_k`` among all states of a level."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.measurement.spaces import operator_in, products_of_spins, squares_in
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.model.larger import SpinModel
from qsim.trotter.sectors.digits.conserved import isotropic
from qsim.trotter.sectors.lanczos import dot, turn_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.measurement.spaces import Space

# ||(S^2 - S (S + 1)) psi|| beyond which psi is not a state of one S; the smallest distance of two values of S (S + 1) is 2
CERTAIN = 0.02


@singledispatch
def conserved(model: Model) -> bool:
    """Return True if H conserves the total spin: equal couplings along x, y and z, and along z one field for all sites."""
    equal = np.array_equal(model.J[0], model.J[2]) and np.array_equal(model.J[0], model.J[1])
    even = not model.h[:2].any() and np.ptp(model.h[2]) == 0.0
    return model.cross is None and equal and bool(even)


conserved.register(SpinModel)(isotropic)


def spin_of(square: float) -> float:
    """Return the whole or half S next to a value of ``<S^2> = S (S + 1)``."""
    return 0.5 * (round(math.sqrt(max(0.0, 1.0 + 4.0 * square))) - 1)


class TotalSpin:
    """The total spin of states of a sector.

    Parameters
    ----------
    device : Device
    sector : Space
        ``S^2`` acts in it, also with characters of permutations, all of which leave it as it is.
    """

    def __init__(self, device: Device, sector: Space) -> None:
        self.device = device
        self.constant = float(squares_in(sector).sum())
        self.operator = operator_in(sector, device, products_of_spins(sector))

    def of(self, vectors: list[Any], *, turned: bool = False) -> tuple[NDArray[np.float64], bool]:
        """Return S of states of one energy, ascending, and whether they are known: the states are those of whole multiplets.

        Parameters
        ----------
        vectors : list of (D,)
            Orthonormal.
        turned : bool
            Whether the vectors are replaced by states of these S, in place.
        """
        size, real = len(vectors), vectors[0].dtype.kind != "c"
        rows, norms = np.empty((size, size), float if real else complex), np.empty(size)
        for k, vector in enumerate(vectors):
            made = self._squared(vector)
            norms[k] = dot(made, made).real
            products = [dot(other, made) for other in vectors]
            rows[:, k] = [product.real for product in products] if real else products
        values, turn = np.linalg.eigh(0.5 * (rows + rows.conj().T))
        if turned and size > 1:
            turn_vectors(self.device, vectors, turn)
        squares = values + self.constant
        spins = np.array([spin_of(square) for square in squares])
        off = float(np.abs(squares - spins * (spins + 1.0)).max())
        # S^2 psi leaves the span of the states where one of the level is missing, or where H does not tell levels apart
        left = math.sqrt(max(0.0, float(norms.sum() - (np.abs(rows) ** 2).sum())))
        return spins, off + left < CERTAIN

    def _squared(self, vector: NDArray[Any]) -> NDArray[Any]:
        """Return ``(S^2 - sum_j S_j (S_j + 1)) psi``, a vector of the sector."""
        with self.device.use():
            out = self.device.xp.empty_like(vector)
            self.operator.apply(vector, out)
            return out
