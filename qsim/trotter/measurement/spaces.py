"""One face for all spaces: what a task needs of a space, whichever quantum numbers it fixes.

A space is all states, one parity, one Sz with or without inversion, or one of these with a character of further symmetries.
Each function has one case for each kind of space; a new kind brings its own (`register`), and no task is told.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import cpu
from qsim.trotter.deck.axes import AXES
from qsim.trotter.kernels.states.measure import Moments, moments_of_axis
from qsim.trotter.measurement.entanglement import schmidt
from qsim.trotter.measurement.shared import shared_schmidt
from qsim.trotter.model.frames import rotated
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits import measure as digits
from qsim.trotter.sectors.digits.conserved import isotropic_products
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.digits.start import state_in
from qsim.trotter.sectors.lanczos import dot
from qsim.trotter.sectors.linear import SpaceOperator
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator, sector_operator
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.sectors.parity_operator import ParityOperator, WholeOperator
from qsim.trotter.sectors.schmidt import Spectrum, sector_schmidt
from qsim.trotter.sectors.shared.operator import SharedOperator
from qsim.trotter.sectors.shared.space import SharedSpace
from qsim.trotter.sectors.spin_operators import target_of, weighted
from qsim.trotter.sectors.states import start_in, unfolded, whole_state
from qsim.trotter.sectors.symmetric import PlainSpace, SymmetricOperator, SymmetricSector
from qsim.trotter.states.vectors import on_host, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.observables.base import Pair

__all__ = [
    "PlainSpace",
    "Space",
    "all_states",
    "applied_in",
    "columns_in",
    "field_in",
    "flat",
    "moments_in",
    "operator_in",
    "pairs_in",
    "plain",
    "products_of_spins",
    "schmidt_in",
    "squares_in",
    "strings_of_deck",
    "target_in",
    "unlike_in",
    "upright",
]

Space = PlainSpace | SymmetricSector
# with those that several processes share
AnySpace = Space | SharedSpace


@singledispatch
def operator_in(space: AnySpace, device: Device, model: Model) -> SpaceOperator:
    """Return H as it acts on the vectors of a space: a product, or the stored matrix of a small space."""
    raise TypeError(f"{space} is no space")


operator_in.register(WholeSpace)(lambda space, device, model: WholeOperator(device, space, model))
operator_in.register(ParitySector)(lambda space, device, model: ParityOperator(device, space, model))
operator_in.register(Sector)(lambda space, device, model: sector_operator(device, space, model))
operator_in.register(SymmetricSector)(lambda space, device, model: SymmetricOperator(device, space, model))
operator_in.register(SharedSpace)(lambda space, device, model: SharedOperator(device, space, model))
operator_in.register(DigitSpace)(lambda space, device, model: DigitOperator(device, space, model))


start_in.register(DigitSpace)(state_in)


def _hosted(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of space, device and vector that is made on the host, also for a vector on a GPU."""
    return lambda space, device, psi, *rest: call(space, cpu(device.threads), on_host(psi), *rest)


