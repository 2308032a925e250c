"""Entanglement in a sector: Schmidt values by the number of spins up of one part.

With a definite Sz the state is a direct sum of matrices, one for each number of down spins a of part A, rows = strings of A,
columns = strings of the rest.  The reduced density matrix is the direct sum of ``M_a M_a^dagger``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.blas import one_thread
from qsim.core.device.pool import each_call, listen
from qsim.trotter.sectors.states import unfolded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.sectors.basis import Sector

# amplitudes of a matrix that are gathered at a time
PIECE = 1 << 22
NEGLIGIBLE = 1e-300
# cubes of the sizes of matrices from which their first eigenvalues are found on several threads
MANY = 10_000_000


@dataclass(frozen=True)
class Spectrum:
    """Squared Schmidt coefficients p, of sum 1, descending.

    Attributes
    ----------
    values : (m,) float64
    sz : (m,) float64
        Total Sz of the part, for each of them.
    """

    values: NDArray[np.float64]
    sz: NDArray[np.float64]

    @classmethod
    def unlabelled(cls, values: NDArray[np.float64]) -> Spectrum:
        """Return the spectrum of a state without a definite Sz."""
        return cls(values, np.zeros(values.size))

    @property
    def entropy(self) -> float:
        """Von Neumann entropy ``-sum p ln p``."""
        return _entropy(self.values)

    @property
    def number_entropy(self) -> float:
        """Entropy of the distribution of the Sz of the part."""
        return _entropy(np.array([self.values[self.sz == sz].sum() for sz in np.unique(self.sz)]))

    @property
    def renyi2(self) -> float:
        """Renyi entropy ``-ln sum p^2``."""
        return max(0.0, -math.log(math.fsum(self.values**2)))

    def largest(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the largest values and their Sz, (count,) each, filled up with 0."""
        values, sz = np.zeros(count), np.zeros(count)
        held = min(count, self.values.size)
        values[:held], sz[:held] = self.values[:held], self.sz[:held]
        return values, sz


def _entropy(p: NDArray[np.float64]) -> float:
    p = p[p > NEGLIGIBLE]
    return max(0.0, -math.fsum(p * np.log(p)))


def sector_schmidt(sector: Sector, device: Device, psi: NDArray[Any], sites: Iterable[int]) -> Spectrum:
    """Return the Schmidt spectrum between some sites and the rest.

    Values below 1e-16 are rounding: they are eigenvalues of ``M M^dagger``.

    Parameters
    ----------
    psi : (D,) real or complex
    sites : of int
        One part; neither empty nor all sites.
    """
    sector, psi = unfolded(sector, device, psi)
    inner = sorted({int(site) for site in sites})
    outer = [site for site in range(sector.spins) if site not in set(inner)]
    if not inner or not outer:
        raise ValueError(f"one part of {sector.spins} sites must hold 1 to {sector.spins - 1} of them")
    # spins down in the part: as many as both parts allow
    counts = range(max(0, sector.down - len(outer)), min(len(inner), sector.down) + 1)
    values = [np.zeros(0)] * len(counts)

    def spectra(first: int, last: int) -> None:
        for place in order[first:last]:
            density = _matrices(sector, device, psi, inner, outer, counts[place])
            values[place] = _weights(density, device)
            # the largest matrices, which come first, take most of the time
            listen()

    # the matrices of different numbers of spins down are independent of each other: the largest ones first
    sizes = [min(math.comb(len(inner), down), math.comb(len(outer), sector.down - down)) for down in counts]
    order = sorted(range(len(counts)), key=lambda place: -sizes[place])
    threads = 1 if device.is_cuda else device.threads
    with device.use(), one_thread():
        each_call(spectra, len(counts), sum(size**3 for size in sizes), threads, MANY, alike="schmidt")
    charges = [
        np.full(weights.size, 0.5 * len(inner) - down) for weights, down in zip(values, counts, strict=True)
    ]
    p, sz = np.maximum(np.concatenate(values), 0.0), np.concatenate(charges)
    # stable, so that equal values keep their order by charge
    ranks = np.argsort(-p, kind="stable")
    return Spectrum(p[ranks] / p.sum(), sz[ranks])


def _weights(density: NDArray[Any], device: Device) -> NDArray[np.float64]:
    """Return the eigenvalues of a density matrix."""
    if density.shape[0] == 1:
        return device.to_host(density.real).ravel()
    return np.asarray(device.to_host(device.xp.linalg.eigvalsh(density)))


def _matrices(
    sector: Sector, device: Device, psi: NDArray[Any], inner: list[int], outer: list[int], down: int
) -> Any:
    """Return ``M M^dagger`` of the smaller side, with `down` spins of the part down."""
    xp = device.xp
    kind = np.complex128 if psi.dtype.kind == "c" else np.float64
    L = sector.low.bits
    ours, theirs = math.comb(len(inner), down), math.comb(len(outer), sector.down - down)
    # the cut of the numbering: a block of the vector is M as it lies
    if inner == list(range(L)):
        p = sector.down - down
        start = int(sector.block[p])
        matrix = psi[start : start + ours * theirs].reshape(theirs, ours).astype(kind, copy=False)
        # the smaller side: M M^dagger or its transpose has the same eigenvalues but zeros
        return matrix @ matrix.conj().T if theirs <= ours else matrix.T @ matrix.conj()
    small, large = (_strings(inner, down), _strings(outer, sector.down - down))
    # rows: strings of the smaller side
    if small.size > large.size:
        small, large = large, small
    density = xp.zeros((small.size, small.size), kind)
    step = max(1, PIECE // small.size)
    # columns in pieces, found by their strings; products add up to the density matrix
    for first in range(0, large.size, step):
        index = sector.index((small[:, None] | large[None, first : first + step]).ravel())
        matrix = psi[device.asarray(index)].reshape(small.size, -1).astype(kind, copy=False)
        density += matrix @ matrix.conj().T
        listen()
    return density


def _strings(sites: list[int], down: int) -> NDArray[np.int64]:
    """Return all strings with `down` of the sites down, and all others up."""
    by_weight = [np.zeros(1, np.int64)] + [np.zeros(0, np.int64)] * down
    # each site doubles the strings: left up, or turned down, which moves them to the next weight
    for site in sites:
        flipped = [np.zeros(0, np.int64), *(strings | (1 << site) for strings in by_weight[:-1])]
        by_weight = [np.concatenate(pair) for pair in zip(by_weight, flipped, strict=True)]
    return by_weight[down]
