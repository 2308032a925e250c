"""Moments of spins of any size, entanglement, and operators that lead from one space of digits to another."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.deck.axes import AXES
from qsim.trotter.kernels.states.measure import Moments
from qsim.trotter.model.larger import SpinModel, spin_matrices
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.schmidt import Spectrum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.observables.base import Pair
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.digits.space import DigitSpace

# strings of which spins are tabulated at once
PIECE = 1 << 18


def squares(twos: tuple[int, ...]) -> NDArray[np.float64]:
    """Return ``S (S + 1)`` of every site."""
    S = 0.5 * np.array(twos)
    return S * (S + 1.0)


def component(twos: tuple[int, ...], c: NDArray[np.complex128]) -> SpinModel:
    """Return ``sum_aj c_aj S^a_j`` as a model, which need not be Hermitian; c is (3, N)."""
    sites = {
        j: np.einsum("a,axy->xy", c[:, j], spin_matrices(two)) for j, two in enumerate(twos) if c[:, j].any()
    }
    return replace(SpinModel.empty(twos), sites=sites)


def product_of(twos: tuple[int, ...], axes: str, j: int, k: int) -> SpinModel:
    """Return ``S^a_j S^b_k`` as a model, of one axis or of two; also for j = k."""
    first, second = spin_matrices(twos[j])[AXES.index(axes[0])], spin_matrices(twos[k])[AXES.index(axes[-1])]
    empty = SpinModel.empty(twos)
    if j == k:
        return replace(empty, sites={j: first @ second})
    return replace(
        empty, bonds={(j, k) if j < k else (k, j): np.kron(*((first, second) if j < k else (second, first)))}
    )


def moments(space: DigitSpace, device: Device, psi: NDArray[Any], pairs: Iterable[Pair] = ()) -> Moments:
    """Return norm, ``<S^a_j>`` and ``<S^a_j S^a_k>`` of a vector.

    Along z of all sites and pairs; across of the pairs named and of equal sites, elsewhere not a number.
    """
    n, strings = space.spins, space.strings()
    s: dict[str, NDArray[np.float64]] = {axis: np.zeros(n) for axis in AXES}
    ss: dict[str, NDArray[np.float64]] = {axis: np.full((n, n), math.nan) for axis in AXES}
    ss["z"] = np.zeros((n, n))
    # probabilities of the strings say all of the components along z
    top = 0.5 * np.array(space.twos)[:, None]
    for first in range(0, strings.size, PIECE):
        some = strings[first : first + PIECE]
        m = top - np.array([space.digit(some, j) for j in range(n)])
        p = np.abs(psi[first : first + PIECE]) ** 2
        s["z"] += m @ p
        ss["z"] += (m * p) @ m.T
    norm = float(np.vdot(psi, psi).real)

    def mean(model: SpinModel) -> float:
        operator = DigitOperator(device, space, model, strings=strings)
        return float(np.vdot(psi, operator.applied(psi)).real)

    diagonal = np.diag_indices(n)
    # with a definite Sz no direction across is marked, and S^x alone has no mean
    charged = space.down >= 0
    for a, axis in enumerate("xy"):
        if charged:
            ss[axis][diagonal] = 0.5 * (norm * squares(space.twos) - ss["z"][diagonal])
        elif space.odd < 0:
            unit = np.eye(n)
            c = np.zeros((n, 3, n), np.complex128)
            c[:, a] = unit
            s[axis] = np.array([mean(component(space.twos, c[j])) for j in range(n)])
        if not charged:
            ss[axis][diagonal] = [mean(product_of(space.twos, axis, j, j)) for j in range(n)]
        for j, k in pairs:
            if charged and axis == "y":
                ss["y"][j, k] = ss["y"][k, j] = ss["x"][j, k]
            elif j != k:
                ss[axis][j, k] = ss[axis][k, j] = mean(product_of(space.twos, axis, j, k))
    return Moments(norm, s, ss)


def unlike_means(
    space: DigitSpace, device: Device, psi: NDArray[Any], keys: Sequence[tuple[str, int, int]]
) -> NDArray[np.float64]:
    """Return ``<S^a_j S^b_k>`` of a vector for keys (ab, j, k) with j != k, not divided by the norm."""
    strings = space.strings() if keys else None
    # elements that leave the space have no part in a mean
    made = (DigitOperator(device, space, product_of(space.twos, *key), strings=strings) for key in keys)
    return np.array([float(np.vdot(psi, one.applied(psi)).real) for one in made])


def magnetisation(rows: DigitSpace, columns: DigitSpace, device: Device, axis: str) -> Any:
    """Return the total spin along an axis of the strings between two spaces, (D, D') sparse."""
    c = np.zeros((3, rows.spins), np.complex128)
    c[AXES.index(axis)] = 1.0
    return DigitOperator(device, rows, component(rows.twos, c), columns).matrix


def target(space: DigitSpace, c: NDArray[np.complex128]) -> DigitSpace | None:
    """Return the space that ``sum_aj c_aj S^a_j`` leads to; None where it annihilates all states."""
    turned, kept = bool(c[:2].any()), bool(c[2].any())
    if not turned or (space.down < 0 and space.odd < 0):
        return space
    if space.down >= 0:
        # S^+ and S^- alone lead to one other Sz
        down = space.down + (-1 if np.allclose(c[1], 1.0j * c[0]) else 1)
        return replace(space, down=down) if 0 <= down <= sum(space.twos) else None
    return replace(space, odd=-1) if kept else replace(space, odd=space.odd ^ 1)


def applied(
    space: DigitSpace | Sector,
    psi: NDArray[Any],
    to: DigitSpace | Sector,
    device: Device,
    c: NDArray[np.complex128],
) -> NDArray[Any]:
    """Return ``sum_aj c_aj S^a_j psi`` in the space that it leads to."""
    made = DigitOperator(device, to, component(to.digits.twos, c), space).applied(psi)
    return made.astype(np.complex128, copy=False)


def spectrum_of(space: DigitSpace, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    """Return the squared Schmidt coefficients between some sites and the rest, with the Sz of the sites where Sz is fixed."""
    strings, inner = space.strings(), sorted({int(site) for site in sites})
    one = (1 << space.bits) - 1
    mask = sum(one << site * space.bits for site in inner)
    ours, row = np.unique(strings & mask, return_inverse=True)
    column = np.unique(strings & ~np.int64(mask), return_inverse=True)[1]
    quanta = sum((space.digit(ours, site) for site in inner), np.zeros(ours.size, np.int64))
    top = 0.5 * sum(space.twos[site] for site in inner)
    # a block for each number of quanta of the part, where the other part has then one, too
    charge = quanta if space.down >= 0 else np.zeros_like(quanta)
    values, labels = [], []
    of_row = charge[row]
    for q in np.unique(charge):
        inside = np.flatnonzero(of_row == q)
        own, r = np.unique(row[inside], return_inverse=True)
        others, s = np.unique(column[inside], return_inverse=True)
        block = np.zeros((own.size, others.size), psi.dtype)
        block[r, s] = psi[inside]
        made = np.linalg.svd(block, compute_uv=False) ** 2
        values.append(made)
        labels.append(np.full(made.size, top - q if space.down >= 0 else 0.0))
    p, sz = np.concatenate(values), np.concatenate(labels)
    order = np.argsort(-p, kind="stable")
    return Spectrum(p[order] / p.sum(), sz[order])


def turned_to_z(space: DigitSpace, device: Device, psi: NDArray[Any], axis: str) -> NDArray[np.complex128]:
    """Return a vector as a state of all strings along z of the deck, those of the space along `axis`; or back."""
    state = space.whole(device, np.asarray(psi, np.complex128))
    if axis == "z":
        return state
    # the last site is the slowest index
    tensor = state.reshape([two + 1 for two in space.twos[::-1]])
    for place, two in enumerate(space.twos[::-1]):
        S = spin_matrices(two)
        values, vectors = np.linalg.eigh((S[AXES.index(axis)] + S[2]) * math.sqrt(0.5))
        turn = (vectors * np.exp(-1j * np.pi * values)) @ vectors.conj().T
        tensor = np.moveaxis(np.tensordot(turn, tensor, (1, place)), 0, place)
    return np.ascontiguousarray(tensor).reshape(-1)