@singledispatch
def plain(space: Space, psi: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    """Return the space without characters of permutations and a vector there, from which observables are taken."""
    assert not isinstance(space, SymmetricSector)
    return space, psi


@plain.register(SymmetricSector)
def _(space: SymmetricSector, psi: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    return space.base, space.whole(psi)


def columns_in(space: Space, vectors: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    """Return the space without characters of permutations and without inversion, and vectors (columns) there."""
    if isinstance(space, Sector) and space.inversion:
        made = [unfolded(space, cpu(), column) for column in vectors.T.copy()]
        return made[0][0], np.stack([column for _, column in made], axis=1)
    if not isinstance(space, SymmetricSector):
        return space, vectors
    return space.base, np.stack([space.whole(column) for column in vectors.T], axis=1)


@singledispatch
def all_states(space: Space) -> PlainSpace:
    """Return the space of all states of the same spins, of strings along z of the deck."""
    return WholeSpace(space.spins)


all_states.register(DigitSpace)(lambda space: DigitSpace(space.twos))
all_states.register(SymmetricSector)(lambda space: all_states(space.base))


@singledispatch
def flat(space: Space, device: Device, psi: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    """Return a space from which everything can be observed, along the axes of the strings, and a vector there."""
    assert isinstance(space, WholeSpace | ParitySector)
    return WholeSpace(space.spins), space.whole(device, psi)


flat.register(Sector)(lambda space, device, psi: (space, psi))
flat.register(DigitSpace)(lambda space, device, psi: (space, psi))


@flat.register(SymmetricSector)
def _(space: SymmetricSector, device: Device, psi: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    return flat(space.base, device, space.whole(psi))


def upright(space: Space, device: Device, psi: NDArray[Any]) -> tuple[PlainSpace, NDArray[Any]]:
    """Return a space from which everything can be observed along the axes of the deck, and a vector there."""
    if space.axis == "z":
        return flat(space, device, psi)
    return all_states(space), strings_of_deck(space, device, psi, space.axis).astype(psi.dtype, copy=False)


@singledispatch
def moments_in(space: AnySpace, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
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


moments_in.register(DigitSpace)(_hosted(digits.moments))


@moments_in.register(SharedSpace)
def _(space: SharedSpace, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
    """Return the moments along the strings by probabilities, those across by a product for each pair; a collective call."""
    n, whole = space.spins, isinstance(space.base, WholeSpace)
    moments = Moments(0.0, {}, {})
    moments.norm, moments.s["z"], moments.ss["z"] = space.along_strings(device, psi)
    for a, axis in enumerate("xy"):
        s, ss = np.zeros(n), np.full((n, n), np.nan)
        np.fill_diagonal(ss, 0.25 * moments.norm)
        # S^y is imaginary between strings: of real amplitudes it has no mean; one parity has none of S^x either
        for j in range(n) if whole and (a == 0 or psi.dtype.kind == "c") else ():
            field = Model.zero(n)
            field.h[a, j] = 1.0
            s[j] = _mean_of(space, device, psi, field)
        for j, k in pairs:
            pair = Model.zero(n)
            pair.J[a, j, k] = pair.J[a, k, j] = 1.0
            vector = psi.astype(np.complex128) if a == 1 and psi.dtype.kind != "c" else psi
            ss[j, k] = ss[k, j] = _mean_of(space, device, vector, pair)
        moments.s[axis], moments.ss[axis] = s, ss
    return moments


def _mean_of(space: SharedSpace, device: Device, psi: NDArray[Any], model: Model) -> float:
    """Return ``<psi| H |psi>``, a collective call."""
    with device.use():
        out = device.xp.empty_like(psi)
        SharedOperator(device, space, model).apply(psi, out)
        return dot(psi, out, space.links).real


@moments_in.register(SymmetricSector)
def _(space: SymmetricSector, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
    base, vector = plain(space, psi)
    return moments_in(base, device, vector, pairs)


@singledispatch
def unlike_in(
    space: Space, device: Device, psi: NDArray[Any], keys: Sequence[tuple[str, int, int]]
) -> NDArray[np.float64]:
    """Return ``<S^a_j S^b_k>`` of keys (ab, j, k) with j != k, not divided by the norm, along the axes of the strings."""
    # of spins 1/2 from the state of all spins
    if not keys:
        return np.zeros(0)
    with device.use():
        state = whole_state(space, device, psi)
        state = state if state.dtype.kind == "c" else state.astype(np.complex128)
        return np.array(
            [overlap(_turned(state, ab[0], j), _turned(state, ab[1], k)).real for ab, j, k in keys]
        )


unlike_in.register(DigitSpace)(_hosted(digits.unlike_means))


@unlike_in.register(SymmetricSector)
def _(
    space: SymmetricSector, device: Device, psi: NDArray[Any], keys: Sequence[tuple[str, int, int]]
) -> NDArray[np.float64]:
    base, vector = plain(space, psi)
    return unlike_in(base, device, vector, keys)


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
def schmidt_in(space: AnySpace, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    """Return the squared Schmidt coefficients between some sites and the rest; with the Sz of the sites in a sector of Sz."""
    return Spectrum.unlabelled(schmidt(device, _all(space, device, psi), sites))


@schmidt_in.register(Sector)
def _(space: Sector, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    return sector_schmidt(space, device, psi, sites)


@schmidt_in.register(SharedSpace)
def _(space: SharedSpace, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    state, first = space.interleaved(device, psi)
    bits = [(site + first) % space.spins for site in sites]
    return Spectrum.unlabelled(
        shared_schmidt(device, space.links, state.astype(np.complex128, copy=False), bits)
    )


schmidt_in.register(DigitSpace)(
    _hosted(lambda space, device, psi, sites: digits.spectrum_of(space, psi, sites))
)


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


@target_in.register(SymmetricSector)
def _(space: SymmetricSector, c: NDArray[np.complex128]) -> Space | None:
    base = target_in(space.base, c)
    assert not isinstance(base, SymmetricSector)
    return None if base is None else space.led_by(base, c)


@singledispatch
def field_in(space: Space, c: NDArray[np.complex128]) -> Model:
    """Return ``sum_aj c_aj S^a_j`` with real c (3, N), along the axes of the strings, as a Hamiltonian."""
    return Model(space.spins, Model.zero(space.spins).J, np.ascontiguousarray(c.real))


field_in.register(DigitSpace)(lambda space, c: digits.component(space.twos, c))


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
    return digits.applied(*unfolded(space, device, psi), target, device, c)


@applied_in.register(SymmetricSector)
def _(
    space: SymmetricSector, target: Space, device: Device, psi: NDArray[Any], c: NDArray[np.complex128]
) -> NDArray[Any]:
    to = target.base if isinstance(target, SymmetricSector) else target
    made = applied_in(space.base, to, device, space.whole(psi), c)
    return made if to is target else target.folded(made, np.complex128)  # type: ignore[union-attr]


@applied_in.register(DigitSpace)
def _(
    space: DigitSpace, target: DigitSpace, device: Device, psi: NDArray[Any], c: NDArray[np.complex128]
) -> NDArray[Any]:
    if target == target.everything and space != target:
        # a string of all states couples to strings outside of the space
        psi, space = device.asarray(space.whole(device, on_host(psi))), target
    return digits.applied(space, psi, target, device, c)


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
    rows, strings, one = [], space.strings(), space.digits
    for axis, j, k in keys:
        if axis == "z":
            # the weight of every string is enough
            m = [0.5 * one.twos[site] - one.digit(strings, site) for site in (j, k)]
            rows.append((m[0] * m[1]) @ (np.abs(vectors) ** 2 @ weights.T))
            continue
        product = digits.product_of(one.twos, axis, j, k)
        matrix = DigitOperator(cpu(device.threads), space, product, strings=strings).matrix
        rows.append(weights @ np.einsum("sn,sn->n", vectors.conj(), matrix @ vectors).real)
    return rows


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


products_of_spins.register(SymmetricSector)(lambda space: products_of_spins(space.base))
products_of_spins.register(DigitSpace)(lambda space: isotropic_products(space.twos))


@singledispatch
def strings_of_deck(space: Space, device: Device, psi: NDArray[Any], axis: str) -> Any:
    """Return a vector as a state of all spins, of the strings along z of the deck; those of the space are along `axis`."""
    return rotated(device, _all(space, device, psi), axis)


@strings_of_deck.register(Sector)
def _(space: Sector, device: Device, psi: NDArray[Any], axis: str) -> Any:
    return rotated(device, whole_state(space, device, psi), axis)


strings_of_deck.register(DigitSpace)(_hosted(digits.turned_to_z))


@strings_of_deck.register(SymmetricSector)
def _(space: SymmetricSector, device: Device, psi: NDArray[Any], axis: str) -> Any:
    return strings_of_deck(space.base, device, space.whole(psi), axis)


def _ladder(c: NDArray[np.complex128]) -> str:
    """Return which of S^+ and S^- have these coefficients of S^x and S^y."""
    return "sp" if np.allclose(c[1], 1.0j * c[0]) else "sm"


def _all(space: AnySpace, device: Device, psi: NDArray[Any]) -> NDArray[Any]:
    """Return a vector as a complex state (2^N,) of all spins, as the kernels measure it."""
    assert isinstance(space, WholeSpace | ParitySector)
    whole = space.whole(device, psi)
    kept: NDArray[Any] = whole if whole.dtype.kind == "c" else whole.astype(np.complex128)
    return kept
