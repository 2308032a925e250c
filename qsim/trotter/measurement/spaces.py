"""One face for all spaces: what a task needs of a space, whichever quantum numbers it fixes.

A space is all states, one parity, one Sz with or without inversion, or one of these with a character of further symmetries.
Each function has one case for each kind of space; a new kind brings its own (`register`), and no task is told.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce, singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.deck.axes import AXES
from qsim.trotter.kernels.states.measure import Moments, moments_of_axis
from qsim.trotter.measurement.entanglement import schmidt
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits import measure as digits
from qsim.trotter.sectors.digits.conserved import isotropic_products
from qsim.trotter.sectors.digits.orbits import DigitOrbits, StoredDigits
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.digits.start import state_in
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.sectors.parity_operator import ParityOperator, WholeOperator
from qsim.trotter.sectors.schmidt import Spectrum, sector_schmidt
from qsim.trotter.sectors.selection import PlainSpace
from qsim.trotter.sectors.spin_operators import raised, target_of, weighted
from qsim.trotter.sectors.states import start_in, whole_state
from qsim.trotter.sectors.symmetric import StoredOperator, SymmetricSector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.observables.base import Pair

__all__ = [
    "AnyOperator",
    "PlainSpace",
    "Space",
    "applied_in",
    "charged",
    "columns_in",
    "moments_in",
    "operator_in",
    "pairs_in",
    "plain",
    "products_of_spins",
    "rotated",
    "schmidt_in",
    "squares_in",
    "strings_of_deck",
    "target_in",
]

Space = PlainSpace | SymmetricSector
AnyOperator = WholeOperator | SectorOperator | StoredOperator | DigitOperator

# spins that one matrix product turns
TOGETHER = 6
# columns: the states of S^a = 1/2 and -1/2 in the basis of S^z
EIGENSTATES = {
    "x": np.array([[1.0, 1.0], [1.0, -1.0]], np.complex128) * np.sqrt(0.5),
    "y": np.array([[1.0, 1.0], [1.0j, -1.0j]], np.complex128) * np.sqrt(0.5),
}


@singledispatch
def operator_in(space: Space, device: Device, model: Model) -> AnyOperator:
    """Return H as it acts on the vectors of a space: a product, or the stored matrix of a small space."""
    raise TypeError(f"{space} is no space")


operator_in.register(WholeSpace)(lambda space, device, model: WholeOperator(device, space, model))
operator_in.register(ParitySector)(lambda space, device, model: ParityOperator(device, space, model))
operator_in.register(Sector)(lambda space, device, model: SectorOperator(device, space, model))
operator_in.register(SymmetricSector)(lambda space, device, model: StoredOperator(device, space, model))
operator_in.register(DigitSpace)(lambda space, device, model: DigitOperator(device, space, model))
operator_in.register(DigitOrbits)(lambda space, device, model: StoredDigits(device, space, model))


start_in.register(DigitSpace)(state_in)


def charged(space: Space | None) -> bool:
    """Return True if all states of a space have one Sz; None is the space of all states."""
    return space is not None and not math.isnan(space.sz)


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
    # flips and probabilities do not depend on H
    return sector_moments(SectorOperator(device, space, Model.zero(space.spins)), psi, list(pairs))


moments_in.register(DigitSpace)(digits.moments)


@moments_in.register(SymmetricSector)
def _(space: SymmetricSector, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
    base, vector = plain(space, psi)
    return moments_in(base, device, vector, pairs)


@singledispatch
def schmidt_in(space: Space, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    """Return the squared Schmidt coefficients between some sites and the rest; with the Sz of the sites in a sector of Sz."""
    return Spectrum.unlabelled(schmidt(device, _all(space, device, psi), sites))


@schmidt_in.register(Sector)
def _(space: Sector, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    return sector_schmidt(space, device, psi, sites)


schmidt_in.register(DigitSpace)(lambda space, device, psi, sites: digits.spectrum_of(space, psi, sites))


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


target_in.register(DigitSpace)(digits.target)


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


applied_in.register(DigitSpace)(digits.applied)


@singledispatch
def pairs_in(
    space: PlainSpace,
    device: Device,
    vectors: NDArray[Any],
    weights: NDArray[np.float64],
    keys: Iterable[tuple[str, int, int]],
) -> list[NDArray[np.float64]]:
    """Return ``sum_n w_n <n| S^a_j S^a_k |n>`` of states (columns) for axes and pairs, (T,) each.

    Parameters
    ----------
    weights : (T, states) float64
    keys : of (axis, j, k)
    """
    strings = space.strings()
    spin = 0.5 - (strings[:, None] >> np.arange(space.spins) & 1)
    # (D, T)
    # diagonal operators need the weight of every string alone, flips the overlap of strings in which two spins differ
    weight = (np.abs(vectors) ** 2) @ weights.T
    rows = []
    for axis, j, k in keys:
        if axis == "z":
            rows.append((spin[:, j] * spin[:, k]) @ weight)
            continue
        # with a definite Sz two spins flip that differ; S^y S^y has the opposite sign where they are equal
        differ = (strings >> j ^ strings >> k) & 1
        chosen = np.flatnonzero(differ) if isinstance(space, Sector) else np.arange(strings.size)
        sign = np.where(differ[chosen] == 1, 1.0, -1.0 if axis == "y" else 1.0)
        other = space.index(strings[chosen] ^ (1 << j | 1 << k))
        overlap = np.einsum("s,sn,sn->n", sign, vectors[chosen].conj(), vectors[other]).real
        rows.append(0.25 * (weights @ overlap))
    return rows


pairs_in.register(DigitSpace)(digits.pair_means)


@singledispatch
def squares_in(space: Space) -> NDArray[np.float64]:
    """Return ``S (S + 1)`` of every site, (N,)."""
    return np.full(space.spins, 0.75)


squares_in.register(DigitSpace)(lambda space: digits.squares(space.twos))
squares_in.register(SymmetricSector)(lambda space: squares_in(space.base))


@singledispatch
def products_of_spins(space: Space) -> Model:
    """Return ``S^2 - sum_j S_j (S_j + 1) = 2 sum_(j<k) S_j . S_k`` as a Hamiltonian."""
    n = space.spins
    return Model(n, np.broadcast_to(2.0 * (1.0 - np.eye(n)), (3, n, n)).copy(), np.zeros((3, n)))


products_of_spins.register(DigitSpace)(lambda space: isotropic_products(space.twos))


@singledispatch
def strings_of_deck(space: Space, device: Device, psi: NDArray[Any], axis: str) -> Any:
    """Return a vector as a state of all spins, of the strings along z of the deck; those of the space are along `axis`."""
    return rotated(device, _all(space, device, psi), axis)


@strings_of_deck.register(Sector)
def _(space: Sector, device: Device, psi: NDArray[Any], axis: str) -> Any:
    return rotated(device, whole_state(space, device, psi), axis)


strings_of_deck.register(DigitSpace)(
    lambda space, device, psi, axis: digits.turned_to_z(space, device, psi, axis)
)


def _ladder(c: NDArray[np.complex128]) -> str:
    """Return which of S^+ and S^- have these coefficients of S^x and S^y."""
    return "sp" if np.allclose(c[1], 1.0j * c[0]) else "sm"


def _all(space: Space, device: Device, psi: NDArray[Any]) -> NDArray[Any]:
    """Return a vector as a complex state (2^N,) of all spins, as the kernels measure it."""
    assert isinstance(space, WholeSpace | ParitySector)
    whole = space.whole(device, psi)
    return np.asarray(whole) if whole.dtype.kind == "c" and device.xp is np else whole.astype(np.complex128)


def rotated(device: Device, psi: NDArray[Any], axis: str) -> NDArray[Any]:
    """Return a state (2^N,) in the basis of the eigenstates of ``S^a`` of all spins; a new array but along z."""
    if axis == "z":
        return psi
    xp, spins = device.xp, int(psi.size).bit_length() - 1
    with device.use():
        for low in range(0, spins, TOGETHER):
            count = min(TOGETHER, spins - low)
            # spins next to each other in one matrix product; site `low` is the lowest bit
            turn = device.asarray(reduce(np.kron, [EIGENSTATES[axis].conj().T] * count))
            if low:
                psi = xp.matmul(turn, psi.reshape(-1, 1 << count, 1 << low)).reshape(-1)
            else:
                psi = (psi.reshape(-1, 1 << count) @ turn.T).reshape(-1)
    return psi
