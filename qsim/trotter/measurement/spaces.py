"""One face for all spaces: what a task needs of a space, whichever quantum numbers it fixes.

A space is all states, one parity, one Sz with or without inversion, or one of these with a character of further symmetries.
Each function has one case for each kind of space; a new kind brings its own (`register`), and no task is told.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.deck.axes import AXES
from qsim.trotter.kernels.states.measure import Moments, moments_of_axis
from qsim.trotter.measurement.entanglement import schmidt
from qsim.trotter.model.frames import rotated
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.sectors.parity_operator import ParityOperator, WholeOperator
from qsim.trotter.sectors.schmidt import Spectrum, sector_schmidt
from qsim.trotter.sectors.spin_operators import raised, target_of, weighted
from qsim.trotter.sectors.symmetric import StoredOperator, SymmetricSector
from qsim.trotter.states.vectors import overlap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.observables.base import Pair

__all__ = [
    "AnyOperator",
    "PlainSpace",
    "Space",
    "applied_in",
    "columns_in",
    "flat",
    "moments_in",
    "operator_in",
    "plain",
    "schmidt_in",
    "target_in",
    "unlike_in",
]

PlainSpace = WholeSpace | ParitySector | Sector
Space = PlainSpace | SymmetricSector
AnyOperator = WholeOperator | SectorOperator | StoredOperator


@singledispatch
def operator_in(space: Space, device: Device, model: Model) -> AnyOperator:
    """Return H as it acts on the vectors of a space: a product, or the stored matrix of a small space."""
    raise TypeError(f"{space} is no space")


operator_in.register(WholeSpace)(lambda space, device, model: WholeOperator(device, space, model))
operator_in.register(ParitySector)(lambda space, device, model: ParityOperator(device, space, model))
operator_in.register(Sector)(lambda space, device, model: SectorOperator(device, space, model))
operator_in.register(SymmetricSector)(lambda space, device, model: StoredOperator(device, space, model))


@singledispatch
def plain(space: Space, psi: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    """Return the space without characters of permutations and a vector there, from which observables are taken."""
    assert not isinstance(space, SymmetricSector)
    return space, psi


@plain.register(SymmetricSector)
def _(space: SymmetricSector, psi: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    return space.base, space.whole(psi)


def columns_in(space: Space, vectors: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    """Return the space without characters of permutations, and vectors (columns) there."""
    if not isinstance(space, SymmetricSector):
        return space, vectors
    return space.base, np.stack([space.whole(column) for column in vectors.T], axis=1)


@singledispatch
def flat(space: Space, device: Device, psi: NDArray[Any]) -> tuple[Sector | WholeSpace, NDArray[Any]]:
    """Return the sector of Sz, or all states, from which everything can be observed, and a vector there."""
    assert isinstance(space, WholeSpace | ParitySector)
    return WholeSpace(space.spins), space.whole(device, psi)


flat.register(Sector)(lambda space, device, psi: (space, psi))


@flat.register(SymmetricSector)
def _(space: SymmetricSector, device: Device, psi: NDArray[Any]) -> tuple[Sector | WholeSpace, NDArray[Any]]:
    return flat(space.base, device, space.whole(psi))


@singledispatch
def moments_in(space: Space, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
    """Return norm, ``<S^a_j>`` and ``<S^a_j S^a_k>`` of a vector along all axes of the strings.

    Parameters
    ----------
    psi : (D,)
    pairs : of (j, k)
        Pairs whose moments along x and y are wanted; elsewhere they may be not a number.
    """
    # of a vector without a definite Sz: probabilities in the eigenstates of each component
    moments = Moments(0.0, {}, {})
    for axis in AXES:
        moments.norm, moments.s[axis], moments.ss[axis] = moments_of_axis(
            device, rotated(device, _all(space, device, psi), axis)
        )
    return moments


@moments_in.register(Sector)
def _(space: Sector, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
    return sector_moments(_measuring(space, device), psi, list(pairs))


@cache
def _measuring(space: Sector, device: Device) -> SectorOperator:
    """Return the tables of a sector with which moments are taken: flips and probabilities do not depend on H."""
    return SectorOperator(device, space, Model.zero(space.spins))


@moments_in.register(SymmetricSector)
def _(space: SymmetricSector, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
    base, vector = plain(space, psi)
    return moments_in(base, device, vector, pairs)


def unlike_in(
    space: Space, device: Device, psi: NDArray[Any], keys: Sequence[tuple[str, int, int]]
) -> NDArray[np.float64]:
    """Return ``<S^a_j S^b_k>`` of keys (ab, j, k) with j != k, not divided by the norm, from the state of all spins.

    Components are along the axes of the strings.
    """
    from qsim.trotter.sectors.states import whole_state

    if not keys:
        return np.zeros(0)
    with device.use():
        state = whole_state(space, device, psi)
        state = state if state.dtype.kind == "c" else state.astype(np.complex128)
        return np.array(
            [overlap(_turned(state, ab[0], j), _turned(state, ab[1], k)).real for ab, j, k in keys]
        )


def _turned(state: NDArray[Any], axis: str, site: int) -> NDArray[Any]:
    """Return ``S^a`` of a site times a state (2^N,)."""
    parts = state.reshape(-1, 2, 1 << site)
    # S^x and S^y exchange up and down; S^y with -i / 2 to up and i / 2 to down
    out: NDArray[Any] = 0.5 * (parts if axis == "z" else parts[:, ::-1])
    if axis != "x":
        factor: Any = 1.0j if axis == "y" else -1.0
        out[:, 1] *= factor
        out[:, 0] *= -factor if axis == "y" else 1.0
    return out.reshape(-1)


@singledispatch
def schmidt_in(space: Space, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    """Return the squared Schmidt coefficients between some sites and the rest; with the Sz of the sites in a sector of Sz."""
    return Spectrum.unlabelled(schmidt(device, _all(space, device, psi), sites))


@schmidt_in.register(Sector)
def _(space: Sector, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    return sector_schmidt(space, device, psi, sites)


@schmidt_in.register(SymmetricSector)
def _(space: SymmetricSector, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    base, vector = plain(space, psi)
    return schmidt_in(base, device, vector, sites)


@singledispatch
def target_in(space: Space, c: NDArray[np.complex128]) -> Space | None:
    """Return the space that ``sum_aj c_aj S^a_j`` leads to, axes of the strings; None where it annihilates all states."""
    # of all states, or where parts lead to both parities
    return WholeSpace(space.spins)


@target_in.register(ParitySector)
def _(space: ParitySector, c: NDArray[np.complex128]) -> Space | None:
    turned, kept = bool(c[:2].any()), bool(c[2].any())
    if turned and kept:
        return WholeSpace(space.spins)
    return replace(space, odd=space.odd ^ turned)


@target_in.register(Sector)
def _(space: Sector, c: NDArray[np.complex128]) -> Space | None:
    # S^+ and S^- alone lead to one other Sz
    return target_of(space, "sz" if c[2].any() else _ladder(c))


@singledispatch
def applied_in(
    space: Space, target: Space, device: Device, psi: NDArray[Any], c: NDArray[np.complex128]
) -> NDArray[Any]:
    """Return ``sum_aj c_aj S^a_j psi`` in the space that it leads to.

    Parameters
    ----------
    c : (3, N) complex128
        Along the axes of the strings; in a sector of Sz those of S^z, S^+ or S^- alone.
    """
    with device.use():
        state = _all(space, device, psi)
        total, out = device.xp.zeros_like(state), device.xp.empty_like(state)
        # a field with real components each time
        for part, factor in ((c.real, 1.0), (c.imag, 1.0j)):
            if part.any():
                field = Model(space.spins, Model.zero(space.spins).J, np.ascontiguousarray(part))
                WholeOperator(device, WholeSpace(space.spins), field).apply(state, out)
                total += factor * out
        assert isinstance(target, WholeSpace | ParitySector)
        return target.restricted(device, total)


@applied_in.register(Sector)
def _(
    space: Sector, target: Space, device: Device, psi: NDArray[Any], c: NDArray[np.complex128]
) -> NDArray[Any]:
    if c[2].any():
        return weighted(space, device, psi, c[2])
    assert isinstance(target, Sector)
    return raised(space, target, device, psi, c[0])


def _ladder(c: NDArray[np.complex128]) -> str:
    """Return which of S^+ and S^- have these coefficients of S^x and S^y."""
    return "sp" if np.allclose(c[1], 1.0j * c[0]) else "sm"


def _all(space: Space, device: Device, psi: NDArray[Any]) -> NDArray[Any]:
    """Return a vector as a complex state (2^N,) of all spins, as the kernels measure it."""
    assert isinstance(space, WholeSpace | ParitySector)
    whole = space.whole(device, psi)
    kept: NDArray[Any] = whole if whole.dtype.kind == "c" else whole.astype(np.complex128)
    return kept
