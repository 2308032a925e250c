"""What a Hamiltonian of spins of any size conserves, and its spaces, current and total spin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.model.larger import SpinModel, commuting, exchanged, flipped, half_turn, spin_matrices
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.parity import parity_obstacle
from qsim.trotter.sectors.selection import mixing, space_with
from qsim.trotter.sectors.spin_operators import current_of, reach
from qsim.trotter.sectors.symmetric import broken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# of the largest element of a matrix: a difference that is rounding
SAME = 1e-13


@mixing.register(SpinModel)
def _(model: SpinModel, inversion: int = 0) -> str:
    """Return why H does not conserve Sz (or the inversion of all spins), ``""`` if it does."""
    for term, moved in model.changes():
        if moved.any():
            return f"the term at {term.name} changes the total Sz by {moved.max()}"
    if inversion and (where := model.unlike(flipped)):
        return f"the term at {where} is another one under the inversion of all spins"
    return ""


@parity_obstacle.register(SpinModel)
def _(model: SpinModel, axis: int = 2) -> str:
    """Return why H does not conserve the parity of the quanta along an axis, ``""`` if it does."""
    if where := model.unlike(lambda two: half_turn(two, axis)):
        return f"the term at {where} is another one after half a turn about {'xyz'[axis]}"
    return ""


@space_with.register(SpinModel)
def _(
    model: SpinModel, down: int | None = None, odd: int | None = None, inversion: int = 0, axis: str = "z"
) -> DigitSpace:
    """Return the space with given quanta or parity; signs under the inversion are those of a character."""
    return DigitSpace(model.twos, -1 if down is None else down, -1 if odd is None else odd, axis)


@current_of.register(SpinModel)
def _(model: SpinModel, ring: bool) -> SpinModel:
    """Return the current of Sz: ``i d [B_jk, S^z_k]`` of every bond with ``d = x_k - x_j``."""
    coupled = np.zeros((model.spins, model.spins), np.bool_)
    coupled[tuple(model.pairs().T)] = True
    distance = reach(coupled, ring)
    made: dict[Any, NDArray[np.complex128]] = {}
    for term in model.terms:
        if len(term.sites) == 2:
            j, k = term.sites
            Sz = np.kron(np.eye(model.twos[j] + 1), spin_matrices(model.twos[k])[2])
            made[j, k] = 1j * distance[j, k] * (term.matrix @ Sz - Sz @ term.matrix)
    return replace(SpinModel.empty(model.twos), bonds=made)


def isotropic(model: SpinModel) -> bool:
    """Return True if every term of H commutes with the total spin, but for one field along z of all sites."""
    if model.h[:2].any() or np.ptp(model.h[2]) != 0.0:
        return False
    without = replace(model, h=np.zeros_like(model.h))
    return all(commuting(without, axis) for axis in range(3))


def isotropic_products(twos: tuple[int, ...]) -> SpinModel:
    """Return ``2 sum_(j<k) S_j . S_k`` as a model."""
    n = len(twos)
    return replace(SpinModel.empty(twos), J=np.broadcast_to(2.0 * (1.0 - np.eye(n)), (3, n, n)).copy())


@broken.register(SpinModel)
def _(model: SpinModel, sites: Sequence[int]) -> str:
    """Return where H is not invariant under a permutation of the sites, ``""`` if it is."""
    for j, to in enumerate(sites):
        if model.twos[j] != model.twos[to]:
            return (
                f"the spin of site {j} is {0.5 * model.twos[j]:g}, that of site {to}, to which it goes, "
                f"{0.5 * model.twos[to]:g}"
            )
    scale = max((float(np.abs(term.matrix).max()) for term in model.terms), default=0.0)
    here = {term.sites: term.matrix for term in model.terms}
    for term in model.terms:
        images = tuple(sites[j] for j in term.sites)
        matrix, target = term.matrix, images
        if len(images) == 2 and images[0] > images[1]:
            matrix, target = exchanged(matrix, [model.twos[j] for j in term.sites]), images[::-1]
        other = here.get(target)
        if other is None or np.abs(other - matrix).max() > SAME * scale:
            where = " and ".join(str(site) for site in images)
            return f"H at {term.name} is not that at {'sites' if len(images) == 2 else 'site'} {where}, to which it goes"
    return ""
