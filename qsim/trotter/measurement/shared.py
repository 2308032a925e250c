"""Schmidt coefficients of a state on 2^g processes, the top g bits of whose index number the rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.blas import large_matrices
from qsim.core.device.links import total
from qsim.trotter.measurement.entanglement import PIECE_BITS, deposit, normalised, scatter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.states.vectors import Amplitudes


def shared_schmidt(
    device: Device, links: Links, psi: Amplitudes, sites: Iterable[int]
) -> NDArray[np.float64]:
    """Return the squared Schmidt coefficients between some sites and the rest, descending, of sum 1; a collective call.

    They are the eigenvalues of the reduced density matrix of the smaller part.  Where spins of the rank belong to it, its blocks
    between two processes take the amplitudes of both, which are exchanged piece by piece.

    Parameters
    ----------
    psi : (2^n,) complex
        Amplitudes of this process.
    sites : of integers
        One part of all N sites; neither empty nor all of them.
    """
    g = links.size.bit_length() - 1
    n = int(psi.shape[0]).bit_length() - 1
    spins, part = n + g, sorted({int(site) for site in sites})
    if not part or len(part) >= spins or part[0] < 0 or part[-1] >= spins:
        raise ValueError(f"one part of {spins} sites must hold 1 to {spins - 1} of them, found {part}")
    rest = [site for site in range(spins) if site not in part]
    small = part if len(part) <= len(rest) else rest
    # spins of the rank in the small part: their values number the blocks
    number = [site - n for site in small if site >= n]
    with device.use(), large_matrices(1 << len(small)):
        density = _density(device, links, psi, [site for site in small if site < n], number)
        values = np.linalg.eigvalsh(total_complex(links, density))
        return normalised(np.asarray(values, np.float64))


def _density(
    device: Device, links: Links, psi: Amplitudes, inside: list[int], number: list[int]
) -> NDArray[np.complex128]:
    """Return what this process adds to the density matrix of the spins `inside` and the bits `number` of the rank."""
    xp, n = device.xp, int(psi.shape[0]).bit_length() - 1
    outer = [site for site in range(n) if site not in inside]
    columns = outer[: max(0, PIECE_BITS - len(inside))]
    rows, index = deposit(xp, inside), deposit(xp, columns)
    size, blocks = 1 << len(inside), 1 << len(number)
    own = sum((links.rank >> bit & 1) << k for k, bit in enumerate(number))
    density = np.zeros((blocks, size, blocks, size), np.complex128)
    sums: dict[int, Any] = {k: xp.zeros((size, size), np.complex128) for k in range(blocks)}
    for start in (scatter(k, outer[len(columns) :]) for k in range(1 << (len(outer) - len(columns)))):
        matrix = xp.ascontiguousarray(psi[rows[:, None] | (index[None, :] | start)]).astype(np.complex128)
        for step in range(blocks):
            # process with other values of these spins, and the same of all others
            partner = links.rank ^ sum((step >> k & 1) << bit for k, bit in enumerate(number))
            other = matrix
            if step:
                other = xp.empty_like(matrix)
                links.swap(partner, matrix, other)
            sums[own ^ step] += matrix @ other.conj().T
    for k, block in sums.items():
        density[own, :, k, :] = device.to_host(block)
    return density.reshape(blocks * size, blocks * size)


def total_complex(links: Links, values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return the sum of complex arrays over the processes, the same bits on all of them."""
    flat = np.ascontiguousarray(values).reshape(-1).view(np.float64)
    return total(links, flat).view(np.complex128).reshape(values.shape)
