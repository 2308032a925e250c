"""Total spin of states: S from ``S^2`` among all states of a level.

``S^2 = sum_j S_j (S_j + 1) + 2 sum_(j<k) S_j . S_k`` has as many terms as pairs of sites; with characters of permutations and
one Sz it is ``S^- S^+ + m (m + 1)``, two products of as many terms as sites.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.sectors.images import Images
from qsim.trotter.kernels.sectors.terms import Terms, orbit_rows
from qsim.trotter.measurement.spaces import operator_in, products_of_spins, squares_in
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.model.larger import SpinModel
from qsim.trotter.sectors.digits.conserved import isotropic
from qsim.trotter.sectors.digits.measure import component
from qsim.trotter.sectors.digits.product import on_place, terms_of
from qsim.trotter.sectors.lanczos import dot, turn_vectors
from qsim.trotter.sectors.symmetric import SymmetricSector

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device
    from qsim.trotter.measurement.spaces import Space

__all__ = ["TotalSpin", "conserved", "spin_of"]

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
        self.squared = squared_in(sector, device)
        self.links = getattr(sector, "links", None)

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
            norms[k] = dot(made, made, self.links).real
            products = [dot(other, made, self.links) for other in vectors]
            rows[:, k] = [product.real for product in products] if real else products
        values, turn = np.linalg.eigh(0.5 * (rows + rows.conj().T))
        if turned and size > 1:
            turn_vectors(self.device, vectors, turn)
        spins = np.array([spin_of(square) for square in values])
        off = float(np.abs(values - spins * (spins + 1.0)).max())
        # S^2 psi leaves the span of the states where one of the level is missing, or where H does not tell levels apart
        left = math.sqrt(max(0.0, float(norms.sum() - (np.abs(rows) ** 2).sum())))
        return spins, off + left < CERTAIN

    def _squared(self, vector: Array) -> Array:
        """Return ``S^2 psi``, a vector of the sector."""
        with self.device.use():
            out = self.device.xp.empty_like(vector)
            self.squared(vector, out)
            return out


@singledispatch
def squared_in(space: Space, device: Device) -> Callable[[Array, Array], None]:
    """Return a function of psi and out, both (D,), that computes ``out = S^2 psi``."""
    operator, constant = operator_in(space, device, products_of_spins(space)), float(squares_in(space).sum())
    return lambda psi, out: operator.apply(psi, out, beta=constant)


@squared_in.register(SymmetricSector)
def _(space: SymmetricSector, device: Device) -> Callable[[Array, Array], None]:
    if space.down < 0:
        # strings of every Sz
        return squared_in.dispatch(object)(space, device)
    return _Ladder(device, space)


class _Ladder:
    """``S^2 psi = S^- S^+ psi + m (m + 1) psi`` with m = Sz, the other way round where Sz < 0.

    Parameters
    ----------
    device : Device
    sector : SymmetricSector
        Of one Sz.
    """

    def __init__(self, device: Device, sector: SymmetricSector) -> None:
        self.device, self.sector, self.outer = device, sector, sector.outer
        self.steps: list[tuple[Terms, Images]] = []
        if self.outer is not None:
            up = 1.0j if sector.sz >= 0.0 else -1.0j
            self.steps = [self._step(sector, self.outer, up), self._step(self.outer, sector, -up)]

    def _step(self, source: SymmetricSector, target: SymmetricSector, of_y: complex) -> tuple[Terms, Images]:
        """Return the terms of ``sum_j (S^x_j + of_y S^y_j)``, and the group of the source.

        The factors between the two groups, one the inverse of the other, are left out of both steps.
        """
        rows, columns = target.base.digits, source.base.digits
        operator = component(rows.twos, np.outer([1.0, of_y, 0.0], np.ones(len(rows.twos))))
        place = self.device.asarray
        terms = Terms(*on_place(place, terms_of(operator, rows, columns)))
        return terms, Images(*on_place(place, source.group))

    def __call__(self, psi: Array, out: Array) -> None:
        """Compute ``out = S^2 psi``."""
        m = abs(self.sector.sz)
        out[...] = m * (m + 1.0) * psi
        # S^+ annihilates states of the largest Sz
        if self.outer is None or not self.outer.dimension:
            return
        device = self.device
        inner, outer = self.sector.orbits(device), self.outer.orbits(device)
        between = device.xp.empty(self.outer.dimension, psi.dtype)
        (up, group), (down, larger) = self.steps
        orbit_rows(device, up, inner, group, psi, between, (1.0, 0.0, 0.0), outer)
        orbit_rows(device, down, outer, larger, between, out, (1.0, 0.0, 1.0), inner)
