"""Schmidt coefficients of a state of the whole space, and their entropy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.blas import large_matrices
from qsim.core.device.pool import listen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["deposit", "entropies", "entropy", "entropy_bytes", "normalised", "scatter", "schmidt"]


# of the part of the state that is rearranged at a time
PIECE_BITS = 20
NEGLIGIBLE = 1e-300


def schmidt(device: Device, psi: Amplitudes, sites: Iterable[int]) -> NDArray[np.float64]:
    """Return the squared Schmidt coefficients between some sites and the rest, descending, of sum 1.

    They are the eigenvalues of the reduced density matrix of the smaller part, which is summed piece by piece, so that no copy
    of a large state is made; a state that is one piece with a small part of up to 8 spins gives its singular values instead.

    Parameters
    ----------
    psi : (2^N,) complex
    sites : of integers
        One part; neither empty nor all sites.
    """
    spins = int(psi.shape[0]).bit_length() - 1
    part = sorted({int(site) for site in sites})
    if not part or len(part) >= spins or part[0] < 0 or part[-1] >= spins:
        raise ValueError(f"one part of {spins} sites must hold 1 to {spins - 1} of them, found {part}")
    # both parts have the same coefficients: the matrix of the smaller one is diagonalised
    rest = [site for site in range(spins) if site not in part]
    small, large = (part, rest) if len(part) <= len(rest) else (rest, part)
    xp = device.xp
    with device.use(), large_matrices(1 << len(small)):
        # indices of the small part times a piece of the large part; the other bits of the large part count the pieces
        rows = deposit(xp, small)
        inner = max(0, min(len(large), PIECE_BITS - len(small)))
        columns = deposit(xp, large[:inner])
        starts = [scatter(k, large[inner:]) for k in range(1 << (len(large) - inner))]
        # singular values are exact to rounding of themselves, the eigenvalues of a density matrix to rounding of the largest
        if len(starts) == 1 and len(small) <= 8:
            matrix = psi[rows[:, None] | columns[None, :]].astype(np.complex128)
            values = xp.linalg.svd(matrix, compute_uv=False) ** 2
        else:
            # sum over pieces of M M^dagger, each a matrix product
            density = xp.zeros((1 << len(small), 1 << len(small)), np.complex128)
            for start in starts:
                matrix = psi[rows[:, None] | (columns[None, :] | start)].astype(np.complex128, copy=False)
                density += matrix @ matrix.conj().T
                listen()
            values = xp.linalg.eigvalsh(density)
        return normalised(device.to_host(values))


def entropy(device: Device, psi: Amplitudes, sites: Iterable[int]) -> float:
    """Return the von Neumann entropy of some sites with the rest, natural logarithm; parameters as in :func:`schmidt`."""
    return _entropy(schmidt(device, psi, sites))


def entropies(device: Device, states: Amplitudes, sites: Sequence[int]) -> NDArray[np.float64]:
    """Return the entropies (M,) of small states (M, 2^N), N <= 16; on the CPU equal to :func:`entropy`, bit for bit."""
    spins = int(states.shape[1]).bit_length() - 1
    part = sorted(set(sites))
    rest = [site for site in range(spins) if site not in part]
    small, large = (part, rest) if len(part) <= len(rest) else (rest, part)
    xp = device.xp
    with device.use():
        # all members at once: one gathering, and one call of the library
        index = deposit(xp, small)[:, None] | deposit(xp, large)[None, :]
        matrices = states[:, index].astype(np.complex128)
        # singular values would be found one matrix after the other
        if device.is_cuda:
            values = xp.linalg.eigvalsh(matrices @ matrices.conj().transpose(0, 2, 1))
        else:
            values = xp.linalg.svd(matrices, compute_uv=False) ** 2
        return np.array([_entropy(normalised(p)) for p in device.to_host(values)])


def normalised(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights descending and of sum 1, rounding below zero removed."""
    # eigenvalues of a density matrix may be below zero by rounding
    values = np.sort(np.maximum(p, 0.0))[::-1]
    return np.asarray(values / values.sum())


def _entropy(p: NDArray[np.float64]) -> float:
    p = p[p > NEGLIGIBLE]
    return max(0.0, -math.fsum(p * np.log(p)))


def entropy_bytes(spins: int, sites: int) -> int:
    """Return the bytes that :func:`schmidt` allocates for a part of `sites` sites."""
    rows = min(sites, spins - sites)
    piece = 1 << min(spins, max(rows, PIECE_BITS))
    return 3 * 16 * (1 << 2 * rows) + (8 + 2 * 16) * piece


def deposit(xp: ModuleType, sites: Sequence[int]) -> NDArray[np.int64]:
    """Return the indices that have any combination of these bits, (2^k,) int64."""
    index = xp.zeros(1, np.int64)
    for site in sites:
        index = xp.concatenate([index, index | (1 << site)])
    return index


def scatter(number: int, sites: Sequence[int]) -> int:
    """Spread the bits of a number over these places."""
    return sum((number >> k & 1) << site for k, site in enumerate(sites))
